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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import Any

from tidegate.cost import prices_of
from tidegate.diag import Span
from tidegate.footprint.resolve import Footprints, find_footprints
from tidegate.graph import model as g
from tidegate.graph.flow import flow_of
from tidegate.hosts.wave.build import Built, build
from tidegate.hosts.wave.context import Context
from tidegate.hosts.wave.dropin.schedule_price import with_work
from tidegate.hosts.wave.nodes import (
    ACCESSES,
    PRODUCTS,
    SCHEDULING,
    SYNCHRONIZATION,
    nodes_in,
    op_of,
    outer,
    span_of,
)
from tidegate.hosts.wave.regions import reached_graphs, region_of
from tidegate.language import ops
from tidegate.scheduling.body import heaviest_loop
from tidegate.scheduling.dependences import Edge, find_meeting
from tidegate.targets import Target

WAVES, SIMDS = 8, 4
STAGGER = 1  # arrivals by which one half of the waves is held back
NO_PRODUCTS = "no loop with products"


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


class Facts:
    """What is known of a trace as it stands; asked for again, it is not found out again."""

    def __init__(self, trace: Any, context: Context, target: Target) -> None:
        self.trace, self.context, self.target = trace, context, target
        self.meetings: dict[int, tuple[Edge, ...]] = {}

    @cached_property
    def built(self) -> Built:
        return build(self.trace, self.context, self.target)

    @cached_property
    def graph(self) -> g.SyncGraph:
        return with_work(self.trace, self.built, self.context)

    @cached_property
    def footprints(self) -> Footprints:
        return find_footprints(flow_of(self.graph))

    def meet(self, loop: int) -> tuple[Edge, ...]:
        """Points of a loop that may touch the same bytes of shared memory in one iteration, in their order."""
        if loop not in self.meetings:
            owned = [(at, at) for at, point in enumerate(self.graph.points) if point.loop == loop]
            self.meetings[loop] = tuple(find_meeting(self.footprints, self.target, owned, STAGGER))
        return self.meetings[loop]


def find_pairs(facts: Facts) -> list[tuple[Any, Any]]:
    """All operations of one loop that may touch the same bytes of shared memory in one iteration, in their order."""
    nodes, loops = facts.built.nodes, range(len(facts.graph.loops))
    return [(nodes[edge.first], nodes[edge.later]) for loop in loops for edge in facts.meet(loop)]


def find_loop(facts: Facts) -> Loop | str:
    """The loop with most matrix work, if it can be cut into clusters."""
    declined = _misfit(facts)
    if declined:
        return declined
    graph, nodes = facts.graph, facts.built.nodes
    number = heaviest_loop(graph)
    if number is None:
        return NO_PRODUCTS
    halves = (each.action.op for each in graph.points if isinstance(each.action, g.Sync))
    if any(isinstance(each, ops.ConditionalBarrier) for each in halves):
        return "the kernel already has conditional barriers"
    head = graph.loops[number].head
    body = facts.trace.region_graph.subgraphs[region_of(nodes[head])]
    declined = _obstacle(body)
    if declined:
        return declined
    if graph.points[head].under != "uniform":
        return "not all waves reach the loop"
    points = {each: at for at, each in enumerate(nodes) if graph.points[at].loop == number}
    unknown = [each.name for each, at in points.items() if isinstance(graph.points[at].action, g.Unknown)]
    if unknown:
        return f"the effect of `{unknown[0]}` on memory is unknown"
    return _ordered(nodes[head], body, points, facts.meet(number), facts)


def _misfit(facts: Facts) -> str:
    """What speaks against the kernel as a whole."""
    wave, waves = facts.target.wave, facts.context.waves
    loops = reached_graphs(facts.trace)[1:]
    if not any(op_of(node) in PRODUCTS for graph in loops for node in graph.nodes):
        return NO_PRODUCTS
    if waves != WAVES:
        return f"waves are not {WAVES}, but {waves}"
    if wave.simds != SIMDS or any(wave.simd_of(each) != wave.simd_of(each + SIMDS) for each in range(SIMDS)):
        return f"{facts.target.name} does not say that {WAVES} waves share {SIMDS} SIMDs in pairs"
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


def _ordered(node: Any, body: Any, points: dict[Any, int], meetings: tuple[Edge, ...], facts: Facts) -> Loop:
    graph = facts.graph
    nodes = [each for each in body.nodes if each.op not in ("placeholder", "output")]
    roles = [graph.points[points[each]].role if each in points else "other" for each in nodes]
    numbers = {each: number for number, each in enumerate(nodes)}
    owner = {points[each]: number for each, number in numbers.items() if each in points}
    bytes_ = [replace(each, first=owner[each.first], later=owner[each.later]) for each in meetings]
    edges = _strictest((*_values(nodes, numbers), *bytes_, *_arrays(nodes, roles)))
    order = _by_depth(nodes, edges)
    place = {number: at for at, number in enumerate(order)}
    steps = tuple(Step(at, nodes[number], roles[number]) for at, number in enumerate(order))
    moved = [replace(each, first=place[each.first], later=place[each.later]) for each in edges]
    prices = prices_of(facts.target)
    work = {
        step.number: prices.mma(made.ops, made.dtype).busy
        for step in steps
        if step.role == "mma" and (made := graph.points[points[step.node]].work)
    }
    return Loop(node, body, steps, tuple(sorted(moved, key=lambda each: (each.later, each.first))), work)


def _strictest(edges: Iterable[Edge]) -> list[Edge]:
    """Of two operations one edge."""
    found: dict[tuple[int, int], Edge] = {}
    for edge in edges:
        known = found.get((edge.first, edge.later), edge)
        found[edge.first, edge.later] = replace(known, gap=max(edge.gap, known.gap), fills=edge.fills or known.fills)
    return list(found.values())


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
