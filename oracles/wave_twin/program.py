"""Kernels as data: what the generator draws and the builder turns into a Wave trace.

Expressions are sympy, in `W` (wave number), `L` (lane number) and `K[depth]` (loop counters).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy

W = sympy.Symbol("W", integer=True, nonnegative=True)
L = sympy.Symbol("L", integer=True, nonnegative=True)
K = tuple(sympy.Symbol(f"K{depth}", integer=True, nonnegative=True) for depth in range(3))


@dataclass(frozen=True)
class Shared:
    """A buffer of rows and columns of elements of `bits` bits; with an offset, a view of the one heap there."""

    rows: int
    cols: int
    bits: int = 32
    offset: int | None = None

    @property
    def size(self) -> int:
        return self.rows * self.cols * self.bits // 8


@dataclass(frozen=True)
class Touch:
    """A read or write of `count` elements at (row, col) by each thread. `buffer` counts buffers in scope.

    `mapped` says the place by an IndexMapping instead of the index; `bound` masks columns from there on.
    """

    writes: bool
    buffer: int
    row: Any
    col: Any
    count: int = 1
    mapped: bool = False
    bound: int | None = None


@dataclass(frozen=True)
class Loop:
    """`turn` buffers, from `buffer` on, go round with each iteration: 0 or 1 for none."""

    trips: int
    body: tuple[Any, ...]
    buffer: int = 0
    turn: int = 0


@dataclass(frozen=True)
class Branch:
    condition: Any
    body: tuple[Any, ...]


@dataclass(frozen=True)
class Gate:
    """A synchronizing operation: full, bare, signal, wait or drain."""

    kind: str


Statement = Touch | Loop | Branch | Gate


@dataclass(frozen=True)
class Program:
    target: str
    lanes: int
    waves: tuple[int, int, int]
    buffers: tuple[Shared, ...]
    body: tuple[Any, ...]
    one_line: bool = False  # all accesses say that they come from one line of source

    @property
    def wave_count(self) -> int:
        return self.waves[0] * self.waves[1] * self.waves[2]

    @property
    def heap(self) -> int:
        """Bytes that the views share: 0 if there are none."""
        return max((b.offset + b.size for b in self.buffers if b.offset is not None), default=0)


def show(program: Program) -> str:
    """The program on a few lines, for a report."""
    lines = [f"{program.target} {program.lanes} lanes, waves {program.waves}{', one line' if program.one_line else ''}"]
    for i, b in enumerate(program.buffers):
        at = "" if b.offset is None else f" at byte {b.offset}"
        lines.append(f"b{i}: {b.rows} x {b.cols} of {b.bits} bits{at}")

    def put(body: tuple[Any, ...], depth: int) -> None:
        pad = "  " * depth
        for s in body:
            if isinstance(s, Touch):
                extra = (" mapped" if s.mapped else "") + (f" below {s.bound}" if s.bound is not None else "")
                kind = "write" if s.writes else "read"
                lines.append(f"{pad}{kind} b{s.buffer}[{s.row}, {s.col}] x{s.count}{extra}")
            elif isinstance(s, Loop):
                turn = f", b{s.buffer}..b{s.buffer + s.turn - 1} go round" if s.turn > 1 else ""
                lines.append(f"{pad}for {s.trips} trips{turn}:")
                put(s.body, depth + 1)
            elif isinstance(s, Branch):
                lines.append(f"{pad}if {s.condition}:")
                put(s.body, depth + 1)
            else:
                lines.append(f"{pad}{s.kind}")

    put(program.body, 0)
    return "\n".join(lines)
