"""Gluon for NVIDIA: shared memory, copies, TMA and mbarriers placed by hand, and warps of two kinds.

Here the kernel's writer placed every wait and every fence: this is code where one too few can be.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import ampere, hopper
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

from bench.triton_kernels import NVIDIA, Launch
from bench.triton_kernels.building import case, pointers
from bench.triton_kernels.matmul import launch_matmul
from bench.triton_kernels.matmul_loops import launch_described


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
def matmul_tma(
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
    """A product by TMA and wgmma: one mbarrier for each slot, one product in flight; b is stored transposed."""
    shared_a: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BM, BK], gl.float16)
    shared_b: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BN, BK], gl.float16)
    shared_c: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BM, BN], gl.float16)
    tiles_a = tma.make_tensor_descriptor(a, [rows, inner], [inner, 1], [BM, BK], shared_a)
    tiles_b = tma.make_tensor_descriptor(b, [cols, inner], [inner, 1], [BN, BK], shared_b)
    tiles_c = tma.make_tensor_descriptor(c, [rows, cols], [cols, 1], [BM, BN], shared_c)
    space_a = gl.allocate_shared_memory(gl.float16, [SLOTS, BM, BK], shared_a)
    space_b = gl.allocate_shared_memory(gl.float16, [SLOTS, BN, BK], shared_b)
    space_c = gl.allocate_shared_memory(gl.float16, [BM, BN], shared_c)
    full = mbarrier.allocate_mbarrier(batch=SLOTS)
    for number in gl.static_range(SLOTS):
        mbarrier.init(full.index(number), count=1)
    row = gl.program_id(0) * BM
    col = gl.program_id(1) * BN
    steps = inner // BK
    for number in gl.static_range(SLOTS - 1):
        more = number < steps
        mbarrier.expect(full.index(number), tiles_a.nbytes_per_cta + tiles_b.nbytes_per_cta, pred=more)
        tma.async_load(tiles_a, [row, number * BK], full.index(number), space_a.index(number), pred=more)
        tma.async_load(tiles_b, [col, number * BK], full.index(number), space_b.index(number), pred=more)
    total = hopper.warpgroup_mma_init(gl.full((BM, BN), 0.0, gl.float32, MMA))
    for step in range(steps):
        slot = step % SLOTS
        mbarrier.wait(full.index(slot), step // SLOTS & 1)
        left = space_a.index(slot)
        right = space_b.index(slot)
        total = hopper.warpgroup_mma_wait(num_outstanding=0, deps=(total,))
        total = hopper.warpgroup_mma(left, right.permute((1, 0)), total, is_async=True)
        # All warps are past the product that read the slot which is written next.
        gl.barrier()
        ahead = step + SLOTS - 1
        into = ahead % SLOTS
        more = ahead < steps
        mbarrier.expect(full.index(into), tiles_a.nbytes_per_cta + tiles_b.nbytes_per_cta, pred=more)
        tma.async_load(tiles_a, [row, ahead * BK], full.index(into), space_a.index(into), pred=more)
        tma.async_load(tiles_b, [col, ahead * BK], full.index(into), space_b.index(into), pred=more)
    total = hopper.warpgroup_mma_wait(num_outstanding=0, deps=(total,))
    for number in gl.static_range(SLOTS):
        mbarrier.invalidate(full.index(number))
    space_c.store(total.to(gl.float16))
    hopper.fence_async_shared()
    gl.barrier()
    tma.async_store(tiles_c, [row, col], space_c)
    tma.store_wait(pendings=0)


@gluon.jit
def load_tiles(tiles_a, tiles_b, space_a, space_b, empty, full, row, col, steps):
    """One warp: waits until a slot is read, then fills it."""
    slots: gl.constexpr = space_a.shape[0]
    block: gl.constexpr = tiles_a.block_shape[1]
    for step in range(steps):
        slot = step % slots
        # The first round finds the slots empty: the phase before the first is over.
        mbarrier.wait(empty.index(slot), step // slots & 1 ^ 1)
        mbarrier.expect(full.index(slot), tiles_a.nbytes_per_cta + tiles_b.nbytes_per_cta)
        tma.async_load(tiles_a, [row, step * block], full.index(slot), space_a.index(slot))
        tma.async_load(tiles_b, [col, step * block], full.index(slot), space_b.index(slot))


@gluon.jit
def multiply_tiles(tiles_c, space_a, space_b, space_c, empty, full, row, col, steps, MMA: gl.constexpr):
    """The other warps: wait until a slot is filled, multiply, and hand it back."""
    slots: gl.constexpr = space_a.shape[0]
    total = gl.full((space_c.shape[0], space_c.shape[1]), 0.0, gl.float32, MMA)
    for step in range(steps):
        slot = step % slots
        mbarrier.wait(full.index(slot), step // slots & 1)
        total = hopper.warpgroup_mma(space_a.index(slot), space_b.index(slot).permute((1, 0)), total, is_async=True)
        total = hopper.warpgroup_mma_wait(num_outstanding=0, deps=(total,))
        mbarrier.arrive(empty.index(slot), count=1)
    space_c.store(total.to(gl.float16))
    hopper.fence_async_shared()
    gl.barrier()
    tma.async_store(tiles_c, [row, col], space_c)
    tma.store_wait(pendings=0)


@gluon.jit
def matmul_two_kinds(
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
    """The same product with warps of two kinds: they meet at two mbarriers for each slot, full and empty."""
    shared_a: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BM, BK], gl.float16)
    shared_b: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BN, BK], gl.float16)
    shared_c: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BM, BN], gl.float16)
    tiles_a = tma.make_tensor_descriptor(a, [rows, inner], [inner, 1], [BM, BK], shared_a)
    tiles_b = tma.make_tensor_descriptor(b, [cols, inner], [inner, 1], [BN, BK], shared_b)
    tiles_c = tma.make_tensor_descriptor(c, [rows, cols], [cols, 1], [BM, BN], shared_c)
    space_a = gl.allocate_shared_memory(gl.float16, [SLOTS, BM, BK], shared_a)
    space_b = gl.allocate_shared_memory(gl.float16, [SLOTS, BN, BK], shared_b)
    space_c = gl.allocate_shared_memory(gl.float16, [BM, BN], shared_c)
    empty = mbarrier.allocate_mbarrier(batch=SLOTS)
    full = mbarrier.allocate_mbarrier(batch=SLOTS)
    for slot in gl.static_range(SLOTS):
        mbarrier.init(empty.index(slot), count=1)
        mbarrier.init(full.index(slot), count=1)
    row = gl.program_id(0) * BM
    col = gl.program_id(1) * BN
    steps = inner // BK
    gl.warp_specialize(
        [
            (multiply_tiles, (tiles_c, space_a, space_b, space_c, empty, full, row, col, steps, MMA)),
            (load_tiles, (tiles_a, tiles_b, space_a, space_b, empty, full, row, col, steps)),
        ],
        [1],
        [40],
    )


def launch_add(rng: np.random.Generator, scale: int) -> Launch:
    rows, cols = 4, 4096 * scale - 256
    x, y = (rng.standard_normal((rows, cols)).astype(np.float32) for _ in range(2))
    expected = x.astype(np.float64) + y
    return Launch((rows, 1, 1), (x, y, np.zeros_like(x), cols), (2,), (expected,), 1e-6)


SIZES = {"cols": "i32:16", "inner": "i32:16"}
TYPES = {**pointers("fp16", "a", "b", "c"), **SIZES}
DESCRIBED = {**pointers("fp16", "a", "b", "c"), "rows": "i32:16", **SIZES}
HOPPER = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 128, 16])
TILE = {"BM": 128, "BN": 128, "BK": 64, "MMA": HOPPER}

CASES = (
    *(
        case(
            f"gluon-add-s{slots}",
            add_pipelined,
            {**pointers("fp32", "x", "y", "out"), "cols": "i32:16"},
            {"BLOCK": 512, "SLOTS": slots, "LAYOUT": gl.BlockedLayout([4], [32], [4], [0])},
            kernel="gluon-add",
            targets=NVIDIA,
            launch=launch_add,
            num_warps=4,
        )
        for slots in (2, 3)
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
    case(
        "gluon-matmul-tma",
        matmul_tma,
        DESCRIBED,
        {**TILE, "SLOTS": 3},
        targets=("sm_90",),
        launch=launch_described,
        num_warps=4,
    ),
    case(
        "gluon-matmul-two-kinds",
        matmul_two_kinds,
        DESCRIBED,
        {**TILE, "SLOTS": 3},
        targets=("sm_90",),
        launch=launch_described,
        num_warps=4,
    ),
)
