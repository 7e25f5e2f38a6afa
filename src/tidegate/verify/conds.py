"""Conditions by number: sets of them are compared and joined all the time.

Needs   conditions in normal form
Gives   numbers for them, and back; what a condition says of one name
Keeps   equal conditions have one number
Cost    constant, once a condition is known
"""

from __future__ import annotations

from tidegate.footprint.arithmetic import negate
from tidegate.index import Binary, Compare, Cond, Const, Index, Name, Truth, names

Conds = frozenset[int]  # numbers of conditions, all of which hold
YES, NO = 0, 1  # what always holds, and what never does


class CondBook:
    """All conditions of one flow."""

    def __init__(self) -> None:
        self.conds: list[Cond] = []
        self.numbers: dict[Cond, int] = {}
        self.names: list[frozenset[str]] = []
        self.opposite: dict[int, int] = {}
        for cond in (Truth(True), Truth(False)):
            self.number(cond)

    def number(self, cond: Cond) -> int:
        found = self.numbers.get(cond)
        if found is None:
            found = self.numbers[cond] = len(self.conds)
            self.conds.append(cond)
            self.names.append(frozenset(names(cond)))
        return found

    def negation(self, number: int) -> int:
        found = self.opposite.get(number)
        if found is None:
            found = self.opposite[number] = self.number(negate(self.conds[number]))
        return found

    def about(self, number: int, base: str) -> bool:
        """Whether a condition is about an iteration, or one that is counted from it."""
        return any(base in name for name in self.names[number])


def equal_to(cond: Cond, name: str) -> Index | None:
    """What an iteration is equal to, by a condition in normal form."""
    match cond:
        case Compare("==", Name(found), Const() as value) if found == name:
            return value
        case Compare("==", Binary("+", Name(found), rest), Const(value)) if found == name:
            return _minus(rest, value)
    return None


def _minus(rest: Index, value: int) -> Index:
    """`name + rest == value`."""
    negative: Index = Binary("*", rest, Const(-1))
    return Binary("+", negative, Const(value)) if value else negative


def is_lower_bound(cond: Cond, name: str) -> bool:
    return isinstance(cond, Compare) and cond.op in (">=", ">") and cond.left == Name(name)
