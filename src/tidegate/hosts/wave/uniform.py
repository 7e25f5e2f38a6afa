"""Conditions, trip counts and places of a trace as expressions of a graph.

Needs   sympy expressions over loop counters, workgroups and sizes; places may also name threads
Gives   an `Index` or a `Cond`; None for what is not quasi-affine or names something else
Keeps   rounding is downwards, as in Wave. Part of an expression that names threads is a number of the wave where it is
        the same in all lanes of each wave, and nothing where it is not
Cost    linear in the expression
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from tidegate.hosts.wave.numbers import Numbers
from tidegate.hosts.wave.touched import by_wave
from tidegate.index import (
    TRUE,
    Binary,
    Compare,
    Cond,
    Const,
    Index,
    Logic,
    Name,
    Not,
    Truth,
    add,
    scale,
    why_not_affine,
)

_COMPARE = {
    "StrictLessThan": "<",
    "LessThan": "<=",
    "StrictGreaterThan": ">",
    "GreaterThan": ">=",
    "Equality": "==",
    "Unequality": "!=",
}


class Uniform:
    """Translates expressions; `names` says which symbols are names of the graph, `numbers` knows all others.

    `waves`: how many there are, if the number of the wave may be part of what is found. `counters`: the values of the
    loop counters of which they are known.
    """

    def __init__(
        self,
        names: Mapping[str, str],
        numbers: Numbers,
        waves: int = 0,
        counters: Mapping[str, range] | None = None,
    ) -> None:
        self.names, self.numbers, self.waves, self.counters = names, numbers, waves, counters or {}

    def index(self, expr: Any) -> Index | None:
        found = self.sum(expr)
        if found is None:
            return None
        index, by = found
        return index if by == 1 and not why_not_affine(index) else None

    def cond(self, expr: Any) -> Cond | None:
        kind = type(expr).__name__
        if isinstance(expr, bool) or kind in ("BooleanTrue", "BooleanFalse"):
            return Truth(bool(expr))
        if kind in _COMPARE:
            left, right = self.index(expr.args[0]), self.index(expr.args[1])
            return Compare(_COMPARE[kind], left, right) if left is not None and right is not None else None
        if kind in ("And", "Or"):
            conds = [self.cond(each) for each in sorted(expr.args, key=str)]
            known = [each for each in conds if each is not None]
            if len(known) < len(conds):
                return None
            found = known[0] if known else TRUE
            for each in known[1:]:
                found = Logic(kind.lower(), found, each)
            return found
        if kind == "Not":
            inner = self.cond(expr.args[0])
            return None if inner is None else Not(inner)
        return None

    def sum(self, expr: Any) -> tuple[Index, int] | None:
        """An index, and what it is still to be divided by."""
        if isinstance(expr, int):
            return Const(expr), 1
        number = self.numbers.fraction(expr)
        if number is not None:
            value, by = number
            return self.of_wave(value, by) if isinstance(value, np.ndarray) else (Const(int(value)), by)
        if getattr(expr, "is_Symbol", False):
            name = self.names.get(str(expr))
            return None if name is None else (Name(name), 1)
        given = [self.sum(each) for each in getattr(expr, "args", ())]
        known = [each for each in given if each is not None]
        return self.combine(type(expr).__name__, known) if given and len(known) == len(given) else None

    def of_wave(self, value: Any, by: int) -> tuple[Index, int] | None:
        """A number for each thread as a number of its wave; None if lanes differ."""
        if not self.waves or value.dtype == bool or value.size % self.waves:
            return None
        rows = value.reshape(self.waves, -1)
        if bool((rows != rows[:, :1]).any()):
            return None
        return by_wave([int(each) for each in rows[:, 0]]), by

    def combine(self, kind: str, given: list[tuple[Index, int]]) -> tuple[Index, int] | None:
        match kind:
            case "Add":
                by = max(each for _, each in given)
                if any(by % each for _, each in given):
                    return None
                total: Index = Const(0)
                for index, each in given:
                    total = add(total, scale(index, by // each))
                return total, by
            case "Mul":
                return _product(given)
            case "floor":
                index, by = given[0]
                return (index if by == 1 else Binary("//", index, Const(by))), 1
            case "ceiling":
                index, by = given[0]
                return (index if by == 1 else Binary("//", add(index, Const(by - 1)), Const(by))), 1
            case "Mod" if all(by == 1 for _, by in given):
                return Binary("mod", given[0][0], given[1][0]), 1
            case "Min" | "Max" if all(by == 1 for _, by in given):
                found = given[0][0]
                for index, _ in given[1:]:
                    found = Binary(kind.lower(), found, index)
                return found, 1
        return None


def _product(given: list[tuple[Index, int]]) -> tuple[Index, int] | None:
    factor = Fraction(1)
    rest: Index | None = None
    for index, by in given:
        factor /= by
        if isinstance(index, Const):
            factor *= index.value
        elif rest is None:
            rest = index
        else:
            return None
    if rest is None:
        return Const(factor.numerator), factor.denominator
    return scale(rest, factor.numerator), factor.denominator
