"""Random Wave traces, made as they stand behind Wave's expansion: one node for each access of each wave.

Needs   a random number generator; Wave
Gives   `draw_kernel`: a kernel as data; `make_trace`: the `CapturedTrace` of it, and which nodes are which accesses
Keeps   an index is one formula: over Wave's symbols in the trace, over numbers where a test asks for bytes (`bytes_of`)
Cost    a few milliseconds for a trace

Rows of a buffer are a wave's own, its neighbour's, a pair's or one for all; columns are those of each lane, of lanes in
reverse, of one half of them, moved so that lanes overlap, or one for all lanes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import sympy
import torch.fx as fx
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang.kernel._support.indexing import IndexSequence
from wave_lang.kernel._support.regions import RegionGraph
from wave_lang.kernel._support.tracing import CapturedTrace
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE, THREAD_0
from wave_lang.kernel.ops import wave_ops

M, N = tkl.sym.M, tkl.sym.N
BYTES, WIDE, BLOCKS = 4, 4, 2  # of an element; elements of a lane in a row; rows of each wave
SPARE = 4  # columns behind those of the lanes
LANES = {"gfx942": 64, "gfx950": 64, "gfx1201": 32}

Formula = Callable[[Any, Any, int], Any]  # a wave or a lane, an iteration, how many of them
ROWS: dict[str, Formula] = {
    "own": lambda w, k, n: w,
    "next": lambda w, k, n: (w + 1) % n,
    "last": lambda w, k, n: n - 1 - w,
    "pair": lambda w, k, n: (w // 2) * 2,
    "first": lambda w, k, n: 0 * w,
    "own, second": lambda w, k, n: w + n,
    "next, second": lambda w, k, n: (w + 1) % n + n,
    "in turn": lambda w, k, n: w + n * (k % BLOCKS),
    "next, in turn": lambda w, k, n: (w + 1) % n + n * (k % BLOCKS),
}
COLUMNS: dict[str, Formula] = {
    "lane": lambda x, e, n: x * e,
    "reverse": lambda x, e, n: (n - 1 - x) * e,
    "low half": lambda x, e, n: (x % (n // 2)) * e,
    "high half": lambda x, e, n: (x % (n // 2)) * e + (n // 2) * e,
    "moved": lambda x, e, n: x * e + 1,
    "one": lambda x, e, n: 0 * x,
}


@dataclass(frozen=True)
class Access:
    """A read, write, copy or atomic addition of each lane."""

    kind: str
    buffer: str
    row: str
    column: str = "lane"
    elements: int = 1
    mapped: bool = False  # the row comes from a mapping


@dataclass(frozen=True)
class Barrier:
    """As a kernel's author puts it in."""

    drains: bool = True


@dataclass(frozen=True)
class Loop:
    """`trips`: None if nobody knows. `turns`: buffers that change places after each iteration."""

    trips: int | None
    body: tuple[Step, ...]
    turns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Some:
    """Only the first waves."""

    waves: int
    body: tuple[Step, ...]


Step = Access | Barrier | Loop | Some


@dataclass(frozen=True)
class Kernel:
    target: str
    waves: int
    buffers: tuple[str, ...]
    body: tuple[Step, ...]
    reuse: bool = False  # the first two buffers share bytes

    @property
    def lanes(self) -> int:
        return LANES[self.target]

    @property
    def columns(self) -> int:
        return self.lanes * WIDE + SPARE

    def offset(self, buffer: str) -> int:
        """The first byte of a buffer, in a memory that holds all of them."""
        number, size = self.buffers.index(buffer), self.waves * BLOCKS * self.columns * BYTES
        if self.reuse:
            return {0: 0, 1: size // 2}.get(number, number * size)
        return number * size

    def bytes_of(self, access: Access, buffer: str, wave: int, step: int) -> tuple[int, ...]:
        """What each lane of a wave touches, a bit for each byte.

        Copies land side by side, from where the first lane says.
        """
        row = ROWS[access.row](wave, step, self.waves)
        start = self.offset(buffer) + row * self.columns * BYTES
        width = access.elements * BYTES
        column = COLUMNS[access.column]
        if access.kind == "copy":
            first = column(0, access.elements, self.lanes) * BYTES
            places = [first + lane * width for lane in range(self.lanes)]
        else:
            places = [column(lane, access.elements, self.lanes) * BYTES for lane in range(self.lanes)]
        return tuple(((1 << width) - 1) << (start + place) for place in places)


# --- drawing ------------------------------------------------------------------------------------------------------


def draw_kernel(rng: random.Random, target: str = "") -> Kernel:
    target = target or rng.choice(["gfx942", "gfx942", "gfx950", "gfx1201"])
    buffers = tuple("abc"[: rng.randint(1, 3)])
    made = _Draw(rng, target, buffers)
    body = tuple(made.steps(rng.randint(3, 7), 0))
    if not any(isinstance(each, Access) and each.kind != "read" for each in flat(body)):
        body = (made.access("write"), *body)
    return Kernel(target, rng.choice([1, 2, 2, 3, 4, 4]), buffers, body, len(buffers) > 1 and rng.random() < 0.15)


@dataclass
class _Draw:
    rng: random.Random
    target: str
    buffers: tuple[str, ...]

    def steps(self, count: int, depth: int) -> Iterator[Step]:
        while count > 0:
            chance = self.rng.random()
            if chance < 0.18 and depth < 2:
                size = self.rng.randint(2, 4)
                turns = tuple(self.buffers[:2]) if len(self.buffers) > 1 and self.rng.random() < 0.3 else ()
                yield Loop(self.rng.choice([None, 1, 2, 3]), tuple(self.steps(size, depth + 1)), turns)
                count -= size
            elif chance < 0.26 and depth < 2:
                yield Some(self.rng.randint(1, 3), tuple(self.access() for _ in range(self.rng.randint(1, 2))))
                count -= 1
            elif chance < 0.34:
                yield Barrier(self.rng.random() < 0.7)
            else:
                kind = self.kind()
                for _ in range(self.rng.choice([1, 1, 2, 3])):  # neighbours of one kind, as Wave's expansion makes them
                    yield self.access(kind)
                    count -= 1

    def kind(self) -> str:
        copies = ["copy"] if LANES[self.target] == 64 else []
        return self.rng.choice(["write", "write", "write", "read", "read", "atomic", *copies])

    def access(self, kind: str = "") -> Access:
        kind = kind or self.kind()
        row = self.rng.choice([*ROWS, "own", "own", "next"])
        column = self.rng.choice([*COLUMNS, "lane", "lane", "lane"])
        elements = 1 if kind == "copy" else self.rng.choice([1, 2, 4])
        mapped = kind in ("read", "write") and row in ("own", "next") and self.rng.random() < 0.2
        return Access(kind, self.rng.choice(self.buffers), row, column, elements, mapped)


def flat(steps: tuple[Step, ...]) -> Iterator[Step]:
    for each in steps:
        yield each
        if isinstance(each, Loop | Some):
            yield from flat(each.body)


# --- traces -------------------------------------------------------------------------------------------------------


@dataclass
class Made:
    """A trace, and what its nodes are."""

    kernel: Kernel
    trace: Any
    constraints: list[Any]
    accesses: dict[Any, tuple[Access, str]] = field(default_factory=dict)  # node → access, and its name of the buffer
    loops: dict[Any, Loop] = field(default_factory=dict)
    somes: dict[Any, Some] = field(default_factory=dict)


def make_trace(kernel: Kernel) -> Made:
    regions, root = RegionGraph(), fx.Graph()
    regions.subgraphs["root"] = root
    trace = CapturedTrace(regions, "root", None)
    hardware = tkw.HardwareConstraint(threads_per_wave=kernel.lanes, waves_per_block=(kernel.waves, 1, 1))
    made = Made(kernel, trace, [hardware])
    _Maker(made, regions).root(root)
    return made


class _Maker:
    def __init__(self, made: Made, regions: Any) -> None:
        self.made, self.kernel, self.regions = made, made.kernel, regions
        self.wave, self.lane = THREAD_0 // self.kernel.lanes, THREAD_0 % self.kernel.lanes
        self.memory = tkl.Memory[M, N, SHARED_ADDRESS_SPACE, tkl.f32]
        self.register = tkl.Register[M, N, tkl.f32]

    def root(self, graph: Any) -> None:
        shape = (self.kernel.waves * BLOCKS, self.kernel.columns)
        known: dict[str, Any] = {"X": graph.create_node("placeholder", "X")}
        size = shape[0] * shape[1]
        parent = None
        if self.kernel.reuse:
            parent = self.put(graph, "Allocate", (N,), (size * 3,), tkl.f32, SHARED_ADDRESS_SPACE, type=self.memory)
        for name in self.kernel.buffers:
            placed = (parent, sympy.Integer(self.kernel.offset(name))) if parent is not None else (None, None)
            known[name] = self.put(
                graph, "Allocate", (M, N), shape, tkl.f32, SHARED_ADDRESS_SPACE, 0, *placed, type=self.memory
            )
            known[name].name = f"buffer_{name}"
        self.region(graph, self.kernel.body, known, sympy.Integer(0))
        graph.output(None)

    def put(self, graph: Any, op: str, *args: Any, type: Any = None) -> Any:
        return getattr(wave_ops, op)(*args).add_to_graph(graph, type=type or self.register)

    def region(self, graph: Any, steps: tuple[Step, ...], known: dict[str, Any], step: Any) -> None:
        for each in steps:
            match each:
                case Access():
                    self.access(graph, each, known, step)
                case Barrier(drains=drains):
                    self.put(graph, "SharedMemoryBarrier" if drains else "WorkgroupBarrier", type=[])
                case Loop():
                    self.loop(graph, each, known)
                case Some():
                    self.some(graph, each, known, step)

    def access(self, graph: Any, access: Access, known: dict[str, Any], step: Any) -> None:
        memory, elements = known[access.buffer], access.elements
        row = ROWS[access.row](self.wave, step, self.kernel.waves)
        column = COLUMNS[access.column](self.lane, elements, self.kernel.lanes)
        mapping = None
        if access.mapped:
            i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
            there, here = {M: ROWS[access.row](i, 0, self.kernel.waves), N: j}, {M: i, N: j}
            both = (there, here) if access.kind == "read" else (here, there)
            mapping = tkw.IndexMapping(num_iterators=2, inputs=both[0], outputs=both[1])
            row = self.wave
        index = {M: IndexSequence(row, 1, 1), N: IndexSequence(column, elements, 1)}
        if access.kind == "read":
            node = self.put(graph, "Read", memory, elements, mapping)
        elif access.kind == "copy":
            node = self.put(graph, "GatherToLDS", known["X"], memory, index, index, tkl.f32, elements, None, None, None)
        else:
            value = self.put(graph, "NewRegister", (M, N), tkl.f32, 0.0)
            op = "Write" if access.kind == "write" else "AtomicAddOp"
            node = self.put(graph, op, value, memory, elements, mapping)
        node.index = index
        self.made.accesses[node] = (access, access.buffer)

    def inner(self, known: dict[str, Any], without: tuple[str, ...] = ()) -> tuple[str, Any, dict[str, Any]]:
        """A graph in which values from outside have names of their own."""
        graph, name = fx.Graph(), f"region_{len(self.regions.subgraphs)}"
        self.regions.subgraphs[name] = self.made.trace.get_root_graph().subgraphs[name] = graph
        own = {}
        for each, outside in known.items():
            if each not in without:
                own[each] = graph.create_node("placeholder", f"of_{each}")
                own[each].meta["lifted"] = outside
                own[each].type = outside.type
        return name, graph, own

    def loop(self, graph: Any, loop: Loop, known: dict[str, Any]) -> None:
        name, body, own = self.inner(known, loop.turns)
        for number, each in enumerate(loop.turns):
            own[each] = body.create_node("placeholder", f"turn_{each}")
            own[each].iter_idx, own[each].type = number, self.memory
        axis = sympy.Symbol(f"STEP_{name}")
        self.region(body, loop.body, own, sympy.Symbol(f"$ARG{axis}", integer=True, nonnegative=True))
        body.output([own[each] for each in (*loop.turns[1:], *loop.turns[:1])])
        starts = [known[each] for each in loop.turns]
        node = self.put(graph, "Iterate", axis, starts, name, [], type=[])
        node.count = sympy.Symbol(f"TRIPS_{name}") if loop.trips is None else loop.trips
        body.parent_op = node
        self.made.loops[node] = loop
        for number, each in enumerate(loop.turns):
            known[each] = self.put(graph, "GetResult", node, number, type=self.memory)

    def some(self, graph: Any, some: Some, known: dict[str, Any], step: Any) -> None:
        name, body, own = self.inner(known)
        self.region(body, some.body, own, step)
        body.output(None)
        node = self.put(graph, "Conditional", sympy.Lt(self.wave, some.waves), name, [], type=[])
        body.parent_op = node
        self.made.somes[node] = some


def smaller(kernel: Kernel) -> Iterator[Kernel]:
    """The same without one step: to find what it is that a failure needs."""

    def without(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
        for number, each in enumerate(steps):
            yield (*steps[:number], *steps[number + 1 :])
            if isinstance(each, Loop | Some):
                for inner in without(each.body):
                    yield (*steps[:number], replace(each, body=inner), *steps[number + 1 :])

    for body in without(kernel.body):
        yield replace(kernel, body=body)
