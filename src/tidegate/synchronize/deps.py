"""Dependences as values for a kernel that is synchronized, and counts made from them.

Needs   a kernel and its target
Gives   `with_deps`: the kernel in which each wait names the copies that it must see complete
        `with_counts`: the kernel in which each wait that names copies counts for them
Keeps   a wait names no copy that its counts do not wait for; old values that nobody uses are gone
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.graph.apply import apply_plan
from tidegate.graph.build import build_graph
from tidegate.graph.flow import flow_of
from tidegate.graph.plan import Change, Plan
from tidegate.hazards.find import find_hazards
from tidegate.language.ops import Kernel
from tidegate.targets import Target
from tidegate.waits.counts import count_waits, plan_counts, waiting_at
from tidegate.waits.needs import find_needs
from tidegate.waits.values import add_deps, drop_dead_deps


def with_deps(kernel: Kernel, target: Target, stagger: int = 0) -> tuple[Kernel, tuple[str, ...]]:
    """The kernel with values at its waits, and notes about what could not be one."""
    built = build_graph(kernel, target)
    needs = find_needs(find_hazards(flow_of(built.graph), target, stagger=stagger), target)
    named, left = add_deps(built, needs)
    notes = []
    if left:
        waits = f"{len(left)} wait{'s' * (len(left) != 1)}"
        notes.append(f"{waits} without values: waves part between the copies and there")
    return drop_dead_deps(_covered(named, target)), tuple(notes)


def _covered(kernel: Kernel, target: Target) -> Kernel:
    """Without values that name more than the counts beside them wait for: older instances are meant, and not only."""
    built = build_graph(kernel, target)
    edits = []
    for point, counted in count_waits(flow_of(built.graph), target).items():
        op = waiting_at(built.graph.points[point])
        assert op is not None
        counts = dict(op.counts)
        kept = tuple(
            dep
            for dep in op.async_deps
            if all(count >= counts.get(name, 0) for name, count in counted.by_dep.get(dep.name, {}).items())
        )
        if kept != op.async_deps:
            edits.append(Change(point, replace(op, async_deps=kept)))
    return apply_plan(Plan(tuple(edits)), built) if edits else kernel


def with_counts(kernel: Kernel, target: Target) -> Kernel:
    """The kernel with counts made anew from the values at its waits."""
    built = build_graph(kernel, target)
    return apply_plan(plan_counts(flow_of(built.graph), target), built)
