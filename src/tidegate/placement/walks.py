"""Is a hazard served on every walk from its producer to its consumer? If not, on which walk is it not?

Needs   a flow, a hazard, and events that stand in the program or before its nodes
Gives   a walk on which the hazard is not served, or None
Keeps   exact for the walks that a hazard means: `distance` times round its loop, loops that run at least once entered;
        a drain or a fence that not all waves pass counts only for the wave that is still on its own way
Cost    the nodes that can be reached before the hazard is served, times the states of a walk: performed or not, arrived
        where, how often; the search ends there. Of walks that differ in nothing but how much is younger than the
        producer, the one with the least is followed: what performs the producer on that one does so on all

A walk is served when its producer has been performed and then so many barriers have been met as the hazard demands. At
a split pair that is: performed before the signal, and the wait behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidegate.graph.flow import Flow
from tidegate.hazards.model import Hazard, Performed
from tidegate.hazards.stagger import Stagger
from tidegate.placement.events import Event
from tidegate.placement.states import At, Producer, ProducerState
from tidegate.placement.ways import Ways
from tidegate.targets import Target

Before = Mapping[int, Sequence[Event]]  # node → events before it
NOTHING: Before = {}
MOST_WAITS = 32  # on the ways of one hazard that are tried without; beyond, earlier ones are named than need be


# Where a walk is: node, how often round which loop, and its state without what is younger; and how it came there.
Key = tuple[int, tuple[int, ...], tuple[object, ...]]
# How often round which loops, exactly or at least; loops not gone round; the loop that is not left.
Way = tuple[tuple[tuple[int, int, bool], ...], frozenset[int], int]
Came = dict[Key, tuple[int, "Key | None"]]


@dataclass(frozen=True, slots=True)
class Walk:
    """Nodes after the producer up to the consumer, and how many barriers were met. Only from place `since` on a barrier
    before a node helps: there the producer is performed. `ready`: it lacks nothing but barriers at the end."""

    nodes: tuple[int, ...]
    met: int
    since: int
    ready: bool

    def where_it_helps(self, hazard: Hazard) -> tuple[int, ...]:
        """The nodes before which a barrier helps. Who drains by itself does so anywhere."""
        return self.nodes[self.since :] if hazard.performed.is_waited_for else self.nodes


class Walks(Ways):
    """Answers for one flow."""

    def __init__(self, flow: Flow, target: Target, stagger: Stagger | None = None) -> None:
        super().__init__(flow, target, stagger)
        # While `own` stays as it is, what it alone does for a hazard is asked again and again.
        self.remembers = False
        self.mattering: dict[tuple[object, ...], dict[int, tuple[Event, ...]]] = {}
        self.asked: dict[tuple[object, ...], Walk | None] = {}

    def unserved(self, hazard: Hazard, before: Before = NOTHING, *, drained: bool = False) -> Walk | None:
        """A walk on which the hazard is not served. `drained`: every barrier is taken to perform what it has to."""
        if before or not self.remembers:
            return _Search(self, hazard, before, drained).run()
        key = _asked(hazard, drained)
        if key not in self.asked:
            self.asked[key] = _Search(self, hazard, before, drained).run()
        return self.asked[key]

    def all_unserved(self, hazard: Hazard, before: Before) -> Iterator[Walk]:
        """Walks on which the hazard is not served, one for each state in which walks come to the consumer."""
        return _Search(self, hazard, before, False).unserved()

    def lacks_barriers_alone(self, hazard: Hazard) -> bool:
        """Whether what stands in the program does not serve a hazard, but performs its producer on all those walks, and
        fences it where that has to be. Barriers right before the consumer would serve it, then."""
        first: Walk | None = None
        ready = False
        for walk in _Search(self, hazard, NOTHING, False).unserved():
            first, ready = first or walk, walk.ready
            if not ready:
                break
        if self.remembers:
            self.asked[_asked(hazard, False)] = first
        return ready

    def served_at(self, hazard: Hazard, before: Before = NOTHING, *, drained: bool = False) -> frozenset[int] | Walk:
        """The nodes at or before which walks become served; or a walk that does not."""
        search = _Search(self, hazard, before, drained)
        return search.run() or frozenset(search.served_at)

    def support(self, hazard: Hazard, before: Before) -> frozenset[int] | None:
        """The nodes with something before them that the search comes to, every barrier drained: the others make no
        difference to the hazard. None if it is not served."""
        search = _Search(self, hazard, before, True)
        return None if search.run() is not None else frozenset(search.stops)

    def waited_for(self, hazard: Hazard) -> Iterator[tuple[int, Way]]:
        """Nodes whose drains a copy needs to be performed in time, with the ways from it to there.

        Of several that would do, the last on the way is taken.
        """
        search = _Search(self, hazard, NOTHING, False)
        if search.run() is not None:
            return
        off: frozenset[At] = frozenset()
        tried: set[At] = set()
        while len(tried) < MOST_WAITS:
            left = sorted(search.performed_at - tried, key=lambda each: (sum(each[1]), each))
            if not left:
                break
            tried.add(left[0])
            without = _Search(self, hazard, NOTHING, False, off | {left[0]})
            if without.run() is None:
                off, search = off | {left[0]}, without
        exact = [loop == hazard.loop for loop in search.counted]
        for node, rounds in sorted(search.performed_at):
            yield node, (tuple(zip(search.counted, rounds, exact, strict=True)), search.frozen, search.bound)

    def is_served(self, hazard: Hazard, before: Before = NOTHING, *, drained: bool = False) -> bool:
        return self.unserved(hazard, before, drained=drained) is None


def _asked(hazard: Hazard, drained: bool) -> tuple[object, ...]:
    """What a search depends on beside events."""
    what = hazard.performed
    way = (hazard.producer, hazard.consumer, hazard.loop, hazard.distance, hazard.rounds)
    return (way, hazard.demand, hazard.pairs.value, _performed(what), drained and not what.is_waited_for)


def _performed(what: Performed) -> tuple[object, ...]:
    """How a producer is performed, whoever waits for it."""
    how = (what.is_async, what.counters, what.token, what.drainable, what.by_arrival)
    return (*how, what.needs_fence, what.in_turn, what.in_one_lane)


class _Search(Producer):
    def __init__(
        self, walks: Walks, hazard: Hazard, before: Before, drained: bool, off: frozenset[At] = frozenset()
    ) -> None:
        super().__init__(walks, hazard, drained, off)
        self.walks: Walks = walks
        self.before = before
        self.via: dict[Key, int] = {}  # the first node on the way to where a walk is
        self.served_at: set[int] = set()
        self.stops: set[int] = set()  # nodes with something before them
        self.flow = walks.flow
        common = walks.loops_at[hazard.producer] & walks.loops_at[hazard.consumer]
        if hazard.loop < 0:  # never round a loop that holds both
            self.frozen, self.bound = common, max(common, key=lambda each: len(walks.around[each]), default=-1)
        else:
            self.frozen, self.bound = common & walks.around[hazard.loop] - {hazard.loop}, hazard.loop
        self.rounds = {loop: count + self._to_leave(loop) for loop, count in hazard.rounds}
        if hazard.loop >= 0 and hazard.distance:
            self.rounds[hazard.loop] = hazard.distance
        self.counted = tuple(self.rounds)
        self.follows = walks.follows("" if self.drained or self.unit != "instructions" else self.counter)
        self.own = self.known_events() if walks.remembers else walks.own

    def known_events(self) -> dict[int, tuple[Event, ...]]:
        """What stands in the program and can matter to the hazard, by node."""
        known, key = self.walks.mattering, (_performed(self.hazard.performed), self.drained, self.between_lanes)
        if key not in known:
            kept = ((node, tuple(filter(self.can_matter, events))) for node, events in self.walks.own.items())
            known[key] = {node: events for node, events in kept if events}
        return known[key]

    def _to_leave(self, loop: int) -> int:
        """Who leaves a loop that is tested at its head has gone back there once more than it has iterations left."""
        holds = [loop in self.walks.loops_at[node] for node in (self.hazard.producer, self.hazard.consumer)]
        return int(holds == [True, False] and loop in self.walks.tested)

    def run(self) -> Walk | None:
        return next(self.unserved(), None)

    def unserved(self) -> Iterator[Walk]:
        """Walks on which the hazard is not served, until all states of walks have been seen."""
        hazard, start = self.hazard, self.start()
        if self.accepts(start):
            return
        origin: Key = (hazard.producer, (0,) * len(self.counted), start[:-1])
        came: Came = {origin: (0, None)}
        levels: list[deque[tuple[Key, ProducerState]]] = [deque([(origin, start)])]
        consumer, before, own = hazard.consumer, self.before, self.own
        further = {} if self.drained else self.walks.further_trips(hazard)
        for level in levels:  # more are added on the way
            while level:
                here, state = level.popleft()
                if came[here][0] < state.younger:
                    continue
                for first, successor, there, rounds in self.steps(here, state.own):
                    moved: ProducerState | None = state
                    if here[0] in further and self.walks.head_of[here[0]] not in self.walks.loops_at[first]:
                        moved = self.with_younger(state, further[here[0]])
                    if moved is not None and successor in before:
                        self.stops.add(successor)
                        moved = self.pass_events(moved, before[successor], successor, rounds)
                    if moved is not None and successor == consumer and self.far_enough(rounds):
                        yield self.trace(came, here, first, moved)
                        continue
                    if moved is not None:
                        moved = self.pass_node(moved, successor, own.get(successor, ()), rounds)
                    if moved is None:
                        self.served_at.add(successor)
                        continue
                    younger = moved.younger
                    key: Key = (there, rounds, moved[:-1])
                    known = came.get(key)
                    if known is None or younger < known[0]:
                        came[key] = (younger, here)
                        self.via[key] = first
                        while len(levels) <= younger:
                            levels.append(deque())
                        levels[younger].append((key, moved))

    # --- where a walk goes ---

    def steps(self, here: Key, own: bool) -> Iterator[tuple[int, int, int, tuple[int, ...]]]:
        """The ways on: over which node to which one at which anything happens, where that is, and the rounds then."""
        node, rounds, _ = here
        walks, count = self.walks, len(self.flow.origin)
        fresh = node - count if node >= count else -1  # the loop that has been entered, and runs at least once
        real = self.flow.loops[fresh].head if fresh >= 0 else node
        for first in self.flow.successors[real]:
            around = walks.loops_at[first]
            if (fresh >= 0 and fresh not in around) or (self.bound >= 0 and self.bound not in around):
                continue
            if first in walks.head_of:
                after = self.enter(real, first, rounds)
                if after is not None:
                    yield first, first, *after
            else:
                successor = first if own else self.hurry(first)
                yield first, successor, successor, rounds

    def hurry(self, node: int) -> int:
        """The next node from here on at which anything happens."""
        follows, own, before = self.follows, self.own, self.before
        consumer, producer = self.hazard.consumer, self.hazard.producer
        while (
            (after := follows[node]) >= 0
            and node not in own
            and node not in before
            and node != consumer
            and node != producer
        ):
            node = after
        return node

    def enter(self, node: int, head: int, rounds: tuple[int, ...]) -> tuple[int, tuple[int, ...]] | None:
        """Where an edge to a head leads, and how often it has been round which loop; None if no walk goes there."""
        walks = self.walks
        loop = walks.head_of[head]
        if loop in walks.loops_at[node]:
            if loop in self.frozen:
                return None
            return self.turn(head, loop, rounds) if loop in self.rounds else (head, rounds)
        return (len(self.flow.origin) + loop if loop in walks.entered else head), rounds

    def turn(self, head: int, loop: int, rounds: tuple[int, ...]) -> tuple[int, tuple[int, ...]] | None:
        place = self.counted.index(loop)
        if rounds[place] < self.rounds[loop]:
            return head, (*rounds[:place], rounds[place] + 1, *rounds[place + 1 :])
        return None if loop == self.hazard.loop else (head, rounds)

    def far_enough(self, rounds: tuple[int, ...]) -> bool:
        return all(count >= self.rounds[loop] for count, loop in zip(rounds, self.counted, strict=True))

    def trace(self, came: Came, last: Key, first: int, state: ProducerState) -> Walk:
        """The walk that ends at the consumer, from `last` on by way of `first`."""
        nodes: list[int] = []
        here: Key | None = last
        target, hop = self.hazard.consumer, first
        count = len(self.flow.origin)
        late = 0  # nodes at the end before which the producer is performed
        while here is not None:
            between = [hop]
            while between[-1] != target:
                between.append(self.flow.successors[between[-1]][0])
            nodes += reversed(between)
            late += bool(here[2][0]) * len(between)
            target, hop = self.flow.loops[here[0] - count].head if here[0] >= count else here[0], self.via.get(here, -1)
            here = came[here][1]
        nodes.reverse()
        return Walk(tuple(nodes), state.met, len(nodes) - late, state.performed and state.fenced)
