"""The operations of the kernel language: one closed union of frozen values.

Needs   types, index expressions
Gives   `Op`, `Block`, `Kernel`; what an operation reads, defines and contains
Keeps   children are tuples; names are unique in a kernel; spans never take part in equality
Cost    constant per operation

Every wave runs the kernel; a tile is what one wave holds. A `Place` is where a tile lies in shared or global memory:
its first element is at `index`, and a tile of lower rank fills the last dimensions. Sizes in bytes follow from types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from tidegate.diag import NOWHERE, Span
from tidegate.index import ONE, ZERO, Cond, Index
from tidegate.language.types import Tile, Type


@dataclass(frozen=True, slots=True)
class Value:
    """A name with its type. The name starts with `%`."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a buffer or a global array. Missing last indices are 0."""

    base: Value
    slot: Index = ZERO
    index: tuple[Index, ...] = ()


# What is carried round a loop or out of a region: a value, or an index expression.
Operand = Value | Index


@dataclass(frozen=True, slots=True)
class Block:
    """Operations in order, and what the region hands on when it ends."""

    ops: tuple[Op, ...] = ()
    yields: tuple[Operand, ...] = ()
    at: Span = field(default=NOWHERE, compare=False)


# --- shared memory: its life and its views ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Alloc:
    """Shared memory for one buffer; at byte `offset` if given, else after everything before it."""

    result: Value
    offset: int | None = None
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Dealloc:
    """The buffer's bytes may be used again."""

    buffer: Value
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class View:
    """A window onto a buffer: the bytes from `place` on, seen as another buffer type."""

    result: Value
    place: Place
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class SelectView:
    """One of two buffers of the same type."""

    result: Value
    cond: Cond
    then: Value
    otherwise: Value
    at: Span = field(default=NOWHERE, compare=False)


# --- memory -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GlobalRead:
    """Each wave loads a tile. Elements at or beyond `bounds`, or where `mask` is false, are 0."""

    result: Value
    place: Place
    bounds: tuple[Index, ...] = ()
    mask: Value | None = None
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class GlobalWrite:
    """Each wave stores its tile to global memory, except at or beyond `bounds` or where `mask` is false."""

    tile: Value
    place: Place
    bounds: tuple[Index, ...] = ()
    mask: Value | None = None
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class ReadIndex:
    """One integer from global memory. Nothing is known about it: indices that use it are inexact."""

    result: Value
    place: Place
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class LocalRead:
    """Each wave loads a tile from one slot of a shared buffer."""

    result: Value
    place: Place
    bounds: tuple[Index, ...] = ()
    mask: Value | None = None
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class LocalWrite:
    """Each wave stores its tile into one slot of a shared buffer."""

    tile: Value
    place: Place
    bounds: tuple[Index, ...] = ()
    mask: Value | None = None
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class AtomicAdd:
    """Adds a tile into shared memory, element by element and atomically; the result is what stood there before."""

    result: Value | None
    tile: Value
    place: Place
    bounds: tuple[Index, ...] = ()
    mask: Value | None = None
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class GatherToLds:
    """An asynchronous copy from global to shared memory that goes past the registers."""

    result: Value | None
    source: Place
    dest: Place
    tile: Tile
    bounds: tuple[Index, ...] = ()
    mbarrier: Place | None = None
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class TensorLoadToLds:
    """As `gather_to_lds`, by the tensor copy engine: one instruction for the whole tile."""

    result: Value | None
    source: Place
    dest: Place
    tile: Tile
    bounds: tuple[Index, ...] = ()
    mbarrier: Place | None = None
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class LdsToGlobal:
    """An asynchronous store from shared to global memory: it reads shared memory until it completes."""

    result: Value | None
    source: Place
    dest: Place
    tile: Tile
    bounds: tuple[Index, ...] = ()
    at: Span = field(default=NOWHERE, compare=False)


# --- arithmetic ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fill:
    """A tile with one number everywhere; of integers, a whole number."""

    result: Value
    value: float | int
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Splat:
    """A tile with one index everywhere."""

    result: Value
    value: Index
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Iota:
    """A tile that counts 0, 1, 2, ... along one axis."""

    result: Value
    axis: int
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Elementwise:
    """One function applied to every element of tiles of one shape."""

    result: Value
    fn: str
    args: tuple[Value, ...]
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Cast:
    """The same numbers in another element type."""

    result: Value
    tile: Value
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Reduce:
    """Sum, maximum or minimum along an axis, which stays as a dimension of 1."""

    result: Value
    fn: str
    tile: Value
    axis: int
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Scan:
    """Running sum, maximum or minimum along an axis, each element included."""

    result: Value
    fn: str
    tile: Value
    axis: int
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Transpose:
    """The last two dimensions exchanged, within the wave's registers."""

    result: Value
    tile: Value
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Dimensions of 1 repeated, missing first dimensions added."""

    result: Value
    tile: Value
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Reshape:
    """The same elements in row-major order in another shape."""

    result: Value
    tile: Value
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Mma:
    """a · b + acc on the matrix unit."""

    result: Value
    a: Value
    b: Value
    acc: Value
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Let:
    """A name for an index expression."""

    result: Value
    value: Index
    at: Span = field(default=NOWHERE, compare=False)


# --- control ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Carried:
    """A value carried round a loop: its name in the body and what it starts with."""

    value: Value
    init: Operand


@dataclass(frozen=True, slots=True)
class Iterate:
    """A counted loop. It may run zero times; then its results are the initial values."""

    results: tuple[Value, ...]
    counter: Value
    lower: Index
    upper: Index
    body: Block
    step: Index = ONE
    carried: tuple[Carried, ...] = ()
    expect: int | None = None
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Conditional:
    """Two regions, one of which runs. The condition is uniform, per wave, or, if it names `lane`, divergent."""

    results: tuple[Value, ...]
    cond: Cond
    then: Block
    otherwise: Block = Block()
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Group:
    """Waves `first` up to, not including, `last`, and their program."""

    first: int
    last: int
    body: Block
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Specialize:
    """Groups of waves run different programs; waves in no group go on at once."""

    groups: tuple[Group, ...]
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Exit:
    """The wave ends here."""

    at: Span = field(default=NOWHERE, compare=False)


# --- synchronization ----------------------------------------------------------------------------------------------

# A counter of the target and the most operations that may still be in flight on it.
Count = tuple[str, int]


@dataclass(frozen=True, slots=True)
class WorkgroupBarrier:
    """A bare rendezvous of all waves: drains nothing by itself."""

    pinned: bool = False
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class SharedMemoryBarrier:
    """Drains the wave's LDS accesses, and asynchronous copies where asked, then meets all waves."""

    counts: tuple[Count, ...] = ()
    wait_async_ops: bool = False
    async_deps: tuple[Value, ...] = ()
    pinned: bool = False
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Signal:
    """Arrives at a barrier and goes on. The barrier is an id of the target or a named barrier."""

    barrier: int | Value
    pinned: bool = False
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Wait:
    """Departs from the barrier that was signalled, when all have arrived."""

    barrier: int | Value
    pinned: bool = False
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class ConditionalBarrier:
    """Only the low or the high half of the waves arrives: opens or closes a stagger."""

    half: str
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class WaitCount:
    """Waits until no more than so many operations are in flight on each counter, or for given operations."""

    counts: tuple[Count, ...] = ()
    async_deps: tuple[Value, ...] = ()
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class CommitGroup:
    """Closes a group of asynchronous copies, where the target counts groups."""

    result: Value | None = None
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Fence:
    """Orders memory without a rendezvous: `wave` within a wave, `proxy_async` between the two proxies."""

    kind: str
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class NewBarrier:
    """A barrier object; its type says which and how many arrivals complete a phase."""

    result: Value
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class MbarrierArrive:
    """Arrives at an mbarrier; `expect` adds bytes that copies must report before the phase completes."""

    barrier: Place
    expect: int = 0
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class MbarrierWait:
    """Waits until the phase with this parity has completed."""

    barrier: Place
    parity: Index
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class NullAsyncDep:
    """No asynchronous operation: what a path brings that started none."""

    result: Value
    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class SchedulingBarrier:
    """Nothing may be moved across it by later compilers. Orders no memory."""

    at: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class SetWavePrio:
    """The wave's priority on its SIMD, 0 to 3."""

    level: int
    at: Span = field(default=NOWHERE, compare=False)


MemoryOp = GlobalRead | GlobalWrite | ReadIndex | LocalRead | LocalWrite | AtomicAdd
CopyOp = GatherToLds | TensorLoadToLds | LdsToGlobal
BufferOp = Alloc | Dealloc | View | SelectView
TileOp = Fill | Splat | Iota | Elementwise | Cast | Reduce | Scan | Transpose | Broadcast | Reshape | Mma
ComputeOp = TileOp | Let | NullAsyncDep
ControlOp = Iterate | Conditional | Specialize | Exit
# What a plan may insert; the rest of the synchronization belongs to barrier objects and copies.
SyncOp = (
    WorkgroupBarrier
    | SharedMemoryBarrier
    | Signal
    | Wait
    | ConditionalBarrier
    | WaitCount
    | Fence
    | SchedulingBarrier
    | SetWavePrio
)
ObjectOp = NewBarrier | MbarrierArrive | MbarrierWait | CommitGroup
Op = MemoryOp | CopyOp | BufferOp | ComputeOp | ControlOp | SyncOp | ObjectOp


@dataclass(frozen=True, slots=True)
class Size:
    """A size parameter, and the value it has when nobody says otherwise."""

    name: str
    default: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel: what it takes, what may be assumed about sizes, how many workgroups and waves run it."""

    name: str
    args: tuple[Value, ...]
    body: Block
    waves: int
    sizes: tuple[Size, ...] = ()
    where: tuple[Cond, ...] = ()
    grid: tuple[Index, ...] = ()
    target: str = ""
    at: Span = field(default=NOWHERE, compare=False)

    def _repr_html_(self) -> str:
        """Its text, for a notebook."""
        from tidegate.language.show import show
        from tidegate.notebook import text_block

        return text_block(show(self))


@dataclass(frozen=True, slots=True)
class Module:
    """The kernels of one file, in order."""

    kernels: tuple[Kernel, ...]


def blocks_of(op: Op) -> tuple[Block, ...]:
    """The regions of an operation, in the order of the text."""
    match op:
        case Iterate(body=body):
            return (body,)
        case Conditional(then=then, otherwise=otherwise):
            return (then, otherwise)
        case Specialize(groups=groups):
            return tuple(group.body for group in groups)
    return ()


def map_blocks(op: Op, change: Callable[[Block, int], Block]) -> Op:
    """The operation with each of its regions changed; the number of a region is its place in `blocks_of`."""
    match op:
        case Iterate():
            return replace(op, body=change(op.body, 0))
        case Conditional():
            return replace(op, then=change(op.then, 0), otherwise=change(op.otherwise, 1))
        case Specialize():
            groups = (replace(group, body=change(group.body, number)) for number, group in enumerate(op.groups))
            return replace(op, groups=tuple(groups))
    return op


def results_of(op: Op) -> tuple[Value, ...]:
    """What the operation defines for those after it. A loop's counter and carried names are its body's own."""
    if isinstance(op, Iterate | Conditional):
        return op.results
    result: Value | None = getattr(op, "result", None)
    return () if result is None else (result,)


def walk_ops(block: Block) -> Iterator[Op]:
    """Every operation, regions included, in the order of the text."""
    for op in block.ops:
        yield op
        for inner in blocks_of(op):
            yield from walk_ops(inner)
