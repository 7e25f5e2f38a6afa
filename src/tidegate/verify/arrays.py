"""Expressions over arrays, and sets of array places as conditions.

Needs   index expressions and conditions, and an array for each of their names
Gives   their values and truths at every place; for an array of truths a condition that holds where it does
Keeps   exact where all numbers `fit` into 64 bits; where something is divided by 0 the value means nothing, and
        `divides_by_zero` says so
Cost    linear in the places, for each operator
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, assert_never

from tidegate.footprint.arithmetic import both, logic
from tidegate.index import (
    ARITHMETIC,
    INDEX_TYPES,
    TRUE,
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
    walk,
)

COMPARED = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


LARGEST = 1 << 62  # NumPy wraps numbers around beyond 63 bits, silently


def fits(expr: Index | Cond, env: Mapping[str, Any]) -> bool:
    """Whether no number on the way to the value can be too large for an array (test_believed)."""
    try:
        for part in walk(expr):
            if isinstance(part, INDEX_TYPES):
                _range_of(part, env)
    except OverflowError:
        return False
    return True


def _range_of(index: Index, env: Mapping[str, Any]) -> tuple[int, int]:
    """Numbers between which a value lies. Raises OverflowError where one of them is too large."""
    match index:
        case Const(value):
            found = (value, value)
        case Name(name):
            found = (int(env[name].min()), int(env[name].max()))
        case Inexact(inner):
            found = _range_of(inner, env)
        case Select(_, then, otherwise):
            ranges = (_range_of(then, env), _range_of(otherwise, env))
            found = (min(low for low, _ in ranges), max(high for _, high in ranges))
        case Binary(op, left, right):
            found = _operated(op, _range_of(left, env), _range_of(right, env))
        case _:
            assert_never(index)
    if max(map(abs, found)) > LARGEST:
        raise OverflowError
    return found


def _operated(op: str, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    match op:
        case "+" | "-" | "*":
            ends = [ARITHMETIC[op](one, other) for one in left for other in right]
            return min(ends), max(ends)
        case "xor":  # no bit above the highest of both
            most = 1 << max(each.bit_length() for each in (*left, *right))
        case _:  # the size of one of the two bounds a quotient, a remainder, a minimum and a maximum
            most = 1 + max(map(abs, (*left, *right)))
    return -most, most


def value_in(index: Index, env: Mapping[str, Any]) -> Any:
    import numpy as np

    match index:
        case Const(value):
            return np.int64(value)
        case Name(name):
            return env[name]
        case Inexact(inner):
            return value_in(inner, env)
        case Select(cond, then, otherwise):
            return np.where(is_true(cond, env), value_in(then, env), value_in(otherwise, env))
        case Binary(op, left, right):
            a, b = value_in(left, env), value_in(right, env)
            if op in ("//", "mod"):
                b = np.where(b == 0, 1, b)
            return _operation(op)(a, b)
        case _:
            assert_never(index)


def _operation(op: str) -> Any:
    import numpy as np

    return {
        "+": np.add,
        "-": np.subtract,
        "*": np.multiply,
        "//": np.floor_divide,
        "mod": np.remainder,
        "xor": np.bitwise_xor,
        "min": np.minimum,
        "max": np.maximum,
    }[op]


def is_true(cond: Cond, env: Mapping[str, Any]) -> Any:
    import numpy as np

    match cond:
        case Truth(value):
            return np.bool_(value)
        case Flag(name):
            return env[name] != 0
        case Compare(op, left, right):
            return COMPARED[op](value_in(left, env), value_in(right, env))
        case Not(inner):
            return ~is_true(inner, env)
        case Logic(op, left, right):
            one, other = is_true(left, env), is_true(right, env)
            return one & other if op == "and" else one | other
        case _:
            assert_never(cond)


def divides_by_zero(exprs: Iterable[Index | Cond], env: Mapping[str, Any]) -> Any:
    """Where one of these divides by 0."""
    import numpy as np

    found = np.bool_(False)
    for divisor in divisors(exprs):
        found = found | (value_in(divisor, env) == 0)
    return found


def divisors(exprs: Iterable[Index | Cond]) -> Iterator[Index]:
    """By what these divide, constants left out."""
    for expr in exprs:
        for part in walk(expr):
            if isinstance(part, Binary) and part.op in ("//", "mod") and not isinstance(part.right, Const):
                yield part.right


def such_that(where: Any, indices: Sequence[Index], lows: Sequence[int]) -> Cond | None:
    """A condition on indices, one for each axis of an array and counted from `lows`; None if it holds nowhere."""
    if not where.any():
        return None
    if where.all():
        return TRUE
    if len(indices) == 2 and (found := _by_distance(where, indices, lows)) is not None:
        return found
    slices: dict[bytes, list[int]] = {}
    for place in range(len(where)):
        slices.setdefault(where[place].tobytes(), []).append(place)
    cases: list[Cond] = []
    for places in slices.values():
        there = such_that(where[places[0]], indices[1:], lows[1:])
        if there is not None:
            cases.append(both(_one_of(indices[0], places, lows[0], len(where)), there))
    return reduce(lambda one, other: logic("or", one, other), cases)


def _by_distance(where: Any, indices: Sequence[Index], lows: Sequence[int]) -> Cond | None:
    """The same where nothing but the difference of two remainders matters."""
    import numpy as np

    match indices:
        case [Binary("mod", one, Const(size)), Binary("mod", other, Const(same))] if size == same:
            first = where[0]
            if all((where[place] == np.roll(first, place)).all() for place in range(size)):
                apart = Binary("mod", Binary("-", other, one), Const(size))
                return _one_of(apart, [int(each) for each in np.flatnonzero(first)], 0, size)
    return None


def _one_of(index: Index, places: Sequence[int], low: int, size: int) -> Cond:
    """That an index, which lies in `size` values from `low` on, is at one of some places, which are in order."""
    if len(places) == size:
        return TRUE
    if len(places) > size // 2:
        left = sorted(set(range(size)).difference(places))
        differ: list[Cond] = [Compare("!=", index, Const(low + place)) for place in left]
        return reduce(both, differ)
    runs: list[list[int]] = []
    for place in places:
        if runs and runs[-1][1] == place - 1:
            runs[-1][1] = place
        else:
            runs.append([place, place])
    cases = (
        Compare("==", index, Const(low + first))
        if first == last
        else both(Compare(">=", index, Const(low + first)), Compare("<=", index, Const(low + last)))
        for first, last in runs
    )
    return reduce(lambda one, other: logic("or", one, other), cases)
