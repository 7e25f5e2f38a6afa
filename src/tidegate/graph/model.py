"""`SyncGraph`: all that synchronization depends on, whatever the program was written in.

Needs   index expressions; synchronization operations are those of the kernel language
Gives   frozen values: points in program order with successors, memory, loops, barrier objects
Keeps   a graph can be executed: conditions, assignments and footprints are expressions over names that points assign
Cost    a few hundred bytes a point

    read %a[%k mod 2] + wave * 1024 box(16 by 64, 32 by 2)      the bytes an access touches
    assign %k = %k + 1                                          counters and carried slots are plain names
    branch %k < K // 32 -> 5, 9                                 the first successor if it holds, else the second

A *view* is a name for a place in memory; it is assigned like an index, so that views through `select`, views carried
round a loop and views passed to a function are one thing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tidegate.diag import NOWHERE, Span
from tidegate.index import ZERO, Cond, Index
from tidegate.language.ops import (
    CommitGroup,
    MbarrierArrive,
    MbarrierWait,
    NullAsyncDep,
    Size,
    SyncOp,
    Value,
)
from tidegate.language.types import BarrierObject

# --- memory -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Buffer:
    """A piece of shared memory. Buffers without an offset lie apart from all others; with one, bytes may be shared."""

    name: str
    slot_bytes: int
    slots: int = 1
    offset: int | None = None

    @property
    def bytes(self) -> int:
        return self.slot_bytes * self.slots

    def overlaps(self, other: Buffer) -> bool:
        """Whether two buffers have bytes in common. One without an offset lies by itself."""
        if self.offset is None or other.offset is None:
            return False
        return self.offset < other.offset + other.bytes and other.offset < self.offset + self.bytes


@dataclass(frozen=True, slots=True)
class Ref:
    """A place in memory: a buffer, one of its slots, and bytes into it; or a view, which has no slots, and bytes."""

    base: str
    slot: Index = ZERO
    offset: Index = ZERO


@dataclass(frozen=True, slots=True)
class Either:
    """One of two places."""

    cond: Cond
    then: Where
    otherwise: Where


Where = Ref | Either


@dataclass(frozen=True, slots=True)
class Token:
    """The asynchronous operations that another name stands for."""

    name: str


@dataclass(frozen=True, slots=True)
class Extent:
    """`count` steps of `stride` bytes; with a limit, only the steps below it are taken."""

    count: int
    stride: int
    limit: Index | None = None


@dataclass(frozen=True, slots=True)
class ThreadMap:
    """How far behind its place an access starts, for each thread; None: the thread does not take part.

    Thread t is lane t mod L of wave t // L, for waves of L lanes.
    """

    name: str
    starts: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Footprint:
    """The bytes of an access: from a place, every combination of steps, `width` bytes at each.

    An atomic touches whole elements, one behind the other from each of these starts on.
    `may`: only some of these bytes, by a mask that nobody knows. Where the slot or the offset is inexact, here or in a
    view on the way, it may be any bytes of the whole buffer.
    """

    place: Ref
    extents: tuple[Extent, ...]
    width: int
    may: bool = False
    threads: str = ""  # a `ThreadMap`: `width` bytes for each thread, where it says; then there are no extents


# --- actions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compute:
    """Touches no shared memory and orders nothing."""


@dataclass(frozen=True, slots=True)
class Access:
    """Touches shared memory. An asynchronous one goes on after the point; `mbarrier` is told when it is done.

    Ordinary accesses with one name in `lanes` give each byte, counted from where the access starts, to the same lane of
    their wave. So two of them that start at the same byte stay within their lanes, and program order orders them.
    `ONE_LANE` is the name for a single lane, wherever the access starts.
    """

    effect: str  # read | write | atomic
    footprint: Footprint
    is_async: bool = False
    proxy: str = "generic"
    operator: str = ""  # of an atomic
    fetches: bool = False  # whether the result of an atomic is used
    mbarrier: Ref | None = None
    token: str = ""  # the name by which waits speak of an asynchronous access
    as_one: bool = False  # the waves carry it out together: no two of them conflict in one execution of it
    element: str = ""  # of an atomic, the type of its elements; where it is not known, nothing commutes with it
    lanes: str = ""  # a name for which lane touches which byte; empty: nothing is known
    lanes_from: int = 0  # how many bytes of that map lie before where the access starts: others have them
    collective: bool = False  # with a `ThreadMap`: the lanes of a wave do it together, no byte belongs to one of them


# Operators of atomics whose order makes no difference to what they leave. An exchange is none of them.
COMMUTING = frozenset({"add", "fadd", "and", "or", "xor", "min", "max", "umin", "umax"})

# One lane of the wave does all of it, and always the same one.
ONE_LANE = "one"


@dataclass(frozen=True, slots=True)
class Unknown:
    """May read and write everything it can reach: an operation without a description. Reported, never ignored."""

    reaches: tuple[str, ...] = ()


# What may stand in a `Sync`: all synchronization of the kernel language, and what belongs to copies and objects.
GraphSyncOp = SyncOp | CommitGroup | MbarrierArrive | MbarrierWait | NullAsyncDep


@dataclass(frozen=True, slots=True)
class Sync:
    """Synchronization that stands in the program. `waves`: of a fence, those whose lanes come to it; empty: all."""

    op: GraphSyncOp
    waves: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Assign:
    """Names take new values, all at once: indices, places in memory, or asynchronous operations."""

    pairs: tuple[tuple[str, Index | Where | Token], ...]


@dataclass(frozen=True, slots=True)
class Havoc:
    """Names take values that nobody knows: numbers read from memory, elements of a tile, lanes that differ.

    `agree`: all waves find the same values. Where that is not said, they may differ wherever the program lets them.
    """

    names: tuple[str, ...]
    agree: bool = False


@dataclass(frozen=True, slots=True)
class Branch:
    """Goes to the first successor if the condition holds, else to the second. None: a free choice each time."""

    cond: Cond | None


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Waves of the n-th range go to the n-th successor, all others to the last."""

    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Call:
    """Runs a function and comes back; its parameters are views."""

    function: str
    args: tuple[tuple[str, Where], ...] = ()


@dataclass(frozen=True, slots=True)
class Alloc:
    buffer: str


@dataclass(frozen=True, slots=True)
class Free:
    buffer: str


@dataclass(frozen=True, slots=True)
class Return:
    """The end of a function."""


@dataclass(frozen=True, slots=True)
class End:
    """The wave ends."""


Action = Compute | Access | Unknown | Sync | Assign | Havoc | Branch | Dispatch | Call | Alloc | Free | Return | End

# --- points -------------------------------------------------------------------------------------------------------

ROLES = ("other", "global_read", "global_write", "local_read", "local_write", "copy", "mma")
VARIATIONS = ("uniform", "per_wave", "divergent")


@dataclass(frozen=True, slots=True)
class Issue:
    """How many instructions a point issues on a counter of the target: at least and at most.

    `least` is what is certain: 0 for what a compiler may drop, merge or make something else of. `most` is what is
    possible. A copy that counts in groups names its counter with 0 and 0. `in_order`: it completes in its turn there.
    """

    counter: str
    least: int
    most: int
    in_order: bool = True


@dataclass(frozen=True, slots=True)
class Work:
    """How much one wave computes or moves here, whatever the target: what a footprint in shared memory does not say.

    `ops`: floating-point operations of a matrix product, on elements of `dtype`; else elements that are computed.
    `bytes`: of global memory.
    """

    ops: int = 0
    bytes: int = 0
    dtype: str = ""


NO_WORK = Work()


@dataclass(frozen=True, slots=True)
class Point:
    """One step of a wave. Its number is its position in the graph."""

    action: Action
    successors: tuple[int, ...]
    label: str = ""
    role: str = "other"
    issues: tuple[Issue, ...] = ()
    uses: tuple[int, ...] = ()  # points whose values this one needs
    loop: int = -1  # the innermost loop around it
    weight: float = 1.0  # how often it is executed, as far as anybody knows
    under: str = "uniform"  # who agrees that this point is reached
    insertable: bool = True  # whether synchronization may be put before it
    at: Span = field(default=NOWHERE, compare=False)
    work: Work = NO_WORK


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop: its head is where it is entered. A loop with several entries is irreducible; its head is the first."""

    head: int
    parent: int = -1
    least: int = 0  # trips
    most: int | None = None
    expect: float = 16.0
    counter: str = ""
    lower: Index = ZERO
    upper: Index = ZERO
    step: int = 1
    reducible: bool = True


@dataclass(frozen=True, slots=True)
class Program:
    """Where waves `first` up to, not including, `last` start. Waves of one program have one start."""

    entry: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    entry: int
    params: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Object:
    """A barrier object, and the waves that may take part in it; an empty tuple means all. Mbarriers lie in memory."""

    name: str
    type: BarrierObject
    waves: tuple[int, ...] = ()
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class SyncGraph:
    """Everything that synchronization depends on."""

    name: str
    target: str
    waves: int
    points: tuple[Point, ...]
    programs: tuple[Program, ...]
    buffers: tuple[Buffer, ...] = ()
    loops: tuple[Loop, ...] = ()
    functions: tuple[Function, ...] = ()
    objects: tuple[Object, ...] = ()
    sizes: tuple[Size, ...] = ()
    where: tuple[Cond, ...] = ()
    grid: tuple[Index, ...] = ()
    free: tuple[Value, ...] = ()  # what is set from outside: flags, scalar arguments, tiles that serve as indices
    lanes: int = 0  # of a wave, where maps speak of threads
    maps: tuple[ThreadMap, ...] = ()

    def _repr_html_(self) -> str:
        """Its text, for a notebook."""
        from tidegate.graph.show import show_graph
        from tidegate.notebook import text_block

        return text_block(show_graph(self))


def is_inside(graph: SyncGraph, loop: int, outer: int) -> bool:
    """Whether a loop is another one, or lies in it."""
    while loop >= 0 and loop != outer:
        loop = graph.loops[loop].parent
    return loop == outer


def ends_some_lanes(graph: SyncGraph) -> bool:
    """Whether lanes end before others of their wave. A run ends the wave, and does not see what the others do."""
    return any(isinstance(point.action, End) and point.under == "divergent" for point in graph.points)


def predecessors(graph: SyncGraph) -> list[list[int]]:
    """For every point the points that lead to it, in order."""
    return invert([point.successors for point in graph.points])


def invert(successors: Sequence[Sequence[int]]) -> list[list[int]]:
    """For every number those that lead to it, in order."""
    found: list[list[int]] = [[] for _ in successors]
    for number, following in enumerate(successors):
        for successor in following:
            found[successor].append(number)
    return found


def reached_from(starts: Iterable[int], successors: Sequence[Sequence[int]]) -> set[int]:
    """The numbers that some lead to, themselves included."""
    seen = set(starts)
    stack = list(seen)
    while stack:
        for successor in successors[stack.pop()]:
            if successor not in seen:
                seen.add(successor)
                stack.append(successor)
    return seen
