"""What a wave asks of its scheduler: a closed union of events.

A wave runs until it has something to ask, yields one event, and goes on when it is resumed. Who performs an access and
when is the scheduler's decision: a read is answered with its tile, or with a `Pending` one that the read brings later;
everything else is answered with None. `Depart` and `AwaitPhase` hold the wave until the barrier lets it go. Arithmetic
makes no events.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Literal

from tidegate.language.ops import CommitGroup, CopyOp, Count, MemoryOp, Op
from tidegate.language.ops import Fence as FenceOp
from tidegate.simulate.barriers import Barrier
from tidegate.simulate.memory import Cells
from tidegate.simulate.tiles import Array
from tidegate.simulate.values import Pending

Kind = Literal["read", "write", "atomic"]


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """An ordinary access. `tile` is what a write or an atomic brings; a read or an atomic is answered with a tile."""

    op: MemoryOp
    kind: Kind
    cells: Cells
    tile: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """An asynchronous copy, by its number in the wave. `size` is what it reports to an mbarrier when it is done."""

    op: CopyOp
    number: int
    source: Cells
    dest: Cells
    reports: Barrier | None
    size: int


@dataclass(frozen=True, slots=True)
class Commit:
    """Closes a group of the copies issued since the last one."""

    op: CommitGroup
    copies: frozenset[int]


@dataclass(frozen=True, slots=True)
class Drain:
    """Waits for the wave's own accesses: `lds` for ordinary LDS accesses, `every_copy` for all copies."""

    op: Op
    counts: tuple[Count, ...]
    copies: frozenset[int]
    lds: bool = False
    every_copy: bool = False
    named: frozenset[int] = frozenset()  # copies that counts are said to be for
    all_lanes: bool = True  # no lane is switched off where it stands


@dataclass(frozen=True, slots=True)
class FenceEvent:
    """`all_lanes`: no lane is switched off where it stands."""

    op: FenceOp
    all_lanes: bool = True


@dataclass(frozen=True, slots=True)
class Arrive:
    """One arrival; `expect` adds bytes that copies must report before the phase completes."""

    op: Op
    barrier: Barrier
    expect: int = 0


@dataclass(frozen=True, slots=True)
class Depart:
    """Goes on when the rendezvous or phase is complete that the wave arrived for, or the next one if it did not."""

    op: Op
    barrier: Barrier


@dataclass(frozen=True, slots=True)
class AwaitPhase:
    """Goes on when the phase with this parity is complete."""

    op: Op
    barrier: Barrier
    parity: int


Answer = Array | Pending | None
Event = Access | Copy | Commit | Drain | FenceEvent | Arrive | Depart | AwaitPhase
Blocking = Depart | AwaitPhase
Asking = Generator[Event, Answer, None]
