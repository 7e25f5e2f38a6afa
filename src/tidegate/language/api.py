"""The functions that a kernel is written with in Python; `import tidegate` offers each of them.

Needs   a kernel that is being traced
Gives   recorded operations, and handles for their results
Keeps   each function records exactly the operation that it is named after
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tidegate import index as ix
from tidegate.language import ops, types
from tidegate.language.arguments import element_type, flag, sayable, whole, word
from tidegate.language.builder import active, clean_name, reject
from tidegate.language.handles import BarrierHandle, BufferHandle, DepHandle, GlobalHandle, Handle, to_value
from tidegate.language.index_handles import IndexHandle, SizeHandle, as_number, to_cond, to_index
from tidegate.language.ops import Place, Value
from tidegate.language.tile_handles import TileHandle, elementwise, wrap

# One index needs no tuple around it.
Indices = Sequence[Any] | IndexHandle | int
Deps = Iterable[DepHandle] | DepHandle


# --- names of the machine and of sizes ----------------------------------------------------------------------------


def wave() -> IndexHandle:
    """The number of this wave in its workgroup."""
    return IndexHandle(ix.Name(ix.WAVE))


def lane() -> IndexHandle:
    """The number of a lane in its wave: only for conditions, which it makes divergent."""
    return IndexHandle(ix.Name(ix.LANE))


def workgroup(axis: int = 0) -> IndexHandle:
    """The number of this workgroup along one axis of the grid."""
    number = as_number(axis)
    if number not in (0, 1, 2):
        reject("TG016", f"a grid has axes 0, 1 and 2, not {axis}")
    return IndexHandle(ix.Name(ix.WORKGROUP[number]))


def size(name: str, default: int) -> SizeHandle:
    """A size parameter with its default: `N = size("N", 1024)`."""
    if clean_name(word(name, "the name of a size")) != name:
        reject("TG012", f"`{name}` is not a name for a size", "use letters, digits and `_`")
    return SizeHandle(name, whole(default, f"the size `{name}`", 1))


def sizes(**defaults: int) -> tuple[SizeHandle, ...]:
    """Size parameters with their defaults: `M, K = sizes(M=128, K=64)`."""
    return tuple(size(name, default) for name, default in defaults.items())


def inexact(item: Any) -> IndexHandle:
    """Marks an index that is not quasi-affine. A tile of integers may be used as an index this way."""
    if isinstance(item, TileHandle):
        return IndexHandle(ix.Inexact(ix.Name(active().quote(item.value))))
    return IndexHandle(ix.Inexact(to_index(item)))


def select(cond: Any, then: Any, otherwise: Any) -> IndexHandle:
    """One of two indices."""
    return IndexHandle(ix.Select(to_cond(cond), to_index(then), to_index(otherwise)))


def let(item: Any, name: str = "index") -> IndexHandle:
    """Gives an index expression a name in the kernel."""
    result = _fresh(word(name, "the name of an index"), types.INDEX)
    active().emit(ops.Let(result, to_index(item), active().here()))
    return IndexHandle(ix.Name(result.name))


# --- shared memory ------------------------------------------------------------------------------------------------


def alloc(shape: Sequence[int], dtype: types.DType, slots: int = 1, at: int | None = None) -> BufferHandle:
    """Shared memory for one buffer."""
    result = _fresh("buffer", types.Lds(_shape(shape), element_type(dtype), whole(slots, "the number of slots", 1)))
    offset = None if at is None else whole(at, "the first byte of a buffer", 0)
    active().emit(ops.Alloc(result, offset, active().here()))
    return BufferHandle(result)


def dealloc(buffer: BufferHandle) -> None:
    """The buffer's bytes may be used again."""
    active().emit(ops.Dealloc(_buffer(buffer), active().here()))


def view(
    buffer: BufferHandle, at: Indices = (), *, slot: Any = 0, shape: Sequence[int], dtype: types.DType | None = None
) -> BufferHandle:
    """The bytes of a buffer from one place on, as another buffer."""
    base = _buffer(buffer).type
    assert isinstance(base, types.Lds)
    result = _fresh("view", types.Lds(_shape(shape), base.dtype if dtype is None else element_type(dtype)))
    active().emit(ops.View(result, _place(buffer, slot, at), active().here()))
    return BufferHandle(result)


def select_view(cond: Any, then: BufferHandle, otherwise: BufferHandle) -> BufferHandle:
    """One of two buffers."""
    result = _fresh("view", _buffer(then).type)
    active().emit(ops.SelectView(result, to_cond(cond), _buffer(then), _buffer(otherwise), active().here()))
    return BufferHandle(result)


# --- memory -------------------------------------------------------------------------------------------------------


def global_read(
    source: GlobalHandle, at: Indices, shape: Sequence[int], *, bounds: Indices = (), mask: TileHandle | None = None
) -> TileHandle:
    """Loads a tile from global memory."""
    base = _global(source).type
    assert isinstance(base, types.Global)
    result = _fresh("tile", types.Tile(_shape(shape), base.dtype))
    active().emit(ops.GlobalRead(result, _place(source, 0, at), *_guard(bounds, mask), active().here()))
    return TileHandle(result)


def global_write(
    tile: TileHandle, dest: GlobalHandle, at: Indices, *, bounds: Indices = (), mask: TileHandle | None = None
) -> None:
    """Stores a tile to global memory."""
    _global(dest)
    active().emit(ops.GlobalWrite(_tile(tile), _place(dest, 0, at), *_guard(bounds, mask), active().here()))


def read_index(source: GlobalHandle, at: Indices) -> IndexHandle:
    """Reads one integer from global memory; indices made of it are marked `inexact`."""
    result = _fresh("loaded", types.INDEX)
    _global(source)
    active().emit(ops.ReadIndex(result, _place(source, 0, at), active().here()))
    return IndexHandle(ix.Name(result.name))


def local_read(
    buffer: BufferHandle,
    at: Indices = (),
    shape: Sequence[int] | None = None,
    *,
    slot: Any = 0,
    bounds: Indices = (),
    mask: TileHandle | None = None,
) -> TileHandle:
    """Loads a tile from shared memory; without a shape, as much as one slot holds."""
    base = _buffer(buffer).type
    assert isinstance(base, types.Lds)
    result = _fresh("tile", types.Tile(base.shape if shape is None else _shape(shape), base.dtype))
    active().emit(ops.LocalRead(result, _place(buffer, slot, at), *_guard(bounds, mask), active().here()))
    return TileHandle(result)


def local_write(
    tile: TileHandle,
    buffer: BufferHandle,
    at: Indices = (),
    *,
    slot: Any = 0,
    bounds: Indices = (),
    mask: TileHandle | None = None,
) -> None:
    """Stores a tile to shared memory; without `at`, to the start of the slot."""
    _buffer(buffer)
    active().emit(ops.LocalWrite(_tile(tile), _place(buffer, slot, at), *_guard(bounds, mask), active().here()))


def atomic_add(
    tile: TileHandle,
    buffer: BufferHandle,
    at: Indices = (),
    *,
    slot: Any = 0,
    bounds: Indices = (),
    mask: TileHandle | None = None,
    fetch: bool = False,
) -> TileHandle | None:
    """Adds a tile into shared memory atomically; with `fetch`, gives what stood there before."""
    _buffer(buffer)
    result = _fresh("old", _tile_type(tile)) if flag(fetch, "fetch") else None
    place = _place(buffer, slot, at)
    active().emit(ops.AtomicAdd(result, _tile(tile), place, *_guard(bounds, mask), active().here()))
    return None if result is None else TileHandle(result)


def gather_to_lds(
    source: GlobalHandle,
    source_at: Indices,
    dest: BufferHandle,
    dest_at: Indices,
    shape: Sequence[int],
    *,
    slot: Any = 0,
    bounds: Indices = (),
    reports: tuple[BarrierHandle, Any] | BarrierHandle | None = None,
) -> DepHandle:
    """Copies a tile from global to shared memory asynchronously."""
    return _copy_in(ops.GatherToLds, source, source_at, dest, dest_at, shape, slot, bounds, reports)


def tensor_load_to_lds(
    source: GlobalHandle,
    source_at: Indices,
    dest: BufferHandle,
    dest_at: Indices,
    shape: Sequence[int],
    *,
    slot: Any = 0,
    bounds: Indices = (),
    reports: tuple[BarrierHandle, Any] | BarrierHandle | None = None,
) -> DepHandle:
    """Copies a tile from global to shared memory by the tensor copy engine."""
    return _copy_in(ops.TensorLoadToLds, source, source_at, dest, dest_at, shape, slot, bounds, reports)


def _copy_in(
    cls: type[ops.GatherToLds] | type[ops.TensorLoadToLds],
    source: GlobalHandle,
    source_at: Indices,
    dest: BufferHandle,
    dest_at: Indices,
    shape: Sequence[int],
    slot: Any,
    bounds: Indices,
    reports: Any,
) -> DepHandle:
    base = _buffer(dest).type
    assert isinstance(base, types.Lds)
    _global(source)
    result = _fresh("copy", types.DEP)
    tile = types.Tile(_shape(shape), base.dtype)
    mbarrier = None if reports is None else _barrier_place(reports)
    limits, _ = _guard(bounds, None)
    places = (_place(source, 0, source_at), _place(dest, slot, dest_at))
    active().emit(cls(result, *places, tile, limits, mbarrier, active().here()))
    return DepHandle(result)


def lds_to_global(
    source: BufferHandle,
    source_at: Indices,
    dest: GlobalHandle,
    dest_at: Indices,
    shape: Sequence[int],
    *,
    slot: Any = 0,
    bounds: Indices = (),
) -> DepHandle:
    """Copies a tile from shared to global memory asynchronously."""
    base = _buffer(source).type
    assert isinstance(base, types.Lds)
    _global(dest)
    result = _fresh("copy", types.DEP)
    tile = types.Tile(_shape(shape), base.dtype)
    places = (_place(source, slot, source_at), _place(dest, 0, dest_at))
    active().emit(ops.LdsToGlobal(result, *places, tile, _guard(bounds, None)[0], active().here()))
    return DepHandle(result)


# --- arithmetic ---------------------------------------------------------------------------------------------------


def fill(shape: Sequence[int], dtype: types.DType, value: float = 0.0) -> TileHandle:
    """A tile with one number everywhere."""
    return TileHandle(active().fill(value, types.Tile(_shape(shape), element_type(dtype))))


def zeros(shape: Sequence[int], dtype: types.DType) -> TileHandle:
    """A tile of zeros."""
    return fill(shape, dtype)


def splat(item: Any, shape: Sequence[int], dtype: types.DType = types.i32) -> TileHandle:
    """A tile with one index everywhere."""
    return TileHandle(active().splat(to_index(item), types.Tile(_shape(shape), element_type(dtype))))


def iota(shape: Sequence[int], axis: int = 0, dtype: types.DType = types.i32) -> TileHandle:
    """A tile that counts along one axis; negative axes count from the end."""
    result = _fresh("iota", types.Tile(_shape(shape), element_type(dtype)))
    active().emit(ops.Iota(result, _axis(axis, _shape(shape)), active().here()))
    return TileHandle(result)


def cast(tile: TileHandle, dtype: types.DType) -> TileHandle:
    """The same numbers in another element type."""
    result = _fresh("cast", types.Tile(_tile_type(tile).shape, element_type(dtype)))
    active().emit(ops.Cast(result, _tile(tile), active().here()))
    return TileHandle(result)


def transpose(tile: TileHandle) -> TileHandle:
    """The last two dimensions exchanged."""
    type_ = _tile_type(tile)
    if len(type_.shape) < 2:
        reject("TG010", f"`transpose` needs two dimensions, not `{type_}`")
    result = _fresh("t", types.Tile((*type_.shape[:-2], type_.shape[-1], type_.shape[-2]), type_.dtype))
    active().emit(ops.Transpose(result, _tile(tile), active().here()))
    return TileHandle(result)


def broadcast(tile: TileHandle, shape: Sequence[int]) -> TileHandle:
    """Dimensions of 1 repeated."""
    result = _fresh("wide", types.Tile(_shape(shape), _tile_type(tile).dtype))
    active().emit(ops.Broadcast(result, _tile(tile), active().here()))
    return TileHandle(result)


def reshape(tile: TileHandle, shape: Sequence[int]) -> TileHandle:
    """The same elements in another shape."""
    result = _fresh("shaped", types.Tile(_shape(shape), _tile_type(tile).dtype))
    active().emit(ops.Reshape(result, _tile(tile), active().here()))
    return TileHandle(result)


def reduce(fn: str, tile: TileHandle, axis: int) -> TileHandle:
    """`add`, `max` or `min` along an axis, which stays as a dimension of 1; negative axes count from the end."""
    shape = list(_tile_type(tile).shape)
    axis = _axis(axis, shape)
    if 0 <= axis < len(shape):
        shape[axis] = 1
    return _along(ops.Reduce, fn, tile, axis, tuple(shape))


def scan(fn: str, tile: TileHandle, axis: int) -> TileHandle:
    """Running `add`, `max` or `min` along an axis."""
    shape = _tile_type(tile).shape
    return _along(ops.Scan, fn, tile, _axis(axis, shape), shape)


def _along(
    cls: type[ops.Reduce] | type[ops.Scan], fn: str, tile: TileHandle, axis: int, shape: tuple[int, ...]
) -> TileHandle:
    if fn not in ("add", "max", "min"):
        reject("TG012", f"`{fn}` is not a reduction", "use `add`, `max` or `min`")
    result = _fresh(fn, types.Tile(shape, _tile_type(tile).dtype))
    active().emit(cls(result, fn, _tile(tile), axis, active().here()))
    return TileHandle(result)


def mma(a: TileHandle, b: TileHandle, acc: TileHandle | None = None) -> TileHandle:
    """a · b + acc on the matrix unit; without `acc`, onto zeros of f32, or of i32 for integers."""
    if acc is None:
        shape = (*_tile_type(a).shape[:-1], *_tile_type(b).shape[-1:])
        acc = fill(shape, types.f32 if _tile_type(a).dtype.is_float else types.i32)
    result = _fresh("mma", _tile_type(acc))
    active().emit(ops.Mma(result, _tile(a), _tile(b), _tile(acc), active().here()))
    return TileHandle(result)


def _elementwise_function(fn: str) -> Callable[..., TileHandle]:
    def record(*args: Any) -> TileHandle:
        return elementwise(fn, *args)

    record.__name__ = record.__qualname__ = fn
    record.__doc__ = f"Records `{fn}`, element by element."
    return record


exp, exp2, log, log2 = map(_elementwise_function, ("exp", "exp2", "log", "log2"))
sqrt, rsqrt, recip, floor = map(_elementwise_function, ("sqrt", "rsqrt", "recip", "floor"))
sin, cos, tanh, sigmoid, relu = map(_elementwise_function, ("sin", "cos", "tanh", "sigmoid", "relu"))
power = _elementwise_function("pow")
absolute, where, fma = map(_elementwise_function, ("abs", "where", "fma"))


def maximum(a: Any, b: Any) -> Any:
    """The larger of two tiles, element by element, or of two indices."""
    return _extreme("max", a, b)


def minimum(a: Any, b: Any) -> Any:
    """The smaller of two tiles, element by element, or of two indices."""
    return _extreme("min", a, b)


def _extreme(fn: str, a: Any, b: Any) -> Any:
    if isinstance(a, TileHandle) or isinstance(b, TileHandle):
        return elementwise(fn, a, b)
    return IndexHandle(ix.combine(fn, to_index(a), to_index(b)))


# --- synchronization ----------------------------------------------------------------------------------------------


def workgroup_barrier(*, pinned: bool = False) -> None:
    """A bare rendezvous of all waves."""
    active().emit(ops.WorkgroupBarrier(flag(pinned, "pinned"), active().here()))


def shared_memory_barrier(
    *, wait_async_ops: bool = False, deps: Deps = (), pinned: bool = False, **counts: int
) -> None:
    """Drains the wave's LDS accesses, and counters down to `counts`, then meets all waves."""
    found, drains = _deps(deps), flag(wait_async_ops, "wait_async_ops")
    op = ops.SharedMemoryBarrier(_counts(counts), drains, found, flag(pinned, "pinned"), active().here())
    active().emit(op)


def signal(barrier: int | BarrierHandle = -1, *, pinned: bool = False) -> None:
    """Arrives at a barrier and goes on."""
    active().emit(ops.Signal(_barrier(barrier), flag(pinned, "pinned"), active().here()))


def wait(barrier: int | BarrierHandle = -1, *, pinned: bool = False) -> None:
    """Departs from a barrier that was signalled."""
    active().emit(ops.Wait(_barrier(barrier), flag(pinned, "pinned"), active().here()))


def conditional_barrier(half: str) -> None:
    """Only the `low` or the `high` half of the waves arrives."""
    if half not in ("low", "high"):
        reject("TG012", f"`{half}` is not a half of the waves", "use `low` or `high`")
    active().emit(ops.ConditionalBarrier(half, active().here()))


def wait_count(*, deps: Deps = (), **counts: int) -> None:
    """Waits until no more than so many operations are in flight: `wait_count(vmcnt=2)`."""
    found = _deps(deps)
    active().emit(ops.WaitCount(_counts(counts), found, active().here()))


def commit_group() -> DepHandle:
    """Closes a group of asynchronous copies."""
    result = _fresh("group", types.DEP)
    active().emit(ops.CommitGroup(result, active().here()))
    return DepHandle(result)


def fence(kind: str) -> None:
    """Orders memory without a rendezvous: `wave` or `proxy_async`."""
    if kind not in ("wave", "proxy_async"):
        reject("TG012", f"`{kind}` is not a fence", "use `wave` or `proxy_async`")
    active().emit(ops.Fence(kind, active().here()))


def named_barrier(arrivals: int) -> BarrierHandle:
    """A barrier of its own that so many arrivals complete."""
    return _new_barrier(types.BarrierObject("named_barrier", _arrivals(arrivals)))


def mbarrier(arrivals: int, slots: int = 1) -> BarrierHandle:
    """An mbarrier in shared memory, or several in slots."""
    return _new_barrier(types.BarrierObject("mbarrier", _arrivals(arrivals), whole(slots, "the number of slots", 1)))


def mbarrier_arrive(barrier: BarrierHandle, *, slot: Any = 0, expect: int = 0) -> None:
    """Arrives at an mbarrier, and adds bytes that copies must report."""
    bytes = whole(expect, "the number of bytes to expect", 0)
    active().emit(ops.MbarrierArrive(_barrier_place((barrier, slot)), bytes, active().here()))


def mbarrier_wait(barrier: BarrierHandle, parity: Any, *, slot: Any = 0) -> None:
    """Waits until the phase with this parity has completed."""
    active().emit(ops.MbarrierWait(_barrier_place((barrier, slot)), to_index(parity), active().here()))


def null_async_dep() -> DepHandle:
    """No asynchronous operation."""
    result = _fresh("none", types.DEP)
    active().emit(ops.NullAsyncDep(result, active().here()))
    return DepHandle(result)


def scheduling_barrier() -> None:
    """Later compilers move nothing across it."""
    active().emit(ops.SchedulingBarrier(active().here()))


def set_wave_prio(level: int) -> None:
    """The wave's priority on its SIMD."""
    active().emit(ops.SetWavePrio(whole(level, "the priority of a wave"), active().here()))


def exit_wave() -> None:
    """The wave ends here."""
    active().emit(ops.Exit(active().here()))


# --- from what users pass to operands -----------------------------------------------------------------------------


def _fresh(hint: str, type_: types.Type) -> Value:
    return active().fresh(hint, sayable(type_))


def _shape(shape: Sequence[int] | int) -> tuple[int, ...]:
    items = []
    for size in _several(shape):
        number = as_number(size)
        if number is None or number < 1:
            reject("TG005", f"`{size!r}` is not a size", "the sizes of tiles and buffers are positive numbers")
        items.append(number)
    return tuple(items)


def _several(item: Any) -> tuple[Any, ...]:
    """Several things, or one that stands alone."""
    return tuple(item) if isinstance(item, Iterable) else (item,)


def _axis(axis: int, shape: Sequence[int]) -> int:
    axis = whole(axis, "the axis of a tile")
    return axis + len(shape) if -len(shape) <= axis < 0 else axis


def _deps(deps: Any) -> tuple[Value, ...]:
    return tuple(to_value(dep, DepHandle, "an asynchronous operation") for dep in _several(deps))


def _tile(item: Any) -> Value:
    return to_value(item, TileHandle, "a tile")


def _tile_type(item: Any) -> types.Tile:
    type_ = _tile(item).type
    assert isinstance(type_, types.Tile)
    return type_


def _buffer(item: Any) -> Value:
    return to_value(item, BufferHandle, "shared memory")


def _global(item: Any) -> Value:
    return to_value(item, GlobalHandle, "global memory")


def _place(base: Handle, slot: Any, at: Any) -> Place:
    return Place(base.value, to_index(slot), tuple(map(to_index, _several(at))))


def _guard(bounds: Indices, mask: TileHandle | None) -> tuple[tuple[ix.Index, ...], Value | None]:
    return tuple(map(to_index, _several(bounds))), None if mask is None else _tile(mask)


def _barrier(item: int | BarrierHandle) -> int | Value:
    number = as_number(item)
    return to_value(item, BarrierHandle, "a barrier") if number is None else whole(number, "the number of a barrier")


def _arrivals(arrivals: int) -> int:
    return whole(arrivals, "the number of arrivals", 1)


def _counts(counts: dict[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple((name, whole(count, f"`{name}`", 0)) for name, count in counts.items())


def _barrier_place(item: Any) -> Place:
    barrier, slot = item if isinstance(item, tuple) else (item, 0)
    return Place(to_value(barrier, BarrierHandle, "an mbarrier"), to_index(slot))


def _new_barrier(type_: types.BarrierObject) -> BarrierHandle:
    result = _fresh("barrier", type_)
    active().emit(ops.NewBarrier(result, active().here()))
    handle = wrap(result)
    assert isinstance(handle, BarrierHandle)
    return handle
