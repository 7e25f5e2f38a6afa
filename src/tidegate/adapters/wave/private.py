"""Buffers in which every wave keeps to its own bytes.

Needs   a trace, its memory, and which bytes its accesses touch
Gives   the allocations of which each byte belongs to one wave, whoever carries them where
Keeps   what a loop carries may be any of the allocations that it starts with; an allocation that shares bytes with
        another, or that an operation takes which nobody has described, belongs to all
Cost    until two waves are seen at one byte, which for most buffers is after two accesses
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Any

from tidegate.adapters.wave.memory import Array, Memory, share_bytes
from tidegate.adapters.wave.nodes import (
    ACCESSES,
    PASSES_MEMORY,
    SYNCHRONIZATION,
    argument,
    is_node,
    nodes_in,
    op_of,
    outer,
)
from tidegate.adapters.wave.regions import carried_values, final_values, initial_values, is_shared, region_of

# For a value that a loop carries, the allocations that it may stand for.
Groups = dict[Any, set[Any]]


def find_private(graphs: Iterable[Any], memory: Memory, groups: Groups, regions: dict[str, Any]) -> frozenset[str]:
    """The names of these buffers; none if there is one wave."""
    if memory.context.waves == 1:
        return frozenset()
    reached = list(graphs)
    accesses: dict[Any, list[tuple[Any, Array]]] = {}
    belongs_to_all: set[Any] = set()
    allocations: list[Any] = []
    for graph in reached:
        for node in graph.nodes:
            op = op_of(node)
            if op == "allocate" and is_shared(node):
                allocations.append(node)
            if op in PASSES_MEMORY or op in SYNCHRONIZATION:
                continue
            for base in {base for each in nodes_in(node.args) for base in find_bases(each, groups, regions)}:
                if op in ACCESSES:
                    accesses.setdefault(base, []).append((node, memory.array(base)))
                else:
                    belongs_to_all.add(base)
    for one, other in combinations([each for each in allocations if each in accesses], 2):
        if share_bytes(memory.array(one), memory.array(other)):
            belongs_to_all |= {one, other}
    found = {base for base, each in accesses.items() if base not in belongs_to_all and memory.is_private(each)}
    for group in groups.values():  # whatever is carried in turn is of one kind
        if not group <= found:
            found -= group
    return frozenset(memory.array(base).name for base in found)


def find_groups(graphs: list[Any], regions: dict[str, Any]) -> Groups:
    """For every value that memory is handed on by, the allocations that it may stand for."""
    leader: dict[Any, Any] = {}

    def lead(value: Any) -> Any:
        while leader.setdefault(value, value) is not value:
            value = leader[value]
        return value

    for graph in graphs:
        for node in graph.nodes:
            if op_of(node) == "iterate":
                final = final_values(regions[region_of(node)])
                for each, *others in zip(carried_values(node, regions), initial_values(node), final, strict=False):
                    for other in others:
                        if is_node(other):
                            leader[lead(each)] = lead(_source(other, regions))
    members: dict[Any, set[Any]] = {}
    for value in leader:
        members.setdefault(lead(value), set()).update(_allocation(value))
    return {value: members[lead(value)] for value in leader if members[lead(value)]}


def find_bases(node: Any, groups: Groups, regions: dict[str, Any]) -> set[Any]:
    """The allocations that a value may stand for."""
    source = _source(node, regions)
    return groups.get(source) or _allocation(source)


def _allocation(node: Any) -> set[Any]:
    return {node} if op_of(node) == "allocate" and is_shared(node) else set()


def _source(node: Any, regions: dict[str, Any]) -> Any:
    """What a value is, captured or handed on by a loop."""
    node = outer(node)
    if op_of(node) in ("get_result", "getitem") and is_node(node.args[0]) and op_of(node.args[0]) == "iterate":
        carried = carried_values(node.args[0], regions)
        number = argument(node, 1)
        if isinstance(number, int) and number < len(carried):
            return carried[number]
    return node
