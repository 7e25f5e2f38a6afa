"""Waits and barriers together: fewer barriers, or waits where they belong? The cost model decides.

Needs   the hazards of a graph, and its target
Gives   the plan to carry out, and what was considered, with numbers
Keeps   a wait moves before the first barrier that needs it only if the model says that this pays by more than `MARGIN`;
        where the model has nothing to say, waits stay. Whoever asks for a strategy by name gets that
Cost    up to three plans and, where they differ, an estimate for each
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.graph import model as g
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.flow import flow_of
from tidegate.graph.plan import Delete, Insert, Plan
from tidegate.hazards.find import Hazards, find_hazards
from tidegate.language.ops import SharedMemoryBarrier, Signal, Wait, WaitCount, WorkgroupBarrier
from tidegate.placement.place import Options, Placed, place
from tidegate.placement.together import WAITS
from tidegate.simulate.cycle_steps import NoEstimate
from tidegate.simulate.cycles import estimate
from tidegate.targets import Target

# The model is not better than that: less is no difference.
MARGIN = 0.01
# What is compared: loops that run for a while, and tiles that neighbours have brought into the cache.
TRIPS = 16
MOST_POINTS = 2_000  # beyond, waits stay where they belong and nothing is estimated

WORDS = {
    "merged": "the fewest barriers, waits as early as they ask for",
    "late": "waits where the copies need them",
    "latest": "each wait right before what it is for",
}


@dataclass(frozen=True, slots=True)
class Considered:
    """A plan that could have been carried out. `cycles` None: nobody could tell."""

    waits: str
    barriers: int  # that are put in
    weight: float  # how often they are met, as far as anybody knows
    cycles: float | None
    is_taken: bool = False


def place_together(found: Hazards, target: Target, options: Options) -> tuple[Placed, tuple[Considered, ...]]:
    """The plan that is taken, and all that were considered, if there was a choice."""
    if options.strategy or not _waits_for_copies(found):
        return place(found, target, options), ()
    options = replace(options, keep_waits=not options.tighten_waits)
    plans: dict[Plan, tuple[str, Placed]] = {}
    for waits in WAITS:
        placed = place(found, target, replace(options, waits=waits))
        if not plans or len(placed.unplaced) <= min(len(each.unplaced) for _, each in plans.values()):
            plans.setdefault(placed.plan, (waits, placed))
    if len(plans) == 1:
        return next(iter(plans.values()))[1], ()
    graph = found.flow.graph
    considered = [
        (
            Considered(waits, _barriers(placed.plan), _weight(placed.plan, graph), _cycles(placed.plan, graph, target)),
            placed,
        )
        for waits, placed in plans.values()
    ]
    best = _best([each for each, _ in considered])
    taken = next(placed for each, placed in considered if each is best)
    return taken, tuple(replace(each, is_taken=each is best) for each, _ in considered)


def _waits_for_copies(found: Hazards) -> bool:
    return any(each.performed.is_async and each.demand for each in found.hazards)


def _best(considered: list[Considered]) -> Considered:
    """Waits as late as copies need, unless another plan is certainly cheaper."""
    best = next((each for each in considered if each.waits == "late"), considered[-1])
    for each in considered:
        if each.cycles is not None and best.cycles is not None and each.cycles < best.cycles * (1 - MARGIN):
            best = each
    return best


def _cycles(plan: Plan, graph: g.SyncGraph, target: Target) -> float | None:
    if len(graph.points) > MOST_POINTS:
        return None
    try:
        return estimate(apply_to_graph(plan, graph), target, trips=TRIPS, cached=True).cycles
    except NoEstimate:
        return None


def _meets(plan: Plan) -> list[int]:
    kinds = (SharedMemoryBarrier, WorkgroupBarrier, Signal)
    return [edit.before for edit in plan.edits if isinstance(edit, Insert) and isinstance(edit.op, kinds)]


def _barriers(plan: Plan) -> int:
    return len(_meets(plan))


def _weight(plan: Plan, graph: g.SyncGraph) -> float:
    return sum(graph.points[point].weight for point in _meets(plan))


def compare(graph: g.SyncGraph, target: Target, atomics: str = "order", stagger: int = 0) -> list[str]:
    """A program with copies as it stands, beside what `sync` would make of it without its synchronization."""
    copies = any(isinstance(each.action, g.Access) and each.action.is_async for each in graph.points)
    if not copies or graph.objects or len(graph.points) > MOST_POINTS:
        return []
    now = _cycles(Plan(), graph, target)
    taken_out = Plan(tuple(Delete(number) for number, point in enumerate(graph.points) if _goes(point)))
    bare = apply_to_graph(taken_out, graph)
    found = find_hazards(flow_of(bare), target, atomics=atomics, stagger=stagger)
    placed, considered = place_together(found, target, Options())
    if now is None or placed.unplaced:
        return []
    if not considered:
        cycles = _cycles(placed.plan, bare, target)
        one = Considered("merged", _barriers(placed.plan), _weight(placed.plan, bare), cycles, True)
        considered = (one,)
    said = (each.removeprefix("taken: ") for each in say_considered(considered))
    lines = [
        f"`sync` {'would take' if each.is_taken else 'considers'}: {line.removeprefix('considered: ')}"
        for each, line in zip(considered, said, strict=True)
    ]
    return [f"as it stands, {now:,.0f} cycles by the cost model (loops run {TRIPS} times, tiles in the cache)", *lines]


def _goes(point: g.Point) -> bool:
    """Whether `sync` could put it in: not what is pinned, nor what makes a stagger."""
    kinds = (SharedMemoryBarrier, WorkgroupBarrier, WaitCount, Signal, Wait)
    if not isinstance(point.action, g.Sync) or not isinstance(point.action.op, kinds):
        return False
    return not getattr(point.action.op, "pinned", False)


def say_considered(considered: tuple[Considered, ...]) -> list[str]:
    """One line for each plan."""
    lines = []
    for each in considered:
        cycles = f"{each.cycles:,.0f} cycles" if each.cycles is not None else "cycles unknown"
        barriers = f"{each.barriers} barrier{'s' * (each.barriers != 1)}"
        taken = "taken: " if each.is_taken else "considered: "
        lines.append(f"{taken}{WORDS[each.waits]}: {barriers} put in, met {each.weight:g} times, {cycles}")
    return lines
