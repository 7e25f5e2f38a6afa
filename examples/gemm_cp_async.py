"""Matrix product with asynchronous copies that are waited for in groups, two tiles ahead in three slots.

C = A · Bᵀ as in `gemm_gather`, on a target that counts groups of copies, not instructions: however many instructions a
copy becomes, `commit_group` closes both copies of a tile into one group.

In iteration k two groups may be in flight, those of tiles k and k + 1, so `group=1` waits for tile k and leaves tile
k + 1 on its way. Inside a group copies complete in no order. The wait is only for the wave's own groups: the barrier
after it makes the copies of all waves visible. The copies of tile k + 2 go into the slot of tile k - 1, which all waves
have read before this barrier.
"""

import numpy as np

import tidegate as tg

M, N, K = tg.sizes(M=128, N=128, K=128)
TOLERANCE = (1e-4, 1e-4)


@tg.kernel(
    waves=4,
    target="sm_80",
    grid=(M // 64, N // 64),
    where=[M % 64 == 0, N % 64 == 0, K % 32 == 0, K >= 64],
)
def gemm_cp_async(A: tg.Global[M, K, tg.f16], B: tg.Global[N, K, tg.f16], C: tg.Global[M, N, tg.f32]):
    a = tg.alloc((64, 32), tg.f16, slots=3)
    b = tg.alloc((64, 32), tg.f16, slots=3)
    wave, top, left = tg.wave(), tg.workgroup(0) * 64, tg.workgroup(1) * 64
    row, column = wave // 2 * 32, wave % 2 * 32

    @tg.function
    def copy(k):
        tg.gather_to_lds(A, (top + wave * 16, k * 32), a, (wave * 16, 0), (16, 32), slot=k % 3)
        tg.gather_to_lds(B, (left + wave * 16, k * 32), b, (wave * 16, 0), (16, 32), slot=k % 3)
        tg.commit_group()

    @tg.function
    def multiply(k, acc):
        a_tile = tg.local_read(a, (row, 0), (32, 32), slot=k % 3)
        b_tile = tg.local_read(b, (column, 0), (32, 32), slot=k % 3)
        return tg.mma(a_tile, tg.transpose(b_tile), acc)

    acc = tg.fill((32, 32), tg.f32)
    copy(0)
    copy(1)
    for k in tg.iterate(K // 32 - 2):
        tg.shared_memory_barrier(group=1)  # RAW: tile k has landed; WAR: tile k - 1 is read, k + 2 takes its slot
        copy(k + 2)
        acc = multiply(k, acc)
    tg.shared_memory_barrier(group=0)  # RAW: the last two tiles have landed
    acc = multiply(K // 32 - 2, acc)
    acc = multiply(K // 32 - 1, acc)
    tg.global_write(acc, C, (top + row, left + column))


def reference(inputs: dict[str, np.ndarray], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    return {"C": inputs["A"].astype(np.float32) @ inputs["B"].astype(np.float32).T}
