"""What counts as a barrier, and what barriers weigh: every count that is printed is made here.

Needs   a graph, or a plan for one
Gives   a `Tally`: how many barriers, how many of them in loops, and their weight
Keeps   a barrier is a place where the waves of a group meet: a whole barrier, or a split pair, which counts once, at
        its signal. Waits, fences, mbarriers and conditional barriers do not count: no group meets there. A barrier
        weighs as much as it is executed: the weight of its point, in each copy of its function
Cost    linear in the points

    signal; for 16 { wait; ...; signal }; wait      2 barriers, 1 in a loop, weight 17
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidegate.graph import model as g
from tidegate.graph.flow import flow_of
from tidegate.graph.plan import Insert, Plan
from tidegate.language.ops import SharedMemoryBarrier, Signal, WorkgroupBarrier

# A signal stands for itself and its wait.
MEETING = (WorkgroupBarrier, SharedMemoryBarrier, Signal)


@dataclass(frozen=True, slots=True)
class Tally:
    barriers: int
    in_loops: int
    weight: float

    def __str__(self) -> str:
        """`2 barriers, weight 17`."""
        return f"{self.barriers} barrier{'s' * (self.barriers != 1)}, weight {self.weight:g}"


def is_barrier(action: g.Action) -> bool:
    return isinstance(action, g.Sync) and isinstance(action.op, MEETING)


def weights_of(graph: g.SyncGraph) -> Mapping[int, float]:
    """How often each point is executed, in all copies of its function."""
    if not any(isinstance(point.action, g.Call) for point in graph.points):
        return {number: point.weight for number, point in enumerate(graph.points)}
    flow = flow_of(graph)
    found = dict.fromkeys(range(len(graph.points)), 0.0)
    for node, point in enumerate(flow.origin):
        found[point] += flow.weight(node)
    return found


def tally(graph: g.SyncGraph, points: Iterable[int] | None = None) -> Tally:
    """The barriers of a program, or of some of its points."""
    among = range(len(graph.points)) if points is None else points
    return _tally(graph, [each for each in among if is_barrier(graph.points[each].action)])


def tally_inserted(plan: Plan, graph: g.SyncGraph) -> Tally:
    """The barriers that a plan inserts."""
    return _tally(graph, [edit.before for edit in plan.edits if isinstance(edit, Insert) and inserts_barrier(edit)])


def inserts_barrier(edit: Insert) -> bool:
    return isinstance(edit.op, MEETING)


def _tally(graph: g.SyncGraph, places: list[int]) -> Tally:
    weights = weights_of(graph) if places else {}
    weight = sum(weights[each] for each in places)
    if graph.maps:  # final instructions stand at a point for each state of the program
        places = list({graph.points[each].at: each for each in places}.values())
    in_loops = sum(graph.points[each].loop >= 0 for each in places)
    return Tally(len(places), in_loops, weight)
