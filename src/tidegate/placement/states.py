"""What becomes of a producer on a walk: the state that each event leaves it in.

Needs   a hazard, and the ways of its flow
Gives   `Producer`: the state after an event, or None once the hazard is served
Keeps   a drain or a fence that not all waves pass counts only for the wave that is still on its own way. What changes
        nothing gives the same object back
Cost    the events of a node, each in constant time but for the counters that it names
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidegate.hazards.model import Hazard
from tidegate.placement.events import Arrive, Barrier, Depart, Drain, Event, LaneFence, ProxyFence
from tidegate.placement.ways import Ways

At = tuple[int, tuple[int, ...]]  # a node, and how often round which loop the way to it went


class ProducerState(NamedTuple):
    """What has become of a producer on a walk. A tuple, since searches make and compare thousands."""

    performed: bool
    fenced: bool
    arrived: tuple[Barrier, ...]  # barriers signalled since it was performed, and not waited for
    met: int
    own: bool  # whether its wave is certainly still on its own way
    again: bool  # whether the walk has come past the producer again
    need: int  # barriers to be met, once it is performed; between lanes, whatever makes these meet
    younger: int  # instructions on its counter since, or groups closed; as many as a count can ask for


class Producer:
    """One hazard's producer. `drained`: every barrier is taken to perform what it has to. `off`: where drains perform
    nothing."""

    def __init__(self, walks: Ways, hazard: Hazard, drained: bool, off: frozenset[At]) -> None:
        self.walks, self.hazard, self.off = walks, hazard, off
        self.drained = drained and not hazard.performed.is_waited_for
        self.performed_at: set[At] = set()  # where drains perform the producer
        self.counter, self.unit = walks.counted_on(hazard.performed)
        self.most = walks.most_younger(self.counter)
        fence = walks.target.fence
        self.between_lanes = hazard.demand == 0
        self.places_matter = self.drained and hazard.demand > 1
        self.lanes_to_meet = int(not hazard.performed.in_one_lane)
        self.fence_performs = fence.wave_performs == "ordinary" and not hazard.performed.is_async

    def start(self) -> ProducerState:
        """Right behind the producer."""
        performed, demand = self.hazard.performed, self.hazard.demand or self.lanes_to_meet
        fenced = self.drained or not performed.needs_fence
        in_turn = self.between_lanes and performed.in_turn
        own = not self.walks.uniform[self.hazard.producer]
        state = ProducerState(in_turn, fenced, (), 0, own, False, demand, 0)
        return self.perform(state, self.hazard.producer) if self.drained else state

    def can_matter(self, event: Event) -> bool:
        """Whether an event can change the state of any walk."""
        if isinstance(event, Arrive | Depart) or self.drained:
            return isinstance(event, Arrive | Depart)
        if isinstance(event, Drain):
            meets = self.between_lanes and self.lanes_wait(event, lands=True)
            return meets or self.performs(event, ProducerState(False, True, (), 0, False, False, 0, self.most))
        if isinstance(event, LaneFence):
            return self.between_lanes
        if isinstance(event, ProxyFence):
            return self.hazard.performed.needs_fence or not self.hazard.performed.is_async
        return self.unit == "groups"

    def accepts(self, state: ProducerState) -> bool:
        return state.performed and state.met >= state.need and state.fenced

    def perform(self, state: ProducerState, node: int) -> ProducerState:
        """Where waves are staggered, what is needed depends on where the producer is performed.

        A barrier that is only taken to drain will do so somewhere on the way: then the place of the consumer decides,
        or that of the first arrival (`at_first_arrival`).
        """
        need = self.hazard.demand
        if self.between_lanes:
            need = self.lanes_to_meet
        elif not self.drained:
            need = min(need, self.walks.need(self.hazard.pairs, node))
        return _changed(state, performed=True, need=need)

    def pass_node(
        self, state: ProducerState, node: int, events: Sequence[Event], rounds: tuple[int, ...]
    ) -> ProducerState | None:
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

    def with_younger(self, state: ProducerState, more: int) -> ProducerState:
        younger = min(self.most, state.younger + more)
        return state if younger == state.younger else _changed(state, younger=younger)

    def pass_events(
        self, state: ProducerState, events: Sequence[Event], node: int, rounds: tuple[int, ...]
    ) -> ProducerState | None:
        """The state after some events; None if the hazard is served."""
        all_pass = self.walks.uniform[node]
        for event in events:
            now = self.pass_event(state, event, all_pass, (node, rounds))
            if now is not state:
                state = now
                if self.accepts(state):
                    return None
        return state

    def pass_event(self, state: ProducerState, event: Event, all_pass: bool, at: At) -> ProducerState:
        """The state after an event, the same object if that changes nothing."""
        if isinstance(event, Arrive):
            if self.places_matter and all_pass and not state.met and not state.arrived:
                state = self.at_first_arrival(state, at[0])
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
            lands = counts and self.performs(event, state)
            if lands:
                self.performed_at.add(at)
                state = self.perform(state, at[0])
            # In a divergent region some lanes do not come to the wait.
            if self.lanes_wait(event, lands=lands) and self.walks.flow.point(at[0]).under != "divergent":
                state = self.meet_lanes(state)
        elif isinstance(event, ProxyFence):
            state = self.pass_proxy_fence(state, all_pass, at[0])
        elif isinstance(event, LaneFence):
            if self.between_lanes and self.fence_performs and not state.performed:
                state = self.perform(state, at[0])
            state = self.meet_lanes(state)
        elif self.unit == "groups" and not state.performed:
            state = self.with_younger(state, 1)
        return state

    def lanes_wait(self, event: Drain, *, lands: bool) -> bool:
        """Whether the lanes of a wave meet at a wait. `lands`: it is for the producer, and is there for that.

        One for other copies by their names may become no instruction.
        """
        counters = self.walks.target.counters
        held = any(name in counters and count <= counters[name].largest for name, count in event.counts)
        return self.walks.target.fence.waits and (held or (lands and bool(event.tokens)))

    def at_first_arrival(self, state: ProducerState, node: int) -> ProducerState:
        """The first barrier behind a producer drains it. Where it stands before a stagger opens, nobody is held back
        yet, and it needs no second one behind."""
        need = min(self.hazard.demand, self.walks.need(self.hazard.pairs, node))
        return state if need == state.need else _changed(state, need=need)

    def meet_lanes(self, state: ProducerState) -> ProducerState:
        """Lanes of one wave meet, whichever way the wave has come."""
        return _changed(state, met=1) if self.between_lanes and state.performed and not state.met else state

    def counts_here(self, state: ProducerState, all_pass: bool) -> bool:
        return all_pass or state.own or self.between_lanes

    def pass_proxy_fence(self, state: ProducerState, all_pass: bool, node: int) -> ProducerState:
        counts = self.counts_here(state, all_pass)
        if counts and not state.performed and not self.hazard.performed.is_async:
            state = self.perform(state, node)
        # The producer's wave fences before it arrives; the consumer's when it has met all that it has to.
        at_first = counts and not state.met and not state.arrived
        if state.performed and (at_first or state.met >= state.need) and not state.fenced:
            state = _changed(state, fenced=True)
        return state

    def performs(self, drain: Drain, state: ProducerState) -> bool:
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

    def old_enough(self, name: str, count: int, state: ProducerState) -> bool:
        if name not in self.walks.target.counters or count > self.walks.caps.get(name, 0):
            return False
        if name != self.counter:
            return count == 0 and self.walks.target.counters[name].unit != "groups"
        return state.younger > count if self.unit == "groups" else state.younger >= count


def _changed(
    state: ProducerState,
    performed: bool | None = None,
    arrived: tuple[Barrier, ...] | None = None,
    met: int | None = None,
    own: bool | None = None,
    again: bool | None = None,
    need: int | None = None,
    younger: int | None = None,
    fenced: bool | None = None,
) -> ProducerState:
    """As `_replace`, which takes twice as long."""
    return ProducerState(
        state.performed if performed is None else performed,
        state.fenced if fenced is None else fenced,
        state.arrived if arrived is None else arrived,
        state.met if met is None else met,
        state.own if own is None else own,
        state.again if again is None else again,
        state.need if need is None else need,
        state.younger if younger is None else younger,
    )
