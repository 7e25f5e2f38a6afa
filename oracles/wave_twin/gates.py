"""Barriers put into a program by chance: everywhere, with some left out, weakened, split or moved."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from .program import Branch, Gate, L, Loop, Program, W


def uniform(branch: Branch) -> bool:
    """All threads agree."""
    return not branch.condition.free_symbols & {W, L}


class _Gates:
    def __init__(self, rng: random.Random, split: bool) -> None:
        self.rng = rng
        self.split = split
        self.drop = rng.choice((0.0, 0.0, 0.0, 0.1, 0.2, 0.4, 0.7))
        self.weak = rng.choice((0.0, 0.0, 0.0, 0.3))
        self.wild = rng.random() < 0.04

    def full(self) -> list[Any]:
        """A barrier, or what is left of it."""
        if self.rng.random() < self.drop:
            return []
        if self.rng.random() < self.weak:
            return self.rng.choice(([Gate("bare")], [Gate("drain"), Gate("bare")], [Gate("drain")]))
        return [Gate("full")]

    def body(self, body: tuple[Any, ...], gates: bool, loop: bool) -> tuple[Any, ...]:
        out: list[Any] = []
        open_pair = False
        for at, s in enumerate(body):
            if gates and at + loop > 0:
                if open_pair:
                    if self.rng.random() < 0.6 or isinstance(s, (Loop, Branch)):
                        out.append(Gate("wait"))
                        open_pair = False
                elif self.split and self.rng.random() < 0.35 and not isinstance(s, (Loop, Branch)):
                    if self.rng.random() >= self.drop:
                        out.append(Gate("signal"))
                        open_pair = True
                else:
                    out += self.full()
            if isinstance(s, Loop):
                s = replace(s, body=self.body(s.body, gates, True))
            elif isinstance(s, Branch):
                s = replace(s, body=self.body(s.body, gates and (self.wild or uniform(s)), False))
            out.append(s)
        if open_pair and not (self.wild and self.rng.random() < 0.3):
            out.append(Gate("wait"))
        return tuple(out)


def gated(program: Program, seed: int) -> Program:
    """The program with barriers of chance."""
    rng = random.Random(f"wave gates {seed}")
    gates = _Gates(rng, program.target.startswith("gfx12"))
    return replace(program, body=gates.body(program.body, True, False))


def dense(program: Program) -> Program:
    """The program with a barrier at every place where one may stand: what this leaves wrong, no placement mends."""

    def filled(body: tuple[Any, ...]) -> tuple[Any, ...]:
        out: list[Any] = [Gate("full")]
        for s in body:
            inside = isinstance(s, Loop) or (isinstance(s, Branch) and uniform(s))
            out += [replace(s, body=filled(s.body)) if inside else s, Gate("full")]
        return tuple(out)

    return replace(program, body=filled(program.body))
