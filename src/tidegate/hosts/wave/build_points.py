"""Points of a trace, and what is known of the trace before there is one.

Needs   a trace, its context and a target
Gives   `TraceFacts`, which all parts of the builder ask; `TracePoints`: each point is added with the node before which
        an insertion goes; what the graph leaves out or widens
Keeps   only where all waves come can something be put in
Cost    constant for each point
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidegate.graph import model as g
from tidegate.graph.builder import GraphBuilder
from tidegate.hosts.wave.agreement import Agreement
from tidegate.hosts.wave.context import Context
from tidegate.hosts.wave.memory import Memory
from tidegate.hosts.wave.nodes import nodes_in, outer, span_of
from tidegate.hosts.wave.values import Values
from tidegate.targets import Target


@dataclass(frozen=True, slots=True)
class Unclear:
    """A node that is taken for worse than it may be, and why."""

    node: Any
    why: str


class TraceFacts:
    def __init__(self, trace: Any, context: Context, target: Target, coarse: bool, by_wave: bool) -> None:
        self.target, self.coarse, self.by_wave = target, coarse, by_wave
        self.root = trace.root_graph
        self.values = Values(trace)
        self.graphs = self.values.graphs
        self.memory = Memory(context, target.name, exact=not coarse, unset=self.values.symbols_set())
        self.context = self.memory.context
        self.agreement = Agreement(self.values, self.memory.numbers, context)
        self.lds, self.loads = target.counter_of("local_read"), target.counter_of("global_read")
        self.counters_of = {op: target.counter_of(op) for op in ("gather_to_lds", "tensor_load_to_lds")}


class TracePoints:
    """The place at which a trace is being built."""

    def __init__(self, b: GraphBuilder) -> None:
        self.b = b
        self.unclear: list[Unclear] = []
        self.widened: list[Unclear] = []
        self.unmodelled: list[Unclear] = []  # what the graph leaves out: nothing is proved of it
        self.of: dict[Any, int] = {}  # node → its point
        self.under = "uniform"
        self.last = -1  # the run of other operations that is open, or the access that may take in its neighbour
        self.stretch_from = 0  # where the straight code that is being built begins

    def add(self, action: g.Action, node: Any, label: str = "", **facts: Any) -> int:
        facts.setdefault("insertable", node is not None and self.under == "uniform")
        facts.setdefault("under", self.under)
        if node is not None:
            facts["at"] = span_of(node)
        number = self.b.add(action, label=label or node.name, place=node, **facts)
        if node is not None:
            self.of.setdefault(node, number)
        self.last = -1
        if not isinstance(action, g.Access) and label != "compute":
            self.stretch_from = number + 1
        return number

    def sync(self, op: g.GraphSyncOp, node: Any, **facts: Any) -> None:
        self.add(g.Sync(op), node, **facts)

    def unknown(self, node: Any, why: str) -> None:
        self.unclear.append(Unclear(node, why))
        self.add(g.Unknown(()), node)

    def uses(self, node: Any) -> tuple[int, ...]:
        """The points whose values a node needs."""
        found = (self.of.get(outer(each)) for each in nodes_in(node.args))
        return tuple(dict.fromkeys(each for each in found if each is not None))
