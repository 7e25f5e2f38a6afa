"""Gluon for AMD's MFMA chips: products staged through registers, by copies into LDS, and with stages of warps."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.amd import cdna3, cdna4
from triton.experimental.gluon.language.amd.cdna4 import async_copy

from oracles.triton_kernels.building import case, pointers


@gluon.jit
def matmul_staged(
    a,
    b,
    c,
    cols,
    inner,
    BM: gl.constexpr,
    BN: gl.constexpr,
    BK: gl.constexpr,
    WIDTH: gl.constexpr,
    MMA: gl.constexpr,
    LOAD_A: gl.constexpr,
    LOAD_B: gl.constexpr,
):
    """The next tiles are loaded into registers while these are multiplied, then stored into the same buffer."""
    space_a = gl.allocate_shared_memory(gl.float16, [BM, BK], gl.SwizzledSharedLayout(8, 1, 8, [1, 0]))
    space_b = gl.allocate_shared_memory(gl.float16, [BK, BN], gl.SwizzledSharedLayout(8, 1, 8, [1, 0]))
    a_row = gl.program_id(0) * BM + gl.arange(0, BM, layout=gl.SliceLayout(1, LOAD_A))
    a_k = gl.arange(0, BK, layout=gl.SliceLayout(0, LOAD_A))
    b_k = gl.arange(0, BK, layout=gl.SliceLayout(1, LOAD_B))
    b_col = gl.program_id(1) * BN + gl.arange(0, BN, layout=gl.SliceLayout(0, LOAD_B))
    at_a = a_row[:, None] * inner + a_k[None, :]
    at_b = b_k[:, None] * cols + b_col[None, :]
    space_a.store(cdna3.buffer_load(a, at_a))
    space_b.store(cdna3.buffer_load(b, at_b))
    total = gl.full((BM, BN), 0.0, gl.float32, MMA)
    for _ in range(inner // BK - 1):
        at_a += BK
        at_b += BK * cols
        next_a = cdna3.buffer_load(a, at_a)
        next_b = cdna3.buffer_load(b, at_b)
        gl.barrier()
        left = space_a.load(gl.DotOperandLayout(0, MMA, WIDTH))
        right = space_b.load(gl.DotOperandLayout(1, MMA, WIDTH))
        total = cdna3.mfma(left, right, total)
        gl.barrier()
        space_a.store(next_a)
        space_b.store(next_b)
    gl.barrier()
    left = space_a.load(gl.DotOperandLayout(0, MMA, WIDTH))
    right = space_b.load(gl.DotOperandLayout(1, MMA, WIDTH))
    total = cdna3.mfma(left, right, total)
    row = gl.program_id(0) * BM + gl.arange(0, BM, layout=gl.SliceLayout(1, MMA))
    col = gl.program_id(1) * BN + gl.arange(0, BN, layout=gl.SliceLayout(0, MMA))
    cdna3.buffer_store(total.to(gl.float16), c, row[:, None] * cols + col[None, :])


@gluon.jit
def matmul_buffered(
    a,
    b,
    c,
    cols,
    inner,
    BM: gl.constexpr,
    BN: gl.constexpr,
    BK: gl.constexpr,
    SLOTS: gl.constexpr,
    RELAXED: gl.constexpr,
    MMA: gl.constexpr,
    LOAD_A: gl.constexpr,
    LOAD_B: gl.constexpr,
):
    """Copies from global memory into SLOTS slots of LDS; `RELAXED`: the compiler may trust the waits."""
    dot_a: gl.constexpr = gl.DotOperandLayout(0, MMA, 8)
    dot_b: gl.constexpr = gl.DotOperandLayout(1, MMA, 8)
    flat: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    space_a = gl.allocate_shared_memory(gl.float16, [SLOTS, BM, BK], flat)
    space_b = gl.allocate_shared_memory(gl.float16, [SLOTS, BK, BN], flat)
    a_row = gl.program_id(0) * BM + gl.arange(0, BM, layout=gl.SliceLayout(1, LOAD_A))
    a_k = gl.arange(0, BK, layout=gl.SliceLayout(0, LOAD_A))
    b_k = gl.arange(0, BK, layout=gl.SliceLayout(1, LOAD_B))
    b_col = gl.program_id(1) * BN + gl.arange(0, BN, layout=gl.SliceLayout(0, LOAD_B))
    at_a = a_row[:, None] * inner + a_k[None, :]
    at_b = b_k[:, None] * cols + b_col[None, :]
    for slot in gl.static_range(SLOTS - 1):
        async_copy.buffer_load_to_shared(space_a.index(slot), a, at_a)
        async_copy.buffer_load_to_shared(space_b.index(slot), b, at_b)
        async_copy.commit_group()
        at_a += BK
        at_b += BK * cols
    total = gl.full((BM, BN), 0.0, gl.float32, MMA)
    steps = inner // BK
    for step in range(steps - (SLOTS - 1)):
        async_copy.wait_group(SLOTS - 2)
        gl.barrier()
        into = (step + SLOTS - 1) % SLOTS
        async_copy.buffer_load_to_shared(space_a.index(into), a, at_a)
        async_copy.buffer_load_to_shared(space_b.index(into), b, at_b)
        async_copy.commit_group()
        at_a += BK
        at_b += BK * cols
        if RELAXED:
            left = async_copy.load_shared_relaxed(space_a.index(step % SLOTS), dot_a)
            right = async_copy.load_shared_relaxed(space_b.index(step % SLOTS), dot_b)
        else:
            left = space_a.index(step % SLOTS).load(dot_a)
            right = space_b.index(step % SLOTS).load(dot_b)
        total = cdna4.mfma(left, right, total)
    for last in gl.static_range(SLOTS - 1):
        async_copy.wait_group(SLOTS - 2 - last)
        gl.barrier()
        at = (steps - (SLOTS - 1) + last) % SLOTS
        total = cdna4.mfma(space_a.index(at).load(dot_a), space_b.index(at).load(dot_b), total)
    row = gl.program_id(0) * BM + gl.arange(0, BM, layout=gl.SliceLayout(1, MMA))
    col = gl.program_id(1) * BN + gl.arange(0, BN, layout=gl.SliceLayout(0, MMA))
    cdna4.buffer_store(total.to(gl.float16), c, row[:, None] * cols + col[None, :])


@gluon.jit
def matmul_stages(
    a,
    b,
    c,
    cols,
    inner,
    BM: gl.constexpr,
    BN: gl.constexpr,
    BK: gl.constexpr,
    SLOTS: gl.constexpr,
    MMA: gl.constexpr,
    LOAD_A: gl.constexpr,
    LOAD_B: gl.constexpr,
):
    """Two groups of warps take turns: while one is in the stage of memory, the other is in that of products."""
    dot_a: gl.constexpr = gl.DotOperandLayout(0, MMA, 8)
    dot_b: gl.constexpr = gl.DotOperandLayout(1, MMA, 8)
    flat: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    space_a = gl.allocate_shared_memory(gl.float16, [SLOTS, BM, BK], flat)
    space_b = gl.allocate_shared_memory(gl.float16, [SLOTS, BK, BN], flat)
    a_row = gl.program_id(0) * BM + gl.arange(0, BM, layout=gl.SliceLayout(1, LOAD_A))
    a_k = gl.arange(0, BK, layout=gl.SliceLayout(0, LOAD_A))
    b_k = gl.arange(0, BK, layout=gl.SliceLayout(1, LOAD_B))
    b_col = gl.program_id(1) * BN + gl.arange(0, BN, layout=gl.SliceLayout(0, LOAD_B))
    at_a = a_row[:, None] * inner + a_k[None, :]
    at_b = b_k[:, None] * cols + b_col[None, :]
    for slot in gl.static_range(SLOTS - 1):
        async_copy.buffer_load_to_shared(space_a.index(slot), a, at_a)
        async_copy.buffer_load_to_shared(space_b.index(slot), b, at_b)
        async_copy.commit_group()
        at_a += BK
        at_b += BK * cols
    total = gl.full((BM, BN), 0.0, gl.float32, MMA)
    steps = inner // BK
    async_copy.wait_group(SLOTS - 2)
    for step in range(steps - (SLOTS - 1)):
        with gl.amd.warp_pipeline_stage("memory", priority=1):
            left = space_a.index(step % SLOTS).load(dot_a)
            right = space_b.index(step % SLOTS).load(dot_b)
            into = (step + SLOTS - 1) % SLOTS
            async_copy.buffer_load_to_shared(space_a.index(into), a, at_a)
            async_copy.buffer_load_to_shared(space_b.index(into), b, at_b)
            async_copy.commit_group()
            at_a += BK
            at_b += BK * cols
        async_copy.wait_group(SLOTS - 2)
        with gl.amd.warp_pipeline_stage("products", priority=0):
            total = cdna4.mfma(left, right, total)
    for last in gl.static_range(SLOTS - 1):
        async_copy.wait_group(SLOTS - 2 - last)
        at = (steps - (SLOTS - 1) + last) % SLOTS
        total = cdna4.mfma(space_a.index(at).load(dot_a), space_b.index(at).load(dot_b), total)
    row = gl.program_id(0) * BM + gl.arange(0, BM, layout=gl.SliceLayout(1, MMA))
    col = gl.program_id(1) * BN + gl.arange(0, BN, layout=gl.SliceLayout(0, MMA))
    cdna4.buffer_store(total.to(gl.float16), c, row[:, None] * cols + col[None, :])


def choose_staged(target: str) -> dict[str, object]:
    version, shape, width = (3, [32, 32, 8], 4) if target == "gfx942" else (4, [32, 32, 16], 8)
    return {
        "BM": 128,
        "BN": 128,
        "BK": 64,
        "WIDTH": width,
        "MMA": gl.amd.AMDMFMALayout(version=version, instr_shape=shape, transposed=True, warps_per_cta=[2, 2]),
        "LOAD_A": gl.BlockedLayout([1, 8], [8, 8], [4, 1], [1, 0]),
        "LOAD_B": gl.BlockedLayout([1, 8], [4, 16], [4, 1], [1, 0]),
    }


TYPES = {**pointers("fp16", "a", "b", "c"), "cols": "i32:16", "inner": "i32:16"}
FOUR_WARPS = {
    "BM": 128,
    "BN": 128,
    "BK": 64,
    "MMA": gl.amd.AMDMFMALayout(version=4, instr_shape=[32, 32, 16], transposed=True, warps_per_cta=[2, 2]),
    "LOAD_A": gl.BlockedLayout([1, 8], [8, 8], [4, 1], [1, 0]),
    "LOAD_B": gl.BlockedLayout([1, 8], [4, 16], [4, 1], [1, 0]),
}
EIGHT_WARPS = {
    "BM": 256,
    "BN": 256,
    "BK": 32,
    "MMA": gl.amd.AMDMFMALayout(version=4, instr_shape=[32, 32, 16], transposed=True, warps_per_cta=[2, 4]),
    "LOAD_A": gl.BlockedLayout([1, 8], [16, 4], [8, 1], [1, 0]),
    "LOAD_B": gl.BlockedLayout([1, 8], [2, 32], [8, 1], [1, 0]),
}

CASES = (
    case("gluon-matmul-staged", matmul_staged, TYPES, choose_staged, targets=("gfx942", "gfx950"), num_warps=4),
    *(
        case(
            f"gluon-matmul-buffered-s{slots}{'-relaxed' if relaxed else ''}",
            matmul_buffered,
            TYPES,
            {**FOUR_WARPS, "SLOTS": slots, "RELAXED": relaxed},
            kernel="gluon-matmul-buffered",
            targets=("gfx950",),
            num_warps=4,
        )
        for slots, relaxed in ((2, False), (3, False), (3, True))
    ),
    *(
        case(
            f"gluon-matmul-stages-s{slots}",
            matmul_stages,
            TYPES,
            {**EIGHT_WARPS, "SLOTS": slots},
            kernel="gluon-matmul-stages",
            targets=("gfx950",),
            num_warps=8,
        )
        for slots in (3, 4)
    ),
)
