"""Matrix product with asynchronous copies to shared memory, three tiles ahead in four slots.

C = A · Bᵀ as in `gemm_gather`, with a slot more. In iteration k a wave has issued six copies that may be in flight: two
each of tiles k, k + 1 and k + 2. Copies complete in order, so `vmcnt=4` waits for tile k and leaves two tiles on their
way; `vmcnt=5` would leave the copy of B of tile k. The barrier makes the copies of all waves visible.

The copies of tile k + 3 go into the slot of tile k - 1, which all waves have read before this barrier. They have three
multiplications to land in. After the loop one barrier waits for the last three tiles, however often the loop ran.
"""

import numpy as np

import tidegate as tg

M, N, K = tg.sizes(M=128, N=128, K=192)
TOLERANCE = (1e-4, 1e-4)


@tg.kernel(
    waves=4,
    target="gfx950",
    grid=(M // 64, N // 64),
    where=[M % 64 == 0, N % 64 == 0, K % 32 == 0, K >= 96],
)
def gemm_async_four_slots(A: tg.Global[M, K, tg.f16], B: tg.Global[N, K, tg.f16], C: tg.Global[M, N, tg.f32]):
    a = tg.alloc((64, 32), tg.f16, slots=4)
    b = tg.alloc((64, 32), tg.f16, slots=4)
    wave, top, left = tg.wave(), tg.workgroup(0) * 64, tg.workgroup(1) * 64
    row, column = wave // 2 * 32, wave % 2 * 32

    @tg.function
    def copy(k):
        tg.gather_to_lds(A, (top + wave * 16, k * 32), a, (wave * 16, 0), (16, 32), slot=k % 4)
        tg.gather_to_lds(B, (left + wave * 16, k * 32), b, (wave * 16, 0), (16, 32), slot=k % 4)

    @tg.function
    def multiply(k, acc):
        a_tile = tg.local_read(a, (row, 0), (32, 32), slot=k % 4)
        b_tile = tg.local_read(b, (column, 0), (32, 32), slot=k % 4)
        return tg.mma(a_tile, tg.transpose(b_tile), acc)

    acc = tg.fill((32, 32), tg.f32)
    copy(0)
    copy(1)
    copy(2)
    for k in tg.iterate(K // 32 - 3):
        tg.shared_memory_barrier(vmcnt=4)  # RAW: tile k has landed; WAR: tile k - 1 is read, k + 3 takes its slot
        copy(k + 3)
        acc = multiply(k, acc)
    tg.shared_memory_barrier(vmcnt=0)  # RAW: the last three tiles have landed
    for k in tg.iterate(K // 32 - 3, K // 32):
        acc = multiply(k, acc)
    tg.global_write(acc, C, (top + row, left + column))


def reference(inputs: dict[str, np.ndarray], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    return {"C": inputs["A"].astype(np.float32) @ inputs["B"].astype(np.float32).T}
