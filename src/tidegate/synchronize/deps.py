"""Dependences as values for a kernel that is synchronized, and counts made from them.

Needs   a kernel and its target
Gives   `with_deps`: the kernel in which each wait names the copies that it must see complete
        `with_counts`: the kernel in which each wait that names copies counts for them
Keeps   a wait names no copy that its counts do not wait for; old values that nobody uses are gone. Counts are the
        largest that wait for all that is named, as the check of counts sees it (`verify/stale.py`)
Cost    the check once for each wait, and two proofs
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidegate.graph import model as g
from tidegate.graph.apply import apply_plan, apply_to_graph
from tidegate.graph.build import build_graph
from tidegate.graph.flow import flow_of
from tidegate.graph.plan import Change, Plan
from tidegate.hazards.find import find_hazards
from tidegate.language.ops import Kernel
from tidegate.targets import Target
from tidegate.verify.prover import Prover
from tidegate.verify.stale import find_stale
from tidegate.waits.counts import Waiting, plan_counts, waiting_at
from tidegate.waits.needs import find_needs
from tidegate.waits.values import add_deps, drop_dead_deps


def with_deps(
    kernel: Kernel, target: Target, stagger: int = 0, atomics: str = "commute"
) -> tuple[Kernel, tuple[str, ...]]:
    """The kernel with values at its waits, and notes about what could not be one."""
    built = build_graph(kernel, target)
    needs = find_needs(find_hazards(flow_of(built.graph), target, atomics=atomics, stagger=stagger), target)
    named, left = add_deps(built, needs)
    notes = []
    if left:
        waits = f"{len(left)} wait{'s' * (len(left) != 1)}"
        notes.append(f"{waits} without values: waves diverge between the copies and this wait")
    return drop_dead_deps(_covered(named, target)), tuple(notes)


def _covered(kernel: Kernel, target: Target) -> Kernel:
    """Without values that name more than the counts beside them wait for: older instances are meant, and not only."""
    built = build_graph(kernel, target)
    more: dict[int, set[str]] = {}
    for each in find_stale(flow_of(built.graph), target):
        more.setdefault(each.wait, set()).add(each.name)
    edits = []
    for point, names in more.items():
        op = waiting_at(built.graph.points[point])
        assert op is not None
        edits.append(
            Change(point, replace(op, async_deps=tuple(each for each in op.async_deps if each.name not in names)))
        )
    return apply_plan(Plan(tuple(edits)), built) if edits else kernel


def with_counts(kernel: Kernel, target: Target) -> Kernel:
    """The kernel with counts made anew from the values at its waits: as large as the verifier proves them."""
    built = build_graph(kernel, target)
    plan = plan_counts(flow_of(built.graph), target)
    return apply_plan(_as_proved(_as_named(plan, built.graph, target), built.graph, target), built)


def _as_named(plan: Plan, graph: g.SyncGraph, target: Target) -> Plan:
    """Counts as large as those who check them let them be, who know how often loops run."""
    ops = {number: op for number, point in enumerate(graph.points) if (op := waiting_at(point)) and op.async_deps}
    ops |= {edit.point: edit.op for edit in plan.edits if isinstance(edit, Change) and isinstance(edit.op, Waiting)}
    for point, op in ops.items():
        # More than a counter can tell waits for nothing: what is said then is how much would.
        beyond = tuple((name, target.counters[name].largest + 1) for name, _ in op.counts if name in target.counters)
        trial = _changed(graph, {**ops, point: replace(op, counts=beyond)})
        safe: dict[str, int] = {}
        for each in find_stale(flow_of(apply_to_graph(trial, graph)), target):
            if each.wait == point and each.safe is not None:
                safe[each.counter] = min(each.safe, safe.get(each.counter, each.safe))
        counts = tuple((name, max(count, safe.get(name, count))) for name, count in op.counts)
        ops[point] = replace(op, counts=counts)
    return _changed(graph, ops)


def _as_proved(plan: Plan, graph: g.SyncGraph, target: Target) -> Plan:
    """Where only the counts as given are proved, these stay: the values do not name all that is waited for."""
    prover = Prover(graph, target)
    if not plan.edits or prover.is_ordered(plan) or not prover.is_ordered(Plan(())):
        return plan
    changes = (each for each in plan.edits if isinstance(each, Change))
    return Plan(tuple(each for each in changes if not getattr(waiting_at(graph.points[each.point]), "counts", ())))


def _changed(graph: g.SyncGraph, ops: Mapping[int, Waiting]) -> Plan:
    """What differs from what stands there."""
    found = (Change(point, op, ("recounted",)) for point, op in sorted(ops.items()))
    return Plan(tuple(each for each in found if each.op != waiting_at(graph.points[each.point])))
