"""Matrix product through one slot of shared memory: the simplest tiled kernel, and the most barriers.

C = A · Bᵀ in tiles of 64×64. Four waves fill the tiles of A and B together, a quarter each, and every wave multiplies a
half of A by a half of B, so it reads what other waves wrote.

One slot needs two barriers per iteration. The one after the writes lets waves read tile k only when all of it is
there. The one before the writes keeps tile k until the slowest wave has read it: a barrier *before* the reads cannot
do that. Both drain shared memory, since a bare barrier would let accesses in flight slip past it.
"""

import numpy as np

import tidegate as tg

M, N, K = tg.sizes(M=128, N=128, K=128)
TOLERANCE = (1e-4, 1e-4)


@tg.kernel(waves=4, target="gfx942", grid=(M // 64, N // 64), where=[M % 64 == 0, N % 64 == 0, K % 32 == 0])
def gemm_one_slot(A: tg.Global[M, K, tg.f16], B: tg.Global[N, K, tg.f16], C: tg.Global[M, N, tg.f32]):
    a = tg.alloc((64, 32), tg.f16)
    b = tg.alloc((64, 32), tg.f16)
    wave, top, left = tg.wave(), tg.workgroup(0) * 64, tg.workgroup(1) * 64
    row, column = wave // 2 * 32, wave % 2 * 32
    acc = tg.fill((32, 32), tg.f32)
    for k in tg.iterate(K // 32):
        a_part = tg.global_read(A, (top + wave * 16, k * 32), (16, 32))
        b_part = tg.global_read(B, (left + wave * 16, k * 32), (16, 32))
        tg.shared_memory_barrier()  # WAR: all waves have read tile k - 1
        tg.local_write(a_part, a, (wave * 16, 0))
        tg.local_write(b_part, b, (wave * 16, 0))
        tg.shared_memory_barrier()  # RAW: all waves have written tile k
        a_tile = tg.local_read(a, (row, 0), (32, 32))
        b_tile = tg.local_read(b, (column, 0), (32, 32))
        acc = tg.mma(a_tile, tg.transpose(b_tile), acc)
    tg.global_write(acc, C, (top + row, left + column))


def reference(inputs: dict[str, np.ndarray], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    return {"C": inputs["A"].astype(np.float32) @ inputs["B"].astype(np.float32).T}
