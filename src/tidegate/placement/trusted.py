"""Hazards whose walks all pass a barrier object: somebody has ordered them by hand, or meant to.

Needs   hazards
Gives   those of which every walk from producer to consumer waits at a named barrier or an mbarrier
Keeps   says nothing about whether the object does order them: that is for a judge
Cost    a search for each hazard
"""

from __future__ import annotations

from tidegate.graph import model as g
from tidegate.hazards.find import Hazards
from tidegate.hazards.model import Hazard
from tidegate.language.ops import MbarrierWait, Value, Wait
from tidegate.placement.events import MEET
from tidegate.placement.walks import Walks
from tidegate.targets import Target


def by_objects(found: Hazards, target: Target) -> set[Hazard]:
    flow = found.flow
    walks = Walks(flow, target)
    walks.uniform = [True] * len(flow.origin)
    walks.own = {
        node: MEET * max((each.demand for each in found.hazards), default=1)
        for node in range(len(flow.origin))
        if _waits_at_object(flow.action(node))
    }
    if not walks.own:
        return set()
    return {each for each in found.hazards if walks.is_served(each, drained=True)}


def _waits_at_object(action: g.Action) -> bool:
    match action:
        case g.Sync(MbarrierWait()):
            return True
        case g.Sync(Wait(barrier=barrier)):
            return isinstance(barrier, Value)
    return False
