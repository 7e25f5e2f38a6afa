"""Which of several plans is carried out: pairs round loops, barriers with names, the default beside the least weight.

Needs   the hazards of a graph, its target, what was asked for
Gives   the plan to carry out; its notes say what else was considered
Keeps   a plan that is proved is taken before one that is not; then the fewest cycles, then the least
        weight, then the fewest barriers. Without a strategy by name no plan has more weight than that of least weight,
        unless the cost model says that it is faster
Cost    that of `together`; where barriers are pulled apart, another plan and an estimate for each loop; where there was
        a choice, a proof of what was chosen
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice

from tidegate.graph import model as g
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.barriers import tally_inserted
from tidegate.graph.flow import flow_of
from tidegate.graph.plan import Delete, Insert, Plan
from tidegate.hazards.find import Hazards, find_hazards
from tidegate.language.ops import NewBarrier, SharedMemoryBarrier, Signal, Wait, WaitCount, WorkgroupBarrier
from tidegate.placement.place import Options, Placed, can_split, place
from tidegate.placement.together import WAITS
from tidegate.synchronize.by_path import as_if_copied, place_by_path
from tidegate.synchronize.finish import Finish, asks_what_is_proved, finish_plan
from tidegate.synchronize.model import SyncOptions
from tidegate.synchronize.pricing import (
    MARGIN,
    MOST_POINTS,
    Considered,
    consider,
    cycles_of,
    effort_for,
    is_as_light,
    say_considered,
)
from tidegate.synchronize.refine import refine
from tidegate.synchronize.together import (
    BY_COST,
    MOST_MOVES,
    NOT_PRICED,
    Planned,
    moves,
    place_together,
    plan_by,
    taken_of,
)
from tidegate.targets import Target
from tidegate.verify.prover import Prover

MOST_LOOPS = 8  # that are tried with a pair round their end

Choice = tuple[Planned, tuple[Planned, ...]]  # the plan that is taken, and all that were considered


def choose_plan(
    found: Hazards, prover: Prover, asked: Options, merge: str, *, by_path: bool = True, finish: Finish | None = None
) -> Placed:
    """The plan that is taken. `merge`: whether a wait may move earlier for the sake of a barrier. `by_path`: whether
    arms may get counts of their own. `finish`: what is done with the plan before it is carried out."""
    taken, is_choice = _noted(*_finished(*_choose(found, prover, asked, merge, by_path), prover, finish))
    if not (is_choice or taken.is_searched or _names(taken.plan)) or _is_proved(taken.plan, prover):
        return taken
    for other in _plainer(taken, found, prover, asked, merge):
        if len(other.unplaced) <= len(taken.unplaced) and _is_proved(other.plan, prover):
            what = "a named barrier for a split pair that spans another" if _names(taken.plan) else "a cheaper plan"
            notes = (*other.notes, f"considered: {what}: it cannot be proved")
            plan = other.plan
            if asked.judge is not None:  # a plan that serves all hazards may ask for more than the proof does
                plan = refine(plan, prover, bare=True, changes=not asked.tighten_waits)
            return replace(other, plan=plan, weight=tally_inserted(plan, prover.graph).weight, notes=notes)
    return taken


def _plainer(taken: Placed, found: Hazards, prover: Prover, asked: Options, merge: str) -> Iterator[Placed]:
    """Other plans, which ask less of the verifier: that serve all hazards; without names; the fewest, as they come."""
    if asked.judge is not None:
        asked = replace(asked, judge=None)
        yield _noted(*_choose(found, prover, asked, merge, by_path=False))[0]
    asked = replace(asked, named=False)
    if _names(taken.plan):
        yield _noted(*_choose(found, prover, asked, merge, by_path=False))[0]
    yield place(found, prover.target, replace(asked, keep_waits=merge == "never"))


def _names(plan: Plan) -> bool:
    return any(isinstance(edit, Insert) and isinstance(edit.op, NewBarrier) for edit in plan.edits)


def _is_proved(plan: Plan, prover: Prover) -> bool:
    return len(prover.graph.points) <= MOST_POINTS and prover.is_ordered(plan)


def _choose(found: Hazards, prover: Prover, asked: Options, merge: str, by_path: bool) -> Choice:
    """The plan by its price, and what was considered if there was another one."""
    considered: tuple[Planned, ...] = ()
    target = prover.target
    match merge:
        case "never":
            planned = plan_by(found, target, replace(asked, keep_waits=True))
        case "always":
            planned = plan_by(found, target, asked)
        case _:
            planned, considered = place_together(found, target, asked)
    if by_path:
        ways = WAITS if merge == "model" else (planned.options.waits,)
        planned, more = _by_path(planned, found, prover, ways)
        if more:
            one, other = more
            if one.price.is_taken:  # a strategy by name weighs less, and the other is named
                return planned, more
            return planned, (*(_not_taken(each) for each in considered or (one,)), other)
    planned, pairs = _round_loops(planned, found, target)
    if merge == "model" and not asked.strategy and can_split(target):
        planned, least = _not_whole(planned, found, target, asked)
        if least:
            considered, pairs = (), least
    return planned, (*considered, *pairs)


def _not_taken(planned: Planned) -> Planned:
    return replace(planned, price=replace(planned.price, is_taken=False))


def _finished(planned: Planned, considered: tuple[Planned, ...], prover: Prover, finish: Finish | None) -> Choice:
    """What is taken, and the lightest plan beside it, priced as they will be carried out: without what proofs take back
    the lighter one may be as fast (seed 900091 of `bench.least`)."""
    if finish is None or not any(each.price.is_taken for each in considered):
        return planned, considered
    lightest = min(considered, key=lambda each: (each.price.tally.weight, not each.price.is_taken))
    light = _as_carried_out(lightest, prover, finish)
    best = light if lightest.price.is_taken else _as_carried_out(planned, prover, finish)
    done = [best if each.price.is_taken else light if each is lightest else each for each in considered]
    fits = len(light.placed.unplaced) <= len(best.placed.unplaced) and light.price.cycles is not None
    if fits and light.price.price < best.price.price:
        best = light
    return taken_of(best, done)


def _as_carried_out(planned: Planned, prover: Prover, finish: Finish) -> Planned:
    placed = finish(planned.placed)
    price = consider(planned.price.kind, placed.plan, prover.graph, prover.target)
    return Planned(planned.options, placed, price)


def _noted(planned: Planned, considered: tuple[Planned, ...]) -> tuple[Placed, bool]:
    """The plan with what was considered as its notes, and whether there was a choice."""
    prices = tuple(each.price for each in considered)
    notes = say_considered(prices)
    if planned.options.strategy and any(_is_cheaper(each, planned.price) for each in prices):
        notes.append(f"`{planned.options.strategy}` minimizes the weight; without a strategy, `sync` minimizes cycles")
    planned.placed.notes = (*planned.placed.notes, *notes)
    return planned.placed, bool(considered)


def _by_path(planned: Planned, found: Hazards, prover: Prover, ways: tuple[str, ...]) -> Choice:
    """A plan whose arms have counts of their own, where a guarded copy would hold up every iteration; with what was
    considered. A strategy that was asked for by name stays as light as it is: of a faster, heavier plan it gives
    the price alone."""
    graph, target, options = found.flow.graph, prover.target, planned.options
    guarded = as_if_copied(graph, target) if not options.tighten_waits else None
    if guarded is None or len(graph.points) > MOST_POINTS:
        return planned, ()
    kind = "merged" if planned.price is NOT_PRICED else planned.price.kind
    one = replace(planned, price=consider(kind, planned.placed.plan, graph, target))
    best = heavier = one
    for own in _with_moves(options, ways, replace(found, flow=flow_of(guarded.graph)), target):
        placed = place_by_path(found, prover, guarded, partial(place, target=target, options=own))
        if placed is None or len(placed.unplaced) > len(planned.placed.unplaced):
            continue
        trial = Planned(own, placed, consider("by path", placed.plan, graph, target))
        if options.strategy and not is_as_light(trial.price, one.price):
            heavier = trial if _is_cheaper(trial.price, heavier.price) else heavier
        elif _is_cheaper(trial.price, best.price):
            best = trial
    if best is one:
        return taken_of(one, (one, heavier)) if heavier is not one else (one, ())
    if not options.strategy:
        best.placed.strategy = BY_COST
    return taken_of(best, (one, best))


def _with_moves(options: Options, ways: tuple[str, ...], found: Hazards, target: Target) -> Iterator[Options]:
    """Ways to place barriers as if all arms copied, the one of least weight with its barriers elsewhere as well: of two
    arms in which they weigh the same, one count may be large in one only. `found`: as if all arms copied."""
    for waits in ways:
        yield replace(options, waits=waits)
    first = replace(options, waits=ways[0])
    for barriers in islice(moves(place(found, target, first), found, target), MOST_MOVES):
        yield replace(first, barriers=barriers)


def _is_cheaper(one: Considered, other: Considered) -> bool:
    """Whether one is faster by more than the model may be wrong."""
    return one.cycles is not None and other.cycles is not None and one.cycles < other.cycles * (1 - MARGIN)


def _round_loops(planned: Planned, found: Hazards, target: Target) -> Choice:
    """Pairs that reach round the end of a loop, where the model says that it pays to put one more around the loop."""
    graph = found.flow.graph
    if not _is_split(planned.placed.plan) or len(graph.points) > MOST_POINTS:
        return planned, ()
    first = best = replace(planned, price=consider("within", planned.placed.plan, graph, target))
    tried: list[Planned] = []
    for loop in range(min(len(found.flow.loops), MOST_LOOPS)):
        options = replace(best.options, paid=best.options.paid | {loop})
        placed = place(found, target, options)
        if placed.plan == best.placed.plan or len(placed.unplaced) > len(best.placed.unplaced):
            continue
        placed.strategy = planned.placed.strategy
        tried.append(Planned(options, placed, consider("carried", placed.plan, graph, target)))
        best = min(best, tried[-1], key=lambda each: each.price.price)
    if not tried:
        return planned, ()
    other = best if best is not first else min(tried, key=lambda each: each.price.price)
    return taken_of(best, (first, other))


def _is_split(plan: Plan) -> bool:
    return any(isinstance(edit, Insert) and isinstance(edit.op, Signal) for edit in plan.edits)


def _not_whole(planned: Planned, found: Hazards, target: Target, asked: Options) -> Choice:
    """The plan, or that of least weight with whole barriers: if it weighs less and is not slower by the model, or if it
    is faster by more than the model may be wrong, since a signal waits for what a whole barrier may overlap."""
    least = plan_by(found, target, replace(asked, strategy="minimal"))
    is_lighter = least.placed.weight < planned.placed.weight
    if not (is_lighter or _is_split(planned.placed.plan)) or len(least.placed.unplaced) > len(planned.placed.unplaced):
        return planned, ()
    kind = "within" if planned.price is NOT_PRICED and _is_split(planned.placed.plan) else planned.price.kind
    ours = consider(kind, planned.placed.plan, found.flow.graph, target)
    price = consider("whole", least.placed.plan, found.flow.graph, target)
    if price.cycles is None or not (price.price < ours.price if is_lighter else _is_cheaper(price, ours)):
        return planned, ()
    return taken_of(whole := replace(least, price=price), (replace(planned, price=ours), whole))


# --- a program beside what `sync` makes of it ---------------------------------------------------------------------


def compare(
    graph: g.SyncGraph, target: Target, atomics: str = "commute", stagger: int = 0, *, by_path: bool = True
) -> list[str]:
    """A program with copies as it stands, beside what `sync` would make of it without its synchronization."""
    if not can_compare(graph):
        return []
    now, effort = cycles_of(Plan(), graph, target), effort_for(graph, target)
    taken_out = Plan(tuple(Delete(number) for number, point in enumerate(graph.points) if _goes(point)))
    bare = apply_to_graph(taken_out, graph)
    found = find_hazards(flow_of(bare), target, atomics=atomics, stagger=stagger)
    prover, options = Prover(bare, target), SyncOptions(atomics=atomics, stagger=stagger)
    finish = partial(
        finish_plan, prover=prover, options=options, by_proof=by_path and asks_what_is_proved(options, bare)
    )
    planned, considered = _finished(*_choose(found, prover, Options(), "model", by_path), prover, finish)
    if now is None or effort is None or effort != effort_for(bare, target) or planned.placed.unplaced:
        return []
    if not considered:
        considered = (
            replace(
                planned, price=replace(consider("merged", finish(planned.placed).plan, bare, target), is_taken=True)
            ),
        )
    prices = tuple(each.price for each in considered)
    said = (each.removeprefix("taken: ") for each in say_considered(prices))
    lines = [
        f"`sync` {'would take' if each.is_taken else 'considers'}: {line.removeprefix('considered: ')}"
        for each, line in zip(prices, said, strict=True)
    ]
    how = f"loops run {effort.trips} times, tiles in the cache"
    return [f"current program: {now:,.0f} cycles by the cost model ({how})", *lines]


def can_compare(graph: g.SyncGraph) -> bool:
    """Whether there is anything to compare: programs without copies have barriers in one place only."""
    copies = any(isinstance(each.action, g.Access) and each.action.is_async for each in graph.points)
    return copies and not graph.objects and len(graph.points) <= MOST_POINTS


def _goes(point: g.Point) -> bool:
    """Whether `sync` could put it in: not what is pinned, nor what makes a stagger."""
    kinds = (SharedMemoryBarrier, WorkgroupBarrier, WaitCount, Signal, Wait)
    if not isinstance(point.action, g.Sync) or not isinstance(point.action.op, kinds):
        return False
    return not getattr(point.action.op, "pinned", False)
