"""Products of other than halves: 8-bit floats, weights of 8 and 4 bits, scaled groups, rows gathered for experts."""

from __future__ import annotations

from functools import partial

import ml_dtypes
import numpy as np
import triton
import triton.language as tl

from oracles.triton_kernels import EVERYWHERE, Launch
from oracles.triton_kernels.building import case, pointers


@triton.jit
def matmul_scaled(a, b, c, scale_a, scale_b, cols, inner, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """8-bit floats with a scale for each row of a and each column of b, which is stored transposed."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    col = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    from_a = a + row[:, None] * inner + k[None, :]
    from_b = b + col[None, :] * inner + k[:, None]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, inner, BK):
        total = tl.dot(tl.load(from_a), tl.load(from_b), total)
        from_a += BK
        from_b += BK
    total = total * tl.load(scale_a + row)[:, None] * tl.load(scale_b + col)[None, :]
    tl.store(c + row[:, None] * cols + col[None, :], total.to(tl.float16))


@triton.jit
def matmul_weights8(a, b, c, scales, cols, inner, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Whole-number weights with one scale for each column and BK rows, widened just before they are multiplied."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    col = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for block in range(tl.cdiv(inner, BK)):
        k = block * BK + tl.arange(0, BK)
        left = tl.load(a + row[:, None] * inner + k[None, :])
        packed = tl.load(b + k[:, None] * cols + col[None, :])
        scale = tl.load(scales + block * cols + col)
        total = tl.dot(left, packed.to(tl.float16) * scale[None, :], total)
    tl.store(c + row[:, None] * cols + col[None, :], total.to(tl.float16))


@triton.jit
def matmul_weights4(a, b, c, scales, cols, inner, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Two weights in a byte: row k of b holds rows 2k (low half) and 2k + 1 (high half), each less 8."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    col = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for block in range(tl.cdiv(inner, BK)):
        k = block * BK + tl.arange(0, BK)
        pair = block * (BK // 2) + tl.arange(0, BK // 2)
        left = tl.load(a + row[:, None] * inner + k[None, :])
        packed = tl.load(b + pair[None, :] * cols + col[:, None])
        low = ((packed & 15).to(tl.int8) - 8).to(tl.float16)
        high = ((packed >> 4).to(tl.int8) - 8).to(tl.float16)
        weights = tl.interleave(low, high) * tl.load(scales + block * cols + col)[:, None]
        total = tl.dot(left, weights.T, total)
    tl.store(c + row[:, None] * cols + col[None, :], total.to(tl.float16))


@triton.jit
def matmul_experts(a, b, c, rows, experts, cols, inner, tokens, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A tile gathers the tokens that one expert was given (`tokens` where there are fewer) and scatters its result."""
    block = tl.program_id(0)
    token = tl.load(rows + block * BM + tl.arange(0, BM))
    inside = (token < tokens)[:, None]
    weights = b + tl.load(experts + block) * inner * cols
    col = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, inner, BK):
        k = start + tl.arange(0, BK)
        left = tl.load(a + token[:, None] * inner + k[None, :], inside, other=0.0)
        right = tl.load(weights + k[:, None] * cols + col[None, :])
        total = tl.dot(left, right, total)
    total = total / (1 + tl.exp(-total))
    tl.store(c + token[:, None] * cols + col[None, :], total.to(tl.float16), inside)


@triton.jit
def matmul_micro(a, scale_a, b, scale_b, c, cols, inner, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """8-bit floats with an 8-bit exponent for every 32 along the sum; b is stored transposed."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    col = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, inner, BK):
        k = start + tl.arange(0, BK)
        group = start // 32 + tl.arange(0, BK // 32)
        left = tl.load(a + row[:, None] * inner + k[None, :])
        right = tl.load(b + col[None, :] * inner + k[:, None])
        left_scale = tl.load(scale_a + row[:, None] * (inner // 32) + group[None, :])
        right_scale = tl.load(scale_b + col[:, None] * (inner // 32) + group[None, :])
        total = tl.dot_scaled(left, left_scale, "e5m2", right, right_scale, "e5m2", total)
    tl.store(c + row[:, None] * cols + col[None, :], total.to(tl.float16))


def launch_scaled(rng: np.random.Generator, scale: int, element: type) -> Launch:
    rows, cols, inner = 256 * scale, 256 * scale, 320 * scale
    a, b = (rng.standard_normal((size, inner)).astype(element) for size in (rows, cols))
    scale_a, scale_b = (rng.uniform(0.5, 1.5, size).astype(np.float32) / inner**0.25 for size in (rows, cols))
    scale_a, scale_b = scale_a.astype(np.float32), scale_b.astype(np.float32)
    expected = a.astype(np.float64) @ b.astype(np.float64).T * scale_a[:, None] * scale_b
    args = (a, b, np.zeros((rows, cols), np.float16), scale_a, scale_b, cols, inner)
    # The matrix unit of sm_90 keeps fewer bits of a sum of 8-bit floats.
    return Launch((rows // 128, cols // 128, 1), args, (2,), (expected,), 2e-2)


def launch_weights(rng: np.random.Generator, scale: int, bits: int) -> Launch:
    rows, cols, inner, block = 128 * scale, 128 * scale, 256 * scale, 64
    a = (rng.standard_normal((rows, inner)) / inner**0.5).astype(np.float16)
    weights = rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), (inner, cols))
    scales = (rng.uniform(0.5, 1.5, (inner // block, cols)) / 2 ** (bits - 2)).astype(np.float16)
    wide = (weights * np.repeat(scales, block, 0).astype(np.float64)).astype(np.float16)
    if bits == 8:
        packed = weights.astype(np.int8)
    else:
        packed = ((weights[0::2] + 8) | ((weights[1::2] + 8) << 4)).astype(np.uint8)
    expected = a.astype(np.float64) @ wide.astype(np.float64)
    args = (a, packed, np.zeros((rows, cols), np.float16), scales, cols, inner)
    return Launch((rows // 64, cols // 64, 1), args, (2,), (expected,), 1e-2)


def launch_experts(rng: np.random.Generator, scale: int) -> Launch:
    tokens, experts, cols, inner, block = 150 * scale, 4, 128 * scale, 96 * scale, 64
    chosen = rng.integers(0, experts, tokens)
    a = rng.standard_normal((tokens, inner)).astype(np.float16)
    b = (rng.standard_normal((experts, inner, cols)) / inner**0.5).astype(np.float16)
    rows: list[int] = []
    owners: list[int] = []
    product = np.zeros((tokens, cols))
    for expert in range(experts):
        mine = list(np.flatnonzero(chosen == expert))
        product[mine] = a[mine].astype(np.float64) @ b[expert].astype(np.float64)
        mine += [tokens] * (-len(mine) % block)
        rows += mine
        owners += [expert] * (len(mine) // block)
    args = (
        a,
        b,
        np.zeros((tokens, cols), np.float16),
        np.array(rows, np.int32),
        np.array(owners, np.int32),
        cols,
        inner,
        tokens,
    )
    return Launch((len(owners), cols // 64, 1), args, (2,), (product / (1 + np.exp(-product)),), 5e-3)


def launch_micro(rng: np.random.Generator, scale: int) -> Launch:
    rows, cols, inner = 128 * scale, 128 * scale, 256 * scale
    a, b = (rng.standard_normal((size, inner)).astype(ml_dtypes.float8_e5m2) for size in (rows, cols))
    scale_a, scale_b = (rng.integers(124, 127, (size, inner // 32)).astype(np.uint8) for size in (rows, cols))
    wide_a, wide_b = (
        values.astype(np.float64) * np.repeat(2.0 ** (exponents.astype(np.float64) - 127), 32, 1)
        for values, exponents in ((a, scale_a), (b, scale_b))
    )
    args = (a, scale_a, b, scale_b, np.zeros((rows, cols), np.float16), cols, inner)
    return Launch((rows // 64, cols // 64, 1), args, (4,), (wide_a @ wide_b.T,), 2e-2)


def scaled_types(target: str, element: str) -> dict[str, str]:
    chosen = "fp8e4b8" if (target, element) == ("gfx942", "fp8e4nv") else element  # what its matrix unit takes
    return {**pointers(chosen, "a", "b"), **pointers("fp16", "c"), **pointers("fp32", "scale_a", "scale_b"), **SIZES}


SIZES = {"cols": "i32:16", "inner": "i32:16"}
WEIGHTS8 = {**pointers("fp16", "a", "c", "scales"), "b": "*i8:16", **SIZES}
WEIGHTS4 = {**pointers("fp16", "a", "c", "scales"), "b": "*u8:16", **SIZES}
EXPERTS = {**pointers("fp16", "a", "b", "c"), **pointers("i32", "rows", "experts"), **SIZES, "tokens": "i32"}
MICRO = {
    **pointers("fp8e5", "a", "b"),
    **pointers("u8", "scale_a", "scale_b"),
    **pointers("fp16", "c"),
    **SIZES,
}
TILE = {"BM": 64, "BN": 64, "BK": 64}

CASES = (
    case(
        "matmul-fp8e5",
        matmul_scaled,
        partial(scaled_types, element="fp8e5"),
        {"BM": 128, "BN": 128, "BK": 64},
        kernel="matmul-fp8",
        launch=partial(launch_scaled, element=ml_dtypes.float8_e5m2),
        num_stages=3,
        num_warps=8,
    ),
    case(
        "matmul-fp8e4",
        matmul_scaled,
        partial(scaled_types, element="fp8e4nv"),
        {"BM": 128, "BN": 128, "BK": 64},
        kernel="matmul-fp8",
        targets=tuple(target for target in EVERYWHERE if target != "sm_80"),  # which has no such type
        launch=partial(launch_scaled, element=ml_dtypes.float8_e4m3fn),
        num_stages=4,
        num_warps=4,
    ),
    case(
        "matmul-int8",
        matmul_weights8,
        WEIGHTS8,
        TILE,
        kernel="matmul-weights",
        launch=partial(launch_weights, bits=8),
        num_stages=3,
        num_warps=4,
    ),
    case(
        "matmul-int4",
        matmul_weights4,
        WEIGHTS4,
        TILE,
        kernel="matmul-weights",
        launch=partial(launch_weights, bits=4),
        num_stages=3,
        num_warps=4,
    ),
    case(
        "matmul-experts",
        matmul_experts,
        EXPERTS,
        {**TILE, "BK": 32},
        launch=launch_experts,
        num_stages=3,
        num_warps=4,
    ),
    case(
        "matmul-micro",
        matmul_micro,
        MICRO,
        {"BM": 64, "BN": 64, "BK": 128},
        launch=launch_micro,
        num_stages=2,
        num_warps=4,
    ),
)
