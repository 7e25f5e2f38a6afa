"""Waits and barriers together: fewer barriers, or waits where they belong? The cost model decides.

Needs   the hazards of a graph, and its target
Gives   the plan to carry out, and what was considered, with numbers
Keeps   the plan has the fewest cycles of all that were priced; of equal ones the least weight, then the fewest
        barriers. So a wait moves before the first barrier that needs it only if the model says that this pays, and a
        plan weighs more than the least only if the model says that it is faster. Where the model has nothing to say,
        waits stay. Whoever asks for a strategy by name gets that
Cost    up to three plans and, where they differ, an estimate for each; up to `MOST_MOVES` more for barriers that move
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tidegate.graph.barriers import Tally
from tidegate.graph.plan import Edit, Insert, Plan
from tidegate.hazards.find import Hazards
from tidegate.language.ops import SharedMemoryBarrier
from tidegate.placement.place import Options, Placed, find_slots, place
from tidegate.placement.together import WAITS, start_of_run
from tidegate.placement.walks import Walks
from tidegate.synchronize.pricing import Considered, consider, is_as_light
from tidegate.targets import Target

MOST_MOVES = 12  # plans that are priced to find better places for the fewest barriers
# What a plan is called that is not the strategy's own: the model chose it, or there was no estimate and waits stay.
BY_COST, UNPRICED = "cost", "late"
LEAST, EXACT = "minimal", "optimal"
MOST_EXACT = 64  # points of a graph for which the exact search may be asked as well: there it ends at once
NOT_PRICED = Considered("merged", Tally(0, 0, 0.0), None)


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and the options that lead to it again."""

    options: Options
    placed: Placed
    price: Considered


def place_together(found: Hazards, target: Target, options: Options) -> tuple[Planned, tuple[Planned, ...]]:
    """The plan that is taken, and all that were considered, if there was a choice."""
    if not _waits_for_copies(found):
        return plan_by(found, target, options), ()
    if options.strategy:
        return _as_light(plan_by(found, target, options), found, target)
    options = replace(options, keep_waits=not options.tighten_waits)
    plans: dict[Plan, tuple[Options, Placed]] = {}
    for waits in WAITS:
        by = replace(options, waits=waits)
        placed = place(found, target, by)
        if not plans or len(placed.unplaced) <= min(len(each.unplaced) for _, each in plans.values()):
            plans.setdefault(placed.plan, (by, placed))
    merged = next(iter(plans.values()))[1]
    if len(plans) == 1 and next(moves(merged, found, target), None) is None:
        return Planned(options, merged, NOT_PRICED), ()
    planned = [_priced(by.waits, found, target, by, placed) for by, placed in plans.values()]
    planned += _moved(planned[0], found, target)
    fewest = min(len(each.placed.unplaced) for each in planned)
    best = _best([each for each in planned if len(each.placed.unplaced) == fewest])
    if best is not planned[0]:
        best.placed.strategy = BY_COST if best.price.cycles is not None else UNPRICED
    if len(planned) == 1:
        return best, ()
    return taken_of(best, planned)


def taken_of(best: Planned, planned: Iterable[Planned]) -> tuple[Planned, tuple[Planned, ...]]:
    """The plan that is taken, and all plans with a mark on that one."""
    marked = [replace(each, price=replace(each.price, is_taken=each is best)) for each in planned]
    return next(each for each in marked if each.price.is_taken), tuple(marked)


def _as_light(planned: Planned, found: Hazards, target: Target) -> tuple[Planned, tuple[Planned, ...]]:
    """The plan of a strategy by name, or one with as many barriers of the same weight that stall the waves less.

    Many sets of barriers weigh the same. With one of them a pipeline of three stages waits for the copies of the last
    iteration, with another for those of the one before, in half of the time. Where nobody asks the verifier about the
    least weight, compile time counts, and the first set will do.
    """
    if planned.options.judge is None or next(moves(planned.placed, found, target), None) is None:
        return planned, ()
    first = replace(planned, price=consider("merged", planned.placed.plan, found.flow.graph, target))
    moved = _moved(first, found, target)
    if not moved:
        return planned, ()
    (best,) = moved
    optimum = first.placed.optimum
    optimum = optimum and replace(optimum, chosen=Counter(dict(best.placed.chosen)))
    best = replace(best, placed=replace(best.placed, strategy=first.placed.strategy, optimum=optimum))
    return taken_of(best, (first, best))


def plan_by(found: Hazards, target: Target, options: Options) -> Planned:
    """The plan of some options, not priced."""
    placed = place(found, target, options)
    is_small = len(found.flow.graph.points) <= MOST_EXACT
    if options.strategy == LEAST and is_small and any(map(_waits_by_meeting, placed.plan.edits)):
        # Where only a barrier can wait for a copy, a wait weighs as much as one, and another set of the same weight may
        # need none (seed 2311 of `bench.least`).
        other = place(found, target, replace(options, strategy=EXACT))
        if other.weight < placed.weight and len(other.unplaced) <= len(placed.unplaced):
            placed = replace(other, strategy=placed.strategy, optimum=None)
    return Planned(options, placed, NOT_PRICED)


def _waits_by_meeting(edit: Edit) -> bool:
    """Whether a barrier is put in that waits for copies without a count: those in no group have none."""
    return isinstance(edit, Insert) and isinstance(edit.op, SharedMemoryBarrier) and edit.op.wait_async_ops


def _priced(kind: str, found: Hazards, target: Target, options: Options, placed: Placed) -> Planned:
    return Planned(options, placed, consider(kind, placed.plan, found.flow.graph, target))


def _waits_for_copies(found: Hazards) -> bool:
    return any(each.performed.is_async and each.demand for each in found.hazards)


def _best(planned: list[Planned]) -> Planned:
    """The fewest cycles. Without an estimate of them all, waits as late as copies need."""
    if any(each.price.cycles is None for each in planned):
        return next((each for each in planned if each.options.waits == "late"), planned[0])
    return min(planned, key=lambda each: each.price.price)


# --- the fewest barriers, elsewhere -------------------------------------------------------------------------------


def _moved(least: Planned, found: Hazards, target: Target) -> list[Planned]:
    """The same number of barriers as in the plan of least weight, each where the model says that its wait holds up
    least; nothing if they stand well already."""
    best, left = least, MOST_MOVES
    improved = least.price.cycles is not None and not least.placed.unplaced
    while improved:
        improved = False
        for barriers in moves(best.placed, found, target):
            if not left:
                break
            left -= 1
            options = replace(least.options, barriers=barriers)
            trial = _priced("moved", found, target, options, place(found, target, options))
            is_light = is_as_light(trial.price, best.price)
            if is_light and not trial.placed.unplaced and trial.price.price < best.price.price:
                best, improved = trial, True
                break
    return [best] if best is not least else []


def moves(placed: Placed, found: Hazards, target: Target) -> Iterator[tuple[tuple[int, int], ...]]:
    """The barriers of a plan with one of them before another run of reads or writes, where it is met as often."""
    walks, slots = Walks(found.flow, target, found.stagger), find_slots(found.flow)
    hazards = [each for each in placed.hazards if each.demand]
    chosen = dict(placed.chosen)
    starts = sorted({start_of_run(walks, each) for each in hazards} & slots.weight.keys())
    for point in sorted(chosen, key=lambda each: (-slots.weight[each], each)):
        rest = {each: count for each, count in chosen.items() if each != point}
        for other in starts:
            if other in chosen or slots.weight[other] != slots.weight[point]:
                continue
            moved = {**rest, other: chosen[point]}
            before = slots.before(moved)
            if all(walks.is_served(each, before, drained=True) for each in hazards):
                yield tuple(sorted(moved.items()))
