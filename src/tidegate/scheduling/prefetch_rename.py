"""Operations once more, under other names and for another iteration.

Needs   operations, and what their names stand for now
Gives   the same operations with names replaced, results included; `Names` makes names that nobody has
Keeps   types, order and spans; a number in an index that becomes known is computed, the rest is kept as written
Cost    linear in the operations

    with %k = %k + 1 and %g = %g_1

    %g = global_read %A[%k * 32]      becomes      %g_1 = global_read %A[(%k + 1) * 32]
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, assert_never

from tidegate.index import (
    COND_TYPES,
    INDEX_TYPES,
    ZERO,
    Binary,
    Compare,
    Cond,
    Const,
    Flag,
    Index,
    Inexact,
    Logic,
    Name,
    Not,
    Select,
    Truth,
    combine,
)
from tidegate.language.ops import Block, Carried, Group, Kernel, Op, Operand, Place, Value, results_of
from tidegate.language.types import INDEX
from tidegate.language.uses import names_in_kernel


@dataclass(slots=True)
class Names:
    """The names of a kernel, and more of them."""

    taken: set[str]

    def fresh(self, like: Value) -> Value:
        stem = re.sub(r"(?<=\w)_\d+$", "", like.name)
        number = 1
        while f"{stem}_{number}" in self.taken:
            number += 1
        self.taken.add(f"{stem}_{number}")
        return Value(f"{stem}_{number}", like.type)


def names_of(kernel: Kernel) -> Names:
    return Names(names_in_kernel(kernel))


@dataclass(slots=True)
class Rename:
    """What names stand for: values for values, and indices for those that occur in index expressions."""

    values: dict[str, Value] = field(default_factory=dict)
    indices: dict[str, Index] = field(default_factory=dict)

    def value(self, old: Value, new: Value) -> None:
        self.values[old.name] = new
        self.indices[old.name] = Name(new.name)

    def operand(self, old: Value, new: Operand) -> None:
        """As `value`; what a region hands on may also be an index expression."""
        if isinstance(new, Value):
            self.value(old, new)
        else:
            self.indices[old.name] = new

    def again(self, ops: Iterable[Op], names: Names) -> list[Op]:
        """Operations without regions a second time; their results have names of their own, unless they have them."""
        made: list[Op] = []
        for op in ops:
            for result in results_of(op):
                if result.name not in self.values:
                    self.value(result, names.fresh(result))
            made.append(self.of(op))
        return made

    def of(self, item: Any) -> Any:
        """Anything that occurs in an operation."""
        if isinstance(item, Value):
            return self.of_value(item)
        if isinstance(item, INDEX_TYPES):
            return self.index(item)
        if isinstance(item, COND_TYPES):
            return self.cond(item)
        if isinstance(item, tuple):
            return tuple(self.of(each) for each in item)
        if isinstance(item, Place | Block | Carried | Group | Op) and is_dataclass(item):
            new = {each.name: self.of(getattr(item, each.name)) for each in fields(item) if each.name != "at"}
            return replace(item, **new)
        return item

    def of_value(self, value: Value) -> Operand:
        if value.name in self.values:
            return self.values[value.name]
        return self.indices.get(value.name, value) if value.type == INDEX else value

    def index(self, index: Index) -> Index:
        match index:
            case Const():
                return index
            case Name(name):
                return self.indices.get(name, index)
            case Binary(op, left, right):
                new = (self.index(left), self.index(right))
                return index if new[0] is left and new[1] is right else fold(op, *new)
            case Select(cond, then, otherwise):
                return Select(self.cond(cond), self.index(then), self.index(otherwise))
            case Inexact(inner):
                return Inexact(self.index(inner))
            case _:
                assert_never(index)

    def cond(self, cond: Cond) -> Cond:
        match cond:
            case Truth():
                return cond
            case Flag(name):
                return Flag(self.values[name].name) if name in self.values else cond
            case Compare(op, left, right):
                return Compare(op, self.index(left), self.index(right))
            case Not(inner):
                return Not(self.cond(inner))
            case Logic(op, left, right):
                return Logic(op, self.cond(left), self.cond(right))
            case _:
                assert_never(cond)


def fold(op: str, left: Index, right: Index) -> Index:
    """`left op right`, numbers at its end put together: `%k + 1 + 2` is `%k + 3`. What is undone is left out."""
    if op == "-" and left == right:
        return ZERO
    match op, left, right:
        case ("-", Binary("+", start, more), _) if start == right:
            return more
        case ("//", Binary("*", start, by), Const(value)) if by == right and value > 0:
            return start
        case "+" | "-", Binary("+" | "-" as before, start, Const(first)), Const(second):
            total = (first if before == "+" else -first) + (second if op == "+" else -second)
            return combine("+" if total >= 0 else "-", start, Const(abs(total)))
    return combine(op, left, right)
