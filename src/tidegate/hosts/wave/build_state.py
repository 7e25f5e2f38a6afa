"""What building a graph of a trace has in common: points, views of memory, synchronization.

Needs   a trace, its context and a target
Gives   `State`: points are added to one `GraphBuilder`, each with the node before which an insertion goes
Keeps   only where all waves come can something be put in; Wave's barriers do what its code generator makes of them, not
        what their flags promise
Cost    constant for each point
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidegate.graph import model as g
from tidegate.graph.builder import GraphBuilder
from tidegate.hosts.wave.agreement import Agreement
from tidegate.hosts.wave.arrays import View
from tidegate.hosts.wave.context import Context
from tidegate.hosts.wave.memory import Memory
from tidegate.hosts.wave.nodes import argument, nodes_in, outer, span_of
from tidegate.hosts.wave.parts import Parts
from tidegate.hosts.wave.uniform import Uniform
from tidegate.hosts.wave.values import Bases, Values
from tidegate.index import WORKGROUP
from tidegate.language import ops
from tidegate.language.ops import Value
from tidegate.targets import Target

WORKGROUP_BARRIER = -1


@dataclass(frozen=True, slots=True)
class Unclear:
    """A node that is taken for worse than it may be, and why."""

    node: Any
    why: str


class State:
    def __init__(self, trace: Any, context: Context, target: Target, name: str, coarse: bool, by_wave: bool) -> None:
        self.trace, self.context, self.target, self.coarse, self.by_wave = trace, context, target, coarse, by_wave
        self.values = Values(trace)
        self.graphs = self.values.graphs
        self.memory = Memory(context, target.name, exact=not coarse, unset=self.values.symbols_set())
        self.context = self.memory.context
        self.agreement = Agreement(self.values, self.memory.numbers, context)
        self.b = GraphBuilder(name, context.waves, target.name)
        self.nodes: list[Any] = []
        self.unclear: list[Unclear] = []
        self.widened: list[Unclear] = []
        self.unmodelled: list[Unclear] = []  # what the graph leaves out: nothing is proved of it
        self.views: dict[Any, View] = {}
        self.points: dict[Any, int] = {}  # node → its point
        self.free: dict[str, Value] = self.b.free
        self.named: dict[Any, str] = {}  # numbers that the kernel is launched with → their names
        self.symbols: dict[str, str] = {f"$WG{number}": name for number, name in enumerate(WORKGROUP)}
        self.counters: dict[str, range] = {}  # of loops around that run a known number of times → their values
        self.private: frozenset[Any] = frozenset()  # allocations in which every wave keeps to its own bytes
        self.parts = Parts()
        self.merging: frozenset[Any] = frozenset()  # allocations of which neighbouring accesses may be taken for one
        self.shared: frozenset[Any] = frozenset()  # allocations that share bytes with others
        self.bases_at: dict[int, Bases] = {}  # accesses → the allocations that they may touch
        self.stretch_from = 0  # where the straight code that is being built begins
        self.under = "uniform"
        self.depth = 0
        self.last = -1  # the run of other operations that is open, or the access that may take in its neighbour
        self.lds, self.loads = target.counter_of("local_read"), target.counter_of("global_read")
        self.counters_of = {op: target.counter_of(op) for op in ("gather_to_lds", "tensor_load_to_lds")}

    @property
    def uniform(self) -> Uniform:
        apart = self.agreement.divergent
        names = {each: name for each, name in self.symbols.items() if each not in apart} if apart else self.symbols
        return Uniform(names, self.memory.numbers)

    @property
    def places(self) -> Uniform:
        """What is uniform, and what each wave knows by itself: where in a buffer its accesses lie."""
        names = self.uniform.names
        counters = {each: values for each, values in self.counters.items() if each in names}
        return Uniform(names, self.memory.numbers, self.context.waves, counters)

    def add(self, action: g.Action, node: Any, label: str = "", **facts: Any) -> int:
        facts.setdefault("insertable", node is not None and self.under == "uniform")
        facts.setdefault("under", self.under)
        if node is not None:
            facts["at"] = span_of(node)
        number = self.b.add(action, label=label or node.name, **facts)
        self.nodes.append(node)
        if node is not None:
            self.points.setdefault(node, number)
        self.last = -1
        if not isinstance(action, g.Access) and label != "compute":
            self.stretch_from = number + 1
        return number

    def uses(self, node: Any) -> tuple[int, ...]:
        """The points whose values a node needs."""
        found = (self.points.get(outer(each)) for each in nodes_in(node.args))
        return tuple(dict.fromkeys(each for each in found if each is not None))

    def view(self, node: Any) -> View | None:
        """The memory that a value stands for, if it is shared."""
        found = self.views.get(node)
        return self.views.get(self.values.source(node)) if found is None else found

    # --- synchronization ---

    def sync(self, op: object, node: Any, **facts: Any) -> None:
        self.add(g.Sync(op), node, **facts)  # type: ignore[arg-type]

    def synchronization(self, node: Any, op: str) -> None:
        match op:
            case "shared_memory_barrier":
                # Wave's code generator waits for loads, and not for tensor copies, whatever is asked for.
                counts = ((self.loads, 0),) if argument(node, 0, False) and self.loads else ()
                self.sync(ops.SharedMemoryBarrier(counts=counts), node)
            case "workgroup_barrier":
                self.sync(ops.WorkgroupBarrier(pinned=True), node)
            case "shared_memory_barrier_signal" if argument(node, 0, 0) == WORKGROUP_BARRIER:
                tensor = self.counters_of["tensor_load_to_lds"]
                counts = ((tensor, 0),) if argument(node, 1, False) and tensor else ()
                # What is put before the node stands before its wait, too: a wait there drains for the signal as well.
                self.sync(ops.WaitCount(((self.lds, 0), *counts) if self.lds else counts), node, insertable=False)
                self.sync(ops.Signal(WORKGROUP_BARRIER), node)
            case "shared_memory_barrier_wait" if argument(node, 0, 0) == WORKGROUP_BARRIER:
                self.sync(ops.Wait(WORKGROUP_BARRIER), node)
            case "memory_counter_wait":
                self.wait(node)
            case _:
                if argument(node, 0, 0) != 0:  # 0 does nothing; any other orders nothing, and may be waited at for ever
                    self.unmodelled.append(Unclear(node, "the participants of this barrier are unknown"))
                self.add(g.Compute(), node)

    def wait(self, node: Any) -> None:
        """Loads and stores that are one counter on a target are waited for together."""
        counts: dict[str, int] = {}
        for number, counter in enumerate((self.loads, self.target.counter_of("global_write"), self.lds)):
            count = argument(node, number)
            if count is not None and counter:
                counts[counter] = counts.get(counter, 0) + int(count)
        self.sync(ops.WaitCount(tuple(counts.items())), node)
