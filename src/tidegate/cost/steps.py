"""What waves do, as far as time is concerned: a closed union of steps.

Needs   nothing
Gives   `Step`, `Program` (the steps of one wave, and where it runs), `Machine`
Keeps   a step names the steps of its own wave whose values it needs by their positions; cycles may be fractions

A value is a tile and comes in parts: `Do.streams` says that a step begins with the first parts of what it needs and
ends after the last, as a matrix product does; any other step waits for the whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# What a wave can be busy with or held up by. `alu` also stands for indices and branches.
Unit = Literal["alu", "lds", "global", "mma"]
# Why a wave does not go on: for a value that a unit has not made yet or for the matrix unit itself; for a counter; for
# other waves; or because another wave of its SIMD issues.
Stall = Literal["alu", "lds", "global", "mma", "wait", "barrier", "issue"]
STALLS: tuple[Stall, ...] = ("barrier", "wait", "lds", "global", "mma", "alu", "issue")


@dataclass(frozen=True, slots=True)
class Meeting:
    """A barrier. `arrivals` of 0 means: one of every wave of the workgroup that has not ended."""

    name: str
    arrivals: int = 0
    slot: int | None = None


@dataclass(frozen=True, slots=True)
class Do:
    """Instructions of one operation: they take the SIMD to be issued, then a unit, and end some time later."""

    where: int
    unit: Unit
    issue: float
    busy: float
    latency: float
    parts: int = 1  # instructions: the first part of the value is there after the first of them
    needs: tuple[int, ...] = ()
    streams: bool = False
    counts: tuple[tuple[str, int], ...] = ()  # counter, and how many it puts there
    is_copy: bool = False
    reports: Meeting | None = None  # the mbarrier that is told, and of how many bytes
    bytes: int = 0
    spread: float = 0  # the latency of each line is between `latency` and so many cycles more
    fills: float = 0  # cycles for which it takes the pipe of LDS when it lands, as a copy does
    lines: int = 1  # how many lines the operation is made of: it has ended when the last of them is there


@dataclass(frozen=True, slots=True)
class Wait:
    """Until at most so many are in flight on counters, until these steps are done, or all LDS accesses or copies."""

    where: int
    counts: tuple[tuple[str, int], ...] = ()
    steps: tuple[int, ...] = ()
    lds: bool = False
    copies: bool = False


@dataclass(frozen=True, slots=True)
class Commit:
    """Closes a group of copies on counters that count groups."""

    where: int
    counters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prefer:
    """The wave's priority from here on: of waves that want their SIMD at the same time the highest has its turn."""

    where: int
    level: int


@dataclass(frozen=True, slots=True)
class Arrive:
    where: int
    at: Meeting
    expect: int = 0


@dataclass(frozen=True, slots=True)
class Depart:
    where: int
    at: Meeting


@dataclass(frozen=True, slots=True)
class Await:
    """Until the phase of an mbarrier with this parity is complete."""

    where: int
    at: Meeting
    parity: int


Step = Do | Wait | Commit | Prefer | Arrive | Depart | Await


@dataclass(frozen=True, slots=True)
class Program:
    """One wave: its workgroup, the SIMD that runs it, and what it does."""

    group: int
    simd: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Machine:
    """What waves share beside units: how long an arrival takes a SIMD, how long a barrier takes to let waves go, and
    what units that are busy lose by it.
    """

    barrier_issue: float
    barrier_latency: float
    group_counters: tuple[str, ...] = ()
    barrier_loss: float = 0.0
