"""Random kernels: a seed is a program. Most writes are injective; a few write one place from two waves or lanes."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import sympy

from .program import Branch, K, L, Loop, Program, Shared, Touch, W

TARGETS = (("gfx942", 64), ("gfx942", 64), ("gfx1201", 32), ("gfx1250", 32))


@dataclass(frozen=True)
class _Scope:
    """Where a statement stands: the loops around it, and who carries it out."""

    counters: tuple[Any, ...] = ()
    one_wave: bool = False
    one_lane: bool = False
    branched: bool = False


class _Draw:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"wave twin {seed}")
        self.target, self.lanes = self.rng.choice(TARGETS)
        count = self.rng.choice((1, 2, 2, 3, 4, 4))
        layouts = [(count, 1, 1), (count, 1, 1), (1, count, 1)] + ([(2, 2, 1)] if count == 4 else [])
        self.waves = self.rng.choice(layouts)
        self.count = count
        self.turn = self.rng.choice((0, 0, 0, 2, 3))
        shape = self.shape()
        number = self.rng.choice((1, 1, 2, 2, 3))
        if self.turn:
            self.buffers = [shape] * self.turn
        else:
            self.buffers = [shape, *(self.shape() for _ in range(number - 1))]
            if number > 1 and self.chance(0.2):
                self.buffers = self.views(self.buffers)
        self.left = self.rng.choice((2, 3, 4, 4, 5, 6))
        self.odd = self.rng.random() < 0.08  # this program has writes that nothing can order

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def shape(self) -> Shared:
        slots = self.rng.choice((1, 1, 1, 2, 3))
        wide = self.rng.choice((1, 1, 2))
        pad = self.rng.choice((0, 0, 0, 2))
        return Shared(slots * self.count, wide * self.lanes + pad, self.rng.choice((32, 32, 16, 8)))

    def views(self, buffers: list[Shared]) -> list[Shared]:
        """Buffers that lie in one heap: behind each other, or over each other."""
        out: list[Shared] = []
        end = 0
        for b in buffers:
            at = end if not out or self.chance(0.4) else self.rng.randrange(end // 16 + 1) * 16
            out.append(replace(b, offset=at))
            end = max(end, -(-(at + b.size) // 16) * 16)
        return out

    # Rows and columns ------------------------------------------------------------------------------

    def around(self, what: Any, modulus: int, scope: _Scope) -> Any:
        """A permutation of 0 .. modulus-1."""
        steps: list[Any] = [1, 1, modulus // 2, self.rng.randrange(modulus), *scope.counters]
        pick = self.rng.random()
        if pick < 0.45:
            return what
        if pick < 0.88:
            return sympy.Mod(what + self.rng.choice(steps), modulus)
        return modulus - 1 - what

    def row(self, shared: Shared, writes: bool, scope: _Scope) -> Any:
        slots = shared.rows // self.count
        slot: Any = self.rng.randrange(slots)
        if slots > 1 and scope.counters and self.chance(0.7):
            slot = sympy.Mod(self.rng.choice(scope.counters) + self.rng.randrange(slots), slots)
        loose = scope.one_wave or (self.chance(0.3) if not writes else self.odd and self.chance(0.5))
        if not loose:
            return slot * self.count + self.around(W, self.count, scope)
        options: list[Any] = [sympy.Integer(self.rng.randrange(shared.rows)), sympy.floor(W / 2)]
        if scope.counters:
            options.append(sympy.Mod(self.rng.choice(scope.counters), shared.rows))
        return self.rng.choice(options)

    def col(self, shared: Shared, writes: bool, scope: _Scope, width: int) -> Any:
        spare = shared.cols - width * self.lanes
        loose = scope.one_lane or (self.chance(0.2) if not writes else self.odd and self.chance(0.4))
        if loose:
            places = shared.cols - width
            options: list[Any] = [sympy.Integer(self.rng.randrange(places + 1)), sympy.floor(L / 2) * width]
            if places >= self.lanes:
                options += [L, L + 1] if places > self.lanes else [L]
            return self.rng.choice(options)
        offset = self.rng.choice((0, 0, spare, self.rng.randrange(spare + 1))) if spare else 0
        return width * self.around(L, self.lanes, scope) + offset

    def flat(self, shared: Shared, scope: _Scope) -> tuple[Any, Any]:
        """The workgroup's threads in one line over the whole buffer, shifted; or waves interleaved."""
        total = shared.rows * shared.cols
        line = W * self.lanes + L if self.chance(0.7) else L * self.count + W
        steps: list[Any] = [0, 1, self.lanes, self.lanes // 2, self.rng.randrange(total), *scope.counters]
        place = sympy.Mod(line + self.rng.choice(steps), total)
        return sympy.floor(place / shared.cols), sympy.Mod(place, shared.cols)

    def touch(self, scope: _Scope, writes: bool | None = None) -> Touch:
        buffer = self.rng.randrange(len(self.buffers))
        shared = self.buffers[buffer]
        if writes is None:
            writes = self.chance(0.48)
        if self.chance(0.12):
            row, col = self.flat(shared, scope)
            return Touch(writes, buffer, row, col)
        width = self.rng.choice([w for w in (1, 1, 1, 2, 4) if w * self.lanes <= shared.cols])
        row, col = self.row(shared, writes, scope), self.col(shared, writes, scope, width)
        mapped = width == 1 and self.chance(0.2)
        bound = None
        if not mapped and self.chance(0.06):
            bound = self.rng.choice((self.lanes // 2, self.lanes, self.lanes - 1))
        return Touch(writes, buffer, sympy.sympify(row), sympy.sympify(col), width, mapped, bound)

    # Statements ------------------------------------------------------------------------------------

    def branch(self, scope: _Scope) -> Branch:
        kinds: list[tuple[Any, bool, bool]] = [
            (sympy.Eq(W, self.rng.randrange(self.count)), True, False),
            (sympy.Lt(W, max(1, self.count // 2)), self.count <= 2, False),
            (sympy.Lt(L, self.lanes // 2), False, False),
            (sympy.Eq(L, self.rng.randrange(self.lanes)), False, True),
        ]
        if scope.counters:
            kinds += [(sympy.Eq(sympy.Mod(scope.counters[-1], 2), self.rng.randrange(2)), False, False)] * 2
        condition, one_wave, one_lane = self.rng.choice(kinds)
        inner = _Scope(scope.counters, one_wave or scope.one_wave, one_lane or scope.one_lane, True)
        return Branch(condition, self.block(inner, self.rng.choice((1, 1, 2))))

    def block(self, scope: _Scope, size: int) -> tuple[Any, ...]:
        body: list[Any] = []
        for _ in range(size):
            if self.left <= 0 and body:
                break
            if not scope.branched and self.chance(0.12):
                body.append(self.branch(scope))
            elif len(scope.counters) == 1 and not scope.branched and self.chance(0.08):
                body.append(self.loop(scope))
            else:
                self.left -= 1
                body.append(self.touch(scope))
        return tuple(body)

    def loop(self, scope: _Scope) -> Loop:
        inner = bool(scope.counters)
        trips = self.rng.choice((1, 2, 2)) if inner else self.rng.choice((0, 1, 2, 3, 3, 4, 4))
        below = _Scope((*scope.counters, K[len(scope.counters)]), scope.one_wave, scope.one_lane, scope.branched)
        turn = 0 if inner else self.turn
        return Loop(trips, self.block(below, self.rng.choice((1, 2, 3, 4))), 0, turn)

    def program(self) -> Program:
        body: list[Any] = []
        if self.chance(0.7):
            body += self.block(_Scope(), self.rng.choice((0, 0, 1, 2)))
            body.append(self.loop(_Scope()))
            body += self.block(_Scope(), self.rng.choice((0, 1, 2)))
        while self.left > 0:
            body += self.block(_Scope(), 1)
        return Program(self.target, self.lanes, self.waves, tuple(self.buffers), tuple(body), self.chance(0.25))


def program(seed: int) -> Program:
    """The kernel of a seed, without synchronization."""
    return _Draw(seed).program()
