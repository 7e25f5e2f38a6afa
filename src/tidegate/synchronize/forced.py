"""Barriers wherever they can stand, whether needed or not: to tell a missing barrier from another mistake.

Needs   a flow and its target
Gives   a plan
Keeps   a barrier that drains everything stands before each access that all waves come to, before and after each stretch
        where waves part, and at the end of each loop; no hazard is asked for
Cost    linear in the points
"""

from __future__ import annotations

from tidegate.graph import model as g
from tidegate.graph.flow import Flow
from tidegate.graph.plan import Insert, Plan
from tidegate.language.ops import Fence, SharedMemoryBarrier, SyncOp
from tidegate.placement.place import find_slots
from tidegate.targets import Target


def force(flow: Flow, target: Target) -> Plan:
    """If the program is still wrong with these, no barrier is missing."""
    graph = flow.graph
    allowed = find_slots(flow).weight
    wanted: dict[int, None] = {}
    for number, point in enumerate(graph.points):
        if isinstance(point.action, g.Access | g.Unknown | g.Call):
            wanted[number] = None
        if point.under == "uniform" and any(graph.points[each].under != "uniform" for each in point.successors):
            wanted[number] = None
        if point.under != "uniform" or isinstance(point.action, g.Call):
            wanted.update(dict.fromkeys(_next_allowed(graph, point.successors, set(allowed))))
        if any(each <= number for each in point.successors):
            wanted[number] = None
    ops: list[SyncOp] = [SharedMemoryBarrier(wait_async_ops=True)]
    if target.fence.proxy_needed and (not target.name or "proxy_async" in target.fence.kinds):
        ops.append(Fence("proxy_async"))
    return Plan(tuple(Insert(number, op, ("forced",)) for number in sorted(wanted) if number in allowed for op in ops))


def _next_allowed(graph: g.SyncGraph, successors: tuple[int, ...], allowed: set[int]) -> list[int]:
    """The first places after a point where a barrier may stand."""
    found, seen, stack = [], set(successors), list(successors)
    while stack:
        number = stack.pop()
        if number in allowed:
            found.append(number)
            continue
        if graph.points[number].under != "uniform":
            continue
        for each in graph.points[number].successors:
            if each not in seen:
                seen.add(each)
                stack.append(each)
    return found
