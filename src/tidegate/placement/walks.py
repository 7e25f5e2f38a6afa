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
from typing import NamedTuple

from tidegate.footprint.meetings import Pairs
from tidegate.graph import model as g
from tidegate.graph.flow import Flow, uniform_nodes
from tidegate.hazards.model import Hazard, Performed
from tidegate.hazards.stagger import Stagger
from tidegate.language.ops import ConditionalBarrier
from tidegate.placement.events import Arrive, Barrier, Commit, Depart, Drain, Event, Fence, events_of
from tidegate.targets import Target

Before = Mapping[int, Sequence[Event]]  # node → events before it
NOTHING: Before = {}
NO_LOOPS: frozenset[int] = frozenset()
MOST_WAITS = 32  # on the ways of one hazard that are tried without; beyond, earlier ones are named than need be


class State(NamedTuple):
    """What has become of a producer on a walk. A tuple, since searches make and compare thousands."""

    performed: bool
    fenced: bool
    arrived: tuple[Barrier, ...]  # barriers signalled since it was performed, and not waited for
    met: int
    own: bool  # whether its wave is certainly still on its own way
    again: bool  # whether the walk has come past the producer again
    need: int  # barriers to be met, once it is performed
    younger: int  # instructions on its counter since, or groups closed; as many as a count can ask for


# Where a walk is: node, how often round which loop, and its state without what is younger; and how it came there.
Key = tuple[int, tuple[int, ...], tuple[object, ...]]
At = tuple[int, tuple[int, ...]]  # a node, and how often round which loop the way to it went
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


class Walks:
    """Answers for one flow. `own` are the events at its nodes."""

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
                self.own[node] = events
            if isinstance(action, g.Sync) and isinstance(action.op, ConditionalBarrier):
                self.halves.append(node)
        self.tested = {number for number in range(len(flow.loops)) if self._tested(number)}
        self.entered = {number for number in self.tested if flow.loops[number].least >= 1}
        self.caps = self._caps()
        # While `own` stays as it is, what it alone does for a hazard is asked again and again.
        self.remembers = False
        self.mattering: dict[tuple[object, ...], dict[int, tuple[Event, ...]]] = {}
        self.asked: dict[tuple[object, ...], Walk | None] = {}
        self.hurried: dict[str, list[int]] = {}

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
        out_of_turn = {
            issue.counter for point in self.flow.graph.points for issue in point.issues if not issue.in_order
        }
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

    # --- asking ---

    def unserved(self, hazard: Hazard, before: Before = NOTHING, *, drained: bool = False) -> Walk | None:
        """A walk on which the hazard is not served. `drained`: every barrier is taken to perform what it has to."""
        if before or not self.remembers:
            return _Search(self, hazard, before, drained).run()
        key = _asked(hazard, drained)
        if key not in self.asked:
            self.asked[key] = _Search(self, hazard, before, drained).run()
        return self.asked[key]

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

    def younger_on(self, hazard: Hazard, nodes: Sequence[int]) -> tuple[int, ...]:
        """Before each node of a walk, what is younger than the producer, whatever has performed it by then."""
        name, unit = self.counted_on(hazard.performed)
        most, found, younger = self.most_younger(name), [], 0
        for node in nodes:
            found.append(younger)
            if unit == "groups":
                younger += sum(isinstance(each, Commit) for each in self.own.get(node, ()))
            elif unit == "instructions":
                younger += self.issued_at(node, name)
            younger = min(most, younger)
        return tuple(found)

    def issued_at(self, node: int, counter: str) -> int:
        """Instructions at a node that are certain to count on a counter."""
        return sum(issue.least for issue in self.flow.point(node).issues if issue.counter == counter)


def _asked(hazard: Hazard, drained: bool) -> tuple[object, ...]:
    """What a search depends on beside events."""
    what = hazard.performed
    way = (hazard.producer, hazard.consumer, hazard.loop, hazard.distance, hazard.rounds)
    return (way, hazard.demand, hazard.pairs.value, _performed(what), drained and not what.is_waited_for)


def _performed(what: Performed) -> tuple[object, ...]:
    """How a producer is performed, whoever waits for it."""
    return (what.is_async, what.counters, what.token, what.drainable, what.by_arrival, what.needs_fence)


class _Search:
    def __init__(
        self, walks: Walks, hazard: Hazard, before: Before, drained: bool, off: frozenset[At] = frozenset()
    ) -> None:
        self.off = off  # where drains perform nothing
        self.via: dict[Key, int] = {}  # the first node on the way to where a walk is
        self.served_at: set[int] = set()
        self.performed_at: set[At] = set()  # where drains perform the producer
        self.walks, self.hazard, self.before = walks, hazard, before
        self.drained = drained and not hazard.performed.is_waited_for
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
        self.counter, self.unit = walks.counted_on(hazard.performed)
        self.most = walks.most_younger(self.counter)
        self.follows = walks.follows("" if self.drained or self.unit != "instructions" else self.counter)
        self.own = self.known_events() if walks.remembers else walks.own

    def known_events(self) -> dict[int, tuple[Event, ...]]:
        """What stands in the program and can matter to the hazard, by node."""
        known, key = self.walks.mattering, (_performed(self.hazard.performed), self.drained)
        if key not in known:
            kept = ((node, tuple(filter(self.can_matter, events))) for node, events in self.walks.own.items())
            known[key] = {node: events for node, events in kept if events}
        return known[key]

    def can_matter(self, event: Event) -> bool:
        """Whether an event can change the state of any walk."""
        if isinstance(event, Arrive | Depart) or self.drained:
            return isinstance(event, Arrive | Depart)
        if isinstance(event, Drain):
            return self.performs(event, State(False, True, (), 0, False, False, 0, self.most))
        if isinstance(event, Fence):
            return self.hazard.performed.needs_fence or not self.hazard.performed.is_async
        return self.unit == "groups"

    def _to_leave(self, loop: int) -> int:
        """Who leaves a loop that is tested at its head has gone back there once more than it has iterations left."""
        holds = [loop in self.walks.loops_at[node] for node in (self.hazard.producer, self.hazard.consumer)]
        return int(holds == [True, False] and loop in self.walks.tested)

    def run(self) -> Walk | None:
        return next(self.unserved(), None)

    def unserved(self) -> Iterator[Walk]:
        """Walks on which the hazard is not served, until all states of walks have been seen."""
        hazard = self.hazard
        fenced = self.drained or not hazard.performed.needs_fence
        start = State(False, fenced, (), 0, not self.walks.uniform[hazard.producer], False, hazard.demand, 0)
        if self.drained:
            start = self.perform(start, hazard.producer)
        if self.accepts(start):
            return
        origin: Key = (hazard.producer, (0,) * len(self.counted), start[:-1])
        came: Came = {origin: (0, None)}
        levels: list[deque[tuple[Key, State]]] = [deque([(origin, start)])]
        consumer, before, own = hazard.consumer, self.before, self.own
        for level in levels:  # more are added on the way
            while level:
                here, state = level.popleft()
                if came[here][0] < state.younger:
                    continue
                for first, successor, there, rounds in self.steps(here, state.own):
                    moved: State | None = state
                    if successor in before:
                        moved = self.pass_events(state, before[successor], successor, rounds)
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

    # --- what events do ---

    def accepts(self, state: State) -> bool:
        return state.performed and state.met >= state.need and state.fenced

    def perform(self, state: State, node: int) -> State:
        """Where waves are staggered, what is needed depends on where the producer is performed.

        A barrier that is only taken to drain will do so somewhere on the way: then the place of the consumer decides.
        """
        need = self.hazard.demand
        if need and not self.drained:
            need = min(need, self.walks.need(self.hazard.pairs, node))
        return _changed(state, performed=True, need=need)

    def pass_node(self, state: State, node: int, events: Sequence[Event], rounds: tuple[int, ...]) -> State | None:
        if state.own and self.walks.uniform[node]:
            state = _changed(state, own=False)
        moved = self.pass_events(state, events, node, rounds) if events else state
        if moved is None or moved.performed or self.drained:
            return moved
        if node == self.hazard.producer and not moved.again:
            moved = _changed(moved, again=True)
        if self.unit != "instructions":
            return moved
        return self.with_younger(moved, self.walks.issued_at(node, self.counter))

    def with_younger(self, state: State, more: int) -> State:
        younger = min(self.most, state.younger + more)
        return state if younger == state.younger else _changed(state, younger=younger)

    def pass_events(self, state: State, events: Sequence[Event], node: int, rounds: tuple[int, ...]) -> State | None:
        """The state after some events; None if the hazard is served."""
        all_pass = self.walks.uniform[node]
        for event in events:
            now = self.pass_event(state, event, all_pass, (node, rounds))
            if now is not state:
                state = now
                if self.accepts(state):
                    return None
        return state

    def pass_event(self, state: State, event: Event, all_pass: bool, at: At) -> State:
        """The state after an event, the same object if that changes nothing."""
        if isinstance(event, Arrive):
            if not state.performed and self.hazard.performed.by_arrival and self.counts_here(state, all_pass):
                state = self.perform(state, at[0])
            if all_pass and state.performed and event.barrier not in state.arrived:
                state = _changed(state, arrived=(*state.arrived, event.barrier))
        elif isinstance(event, Depart):
            if all_pass and event.barrier in state.arrived:
                rest = tuple(each for each in state.arrived if each != event.barrier)
                state = _changed(state, arrived=rest, met=min(state.met + 1, state.need))
        elif isinstance(event, Drain):
            counts = not state.performed and self.counts_here(state, all_pass) and at not in self.off
            if counts and self.performs(event, state):
                self.performed_at.add(at)
                state = self.perform(state, at[0])
        elif isinstance(event, Fence):
            state = self.pass_fence(state, event.proxy, all_pass, at[0])
        elif self.unit == "groups" and not state.performed:
            state = self.with_younger(state, 1)
        return state

    def counts_here(self, state: State, all_pass: bool) -> bool:
        return all_pass or state.own or self.hazard.demand == 0

    def pass_fence(self, state: State, proxy: bool, all_pass: bool, node: int) -> State:
        counts = self.counts_here(state, all_pass)
        if counts and not state.performed and not self.hazard.performed.is_async:
            state = self.perform(state, node)
        # The producer's wave fences before it arrives; the consumer's when it has met all that it has to.
        at_first = counts and not state.met and not state.arrived
        if proxy and state.performed and (at_first or state.met >= state.need) and not state.fenced:
            state = _changed(state, fenced=True)
        return state

    def performs(self, drain: Drain, state: State) -> bool:
        """Whether a drain is certain to perform the producer."""
        what = self.hazard.performed
        if what.is_async and not what.drainable:
            return False
        if drain.copies and what.is_async:
            return True
        if drain.ordinary and not what.is_async:
            return True
        if drain.ordinary and any(each in self.walks.target.lds_counters for each in what.counters):
            return True
        if what.token and what.token in drain.tokens and not state.again:
            return True
        return any(name in what.counters and self.old_enough(name, count, state) for name, count in drain.counts)

    def old_enough(self, name: str, count: int, state: State) -> bool:
        if name not in self.walks.target.counters or count > self.walks.caps.get(name, 0):
            return False
        if name != self.counter:
            return count == 0 and self.walks.target.counters[name].unit != "groups"
        return state.younger > count if self.unit == "groups" else state.younger >= count

    def trace(self, came: Came, last: Key, first: int, state: State) -> Walk:
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


def _changed(
    state: State,
    performed: bool | None = None,
    arrived: tuple[Barrier, ...] | None = None,
    met: int | None = None,
    own: bool | None = None,
    again: bool | None = None,
    need: int | None = None,
    younger: int | None = None,
    fenced: bool | None = None,
) -> State:
    """As `_replace`, which takes twice as long."""
    return State(
        state.performed if performed is None else performed,
        state.fenced if fenced is None else fenced,
        state.arrived if arrived is None else arrived,
        state.met if met is None else met,
        state.own if own is None else own,
        state.again if again is None else again,
        state.need if need is None else need,
        state.younger if younger is None else younger,
    )
