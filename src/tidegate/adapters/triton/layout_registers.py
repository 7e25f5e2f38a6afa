"""Which lane of which warp holds which elements of a tensor, as bits.

Needs   the encoding of a tensor in registers, and its shape
Gives   `Held`: for each bit of the register, lane and warp number the coordinates that it flips
Keeps   None for whatever is not known for certain: another encoding, several CTAs, sizes that are no powers of two
Cost    a few operations for each bit

    blocked, sizePerThread [1, 8], threadsPerWarp [8, 4], warpsPerCTA [4, 1], order [1, 0], on 32 x 32
        register (0,1) (0,2) (0,4)      lane (0,8) (0,16) (1,0) (2,0) (4,0)      warp (8,0) (16,0)

A tensor that is larger than its layout repeats it, in further registers; one that is smaller is held several times:
the bits beyond it flip nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from tidegate.adapters.triton.layout_text import Encoding

Vector = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """What each bit of a register, lane or warp number adds to the coordinates, by xor."""

    register: tuple[Vector, ...]
    lane: tuple[Vector, ...]
    warp: tuple[Vector, ...]


def is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def bits(size: int) -> int:
    """How many bits count up to a power of two."""
    return size.bit_length() - 1


def is_one_cta(encoding: Encoding) -> bool:
    """Whether the encoding speaks of a single CTA."""
    several = any(count != 1 for count in encoding.numbers("CTAsPerCGA"))
    return not several and not encoding.vectors("CGALayout") and not encoding.vectors("block")


@lru_cache(maxsize=4096)
def held(encoding: Encoding, shape: Vector) -> Held | None:
    """Who holds what, or None where that is not known."""
    if not all(is_power_of_two(size) for size in shape) or not is_one_cta(encoding):
        return None
    match encoding.name:
        case "blocked":
            return _blocked(encoding, shape)
        case "slice":
            return _slice(encoding, shape)
        case "linear" | "generic_linear":
            return _linear(encoding, shape)
        case "nvidia_mma":
            return _nvidia_mma(encoding, shape)
        case "amd_mfma":
            return _amd_mfma(encoding, shape)
        case "dot_op":
            return _dot_operand(encoding, shape)
    return None


@dataclass
class _Tiling:
    """A layout under construction: what is added lies beyond what is already there, in its dimension."""

    shape: Vector
    bases: dict[str, list[Vector]] = field(default_factory=lambda: {"register": [], "lane": [], "warp": []})
    reach: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reach = [1] * len(self.shape)

    def add(self, what: str, dim: int, count: int) -> None:
        """`count` of something side by side along a dimension."""
        for _ in range(bits(count)):
            self.bases[what].append(tuple(self.reach[dim] if d == dim else 0 for d in range(len(self.shape))))
            self.reach[dim] *= 2

    def same(self, what: str, count: int) -> None:
        """`count` of something that hold the same elements."""
        self.bases[what].extend([(0,) * len(self.shape)] * bits(count))

    def done(self) -> Held | None:
        """The layout on the shape: repeated in registers up to it, held several times beyond it."""
        for dim, size in enumerate(self.shape):
            self.add("register", dim, max(1, size // self.reach[dim]))
        found: dict[str, tuple[Vector, ...]] = {}
        for what, bases in self.bases.items():
            if any(not self.fits(base) and not is_power_of_two(sum(base)) for base in bases):
                return None  # how Triton cuts a basis that flips several bits is not documented
            found[what] = tuple(base if self.fits(base) else (0,) * len(self.shape) for base in bases)
        return Held(found["register"], found["lane"], found["warp"])

    def fits(self, base: Vector) -> bool:
        return all(value < size for value, size in zip(base, self.shape, strict=True))


def _powers(rank: int, *sizes: Sequence[int]) -> bool:
    """Whether there is one power of two for each dimension in every one of these lists."""
    return all(len(each) == rank and all(map(is_power_of_two, each)) for each in sizes)


def _blocked(encoding: Encoding, shape: Vector) -> Held | None:
    size, lanes, warps = (encoding.numbers(key) for key in ("sizePerThread", "threadsPerWarp", "warpsPerCTA"))
    order = encoding.numbers("order")
    if not _powers(len(shape), size, lanes, warps) or sorted(order) != list(range(len(shape))):
        return None
    tiling = _Tiling(shape)
    for what, counts in (("register", size), ("lane", lanes), ("warp", warps)):
        for dim in order:
            tiling.add(what, dim, counts[dim])
    return tiling.done()


def _slice(encoding: Encoding, shape: Vector) -> Held | None:
    """The parent's layout on a tensor of size one in the dimension that is left out."""
    dim, parent = encoding.number("dim", -1), encoding.parent()
    if parent is None or not 0 <= dim <= len(shape):
        return None
    whole = held(parent, (*shape[:dim], 1, *shape[dim:]))
    if whole is None:
        return None
    cut = [tuple((*b[:dim], *b[dim + 1 :]) for b in each) for each in (whole.register, whole.lane, whole.warp)]
    return Held(*cut)


def _linear(encoding: Encoding, shape: Vector) -> Held | None:
    tiling = _Tiling(shape)
    for what in tiling.bases:
        for base in encoding.vectors(what):
            if len(base) != len(shape) or any(value < 0 for value in base):
                return None
            tiling.bases[what].append(base)
            for dim, value in enumerate(base):
                tiling.reach[dim] = max(tiling.reach[dim], 1 << value.bit_length())
    return tiling.done()


def _warps(tiling: _Tiling, warps: Vector, order: Sequence[int], same: int = -1) -> None:
    """Warps side by side, the first dimension of the order fastest; along `same` they hold the same."""
    for dim in order:
        if dim == same:
            tiling.same("warp", warps[dim])
        else:
            tiling.add("warp", dim, warps[dim])


def _nvidia_order(encoding: Encoding, rank: int) -> list[int] | None:
    """How warps are counted: along rows from version 2, down columns from version 3."""
    match encoding.number("versionMajor", 0):
        case 2:
            return list(reversed(range(rank)))
        case 3 if rank == 2:
            return [0, 1]
    return None


def _nvidia_tile(encoding: Encoding) -> tuple[int, int] | None:
    """Rows and columns of one instruction: `[16, 8]`, `[1, 16, 8]` in version 2, `[16, N, K]` in version 3."""
    shape = encoding.numbers("instrShape")
    tile = shape[:2] if encoding.number("versionMajor", 0) == 3 else shape[-2:]
    if len(tile) != 2 or not _powers(2, tile) or tile[0] not in (8, 16) or tile[1] < 8:
        return None
    return tile[0], tile[1]


def _nvidia_mma(encoding: Encoding, shape: Vector) -> Held | None:
    rank, warps = len(shape), encoding.numbers("warpsPerCTA")
    order, tile = _nvidia_order(encoding, rank), _nvidia_tile(encoding)
    if order is None or tile is None or rank < 2 or not _powers(rank, warps):
        return None
    row, column = rank - 2, rank - 1
    tiling = _Tiling(shape)
    tiling.add("register", column, 2)
    tiling.add("lane", column, 4)
    tiling.add("lane", row, 8)
    tiling.add("register", row, tile[0] // 8)
    tiling.add("register", column, tile[1] // 8)
    _warps(tiling, warps, order)
    return tiling.done()


def _dot_operand(encoding: Encoding, shape: Vector) -> Held | None:
    parent, operand, rank = encoding.parent(), encoding.number("opIdx", -1), len(shape)
    if parent is None or operand not in (0, 1) or rank < 2 or not is_one_cta(parent):
        return None
    inner, outer = (rank - 1, rank - 2) if operand == 0 else (rank - 2, rank - 1)
    width = encoding.number("kWidth", 0)
    match parent.name:
        case "blocked":
            return _blocked_operand(parent, shape, inner)
        case "nvidia_mma" if is_power_of_two(width):
            return _nvidia_operand(parent, shape, inner, outer, width)
        case "amd_mfma" if is_power_of_two(width):
            return _mfma_operand(parent, shape, inner, outer, width)
    return None


def _blocked_operand(parent: Encoding, shape: Vector, inner: int) -> Held | None:
    """Each thread holds all of the inner dimension; threads and warps along it hold the same."""
    size, lanes, warps = (parent.numbers(key) for key in ("sizePerThread", "threadsPerWarp", "warpsPerCTA"))
    order = parent.numbers("order")
    if not _powers(len(shape), size, lanes, warps) or sorted(order) != list(range(len(shape))):
        return None
    tiling = _Tiling(shape)
    for dim in order:
        tiling.add("register", dim, shape[inner] if dim == inner else size[dim])
    for what, counts in (("lane", lanes), ("warp", warps)):
        for dim in order:
            if dim == inner:
                tiling.same(what, counts[dim])
            else:
                tiling.add(what, dim, counts[dim])
    return tiling.done()


def _nvidia_operand(parent: Encoding, shape: Vector, inner: int, outer: int, width: int) -> Held | None:
    rank, warps = len(shape), parent.numbers("warpsPerCTA")
    order, tile = _nvidia_order(parent, rank), _nvidia_tile(parent)
    if order is None or tile is None or not _powers(rank, warps):
        return None
    if parent.number("versionMajor", 0) == 3 and outer != rank - 2:
        return None  # the second operand of version 3 is never in registers
    tiling = _Tiling(shape)
    tiling.add("register", inner, width)
    tiling.add("lane", inner, 4)
    tiling.add("lane", outer, 8)
    if outer == rank - 2:
        tiling.add("register", outer, tile[0] // 8)
    _warps(tiling, warps, order, same=inner)
    return tiling.done()


def _mfma_shape(encoding: Encoding, rank: int) -> tuple[int, int] | None:
    """Rows and columns of an instruction that is understood."""
    tile = encoding.numbers("instrShape")[:2]
    known = tile in ((16, 16), (32, 32)) and encoding.number("elementBitWidth", 32) == 32
    if not known or rank < 2 or not _powers(rank, encoding.numbers("warpsPerCTA"), _tiles(encoding, rank)):
        return None
    return tile[0], tile[1]


def _tiles(encoding: Encoding, rank: int) -> Vector:
    return encoding.numbers("tilesPerWarp") or (1,) * rank


def _amd_mfma(encoding: Encoding, shape: Vector) -> Held | None:
    """64 lanes hold one instruction's tile; a lane holds 4 neighbours, along columns if it is transposed."""
    rank = len(shape)
    tile = _mfma_shape(encoding, rank)
    if tile is None:
        return None
    near, far = (rank - 1, rank - 2) if encoding.get("isTransposed") is True else (rank - 2, rank - 1)
    tiling = _Tiling(shape)
    tiling.add("lane", far, tile[0])
    tiling.add("register", near, 4)
    tiling.add("lane", near, 64 // tile[0])
    tiling.add("register", near, tile[0] // 4 // (64 // tile[0]))
    for dim, count in enumerate(_tiles(encoding, rank)):
        tiling.add("register", dim, count)
    _warps(tiling, encoding.numbers("warpsPerCTA"), list(reversed(range(rank))))
    return tiling.done()


def _mfma_operand(parent: Encoding, shape: Vector, inner: int, outer: int, width: int) -> Held | None:
    rank = len(shape)
    tile = _mfma_shape(parent, rank)
    if tile is None:
        return None
    tiling = _Tiling(shape)
    tiling.add("register", inner, width)
    tiling.add("lane", outer, tile[0])
    tiling.add("lane", inner, 64 // tile[0])
    for dim, count in enumerate(_tiles(parent, rank)):
        tiling.add("register", dim, 1 if dim == inner else count)
    _warps(tiling, parent.numbers("warpsPerCTA"), list(reversed(range(rank))), same=inner)
    return tiling.done()
