"""Matrix product whose tiles of C leave shared memory by asynchronous stores, while the next ones are computed.

C = A · Bᵀ in f16. A workgroup computes 32 rows of C, one tile of 32 columns after the other. Four waves multiply 16x16
each, put the tile together in shared memory and store it from there in whole rows, eight rows a wave.

The K loop is that of `gemm_two_slots`: one barrier per iteration. Behind it one barrier more makes the tile of C whole
before it is stored. By then all waves have read A and B, so that the next tile may begin with either slot.

A store reads its slot of C until it completes, and it reads what other waves have written: before they write the slot
again, its wave must have waited for it and met them. Tile n + 1 takes the slot of tile n - 2, and the barrier of tile n
lies between. There a wave has two stores in flight, those of tiles n - 2 and n - 1, one instruction each. They complete
in order, so `asynccnt=1` waits for tile n - 2 and leaves tile n - 1 on its way. With two slots it would have to be 0.
In the K loop of tile n + 1 a wait for it could come later still, `asynccnt=2`, but would stand in every iteration.
"""

import numpy as np

import tidegate as tg

M, N, K = tg.sizes(M=64, N=160, K=256)
TOLERANCE = (1e-2, 1e-2)


@tg.kernel(
    waves=4,
    target="gfx1250",
    grid=(M // 32,),
    where=[M % 32 == 0, N % 32 == 0, K % 128 == 0],
)
def gemm_async_store(A: tg.Global[M, K, tg.f16], B: tg.Global[N, K, tg.f16], C: tg.Global[M, N, tg.f16]):
    a = tg.alloc((32, 128), tg.f16, slots=2)
    b = tg.alloc((32, 128), tg.f16, slots=2)
    c = tg.alloc((32, 32), tg.f16, slots=3)
    wave, top = tg.wave(), tg.workgroup(0) * 32
    row, column = wave // 2 * 16, wave % 2 * 16
    for n in tg.iterate(N // 32):
        acc = tg.fill((16, 16), tg.f32)
        for k in tg.iterate(K // 128):
            a_part = tg.global_read(A, (top + wave * 8, k * 128), (8, 128))
            b_part = tg.global_read(B, (n * 32 + wave * 8, k * 128), (8, 128))
            tg.local_write(a_part, a, (wave * 8, 0), slot=k % 2)
            tg.local_write(b_part, b, (wave * 8, 0), slot=k % 2)
            tg.shared_memory_barrier()  # RAW: tile k is written; WAR: tile k - 1 is read, its slot is free for k + 1
            a_tile = tg.local_read(a, (row, 0), (16, 128), slot=k % 2)
            b_tile = tg.local_read(b, (column, 0), (16, 128), slot=k % 2)
            acc = tg.mma(a_tile, tg.transpose(b_tile), acc)
        tg.local_write(tg.cast(acc, tg.f16), c, (row, column), slot=n % 3)
        tg.shared_memory_barrier(asynccnt=1)  # RAW: C is written; WAR: store n - 2 is done, A and B are read
        tg.lds_to_global(c, (wave * 8, 0), C, (top + wave * 8, n * 32), (8, 32), slot=n % 3)


def reference(inputs: dict[str, np.ndarray], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    product = inputs["A"].astype(np.float32) @ inputs["B"].astype(np.float32).T
    return {"C": product.astype(np.float16)}
