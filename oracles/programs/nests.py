"""Graphs of loop nests of any size, the same for the same number of points and seed: what placement is timed on.

Gives   `nest_graph(points, seed)`: nests of up to four loops one after the other, a few conditionals, no barriers
        `count_hazards(graph)`: accesses that need order with an earlier one, each counted once
Keeps   at least one such access for every four points; a statement never conflicts with itself in two waves
Cost    linear; points are made directly, since there are too many for `GraphBuilder` to be asked one by one

    iterate 0 .. N                        a nest: constant and symbolic trips, slots by the counter at hand
      write %b3[k mod 2], own row
      read  %b3[k mod 2], next row        RAW in this trip; WAR against the write that reuses the slot
      iterate 0 .. 4
        ...

Buffers grow in number with the graph. A nest works on a few of them, and shares some with the nests before it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tidegate.graph import model as g
from tidegate.index import ZERO, Binary, Compare, Const, Flag, Index, Name
from tidegate.language.ops import Size, Value
from tidegate.language.types import FLAG

WAVES, ROW = 4, 256
MOST_DEPTH = 4
POINTS_PER_NEST = 160
POINTS_PER_BUFFER = 64
SIZES = ("N", "M", "K")
EXPECT = 16.0
MINE: Index = Binary("*", Name("wave"), Const(ROW))
NEXT: Index = Binary("*", Binary("mod", Binary("+", Name("wave"), Const(1)), Const(WAVES)), Const(ROW))
SEED = 20


def nest_graph(points: int, seed: int = SEED) -> g.SyncGraph:
    """About `points` points, never fewer."""
    return _Maker(random.Random(seed), points).make()


@dataclass(slots=True)
class _Draft:
    """A point whose successors are not all known yet."""

    action: g.Action
    label: str
    role: str
    loop: int
    weight: float
    insertable: bool
    successors: list[int] = field(default_factory=list)


class _Maker:
    def __init__(self, rng: random.Random, points: int) -> None:
        self.rng, self.points = rng, points
        self.drafts: list[_Draft] = []
        self.open: list[int] = []  # points that lead to the next one
        self.loops: list[g.Loop] = []
        self.around: list[int] = []  # loops around the next point
        self.weight = 1.0
        count = max(4, points // POINTS_PER_BUFFER)
        self.buffers = [g.Buffer(f"%b{n}", WAVES * ROW, rng.choice((1, 2, 2, 3, 4))) for n in range(count)]
        self.nearby: list[g.Buffer] = self.buffers[:2]

    def make(self) -> g.SyncGraph:
        while len(self.drafts) < self.points - 1:
            start = len(self.nearby) // 2
            self.nearby = [*self.nearby[start:], *self.rng.sample(self.buffers, 2)][-4:]
            end = min(self.points, len(self.drafts) + self.rng.randint(POINTS_PER_NEST // 2, POINTS_PER_NEST))
            self.nest(self.rng.randint(1, MOST_DEPTH), end)
        self.add(g.End(), "end")
        return g.SyncGraph(
            name="nests",
            target="gfx942",
            waves=WAVES,
            points=tuple(map(_point, self.drafts)),
            programs=(g.Program(0, 0, WAVES),),
            buffers=tuple(self.buffers),
            loops=tuple(self.loops),
            sizes=tuple(Size(name, 8) for name in SIZES),
            free=(Value("%f", FLAG),),
        )

    def add(self, action: g.Action, label: str, role: str = "other", insertable: bool = True) -> int:
        number = len(self.drafts)
        for before in self.open:
            self.drafts[before].successors.append(number)
        loop = self.around[-1] if self.around else -1
        self.drafts.append(_Draft(action, label, role, loop, self.weight, insertable))
        self.open = [] if isinstance(action, g.End) else [number]
        return number

    def nest(self, depth: int, end: int) -> None:
        """A loop that holds accesses and, `depth` permitting, further loops, up to about point `end`."""
        counter, weight = f"%k{len(self.loops)}", self.weight
        upper: Index = Const(self.rng.choice((2, 4, 8))) if self.rng.random() < 0.5 else Name(self.rng.choice(SIZES))
        trips = upper.value if isinstance(upper, Const) else None
        self.add(g.Assign(((counter, ZERO),)), "iterate")
        number, parent = len(self.loops), self.around[-1] if self.around else -1
        head, expect = len(self.drafts), float(trips or EXPECT)
        self.loops.append(g.Loop(head, parent, trips or 1, trips, expect, counter, ZERO, upper))
        self.around.append(number)
        self.weight = weight * expect
        self.add(g.Branch(Compare("<", Name(counter), upper)), "trip", insertable=False)
        self.body(Name(counter), depth, end)
        self.add(g.Assign(((counter, Binary("+", Name(counter), Const(1))),)), "next")
        self.drafts[self.open.pop()].successors.append(head)
        self.around.pop()
        self.weight, self.open = weight, [head]

    def body(self, counter: Name, depth: int, end: int) -> None:
        inner = self.rng.randint(1, 2) if depth > 1 else 0
        room = max(8, (end - len(self.drafts)) // (inner + 1))
        self.accesses(counter, len(self.drafts) + room)
        for _ in range(inner):
            self.nest(depth - 1, len(self.drafts) + room)
            self.accesses(counter, len(self.drafts) + 4)

    def accesses(self, counter: Name, end: int) -> None:
        while len(self.drafts) < end:
            if self.rng.random() < 0.04:
                self.conditional(counter)
            else:
                self.exchange(counter)

    def exchange(self, counter: Name) -> None:
        """Each wave writes a row, and reads that of another; sometimes it works ahead, in another slot."""
        buffer = self.rng.choice(self.nearby)
        ahead = self.rng.choice((0, 0, 0, 1)) if buffer.slots > 1 else 0
        self.touch("write", buffer, counter, 0, MINE)
        if self.rng.random() < 0.5:
            self.add(g.Compute(), "mma", "mma")
        self.touch("read", buffer, counter, ahead, NEXT)

    def touch(self, effect: str, buffer: g.Buffer, counter: Name, ahead: int, offset: Index) -> None:
        index: Index = Binary("+", counter, Const(ahead)) if ahead else counter
        slot = Binary("mod", index, Const(buffer.slots)) if buffer.slots > 1 else ZERO
        foot = g.Footprint(g.Ref(buffer.name, slot, offset), (), ROW)
        self.add(g.Access(effect, foot), f"local_{effect}", f"local_{effect}")

    def conditional(self, counter: Name) -> None:
        cond = Flag("%f") if self.rng.random() < 0.5 else Compare(">", counter, ZERO)
        start = self.add(g.Branch(cond), "conditional")
        ends: list[int] = []
        weight, self.weight = self.weight, self.weight / 2
        for _ in range(2):
            self.open = [start]
            self.exchange(counter)
            ends += self.open
        self.weight, self.open = weight, ends
        self.add(g.Compute(), "join", insertable=False)


def _point(draft: _Draft) -> g.Point:
    return g.Point(
        draft.action,
        tuple(draft.successors),
        draft.label,
        draft.role,
        loop=draft.loop,
        weight=draft.weight,
        insertable=draft.insertable,
    )


def count_hazards(graph: g.SyncGraph) -> int:
    """Accesses that conflict, in another wave, with the one before them on the same slot of the same buffer.

    A count from below: only accesses of one straight piece are compared, and only where slots are written the same.
    """
    found = 0
    last: dict[tuple[str, Index], tuple[str, Index]] = {}
    for point in graph.points:
        action = point.action
        if isinstance(action, g.Branch | g.End) or point.label == "join":
            last.clear()
        if isinstance(action, g.Access):
            place = action.footprint.place
            effect, offset = last.get((place.base, place.slot), ("read", ZERO))
            found += (effect, action.effect) != ("read", "read") and offset not in (ZERO, place.offset)
            last[place.base, place.slot] = action.effect, place.offset
    return found
