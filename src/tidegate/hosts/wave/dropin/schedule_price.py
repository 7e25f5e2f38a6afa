"""What an iteration of a trace's loop costs with Tidegate's barriers, and whether these can be proved.

Needs   a trace from before any barrier pass, its context and a target
Gives   `Priced`: cycles and barriers of one iteration, or why the trace gets no barriers
Keeps   the trace is as before; every node counts with what its type says that it moves or multiplies
Cost    a plan and two short plays of the cost model, or a plan and its proof
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tidegate.graph import model as g
from tidegate.graph.barriers import is_barrier
from tidegate.hosts.wave.build import Built, build
from tidegate.hosts.wave.context import Context
from tidegate.hosts.wave.dropin.passing import Options, place_barriers
from tidegate.hosts.wave.dropin.schedule_kept import keep
from tidegate.hosts.wave.nodes import argument, is_node, nodes_in, op_of, outer
from tidegate.hosts.wave.numbers import Numbers
from tidegate.hosts.wave.regions import carried_values, final_values, reached_graphs, region_of
from tidegate.scheduling.body import heaviest_loop
from tidegate.simulate.cycle_steps import NoEstimate
from tidegate.simulate.cycles import iteration
from tidegate.targets import Target

# Enough for a comparison: latencies that vary are drawn once, iterations run twice, so often each.
DRAWS, ROUNDS = 1, (6, 12)
# What takes no instruction of its own, or hardly any: names of values, constants, memory.
FREE = """
    placeholder output get_result getitem reshape extract extract_slice broadcast permute register allocate get_attr
    scalar new_scalar self_index bitcast iterate conditional
""".split()
# Half as many operations in the type of the next larger elements: four bits go twice as fast as eight.
FOUR_BITS, EIGHT_BITS = 4, "f8e4m3fn"


@dataclass(frozen=True, slots=True)
class Priced:
    """`why_not`: why it gets no barriers; `cycles`: None where the cost model does not say."""

    why_not: str = ""
    cycles: float | None = None
    barriers: int = 0  # that a wave meets in one iteration


def price(trace: Any, context: Context, target: Target, *, counts: bool = False) -> Priced:
    """Barriers are placed, the loop is priced, and all is taken back. Nothing is proved."""
    kept = keep(trace)
    try:
        placed = place_barriers(trace, context, target, Options(counts=counts, verify=False))
        if placed.why_not:
            return Priced(placed.why_not)
        return _play(with_work(trace, build(trace, context, target), context), target)
    finally:
        kept.put_back()


def find_unproved(trace: Any, context: Context, target: Target, *, counts: bool = False) -> str:
    """Why a trace cannot be made right, in words; empty if it can: barriers are placed, proved, and taken back."""
    kept = keep(trace)
    try:
        return place_barriers(trace, context, target, Options(counts=counts)).why_not
    finally:
        kept.put_back()


def _play(graph: g.SyncGraph, target: Target) -> Priced:
    loop = heaviest_loop(graph)
    if loop is None:
        return Priced()
    own = [point for point in graph.points if point.loop == loop]
    barriers = sum(is_barrier(each.action) for each in own)
    try:
        found = iteration(graph, target, loop, cached=True, draws=DRAWS, rounds=ROUNDS)
    except NoEstimate:
        return Priced(barriers=barriers)
    return Priced(cycles=found.cycles or None, barriers=barriers)


# --- what the cost model asks for ---------------------------------------------------------------------------------


def with_work(trace: Any, built: Built, context: Context) -> g.SyncGraph:
    """The graph with what its points multiply and move, and where their values come from."""
    maker = _Worker(trace, built, context)
    points = [
        replace(point, work=maker.work(number), uses=maker.uses(number)) if node is not None else point
        for number, (point, node) in enumerate(zip(built.graph.points, built.nodes, strict=True))
    ]
    return replace(built.graph, points=tuple(points))


class _Worker:
    def __init__(self, trace: Any, built: Built, context: Context) -> None:
        self.built, self.context, self.numbers = built, context, Numbers(context.sizes)
        self.points = {
            node: number
            for number, node in reversed(list(enumerate(built.nodes)))
            if node is not None and op_of(node) not in ("iterate", "conditional", "output")
        }
        self.carried = dict(_carried(trace))
        self.sources: dict[Any, frozenset[int]] = {}

    def work(self, number: int) -> g.Work:
        point, node = self.built.graph.points[number], self.built.nodes[number]
        if point.role == "mma":
            return self.product(node)
        if point.role in ("global_read", "global_write"):
            return g.Work(bytes=self.elements(node) * _bits(node) // 8 * self.context.lanes)
        if point.role == "other" and isinstance(point.action, g.Compute) and self.points.get(node) == number:
            count = sum(self.elements(each) for each in self.run(node) if op_of(each) not in FREE)
            return g.Work(ops=count * self.context.lanes)
        return g.NO_WORK

    def product(self, node: Any) -> g.Work:
        ops = 2 * prod(each for each in getattr(node, "vector_shapes", {}).values() if each)
        kind = _element(argument(node, 0))
        if kind is not None and kind.bitwidth() == FOUR_BITS:
            return g.Work(ops=ops // 2, dtype=EIGHT_BITS)
        return g.Work(ops=ops, dtype=str(kind).lower())

    def run(self, node: Any) -> Iterator[Any]:
        """The nodes that one point stands for."""
        yield node
        node = node.next
        while node.op != "root" and node not in self.points and op_of(node) != "output":
            yield node
            node = node.next

    def elements(self, node: Any) -> int:
        """Of one thread."""
        given = argument(node, 1) if op_of(node) == "read" else argument(node, 2) if op_of(node) == "write" else None
        if given is not None and not is_node(given):
            return self.numbers.constant(given) or 1
        index = getattr(node, "index", None)
        sizes = [self.numbers.constant(each.size) for each in index.values()] if isinstance(index, dict) else []
        return prod(each for each in sizes if each) if sizes else 1

    def uses(self, number: int) -> tuple[int, ...]:
        node = self.built.nodes[number]
        if self.points.get(node) != number:
            return self.built.graph.points[number].uses
        run = self.run(node) if self.built.graph.points[number].role == "other" else (node,)
        found = {each for one in run for given in nodes_in(one.args) for each in self.reach(given)}
        return tuple(sorted(found - {number}))

    def reach(self, node: Any) -> frozenset[int]:
        """The points that a value comes from, through nodes without one."""
        node = outer(node)
        if node in self.points:
            return frozenset((self.points[node],))
        if node not in self.sources:
            self.sources[node] = frozenset()  # while it is asked for: what a loop carries may come from itself
            given = (*nodes_in(node.args), *self.carried.get(node, ()))
            self.sources[node] = frozenset(each for one in given for each in self.reach(one))
        return self.sources[node]


def _carried(trace: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """What a loop carries, and what its body hands to the next iteration."""
    graphs = trace.region_graph.subgraphs
    for graph in reached_graphs(trace):
        for node in graph.nodes:
            if op_of(node) == "iterate":
                ends = final_values(graphs[region_of(node)])
                for name, value in zip(carried_values(node, graphs), ends, strict=False):
                    yield name, (value,) if is_node(value) else ()


def _element(node: Any) -> Any:
    """The type of the elements of a value."""
    return getattr(getattr(outer(node), "type", None), "dtype", None)


def _bits(node: Any) -> int:
    kind = (
        _element(argument(node, 0)) if op_of(node) == "write" else getattr(getattr(node, "type", None), "dtype", None)
    )
    return int(kind.bitwidth()) if kind is not None else 32
