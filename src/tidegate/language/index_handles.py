"""Index expressions and conditions as Python objects: operators on them build expressions.

Needs   whole numbers, sizes, counters and the other handles
Gives   `IndexHandle`, `SizeHandle`, `CondHandle`; indices and conditions from what a user passed
Keeps   nothing is recorded here: an expression is recorded where it is used
"""

from __future__ import annotations

import operator
from typing import Any, NoReturn

from tidegate import index as ix
from tidegate.language import types
from tidegate.language.builder import reject
from tidegate.language.handles import Handle
from tidegate.language.lexer import MAX_DIGITS
from tidegate.language.ops import Operand
from tidegate.language.unusable import refuse


class IndexHandle:
    """An index expression. It is recorded where it is used."""

    __slots__ = ("expr",)
    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None

    def __init__(self, expr: ix.Index) -> None:
        self.expr = expr

    def __repr__(self) -> str:
        return f"<index {ix.show(self.expr)}>"

    def __bool__(self) -> bool:
        reject(
            "TG012",
            f"`{ix.show(self.expr)}` has no truth value while a kernel is traced",
            "use `with tidegate.conditional(...)` for a condition of the kernel",
        )

    def __index__(self) -> int:
        found = ix.constant(self.expr)
        if found is None:
            reject(
                "TG012",
                f"`{ix.show(self.expr)}` is not known while a kernel is traced",
                "use `for k in tidegate.iterate(...)` for a loop of the kernel",
            )
        return found

    def _with(self, op: str, other: Any) -> Any:
        if _is_tile(other):
            return NotImplemented
        return IndexHandle(ix.combine(op, self.expr, to_index(other)))

    def _from(self, op: str, other: Any) -> Any:
        if _is_tile(other):
            return NotImplemented
        return IndexHandle(ix.combine(op, to_index(other), self.expr))

    def _compare(self, op: str, other: Any) -> Any:
        if _is_tile(other):
            return NotImplemented
        return CondHandle(ix.Compare(op, self.expr, to_index(other)))

    def __add__(self, other: Any) -> Any:
        return self._with("+", other)

    def __radd__(self, other: Any) -> Any:
        return self._from("+", other)

    def __sub__(self, other: Any) -> Any:
        return self._with("-", other)

    def __rsub__(self, other: Any) -> Any:
        return self._from("-", other)

    def __mul__(self, other: Any) -> Any:
        return self._with("*", other)

    def __rmul__(self, other: Any) -> Any:
        return self._from("*", other)

    def __floordiv__(self, other: Any) -> Any:
        return self._with("//", other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._from("//", other)

    def __truediv__(self, other: Any) -> Any:
        return NotImplemented if _is_tile(other) else _reject_bits("/", "use `//`, which rounds down")

    def __mod__(self, other: Any) -> Any:
        return self._with("mod", other)

    def __rmod__(self, other: Any) -> Any:
        return self._from("mod", other)

    def __and__(self, other: Any) -> Any:
        """`x & 7` is `x mod 8`."""
        return NotImplemented if _is_tile(other) else self % _power_of_mask(other)

    __rand__ = __and__

    def __rshift__(self, other: Any) -> Any:
        """`x >> 3` is `x // 8`."""
        return NotImplemented if _is_tile(other) else self // _power(">>", other)

    def __lshift__(self, other: Any) -> Any:
        """`x << 3` is `x * 8`."""
        return NotImplemented if _is_tile(other) else self * _power("<<", other)

    def __or__(self, other: Any) -> Any:
        help = "add what has no bits in common, as in `x * 2 + 1`"
        return NotImplemented if _is_tile(other) else _reject_bits("|", help)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Any:
        return self._with("xor", other)

    def __rxor__(self, other: Any) -> Any:
        return self._from("xor", other)

    def __neg__(self) -> Any:
        return self._from("-", 0)

    def __lt__(self, other: Any) -> Any:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Any:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Any:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> Any:
        return self._compare(">=", other)

    def __eq__(self, other: Any) -> Any:
        return self._compare("==", other)

    def __ne__(self, other: Any) -> Any:
        return self._compare("!=", other)


class SizeHandle(IndexHandle):
    """A size parameter, with the value it has when nobody says otherwise."""

    __slots__ = ("default", "name")

    def __init__(self, name: str, default: int) -> None:
        super().__init__(ix.Name(name))
        self.name, self.default = name, default


class CondHandle:
    """A condition. Join conditions with `&`, `|`, `^`, `~`, `==` and `!=`."""

    __slots__ = ("cond",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, cond: ix.Cond) -> None:
        self.cond = cond

    def __repr__(self) -> str:
        return f"<condition {ix.show(self.cond)}>"

    def __bool__(self) -> bool:
        reject(
            "TG012",
            f"`{ix.show(self.cond)}` is not known while a kernel is traced",
            "use `with tidegate.conditional(...)`, and `&`, `|`, `~` for `and`, `or`, `not`",
        )

    def __and__(self, other: Any) -> CondHandle:
        return CondHandle(ix.Logic("and", self.cond, to_cond(other)))

    def __rand__(self, other: Any) -> CondHandle:
        return CondHandle(ix.Logic("and", to_cond(other), self.cond))

    def __or__(self, other: Any) -> CondHandle:
        return CondHandle(ix.Logic("or", self.cond, to_cond(other)))

    def __ror__(self, other: Any) -> CondHandle:
        return CondHandle(ix.Logic("or", to_cond(other), self.cond))

    def __invert__(self) -> CondHandle:
        return CondHandle(ix.Not(self.cond))

    def __xor__(self, other: Any) -> CondHandle:
        """Exactly one of the two."""
        mine, theirs = self.cond, to_cond(other)
        if isinstance(theirs, ix.Truth):
            return ~self if theirs.value else self
        return CondHandle(ix.Logic("or", _both(mine, ix.Not(theirs)), _both(ix.Not(mine), theirs)))

    __rxor__ = __xor__

    def __ne__(self, other: Any) -> CondHandle:  # type: ignore[override]
        return self.__xor__(other)

    def __eq__(self, other: Any) -> CondHandle:  # type: ignore[override]
        """Both or neither."""
        mine, theirs = self.cond, to_cond(other)
        if isinstance(theirs, ix.Truth):
            return self if theirs.value else ~self
        return CondHandle(ix.Logic("or", _both(mine, theirs), _both(ix.Not(mine), ix.Not(theirs))))


def _is_tile(item: Any) -> bool:
    """A tile repeats an index in all its elements: the operator is left to it."""
    return isinstance(item, Handle) and isinstance(item.type, types.Tile)


def _both(left: ix.Cond, right: ix.Cond) -> ix.Cond:
    return ix.Logic("and", left, right)


def _power_of_mask(mask: Any) -> int:
    number = ix.constant(to_index(mask))
    if number is None or number < 0 or number & (number + 1):
        _reject_bits("&", "`x & 7` is `x % 8`: the mask is one less than a power of two")
    return number + 1


def _power(op: str, bits: Any) -> int:
    number = ix.constant(to_index(bits))
    if number is None or not 0 <= number < 64:
        _reject_bits(op, "`x << 3` is `x * 8` and `x >> 3` is `x // 8`: shift by a number that is known, 0 to 63")
    return int(1 << number)


def _reject_bits(op: str, help: str) -> NoReturn:
    reject("TG012", f"`{op}` of these is not an index expression", help)


def as_number(item: Any) -> int | None:
    """The whole number that a Python object is, if it is one: an `int`, or what has `__index__`; not `True`."""
    if isinstance(item, Handle | IndexHandle | bool):
        return None
    try:
        return operator.index(item)
    except TypeError:
        return None


def to_index(item: Any) -> ix.Index:
    """An index from what a user passed."""
    if isinstance(item, IndexHandle):
        return item.expr
    number = as_number(item)
    if number is None:
        reject("TG012", f"an index cannot be made of `{item!r}`")
    if abs(number) >= 10**MAX_DIGITS:
        reject("TG016", "an index is beyond what a kernel can say", f"use at most {MAX_DIGITS} digits")
    return ix.Const(number)


def to_cond(item: Any) -> ix.Cond:
    refuse(item)
    if isinstance(item, CondHandle):
        return item.cond
    if isinstance(item, bool):
        return ix.Truth(item)
    reject("TG012", f"a condition cannot be made of `{item!r}`", "compare something, as in `wave < 2`")


def to_operand(item: Any) -> Operand:
    """What can be carried: a handle's value, or an index."""
    return item.value if isinstance(item, Handle) else to_index(item)
