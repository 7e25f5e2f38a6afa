"""Barriers that stand in a program and that no hazard needs.

Needs   hazards, and walks past what stands in the program
Gives   the points of whole barriers that can go; signals and waits stay
Keeps   pinned ones stay; what is left serves every hazard that it served before, the dearest gone first
Cost    a search for each barrier and each hazard that it may serve
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.graph import model as g
from tidegate.hazards.model import Hazard
from tidegate.language.ops import SharedMemoryBarrier, WorkgroupBarrier
from tidegate.placement.walks import NOTHING, Before, Walk, Walks


def find_redundant(walks: Walks, hazards: Sequence[Hazard], before: Before = NOTHING) -> frozenset[int]:
    """Points whose barriers can be deleted, given what is put `before` nodes. `walks` is left as it was."""
    at = ((each, walks.served_at(each, before, drained=True)) for each in hazards)
    served = {each: found for each, found in at if not isinstance(found, Walk)}
    kept = dict(walks.own)
    removed: list[int] = []
    weight = {each: walks.flow.graph.points[each].weight for each in _candidates(walks)}
    for point in sorted(weight, key=lambda each: (-weight[each], _drains(walks, each), each)):
        nodes = walks.nodes[point]
        gone = {node: walks.own.pop(node) for node in nodes if node in walks.own}
        # Of several barriers that a hazard demands, only the last is where it becomes served.
        affected = [hazard for hazard, found in served.items() if hazard.demand > 1 or found & set(nodes)]
        after = {hazard: walks.served_at(hazard, before, drained=True) for hazard in affected}
        if not any(isinstance(found, Walk) for found in after.values()):
            removed.append(point)
            served.update({hazard: found for hazard, found in after.items() if not isinstance(found, Walk)})
        else:
            walks.own.update(gone)
    walks.own = kept
    return frozenset(removed)


def _drains(walks: Walks, point: int) -> bool:
    """Whether a barrier does more than meet: of two that will do, that one stays."""
    action = walks.flow.graph.points[point].action
    return isinstance(action, g.Sync) and isinstance(action.op, SharedMemoryBarrier)


def _candidates(walks: Walks) -> list[int]:
    """Points with a whole barrier that all waves come to and nobody has pinned."""
    found = []
    for number, point in enumerate(walks.flow.graph.points):
        match point.action:
            case g.Sync(WorkgroupBarrier(pinned=False) | SharedMemoryBarrier(pinned=False)):
                if point.under == "uniform" and any(node in walks.own for node in walks.nodes.get(number, ())):
                    found.append(number)
            case _:
                pass
    return found
