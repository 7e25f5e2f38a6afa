"""What a plan costs: cycles by the cost model, barriers that are put in, how often they are met.

Needs   a plan for a graph, and its target
Gives   a `Considered`: a plan with its price
Keeps   plans of one graph are priced alike; a graph that is too large, or gets stuck, has no price
Cost    an estimate for each plan
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.graph import model as g
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.barriers import Tally, tally
from tidegate.graph.plan import Plan
from tidegate.simulate.cycle_steps import NoEstimate
from tidegate.simulate.cycles import Effort, affordable, whole_cycles
from tidegate.targets import Target

# The model is no better than that when it compares programs of another shape: orders of a loop, a compiler's own plan.
MARGIN = 0.01
# What is compared: loops that run for a while, and tiles that neighbours have brought into the cache. Loops in loops
# run less often, so that all waves together pass no more than so many points; beyond, nothing is estimated.
EFFORTS = (Effort(16, 4), Effort(16, 1), Effort(8, 1), Effort(4, 1), Effort(2, 1))
MOST_PASSED = 40_000
MOST_POINTS = 2_000  # of a graph

WORDS = {
    "merged": "least weight, waits merged",
    "moved": "least weight, moved to where its waits stall least",
    "late": "waits as late as copies allow",
    "latest": "each wait right before its first reader",
    "within": "split pairs within an iteration",
    "carried": "split pairs across iterations",
    "whole": "whole barriers, least weight",
    "by path": "separate counts in each arm",
}


@dataclass(frozen=True, slots=True)
class Considered:
    """A plan that could have been carried out. `cycles` None: nobody could tell."""

    kind: str  # of `WORDS`
    tally: Tally  # of the program with the plan carried out
    cycles: float | None
    is_taken: bool = False

    @property
    def price(self) -> tuple[float, float, int]:
        """Cycles as they are printed; of equal ones the least weight, then the fewest barriers."""
        return (float("inf") if self.cycles is None else round(self.cycles)), self.tally.weight, self.tally.barriers


def consider(kind: str, plan: Plan, graph: g.SyncGraph, target: Target) -> Considered:
    return Considered(kind, tally(apply_to_graph(plan, graph)), cycles_of(plan, graph, target))


def is_as_light(one: Considered, other: Considered) -> bool:
    """Whether a plan is no worse than another by what strategies minimize: the weight, then the number of barriers."""
    return (one.tally.weight, one.tally.barriers) <= (other.tally.weight, other.tally.barriers)


class _Priced:
    """What is known of the graph that was asked about last: plans of one graph are priced one after the other, and the
    same plan often comes from several strategies."""

    def __init__(self, graph: g.SyncGraph, target: Target) -> None:
        self.graph, self.target = graph, target
        is_small = len(graph.points) <= MOST_POINTS
        self.effort = affordable(graph, target, EFFORTS, MOST_PASSED) if is_small else None
        self.cycles: dict[Plan, float | None] = {}

    def price(self, plan: Plan) -> float | None:
        if self.effort is None:
            return None
        if plan not in self.cycles:
            try:
                self.cycles[plan] = whole_cycles(apply_to_graph(plan, self.graph), self.target, self.effort)
            except NoEstimate:
                self.cycles[plan] = None
        return self.cycles[plan]


_LAST: list[_Priced] = []


def _priced(graph: g.SyncGraph, target: Target) -> _Priced:
    if not _LAST or _LAST[0].graph is not graph or _LAST[0].target is not target:
        _LAST[:] = [_Priced(graph, target)]
    return _LAST[0]


def effort_for(graph: g.SyncGraph, target: Target) -> Effort | None:
    """With which plans for a graph are compared; None if that would take too long."""
    return _priced(graph, target).effort


def cycles_of(plan: Plan, graph: g.SyncGraph, target: Target) -> float | None:
    return _priced(graph, target).price(plan)


def say_considered(considered: tuple[Considered, ...]) -> list[str]:
    """One line for each plan. Of one that is taken though another weighs less it says what that is worth."""
    lines = []
    lightest = min(considered, key=lambda each: (each.tally.weight, each.price), default=None)
    for each in considered:
        cycles = f"{each.cycles:,.0f} cycles" if each.cycles is not None else "cycles unknown"
        taken = "taken: " if each.is_taken else "considered: "
        lines.append(f"{taken}{WORDS[each.kind]}: {each.tally}, {cycles}")
        if lightest and each.is_taken and lightest.tally.weight < each.tally.weight and each.cycles and lightest.cycles:
            less = f"{1 - each.cycles / lightest.cycles:.1%}".replace("%", " %")
            lines[-1] += f", {less} fewer than the lightest plan"
    return lines
