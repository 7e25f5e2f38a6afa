"""The least weight of barriers by brute force, with the verifier as the only judge.

Needs   a kernel of `oracles.programs.least_cases`
Gives   `Search(case).least()`: the least weight for which the verifier proves the kernel, and where the barriers stand
        `weaker(plan)`: every plan that asks for a little less than a given one
Keeps   knows nothing of hazards, windows, walks or counts. Relies on one fact: a barrier that drains everything, at a
        place that all waves reach, never hurts. So what is proved stays proved with more of them
Cost    at most two to the number of places proofs, in practice about a dozen

Weight is barriers alone: waits and fences cost nothing. With `free` a full wait and a fence stand at every place, and
no plan of whole barriers at these places weighs less than the answer. Without `free` barriers do all the work.

A point's weight in the graph is an estimate: an arm counts as taken half of the time, whatever its condition says.
`executions` runs the control flow instead, so that a difference of estimates can be told from one of barriers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from oracles.programs.least_cases import Case
from tidegate.graph import model as g
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.plan import Change, Insert, Plan
from tidegate.index import INDEX_TYPES, evaluate, holds
from tidegate.language import ops
from tidegate.simulate.judge import judge
from tidegate.verify.verify import is_ordered

BARRIERS = (ops.WorkgroupBarrier, ops.SharedMemoryBarrier, ops.Signal)
DRAIN = ops.SharedMemoryBarrier(wait_async_ops=True)
SIZE, MOST_STEPS = 16, 20_000  # every size of a run that counts executions, and how long it may be


def weight_of(graph: g.SyncGraph) -> float:
    """How often the waves meet; a signal stands for itself and its wait."""
    return sum(
        point.weight
        for point in graph.points
        if isinstance(point.action, g.Sync) and isinstance(point.action.op, BARRIERS)
    )


def executions(graph: g.SyncGraph) -> list[float]:
    """How often one wave comes to each point, with all sizes 16, on average over the values of the flags."""
    flags = [value.name for value in graph.free]
    counts = [0.0] * len(graph.points)
    for choice in product((0, 1), repeat=len(flags)):
        env = {size.name: SIZE for size in graph.sizes} | dict(zip(flags, choice, strict=True)) | {"wave": 0}
        number = graph.programs[0].entry
        for _ in range(MOST_STEPS):
            point = graph.points[number]
            counts[number] += 1 / 2 ** len(flags)
            if not point.successors:
                break
            match point.action:
                case g.Branch(cond) if cond is not None:
                    number = point.successors[not holds(cond, env)]
                    continue
                case g.Assign(pairs):
                    env |= {name: evaluate(value, env) for name, value in pairs if isinstance(value, INDEX_TYPES)}
            number = point.successors[0]
    return counts


def executed(graph: g.SyncGraph) -> float:
    """How often the waves really meet, as `executions` counts."""
    counts = executions(graph)
    return sum(
        counts[number]
        for number, point in enumerate(graph.points)
        if isinstance(point.action, g.Sync) and isinstance(point.action.op, BARRIERS)
    )


@dataclass(frozen=True, slots=True)
class Least:
    weight: float
    places: tuple[int, ...]


@dataclass(slots=True)
class Search:
    """Sets of places are numbers: bit n stands for the n-th place of the case."""

    case: Case
    free: bool = True
    weights: Sequence[float] = ()  # of each point; those of the graph where none are given
    proved: list[int] = field(default_factory=list)
    unproved: list[int] = field(default_factory=list)
    proofs: int = 0

    def least(self) -> Least | None:
        """None if barriers at all places are not enough."""
        everywhere = (1 << len(self.case.places)) - 1
        if not self.holds(everywhere):
            return None
        for chosen in self.by_weight():
            if any(not chosen & ~known for known in self.unproved):
                continue
            if self.holds(chosen):
                return Least(self.weight(chosen), self.places(chosen))
            self.grow(chosen)
        raise AssertionError("the largest set was proved")

    def by_weight(self) -> list[int]:
        sets = range(1 << len(self.case.places))
        return sorted(sets, key=lambda chosen: (self.weight(chosen), chosen.bit_count(), chosen))

    def grow(self, chosen: int) -> None:
        """Adds places while the set stays unproved, heavy ones first: all subsets of it are unproved as well."""
        for number in sorted(range(len(self.case.places)), key=lambda each: -self.weight(1 << each)):
            if not self.holds(chosen | 1 << number):
                chosen |= 1 << number
        self.unproved = [known for known in self.unproved if known & ~chosen] + [chosen]

    def holds(self, chosen: int) -> bool:
        if any(not known & ~chosen for known in self.proved):
            return True
        if any(not chosen & ~known for known in self.unproved):
            return False
        self.proofs += 1
        found = is_ordered(self.graph(chosen), self.case.target)
        (self.proved if found else self.unproved).append(chosen)
        return found

    def graph(self, chosen: int) -> g.SyncGraph:
        inserts: list[Insert] = []
        around = self.guards() if self.free else ()
        for number, place in enumerate(self.case.places):
            inserts += (Insert(place, op) for op in around)
            if chosen >> number & 1:
                inserts.append(Insert(place, DRAIN))
                inserts += (Insert(place, op) for op in around if isinstance(op, ops.Fence))
        return apply_to_graph(Plan(tuple(inserts)), self.case.graph)

    def guards(self) -> tuple[ops.SyncOp, ...]:
        """A wait for everything in flight, and every fence that the target has."""
        points = self.case.graph.points
        counters = {issue.counter for point in points if isinstance(point.action, g.Access) for issue in point.issues}
        waits = (ops.WaitCount(tuple((name, 0) for name in sorted(counters))),) if counters else ()
        return (*waits, *(ops.Fence(kind) for kind in self.case.target.fence.kinds))

    def weight(self, chosen: int) -> float:
        return sum(
            self.weights[each] if self.weights else self.case.graph.points[each].weight for each in self.places(chosen)
        )

    def places(self, chosen: int) -> tuple[int, ...]:
        return tuple(place for number, place in enumerate(self.case.places) if chosen >> number & 1)

    def unsure(self, most: int) -> int:
        """Of the largest sets that are not proved, how many the simulator finds nothing in."""
        sets = sorted(self.unproved, key=lambda chosen: (-chosen.bit_count(), chosen))[:most]
        return sum(not judge(self.graph(chosen), self.case.target).findings for chosen in sets)


# --- what a plan could do without ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Weaker:
    """A plan that asks for less. `kind`: removed (a barrier), wait removed, count (raised by one), drain (weakened)."""

    kind: str
    edits: tuple[int, ...]
    plan: Plan
    what: str


def weaker(plan: Plan) -> Iterator[Weaker]:
    """Each barrier and wait that a plan puts in taken away, or made a little weaker."""
    signals = [number for number, edit in enumerate(plan.edits) if _op(edit, ops.Signal)]
    waits = [number for number, edit in enumerate(plan.edits) if _op(edit, ops.Wait)]
    for signal in signals:
        for wait in waits:
            yield Weaker("removed", (signal, wait), _without(plan, signal, wait), "signal and wait")
    for number, edit in enumerate(plan.edits):
        if not isinstance(edit, Insert | Change) or number in signals or number in waits:
            continue
        op = edit.op
        if isinstance(edit, Insert) and isinstance(op, ops.SyncOp):
            kind = "removed" if isinstance(op, BARRIERS) else "wait removed"
            yield Weaker(kind, (number,), _without(plan, number), _name(op))
        for less, kind in _less(op):
            yield Weaker(kind, (number,), _with(plan, number, less), f"{_name(op)} → {_name(less)}")


def _less(op: object) -> Iterator[tuple[ops.SyncOp, str]]:
    if isinstance(op, ops.SharedMemoryBarrier | ops.WaitCount):
        for place, (counter, count) in enumerate(op.counts):
            raised = (*op.counts[:place], (counter, count + 1), *op.counts[place + 1 :])
            yield replace(op, counts=raised), "count"
            if len(op.counts) > 1 or isinstance(op, ops.SharedMemoryBarrier):
                yield replace(op, counts=op.counts[:place] + op.counts[place + 1 :]), "drain"
    if isinstance(op, ops.SharedMemoryBarrier):
        if op.wait_async_ops:
            yield replace(op, wait_async_ops=False), "drain"
        yield ops.WorkgroupBarrier(), "drain"


def _op(edit: object, kind: type) -> bool:
    return isinstance(edit, Insert) and isinstance(edit.op, kind)


def _name(op: object) -> str:
    counts = "".join(f" {name}({count})" for name, count in getattr(op, "counts", ()))
    return f"{type(op).__name__}{counts}{' wait_async_ops' * bool(getattr(op, 'wait_async_ops', False))}"


def _without(plan: Plan, *numbers: int) -> Plan:
    return Plan(tuple(edit for number, edit in enumerate(plan.edits) if number not in numbers))


def _with(plan: Plan, number: int, op: ops.SyncOp) -> Plan:
    edit = plan.edits[number]
    assert isinstance(edit, Insert | Change)
    return Plan((*plan.edits[:number], replace(edit, op=op), *plan.edits[number + 1 :]))
