"""What an iteration of a scheduled loop costs, and whether a choice stands if costs are not what we think.

Needs   graphs that were synchronized
Gives   a `Price`, and the costs whose change by 30 % would change which of two is cheaper
Keeps   the same graphs give the same prices
Cost    three plays of the cost model for a price; two prices for each cost that matters
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace

from tidegate.cost import prices_of
from tidegate.graph import model as g
from tidegate.graph.barriers import is_barrier
from tidegate.language.ops import SetWavePrio
from tidegate.pingpong.model import Candidate, Price
from tidegate.scheduling.body import heaviest_loop
from tidegate.simulate.cycle_steps import NoEstimate
from tidegate.simulate.cycles import FEW, MOST, iteration
from tidegate.targets import Cost, Target

# Costs may be off by so much.
OFF = 0.3
# Points of a body above which it is played for fewer iterations, and these.
LONG, LONG_FEW, LONG_MOST = 150, 3, 9
# Facts of a cost table that are no costs of what happens in a loop.
_NO_COST = ("clock", "cache_size", "unit_lds", "unit_waves")


def price_of(graph: g.SyncGraph, target: Target, draws: int = 4) -> Price | None:
    """One iteration of the heaviest loop in the steady state, data of global memory in the cache.

    `draws`: over so many plays latencies that vary are averaged; one is enough for a long body, which has many.
    """
    loop = heaviest_loop(graph)
    if loop is None:
        return None
    own = [point for point in graph.points if point.loop == loop]
    is_long = len(own) > LONG
    try:
        rounds = (LONG_FEW, LONG_MOST) if is_long else (FEW, MOST)
        found = iteration(graph, target, loop, cached=True, draws=1 if is_long else draws, rounds=rounds)
    except NoEstimate:
        return None
    prices = prices_of(target)
    work = sum(prices.mma(each.work.ops, each.work.dtype).busy for each in own if each.role == "mma")
    busy = work * graph.waves / min(prices.simds, graph.waves) / found.cycles if found.cycles else 0.0
    barriers = sum(is_barrier(each.action) for each in own)
    return Price(found.cycles, busy, barriers, found.lost.get("barrier", 0.0))


def pays_priority(found: Candidate, target: Target) -> bool:
    """Whether the loop of a draft is not slower for the priorities in it."""
    points = [
        replace(point, action=g.Compute())
        if isinstance(point.action, g.Sync) and isinstance(point.action.op, SetWavePrio)
        else point
        for point in found.graph.points
    ]
    without = price_of(replace(found.graph, points=tuple(points)), target, draws=1)
    return without is None or found.price is None or found.price.cycles <= without.cycles


def find_uncertain(chosen: Candidate, others: Sequence[Candidate], target: Target) -> tuple[str, ...]:
    """Costs with which the next candidate would be cheaper, if they were 30 % larger or smaller."""
    rivals = [each for each in others if each.price]
    if chosen.price is None or not rivals:
        return ()
    rival = min(rivals, key=lambda each: each.price.cycles if each.price else 0.0)
    return tuple(_turned(chosen, rival, target))


def _turned(chosen: Candidate, rival: Candidate, target: Target) -> Iterator[str]:
    """One play for each: it is the order that counts."""
    for each in fields(Cost):
        value = getattr(target.cost, each.name)
        if each.name in _NO_COST or not value:
            continue
        for sign, word in ((1 + OFF, "larger"), (1 - OFF, "smaller")):
            changed = replace(target, cost=replace(target.cost, **{each.name: value * sign}))
            mine, other = (price_of(one.graph, changed, draws=1) for one in (chosen, rival))
            if mine and other and other.cycles < mine.cycles:
                yield f"`{each.name}` 30 % {word}"
