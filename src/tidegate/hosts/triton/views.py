"""Memory descriptors of TTGIR as places in buffers, and accesses to them as footprints.

Needs   types with their encodings, and the scalars of a function
Gives   for each descriptor a `View`; for each access a `Footprint`
Keeps   a footprint covers every byte that a wave touches: where a subslice was carried round a loop, or has an
        encoding that nobody knows, that is the whole slot; where it was reinterpreted as less than the slot that it
        was taken from, that is all of that slot, and the view is `opaque`
Cost    constant for each descriptor and access

    %s = ttg.memdesc_index %a[%i]          %a, slot %i
    %t = ttg.memdesc_subslice %s[0, 16]    %a, slot %i, from element (0, 16)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.graph import model as g
from tidegate.hosts.mlir.model import Operation
from tidegate.hosts.triton.layouts import Encoding, touched
from tidegate.hosts.triton.types import MemDesc
from tidegate.index import ZERO, Const, Index, add, scale


@dataclass(frozen=True, slots=True)
class View:
    """A descriptor: the slot that it lies in, and from which element on; None: nobody knows where in the slot."""

    place: g.Ref
    start: tuple[int, ...] | None
    type: MemDesc  # as it was allocated, where strides come from
    is_buffer: bool = False  # the whole of a buffer, whose slots can be named
    opaque: int = 0  # bytes of memory in which nobody knows where anything lies: every view is all of it


def index_view(view: View, index: Index, result: MemDesc) -> View:
    """One element along the first dimension."""
    if view.opaque:
        return replace(view, type=result)
    if not keeps_slots(view.type, result):
        return _somewhere_in(view, result)
    if view.is_buffer and result.slots == 1:
        return View(g.Ref(view.place.base, index), (0,) * result.rank, result)
    step = scale(index, result.slot_bytes * result.slots)
    place = replace(view.place, offset=add(view.place.offset, step))
    return View(place, (0,) * result.rank, result)


def subslice_view(view: View, offsets: tuple[int, ...], result: MemDesc) -> View:
    """A part of a slot, or of several slots."""
    if view.opaque:
        return replace(view, type=result)
    first, offsets = offsets[: len(offsets) - result.rank], offsets[len(offsets) - result.rank :]
    place = view.place
    if first:
        if not keeps_rows(view.type, result):
            return _somewhere_in(view, result)
        # As Triton compiles it: the slots before the first one that is kept are skipped (test_triton_views.py).
        stride = slot_of(view.type).slot_bytes * view.type.slots // view.type.shape[0]
        place = replace(place, offset=add(place.offset, Const(first[0] * stride)))
    start = None if view.start is None else tuple(a + b for a, b in zip(view.start, offsets, strict=True))
    return replace(view, place=place, start=start, type=result, is_buffer=False)


def same_view(view: View, op: Operation, result: MemDesc) -> View:
    """Another name, shape or order of the same elements."""
    if view.opaque:
        return replace(view, type=result)
    if not result.is_known:  # it lies somewhere in what it was made of
        return _somewhere_in(view, result)
    if view.start is None or any(view.start):
        order = op.integers("order")
        if op.name == "ttg.memdesc_trans" and view.start is not None and len(order) == len(view.start):
            return replace(view, start=tuple(view.start[each] for each in order), type=result)
        if not keeps_bytes(view.type, result):  # the new type forgets the slot in which the part lies
            return _somewhere_in(view, result)
        return replace(view, start=None, type=result)
    # Slots of a buffer can be named only as it was allocated: those of another type may be larger or smaller.
    is_buffer = view.is_buffer and result.slot_bytes == view.type.slot_bytes
    return replace(view, start=(0,) * result.rank, type=result, is_buffer=is_buffer)


def is_traced(kind: str, source: MemDesc, result: MemDesc) -> bool:
    """Whether the types alone say that a view is not `opaque`, whatever it is taken of, if that is not."""
    if not result.is_known:
        return False
    if kind == "index":
        return keeps_slots(source, result)
    if kind == "subslice":
        return len(source.shape) == source.rank or keeps_rows(source, result)
    return keeps_bytes(source, result)


def keeps_slots(source: MemDesc, result: MemDesc) -> bool:
    """Whether an element along the first dimension is a whole slot, or some: Triton steps by the size of the result."""
    return source.slot_shape == source.allocated[-source.rank :] and result.slot_shape == source.slot_shape


def keeps_rows(source: MemDesc, result: MemDesc) -> bool:
    """Whether slots that are kept lie one behind the other: only the first dimension is cut."""
    dims = len(source.shape) - source.rank
    return len(result.shape) == len(source.shape) and result.shape[1:dims] == source.shape[1:dims]


def keeps_bytes(source: MemDesc, result: MemDesc) -> bool:
    """Whether a type tells of as many bytes as the slots that the other was taken from."""
    return _all_bytes(result) >= _all_bytes(source)


def slot_of(type_: MemDesc) -> MemDesc:
    """The slot that a part was taken from, as it was allocated."""
    slot = type_.allocated[-type_.rank :]
    return replace(type_, shape=slot, allocated=slot)


def _all_bytes(type_: MemDesc) -> int:
    """From the first byte of the first slot to the last of the last, whatever part of them is meant."""
    slot = slot_of(type_)
    return max(type_.all_bytes, slot.slot_bytes * (type_.slots - 1) + slot.last_bytes)


def _somewhere_in(view: View, result: MemDesc) -> View:
    """Any byte of the slots that a view was taken from."""
    return replace(view, start=None, type=result, is_buffer=False, opaque=_all_bytes(view.type))


@dataclass(frozen=True, slots=True)
class Owner:
    """Who accesses: how many waves, from which on."""

    waves: int
    first: int = 0


def footprint(view: View, type_: MemDesc, register: Encoding | None, by_all: bool, owner: Owner) -> g.Footprint:
    """The bytes of an access through a view. `by_all`: every wave may touch any of them."""
    if view.opaque:
        return g.Footprint(view.place, (), view.opaque, True)
    if view.start is None or view.type.encoding is None or not view.type.is_known or type_.slots > 1:
        whole = view.type.slot_bytes * (type_.slots - 1) + view.type.last_bytes
        return g.Footprint(view.place, (), max(whole, _allocated(view)), True)
    slot = view.type.allocated[-view.type.rank :]
    if by_all and type_.slot_shape == slot:
        return g.Footprint(view.place, (), view.type.last_bytes, True)
    found = touched(
        None if by_all else register,
        type_.slot_shape,
        view.type.encoding,
        slot,
        type_.bits,
        owner.waves,
        owner.first,
        view.start if any(view.start) else None,
    )
    offset = found.offset
    place = view.place if offset == ZERO else replace(view.place, offset=add(view.place.offset, offset))
    return g.Footprint(place, found.extents, found.width, not found.exact)


def _allocated(view: View) -> int:
    """The bytes of the slot that a subslice was taken from."""
    if view.start is not None:
        return 0
    return slot_of(view.type).last_bytes
