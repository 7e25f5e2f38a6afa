"""What searches for walks ask of a flow: the loops around each node, what happens there, what counters can tell.

Needs   a flow, its target, the stagger of its waves
Gives   `Ways`: loops, events and counts by node
Keeps   `own`, the events that stand at nodes, belongs to whoever asks: it may be taken down and put back
Cost    linear in the nodes times the depth of loops; what a counter hurries past is found once for each counter
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from tidegate.footprint.meetings import Pairs
from tidegate.graph import model as g
from tidegate.graph.flow import Flow, uniform_nodes
from tidegate.hazards.model import Hazard, Performed
from tidegate.hazards.stagger import Stagger
from tidegate.language.ops import ConditionalBarrier
from tidegate.placement.events import Commit, Event, LaneFence, events_of
from tidegate.targets import Target

NO_LOOPS: frozenset[int] = frozenset()


def find_out_of_turn(graph: g.SyncGraph, target: Target) -> set[str]:
    """Counters on which something completes out of turn: there no count above 0 says anything."""
    found = {issue.counter for point in graph.points for issue in point.issues if not issue.in_order}
    for point in graph.points:
        is_ordinary = isinstance(point.action, g.Access) and not point.action.is_async
        if is_ordinary and not target.lds.in_order:
            found |= {issue.counter for issue in point.issues}
    return found


class Ways:
    """One flow, as walks go through it. `own` are the events at its nodes."""

    def __init__(self, flow: Flow, target: Target, stagger: Stagger | None = None) -> None:
        self.flow, self.target = flow, target
        self.stagger = stagger or Stagger(flow)
        self.around: list[frozenset[int]] = []
        for number, loop in enumerate(flow.loops):
            self.around.append((self.around[loop.parent] if loop.parent >= 0 else frozenset()) | {number})
        self.loops_at = [self.around[loop] if loop >= 0 else NO_LOOPS for loop in flow.loop_of]
        self.head_of = {loop.head: number for number, loop in enumerate(flow.loops)}
        self.own: dict[int, tuple[Event, ...]] = {}
        self.halves: list[int] = []  # nodes where half of the waves arrives
        self.nodes: dict[int, list[int]] = {}  # of each point
        for node, point in enumerate(flow.origin):
            self.nodes.setdefault(point, []).append(node)
        self.uniform = uniform_nodes(flow)
        for node in range(len(flow.origin)):
            action = flow.action(node)
            if isinstance(action, g.Sync) and (events := events_of(action.op)):
                if events == (LaneFence(),) and flow.point(node).under == "divergent":
                    continue  # not all lanes come to it
                self.own[node] = events
            if isinstance(action, g.Sync) and isinstance(action.op, ConditionalBarrier):
                self.halves.append(node)
        self.tested = {number for number in range(len(flow.loops)) if self._tested(number)}
        self.entered = {number for number in self.tested if flow.loops[number].least >= 1}
        self.caps = self._caps()
        self.hurried: dict[str, list[int]] = {}
        self.further: dict[str, dict[int, int]] = {}

    def need(self, pairs: Pairs, node: int) -> int:
        """Barriers that a producer which is performed at a node needs before a consumer in another wave."""
        return self.stagger.demand(pairs, node) if self.stagger.matters else 1

    def loops_around(self, node: int) -> frozenset[int]:
        return self.loops_at[node]

    def _tested(self, number: int) -> bool:
        """Whether a loop is left from its head."""
        head = self.flow.loops[number].head
        return any(number not in self.loops_around(each) for each in self.flow.successors[head])

    def _caps(self) -> dict[str, int]:
        """By counter, the largest count that says anything; nothing does where accesses complete out of turn."""
        out_of_turn = find_out_of_turn(self.flow.graph, self.target)
        return {
            name: counter.largest
            for name, counter in self.target.counters.items()
            if counter.in_order and name not in out_of_turn
        }

    def follows(self, counter: str) -> list[int]:
        """For each node at which nothing but events happens, the next one: one edge, in the same loop; else -1.

        `counter`: on which instructions are counted, if they are.
        """
        if counter not in self.hurried:
            self.hurried[counter] = [self._next(node, counter) for node in range(len(self.flow.origin))]
        return self.hurried[counter]

    def _next(self, node: int, counter: str) -> int:
        following = self.flow.successors[node]
        if len(following) != 1 or node in self.head_of or following[0] in self.head_of:
            return -1
        same = self.flow.loop_of[node] == self.flow.loop_of[following[0]]
        counts = counter and self.issued_at(node, counter)
        return following[0] if same and not counts else -1

    def counted_on(self, performed: Performed) -> tuple[str, str]:
        """The counter that tells when a producer is performed, and what it counts; empty if there is none."""
        counters = self.target.counters
        name = next((each for each in performed.counters if each in counters), "")
        return name, counters[name].unit if name else ""

    def count_for(self, hazard: Hazard, younger: int) -> tuple[str, int] | None:
        """The largest count that waits for a copy where so much is younger than it; None if no count does."""
        name, unit = self.counted_on(hazard.performed)
        if not (hazard.performed.is_async and hazard.performed.drainable and name):
            return None
        count = min(younger - (unit == "groups"), self.caps.get(name, 0))
        return (name, count) if count >= 0 else None

    def most_younger(self, name: str) -> int:
        """How many younger ones make a difference."""
        counter = self.target.counters.get(name)
        return self.caps.get(name, 0) + (counter is not None and counter.unit == "groups")

    def younger_on(self, hazard: Hazard, nodes: Sequence[int]) -> tuple[int, ...]:
        """Before each node of a walk, what is younger than the producer, whatever has performed it by then."""
        name, _ = self.counted_on(hazard.performed)
        most, found, younger, further = self.most_younger(name), [], 0, self.further_trips(hazard)
        last = -1
        for node in nodes:
            if last in further and self.head_of[last] not in self.loops_at[node]:
                younger += further[last]
            younger = min(most, younger)
            found.append(younger)
            younger += self.younger_at(node, name)
            last = node
        return tuple(found)

    def further_trips(self, hazard: Hazard) -> dict[int, int]:
        """By head, of loops that lie between the ends of a hazard: what their trips but one are certain to count.

        A walk goes through such a loop once, though it may run for longer: whatever else happens in the other trips
        serves the hazard all the more.
        """
        name, _ = self.counted_on(hazard.performed)
        own = self.loops_at[hazard.producer] | self.loops_at[hazard.consumer]
        trips = ((loop, count) for loop, count in self.least_trips(name).items() if loop not in own)
        return {self.flow.loops[loop].head: (self.flow.loops[loop].least - 1) * count for loop, count in trips}

    def least_trips(self, counter: str) -> dict[int, int]:
        """By loop, if it runs more than once for certain, the least that one trip counts, if it counts anything."""
        if counter not in self.further:
            found: dict[int, int] = {}
            several = (each for each in self.entered if counter and self.flow.loops[each].least > 1)
            for loop in sorted(several, key=lambda each: -len(self.around[each])):  # inner loops first
                if least := self._least_trip(loop, counter, found):
                    found[loop] = least
            self.further[counter] = found
        return self.further[counter]

    def _least_trip(self, loop: int, counter: str, inner: Mapping[int, int]) -> int:
        head, best, queue = self.flow.loops[loop].head, dict[int, int](), [(0, self.flow.loops[loop].head)]
        while queue:
            younger, node = heappop(queue)
            here = self.head_of.get(node, -1)
            whole = here != loop and here in inner  # all its trips at once
            there = younger + self.younger_at(node, counter)
            there += inner[here] * self.flow.loops[here].least if whole else 0
            for after in self.flow.successors[node]:
                if loop not in self.loops_at[after] or (whole and here in self.loops_at[after]):
                    continue
                if there < best.get(after, there + 1):
                    best[after] = there
                    if after != head:
                        heappush(queue, (there, after))
        return best.get(head, 0)

    def younger_at(self, node: int, counter: str) -> int:
        """What counts on a counter at a node: instructions that are certain, or groups that are closed."""
        known = self.target.counters.get(counter)
        if known is not None and known.unit == "groups":
            return sum(isinstance(each, Commit) for each in self.own.get(node, ()))
        return self.issued_at(node, counter) if known is not None else 0

    def issued_at(self, node: int, counter: str) -> int:
        """Instructions at a node that are certain to count on a counter."""
        return sum(issue.least for issue in self.flow.point(node).issues if issue.counter == counter)
