"""Reading and writing typed values of lanes.

Needs   operands, the modifiers of the instruction
Gives   `reader(operand, type)`: a function of a wave that gives an array over lanes, or one number for all;
        `writer(operand, type)`: a function that stores one under EXEC
Keeps   a type is `u`, `i` or `f` with its width, or `m`: a mask of lanes in scalars; nothing else is reinterpreted
Cost    plain 32-bit registers are views, not copies
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from oracles.amdgcn_machine.operands import Operand, bits_of
from oracles.amdgcn_machine.text import NotUnderstood
from oracles.amdgcn_machine.wave import SCALARS, SCC, Wave

Array = Any  # of numpy, over lanes or of no dimension
Read = Callable[[Wave], Array]
Write = Callable[[Wave, Array], None]
Permute = Callable[[Wave, Array], Array]

DTYPES = {
    "u16": np.uint16,
    "i16": np.int16,
    "f16": np.float16,
    "u32": np.uint32,
    "i32": np.int32,
    "f32": np.float32,
    "u64": np.uint64,
    "i64": np.int64,
    "f64": np.float64,
    "u8": np.uint8,
    "i8": np.int8,
}
SIGN = {"f16": 0x8000, "f32": 0x80000000, "f64": 1 << 63}
WORDS = {"u64": 2, "i64": 2, "f64": 2}
SELECT = {"DWORD": (0, 32), "WORD_0": (0, 16), "WORD_1": (16, 16)} | {f"BYTE_{n}": (8 * n, 8) for n in range(4)}


def reader(operand: Operand, kind: str, permute: Permute | None = None, select: str = "", high: bool = False) -> Read:
    """How an operand is read; `permute` moves lanes first, `select` takes a part of the register."""
    if kind == "m":
        at = operand.scalar
        return lambda wave: wave.scalar_mask(at)
    if operand.at < 0:
        return _constant(operand, kind)
    is_whole = operand.is_vector and not (permute or select or operand.half or high)
    if is_whole and kind in ("u32", "i32", "f32"):
        return _signed(_view(operand.at, kind), operand, kind)
    raw = _raw64(operand) if kind in WORDS else _raw32(operand)
    if permute:
        raw = _permuted(raw, permute)
    if select:
        raw = _selected(raw, select, operand.is_extended)
    if operand.half or (high and DTYPES[kind]().itemsize == 2):
        raw = _shifted(raw)
    return _signed(_typed(raw, kind), operand, kind)


def _view(at: int, kind: str) -> Read:
    if kind == "u32":
        return lambda wave: wave.v[at]
    if kind == "i32":
        return lambda wave: wave.i[at]
    return lambda wave: wave.f[at]


def _raw32(operand: Operand) -> Read:
    at = operand.at
    if operand.is_vector:
        return lambda wave: wave.v[at]
    if at == SCC:
        return lambda wave: np.uint32(wave.scc)
    return lambda wave: np.uint32(wave.s[at - SCALARS])


def _raw64(operand: Operand) -> Read:
    at = operand.at
    if operand.is_vector:
        return lambda wave: wave.v[at].astype(np.uint64) | wave.v[at + 1].astype(np.uint64) << np.uint64(32)
    if operand.words == 1:
        return lambda wave: np.uint64(wave.s[at - SCALARS])
    return lambda wave: np.uint64(wave.scalar64(at - SCALARS))


def _permuted(raw: Read, permute: Permute) -> Read:
    return lambda wave: permute(wave, np.broadcast_to(raw(wave), wave.lanes))


def _selected(raw: Read, select: str, is_extended: bool) -> Read:
    shift, width = SELECT[select]
    mask = np.uint32((1 << width) - 1)

    def read(wave: Wave) -> Array:
        value = raw(wave) >> np.uint32(shift) & mask
        if is_extended and width < 32:
            sign = np.uint32(1 << width - 1)
            value = (value ^ sign) - sign
        return value

    return read


def _shifted(raw: Read) -> Read:
    return lambda wave: raw(wave) >> np.uint32(16)


def _typed(raw: Read, kind: str) -> Read:
    dtype = np.dtype(DTYPES[kind])
    if dtype.itemsize < 4:
        unsigned = np.dtype(f"u{dtype.itemsize}")
        return lambda wave: np.asarray(raw(wave)).astype(unsigned).view(dtype)
    return lambda wave: raw(wave).view(dtype)


def _signed(read: Read, operand: Operand, kind: str) -> Read:
    if not (operand.is_negated or operand.is_absolute):
        return read
    if not kind.startswith("f"):
        raise NotUnderstood(f"a sign on `{operand.text}`, which is no floating-point number here")
    if operand.is_negated and operand.is_absolute:
        return lambda wave: -np.abs(read(wave))
    return (lambda wave: -read(wave)) if operand.is_negated else (lambda wave: np.abs(read(wave)))


def _constant(operand: Operand, kind: str) -> Read:
    bits = bits_of(operand.constant, kind)
    dtype = np.dtype(DTYPES[kind])
    width = 8 * dtype.itemsize
    value = np.array(bits & (1 << width) - 1, f"u{dtype.itemsize}").view(dtype)[()]
    if operand.is_absolute:
        value = np.abs(value)
    if operand.is_negated:
        value = -value
    return lambda wave: value


# --- writing ------------------------------------------------------------------------------------------------------


def writer(operand: Operand, kind: str, keeps_other_half: bool, high: bool = False) -> Write:
    """How a result is stored under EXEC; of 16 bits, the other half is kept or becomes zero, as the target has it."""
    if kind == "m":
        at = operand.scalar
        return lambda wave, mask: wave.put_mask(at, mask & wave.mask)
    if operand.is_scalar:
        return _to_scalar(operand.scalar, kind)
    at, dtype = operand.at, np.dtype(DTYPES[kind])
    if dtype.itemsize == 8:
        return _write_pair(at, dtype)
    if dtype.itemsize == 4:
        return lambda wave, value: wave.put(at, np.asarray(value, dtype).view(np.uint32))
    half = operand.half or int(high)
    keeps = keeps_other_half or bool(half) or operand.text.endswith(".l")
    return _write_half(at, half, dtype, keeps)


def _to_scalar(at: int, kind: str) -> Write:
    dtype = np.dtype(DTYPES[kind])
    if dtype.itemsize != 4:
        raise NotUnderstood(f"a result of type {kind} in a scalar register")
    return lambda wave, value: wave.put_scalar(at, int(np.asarray(value, dtype).view(np.uint32).reshape(-1)[0]))


def _write_pair(at: int, dtype: np.dtype) -> Write:
    def write(wave: Wave, value: Array) -> None:
        bits = np.asarray(value, dtype).view(np.uint64)
        wave.put(at, bits.astype(np.uint32))
        wave.put(at + 1, (bits >> np.uint64(32)).astype(np.uint32))

    return write


def _write_half(at: int, half: int, dtype: np.dtype, keeps: bool) -> Write:
    unsigned = np.dtype(f"u{dtype.itemsize}")

    def write(wave: Wave, value: Array) -> None:
        bits = np.asarray(value, dtype).view(unsigned).astype(np.uint32)
        if half:
            bits = bits << np.uint32(16) | wave.v[at] & np.uint32(0xFFFF)
        elif keeps:
            bits = bits | wave.v[at] & np.uint32(0xFFFF0000)
        wave.put(at, bits)

    return write


def write_selected(operand: Operand, kind: str, select: str, keeps: bool) -> Write:
    """A part of the register, the rest zero or kept (SDWA)."""
    shift, width = SELECT[select]
    part = np.uint32((1 << width) - 1)
    dtype, at = np.dtype(DTYPES[kind]), operand.at
    unsigned = np.dtype(f"u{dtype.itemsize}")

    def write(wave: Wave, value: Array) -> None:
        bits = (np.asarray(value, dtype).view(unsigned).astype(np.uint32) & part) << np.uint32(shift)
        if keeps:
            bits = bits | wave.v[at] & ~np.uint32(int(part) << shift)
        wave.put(at, bits)

    return write


def list_of(text: str) -> list[int]:
    """`[1,0,3,2]`."""
    return [int(each, 0) for each in re.findall(r"-?\w+", text)]
