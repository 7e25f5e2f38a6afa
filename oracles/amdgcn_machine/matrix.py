"""Products of matrices in the registers of a wave: MFMA of CDNA, WMMA of RDNA and gfx1250.

Needs   an instruction
Gives   `compile_matrix`: a function of a wave with its operands, or None where the name is of another kind
Keeps   EXEC is ignored, as the hardware does; numbers are multiplied and summed in double precision, rounded at the end
Cost    one small product in NumPy

Where an element lives is AMD's: https://github.com/ROCm/amd_matrix_instruction_calculator, and the RDNA ISA documents
§7.9. The inner index needs no more than that both factors hold the same of it at the same place of lane and register:
any common order of it gives one sum.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from oracles.amdgcn_machine.operands import Operand, bits_of, parse
from oracles.amdgcn_machine.text import Instruction, NotUnderstood
from oracles.amdgcn_machine.wave import Wave

Run = Callable[[Wave], None]
NAME = re.compile(
    r"^v_(mfma|wmma)(_scale)?_(f32|i32|f16|bf16)_(\d+)x(\d+)x(\d+)_?(\w+?)(?:_1k)?(?:_e32|_e64)?$", re.ASCII
)
FIRST_FORMATS = {
    "f16": "f16",
    "bf16": "bf16",
    "bf16_bf16": "bf16",
    "f32": "f32",
    "xf32": "f32",
    "i8": "i8",
    "iu8": "i8",
    "fp8_fp8": "fp8,fp8",
    "fp8_bf8": "fp8,bf8",
    "bf8_fp8": "bf8,fp8",
    "bf8_bf8": "bf8,bf8",
}
SIZES = {"f16": 2, "bf16": 2, "f32": 4, "i8": 1, "fp8": 1, "bf8": 1}


def compile_matrix(one: Instruction, target: str) -> tuple[Run, list[Operand]] | None:
    found = NAME.match(one.name)
    if not found:
        return None
    kind, scale, result, m, n, k, formats = found.groups()
    if formats == "f8f6f4" and not scale:
        formats, one = _eight_bits(one)
    if scale or formats not in FIRST_FORMATS or one.modifiers.keys() - {"matrix_a_reuse", "matrix_b_reuse"}:
        raise NotUnderstood(f"line {one.line}: `{one.text}`: the machine has no instruction `{one.name}` of this form")
    if result not in ("f32", "i32"):
        raise NotUnderstood(f"line {one.line}: `{one.text}`: a product with results of type {result}")
    names = FIRST_FORMATS[formats].split(",")
    first, second = names[0], names[-1]
    is_fnuz = target in ("gfx940", "gfx941", "gfx942")
    to, a, b, c = operands = [parse(each) for each in one.operands]
    shape = int(m), int(n), int(k)
    if kind == "mfma" and shape[0] * shape[2] * SIZES[first] // 64 != 4 * a.words:
        raise NotUnderstood(f"line {one.line}: `{one.text}`: a product of several blocks")
    places = _places_mfma(shape) if kind == "mfma" else _places_wmma(shape, target)
    read_a, read_b = _factor(a, first, shape[0], is_fnuz), _factor(b, second, shape[1], is_fnuz)
    dtype: Any = np.float32 if result == "f32" else np.int32
    rows, cols = places

    def run(wave: Wave) -> None:
        start = _start(wave, c, dtype, rows.shape)
        left, right = read_a(wave), read_b(wave)
        if kind == "wmma" and target.startswith("gfx11"):
            left, right = left[:, : left.shape[1] // 2], right[:, : right.shape[1] // 2]
        product = left @ right.T
        wave.v[to.at : to.at + len(rows)] = (product[rows, cols] + start).astype(dtype).view(np.uint32)

    return run, operands


def _eight_bits(one: Instruction) -> tuple[str, Instruction]:
    """The formats of the factors, if both have 8 bits."""
    codes = [int(one.modifiers.get(each, "0"), 0) for each in ("cbsz", "blgp")]
    if max(codes) > 1:
        raise NotUnderstood(f"line {one.line}: `{one.text}`: factors of 4 or 6 bits")
    kinds = "_".join(("fp8", "bf8")[code] for code in codes)
    modifiers = {key: value for key, value in one.modifiers.items() if key not in ("cbsz", "blgp")}
    return kinds, replace(one, modifiers=modifiers)


def _places_mfma(shape: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each register and lane of the result."""
    lane = np.arange(64)[None, :]
    register = np.arange(shape[0] * shape[1] // 64)[:, None]
    groups = 64 // shape[1]
    rows = register // 4 * 4 * groups + lane // shape[1] * 4 + register % 4
    return rows, np.broadcast_to(lane % shape[1], rows.shape)


def _places_wmma(shape: tuple[int, int, int], target: str) -> tuple[np.ndarray, np.ndarray]:
    lane = np.arange(32)[None, :]
    register = np.arange(shape[0] * shape[1] // 32)[:, None]
    rows = 2 * register + lane // 16 if target.startswith("gfx11") else 8 * (lane // 16) + register
    return rows, np.broadcast_to(lane % 16, rows.shape)


def _start(wave: Wave, operand: Operand, dtype: Any, shape: tuple[int, ...]) -> Any:
    if operand.at < 0:
        bits = bits_of(operand.constant, "f32" if dtype is np.float32 else "u32")
        return np.array(bits, np.uint32).view(dtype)
    return wave.v[operand.at : operand.at + shape[0]].view(dtype).astype(np.float64)


def _factor(operand: Operand, kind: str, extent: int, is_fnuz: bool) -> Callable[[Wave], np.ndarray]:
    """One factor as rows (or columns) by inner index: lane `l` holds row `l % extent`."""
    at, words = operand.at, operand.words

    def read(wave: Wave) -> np.ndarray:
        bits = np.ascontiguousarray(wave.v[at : at + words].T)  # lanes by registers
        values = convert(bits, kind, is_fnuz)
        parts = wave.lanes // extent
        # Lanes of one row stand `extent` apart; together they hold all of its inner indices.
        return values.reshape(parts, extent, -1).transpose(1, 0, 2).reshape(extent, -1)

    return read


def convert(bits: np.ndarray, kind: str, is_fnuz: bool) -> np.ndarray:
    """Registers as numbers in double precision."""
    if kind == "f32":
        return bits.view(np.float32).astype(np.float64)
    if kind == "f16":
        return bits.view(np.float16).astype(np.float64)
    if kind == "bf16":
        return (bits.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    if kind == "i8":
        return bits.view(np.int8).astype(np.float64)
    return _table8(kind, is_fnuz)[bits.view(np.uint8)]


def _table8(kind: str, is_fnuz: bool) -> np.ndarray:
    """All 256 numbers of 8 bits: fp8 has 4 bits of exponent, bf8 has 5; FNUZ has no -0 and one more of bias."""
    exponent_bits, fraction_bits = (4, 3) if kind == "fp8" else (5, 2)
    bias = (1 << exponent_bits - 1) - 1 + is_fnuz
    found = np.zeros(256)
    for code in range(256):
        exponent = code >> fraction_bits & (1 << exponent_bits) - 1
        fraction = (code & (1 << fraction_bits) - 1) / (1 << fraction_bits)
        value = (1 + fraction) * 2.0 ** (exponent - bias) if exponent else fraction * 2.0 ** (1 - bias)
        found[code] = -value if code & 128 else value
    if is_fnuz:
        found[128] = np.nan
    elif kind == "fp8":
        found[[0x7F, 0xFF]] = np.nan
    else:
        for sign, start in ((1, 0x7C), (-1, 0xFC)):
            found[start : start + 4] = [sign * np.inf, np.nan, np.nan, np.nan]
    return found
