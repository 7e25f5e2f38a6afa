"""Matrix product with asynchronous copies to shared memory, one tile ahead in two slots.

C = A · Bᵀ as in `gemm_gather`, with a slot less. In iteration k a wave waits for its copies of tile k, meets the
others, starts the copies of tile k + 1 and multiplies tile k while they are on their way.

At the barrier nothing newer than tile k is in flight: tile k + 1 takes the slot of tile k - 1, which others may read up
to this barrier. So the count is 0, and the copies have one multiplication to land in. To leave copies in flight at the
only barrier of an iteration takes a third slot. The wait is for the wave's own copies, the barrier for those of others.
"""

import numpy as np

import tidegate as tg

M, N, K = tg.sizes(M=128, N=128, K=128)
TOLERANCE = (1e-4, 1e-4)


@tg.kernel(
    waves=4,
    target="gfx950",
    grid=(M // 64, N // 64),
    where=[M % 64 == 0, N % 64 == 0, K % 32 == 0, K >= 32],
)
def gemm_async_two_slots(A: tg.Global[M, K, tg.f16], B: tg.Global[N, K, tg.f16], C: tg.Global[M, N, tg.f32]):
    a = tg.alloc((64, 32), tg.f16, slots=2)
    b = tg.alloc((64, 32), tg.f16, slots=2)
    wave, top, left = tg.wave(), tg.workgroup(0) * 64, tg.workgroup(1) * 64
    row, column = wave // 2 * 32, wave % 2 * 32

    @tg.function
    def copy(k):
        tg.gather_to_lds(A, (top + wave * 16, k * 32), a, (wave * 16, 0), (16, 32), slot=k % 2)
        tg.gather_to_lds(B, (left + wave * 16, k * 32), b, (wave * 16, 0), (16, 32), slot=k % 2)

    @tg.function
    def multiply(k, acc):
        a_tile = tg.local_read(a, (row, 0), (32, 32), slot=k % 2)
        b_tile = tg.local_read(b, (column, 0), (32, 32), slot=k % 2)
        return tg.mma(a_tile, tg.transpose(b_tile), acc)

    acc = tg.fill((32, 32), tg.f32)
    copy(0)
    for k in tg.iterate(K // 32 - 1):
        tg.shared_memory_barrier(vmcnt=0)  # RAW: tile k has landed; WAR: tile k - 1 is read, k + 1 takes its slot
        copy(k + 1)
        acc = multiply(k, acc)
    tg.shared_memory_barrier(vmcnt=0)  # RAW: the last tile has landed
    acc = multiply(K // 32 - 1, acc)
    tg.global_write(acc, C, (top + row, left + column))


def reference(inputs: dict[str, np.ndarray], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    return {"C": inputs["A"].astype(np.float32) @ inputs["B"].astype(np.float32).T}
