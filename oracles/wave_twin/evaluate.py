"""Index expressions, evaluated exactly for all threads at once: a value is integers over one positive denominator."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from math import gcd
from typing import Any

import numpy as np
import sympy

from .setting import Bools, Ints, Unsupported

Value = tuple[Ints, int]


def _whole(value: Value) -> Ints:
    top, bottom = value
    if np.any(top % bottom):
        raise Unsupported("an index that is no integer")
    return top // bottom


def _add(a: Value, b: Value) -> Value:
    common = a[1] * b[1] // gcd(a[1], b[1])
    return a[0] * (common // a[1]) + b[0] * (common // b[1]), common


def _times(a: Value, b: Value) -> Value:
    return a[0] * b[0], a[1] * b[1]


def _modulo(a: Value, b: Value) -> Value:
    common = a[1] * b[1] // gcd(a[1], b[1])
    return (a[0] * (common // a[1])) % (b[0] * (common // b[1])), common


def _compare(expr: Any, known: Mapping[Any, Ints]) -> Bools:
    (a, over_a), (b, over_b) = (_value(arg, known) for arg in expr.args)
    left, right = a * over_b, b * over_a
    operators = {
        sympy.Lt: np.less,
        sympy.Le: np.less_equal,
        sympy.Gt: np.greater,
        sympy.Ge: np.greater_equal,
        sympy.Eq: np.equal,
        sympy.Ne: np.not_equal,
    }
    result: Bools = operators[type(expr)](left, right)
    return result


def truth(expr: Any, known: Mapping[Any, Ints]) -> Bools:
    """A condition, for every thread."""
    shape = next(iter(known.values())).shape
    if expr is True or expr == sympy.true:
        return np.ones(shape, dtype=np.bool_)
    if expr is False or expr == sympy.false:
        return np.zeros(shape, dtype=np.bool_)
    if isinstance(expr, sympy.And):
        return reduce(np.logical_and, (truth(arg, known) for arg in expr.args))
    if isinstance(expr, sympy.Or):
        return reduce(np.logical_or, (truth(arg, known) for arg in expr.args))
    if isinstance(expr, sympy.Not):
        return np.logical_not(truth(expr.args[0], known))
    if isinstance(expr, sympy.core.relational.Relational):
        return np.broadcast_to(_compare(expr, known), shape)
    return np.broadcast_to(whole(expr, known) != 0, shape)


def _piecewise(expr: Any, known: Mapping[Any, Ints]) -> Value:
    shape = next(iter(known.values())).shape
    result = np.zeros(shape, dtype=np.int64)
    taken = np.zeros(shape, dtype=np.bool_)
    for branch, condition in expr.args:
        here = truth(condition, known) & ~taken
        result = np.where(here, whole(branch, known), result)
        taken |= here
    if not taken.all():
        raise Unsupported("a Piecewise with a gap")
    return result, 1


def _value(expr: Any, known: Mapping[Any, Ints]) -> Value:
    expr = sympy.sympify(expr)
    if expr.is_Rational:
        return np.int64(expr.p) * np.ones(1, dtype=np.int64), int(expr.q)
    if expr.is_Symbol:
        if expr not in known:
            raise Unsupported(f"nobody says what {expr} is")
        return known[expr], 1
    if isinstance(expr, sympy.Piecewise):
        return _piecewise(expr, known)
    args = [_value(arg, known) for arg in expr.args]
    if expr.is_Add:
        return reduce(_add, args)
    if expr.is_Mul:
        return reduce(_times, args)
    if isinstance(expr, sympy.Mod):
        return _modulo(*args)
    if isinstance(expr, sympy.floor):
        return args[0][0] // args[0][1], 1
    if isinstance(expr, sympy.ceiling):
        return -(-args[0][0] // args[0][1]), 1
    if isinstance(expr, sympy.Pow) and expr.args[1].is_Integer and int(expr.args[1]) >= 0:
        return args[0][0] ** int(expr.args[1]), args[0][1] ** int(expr.args[1])
    if isinstance(expr, (sympy.Max, sympy.Min)):
        pick = np.maximum if isinstance(expr, sympy.Max) else np.minimum
        return reduce(lambda a, b: pick(a, b), (_whole(a) for a in args)), 1
    raise Unsupported(f"an expression {type(expr).__name__}")


def whole(expr: Any, known: Mapping[Any, Ints]) -> Ints:
    """An index, for every thread."""
    shape = next(iter(known.values())).shape
    return np.broadcast_to(_whole(_value(expr, known)), shape)
