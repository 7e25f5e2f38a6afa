"""Nodes of a trace, as far as synchronization depends on them.

Needs   fx nodes of Wave: the name of their operation and their arguments in the order in which Wave declares them
Gives   what an operation does to memory, which allocation a value stands for, where it comes from
Keeps   nothing of Wave is imported, and no operation object is made: a node is asked directly
Cost    constant for each question
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidegate.diag import NOWHERE, Span

# Operations that read or write memory: which argument that is, what they do to it, and whether it goes on behind them.
ACCESSES: dict[str, tuple[int, str, bool]] = {
    "read": (0, "read", False),
    "write": (1, "write", False),
    "atomic_add": (1, "atomic", False),
    "atomic_min": (1, "atomic", False),
    "scatter_add": (3, "atomic", False),
    "gather_to_lds": (1, "write", True),
    "tensor_load_to_lds": (1, "write", True),
}
# What memory is handed through, without being touched.
PASSES_MEMORY = ("iterate", "conditional", "get_result", "getitem", "output", "allocate", "placeholder")
SYNCHRONIZATION = (
    "shared_memory_barrier",
    "shared_memory_barrier_signal",
    "shared_memory_barrier_wait",
    "workgroup_barrier",
    "memory_counter_wait",
)
# Orders nothing in memory; later compilers move nothing across, or fewer things.
SCHEDULING = ("scheduling_barrier", "scheduling_group_barrier", "set_wave_prio")
PRODUCTS = ("mma", "scaled_mma")
_SHARED = "$SHARED_ADDRESS_SPACE"


def op_of(node: Any) -> str:
    """The name of an operation; `placeholder` and `output` for the ends of a graph."""
    name = getattr(node, "tkw_op_name", "") or ""
    if node.op in ("placeholder", "output"):
        return str(node.op)
    return str(name or getattr(node.target, "__name__", "") or "unknown")


def argument(node: Any, number: int, default: Any = None) -> Any:
    return node.args[number] if len(node.args) > number else default


def is_node(value: Any) -> bool:
    return hasattr(value, "tkw_op_name") or (hasattr(value, "op") and hasattr(value, "graph"))


def nodes_in(value: Any) -> Iterator[Any]:
    """The nodes among the arguments of a node, those in lists included."""
    if isinstance(value, list | tuple):
        for each in value:
            yield from nodes_in(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from nodes_in(each)
    elif is_node(value):
        yield value


def outer(node: Any) -> Any:
    """What a captured value is, where it comes from."""
    seen = 0
    while node.op == "placeholder" and "lifted" in node.meta and seen < 100:
        node, seen = node.meta["lifted"], seen + 1
    return node


def is_shared_type(node: Any) -> bool:
    """Whether the type of a value says that it is shared memory."""
    space = getattr(getattr(node, "type", None), "address_space", None)
    return space is not None and str(space) == _SHARED


def says_space(node: Any) -> bool:
    """Whether the type of a value says where memory lies."""
    return getattr(getattr(node, "type", None), "address_space", None) is not None


def span_of(node: Any) -> Span:
    """The place in the source, if Wave has kept it."""
    found = getattr(node, "location", None)
    at = found
    while at is not None and not hasattr(at, "filename"):  # a stack of places: the innermost
        frames = getattr(at, "frames", None)
        at = frames[0] if frames else None
    if at is None:
        return NOWHERE
    line = at.line[0] if isinstance(at.line, tuple) else at.line
    column = at.col[0] if isinstance(at.col, tuple) else at.col
    same = isinstance(at.col, tuple) and not (isinstance(at.line, tuple) and at.line[0] != at.line[1])
    last = at.col[1] if same else column
    return Span(str(at.filename), int(line), int(column) + 1, max(int(last), int(column) + 1) + 1)
