"""Products of matrices, one tile for each program: whole tiles, masked ones, and 32-bit operands.

`matmul-sN-wM` has N stages and M warps; the same source shows what the number of stages makes of one loop. With 8 warps
and many stages it takes more shared memory than some chips have: Triton says so only at a launch, not when it compiles.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import triton
import triton.language as tl

from oracles.triton_kernels import Launch
from oracles.triton_kernels.building import case, pointers


@triton.jit
def matmul(a, b, c, cols, inner, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """One tile of c = a @ b; sizes are multiples of the tile."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    col = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    from_a = a + row[:, None] * inner + k[None, :]
    from_b = b + k[:, None] * cols + col[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, inner, BK):
        total = tl.dot(tl.load(from_a), tl.load(from_b), total)
        from_a += BK
        from_b += BK * cols
    tl.store(c + row[:, None] * cols + col[None, :], total.to(c.dtype.element_ty))


@triton.jit
def matmul_masked(a, b, c, bias, rows, cols, inner, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Any sizes; b is stored transposed, and a bias with a ReLU follows."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    col = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, inner, BK):
        k = start + tl.arange(0, BK)
        left = tl.load(a + row[:, None] * inner + k[None, :], (row[:, None] < rows) & (k[None, :] < inner), other=0.0)
        right = tl.load(b + col[None, :] * inner + k[:, None], (col[None, :] < cols) & (k[:, None] < inner), other=0.0)
        total += tl.dot(left, right)
    total += tl.load(bias + col, col < cols, other=0.0)[None, :]
    total = tl.maximum(total, 0.0)
    inside = (row[:, None] < rows) & (col[None, :] < cols)
    tl.store(c + row[:, None] * cols + col[None, :], total.to(tl.float16), inside)


def launch_matmul(
    rng: np.random.Generator, scale: int, tile: tuple[int, int, int], element: type = np.float16
) -> Launch:
    rows, cols, inner = 2 * scale * tile[0], 2 * scale * tile[1], 5 * scale * tile[2]
    a = (rng.standard_normal((rows, inner)) / inner**0.5).astype(element)
    b = rng.standard_normal((inner, cols)).astype(element)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    args = (a, b, np.zeros((rows, cols), element), cols, inner)
    return Launch((2 * scale, 2 * scale, 1), args, (2,), (expected,), 5e-3)


def launch_masked(rng: np.random.Generator, scale: int) -> Launch:
    rows, cols, inner = 100 * scale, 77 * scale, 83 * scale
    a = (rng.standard_normal((rows, inner)) / inner**0.5).astype(np.float16)
    b = rng.standard_normal((cols, inner)).astype(np.float16)
    bias = rng.standard_normal(cols).astype(np.float32)
    expected = np.maximum(a.astype(np.float64) @ b.astype(np.float64).T + bias, 0.0)
    args = (a, b, np.zeros((rows, cols), np.float16), bias, rows, cols, inner)
    return Launch((-(-rows // 64), -(-cols // 64), 1), args, (2,), (expected,), 5e-3)


SIZES = {"cols": "i32:16", "inner": "i32:16"}
TYPES = {**pointers("fp16", "a", "b", "c"), **SIZES}
SINGLE = {**pointers("fp32", "a", "b", "c"), **SIZES}
MASKED = {
    **pointers("fp16", "a", "b", "c"),
    **pointers("fp32", "bias"),
    "rows": "i32",
    "cols": "i32",
    "inner": "i32",
}
SMALL = {"BM": 64, "BN": 64, "BK": 32}
TILES = {4: (128, 128, 32), 8: (128, 256, 64)}

CASES = (
    *(
        case(
            f"matmul-s{stages}-w{warps}",
            matmul,
            TYPES,
            dict(zip(("BM", "BN", "BK"), tile, strict=True)),
            kernel="matmul",
            launch=partial(launch_matmul, tile=tile),
            num_stages=stages,
            num_warps=warps,
        )
        for warps, tile in TILES.items()
        for stages in (1, 2, 3, 4)
    ),
    case(
        "matmul-fp32",
        matmul,
        SINGLE,
        SMALL,
        kernel="matmul",
        launch=partial(launch_matmul, tile=(64, 64, 32), element=np.float32),
        num_stages=3,
        num_warps=4,
    ),
    case("matmul-masked", matmul_masked, MASKED, SMALL, launch=launch_masked, num_stages=3, num_warps=4),
    # The tile for which AMD's compiler staggers two groups of waves.
    case(
        "matmul-pingpong",
        matmul,
        TYPES,
        {"BM": 256, "BN": 256, "BK": 64},
        kernel="matmul",
        launch=partial(launch_matmul, tile=(256, 256, 64)),
        num_stages=2,
        num_warps=8,
    ),
)
