"""Numbers that are one and the same in the whole run: partitions compute the same numbers again, each for itself.

Needs   the scalars of a function
Gives   `Fixed.first`: of all values that are computed alike from arguments and program ids, the first one
Keeps   two values with the same first one are equal in all waves; a value in a loop is never one of them
Cost    each value once

    %0 = tt.get_num_programs x           in one partition
    %7 = tt.get_num_programs x           in another one: %0
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.hosts.triton.values import Values

MOST_DEPTH = 24
_PURE = frozenset(
    "addi subi muli divsi divui remsi remui ceildivsi ceildivui floordivsi maxsi minsi extsi extui trunci".split()
)
_OF_THE_GRID = ("tt.get_program_id", "tt.get_num_programs")

Key = tuple[object, ...]


class Fixed:
    """Those of one function. `outside_loops`: values that are made once at most."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.outside_loops: set[str] = set()
        self.keys: dict[str, Key | None] = {}
        self.firsts: dict[Key, str] = {}

    def first(self, value: str) -> str:
        """The first value that is computed in this way; the value itself if nobody knows how it is."""
        known = value in self.outside_loops and value not in self.values.apart
        key = self.key(value) if known else None
        return value if key is None else self.firsts.setdefault(key, value)

    def key(self, value: str, depth: int = 0) -> Key | None:
        """How a value is computed; None if that may be another number each time, or in each wave."""
        if value not in self.keys:
            self.keys[value] = None  # on the way round a cycle
            self.keys[value] = self.find(value, depth)
        return self.keys[value]

    def find(self, value: str, depth: int) -> Key | None:
        values = self.values
        if depth > MOST_DEPTH or value in values.apart:
            return None
        if value in values.outside:
            return ("argument", value)
        if value in values.arguments:
            captured = values.captured.get(value)
            return None if captured is None else self.key(captured, depth + 1)
        if value not in values.made:
            return None
        op, number = values.made[value]
        if op.name == "arith.constant":
            return (op.name, op.attribute("value"), *op.result_types)
        if op.name in _OF_THE_GRID and len(op.results) == 1:
            return (op.name, op.attribute("axis"))
        if op.name.removeprefix("arith.") not in _PURE or not op.name.startswith("arith.") or number:
            return None
        parts = [self.key(each, depth + 1) for each in op.operands]
        return None if None in parts else (op.name, *op.operand_types, *op.result_types, *parts)
