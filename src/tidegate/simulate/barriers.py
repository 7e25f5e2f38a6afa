"""The barriers of one workgroup: who has arrived, who may go on.

Needs   arrivals, departures, reports of copies and ends of waves, in the order in which they happen
Gives   whether a waiting wave may go on, and in words what it waits for
Keeps   a workgroup barrier is an anonymous rendezvous: the k-th arrival of each wave meets the k-th of every other,
        and a wave that has ended no longer counts
        a barrier object completes a phase after its number of arrivals, once no expected byte is outstanding
Cost    linear in the waves for a rendezvous, constant for a phase
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import assert_never

from tidegate.simulate.events import AwaitPhase, Barrier, Blocking, Depart


@dataclass(slots=True)
class _Phases:
    """A barrier object: phases complete, arrivals in the current one, bytes still to be reported in it."""

    complete: int = 0
    arrived: int = 0
    outstanding: int = 0
    # The phase that each wave has signalled and not yet waited for, and the last that it has waited for.
    signalled: dict[int, int] = field(default_factory=dict)
    departed: Counter[int] = field(default_factory=Counter)

    def advance(self, arrivals: int) -> None:
        while self.arrived >= arrivals and self.outstanding == 0:
            self.complete += 1
            self.arrived -= arrivals

    def awaited_by(self, wave: int) -> int:
        return self.signalled.get(wave, self.departed[wave] + 1)


@dataclass(slots=True)
class _Rendezvous:
    arrived: Counter[int] = field(default_factory=Counter)
    departed: Counter[int] = field(default_factory=Counter)


@dataclass(slots=True)
class Barriers:
    """All barriers of a workgroup of `waves` waves."""

    waves: int
    ended: set[int] = field(default_factory=set)
    _meetings: defaultdict[Barrier, _Rendezvous] = field(default_factory=lambda: defaultdict(_Rendezvous))
    _objects: defaultdict[Barrier, _Phases] = field(default_factory=lambda: defaultdict(_Phases))

    def arrive(self, wave: int, barrier: Barrier, expect: int = 0) -> None:
        if not barrier.arrivals:
            self._meetings[barrier].arrived[wave] += 1
            return
        phases = self._objects[barrier]
        phases.signalled[wave] = phases.complete + phases.arrived // barrier.arrivals + 1
        phases.arrived += 1
        phases.outstanding += expect
        phases.advance(barrier.arrivals)

    def report(self, barrier: Barrier, size: int) -> None:
        """A copy is done: `size` bytes fewer are outstanding, or will be once they are expected."""
        self._objects[barrier].outstanding -= size
        self._objects[barrier].advance(barrier.arrivals)

    def end(self, wave: int) -> None:
        self.ended.add(wave)

    def may_go_on(self, wave: int, event: Blocking) -> bool:
        barrier = event.barrier
        match event:
            case AwaitPhase(parity=parity):
                return self._objects[barrier].complete % 2 != parity % 2
            case Depart() if barrier.arrivals:
                phases = self._objects[barrier]
                return phases.complete >= phases.awaited_by(wave)
            case Depart():
                return not self._missing(wave, barrier)
            case _:
                assert_never(event)

    def go_on(self, wave: int, event: Blocking) -> None:
        """The wave passes; only after `may_go_on`."""
        if isinstance(event, AwaitPhase):
            return
        if event.barrier.arrivals:
            phases = self._objects[event.barrier]
            phases.departed[wave] = phases.awaited_by(wave)
            phases.signalled.pop(wave, None)
        else:
            self._meetings[event.barrier].departed[wave] += 1

    def waits_for(self, wave: int, event: Blocking) -> str:
        """What holds a wave, in words."""
        barrier = event.barrier
        if not barrier.arrivals:
            number = self._meetings[barrier].departed[wave] + 1
            missing = ", ".join(map(str, self._missing(wave, barrier)))
            return f"rendezvous {number} of {barrier}: no arrival of wave {missing}"
        phases = self._objects[barrier]
        state = f"{phases.arrived} of {barrier.arrivals} arrivals"
        if phases.outstanding:
            state += f" and {phases.outstanding} bytes outstanding"
        if isinstance(event, AwaitPhase):
            return f"the phase with parity {event.parity % 2} of {barrier}: phase {phases.complete} has {state}"
        return f"phase {phases.awaited_by(wave) - 1} of {barrier}: phase {phases.complete} has {state}"

    def _missing(self, wave: int, barrier: Barrier) -> list[int]:
        """The waves whose arrival the wave's next departure needs and that have not made it."""
        meeting = self._meetings[barrier]
        number = meeting.departed[wave] + 1
        return [each for each in range(self.waves) if each not in self.ended and meeting.arrived[each] < number]
