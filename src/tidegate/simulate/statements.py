"""What findings say about the points of a graph, and what kind of point each is.

Needs   a well-formed graph
Gives   for each point its place, its text and the memory that it touches
Cost    linear in the points
"""

from __future__ import annotations

from tidegate.graph import model as g
from tidegate.graph.show import show_action
from tidegate.language import ops
from tidegate.simulate.findings import Statement


def is_early_end(point: g.Point) -> bool:
    return isinstance(point.action, g.End) and point.label == "exit"


def ends_behind_branches(graph: g.SyncGraph) -> frozenset[int]:
    """Ends to which a branch leads at once."""
    branches = (point for point in graph.points if isinstance(point.action, g.Branch | g.Dispatch))
    found = (each for point in branches for each in point.successors)
    return frozenset(each for each in found if isinstance(graph.points[each].action, g.End))


def meets_all(point: g.Point) -> bool:
    """Whether waves meet at the workgroup's barrier here."""
    match point.action:
        case g.Sync(ops.WorkgroupBarrier() | ops.SharedMemoryBarrier() | ops.ConditionalBarrier()):
            return True
        case g.Sync(ops.Signal(barrier=barrier)):
            return isinstance(barrier, int)
    return False


def crosses_proxies(graph: g.SyncGraph) -> bool:
    """Whether anything goes through the other proxy: else nothing needs to be remembered until a fence."""
    return any(isinstance(each.action, g.Access) and each.action.proxy != "generic" for each in graph.points)


def statements_of(graph: g.SyncGraph) -> tuple[Statement, ...]:
    """Where each point comes from. Its text is its label, or what it does."""
    buffers = {each.name: each for each in graph.buffers}
    found = []
    for number, point in enumerate(graph.points):
        memory = point.action.footprint.place.base if isinstance(point.action, g.Access) else ""
        lies = (each.offset or 0, each.slot_bytes, each.slots) if (each := buffers.get(memory)) else ()
        if isinstance(point.action, g.Sync):
            text = show_action(point.action).removeprefix("sync ")
        else:
            text = point.label or show_action(point.action)
        found.append(Statement(point.at, text if point.at.line else f"{number}: {text}", memory, *lies))
    return tuple(found)
