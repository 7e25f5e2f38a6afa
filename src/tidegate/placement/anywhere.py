"""Barriers for any graph: served, and none that could be left out.

Needs   hazards, walks, the points before which a barrier may stand and what it costs there
Gives   how many barriers to put before which point
Keeps   every hazard is served; without any one of the barriers some hazard is not
Cost    a search for each hazard and for each barrier that is tried without

Hazards are taken in the order of their consumers. Where a walk is not served, a barrier goes to the cheapest place on
it, the latest of those: on a straight line that is stabbing by the right end. Then each barrier is tried without, and
each against cheaper ones that do the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidegate.hazards.model import Hazard
from tidegate.placement.events import MEET, Event
from tidegate.placement.walks import Walks

Chosen = Counter[int]  # point → barriers before it
MOST_TRIES = 4_000  # hazards times barriers, beyond which nothing is exchanged


@dataclass(frozen=True, slots=True)
class Slots:
    """Where barriers may stand: points, their nodes, and what one costs there."""

    weight: Mapping[int, float]
    nodes: Mapping[int, Sequence[int]]

    def before(self, chosen: Mapping[int, int]) -> dict[int, tuple[Event, ...]]:
        """The barriers as events before nodes."""
        return {node: MEET * count for point, count in chosen.items() for node in self.nodes[point]}

    def cost(self, chosen: Mapping[int, int]) -> tuple[float, int]:
        return sum(self.weight[point] * count for point, count in chosen.items()), sum(chosen.values())


def place_anywhere(walks: Walks, hazards: Sequence[Hazard], slots: Slots) -> Chosen:
    chosen: Chosen = Counter()
    serve(walks, hazards, slots, chosen)
    drop_needless(walks, hazards, slots, chosen)
    return exchange(walks, hazards, slots, chosen)


def serve(walks: Walks, hazards: Iterable[Hazard], slots: Slots, chosen: Chosen) -> bool:
    """Adds barriers until every hazard is served; whether that is possible."""
    before = slots.before(chosen)
    for hazard in sorted(hazards, key=lambda each: (each.consumer, each.producer, each.loop)):
        while (walk := walks.unserved(hazard, before, drained=True)) is not None:
            points = [walks.flow.origin[node] for node in walk.where_it_helps(hazard)]
            here = [point for point in points if point in slots.weight]
            if not here:
                return False
            cheapest = min(slots.weight[point] for point in here)
            point = next(each for each in reversed(here) if slots.weight[each] == cheapest)
            chosen[point] += 1
            for node in slots.nodes[point]:
                before[node] = MEET * chosen[point]
    return True


Supports = dict[Hazard, frozenset[int]]  # of each hazard, nodes with barriers before them that are enough to serve it


def find_supports(walks: Walks, hazards: Iterable[Hazard], slots: Slots, chosen: Mapping[int, int]) -> Supports | None:
    """None if some hazard is not served."""
    before, found = slots.before(chosen), Supports()
    for each in hazards:
        support = walks.support(each, before)
        if support is None:
            return None
        found[each] = support
    return found


def drop_needless(
    walks: Walks,
    hazards: Sequence[Hazard],
    slots: Slots,
    chosen: Chosen,
    last: int = -1,
    supports: Supports | None = None,
) -> None:
    """Takes away what no hazard needs, the dearest first, what stands before the point `last` after all others.

    Only hazards that are served with the help of a barrier are asked about without it.
    """
    supports = supports or find_supports(walks, hazards, slots, chosen)
    for point in sorted(chosen, key=lambda each: (each == last, -slots.weight[each], each)):
        while chosen[point] and supports is not None:
            chosen[point] -= 1
            leaning = [each for each in hazards if not supports[each].isdisjoint(slots.nodes[point])]
            without = find_supports(walks, leaning, slots, +chosen)
            if without is None:
                chosen[point] += 1
                break
            supports.update(without)
    for point in [each for each, count in chosen.items() if not count]:
        del chosen[point]


def exchange(walks: Walks, hazards: Sequence[Hazard], slots: Slots, chosen: Chosen) -> Chosen:
    """Tries cheaper places for what one barrier does, until nothing gets cheaper."""
    if len(hazards) * len(chosen) > MOST_TRIES:
        return chosen
    supports = find_supports(walks, hazards, slots, chosen)
    improved = supports is not None
    while improved and supports is not None:
        improved = False
        for point in sorted(chosen, key=lambda each: (-slots.weight[each], each)):
            others = Counter(chosen)
            others[point] -= 1
            others = +others
            cheaper = Slots({each: w for each, w in slots.weight.items() if w < slots.weight[point]}, slots.nodes)
            leaning = [each for each in hazards if not supports[each].isdisjoint(slots.nodes[point])]
            if not serve(walks, leaning, cheaper, others):
                continue
            theirs = {**supports, **(find_supports(walks, leaning, slots, others) or {})}
            drop_needless(walks, hazards, slots, others, supports=theirs)
            if slots.cost(others) < slots.cost(chosen):
                chosen, supports, improved = others, theirs, True
                break
    return chosen
