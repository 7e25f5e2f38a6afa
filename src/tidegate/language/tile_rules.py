"""What operations on tiles ask of them: shapes, types of elements, axes.

Needs   one operation on tiles
Gives   the problems in it
Keeps   an operand of unknown type is never a problem: its mistake has been reported
Cost    constant per operation, but for the operands of an element-wise one
"""

from __future__ import annotations

from math import prod
from typing import assert_never

from tidegate.language import ops
from tidegate.language.problems import Problem, Problems, a, count_of, must_be, must_be_tile, must_have_axis
from tidegate.language.syntax import ARITY, COMPARE
from tidegate.language.types import DType, Tile, i1


def check_shape(
    op: ops.Fill | ops.Splat | ops.Iota | ops.Cast | ops.Broadcast | ops.Reshape | ops.Transpose,
) -> Problems:
    yield from must_be_tile(op.result)
    result = op.result.type
    if not isinstance(result, Tile):
        return
    match op:
        case ops.Fill() if op.value != op.value:
            yield Problem("TG016", "`fill` with a number that is not a number")
        case ops.Fill() if not _holds(result.dtype, op.value):
            yield Problem("TG011", f"`{op.value}` is not a `{result.dtype}`")
        case ops.Iota():
            yield from must_have_axis(op.axis, result.shape)
        case ops.Cast() | ops.Broadcast() | ops.Reshape() | ops.Transpose():
            yield from must_be_tile(op.tile)
            if isinstance(op.tile.type, Tile):
                yield from _reshaped(op, op.tile.type, result)


def _holds(dtype: DType, value: float | int) -> bool:
    """Whether a number is one of an element type; of integers, signed or unsigned."""
    if dtype.is_float:
        return True
    if isinstance(value, float) and not value.is_integer():
        return False
    return dtype.bits == 1 or -(1 << dtype.bits - 1) <= value < 1 << dtype.bits  # whatever is not 0 is true


def _reshaped(op: ops.Cast | ops.Broadcast | ops.Reshape | ops.Transpose, tile: Tile, result: Tile) -> Problems:
    if not isinstance(op, ops.Cast) and tile.dtype != result.dtype:
        yield Problem("TG011", f"`{tile}` becomes `{result}`", "only `cast` changes the element type")
    match op:
        case ops.Cast():
            fits = tile.shape == result.shape
        case ops.Reshape():
            fits = prod(tile.shape) == prod(result.shape)
        case ops.Transpose():
            fits = len(tile.shape) >= 2 and (*tile.shape[:-2], tile.shape[-1], tile.shape[-2]) == result.shape
        case ops.Broadcast():
            padded = (1,) * (len(result.shape) - len(tile.shape)) + tile.shape
            fits = len(padded) == len(result.shape) and all(
                a in (1, b) for a, b in zip(padded, result.shape, strict=True)
            )
        case _:
            assert_never(op)
    if not fits:
        text = f"`{type(op).__name__.lower()}` cannot make `{result}` from `{tile}`"
        yield Problem("TG010", text, _WHAT_FITS[type(op)], (op.tile,))


_WHAT_FITS: dict[type, str] = {
    ops.Cast: "a cast keeps the shape",
    ops.Reshape: "a reshape keeps the number of elements",
    ops.Transpose: "a transpose exchanges the last two dimensions",
    ops.Broadcast: "a broadcast repeats dimensions of 1, and adds dimensions in front",
}


def check_along_axis(op: ops.Reduce | ops.Scan) -> Problems:
    yield from must_be_tile(op.tile)
    if not isinstance(op.tile.type, Tile):
        return
    shape = op.tile.type.shape
    bad = tuple(must_have_axis(op.axis, shape))
    yield from bad
    if not bad:
        kept = tuple(1 if d == op.axis and isinstance(op, ops.Reduce) else size for d, size in enumerate(shape))
        yield from must_be(op.result, Tile(kept, op.tile.type.dtype))


def check_elementwise(op: ops.Elementwise) -> Problems:
    if len(op.args) != ARITY[op.fn]:
        yield Problem("TG012", f"`{op.fn}` takes {count_of(ARITY[op.fn], 'tile')}, not {len(op.args)}")
        return
    for arg in op.args:
        yield from must_be_tile(arg)
    if not all(isinstance(arg.type, Tile) for arg in op.args):
        return
    data = op.args[1:] if op.fn == "where" else op.args
    first = data[0].type
    assert isinstance(first, Tile)
    for arg in data[1:]:
        if arg.type != first and isinstance(arg.type, Tile):
            same_shape = arg.type.shape == first.shape
            help = "insert a `cast`" if same_shape else "repeat dimensions of 1 with `broadcast`"
            text = f"`{op.fn}` takes tiles of one type, not `{first}` and `{arg.type}`"
            yield Problem("TG011" if same_shape else "TG010", text, help, data)
            return
    if op.fn == "where" and op.args[0].type != Tile(first.shape, i1):
        text = f"`where` chooses by {a(Tile(first.shape, i1))}, not by {a(op.args[0].type)}"
        yield Problem("TG010", text, about=op.args[:1])
    if op.fn in _FLOAT_ONLY and not first.dtype.is_float:
        text = f"`{op.fn}` is not defined for `{first.dtype}`"
        yield Problem("TG011", text, "insert a `cast` to a float type", op.args)
    if op.fn in _INT_ONLY and first.dtype.is_float:
        yield Problem(
            "TG011", f"`{op.fn}` is not defined for `{first.dtype}`", "it works on integers and bits", op.args
        )
    yield from must_be(op.result, Tile(first.shape, i1 if op.fn in COMPARE else first.dtype))


_FLOAT_ONLY = frozenset("exp exp2 log log2 sqrt rsqrt recip sin cos tanh sigmoid floor".split())
_INT_ONLY = frozenset("and or xor not".split())


def check_mma(op: ops.Mma) -> Problems:
    for value in (op.a, op.b, op.acc):
        yield from must_be_tile(value)
    left, right, acc = op.a.type, op.b.type, op.acc.type
    if not (isinstance(left, Tile) and isinstance(right, Tile) and isinstance(acc, Tile)):
        return
    fits = len(left.shape) == len(right.shape) == len(acc.shape) == 2
    if not (fits and left.shape[1] == right.shape[0] and acc.shape == (left.shape[0], right.shape[1])):
        yield Problem(
            "TG010",
            f"`mma` cannot multiply `{left}` by `{right}` onto `{acc}`",
            "shapes are MxK, KxN and MxN; use `transpose`",
            (op.a, op.b, op.acc),
        )
    elif not _multiply(left.dtype, right.dtype) or not _accumulates(left.dtype, acc.dtype):
        yield Problem(
            "TG011",
            f"`mma` of `{left.dtype}` and `{right.dtype}` cannot accumulate in `{acc.dtype}`",
            "both factors have one size, and the sum is no narrower than they are",
            (op.a, op.b, op.acc),
        )
    yield from must_be(op.result, acc)


def _multiply(a: DType, b: DType) -> bool:
    return a.is_float == b.is_float and a.bits == b.bits


def _accumulates(a: DType, acc: DType) -> bool:
    return acc.is_float == a.is_float and acc.bits >= a.bits
