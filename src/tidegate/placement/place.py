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
from tidegate.graph.barriers import tally_inserted
from tidegate.graph.flow import Flow, uniform_nodes
from tidegate.graph.plan import Change, Delete, Edit, Move, Plan
from tidegate.hazards.find import Hazards
from tidegate.hazards.model import Hazard, Unplaced
from tidegate.language.ops import Signal, Wait
from tidegate.placement.anywhere import Chosen, Slots, exchange, place_anywhere
from tidegate.placement.drains import MOST_TRIES, Drains, Meets, find_drains, meetings, put_before
from tidegate.placement.edits import make_plan
from tidegate.placement.events import MEET, Arrive
from tidegate.placement.exact import find_exact
from tidegate.placement.least import Approval, find_least
from tidegate.placement.need import ORDINARY, drain_ops
from tidegate.placement.nests import place_in_nest
from tidegate.placement.optimal import TIME_LIMIT, Effort, Optimum, place_optimally
from tidegate.placement.pairs import split
from tidegate.placement.redundant import find_redundant
from tidegate.placement.staggered import before_staggers, bound_before_staggers
from tidegate.placement.tighten import tighten
from tidegate.placement.together import place_late
from tidegate.placement.walks import Walks
from tidegate.placement.wanted import Wanted
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
    paid: frozenset[int] = frozenset()  # loops whose pair may reach round their end for one arrival more
    barriers: tuple[tuple[int, int], ...] = ()  # how many before which point, where somebody has chosen them
    waits: str = "merged"  # how far waits may be moved for the sake of a barrier, see `together`
    judge: Approval | None = None  # asked whether cheaper barriers than the hazards ask for are enough


@dataclass(slots=True)
class Placed:
    """What came of it. `optimum` is there for the strategy that proves something."""

    plan: Plan
    strategy: str
    weight: float  # of the barriers that the plan inserts
    hazards: tuple[Hazard, ...]
    unplaced: tuple[Unplaced, ...]
    serves: dict[int, tuple[Hazard, ...]] = field(default_factory=dict)  # point → hazards served there
    optimum: Optimum | None = None
    chosen: tuple[tuple[int, int], ...] = ()  # how many barriers before which point, before any was pulled apart
    notes: tuple[str, ...] = ()
    is_final: bool = False  # whether proofs have taken back what they could, and raised counts
    is_searched: bool = False  # whether the judge proves fewer barriers than the hazards ask for
    exact: frozenset[tuple[int, str]] = frozenset()  # point and counter of counts that a run shows to be the largest
    waits: str = "merged"  # how far waits were moved for the sake of a barrier
    keeps_waits: bool = False  # whether waits that stood in the program decided where barriers go


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


# What was chosen for the program that was asked about last.
_LAST: list[tuple[Hazards, Target, dict[object, Chosen]]] = []


class _Placer:
    def __init__(self, found: Hazards, target: Target, options: Options) -> None:
        self.found, self.target, self.options = found, target, options
        self.flow = found.flow
        self.walks = Walks(found.flow, target, found.stagger)
        self.slots = find_slots(found.flow)
        self.wanted = Wanted(self.walks, self.slots, options.keep_waits)
        self.unplaced = list(found.unplaced)
        self.notes: list[str] = []
        self.optimum: Optimum | None = None
        self.is_searched = False  # whether barriers are fewer than the hazards ask for

    def place(self) -> Placed:
        strategy = self.options.strategy or default_strategy(self.target)
        self.walks.remembers = not self.options.remove_redundant
        hazards, unplaced = self.wanted.find(self.found.hazards)
        self.unplaced += unplaced
        between = [each for each in hazards if each.demand]
        removed = self.remove(between, {})
        chosen = self.choose(strategy, self.left(between))
        removed |= self.remove(between, chosen)
        hazards, partly = self.served_by(chosen, hazards)
        between = [each for each in between if each not in partly]
        meets: Meets = {point: MEET * count for point, count in sorted(chosen.items())}
        whole = meets
        if strategy == "intersecting" and can_split(self.target):
            meets = split(self.found, self.walks, self.slots, between, whole, self.free_names(), self.options.paid)
        drains = find_drains(self.walks, hazards, meets, self.slots.weight, partly)
        if drains.failed and meets is not whole:
            undivided = find_drains(self.walks, hazards, whole, self.slots.weight, partly)
            if len(undivided.failed) < len(drains.failed):  # a drain would have to stand where no signal does
                meets, drains = whole, undivided
        chosen, meets, drains = self.without_needless(hazards, chosen, meets, drains)
        for hazard in drains.failed:
            self.unplaced.append(Unplaced(hazard, "the target has no wait that performs the first in time"))
        serves = self.serves(drains)
        plan = make_plan(self.flow, self.target, meets, drains, serves, removed)
        self.walks.remembers = False
        exact = find_exact(self.walks, meets, drains)
        if self.options.tighten_waits:
            plan = self.tightened(plan, hazards, meets, drains)
        weight = tally_inserted(plan, self.flow.graph).weight
        return Placed(
            plan,
            strategy,
            weight,
            tuple(hazards),
            tuple(self.unplaced),
            serves,
            self.optimum,
            tuple(sorted((+chosen).items())),
            tuple(self.notes),
            is_searched=self.is_searched,
            exact=exact,
            waits=self.options.waits,
            keeps_waits=self.options.keep_waits and self.wanted.waits_stand,
        )

    def weight(self, meets: Meets) -> float:
        """How often waves arrive at what is put in: a pair around a loop counts as well."""
        arrivals = {point: sum(isinstance(each, Arrive) for each in events) for point, events in meets.items()}
        return self.slots.cost(arrivals)[0]

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
        if self.options.barriers:
            self.is_searched = self.options.judge is not None
            return Counter(dict(self.options.barriers))
        if self.options.waits == "merged":
            chosen = self.fewest(hazards)
        else:
            chosen = place_late(self.walks, hazards, self.slots, self.options.waits, self.fewest)
        chosen = before_staggers(self.walks, hazards, self.slots, chosen)
        if strategy == "optimal":
            effort = Effort(self.options.seconds)
            found = place_optimally(self.walks, hazards, self.slots, chosen, effort)
            self.optimum = bound_before_staggers(found, self.walks, hazards, self.slots, chosen, effort)
            chosen = self.optimum.chosen
        return self.proved_least(strategy, hazards, chosen)

    def proved_least(self, strategy: str, hazards: Sequence[Hazard], chosen: Chosen) -> Chosen:
        """Cheaper barriers that the judge proves, if there is one: some hazards follow walks that no run takes."""
        judge, staggered = self.options.judge, self.walks.stagger.matters or any(each.demand > 1 for each in hazards)
        if judge is None or staggered or self.options.waits != "merged":
            return chosen
        effort = Effort(self.options.seconds) if strategy == "optimal" else POLISHING
        found = find_least(self.walks, hazards, self.slots, chosen, judge, effort)
        if self.optimum is not None:
            weight = self.slots.cost(found.chosen)[0]
            self.optimum = replace(
                self.optimum, chosen=found.chosen, weight=weight, bound=found.bound, proven=found.is_least, judged=True
            )
        self.is_searched = found.chosen != chosen
        return found.chosen

    def served_by(self, chosen: Chosen, hazards: Sequence[Hazard]) -> tuple[list[Hazard], list[Hazard]]:
        """Hazards that are served, and those that no run follows on some walk, as the judge has shown."""
        served, partly = list[Hazard](), list[Hazard]()
        before = self.slots.before(chosen) if self.is_searched else {}
        for hazard in hazards:
            is_served = not self.is_searched or not hazard.demand
            is_served = is_served or self.walks.is_served(hazard, before, drained=True)
            (served if is_served else partly).append(hazard)
        return served, partly

    def fewest(self, hazards: Sequence[Hazard]) -> Chosen:
        """Exact for nests; anything else is served without waste. Several plans for one program begin with the same."""
        if not _LAST or _LAST[0][0] is not self.found or _LAST[0][1] is not self.target:
            _LAST[:] = [(self.found, self.target, {})]
        known = _LAST[0][2]
        key = (tuple(hazards), tuple(self.slots.weight.items()), tuple(self.walks.own.items()))
        if key not in known:
            known[key] = self.find_fewest(hazards)
        return Counter(known[key])

    def find_fewest(self, hazards: Sequence[Hazard]) -> Chosen:
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
