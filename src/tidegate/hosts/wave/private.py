"""Buffers in which every wave keeps to its own bytes.

Needs   the accesses of a trace, and which bytes they touch
Gives   the allocations of which each byte belongs to one wave, whoever carries them where
Keeps   an allocation that shares bytes with another, or that an operation takes which nobody has described, belongs to
        all; what is carried in turn is of one kind
Cost    until two waves are seen at one byte, which for most buffers is after two accesses
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidegate.hosts.wave.arrays import Array
from tidegate.hosts.wave.memory import Memory, Numeric
from tidegate.hosts.wave.nodes import PASSES_MEMORY, SYNCHRONIZATION
from tidegate.hosts.wave.values import Bases, Touching, Values


def is_private(memory: Memory, accesses: list[tuple[Any, Array]]) -> bool:
    """Whether each byte that these accesses of one buffer touch belongs to one wave."""
    waves = memory.context.waves
    if waves == 1:
        return True
    owner: Numeric | None = None
    for node, array in accesses:
        found = memory.threads(node, array)
        if found is None or memory.is_shifted(node):
            return False
        starts, width = found
        if owner is None:
            owner = np.full(array.bytes, -1, dtype=np.int64)
        rows = starts.reshape(waves, -1)
        for wave in range(waves):
            bytes_ = (rows[wave][:, None] + np.arange(width)).reshape(-1)
            if ((owner[bytes_] != -1) & (owner[bytes_] != wave)).any():
                return False
            owner[bytes_] = wave
    return True


def find_private(values: Values, memory: Memory, shared: frozenset[Any]) -> frozenset[Any]:
    """These allocations; none if there is one wave."""
    if memory.context.waves == 1:
        return frozenset()
    groups: dict[Bases, list[Touching]] = {}
    for each in values.touching.values():
        if each.bases and not each.bases & shared:
            groups.setdefault(each.bases, []).append(each)
    taken = {
        base
        for node, op in values.ops.items()
        if node not in values.touching and op not in PASSES_MEMORY and op not in SYNCHRONIZATION
        for each in node.all_input_nodes
        for base in values.bases_of(each)
    }
    found: set[Any] = set()
    for bases, accesses in groups.items():
        array = memory.array(next(iter(bases)))
        if not bases & taken and is_private(memory, [(each.node, array) for each in accesses]):
            found |= bases
    return frozenset(found)
