"""Which accesses to shared memory nothing orders, exactly for one run.

Needs   each access at its issue, the moment at which a wait made it certain, arrivals and departures as clocks
Gives   `Watch.issue`: the races of an access with all before it; each pair of lines once
Keeps   two accesses are ordered if the first was certain before its wave arrived at a barrier that the second's wave
        had left when it issued; within a wave if the first was certain, or both go through the LDS unit, whose order is
        that of issue; two ordinary writes of equal bytes are no race: layouts hold a value in several waves
Cost    one indexing by accesses: the last read, write and copy of each wave at each byte are kept

That the last of each kind is enough: a wave's accesses of one kind become certain in order, so whatever is ordered
after the last is ordered after the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oracles.amdgcn_machine.access import Touch
from oracles.amdgcn_machine.counters import Access
from oracles.amdgcn_machine.wave import Wave

NEVER = 1 << 60
READ, WRITE, ATOMIC, COPY_IN, COPY_OUT = range(5)  # what a wave did last to a byte


@dataclass(frozen=True, slots=True, order=True)
class Race:
    """Two accesses to one byte; the first was issued first in this run."""

    first: int  # line
    second: int
    kind: str
    byte: int
    waves: tuple[int, int]

    def __str__(self) -> str:
        return (
            f"{self.kind} between lines {self.first} (wave {self.waves[0]}) and {self.second} "
            f"(wave {self.waves[1]}) at byte {self.byte}"
        )


class Watch:
    """Keeps what was done to each byte of shared memory."""

    def __init__(self, size: int, waves: int) -> None:
        self.last = np.zeros((waves * 5, size), np.int32)  # numbers of accesses; 0: none
        self.values = np.zeros((waves, size), np.uint8)  # that a wave's last ordinary write put there
        self.certain = np.array([-1], np.int64)  # of an access, the time of its wave at which it was certain
        self.lines = [0]
        self.count = 1
        self.races: dict[tuple[int, int, str], Race] = {}
        self.waves, self.size = waves, size
        self.numbers: dict[int, int] = {}

    def issue(self, wave: Wave, access: Access) -> None:
        """Looks at an access, then remembers it."""
        if not access.touches:
            return
        number = self._add(access)
        for touch in access.touches:
            kind = _kind(access, touch)
            if touch.is_write and not touch.is_atomic:
                self._look_among_lanes(wave, access, touch)
            places = np.unique(touch.bytes)
            places = places[places < self.size]
            if kind == WRITE and touch.values is not None:
                inside = touch.bytes < self.size
                self.values[wave.number, touch.bytes[inside]] = touch.values[inside]
            self._look(wave, access, kind, places)
            self.last[wave.number * 5 + kind, places] = number

    def done(self, wave: Wave, access: Access) -> None:
        """A wait of its wave made the access certain."""
        number = self.numbers.pop(id(access), None)
        if number is not None:
            self.certain[number] = wave.time

    def _add(self, access: Access) -> int:
        if self.count == len(self.certain):
            self.certain = np.concatenate([self.certain, np.full(len(self.certain) + 1024, NEVER)])
        number = self.count
        self.certain[number] = NEVER
        self.lines.append(access.line)
        self.numbers[id(access)] = number
        self.count += 1
        return number

    def _look(self, wave: Wave, access: Access, kind: int, places: np.ndarray) -> None:
        before = self.last[:, places]
        ordered = self.certain[before] <= self._horizon(wave, kind)[:, None]
        conflicts = ~ordered & (before > 0) & CONFLICTS[kind][np.arange(len(before)) % 5][:, None]
        if kind == WRITE:  # where a layout holds a value twice, two waves write the same
            same = self.values[:, places] == self.values[wave.number, places]
            conflicts[WRITE::5] &= ~same
        if not conflicts.any():
            return
        for row, column in zip(*np.nonzero(conflicts), strict=True):
            other, what = divmod(int(row), 5)
            line = self.lines[before[row, column]]
            name = f"{NAMES[what]}-{NAMES[kind]}"
            race = Race(line, access.line, name, int(places[column]), (other, wave.number))
            self.races.setdefault((line, access.line, name), race)

    def _horizon(self, wave: Wave, kind: int) -> np.ndarray:
        """For each row of `last`, the time up to which a certain access is ordered before this wave now."""
        found = np.repeat(np.array(wave.known, np.int64), 5)
        own = wave.number * 5
        found[own : own + 5] = wave.time
        if kind in (READ, WRITE, ATOMIC):
            found[own : own + 3] = NEVER  # the LDS unit goes in order
        return found

    def _look_among_lanes(self, wave: Wave, access: Access, touch: Touch) -> None:
        """Two lanes that write different values to one byte."""
        if touch.values is None:
            return
        inside = touch.bytes < self.size
        flat, values = touch.bytes[inside], touch.values[inside]
        order = np.argsort(flat, kind="stable")
        same = flat[order][1:] == flat[order][:-1]
        different = same & (values[order][1:] != values[order][:-1])
        if different.any():
            byte = int(flat[order][1:][different][0])
            race = Race(access.line, access.line, "lanes", byte, (wave.number, wave.number))
            self.races.setdefault((access.line, access.line, "lanes"), race)


NAMES = ("read", "write", "atomic", "copy in", "copy out")
_READS = {READ, COPY_OUT}
CONFLICTS = np.array(
    [[not ({a, b} <= _READS or a == b == ATOMIC) for b in range(5)] for a in range(5)]
)  # two copies to one byte do conflict: each comes when it comes


def _kind(access: Access, touch: Touch) -> int:
    if access.is_copy:
        return COPY_IN if touch.is_write else COPY_OUT
    return ATOMIC if touch.is_atomic else WRITE if touch.is_write else READ
