"""Every hazard of a flow, as windows from a producer to a consumer.

Needs   a flow, its footprints, its target
Gives   hazards, and conflicts that no barrier can order
Keeps   a barrier set that serves these hazards serves every conflicting pair: a pair is left out only if another one
        lies within it on every walk and asks for no less
Cost    for nested regions the accesses times the classes of bytes in their buffers, plus hazards: of accesses that
        touch the same bytes in the same region only the latest can matter as a producer and the first as a consumer,
        within an iteration and round every loop, though the region may run never; quadratic in the accesses elsewhere
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from tidegate.collecting import no_collecting
from tidegate.footprint.conflicts import Conflicts, Meeting
from tidegate.footprint.meetings import Pairs
from tidegate.footprint.model import Footprints
from tidegate.footprint.resolve import find_footprints
from tidegate.graph import model as g
from tidegate.graph.flow import Flow
from tidegate.hazards.facts import ACROSS, PairFacts
from tidegate.hazards.model import Hazard, Performed, Unplaced
from tidegate.hazards.regions import Regions, find_regions
from tidegate.hazards.stagger import Stagger
from tidegate.targets import Target


@dataclass(frozen=True, slots=True)
class Hazards:
    """What was found in one flow."""

    flow: Flow
    regions: Regions | None
    hazards: tuple[Hazard, ...]
    unplaced: tuple[Unplaced, ...]
    footprints: Footprints
    conflicts: Conflicts
    stagger: Stagger
    atomics: str = "commute"


def find_hazards(
    flow: Flow,
    target: Target,
    *,
    atomics: str = "commute",
    stagger: int = 0,
    ordered: frozenset[tuple[int, int]] = frozenset(),
    footprints: Footprints | None = None,
) -> Hazards:
    """All hazards of a flow, but for producers and consumers that are `ordered` by something else."""
    with no_collecting():
        footprints = footprints or find_footprints(flow)
        facts = PairFacts(flow, target, stagger, atomics)
        return _find(flow, facts, footprints, Conflicts(flow, footprints), find_regions(flow), ordered)


def no_hazards(flow: Flow, target: Target, footprints: Footprints) -> Hazards:
    """Of a program whose accesses are known by thread: boxes around the bytes of a wave would meet where threads do
    not, so that only the proof says what meets."""
    return Hazards(flow, None, (), (), footprints, Conflicts(flow, footprints), PairFacts(flow, target).stagger)


def find_without(known: Hazards, target: Target, ordered: frozenset[tuple[int, int]]) -> Hazards:
    """Hazards found anew without pairs that are `ordered`: what these hid comes to light. Footprints stay."""
    facts = PairFacts(known.flow, target, known.stagger.assumed, known.atomics)
    with no_collecting():
        return _find(known.flow, facts, known.footprints, known.conflicts, known.regions, ordered)


def _find(
    flow: Flow,
    facts: PairFacts,
    footprints: Footprints,
    conflicts: Conflicts,
    regions: Regions | None,
    ordered: frozenset[tuple[int, int]],
) -> Hazards:
    finder: _Finder = (
        _InRegions(flow, facts, footprints, conflicts, regions)
        if regions
        else _Anywhere(flow, facts, footprints, conflicts)
    )
    finder.ordered = ordered
    finder.find()
    return Hazards(
        flow,
        regions,
        tuple(finder.hazards),
        tuple(finder.unplaced),
        footprints,
        conflicts,
        facts.stagger,
        facts.atomics,
    )


class _Finder(ABC):
    """What both ways of finding have in common: from meetings to hazards."""

    def __init__(self, flow: Flow, facts: PairFacts, footprints: Footprints, conflicts: Conflicts) -> None:
        self.flow, self.facts, self.footprints, self.conflicts = flow, facts, footprints, conflicts
        self.hazards: list[Hazard] = []
        self.unplaced: list[Unplaced] = []
        self.ordered: frozenset[tuple[int, int]] = frozenset()
        self.most = facts.most
        self.demands: dict[tuple[int, int], int] = {}  # pairs, stagger → arrivals

    @abstractmethod
    def find(self) -> None:
        """Fills `hazards` and `unplaced`."""

    def demand(self, pairs: Pairs, second: int) -> int:
        key = (pairs.value, self.facts.stagger.at(second))
        known = self.demands.get(key)
        if known is None:
            known = self.demands[key] = self.facts.demand(pairs, second)
        return known

    def from_meetings(self, first: int, second: int, loop: int, found: Iterable[Meeting]) -> Iterator[Hazard]:
        """The hazards of a pair: those between waves, and those between lanes of one wave."""
        kind = self.facts.kind(first, second)
        if kind is None or (first, second) in self.ordered:
            return
        for meeting in found:
            yield Hazard(
                kind,
                first,
                second,
                loop,
                meeting.distance,
                self.demand(meeting.pairs, second),
                meeting.pairs,
                self.facts.performed(first, second),
                meeting.rounds,
                meeting.witness,
                meeting.exact,
            )

    def at_once(self, node: int) -> None:
        """One statement that touches the same bytes in two waves: nothing orders it, and some atomics need no order."""
        action = self.flow.action(node)
        if isinstance(action, g.Access) and (action.as_one or self.facts.any_order(node, node)):
            return
        for hazard in self.from_meetings(node, node, -1, self.conflicts.same_iteration(node, node)):
            if hazard.pairs & ACROSS:
                why = "one statement touches the same bytes in two waves"
                self.unplaced.append(Unplaced(hazard, why))
                break


Class = tuple[bool, tuple[str, ...], bool, int, str]


def _class_of(performed: Performed, node: int) -> Class:
    """Producers of one class are performed by the same waits. A copy that nothing drains is alone in its class."""
    alone = node if performed.is_async and not performed.drainable else -1
    return (performed.is_async, performed.counters, performed.needs_fence, alone, performed.token)


ROOT = 0  # the region around all others


@dataclass(slots=True)
class _RegionAccesses:
    """Accesses of one class of bytes in one region, in text order."""

    region: int
    reads: bool
    nodes: list[int] = field(default_factory=list)
    served: set[tuple[int, bool]] = field(default_factory=set)  # regions of consumers after the last one
    classes: dict[bool, Class] = field(default_factory=dict)  # of the last one, by whether its consumer needs a fence


class _InRegions(_Finder):
    def __init__(
        self, flow: Flow, facts: PairFacts, footprints: Footprints, conflicts: Conflicts, regions: Regions
    ) -> None:
        super().__init__(flow, facts, footprints, conflicts)
        self.regions = regions
        self.clusters = _Clusters(flow.graph, footprints)
        self.up = [tuple(regions.up(each.number)) for each in regions.regions]
        # Whether every walk through the region around it passes a region: its loop runs at least once.
        self.passed = [each.loop >= 0 and not regions.may_run_never(each) for each in regions.regions]
        self.is_read = {node: facts.effect(node) == "read" for node in footprints.accesses}
        self.follows: dict[int, set[tuple[int, bool]]] = {}  # producer → regions of consumers behind it
        self.precedes: dict[tuple[int, Class], set[int]] = {}  # consumer → regions of producers before it
        self.members: dict[int, list[tuple[int, _RegionAccesses]]] = {}  # region → (cluster, group) in its own sequence

    def find(self) -> None:
        live: dict[int, dict[object, _RegionAccesses]] = {}
        accesses = self.footprints.accesses
        for node in self.regions.text:
            if node not in accesses:
                continue
            for cluster in self.clusters.of(node):
                groups = live.setdefault(cluster, {})
                self.within_an_iteration(node, groups)
                self.enter(node, cluster, groups)
            self.at_once(node)
        for region in self.regions.regions:
            if region.loop >= 0:
                self.round_a_loop(region.number, region.loop)

    def enter(self, node: int, cluster: int, groups: dict[object, _RegionAccesses]) -> None:
        """The access is the latest of its group now, and its group the latest of all."""
        region = self.regions.region_of[node]
        key = (self.footprints.class_of(node), self.signature(node), region)
        group = groups.pop(key, None)
        if group is None:
            group = _RegionAccesses(region, self.is_read[node])
            self.members.setdefault(region, []).append((cluster, group))
        group.nodes.append(node)
        group.served = set()
        group.classes = {}
        groups[key] = group

    def signature(self, node: int) -> object:
        """What beside its bytes makes an access like another."""
        action = self.flow.action(node)
        if not isinstance(action, g.Access):
            return None
        counters = tuple(each.counter for each in self.flow.point(node).issues)
        told = action.mbarrier is not None and node
        token = action.token if self.facts.tokens else ""
        atomic = (action.operator, action.fetches, action.element)
        return (action.effect, action.is_async, action.proxy, atomic, counters, told, token)

    def class_of(self, group: _RegionAccesses, second: int) -> Class:
        """Of the last access of a group, seen from a consumer."""
        crosses = self.facts.crosses(second)
        known = group.classes.get(crosses)
        if known is None:
            first = group.nodes[-1]
            known = group.classes[crosses] = _class_of(self.facts.performed(first, second), first)
        return known

    def passed_with(self, region: int, above: tuple[int, ...]) -> list[int]:
        """Regions of which every walk through them passes this one, up to the first of those above another place."""
        found = [region]
        while region not in above and self.passed[region]:
            region = self.regions.regions[region].parent
            found.append(region)
        return found

    # --- within an iteration ---

    def within_an_iteration(self, second: int, groups: dict[object, _RegionAccesses]) -> None:
        region = self.regions.region_of[second]
        above = self.up[region]
        settled: set[Class] = set()
        reads, crosses = self.is_read[second], self.facts.crosses(second)
        over: list[object] = []
        for key, group in reversed(groups.items()):
            if reads and group.reads:
                continue
            of = group.classes.get(crosses) or self.class_of(group, second)
            fence = of[2]
            if of in settled or (group.served and self.is_served(group, above, fence)):
                continue
            first = group.nodes[-1]
            if self.facts.kind(first, second) is None or not self.in_order(group.region, region, first, second):
                continue
            for hazard in self.from_meetings(first, second, -1, self.conflicts.same_iteration(first, second)):
                self.hazards.append(hazard)
                # One that may not happen may also be one that nothing can serve.
                if hazard.demand == 0 or hazard.rounds or hazard.demand < self.most or not hazard.exact:
                    continue
                behind = self.passed_with(region, self.up[group.region])
                before = self.passed_with(group.region, above)
                group.served.add((behind[-1], fence))
                self.follows.setdefault(first, set()).update((each, fence) for each in behind)
                self.precedes.setdefault((second, of), set()).update(before)
                if before[-1] in above:
                    settled.add(of)
                if behind[-1] == ROOT and not self.facts.may_cross:
                    over.append(key)
        for key in over:  # whatever comes behind is behind a consumer that every walk passes
            del groups[key]

    @staticmethod
    def is_served(group: _RegionAccesses, above: tuple[int, ...], fence: bool) -> bool:
        """Whether a consumer that every walk passes has been found behind the group's last access."""
        return any((each, fence) in group.served for each in above)

    def in_order(self, one: int, other: int, first: int, second: int) -> bool:
        """Whether a walk leads from one to the other without going round a loop. Reports arms that waves part into."""
        if one == other:
            return True
        meet, below_one, below_other = self.regions.meet(one, other)
        regions = self.regions.regions
        for each in self.up[one][: self.up[one].index(meet)]:
            if regions[each].ends:
                return False
        if below_one < 0 or below_other < 0 or below_one == below_other:
            return True
        here, there = regions[below_one], regions[below_other]
        if here.branch < 0 or here.branch != there.branch:
            return True
        if self.flow.point(self.regions.text[here.first]).under != "uniform":
            self.in_two_arms(first, second)
        return False

    def in_two_arms(self, first: int, second: int) -> None:
        for hazard in self.from_meetings(first, second, -1, self.conflicts.same_iteration(first, second)):
            if hazard.pairs & ACROSS:
                self.unplaced.append(Unplaced(hazard, "they are in two arms that different waves take at once"))

    # --- round loops ---

    def round_a_loop(self, body: int, loop: int) -> None:
        by_cluster: dict[int, list[_RegionAccesses]] = {}
        for region in sorted((body, *(each.number for each in self.regions.inside(body)))):
            for cluster, group in self.members.get(region, ()):
                by_cluster.setdefault(cluster, []).append(group)
        place = self.regions.place
        for groups in by_cluster.values():
            producers = sorted(groups, key=lambda each: -place[each.nodes[-1]])
            served: dict[tuple[int, bool], set[int]] = {}
            for consumer in sorted(groups, key=lambda each: place[each.nodes[0]]):
                self.carried_to(consumer, producers, body, loop, served)

    def carried_to(
        self,
        consumer: _RegionAccesses,
        producers: list[_RegionAccesses],
        body: int,
        loop: int,
        served: dict[tuple[int, bool], set[int]],
    ) -> None:
        """Hazards of a consumer round a loop, but for those around another one: whose producer comes to that one's
        producer in any case, or whose consumer comes behind that one's consumer. `served` are regions of consumers."""
        second = consumer.nodes[0]
        reads, crosses = consumer.reads, self.facts.crosses(second)
        settled: dict[Class, set[int]] = {}
        around = self.up[consumer.region]
        for group in producers:
            if reads and group.reads:
                continue
            first = group.nodes[-1]
            of = group.classes.get(crosses) or self.class_of(group, second)
            fence = of[2]
            if of in settled and not settled[of].isdisjoint(self.up[group.region]):
                continue
            if (first, fence) in served and not served[first, fence].isdisjoint(around):
                continue
            follows, precedes = self.follows.get(first, ()), self.precedes.get((second, of), ())
            if any((each, fence) in follows for each in self.within(body, group.region)):
                continue
            if any(each in precedes for each in self.within(body, consumer.region)):
                continue
            if self.facts.kind(first, second) is None or self.leaves(group.region, body):
                continue
            for hazard in self.round_or_out(first, second, loop):
                self.hazards.append(hazard)
                if hazard.demand < self.most or hazard.distance > 1 or hazard.rounds or not hazard.exact:
                    continue
                settled.setdefault(of, set()).update(self.passed_with(group.region, (body,)))
                served.setdefault((first, fence), set()).update(self.passed_with(consumer.region, (body,)))

    def within(self, body: int, region: int) -> tuple[int, ...]:
        """A region and those around it, up to the body of a loop."""
        return self.up[region][: self.up[region].index(body) + 1]

    def round_or_out(self, first: int, second: int, loop: int) -> Iterator[Hazard]:
        """Hazards round a loop; a consumer in an arm that ends the wave is behind the loop, not in it."""
        if loop in self.flow.loops_around(second):
            return self.from_meetings(first, second, loop, self.conflicts.carried(first, second, loop))
        return self.from_meetings(first, second, -1, self.conflicts.same_iteration(first, second))

    def leaves(self, region: int, body: int) -> bool:
        """Whether an arm on the way up to the loop's body ends the wave."""
        return any(self.regions.regions[each].ends for each in self.up[region][: self.up[region].index(body)])


class _Anywhere(_Finder):
    """Any graph: every pair of accesses that conflict, along all walks that its loops allow."""

    def find(self) -> None:
        clusters = _Clusters(self.flow.graph, self.footprints)
        by_cluster: dict[int, list[int]] = {}
        for node in self.footprints.accesses:
            for cluster in clusters.of(node):
                by_cluster.setdefault(cluster, []).append(node)
            self.at_once(node)
        seen: set[tuple[int, int]] = set()
        for nodes in by_cluster.values():
            for first in nodes:
                for second in nodes:
                    if (first, second) not in seen and self.facts.kind(first, second) is not None:
                        seen.add((first, second))
                        self.pair(first, second)

    def pair(self, first: int, second: int) -> None:
        common = [each for each in self.flow.loops_around(first) if each in self.flow.loops_around(second)]
        loops = self.flow.loops
        wild = next((each for each in common if not loops[each].reducible), -1)
        if wild < 0:
            if first != second:
                self.add(first, second, -1, self.conflicts.same_iteration(first, second))
            for loop in common:
                self.add(first, second, loop, self.conflicts.carried(first, second, loop))
            return
        for loop in common[: common.index(wild)]:
            self.add(first, second, loop, self.conflicts.carried(first, second, loop))
        # In a loop with several ways in there are no iterations to count, and loops in it may be in any of theirs:
        # every walk in it may be the one.
        met = (*self.conflicts.same_iteration(first, second), *self.conflicts.carried(first, second, wild))
        self.add(first, second, wild, [replace(each, distance=0, rounds=()) for each in met])

    def add(self, first: int, second: int, loop: int, meetings: Iterable[Meeting]) -> None:
        self.hazards += self.from_meetings(first, second, loop, meetings)


class _Clusters:
    """Buffers that may share bytes belong together. An access that may touch either of two belongs to both clusters."""

    def __init__(self, graph: g.SyncGraph, footprints: Footprints) -> None:
        self.names = {buffer.name: number for number, buffer in enumerate(graph.buffers)}
        self.leader = list(range(len(graph.buffers)))
        placed = sorted(
            (buffer.offset, buffer.offset + buffer.bytes, number)
            for number, buffer in enumerate(graph.buffers)
            if buffer.offset is not None
        )
        reach, last = -1, -1
        for start, end, number in placed:
            if last >= 0 and start < reach:
                self.join(last, number)
            if end > reach:
                reach, last = end, number
        self.touched = {
            node: tuple(dict.fromkeys(self.find(self.names[place.buffer]) for place in touch.places))
            for node, touch in footprints.accesses.items()
        }

    def find(self, number: int) -> int:
        while self.leader[number] != number:
            number = self.leader[number]
        return number

    def join(self, one: int, other: int) -> None:
        self.leader[self.find(other)] = self.find(one)

    def of(self, node: int) -> tuple[int, ...]:
        return self.touched[node]
