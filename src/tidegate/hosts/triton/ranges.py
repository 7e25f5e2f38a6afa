"""Between which numbers scalars of TTGIR lie: signs, bits, and whether a sum fits its type.

Needs   the scalars of a function
Gives   whether a value is never negative, whether it is 0 or 1, and its bounds
Keeps   a bound holds for every value that the program can reach, as long as sums of 32 and more bits fit their types;
        `may_overflow` tells whether an answer relied on that
Cost    linear in the operations that are asked about, up to a depth

    %b = arith.extui %a : i8 to i32         0 to 255
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.hosts.mlir.model import Operation, integer
from tidegate.hosts.triton.widths import NARROW, Range, fits, range_of, width_of, wrap_number
from tidegate.index import constant

if TYPE_CHECKING:
    from tidegate.hosts.triton.values import Values

MOST_DEPTH = 16  # of operations that ranges are computed through
_RANGED = frozenset("addi subi muli minsi maxsi remsi select extsi extui trunci index_cast index_castui".split())


class Ranges:
    """What is known of the scalars of one function."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.may_overflow = False  # whether a sum or a product was assumed to fit its type
        self.below_zero: dict[str, bool] = {}

    # --- signs ---

    def is_natural(self, value: str) -> bool:
        """Whether a number is never negative. What is asked about itself on the way round a loop is assumed to be."""
        if value not in self.below_zero:
            self.below_zero[value] = True
            self.below_zero[value] = self._is_natural(value)
            if not self.below_zero[value]:  # what relied on the assumption is asked again
                self.below_zero = {each: found for each, found in self.below_zero.items() if not found}
        return self.below_zero[value]

    def _is_natural(self, value: str) -> bool:
        if value in self.values.counters:
            lower, _, step = self.values.counters[value]
            wide = width_of(self.values.arguments[value].type) >= NARROW
            return self.is_natural(lower) and self.is_natural(step) and (wide or self.bounds(value)[0] >= 0)
        if value in self.values.results:
            return self.is_natural(self.values.results[value])
        if value in self.values.arguments:
            sources = self.values.arguments[value].sources
            return bool(sources) and all(map(self.is_natural, sources))
        if value not in self.values.made:
            return False
        op, _ = self.values.made[value]
        if width_of(op.result_types[0]) < NARROW:
            return self.bounds(value)[0] >= 0
        match op.name:
            case "arith.constant":
                return (number_of(op) or 0) >= 0
            case "tt.get_program_id" | "ttg.warp_id" | "rocdl.workitem.id.x" | "gpu.thread_id":
                return True
            case "arith.addi" | "arith.muli":
                natural = all(map(self.is_natural, op.operands))
                self.may_overflow |= natural and not fits(self.exact_bounds(op), width_of(op.result_types[0]))
                return natural
            case "arith.minsi" | "arith.divsi" | "arith.xori":
                return all(map(self.is_natural, op.operands))
            case "arith.remsi":
                return self.is_natural(op.operands[0])
            case "arith.remui":  # less than either, as numbers without a sign
                return any(map(self.is_natural, op.operands))
            case "arith.divui":
                by = constant(self.values.index(op.operands[1]))
                return self.is_natural(op.operands[0]) or (by is not None and by > 1)
            case "arith.maxsi":
                return any(map(self.is_natural, op.operands))
            case "arith.select":
                return all(map(self.is_natural, op.operands[1:]))
            case "arith.extui" | "arith.extsi" | "arith.trunci" | "arith.index_cast" | "arith.index_castui":
                before, after = width_of(op.operand_types[0]), width_of(op.result_types[0])
                if after > before and op.name in ("arith.extui", "arith.index_castui"):
                    return True
                if before == 1 or (after < before and not fits(self.bounds(op.operands[0]), after)):
                    return False
                return self.is_natural(op.operands[0])
        return False

    # --- ranges ---

    def bounds(self, value: str, depth: int = 0) -> Range:
        """Between which numbers a value lies; where nothing says more, those of its type."""
        whole = range_of(width_of(self.values.type_of(value)) or NARROW)
        if depth > MOST_DEPTH:
            return whole
        if value in self.values.counters:
            (low, _), (_, high) = (self.bounds(each, depth + 1) for each in self.values.counters[value][:2])
            _, most = self.bounds(self.values.counters[value][2], depth + 1)
            grows = self.bounds(self.values.counters[value][2], depth + 1)[0] >= 0
            return (low, high - 1) if grows and high - 1 + most <= whole[1] and low < high else whole
        if value in self.values.arguments or value not in self.values.made:
            return whole
        op, number = self.values.made[value]
        found = self.exact_bounds(op, depth) if not number else whole
        return found if fits(found, width_of(self.values.type_of(value)) or NARROW) else whole

    def exact_bounds(self, op: Operation, depth: int = 0) -> Range:
        """The same for what an operation would give if its type had room for all numbers."""
        name = op.name.removeprefix("arith.")
        whole = range_of(width_of(op.result_types[0]) or NARROW)
        given = [self.bounds(each, depth + 1) for each in op.operands] if name in _RANGED else []
        match name, given:
            case "constant", _:
                number = number_of(op)
                return whole if number is None else (number, number)
            case "addi", [one, other]:
                return one[0] + other[0], one[1] + other[1]
            case "subi", _ if (rest := self.values.remainder(op)) is not None:
                return 0, rest[1] - 1
            case "subi", [one, other]:
                return one[0] - other[1], one[1] - other[0]
            case "muli", [one, other]:
                products = [a * b for a in one for b in other]
                return min(products), max(products)
            case "minsi", [one, other]:
                return min(one[0], other[0]), min(one[1], other[1])
            case "maxsi", [one, other]:
                return max(one[0], other[0]), max(one[1], other[1])
            case "remsi", [one, other] if other[0] > 0:
                return min(0, max(one[0], 1 - other[1])), max(0, min(one[1], other[1] - 1))
            case "select", [_, one, other]:
                return min(one[0], other[0]), max(one[1], other[1])
            case "extsi" | "trunci" | "index_cast", [one] if op.operand_types[0] != "i1":
                return one
            case "extui" | "index_castui", [one]:
                bits = width_of(op.operand_types[0])
                return one if one[0] >= 0 and bits > 1 else (0, (1 << bits) - 1)
        return whole

    def is_bit(self, value: str) -> bool:
        """Whether a number is 0 or 1: phases of barriers are. Assumed on the way round a loop, as for signs."""
        return self._is_bit(value, frozenset())

    def _is_bit(self, value: str, asked: frozenset[str]) -> bool:
        if value in asked:
            return True
        asked |= {value}
        if value in self.values.results:
            return self._is_bit(self.values.results[value], asked)
        if value in self.values.arguments:
            sources = self.values.arguments[value].sources
            return bool(sources) and all(self._is_bit(each, asked) for each in sources)
        if value not in self.values.made:
            return False
        op, _ = self.values.made[value]
        if op.name == "arith.constant":
            return number_of(op) in (0, 1)
        if op.name == "arith.andi":
            return any(self._is_bit(each, asked) for each in op.operands)
        if op.name in ("arith.xori", "arith.ori"):
            return all(self._is_bit(each, asked) for each in op.operands)
        if op.name == "arith.select":
            return all(self._is_bit(each, asked) for each in op.operands[1:])
        return op.name == "arith.extui" and op.operand_types[0] == "i1"


def number_of(op: Operation) -> int | None:
    """The value of a constant: text may say `255 : i8` for what is -1."""
    number, bits = integer(op.attribute("value") or ""), width_of(op.result_types[0])
    return wrap_number(number, bits) if number is not None and bits > 1 else number
