"""A plan for a graph: where barriers go, of which kind, and which hazards each serves.

Needs   the hazards of a flow, a target, a strategy
Gives   a `Placed`: the plan, what could not be served, what it costs, the bound where one is known
Keeps   every hazard that can be served is served by the plan, on all walks, drains included; what stands in the program
        and is pinned stays
Cost    that of the strategy, and one search for each hazard

Barriers that stand in the program count, as if they drained what has to be drained: they are upgraded where they do
not. New ones are added for what is left.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidegate.collecting import no_collecting
from tidegate.graph import model as g
from tidegate.graph.flow import Flow, uniform_nodes
from tidegate.graph.plan import Change, Delete, Edit, Move, Plan
from tidegate.hazards.find import Hazards
from tidegate.hazards.model import Hazard, Unplaced
from tidegate.language.ops import Signal, Wait
from tidegate.placement.anywhere import Chosen, Slots, exchange, place_anywhere
from tidegate.placement.drains import MOST_TRIES, Drains, Meets, find_drains, has_wait, meetings, put_before
from tidegate.placement.edits import make_plan
from tidegate.placement.events import MEET, Drain, ProxyFence
from tidegate.placement.need import ORDINARY, drain_ops
from tidegate.placement.nests import place_in_nest
from tidegate.placement.optimal import TIME_LIMIT, Effort, Optimum, place_optimally
from tidegate.placement.pairs import split
from tidegate.placement.redundant import find_redundant
from tidegate.placement.tighten import tighten
from tidegate.placement.together import place_late
from tidegate.placement.walks import Before, Walks
from tidegate.targets import Target

MOST_POLISHED = 20_000  # hazards times places, beyond which what is served without waste is good enough
POLISHING = Effort(rounds=200, nodes=2_000)
STRATEGIES = ("minimal", "intersecting", "optimal")


@dataclass(frozen=True, slots=True)
class Options:
    """How to place. An empty strategy is the target's own."""

    strategy: str = ""
    remove_redundant: bool = False
    seconds: float = TIME_LIMIT
    named: bool = True  # whether pairs may be given barriers of their own
    taken: frozenset[str] = frozenset()  # names that these must not have
    tighten_waits: bool = False  # whether counts that stand in the program may become others
    keep_waits: bool = False  # whether a copy that is waited for is left to that wait, rather than waited for earlier
    waits: str = "merged"  # how far waits may be moved for the sake of a barrier, see `together`


@dataclass(slots=True)
class Placed:
    """What came of it. `optimum` is there for the strategy that proves something."""

    plan: Plan
    strategy: str
    weight: float
    hazards: tuple[Hazard, ...]
    unplaced: tuple[Unplaced, ...]
    serves: dict[int, tuple[Hazard, ...]] = field(default_factory=dict)  # point → hazards served there
    optimum: Optimum | None = None
    notes: tuple[str, ...] = ()


def place(found: Hazards, target: Target, options: Options | None = None) -> Placed:
    with no_collecting():
        return _Placer(found, target, options or Options()).place()


def can_split(target: Target) -> bool:
    """Whether a signal can stand alone: something has to drain before it."""
    return target.barrier.split and drain_ops(target, {ORDINARY}, ()) is not None


def default_strategy(target: Target) -> str:
    """Split pairs where the target has them."""
    return "intersecting" if can_split(target) else "minimal"


def find_slots(flow: Flow, *, whatever_stands: bool = False) -> Slots:
    """Where barriers may stand: before points that all waves come to, not between the halves of one that stands there.

    `whatever_stands`: as if no barrier did.
    """
    nodes: dict[int, list[int]] = {}
    uniform = uniform_nodes(flow)
    if len(flow.entries) == 1:
        reached = g.reached_from(flow.entries, flow.successors)
        for node, point in enumerate(flow.origin):
            if node in reached:
                nodes.setdefault(point, []).append(node)
    points = flow.graph.points
    taken = frozenset() if whatever_stands else between_halves(flow)
    usable = {
        each: found
        for each, found in nodes.items()
        if points[each].insertable and taken.isdisjoint(found) and all(uniform[node] for node in found)
    }
    return Slots({each: sum(map(flow.weight, found)) for each, found in usable.items()}, usable)


def between_halves(flow: Flow) -> frozenset[int]:
    """Nodes between a signal and its wait, where no wave may arrive again."""
    signalled: set[int] = set()
    stack = [
        successor
        for node in range(len(flow.origin))
        if _half(flow.action(node)) == "signal"
        for successor in flow.successors[node]
    ]
    while stack:
        node = stack.pop()
        if node not in signalled:
            signalled.add(node)
            if _half(flow.action(node)) != "wait":
                stack.extend(flow.successors[node])
    return frozenset(signalled)


def _point(edit: Edit) -> int:
    return edit.point if isinstance(edit, Change | Delete | Move) else -1


def _half(action: g.Action) -> str:
    match action:
        case g.Sync(Signal(barrier=int())):
            return "signal"
        case g.Sync(Wait(barrier=int())):
            return "wait"
    return ""


class _Placer:
    def __init__(self, found: Hazards, target: Target, options: Options) -> None:
        self.found, self.target, self.options = found, target, options
        self.flow = found.flow
        self.walks = Walks(found.flow, target, found.stagger)
        self.slots = find_slots(found.flow)
        self.waits_stand = any(
            isinstance(event, Drain) and (event.counts or event.copies or event.tokens)
            for events in self.walks.own.values()
            for event in events
        )
        self.all_fence = all(
            self.walks.uniform[node] or not isinstance(event, ProxyFence)
            for node, events in self.walks.own.items()
            for event in events
        )
        self.unplaced = list(found.unplaced)
        self.notes: list[str] = []
        self.optimum: Optimum | None = None

    def place(self) -> Placed:
        strategy = self.options.strategy or default_strategy(self.target)
        self.walks.remembers = not self.options.remove_redundant
        hazards = self.servable()
        between = [each for each in hazards if each.demand]
        removed = self.remove(between, {})
        chosen = self.choose(strategy, self.left(between))
        removed |= self.remove(between, chosen)
        meets: Meets = {point: MEET * count for point, count in sorted(chosen.items())}
        whole = meets
        if strategy == "intersecting" and can_split(self.target):
            meets = split(self.found, self.walks, self.slots, between, whole, self.free_names())
        drains = find_drains(self.walks, hazards, meets, self.slots.weight)
        if drains.failed and meets is not whole:
            undivided = find_drains(self.walks, hazards, whole, self.slots.weight)
            if len(undivided.failed) < len(drains.failed):  # a drain would have to stand where no signal does
                meets, drains = whole, undivided
        chosen, meets, drains = self.without_needless(hazards, chosen, meets, drains)
        for hazard in drains.failed:
            self.unplaced.append(Unplaced(hazard, "nothing that the target has performs the first of them in time"))
        serves = self.serves(drains)
        plan = make_plan(self.flow, self.target, meets, drains, serves, removed)
        self.walks.remembers = False
        if self.options.tighten_waits:
            plan = self.tightened(plan, hazards, meets, drains)
        weight = self.slots.cost(chosen)[0]
        return Placed(
            plan, strategy, weight, tuple(hazards), tuple(self.unplaced), serves, self.optimum, tuple(self.notes)
        )

    def tightened(self, plan: Plan, hazards: Sequence[Hazard], meets: Meets, drains: Drains) -> Plan:
        """With what stands in the program as loose as it can be; what is changed anyway stays as it is planned."""
        changed = {edit.point for edit in plan.edits if isinstance(edit, Change | Delete | Move)}
        served = [each for each in hazards if each not in drains.failed]
        edits = tighten(self.walks, served, put_before(self.walks, meets, drains))
        return Plan((*plan.edits, *(each for each in edits if _point(each) not in changed)))

    def without_needless(
        self, hazards: Sequence[Hazard], chosen: Chosen, meets: Meets, drains: Drains
    ) -> tuple[Chosen, Meets, Drains]:
        """Where barriers were put in afterwards, for want of a wait: takes back what they have made needless."""
        late = meetings(drains)
        if not late or len(hazards) * (len(meets) + len(late)) > MOST_TRIES:
            return chosen, meets, drains
        chosen, meets = chosen.copy(), dict(meets)
        for point in late - meets.keys():
            chosen[point], meets[point] = 1, MEET
        found = find_drains(self.walks, hazards, meets, self.slots.weight)
        for point in sorted(meets):
            if meets[point] != MEET:
                continue
            fewer = {each: events for each, events in meets.items() if each != point}
            less = find_drains(self.walks, hazards, fewer, self.slots.weight)
            if set(less.failed) <= set(drains.failed) and meetings(less) <= fewer.keys():
                meets, found = fewer, less
                chosen[point] -= 1
        return chosen, meets, found

    # --- hazards ---

    def servable(self) -> list[Hazard]:
        """Hazards that barriers at all the places there are would serve. The others are reported."""
        everywhere = self.slots.before(dict.fromkeys(self.slots.weight, 1))
        most = max((each.demand for each in self.found.hazards), default=1)
        if most > 1:
            everywhere = self.slots.before(dict.fromkeys(self.slots.weight, most))
        kept: list[Hazard] = []
        seen: set[tuple[object, ...]] = set()
        for hazard in self.found.hazards:
            key = (hazard.producer, hazard.consumer, hazard.loop, hazard.distance, hazard.demand, hazard.rounds)
            if key in seen:
                continue  # they meet in several buffers
            seen.add(key)
            if hazard.demand and not self.may_be_served(hazard, everywhere):
                why = "no barrier that all waves come to can stand between them"
                self.unplaced.append(Unplaced(hazard, why))
            else:
                kept.append(self.as_waited_for(self.as_met(hazard, everywhere)))
        return kept

    def as_waited_for(self, hazard: Hazard) -> Hazard:
        """A copy for which a wait stands on every walk needs a barrier behind that, not an earlier wait."""
        if not (self.options.keep_waits and self.waits_stand and hazard.performed.is_async and hazard.demand):
            return hazard
        # Behind some barriers of several, or out of the way of all waves, a fence may come to count through new ones.
        counts_anyway = not hazard.performed.needs_fence or (hazard.demand == 1 and self.all_fence)
        if counts_anyway and self.flow.origin[hazard.consumer] in self.slots.nodes:
            lacks = self.walks.lacks_barriers_alone(hazard)
        else:
            met = dict.fromkeys(self.last_place(hazard.consumer), MEET * hazard.demand)
            lacks = self.walks.is_served(hazard, met) and not self.walks.is_served(hazard)
        return replace(hazard, performed=replace(hazard.performed, is_waited_for=True)) if lacks else hazard

    def last_place(self, node: int) -> Sequence[int]:
        """The nodes of the last point on the way to a node before which a barrier can stand: its own, or one behind."""
        while self.flow.origin[node] not in self.slots.nodes:
            before = self.flow.before[node]
            if len(before) != 1:
                return ()
            (node,) = before
        return self.slots.nodes[self.flow.origin[node]]

    def as_met(self, hazard: Hazard, everywhere: Before) -> Hazard:
        """A hazard within one wave for which the target has no wait asks for a barrier, as those between waves do."""
        if hazard.demand or not hazard.performed.drainable or has_wait(self.target, hazard):
            return hazard
        met = replace(hazard, demand=1)
        if self.walks.is_served(hazard):  # perhaps by something that not all waves come to
            return met if self.walks.is_served(met) else hazard
        return met if self.may_be_served(met, everywhere) else hazard

    def may_be_served(self, hazard: Hazard, everywhere: Before) -> bool:
        """A barrier may stand right before the consumer, or somewhere on every walk to it."""
        stands = self.flow.origin[hazard.consumer] in self.slots.weight
        return stands or self.walks.is_served(hazard, everywhere, drained=True)

    def left(self, hazards: Sequence[Hazard]) -> list[Hazard]:
        """What the barriers that stand in the program do not serve, even if they drain."""
        if not any(self.walks.own.values()):
            return list(hazards)
        staggered = self.walks.stagger.matters  # else who is served is so all the more by barriers that drain
        return [
            each
            for each in hazards
            if not (self.walks.is_served(each, drained=True) or (staggered and self.walks.is_served(each)))
        ]

    def remove(self, hazards: Sequence[Hazard], chosen: Mapping[int, int]) -> frozenset[int]:
        """Takes away what stands in the program and is not needed beside what is chosen; if that is asked for."""
        if not self.options.remove_redundant:
            return frozenset()
        removed = find_redundant(self.walks, hazards, self.slots.before(chosen))
        self.walks.own = {n: each for n, each in self.walks.own.items() if self.flow.origin[n] not in removed}
        return removed

    # --- strategies ---

    def choose(self, strategy: str, hazards: Sequence[Hazard]) -> Chosen:
        if self.options.waits == "merged":
            chosen = self.fewest(hazards)
        else:
            chosen = place_late(self.walks, hazards, self.slots, self.options.waits, self.fewest)
        if strategy == "optimal":
            self.optimum = place_optimally(self.walks, hazards, self.slots, chosen, Effort(self.options.seconds))
            chosen = self.optimum.chosen
        return chosen

    def fewest(self, hazards: Sequence[Hazard]) -> Chosen:
        """Exact for nests; anything else is served without waste."""
        regions = self.found.regions
        waited_for = any(each.performed.is_waited_for for each in hazards)
        if regions is None or waited_for or any(each >= 0 for each in self.flow.calls):
            return self.least(hazards)
        places = [nodes[0] for nodes in self.slots.nodes.values() if not self.is_head(nodes[0])]
        found = place_in_nest(regions, hazards, places, self.existing())
        if found is None:
            return place_anywhere(self.walks, hazards, self.slots)
        chosen: Chosen = Counter({self.flow.origin[node]: count for node, count in found.items()})
        if any(each.branch >= 0 for each in regions.regions):
            chosen = exchange(self.walks, hazards, self.slots, chosen)
        return chosen

    def least(self, hazards: Sequence[Hazard]) -> Chosen:
        """Of few hazards and places, the least weight there is: what is served without waste may still be dear."""
        if len(hazards) * len(self.slots.weight) <= MOST_POLISHED:
            found = place_optimally(self.walks, hazards, self.slots, Counter(), POLISHING)
            if found.proven:
                return found.chosen
        return place_anywhere(self.walks, hazards, self.slots)

    def free_names(self) -> tuple[str, ...]:
        """Names for barriers that the target still has."""
        graph = self.flow.graph
        used = sum(each.type.kind == "named_barrier" for each in graph.objects)
        count = len(self.target.barrier.named_ids) - used if self.options.named else 0
        assigned = {name for each in graph.points if isinstance(each.action, g.Assign) for name, _ in each.action.pairs}
        declared = [each.name for each in graph.objects] + [each.name for each in graph.buffers]
        taken = {*self.options.taken, *assigned, *declared, *(each.name for each in graph.free)}
        fresh = (name for number in itertools.count() if (name := f"%sync_barrier{number}") not in taken)
        return tuple(itertools.islice(fresh, max(0, count)))

    def is_head(self, node: int) -> bool:
        return node in self.walks.head_of

    def existing(self) -> Mapping[int, int]:
        """Arrivals at nodes where all waves meet: whole barriers, and waits right behind their signals."""
        return {node: 1 for node in self.walks.own if self.walks.uniform[node] and self.meets_at(node)}

    def meets_at(self, node: int) -> bool:
        own, before = self.walks.own, self.flow.before[node]
        if own[node][-2:] == MEET:
            return True
        return own[node] == MEET[1:] and len(before) == 1 and own.get(before[0], ())[-1:] == MEET[:1]

    # --- the result ---

    def serves(self, drains: Drains) -> dict[int, tuple[Hazard, ...]]:
        """By point, the hazards that are served there."""
        found: dict[int, list[Hazard]] = {}
        # What is served in few places says best why something stands in one of them.
        for hazard, nodes in sorted(drains.served, key=lambda each: len(each[1])):
            for point in sorted({self.flow.origin[node] for node in nodes}):
                found.setdefault(point, []).append(hazard)
        return {point: tuple(each) for point, each in found.items()}
