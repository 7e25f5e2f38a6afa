"""The allocations of a trace as buffers.

Needs   the allocations of a trace, and the accesses to them
Gives   `Buffers`: where the memory that a value stands for lies, and what is known of whole buffers
Keeps   every allocation is a buffer, but not the one that holds the others; those that a loop uses in turn are slots of
        one; an access is taken to stay in its buffer, so where buffers lie matters only if they share bytes
Cost    one look at each pair of allocations; of a coarse graph, one at the bytes of each different access
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from tidegate.hosts.wave.arrays import Array, View, misplaced, share_bytes
from tidegate.hosts.wave.build_points import TraceFacts, TracePoints, Unclear
from tidegate.hosts.wave.parts import Parts, find_parts
from tidegate.hosts.wave.private import find_private
from tidegate.hosts.wave.regions import initial_values
from tidegate.hosts.wave.twins import Twins
from tidegate.hosts.wave.values import Values
from tidegate.index import Const

Turns = dict[Any, tuple[Any, int]]  # allocation that is used in turn → the first of them, and its place


@dataclass(slots=True)
class Buffers:
    values: Values
    shared: frozenset[Any]  # allocations that share bytes with others
    private: frozenset[Any] = frozenset()  # allocations in which every wave keeps to its own bytes
    merging: frozenset[Any] = frozenset()  # allocations of which neighbouring accesses may be taken for one
    parts: Parts = field(default_factory=Parts)
    views: dict[Any, View] = field(default_factory=dict)

    def view(self, node: Any) -> View | None:
        """The memory that a value stands for, if it is shared."""
        found = self.views.get(node)
        return self.views.get(self.values.source(node)) if found is None else found


def find_buffers(facts: TraceFacts, points: TracePoints) -> Buffers:
    """Declares the buffers of the graph."""
    values, memory = facts.values, facts.memory
    arrays = {node: memory.array(node) for node in values.allocations}
    points.unmodelled += [Unclear(node, why) for node, array in arrays.items() if (why := misplaced(array, arrays))]
    parents = {array.root for array in arrays.values() if array.offset is not None}
    arrays = {node: array for node, array in arrays.items() if node not in parents}
    pairs = [pair for pair in combinations(arrays, 2) if share_bytes(*(arrays[each] for each in pair))]
    found = Buffers(values, frozenset(node for pair in pairs for node in pair))
    turns = _in_turn(values, arrays, found.shared)
    partners: dict[Any, Any] = {}
    if facts.coarse:
        found.private = find_private(values, memory, found.shared)
        found.parts = find_parts(values, memory, found.shared | found.private)
        if facts.by_wave:
            found.parts.find_owned(memory)
        twins = Twins(values, found.parts, turns)
        partners, found.merging = twins.shares, frozenset(twins.merging)
    for node, array in arrays.items():
        partner = partners.get(node, node)
        first, slot = turns.get(partner, (partner, 0))
        found.views[node] = View(arrays[first].name, array, Const(slot))
    slots: dict[Any, int] = {}
    for node, (first, _) in turns.items():
        slots[first] = slots.get(first, 0) + (node in arrays)
    for node, array in arrays.items():
        if partners.get(node, node) is node and turns.get(node, (node, 0))[0] is node:
            offset = array.offset if node in found.shared else None
            points.b.buffer(array.name, _size_of(facts, found.parts, node, array), slots.get(node, 1), offset)
    return found


def _in_turn(values: Values, arrays: dict[Any, Array], shared: frozenset[Any]) -> Turns:
    """For allocations that a loop uses in turn, and for what it carries: the first of them, and their place."""
    found: Turns = {}
    for loop, turns in values.turns.items():
        starts = dict(zip(values.carried[loop], initial_values(loop), strict=False))
        for turn in turns:
            own = [values.source(starts[each]) for each in turn]
            if shared.isdisjoint(own) and all(arrays[each].bytes == arrays[own[0]].bytes for each in own):
                found |= {node: (own[0], slot) for slot, node in enumerate(own)}
                found |= {node: (own[0], slot) for slot, node in enumerate(turn)}
    return found


def _size_of(facts: TraceFacts, parts: Parts, node: Any, array: Array) -> int:
    """Bytes of a buffer, or the parts that stand for them."""
    count = parts.counts.get(node)
    return array.bytes if count is None else count * (facts.context.waves if facts.by_wave else 1)
