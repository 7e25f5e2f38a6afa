"""Random graphs, the same ones for the same seed.

    graph = random_graph(random.Random(7))         any successors: irreducible loops, self-loops, unreachable points
    graph = built_graph(random.Random(7))          through `GraphBuilder`: loops, branches, functions, programs
    edges, entries = random_edges(random.Random(7))   successors alone, for the search of loops

All are well-formed: `check_graph` finds nothing in them. `random_graph` states loops that may be wrong; what it states
only has to survive being printed and read.
"""

from __future__ import annotations

import random
from dataclasses import replace

from oracles.programs.random_kernels import COUNTERS, random_cond, random_index
from tidegate.graph import model as g
from tidegate.graph.builder import GraphBuilder
from tidegate.index import WAVE, ZERO, Binary, Cond, Const, Index, Name
from tidegate.language import ops
from tidegate.language.ops import Place, Size, Value
from tidegate.language.types import DEP, FLAG, INDEX, BarrierObject

BUFFERS, VIEWS, NAMES, FLAGS = ("%a", "%b"), ("%v", "%p"), ("%k", "%s", "%n"), ("%f",)
TOKENS = (("%d0", g.Token("%d1")), ("%d1", g.Token("%d0")))  # named by points before anybody asks
OBJECTS = {"%bar": BarrierObject("named_barrier", 4), "%mbar": BarrierObject("mbarrier", 2, 3)}
LABELS = ("", "", "trip", "local_read", "two words", "# not a comment", "→ é", "a, b: -> {")


class _Parts:
    """Pieces of points."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.leaves = tuple(Name(name) for name in (*NAMES, WAVE, "K"))

    def index(self) -> Index:
        return random_index(self.rng, self.leaves, self.rng.choice((0, 1, 2)), flags=FLAGS)

    def cond(self) -> Cond:
        return random_cond(self.rng, self.leaves, 2, flags=FLAGS)

    def ref(self) -> g.Ref:
        base = self.rng.choice((*BUFFERS, *VIEWS))
        return g.Ref(base, ZERO if base in VIEWS else self.index(), self.index())

    def where(self, depth: int = 2) -> g.Where:
        if depth and self.rng.random() < 0.4:
            return g.Either(self.cond(), self.where(depth - 1), self.where(depth - 1))
        return self.ref()

    def access(self) -> g.Access:
        rng = self.rng
        extents = tuple(
            g.Extent(rng.choice((1, 4, 16)), rng.choice((1, 2, 64, -8)), rng.choice((None, self.index())))
            for _ in range(rng.choice((0, 1, 2)))
        )
        foot = g.Footprint(self.ref(), extents, rng.choice((0, 4, 64)), rng.random() < 0.3)
        told = g.Ref("%mbar", self.index()) if rng.random() < 0.2 else None
        effect = rng.choice(("read", "write", "atomic"))
        operator = "add" if effect == "atomic" else ""
        element = rng.choice(("", "f32", "i64")) if effect == "atomic" else ""
        proxy = rng.choice(("generic", "generic", "async"))
        fetches, token = rng.random() < 0.3, rng.choice(("", "%d0"))
        is_async = rng.random() < 0.4
        return g.Access(effect, foot, is_async, proxy, operator, fetches, told, token, element=element)

    def sync(self) -> g.Sync:
        rng = self.rng
        deps = tuple(Value(name, DEP) for name in rng.sample(("%d0", "%d1"), rng.choice((0, 1, 2))))
        counts = tuple((name, rng.choice((0, 3))) for name in rng.sample(COUNTERS, rng.choice((0, 1, 2))))
        named = Value("%bar", OBJECTS["%bar"])
        slot = Place(Value("%mbar", OBJECTS["%mbar"]), self.index())
        return g.Sync(
            rng.choice(
                (
                    ops.WorkgroupBarrier(rng.random() < 0.3),
                    ops.SharedMemoryBarrier(counts, rng.random() < 0.3, deps, rng.random() < 0.3),
                    ops.Signal(rng.choice((-1, 0, named)), rng.random() < 0.3),
                    ops.Wait(rng.choice((-1, 0, named))),
                    ops.ConditionalBarrier(rng.choice(("low", "high"))),
                    ops.WaitCount(counts, deps),
                    ops.Fence(rng.choice(("wave", "proxy_async"))),
                    ops.SchedulingBarrier(),
                    ops.SetWavePrio(rng.randrange(4)),
                    ops.CommitGroup(rng.choice((None, Value("%d0", DEP)))),
                    ops.MbarrierArrive(slot, rng.choice((0, 256))),
                    ops.MbarrierWait(slot, self.index()),
                    ops.NullAsyncDep(Value("%d1", DEP)),
                )
            )
        )

    def action(self, waves: int) -> g.Action:
        rng = self.rng
        pairs = tuple((name, self.index()) for name in rng.sample(NAMES, rng.choice((1, 2))))
        places = tuple((name, self.where()) for name in rng.sample(VIEWS, rng.choice((1, 2))))
        first = rng.randrange(waves)
        return rng.choice(
            (
                g.Compute(),
                self.access(),
                self.access(),
                g.Unknown(tuple(rng.sample((*BUFFERS, *VIEWS), rng.choice((0, 1, 3))))),
                self.sync(),
                self.sync(),
                g.Assign((*pairs, *places, *rng.choice(((), (("%d1", g.Token("%d0")),))))),
                g.Havoc(tuple(rng.sample(NAMES, rng.choice((1, 2)))), rng.random() < 0.5),
                g.Branch(rng.choice((None, self.cond()))),
                g.Branch(self.cond()),
                g.Dispatch(((first, rng.randint(first + 1, waves)),)),
                g.Call("f", (("%p", self.where()),)),
                g.Alloc(rng.choice(BUFFERS)),
                g.Free(rng.choice(BUFFERS)),
                g.Return(),
                g.End(),
            )
        )


def successors_of(action: g.Action) -> int:
    match action:
        case g.Branch():
            return 2
        case g.Dispatch(ranges):
            return len(ranges) + 1
        case g.Return() | g.End():
            return 0
    return 1


WORKS = (g.NO_WORK, g.Work(64), g.Work(bytes=512), g.Work(4096, 0, "f16"), g.Work(1, 2))


def random_graph(rng: random.Random, size: int = 12) -> g.SyncGraph:
    """Points that lead anywhere. The first two say what every name is, so that all others may use it."""
    parts, waves = _Parts(rng), rng.choice((1, 4, 8))
    count = rng.randint(3, size)
    loops = tuple(_loop(rng, parts, number, count) for number in range(rng.choice((0, 1, 2))))
    if len({loop.head for loop in loops}) < len(loops):
        loops = (loops[0], replace(loops[1], head=(loops[0].head + 1) % count))
    actions: list[g.Action] = [
        g.Assign((*((name, ZERO) for name in NAMES), *((name, g.Ref("%a")) for name in VIEWS), *TOKENS)),
        g.Havoc(NAMES),
        *(parts.action(waves) for _ in range(count - 2)),
    ]
    points = [
        g.Point(
            action,
            tuple(rng.randrange(count) for _ in range(successors_of(action))),
            rng.choice(LABELS),
            rng.choice(g.ROLES),
            tuple(
                g.Issue(name, 1, rng.choice((1, 4)), rng.random() < 0.8)
                for name in rng.sample(COUNTERS, rng.choice((0, 0, 1, 2)))
            )[: 1 if isinstance(action, g.Access | g.Unknown) else None],
            tuple(rng.randrange(count) for _ in range(rng.choice((0, 0, 1, 3)))),
            rng.randint(-1, len(loops) - 1),
            rng.choice((1.0, 0.5, 16.0, 1e-07, 1e22, 0.1 + 0.2)),
            rng.choice(g.VARIATIONS),
            rng.random() < 0.8,
            work=WORKS[number % len(WORKS)],
        )
        for number, action in enumerate(actions)
    ]
    cut = rng.randrange(1, waves) if waves > 1 and rng.random() < 0.4 else waves
    ranges = ((0, cut), (cut, waves)) if cut < waves else ((0, waves),)
    buffers = (g.Buffer("%a", 256, 2), g.Buffer("%b", 64, 1, rng.choice((None, 0, 512))))
    return g.SyncGraph(
        rng.choice(("g", "a.b")),
        rng.choice(("", "gfx942")),
        waves,
        tuple(points),
        tuple(g.Program(rng.randrange(count), first, last) for first, last in ranges),
        buffers,
        loops,
        (g.Function("f", rng.randrange(count), ("%p",)), g.Function("main.0", 0)),
        tuple(g.Object(name, type_, rng.choice(((), (0,))), rng.choice((None, 64))) for name, type_ in OBJECTS.items()),
        (Size("K", 64),),
        (parts_where(rng),) if rng.random() < 0.5 else (),
        (Binary("//", Name("K"), Const(32)),) if rng.random() < 0.5 else (),
        (*(Value(name, FLAG) for name in FLAGS), Value("%t", INDEX)),
    )


def with_threads(graph: g.SyncGraph, rng: random.Random) -> g.SyncGraph:
    """The graph with maps of threads in some accesses, and fences that only some waves come to."""
    starts = tuple(rng.choice((None, 0, 4, 8, 64)) for _ in range(rng.randint(1, 2 * graph.waves)))
    maps = (g.ThreadMap("%t8", starts), g.ThreadMap("%t9", tuple(range(-16, 4 * graph.waves, 4))[: graph.waves]))
    points = []
    for point in graph.points:
        match point.action:
            case g.Access(footprint=g.Footprint(extents=()) as foot) as access if rng.random() < 0.7:
                named = replace(foot, threads=rng.choice(("%t8", "%t9")))
                point = replace(point, action=replace(access, footprint=named, collective=rng.random() < 0.3))
            case g.Sync(ops.Fence(kind="wave") as op):
                point = replace(point, action=g.Sync(op, tuple(rng.sample(range(graph.waves), 1))))
        points.append(point)
    return replace(graph, points=tuple(points), lanes=2, maps=maps)


def parts_where(rng: random.Random) -> Cond:
    return random_cond(rng, (Name("K"),), 2, affine=True)


def _loop(rng: random.Random, parts: _Parts, number: int, count: int) -> g.Loop:
    least = rng.choice((0, 1, 2))
    most = rng.choice((None, least, least + 3))
    loop = g.Loop(rng.randrange(count), rng.randint(-1, number - 1), least, most, rng.choice((16.0, 0.5)))
    if rng.random() < 0.6:
        loop = replace(loop, counter="%k", lower=parts.index(), upper=parts.index(), step=rng.choice((1, 4)))
    return replace(loop, reducible=rng.random() < 0.8)


def built_graph(rng: random.Random, size: int = 12) -> g.SyncGraph:
    """A structured graph through `GraphBuilder`; its loops and weights are found from its edges."""
    b = GraphBuilder("built", waves=4, lanes="one")
    b.buffer("%a", 256, 2)
    b.buffer("%b", 64, 1, rng.choice((None, 512)))
    for name, type_ in OBJECTS.items():
        b.object(name, type_)
    b.size("K", 64)
    b.flag("%f")
    parts = _Parts(rng)
    if rng.random() < 0.5:
        b.function("f", ("%p",))
        b.access("read", "%p")
        b.add(g.Return())
    else:
        b.function("f", ("%p",))
        b.add(g.Return())
    for first, last in rng.choice((((0, 4),), ((0, 1), (1, 4)))):
        b.program(first, last)
        b.add(g.Assign((*((name, ZERO) for name in NAMES), ("%v", g.Ref("%a")), *TOKENS)))
        _fill(b, parts, size, 0)
        b.add(g.End())
    return b.finish()


def _fill(b: GraphBuilder, parts: _Parts, size: int, depth: int) -> None:
    rng = parts.rng
    for _ in range(rng.randint(1, max(1, size // (1 + depth)))):
        kind = rng.choice(("action", "action", "loop", "branch"))
        if kind == "action" or depth > 2:
            action = parts.action(4)
            if isinstance(action, g.Branch | g.Dispatch | g.End | g.Return):
                action = parts.access()
            b.add(action, label=rng.choice(LABELS))
        elif kind == "loop":
            bounds = (rng.choice((0, 1)), rng.choice((3, Name("K"))))
            with b.loop(f"%i{len(b.points)}", *bounds, step=rng.choice((1, 2))):
                _fill(b, parts, size // 2, depth + 1)
        else:
            with b.branch(rng.choice((None, parts.cond()))) as arms:
                _fill(b, parts, size // 2, depth + 1)
                if rng.random() < 0.6:
                    arms.otherwise()
                    _fill(b, parts, size // 2, depth + 1)


def random_edges(rng: random.Random, size: int = 9) -> tuple[list[tuple[int, ...]], list[int]]:
    """Successors of up to `size` points, and where execution may start."""
    count = rng.randint(1, size)
    many = rng.choice(((1,), (0, 1, 1, 2), (1, 2), (2, 3)))
    edges = [tuple(rng.randrange(count) for _ in range(rng.choice(many))) for _ in range(count)]
    if rng.random() < 0.5:  # mostly forward, as programs are
        for point, found in enumerate(edges):
            edges[point] = tuple(min(count - 1, point + 1) if rng.random() < 0.5 else each for each in found)
    return edges, sorted({0, *(rng.randrange(count) for _ in range(rng.choice((0, 0, 1))))})
