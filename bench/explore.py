"""Orders visited against orders possible, on kernels so small that all can be gone through.

Needs   `bench/orders.tide`: kernels of two waves, each kind of synchronization once right and once wrong
Gives   for each what the judge visits and what there is, with the time of both
Keeps   with and without reduction the verdicts are the same: races, inversions, hangs, statement by statement
Cost    every interleaving of steps and performances, up to `MOST` states

With reduction, only steps that touch barrier objects are tried in more than one order (`explore`), and clocks say what
other orders would show. Without it, every step and every performance is taken at every moment, and races are read off
the states (`explore_all`, `Overlaps`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

from tidegate.graph.build import build_graph
from tidegate.language.ops import Kernel
from tidegate.language.parse import parse
from tidegate.simulate.choices import Choices
from tidegate.simulate.configurations import find_configurations
from tidegate.simulate.explore import Everything, Explored, explore, explore_all
from tidegate.simulate.machine import Listed, start_machine
from tidegate.simulate.overlaps import Overlaps
from tidegate.simulate.position import shape_of
from tidegate.simulate.queues import rules_of
from tidegate.simulate.races import Verdicts, Watch
from tidegate.simulate.regions import Regions
from tidegate.simulate.unroll import Surroundings, unroll
from tidegate.targets import load_target

KERNELS = Path(__file__).parent / "orders.tide"
MOST = 300_000
REPEATS = 5
T = TypeVar("T")

# What is wrong, by kind and statements, and whether some order hangs.
Verdict = tuple[frozenset[tuple[str, int, int]], bool]


@dataclass(frozen=True, slots=True)
class Compared:
    """One kernel with and without reduction."""

    kernel: Kernel
    verdict: Verdict
    verdict_of_all: Verdict
    orders: int
    possible: int
    states: int
    all_states: int
    seconds: float
    all_seconds: float


def kernels() -> tuple[Kernel, ...]:
    return parse(KERNELS.read_text(encoding="utf-8"), str(KERNELS)).kernels


def compare(kernel: Kernel, repeats: int = 1) -> Compared:
    """Both ways through the one configuration of a kernel; times are medians."""
    target = load_target(kernel.target)
    graph = build_graph(kernel, target).graph
    (configuration,) = find_configurations(graph).runs
    regions, rules = Regions(), rules_of(target)
    around = Surroundings(graph, shape_of(graph), regions, bool(target.counters), dict(configuration.env))
    choices = Choices()
    waves = [Listed(unroll(around, wave, choices)) for wave in range(graph.waves)]

    def with_reduction() -> tuple[Explored, Verdicts]:
        verdicts = Verdicts()
        watch = Watch(regions, verdicts, rules.fenced, bool(graph.objects), rules.in_issue_order)
        explored = explore(start_machine(rules, waves, watch), MOST)
        verdicts.settle()
        return explored, verdicts

    def without() -> tuple[Everything, Verdicts]:
        verdicts = Verdicts()
        watch = Overlaps(regions, verdicts, rules.fenced, True, rules.in_issue_order)
        everything = explore_all(start_machine(rules, waves, watch), MOST)
        verdicts.settle()
        return everything, verdicts

    seconds, (explored, some) = _measure(with_reduction, repeats)
    all_seconds, (everything, every) = _measure(without, repeats)
    assert explored.complete
    assert everything.orders is not None, f"@{kernel.name} has more than {MOST} states"
    return Compared(
        kernel,
        (_statements(some), explored.hang is not None),
        (_statements(every), everything.hangs),
        explored.orders,
        everything.orders,
        explored.states,
        everything.states,
        seconds,
        all_seconds,
    )


def _measure(work: Callable[[], T], repeats: int) -> tuple[float, T]:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        done = work()
        times.append(time.perf_counter() - start)
    return median(times), done


def _statements(verdicts: Verdicts) -> frozenset[tuple[str, int, int]]:
    return frozenset((kind, min(one, other), max(one, other)) for kind, one, other in verdicts.clashes)


def run() -> tuple[str, bool]:
    """The table as Markdown, and whether the verdicts are the same and right for every kernel."""
    head = (
        "kernel",
        "target",
        "verdict",
        "orders visited",
        "orders possible",
        "states visited",
        "states possible",
        "time without reduction : with",
    )
    lines = [f"| {' | '.join(head)} |", "|---|---|---|" + "---:|" * 5]
    good = True
    for kernel in kernels():
        found = compare(kernel, REPEATS)
        assert found.verdict == found.verdict_of_all, f"@{kernel.name}: {found.verdict} but {found.verdict_of_all}"
        good = good and (show_verdict(found.verdict) != "clean") == kernel.name.endswith("_broken")
        lines.append(
            f"| {kernel.name} | {kernel.target} | {show_verdict(found.verdict)} | {found.orders:,} "
            f"| {found.possible:,} | {found.states:,} | {found.all_states:,} "
            f"| {found.all_seconds / found.seconds:,.0f} |"
        )
    return "\n".join(lines), good


def show_verdict(verdict: Verdict) -> str:
    clashes, hangs = verdict
    kinds = sorted({kind for kind, _, _ in clashes}) + ["hang"] * hangs
    return ", ".join(kinds) or "clean"
