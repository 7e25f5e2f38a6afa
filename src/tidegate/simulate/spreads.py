"""Numbers that nobody knows, but for a step between those they can be: `3 + 4 * anything`.

Needs   an index, the values that are known, the names that are not
Gives   `Spread`: a number, and a step; the index is that number plus a multiple of the step. Step 0: just that number
Keeps   never fewer numbers than there are
Cost    linear in the index

    %bin * 4 + 8        (8, 4) where nobody knows %bin
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from math import gcd

from tidegate.index import Binary, Const, Index, Inexact, Name, Select, evaluate, holds, names

Spread = tuple[int, int]

ANYWHERE: Spread = (0, 1)


def spread_of(index: Index, env: Mapping[str, int], unknown: Container[str]) -> Spread:
    if not any(name in unknown for name in names(index)):
        return evaluate(index, env), 0
    match index:
        case Inexact(inner):
            return spread_of(inner, env, unknown)
        case Select(cond, then, otherwise):
            if any(name in unknown for name in names(cond)):
                return either(spread_of(then, env, unknown), spread_of(otherwise, env, unknown))
            return spread_of(then if holds(cond, env) else otherwise, env, unknown)
        case Binary(op, left, right):
            return _binary(op, spread_of(left, env, unknown), spread_of(right, env, unknown))
        case Name() | Const():
            return ANYWHERE


def _binary(op: str, one: Spread, other: Spread) -> Spread:
    match op:
        case "+":
            return plus(one, other)
        case "-":
            return plus(one, times(other, (-1, 0)))
        case "*":
            return times(one, other)
        case "mod" if other[1] == 0:  # a multiple of the divisor less
            return one[0], gcd(one[1], other[0])
        case "min" | "max":
            return either(one, other)
    return ANYWHERE


def plus(one: Spread, other: Spread) -> Spread:
    return one[0] + other[0], gcd(one[1], other[1])


def times(one: Spread, other: Spread) -> Spread:
    """(a + s * x) * (b + t * y): all but a * b is a multiple of one of three numbers."""
    (a, s), (b, t) = one, other
    return a * b, gcd(a * t, b * s, s * t)


def either(one: Spread, other: Spread) -> Spread:
    return one[0], gcd(one[1], other[1], one[0] - other[0])
