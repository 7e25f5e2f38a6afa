"""Buffers by their parts: as little about bytes as placing barriers needs.

Needs   the accesses of a trace, and which bytes their threads touch
Gives   for each buffer how many parts it has; for each access the parts that it touches
Keeps   two writes to different parts have no byte in common, in any wave; a read touches all parts of which it has a
        byte. Buffers that share bytes with others, and those with an index that cannot be followed, have no parts
Cost    one look at the bytes of each different access

    write %a[wave * 1088]; write %a[wave * 1088 + 4352]; read %a[...]       part 0; part 1; both parts
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tidegate.hosts.wave.arrays import Array
from tidegate.hosts.wave.memory import Memory, Numeric
from tidegate.hosts.wave.private import is_private
from tidegate.hosts.wave.values import Bases, Values

NOBODY = -1


@dataclass
class Parts:
    """Which parts of its buffer an access touches: the first, and how many."""

    counts: dict[Any, int] = field(default_factory=dict)  # allocation → its parts
    spans: dict[Any, tuple[int, int]] = field(default_factory=dict)  # access → its parts
    owned: set[Any] = field(default_factory=set)  # writes to parts of which each byte belongs to one wave
    groups: list[tuple[Array, list[Any]]] = field(default_factory=list)  # a buffer, and what writes to it

    def find_owned(self, memory: Memory) -> None:
        """Fills `owned`."""
        for array, nodes in self.groups:
            for part in {self.spans[each] for each in nodes}:
                own = [each for each in nodes if self.spans[each] == part]
                if is_private(memory, [(each, array) for each in own]):
                    self.owned.update(own)


def find_parts(values: Values, memory: Memory, without: frozenset[Any]) -> Parts:
    """The parts of all buffers but those `without`."""
    touching: dict[Bases, tuple[list[Any], list[Any]]] = {}  # writes and reads
    for each in values.touching.values():
        if each.bases and not each.bases & without:
            touching.setdefault(each.bases, ([], []))[each.effect == "read"].append(each.node)
    found = Parts()
    for bases, (writes, reads) in touching.items():
        _Buffer(memory, memory.array(next(iter(bases)))).fill(found, bases, writes, reads)
    return found


class _Buffer:
    def __init__(self, memory: Memory, array: Array) -> None:
        self.memory, self.array = memory, array
        self.owner = np.full(array.bytes, NOBODY, dtype=np.int64)  # byte → the last kind of write that touches it
        self.leader: list[int] = []
        self.kinds: dict[Any, int] = {}  # writes with one key are of one kind

    def fill(self, found: Parts, bases: frozenset[Any], writes: list[Any], reads: list[Any]) -> None:
        for node in writes:
            if not self.add(node):
                return
        order: dict[int, int] = {}
        for number in range(len(self.leader)):
            order.setdefault(self.lead(number), len(order))
        count = max(1, len(order))
        found.counts |= dict.fromkeys(bases, count)
        found.groups.append((self.array, writes))
        for node in writes:
            found.spans[node] = (order[self.lead(self.kinds[self.memory.key(node, self.array)])], 1)
        if count > 1:
            parts = np.array([*(order[self.lead(number)] for number in range(len(self.leader))), NOBODY])
            self.read(found, reads, parts[self.owner], count)

    def add(self, node: Any) -> bool:
        """A write; False if its bytes are not known."""
        key = self.memory.key(node, self.array)
        if key in self.kinds:
            return True
        bytes_ = self.bytes(node, key)
        if bytes_ is None:
            return False
        number = self.kinds[key] = len(self.leader)
        self.leader.append(number)
        for other in set(self.owner[bytes_].ravel().tolist()) - {NOBODY}:
            self.leader[self.lead(number)] = self.lead(other)
        self.owner[bytes_] = number
        return True

    def lead(self, number: int) -> int:
        while self.leader[number] != number:
            number = self.leader[number]
        return number

    def bytes(self, node: Any, key: Any) -> Numeric | None:
        found = self.memory.threads(node, self.array, key)
        if found is None or self.memory.is_shifted(node):
            return None
        starts, width = found
        return starts.reshape(-1, 1) + np.arange(width)

    def read(self, found: Parts, reads: list[Any], parts: Numeric, count: int) -> None:
        known: dict[Any, tuple[int, int]] = {}
        for node in reads:
            key = self.memory.key(node, self.array)
            if key not in known:
                bytes_ = self.bytes(node, key)
                if bytes_ is None:
                    known[key] = (0, count)
                else:
                    touched = parts[bytes_]
                    last = int(touched.max())
                    first = last if last < 0 else int(np.where(touched < 0, count, touched).min())
                    known[key] = (max(first, 0), last - first + 1)
            found.spans[node] = known[key]
