"""What integer vector instructions compute.

Needs   arrays over lanes, or one number for all, of the types that the signature names
Gives   `INTEGERS`: a name without `v_` and encoding → its signature (results : operands) and its function
Keeps   arithmetic wraps; a shift takes the low bits of its count, as the hardware does
Cost    NumPy on one wave

Source: AMD's ISA documents (CDNA 3 §12, RDNA 4 §16), "Vector ALU instructions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Table = dict[str, tuple[str, Callable[..., Any]]]
u16, u32, u64, i64 = np.uint16, np.uint32, np.uint64, np.int64
N5, N4, N6 = u32(31), u16(15), u32(63)


def wide(value: Any) -> Any:
    return np.asarray(value).astype(u64)


def low(value: Any) -> Any:
    return np.asarray(value).astype(u32)


def _field(value: Any, offset: Any, width: Any) -> Any:
    mask = low((u64(1) << wide(width & N5)) - u64(1))
    return value >> (offset & N5) & mask


def _signed_field(value: Any, offset: Any, width: Any) -> Any:
    size = width & N5
    found = _field(value, offset, width)
    sign = low(np.where(size > 0, u64(1) << wide((size - u32(1)) & N5), u64(0)))
    return ((found ^ sign) - sign).view(np.int32)


def _permute_bytes(first: Any, second: Any, select: Any) -> Any:
    """v_perm_b32: bytes 0-3 of the second operand, 4-7 of the first; 8-11 signs, 12 zero, 13 and more 0xff."""
    both = wide(first) << u64(32) | wide(second)
    found: Any = u32(0)
    for place in range(4):
        number = select >> u32(8 * place) & u32(0xFF)
        byte = low(both >> wide((number & u32(7)) * u32(8)) & u64(0xFF))
        sign_at = (number - u32(8)) * u32(16) + u32(15)
        sign = low(both >> wide(sign_at & N6) & u64(1)) * u32(0xFF)
        other = np.where(number >= 13, u32(0xFF), np.where(number == 12, u32(0), sign))
        found = found | np.where(number < 8, byte, other) << u32(8 * place)
    return found


def _add_carry(a: Any, b: Any, carry: Any = False) -> tuple[Any, Any]:
    total = wide(a) + wide(b) + wide(carry)
    return low(total), total >> u64(32) != 0


def _subtract_borrow(a: Any, b: Any, borrow: Any = False) -> tuple[Any, Any]:
    return a - b - low(borrow), wide(b) + wide(borrow) > wide(a)


def _mad_unsigned(a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    product = wide(a) * wide(b)
    total = product + c
    return total, total < product


def _mad_signed(a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    total = np.asarray(a).astype(i64) * np.asarray(b).astype(i64) + c
    return total, np.zeros(np.shape(total), bool)


def _high_signed(a: Any, b: Any) -> Any:
    return (np.asarray(a).astype(i64) * np.asarray(b).astype(i64) >> i64(32)).astype(np.int32)


def _count_ones(value: Any, start: Any) -> Any:
    return low(np.bitwise_count(value)) + start


def _reverse(value: Any) -> Any:
    value = low(value)
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        value = value >> u32(shift) & u32(mask) | (value & u32(mask)) << u32(shift)
    return value >> u32(16) | value << u32(16)


def _first_high(value: Any) -> Any:
    """Zeros above the highest one; -1 where there is none."""
    bits = np.floor(np.log2(np.maximum(wide(value), u64(1)).astype(np.float64))).astype(np.int64)
    return np.where(np.asarray(value) == 0, u32(0xFFFFFFFF), low(31 - bits))


def _first_low(value: Any) -> Any:
    value = low(value)
    return np.where(value == 0, u32(0xFFFFFFFF), _count_ones((value & (~value + u32(1))) - u32(1), u32(0)))


def _align(high: Any, low_: Any, shift: Any, unit: int) -> Any:
    count = wide(shift & (N5 if unit == 1 else u32(3))) * u64(unit)
    return low((wide(high) << u64(32) | wide(low_)) >> count)


def _u24(value: Any) -> Any:
    return value & u32(0xFFFFFF)


def _i24(value: Any) -> Any:
    return ((value & u32(0xFFFFFF)) ^ u32(0x800000)).view(np.int32) - np.int32(0x800000)


def _select(if_clear: Any, if_set: Any, mask: Any) -> Any:
    return np.where(mask, if_set, if_clear)


B2, B3 = "u32:u32,u32", "u32:u32,u32,u32"
H2 = "u16:u16,u16"
INTEGERS: Table = {
    "mov_b32": ("u32:u32", lambda a: a),
    "mov_b16": ("u16:u16", lambda a: a),
    "cvt_u32_u16": ("u32:u16", low),
    "cvt_i32_i16": ("i32:i16", lambda a: np.asarray(a).astype(np.int32)),
    "mov_b64": ("u64:u64", lambda a: a),
    "accvgpr_read_b32": ("u32:u32", lambda a: a),
    "accvgpr_write_b32": ("u32:u32", lambda a: a),
    "accvgpr_mov_b32": ("u32:u32", lambda a: a),
    "not_b32": ("u32:u32", lambda a: ~a),
    "not_b16": ("u16:u16", lambda a: ~a),
    "bfrev_b32": ("u32:u32", _reverse),
    "ffbh_u32": ("u32:u32", _first_high),
    "clz_i32_u32": ("u32:u32", _first_high),
    "ffbl_b32": ("u32:u32", _first_low),
    "ctz_i32_b32": ("u32:u32", _first_low),
    "and_b32": (B2, lambda a, b: a & b),
    "or_b32": (B2, lambda a, b: a | b),
    "xor_b32": (B2, lambda a, b: a ^ b),
    "xnor_b32": (B2, lambda a, b: ~(a ^ b)),
    "and_b16": (H2, lambda a, b: a & b),
    "or_b16": (H2, lambda a, b: a | b),
    "xor_b16": (H2, lambda a, b: a ^ b),
    "add_u32": (B2, lambda a, b: a + b),
    "sub_u32": (B2, lambda a, b: a - b),
    "subrev_u32": (B2, lambda a, b: b - a),
    "add_u64": ("u64:u64,u64", lambda a, b: a + b),
    "sub_u64": ("u64:u64,u64", lambda a, b: a - b),
    "mul_u64": ("u64:u64,u64", lambda a, b: a * b),
    "add_i32": ("i32:i32,i32", lambda a, b: a + b),
    "sub_i32": ("i32:i32,i32", lambda a, b: a - b),
    "add_u16": (H2, lambda a, b: a + b),
    "sub_u16": (H2, lambda a, b: a - b),
    "subrev_u16": (H2, lambda a, b: b - a),
    "mul_lo_u16": (H2, lambda a, b: a * b),
    "mad_u16": ("u16:u16,u16,u16", lambda a, b, c: a * b + c),
    "lshlrev_b32": (B2, lambda a, b: b << (a & N5)),
    "lshrrev_b32": (B2, lambda a, b: b >> (a & N5)),
    "ashrrev_i32": ("i32:u32,i32", lambda a, b: b >> (a & N5).astype(np.int32)),
    "lshlrev_b16": (H2, lambda a, b: b << (a & N4)),
    "lshrrev_b16": (H2, lambda a, b: b >> (a & N4)),
    "ashrrev_i16": ("i16:u16,i16", lambda a, b: b >> (a & N4).astype(np.int16)),
    "lshlrev_b64": ("u64:u32,u64", lambda a, b: b << wide(a & N6)),
    "lshrrev_b64": ("u64:u32,u64", lambda a, b: b >> wide(a & N6)),
    "ashrrev_i64": ("i64:u32,i64", lambda a, b: b >> (a & N6).astype(i64)),
    "min_u32": (B2, np.minimum),
    "max_u32": (B2, np.maximum),
    "min_i32": ("i32:i32,i32", np.minimum),
    "max_i32": ("i32:i32,i32", np.maximum),
    "min_u16": (H2, np.minimum),
    "max_u16": (H2, np.maximum),
    "min_i16": ("i16:i16,i16", np.minimum),
    "max_i16": ("i16:i16,i16", np.maximum),
    "max3_i32": ("i32:i32,i32,i32", lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    "min3_i32": ("i32:i32,i32,i32", lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    "max3_u32": (B3, lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    "min3_u32": (B3, lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    "med3_i32": ("i32:i32,i32,i32", lambda a, b, c: np.median(np.broadcast_arrays(a, b, c), axis=0)),
    "mul_lo_u32": (B2, lambda a, b: a * b),
    "mad_u32": (B3, lambda a, b, c: a * b + c),
    "mul_hi_u32": (B2, lambda a, b: low(wide(a) * wide(b) >> u64(32))),
    "mul_hi_i32": ("i32:i32,i32", _high_signed),
    "mul_u32_u24": (B2, lambda a, b: _u24(a) * _u24(b)),
    "mul_i32_i24": ("i32:u32,u32", lambda a, b: _i24(a) * _i24(b)),
    "mad_u32_u24": (B3, lambda a, b, c: _u24(a) * _u24(b) + c),
    "mad_i32_i24": ("i32:u32,u32,i32", lambda a, b, c: _i24(a) * _i24(b) + c),
    "mad_u64_u32": ("u64,m:u32,u32,u64", _mad_unsigned),
    "mad_i64_i32": ("i64,m:i32,i32,i64", _mad_signed),
    "mad_co_u64_u32": ("u64,m:u32,u32,u64", _mad_unsigned),
    "mad_co_i64_i32": ("i64,m:i32,i32,i64", _mad_signed),
    "mad_nc_u64_u32": ("u64:u32,u32,u64", lambda a, b, c: wide(a) * wide(b) + c),
    "mad_nc_i64_i32": ("i64:i32,i32,i64", lambda a, b, c: _mad_signed(a, b, c)[0]),
    "add_lshl_u32": (B3, lambda a, b, c: (a + b) << (c & N5)),
    "lshl_add_u32": (B3, lambda a, b, c: (a << (b & N5)) + c),
    "lshl_add_u64": ("u64:u64,u32,u64", lambda a, b, c: (a << wide(b & u32(7))) + c),
    "lshl_or_b32": (B3, lambda a, b, c: (a << (b & N5)) | c),
    "and_or_b32": (B3, lambda a, b, c: a & b | c),
    "or3_b32": (B3, lambda a, b, c: a | b | c),
    "xor3_b32": (B3, lambda a, b, c: a ^ b ^ c),
    "xad_u32": (B3, lambda a, b, c: (a ^ b) + c),
    "add3_u32": (B3, lambda a, b, c: a + b + c),
    "bfe_u32": (B3, _field),
    "bfe_i32": ("i32:u32,u32,u32", _signed_field),
    "bfi_b32": (B3, lambda a, b, c: a & b | ~a & c),
    "bfm_b32": (B2, lambda a, b: ((u32(1) << (a & N5)) - u32(1)) << (b & N5)),
    "perm_b32": (B3, _permute_bytes),
    "alignbit_b32": (B3, lambda a, b, c: _align(a, b, c, 1)),
    "alignbyte_b32": (B3, lambda a, b, c: _align(a, b, c, 8)),
    "bcnt_u32_b32": (B2, _count_ones),
    "add_co_u32": ("u32,m:u32,u32", _add_carry),
    "addc_co_u32": ("u32,m:u32,u32,m", _add_carry),
    "sub_co_u32": ("u32,m:u32,u32", _subtract_borrow),
    "subrev_co_u32": ("u32,m:u32,u32", lambda a, b: _subtract_borrow(b, a)),
    "subb_co_u32": ("u32,m:u32,u32,m", _subtract_borrow),
    "subbrev_co_u32": ("u32,m:u32,u32,m", lambda a, b, c: _subtract_borrow(b, a, c)),
    "cndmask_b32": ("u32:u32,u32,m", _select),
    "cndmask_b16": ("u16:u16,u16,m", _select),
    "sad_u32": (B3, lambda a, b, c: np.maximum(a, b) - np.minimum(a, b) + c),
    "pack_b32_f16": ("u32:u16,u16", lambda a, b: low(a) | low(b) << u32(16)),
}


def bit_operation(table: int) -> Callable[..., Any]:
    """v_bitop3: any function of three bits; bit 4a+2b+c of the table is its value."""

    def compute(a: Any, b: Any, c: Any) -> Any:
        found = a & ~a
        for row in range(8):
            if table >> row & 1:
                found = found | (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        return found

    return compute
