"""The regions of a trace: which graphs it runs, and what its loops carry.

Needs   a trace; its graphs by name
Gives   the graphs that the root leads to; initial, carried and final values of a loop, in the order of its results; the
        regions of which a graph would say something else than Wave's code generator
Keeps   a graph that nothing refers to any more is not looked at: Wave leaves some behind
Cost    linear in the nodes
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidegate.hosts.wave.nodes import argument, is_node, op_of, outer

if TYPE_CHECKING:
    from tidegate.hosts.wave.values import Values


def region_of(node: Any) -> str:
    """The name of the graph that a loop or a conditional runs."""
    return str(argument(node, 2 if op_of(node) == "iterate" else 1))


def reached_graphs(trace: Any) -> list[Any]:
    """The root and what it leads to, outer graphs first."""
    graphs = trace.region_graph.subgraphs
    names = [trace.root_graph]
    for name in names:  # grows while it is read
        for node in emitted(graphs[name]):
            if op_of(node) in ("iterate", "conditional") and region_of(node) not in names:
                names.append(region_of(node))
    return [graphs[name] for name in names]


def output_of(graph: Any) -> Any:
    return next((node for node in graph.nodes if node.op == "output"), None)


def emitted(graph: Any) -> Iterator[Any]:
    """The nodes that Wave's code generator makes code of: it stops at the first `output`, whatever stands behind."""
    for node in graph.nodes:
        yield node
        if node.op == "output":
            return


def start_of(loop: Any) -> Any:
    """What a loop with a condition starts with; None if it counts, as Wave lets it if it is to start with 0."""
    start = argument(loop, 5)
    return start if start is not None and (is_node(start) or start) else None


def initial_values(node: Any) -> list[Any]:
    return _flat(argument(node, 1))


def _flat(values: Any) -> list[Any]:
    """Lists in lists as one list, as Wave's code generator takes what loops start with and what they hand on."""
    if not isinstance(values, list | tuple):
        return [values]
    return [each for value in values for each in _flat(value)]


def carried_values(node: Any, graphs: dict[str, Any]) -> list[Any]:
    """The names of what a loop carries, in its body."""
    return sorted(filter(_is_carried, graphs[region_of(node)].nodes), key=lambda each: each.iter_idx)


def _is_carried(node: Any) -> bool:
    """Whether a value of a region is one that its loop carries."""
    return node.op == "placeholder" and getattr(node, "iter_idx", None) is not None


def final_values(graph: Any) -> list[Any]:
    """What the body of a loop hands to the next iteration."""
    output = output_of(graph)
    return _flat(output.args[0] if output is not None and output.args else [])


def _is_captured(node: Any) -> bool:
    return node.op == "placeholder" and not _is_carried(node)


def find_unread(values: Values) -> Iterator[tuple[Any, str]]:
    """Loops and conditionals whose regions stand for something else than what is read of them, and why.

    Wave's code generator takes what a conditional, or a loop with a condition, hands its region from the node itself,
    in the order of the region's placeholders (`handle_conditional`, `handle_iterate_while`). Everything else goes by
    what a placeholder says it was lifted from, and the two may differ.
    """
    runs: dict[str, Any] = {}
    for node, op in values.ops.items():
        if op not in ("conditional", "iterate"):
            continue
        if region_of(node) in runs:
            yield node, "another operation runs its region, too"
        runs[region_of(node)] = node
        if op == "iterate" and start_of(node) is None:
            continue
        own = [each for each in values.graphs[region_of(node)].nodes if _is_captured(each)]
        for each, given in zip(own, argument(node, 3 if op == "iterate" else 2) or (), strict=False):
            if not is_node(given) or ("lifted" in each.meta and outer(each) is outer(given)):
                continue
            if "lifted" in each.meta or values.bases_of(given):
                yield node, "it hands its region other values than the region names"


def is_shared(node: Any) -> bool:
    """Whether an allocation is shared memory."""
    return "SHARED" in str(argument(node, 3, "SHARED"))
