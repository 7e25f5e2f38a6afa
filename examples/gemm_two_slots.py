"""Matrix product through two slots of shared memory: one barrier per iteration.

C = A · Bᵀ as in `gemm_one_slot`, but tile k lies in slot k mod 2.

The barrier between the writes and the reads of an iteration does both jobs. It lets waves read tile k only when all of
it is there. And it guards the slot: a wave writes tile k + 2 after barrier k + 1, which the others reach only when
their reads of tile k are done.
"""

import numpy as np

import tidegate as tg

M, N, K = tg.sizes(M=128, N=128, K=128)
TOLERANCE = (1e-4, 1e-4)


@tg.kernel(waves=4, target="gfx942", grid=(M // 64, N // 64), where=[M % 64 == 0, N % 64 == 0, K % 32 == 0])
def gemm_two_slots(A: tg.Global[M, K, tg.f16], B: tg.Global[N, K, tg.f16], C: tg.Global[M, N, tg.f32]):
    a = tg.alloc((64, 32), tg.f16, slots=2)
    b = tg.alloc((64, 32), tg.f16, slots=2)
    wave, top, left = tg.wave(), tg.workgroup(0) * 64, tg.workgroup(1) * 64
    row, column = wave // 2 * 32, wave % 2 * 32
    acc = tg.fill((32, 32), tg.f32)
    for k in tg.iterate(K // 32):
        slot = k % 2
        a_part = tg.global_read(A, (top + wave * 16, k * 32), (16, 32))
        b_part = tg.global_read(B, (left + wave * 16, k * 32), (16, 32))
        tg.local_write(a_part, a, (wave * 16, 0), slot=slot)
        tg.local_write(b_part, b, (wave * 16, 0), slot=slot)
        tg.shared_memory_barrier()  # RAW: tile k is written; WAR: tile k - 1 is read, its slot is free for k + 1
        a_tile = tg.local_read(a, (row, 0), (32, 32), slot=slot)
        b_tile = tg.local_read(b, (column, 0), (32, 32), slot=slot)
        acc = tg.mma(a_tile, tg.transpose(b_tile), acc)
    tg.global_write(acc, C, (top + row, left + column))


def reference(inputs: dict[str, np.ndarray], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    return {"C": inputs["A"].astype(np.float32) @ inputs["B"].astype(np.float32).T}
