"""Barriers of a workgroup, and what passing one says about other waves.

Needs   the waves
Gives   `Barriers.step`: whether the wave may go on; `is_held`: whether it waits
Keeps   -1, and -3 of a cluster of one workgroup, take all waves that have not ended; another number raises
        `NotUnderstood`; a departure carries what each arrival knew
Cost    a few clocks for each barrier

Clocks: a wave knows of another the time up to which all that is certain there happened before now. An arrival brings
its wave's time and all that the wave knows; a departure takes the most of all arrivals of that round.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from oracles.amdgcn_machine.text import NotUnderstood
from oracles.amdgcn_machine.wave import Wave

WORKGROUP = ("-1", "-3")


@dataclass(slots=True)
class Barrier:
    """Rounds of one barrier: who arrived in the open round, and what the closed rounds carry."""

    arrived: dict[int, list[int]] = field(default_factory=dict)
    carried: list[list[int]] = field(default_factory=list)
    round_of: dict[int, int] = field(default_factory=dict)  # of a wave that arrived: which round it waits for


class Barriers:
    def __init__(self, waves: list[Wave]) -> None:
        self.waves = waves
        self.present = {each.number for each in waves}
        self.barriers: dict[str, Barrier] = {}
        self.waiting: dict[int, str] = {}  # a wave, and the barrier at which it stands

    def is_held(self, wave: Wave) -> bool:
        which = self.waiting.get(wave.number)
        if which is None:
            return False
        if not self._try_to_depart(wave, which):
            return True
        del self.waiting[wave.number]
        return False

    def step(self, wave: Wave, what: str, which: str) -> bool:
        """Arrives or departs; whether the wave goes on at once."""
        if which not in WORKGROUP:
            raise NotUnderstood(f"named barrier `{which}` (s_barrier_{what})")
        if what in ("meet", "signal", "first"):
            is_first = self._arrive(wave, which)
            if what == "first":
                wave.scc = int(is_first)
            if what != "meet":
                return True
        elif what != "wait":
            raise NotUnderstood(f"s_barrier_{what}")
        self.waiting[wave.number] = which
        return not self.is_held(wave)

    def leave(self, wave: Wave) -> None:
        """At its end a wave no longer counts."""
        self.present.discard(wave.number)
        for barrier in self.barriers.values():
            self._close(barrier)

    def _arrive(self, wave: Wave, which: str) -> bool:
        barrier = self.barriers.setdefault(which, Barrier())
        clock = list(wave.known)
        clock[wave.number] = wave.time
        is_first = not barrier.arrived
        barrier.arrived[wave.number] = clock
        barrier.round_of[wave.number] = len(barrier.carried)
        self._close(barrier)
        return is_first

    def _close(self, barrier: Barrier) -> None:
        if barrier.arrived and self.present <= barrier.arrived.keys():
            barrier.carried.append([max(each) for each in zip(*barrier.arrived.values(), strict=True)])
            barrier.arrived = {}

    def _try_to_depart(self, wave: Wave, which: str) -> bool:
        barrier = self.barriers.setdefault(which, Barrier())
        number = barrier.round_of.get(wave.number)
        if number is None or number >= len(barrier.carried):
            return False  # a wait without a signal never ends
        carried = barrier.carried[number]
        wave.known = [max(pair) for pair in zip(wave.known, carried, strict=True)]
        wave.known[wave.number] = -1
        return True
