"""Products by programs that walk over tiles: persistent, grouped, batched, split, and by tensor descriptors."""

from __future__ import annotations

from functools import partial

import numpy as np
import triton
import triton.language as tl

from oracles.triton_kernels import Launch
from oracles.triton_kernels.building import case, pointers


@triton.jit
def matmul_persistent(
    a, b, c, rows, cols, inner, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, FLATTEN: tl.constexpr
):
    """As many programs as there are compute units; each takes every n-th tile, `FLATTEN` makes it one loop."""
    across = tl.cdiv(cols, BN)
    k = tl.arange(0, BK)
    for tile in tl.range(tl.program_id(0), tl.cdiv(rows, BM) * across, tl.num_programs(0), flatten=FLATTEN):
        row = (tile // across) * BM + tl.arange(0, BM)
        col = (tile % across) * BN + tl.arange(0, BN)
        total = tl.zeros((BM, BN), tl.float32)
        for start in range(0, inner, BK):
            left = tl.load(a + row[:, None] * inner + (start + k)[None, :])
            right = tl.load(b + (start + k)[:, None] * cols + col[None, :])
            total = tl.dot(left, right, total)
        tl.store(c + row[:, None] * cols + col[None, :], total.to(tl.float16))


@triton.jit
def matmul_grouped(a, b, c, offsets, groups, cols, inner, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Rows offsets[g] up to offsets[g + 1] of a times b[g]; a program walks over the groups and takes its tiles."""
    across = tl.cdiv(cols, BN)
    tile = tl.program_id(0)
    before = 0
    for group in range(groups):
        first = tl.load(offsets + group)
        last = tl.load(offsets + group + 1)
        tiles = tl.cdiv(last - first, BM) * across
        while tile < before + tiles:
            row = first + ((tile - before) // across) * BM + tl.arange(0, BM)
            col = ((tile - before) % across) * BN + tl.arange(0, BN)
            inside = (row < last)[:, None]
            total = tl.zeros((BM, BN), tl.float32)
            for start in range(0, inner, BK):
                k = start + tl.arange(0, BK)
                left = tl.load(a + row[:, None] * inner + k[None, :], inside, other=0.0)
                right = tl.load(b + group * inner * cols + k[:, None] * cols + col[None, :])
                total = tl.dot(left, right, total)
            tl.store(c + row[:, None] * cols + col[None, :], total.to(tl.float16), inside)
            tile += tl.num_programs(0)
        before += tiles


@triton.jit
def matmul_batched(a, b, c, rows, cols, inner, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The third dimension of the grid is the batch."""
    batch = tl.program_id(2)
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    col = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    from_a = a + batch * rows * inner + row[:, None] * inner + k[None, :]
    from_b = b + batch * inner * cols + k[:, None] * cols + col[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, inner, BK):
        total = tl.dot(tl.load(from_a), tl.load(from_b), total)
        from_a += BK
        from_b += BK * cols
    tl.store(c + batch * rows * cols + row[:, None] * cols + col[None, :], total.to(tl.float16))


@triton.jit
def matmul_split(a, b, c, cols, inner, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr):
    """SPLIT programs share a tile of c: each sums a part of it and adds it atomically."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    col = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(tl.program_id(2) * BK, inner, BK * SPLIT):
        k = start + tl.arange(0, BK)
        left = tl.load(a + row[:, None] * inner + k[None, :])
        right = tl.load(b + k[:, None] * cols + col[None, :])
        total = tl.dot(left, right, total)
    tl.atomic_add(c + row[:, None] * cols + col[None, :], total)


@triton.jit
def matmul_described(a, b, c, rows, cols, inner, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Tiles by tensor descriptors: TMA on sm_90, TDM on gfx1250, plain pointers elsewhere; b is stored transposed."""
    tiles_a = tl.make_tensor_descriptor(a, [rows, inner], [inner, 1], [BM, BK])
    tiles_b = tl.make_tensor_descriptor(b, [cols, inner], [inner, 1], [BN, BK])
    tiles_c = tl.make_tensor_descriptor(c, [rows, cols], [cols, 1], [BM, BN])
    row = tl.program_id(0) * BM
    col = tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, inner, BK):
        total = tl.dot(tiles_a.load([row, k]), tiles_b.load([col, k]).T, total)
    tiles_c.store([row, col], total.to(tl.float16))


@triton.jit
def matmul_specialized(a, b, c, rows, cols, inner, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Persistent by tensor descriptors, with the wish that some warps load and others multiply."""
    tiles_a = tl.make_tensor_descriptor(a, [rows, inner], [inner, 1], [BM, BK])
    tiles_b = tl.make_tensor_descriptor(b, [cols, inner], [inner, 1], [BN, BK])
    tiles_c = tl.make_tensor_descriptor(c, [rows, cols], [cols, 1], [BM, BN])
    across = tl.cdiv(cols, BN)
    tiles = tl.cdiv(rows, BM) * across
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True, warp_specialize=True):
        row = (tile // across) * BM
        col = (tile % across) * BN
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, inner, BK):
            total = tl.dot(tiles_a.load([row, k]), tiles_b.load([col, k]).T, total)
        tiles_c.store([row, col], total.to(tl.float16))


def draw(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float16)


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ b.astype(np.float64)


def launch_persistent(rng: np.random.Generator, scale: int, transposed: bool = False) -> Launch:
    rows, cols, inner = 512 * scale, 256 * scale, 320 * scale
    a, b = draw(rng, rows, inner) / np.float16(inner**0.5), draw(rng, inner, cols)
    expected = multiply(a, b)
    passed = np.ascontiguousarray(b.T) if transposed else b
    args = (a, passed, np.zeros((rows, cols), np.float16), rows, cols, inner)
    return Launch((3 * scale**2, 1, 1), args, (2,), (expected,), 5e-3)


def launch_described(rng: np.random.Generator, scale: int) -> Launch:
    launch = launch_persistent(rng, scale, transposed=True)
    rows, cols = launch.args[3:5]
    return Launch((rows // 128, cols // 128, 1), launch.args, launch.outputs, launch.expected, launch.tolerance)


def launch_grouped(rng: np.random.Generator, scale: int) -> Launch:
    groups, cols, inner = 5, 128 * scale, 96 * scale
    sizes = [100 * scale, 0, 37 * scale, 64 * scale, 1]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    rows = int(offsets[-1])
    a, b = draw(rng, rows, inner) / np.float16(inner**0.5), draw(rng, groups, inner, cols)
    expected = np.concatenate([multiply(a[offsets[g] : offsets[g + 1]], b[g]) for g in range(groups)])
    args = (a, b, np.zeros((rows, cols), np.float16), offsets, groups, cols, inner)
    return Launch((4 * scale**2, 1, 1), args, (2,), (expected,), 5e-3)


def launch_batched(rng: np.random.Generator, scale: int) -> Launch:
    batch, rows, cols, inner = 3, 128 * scale, 128 * scale, 160 * scale
    a, b = draw(rng, batch, rows, inner) / np.float16(inner**0.5), draw(rng, batch, inner, cols)
    args = (a, b, np.zeros((batch, rows, cols), np.float16), rows, cols, inner)
    return Launch((rows // 64, cols // 64, batch), args, (2,), (multiply(a, b),), 5e-3)


def launch_split(rng: np.random.Generator, scale: int) -> Launch:
    rows, cols, inner = 128 * scale, 128 * scale, 1024 * scale
    a, b = draw(rng, rows, inner) / np.float16(inner**0.5), draw(rng, inner, cols)
    args = (a, b, np.zeros((rows, cols), np.float32), cols, inner)
    return Launch((rows // 64, cols // 64, 4), args, (2,), (multiply(a, b),), 1e-3)


SIZES = {"cols": "i32:16", "inner": "i32:16"}
HALVES = pointers("fp16", "a", "b", "c")
TYPES = {**HALVES, "rows": "i32:16", **SIZES}
GROUPED = {**HALVES, "offsets": "*i32:16", "groups": "i32", **SIZES}
SPLIT = {**pointers("fp16", "a", "b"), **pointers("fp32", "c"), **SIZES}
SMALL = {"BM": 64, "BN": 64, "BK": 32}
LARGE = {"BM": 128, "BN": 128, "BK": 64}

CASES = (
    *(
        case(
            f"matmul-persistent{'-flat' if flatten else ''}",
            matmul_persistent,
            TYPES,
            {**LARGE, "FLATTEN": flatten},
            kernel="matmul-persistent",
            launch=launch_persistent,
            num_stages=3,
            num_warps=8,
        )
        for flatten in (False, True)
    ),
    case("matmul-grouped", matmul_grouped, GROUPED, SMALL, launch=launch_grouped, num_stages=3, num_warps=4),
    case("matmul-batched", matmul_batched, TYPES, SMALL, launch=launch_batched, num_stages=4, num_warps=4),
    case("matmul-split", matmul_split, SPLIT, {**SMALL, "SPLIT": 4}, launch=launch_split, num_stages=3, num_warps=4),
    case("matmul-described", matmul_described, TYPES, LARGE, launch=launch_described, num_stages=3, num_warps=8),
    case(
        "matmul-specialized",
        matmul_specialized,
        TYPES,
        LARGE,
        launch=partial(launch_persistent, transposed=True),
        num_stages=3,
        num_warps=4,
    ),
)
