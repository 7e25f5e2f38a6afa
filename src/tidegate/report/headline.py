"""One line about an estimate: what an iteration takes, and how much of it the matrix units are busy.

Needs   a graph, its target, and an estimate that has recorded its events
Gives   a line, such as `as it is: 2,310 cycles an iteration, matrix units busy 41 %`
Keeps   busy is by the prices of the target, over all SIMDs that have a wave, in the steady state of the heaviest loop
Cost    linear in the events
"""

from __future__ import annotations

from tidegate.cost import prices_of
from tidegate.graph.model import SyncGraph
from tidegate.report.wave_views import heaviest_loop, is_inside, view_of
from tidegate.simulate.cycles import Estimate
from tidegate.targets import Target


def headline(what: str, graph: SyncGraph, target: Target, estimate: Estimate) -> str:
    """`what` stands before it: which version of the program this is."""
    cycles, busy = cost_of_iteration(graph, target, estimate)
    if not cycles:
        return f"{what}: {estimate.cycles:,.0f} cycles"
    line = f"{what}: {cycles:,.0f} cycles an iteration"
    return f"{line}, matrix units busy {busy * 100:.0f} %" if busy else line


def cost_of_iteration(graph: SyncGraph, target: Target, estimate: Estimate) -> tuple[float, float]:
    """Cycles of one iteration of the heaviest loop, and for which share of it matrix units are busy; 0, 0: no loop."""
    loop = heaviest_loop(graph, set(range(len(graph.loops))))
    cycles = next((each.cycles for each in estimate.loops if each.loop == loop), 0.0)
    if not cycles:
        return 0.0, 0.0
    return cycles, min(_busy_cycles(graph, target, estimate, loop) / cycles, 1.0)


def _busy_cycles(graph: SyncGraph, target: Target, estimate: Estimate, loop: int) -> float:
    """Of a matrix unit in one iteration, on average over those of SIMDs that have a wave."""
    prices, waves = prices_of(target), graph.waves * estimate.workgroups
    busy, first = 0.0, -1
    for event in estimate.events:
        point = graph.points[event.where]
        if event.what == "mma" and is_inside(graph, point.loop, loop):
            busy += prices.mma(point.work.ops, point.work.dtype).busy
            first = event.wave if first < 0 else first
    if first < 0:
        return 0.0
    rounds = len(view_of(graph, target, estimate.events, first).iterations)
    return busy / max(1, rounds) / min(prices.simds, waves)
