"""Graphs in program order: for the kernel language, for readers of other programs, and for graphs by hand.

Needs   calls in program order
Gives   a `SyncGraph`, and for each point the place before which an insertion goes, if the caller names it
Keeps   a point flows into the next one unless told otherwise; `finish` checks the graph, and finds its loops and
        weights from its edges; `graph` takes loops from a caller that knows them
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

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.diag import BadInput
from tidegate.graph import model as g
from tidegate.graph.drafts import Draft
from tidegate.graph.loops import DEFAULT_TRIPS, Nest, find_loops
from tidegate.graph.wellformed import check_graph
from tidegate.index import Binary, Compare, Cond, Const, Index, Name, count_trips
from tidegate.language.ops import Size, Value
from tidegate.language.types import FLAG, INDEX, BarrierObject, Type

_ENDS = (g.End, g.Return)


def to_index(item: Index | int) -> Index:
    return Const(item) if isinstance(item, int) else item


@dataclass(slots=True)
class GraphBuilder:
    """Collects points; `finish` checks them and finds their loops."""

    name: str
    waves: int = 4
    target: str = ""
    points: list[Draft] = field(default_factory=list)
    places: list[Any] = field(default_factory=list)  # point → where in the source an insertion before it goes
    parts: dict[str, list[Any]] = field(default_factory=dict)
    free: dict[str, Value] = field(default_factory=dict)  # names that may be anything
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

    @property
    def buffers(self) -> dict[str, g.Buffer]:
        return {each.name: each for each in self.parts.get("buffers", ())}

    def object(self, name: str, type_: BarrierObject, waves: tuple[int, ...] = (), offset: int | None = None) -> Value:
        self._part("objects", g.Object(name, type_, waves, offset))
        return Value(name, type_)

    def size(self, name: str, default: int, *where: Cond) -> Name:
        self._part("sizes", Size(name, default))
        for cond in where:
            self._part("where", cond)
        return Name(name)

    def declare(self, name: str, type_: Type) -> Value:
        """A flag or a number that may be anything. It may be declared more than once."""
        value = self.free[name] = Value(name, type_)
        return value

    def flag(self, name: str) -> Value:
        return self.declare(name, FLAG)

    def scalar(self, name: str) -> Name:
        self.declare(name, INDEX)
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

    def add(self, action: g.Action, *successors: int, label: str = "", place: Any = None, **facts: Any) -> int:
        """A point. Without successors it flows into the next one that is added, or nowhere if it ends something."""
        if self.lanes and isinstance(action, g.Access) and not action.lanes:
            action = replace(action, lanes=self.lanes)
        return self.add_point(Draft(action, [*successors], label, **facts), place)

    def add_point(self, point: Draft, place: Any) -> int:
        number = len(self.points)
        for before in self.open:
            self.points[before].successors.append(number)
        self.points.append(point)
        self.places.append(place)
        self.open = [] if point.successors or isinstance(point.action, _ENDS) else [number]
        return number

    def edge(self, before: int, after: int) -> None:
        self.points[before].successors.append(after)

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
        self.count(head, counter, low, high, step)
        yield Name(counter)
        self.add(g.Assign(((counter, Binary("+", Name(counter), Const(step))),)), label="next")
        self.go_round(head, head)

    @contextmanager
    def other_way(self, point: int) -> Iterator[None]:
        """What is added inside follows an earlier point. Behind it, both ways are open."""
        ends, self.open = self.open, [point]
        yield
        self.open = [*ends, *self.open]

    def count(self, head: int, counter: str, lower: Index, upper: Index, step: int) -> None:
        """States what a loop counts, so that its trips are known."""
        trips = count_trips(lower, upper, step)
        expect = DEFAULT_TRIPS if trips is None else float(trips)
        self.counted[head] = g.Loop(head, -1, trips or 0, trips, expect, counter, lower, upper, step)

    def go_round(self, head: int, test: int) -> None:
        """All that is open goes back to the head of a loop. What is added next follows its test."""
        for before in self.open:
            self.edge(before, head)
        self.open = [test]

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
        graph = self.graph()
        findings = check_graph(graph)
        if findings:
            raise BadInput(*findings)
        entries = [each.entry for each in graph.programs] + [each.entry for each in graph.functions]
        nest = find_loops([each.successors for each in self.points], entries)
        return self.graph(self._with_trips(nest))

    def graph(self, loops: Iterable[g.Loop] = ()) -> g.SyncGraph:
        """The graph as it stands, with the loops and weights that the caller has stated."""
        parts: dict[str, Any] = {kind: tuple(found) for kind, found in self.parts.items()}
        parts.setdefault("programs", (g.Program(0, 0, self.waves),))
        return g.SyncGraph(
            self.name,
            self.target,
            self.waves,
            tuple(draft.point() for draft in self.points),
            free=tuple(self.free.values()),
            loops=tuple(loops),
            lanes=self.wave_lanes,
            **parts,
        )

    def _with_trips(self, nest: Nest) -> list[g.Loop]:
        """Loops whose count was stated keep it; weights of points follow from the trips."""
        loops: list[g.Loop] = []
        weights: list[float] = []
        for loop in nest.loops:
            known = self.counted.get(loop.head)
            loops.append(replace(known, parent=loop.parent) if known and loop.reducible else loop)
            weights.append(loops[-1].expect * (weights[loop.parent] if loop.parent >= 0 else 1.0))
        for point, number in zip(self.points, nest.loop_of, strict=True):
            point.loop, point.weight = number, weights[number] if number >= 0 else 1.0
        return loops


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
