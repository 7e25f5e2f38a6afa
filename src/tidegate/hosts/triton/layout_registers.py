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

from functools import lru_cache

from tidegate.hosts.triton.layout_matrix import amd_mfma, amd_wmma, matrix_operand, nvidia_mma
from tidegate.hosts.triton.layout_text import Encoding, is_one_cta
from tidegate.hosts.triton.layout_tiles import Held, Tiling, Vector, are_powers, is_power_of_two


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
            return nvidia_mma(encoding, shape)
        case "amd_mfma":
            return amd_mfma(encoding, shape)
        case "amd_wmma":
            return amd_wmma(encoding, shape)
        case "dot_op":
            return _dot_operand(encoding, shape)
    return None


def _blocked(encoding: Encoding, shape: Vector) -> Held | None:
    size, lanes, warps = (encoding.numbers(key) for key in ("sizePerThread", "threadsPerWarp", "warpsPerCTA"))
    order = encoding.numbers("order")
    if not are_powers(len(shape), size, lanes, warps) or sorted(order) != list(range(len(shape))):
        return None
    tiling = Tiling(shape)
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
    tiling = Tiling(shape)
    for what in tiling.bases:
        for base in encoding.vectors(what):
            if len(base) != len(shape) or any(value < 0 for value in base):
                return None
            tiling.bend(what, base)
    if encoding.name == "generic_linear" and tuple(tiling.reach) != shape:
        return None  # how a layout at a slant is cut or repeated is not documented
    return tiling.done()


def _dot_operand(encoding: Encoding, shape: Vector) -> Held | None:
    parent, operand, rank = encoding.parent(), encoding.number("opIdx", -1), len(shape)
    if parent is None or operand not in (0, 1) or rank < 2 or not is_one_cta(parent):
        return None
    inner, outer = (rank - 1, rank - 2) if operand == 0 else (rank - 2, rank - 1)
    if parent.name == "blocked":
        return _blocked_operand(parent, shape, inner)
    return matrix_operand(parent, shape, inner, outer, encoding.number("kWidth", 0))


def _blocked_operand(parent: Encoding, shape: Vector, inner: int) -> Held | None:
    """Each thread holds all of the inner dimension; threads and warps along it hold the same."""
    size, lanes, warps = (parent.numbers(key) for key in ("sizePerThread", "threadsPerWarp", "warpsPerCTA"))
    order = parent.numbers("order")
    if not are_powers(len(shape), size, lanes, warps) or sorted(order) != list(range(len(shape))):
        return None
    tiling = Tiling(shape)
    for dim in order:
        tiling.add("register", dim, shape[inner] if dim == inner else size[dim])
    for what, counts in (("lane", lanes), ("warp", warps)):
        for dim in order:
            if dim == inner:
                tiling.same(what, counts[dim])
            else:
                tiling.add(what, dim, counts[dim])
    return tiling.done()
