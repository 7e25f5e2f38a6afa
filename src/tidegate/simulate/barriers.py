"""The barriers of one workgroup: who has arrived, who may go on, and what those who go on then know.

Needs   arrivals, departures, reports of copies and ends of waves, in the order in which they happen
Gives   whether a waiting wave may go on; the clock of what it has met; in words what it waits for
Keeps   a workgroup barrier is an anonymous rendezvous: the k-th arrival of each wave meets the k-th of every other; a
        wave that has ended no longer counts, where the target says so
        a barrier object completes a phase after its number of arrivals, once no expected byte is outstanding
Cost    linear in the waves for a rendezvous, constant for a phase
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.simulate.clocks import Clock


@dataclass(frozen=True, slots=True)
class Barrier:
    """A barrier that waves can arrive at. `arrivals` of 0 means: one arrival of every wave that has not ended."""

    name: str
    arrivals: int = 0
    slot: int | None = None

    def __hash__(self) -> int:  # every step looks barriers up: the hash of a string is kept by Python
        return hash(self.name) ^ (self.slot or 0)

    def __str__(self) -> str:
        if self == WORKGROUP:
            return "the workgroup barrier"
        if not self.arrivals:
            return f"barrier {self.name}"
        return f"`{self.name}`" if self.slot is None else f"`{self.name}[{self.slot}]`"


# `workgroup_barrier`, `shared_memory_barrier`, `conditional_barrier` and `signal -1` all arrive here.
WORKGROUP = Barrier("-1")


@dataclass(slots=True)
class _Phases:
    """A barrier object: phases complete, arrivals in the current one, bytes still to be reported in it."""

    by_parity: bool = False  # an mbarrier: nobody waits for a phase that is not the last
    complete: int = 0
    arrived: int = 0
    outstanding: int = 0
    # The phase that each wave has signalled and not yet waited for, and the last that it has waited for.
    signalled: dict[int, int] = field(default_factory=dict)
    departed: dict[int, int] = field(default_factory=dict)
    # What each phase and all before it know, those that are complete and those that are being filled.
    known: dict[int, Clock] = field(default_factory=dict)

    def advance(self, arrivals: int) -> None:
        while self.arrived >= arrivals and self.outstanding == 0:
            self.complete += 1
            self.arrived -= arrivals
            if self.complete - 1 in self.known:
                self.learn(self.complete, self.known[self.complete - 1])
        for phase in [phase for phase in self.known if phase < self.complete - 1 and self.by_parity]:
            del self.known[phase]

    def awaited_by(self, wave: int) -> int:
        return self.signalled.get(wave, self.departed.get(wave, 0) + 1)

    def learn(self, phase: int, clock: Clock) -> None:
        self.known[phase] = self.known[phase].join(clock) if phase in self.known else clock

    def copy(self) -> _Phases:
        return _Phases(
            self.by_parity,
            self.complete,
            self.arrived,
            self.outstanding,
            dict(self.signalled),
            dict(self.departed),
            dict(self.known),
        )

    def state(self) -> tuple[object, ...]:
        return (
            self.complete,
            self.arrived,
            self.outstanding,
            tuple(sorted(self.signalled.items())),
            tuple(sorted(self.departed.items())),
        )

    def key(self) -> tuple[object, ...]:
        return self.state(), tuple(sorted(self.known.items(), key=lambda each: each[0]))


_FRESH = (_Phases(), _Phases(by_parity=True))


@dataclass(slots=True)
class _Rendezvous:
    """A workgroup barrier: how often each wave has arrived and departed, and what the arrivals of a number know."""

    arrived: list[int]
    departed: list[int]
    known: dict[int, Clock] = field(default_factory=dict)

    def copy(self) -> _Rendezvous:
        return _Rendezvous(list(self.arrived), list(self.departed), dict(self.known))


@dataclass(slots=True)
class Barriers:
    """All barriers of a workgroup of `waves` waves. `leaves`: whether a wave that has ended no longer counts."""

    waves: int
    leaves: bool = True
    ended: dict[int, Clock | None] = field(default_factory=dict)
    _meetings: dict[str, _Rendezvous] = field(default_factory=dict)  # by the name of the barrier
    _objects: dict[Barrier, _Phases] = field(default_factory=dict)

    def copy(self) -> Barriers:
        return Barriers(
            self.waves,
            self.leaves,
            dict(self.ended),
            {name: each.copy() for name, each in self._meetings.items()},
            {barrier: each.copy() for barrier, each in self._objects.items()},
        )

    def key(self) -> tuple[object, ...]:
        """What the objects hold. A rendezvous depends only on how far the waves are."""
        return tuple((barrier, each.key()) for barrier, each in self._touched())

    def state(self) -> tuple[object, ...]:
        """As `key`, without what anybody knows."""
        return tuple((barrier, each.state()) for barrier, each in self._touched())

    def _touched(self) -> list[tuple[Barrier, _Phases]]:
        """Objects that are no longer as they were at the start; having been asked about is no difference."""
        return sorted(((barrier, each) for barrier, each in self._objects.items() if each not in _FRESH), key=_by_name)

    # --- what happens ---

    def arrive(self, wave: int, barrier: Barrier, expect: int = 0, clock: Clock | None = None) -> None:
        if not barrier.arrivals:
            meeting = self._meeting(barrier)
            meeting.arrived[wave] += 1
            number = meeting.arrived[wave]
            if clock is not None:
                meeting.known[number] = meeting.known[number].join(clock) if number in meeting.known else clock
            return
        phases = self._phases(barrier)
        phase = phases.complete + phases.arrived // barrier.arrivals
        if not phases.by_parity:
            phases.signalled[wave] = phase + 1
        phases.arrived += 1
        phases.outstanding += expect
        if clock is not None:
            phases.learn(phase, clock)
        phases.advance(barrier.arrivals)

    def report(self, barrier: Barrier, size: int, clock: Clock | None = None) -> None:
        """A copy is done: `size` bytes fewer are outstanding, or will be once they are expected."""
        phases = self._phases(barrier)
        phases.outstanding -= size
        if clock is not None:
            phases.learn(phases.complete, clock)
        phases.advance(barrier.arrivals)

    def end(self, wave: int, clock: Clock | None = None) -> None:
        self.ended[wave] = clock

    # --- waiting ---

    def may_depart(self, wave: int, barrier: Barrier) -> bool:
        if not barrier.arrivals:
            return not self._missing(wave, barrier)
        phases = self._phases(barrier)
        return phases.complete >= phases.awaited_by(wave)

    def may_pass(self, barrier: Barrier, parity: int) -> bool:
        """Whether the phase with this parity is complete."""
        return self._phases(barrier).complete % 2 != parity % 2

    def depart(self, wave: int, barrier: Barrier) -> Clock | None:
        """The wave goes on; only after `may_depart`. Gives what those know whom it has met."""
        if barrier.arrivals:
            phases = self._phases(barrier)
            phase = phases.departed[wave] = phases.awaited_by(wave)
            phases.signalled.pop(wave, None)
            return phases.known.get(phase - 1)
        meeting = self._meeting(barrier)
        meeting.departed[wave] += 1
        number = meeting.departed[wave]
        clock = meeting.known.get(number)
        for other, known in self.ended.items():
            if known is not None and self.leaves and meeting.arrived[other] < number:
                clock = known if clock is None else clock.join(known)
        if number in meeting.known and min(meeting.departed) >= number:
            del meeting.known[number]
        return clock

    def met(self, barrier: Barrier) -> Clock | None:
        """What those know whom a wave meets that passes a phase by its parity."""
        phases = self._phases(barrier)
        return phases.known.get(phases.complete - 1)

    # --- words and numbers ---

    def complete(self, barrier: Barrier) -> int:
        """How many phases of an object are complete."""
        return self._phases(barrier).complete

    def filled(self, barrier: Barrier) -> int:
        """Arrivals in the phase of an object that is not complete yet."""
        return self._phases(barrier).arrived

    def outstanding(self, barrier: Barrier) -> int:
        """Bytes that copies still have to report to an object."""
        return self._phases(barrier).outstanding

    def arrivals(self, barrier: Barrier) -> tuple[int, ...]:
        """How often each wave has arrived at a rendezvous."""
        return tuple(self._meeting(barrier).arrived)

    def phase(self, wave: int, barrier: Barrier) -> int:
        """How often the wave has gone on from a rendezvous."""
        return self._meeting(barrier).departed[wave]

    def awaited(self, wave: int, barrier: Barrier, parity: int | None = None) -> int:
        """The phase of an object, or the rendezvous, that a wave waits for and that is not complete."""
        if not barrier.arrivals:
            return self._meeting(barrier).departed[wave] + 1
        phases = self._phases(barrier)
        return phases.complete if parity is not None else phases.awaited_by(wave) - 1

    def lacks(self, barrier: Barrier) -> str:
        """What the phase of an object that is being filled lacks: arrivals, bytes or both."""
        phases = self._phases(barrier)
        if phases.arrived < barrier.arrivals:
            return "both" if phases.outstanding > 0 else "arrivals"
        return "bytes"

    def waits_for(self, wave: int, barrier: Barrier, parity: int | None = None) -> str:
        """What holds a wave, in words."""
        if not barrier.arrivals:
            number = self._meeting(barrier).departed[wave] + 1
            missing = ", ".join(map(str, self._missing(wave, barrier)))
            return f"rendezvous {number} of {barrier}: no arrival of wave {missing}"
        phases = self._phases(barrier)
        state = f"{phases.arrived} of {barrier.arrivals} arrivals"
        if phases.outstanding > 0:
            state += f" and {phases.outstanding} bytes outstanding"
        elif phases.outstanding < 0:
            state += f" and {-phases.outstanding} bytes more reported than expected"
        if parity is not None:
            return f"the phase with parity {parity % 2} of {barrier}: phase {phases.complete} has {state}"
        return f"phase {phases.awaited_by(wave) - 1} of {barrier}: phase {phases.complete} has {state}"

    def what_helps(self, barrier: Barrier, parity: int | None = None) -> str:
        """A way out for a wave that waits at an object for ever; nothing for a rendezvous."""
        if not barrier.arrivals:
            return ""
        phases = self._phases(barrier)
        if phases.arrived >= barrier.arrivals and phases.outstanding:
            more, fewer = ("expected", "reported") if phases.outstanding > 0 else ("reported", "expected")
            bytes_ = f"{abs(phases.outstanding)} bytes are {more} but not {fewer} at {barrier}"
            return f"{bytes_}: set `expect` to the bytes of its copies"
        if phases.arrived:
            missing = barrier.arrivals - phases.arrived
            return f"{barrier} counts {barrier.arrivals} arrivals, and {missing} of them never happen"
        if parity is not None and phases.complete:
            return f"phase {phases.complete} of {barrier} never begins: check the parity and the arrivals"
        return f"no wave arrives at {barrier}" if not phases.complete else ""

    def _missing(self, wave: int, barrier: Barrier) -> list[int]:
        """The waves whose arrival the wave's next departure needs and that have not made it."""
        meeting = self._meeting(barrier)
        number = meeting.departed[wave] + 1
        return [
            each
            for each in range(self.waves)
            if meeting.arrived[each] < number and not (self.leaves and each in self.ended)
        ]

    def _meeting(self, barrier: Barrier) -> _Rendezvous:
        found = self._meetings.get(barrier.name)
        if found is None:
            found = self._meetings[barrier.name] = _Rendezvous([0] * self.waves, [0] * self.waves)
        return found

    def _phases(self, barrier: Barrier) -> _Phases:
        found = self._objects.get(barrier)
        if found is None:
            found = self._objects[barrier] = _Phases(by_parity=barrier.slot is not None)
        return found


def _by_name(item: tuple[Barrier, object]) -> tuple[str, int]:
    return item[0].name, item[0].slot or 0
