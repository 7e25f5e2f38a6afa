"""Index expressions as functions on arrays, exact for quotients.

Needs   a SymPy expression over named symbols: sums, products, quotients, powers, floor, ceiling, Mod, Min, Max,
        Piecewise, comparisons, and, or, not, and Wave's `xor`
Gives   a `Compiled`: its symbols, and a function from their values (numbers or integer arrays) to an array
Keeps   no quotient is rounded: each value is a numerator and a denominator until a floor, a Mod or the end; what is
        not known raises `CannotRun`
Cost    one walk over the expression when it is compiled; one array operation for each of its operations when it is run
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import sympy

Values = Mapping[str, Any]


class CannotRun(Exception):
    """The machine does not know what an operation does; the text names the operation and says why."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """An expression that can be evaluated."""

    symbols: tuple[str, ...]
    evaluate: Callable[[Values], Any]


COMPARED = {
    sympy.Eq: "==",
    sympy.Ne: "!=",
    sympy.StrictLessThan: "<",
    sympy.LessThan: "<=",
    sympy.StrictGreaterThan: ">",
    sympy.GreaterThan: ">=",
}


@lru_cache(maxsize=100_000)
def compile_expression(expression: Any) -> Compiled:
    """Numbers are expressions too."""
    expression = sympy.sympify(expression)
    symbols = tuple(sorted(symbol.name for symbol in expression.free_symbols))
    if isinstance(expression, sympy.logic.boolalg.Boolean) and not expression.is_Symbol:
        body = truth(expression)
    else:
        above, below = fraction(expression)
        body = above if below == "1" else f"divided({above}, {below})"
    names = {"np": np, "divided": divided}
    function = eval(f"lambda value: {body}", names)  # made of the words below only
    return Compiled(symbols, function)


def divided(above: Any, below: Any) -> Any:
    """What is used as an index must be whole."""
    if np.any(above % below):
        raise CannotRun("an index is not a whole number")
    return above // below


def fraction(expression: Any) -> tuple[str, str]:
    """Numerator and denominator, as Python text; the denominator is positive."""
    if expression.is_Integer:
        return str(int(expression)), "1"
    if expression.is_Rational:
        return str(int(expression.p)), str(int(expression.q))
    if expression.is_Symbol:
        return f"value[{expression.name!r}]", "1"
    if expression.is_Add:
        return added([fraction(part) for part in expression.args])
    if expression.is_Mul:
        parts = [fraction(part) for part in expression.args]
        return times([above for above, _ in parts]), times([below for _, below in parts])
    if expression.is_Pow and expression.exp.is_Integer:
        above, below = fraction(expression.base)
        count = abs(int(expression.exp))
        above, below = times([above] * count), times([below] * count)
        return (above, below) if expression.exp > 0 else (below, above)
    if isinstance(expression, sympy.Piecewise):
        return chosen(expression)
    return called(expression)


def called(expression: Any) -> tuple[str, str]:
    """Functions of one or more numbers."""
    parts = [fraction(part) for part in expression.args]
    if isinstance(expression, sympy.floor):
        above, below = parts[0]
        return (above, "1") if below == "1" else (f"({above} // {below})", "1")
    if isinstance(expression, sympy.ceiling):
        above, below = parts[0]
        return (above, "1") if below == "1" else (f"-(-{above} // {below})", "1")
    if isinstance(expression, sympy.Mod):
        (above, below), (by_above, by_below) = parts
        return f"(({times([above, by_below])}) % ({times([by_above, below])}))", times([below, by_below])
    if isinstance(expression, (sympy.Max, sympy.Min)):
        name = "np.maximum" if isinstance(expression, sympy.Max) else "np.minimum"
        below = times([one for _, one in parts])
        text = times([parts[0][0], *(other for _, other in parts[1:])])
        for place, (above, _) in enumerate(parts[1:], 1):
            others = [one for number, (_, one) in enumerate(parts) if number != place]
            text = f"{name}({text}, {times([above, *others])})"
        return text, below
    if type(expression).__name__ == "xor" and all(below == "1" for _, below in parts):
        return f"(({parts[0][0]}) ^ ({parts[1][0]}))", "1"
    raise CannotRun(f"an index uses `{type(expression).__name__}`")


def added(parts: list[tuple[str, str]]) -> tuple[str, str]:
    """A sum over the product of all denominators that are not 1."""
    bottoms = sorted({below for _, below in parts if below != "1"})
    terms = [times([above, *(other for other in bottoms if other != below)]) for above, below in parts]
    return "(" + " + ".join(terms) + ")", times(list(bottoms))


def times(parts: list[str]) -> str:
    """A product, without factors of one."""
    kept = [part for part in parts if part != "1"]
    return "(" + " * ".join(f"({part})" for part in kept) + ")" if kept else "1"


def chosen(expression: Any) -> tuple[str, str]:
    """The first piece whose condition holds."""
    pieces = [(fraction(piece), truth(condition)) for piece, condition in expression.args]
    below = times([bottom for (_, bottom), _ in pieces])
    text = "0"
    for place, ((above, _), condition) in reversed(list(enumerate(pieces))):
        others = [bottom for number, ((_, bottom), _) in enumerate(pieces) if number != place]
        text = f"np.where({condition}, {times([above, *others])}, {text})"
    return text, below


def truth(expression: Any) -> str:
    """A condition, as Python text."""
    if expression in (sympy.true, sympy.false):
        return "True" if expression == sympy.true else "False"
    if expression.is_Symbol:
        return f"(value[{expression.name!r}] != 0)"
    if type(expression) in COMPARED:
        (left, under), (right, below) = (fraction(part) for part in expression.args)
        return f"({times([left, below])} {COMPARED[type(expression)]} {times([right, under])})"
    if isinstance(expression, sympy.Not):
        return f"np.logical_not({truth(expression.args[0])})"
    if isinstance(expression, (sympy.And, sympy.Or)):
        joined = " & " if isinstance(expression, sympy.And) else " | "
        return "(" + joined.join(truth(part) for part in expression.args) + ")"
    raise CannotRun(f"a condition uses `{type(expression).__name__}`")
