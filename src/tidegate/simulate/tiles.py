"""What tile operations compute, on NumPy arrays.

Needs   arrays whose dtype is `np_dtype` of their tile's element type
Gives   new arrays; no argument is changed, no warning leaks
Keeps   floats narrower than 32 bits are computed in float32 and rounded once, to the result's type;
        integers wrap; a division of integers rounds down, and by 0 gives 0; NaN spreads through `max` and `min`
Cost    linear in the elements; `mma` as a matrix product

A cast from float to integer drops the fraction, stops at the ends of the range and makes 0 of NaN, as GPUs do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tidegate.language.types import DType, f32, f64, i1, i8, i64

Array = npt.NDArray[Any]
Shape = tuple[int, ...]


@cache
def np_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy type that holds an element."""
    return np.dtype(getattr(ml_dtypes, dtype.numpy, None) or dtype.numpy)


@cache
def computed_in(dtype: DType) -> DType:
    """The type in which arithmetic on a type is done."""
    if dtype.is_float:
        return f64 if dtype.bits == 64 else f32
    return i8 if dtype == i1 else dtype


# --- making tiles -------------------------------------------------------------------------------------------------


def fill(value: float | int, shape: Shape, dtype: DType) -> Array:
    if isinstance(value, int) and not dtype.is_float and dtype != i1:
        return splat(value, shape, dtype)  # 64-bit integers are wider than any float
    return np.full(shape, convert(np.asarray(value, np.float64), dtype))


def splat(value: int | Array, shape: Shape, dtype: DType) -> Array:
    """One index everywhere, or, where lanes differ, an index for each element."""
    if isinstance(value, int):
        # A Python integer may be wider than any element: wrap it as a register would.
        value = (value + 2**63) % 2**64 - 2**63
    return np.broadcast_to(convert(np.asarray(value, np.int64), dtype), shape)


def iota(axis: int, shape: Shape, dtype: DType) -> Array:
    counts = np.arange(shape[axis], dtype=np.int64)
    lined_up = counts.reshape([-1 if d == axis % len(shape) else 1 for d in range(len(shape))])
    return np.broadcast_to(convert(lined_up, dtype), shape)


# --- element by element -------------------------------------------------------------------------------------------


def convert(tile: Array, dtype: DType) -> Array:
    """The same numbers in another element type."""
    wanted = np_dtype(dtype)
    if tile.dtype == wanted:
        return tile
    if dtype == i1:
        return np.asarray(tile != 0)
    with np.errstate(all="ignore"):
        if not dtype.is_float and tile.dtype.kind not in "iub":
            return _truncate(tile.astype(np.float64), wanted)
        return tile.astype(wanted)


def _truncate(tile: Array, wanted: np.dtype[Any]) -> Array:
    """Floats to integers. The largest i64 is no float64, so the ends are chosen after the cast, not by clipping."""
    ends = np.iinfo(wanted)
    whole = np.trunc(np.nan_to_num(tile, nan=0.0, posinf=np.inf, neginf=-np.inf))
    inside = (whole > float(ends.min)) & (whole < -float(ends.min))
    cast = np.where(inside, whole, 0.0).astype(wanted)
    return np.where(inside, cast, np.where(whole < 0, ends.min, np.where(whole > 0, ends.max, 0))).astype(wanted)


def elementwise(fn: str, args: tuple[Array, ...], kinds: tuple[DType, ...], result: DType) -> Array:
    """One function of `syntax.ARITY`; `kinds` are the element types of the arguments."""
    if fn == "where":
        return np.where(args[0], convert(args[1], result), convert(args[2], result))
    if fn in _LOGICAL:
        return convert(np.asarray(_LOGICAL[fn](*args)), result)
    work = computed_in(kinds[0])
    if not work.is_float and fn in _FLOAT_ONLY:
        work = f64 if work == i64 else f32
    if fn == "fma" and work == f32:
        work = f64  # the product is exact there, so that one rounding is left, as in hardware
    table = _ON_FLOATS if work.is_float else _ON_INTEGERS
    with np.errstate(all="ignore"):
        found = table[fn](*(convert(arg, work) for arg in args))
    return convert(np.asarray(found), result)


def _power_of_integers(base: Array, exponent: Array) -> Array:
    """NumPy refuses negative exponents; here they give 1/base, rounded to zero."""
    reciprocal = np.where(base == 1, 1, np.where(base == -1, np.where(exponent % 2 == 0, 1, -1), 0))
    return np.where(exponent < 0, reciprocal, np.power(base, np.maximum(exponent, 0))).astype(base.dtype)


_LOGICAL: Mapping[str, Callable[..., Array]] = {
    # On i1 these are logic; on integers they work on bits.
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
}
_ANY: dict[str, Callable[..., Array]] = {
    "neg": np.negative,
    "abs": np.abs,
    "relu": lambda x: np.maximum(x, 0),
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "rem": np.remainder,
    "max": np.maximum,
    "min": np.minimum,
    "fma": lambda a, b, c: a * b + c,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "ge": np.greater_equal,
    "gt": np.greater,
}
_ON_FLOATS: Mapping[str, Callable[..., Array]] = {
    **_ANY,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "recip": lambda x: 1 / x,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "floor": np.floor,
    "div": np.divide,
    "pow": np.power,
}
_ON_INTEGERS: Mapping[str, Callable[..., Array]] = {
    **_ANY,
    "floor": lambda x: x,
    "div": np.floor_divide,
    "pow": _power_of_integers,
}
_FLOAT_ONLY = frozenset(_ON_FLOATS) - frozenset(_ON_INTEGERS)


# --- across elements ----------------------------------------------------------------------------------------------

_FOLDS: Mapping[str, np.ufunc] = {"add": np.add, "max": np.maximum, "min": np.minimum}


def reduce(fn: str, tile: Array, kind: DType, axis: int, result: DType) -> Array:
    """Along an axis, which stays as a dimension of 1."""
    return _fold(_FOLDS[fn].reduce, tile, kind, result, axis=axis, keepdims=True)


def scan(fn: str, tile: Array, kind: DType, axis: int, result: DType) -> Array:
    """Running, each element included."""
    return _fold(_FOLDS[fn].accumulate, tile, kind, result, axis=axis)


def _fold(fold: Callable[..., Any], tile: Array, kind: DType, result: DType, **how: Any) -> Array:
    """Sums grow in the wider of the two types, so that counting an i1 into an i32 counts."""
    work = max((computed_in(kind), computed_in(result)), key=lambda each: (each.is_float, each.bits))
    with np.errstate(all="ignore"):
        return convert(np.asarray(fold(convert(tile, work), dtype=np_dtype(work), **how)), result)


def transpose(tile: Array) -> Array:
    return np.swapaxes(tile, -1, -2)


def broadcast(tile: Array, shape: Shape) -> Array:
    return np.broadcast_to(tile, shape)


def reshape(tile: Array, shape: Shape) -> Array:
    return tile.reshape(shape)


def mma(a: Array, b: Array, acc: Array, kind: DType, result: DType) -> Array:
    """a · b + acc, summed in the type in which arithmetic on the accumulator's type `kind` is done."""
    work = computed_in(kind)
    with np.errstate(all="ignore"):
        return convert(convert(a, work) @ convert(b, work) + convert(acc, work), result)
