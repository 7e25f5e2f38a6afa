"""Pairs that barriers of the workgroup order, whatever barrier objects do beside them.

Needs   a program that all waves run, and pairs that objects leave unordered
Gives   those pairs that nothing orders
Keeps   a pair is dropped only if it is ordered in the program without objects: that has every run of this one, and more
Cost    a proof of the program without objects

A barrier that all waves come to under a condition that nobody can compute is there or not for all of them: a search
back from an access knows on which side it is, an order of moments does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidegate.graph import model as g
from tidegate.graph.flow import Flow
from tidegate.language import ops
from tidegate.targets import Target
from tidegate.verify.events import WORKGROUP
from tidegate.verify.phase_model import LoosePair
from tidegate.verify.verify import verify


def still_loose(flow: Flow, target: Target, pairs: Iterable[LoosePair], reporting: frozenset[int]) -> list[LoosePair]:
    """`reporting`: copies of which only objects know."""
    pairs = list(pairs)
    if not any(each.x not in reporting and each.y not in reporting for each in pairs):
        return pairs
    found = verify(without_objects(flow.graph), target, memory=False)
    if found.undecided or found.cut_short:
        return pairs
    wrong = {frozenset((each.x, each.y)) for each in found.suspects}
    return [
        each
        for each in pairs
        if each.within_a_wave
        or not reporting.isdisjoint((each.x, each.y))
        or frozenset((flow.origin[each.x], flow.origin[each.y])) in wrong
    ]


def without_objects(graph: g.SyncGraph) -> g.SyncGraph:
    """The program without its barrier objects, and without the copies that report to them."""
    points = tuple(
        replace(point, action=g.Compute(), issues=()) if _is_about_objects(point.action) else point
        for point in graph.points
    )
    return replace(graph, points=points, objects=())


def _is_about_objects(action: g.Action) -> bool:
    match action:
        case g.Sync(ops.MbarrierArrive() | ops.MbarrierWait()):
            return True
        case g.Sync(ops.Signal(barrier=barrier) | ops.Wait(barrier=barrier)):
            return barrier != WORKGROUP
        case g.Access(mbarrier=told):
            return told is not None
    return False
