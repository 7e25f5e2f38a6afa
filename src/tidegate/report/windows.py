"""Where a barrier would serve a hazard, whatever stands there now: its window.

Needs   a flow and its hazards
Gives   for each hazard the points before which as many barriers as it demands are enough
Keeps   asked of the same walks that placement asks, with all synchronization of the program set aside; a hazard within
        one wave, which asks for a wait, and one that no walk leads through have no window
Cost    a search for each hazard and each place; beyond `MOST_SEARCHES` of them windows are left out
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.hazards.find import Hazards
from tidegate.hazards.model import Hazard
from tidegate.placement.place import find_slots
from tidegate.placement.walks import Walks
from tidegate.targets import Target

MOST_SEARCHES = 20_000


def find_windows(found: Hazards, hazards: Sequence[Hazard], target: Target) -> list[tuple[int, ...]] | None:
    """The window of each hazard, as points; None if there are too many to ask about."""
    slots = find_slots(found.flow, whatever_stands=True)
    if len(hazards) * len(slots.weight) > MOST_SEARCHES:
        return None
    walks = Walks(found.flow, target, found.stagger)
    walks.own = {}
    return [
        tuple(
            point
            for point in sorted(slots.weight)
            if walks.is_served(hazard, slots.before({point: hazard.demand}), drained=True)
        )
        if hazard.demand and not walks.is_served(hazard, drained=True)
        else ()
        for hazard in hazards
    ]
