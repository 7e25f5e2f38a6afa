"""What has to be drained, and what drains it: as events that a walk meets, as operations of a program.

Needs   a target, and kinds of accesses or counters down to a count
Gives   `Need`; its events before an arrival; the operations that drain it without meeting anybody
Keeps   events say no more than the operations do
Cost    linear in the counters that are named
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tidegate.graph import model as g
from tidegate.language.ops import Fence as FenceOp
from tidegate.language.ops import SyncOp, WaitCount
from tidegate.placement.events import Drain, Event, ProxyFence
from tidegate.targets import Target

ORDINARY, COPIES, PROXY = "ordinary", "copies", "proxy"
UNCOUNTED = "uncounted"  # ordinary accesses that no counter knows of
LANES = "lanes"  # nothing is drained: the lanes of the wave meet


def least_counts(*known: Iterable[tuple[str, int]]) -> dict[str, int]:
    """The least count on each counter."""
    counts: dict[str, int] = {}
    for name, count in itertools.chain(*known):
        counts[name] = min(count, counts.get(name, count))
    return counts


@dataclass(slots=True)
class Need:
    """What is drained before an arrival: kinds of accesses, and counters down to a count."""

    words: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def all_counts(self) -> tuple[tuple[str, int], ...]:
        """In order; none where all copies are waited for anyway."""
        return () if COPIES in self.words else tuple(sorted(self.counts.items()))

    def holds(self, other: Need) -> bool:
        """Whether another asks for nothing more."""
        words = other.words <= self.words
        return words and all(self.counts.get(name, count + 1) <= count for name, count in other.counts.items())

    def add(self, other: Need) -> None:
        self.words |= other.words
        self.counts = least_counts(self.counts.items(), other.counts.items())


def drain_events(target: Target, need: Need, whole: bool) -> list[Event]:
    """What is drained before an arrival. Before a signal it is counters alone, unless something else is asked for."""
    found: list[Event] = []
    words, counts = need.words, need.all_counts
    if PROXY in words:
        found.append(ProxyFence())
    if ORDINARY in words and not whole and UNCOUNTED not in words and target.lds_counters:
        found.append(Drain(False, COPIES in words, (*((name, 0) for name in target.lds_counters), *counts)))
    elif words & {ORDINARY, COPIES} or counts:
        found.append(Drain(ORDINARY in words, COPIES in words, counts))
    return found


def copy_counters(graph: g.SyncGraph) -> tuple[str, ...]:
    """The counters on which copies of a program count."""
    copies = (each for each in graph.points if isinstance(each.action, g.Access) and each.action.is_async)
    return tuple(sorted({issue.counter for each in copies for issue in each.issues}))


def drain_ops(
    target: Target,
    what: set[str],
    counters: Sequence[str],
    in_groups: bool = True,
    counted: Sequence[tuple[str, int]] = (),
    within_a_wave: bool = False,
) -> tuple[SyncOp, ...] | None:
    """Operations that drain without meeting anybody; None if the target has none. `counters`: those of copies.

    `in_groups`: all copies are in groups; else a counter of groups drains nothing for certain. `counted`: what else is
    waited for. `within_a_wave`: nobody but the wave itself has to know.
    """
    found: list[SyncOp] = []
    counts: dict[str, int] = dict(counted)
    fences = LANES in what and not target.fence.waits
    if ORDINARY in what:
        counts.update(dict.fromkeys(target.lds_counters, 0))
    if COPIES in what:
        if not counters or any(name not in target.counters for name in counters):
            return None
        if not in_groups and any(target.counters[name].unit == "groups" for name in counters):
            return None
        counts.update(dict.fromkeys(counters, 0))
    if (ORDINARY in what and not target.lds_counters) or UNCOUNTED in what:
        # Nothing counts these accesses. Where `fence wave` performs them it does so for the lanes of the wave alone.
        if not within_a_wave or target.fence.wave_performs != "ordinary":
            return None
        fences = True
    if counts:
        found.append(WaitCount(tuple(sorted(counts.items()))))
    if fences or (LANES in what and not counts):
        if "wave" not in target.fence.kinds:
            return None
        found.append(FenceOp("wave"))
    if PROXY in what:
        found.append(FenceOp("proxy_async"))
    return tuple(found)
