"""Gluon for gfx1250: copies lane by lane, tiles by the tensor data mover, and warps that meet at LDS barriers."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.amd import gfx1250
from triton.experimental.gluon.language.amd.gfx1250 import async_copy, mbarrier, tdm

from oracles.triton_kernels.building import case, pointers


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
    """Asynchronous copies into SLOTS slots, WMMA, and the result through LDS by an asynchronous store."""
    padded_a: gl.constexpr = gl.PaddedSharedLayout.with_identity_for([[BK, 8]], [BM, BK], [1, 0])
    padded_b: gl.constexpr = gl.PaddedSharedLayout.with_identity_for([[BN, 8]], [BK, BN], [1, 0])
    space_a = gl.allocate_shared_memory(gl.float16, [SLOTS, BM, BK], padded_a)
    space_b = gl.allocate_shared_memory(gl.float16, [SLOTS, BK, BN], padded_b)
    a_row = gl.program_id(0) * BM + gl.arange(0, BM, layout=gl.SliceLayout(1, LOAD_A))
    a_k = gl.arange(0, BK, layout=gl.SliceLayout(0, LOAD_A))
    b_k = gl.arange(0, BK, layout=gl.SliceLayout(1, LOAD_B))
    b_col = gl.program_id(1) * BN + gl.arange(0, BN, layout=gl.SliceLayout(0, LOAD_B))
    from_a = a + a_row[:, None] * inner + a_k[None, :]
    from_b = b + b_k[:, None] * cols + b_col[None, :]
    for number in gl.static_range(SLOTS - 1):
        async_copy.global_to_shared(space_a.index(number), from_a)
        async_copy.global_to_shared(space_b.index(number), from_b)
        async_copy.commit_group()
        from_a += BK
        from_b += BK * cols
    total = gl.full((BM, BN), 0.0, gl.float32, MMA)
    steps = inner // BK
    for step in range(steps):
        async_copy.wait_group(SLOTS - 2)
        gl.barrier()
        into = (step + SLOTS - 1) % SLOTS
        more = step + SLOTS - 1 < steps
        async_copy.global_to_shared(space_a.index(into), from_a, mask=more)
        async_copy.global_to_shared(space_b.index(into), from_b, mask=more)
        async_copy.commit_group()
        from_a += BK
        from_b += BK * cols
        left = space_a.index(step % SLOTS).load(gl.DotOperandLayout(0, MMA, 8))
        right = space_b.index(step % SLOTS).load(gl.DotOperandLayout(1, MMA, 8))
        total = gfx1250.wmma(left, right, total)
    async_copy.wait_group(0)
    space_c = gl.allocate_shared_memory(gl.float16, [BM, BN], gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
    space_c.store(total.to(gl.float16))
    gl.barrier()
    row = gl.program_id(0) * BM + gl.arange(0, BM, layout=gl.SliceLayout(1, LOAD_B))
    col = gl.program_id(1) * BN + gl.arange(0, BN, layout=gl.SliceLayout(0, LOAD_B))
    async_copy.shared_to_global(c + row[:, None] * cols + col[None, :], space_c)
    async_copy.commit_group()
    async_copy.wait_group(0)


@gluon.jit
def matmul_moved(
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
    """Tiles by the tensor data mover, counted by its own queue: two moves for each step."""
    padded_a: gl.constexpr = gl.PaddedSharedLayout.with_identity_for([[BK, 8]], [BM, BK], [1, 0])
    padded_b: gl.constexpr = gl.PaddedSharedLayout.with_identity_for([[BN, 8]], [BK, BN], [1, 0])
    flat: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    tiles_a = tdm.make_tensor_descriptor(a, [rows, inner], [inner, 1], [BM, BK], padded_a)
    tiles_b = tdm.make_tensor_descriptor(b, [inner, cols], [cols, 1], [BK, BN], padded_b)
    tiles_c = tdm.make_tensor_descriptor(c, [rows, cols], [cols, 1], [BM, BN], flat)
    space_a = gl.allocate_shared_memory(gl.float16, [SLOTS, BM, BK], padded_a)
    space_b = gl.allocate_shared_memory(gl.float16, [SLOTS, BK, BN], padded_b)
    space_c = gl.allocate_shared_memory(gl.float16, [BM, BN], flat)
    row = gl.program_id(0) * BM
    col = gl.program_id(1) * BN
    for number in gl.static_range(SLOTS - 1):
        tdm.async_load(tiles_a, [row, number * BK], space_a.index(number))
        tdm.async_load(tiles_b, [number * BK, col], space_b.index(number))
    total = gl.full((BM, BN), 0.0, gl.float32, MMA)
    for step in range(gl.cdiv(inner, BK)):
        tdm.async_wait((SLOTS - 2) * 2)
        gl.barrier()
        ahead = step + SLOTS - 1
        # Past the end the mover fills in zeros: the count of moves stays the same.
        tdm.async_load(tiles_a, [row, ahead * BK], space_a.index(ahead % SLOTS))
        tdm.async_load(tiles_b, [ahead * BK, col], space_b.index(ahead % SLOTS))
        left = space_a.index(step % SLOTS).load(gl.DotOperandLayout(0, MMA, 8))
        right = space_b.index(step % SLOTS).load(gl.DotOperandLayout(1, MMA, 8))
        total = gfx1250.wmma(left, right, total)
    tdm.async_wait(0)
    space_c.store(total.to(gl.float16))
    gl.barrier()
    tdm.async_store(tiles_c, [row, col], space_c)
    tdm.async_wait(0)


@gluon.jit
def matmul_stages(
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
    """The same with two groups of warps by turns: one reads and moves while the other multiplies."""
    padded_a: gl.constexpr = gl.PaddedSharedLayout.with_identity_for([[BK, 8]], [BM, BK], [1, 0])
    padded_b: gl.constexpr = gl.PaddedSharedLayout.with_identity_for([[BN, 8]], [BK, BN], [1, 0])
    tiles_a = tdm.make_tensor_descriptor(a, [rows, inner], [inner, 1], [BM, BK], padded_a)
    tiles_b = tdm.make_tensor_descriptor(b, [inner, cols], [cols, 1], [BK, BN], padded_b)
    space_a = gl.allocate_shared_memory(gl.float16, [SLOTS, BM, BK], padded_a)
    space_b = gl.allocate_shared_memory(gl.float16, [SLOTS, BK, BN], padded_b)
    row = gl.program_id(0) * BM
    col = gl.program_id(1) * BN
    for number in gl.static_range(SLOTS - 1):
        tdm.async_load(tiles_a, [row, number * BK], space_a.index(number))
        tdm.async_load(tiles_b, [number * BK, col], space_b.index(number))
    total = gl.full((BM, BN), 0.0, gl.float32, MMA)
    tdm.async_wait((SLOTS - 2) * 2)
    for step in range(gl.cdiv(inner, BK)):
        with gl.amd.warp_pipeline_stage("memory", priority=1):
            left = space_a.index(step % SLOTS).load(gl.DotOperandLayout(0, MMA, 8))
            right = space_b.index(step % SLOTS).load(gl.DotOperandLayout(1, MMA, 8))
            ahead = step + SLOTS - 1
            tdm.async_load(tiles_a, [row, ahead * BK], space_a.index(ahead % SLOTS))
            tdm.async_load(tiles_b, [ahead * BK, col], space_b.index(ahead % SLOTS))
        tdm.async_wait((SLOTS - 2) * 2)
        with gl.amd.warp_pipeline_stage("products", priority=0):
            total = gfx1250.wmma(left, right, total)
    tdm.async_wait(0)
    out_row = row + gl.arange(0, BM, layout=gl.SliceLayout(1, MMA))
    out_col = col + gl.arange(0, BN, layout=gl.SliceLayout(0, MMA))
    gl.store(c + out_row[:, None] * cols + out_col[None, :], total.to(gl.float16))


@gluon.jit
def move_tiles(tiles_a, tiles_b, space_a, space_b, empty, full, row, col, steps):
    """Some warps: wait until a slot is read, then let the mover fill it and signal."""
    slots: gl.constexpr = space_a.shape[0]
    block: gl.constexpr = tiles_a.block_shape[1]
    for step in range(steps):
        slot = step % slots
        # The first round finds the slots empty: the phase before the first is over.
        mbarrier.wait(empty.index(slot), step // slots & 1 ^ 1)
        tdm.async_load(tiles_a, [row, step * block], space_a.index(slot), mbarrier=full.index(slot))
        tdm.async_load(tiles_b, [step * block, col], space_b.index(slot), mbarrier=full.index(slot))


@gluon.jit
def multiply_tiles(c, cols, space_a, space_b, empty, full, row, col, steps, MMA: gl.constexpr):
    """The other warps: wait until a slot is filled, read it, hand it back, multiply."""
    slots: gl.constexpr = space_a.shape[0]
    high: gl.constexpr = space_a.shape[1]
    wide: gl.constexpr = space_b.shape[2]
    total = gl.full((high, wide), 0.0, gl.float32, MMA)
    for step in range(steps):
        slot = step % slots
        mbarrier.wait(full.index(slot), step // slots & 1)
        left = space_a.index(slot).load(gl.DotOperandLayout(0, MMA, 8))
        right = space_b.index(slot).load(gl.DotOperandLayout(1, MMA, 8))
        mbarrier.arrive(empty.index(slot), count=1)
        total = gfx1250.wmma(left, right, total)
    out_row = row + gl.arange(0, high, layout=gl.SliceLayout(1, MMA))
    out_col = col + gl.arange(0, wide, layout=gl.SliceLayout(0, MMA))
    gl.store(c + out_row[:, None] * cols + out_col[None, :], total.to(gl.float16))


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
    """Warps of two kinds with two LDS barriers for each slot: lanes that have read arrive at one, moves at one."""
    padded_a: gl.constexpr = gl.PaddedSharedLayout.with_identity_for([[BK, 8]], [BM, BK], [1, 0])
    padded_b: gl.constexpr = gl.PaddedSharedLayout.with_identity_for([[BN, 8]], [BK, BN], [1, 0])
    tiles_a = tdm.make_tensor_descriptor(a, [rows, inner], [inner, 1], [BM, BK], padded_a)
    tiles_b = tdm.make_tensor_descriptor(b, [inner, cols], [cols, 1], [BK, BN], padded_b)
    space_a = gl.allocate_shared_memory(gl.float16, [SLOTS, BM, BK], padded_a)
    space_b = gl.allocate_shared_memory(gl.float16, [SLOTS, BK, BN], padded_b)
    empty = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    for number in gl.static_range(SLOTS):
        mbarrier.init(empty.index(number), count=4 * 32)  # the lanes of the warps that multiply
        mbarrier.init(full.index(number), count=4 * 2)  # two moves, each split among four warps
    row = gl.program_id(0) * BM
    col = gl.program_id(1) * BN
    steps = gl.cdiv(inner, BK)
    gl.warp_specialize(
        [
            (multiply_tiles, (c, cols, space_a, space_b, empty, full, row, col, steps, MMA)),
            (move_tiles, (tiles_a, tiles_b, space_a, space_b, empty, full, row, col, steps)),
        ],
        [4],
    )


SIZES = {"cols": "i32:16", "inner": "i32:16"}
TYPES = {**pointers("fp16", "a", "b", "c"), **SIZES}
DESCRIBED = {**pointers("fp16", "a", "b", "c"), "rows": "i32:16", **SIZES}
TILE = {
    "BM": 128,
    "BN": 128,
    "BK": 32,
    "MMA": gl.amd.AMDWMMALayout(version=3, transposed=True, warp_bases=[[0, 1], [1, 0]], instr_shape=[16, 16, 32]),
}
LOADS = {
    "LOAD_A": gl.BlockedLayout([1, 8], [8, 4], [4, 1], [1, 0]),
    "LOAD_B": gl.BlockedLayout([1, 8], [2, 16], [4, 1], [1, 0]),
}
EIGHT_WARPS = {
    "BM": 256,
    "BN": 256,
    "BK": 32,
    "MMA": gl.amd.AMDWMMALayout(
        version=3, transposed=True, warp_bases=[[0, 1], [0, 2], [1, 0]], instr_shape=[16, 16, 32]
    ),
}
HERE = ("gfx1250",)

CASES = (
    case(
        "gluon-matmul-lanes",
        matmul_copied,
        TYPES,
        {**TILE, **LOADS, "SLOTS": 3},
        targets=HERE,
        num_warps=4,
    ),
    *(
        case(
            f"gluon-matmul-moved-s{slots}",
            matmul_moved,
            DESCRIBED,
            {**TILE, "SLOTS": slots},
            kernel="gluon-matmul-moved",
            targets=HERE,
            num_warps=4,
        )
        for slots in (2, 3)
    ),
    case(
        "gluon-matmul-stages-moved",
        matmul_stages,
        DESCRIBED,
        {**EIGHT_WARPS, "SLOTS": 3},
        kernel="gluon-matmul-stages",
        targets=HERE,
        num_warps=8,
    ),
    case(
        "gluon-matmul-two-kinds-moved",
        matmul_two_kinds,
        DESCRIBED,
        {**TILE, "SLOTS": 3},
        targets=HERE,
        num_warps=4,
    ),
)
