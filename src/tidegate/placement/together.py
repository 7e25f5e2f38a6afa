"""Barriers that leave waits where they belong: not before the first barrier that needs them.

Needs   hazards, walks, the points before which a barrier may stand
Gives   other barriers than the fewest: those that copies need are chosen first, the rest is added
Keeps   every hazard is served; of the barriers that were added none could be left out
Cost    that of `anywhere`

The fewest barriers may ask for an earlier wait: one barrier at the top of a loop serves both the read of a tile and the
next copy into its slot, but then the wait for the tile stands before the copies of the iteration are issued.

    fewest                          late
      wait vmcnt(0)                   barrier            # WAR: the slot is read
      barrier       # RAW, WAR        copy  %a[k + 1]
      copy  %a[k + 1]                 wait vmcnt(1)
      read  %a[k]                     barrier            # RAW: the tile has landed
                                      read  %a[k]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from tidegate.graph import model as g
from tidegate.hazards.model import Hazard
from tidegate.placement.anywhere import Chosen, Slots, serve
from tidegate.placement.walks import Walks

# How far waits may be moved for the sake of a barrier: as far as that takes; not past what copies need among
# themselves; not at all.
WAITS = ("merged", "late", "latest")
# What can go on in front of a wait without it: all of it only starts something, or belongs to the reads.
LIGHT = ("other", "local_read")


def place_late(
    walks: Walks,
    hazards: Sequence[Hazard],
    slots: Slots,
    waits: str,
    fewest: Callable[[Sequence[Hazard]], Chosen],
) -> Chosen:
    """Barriers for copies first. `fewest` chooses for any hazards."""
    copies = [each for each in hazards if each.performed.is_async and not each.performed.is_waited_for]
    if not copies:
        return fewest(hazards)
    first = fewest(copies) if waits == "late" else _latest(walks, copies, slots)
    chosen = Counter(first)
    serve(walks, hazards, slots, chosen)
    added = chosen - first
    _drop(walks, hazards, slots, first, added)
    return first + added


def _latest(walks: Walks, copies: Sequence[Hazard], slots: Slots) -> Chosen:
    """One before each run of reads that a copy is for."""
    chosen: Chosen = Counter()
    for hazard in sorted(copies, key=lambda each: (each.consumer, each.producer)):
        before = slots.before(chosen)
        if walks.is_served(hazard, before, drained=True) and _stands_before(walks, hazard, chosen):
            continue
        point = start_of_run(walks, hazard)
        if point in slots.weight:
            chosen[point] = 1
    serve(walks, copies, slots, chosen)
    return chosen


def _stands_before(walks: Walks, hazard: Hazard, chosen: Chosen) -> bool:
    return chosen[start_of_run(walks, hazard)] > 0


def start_of_run(walks: Walks, hazard: Hazard) -> int:
    """The first of the light points in front of a consumer: a wait there is not earlier than before the consumer."""
    flow = walks.flow
    node = hazard.consumer
    while len(flow.before[node]) == 1:
        (before,) = flow.before[node]
        if flow.successors[before] != (node,) or before == hazard.producer or not _is_light(flow.point(before)):
            break
        node = before
    return flow.origin[node]


def _is_light(point: g.Point) -> bool:
    """Whether a point takes no time to speak of, and does not order anything."""
    return point.role in LIGHT and not isinstance(point.action, g.Sync) and point.insertable


def _drop(walks: Walks, hazards: Sequence[Hazard], slots: Slots, first: Chosen, added: Chosen) -> None:
    """Takes away what was added and is not needed beside the rest."""
    for point in sorted(added, key=lambda each: (-slots.weight[each], each)):
        while added[point]:
            added[point] -= 1
            before = slots.before(first + added)
            if not all(walks.is_served(each, before, drained=True) for each in hazards):
                added[point] += 1
                break
