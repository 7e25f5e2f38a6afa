"""What users pass to the functions of the Python form: numbers, element types, flags, functions to trace.

Needs   an argument and what it is for
Gives   the argument in the form that operations hold, or a finding at the line that passed it
Keeps   `True` is no number; a number that the text cannot say is no number of a kernel
Cost    constant
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, NoReturn

from tidegate.language.builder import Builder, reject, span_of_line
from tidegate.language.index_handles import as_number
from tidegate.language.lexer import MAX_DIGITS
from tidegate.language.types import DType, Type, why_no_type

MOST = 10**MAX_DIGITS - 1


def whole(item: Any, what: str, low: int = -MOST) -> int:
    """A whole number that is at least `low`; `what` names it, as in "the number of waves"."""
    number = as_number(item)
    if number is None:
        reject("TG012", f"{what} cannot be `{item!r}`", "give a whole number")
    if not low <= number <= MOST:
        limit = f"it is at least {low}" if number < low else f"use at most {MAX_DIGITS} digits"
        reject("TG016", f"{what} cannot be {_short(number)}", limit)
    return number


def flag(item: Any, what: str) -> bool:
    """`True` or `False`: any other text would count as true."""
    if type(item).__name__ not in ("bool", "bool_"):
        reject("TG012", f"`{what}` cannot be `{item!r}`", "give `True` or `False`")
    return bool(item)


def word(item: Any, what: str) -> str:
    if not isinstance(item, str):
        reject("TG012", f"{what} cannot be `{item!r}`", "give a text")
    return item


def element_type(item: Any) -> DType:
    if not isinstance(item, DType):
        reject("TG005", f"`{item!r}` is not an element type", "use one of Tidegate's, such as `tidegate.f16`")
    return item


def sayable(type_: Type) -> Type:
    """The type, if the text can say it."""
    reason = why_no_type(type_)
    if reason:
        reject("TG005", reason)
    return type_


def _short(number: int) -> str:
    """Python refuses to print numbers of thousands of digits."""
    return str(number) if abs(number) < 10**40 else "a number of more than 40 digits"


def traceable(function: Any) -> Callable[..., Any]:
    """The function, if calling it runs all of its body."""
    if not isinstance(function, FunctionType):
        kind = "a class" if inspect.isclass(function) else f"a `{type(function).__name__}`"
        reject("TG007", f"a kernel is made of a function, not of {kind}", "define it with `def`")
    if hasattr(function, "__wrapped__"):
        _refuse(
            function,
            "is wrapped by another decorator, whose own code would not be traced",
            "put the decorator of Tidegate right above `def`",
        )
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        _refuse(function, "is `async`: calling it runs nothing, so there is nothing to trace", "define it with `def`")
    if inspect.isgeneratorfunction(function):
        _refuse(
            function,
            "has a `yield`: calling it runs nothing, so there is nothing to trace",
            "remove the `yield`; results go to memory by `tidegate.global_write`",
        )
    return function


def _refuse(function: FunctionType, reason: str, help: str) -> NoReturn:
    at = span_of_line(function.__code__.co_filename, function.__code__.co_firstlineno)
    reject("TG007", f"`{function.__name__}` {reason}", help, at=at)


def check_whole(builder: Builder, name: str, returned: Any, at: Any) -> None:
    """The function has run to its end, and everything that it did is recorded."""
    if builder.stopped is not None:
        raise builder.stopped
    for what, where in builder.unentered.values():
        reject("TG007", f"this {what} is never entered", f"use it where it is made, as in `{_ENTERED[what]}`", at=where)
    if returned is not None:
        help = "a kernel has no result; store it with `tidegate.global_write`"
        reject("TG014", f"`{name}` returns `{returned!r}`", help, at=at)
    if not builder.stack[0]:
        reject("TG007", f"`{name}` records no operation", "call functions of Tidegate in its body", at=at)


_ENTERED = {
    "loop": "for k in tidegate.iterate(n):",
    "conditional": "with tidegate.conditional(wave == 0):",
    "wave group": "with tidegate.wave_group(0, 2):",
}
