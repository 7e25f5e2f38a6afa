"""What a run on the hostile machine counts, and whom it tells.

Needs   each step when it is taken, each access when it is performed and when its bytes move
Gives   `Statistics`; a `Listener` is told everything with the time, which counts steps and landings of all waves
Keeps   time goes on over all workgroups of a run and never back
Cost    constant per step

An operation is in flight on a counter from its issue until the machine is sure that it is performed. One on global
memory counts only while it stands behind one on shared memory, or completes out of turn: no other can hold up a wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.simulate.barriers import Barrier
from tidegate.simulate.races import Clash
from tidegate.simulate.steps import Arrive, Await, Depart, Issue, Step, Touch


class Listener(Protocol):
    """Hears what happens, in order. Accesses of a wave are numbered from 0 in each workgroup, as they are issued."""

    def workgroup(self, place: tuple[int, int, int], waves: int, time: int) -> None: ...

    def step(self, time: int, wave: int, step: Step) -> None: ...

    def performed(self, time: int, wave: int, number: int) -> None:
        """The machine is sure of an access."""

    def moved(self, time: int, wave: int, number: int) -> None:
        """The bytes of an access move, perhaps earlier than the machine is sure of it."""

    def in_flight(self, time: int, wave: int, counter: str, count: int) -> None: ...

    def clash(self, time: int, clash: Clash) -> None: ...

    def hangs(self, time: int, wave: int, step: Depart | Await, what: str) -> None:
        """The workgroup hangs, and this is what a wave waits for."""

    def end(self, time: int) -> None:
        """The workgroup has ended, or hangs."""


class Silent:
    """Hears nothing."""

    def workgroup(self, place: tuple[int, int, int], waves: int, time: int) -> None:
        pass

    def step(self, time: int, wave: int, step: Step) -> None:
        pass

    def performed(self, time: int, wave: int, number: int) -> None:
        pass

    def moved(self, time: int, wave: int, number: int) -> None:
        pass

    def in_flight(self, time: int, wave: int, counter: str, count: int) -> None:
        pass

    def clash(self, time: int, clash: Clash) -> None:
        pass

    def hangs(self, time: int, wave: int, step: Depart | Await, what: str) -> None:
        pass

    def end(self, time: int) -> None:
        pass


@dataclass(slots=True)
class WaveStatistics:
    """Of one wave, the most in any workgroup: arrivals and departures by barrier, operations in flight by counter."""

    arrivals: dict[Barrier, int] = field(default_factory=dict)
    departures: dict[Barrier, int] = field(default_factory=dict)
    in_flight: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Of a whole run."""

    workgroups: int
    steps: int
    accesses: int
    waves: tuple[WaveStatistics, ...]


class Tally:
    """Counts while a run goes on."""

    def __init__(self, waves: int, listener: Listener) -> None:
        self.listener = listener
        self.time = 0
        self.groups = self.steps = self.accesses = 0
        self.waves = [WaveStatistics() for _ in range(waves)]
        self.now = [WaveStatistics() for _ in range(waves)]

    def start(self, place: tuple[int, int, int]) -> None:
        self.groups += 1
        self.now = [WaveStatistics() for _ in self.waves]
        self.listener.workgroup(place, len(self.waves), self.time)

    def tick(self) -> None:
        """Something is about to happen."""
        self.time += 1

    def step(self, wave: int, step: Step) -> None:
        self.steps += 1
        match step:
            case Issue():
                self.accesses += 1
            case Arrive(barrier=barrier):
                _count(self.now[wave].arrivals, barrier)
            case Depart(barrier=barrier) | Await(barrier=barrier):
                _count(self.now[wave].departures, barrier)
        self.listener.step(self.time, wave, step)

    def in_flight(self, wave: int, touch: Touch) -> None:
        """An access that was just issued stays in flight."""
        for queue in touch.queues:
            self._change(wave, queue.counter, 1)

    def performed(self, wave: int, number: int, touch: Touch) -> None:
        for queue in touch.queues:
            self._change(wave, queue.counter, -1)
        self.listener.performed(self.time, wave, number)

    def _change(self, wave: int, counter: str, by: int) -> None:
        now, most = self.now[wave].in_flight, self.waves[wave].in_flight
        count = now[counter] = now.get(counter, 0) + by
        most[counter] = max(count, most.get(counter, 0))
        self.listener.in_flight(self.time, wave, counter, count)

    def mover(self, wave: int) -> Callable[[int], None]:
        return lambda number: self.listener.moved(self.time, wave, number)

    def clash(self, clash: Clash) -> None:
        self.listener.clash(self.time, clash)

    def end(self) -> None:
        self.listener.end(self.time)
        for total, now in zip(self.waves, self.now, strict=True):
            for most, counted in ((total.arrivals, now.arrivals), (total.departures, now.departures)):
                for barrier, count in counted.items():
                    most[barrier] = max(count, most.get(barrier, 0))

    def statistics(self) -> Statistics:
        return Statistics(self.groups, self.steps, self.accesses, tuple(self.waves))


def _count(counts: dict[Barrier, int], barrier: Barrier) -> None:
    counts[barrier] = counts.get(barrier, 0) + 1
