"""What a wave does, as the machine sees it: a closed union of steps.

Needs   a wave of a graph (`unroll`) or of a kernel (`hostile`) that says what it does next
Gives   steps with everything decided: bytes, counters, barriers
Keeps   a step names the statement that it comes from by number; the machine knows no graph and no kernel

A statement such as `shared_memory_barrier` is several steps: a drain, an arrival, a departure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tidegate.simulate.barriers import Barrier
from tidegate.simulate.program_order import START, Key
from tidegate.simulate.regions import Region

Effect = Literal["read", "write", "atomic"]
# How an arrival came about, for what is said if waves arrive unequally.
Manner = Literal["whole", "half", "signal", "mbarrier"]


@dataclass(frozen=True, slots=True)
class Queue:
    """A counter on which an operation counts, and how many instructions of it are certain to be issued there."""

    counter: str
    least: int
    in_order: bool = True
    in_groups: bool = False  # it counts with its group, when that is closed

    @property
    def is_doubtful(self) -> bool:
        """Whether it may be that nothing is issued."""
        return self.least == 0 and not self.in_groups


@dataclass(slots=True, eq=False)
class Touch:
    """One access of one wave. Without a region it counts on its queues and meets no other.

    Nobody changes one; it is not frozen because runs make hundreds of thousands, and a frozen one takes four times as
    long to make.
    """

    where: int
    effect: Effect
    region: Region | None
    queues: tuple[Queue, ...] = ()
    is_async: bool = False
    may: bool = False  # only some of these bytes, by a mask or an index that nobody knows
    proxy: str = "generic"
    operator: str = ""
    fetches: bool = False
    reports: Barrier | None = None
    size: int = 0
    can_wait: bool = True  # whether a wait of its wave can be for it
    key: Key = START
    loops: tuple[tuple[str, int], ...] = ()  # counters of the loops around it, for messages
    as_one: bool = False  # no two waves conflict in one execution of it
    more: tuple[Region, ...] = ()  # in other spaces, where nobody knows in which of several buffers it lies
    element: str = ""  # of an atomic
    grid: int | None = None  # where its elements begin, modulo their size; None: not all alike, or not known
    lanes: str = ""  # which lane touches which byte, counted from `first`; empty: nobody knows
    first: int | None = None  # the byte at which it starts; None: nobody knows

    @property
    def regions(self) -> tuple[Region, ...]:
        return (self.region, *self.more) if self.region is not None else ()


@dataclass(frozen=True, slots=True)
class Issue:
    touch: Touch


@dataclass(frozen=True, slots=True)
class Commit:
    """Closes a group on these counters, as far as they count groups."""

    where: int
    key: Key
    counters: frozenset[str]


@dataclass(frozen=True, slots=True)
class Drain:
    """Waits for accesses of its own wave: ordinary ones, counters down to a count, copies by their number or all."""

    where: int
    ordinary: bool = False
    every_copy: bool = False
    counts: tuple[tuple[str, int], ...] = ()
    copies: frozenset[int] = frozenset()
    key: Key = START
    named: frozenset[int] = frozenset()  # copies that counts are said to be for
    all_lanes: bool = True  # in a divergent region some of them do not come


@dataclass(frozen=True, slots=True)
class ProxyFence:
    """The other proxy may follow."""

    where: int
    key: Key = START


@dataclass(frozen=True, slots=True)
class LaneFence:
    """The lanes of the wave meet. `all_lanes`: in a divergent region some of them do not come."""

    where: int
    key: Key = START
    all_lanes: bool = True


@dataclass(frozen=True, slots=True)
class Arrive:
    where: int
    barrier: Barrier
    expect: int = 0
    manner: Manner = "whole"
    key: Key = START
    loops: tuple[tuple[str, int], ...] = field(default=(), compare=False)  # as of a `Touch`


@dataclass(frozen=True, slots=True)
class Depart:
    where: int
    barrier: Barrier
    key: Key = START
    loops: tuple[tuple[str, int], ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Await:
    where: int
    barrier: Barrier
    parity: int
    key: Key = START
    loops: tuple[tuple[str, int], ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class End:
    where: int
    key: Key = START


Step = Issue | Commit | Drain | ProxyFence | LaneFence | Arrive | Depart | Await | End
