"""Barriers that stand in a program and that no hazard needs.

Needs   hazards, and walks past what stands in the program
Gives   the points of barriers, or of signals and waits, that can go
Keeps   pinned ones stay; what is left serves every hazard that it served before, the dearest gone first
Cost    a search for each barrier and each hazard that it may serve
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.graph import model as g
from tidegate.hazards.model import Hazard
from tidegate.language.ops import SharedMemoryBarrier, WorkgroupBarrier
from tidegate.placement.walks import Walks


def find_redundant(walks: Walks, hazards: Sequence[Hazard]) -> frozenset[int]:
    """Points whose barriers can be deleted. `walks` is left as it was."""
    served = {each: found for each in hazards if (found := walks.served_at(each, drained=True)) is not None}
    kept = dict(walks.own)
    removed: list[int] = []
    for point in sorted(_candidates(walks), key=lambda each: (-walks.flow.graph.points[each].weight, each)):
        nodes = walks.nodes[point]
        gone = {node: walks.own.pop(node) for node in nodes}
        affected = [hazard for hazard, found in served.items() if found & set(nodes)]
        after = {hazard: walks.served_at(hazard, drained=True) for hazard in affected}
        if all(found is not None for found in after.values()):
            removed.append(point)
            served.update({hazard: found for hazard, found in after.items() if found is not None})
        else:
            walks.own.update(gone)
    walks.own = kept
    return frozenset(removed)


def _candidates(walks: Walks) -> list[int]:
    """Points with a whole barrier that all waves come to and nobody has pinned."""
    found = []
    for number, point in enumerate(walks.flow.graph.points):
        match point.action:
            case g.Sync(WorkgroupBarrier(pinned=False) | SharedMemoryBarrier(pinned=False)):
                if point.under == "uniform" and number in walks.nodes:
                    found.append(number)
            case _:
                pass
    return found
