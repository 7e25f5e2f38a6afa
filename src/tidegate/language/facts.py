"""How values vary: the same for all waves, per wave, or per lane; and which indices are inexact.

Needs   a kernel whose names are defined
Gives   `Facts`: for every name how it varies, and the indices that come from memory or from `inexact`
Keeps   never says "uniform" of something that may differ: a name depends on all that may reach it, conditions included
Cost    linear: dependences are collected once, then followed
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from tidegate.index import INDEX_TYPES, LANE, WAVE, Cond, Index, Name, children, evaluate, holds, is_inexact, names
from tidegate.language.ops import (
    Block,
    Conditional,
    GlobalWrite,
    Iterate,
    Kernel,
    LdsToGlobal,
    Let,
    Op,
    Operand,
    ReadIndex,
    SelectView,
    Specialize,
    Value,
    View,
    blocks_of,
    walk_ops,
)
from tidegate.language.types import INDEX, Tile

MOST_WAVES = 64  # that are tried one by one; a workgroup of 1,024 threads has 32 at most


class Variation(IntEnum):
    """Who agrees on a value."""

    UNIFORM = 0
    PER_WAVE = 1
    DIVERGENT = 2


@dataclass(frozen=True, slots=True)
class Facts:
    variation: dict[str, Variation]
    inexact: frozenset[str]
    lets: dict[str, Index]
    waves: int

    def of(self, expr: Index | Cond) -> Variation:
        """How an expression varies: as its most varying name."""
        used = varying_names(expr, self.waves)
        return max((self.variation.get(name, Variation.UNIFORM) for name in used), default=Variation.UNIFORM)

    def is_inexact(self, expr: Index | Cond) -> bool:
        return is_inexact(expr) or any(name in self.inexact for name in names(expr))


def find_facts(kernel: Kernel) -> Facts:
    """One walk collects which name depends on which; then what varies and what is inexact spreads."""
    collector = _Collector({}, set(), {}, [], _written_arrays(kernel), kernel.waves)
    collector.block(kernel.body)
    users: dict[str, list[str]] = {}
    for name, sources in collector.depends.items():
        for source in sources:
            users.setdefault(source, []).append(name)
    variation = {LANE: Variation.DIVERGENT, WAVE: Variation.PER_WAVE}
    variation.update(dict.fromkeys((*collector.tiles, *collector.racy), Variation.PER_WAVE))
    for level in (Variation.DIVERGENT, Variation.PER_WAVE):
        for name in _reach([each for each, found in variation.items() if found == level], users):
            variation[name] = max(level, variation.get(name, level))
    return Facts(variation, frozenset(_reach(collector.inexact, users)), collector.lets, kernel.waves)


def varying_names(expr: Index | Cond, waves: int) -> Iterator[str]:
    """The names in an expression, without `wave` where all waves find one value: of 4 waves, `wave // 4` is 0."""
    used = set(names(expr))
    if WAVE not in used:
        yield from used
    elif used != {WAVE} or not _is_one(expr, waves):
        if isinstance(expr, Name):
            yield expr.name
        for part in children(expr):
            yield from varying_names(part, waves)


def _is_one(expr: Index | Cond, waves: int) -> bool:
    """Whether an expression over the wave alone has one value. Too many waves to try (test_damage) may have several."""
    if waves > MOST_WAVES:
        return False
    try:
        if isinstance(expr, INDEX_TYPES):
            first = evaluate(expr, {WAVE: 0})
            return all(evaluate(expr, {WAVE: wave}) == first for wave in range(waves))
        return len({holds(expr, {WAVE: wave}) for wave in range(waves)}) == 1
    except ZeroDivisionError:
        return False


def _written_arrays(kernel: Kernel) -> set[str]:
    found = set()
    for op in walk_ops(kernel.body):
        if isinstance(op, GlobalWrite):
            found.add(op.place.base.name)
        elif isinstance(op, LdsToGlobal):
            found.add(op.dest.base.name)
    return found


def _reach(start: Iterable[str], users: dict[str, list[str]]) -> set[str]:
    found = set(start)
    stack = list(found)
    while stack:
        for user in users.get(stack.pop(), ()):
            if user not in found:
                found.add(user)
                stack.append(user)
    return found


@dataclass(slots=True)
class _Collector:
    depends: dict[str, set[str]]
    inexact: set[str]
    lets: dict[str, Index]
    tiles: list[str]
    written: set[str]  # global arrays that the kernel itself writes
    waves: int
    racy: list[str] = field(default_factory=list)  # numbers read from them: two waves may see two values

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.op(op)

    def op(self, op: Op) -> None:
        match op:
            case Let():
                self.add(op.result, [op.value])
                self.lets[op.result.name] = op.value
            case ReadIndex():
                self.add(op.result, [op.place.slot, *op.place.index])
                self.inexact.add(op.result.name)
                if op.place.base.name in self.written:
                    self.racy.append(op.result.name)
            case View():
                self.add(op.result, [op.place.base, op.place.slot, *op.place.index])
            case SelectView():
                self.add(op.result, [op.then, op.otherwise], self.names(op.cond))
            case Iterate():
                self.loop(op)
            case Conditional():
                for position, result in enumerate(op.results):
                    arms = [block.yields[position] for block in (op.then, op.otherwise) if position < len(block.yields)]
                    self.add(result, arms, self.names(op.cond))
            case Specialize():
                pass
            case _:
                made: Value | None = getattr(op, "result", None)
                if made is not None and isinstance(made.type, Tile):
                    self.tiles.append(made.name)
        for inner in blocks_of(op):
            self.block(inner)

    def loop(self, op: Iterate) -> None:
        bounds = [name for each in (op.lower, op.upper, op.step) for name in self.names(each)]
        self.add(op.counter, [op.lower, op.step])
        for position, each in enumerate(op.carried):
            sources: list[Operand] = [each.init]
            if position < len(op.body.yields):
                sources.append(op.body.yields[position])
            self.add(each.value, sources)
        for result, each in zip(op.results, op.carried, strict=False):
            self.add(result, [each.value, each.init], bounds)

    def names(self, expr: Index | Cond) -> Iterator[str]:
        return varying_names(expr, self.waves)

    def add(self, value: Value, sources: Iterable[Operand], more: Iterable[str] = ()) -> None:
        found = self.depends.setdefault(value.name, set())
        found.update(more)
        for source in sources:
            if isinstance(source, INDEX_TYPES):
                found.update(self.names(source))
                if is_inexact(source) and value.type == INDEX:
                    self.inexact.add(value.name)
            else:
                found.add(source.name)
