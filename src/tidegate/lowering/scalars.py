"""Index expressions and conditions as instructions.

Needs   what each name of the program is: a number, or a register
Gives   i32 and i1 values; by what power of two a value can be divided, and whether it can be negative
Keeps   `//` and `mod` round towards minus infinity; a division by 0 gives 0. Numbers are taken to fit into 32 bits
Cost    linear in the expression
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import gcd
from typing import assert_never

from tidegate.index import (
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
    constant,
    walk,
)
from tidegate.lowering.ir import IrWriter, Scalar

SIGNED = {"<": "slt", "<=": "sle", "==": "eq", "!=": "ne", ">=": "sge", ">": "sgt"}
LARGEST = 1 << 30  # what zero can be divided by


@dataclass(frozen=True, slots=True)
class KnownFacts:
    """What is known of a value: a power of two that divides it, and whether it is never negative."""

    divisor: int = 1
    is_natural: bool = False


@dataclass(slots=True)
class Scalars:
    """`values`: what names stand for; `facts`: what is known of them."""

    w: IrWriter
    values: dict[str, Scalar] = field(default_factory=dict)
    facts: dict[str, KnownFacts] = field(default_factory=dict)
    turning: dict[tuple[str, int], str] = field(
        default_factory=dict
    )  # counter, modulus → its rest, kept from trip to trip

    def index(self, index: Index, own: Mapping[str, Scalar] | None = None) -> Scalar:
        """`own`: names that stand for something else here, such as the elements of a tile."""
        w = self.w
        match index:
            case Const(value):
                return value
            case Name(name):
                return own[name] if own and name in own else self.values[name]
            case Inexact(inner):
                return self.index(inner, own)
            case Select(cond, then, otherwise):
                test, a, b = self.cond(cond, own), self.index(then, own), self.index(otherwise, own)
                return a if test == "true" else b if test == "false" else w.once(f"select i1 {test}, i32 {a}, i32 {b}")
            case Binary("mod", left, Const(many)) if not own and (found := self.turned(left, many)) is not None:
                return found
            case Binary(op, left, right):
                a, b = self.index(left, own), self.index(right, own)
                return self.binary(op, a, b, self.known(left).is_natural and not own)
        assert_never(index)

    def turned(self, index: Index, many: int) -> Scalar | None:
        """`(%k + 2) mod 3` where the rest of `%k` is kept: no division, and whoever reads it sees a slot go round."""
        name, more = _counter_of(index)
        rest = self.turning.get((name, many))
        if rest is None:
            return None
        moved = self.w.int("add", rest, more % many)
        if more % many == 0:
            return moved
        back = self.w.int("sub", moved, many)
        return self.w.once(f"select i1 {self.w.compare('sge', moved, many)}, i32 {back}, i32 {moved}")

    def binary(self, op: str, a: Scalar, b: Scalar, is_natural: bool) -> Scalar:
        w = self.w
        if op in ("+", "-", "*", "xor"):
            return w.int({"+": "add", "-": "sub", "*": "mul", "xor": "xor"}[op], a, b)
        if op in ("min", "max"):
            if isinstance(a, int) and isinstance(b, int):
                return min(a, b) if op == "min" else max(a, b)
            return w.call("i32", f"llvm.s{op}.i32", (("i32", a), ("i32", b)))
        if isinstance(b, int) and b > 0:
            if isinstance(a, int):
                return a // b if op == "//" else a % b
            if b & (b - 1) == 0:
                return w.int("ashr", a, b.bit_length() - 1) if op == "//" else w.int("and", a, b - 1)
            if is_natural:
                return w.once(f"{'udiv' if op == '//' else 'urem'} i32 {a}, {b}")
        return self.rounded_down(op, a, b)

    def rounded_down(self, op: str, a: Scalar, b: Scalar) -> Scalar:
        """Any divisor: what the hardware rounds towards zero is put right, and a divisor 0 gives 0."""
        w = self.w
        is_zero = w.compare("eq", b, 0)
        by = w.once(f"select i1 {is_zero}, i32 1, i32 {b}")
        quotient, rest = w.once(f"sdiv i32 {a}, {by}"), w.once(f"srem i32 {a}, {by}")
        parted = w.both((w.compare("ne", rest, 0), w.compare("slt", w.int("xor", rest, by), 0)))
        if op == "//":
            found: Scalar = w.once(f"select i1 {parted}, i32 {w.int('sub', quotient, 1)}, i32 {quotient}")
        else:
            found = w.once(f"select i1 {parted}, i32 {w.int('add', rest, by)}, i32 {rest}")
        return w.once(f"select i1 {is_zero}, i32 0, i32 {found}")

    def cond(self, cond: Cond, own: Mapping[str, Scalar] | None = None) -> str:
        """An i1, or `true` or `false`."""
        w = self.w
        match cond:
            case Truth(value):
                return "true" if value else "false"
            case Flag(name):
                return str(own[name] if own and name in own else self.values[name])
            case Compare(op, left, right):
                return w.compare(SIGNED[op], self.index(left, own), self.index(right, own))
            case Not(inner):
                return w.once(f"xor i1 {self.cond(inner, own)}, true")
            case Logic(op, left, right):
                return w.once(f"{op} i1 {self.cond(left, own)}, {self.cond(right, own)}")
        assert_never(cond)

    # --- what is known without running ---

    def known(self, index: Index) -> KnownFacts:
        match index:
            case Const(value):
                return KnownFacts(value & -value if value else LARGEST, value >= 0)
            case Name(name):
                return self.facts.get(name, KnownFacts())
            case Inexact(inner):
                return self.known(inner)
            case Select(_, then, otherwise):
                return _either(self.known(then), self.known(otherwise))
            case Binary(op, left, right):
                return self._of_binary(op, self.known(left), self.known(right), constant(right))
        assert_never(index)

    def _of_binary(self, op: str, a: KnownFacts, b: KnownFacts, by: int | None) -> KnownFacts:
        both = a.is_natural and b.is_natural
        match op:
            case "+" | "xor":
                return KnownFacts(gcd(a.divisor, b.divisor), both)
            case "-":
                return KnownFacts(gcd(a.divisor, b.divisor))
            case "*":
                return KnownFacts(min(LARGEST, a.divisor * b.divisor), both)
            case "min" | "max":
                natural = both if op == "min" else a.is_natural or b.is_natural
                return KnownFacts(gcd(a.divisor, b.divisor), natural)
            case "mod" if by is not None and by > 0:
                return KnownFacts(gcd(a.divisor, by & -by), True)
            case "//" if by is not None and by > 0:
                whole = by & (by - 1) == 0 and a.divisor % by == 0
                return KnownFacts(a.divisor // by if whole else 1, a.is_natural)
        return KnownFacts()


def _either(a: KnownFacts, b: KnownFacts) -> KnownFacts:
    return KnownFacts(gcd(a.divisor, b.divisor), a.is_natural and b.is_natural)


def _counter_of(index: Index) -> tuple[str, int]:
    """A name and what is added to it; no name if it is anything else."""
    match index:
        case Name(name):
            return name, 0
        case Binary("+", Name(name), Const(more)) | Binary("+", Const(more), Name(name)):
            return name, more
        case Binary("-", Name(name), Const(less)):
            return name, -less
    return "", 0


def moduli(index: Index | Cond, counter: str) -> set[int]:
    """What a counter is taken by, where that is no power of two."""
    return {
        node.right.value
        for node in walk(index)
        if isinstance(node, Binary)
        and node.op == "mod"
        and isinstance(node.right, Const)
        and node.right.value > 0
        and node.right.value & (node.right.value - 1)
        and _counter_of(node.left)[0] == counter
    }
