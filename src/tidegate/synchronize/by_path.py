"""Counts that differ by path: a copy that only some iterations issue must not make all of them wait for everything.

Needs   hazards of a graph in which copies stand in an arm of a uniform condition, and a way to place barriers
Gives   a plan with a wait at the end of each arm, each with a count of its own; None where that is of no use
Keeps   what is given is proved. Only arms without conditions and loops of their own, at whose ends something can be
        put; counters of instructions, and groups that are committed in an arm
Cost    one more placement, a proof for each plan that is tried, and one for each wait that could as well be one

Placed is as if the other arm issued as many instructions, so that barriers stand where the steady state wants them and
counts are those of iterations that copy. A wait behind the arms, in the same iteration or at the top of the next, is
then made one in each arm: what it counts where copies were issued, and nothing in flight where not. Conditions that
issue no copies may lie between, such as the guard of a read.

    conditional %k + 2 < N {                       conditional %k + 2 < N {
      gather %t[(%k + 2) mod 4]                      gather %t[(%k + 2) mod 4]
    }                                                wait_count vmcnt(2)
    wait_count vmcnt(0)                 becomes    } else {
    workgroup_barrier                                wait_count vmcnt(0)
    read %t[%k mod 4]                              }
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.graph import model as g
from tidegate.graph.flow import flow_of
from tidegate.graph.plan import Edit, Insert, Plan
from tidegate.hazards.find import Hazards
from tidegate.language.ops import CommitGroup, SharedMemoryBarrier, WaitCount
from tidegate.placement.need import copy_counters
from tidegate.placement.place import Placed
from tidegate.synchronize.loosen import Proofs, counted, waiting
from tidegate.targets import Target
from tidegate.verify.prover import Prover

BY_PATH = "counted by path"
COPIED = f"{BY_PATH}: on this path the copies are newer"
NOT_COPIED = f"{BY_PATH}: no copies on this path"
ON_ENTRY = f"{BY_PATH}: before the first iteration"


@dataclass(frozen=True, slots=True)
class Guarded:
    """A graph in which arms that copy less issue as much as the others; `ends` are those of such arms."""

    graph: g.SyncGraph
    ends: frozenset[int]


def as_if_copied(graph: g.SyncGraph, target: Target) -> Guarded | None:
    """None if no copy is guarded."""
    missing: dict[int, list[g.Issue]] = {}
    counters = [each for each in copy_counters(graph) if each in target.counters]
    before = g.predecessors(graph)
    for arms in _arms(graph, before):
        for name in counters:
            issued = {end: sum(_issued(graph.points[each], name) for each in arm) for end, arm in arms.items()}
            for end, count in issued.items():
                if count < max(issued.values()):
                    more = max(issued.values()) - count
                    missing.setdefault(end, []).append(g.Issue(name, more, more))
    if graph.functions:
        return None
    points = list(graph.points)
    for end, issues in list(missing.items()):
        issued_there = _issuing(points[end], issues, target)
        if issued_there is None:
            del missing[end]
        else:
            points[end] = issued_there
    if not missing:
        return None
    return Guarded(replace(graph, points=tuple(points)), frozenset(missing))


def _issuing(point: g.Point, issues: list[g.Issue], target: Target) -> g.Point | None:
    """The end of an arm as if it issued so much more. A group is closed by a commit and by nothing else, so that the
    end becomes one; it closes one group, which is no more than the other arm does. None if it cannot become one."""
    if not any(target.counters[each.counter].unit == "groups" for each in issues):
        return replace(point, issues=(*point.issues, *issues))
    if len(issues) > 1 or not isinstance(point.action, g.Compute):
        return None
    return replace(point, action=g.Sync(CommitGroup()), issues=(replace(issues[0], least=1, most=1),))


def place_by_path(
    found: Hazards, prover: Prover, guarded: Guarded, place: Callable[[Hazards], Placed]
) -> Placed | None:
    """What is placed as if all arms copied, with counts by path; None if it is not proved, or has none."""
    graph = found.flow.graph
    placed = place(replace(found, flow=flow_of(guarded.graph)))
    divided = _Divided(placed.plan, graph, guarded.ends)
    if not divided.places:
        return None
    proofs = Proofs(prover)
    apart = frozenset(divided.places)
    if not proofs.ask(divided.plan(apart)):
        return None
    for edit in divided.places:
        if proofs.ask(divided.plan(apart - {edit})):
            apart -= {edit}
    if not apart:
        return None
    return replace(placed, plan=divided.plan(apart), exact=frozenset())


class _Divided:
    """Edits of a plan that wait behind arms, and where they could wait instead."""

    def __init__(self, plan: Plan, graph: g.SyncGraph, ends: frozenset[int]) -> None:
        self.edits, self.ends = plan.edits, ends
        self.counters = frozenset(copy_counters(graph))
        self.entries = frozenset(_entries(graph))
        before = g.predecessors(graph)
        passed = {join: branch for join, branch in _idle(graph, before, self.counters) if ends.isdisjoint(before[join])}
        self.places: dict[int, tuple[int, ...]] = {}
        for number, edit in enumerate(plan.edits):
            if isinstance(edit, Insert) and counted(edit, self.counters):
                places = _places_before(graph, before, edit.before, passed)
                if ends.intersection(places):
                    self.places[number] = places

    def plan(self, apart: frozenset[int]) -> Plan:
        """With these edits made waits in arms."""
        found: list[Edit] = []
        for number, edit in enumerate(self.edits):
            found += self.divided(number, edit) if number in apart else (edit,)
        return Plan(tuple(found))

    def divided(self, number: int, edit: Edit) -> Iterator[Edit]:
        op = waiting(edit)
        assert op is not None
        assert isinstance(edit, Insert)
        names = counted(edit, self.counters)
        moved = {name: count for name, count in op.counts if name in names}
        for place in self.places[number]:
            why = NOT_COPIED if place in self.ends else ON_ENTRY if place in self.entries else COPIED
            counts = dict.fromkeys(moved, 0) if place in self.ends else moved
            yield Insert(place, WaitCount(tuple(sorted(counts.items()))), (why, *edit.serves))
        rest = replace(op, counts=tuple(each for each in op.counts if each[0] not in moved))
        if isinstance(rest, SharedMemoryBarrier) or rest.counts:
            yield replace(edit, op=rest)


# --- arms ---------------------------------------------------------------------------------------------------------


def _arms(graph: g.SyncGraph, before: Sequence[Sequence[int]]) -> Iterator[dict[int, list[int]]]:
    """Of each uniform condition with plain arms that meet: the end of each arm, and its points."""
    for number, point in enumerate(graph.points):
        if not isinstance(point.action, g.Branch) or point.under != "uniform" or len(point.successors) != 2:
            continue
        if point.loop >= 0 and graph.loops[point.loop].head == number:
            continue
        arms = {}
        joins = set()
        for first in point.successors:
            arm = _straight(graph, before, first)
            if arm and _is_end(graph.points[arm[-1]]):
                arms[arm[-1]] = arm
                joins.add(graph.points[arm[-1]].successors[0])
        if len(arms) == 2 and len(joins) == 1:
            yield arms


def _idle(graph: g.SyncGraph, before: Sequence[Sequence[int]], counters: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Of each condition whose arms are plain and issue no copies: where they meet, and where they part."""
    heads = {loop.head for loop in graph.loops}
    for number, point in enumerate(graph.points):
        if not isinstance(point.action, g.Branch) or len(point.successors) != 2 or number in heads:
            continue
        arms = [_straight(graph, before, first) for first in point.successors]
        joins = {graph.points[arm[-1]].successors[0] for arm in arms if arm}
        issued = any(_issued(graph.points[each], name) for name in counters for arm in arms for each in arm)
        if all(arms) and len(joins) == 1 and not issued:
            yield joins.pop(), number


def _straight(graph: g.SyncGraph, before: Sequence[Sequence[int]], first: int) -> list[int]:
    """Points from the first of an arm to its last; none if it has conditions or loops of its own."""
    found: list[int] = []
    here = first
    while len(before[here]) == 1:
        if len(graph.points[here].successors) != 1:
            return []
        found.append(here)
        here = graph.points[here].successors[0]
    return found


def _is_end(point: g.Point) -> bool:
    """Whether something can be put at the end of an arm: behind all that it issues, and for all waves."""
    return point.insertable and point.under == "uniform" and not point.issues and isinstance(point.action, _PLAIN)


_PLAIN = (g.Compute, g.Assign)


def _issued(point: g.Point, counter: str) -> int:
    return sum(issue.least for issue in point.issues if issue.counter == counter)


# --- where a wait may stand instead -------------------------------------------------------------------------------


def _entries(graph: g.SyncGraph) -> Iterator[int]:
    """Points from which loops are entered."""
    for number, point in enumerate(graph.points):
        for after in point.successors:
            loop = graph.points[after].loop
            if loop >= 0 and graph.loops[loop].head == after and not g.is_inside(graph, point.loop, loop):
                yield number


def _places_before(
    graph: g.SyncGraph, before: Sequence[Sequence[int]], point: int, passed: Mapping[int, int]
) -> tuple[int, ...]:
    """Places that every way to a point passes one of: ends of arms, and, at the top of a loop, its entry. `passed`:
    where arms meet that change no count, and where they part."""
    heads = {loop.head: number for number, loop in enumerate(graph.loops)}
    entries: list[int] = []
    while True:
        behind = before[point]
        if point in passed:
            point = passed[point]
            continue
        if point in heads:
            outside = [each for each in behind if not g.is_inside(graph, graph.points[each].loop, heads[point])]
            inside = [each for each in behind if each not in outside]
            if entries or len(outside) != 1 or len(inside) != 1 or not graph.points[outside[0]].insertable:
                return ()
            entries, point = outside, inside[0]
        elif len(behind) == 1:
            after, point = point, behind[0]
            if point in heads and not g.is_inside(graph, graph.points[after].loop, heads[point]):
                return ()  # it stands behind a loop
        else:
            ends = all(_is_end(graph.points[each]) and len(graph.points[each].successors) == 1 for each in behind)
            return (*entries, *behind) if behind and ends else ()
        if len(graph.points[point].successors) != 1 and point not in heads and point not in passed.values():
            return ()
