"""Operators on the bits of registers, for all threads at once.

Needs   arrays of 64-bit integers that hold registers: those of fewer bits without a sign
Gives   a function for each operator; how arrays are taken as signed or unsigned, and cut to a width
Keeps   exact, as the PTX ISA and the hardware define each operator for every input; no function raises
Cost    linear in the threads
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tidegate.hosts.isa.values import Pred

Function = Callable[[list[Any], int, bool, int], Any]

COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda a, c: a == c,
    "ne": lambda a, c: a != c,
    "lt": lambda a, c: a < c,
    "le": lambda a, c: a <= c,
    "gt": lambda a, c: a > c,
    "ge": lambda a, c: a >= c,
}
LOGIC: dict[str, Callable[[Any, Any], Any]] = {
    "and": lambda a, c: a & c,
    "or": lambda a, c: a | c,
    "xor": lambda a, c: a ^ c,
}


def wrap(values: Any, bits: int) -> Any:
    """As a register of this width holds it."""
    values = np.asarray(values, np.int64)
    return values if bits >= 64 else values & ((1 << bits) - 1)


def signed(values: Any, bits: int) -> Any:
    """A register's bits as numbers with a sign."""
    if bits >= 64:
        return values
    half = 1 << (bits - 1)
    return ((values & ((1 << bits) - 1)) ^ half) - half


def known_after(operator: str, one: Pred, other: Pred) -> Any:
    """The lanes in which a truth is known: `false and …` is, whatever follows."""
    both = one.lanes & other.lanes
    if operator == "and":
        return both | (one.lanes & ~one.base) | (other.lanes & ~other.base)
    if operator == "or":
        return both | (one.lanes & one.base) | (other.lanes & other.base)
    return both


def _unsigned(values: Any, bits: int) -> Any:
    return values.view(np.uint64) if bits >= 64 else values.astype(np.uint64)


def _meant(values: Any, bits: int, is_signed: bool) -> Any:
    return signed(values, bits) if is_signed else values


def _divide(given: list[Any], bits: int, is_signed: bool, source: int) -> Any:
    """Rounded towards 0; by 0 any number."""
    if not is_signed:
        a, c = _unsigned(given[0], source), _unsigned(given[1], source)
        return np.where(c == 0, np.uint64(0xFFFFFFFFFFFFFFFF), a // np.where(c == 0, np.uint64(1), c)).view(np.int64)
    a, c = signed(given[0], source), signed(given[1], source)
    size = (_size(a) // _size(np.where(c == 0, 1, c))).view(np.int64)
    return np.where(c == 0, -1, np.where((a < 0) != (c < 0), -size, size))


def _size(values: Any) -> Any:
    """Without its sign; that of the lowest number has no signed form."""
    return np.abs(values).view(np.uint64)


def _remainder(given: list[Any], bits: int, is_signed: bool, source: int) -> Any:
    if not is_signed:
        a, c = _unsigned(given[0], source), _unsigned(given[1], source)
        return np.where(c == 0, a, a % np.where(c == 0, np.uint64(1), c)).view(np.int64)
    a, c = signed(given[0], source), signed(given[1], source)
    size = (_size(a) % _size(np.where(c == 0, 1, c))).view(np.int64)
    return np.where(c == 0, a, np.where(a < 0, -size, size))


def _multiply_high(given: list[Any], bits: int, is_signed: bool, source: int) -> Any:
    if source > 32:  # 128 bits: in Python's numbers
        found = [
            (int(a) * int(c)) >> 64
            for a, c in zip(*(signed(x, 64) if is_signed else _unsigned(x, 64) for x in given), strict=True)
        ]
        return np.array([each & 0xFFFFFFFFFFFFFFFF for each in found], np.uint64).view(np.int64)
    if is_signed:
        return (signed(given[0], source) * signed(given[1], source)) >> source
    return ((_unsigned(given[0], 32) * _unsigned(given[1], 32)) >> np.uint64(source)).view(np.int64)


def _multiply_wide(given: list[Any], bits: int, is_signed: bool, source: int) -> Any:
    if is_signed:
        return signed(given[0], source) * signed(given[1], source)
    return (_unsigned(given[0], 32) * _unsigned(given[1], 32)).view(np.int64)


def _shift_left(given: list[Any], bits: int, is_signed: bool, source: int) -> Any:
    count = given[1] & 0xFFFFFFFF
    return np.where(count >= bits, 0, given[0] << np.minimum(count, 63))


def _shift_right(given: list[Any], bits: int, is_signed: bool, source: int) -> Any:
    count = np.minimum(given[1] & 0xFFFFFFFF, 63)
    if is_signed:
        return signed(given[0], source) >> np.minimum(count, bits - 1)
    found = (_unsigned(given[0], source) >> count.astype(np.uint64)).view(np.int64)
    return np.where((given[1] & 0xFFFFFFFF) >= bits, 0, found)


def _extract(given: list[Any], bits: int, is_signed: bool, source: int) -> Any:
    """`bfe`: bits from a place on, PTX ISA 9.7.1.19."""
    value, place, count = given[0], given[1] & 0xFF, given[2] & 0xFF
    limit = np.clip(bits - place, 0, bits)
    taken = np.minimum(count, limit)
    moved = (_unsigned(value, bits) >> np.minimum(place, 63).astype(np.uint64)).view(np.int64)
    moved = np.where(place >= bits, 0, moved)
    mask = _ones(taken)
    found = moved & mask
    if not is_signed:
        return found
    # The sign is the last bit taken, or the last of the register where the field reaches beyond it.
    last = np.minimum(place + count - 1, bits - 1)
    negative = (count > 0) & (((value >> np.clip(last, 0, 63)) & 1) == 1)
    return np.where(negative, found | ~mask, found)


def _insert(given: list[Any], bits: int, is_signed: bool, source: int) -> Any:
    """`bfi a, b, c, d`: d bits of a at place c of b."""
    value, into, place, count = given[0], given[1], given[2] & 0xFF, given[3] & 0xFF
    mask = _ones(count)
    shift = np.minimum(place, 63)
    field = np.where(place >= bits, 0, mask << shift)
    return (into & ~field) | ((value << shift) & field)


def _ones(count: Any) -> Any:
    """So many of the lowest bits."""
    return np.where(count >= 64, -1, ~(np.int64(-1) << np.minimum(count, 63)))


def _permute(given: list[Any], bits: int, is_signed: bool, source: int) -> Any:
    """`prmt` in its default mode: four bytes out of eight, PTX ISA 9.7.9.7."""
    both = (given[0] & 0xFFFFFFFF) | ((given[1] & 0xFFFFFFFF) << 32)
    found = np.zeros_like(both)
    for byte in range(4):
        chosen = (given[2] >> (4 * byte)) & 0xF
        value = (both >> (8 * (chosen & 7))) & 0xFF
        value = np.where(chosen & 8, np.where(value & 0x80, 0xFF, 0), value)
        found = found | (value << (8 * byte))
    return found


def _lookup(given: list[Any], bits: int, is_signed: bool, source: int) -> Any:
    """`lop3`: any function of three bits, by its table."""
    a, c, d, table = given[0], given[1], given[2], int(given[3].flat[0])
    found = np.zeros_like(a)
    for row in range(8):
        if table >> row & 1:
            term = (a if row & 4 else ~a) & (c if row & 2 else ~c) & (d if row & 1 else ~d)
            found = found | term
    return found


def _count_bits(given: list[Any], bits: int, is_signed: bool, source: int) -> Any:
    return np.array([int(each & ((1 << source) - 1)).bit_count() for each in given[0].tolist()], np.int64)


def _leading_zeros(given: list[Any], bits: int, is_signed: bool, source: int) -> Any:
    return np.array([source - int(each & ((1 << source) - 1)).bit_length() for each in given[0].tolist()], np.int64)


def _reverse(given: list[Any], bits: int, is_signed: bool, source: int) -> Any:
    found = [int(format(each & ((1 << source) - 1), f"0{source}b")[::-1], 2) for each in given[0].tolist()]
    return np.array(found, np.uint64).view(np.int64)


def _from_lane(values: Any, lane: Any) -> Any:
    """What a lane of the same wave holds, of waves of 32 lanes."""
    threads = np.arange(len(values))
    return values[np.minimum(threads // 32 * 32 + (lane & 31), len(values) - 1)]


def _less(one: Any, other: Any, bits: int, is_signed: bool) -> Any:
    if is_signed:
        return signed(one, bits) < signed(other, bits)
    return _unsigned(one, bits) < _unsigned(other, bits)


def _copy(given: list[Any], bits: int, is_signed: bool, source: int) -> Any:
    return _meant(wrap(given[0], source), source, is_signed)


OPERATORS: dict[str, Function] = {
    "copy": _copy,
    "cut": _copy,
    "add": lambda g, *_: g[0] + g[1],
    "sub": lambda g, *_: g[0] - g[1],
    "neg": lambda g, *_: -g[0],
    "abs": lambda g, bits, _, source: np.abs(signed(g[0], source)),
    "mul": lambda g, *_: g[0] * g[1],
    "mulhi": _multiply_high,
    "mulwide": _multiply_wide,
    "mad": lambda g, *_: g[0] * g[1] + g[2],
    "madwide": lambda g, bits, sign, source: _multiply_wide(g[:2], bits, sign, source) + g[2],
    "div": _divide,
    "rem": _remainder,
    "min": lambda g, bits, sign, source: np.where(_less(g[0], g[1], source, sign), g[0], g[1]),
    "max": lambda g, bits, sign, source: np.where(_less(g[0], g[1], source, sign), g[1], g[0]),
    "and": lambda g, *_: g[0] & g[1],
    "or": lambda g, *_: g[0] | g[1],
    "xor": lambda g, *_: g[0] ^ g[1],
    "not": lambda g, *_: ~g[0],
    "shl": _shift_left,
    "shr": _shift_right,
    "bfe": _extract,
    "bfi": _insert,
    "prmt": _permute,
    "lop3": _lookup,
    "shuffle": lambda g, *_: _from_lane(g[0], g[1]),
    "popc": _count_bits,
    "clz": _leading_zeros,
    "brev": _reverse,
}
