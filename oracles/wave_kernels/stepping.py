"""What a trace does to memory and how it synchronizes, as a list in program order.

Needs   a trace after the barrier pass; Wave's own context open
Gives   `steps_of`: each access, barrier and wait with its operation, its arguments, its graph and the depth of loops;
        loops and conditionals as a step where they begin and one, `end`, where they end
Keeps   an operation that is not an access, and does not synchronize, is left out; bytes are those of one lane
Cost    linear in the nodes

    {"op": "iterate", "graph": "region_0", "count": 8, "depth": 0}
    {"op": "write", "does": "write", "bytes": 16, "graph": "region_0", "depth": 1}
    {"op": "shared_memory_barrier", "args": [false, false], "graph": "region_0", "depth": 1}
    {"op": "end", "graph": "region_0", "depth": 0}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidegate.hosts.wave.nodes import ACCESSES, SYNCHRONIZATION, argument, is_shared_type, op_of, outer
from tidegate.hosts.wave.regions import region_of

ELEMENTS = {"read": 1, "write": 2, "atomic_add": 2, "atomic_min": 2, "gather_to_lds": 5}  # which argument says how many


def steps_of(trace: Any) -> list[dict[str, Any]]:
    return list(_steps(trace.region_graph.subgraphs, trace.root_graph, 0))


def _steps(graphs: dict[str, Any], name: str, depth: int) -> Iterator[dict[str, Any]]:
    for node in graphs[name].nodes:
        op = op_of(node)
        place = {"graph": name, "depth": depth}
        if op in ("iterate", "conditional"):
            inner = region_of(node)
            count = _count(node) if op == "iterate" else None
            yield {"op": op, "graph": inner, "count": count, "depth": depth}
            yield from _steps(graphs, inner, depth + (op == "iterate"))
            yield {"op": "end", "graph": inner, "depth": depth}
        elif op in SYNCHRONIZATION:
            yield {"op": op, "args": list(node.args), **place}
        elif op in ACCESSES:
            yield {"op": op, "name": node.name, "does": _does(node), "bytes": _bytes(node), **place}


def _count(node: Any) -> int | None:
    """How often a loop runs, if that is a number."""
    if argument(node, 6) is not None:  # until a condition holds
        return None
    try:
        return -(-(int(node.count) - int(argument(node, 5) or 0)) // int(argument(node, 4, 1)))
    except (AttributeError, TypeError, ValueError):
        return None


def _does(node: Any) -> str:
    """`read`, `write`, `atomic` or `copy` of shared memory; `load` or `store` elsewhere."""
    place, what, goes_on = ACCESSES[op_of(node)]
    memory = argument(node, place)
    while isinstance(memory, list | tuple):
        memory = memory[0]
    if goes_on:
        return "copy"
    if is_shared_type(outer(memory)):
        return what
    return "load" if what == "read" else "store"


def _bytes(node: Any) -> int:
    """Of one lane; 0 where nobody says."""
    op = op_of(node)
    elements = argument(node, ELEMENTS[op]) if op in ELEMENTS else None
    kind = argument(node, 4) if op == "gather_to_lds" else getattr(getattr(node, "type", None), "dtype", None)
    try:
        return -(-int(elements) * kind.bitwidth() // 8)
    except (AttributeError, TypeError, ValueError):
        return 0
