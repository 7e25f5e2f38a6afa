"""Gluon for NVIDIA since Ampere: cp.async into slots, waited for by groups or at an mbarrier.

Here the kernel's writer placed every wait and every fence: this is code where one too few can be.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import ampere
from triton.experimental.gluon.language.nvidia.ampere import async_copy, mbarrier

from oracles.triton_kernels import NVIDIA, Launch
from oracles.triton_kernels.building import case, pointers
from oracles.triton_kernels.matmul import launch_matmul


@gluon.jit
def add_pipelined(x, y, out, cols, BLOCK: gl.constexpr, SLOTS: gl.constexpr, LAYOUT: gl.constexpr):
    """Rows of x and y by cp.async, SLOTS pieces ahead."""
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    space_x = gl.allocate_shared_memory(gl.float32, [SLOTS, BLOCK], shared)
    space_y = gl.allocate_shared_memory(gl.float32, [SLOTS, BLOCK], shared)
    lane = gl.arange(0, BLOCK, layout=LAYOUT)
    row = gl.program_id(0) * cols
    for slot in gl.static_range(SLOTS - 1):
        place = slot * BLOCK + lane
        async_copy.async_load(space_x.index(slot), x + row + place, mask=place < cols)
        async_copy.async_load(space_y.index(slot), y + row + place, mask=place < cols)
        async_copy.commit_group()
    for piece in range(gl.cdiv(cols, BLOCK)):
        ahead = (piece + SLOTS - 1) * BLOCK + lane
        into = (piece + SLOTS - 1) % SLOTS
        async_copy.wait_group(SLOTS - 2)
        gl.barrier()
        async_copy.async_load(space_x.index(into), x + row + ahead, mask=ahead < cols)
        async_copy.async_load(space_y.index(into), y + row + ahead, mask=ahead < cols)
        async_copy.commit_group()
        place = piece * BLOCK + lane
        total = space_x.index(piece % SLOTS).load(LAYOUT) + space_y.index(piece % SLOTS).load(LAYOUT)
        gl.store(out + row + place, total, mask=place < cols)
    async_copy.wait_group(0)


@gluon.jit
def matmul_copied(
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
    """A product by cp.async into SLOTS slots and mma.sync."""
    left_layout: gl.constexpr = gl.DotOperandLayout(0, MMA, 2)
    right_layout: gl.constexpr = gl.DotOperandLayout(1, MMA, 2)
    space_a = gl.allocate_shared_memory(gl.float16, [SLOTS, BM, BK], gl.SwizzledSharedLayout(8, 2, 4, [1, 0]))
    space_b = gl.allocate_shared_memory(gl.float16, [SLOTS, BK, BN], gl.SwizzledSharedLayout(8, 1, 8, [1, 0]))
    row = gl.program_id(0) * BM
    col = gl.program_id(1) * BN
    a_row = row + gl.arange(0, BM, layout=gl.SliceLayout(1, LOAD_A))
    a_k = gl.arange(0, BK, layout=gl.SliceLayout(0, LOAD_A))
    b_k = gl.arange(0, BK, layout=gl.SliceLayout(1, LOAD_B))
    b_col = col + gl.arange(0, BN, layout=gl.SliceLayout(0, LOAD_B))
    from_a = a + a_row[:, None] * inner + a_k[None, :]
    from_b = b + b_k[:, None] * cols + b_col[None, :]
    steps = inner // BK
    for slot in gl.static_range(SLOTS - 1):
        async_copy.async_load(space_a.index(slot), from_a, mask=slot < steps)
        async_copy.async_load(space_b.index(slot), from_b, mask=slot < steps)
        async_copy.commit_group()
        from_a += BK
        from_b += BK * cols
    total = gl.full((BM, BN), 0.0, gl.float32, MMA)
    for step in range(steps):
        async_copy.wait_group(SLOTS - 2)
        gl.barrier()
        into = (step + SLOTS - 1) % SLOTS
        more = step + SLOTS - 1 < steps
        async_copy.async_load(space_a.index(into), from_a, mask=more)
        async_copy.async_load(space_b.index(into), from_b, mask=more)
        async_copy.commit_group()
        from_a += BK
        from_b += BK * cols
        left = space_a.index(step % SLOTS).load(left_layout)
        right = space_b.index(step % SLOTS).load(right_layout)
        total = ampere.mma_v2(left, right, total)
    async_copy.wait_group(0)
    out_row = row + gl.arange(0, BM, layout=gl.SliceLayout(1, MMA))
    out_col = col + gl.arange(0, BN, layout=gl.SliceLayout(0, MMA))
    gl.store(c + out_row[:, None] * cols + out_col[None, :], total.to(gl.float16))


@gluon.jit
def add_signalled(x, y, out, cols, BLOCK: gl.constexpr, LAYOUT: gl.constexpr):
    """The same with one buffer and an mbarrier at which every thread's copies arrive when they are done."""
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    space_x = gl.allocate_shared_memory(gl.float32, [BLOCK], shared)
    space_y = gl.allocate_shared_memory(gl.float32, [BLOCK], shared)
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(done, count=gl.num_warps() * 32)
    gl.barrier()
    lane = gl.arange(0, BLOCK, layout=LAYOUT)
    row = gl.program_id(0) * cols
    for piece in range(gl.cdiv(cols, BLOCK)):
        place = piece * BLOCK + lane
        async_copy.async_load(space_x, x + row + place, mask=place < cols)
        async_copy.async_load(space_y, y + row + place, mask=place < cols)
        async_copy.mbarrier_arrive(done, increment_count=False)
        mbarrier.wait(done, piece & 1)
        gl.store(out + row + place, space_x.load(LAYOUT) + space_y.load(LAYOUT), mask=place < cols)
        gl.barrier()
    mbarrier.invalidate(done)


def launch_add(rng: np.random.Generator, scale: int) -> Launch:
    rows, cols = 4 * scale, 4096 * scale - 256
    x, y = (rng.standard_normal((rows, cols)).astype(np.float32) for _ in range(2))
    expected = x.astype(np.float64) + y
    return Launch((rows, 1, 1), (x, y, np.zeros_like(x), cols), (2,), (expected,), 1e-6)


ADDED = {**pointers("fp32", "x", "y", "out"), "cols": "i32:16"}
TYPES = {**pointers("fp16", "a", "b", "c"), "cols": "i32:16", "inner": "i32:16"}
LINE = gl.BlockedLayout([4], [32], [4], [0])

CASES = (
    *(
        case(
            f"gluon-add-s{slots}",
            add_pipelined,
            ADDED,
            {"BLOCK": 512, "SLOTS": slots, "LAYOUT": LINE},
            kernel="gluon-add",
            targets=NVIDIA,
            launch=launch_add,
            num_warps=4,
        )
        for slots in (2, 3)
    ),
    case(
        "gluon-add-signalled",
        add_signalled,
        ADDED,
        {"BLOCK": 512, "LAYOUT": LINE},
        targets=NVIDIA,
        launch=launch_add,
        num_warps=4,
    ),
    *(
        case(
            f"gluon-matmul-copied-s{slots}",
            matmul_copied,
            TYPES,
            {
                "BM": 64,
                "BN": 64,
                "BK": 32,
                "SLOTS": slots,
                "MMA": gl.NVMMADistributedLayout(version=[2, 0], warps_per_cta=[2, 2], instr_shape=[16, 8]),
                "LOAD_A": gl.BlockedLayout([1, 8], [8, 4], [4, 1], [1, 0]),
                "LOAD_B": gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0]),
            },
            kernel="gluon-matmul-copied",
            targets=NVIDIA,
            launch=partial(launch_matmul, tile=(64, 64, 32)),
            num_warps=4,
        )
        for slots in (2, 3, 4)
    ),
)
