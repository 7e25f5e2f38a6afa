"""Who holds what of the results and operands of matrix instructions.

Needs   the encoding of a matrix product, and a shape
Gives   `Held`, or None where the instruction is not one of those below
Keeps   all 32 or 64 lanes of a warp hold one instruction's tile between them; warps lie side by side in units of tiles
Cost    a few operations for each bit

Results, with the dimension in which a lane has neighbours called `near`:

    nvidia_mma     2 columns a lane, 4 lanes across, 8 lanes down, then registers: 16 x 8, or 16 x N from version 3
    amd_mfma       4 neighbours a lane; lanes along the other dimension first
    amd_wmma       version 1: neighbours on two lanes in turn; later: 8 neighbours a lane

An operand has no warps along the inner dimension: those that would lie there hold the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.hosts.triton.layout_text import Encoding
from tidegate.hosts.triton.layout_tiles import Held, Tiling, Vector, are_powers, is_power_of_two


def matrix_operand(parent: Encoding, shape: Vector, inner: int, outer: int, width: int) -> Held | None:
    """An operand of a matrix product; a lane holds `width` neighbours along the inner dimension."""
    if not is_power_of_two(width):
        return None
    match parent.name:
        case "nvidia_mma":
            return _nvidia_operand(parent, shape, inner, outer, width)
        case "amd_mfma":
            return _mfma_operand(parent, shape, inner, outer, width)
        case "amd_wmma":
            return _wmma_operand(parent, shape, inner, outer, width)
    return None


def _warps(tiling: Tiling, warps: Vector, order: Sequence[int], same: int = -1) -> None:
    """Warps side by side, the first dimension of the order fastest; along `same` they hold the same."""
    for dim in order:
        if dim == same:
            tiling.same("warp", warps[dim])
        else:
            tiling.add("warp", dim, warps[dim])


# --- NVIDIA -------------------------------------------------------------------------------------------------------


def _nvidia_order(encoding: Encoding, rank: int) -> list[int] | None:
    """How warps are counted: along rows in version 2, down columns in version 3."""
    match encoding.number("versionMajor", 0):
        case 2:
            return list(reversed(range(rank)))
        case 3 if rank == 2:
            return [0, 1]
    return None


def _nvidia_tile(encoding: Encoding, rank: int) -> tuple[int, int] | None:
    """Rows and columns of one instruction: `[16, 8]`, or `[1, 16, 8]` for three dimensions, or `[16, N, K]` for two."""
    shape = encoding.numbers("instrShape")
    tile = shape[-2:] if len(shape) == rank else shape[:2]
    if not are_powers(2, tile) or tile[0] not in (8, 16) or tile[1] < 8:
        return None
    return tile[0], tile[1]


def nvidia_mma(encoding: Encoding, shape: Vector) -> Held | None:
    rank, warps = len(shape), encoding.numbers("warpsPerCTA")
    order, tile = _nvidia_order(encoding, rank), _nvidia_tile(encoding, rank)
    if order is None or tile is None or rank < 2 or not are_powers(rank, warps):
        return None
    row, column = rank - 2, rank - 1
    tiling = Tiling(shape)
    tiling.add("register", column, 2)
    tiling.add("lane", column, 4)
    tiling.add("lane", row, 8)
    tiling.add("register", row, tile[0] // 8)
    tiling.add("register", column, tile[1] // 8)
    _warps(tiling, warps, order)
    return tiling.done()


def _nvidia_operand(parent: Encoding, shape: Vector, inner: int, outer: int, width: int) -> Held | None:
    rank, warps = len(shape), parent.numbers("warpsPerCTA")
    order, tile = _nvidia_order(parent, rank), _nvidia_tile(parent, rank)
    if order is None or tile is None or not are_powers(rank, warps):
        return None
    if parent.number("versionMajor", 0) == 3 and outer != rank - 2:
        return None  # the second operand of version 3 is never in registers
    tiling = Tiling(shape)
    tiling.add("register", inner, width)
    tiling.add("lane", inner, 4)
    tiling.add("lane", outer, 8)
    if outer == rank - 2:
        tiling.add("register", outer, tile[0] // 8)
    _warps(tiling, warps, order, same=inner)
    return tiling.done()


# --- AMD: mfma ----------------------------------------------------------------------------------------------------

_MFMA_TILES = ((16, 16), (32, 32), (4, 64), (64, 4))


def _mfma_tile(encoding: Encoding, rank: int) -> tuple[int, int] | None:
    """Rows and columns of an instruction that is understood."""
    tile = encoding.numbers("instrShape")[:2]
    if rank < 2 or tile not in _MFMA_TILES or encoding.number("elementBitWidth", 32) not in (32, 64):
        return None
    if not are_powers(rank, encoding.numbers("warpsPerCTA"), _tiles(encoding, rank)):
        return None
    return tile[0], tile[1]


def _tiles(encoding: Encoding, rank: int) -> Vector:
    """How many tiles of a warp lie side by side."""
    return encoding.numbers("tilesPerWarp") or (1,) * rank


def amd_mfma(encoding: Encoding, shape: Vector) -> Held | None:
    """Lanes along one dimension, the others and 4 neighbours each along `near`: columns if it is transposed."""
    rank = len(shape)
    tile = _mfma_tile(encoding, rank)
    if tile is None:
        return None
    transposed = encoding.get("isTransposed") is True
    near, far = (rank - 1, rank - 2) if transposed else (rank - 2, rank - 1)
    along, across = (tile[1], tile[0]) if transposed else (tile[0], tile[1])
    lanes = 64 // across
    tiling = Tiling(shape)
    tiling.add("lane", far, across)
    if encoding.number("elementBitWidth", 32) == 64:
        tiling.add("lane", near, lanes)
        tiling.add("register", near, along // lanes)
    else:
        tiling.add("register", near, 4)
        tiling.add("lane", near, lanes)
        tiling.add("register", near, along // 4 // lanes)
    for dim, count in enumerate(_tiles(encoding, rank)):
        tiling.add("register", dim, count)
    _warps(tiling, encoding.numbers("warpsPerCTA"), list(reversed(range(rank))))
    return tiling.done()


def _mfma_operand(parent: Encoding, shape: Vector, inner: int, outer: int, width: int) -> Held | None:
    rank = len(shape)
    tile = _mfma_tile(parent, rank)
    if tile is None or tile[0] != tile[1]:
        return None
    tiling = Tiling(shape)
    tiling.add("register", inner, width)
    tiling.add("lane", outer, tile[0])
    tiling.add("lane", inner, 64 // tile[0])
    for dim, count in enumerate(_tiles(parent, rank)):
        tiling.add("register", dim, 1 if dim == inner else count)
    _warps(tiling, parent.numbers("warpsPerCTA"), list(reversed(range(rank))), same=inner)
    return tiling.done()


# --- AMD: wmma ----------------------------------------------------------------------------------------------------


def _wmma_warps(encoding: Encoding, tiling: Tiling, same: int = -1) -> Held | None:
    """Tiles of a warp, and warps, in units of tiles: by `ctaLayout`, or by `warpsPerCTA` as older Triton has it."""
    rank, unit = len(tiling.shape), list(tiling.reach)
    arrangement = encoding.get("ctaLayout")
    if not isinstance(arrangement, Encoding):
        warps = encoding.numbers("warpsPerCTA")
        if not are_powers(rank, warps):
            return None
        _warps(tiling, warps, list(reversed(range(rank))), same)
        return tiling.done()
    for what in ("register", "warp"):
        for base in arrangement.vectors(what):
            if len(base) != rank or sum(map(bool, base)) > 1 or min(base) < 0:
                return None  # warps at a slant: a tensor of another size would be cut in ways that nobody documents
            tiling.bend(what, tuple(0 if dim == same else base[dim] * unit[dim] for dim in range(rank)))
    return tiling.done()


def _is_plain_wmma(encoding: Encoding, rank: int) -> bool:
    """Whether an instruction computes 16 x 16 elements."""
    return (
        rank >= 2
        and encoding.number("version", 0) in (1, 2, 3)
        and (encoding.numbers("instrShape") or (16, 16))[:2] == (16, 16)
    )


def amd_wmma(encoding: Encoding, shape: Vector) -> Held | None:
    rank = len(shape)
    if not _is_plain_wmma(encoding, rank):
        return None
    transposed = encoding.get("isTranspose") is True or encoding.get("isTransposed") is True
    near, far = (rank - 1, rank - 2) if transposed else (rank - 2, rank - 1)
    tiling = Tiling(shape)
    tiling.add("lane", far, 16)
    if encoding.number("version", 0) == 1:
        tiling.add("lane", near, 2)
        tiling.add("register", near, 8)
    else:
        tiling.add("register", near, 8)
        tiling.add("lane", near, 2)
    return _wmma_warps(encoding, tiling)


def _wmma_operand(parent: Encoding, shape: Vector, inner: int, outer: int, width: int) -> Held | None:
    """In version 1 both halves of a warp hold the same."""
    if not _is_plain_wmma(parent, len(shape)):
        return None
    tiling = Tiling(shape)
    tiling.add("register", inner, width)
    tiling.add("lane", outer, 16)
    if parent.number("version", 0) == 1:
        tiling.same("lane", 2)
    else:
        tiling.add("lane", inner, 2)
    return _wmma_warps(parent, tiling, same=inner)
