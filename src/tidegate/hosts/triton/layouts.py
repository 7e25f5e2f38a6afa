"""The bytes of shared memory that one warp touches when a tensor in registers is stored to it or loaded from it.

Needs   the encodings of the tensor and of the memory descriptor, their shape, and the size of an element
Gives   `Touched`: an offset that depends on the wave, and a box of steps; who shares bytes with whom
Keeps   no byte that a warp touches is left out, whatever is not understood: then it is the whole slot
Cost    quadratic in the bits of an offset, some twenty; each question is answered once

    blocked, 4 warps of 8 rows each, to swizzled_shared of 64 columns of 2 bytes:     wave * 1024, width 1024

Both encodings are linear over bits: registers, lanes and warps flip coordinates, and coordinates flip bits of the
offset. The bits that registers and lanes flip are free; a warp touches every combination of them. Where two bits are
only flipped together both count as free, and the box is wider than what is touched. All other bits depend on the wave
alone: each is the parity of some of its bits, and a parity is `mod 2` of a sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tidegate.graph.model import Extent
from tidegate.hosts.triton.layout_registers import held
from tidegate.hosts.triton.layout_shared import (
    Placed,
    UnknownLayout,
    allocated_bytes,
    element_bytes,
    has_even_slots,
    pad,
    placed,
    slot_bytes,
)
from tidegate.hosts.triton.layout_text import Encoding, UnreadableLayout, parse_encoding
from tidegate.hosts.triton.layout_tiles import Held, Vector, bits, is_power_of_two
from tidegate.index import WAVE, ZERO, Const, Index, Name, add, combine, scale

__all__ = [
    "Encoding",
    "Touched",
    "UnknownLayout",
    "UnreadableLayout",
    "allocated_bytes",
    "crosses_warps",
    "has_even_slots",
    "is_warp_private",
    "lanes_keep_to_themselves",
    "may_stay_in_warps",
    "parse_encoding",
    "slot_bytes",
    "subslice_offset",
    "touched",
]


@dataclass(frozen=True, slots=True)
class Touched:
    """The bytes of a memory descriptor that one warp touches, from the descriptor's base."""

    offset: Index
    extents: tuple[Extent, ...]
    width: int
    exact: bool  # False: the warp touches some of these bytes and no others


@lru_cache(maxsize=4096)
def touched(
    register: Encoding | None,
    shape: Vector,
    shared: Encoding,
    alloc_shape: Vector,
    element_bits: int,
    waves: int,
    first_wave: int = 0,
    start: Vector | None = None,
) -> Touched:
    """The bytes that each of `waves` warps touches; the first of them is wave `first_wave`.

    Without an encoding in registers, every warp may touch all of the descriptor. With `start`, the coordinates of a
    subslice in its allocation, bytes count from the base of the slot, and the swizzle of the allocation is kept.
    Memory that nothing is known about, not even its size, is an `UnknownLayout`.
    """
    slot = _slot(alloc_shape, shape)
    whole = Touched(ZERO, (), slot_bytes(shared, slot, element_bits), False)
    memory = placed(shared, slot)
    size = element_bytes(element_bits)
    if memory is None or not is_power_of_two(size) or element_bits % 8 or not _is_inside(shape, slot, start):
        return whole
    if shared.number("elementBitWidth", element_bits) != element_bits:
        return whole  # the swizzle is in elements of another size
    mine = _everything(shape) if register is None else held(register, shape)
    if mine is None or (register is not None and 1 << len(mine.warp) != waves):
        return whole
    inside = _span(memory.at(base) for base in (*mine.register, *mine.lane))
    free = _support(inside)
    steps = [memory.at(base) for base in mine.warp]
    fixed = 0 if start is None else memory.at(start)
    offset = _offset([step & ~free for step in steps], fixed & ~free, memory, size, first_wave)
    width, extents = _box(free, memory, size)
    apart = len(_span((*inside, *steps))) == len(inside) + len(steps)
    exact = register is not None and len(inside) == free.bit_count() and apart
    return Touched(offset, extents, width, exact)


def is_warp_private(first: Encoding, second: Encoding, shape: Vector) -> bool:
    """Whether two accesses to one descriptor give each element to one warp, and to the same in both."""
    return _agree(first, second, shape, by_lane=False)


def may_stay_in_warps(source: Encoding, result: Encoding, shape: Vector) -> bool:
    """Whether each warp may find all it needs in its own registers when a tensor is converted from one to the other.

    What nobody knows may be so. With the bits of registers and lanes a warp reaches all it holds; the result of a warp
    lies in that if its own bits, and the difference of the bits that tell warps apart, do.
    """
    have, want = held(source, shape), held(result, shape)
    if have is None or want is None or len(have.warp) != len(want.warp):
        return True
    inside = [_pack(base) for base in (*have.register, *have.lane)]
    rank = len(_span(inside))
    between = [_pack(a) ^ _pack(b) for a, b in zip(have.warp, want.warp, strict=True)]
    wanted = [_pack(base) for base in (*want.register, *want.lane)]
    return len(_span((*inside, *wanted, *between))) == rank


def crosses_warps(encoding: Encoding, shape: Vector, dim: int) -> bool:
    """Whether it is certain that several warps hold elements with different coordinates along a dimension."""
    mine = held(encoding, shape)
    return mine is not None and dim < len(shape) and any(base[dim] for base in mine.warp)


def lanes_keep_to_themselves(first: Encoding, second: Encoding, shape: Vector) -> bool:
    """Whether two accesses to one descriptor give each element to one lane of one warp, and to the same in both.

    This is about who holds an element. An instruction that moves a matrix for a whole warp reads it through others.
    """
    return _agree(first, second, shape, by_lane=True)


def subslice_offset(
    shared: Encoding, alloc_shape: Vector, element_bits: int, offsets: Vector, shape: Vector | None = None
) -> tuple[int, bool]:
    """The byte at which a subslice of a slot starts, and whether its elements lie there as if it were a slot's start.

    They do if no element of the subslice flips a bit that the start has. Without its shape, a subslice is as large as
    its start is aligned.
    """
    slot = _slot(alloc_shape, offsets)
    memory = placed(shared, slot)
    if memory is None or not _is_inside(shape or (1,) * len(slot), slot, offsets):
        return 0, not any(offsets)
    start = memory.at(offsets)
    sizes = shape or tuple(at & -at if at else size for at, size in zip(offsets, slot, strict=True))
    span = _support(_span(memory.at(base) for base in _everything(sizes).register))
    return pad(start, memory.pads) * element_bytes(element_bits), start & span == 0


# --- shapes -------------------------------------------------------------------------------------------------------


def _slot(alloc_shape: Vector, shape: Sequence[int]) -> Vector:
    """The shape of one slot: as many trailing dimensions of the allocation as the descriptor has."""
    return alloc_shape[max(0, len(alloc_shape) - len(shape)) :]


def _is_inside(shape: Vector, slot: Vector, start: Vector | None) -> bool:
    """Whether the shape is a part of the slot that its coordinates can be xor'ed into the start of."""
    at = start or (0,) * len(slot)
    return len(at) == len(shape) == len(slot) and all(
        is_power_of_two(size) and low >= 0 and low % size == 0 and low + size <= full
        for low, size, full in zip(at, shape, slot, strict=True)
    )


def _everything(shape: Vector) -> Held:
    """One thread that holds all."""
    bases = tuple(
        tuple(1 << bit if d == dim else 0 for d in range(len(shape)))
        for dim, size in enumerate(shape)
        for bit in range(bits(size))
    )
    return Held(bases, (), ())


# --- bits ---------------------------------------------------------------------------------------------------------


def _span(vectors: Iterable[int]) -> list[int]:
    """A basis of what the vectors reach by xor."""
    basis: list[int] = []
    for vector in vectors:
        for known in basis:
            vector = min(vector, vector ^ known)
        if vector:
            basis.append(vector)
    return basis


def _support(vectors: Iterable[int]) -> int:
    """The bits that any of them flips."""
    found = 0
    for vector in vectors:
        found |= vector
    return found


def _agree(first: Encoding, second: Encoding, shape: Vector, *, by_lane: bool) -> bool:
    """Whether elements have one owner. They have, unless some bits flip the owner and no coordinate."""
    owners: list[tuple[Vector, int]] = []
    for encoding in (first, second):
        mine = held(encoding, shape)
        if mine is None:
            return False
        owners += [(base, 0) for base in mine.register]
        owners += [(base, 1 << bit if by_lane else 0) for bit, base in enumerate(mine.lane)]
        owners += [(base, 1 << 32 + bit) for bit, base in enumerate(mine.warp)]
    packed = [_pack(base) << 64 | owner for base, owner in owners]
    return all(vector >> 64 for vector in _span(packed))


def _pack(coordinates: Vector) -> int:
    packed = 0
    for value in coordinates:
        packed = packed << 32 | value
    return packed


# --- bytes --------------------------------------------------------------------------------------------------------


def _stride(bit: int, memory: Placed, size: int) -> int:
    """How many bytes one bit of the element offset is worth, padding included."""
    return pad(1 << bit, memory.pads) * size


def _box(free: int, memory: Placed, size: int) -> tuple[int, tuple[Extent, ...]]:
    """The box of all combinations of free bits: neighbouring bits are one step, and the lowest are the width."""
    runs = _runs([_stride(bit, memory, size) for bit in range(free.bit_length()) if free >> bit & 1])
    width = size
    if runs and runs[0][0] == size:
        width = size * runs.pop(0)[1]
    return width, tuple(Extent(count, stride) for stride, count in reversed(runs))


def _runs(strides: Iterable[int]) -> list[tuple[int, int]]:
    """Strides that double, gathered: the first one and how many steps of it they make."""
    runs: list[tuple[int, int]] = []
    for stride in strides:
        if runs and runs[-1][0] * runs[-1][1] == stride:
            runs[-1] = (runs[-1][0], runs[-1][1] * 2)
        else:
            runs.append((stride, 2))
    return runs


def _offset(steps: Sequence[int], fixed: int, memory: Placed, size: int, first_wave: int) -> Index:
    """Where a wave's box starts: for each bit, the parity of the wave's bits that flip it."""
    wave = combine("-", Name(WAVE), Const(first_wave))
    moves = [0] * len(steps)  # bytes that one bit of the wave alone decides about
    found: Index = ZERO
    constant = 0
    for bit in range(_support((*steps, fixed)).bit_length()):
        flipped_by = [n for n, step in enumerate(steps) if step >> bit & 1]
        stride, flipped = _stride(bit, memory, size), fixed >> bit & 1
        if not flipped_by:
            constant += stride * flipped
        elif len(flipped_by) == 1 and not flipped:
            moves[flipped_by[0]] += stride
        else:
            parity: Index = Const(flipped)
            for n in flipped_by:
                parity = add(parity, combine("//", wave, Const(1 << n)))
            found = add(found, scale(combine("mod", parity, Const(2)), stride))
    return add(add(_linear(wave, moves), found), Const(constant))


def _linear(wave: Index, moves: Sequence[int]) -> Index:
    """The sum of what each bit of the wave moves, neighbouring bits in one term where one moves twice the other."""
    found: Index = ZERO
    n = 0
    while n < len(moves):
        last = n
        while last + 1 < len(moves) and moves[last + 1] == 2 * moves[last]:
            last += 1
        if moves[n]:
            value = combine("//", wave, Const(1 << n))
            if last + 1 < len(moves):
                value = combine("mod", value, Const(1 << last + 1 - n))
            found = add(found, scale(value, moves[n]))
        n = last + 1
    return found
