"""A Wave trace as a `SyncGraph`.

Needs   a `CapturedTrace` as it stands before or after Wave's barrier pass, its context, and a target
Gives   the graph; for every point the node before which an insertion there goes; what could not be understood
Keeps   what nobody has described and what takes shared memory reads and writes all of it, and is reported; an operation
        that all waves carry out together does not conflict with itself; conditions that nobody can follow may go
        either way, each time
Cost    linear in the nodes, plus one evaluation for each different index

    read(%a) read(%a) mma mma write(%b)       read %a[...]; compute; write %b[...]

`coarse`: to place barriers that all waves meet at, it is enough to know which buffers waves exchange something through,
and which writes have bytes in common (`parts`): a read counts as one of all waves of all of its buffer, and neighbours
that need no order among them are one point (`merging`). `by_wave`: a wave's own part of a part stays its own, which
costs more to ask about. Nothing is ever proved of a coarse graph: barriers that were placed with it are read back from
the trace, access by access and byte by byte.

`_TraceBuilder` makes the parts that build the graph, and says which of them takes a node; regions come back to it
through `Flow.build`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidegate.graph import model as g
from tidegate.graph.builder import GraphBuilder
from tidegate.hosts.wave.build_access import TraceAccesses
from tidegate.hosts.wave.build_buffers import find_buffers
from tidegate.hosts.wave.build_flow import Flow
from tidegate.hosts.wave.build_points import TraceFacts, TracePoints, Unclear
from tidegate.hosts.wave.build_symbols import SymbolNames
from tidegate.hosts.wave.build_sync import synchronize
from tidegate.hosts.wave.context import Context
from tidegate.hosts.wave.nodes import ACCESSES, PASSES_MEMORY, SYNCHRONIZATION
from tidegate.hosts.wave.regions import find_unread, output_of
from tidegate.targets import Target

__all__ = ["Built", "Unclear", "build"]


@dataclass(frozen=True)
class Built:
    """A graph, where its points come from, and what could not be understood."""

    graph: g.SyncGraph
    nodes: tuple[Any, ...]  # point → its node; an insertion before the point goes before it
    unclear: tuple[Unclear, ...]
    widened: tuple[Unclear, ...] = ()  # accesses that are taken for ones to a whole buffer
    unmodelled: tuple[Unclear, ...] = ()  # what the graph leaves out: nothing is proved of the trace


def build(
    trace: Any, context: Context, target: Target, *, name: str = "kernel", coarse: bool = False, by_wave: bool = False
) -> Built:
    """The graph of a trace."""
    facts = TraceFacts(trace, context, target, coarse, by_wave)
    return _TraceBuilder(facts, GraphBuilder(name, context.waves, target.name)).built()


class _TraceBuilder:
    def __init__(self, facts: TraceFacts, b: GraphBuilder) -> None:
        self.facts, self.b = facts, b
        self.points = TracePoints(b)
        buffers = find_buffers(facts, self.points)
        symbols = SymbolNames(facts)
        self.accesses = TraceAccesses(facts, self.points, buffers, symbols)
        self.flow = Flow(facts, self.points, buffers, symbols, self.operation)

    def built(self) -> Built:
        points, root = self.points, self.facts.graphs[self.facts.root]
        points.unmodelled += [Unclear(node, why) for node, why in find_unread(self.facts.values)]
        self.flow.region(root)
        if self.b.open or not self.b.points:
            points.add(g.End(), output_of(root), "end")
        said = (tuple(each) for each in (points.unclear, points.widened, points.unmodelled))
        return Built(self.b.finish(), tuple(self.b.places), *said)

    def operation(self, node: Any) -> None:
        """The first row that fits takes the node."""
        values = self.facts.values
        op = values.ops[node]
        if op in ACCESSES:
            self.accesses.access(node, op)
        elif op == "iterate":
            self.flow.loop(node)
        elif op == "conditional":
            self.flow.conditional(node)
        elif op in SYNCHRONIZATION:
            synchronize(self.facts, self.points, node, op)
        elif op in PASSES_MEMORY:
            pass
        elif op == "set_symbol":
            self.flow.set_symbol(node)
        elif values.takes_memory(node):
            self.accesses.anything(node)
        elif any(isinstance(each, str) and each in self.facts.graphs for each in node.args):
            self.points.unknown(node, "it is unknown when its region runs")
        else:
            self.accesses.other(node, op)
