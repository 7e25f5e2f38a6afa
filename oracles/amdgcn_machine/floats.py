"""What floating-point vector instructions compute, conversions included.

Needs   arrays over lanes, or one number for all, of the types that the signature names
Gives   `FLOATS`: a name without `v_` and encoding → its signature and its function
Keeps   a fused product and sum is computed in double precision and rounded once more: within the last bit
Cost    NumPy on one wave

Divisions are carried out where the instruction sequence ends (`div_fixup`), so that no scaling is needed on the way:
`div_scale` passes its operand on and never asks for a correction.

Source: AMD's ISA documents (CDNA 3 §12, RDNA 4 §16), "Vector ALU instructions".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oracles.amdgcn_machine.integers import Table

f16, f32, f64 = np.float16, np.float32, np.float64


def _fma(a: Any, b: Any, c: Any) -> Any:
    return (np.asarray(a).astype(f64) * b + c).astype(f32)


def _fma16(a: Any, b: Any, c: Any) -> Any:
    return (np.asarray(a).astype(f32) * f32(b) + np.asarray(c).astype(f32)).astype(f16)


def _fix(quotient: Any, divisor: Any, dividend: Any) -> Any:
    exact = (np.asarray(dividend).astype(f64) / divisor).astype(np.asarray(dividend).dtype)
    plain = np.isfinite(quotient) & np.isfinite(exact) & (exact != 0)
    return np.where(plain, quotient, exact)


def _clip(value: Any, low: float, high: float, dtype: Any) -> Any:
    """To an integer, towards zero; what does not fit becomes the nearest that does, no number becomes zero."""
    value = np.nan_to_num(np.trunc(np.asarray(value).astype(f64)), nan=0.0, posinf=high, neginf=low)
    return np.clip(value, low, high).astype(np.int64).astype(dtype)


def _clamp3(a: Any, b: Any, c: Any) -> Any:
    return np.fmax(np.fmin(np.fmax(a, b), c), np.fmin(a, b))


def to_bf16(value: Any) -> Any:
    """Round to nearest even; a NaN stays one."""
    bits = np.asarray(value, f32).view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
    return np.where(np.isnan(value), bits | np.uint32(0x400000), rounded) >> np.uint32(16)


def halves(low: Any, high: Any) -> Any:
    """Two numbers of 16 bits as one register."""
    return np.asarray(low).astype(np.uint32) | np.asarray(high).astype(np.uint32) << np.uint32(16)


def bits16(value: Any) -> Any:
    return np.asarray(value).astype(f16).view(np.uint16)


def _scale(value: Any, power: Any) -> Any:
    return np.ldexp(np.asarray(value).astype(f64), np.clip(power, -4000, 4000)).astype(np.asarray(value).dtype)


def _fract(value: Any) -> Any:
    return value - np.floor(value)


def _scaled_pair(a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    return a, np.zeros(np.shape(a), bool)


def _sin(value: Any) -> Any:
    return np.sin(value * f32(2 * np.pi))


def _cos(value: Any) -> Any:
    return np.cos(value * f32(2 * np.pi))


F1, F2, F3 = "f32:f32", "f32:f32,f32", "f32:f32,f32,f32"
G1, G2, G3 = "f16:f16", "f16:f16,f16", "f16:f16,f16,f16"
D2 = "f64:f64,f64"
FLOATS: Table = {
    "add_f32": (F2, lambda a, b: a + b),
    "sub_f32": (F2, lambda a, b: a - b),
    "subrev_f32": (F2, lambda a, b: b - a),
    "mul_f32": (F2, lambda a, b: a * b),
    "mul_legacy_f32": (F2, lambda a, b: np.where((a == 0) | (b == 0), f32(0), a * b)),
    "max_f32": (F2, np.fmax),
    "min_f32": (F2, np.fmin),
    "maximum_f32": (F2, np.maximum),
    "minimum_f32": (F2, np.minimum),
    "max3_f32": (F3, lambda a, b, c: np.fmax(np.fmax(a, b), c)),
    "min3_f32": (F3, lambda a, b, c: np.fmin(np.fmin(a, b), c)),
    "maximum3_f32": (F3, lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    "minimum3_f32": (F3, lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    "maxmin_f32": (F3, lambda a, b, c: np.fmin(np.fmax(a, b), c)),
    "minmax_f32": (F3, lambda a, b, c: np.fmax(np.fmin(a, b), c)),
    "med3_f32": (F3, _clamp3),
    "fma_f32": (F3, _fma),
    "fma_f64": ("f64:f64,f64,f64", lambda a, b, c: a * b + c),
    "add_f64": (D2, lambda a, b: a + b),
    "mul_f64": (D2, lambda a, b: a * b),
    "max_f64": (D2, np.fmax),
    "min_f64": (D2, np.fmin),
    "mad_f32": (F3, lambda a, b, c: a * b + c),
    "rcp_f32": (F1, lambda a: f32(1) / a),
    "rcp_iflag_f32": (F1, lambda a: f32(1) / a),
    "rcp_f64": ("f64:f64", lambda a: f64(1) / a),
    "rsq_f32": (F1, lambda a: f32(1) / np.sqrt(a)),
    "sqrt_f32": (F1, np.sqrt),
    "exp_f32": (F1, np.exp2),
    "log_f32": (F1, np.log2),
    "sin_f32": (F1, _sin),
    "cos_f32": (F1, _cos),
    "floor_f32": (F1, np.floor),
    "ceil_f32": (F1, np.ceil),
    "trunc_f32": (F1, np.trunc),
    "rndne_f32": (F1, np.rint),
    "fract_f32": (F1, _fract),
    "ldexp_f32": ("f32:f32,i32", _scale),
    "ldexp_f64": ("f64:f64,i32", _scale),
    "ldexp_f16": ("f16:f16,i16", _scale),
    "frexp_mant_f32": (F1, lambda a: np.frexp(a)[0]),
    "frexp_exp_i32_f32": ("i32:f32", lambda a: np.frexp(a)[1]),
    "div_scale_f32": ("f32,m:f32,f32,f32", _scaled_pair),
    "div_scale_f64": ("f64,m:f64,f64,f64", _scaled_pair),
    "div_fmas_f32": (F3, _fma),
    "div_fmas_f64": ("f64:f64,f64,f64", lambda a, b, c: a * b + c),
    "div_fixup_f32": (F3, _fix),
    "div_fixup_f64": ("f64:f64,f64,f64", _fix),
    "div_fixup_f16": (G3, _fix),
    "add_f16": (G2, lambda a, b: a + b),
    "sub_f16": (G2, lambda a, b: a - b),
    "subrev_f16": (G2, lambda a, b: b - a),
    "mul_f16": (G2, lambda a, b: a * b),
    "max_f16": (G2, np.fmax),
    "min_f16": (G2, np.fmin),
    "fma_f16": (G3, _fma16),
    "rcp_f16": (G1, lambda a: f16(1) / a),
    "sqrt_f16": (G1, np.sqrt),
    "rsq_f16": (G1, lambda a: f16(1) / np.sqrt(a)),
    "exp_f16": (G1, np.exp2),
    "log_f16": (G1, np.log2),
    "cvt_f32_f16": ("f32:f16", lambda a: np.asarray(a).astype(f32)),
    "cvt_f16_f32": ("f16:f32", lambda a: np.asarray(a).astype(f16)),
    "cvt_f64_f32": ("f64:f32", lambda a: np.asarray(a).astype(f64)),
    "cvt_f32_f64": ("f32:f64", lambda a: np.asarray(a).astype(f32)),
    "cvt_f32_u32": ("f32:u32", lambda a: np.asarray(a).astype(f32)),
    "cvt_f32_i32": ("f32:i32", lambda a: np.asarray(a).astype(f32)),
    "cvt_f64_u32": ("f64:u32", lambda a: np.asarray(a).astype(f64)),
    "cvt_f64_i32": ("f64:i32", lambda a: np.asarray(a).astype(f64)),
    "cvt_f16_u16": ("f16:u16", lambda a: np.asarray(a).astype(f16)),
    "cvt_f16_i16": ("f16:i16", lambda a: np.asarray(a).astype(f16)),
    "cvt_u32_f32": ("u32:f32", lambda a: _clip(a, 0, 2**32 - 1, np.uint32)),
    "cvt_i32_f32": ("i32:f32", lambda a: _clip(a, -(2**31), 2**31 - 1, np.int32)),
    "cvt_u32_f64": ("u32:f64", lambda a: _clip(a, 0, 2**32 - 1, np.uint32)),
    "cvt_i32_f64": ("i32:f64", lambda a: _clip(a, -(2**31), 2**31 - 1, np.int32)),
    "cvt_u16_f16": ("u16:f16", lambda a: _clip(a, 0, 2**16 - 1, np.uint16)),
    "cvt_i16_f16": ("i16:f16", lambda a: _clip(a, -(2**15), 2**15 - 1, np.int16)),
    "cvt_f32_ubyte0": ("f32:u32", lambda a: (a & np.uint32(255)).astype(f32)),
    "cvt_pk_f16_f32": ("u32:f32,f32", lambda a, b: halves(bits16(a), bits16(b))),
    "cvt_pkrtz_f16_f32": ("u32:f32,f32", lambda a, b: halves(bits16(a), bits16(b))),
    "cvt_pk_bf16_f32": ("u32:f32,f32", lambda a, b: halves(to_bf16(a), to_bf16(b))),
    "pack_b32_f16": ("u32:f16,f16", lambda a, b: halves(np.asarray(a).view(np.uint16), np.asarray(b).view(np.uint16))),
    "s_rcp_f32": (F1, lambda a: f32(1) / a),
    "s_exp_f32": (F1, np.exp2),
    "s_log_f32": (F1, np.log2),
    "s_sqrt_f32": (F1, np.sqrt),
    "s_rsq_f32": (F1, lambda a: f32(1) / np.sqrt(a)),
}

# The result is added to what the destination holds.
SUMS: Table = {
    "fmac_f32": (F3, _fma),
    "mac_f32": (F3, _fma),
    "fmac_f16": (G3, _fma16),
    "fmac_f64": ("f64:f64,f64,f64", lambda a, b, c: a * b + c),
}
