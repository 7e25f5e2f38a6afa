"""The hostile machine: waves that go on by themselves, accesses that are performed as late as the target allows.

Needs   for each wave the steps that it takes, and the rules of the target
Gives   one step at a time, in any order that the barriers allow; what each run finds goes to its `Watch`
Keeps   issue and performance are apart: an access stays in flight until something of its own wave makes sure of it, or
        the barrier that it reports to
        a state can be copied; equal states have equal futures
Cost    constant per step, plus what is in flight

A step is *open* if its effect depends on when others take theirs: what touches a barrier object. Everything else
commutes, so that running it at once loses no order (`settle`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, assert_never

from tidegate.simulate.barriers import WORKGROUP, Barrier, Barriers
from tidegate.simulate.clocks import Clock, Id, start
from tidegate.simulate.program_order import START, Key
from tidegate.simulate.queues import InFlight, Rules
from tidegate.simulate.races import Moment, Party, Watch
from tidegate.simulate.steps import (
    Arrive,
    Await,
    Commit,
    Depart,
    Drain,
    End,
    Issue,
    LaneFence,
    ProxyFence,
    Step,
    Touch,
)


class Source(Protocol):
    """Where the steps of a wave come from; the last one is an `End`."""

    def step(self, number: int) -> Step: ...


@dataclass(frozen=True, slots=True)
class Listed:
    """Steps that are all known in advance."""

    steps: tuple[Step, ...]

    def step(self, number: int) -> Step:
        return self.steps[number]


@dataclass(slots=True)
class Wave:
    """Where a wave stands: its next step, its own time, what it knows, what it has in flight."""

    source: Source
    clock: Clock
    flight: InFlight
    place: int = 0
    time: int = 0
    issued: int = 0
    ended: bool = False
    last: Key = START
    lanes_met: int = -1  # the last step at which all lanes of the wave have met
    known_to_lanes: int = 0  # accesses that were issued before that
    # Arrivals that the wave has not departed from: at which step, and how many accesses were issued before.
    arrived: dict[Barrier, tuple[int, int]] = field(default_factory=dict)

    @property
    def now(self) -> Moment:
        return Moment(self.time, self.place, self.lanes_met)

    def copy(self) -> Wave:
        return Wave(
            self.source,
            self.clock,
            self.flight.copy(),
            self.place,
            self.time,
            self.issued,
            self.ended,
            self.last,
            self.lanes_met,
            self.known_to_lanes,
            dict(self.arrived),
        )


# Told of every step and of every performance: a listener draws a timeline, or moves the data.
Stepped = Callable[[int, Step], None]
Performed = Callable[[int, int, Touch], None]


@dataclass(slots=True)
class Machine:
    """A workgroup."""

    rules: Rules
    waves: list[Wave]
    barriers: Barriers
    watch: Watch
    on_step: Stepped | None = None
    on_perform: Performed | None = None
    landing: dict[Id, tuple[Touch, Clock]] = field(default_factory=dict)  # copies that report and are in flight
    taken: int = 0  # steps

    def copy(self) -> Machine:
        return Machine(
            self.rules,
            [wave.copy() for wave in self.waves],
            self.barriers.copy(),
            self.watch.copy(),
            self.on_step,
            self.on_perform,
            dict(self.landing),
            self.taken,
        )

    def key(self) -> tuple[object, ...]:
        """Equal for states that nothing can tell apart."""
        return (
            tuple(wave.place for wave in self.waves),
            tuple(wave.clock for wave in self.waves),
            tuple((at, clock) for at, (_, clock) in self.landing.items()),
            self.barriers.key(),
        )

    # --- what is possible ---

    def next(self, wave: int) -> Step | None:
        """The step that a wave takes next; None if it has ended."""
        state = self.waves[wave]
        return None if state.ended else state.source.step(state.place)

    def can_step(self, wave: int) -> bool:
        match self.next(wave):
            case None:
                return False
            case Depart(barrier=barrier):
                return self.barriers.may_depart(wave, barrier)
            case Await(barrier=barrier, parity=parity):
                return self.barriers.may_pass(barrier, parity)
        return True

    def is_open(self, wave: int) -> bool:
        """Whether the wave's next step can be told apart from the same step taken later."""
        match self.next(wave):
            case Arrive(barrier=barrier) | Await(barrier=barrier):
                return bool(barrier.arrivals)
            case Drain() | End():
                return bool(self.landing) and any((wave, each) in self.landing for each in self.must(wave))
        return False

    def is_stuck(self) -> bool:
        """Some wave has not ended, and nothing can happen."""
        return (
            not self.landing
            and not all(wave.ended for wave in self.waves)
            and not any(self.can_step(wave) for wave in range(len(self.waves)))
        )

    def must(self, wave: int) -> list[int]:
        """What is sure to be performed when the wave's next step is over."""
        flight = self.waves[wave].flight
        match self.next(wave):
            case Drain() as drain:
                return flight.drained(drain)
            case ProxyFence():
                return flight.ordinary()
            case LaneFence() if self.rules.lane_fence_performs:
                return flight.ordinary()
            case Arrive() if self.rules.arrival_performs:
                return flight.ordinary()
            case End():
                return flight.at_end()
        return []

    # --- what happens ---

    def settle(self) -> None:
        """Takes every step that is not open, until there is none."""
        moved = True
        while moved:
            moved = False
            for wave, state in enumerate(self.waves):
                while not state.ended:
                    step = state.source.step(state.place)
                    if type(step) is Issue and self.on_step is None:  # can always be taken, and is not open
                        self.taken += 1
                        state.place += 1
                        self._issue(wave, step.touch)
                        state.last = step.touch.key
                    elif type(step) is not Issue and (not self.can_step(wave) or self.is_open(wave)):
                        break
                    else:
                        self.step(wave)
                    moved = True

    def step(self, wave: int) -> None:
        """Takes the next step of a wave; only after `can_step`."""
        state = self.waves[wave]
        step = state.source.step(state.place)
        if not isinstance(step, Issue):  # half of all steps are accesses: these make sure of nothing
            held = isinstance(step, Drain) and state.flight.holds_lanes(step)
            self.perform(wave, self.must(wave))
            self._meet_lanes(state, step, held)
        self.taken += 1
        state.place += 1
        if self.on_step is not None:
            self.on_step(wave, step)
        match step:
            case Issue(touch):
                self._issue(wave, touch)
                state.last = touch.key
                return
            case Commit(counters=counters):
                state.flight.commit(counters)
            case Drain():
                if step.counts:
                    for number, left in state.flight.left(step):
                        self.watch.left(wave, number, state.flight.touches[number], left, state.time)
                if any(number in state.flight.touches for number in step.named):
                    self.watch.verdicts.late.add(step.where)
            case ProxyFence():
                state.clock = self._tell(wave).fence()
            case LaneFence():
                pass  # others learn nothing
            case Arrive():
                self.barriers.arrive(wave, step.barrier, step.expect, self._tell(wave))
            case Depart(barrier=barrier):
                self._learn(wave, self.barriers.depart(wave, barrier))
            case Await(barrier=barrier):
                self._learn(wave, self.barriers.met(barrier))
            case End():
                state.ended = True
                self.barriers.end(wave, self._tell(wave))
            case _:
                assert_never(step)
        state.last = step.key

    def _meet_lanes(self, state: Wave, step: Step, held: bool) -> None:
        """Lanes meet at a fence of their wave, at a wait where the target says so, and at a barrier: what they did
        before they arrived there is known to all of them when they depart."""
        match step:
            case LaneFence(all_lanes=True) if self.rules.has_lane_fence:
                state.lanes_met, state.known_to_lanes = state.place, state.issued
            case Drain() if held:
                state.lanes_met, state.known_to_lanes = state.place, state.issued
            case Arrive(barrier=barrier, manner=manner) if manner != "mbarrier":
                state.arrived[barrier] = (state.place, state.issued)
            case Depart(barrier=barrier) if barrier in state.arrived:
                met = (state.lanes_met, state.known_to_lanes)
                state.lanes_met, state.known_to_lanes = max(met, state.arrived.pop(barrier))

    def land(self, at: Id) -> None:
        """A copy that reports to a barrier ends now."""
        touch, clock = self.landing.pop(at)
        assert touch.reports is not None
        if self.on_perform is not None:
            self.on_perform(*at, touch)
        self.watch.landed(at)
        self.barriers.report(touch.reports, touch.size, clock.see(frozenset((at,))))

    def _issue(self, wave: int, touch: Touch) -> None:
        state = self.waves[wave]
        number, state.issued = state.issued, state.issued + 1
        party = Party(wave, number, touch, self.barriers.phase(wave, WORKGROUP))
        self.watch.issue(party, state.clock, Moment(state.time, state.place - 1, state.lanes_met))
        state.flight.issue(number, touch)
        if touch.reports is not None:
            self.landing[wave, number] = (touch, self._tell(wave))

    def perform(self, wave: int, numbers: Sequence[int]) -> None:
        """Accesses of a wave are performed now."""
        state = self.waves[wave]
        for number in numbers:
            touch = state.flight.touches[number]
            if (wave, number) in self.landing:
                self.land((wave, number))
            elif self.on_perform is not None and touch.reports is None:
                self.on_perform(wave, number, touch)
            self.watch.performed(wave, number, touch, state.now)
        state.flight.perform(numbers)

    def _tell(self, wave: int) -> Clock:
        """What the wave knows and has done; what it does from now on is later."""
        state = self.waves[wave]
        state.clock = state.clock.tell(wave, state.time)
        state.time += 1
        return state.clock

    def _learn(self, wave: int, clock: Clock | None) -> None:
        state = self.waves[wave]
        if clock is not None:
            state.clock = state.clock.join(clock)
        clocks = [None if each.ended else each.clock for each in self.waves]
        self.watch.forget(clocks, [each.last for each in self.waves], [each.lanes_met for each in self.waves])

    def waits_for(self, wave: int, step: Depart | Await) -> str:
        """What holds a wave, in words."""
        return self.barriers.waits_for(wave, step.barrier, step.parity if isinstance(step, Await) else None)

    def blocked(self) -> Iterator[tuple[int, Depart | Await]]:
        """The waves that a barrier holds."""
        for wave in range(len(self.waves)):
            step = self.next(wave)
            if isinstance(step, Depart | Await) and not self.can_step(wave):
                yield wave, step


def start_machine(rules: Rules, sources: Sequence[Source], watch: Watch) -> Machine:
    """A workgroup before its first step."""
    waves = [Wave(source, start(len(sources)), InFlight(rules)) for source in sources]
    return Machine(rules, waves, Barriers(len(sources), rules.wave_end_leaves), watch)
