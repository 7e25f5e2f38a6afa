"""Open steps that need no second order: nothing that others can do before them makes a difference.

Needs   a machine whose waves have all their steps listed, and a step that is open
Gives   whether taking it now stands for taking it at any later moment
Keeps   says yes only if it is certain: what others can do meanwhile is taken too large, never too small. The step then
        is a persistent set by itself (Godefroid 1996), and orders that begin with another step need not be visited
Cost    linear in the steps that the others can take

How far the others come while the step waits is found by letting them run: arrivals count, waits pass as soon as any
order could let them pass, copies land when that helps. Then

    a wait for a parity   needs that its barrier completes no further phase meanwhile: else it might come too late
    an arrival            needs that its phase does not fill up without it, that nobody waits there for the phase
                          before, and that no copy reports there meanwhile
    the end of a copy     needs that its phase cannot complete without it, nor be arrived at too often, nor be waited
                          for by somebody who wants the phase before
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidegate.simulate.barriers import Barrier, Barriers
from tidegate.simulate.clocks import Id
from tidegate.simulate.machine import Listed, Machine
from tidegate.simulate.steps import Arrive, Await, Depart, End, Issue, Step


def stands_alone(machine: Machine, way: int | Id) -> bool:
    """Whether one open step, of a wave or of a copy that lands, can be taken without looking at other orders."""
    steps = _listed(machine)
    if steps is None:
        return False
    if isinstance(way, int):
        match machine.next(way):
            case Await(barrier=barrier):
                return not _Others(machine, steps, way).completes(barrier)
            case Arrive(barrier=barrier):
                return _arrival_stands_alone(_Others(machine, steps, way), barrier)
        return False
    touch, _ = machine.landing[way]
    assert touch.reports is not None
    return _landing_stands_alone(_Others(machine, steps, None, way), touch.reports)


def _arrival_stands_alone(others: _Others, barrier: Barrier) -> bool:
    return not others.completes(barrier) and not others.waited_for(barrier) and barrier not in others.reported


def _landing_stands_alone(others: _Others, barrier: Barrier) -> bool:
    return (
        others.barriers.outstanding(barrier) > 0
        and barrier not in others.reported
        and others.filled(barrier) <= barrier.arrivals
        and not others.waited_for(barrier)
    )


def _listed(machine: Machine) -> list[Sequence[Step]] | None:
    found: list[Sequence[Step]] = []
    for wave in machine.waves:
        if not isinstance(wave.source, Listed):
            return None
        found.append(wave.source.steps)
    return found


@dataclass(slots=True)
class _Others:
    """How far everybody else comes at most while one wave, or one copy, waits."""

    machine: Machine
    steps: list[Sequence[Step]]
    frozen: int | None
    copy: Id | None = None
    places: list[int] = field(default_factory=list)
    arrivals: dict[Barrier, int] = field(default_factory=dict)  # at objects, beside those that are made
    meetings: dict[tuple[int, Barrier], int] = field(default_factory=dict)  # at workgroup barriers, made or possible
    departures: dict[tuple[int, Barrier], int] = field(default_factory=dict)
    reported: set[Barrier] = field(default_factory=set)
    awaited: set[tuple[Barrier, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.places = [wave.place for wave in self.machine.waves]
        for at, (touch, _) in self.machine.landing.items():
            if at != self.copy and touch.reports is not None:
                self.reported.add(touch.reports)
        moved = True
        while moved:
            moved = False
            for wave in range(len(self.steps)):
                if wave != self.frozen:
                    moved |= self._run(wave)

    @property
    def barriers(self) -> Barriers:
        return self.machine.barriers

    def completes(self, barrier: Barrier) -> bool:
        """Whether a phase may become complete meanwhile."""
        return self.filled(barrier) >= barrier.arrivals

    def filled(self, barrier: Barrier) -> int:
        """Arrivals in the phase that is not complete yet, made or possible."""
        return self.barriers.filled(barrier) + self.arrivals.get(barrier, 0)

    def waited_for(self, barrier: Barrier) -> bool:
        """Whether somebody may wait for the phase that is complete now."""
        return (barrier, (self.barriers.complete(barrier) + 1) % 2) in self.awaited

    def _run(self, wave: int) -> bool:
        start, steps = self.places[wave], self.steps[wave]
        while self.places[wave] < len(steps) and self._passes(wave, steps[self.places[wave]]):
            self.places[wave] += 1
        return self.places[wave] > start

    def _passes(self, wave: int, step: Step) -> bool:
        match step:
            case Issue(touch) if touch.reports is not None:
                self.reported.add(touch.reports)
            case Arrive(barrier=barrier) if barrier.arrivals:
                self.arrivals[barrier] = self.arrivals.get(barrier, 0) + 1
            case Arrive(barrier=barrier):
                self.meetings[wave, barrier] = self._met(wave, barrier) + 1
            case Await(barrier=barrier, parity=parity):
                self.awaited.add((barrier, parity % 2))
                return self.completes(barrier) or self.barriers.may_pass(barrier, parity)
            case Depart(barrier=barrier) if barrier.arrivals:
                return self.completes(barrier) or self.barriers.may_depart(wave, barrier)
            case Depart(barrier=barrier):
                number = self._departed(wave, barrier) + 1
                if not all(
                    self._met(other, barrier) >= number or self._gone(other) for other in range(len(self.steps))
                ):
                    return False
                self.departures[wave, barrier] = number
            case _:
                pass
        return True

    def _met(self, wave: int, barrier: Barrier) -> int:
        return self.meetings.get((wave, barrier), self.barriers.arrivals(barrier)[wave])

    def _departed(self, wave: int, barrier: Barrier) -> int:
        return self.departures.get((wave, barrier), self.barriers.phase(wave, barrier))

    def _gone(self, wave: int) -> bool:
        """Whether a wave may have ended, so that nobody waits for it where the target says so."""
        if not self.barriers.leaves or wave == self.frozen:
            return False
        return self.places[wave] >= len(self.steps[wave]) or isinstance(self.steps[wave][self.places[wave]], End)
