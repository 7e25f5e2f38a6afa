"""Intervals for index expressions: a quick proof that an index stays inside, where that is easy.

Needs   the range of every name
Gives   the range of an expression
Keeps   perhaps too wide, never too narrow
Cost    linear in the expression
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from tidegate.index import OPPOSITE, Binary, Compare, Cond, Const, Index, Inexact, Name, Select

Range = tuple[float, float]
ANY: Range = (float("-inf"), float("inf"))


def range_of(index: Index, known: Mapping[str, Range]) -> Range:
    match index:
        case Const(value):
            return (value, value)
        case Name(name):
            return known.get(name, ANY)
        case Binary():
            return _binary(index, range_of(index.left, known), range_of(index.right, known))
        case Select(cond, then, otherwise):
            yes = clamp(then, cond, range_of(then, known), known, True)
            no = clamp(otherwise, cond, range_of(otherwise, known), known, False)
            return join(yes, no)
        case Inexact():
            return ANY
        case _:
            assert_never(index)


def join(a: Range | None, b: Range | None) -> Range:
    """The smallest range that holds both; None holds nothing."""
    if a is None or b is None:
        return a or b or ANY
    return (min(a[0], b[0]), max(a[1], b[1]))


def clamp(index: Index, cond: Cond, found: Range, known: Mapping[str, Range], truth: bool) -> Range | None:
    """The range of an arm of a `select`, given that its condition compares this very expression with something."""
    if not isinstance(cond, Compare) or cond.left != index:
        return found
    op = cond.op if truth else OPPOSITE[cond.op]
    low, high = range_of(cond.right, known)
    match op:
        case "<":
            found = (found[0], min(found[1], high - 1))
        case "<=":
            found = (found[0], min(found[1], high))
        case ">":
            found = (max(found[0], low + 1), found[1])
        case ">=":
            found = (max(found[0], low), found[1])
        case "==":
            found = (max(found[0], low), min(found[1], high))
        case "!=" if low == high:
            found = (found[0] + (found[0] == low), found[1] - (found[1] == low))
    return found if found[0] <= found[1] else None


def _binary(node: Binary, left: Range, right: Range) -> Range:
    (a, b), (c, d) = left, right
    match node.op:
        case "+":
            return (a + c, b + d)
        case "-":
            return (a - d, b - c)
        case "*":
            corners = [0 if x == 0 or y == 0 else x * y for x in left for y in right]
            return (min(corners), max(corners))
        case "min":
            return (min(a, c), min(b, d))
        case "max":
            return (max(a, c), max(b, d))
        case "//" if c == d and 0 < c < float("inf"):
            return (a // c if a > ANY[0] else a, b // c if b < ANY[1] else b)
        case "mod" if c == d and 0 < c < float("inf"):
            return (a, b) if a >= 0 and b < c else (0, c - 1)
    return ANY
