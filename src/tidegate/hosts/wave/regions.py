"""The regions of a trace: which graphs it runs, and what its loops carry.

Needs   a trace; its graphs by name
Gives   the graphs that the root leads to; initial, carried and final values of a loop, in the order of its results
Keeps   a graph that nothing refers to any more is not looked at: Wave leaves some behind
Cost    linear in the nodes
"""

from __future__ import annotations

from typing import Any

from tidegate.hosts.wave.nodes import argument, op_of


def region_of(node: Any) -> str:
    """The name of the graph that a loop or a conditional runs."""
    return str(argument(node, 2 if op_of(node) == "iterate" else 1))


def reached_graphs(trace: Any) -> list[Any]:
    """The root and what it leads to, outer graphs first."""
    graphs = trace.region_graph.subgraphs
    names = [trace.root_graph]
    for name in names:  # grows while it is read
        for node in graphs[name].nodes:
            if op_of(node) in ("iterate", "conditional") and region_of(node) not in names:
                names.append(region_of(node))
    return [graphs[name] for name in names]


def output_of(graph: Any) -> Any:
    return next((node for node in reversed(graph.nodes) if node.op == "output"), None)


def initial_values(node: Any) -> list[Any]:
    values = argument(node, 1)
    return list(values) if isinstance(values, list | tuple) else [values]


def carried_values(node: Any, graphs: dict[str, Any]) -> list[Any]:
    """The names of what a loop carries, in its body."""
    found = [each for each in graphs[region_of(node)].nodes if each.op == "placeholder" and "lifted" not in each.meta]
    return sorted(found, key=lambda each: getattr(each, "iter_idx", None) or 0)


def final_values(graph: Any) -> list[Any]:
    """What the body of a loop hands to the next iteration."""
    output = output_of(graph)
    values = output.args[0] if output is not None and output.args else []
    if isinstance(values, list | tuple) and len(values) == 1 and isinstance(values[0], list | tuple):
        values = values[0]
    return list(values) if isinstance(values, list | tuple) else [values]


def is_shared(node: Any) -> bool:
    """Whether an allocation is shared memory."""
    return "SHARED" in str(argument(node, 3, "SHARED"))
