"""What operations on registers compute.

Needs   a Wave operation without memory; its operands as arrays (lanes × elements)
Gives   `arithmetic_of`: the function that computes it, if it is one of those
Keeps   NumPy's rules, which for one type in and out are those of the hardware but for rounding
Cost    one array operation
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from oracles.wave_machine.expressions import CannotRun
from oracles.wave_machine.numbers import Array

Function = Callable[..., Array]


def divide(left: Array, right: Array) -> Array:
    if np.issubdtype(left.dtype, np.integer):
        return np.asarray(np.trunc(left / right), left.dtype)
    return np.asarray(left / right)


def invert(value: Array) -> Array:
    if value.dtype != np.bool_:
        raise CannotRun("`invert` of something that is no truth value")
    return ~value


def copy_sign_tanh(value: Array) -> Array:
    return np.asarray(np.tanh(value), value.dtype)


NAMED: dict[str, Function] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": divide,
    "mod": np.fmod,
    "and_": np.bitwise_and,
    "or_": np.bitwise_or,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "powf": np.power,
    "atan2": np.arctan2,
    "neg": np.negative,
    "invert": invert,
    "exp": np.exp,
    "exp2": np.exp2,
    "log2": np.log2,
    "log10": np.log10,
    "sqrt": np.sqrt,
    "reciprocal": np.reciprocal,
    "abs": np.abs,
    "tanh": np.tanh,
    "tanh_approx": copy_sign_tanh,
    "sin": np.sin,
    "cos": np.cos,
    "roundeven": np.rint,
    "select": np.where,
}


def arithmetic_of(name: str) -> Function | None:
    """By the name under which Wave's operation is known."""
    return NAMED.get(name)


def shuffle(value: Array, offset: int, width: int, mode: str) -> Array:
    """What each lane gets from another of its group of `width`."""
    lane = np.arange(len(value))
    inside = lane % width
    source = {
        "XOR": inside ^ offset,
        "DOWN": inside + offset,
        "UP": inside - offset,
        "IDX": np.full_like(inside, offset),
    }[mode]
    valid = (source >= 0) & (source < width)
    taken = value[np.where(valid, lane - inside + source, lane)]
    return np.asarray(taken)


def turn_rows(value: Array) -> Array:
    """A transposing read: 16 lanes give 64 bits each; lane c gets column c of what they form, rows first."""
    elements = value.shape[1]
    block = value.reshape(-1, elements, 16, order="C")  # group, row, column
    return np.asarray(block.transpose(0, 2, 1).reshape(value.shape))
