"""At which byte of a slot each element lies, as bits.

Needs   a shared encoding, the shape of one slot of the allocation, and the size of an element
Gives   `Placed`: for each bit of each coordinate the element offset that it flips, and where padding goes in
Keeps   None for what is not known for certain; `slot_bytes` refuses an encoding that it does not know
Cost    a few operations for each bit; inverting a linear layout is quadratic in its bits

    swizzled_shared, vec 8, perPhase 1, maxPhase 4, order [1, 0], on 32 x 32
        row 1 flips 32 and 8, row 2 flips 64 and 16, row 4 flips 128, ...      column 1 flips 1, ...

Padding is no xor, but it keeps bits apart: an offset is a sum of powers of two, and each power moves by the padding
of the intervals that it skips.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from tidegate.hosts.triton.layout_text import PADS, Encoding, is_one_cta
from tidegate.hosts.triton.layout_tiles import Vector, bits, is_power_of_two

SHARED = ("swizzled_shared", "amd_rotating_shared", "padded_shared", "nvmma_shared", "shared_linear")


# What one copy by the tensor memory accelerator moves at most, in each dimension.
_TMA_LIMIT = 256


class UnknownLayout(ValueError):
    """Nothing is known about where the elements lie, not even how many bytes they take."""


@dataclass(frozen=True, slots=True)
class Placed:
    """For each dimension and each bit of its coordinate, what it flips in the offset, in elements without padding."""

    flips: tuple[Vector, ...]
    pads: tuple[tuple[int, int], ...] = ()  # after so many elements, so many of padding

    def at(self, coordinates: Sequence[int]) -> int:
        """The offset of an element, before padding."""
        offset = 0
        for value, flips in zip(coordinates, self.flips, strict=True):
            for bit, flip in enumerate(flips):
                if value >> bit & 1:
                    offset ^= flip
        return offset


def pad(offset: int, pads: Sequence[tuple[int, int]]) -> int:
    """Where an element lies once padding is in. Linear in the bits of the offset, for intervals are powers of two."""
    return offset + sum(offset // interval * padding for interval, padding in pads)


def element_bytes(element_bits: int) -> int:
    """Triton refuses elements that are smaller than a byte; a byte for each is the most that they can take."""
    return max(1, -(-element_bits // 8))


def slot_bytes(shared: Encoding, shape: Vector, element_bits: int) -> int:
    """The bytes from one slot to the next: every element and every padding, that after the last element included.

    Triton's allocator leaves out the padding after the last slot: see `allocated_bytes`.
    """
    return pad(_elements(shared, shape), pads_of(shared)) * element_bytes(element_bits)


def allocated_bytes(shared: Encoding, shape: Vector, element_bits: int) -> int:
    """What Triton allocates for a shape, all its slots included."""
    elements, pads = _elements(shared, shape), pads_of(shared)
    spare = sum(padding for interval, padding in pads if elements % interval == 0)
    return (pad(elements, pads) - spare) * element_bytes(element_bits)


def has_even_slots(shared: Encoding, shape: Vector) -> bool:
    """Whether slot n starts at n times `slot_bytes`. Not so where a slot is smaller than an interval of padding."""
    elements = _elements(shared, shape)
    return all(elements % interval == 0 for interval, _ in pads_of(shared))


def pads_of(shared: Encoding) -> tuple[tuple[int, int], ...]:
    found = tuple((pair[0], pair[1]) for pair in shared.vectors(PADS) if len(pair) == 2)
    if not all(is_power_of_two(interval) and padding >= 0 for interval, padding in found):
        raise UnknownLayout(f"padding that is not understood: {found}")
    return found


def _elements(shared: Encoding, shape: Vector) -> int:
    """How many elements one CTA holds."""
    if shared.name not in SHARED or (shared.name == "padded_shared") != bool(shared.vectors(PADS)):
        raise UnknownLayout(f"`#ttg.{shared.name}` is not a layout of shared memory that is understood")
    count = prod(shape)
    for split in _splits(shared, len(shape)):
        count = -(-count // split)
    if shared.get("fp4Padded") is True:
        count *= 2
    return max(count, 1 << len(shared.vectors("offset")))


def _splits(shared: Encoding, rank: int) -> Vector:
    """Into how many parts the CTAs of a cluster divide each dimension."""
    if shared.get("CTASplitNum") is not None:
        return shared.numbers("CTASplitNum")
    bases = shared.vectors("CGALayout") or shared.vectors("block")
    return tuple(
        1 << max((base[dim].bit_length() for base in bases if dim < len(base)), default=0) for dim in range(rank)
    )


@lru_cache(maxsize=4096)
def placed(shared: Encoding, shape: Vector) -> Placed | None:
    """Where the elements of one slot lie, or None where that is not known."""
    if not all(is_power_of_two(size) for size in shape) or not is_one_cta(shared):
        return None
    match shared.name:
        case "swizzled_shared" | "amd_rotating_shared":
            return _swizzled(shared, shape)
        case "padded_shared":
            return _padded(shared, shape)
        case "nvmma_shared":
            return _nvmma(shared, shape)
        case "shared_linear":
            return _inverted(shared.vectors("offset"), shape)
    return None


def _in_order(shape: Vector, order: Sequence[int]) -> list[Vector]:
    """Elements side by side, the first dimension of the order fastest."""
    flips: list[Vector] = [()] * len(shape)
    stride = 1
    for dim in order:
        flips[dim] = tuple(stride << bit for bit in range(bits(shape[dim])))
        stride *= shape[dim]
    return flips


def _is_order(order: Sequence[int], rank: int) -> bool:
    return sorted(order) == list(range(rank))


def _swizzled(shared: Encoding, shape: Vector) -> Placed | None:
    """Rows are xor'ed with their phase, in units of `vec`; a rotating layout xors the number of the block in, too."""
    order = shared.numbers("order")
    vec, per, phases = (shared.number(key, 0) for key in ("vec", "perPhase", "maxPhase"))
    if not _is_order(order, len(shape)) or not all(map(is_power_of_two, (vec, per, phases))):
        return None
    flips = _in_order(shape, order)
    if len(order) < 2:
        return Placed(tuple(flips)) if phases == 1 else None
    columns = shape[order[0]]
    rotating = shared.name == "amd_rotating_shared"
    if rotating and vec * phases > columns:
        return None  # not documented
    rows = []
    for bit, flip in enumerate(flips[order[1]]):
        phase = ((1 << bit) // per) % phases
        if rotating:
            phase ^= ((1 << bit) // (per * phases)) % phases
        rows.append(flip ^ (vec * phase) % columns)
    flips[order[1]] = tuple(rows)
    return Placed(tuple(flips))


def _padded(shared: Encoding, shape: Vector) -> Placed | None:
    order, pads = shared.numbers("order"), pads_of(shared)
    if order:
        known = shared.numbers("shape") in ((), shape) and _is_order(order, len(shape))
        return Placed(tuple(_in_order(shape, order)), pads) if known else None
    found = _inverted(shared.vectors("offset"), shape)
    return None if found is None else Placed(found.flips, pads)


def _nvmma(shared: Encoding, shape: Vector) -> Placed | None:
    """Tiles as wide as the swizzle and at most 256 in each dimension, rows xor'ed in units of 16 bytes.

    All dimensions but the contiguous one count as one dimension of rows. Tiles follow each other along the first
    dimension, then along the second.
    """
    rank, swizzle, width = len(shape), shared.number("swizzlingByteWidth", -1), shared.number("elementBitWidth", 0)
    transposed = shared.get("transposed") is True
    known = width in (8, 16, 32, 64) and swizzle in (0, 32, 64, 128) and (rank == 2 or not transposed)
    if not known or shared.get("fp4Padded") is True:
        return None
    if rank != shared.number("rank", len(shared.numbers("CTAsPerCGA")) or 2):
        return None
    order = [0, 1] if transposed else list(reversed(range(rank)))
    tile = [min(size, _TMA_LIMIT) for size in shape]
    if swizzle:
        tile[order[0]] = swizzle * 8 // width
        if rank < 2 or tile[order[0]] > shape[order[0]] or prod(tile) // tile[order[0]] < 8:
            return None
    elif transposed and tuple(tile) != shape:
        return None  # several tiles without a swizzle come in another order, which is not documented
    flips = _in_order(tuple(tile), order)
    row = 1
    for dim in order[1:] if swizzle else ():
        phases = [((row << bit) * swizzle // 128) % (swizzle // 16) for bit in range(bits(tile[dim]))]
        flips[dim] = tuple(flip ^ 128 // width * phase for flip, phase in zip(flips[dim], phases, strict=True))
        row *= tile[dim]
    stride = prod(tile)
    for dim, size in enumerate(shape):
        flips[dim] += tuple(stride << bit for bit in range(bits(size // tile[dim])))
        stride *= size // tile[dim]
    return Placed(tuple(flips))


def _inverted(offsets: Sequence[Vector], shape: Vector) -> Placed | None:
    """Where elements lie, from what lies where: one basis of coordinates for each bit of the offset."""
    places = [bits(size) for size in shape]
    if len(offsets) != sum(places) or any(len(each) != len(shape) for each in offsets):
        return None
    rows: list[tuple[int, int]] = []  # coordinates, packed into one number, and the offset that has them
    for bit, coordinates in enumerate(offsets):
        packed = _pack(coordinates, places)
        if packed is None:
            return None
        rows.append((packed, 1 << bit))
    found: dict[int, int] = {}
    for column in range(len(offsets)):
        at = next((n for n in range(column, len(rows)) if rows[n][0] >> column & 1), None)
        if at is None:
            return None
        rows[column], rows[at] = rows[at], rows[column]
        pivot = rows[column]
        for n, row in enumerate(rows):
            if n != column and row[0] >> column & 1:
                rows[n] = (row[0] ^ pivot[0], row[1] ^ pivot[1])
    found = {column: rows[column][1] for column in range(len(rows))}
    flips, start = [], 0
    for count in places:
        flips.append(tuple(found[start + bit] for bit in range(count)))
        start += count
    return Placed(tuple(flips))


def _pack(coordinates: Vector, places: Sequence[int]) -> int | None:
    packed, start = 0, 0
    for value, count in zip(coordinates, places, strict=True):
        if not 0 <= value < 1 << count:
            return None
        packed |= value << start
        start += count
    return packed
