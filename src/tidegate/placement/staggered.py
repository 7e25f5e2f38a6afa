"""Barriers before a stagger opens: one there does what takes several behind.

Needs   hazards, walks, where barriers may stand, and barriers that serve the hazards
Gives   barriers of less weight, or fewer of the same weight, that serve them too; a bound that holds for these as well
Keeps   every hazard is served
Cost    for each conditional barrier a search for each hazard and barrier

Behind `conditional_barrier high` half of the waves is an arrival behind, and a hazard from that half to the other needs
two barriers there. Before it all waves are abreast, and one is enough.

    local_write %a[wave]                      local_write %a[wave]
    conditional_barrier high                  shared_memory_barrier
    shared_memory_barrier         becomes     conditional_barrier high
    shared_memory_barrier                     local_read %a[wave + 2]
    local_read %a[wave + 2]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tidegate.graph import model as g
from tidegate.hazards.model import Hazard
from tidegate.placement.anywhere import Chosen, Slots, drop_needless
from tidegate.placement.optimal import Effort, Optimum, place_optimally
from tidegate.placement.walks import Walks

MOST_TRIES = 4_000  # hazards times barriers times conditional ones, beyond which barriers stay where they are


def before_staggers(walks: Walks, hazards: Sequence[Hazard], slots: Slots, chosen: Chosen) -> Chosen:
    """Tries a barrier before each conditional one, without what that makes needless."""
    points = dict.fromkeys(walks.flow.origin[node] for node in walks.halves)
    if max((each.demand for each in hazards), default=0) < 2:
        return chosen
    if len(hazards) * (len(chosen) + 1) * len(points) > MOST_TRIES:
        return chosen
    for point in points:
        if point in slots.weight and not chosen[point]:
            trial = Counter({**chosen, point: 1})
            drop_needless(walks, hazards, slots, trial, last=point)
            if slots.cost(trial) < slots.cost(chosen):
                chosen = trial
    return chosen


def bound_before_staggers(
    found: Optimum, walks: Walks, hazards: Sequence[Hazard], slots: Slots, start: Chosen, effort: Effort
) -> Optimum:
    """The best of what the integer program and `start` have, with a bound that holds before a stagger opens too.

    The rows of the integer program ask for what is demanded at the consumer. With the least that any place between two
    accesses asks for they hold for every plan.
    """
    least = [_with_least(walks, each, slots) for each in hazards]
    if least == list(hazards):
        return found
    best = min(start, before_staggers(walks, hazards, slots, found.chosen), key=slots.cost)
    weight = slots.cost(best)[0]
    bound = min(weight, place_optimally(walks, least, slots, best, effort).bound)
    return replace(found, chosen=best, weight=weight, bound=bound, proven=bound >= weight - 1e-9)


def _with_least(walks: Walks, hazard: Hazard, slots: Slots) -> Hazard:
    """A hazard with the least demand of all places that its walks may pass, in the loops that they stay in."""
    if hazard.demand < 2:
        return hazard
    flow, stay = walks.flow, walks.loops_at[hazard.producer] & walks.loops_at[hazard.consumer]
    heads = {flow.loops[loop].head for loop in stay} if hazard.loop < 0 else set()
    if hazard.loop >= 0:
        stay &= walks.around[hazard.loop]
    inside = [stay <= around for around in walks.loops_at]
    onward = [[each for each in after if inside[each] and each not in heads] for after in flow.successors]
    back = [[each for each in before if inside[each]] for before in flow.before]
    reached = g.reached_from(onward[hazard.producer], onward)
    nodes = reached & g.reached_from([hazard.consumer], back) & {n for each in slots.nodes.values() for n in each}
    least = min((walks.need(hazard.pairs, node) for node in nodes), default=hazard.demand)
    return replace(hazard, demand=least) if 0 < least < hazard.demand else hazard
