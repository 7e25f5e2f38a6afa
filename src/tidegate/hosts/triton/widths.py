"""Integers of a fixed width, as signed numbers.

Needs   a type such as `i8`, and a number or an expression
Gives   the same modulo 2^width, in the range of the type
Keeps   exact: scalars of TTGIR have no sign of their own, and `arith` wraps (MLIR: "addi ... wraps around")
Cost    constant

    wrap(%i, 8)  =  (%i + 128) mod 256 - 128
"""

from __future__ import annotations

from tidegate.index import Const, Index, combine

NARROW = 32  # below this, sums and products are reduced; from here on they are assumed not to overflow
INDEX_BITS = 64
Range = tuple[int, int]


def width_of(type_: str) -> int:
    """The bits of `i8` or `index`; 0 for anything else."""
    if type_ == "index":
        return INDEX_BITS
    return int(type_[1:]) if type_[:1] == "i" and type_[1:].isdecimal() else 0


def range_of(bits: int) -> Range:
    """The signed numbers of a width."""
    half = 1 << max(bits, 1) - 1
    return -half, half - 1


def fits(numbers: Range, bits: int) -> bool:
    low, high = range_of(bits)
    return low <= numbers[0] and numbers[1] <= high


def wrap(index: Index, bits: int) -> Index:
    """An expression in the range of a width."""
    half = 1 << bits - 1
    return combine("-", combine("mod", combine("+", index, Const(half)), Const(1 << bits)), Const(half))


def wrap_number(number: int, bits: int) -> int:
    half = 1 << bits - 1
    return (number + half) % (1 << bits) - half


def unsigned(index: Index, bits: int) -> Index:
    """The number that the same bits are without a sign."""
    return combine("mod", index, Const(1 << bits))
