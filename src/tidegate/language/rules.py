"""What each operation asks of its operands, and the type it gives.

Needs   one operation
Gives   the problems in it, in words; where and in which kernel is for `check` to say
Keeps   an operand of unknown type is never a problem: its mistake has been reported
Cost    constant per operation
"""

from __future__ import annotations

from typing import assert_never

from tidegate.diag import Label, Span
from tidegate.index import INDEX_TYPES, Inexact, constant
from tidegate.language import ops
from tidegate.language.ops import Op, Operand, Place, Value
from tidegate.language.problems import Problem, Problems, a, count_of, must_be, must_be_tile
from tidegate.language.tile_rules import check_along_axis, check_elementwise, check_mma, check_shape
from tidegate.language.types import DEP, INDEX, UNKNOWN, BarrierObject, Global, Lds, Tile, Type, i1


def problems(op: Op) -> Problems:
    """Everything wrong with one operation by itself."""
    match op:
        case ops.Alloc() | ops.Dealloc() | ops.View() | ops.SelectView():
            yield from _buffer(op)
        case ops.GlobalRead() | ops.GlobalWrite() | ops.LocalRead() | ops.LocalWrite() | ops.AtomicAdd():
            yield from _access(op)
        case ops.ReadIndex():
            yield from _place(op.place, Global, "global memory", None)
            base = op.place.base.type
            if isinstance(base, Global) and base.dtype.is_float:
                yield Problem(
                    "TG011", f"an index is read from `{base.dtype}`", "read it from an integer array", (op.place.base,)
                )
        case ops.GatherToLds() | ops.TensorLoadToLds() | ops.LdsToGlobal():
            yield from _copy(op)
        case ops.Fill() | ops.Splat() | ops.Iota() | ops.Cast() | ops.Broadcast() | ops.Reshape() | ops.Transpose():
            yield from check_shape(op)
        case ops.Reduce() | ops.Scan():
            yield from check_along_axis(op)
        case ops.Elementwise():
            yield from check_elementwise(op)
        case ops.Mma():
            yield from check_mma(op)
        case ops.Iterate():
            yield from _loop(op)
        case ops.Conditional():
            for arm, block in (("then", op.then), ("else", op.otherwise)):
                yield from _yields(block.yields, op.results, f"the `{arm}` region", "TG014", block.at)
        case ops.Specialize():
            yield from _groups(op)
        case ops.Signal() | ops.Wait():
            if isinstance(op.barrier, Value):
                yield from _object(op.barrier, "named_barrier")
        case ops.SharedMemoryBarrier() | ops.WaitCount():
            yield from _waits(op)
        case ops.NewBarrier():
            if not isinstance(op.result.type, BarrierObject):
                yield Problem("TG012", f"a barrier object cannot be {a(op.result.type)}", "use `named_barrier<...>`")
        case ops.MbarrierArrive() | ops.MbarrierWait():
            yield from _object(op.barrier.base, "mbarrier")
            if isinstance(op, ops.MbarrierArrive) and op.expect < 0:
                yield Problem("TG016", f"{op.expect} bytes cannot be expected")
        case ops.SetWavePrio():
            if not 0 <= op.level <= 3:
                yield Problem("TG016", f"wave priority {op.level} is not one of 0, 1, 2, 3")
        case ops.Let() | ops.NullAsyncDep() | ops.Exit() | ops.WorkgroupBarrier() | ops.ConditionalBarrier():
            pass
        case ops.Fence() | ops.SchedulingBarrier() | ops.CommitGroup():
            pass
        case _:
            assert_never(op)


def _buffer(op: ops.BufferOp) -> Problems:
    match op:
        case ops.Alloc():
            if not isinstance(op.result.type, Lds):
                yield Problem("TG012", f"`alloc` makes shared memory, not {a(op.result.type)}", "use `lds<...>`")
            if op.offset is not None and op.offset < 0:
                yield Problem("TG016", f"a buffer cannot lie at byte {op.offset}")
        case ops.Dealloc():
            yield from _must_be_lds(op.buffer)
        case ops.View():
            yield from _place(op.place, Lds, "shared memory", None)
            if not isinstance(op.result.type, Lds):
                yield Problem("TG012", f"a view is shared memory, not {a(op.result.type)}", "use `lds<...>`")
        case ops.SelectView():
            for value in (op.then, op.otherwise):
                yield from _must_be_lds(value)
                yield from must_be(value, op.result.type)
        case _:
            assert_never(op)


def _access(op: ops.GlobalRead | ops.GlobalWrite | ops.LocalRead | ops.LocalWrite | ops.AtomicAdd) -> Problems:
    is_global = isinstance(op, ops.GlobalRead | ops.GlobalWrite)
    tile = op.result if isinstance(op, ops.GlobalRead | ops.LocalRead) else op.tile
    yield from must_be_tile(tile)
    guarded = bool(op.bounds) or op.mask is not None
    yield from _place(op.place, Global if is_global else Lds, "global" if is_global else "shared", tile.type, guarded)
    yield from _bounds(op.bounds, op.place)
    if op.mask is not None and _known(op.mask, tile):
        wanted = Tile(_shape_of(tile), i1)
        if op.mask.type != wanted:
            yield Problem("TG010", f"the mask is {a(op.mask.type)}, not {a(wanted)}", about=(op.mask,))


def _copy(op: ops.CopyOp) -> Problems:
    outward = isinstance(op, ops.LdsToGlobal)
    masks = bool(op.bounds)
    yield from _place(
        op.source, Lds if outward else Global, "shared" if outward else "global", op.tile, masks > outward
    )
    yield from _place(
        op.dest, Global if outward else Lds, "global" if outward else "shared", op.tile, masks and outward
    )
    yield from _bounds(op.bounds, op.dest if outward else op.source)
    if not isinstance(op, ops.LdsToGlobal) and op.mbarrier is not None:
        yield from _object(op.mbarrier.base, "mbarrier")


def _place(
    place: Place, kind: type[Lds] | type[Global], memory: str, tile: Type | None, guarded: bool = False
) -> Problems:
    """The base is memory of the right kind, and the tile fits its rank and element type."""
    base = place.base.type
    if base == UNKNOWN:
        return
    if not isinstance(base, Lds | Global) or not isinstance(base, kind):
        text = f"`{place.base.name}` is {a(base)}, not {memory} memory".replace("memory memory", "memory")
        other = "global" if isinstance(base, Global) else "local"
        help = f"use `{other}_read` or `{other}_write`" if isinstance(base, Lds | Global) else ""
        yield Problem("TG012", text, help, (place.base,))
        return
    rank, about = len(base.shape), (place.base,)
    if len(place.index) > rank:
        given = count_of(len(place.index), "index", "indices")
        yield Problem(
            "TG017", f"{given} given for the {count_of(rank, 'dimension')} of `{place.base.name}`", about=about
        )
    if not isinstance(tile, Tile):
        return
    if len(tile.shape) > rank:
        text = f"`{tile}` has more dimensions than `{place.base.name}`, which has {rank}"
        yield Problem("TG017", text, "put a dimension in front of the array, or `reshape` the tile", about)
        return
    if tile.dtype != base.dtype:
        text = f"the tile holds `{tile.dtype}`, `{place.base.name}` holds `{base.dtype}`"
        yield Problem("TG011", text, "insert a `cast`", about)
    scattered = any(isinstance(index, Inexact) for index in place.index)
    for size, room in zip(reversed(tile.shape), reversed(base.shape), strict=False):
        if isinstance(room, int) and size > room and not scattered and not guarded:
            text = f"`{tile}` is larger than `{place.base.name}`, {a(base)}"
            yield Problem("TG010", text, "use a smaller tile, or mask it with `bounds(...)`", about)
            return


def _bounds(bounds: tuple[object, ...], place: Place) -> Problems:
    base = place.base.type
    if bounds and isinstance(base, Lds | Global) and len(bounds) != len(base.shape):
        text = f"{count_of(len(bounds), 'bound')} given for the {count_of(len(base.shape), 'dimension')}"
        yield Problem("TG017", f"{text} of `{place.base.name}`", "give one for each dimension", (place.base,))


def _loop(op: ops.Iterate) -> Problems:
    step = constant(op.step)
    if step is not None and step <= 0:
        yield Problem("TG016", f"the loop's step is {step}", "a step is a positive number")
    if step is None:
        yield Problem("TG016", "the loop's step is not a constant", "scale the counter instead")
    if op.expect is not None and op.expect < 0:
        yield Problem("TG016", f"the loop cannot run {op.expect} times")
    yield from _yields(
        tuple(c.init for c in op.carried), tuple(c.value for c in op.carried), "the loop's start", "TG013"
    )
    yield from _yields(op.body.yields, tuple(c.value for c in op.carried), "the loop's body", "TG013", op.body.at)


def _yields(
    given: tuple[Operand, ...], wanted: tuple[Value, ...], who: str, code: str, end: Span | None = None
) -> Problems:
    more = (Label(end, "ends here"),) if end is not None and end.line else ()
    if len(given) != len(wanted):
        text = f"{who} hands on {count_of(len(given), 'value')} where {count_of(len(wanted), 'value')} are expected"
        yield Problem(
            code, text.replace("1 value are", "1 value is"), _HOW_TO_YIELD[len(given) < len(wanted)], more=more
        )
        return
    for operand, value in zip(given, wanted, strict=True):
        type_ = INDEX if isinstance(operand, INDEX_TYPES) else operand.type
        if type_ != value.type and UNKNOWN not in (type_, value.type):
            yield Problem(code, f"{who} hands on {a(type_)} for `{value.name}`, which is {a(value.type)}", more=more)


_HOW_TO_YIELD = {True: "end every region with `yield` and one operand for each", False: "drop some of them"}


def _groups(op: ops.Specialize) -> Problems:
    seen: list[ops.Group] = []
    for group in op.groups:
        if not 0 <= group.first < group.last:
            yield Problem(
                "TG018",
                f"`waves {group.first} .. {group.last}` holds no wave",
                "the second number is the first wave that is not in the group",
                at=group.at,
            )
        for other in seen:
            if group.first < other.last and other.first < group.last:
                both = max(group.first, other.first)
                more = (Label(other.at, f"wave {both} is in this group"),) if other.at.line else ()
                yield Problem("TG018", f"wave {both} is in two groups", "a wave runs one program", (), group.at, more)
        if group.body.yields:
            help = "hand values on through shared memory"
            yield Problem("TG014", "a wave group has no results", help, at=group.body.at)
        seen.append(group)


def _waits(op: ops.SharedMemoryBarrier | ops.WaitCount) -> Problems:
    for value in op.async_deps:
        if value.type not in (DEP, UNKNOWN):
            text = f"`{value.name}` is {a(value.type)}, not an asynchronous operation"
            yield Problem("TG012", text, "wait for what a copy or `commit_group` gives", (value,))
    names = [name for name, _ in op.counts]
    for name, most in op.counts:
        if most < 0:
            yield Problem("TG016", f"`{name}({most})` has a negative count")
        if names.count(name) > 1:
            yield Problem("TG016", f"`{name}` is given {names.count(name)} times")
            return
    if isinstance(op, ops.WaitCount) and not op.counts and not op.async_deps:
        yield Problem(
            "TG016", "`wait_count` waits for nothing", "name a counter, as in `vmcnt(0)`, or give `deps(...)`"
        )


def _object(value: Value, kind: str) -> Problems:
    type_ = value.type
    if type_ != UNKNOWN and not (isinstance(type_, BarrierObject) and type_.kind == kind):
        yield Problem("TG012", f"`{value.name}` is {a(type_)}, not {a(kind)}", _OBJECTS[kind], (value,))


_OBJECTS = {
    "named_barrier": "arrive at an mbarrier with `mbarrier_arrive` and `mbarrier_wait`",
    "mbarrier": "arrive at a named barrier with `signal` and `wait`",
}


def _must_be_lds(value: Value) -> Problems:
    if not isinstance(value.type, Lds) and value.type != UNKNOWN:
        yield Problem("TG012", f"`{value.name}` is {a(value.type)}, not shared memory", about=(value,))


def _known(*values: Value) -> bool:
    return all(value.type != UNKNOWN for value in values)


def _shape_of(value: Value) -> tuple[int, ...]:
    return value.type.shape if isinstance(value.type, Tile) else ()
