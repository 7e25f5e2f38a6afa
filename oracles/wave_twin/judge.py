"""The verdict: every pair of accesses of the workgroup, held against the ordering rules.

Two waves: x, the earlier in program order, is performed before its wave's arrival number a (the first arrival after
a drain behind x), y is issued after its wave's departure number d. They are ordered if a <= d. Two lanes of one wave:
a whole barrier (arrival and departure, draining or not) lies between. One instance that writes the same bytes in two
waves or two lanes is never ordered. Arrivals alternate with departures, and every wave has as many.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .setting import Bools, Setting
from .unroll import Access, Event, Footprint, Sync, Unroller

NEVER = 1 << 40


@dataclass(frozen=True)
class Problem:
    """A pair that nothing orders. `who` names two waves, or for lanes the wave and two of its lanes."""

    kind: str  # waves, lanes, same-waves, same-lanes, hang, divergent
    first: str
    second: str = ""
    at: tuple[tuple[int, ...], ...] = ()
    who: tuple[int, ...] = ()


@dataclass(frozen=True)
class Verdict:
    problems: tuple[Problem, ...]
    barriers: int

    @property
    def safe(self) -> bool:
        return not self.problems

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(problem.kind for problem in self.problems)


@dataclass
class _Place:
    """Where an access stands among the barriers of one wave."""

    departed: int
    next_arrival: int
    fences: int
    performed: int = NEVER


@dataclass
class _Wave:
    number: int
    believed: frozenset[str]  # the kinds of `Sync.fence` that are taken for wave-level fences
    arrived: int = 0
    departed: int = 0
    fences: int = 0
    places: dict[int, _Place] = field(default_factory=dict)
    pending: list[_Place] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def access(self, at: int) -> None:
        place = _Place(self.departed, self.arrived + 1, self.fences)
        self.places[at] = place
        self.pending.append(place)

    def sync(self, sync: Sync) -> None:
        self.fences += sync.fence in self.believed
        if sync.drains:
            for place in self.pending:
                place.performed = self.arrived + 1
            self.pending.clear()
        if sync.arrives:
            if self.arrived > self.departed:
                self.problems.append(Problem("hang", sync.name, "signals twice", who=(self.number,)))
            self.arrived += 1
        if sync.departs:
            if self.departed >= self.arrived:
                self.problems.append(Problem("hang", sync.name, "waits without a signal", who=(self.number,)))
            self.departed += 1


class _Bytes:
    """One footprint, as sets of bytes per wave, with the least and the greatest lane at each byte."""

    def __init__(self, print_: Footprint, setting: Setting, total: int) -> None:
        self.sets: list[int] = []
        self.low: list[Any] = []
        self.high: list[Any] = []
        lanes = setting.lanes
        for wave in range(setting.wave_count):
            rows = slice(wave * lanes, (wave + 1) * lanes)
            on = print_.on[rows]
            where = print_.bytes[rows][on]
            who = np.broadcast_to(np.arange(lanes)[:, None], on.shape)[on]
            low = np.full(total, lanes, dtype=np.int64)
            high = np.full(total, -1, dtype=np.int64)
            np.minimum.at(low, where, who)
            np.maximum.at(high, where, who)
            self.low.append(low)
            self.high.append(high)
            self.sets.append(int.from_bytes(np.packbits(high >= 0).tobytes(), "big"))
        self.all = 0
        for one in self.sets:
            self.all |= one


def _lane_pair(x: _Bytes, y: _Bytes, wave: int) -> tuple[int, int] | None:
    """Two different lanes of a wave that touch one byte, the first by x and the second by y."""
    if not x.sets[wave] & y.sets[wave]:
        return None
    both = (x.high[wave] >= 0) & (y.high[wave] >= 0)
    for one, other in ((x.low, y.high), (x.high, y.low)):
        apart = np.flatnonzero(both & (one[wave] != other[wave]))
        if apart.size:
            at = int(apart[0])
            return int(one[wave][at]), int(other[wave][at])
    return None


class _Judge:
    def __init__(self, events: list[Event], setting: Setting, total: int, fences: frozenset[str]) -> None:
        self.setting = setting
        self.accesses = [event for event in events if isinstance(event, Access)]
        self.barriers = sum(1 for event in events if isinstance(event, Sync) and event.arrives)
        self.waves = [_Wave(w, fences) for w in range(setting.wave_count)]
        self.problems: dict[tuple[str, str, str], Problem] = {}
        made: dict[tuple[bytes, bytes], _Bytes] = {}
        self.bytes: list[_Bytes] = []
        for access in self.accesses:
            key = (access.footprint.bytes.tobytes(), access.footprint.on.tobytes())
            if key not in made:
                made[key] = _Bytes(access.footprint, setting, total)
            self.bytes.append(made[key])
        self.lane_pairs: dict[tuple[int, int, int], tuple[int, int] | None] = {}
        self._walk(events)

    def _add(self, problem: Problem) -> None:
        self.problems.setdefault((problem.kind, problem.first, problem.second), problem)

    def _present(self, threads: Bools) -> list[tuple[int, bool]]:
        """The waves with an active lane, and whether all lanes are."""
        rows = threads.reshape(self.setting.wave_count, self.setting.lanes)
        return [(w, bool(row.all())) for w, row in enumerate(rows) if row.any()]

    def _walk(self, events: list[Event]) -> None:
        number = 0
        for event in events:
            for w, whole in self._present(event.threads):
                if isinstance(event, Access):
                    self.waves[w].access(number)
                    continue
                if (event.arrives or event.departs) and not whole:
                    self._add(Problem("divergent", event.name, who=(w,)))
                self.waves[w].sync(event)
            number += isinstance(event, Access)

    def run(self) -> Verdict:
        self._protocol()
        for y in range(len(self.accesses)):
            for x in range(y):
                self._pair(x, y)
            if self.accesses[y].writes:
                self._self(y)
        return Verdict(tuple(self.problems.values()), self.barriers)

    def _protocol(self) -> None:
        for wave in self.waves:
            for problem in wave.problems:
                self._add(problem)
            if wave.arrived != wave.departed:
                self._add(Problem("hang", "end", "a signal without a wait", who=(wave.number,)))
            if wave.arrived != self.waves[0].arrived:
                self._add(Problem("hang", "end", "unequal arrivals", who=(0, wave.number)))

    def _pair(self, x: int, y: int) -> None:
        first, second = self.accesses[x], self.accesses[y]
        bx, by = self.bytes[x], self.bytes[y]
        if not (first.writes or second.writes) or not bx.all & by.all:
            return
        for one in self.waves:
            at_x = one.places.get(x)
            if at_x is None:
                continue
            for other in self.waves:
                at_y = other.places.get(y)
                if at_y is None:
                    continue
                if one is other:
                    fenced = at_x.fences < at_y.fences
                    if not fenced and at_x.next_arrival > at_y.departed:
                        self._lanes(x, y, one.number)
                elif at_x.performed > at_y.departed and bx.sets[one.number] & by.sets[other.number]:
                    who = (one.number, other.number)
                    self._add(Problem("waves", first.name, second.name, (first.iteration, second.iteration), who))

    def _lanes(self, x: int, y: int, wave: int) -> None:
        first, second = self.accesses[x], self.accesses[y]
        key = (id(self.bytes[x]), id(self.bytes[y]), wave)
        if key not in self.lane_pairs:
            self.lane_pairs[key] = _lane_pair(self.bytes[x], self.bytes[y], wave)
        pair = self.lane_pairs[key]
        if pair is not None:
            at = (first.iteration, second.iteration)
            self._add(Problem("lanes", first.name, second.name, at, (wave, *pair)))

    def _self(self, x: int) -> None:
        access, mine = self.accesses[x], self.bytes[x]
        for u, one in enumerate(mine.sets):
            for v in range(u):
                if one & mine.sets[v]:
                    self._add(Problem("same-waves", access.name, access.name, (access.iteration,), (v, u)))
            pair = _lane_pair(mine, mine, u)
            if pair is not None:
                self._add(Problem("same-lanes", access.name, access.name, (access.iteration,), (u, *pair)))


def judge(trace: Any, setting: Setting, fences: frozenset[str] = frozenset()) -> Verdict:
    """Brute force over all threads, iterations and pairs of accesses of one workgroup.

    `fences` names operations that are taken for wave-level fences: a scheduling barrier that nothing may cross, or a
    wait for LDS. Wave has no fence of that name, so that both are beliefs about LLVM, and off unless asked for.
    """
    unroller = Unroller(trace, setting)
    events = unroller.run()
    return _Judge(events, setting, max(1, unroller.total), fences).run()
