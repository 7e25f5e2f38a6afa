"""Graphs by hand: for front ends, tests, and cases that no kernel can say.

Needs   calls in program order
Gives   a checked `SyncGraph`
Keeps   a point flows into the next one unless told otherwise; loops and weights are found from the edges
Cost    linear

    b = GraphBuilder("pipeline", waves=4)
    b.buffer("%a", 1024, slots=2)
    with b.loop("%k", 0, Name("N")):
        b.write("%a", slot=k % 2, bytes=256)
        b.sync(SharedMemoryBarrier())
        b.read("%a", slot=k % 2, bytes=1024)
    graph = b.finish()
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.diag import BadInput
from tidegate.graph import model as g
from tidegate.graph.loops import with_loops
from tidegate.graph.wellformed import check_graph
from tidegate.index import Binary, Compare, Cond, Const, Index, Name, count_trips
from tidegate.language.ops import Size, Value
from tidegate.language.types import FLAG, INDEX, BarrierObject


def to_index(item: Index | int) -> Index:
    return Const(item) if isinstance(item, int) else item


@dataclass(slots=True)
class GraphBuilder:
    """Collects points; `finish` checks them and finds their loops."""

    name: str
    waves: int = 4
    target: str = ""
    points: list[g.Point] = field(default_factory=list)
    parts: dict[str, list[Any]] = field(default_factory=dict)
    counted: dict[int, g.Loop] = field(default_factory=dict)  # head → what is known of its loop
    open: list[int] = field(default_factory=list)  # points that flow into the next one
    lanes: str = ""  # of accesses that name no map from bytes to lanes
    wave_lanes: int = 0  # lanes of a wave, where accesses have maps of threads

    # --- declarations ---

    def buffer(self, name: str, slot_bytes: int, slots: int = 1, offset: int | None = None) -> str:
        self._part("buffers", g.Buffer(name, slot_bytes, slots, offset))
        return name

    def threads(self, name: str, starts: tuple[int | None, ...]) -> str:
        self._part("maps", g.ThreadMap(name, starts))
        return name

    def object(self, name: str, type_: BarrierObject, waves: tuple[int, ...] = ()) -> Value:
        self._part("objects", g.Object(name, type_, waves))
        return Value(name, type_)

    def size(self, name: str, default: int, *where: Cond) -> Name:
        self._part("sizes", Size(name, default))
        for cond in where:
            self._part("where", cond)
        return Name(name)

    def flag(self, name: str) -> Value:
        value = Value(name, FLAG)
        self._part("free", value)
        return value

    def scalar(self, name: str) -> Name:
        self._part("free", Value(name, INDEX))
        return Name(name)

    def function(self, name: str, params: tuple[str, ...] = ()) -> None:
        """What is added from here on is the function's body, up to `Return`."""
        self.open = []
        self._part("functions", g.Function(name, len(self.points), params))

    def program(self, first: int, last: int) -> None:
        """What is added from here on is run by these waves."""
        self.open = []
        self._part("programs", g.Program(len(self.points), first, last))

    def _part(self, kind: str, part: Any) -> None:
        self.parts.setdefault(kind, []).append(part)

    # --- points ---

    def add(self, action: g.Action, *successors: int, label: str = "", **facts: Any) -> int:
        """A point. Without successors it flows into the next one that is added, or nowhere if it ends something."""
        number = len(self.points)
        for before in self.open:
            self.edge(before, number)
        if isinstance(action, g.Access) and not action.lanes:
            action = replace(action, lanes=self.lanes)
        self.points.append(g.Point(action, successors, label, **facts))
        ends = isinstance(action, g.End | g.Return) or bool(successors)
        self.open = [] if ends else [number]
        return number

    def edge(self, before: int, after: int) -> None:
        point = self.points[before]
        self.points[before] = replace(point, successors=(*point.successors, after))

    def access(
        self,
        effect: str,
        base: str,
        *,
        slot: Index | int = 0,
        offset: Index | int = 0,
        bytes: int = 4,
        extents: tuple[g.Extent, ...] = (),
        is_async: bool = False,
        lanes: str = "",
        **facts: Any,
    ) -> int:
        foot = g.Footprint(g.Ref(base, to_index(slot), to_index(offset)), extents, bytes)
        facts.setdefault("role", "copy" if is_async else "local_read" if effect == "read" else "local_write")
        return self.add(g.Access(effect, foot, is_async, lanes=lanes), **facts)

    def read(self, base: str, **where: Any) -> int:
        return self.access("read", base, **where)

    def write(self, base: str, **where: Any) -> int:
        return self.access("write", base, **where)

    def sync(self, op: Any, **facts: Any) -> int:
        return self.add(g.Sync(op), **facts)

    def compute(self, label: str = "", **facts: Any) -> int:
        return self.add(g.Compute(), label=label, **facts)

    # --- structure ---

    @contextmanager
    def loop(self, counter: str, lower: Index | int, upper: Index | int, step: int = 1) -> Iterator[Name]:
        low, high = to_index(lower), to_index(upper)
        self.add(g.Assign(((counter, low),)), label="iterate")
        head = self.add(g.Branch(Compare("<", Name(counter), high)), label="trip", insertable=False)
        trips = count_trips(low, high, step)
        known = g.Loop(head, -1, trips or 0, trips, 16.0 if trips is None else float(trips), counter, low, high, step)
        self.counted[head] = known
        yield Name(counter)
        self.add(g.Assign(((counter, Binary("+", Name(counter), Const(step))),)), label="next")
        for before in self.open:
            self.edge(before, head)
        self.open = [head]

    @contextmanager
    def branch(self, cond: Cond | None) -> Iterator[_Arms]:
        """`with b.branch(cond) as arms: ...then...; arms.otherwise(); ...else...`"""
        start = self.add(g.Branch(cond), label="conditional")
        arms = _Arms(self, start)
        yield arms
        if not arms.swapped:
            arms.otherwise()
        self.open = [*arms.ends, *self.open]
        self.add(g.Compute(), label="join", insertable=False)

    def finish(self) -> g.SyncGraph:
        """The graph; raises `BadInput` if it makes no sense."""
        if self.open:
            self.add(g.End(), label="end")
        parts = {kind: tuple(found) for kind, found in self.parts.items()}
        programs = parts.pop("programs", (g.Program(0, 0, self.waves),))
        told: dict[str, Any] = {**parts, "lanes": self.wave_lanes}
        graph = g.SyncGraph(self.name, self.target, self.waves, tuple(self.points), programs, **told)
        findings = check_graph(graph)
        if findings:
            raise BadInput(*findings)
        return self._with_trips(with_loops(graph))

    def _with_trips(self, graph: g.SyncGraph) -> g.SyncGraph:
        """Loops that were opened by `loop` keep what is known of them; weights follow from their trips."""
        loops: list[g.Loop] = []
        weights: list[float] = []
        for loop in graph.loops:
            known = self.counted.get(loop.head)
            loops.append(replace(known, parent=loop.parent) if known and loop.reducible else loop)
            weights.append(loops[-1].expect * (weights[loop.parent] if loop.parent >= 0 else 1.0))
        points = (replace(each, weight=weights[each.loop]) if each.loop >= 0 else each for each in graph.points)
        return replace(graph, loops=tuple(loops), points=tuple(points))


@dataclass(slots=True)
class _Arms:
    """The two arms of a branch that is being built."""

    builder: GraphBuilder
    start: int
    ends: list[int] = field(default_factory=list)
    swapped: bool = False

    def otherwise(self) -> None:
        builder = self.builder
        if builder.open == [self.start]:
            builder.compute("arm")
        self.ends, self.swapped = builder.open, True
        builder.open = [self.start]
        builder.compute("arm")
