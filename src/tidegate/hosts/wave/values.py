"""The values of a trace that stand for shared memory, and who touches it.

Needs   a trace
Gives   its graphs, outer ones first; for each value the allocations that it may stand for; all accesses
Keeps   what a loop carries in turn may be any of what it starts with; a graph that nothing refers to any more is not
        looked at: Wave leaves some behind
Cost    one walk over the nodes; everything later is looked up
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidegate.hosts.wave.nodes import ACCESSES, SYNCHRONIZATION, argument, is_node, op_of, outer
from tidegate.hosts.wave.regions import carried_values, emitted, final_values, initial_values, is_shared, region_of

Bases = frozenset[Any]
NOTHING: Bases = frozenset()
ENDS_A_STRETCH = ("iterate", "conditional", "output", *SYNCHRONIZATION)


@dataclass(frozen=True, slots=True)
class Touching:
    """An access to shared memory."""

    node: Any
    op: str
    effect: str
    is_async: bool
    memory: Any  # the value that it touches
    bases: Bases
    stretch: int  # the straight code that it stands in


class Values:
    def __init__(self, trace: Any) -> None:
        self.graphs: dict[str, Any] = trace.region_graph.subgraphs
        self.ops: dict[Any, str] = {}
        self.allocations: list[Any] = []
        self.loops: list[Any] = []
        self.reached: list[Any] = self.find_reached(trace.root_graph)
        root = self.graphs[trace.root_graph]
        self.arguments: tuple[Any, ...] = tuple(
            node for node in root.nodes if node.op == "placeholder"
        )  # of the kernel
        self.carried: dict[Any, list[Any]] = {loop: carried_values(loop, self.graphs) for loop in self.loops}
        self.bases: dict[Any, Bases] = self.find_bases()
        self.touching: dict[Any, Touching] = self.find_touching()
        self.order: dict[Any, int] = {node: number for number, node in enumerate(self.touching)}
        self.turns: dict[Any, list[list[Any]]] = {loop: self.find_turns(loop) for loop in self.loops}

    def find_reached(self, root: str) -> list[Any]:
        """The root and what it leads to; notes operations, allocations and loops on the way."""
        names = [root]
        for name in names:  # grows while it is read
            for node in emitted(self.graphs[name]):
                op = self.ops[node] = op_of(node)
                if op == "allocate":
                    if is_shared(node):
                        self.allocations.append(node)
                elif op in ("iterate", "conditional"):
                    if op == "iterate":
                        self.loops.append(node)
                    inner = region_of(node)
                    if inner not in names:
                        names.append(inner)
        return [self.graphs[name] for name in names]

    def source(self, node: Any) -> Any:
        """What a value is, captured or handed on by a loop."""
        node = outer(node)
        if self.ops.get(node) in ("get_result", "getitem"):
            loop, number = node.args[0], argument(node, 1)
            carried = self.carried.get(loop, ())
            if isinstance(number, int) and number < len(carried):
                return carried[number]
        return node

    def find_bases(self) -> dict[Any, Bases]:
        leader: dict[Any, Any] = {each: each for each in self.allocations}

        def lead(value: Any) -> Any:
            while leader.setdefault(value, value) is not value:
                value = leader[value]
            return value

        for loop in self.loops:
            final = final_values(self.graphs[region_of(loop)])
            for each, *others in zip(self.carried[loop], initial_values(loop), final, strict=False):
                for other in others:
                    if is_node(other):
                        leader[lead(each)] = lead(self.source(other))
        members: dict[Any, set[Any]] = {}
        for each in self.allocations:
            members.setdefault(lead(each), set()).add(each)
        found = {key: frozenset(each) for key, each in members.items()}
        return {value: found[lead(value)] for value in leader if lead(value) in found}

    def find_turns(self, loop: Any) -> list[list[Any]]:
        """What a loop carries in turn, each the one before it in the next iteration: allocations of their own."""
        final = final_values(self.graphs[region_of(loop)])
        initial, carried = initial_values(loop), self.carried[loop]
        if not any(each in self.bases for each in carried):
            return []
        starts = {each: self.source(init) for each, init in zip(carried, initial, strict=False) if is_node(init)}
        nexts = {each: self.source(value) for each, value in zip(carried, final, strict=False) if is_node(value)}
        found: list[list[Any]] = []
        seen: set[Any] = set()
        for each in carried:
            if each not in self.bases or each in seen:
                continue
            turn = [each]
            while nexts.get(turn[-1]) in nexts and nexts[turn[-1]] not in turn:
                turn.append(nexts[turn[-1]])
            seen.update(turn)
            own = [starts.get(one) for one in turn]
            alone = sum(one in self.bases and self.bases[one] == self.bases[each] for one in self.bases) == 2 * len(
                turn
            )
            if nexts.get(turn[-1]) is each and set(own) == self.bases[each] and len(set(own)) == len(own) and alone:
                found.append(turn)
        return found

    def bases_of(self, node: Any) -> Bases:
        """The allocations that a value may stand for."""
        found = self.bases.get(node)
        if found is None:
            found = self.bases.get(self.source(node), NOTHING)
        return found

    def find_touching(self) -> dict[Any, Touching]:
        found: dict[Any, Touching] = {}
        stretch = 0
        for node, op in self.ops.items():
            stretch += op in ENDS_A_STRETCH
            if op in ACCESSES:
                which, effect, is_async = ACCESSES[op]
                memory = argument(node, which)
                bases = self.bases_of(memory) if is_node(memory) else NOTHING
                found[node] = Touching(node, op, effect, is_async, memory, bases, stretch)
        return found

    def is_set(self, symbol: str) -> bool:
        """Whether the trace gives a symbol another value, anywhere."""
        return symbol in self.symbols_set()

    def symbols_set(self) -> frozenset[str]:
        return frozenset(str(argument(node, 0)) for node, op in self.ops.items() if op == "set_symbol")

    def takes_memory(self, node: Any) -> bool:
        """Whether shared memory is among the arguments of a node."""
        return any(self.bases_of(each) for each in node.all_input_nodes)
