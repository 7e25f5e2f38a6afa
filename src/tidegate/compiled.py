"""Index expressions as functions of Python: where one expression is evaluated for many values.

Needs   expressions without `inexact`
Gives   a function from names to a number, or to whether a condition holds
Keeps   the same values as `index.evaluate` and `index.holds`, errors included
Cost    a compilation for each expression, remembered; then a tenth of what walking the tree takes
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, assert_never

from tidegate.index import Binary, Compare, Cond, Const, Flag, Index, Inexact, Logic, Name, Not, Select, Truth

WORDS = {"mod": "%", "xor": "^"}


@lru_cache(maxsize=50_000)
def to_function(expr: Index | Cond) -> Callable[[Mapping[str, int]], Any]:
    """The expression as a function of its names."""
    found: Callable[[Mapping[str, int]], Any] = eval(f"lambda e: {_text(expr)}", {"min": min, "max": max})
    return found


def _text(expr: Index | Cond) -> str:
    match expr:
        case Const(value) | Truth(value):
            return f"({value!r})"
        case Name(name) | Flag(name):
            return f"e[{name!r}]"
        case Binary(op, left, right) if op in ("min", "max"):
            return f"{op}({_text(left)}, {_text(right)})"
        case Binary(op, left, right):
            return f"({_text(left)} {WORDS.get(op, op)} {_text(right)})"
        case Compare(op, left, right):
            return f"({_text(left)} {op} {_text(right)})"
        case Logic(op, one, other):
            return f"({_text(one)} {op} {_text(other)})"
        case Not(inner):
            return f"(not {_text(inner)})"
        case Select(cond, then, otherwise):
            return f"({_text(then)} if {_text(cond)} else {_text(otherwise)})"
        case Inexact(index):
            return _text(index)
        case _:
            assert_never(expr)
