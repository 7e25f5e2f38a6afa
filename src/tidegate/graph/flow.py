"""A graph with its calls written out: what analyses that follow paths work on.

Needs   a well-formed graph
Gives   nodes with successors; for each its point, its innermost loop, and the call that it was copied for
Keeps   without calls, node n is point n; with calls, every path through the nodes is one that a wave can take, returns
        included; loops are found from the edges, and keep what the graph knows of their trips
Cost    linear in the points, times the ways to reach each function and the depth of loops; beyond `MOST_NODES` a call
        stays a node of its own

    5: call @f -> 6        becomes      5 → f's points, copied → 6
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.graph import model as g
from tidegate.graph.loops import find_loops
from tidegate.graph.model import invert

MOST_NODES = 400_000
MOST_DEPTH = 16


@dataclass(frozen=True, slots=True)
class FlowLoop:
    """A loop over nodes. `facts` is what the graph says about its counter and bounds."""

    head: int
    parent: int
    least: int
    most: int | None
    reducible: bool
    latches: tuple[int, ...]  # nodes of the loop with an edge to its head
    facts: g.Loop | None


@dataclass(frozen=True, slots=True)
class Flow:
    graph: g.SyncGraph
    origin: tuple[int, ...]  # node → point
    successors: tuple[tuple[int, ...], ...]
    before: tuple[tuple[int, ...], ...]  # predecessors
    loop_of: tuple[int, ...]
    loops: tuple[FlowLoop, ...]
    entries: tuple[int, ...]  # where programs start, in their order
    calls: tuple[int, ...]  # node → the call node that it was copied for, or -1
    closed: frozenset[int]  # call nodes that were not written out: nobody knows what they do

    def point(self, node: int) -> g.Point:
        return self.graph.points[self.origin[node]]

    def action(self, node: int) -> g.Action:
        return self.graph.points[self.origin[node]].action

    def loops_around(self, node: int) -> tuple[int, ...]:
        """The loops that a node lies in, outermost first."""
        found = []
        loop = self.loop_of[node]
        while loop >= 0:
            found.append(loop)
            loop = self.loops[loop].parent
        return tuple(reversed(found))

    def weight(self, node: int) -> float:
        """How often the node runs: in a copy, as often as the call does, times what the function itself says."""
        own, call = self.point(node).weight, self.calls[node]
        return own * self.weight(call) if call >= 0 else own


def uniform_nodes(flow: Flow) -> list[bool]:
    """For each node, whether all waves come to it: none where they start in different places."""
    found: list[bool] = []
    for node, call in enumerate(flow.calls):  # a call stands before what is copied for it
        found.append(flow.point(node).under == "uniform" and (call < 0 or found[call]))
    return found if len(flow.entries) == 1 else [False] * len(found)


def flow_of(graph: g.SyncGraph) -> Flow:
    """The nodes of a graph."""
    has_calls = any(isinstance(point.action, g.Call) for point in graph.points)
    writer = _Writer(graph)
    if has_calls:
        for program in graph.programs:
            writer.program(program.entry)
    else:
        writer.as_it_is()
    return writer.flow()


class _Writer:
    def __init__(self, graph: g.SyncGraph) -> None:
        self.graph = graph
        self.functions = {each.name: each for each in graph.functions}
        self.origin: list[int] = []
        self.successors: list[tuple[int, ...]] = []
        self.calls: list[int] = []
        self.closed: set[int] = set()
        self.entries: list[int] = []
        self.reach: dict[int, list[int]] = {}

    def as_it_is(self) -> None:
        self.origin = list(range(len(self.graph.points)))
        self.successors = [point.successors for point in self.graph.points]
        self.calls = [-1] * len(self.origin)
        self.entries = [each.entry for each in self.graph.programs]

    def program(self, entry: int) -> None:
        nodes = self.copy(entry, -1, -1, ())
        self.entries.append(nodes[entry])

    def copy(self, entry: int, call: int, after: int, around: tuple[str, ...]) -> dict[int, int]:
        """The points from `entry` on as new nodes; returns lead to `after`. Gives point → node."""
        points = self.points_from(entry)
        nodes = {point: len(self.origin) + place for place, point in enumerate(points)}
        for point in points:
            self.origin.append(point)
            self.successors.append(tuple(nodes[each] for each in self.graph.points[point].successors))
            self.calls.append(call)
        for point in points:
            action, node = self.graph.points[point].action, nodes[point]
            if isinstance(action, g.Return) and after >= 0:
                self.successors[node] = (after,)
            elif isinstance(action, g.Call):
                self.write_out(action, node, around)
        return nodes

    def write_out(self, action: g.Call, node: int, around: tuple[str, ...]) -> None:
        entry = self.functions[action.function].entry
        deep = action.function in around or len(around) >= MOST_DEPTH
        if deep or len(self.origin) + len(self.points_from(entry)) > MOST_NODES:
            self.closed.add(node)
            return
        (after,) = self.successors[node]
        nodes = self.copy(entry, node, after, (*around, action.function))
        self.successors[node] = (nodes[entry],)

    def points_from(self, entry: int) -> list[int]:
        """What is reached from a point without entering functions, in program order."""
        if entry not in self.reach:
            seen, stack = {entry}, [entry]
            while stack:
                for successor in self.graph.points[stack.pop()].successors:
                    if successor not in seen:
                        seen.add(successor)
                        stack.append(successor)
            self.reach[entry] = sorted(seen)
        return self.reach[entry]

    def flow(self) -> Flow:
        nest = find_loops(self.successors, self.entries)
        before = invert(self.successors)
        facts = {loop.head: loop for loop in self.graph.loops if loop.reducible}
        members = _members(nest.loop_of, [loop.parent for loop in nest.loops])
        loops = []
        for number, loop in enumerate(nest.loops):
            known = facts.get(self.origin[loop.head]) if loop.reducible else None
            latches = tuple(each for each in before[loop.head] if each in members[number])
            least, most = (known.least, known.most) if known else (0, None)
            loops.append(FlowLoop(loop.head, loop.parent, least, most, loop.reducible, latches, known))
        return Flow(
            self.graph,
            tuple(self.origin),
            tuple(self.successors),
            tuple(map(tuple, before)),
            nest.loop_of,
            tuple(loops),
            tuple(self.entries),
            tuple(self.calls),
            frozenset(self.closed),
        )


def _members(loop_of: Sequence[int], parents: Sequence[int]) -> list[set[int]]:
    """The nodes of each loop, those of the loops in it included."""
    found: list[set[int]] = [set() for _ in parents]
    for node, loop in enumerate(loop_of):
        while loop >= 0:
            found[loop].add(node)
            loop = parents[loop]
    return found
