"""After how many trips a loop has shown all that its indices do.

Needs   expressions of a loop's body, and the names that change from trip to trip
Gives   a number of trips: after it patterns made by `mod` and `//` repeat, and every comparison with a constant has
        gone both ways
Keeps   never less than that for indices that are linear in a changing name; others are estimated
Cost    linear in the expressions

    %k mod 3  and  %k mod 2            repeat together after 6
    (%k // 2) mod 2                    after 4: the parity of a ring of two slots
    select(%s + 1 == 3, 0, %s + 1)     after 3
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import gcd, lcm

from tidegate.index import Binary, Compare, Cond, Const, Index, Inexact, Name, names, walk


def trips_to_show(exprs: Iterable[Index | Cond], moving: Collection[str], start: int = 0, step: int = 1) -> int:
    """Trips until nothing new comes, at least 1, of a loop whose counter starts and steps so."""
    together, farthest = 1, 1
    for expr in exprs:
        for node in walk(expr):
            if not any(name in moving for name in names(node)):
                continue
            match node:
                case Binary("mod", inside, Const(by)) if by > 0:
                    together = lcm(together, _repeats(inside, by, moving))
                case Binary("//", inside, Const(by)) if by > 0:
                    together = lcm(together, by // gcd(by, _coefficient(inside, moving) or 1))
                case Compare(_, left, right):
                    farthest = max(farthest, _reaches(left, right, moving))
    return max(together, -(-(farthest + abs(start)) // step))


def _repeats(inside: Index, by: int, moving: Collection[str]) -> int:
    """After how many trips `inside mod by` is the same again."""
    coefficient = _coefficient(inside, moving)
    if coefficient is not None:
        return by // gcd(by, coefficient)
    slower = 1
    for node in walk(inside):
        if isinstance(node, Binary) and node.op in ("//", "mod") and isinstance(node.right, Const):
            slower *= max(1, abs(node.right.value))
    return by * slower


def _reaches(left: Index, right: Index, moving: Collection[str]) -> int:
    """After how many trips a comparison has gone both ways, as far as constants say; where sizes are compared with, how
    far from the last trip."""
    far = max(abs(each) for side in (left, right) for each in _added(side))
    slower = 1
    for side in (left, right):
        for node in walk(side):
            is_quotient = isinstance(node, Binary) and node.op == "//" and any(each in moving for each in names(node))
            if is_quotient and isinstance(node, Binary) and isinstance(node.right, Const):
                slower *= max(1, abs(node.right.value))
    return far * slower


def _added(index: Index) -> list[int]:
    """Constants that an index is made of by addition alone: 1 in `%k + 1`, none in `K // 256`."""
    match index:
        case Const(value):
            return [value]
        case Binary("+" | "-", left, right):
            return [*_added(left), *_added(right)]
        case Inexact(inner):
            return _added(inner)
    return [0]


def _coefficient(index: Index, moving: Collection[str]) -> int | None:
    """By how much the index grows if every moving name grows by one; None if it is not linear in them."""
    match index:
        case Const():
            return 0
        case Name(name):
            return 1 if name in moving else 0
        case Inexact(inner):
            return _coefficient(inner, moving)
        case Binary("+" | "-" as op, left, right):
            one, other = _coefficient(left, moving), _coefficient(right, moving)
            if one is None or other is None:
                return None
            return one + other if op == "+" else one - other
        case Binary("*", left, right) if isinstance(left, Const) or isinstance(right, Const):
            factor, index = (left, right) if isinstance(left, Const) else (right, left)
            growth = _coefficient(index, moving)
            return None if growth is None or not isinstance(factor, Const) else growth * factor.value
    return 0 if not any(name in moving for name in names(index)) else None
