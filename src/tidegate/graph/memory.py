"""From places of the kernel language to bytes: footprints, views, instruction counts.

Needs   a place, the tile there, and the bounds that mask it
Gives   a `Footprint`, a `Ref`, and the instructions that an operation becomes on a target
Keeps   exact where indices are quasi-affine; what is not stays in the expression, marked inexact
Cost    constant per access
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from functools import lru_cache

from tidegate.graph.model import Extent, Footprint, Issue, Ref
from tidegate.graph.parts import Part
from tidegate.index import ZERO, Index, Inexact, add, combine, scale
from tidegate.language import ops
from tidegate.language.fit import CLASS_OF
from tidegate.language.ops import Op, Place
from tidegate.language.types import Lds, Tile, Type, strides
from tidegate.targets import Target


def footprint_of(
    place: Place,
    tile: Type,
    buffers: Container[str],
    bounds: tuple[Index, ...] = (),
    may: bool = False,
    part: Part | None = None,
) -> Footprint:
    """The bytes of a tile at a place, below `bounds`. Copies have none here: what they clip arrives as zeros.

    `part`: the elements that take part, where not all do; then there are no bounds.
    """
    base = place.base.type
    assert isinstance(base, Lds)
    assert isinstance(tile, Tile)
    steps = strides(base.shape, base.dtype.bytes)
    missing = len(base.shape) - len(tile.shape)
    extents: list[Extent] = []
    for axis, stride in enumerate(steps):
        size = tile.shape[axis - missing] if axis >= missing else 1
        limit = _limit(place, bounds, axis)
        if part is not None and axis >= missing:
            along = part.axes[axis - missing]
            size, stride, limit = along.count, stride * along.step, along.below
        extents.append(Extent(size, stride, limit))
    merged, width = _merge(extents, base.dtype.bytes)
    where = view_of(place, buffers)
    if part is not None:
        where = replace(where, offset=add(where.offset, bytes_before(part, base)))
    return Footprint(where, merged, width, may)


def bytes_before(part: Part, base: Lds) -> Index:
    """How far the first element that takes part lies behind the place of its tile."""
    steps = strides(base.shape, base.dtype.bytes)[len(base.shape) - len(part.axes) :]
    found: Index = ZERO
    for along, step in zip(part.axes, steps, strict=True):
        found = add(found, scale(along.first, step))
    return found


def _limit(place: Place, bounds: tuple[Index, ...], axis: int) -> Index | None:
    """How many steps along an axis lie below its bound."""
    if not bounds:
        return None
    start = place.index[axis] if axis < len(place.index) else ZERO
    return combine("-", bounds[axis], start)


def _merge(extents: list[Extent], width: int) -> tuple[tuple[Extent, ...], int]:
    """Axes that follow one another without a gap and without a limit become one; the last one becomes the width."""
    merged: list[Extent] = []
    for extent in reversed(extents):
        first = merged[0] if merged else None
        if extent.limit is None and not merged and extent.stride == width:
            width *= extent.count
        elif first and extent.limit is None and first.limit is None and extent.stride == first.count * first.stride:
            merged[0] = Extent(extent.count * first.count, first.stride)
        elif extent.count != 1 or extent.limit is not None:
            merged.insert(0, extent)
    return tuple(merged), width


def view_of(place: Place, buffers: Container[str]) -> Ref:
    """The place as a buffer, a slot, and bytes into it. A view has no slots of its own: they become bytes."""
    base = place.base.type
    assert isinstance(base, Lds)
    offset: Index = ZERO
    for index, stride in zip(place.index, strides(base.shape, base.dtype.bytes), strict=False):
        inner = index.index if isinstance(index, Inexact) else index
        term: Index = scale(inner, stride)
        offset = add(offset, Inexact(term) if isinstance(index, Inexact) else term)
    if place.base.name in buffers:
        return Ref(place.base.name, place.slot, offset)
    inexact = isinstance(place.slot, Inexact)
    slot = scale(place.slot.index if isinstance(place.slot, Inexact) else place.slot, base.slot_bytes)
    return Ref(place.base.name, ZERO, add(Inexact(slot) if inexact else slot, offset))


def issues_of(op: Op, target: Target) -> tuple[Issue, ...]:
    """What an operation puts on which counter of the target.

    A counter that counts groups counts a group when it is closed, empty or not; the copies in it count 0 there. Of
    operations that the target does not call certain the least is 0: they may be issued, and no count may rely on it.
    """
    if isinstance(op, ops.CommitGroup):
        return tuple(Issue(name, 1, 1) for name, counter in target.counters.items() if counter.unit == "groups")
    kind = CLASS_OF.get(type(op))
    if kind is None or not target.has(kind) or not target.counter_of(kind):
        return ()
    if target.counters[target.counter_of(kind)].unit == "groups":
        return (Issue(target.counter_of(kind), 0, 0, target.operations[kind].in_order),)
    return _issues(target, kind, _bytes(op), _is_masked(op))


@lru_cache(maxsize=4096)
def _issues(target: Target, kind: str, bytes: int, masked: bool) -> tuple[Issue, ...]:
    least, most = target.issued(kind, bytes, masked=masked)
    return (Issue(target.counter_of(kind), least, most, target.operations[kind].in_order),)


def _is_masked(op: Op) -> bool:
    """Whether there may be no lane for which an operation does anything."""
    match op:
        case ops.GlobalRead() | ops.GlobalWrite() | ops.LocalRead() | ops.LocalWrite() | ops.AtomicAdd():
            return bool(op.bounds) or op.mask is not None
        case ops.GatherToLds() | ops.TensorLoadToLds() | ops.LdsToGlobal():
            return bool(op.bounds)
    return False


def _bytes(op: Op) -> int:
    match op:
        case ops.GlobalRead() | ops.LocalRead():
            type_: Type = op.result.type
        case ops.GlobalWrite() | ops.LocalWrite() | ops.AtomicAdd():
            type_ = op.tile.type
        case ops.GatherToLds() | ops.TensorLoadToLds() | ops.LdsToGlobal():
            type_ = op.tile
        case _:
            return 4  # one number
    return type_.bytes if isinstance(type_, Tile) else 0
