"""Numbers that were read from memory, and of which the program keeps so few bits that each can be listed.

Needs   the operands of an operation, one of them unknown
Gives   its result as `base + stride * x` for some x below a count, another x in each thread; None if that says nothing
Keeps   every value that the result can have is one of these
Cost    linear in the threads

    (word >> 4 and 63) * 64 + thread      one of 64 places, another column for each thread
"""

from __future__ import annotations

from math import gcd

import numpy as np

from tidegate.hosts.isa.bits import signed as with_sign
from tidegate.hosts.isa.values import Value
from tidegate.index import ZERO, Binary, Const

MOST = 1 << 16  # values that one number may have


def bounded(operator: str, given: list[Value], bits: int, signed: bool, source: int) -> Value | None:
    """The result without its tags, if one operand alone is unknown."""
    unknown = [place for place, each in enumerate(given) if not each.is_known]
    if len(unknown) != 1 or given[unknown[0]].lanes.any() or min(bits, source) < 16:
        return None
    place, value = unknown[0], given[unknown[0]]
    others = [each for number, each in enumerate(given) if number != place]
    fresh = _from_bits(operator, place, others, bits, signed, source)
    if fresh is not None:
        zeros = np.zeros(len(value.base), np.int64)
        return Value(zeros, ZERO, np.zeros(len(zeros), bool), value.same, among=fresh)
    if value.among is None or source < 32:
        return None
    match operator:
        case "add" | "sub" if place == 0 or operator == "add":
            return _added(value, others[0], source, 1 if operator == "add" else -1, bits)
        case "mul" | "mulwide" | "shl" if operator != "shl" or place == 0:
            return _scaled(operator, value, others[0], bits, signed)
        case "mad" | "madwide" if place < 2:
            inner = _scaled("mulwide" if operator == "madwide" else "mul", value, others[0], bits, signed)
            return None if inner is None else _added(inner, others[1], bits, 1, bits)
        case "mad" if all(each.is_number for each in others):
            product = Value(with_sign(others[0].base, 32) * with_sign(others[1].base, 32))
            return _added(value, product, 64, 1, bits)
        case "copy" | "cut":
            return _copied(value, bits, signed, source)
        case "or" | "xor":
            return _joined(value, others[0], bits)
    return None


def _from_bits(
    operator: str, place: int, others: list[Value], bits: int, signed: bool, source: int
) -> tuple[int, int] | None:
    """Stride and count of what an operation leaves of any bits at all."""
    numbers = [int(each.base[0]) for each in others if each.is_number and each.is_uniform]
    if len(numbers) < len(others):
        return None
    match operator, numbers:
        case "and", [mask]:
            mask &= (1 << min(bits, source)) - 1
            return None if not 0 < mask < 1 << 31 else _counted(mask & -mask, mask)
        case "bfe", [_, length] if place == 0 and not signed and 0 < length < 31:
            return _counted(1, (1 << length) - 1)
        case "shr", [count] if place == 0 and not signed and source == 32 and 0 < count < 32:
            return _counted(1, (1 << 32 - count) - 1)
        case "rem", [by] if place == 0 and not signed and 0 < by < 1 << 31:
            return _counted(1, by - 1)
    return None


def _counted(stride: int, most: int) -> tuple[int, int] | None:
    count = most // stride + 1
    return (stride, count) if count <= MOST else None


def _added(value: Value, other: Value, bits: int, sign: int, into: int) -> Value | None:
    base = other.base if other.plus != ZERO else with_sign(other.base, bits)
    assert value.among is not None
    plus = Binary("+", value.plus, Binary("*", other.plus, Const(sign)))
    found = Value(value.base + sign * base, plus, value.known, False, among=value.among)
    return found if _fits(found, into) else None


def _scaled(operator: str, value: Value, other: Value, bits: int, signed: bool) -> Value | None:
    assert value.among is not None
    if not (other.is_number and other.is_uniform) or (not signed and value.base.min() < 0):
        return None
    by = int(with_sign(other.base[:1], 32)[0])
    factor = 1 << by if operator == "shl" and 0 <= by < 31 else by if operator != "shl" else 0
    if not 0 < factor < 1 << 20:
        return None
    stride, count = value.among
    plus = Binary("*", value.plus, Const(factor))
    found = Value(value.base * factor, plus, value.known, value.same, among=(stride * factor, count))
    return found if _fits(found, bits) else None


def _copied(value: Value, bits: int, signed: bool, source: int) -> Value | None:
    if not _fits(value, min(bits, source)) or (not signed and (value.base.min() < 0 or value.plus != ZERO)):
        return None
    return Value(value.base, value.plus, value.known, value.same, among=value.among)


def _joined(value: Value, other: Value, bits: int) -> Value | None:
    """`or` with bits that the unknown number never has is a sum."""
    assert value.among is not None
    if not other.is_number or value.plus != ZERO or value.base.min() < 0:
        return None
    stride, count = value.among
    most = int(value.base.max()) + stride * (count - 1)
    step = gcd(stride, *map(int, np.unique(value.base)))
    mine = ((1 << most.bit_length()) - 1) & ~((step & -step) - 1)
    if (other.base & mine).any() or (with_sign(other.base, bits) < 0).any():
        return None
    return _added(value, other, bits, 1, bits)


def _fits(value: Value, bits: int) -> bool:
    """Whether no value wraps around, what is added of symbols aside."""
    assert value.among is not None
    stride, count = value.among
    low, high = int(value.base.min()), int(value.base.max()) + stride * (count - 1)
    return -(1 << bits - 1) <= low and high < 1 << bits - 1
