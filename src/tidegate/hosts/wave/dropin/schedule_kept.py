"""A trace as it stands, so that what is done to it can be taken back.

Needs   a `CapturedTrace`
Gives   `Kept`: the order of all nodes, what they are given, and which graphs there are
Keeps   nodes that were put in meanwhile go, nodes that were moved go back, graphs that were taken away return
Cost    linear in the nodes
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Kept:
    """What `put_back` brings back."""

    trace: Any
    graphs: dict[str, Any]
    of_root: dict[str, Any]  # Wave keeps a second table of graphs at the outermost one
    nodes: tuple[tuple[Any, tuple[tuple[Any, Any], ...]], ...]  # graph → its nodes in order, with their arguments

    def put_back(self) -> None:
        for name, graph in self.trace.region_graph.subgraphs.items():
            if self.graphs.get(name) is not graph:
                erase_nodes(graph)
        for table, kept in ((self.trace.region_graph.subgraphs, self.graphs), (_of_root(self.trace), self.of_root)):
            table.clear()
            table.update(kept)
        for graph, nodes in self.nodes:
            for node, args in nodes:
                if node.args != args:
                    node.args = args
            stood = {node for node, _ in nodes}
            for node in reversed([each for each in graph.nodes if each not in stood]):
                graph.erase_node(node)
            put_in_order(graph, [node for node, _ in nodes])

    def is_changed(self) -> bool:
        """Whether other graphs or other nodes are there now, or in another order."""
        if self.trace.region_graph.subgraphs != self.graphs:
            return True
        return any(list(graph.nodes) != [node for node, _ in nodes] for graph, nodes in self.nodes)


def keep(trace: Any) -> Kept:
    """The trace as it stands now."""
    graphs = trace.region_graph.subgraphs
    nodes = tuple((graph, tuple((node, node.args) for node in graph.nodes)) for graph in graphs.values())
    return Kept(trace, dict(graphs), dict(_of_root(trace)), nodes)


def put_in_order(graph: Any, nodes: list[Any]) -> None:
    """Moves the nodes of a graph; they are all of them."""
    last = None
    for node, now in zip(nodes, list(graph.nodes), strict=True):
        if last is None:
            if node is not now:
                now.prepend(node)
        elif last.next is not node:
            last.append(node)
        last = node


def erase_nodes(graph: Any) -> None:
    """Takes a graph apart: else what it uses of other graphs counts it as a user for ever."""
    for node in reversed(list(graph.nodes)):
        graph.erase_node(node)


def _of_root(trace: Any) -> dict[str, Any]:
    found: dict[str, Any] = trace.get_root_graph().subgraphs
    return found
