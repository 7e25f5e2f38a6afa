"""What names stand for while a wave runs, and the value of index expressions.

Needs   an environment: names to run-time values
Gives   an integer, or an array where lanes or elements differ
Keeps   `//` and `mod` round down; one lane's division by 0 gives 0 where lanes differ, for another lane may need none
Cost    linear in the expression, times the elements where they differ

Element e of a tile with n elements belongs to lane e // ceil(n / lanes). An index is the same in all lanes unless it
names `lane`, or comes out of a lane-divergent condition: then it is `PerLane`, a base of its own for each lane.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import assert_never

import numpy as np

from tidegate.index import (
    ARITHMETIC,
    COMPARISONS,
    Binary,
    Compare,
    Cond,
    Const,
    Flag,
    Index,
    Inexact,
    Logic,
    Name,
    Not,
    Select,
    Truth,
    names,
)
from tidegate.language.ops import Value
from tidegate.language.types import BarrierObject, DType, Lds
from tidegate.simulate.tiles import Array, Shape


@dataclass(frozen=True, slots=True, eq=False)
class PerLane:
    """An index or a flag that differs between the lanes of a wave."""

    values: Array


@dataclass(frozen=True, slots=True)
class Buffer:
    """Shared memory from byte `offset` on, seen as a type. `name` is what the program called it."""

    name: str
    offset: int | PerLane
    type: Lds


@dataclass(frozen=True, slots=True)
class GlobalArray:
    """An argument in global memory with its sizes filled in; `name` has no `%`."""

    name: str
    shape: Shape
    dtype: DType


@dataclass(frozen=True, slots=True)
class Dep:
    """The asynchronous copies that a wait for this value waits for, by their number in the wave."""

    copies: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class BarrierRef:
    """A barrier object. All waves that run one `new_barrier` mean the same object."""

    name: str
    type: BarrierObject


class Pending(ABC):
    """A tile that a read in flight will bring; carrying it round a loop or out of a region is no use of it."""

    @abstractmethod
    def tile(self) -> Array:
        """The tile; its first use performs the read, if nothing has before."""


# A tile is an array; an index or a flag is an integer.
RunValue = int | Array | Pending | PerLane | Buffer | GlobalArray | Dep | BarrierRef
Env = dict[str, RunValue]


class NoValue(Exception):
    """An index expression that has no value; whoever knows the operation makes a finding of it."""


class NoSlot(NoValue):
    """A slot that a barrier object does not have."""


def arrived(value: RunValue | None) -> RunValue | None:
    """The value, and for a tile in flight the tile."""
    return value.tile() if isinstance(value, Pending) else value


def tile_of(value: Value, env: Env) -> Array:
    """The tile that a name stands for."""
    found = arrived(env.get(value.name))
    if not isinstance(found, np.ndarray):
        raise NoValue(f"`{value.name}` is not a tile")
    return found


@cache
def lane_of(shape: Shape, lanes: int) -> Array:
    """The lane to which each element of a tile belongs."""
    count = prod(shape)
    each = max(1, -(-count // lanes))
    owners = (np.arange(count, dtype=np.int64) // each).reshape(shape)
    owners.flags.writeable = False
    return owners


# --- index expressions --------------------------------------------------------------------------------------------


def evaluate(index: Index, env: Env, shape: Shape | None = None) -> int | Array:
    """The value; where it varies, for each element of a tile of this shape, or else for each lane."""
    match index:
        case Const(value):
            return value
        case Name(name):
            return _named(name, env, shape)
        case Binary(op, left, right):
            return _apply(op, evaluate(left, env, shape), evaluate(right, env, shape))
        case Select(cond, then, otherwise):
            chosen = holds(cond, env, shape)
            if isinstance(chosen, bool):
                return evaluate(then if chosen else otherwise, env, shape)
            return np.where(chosen, evaluate(then, env, shape), evaluate(otherwise, env, shape))
        case Inexact(inner):
            return evaluate(inner, env, shape)
        case _:
            assert_never(index)


def holds(cond: Cond, env: Env, shape: Shape | None = None) -> bool | Array:
    """Whether the condition is true, for each lane or element where it varies."""
    match cond:
        case Truth(value):
            return value
        case Flag(name):
            flag = _named(name, env, shape)
            return bool(flag) if isinstance(flag, int) else flag != 0
        case Compare(op, left, right):
            found = COMPARISONS[op](evaluate(left, env, shape), evaluate(right, env, shape))  # type: ignore[arg-type]
            return found if isinstance(found, bool) else np.asarray(found)
        case Not(inner):
            inside = holds(inner, env, shape)
            return not inside if isinstance(inside, bool) else ~inside
        case Logic(op, left, right):
            first = holds(left, env, shape)
            if isinstance(first, bool):
                return holds(right, env, shape) if first == (op == "and") else first
            second = holds(right, env, shape)
            return first & second if op == "and" else first | second
        case _:
            assert_never(cond)


def _named(name: str, env: Env, shape: Shape | None) -> int | Array:
    match arrived(env.get(name)):
        case int(value):
            return value
        case PerLane(values):
            return values if shape is None else values[lane_of(shape, len(values))]
        case np.ndarray() as tile:
            if tile.size == 1:
                return int(tile.reshape(())[()])
            if shape is None or prod(shape) != tile.size:
                raise NoValue(f"`{name}` has {tile.size} elements where one index is needed")
            return tile.reshape(shape).astype(np.int64)
        case None:
            raise NoValue(f"`{name}` has no value here")
    raise NoValue(f"`{name}` is not an index")


_VECTOR: Mapping[str, Callable[..., Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "//": np.floor_divide,
    "mod": np.remainder,
    "xor": np.bitwise_xor,
    "min": np.minimum,
    "max": np.maximum,
}


def _apply(op: str, left: int | Array, right: int | Array) -> int | Array:
    if isinstance(left, int) and isinstance(right, int):
        if right == 0 and op in ("//", "mod"):
            raise NoValue(f"`{left} {op} 0` divides by 0")
        return ARITHMETIC[op](left, right)
    with np.errstate(all="ignore"):
        try:
            return _VECTOR[op](left, right)
        except OverflowError:
            raise NoValue("a number needs more than 64 bits") from None


def names_a_tile(index: Index, env: Env) -> bool:
    """Whether each element has an index of its own, from a tile of as many elements."""
    return any(isinstance(tile := arrived(env.get(name)), np.ndarray) and tile.size != 1 for name in names(index))


def as_value(found: int | Array) -> int | PerLane:
    """A result of `evaluate` without a shape, as a value to bind."""
    return found if isinstance(found, int) else PerLane(np.asarray(found))


# --- lanes that went different ways -------------------------------------------------------------------------------


def merge(took: Array, first: RunValue, second: RunValue) -> RunValue:
    """Each lane's part of two values: `first` where `took`, else `second`."""
    if first is second:
        return first
    match arrived(first), arrived(second):
        case Dep(ours), Dep(theirs):
            return Dep(ours | theirs)
        case (np.ndarray() as ours, np.ndarray() as theirs):
            return np.where(took[lane_of(ours.shape, len(took))], ours, theirs)
        case (int() | PerLane() as ours, int() | PerLane() as theirs):
            return _merge_lanes(took, ours, theirs)
        case Buffer(one, at, type_), Buffer(other, elsewhere, _):
            name = one if one == other else f"{one} or {other}"
            return Buffer(name, _merge_lanes(took, at, elsewhere), type_)
    if first == second:
        return first
    raise NoValue("lanes of one wave disagree on an array or a barrier")


def _merge_lanes(took: Array, first: int | PerLane, second: int | PerLane) -> int | PerLane:
    if isinstance(first, int) and isinstance(second, int) and first == second:
        return first
    ours = first if isinstance(first, int) else first.values
    theirs = second if isinstance(second, int) else second.values
    return PerLane(np.where(took, ours, theirs))
