"""What accesses have in common: where values go, what is touched, how a wave issues one.

Needs   a wave, places in a `Memory`
Gives   `Loaded`, `Stored`: what an access moves, and `issue`: an `Access` with the function that performs it
Keeps   addresses and stored values are taken at the issue, loaded values when the access is performed
Cost    one indexing when it is performed
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from oracles.amdgcn_machine.counters import Access, counters_of
from oracles.amdgcn_machine.memory import Memory, Shared
from oracles.amdgcn_machine.operands import Operand
from oracles.amdgcn_machine.text import Instruction, NotUnderstood
from oracles.amdgcn_machine.wave import Wave

SIZES = re.compile(
    r"^(?:(d16_hi|d16)_)?(?:(b|u|i)(8|16|32|64|96|128)|(dwordx?[234]?|ubyte|sbyte|byte|ushort|sshort|short))(?:_(d16_hi|d16))?$"
)
OLD = {
    "dword": ("b", 32),
    "dwordx2": ("b", 64),
    "dwordx3": ("b", 96),
    "dwordx4": ("b", 128),
    "ubyte": ("u", 8),
    "sbyte": ("i", 8),
    "byte": ("b", 8),
    "ushort": ("u", 16),
    "sshort": ("i", 16),
    "short": ("b", 16),
}


@dataclass(frozen=True, slots=True)
class Place:
    """What the accesses of a workgroup reach."""

    target: str
    lds: Shared
    memory: Memory


@dataclass(frozen=True, slots=True)
class Touch:
    """Bytes of shared memory that an access reads or writes."""

    bytes: np.ndarray
    is_write: bool
    is_atomic: bool = False
    values: np.ndarray | None = None  # of a write, where they are known at its issue


@dataclass(frozen=True, slots=True)
class Size:
    """How many bytes a lane moves, and how they lie in registers."""

    bytes: int
    is_signed: bool = False
    half: str = ""  # "", "d16", "d16_hi"


Issue = Callable[[Wave, Place], Access]


def size_of(suffix: str) -> Size | None:
    found = SIZES.match(suffix)
    if not found:
        return None
    before, kind, bits, old, after = found.groups()
    kind, width = OLD[old] if old else (kind, int(bits))
    return Size(width // 8, kind == "i", before or after or "")


def active(wave: Wave) -> np.ndarray:
    return np.flatnonzero(wave.mask)


def values_of(wave: Wave, operand: Operand, lanes: np.ndarray, size: Size) -> np.ndarray:
    """What a store takes from registers: lanes by bytes."""
    words = -(-size.bytes // 4)
    bits = wave.v[operand.at : operand.at + words, lanes].T
    found = np.ascontiguousarray(bits).view(np.uint8).reshape(len(lanes), 4 * words)
    start = 2 if size.half == "d16_hi" or operand.half else 0
    return found[:, start : start + size.bytes].copy()


def put_loaded(wave: Wave, at: int, lanes: np.ndarray, found: np.ndarray, size: Size, half: int = 0) -> None:
    """What was loaded, lanes by bytes, into registers."""
    if size.bytes >= 4:
        words = np.ascontiguousarray(found).view(np.uint32)
        wave.v[at : at + size.bytes // 4, lanes] = words.T
        return
    value = np.zeros((len(lanes), 4), np.uint8)
    value[:, : size.bytes] = found
    bits = value.view(np.uint32)[:, 0]
    if size.is_signed:
        sign = np.uint32(1 << 8 * size.bytes - 1)
        bits = (bits ^ sign) - sign
    if size.half == "d16_hi" or half:
        bits = wave.v[at, lanes] & np.uint32(0xFFFF) | bits << np.uint32(16)
    elif size.half == "d16":
        bits = wave.v[at, lanes] & np.uint32(0xFFFF0000) | bits & np.uint32(0xFFFF)
    wave.v[at, lanes] = bits


def registers_of(to: Operand, size: Size) -> tuple[int, ...]:
    return tuple(range(to.at, to.at + max(1, size.bytes // 4)))


def begin(one: Instruction, kind: str, place: Place, perform: Callable[[], None], **more: Any) -> Access:
    counters, stream = counters_of(kind, place.target)
    return Access(one.line, one.text, counters, stream, perform, **more)


def unknown(one: Instruction) -> NotUnderstood:
    return NotUnderstood(f"line {one.line}: `{one.text}`: the machine has no instruction `{one.name}` of this form")


# --- atomics ------------------------------------------------------------------------------------------------------


def _low_half_sum(a: int, b: int, kind: Any) -> int:
    pair = np.array([a, b], np.uint32).view(kind).reshape(2, 2)
    return int((pair[0] + pair[1]).astype(kind).view(np.uint32)[0])


def _as_float(a: int, b: int, function: Callable[[Any, Any], Any]) -> int:
    x, y = np.array([a, b], np.uint32).view(np.float32)
    return int(np.array([function(x, y)], np.float32).view(np.uint32)[0])


def _signed(value: int, bits: int = 32) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


ATOMICS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "add_u32": lambda a, b: a + b,
    "add_u64": lambda a, b: a + b,
    "add_x2": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "sub_u32": lambda a, b: a - b,
    "and": lambda a, b: a & b,
    "and_b32": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "or_b32": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "xor_b32": lambda a, b: a ^ b,
    "swap": lambda a, b: b,
    "swap_b32": lambda a, b: b,
    "umax": max,
    "max_u32": max,
    "umin": min,
    "min_u32": min,
    "smax": lambda a, b: a if _signed(a) > _signed(b) else b,
    "max_i32": lambda a, b: a if _signed(a) > _signed(b) else b,
    "smin": lambda a, b: a if _signed(a) < _signed(b) else b,
    "min_i32": lambda a, b: a if _signed(a) < _signed(b) else b,
    "add_f32": lambda a, b: _as_float(a, b, lambda x, y: x + y),
    "max_f32": lambda a, b: _as_float(a, b, np.fmax),
    "min_f32": lambda a, b: _as_float(a, b, np.fmin),
    "pk_add_f16": lambda a, b: _low_half_sum(a, b, np.float16),
}


def change(memory: Memory, places: np.ndarray, values: np.ndarray, function: Callable[[int, int], int]) -> np.ndarray:
    """One lane after another; what was there before, lanes by bytes."""
    before = np.zeros_like(values)
    width = values.shape[1]
    for lane, (place, value) in enumerate(zip(places, values, strict=True)):
        old = memory.bytes[place]
        before[lane] = old
        new = function(int.from_bytes(old.tobytes(), "little"), int.from_bytes(value.tobytes(), "little"))
        data = (new & (1 << 8 * width) - 1).to_bytes(width, "little")
        memory.bytes[place] = np.frombuffer(data, np.uint8)
    return before
