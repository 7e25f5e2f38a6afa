"""Buffers by their parts: as little about bytes as placing barriers needs.

Needs   the accesses of a trace, and which bytes their threads touch
Gives   for each buffer how many parts it has; for each access that writes, its part
Keeps   two accesses of different parts have no byte in common, in any wave; a read touches all parts. Buffers that
        share bytes with others, and those with an index that cannot be followed, have no parts and stay as they are
Cost    one look at the bytes of each different access that writes

    write %a[wave * 1088]; write %a[wave * 1088 + 4352]; read %a[...]       part 0; part 1; both parts
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tidegate.adapters.wave.memory import Array, Memory
from tidegate.adapters.wave.nodes import ACCESSES, argument, is_node, op_of
from tidegate.adapters.wave.private import Groups, find_bases


@dataclass
class Parts:
    """Which part of its buffer an access writes."""

    counts: dict[Any, int] = field(default_factory=dict)  # allocation → its parts
    numbers: dict[Any, int] = field(default_factory=dict)  # access → its part
    owned: set[Any] = field(default_factory=set)  # accesses to parts of which each byte belongs to one wave
    groups: list[tuple[Array, list[Any]]] = field(default_factory=list)  # a buffer, and what writes to it

    def find_owned(self, memory: Memory) -> None:
        """Fills `owned`."""
        for array, nodes in self.groups:
            for part in {self.numbers[each] for each in nodes}:
                own = [each for each in nodes if self.numbers[each] == part]
                if memory.is_private([(each, array) for each in own]):
                    self.owned.update(own)


def find_parts(
    graphs: Iterable[Any], memory: Memory, groups: Groups, regions: dict[str, Any], without: frozenset[Any]
) -> Parts:
    """The parts of all buffers but those `without`."""
    writes: dict[frozenset[Any], list[Any]] = {}
    for graph in graphs:
        for node in graph.nodes:
            if op_of(node) not in ACCESSES:
                continue
            which, effect, _ = ACCESSES[op_of(node)]
            value = argument(node, which)
            bases = frozenset(find_bases(value, groups, regions)) if is_node(value) else frozenset()
            if bases and not bases & without:
                writes.setdefault(bases, [])
                if effect != "read":
                    writes[bases].append(node)
    found = Parts()
    for bases, nodes in writes.items():
        array = memory.array(next(iter(bases)))
        own = _parts_of(nodes, memory, array)
        if own is not None:
            found.groups.append((array, nodes))
            found.numbers |= own
            found.counts |= dict.fromkeys(bases, max(own.values(), default=0) + 1)
    return found


def _parts_of(nodes: list[Any], memory: Memory, array: Array) -> dict[Any, int] | None:
    """For each access its part; None if the bytes of one of them are not known."""
    leader: list[int] = []
    keys: dict[Any, int] = {}
    owner = np.full(array.bytes, -1, dtype=np.int64)

    def lead(number: int) -> int:
        while leader[number] != number:
            number = leader[number]
        return number

    for node in nodes:
        key = memory.key(node, array)
        if key in keys:
            continue
        found = memory.threads(node, array, key)
        if found is None or memory.is_shifted(node):
            return None
        number = keys[key] = len(leader)
        leader.append(number)
        starts, width = found
        bytes_ = np.unique((np.unique(starts)[:, None] + np.arange(width)).reshape(-1))
        for other in np.unique(owner[bytes_]):
            if other >= 0:
                leader[lead(number)] = lead(int(other))
        owner[bytes_] = number
    order: dict[int, int] = {}
    for number in range(len(leader)):
        order.setdefault(lead(number), len(order))
    return {node: order[lead(keys[memory.key(node, array)])] for node in nodes}
