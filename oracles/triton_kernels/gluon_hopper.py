"""Gluon for Hopper: TMA, mbarriers and asynchronous products placed by hand, and warps of two kinds."""

from __future__ import annotations

import numpy as np
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import hopper
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

from oracles.triton_kernels import Launch
from oracles.triton_kernels.building import case, pointers
from oracles.triton_kernels.matmul_loops import launch_described


@gluon.jit
def sum_tiles(x, out, rows, cols, BM: gl.constexpr, BN: gl.constexpr, LAYOUT: gl.constexpr):
    """Squares of tiles are added to one tile of the result by TMA: loads and sums each through one buffer."""
    shared: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BM, BN], gl.float32)
    tiles = tma.make_tensor_descriptor(x, [rows, cols], [cols, 1], [BM, BN], shared)
    results = tma.make_tensor_descriptor(out, [BM, cols], [cols, 1], [BM, BN], shared)
    space = gl.allocate_shared_memory(gl.float32, [BM, BN], shared)
    full = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    col = gl.program_id(1) * BN
    steps = gl.cdiv(rows, BM * gl.num_programs(0))
    for step in range(steps):
        row = (step * gl.num_programs(0) + gl.program_id(0)) * BM
        # What was added from the buffer is read before it is filled again.
        tma.store_wait(pendings=0)
        gl.barrier()
        mbarrier.expect(full, tiles.nbytes_per_cta)
        tma.async_load(tiles, [row, col], full, space)
        mbarrier.wait(full, step & 1)
        values = space.load(LAYOUT)
        gl.barrier()
        space.store(values * values)
        hopper.fence_async_shared()
        gl.barrier()
        tma.async_atomic_add(results, [0, col], space)
    tma.store_wait(pendings=0)
    mbarrier.invalidate(full)


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


def launch_sum_tiles(rng: np.random.Generator, scale: int) -> Launch:
    rows, cols = 640 * scale, 128 * scale
    x = rng.standard_normal((rows, cols)).astype(np.float32)
    expected = (x.astype(np.float64) ** 2).reshape(-1, 64, cols).sum(0)
    args = (x, np.zeros((64, cols), np.float32), rows, cols)
    return Launch((2, cols // 32, 1), args, (1,), (expected,), 1e-4)


SIZES = {"rows": "i32:16", "cols": "i32:16"}
DESCRIBED = {**pointers("fp16", "a", "b", "c"), **SIZES, "inner": "i32:16"}
MMA = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 128, 16])
TILE = {"BM": 128, "BN": 128, "BK": 64, "SLOTS": 3, "MMA": MMA}
HERE = ("sm_90",)

CASES = (
    case(
        "gluon-sum-tiles",
        sum_tiles,
        {**pointers("fp32", "x", "out"), **SIZES},
        {"BM": 64, "BN": 32, "LAYOUT": gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])},
        targets=HERE,
        launch=launch_sum_tiles,
        num_warps=4,
    ),
    case(
        "gluon-matmul-tma",
        matmul_tma,
        DESCRIBED,
        TILE,
        targets=HERE,
        launch=launch_described,
        num_warps=4,
    ),
    case(
        "gluon-matmul-two-kinds",
        matmul_two_kinds,
        DESCRIBED,
        TILE,
        targets=HERE,
        launch=launch_described,
        num_warps=4,
    ),
)
