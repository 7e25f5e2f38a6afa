"""The kernel of seed 004: copies to one slot of three and reads of another, in one stage of a warp pipeline."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.amd import gfx1250
from triton.experimental.gluon.language.amd.gfx1250 import tdm

from oracles.triton_kernels import Case
from oracles.triton_kernels.building import case
from oracles.triton_kernels.gluon_gfx1250 import DESCRIBED, EIGHT_WARPS, HERE


@gluon.jit
def triple_buffered(
    a,
    b,
    c,
    rows,
    cols,
    inner,
    BM: gl.constexpr,
    BN: gl.constexpr,
    BK: gl.constexpr,
    SLOTS: gl.constexpr,
    MMA: gl.constexpr,
):
    """Tiles by the tensor data mover, some steps ahead; stages of a warp pipeline for memory and for products."""
    padded_a: gl.constexpr = gl.PaddedSharedLayout.with_identity_for([[BK, 8]], [BM, BK], [1, 0])
    padded_b: gl.constexpr = gl.PaddedSharedLayout.with_identity_for([[BN, 8]], [BK, BN], [1, 0])
    tiles_a = tdm.make_tensor_descriptor(a, [rows, inner], [inner, 1], [BM, BK], padded_a)
    tiles_b = tdm.make_tensor_descriptor(b, [inner, cols], [cols, 1], [BK, BN], padded_b)
    space_a = gl.allocate_shared_memory(gl.float16, [SLOTS, BM, BK], padded_a)
    space_b = gl.allocate_shared_memory(gl.float16, [SLOTS, BK, BN], padded_b)
    row = gl.program_id(0) * BM
    col = gl.program_id(1) * BN
    prod = 0
    cons = 0
    for _ in gl.static_range(SLOTS - 1):
        tdm.async_load(tiles_a, [row, prod * BK], space_a.index(prod % SLOTS))
        tdm.async_load(tiles_b, [prod * BK, col], space_b.index(prod % SLOTS))
        prod += 1
    total = gl.full((BM, BN), 0.0, gl.float32, MMA)
    tdm.async_wait((SLOTS - 2) * 2)
    for _ in range(gl.cdiv(inner, BK) - (SLOTS - 1)):
        with gl.amd.warp_pipeline_stage("stage0", priority=1):
            tdm.async_load(tiles_a, [row, prod * BK], space_a.index(prod % SLOTS))
            tdm.async_load(tiles_b, [prod * BK, col], space_b.index(prod % SLOTS))
            prod += 1
            left = space_a.index(cons % SLOTS).load(gl.DotOperandLayout(0, MMA, 8))
            right = space_b.index(cons % SLOTS).load(gl.DotOperandLayout(1, MMA, 8))
            cons += 1
        tdm.async_wait(2)
        with gl.amd.warp_pipeline_stage("stage1", priority=0):
            total = gfx1250.wmma(left, right, total)
    for left_over in gl.static_range(SLOTS - 1):
        tdm.async_wait((SLOTS - 2 - left_over) * 2)
        left = space_a.index(cons % SLOTS).load(gl.DotOperandLayout(0, MMA, 8))
        right = space_b.index(cons % SLOTS).load(gl.DotOperandLayout(1, MMA, 8))
        cons += 1
        total = gfx1250.wmma(left, right, total)
    out_row = row + gl.arange(0, BM, layout=gl.SliceLayout(1, MMA))
    out_col = col + gl.arange(0, BN, layout=gl.SliceLayout(0, MMA))
    gl.store(c + out_row[:, None] * cols + out_col[None, :], total.to(gl.float16))


def seed_004(slots: int) -> Case:
    """The kernel with that many slots."""
    return case(
        f"seed-004-s{slots}", triple_buffered, DESCRIBED, {**EIGHT_WARPS, "SLOTS": slots}, targets=HERE, num_warps=8
    )
