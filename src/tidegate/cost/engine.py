"""Play the steps of waves on one compute unit: who issues when, who waits for what, how long it all takes.

Needs   programs of waves, whose steps need only earlier ones of their own wave; which draw of latencies to take
Gives   when the last wave ends, how long waves were held up, by reason and place, and what happened when
Keeps   a wave issues in its order; a SIMD issues for one wave at a time, the first that is ready; LDS and global memory
        are one pipe each, in order; each SIMD has one matrix unit; the same programs and draw give the same cycles
Cost    O(log w) for each step of w waves: nothing is done cycle by cycle. An arrival looks at the waves of its
        workgroup, a wait at what is in flight

    Do lds      issue |-|  busy |=====| latency .......   the pipe of LDS, after all before it
    Do mma      issue |-|  busy |==========| latency ..   the unit of the SIMD; the wave goes on when all is issued
    Prefer      priorities decide who issues first once some wave has one; else it is who asked first
    Do global   as lds, and the latency varies: requests go out in order, what comes back late holds up nothing else
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import assert_never

from tidegate.cost.luck import lateness
from tidegate.cost.steps import Arrive, Await, Commit, Depart, Do, Machine, Meeting, Prefer, Program, Stall, Wait


class Stuck(Exception):
    """Waves wait forever; names one of them and the place where it does."""

    def __init__(self, wave: int, where: int) -> None:
        super().__init__(f"wave {wave} waits forever at point {where}")
        self.wave, self.where = wave, where


@dataclass(frozen=True, slots=True)
class Event:
    """What a wave did, or what held it up, from one cycle to another."""

    wave: int
    where: int
    what: str  # a unit, or `stalled: ` and a reason
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Played:
    """`stalls` are sums over all waves."""

    cycles: float
    stalls: dict[tuple[Stall, int], float]
    events: tuple[Event, ...] = ()


def play(programs: Sequence[Program], machine: Machine, *, draw: int = 0, record: bool = False) -> Played:
    """From cycle 0 until all waves have ended and everything has landed."""
    return _Engine(programs, machine, draw, record).run()


@dataclass(slots=True)
class _Wave:
    """Where one wave is. `first`, `last`: when the parts of the value of each step are there; `unit`: who makes it."""

    program: Program
    at: int = 0
    begun: bool = False  # whether the needs of the step at hand are met
    first: list[float] = field(default_factory=list)
    last: list[float] = field(default_factory=list)
    unit: list[Stall] = field(default_factory=list)
    flying: dict[str, list[tuple[float, int]]] = field(default_factory=lambda: defaultdict(list))
    open: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    accesses: int = 0  # of memory, so far
    lds: float = 0.0
    copies: float = 0.0
    departures: dict[Meeting, int] = field(default_factory=lambda: defaultdict(int))
    arrivals: dict[Meeting, int] = field(default_factory=lambda: defaultdict(int))
    ended: bool = False
    since: float = 0.0  # when it began to wait for others
    priority: int = 0


@dataclass(slots=True)
class _Rendezvous:
    """Arrivals by number, and when waves may go on from each."""

    latest: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    released: list[float] = field(default_factory=list)


@dataclass(slots=True)
class _Phases:
    """An object with phases: arrivals and bytes still to come in the phase at hand, and when earlier ones were done."""

    arrived: int = 0
    outstanding: int = 0
    latest: float = 0.0
    done: list[float] = field(default_factory=list)


class _Engine:
    def __init__(self, programs: Sequence[Program], machine: Machine, draw: int, record: bool) -> None:
        self.machine, self.draw, self.record = machine, draw, record
        self.waves = [_Wave(program) for program in programs]
        self.members: dict[int, list[_Wave]] = defaultdict(list)
        for wave in self.waves:
            self.members[wave.program.group].append(wave)
        self.simd_free: dict[int, float] = defaultdict(float)
        self.mma_free: dict[int, float] = defaultdict(float)
        self.pipe_free: dict[str, float] = defaultdict(float)
        self.meetings: dict[tuple[int, Meeting], _Rendezvous] = defaultdict(_Rendezvous)
        self.phases: dict[tuple[int, Meeting], _Phases] = defaultdict(_Phases)
        self.blocked: dict[tuple[int, Meeting], list[int]] = defaultdict(list)
        self.stalls: dict[tuple[Stall, int], float] = defaultdict(float)
        self.events: list[Event] = []
        self.heap: list[tuple[float, int, int]] = []  # when, how little it is preferred, which wave
        different = {id(each.steps): each.steps for each in programs}
        self.prefers = any(isinstance(step, Prefer) for steps in different.values() for step in steps)
        self.landings: list[tuple[float, float]] = []  # of copies: when, and how long each takes the pipe of LDS
        self.end = 0.0

    def run(self) -> Played:
        for number in range(len(self.waves)):
            self.queue(number, 0.0)
        while self.heap:
            now, _, number = heappop(self.heap)
            self.step(number, now)
        for number, wave in enumerate(self.waves):
            if not wave.ended:
                raise Stuck(number, wave.program.steps[wave.at].where)
        return Played(self.end, dict(self.stalls), tuple(self.events))

    def step(self, number: int, now: float) -> None:
        """One step of one wave, or its end; a wave that is held up comes back when it can go on."""
        wave = self.waves[number]
        if wave.at == len(wave.program.steps):
            self.finish(number, now)
            return
        step = wave.program.steps[wave.at]
        match step:
            case Do():
                self.do(number, wave, step, now)
            case Wait():
                done = max(self.awaited(wave, step), now)
                self.held(number, "wait", step.where, now, done)
                self.value(wave, done, done, "wait")
                self.go_on(number, wave, done)
            case Commit(counters=counters):
                for name in counters:
                    wave.flying[name].append((wave.open.pop(name, now), 1))
                self.value(wave, now, now, "wait")
                self.go_on(number, wave, now)
            case Prefer(level=level):
                wave.priority = level
                self.value(wave, now, now, "issue")
                self.go_on(number, wave, now)
            case Arrive():
                self.arrive(number, wave, step, now)
            case Depart():
                self.depart(number, wave, step, now)
            case Await():
                self.pass_phase(number, wave, step, now)
            case _:
                assert_never(step)

    # --- units ---

    def do(self, number: int, wave: _Wave, step: Do, now: float) -> None:
        if not wave.begun and step.needs:
            times = wave.first if step.streams else wave.last
            slowest = max(step.needs, key=times.__getitem__)
            wave.begun = True
            if times[slowest] > now:
                self.held(number, wave.unit[slowest], step.where, now, times[slowest])
                self.queue(number, times[slowest])
                return
        simd = wave.program.simd
        start = max(now, self.simd_free[simd])
        if self.prefers and start > now:  # who comes next is decided when the SIMD is free
            wave.begun = True
            self.held(number, "issue", step.where, now, start)
            self.queue(number, start)
            return
        wave.begun = False
        self.held(number, "issue", step.where, now, start)
        self.simd_free[simd] = issued = start + step.issue
        if step.unit == "mma":
            issued = self.multiply(number, wave, step, start)
        elif step.unit == "alu":
            self.value(wave, issued + step.latency, issued + step.latency, "alu")
        else:
            if step.unit == "lds":
                self.fill(start)
            begin = max(start, self.pipe_free[step.unit])
            self.pipe_free[step.unit] = begin + step.busy
            begin += step.latency + self.late(number, wave, step)
            self.value(wave, begin + step.busy / step.parts, begin + step.busy, step.unit)
        self.note(number, step.where, step.unit, start, wave.last[-1])
        self.count(wave, step, wave.last[-1])
        self.go_on(number, wave, issued)

    def late(self, number: int, wave: _Wave, step: Do) -> float:
        """Cycles that an access of memory takes this time beyond the least."""
        if not step.spread:
            return 0.0
        wave.accesses += 1
        return step.spread * lateness(self.draw, wave.program.group, number, wave.accesses, step.lines)

    def fill(self, now: float) -> None:
        """Copies that have landed have taken the pipe of LDS."""
        while self.landings and self.landings[0][0] <= now:
            landed, busy = heappop(self.landings)
            self.pipe_free["lds"] = max(self.pipe_free["lds"], landed) + busy

    def multiply(self, number: int, wave: _Wave, step: Do, start: float) -> float:
        """On the matrix unit of the SIMD; gives when the wave has issued all of it."""
        simd, each = wave.program.simd, step.busy / step.parts
        begin = max(start, self.mma_free[simd])
        self.held(number, "mma", step.where, start, begin)
        self.mma_free[simd] = end = begin + step.busy
        # Accumulators are made part by part and used in the same order; of other operands the last part must be there.
        operands = [need for need in step.needs if wave.unit[need] != "mma"]
        if operands:
            slowest = max(operands, key=wave.last.__getitem__)
            late = max(end, wave.last[slowest] + each)
            self.held(number, wave.unit[slowest], step.where, end, late)
            end = late
        self.value(wave, begin + each + step.latency, end + step.latency, "mma")
        return max(start + step.issue, end - each)

    def count(self, wave: _Wave, step: Do, done: float) -> None:
        """What waits can be for."""
        if step.unit == "lds":
            wave.lds = max(wave.lds, done)
        if step.fills:
            heappush(self.landings, (done, step.fills))
        if step.is_copy:
            wave.copies = max(wave.copies, done)
        for name, units in step.counts:
            if name in self.machine.group_counters:
                wave.open[name] = max(wave.open[name], done)
            elif units:
                wave.flying[name].append((done, units))
        if step.reports is not None:
            self.report(wave.program.group, step.reports, step.bytes, done)

    def awaited(self, wave: _Wave, wait: Wait) -> float:
        found = [wave.last[each] for each in wait.steps]
        if wait.lds:
            found.append(wave.lds)
        if wait.copies:
            found.append(wave.copies)
        for name, count in wait.counts:
            flying, newer = wave.flying[name], 0
            for place in reversed(range(len(flying))):
                if newer >= count:
                    found.append(max(done for done, _ in flying[: place + 1]))
                    del flying[: place + 1]
                    break
                newer += flying[place][1]
        return max(found, default=0.0)

    # --- barriers ---

    def arrive(self, number: int, wave: _Wave, step: Arrive, now: float) -> None:
        simd, key = wave.program.simd, (wave.program.group, step.at)
        start = max(now, self.simd_free[simd])
        self.held(number, "issue", step.where, now, start)
        self.simd_free[simd] = issued = start + self.machine.barrier_issue
        self.value(wave, issued, issued, "barrier")
        wave.arrivals[step.at] += 1
        if step.at.arrivals:
            phases = self.phases[key]
            phases.arrived += 1
            phases.outstanding += step.expect
            self.advance(key, issued)
        else:
            meeting, which = self.meetings[key], wave.arrivals[step.at]
            meeting.latest[which] = max(meeting.latest[which], issued)
            self.release(key)
        self.go_on(number, wave, issued)

    def release(self, key: tuple[int, Meeting]) -> None:
        """Lets waves go from every rendezvous that all who have not ended have come to."""
        meeting, (group, at) = self.meetings[key], key
        which = len(meeting.released) + 1
        while which in meeting.latest and all(wave.ended or wave.arrivals[at] >= which for wave in self.members[group]):
            meeting.released.append(meeting.latest[which] + self.machine.barrier_latency)
            self.lose(meeting.latest[which])
            self.wake(key)
            which += 1

    def lose(self, now: float) -> None:
        """Waves have met: what has been asked of a unit and is not done takes it longer."""
        loss = self.machine.barrier_loss
        for pipe, until in self.pipe_free.items():
            self.pipe_free[pipe] += loss * (until > now)
        for simd, until in self.mma_free.items():
            self.mma_free[simd] += loss * (until > now)

    def depart(self, number: int, wave: _Wave, step: Depart, now: float) -> None:
        key = (wave.program.group, step.at)
        which = wave.departures[step.at] + 1
        times = self.phases[key].done if step.at.arrivals else self.meetings[key].released
        free = times[which - 1] if len(times) >= which else None
        if free is not None:
            wave.departures[step.at] = which
        self.pass_or_block(number, wave, step, key, free, now)

    def pass_phase(self, number: int, wave: _Wave, step: Await, now: float) -> None:
        key = (wave.program.group, step.at)
        times = self.phases[key].done
        complete = bisect_right(times, now)
        if complete % 2 != step.parity % 2:
            free: float | None = now
        else:  # the next to complete is the one, if it is known when it does
            free = times[complete] if len(times) > complete else None
        self.pass_or_block(number, wave, step, key, free, now)

    def pass_or_block(
        self, number: int, wave: _Wave, step: Depart | Await, key: tuple[int, Meeting], free: float | None, now: float
    ) -> None:
        if not wave.begun:
            wave.begun, wave.since = True, now
        if free is None:
            self.blocked[key].append(number)
            return
        done = max(free, wave.since)
        self.held(number, "barrier", step.where, wave.since, done)
        wave.begun = False
        self.value(wave, done, done, "barrier")
        self.go_on(number, wave, done)

    def report(self, group: int, at: Meeting, bytes: int, done: float) -> None:
        key = (group, at)
        self.phases[key].outstanding -= bytes
        self.advance(key, done)

    def advance(self, key: tuple[int, Meeting], now: float) -> None:
        phases, needed = self.phases[key], key[1].arrivals
        phases.latest = max(phases.latest, now)
        while phases.arrived >= needed and phases.outstanding == 0:
            phases.arrived -= needed
            phases.done.append(phases.latest + self.machine.barrier_latency)
            self.wake(key)

    def wake(self, key: tuple[int, Meeting]) -> None:
        for number in self.blocked.pop(key, ()):
            self.queue(number, self.waves[number].since)

    # --- the rest ---

    def finish(self, number: int, now: float) -> None:
        wave = self.waves[number]
        wave.ended = True
        self.end = max([self.end, now, *wave.last])
        for key in [key for key in self.meetings if key[0] == wave.program.group]:
            self.release(key)

    def go_on(self, number: int, wave: _Wave, when: float) -> None:
        wave.at += 1
        self.queue(number, when)

    def queue(self, number: int, when: float) -> None:
        """The wave comes to its turn; of several at one moment the one with the highest priority first."""
        heappush(self.heap, (when, -self.waves[number].priority, number))

    def value(self, wave: _Wave, first: float, last: float, unit: Stall) -> None:
        wave.first.append(first)
        wave.last.append(last)
        wave.unit.append(unit)

    def held(self, number: int, reason: Stall, where: int, start: float, end: float) -> None:
        if end > start:
            self.stalls[reason, where] += end - start
            self.note(number, where, f"stalled: {reason}", start, end)

    def note(self, number: int, where: int, what: str, start: float, end: float) -> None:
        if self.record:
            self.events.append(Event(number, where, what, start, end))
