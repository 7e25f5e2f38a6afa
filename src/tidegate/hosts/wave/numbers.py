"""Wave's index expressions as numbers, one for each thread.

Needs   sympy expressions, and what their symbols stand for: numbers, or arrays with one number for each thread
Gives   their values, exactly; None for what nobody knows
Keeps   halves and thirds stay fractions until they are rounded, as sympy means them; nothing of sympy is imported: its
        objects are known by the names of their classes
Cost    one array operation for each different sub-expression; equal ones are computed once

    TILE_M*floor($T0/64)/2 + Mod($T0, 16)         TILE_M = 64        array([0, 1, ..., 15, 0, ...]), 32 more in wave 1
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

# A numerator, or one for each thread, and its denominator.
Fraction = tuple[Any, int]
_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "StrictLessThan": np.less,
    "LessThan": np.less_equal,
    "StrictGreaterThan": np.greater,
    "GreaterThan": np.greater_equal,
    "Equality": np.equal,
    "Unequality": np.not_equal,
}
_TRUTH = {"BooleanTrue": True, "BooleanFalse": False}


class Numbers:
    """Evaluates expressions; `known` says what symbols stand for, which may be expressions again."""

    def __init__(self, known: Mapping[Any, Any]) -> None:
        self.known = known
        self.seen: dict[Any, Fraction | None] = {}

    def value(self, expr: Any) -> Any:
        """Whole numbers, or truth values; None if not known or not whole."""
        found = self.fraction(expr)
        if found is None:
            return None
        number, divisor = found
        if divisor == 1:
            return number
        return number // divisor if not np.any(number % divisor) else None

    def constant(self, expr: Any) -> int | None:
        """One whole number for all threads; None if there is none."""
        found = self.value(expr)
        if found is None:
            return None
        if isinstance(found, np.ndarray):
            first = found.flat[0]
            return int(first) if bool(np.all(found == first)) else None
        return int(found)

    def fraction(self, expr: Any) -> Fraction | None:
        if isinstance(expr, int | np.integer):
            return int(expr), 1
        if isinstance(expr, np.ndarray):
            return expr, 1
        try:
            return self.seen[expr]
        except KeyError:
            pass
        except TypeError:  # nothing that could be an expression
            return None
        self.seen[expr] = None  # a symbol that stands for itself is not known
        self.seen[expr] = found = self.compute(expr)
        return found

    def compute(self, expr: Any) -> Fraction | None:
        if expr in self.known:
            return self.fraction(self.known[expr])
        kind = type(expr).__name__
        if getattr(expr, "is_Rational", False):
            return int(expr.p), int(expr.q)
        if kind in _TRUTH:
            return _TRUTH[kind], 1
        if kind == "Piecewise":
            return self.piecewise(expr)
        if not getattr(expr, "args", ()):
            return None
        given = [self.fraction(each) for each in expr.args]
        known = [each for each in given if each is not None]
        return _combine(kind, known) if len(known) == len(given) else None

    def piecewise(self, expr: Any) -> Fraction | None:
        """The first that holds; at least the last must."""
        values: list[Fraction] = []
        conds: list[Any] = []
        for value, cond in expr.args:
            number, truth = self.fraction(value), self.fraction(cond)
            if number is None or truth is None:
                return None
            values.append(number)
            conds.append(truth[0])
        divisor = int(np.lcm.reduce([each for _, each in values]))
        found: Any = None
        covered: Any = False
        for (number, own), cond in reversed(list(zip(values, conds, strict=True))):
            scaled = number * (divisor // own)
            found = scaled if found is None else np.where(cond, scaled, found)
            covered = np.logical_or(covered, cond)
        return (found, divisor) if bool(np.all(covered)) else None


def _combine(kind: str, given: list[Fraction]) -> Fraction | None:
    if kind in _COMPARE:
        (left, right), _ = _same_divisor(given)
        return _COMPARE[kind](left, right), 1
    match kind:
        case "Add":
            numbers, divisor = _same_divisor(given)
            return _reduced(sum(numbers[1:], numbers[0]), divisor)
        case "Mul":
            number, divisor = given[0]
            for other, by in given[1:]:
                number, divisor = number * other, divisor * by
            return _reduced(number, divisor)
        case "floor":
            return given[0][0] // given[0][1], 1
        case "ceiling":
            return -((-given[0][0]) // given[0][1]), 1
        case "Mod":
            (number, by), divisor = _same_divisor(given)
            return _reduced(number % by, divisor) if np.all(by > 0) else None
        case "Min" | "Max":
            numbers, divisor = _same_divisor(given)
            pick = np.minimum if kind == "Min" else np.maximum
            found = numbers[0]
            for each in numbers[1:]:
                found = pick(found, each)
            return found, divisor
        case "Pow":
            return _power(*given)
        case "xor" | "Xor" if len(given) == 2 and all(by == 1 for _, by in given):
            return given[0][0] ^ given[1][0], 1
        case "Abs":
            return abs(given[0][0]), given[0][1]
        case "And" | "Or":
            join = np.logical_and if kind == "And" else np.logical_or
            found = given[0][0]
            for each, _ in given[1:]:
                found = join(found, each)
            return found, 1
        case "Not":
            return np.logical_not(given[0][0]), 1
    return None


def _same_divisor(given: list[Fraction]) -> tuple[list[Any], int]:
    divisors = {by for _, by in given}
    if len(divisors) == 1:
        return [number for number, _ in given], divisors.pop()
    divisor = int(np.lcm.reduce(list(divisors)))
    return [number * (divisor // by) for number, by in given], divisor


def _reduced(number: Any, divisor: int) -> Fraction:
    """Whole numbers as such: most divisions by a constant have no rest."""
    if divisor != 1 and not np.any(number % divisor):
        return number // divisor, 1
    return number, divisor


def _power(base: Fraction, exponent: Fraction) -> Fraction | None:
    power, number = exponent[0], base[0]
    if exponent[1] != 1 or isinstance(power, np.ndarray) or isinstance(number, np.ndarray):
        return None
    if power >= 0:
        return number**power, base[1] ** power
    return (base[1] ** -power, number**-power) if number > 0 else None


class Symbols(dict[Any, Any]):
    """What symbols stand for: threads by their names, all others by themselves."""

    def __init__(self, known: dict[Any, Any], threads: dict[str, Any]) -> None:
        super().__init__(known)
        self.threads = threads

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (getattr(key, "is_Symbol", False) and str(key) in self.threads)

    def __missing__(self, key: Any) -> Any:
        return self.threads[str(key)]
