"""Which lane of a wave holds which element of a tile, and in which of its registers.

Needs   shapes; sides that are no power of two are padded to the next one
Gives   `TileSpread`, with what transposing, repeating and folding make of it
Keeps   every element of the padded tile is held somewhere; lanes that hold the same elements hold all of them alike
Cost    linear in the bits of an element's number

An element's number in row-major order of the padded tile is a row of bits. Each bit of a register's number and of a
lane's number stands for one of them; a bit of a lane's number that stands for none (`FREE`) means that both lanes hold
the same. So 16x8 elements of `mma.m16n8` are registers (0, 6) and lanes (1, 2, 3, 4, 5): a lane holds two neighbours
in a row, and the same two eight rows below.
"""

from __future__ import annotations

from dataclasses import dataclass

FREE = -1
Shape = tuple[int, ...]


def width_of(side: int) -> int:
    """Bits that number the elements along a side."""
    return (side - 1).bit_length()


def padded(shape: Shape) -> Shape:
    return tuple(1 << width_of(side) for side in shape)


def bits_of(shape: Shape, axis: int) -> range:
    """The bits of an element's number that number it along an axis, lowest first."""
    axis %= len(shape)
    below = sum(width_of(side) for side in shape[axis + 1 :])
    return range(below, below + width_of(shape[axis]))


def coordinates(element: int, shape: Shape) -> Shape:
    """Where an element of the padded tile is."""
    found = []
    for side in reversed(padded(shape)):
        found.append(element % side)
        element //= side
    return tuple(reversed(found))


def is_inside(element: int, shape: Shape) -> bool:
    return all(each < side for each, side in zip(coordinates(element, shape), shape, strict=True))


@dataclass(frozen=True, slots=True)
class TileSpread:
    """For each bit of a register's number, and of a lane's number, the bit of an element's number."""

    regs: tuple[int, ...]
    lanes: tuple[int, ...]

    @property
    def count(self) -> int:
        """Registers of a lane."""
        return 1 << len(self.regs)

    def of_register(self, register: int) -> int:
        """The bits of an element's number that the register decides."""
        return sum(1 << bit for place, bit in enumerate(self.regs) if register >> place & 1)

    def register_with(self, element: int) -> int:
        """The register that holds an element, whichever lane does."""
        return sum(1 << place for place, bit in enumerate(self.regs) if element >> bit & 1)

    def renamed(self, to: dict[int, int]) -> TileSpread:
        """Other numbers of elements: bits that have none any more are given up."""
        regs = tuple(to[bit] for bit in self.regs if bit in to)
        return TileSpread(regs, tuple(to.get(bit, FREE) for bit in self.lanes))

    @property
    def vector(self) -> int:
        """How many neighbours in a row a lane holds in registers that follow each other."""
        many = 0
        while many < len(self.regs) and self.regs[many] == many:
            many += 1
        return 1 << many


def transposed(spread: TileSpread, shape: Shape) -> TileSpread:
    """Of a tile whose last two sides are exchanged; `shape` is the one before."""
    rows, columns = bits_of(shape, -2), bits_of(shape, -1)
    after = (*shape[:-2], shape[-1], shape[-2])
    to = {bit: bit for bit in range(columns.stop + len(rows), sum(map(width_of, shape)))}
    to |= dict(zip(rows, bits_of(after, -1), strict=True)) | dict(zip(columns, bits_of(after, -2), strict=True))
    return spread.renamed(to)


def narrowed(spread: TileSpread, wide: Shape, narrow: Shape) -> TileSpread:
    """Of a tile of which a wider one is made by repeating it: who holds an element there holds its origin."""
    narrow = (1,) * (len(wide) - len(narrow)) + narrow
    to: dict[int, int] = {}
    for axis, (before, after) in enumerate(zip(wide, narrow, strict=True)):
        if after == before:
            to |= dict(zip(bits_of(wide, axis), bits_of(narrow, axis), strict=True))
    return spread.renamed(to)


def in_order(bits: list[int], lanes: int, vector: int = 0) -> TileSpread:
    """Registers take the first `vector` bits, lanes the next ones, registers what is left."""
    many = width_of(lanes)
    free = (FREE,) * max(0, many - len(bits[vector:]))
    return TileSpread((*bits[:vector], *bits[vector + many :]), (*bits[vector : vector + many], *free))


def in_rows(shape: Shape, element_bytes: int, lanes: int) -> TileSpread:
    """Each lane holds neighbours of up to 16 bytes, lanes follow along rows: what memory likes.

    Of small tiles a lane holds no more than its share, so that all lanes have something to do.
    """
    total, last = sum(map(width_of, shape)), width_of(shape[-1]) if shape else 0
    vector = min(width_of(max(1, 16 // element_bytes)), last, max(0, total - width_of(lanes)))
    return in_order(list(range(total)), lanes, vector)


def in_blocks(shape: Shape, lanes: int) -> TileSpread:
    """Each lane holds its share in row-major order: what conditions on `lane` mean by a lane's elements."""
    total = sum(map(width_of, shape))
    return in_order(list(range(total)), lanes, max(0, total - width_of(lanes)))
