"""Takes back what the verifier proves to be needless.

Needs   a plan that the verifier proves, and the prover of its graph
Gives   a plan with fewer edits, or weaker ones, that it proves as well
Keeps   every step is proved; a plan that is not proved stays as it is
Cost    a proof for each edit that is tried, up to `MOST_TRIALS`

Placement follows walks; the proof also knows which of them can be taken. A copy in front of a loop whose slot is read
behind it only after an odd number of trips needs no wait on the walk that goes round the loop no time at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tidegate.graph import model as g
from tidegate.graph.plan import Change, Edit, Insert, Plan
from tidegate.language.ops import Fence, SharedMemoryBarrier, Signal, Wait, WaitCount, WorkgroupBarrier
from tidegate.verify.prover import Prover

MOST_TRIALS = 24


def refine(plan: Plan, prover: Prover, *, bare: bool = False, changes: bool = True) -> Plan:
    """The plan without what the proof does without: waits first, then barriers, those that are met most first. `bare`:
    whether a barrier may come to drain nothing. `changes`: whether edits of what stands in the program may go, which
    is no gain where they loosen it."""
    graph = prover.graph
    bare = bare and prover.target.barrier.performs == "nothing"  # else it costs nothing to drain
    tried = [each for each in _in_order(plan, graph) if changes or isinstance(plan.edits[each[0]], Insert)]
    if not tried or not prover.is_ordered(plan):
        return plan
    trials = 1
    for numbers in tried:
        if any(plan.edits[each] is _NOTHING for each in numbers):  # the signal or the wait of a pair that is gone
            continue
        for less in _weaker(plan.edits[numbers[0]], bare):
            if trials >= MOST_TRIALS:
                return _without_gaps(plan)
            trials += 1
            edits = dict.fromkeys(numbers, _NOTHING if less is None else less)
            trial = Plan(tuple(edits.get(number, each) for number, each in enumerate(plan.edits)))
            if prover.is_ordered(_without_gaps(trial)):
                plan = trial
                break
    return _without_gaps(plan)


_NOTHING = Insert(-1, WorkgroupBarrier())  # keeps the place of an edit that is gone


def _without_gaps(plan: Plan) -> Plan:
    return Plan(tuple(each for each in plan.edits if each is not _NOTHING))


def _in_order(plan: Plan, graph: g.SyncGraph) -> list[tuple[int, ...]]:
    """The numbers of edits that go together: of a single one, or of a signal and its wait."""
    tried: list[tuple[int, ...]] = [(number,) for number, edit in enumerate(plan.edits) if _is_tried(edit)]
    tried += _pairs(plan)
    return sorted(tried, key=lambda each: (not _waits(plan.edits[each[0]]), -_weight(plan.edits[each[0]], graph), each))


def _pairs(plan: Plan) -> Iterator[tuple[int, int]]:
    """Each signal that is inserted, with the wait for the same barrier that is as many waits from the first."""
    by_barrier: dict[object, tuple[list[int], list[int]]] = {}
    for number, edit in enumerate(plan.edits):
        if isinstance(edit, Insert) and isinstance(edit.op, Signal | Wait):
            by_barrier.setdefault(edit.op.barrier, ([], []))[isinstance(edit.op, Wait)].append(number)
    for signals, waits in by_barrier.values():
        yield from zip(signals, waits, strict=False)


def _is_tried(edit: Edit) -> bool:
    kinds = (SharedMemoryBarrier, WorkgroupBarrier, WaitCount, Fence)
    return (isinstance(edit, Insert) and isinstance(edit.op, kinds)) or (isinstance(edit, Change) and _waits(edit))


def _waits(edit: Edit) -> bool:
    """Whether an edit asks for a wait for copies."""
    op = edit.op if isinstance(edit, Insert | Change) else None
    return isinstance(op, WaitCount | Fence) or (
        isinstance(op, SharedMemoryBarrier) and bool(op.counts or op.wait_async_ops or op.async_deps)
    )


def _weight(edit: Edit, graph: g.SyncGraph) -> float:
    point = edit.before if isinstance(edit, Insert) else edit.point if isinstance(edit, Change) else 0
    return graph.points[point].weight


def _weaker(edit: Edit, bare: bool) -> Iterator[Edit | None]:
    """Less than an edit, the least first."""
    yield None
    if isinstance(edit, Insert) and isinstance(edit.op, WaitCount) and len(edit.op.counts) > 1:
        for count in edit.op.counts:
            yield replace(edit, op=replace(edit.op, counts=tuple(each for each in edit.op.counts if each != count)))
    if bare and isinstance(edit, Insert) and isinstance(edit.op, SharedMemoryBarrier):
        yield replace(edit, op=WorkgroupBarrier())
    if isinstance(edit, Insert) and isinstance(edit.op, SharedMemoryBarrier) and _waits(edit):
        yield replace(edit, op=SharedMemoryBarrier())
