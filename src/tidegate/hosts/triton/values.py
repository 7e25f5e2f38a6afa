"""Scalars of TTGIR as index expressions: what slots, conditions and trip counts depend on.

Needs   a function, and which values somebody asks about
Gives   for each of them an `Index` or a `Cond` over names that the graph assigns: arguments of blocks, and numbers that
        nobody knows
Keeps   exact, or a name that may be anything: products of two numbers, division by what varies or of what may be
        negative, and everything read from memory are such names. Numbers of fewer than 32 bits wrap; wider ones are
        assumed not to overflow, but casts between widths are exact. A value on which waves or lanes need not agree is
        a name as well (`apart`), and never an expression
Cost    linear in the operations that are asked about

    %5 = arith.addi %arg3, %c1        %arg3 + 1
    %6 = arith.cmpi sge, %5, %c3      %arg3 + 1 >= 3
    %7 = arith.select %6, %c0, %5     select(%arg3 + 1 >= 3, 0, %arg3 + 1)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tidegate.hosts.mlir.model import Block, Operation
from tidegate.hosts.triton.fixed import Fixed
from tidegate.hosts.triton.ranges import Ranges, number_of
from tidegate.hosts.triton.widths import NARROW, fits, unsigned, width_of, wrap
from tidegate.index import (
    COND_TYPES,
    INDEX_TYPES,
    TRUE,
    ZERO,
    Binary,
    Compare,
    Cond,
    Const,
    Flag,
    Index,
    Logic,
    Name,
    Not,
    Select,
    Truth,
    combine,
    constant,
    walk,
)

SCALAR = re.compile(r"i\d+|index")
_PREDICATES = {
    0: "==", 1: "!=", 2: "<", 3: "<=", 4: ">", 5: ">=", 6: "<", 7: "<=", 8: ">", 9: ">=",
}  # fmt: skip
UNSIGNED = (6, 7, 8, 9)
_SIGNED_CASTS = ("arith.extsi", "arith.trunci", "arith.index_cast")
_CASTS = (*_SIGNED_CASTS, "arith.extui", "arith.index_castui")
_EQUALITY = (0, 1)  # predicates that mean the same of a bit, whether it counts as 1 or as -1
_SIMPLE = {"arith.addi": "+", "arith.subi": "-", "arith.minsi": "min", "arith.maxsi": "max"}
_DIVIDE = {
    "arith.divsi": "//", "arith.divui": "//", "arith.floordivsi": "//", "arith.remsi": "mod", "arith.remui": "mod",
}  # fmt: skip
MOST_NODES = 48
YIELDS = ("scf.yield", "ttg.warp_yield")  # end a region, with its results
_OTHER_SIGN = re.compile(r"[#.$-]")  # that the name of a value may have, and that of a graph may not, or not alike


def name_of(value: str) -> str:
    """The name in a graph for a value of the module; different values have different ones."""
    return _OTHER_SIGN.sub(lambda sign: "." if sign[0] == "#" else f".x{ord(sign[0]):x}", value)


def is_scalar(type_: str) -> bool:
    return SCALAR.fullmatch(type_) is not None


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a block, and what flows into it."""

    type: str
    sources: tuple[str, ...]


@dataclass(slots=True)
class Values:
    """The scalars of one function."""

    made: dict[str, tuple[Operation, int]] = field(default_factory=dict)  # value → its operation, which result
    arguments: dict[str, Argument] = field(default_factory=dict)
    outside: dict[str, str] = field(default_factory=dict)  # arguments of the function, with their types
    counters: dict[str, tuple[str, str, str]] = field(default_factory=dict)  # of loops → lower and upper bound, step
    results: dict[str, str] = field(default_factory=dict)  # results of loops → the argument that they end as
    known: dict[str, Index | Cond] = field(default_factory=dict)
    opaque: dict[str, str] = field(default_factory=dict)  # value → its type: a name that may be anything
    needed: set[str] = field(default_factory=set)  # arguments that expressions mention
    captured: dict[str, str] = field(default_factory=dict)  # argument of a partition → the value that it is
    apart: frozenset[str] = frozenset()  # values on which waves or lanes need not agree
    ranges: Ranges = field(init=False)
    fixed: Fixed = field(init=False)

    def __post_init__(self) -> None:
        self.ranges, self.fixed = Ranges(self), Fixed(self)

    def index(self, value: str) -> Index:
        """A number."""
        found = self.expression(value)
        if isinstance(found, COND_TYPES):
            return Select(found, Const(1), Const(0))
        return found

    def cond(self, value: str) -> Cond:
        """A truth."""
        found = self.expression(value)
        if isinstance(found, INDEX_TYPES):
            return Compare("!=", found, Const(0))
        return found

    def expression(self, value: str) -> Index | Cond:
        known = self.known.get(value)
        if known is None:
            self.known[value] = self.name(value)  # whatever asks on the way round a cycle gets a name
            known = self.known[value] = self.find(value)
            self.needed.update(self._arguments(known))
        return known

    def _arguments(self, found: Index | Cond) -> Iterator[str]:
        yield from (node.name for node in walk(found) if isinstance(node, Name | Flag))

    def find(self, value: str) -> Index | Cond:
        if value in self.arguments or value in self.outside or value in self.results:
            return self.name(value)
        if value not in self.made:
            return self.anything(value, "i32")
        op, _ = self.made[value]
        found = self.compute(op) if value not in self.apart else None
        if found is None or sum(1 for _ in walk(found)) > MOST_NODES:
            first = self.fixed.first(value)
            return self.expression(first) if first != value else self.anything(value, op.result_types[0])
        return found

    def name(self, value: str) -> Index | Cond:
        name = name_of(value)
        return Flag(name) if self.type_of(value) == "i1" else Name(name)

    def type_of(self, value: str) -> str:
        if value in self.arguments:
            return self.arguments[value].type
        if value in self.outside:
            return self.outside[value]
        if value in self.results:
            return self.type_of(self.results[value])
        if value in self.made:
            op, number = self.made[value]
            return op.result_types[number]
        return "i32"

    def anything(self, value: str, type_: str) -> Index | Cond:
        """A name that takes a new value whenever its operation is passed."""
        self.opaque[value] = type_
        return Flag(name_of(value)) if type_ == "i1" else Name(name_of(value))

    def compute(self, op: Operation) -> Index | Cond | None:
        name, operands = op.name, op.operands
        if name == "arith.constant":
            number = number_of(op)
            if number is None:
                return None
            return Truth(bool(number)) if op.result_types[0] == "i1" else Const(number)
        if name in _CASTS:
            return self.cast(op)
        if op.result_types[0] == "i1":
            return self.decide(op)
        if name == "arith.subi" and (rest := self.remainder(op)) is not None:
            return combine("mod", rest[0], Const(rest[1]))
        if name in _SIMPLE:
            return self.reduced(op, combine(_SIMPLE[name], self.index(operands[0]), self.index(operands[1])))
        if name == "arith.muli":
            left, right = self.index(operands[0]), self.index(operands[1])
            known = constant(left) is not None or constant(right) is not None
            return self.reduced(op, combine("*", left, right)) if known else None
        if name in _DIVIDE:
            left, by = self.index(operands[0]), constant(self.index(operands[1]))
            if by is None or by <= 0:
                return None
            found = combine(_DIVIDE[name], left, Const(by))
            if name == "arith.floordivsi" or self.ranges.is_natural(operands[0]):
                return found
            if name != "arith.remsi":
                return None
            # The remainder has the sign of what is divided.
            turned = combine("-", ZERO, combine("mod", combine("-", ZERO, left), Const(by)))
            return Select(Compare(">=", left, ZERO), found, turned)
        return self.decide(op)

    def remainder(self, op: Operation) -> tuple[Index, int] | None:
        """x and n of `x - x / n * n`, as compilers write a remainder where they have the quotient."""
        match self.index(op.operands[1]):
            case Binary("*", Binary("//", left, Const(by)), Const(times)) if by == times > 0:
                return (left, by) if self.index(op.operands[0]) == left else None
        return None

    def reduced(self, op: Operation, found: Index) -> Index:
        """A sum or a product as its type holds it. Of 32 bits and more it is assumed to fit."""
        bits = width_of(op.result_types[0])
        if fits(self.ranges.exact_bounds(op), bits):
            return found
        self.ranges.may_overflow |= bits >= NARROW
        return found if bits >= NARROW else wrap(found, bits)

    def cast(self, op: Operation) -> Index | Cond | None:
        """The number of another width. A wider one extends the sign, or does not; a narrower one keeps the low bits."""
        value, (before, after) = op.operands[0], (width_of(op.operand_types[0]), width_of(op.result_types[0]))
        if before == 1 and after > 1 and op.name in ("arith.extui", "arith.extsi"):
            return Select(self.cond(value), Const(1 if op.name == "arith.extui" else -1), Const(0))
        if before <= 1 or not after:  # a truth as a number, or a tensor
            return None
        found = self.index(value)
        if after == 1:
            return Compare("==", combine("mod", found, Const(2)), Const(1))
        if after < before:
            return found if fits(self.ranges.bounds(value), after) else wrap(found, after)
        if after == before or op.name in _SIGNED_CASTS or self.ranges.is_natural(value):
            return found
        return unsigned(found, before)

    def decide(self, op: Operation) -> Index | Cond | None:
        name, operands = op.name, op.operands
        if name == "arith.cmpi":
            number = op.integer("predicate")
            natural = number not in UNSIGNED or all(map(self.ranges.is_natural, operands))
            if number is None or number not in _PREDICATES or not natural or not is_scalar(op.operand_types[0]):
                return None
            if op.operand_types[0] == "i1" and number not in _EQUALITY:
                return None
            return Compare(_PREDICATES[number], self.index(operands[0]), self.index(operands[1]))
        if name == "arith.select" and op.operand_types[0] == "i1":
            cond = self.cond(operands[0])
            if op.result_types[0] == "i1":
                then, otherwise = self.cond(operands[1]), self.cond(operands[2])
                return Logic("or", Logic("and", cond, then), Logic("and", Not(cond), otherwise))
            return Select(cond, self.index(operands[1]), self.index(operands[2]))
        if name == "arith.andi" and op.result_types[0] != "i1":
            return self.masked(operands)
        if name in ("arith.andi", "arith.muli", "arith.ori") and op.result_types[0] == "i1":
            return Logic("or" if name == "arith.ori" else "and", self.cond(operands[0]), self.cond(operands[1]))
        if name in ("arith.xori", "arith.addi", "arith.subi") and op.result_types[0] == "i1":
            left, right = self.cond(operands[0]), self.cond(operands[1])
            if right == TRUE:
                return Not(left)
            return Logic("or", Logic("and", left, Not(right)), Logic("and", Not(left), right))
        if name == "arith.xori" and self.ranges.is_bit(operands[0]) and self.ranges.is_bit(operands[1]):
            return Select(Compare("==", self.index(operands[0]), self.index(operands[1])), Const(0), Const(1))
        return None

    def masked(self, operands: tuple[str, ...]) -> Index | None:
        """The lowest bits of a number are its remainder, whatever its sign."""
        for value, mask in (operands, operands[::-1]):
            bits = constant(self.index(mask))
            if bits is not None and bits >= 0 and bits & (bits + 1) == 0:
                return combine("mod", self.index(value), Const(bits + 1))
        return None


# --- where values come from ---------------------------------------------------------------------------------------


def values_of(function: Operation) -> Values:
    """All scalars of a function, and what flows into the arguments of its blocks."""
    values = Values()
    entry = function.regions[0].blocks[0]
    values.outside.update(entry.arguments)
    for region in function.regions:
        _collect(values, region.blocks, in_loop=False)
    return values


def _collect(values: Values, blocks: Iterable[Block], *, in_loop: bool) -> None:
    blocks = tuple(blocks)
    in_loop |= len(blocks) > 1
    flows: dict[str, list[tuple[str, ...]]] = {}
    for block in blocks:
        for op in block.operations:
            for number, result in enumerate(op.results):
                values.made[result] = (op, number)
                if not in_loop:
                    values.fixed.outside_loops.add(result)
            for label, given in jumps(op):
                flows.setdefault(label, []).append(given)
            _structured(values, op)
            for region in op.regions:
                _collect(values, region.blocks, in_loop=in_loop or op.name in ("scf.for", "scf.while"))
    for block in blocks:
        for number, (name, type_) in enumerate(block.arguments):
            if name not in values.arguments and name not in values.outside:
                sources = tuple(given[number] for given in flows.get(block.label, ()) if number < len(given))
                values.arguments[name] = Argument(type_, sources)


def jumps(op: Operation) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Where a terminator of the `cf` dialect goes, and what it hands over."""
    if op.name == "cf.br":
        yield op.successors[0], op.operands
    elif op.name == "cf.cond_br":
        _, then, otherwise = op.segments
        yield op.successors[0], then
        yield op.successors[1], otherwise


def _structured(values: Values, op: Operation) -> None:
    """Arguments and results of loops and conditionals."""
    if op.name == "scf.for":
        block = op.regions[0].blocks[0]
        yielded = block.operations[-1].operands
        counter = block.arguments[0]
        values.counters[counter[0]] = (op.operands[0], op.operands[1], op.operands[2])
        values.arguments[counter[0]] = Argument(counter[1], ())
        for number, (name, type_) in enumerate(block.arguments[1:]):
            values.arguments[name] = Argument(type_, (op.operands[3 + number], yielded[number]))
            values.results[op.results[number]] = name
    elif op.name == "scf.while":
        before, after = op.regions[0].blocks[0], op.regions[1].blocks[0]
        tested, yielded = before.operations[-1].operands[1:], after.operations[-1].operands
        for number, (name, type_) in enumerate(before.arguments):
            values.arguments[name] = Argument(type_, (op.operands[number], yielded[number]))
        for number, (name, type_) in enumerate(after.arguments):
            values.arguments[name] = Argument(type_, (tested[number],))
        for number, result in enumerate(op.results):
            values.arguments[result] = Argument(op.result_types[number], (tested[number],))
    elif op.name in ("scf.if", "scf.index_switch") and op.results:
        arms = [region.blocks[0].operations[-1].operands for region in op.regions if region.blocks]
        for number, result in enumerate(op.results):
            values.arguments[result] = Argument(op.result_types[number], tuple(arm[number] for arm in arms))
    elif op.name == "ttg.warp_specialize.partitions":
        for region in op.regions:
            for (name, type_), captured in zip(region.blocks[0].arguments, op.operands, strict=False):
                values.arguments[name] = Argument(type_, (captured,))
                values.captured[name] = captured
    elif op.name in ("scf.execute_region", "ttg.warp_specialize"):
        ends = [last.operands for block in op.regions[0].blocks if (last := block.operations[-1]).name in YIELDS]
        for number, result in enumerate(op.results):
            values.arguments[result] = Argument(op.result_types[number], tuple(given[number] for given in ends))
