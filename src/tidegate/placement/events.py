"""Synchronization as a walk meets it: drains, arrivals, departures, fences.

Needs   operations that stand in a program or are about to be put there
Gives   for each the events that decide whether a hazard is served
Keeps   only what holds for every wave is an event: named barriers, mbarriers and conditional barriers are none
Cost    constant for each operation
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate.language import ops


@dataclass(frozen=True, slots=True)
class Drain:
    """Performs accesses of the own wave: ordinary ones, all copies, counters down to a count, single copies."""

    ordinary: bool = False
    copies: bool = False
    counts: tuple[tuple[str, int], ...] = ()
    tokens: tuple[str, ...] = ()


Barrier = int | str  # the workgroup's, or the name of one that is put in


@dataclass(frozen=True, slots=True)
class Arrive:
    barrier: Barrier


@dataclass(frozen=True, slots=True)
class Depart:
    barrier: Barrier


@dataclass(frozen=True, slots=True)
class ProxyFence:
    """Performs ordinary accesses; the other proxy may follow."""


@dataclass(frozen=True, slots=True)
class LaneFence:
    """The lanes of the own wave meet."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Closes a group of copies."""


Event = Drain | Arrive | Depart | ProxyFence | LaneFence | Commit
MEET = (Arrive(-1), Depart(-1))


def events_of(op: object) -> tuple[Event, ...]:
    """What an operation does to those who walk past it."""
    match op:
        case ops.WorkgroupBarrier():
            return MEET
        case ops.SharedMemoryBarrier(counts, wait_async_ops, deps):
            return (Drain(True, wait_async_ops, counts, _named(counts, deps)), *MEET)
        case ops.Signal(int(barrier)):
            return (Arrive(barrier),)
        case ops.Wait(int(barrier)):
            return (Depart(barrier),)
        case ops.WaitCount(counts, deps):
            return (Drain(counts=counts, tokens=_named(counts, deps)),)
        case ops.Fence("proxy_async"):
            return (ProxyFence(),)
        case ops.Fence():
            return (LaneFence(),)
        case ops.CommitGroup():
            return (Commit(),)
    return ()


def _named(counts: Sequence[ops.Count], deps: Sequence[ops.Value]) -> tuple[str, ...]:
    """Copies that are waited for by name: none where counts say what is waited for."""
    return () if counts else tuple(each.name for each in deps)


def all_events(found: Iterable[object]) -> tuple[Event, ...]:
    return tuple(event for op in found for event in events_of(op))
