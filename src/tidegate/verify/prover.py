"""Many plans for one graph, each proved or not.

Needs   a graph and its target
Gives   for a plan, the program that it makes, with gaps where other plans insert something, and whether it is proved
Keeps   the verdict is that of the program which `apply_to_graph` gives. A gap does nothing; before the head of a loop
        there is one only for plans that insert there, since it takes the place of the head
Cost    the first proof; for every further plan, what its edits can change
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.graph import model as g
from tidegate.graph.apply import apply_to_graph, numbers_after
from tidegate.graph.plan import Change, Delete, Insert, Move, Plan, Reorder, check_plan
from tidegate.language.ops import SyncOp, WorkgroupBarrier
from tidegate.targets import Target
from tidegate.verify.ground import Ground
from tidegate.verify.verify import find_wrong, is_ordered


@dataclass(frozen=True, slots=True)
class Tried:
    """A program with a plan carried out, and what earlier proofs of it have left; None: nothing."""

    graph: g.SyncGraph
    ground: Ground | None


@dataclass(frozen=True, slots=True)
class _Padded:
    """A graph with gaps: `room` says how many before which point, `first` and `own` where these and points lie now."""

    graph: g.SyncGraph
    ground: Ground
    room: Counter[int]
    numbers: tuple[tuple[int, int], ...]


class Prover:
    """Plans for one graph. `ground`: what proofs of the graph as it is have left, for plans that insert nothing."""

    def __init__(self, graph: g.SyncGraph, target: Target, ground: Ground | None = None) -> None:
        self.graph, self.target = graph, target
        self.heads = frozenset(loop.head for loop in graph.loops)
        self.padded: dict[frozenset[int], _Padded] = {}  # by the heads of loops that have a gap before them
        self.wanted: Counter[int] = Counter()
        self.known: dict[Plan, bool] = {}
        if ground is not None:
            numbers = tuple((point, point) for point in range(len(graph.points)))
            self.padded[frozenset()] = _Padded(graph, ground, Counter(), numbers)

    def make_room(self, inserts: Mapping[int, Sequence[SyncOp]]) -> None:
        """For what a plan is going to insert, so that what proofs of the plans before it leave is there for it."""
        self.wanted |= Counter({place: len(ops) for place, ops in inserts.items() if place not in self.heads})

    def is_ordered(self, plan: Plan) -> bool:
        if plan not in self.known:
            tried = self.program(plan)
            self.known[plan] = is_ordered(tried.graph, self.target, tried.ground)
        return self.known[plan]

    def find_wrong(self, plan: Plan) -> tuple[g.Point, ...] | None:
        """Two points that nothing orders, none where nothing is decided; None if all is proved."""
        tried = self.program(plan)
        found = find_wrong(tried.graph, self.target, tried.ground)
        return None if found is None else tuple(tried.graph.points[each] for each in found if each >= 0)

    def program(self, plan: Plan) -> Tried:
        check_plan(plan, self.graph)
        inserts: dict[int, list[SyncOp]] = {}
        instead: dict[int, SyncOp | None] = {}
        for edit in plan.edits:
            match edit:
                case Insert(before, op) if isinstance(op, SyncOp):
                    inserts.setdefault(before, []).append(op)
                case Delete(point) if point not in self.heads:
                    instead[point] = None
                case Change(point, op):
                    instead[point] = op
                case Move(point, before) if point not in self.heads:
                    instead[point] = None
                    inserts.setdefault(before, []).append(_op_at(self.graph, point))
                case Insert() | Delete() | Move() | Reorder():
                    return Tried(apply_to_graph(plan, self.graph), None)
        return self.edited(instead, inserts)

    def edited(self, instead: Mapping[int, SyncOp | None], inserts: Mapping[int, Sequence[SyncOp]]) -> Tried:
        """The program with other operations at points, None for nothing, and more before points."""
        padded = self.with_room(Counter({place: len(ops) for place, ops in inserts.items()}))
        points = list(padded.graph.points)
        for place, ops in inserts.items():
            for number, op in enumerate(ops, padded.numbers[place][0]):
                points[number] = replace(points[number], action=g.Sync(op))
        issued = False  # by what is gone now: the waits behind it count less
        for point, other in instead.items():
            own = padded.numbers[point][1]
            if other is None:
                issued |= bool(points[own].issues)
                points[own] = replace(points[own], action=g.Compute(), issues=())
            else:
                points[own] = replace(points[own], action=g.Sync(other))
        return Tried(replace(padded.graph, points=tuple(points)), None if issued else padded.ground)

    def with_room(self, room: Counter[int]) -> _Padded:
        """The graph with gaps for so many operations, and for those of earlier plans."""
        heads = self.heads.intersection(room)
        known = self.padded.get(heads)
        if known is not None and room <= known.room:
            return known
        room |= self.wanted
        room = room if known is None else room | known.room
        gaps = Plan(tuple(Insert(place, WorkgroupBarrier()) for place in sorted(room) for _ in range(room[place])))
        numbers = numbers_after(gaps, self.graph)
        points = list(apply_to_graph(gaps, self.graph).points)
        for first, own in numbers:
            points[first:own] = (replace(each, action=g.Compute()) for each in points[first:own])
        graph = replace(apply_to_graph(gaps, self.graph), points=tuple(points))
        self.padded[heads] = found = _Padded(graph, Ground(graph, self.target), room, numbers)
        return found


def _op_at(graph: g.SyncGraph, point: int) -> SyncOp:
    action = graph.points[point].action
    assert isinstance(action, g.Sync)
    assert isinstance(action.op, SyncOp)
    return action.op
