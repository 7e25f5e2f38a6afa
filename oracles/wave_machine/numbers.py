"""Wave's element types as NumPy's.

Needs   a Wave `DataType`
Gives   the NumPy type that holds it, conversions, and floats of 4 and 8 bits from their bytes
Keeps   a type that NumPy and ml_dtypes do not have raises `CannotRun`
Cost    nothing worth a word
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from oracles.wave_machine.expressions import CannotRun

Array = NDArray[Any]

HELD: dict[str, Any] = {
    "bool": np.bool_,
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "index": np.int64,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
}


def held_as(dtype: Any) -> np.dtype[Any]:
    """The NumPy type of a Wave type."""
    if str(dtype) not in HELD:
        raise CannotRun(f"elements of type {dtype}")
    held: np.dtype[Any] = np.dtype(HELD[str(dtype)])
    return held


def cast(array: Array, dtype: Any) -> Array:
    """Another type with the same numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(held_as(dtype))


def read_bits(array: Array, dtype: Any) -> Array:
    """The same bytes as another type; 4-bit floats come two from a byte, the lower half first, and are held as f32."""
    if str(dtype) == "f4E2M1FN":
        raw = np.ascontiguousarray(array).view(np.uint8)
        halves = np.stack([raw & 15, raw >> 4], axis=-1).reshape(raw.shape[0], -1)
        return np.asarray(halves.view(ml_dtypes.float4_e2m1fn), np.float32)
    return np.ascontiguousarray(array).view(held_as(dtype))
