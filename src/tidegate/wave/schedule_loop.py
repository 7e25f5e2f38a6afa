"""The loop of a trace that ping-pong is for, and what must stay behind what in its body.

Needs   a trace behind Wave's scheduler, its context and a target
Gives   `Loop`: the operations of the body, each behind what it depends on, products of one depth together; or why there
        is no such loop, in words
Keeps   every dependence within an iteration: values, bytes of shared memory, arrays of global memory
Cost    linear in the nodes, plus the writes of shared memory times its accesses

    a0·b0 + c0   a1·b1 + ↑   a0·b2 + c1   a1·b3 + ↑     becomes     a0·b0 + c0   a0·b2 + c1   a1·b1 + ↑   a1·b3 + ↑
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

from tidegate.adapters.wave.build import build
from tidegate.adapters.wave.context import Context
from tidegate.adapters.wave.nodes import (
    ACCESSES,
    PRODUCTS,
    SCHEDULING,
    SYNCHRONIZATION,
    nodes_in,
    op_of,
    outer,
    span_of,
)
from tidegate.adapters.wave.regions import region_of
from tidegate.cost import prices_of
from tidegate.diag import Span
from tidegate.graph import model as g
from tidegate.language import ops
from tidegate.schedule.body import heaviest_loop
from tidegate.schedule.dependences import Edge, find_meeting
from tidegate.targets import Target
from tidegate.wave.schedule_price import with_work

WAVES, SIMDS = 8, 4
STAGGER = 1  # arrivals by which one half of the waves is held back


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of the body."""

    number: int
    node: Any
    role: str

    @property
    def name(self) -> str:
        return f"`{self.node.name}`"

    @property
    def at(self) -> Span:
        return span_of(self.node)


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop and its operations."""

    node: Any  # the `Iterate`
    graph: Any  # its body
    steps: tuple[Step, ...]
    edges: tuple[Edge, ...]
    work: Mapping[int, float]  # of products: for how long they keep the matrix unit busy

    @property
    def copies(self) -> bool:
        return any(step.role == "copy" for step in self.steps)


def find_loop(trace: Any, context: Context, target: Target) -> Loop | str:
    """The loop with most matrix work, if it can be cut into clusters."""
    built = build(trace, context, target)
    graph = with_work(trace, built, context)
    number = heaviest_loop(graph)
    if number is None:
        return "no loop with products"
    head = graph.loops[number].head
    node = built.nodes[head]
    body = trace.region_graph.subgraphs[region_of(node)]
    declined = _misfit(graph, context, target) or _obstacle(body)
    if declined:
        return declined
    if graph.points[head].under != "uniform":
        return "not all waves reach the loop"
    points = {each: at for at, each in enumerate(built.nodes) if graph.points[at].loop == number}
    unknown = [each.name for each, at in points.items() if isinstance(graph.points[at].action, g.Unknown)]
    if unknown:
        return f"nobody knows what `{unknown[0]}` does to memory"
    return _ordered(node, body, points, graph, target)


def find_pairs(trace: Any, context: Context, target: Target) -> list[tuple[Any, Any]]:
    """All operations of one loop that may touch the same bytes of shared memory in one iteration, in their order."""
    built = build(trace, context, target)
    graph = built.graph
    found = []
    for loop in range(len(graph.loops)):
        owned = [(at, at) for at, point in enumerate(graph.points) if point.loop == loop]
        found += [(built.nodes[each.first], built.nodes[each.later]) for each in find_meeting(graph, target, owned, 0)]
    return found


def _misfit(graph: g.SyncGraph, context: Context, target: Target) -> str:
    """What speaks against the kernel as a whole."""
    wave = target.wave
    if context.waves != WAVES:
        return f"waves are not {WAVES}, but {context.waves}"
    if wave.simds != SIMDS or any(wave.simd_of(each) != wave.simd_of(each + SIMDS) for each in range(SIMDS)):
        return f"{target.name} does not say that {WAVES} waves share {SIMDS} SIMDs in pairs"
    halves = (each.action.op for each in graph.points if isinstance(each.action, g.Sync))
    if any(isinstance(each, ops.ConditionalBarrier) for each in halves):
        return "conditional barriers stand in the kernel already"
    return ""


def _obstacle(body: Any) -> str:
    """What in the loop cannot be put in another order."""
    from wave_lang.kernel.ops.wave_ops import get_custom

    for node in body.nodes:
        op = op_of(node)
        if op in ("iterate", "conditional"):
            return f"the loop holds {'another loop' if op == 'iterate' else 'a conditional'}"
        if op in (*SYNCHRONIZATION, *SCHEDULING):
            return f"`{node.name}` in the loop must not be crossed"
        known = op in ACCESSES or node.op in ("placeholder", "output")
        if not known and get_custom(node).has_side_effects:
            return f"`{node.name}` in the loop does more than make a value"
    return ""


# --- order --------------------------------------------------------------------------------------------------------


def _ordered(node: Any, body: Any, points: dict[Any, int], graph: g.SyncGraph, target: Target) -> Loop:
    nodes = [each for each in body.nodes if each.op not in ("placeholder", "output")]
    roles = [graph.points[points[each]].role if each in points else "other" for each in nodes]
    edges = list(_find_edges(nodes, roles, points, graph, target))
    order = _by_depth(nodes, edges)
    place = {number: at for at, number in enumerate(order)}
    steps = tuple(Step(at, nodes[number], roles[number]) for at, number in enumerate(order))
    moved = [Edge(place[each.first], place[each.later], each.gap, each.fills) for each in edges]
    prices = prices_of(target)
    work = {
        step.number: prices.mma(made.ops, made.dtype).busy
        for step in steps
        if step.role == "mma" and (made := graph.points[points[step.node]].work)
    }
    return Loop(node, body, steps, tuple(sorted(moved, key=lambda each: (each.later, each.first))), work)


def _find_edges(
    nodes: list[Any], roles: list[str], points: dict[Any, int], graph: g.SyncGraph, target: Target
) -> Iterator[Edge]:
    """Of two operations one edge, the strictest."""
    numbers = {node: number for number, node in enumerate(nodes)}
    found: dict[tuple[int, int], Edge] = {}
    owned = [(number, points[node]) for node, number in numbers.items() if node in points]
    for edge in (*_values(nodes, numbers), *find_meeting(graph, target, owned, STAGGER), *_arrays(nodes, roles)):
        known = found.get((edge.first, edge.later), edge)
        gap, fills = max(edge.gap, known.gap), edge.fills or known.fills
        found[edge.first, edge.later] = Edge(edge.first, edge.later, gap, fills)
    return iter(found.values())


def _values(nodes: list[Any], numbers: dict[Any, int]) -> Iterator[Edge]:
    for number, node in enumerate(nodes):
        for each in nodes_in((node.args, node.kwargs)):
            if each in numbers:
                yield Edge(numbers[each], number)


def _arrays(nodes: list[Any], roles: list[str]) -> Iterator[Edge]:
    """What is written to global memory stays in order with all that may touch the same array."""
    seen: list[tuple[int, set[Any], bool]] = []
    for number, (node, role) in enumerate(zip(nodes, roles, strict=True)):
        if role not in ("global_read", "global_write", "copy"):
            continue
        mine = {each for each in map(outer, nodes_in(node.args)) if each.op == "placeholder"}
        for first, theirs, wrote in seen:
            if (wrote or role == "global_write") and mine & theirs:
                yield Edge(first, number)
        seen.append((number, mine, role == "global_write"))


def _by_depth(nodes: list[Any], edges: list[Edge]) -> list[int]:
    """Numbers of nodes, each behind what it depends on; of products that could come next, those that fewer come before
    in their sum, so that products that do not wait for each other stand together.
    """
    depth = _depths(nodes)
    waiting, behind = [0] * len(nodes), defaultdict(list)
    for edge in edges:
        waiting[edge.later] += 1
        behind[edge.first].append(edge.later)
    ready = [(depth[number], number) for number, count in enumerate(waiting) if not count]
    heapify(ready)
    found = []
    while ready:
        _, number = heappop(ready)
        found.append(number)
        for later in behind[number]:
            waiting[later] -= 1
            if not waiting[later]:
                heappush(ready, (depth[later], later))
    assert len(found) == len(nodes), "the body of a loop depends on itself"
    return found


def _depths(nodes: list[Any]) -> list[int]:
    """For products: how many come before in the same sum, and one more; 0 for all else."""
    found: dict[Any, int] = {}
    for node in nodes:
        if op_of(node) in PRODUCTS:
            found[node] = 1 + max((found.get(each, 0) for each in nodes_in(node.args)), default=0)
    return [found.get(node, 0) for node in nodes]
