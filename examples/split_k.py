"""Matrix product of few rows and columns with a long K: waves split K and add up their partial products.

C = A · Bᵀ in tiles of 32×32. All four waves compute the same tile, each over a quarter of K, straight from global
memory. Shared memory is used once, at the end: each wave publishes its partial sums, then adds up 8 rows of all four.

One barrier, between the partial sums and their reads; none in the loop, which touches no shared memory.
"""

import numpy as np

import tidegate as tg

M, N, K = tg.sizes(M=64, N=32, K=512)
TOLERANCE = (1e-4, 1e-3)


@tg.kernel(waves=4, target="gfx942", grid=(M // 32, N // 32), where=[M % 32 == 0, N % 32 == 0, K % 128 == 0])
def split_k(A: tg.Global[M, K, tg.f16], B: tg.Global[N, K, tg.f16], C: tg.Global[M, N, tg.f32]):
    parts = tg.alloc((4, 32, 32), tg.f32)
    wave, top, left = tg.wave(), tg.workgroup(0) * 32, tg.workgroup(1) * 32
    acc = tg.fill((32, 32), tg.f32)
    for k in tg.iterate(K // 128):
        a = tg.global_read(A, (top, (k * 4 + wave) * 32), (32, 32))
        b = tg.global_read(B, (left, (k * 4 + wave) * 32), (32, 32))
        acc = tg.mma(a, tg.transpose(b), acc)
    tg.local_write(acc, parts, (wave, 0, 0))
    tg.shared_memory_barrier()  # RAW: the partial sums of all waves are written
    total = tg.fill((8, 32), tg.f32)
    for other in range(4):
        part = tg.local_read(parts, (other, wave * 8, 0), (8, 32))
        total = total + part
    tg.global_write(total, C, (top + wave * 8, left))


def reference(inputs: dict[str, np.ndarray], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    return {"C": inputs["A"].astype(np.float32) @ inputs["B"].astype(np.float32).T}
