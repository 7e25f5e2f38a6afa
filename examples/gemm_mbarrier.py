"""Matrix product with copies that report to mbarriers, one tile ahead in two slots.

C = A · Bᵀ as in `gemm_async_two_slots`. Wave 0 copies whole tiles, and each slot has an mbarrier: wave 0 arrives and
says how many bytes are to come, the copies of A and B report to it, and the phase is complete when all have landed.
Who waits for the phase knows that, so the waves need not meet to read a tile.

Tile k is use k // 2 of its slot, so it completes the phase of parity k // 2 mod 2. All waves wait for a phase before
the next use of its slot begins, so no wait takes one phase for another, however many tiles there are.

That a slot may be filled again no copy reports: the barrier of iteration k says that all waves have read tile k - 1,
whose slot tile k + 1 takes. On this target arriving performs reads, so a bare barrier is enough. The fence, in the wave
that copies, orders those reads before copies of the other proxy. The last iteration copies nothing and needs neither.
"""

import numpy as np

import tidegate as tg

M, N, K = tg.sizes(M=128, N=128, K=128)
TOLERANCE = (1e-4, 1e-4)


@tg.kernel(
    waves=4,
    target="sm_90",
    grid=(M // 64, N // 32),
    where=[M % 64 == 0, N % 32 == 0, K % 32 == 0, K >= 32],
)
def gemm_mbarrier(A: tg.Global[M, K, tg.f16], B: tg.Global[N, K, tg.f16], C: tg.Global[M, N, tg.f32]):
    a = tg.alloc((64, 32), tg.f16, slots=2)
    b = tg.alloc((32, 32), tg.f16, slots=2)
    full = tg.mbarrier(1, slots=2)
    wave, top, left = tg.wave(), tg.workgroup(0) * 64, tg.workgroup(1) * 32

    @tg.function
    def copy(k):
        with tg.conditional(wave == 0):
            tg.mbarrier_arrive(full, slot=k % 2, expect=(64 + 32) * 32 * 2)  # tile k is complete when both copies are
            tg.tensor_load_to_lds(A, (top, k * 32), a, (0, 0), (64, 32), slot=k % 2, reports=(full, k % 2))
            tg.tensor_load_to_lds(B, (left, k * 32), b, (0, 0), (32, 32), slot=k % 2, reports=(full, k % 2))

    @tg.function
    def multiply(k, acc):
        tg.mbarrier_wait(full, k // 2 % 2, slot=k % 2)  # RAW: tile k has landed
        a_tile = tg.local_read(a, (wave * 16, 0), (16, 32), slot=k % 2)
        b_tile = tg.local_read(b, (0, 0), (32, 32), slot=k % 2)
        return tg.mma(a_tile, tg.transpose(b_tile), acc)

    acc = tg.fill((16, 32), tg.f32)
    copy(0)
    for k in tg.iterate(K // 32):
        with tg.conditional(k + 1 < K // 32):
            tg.workgroup_barrier()  # WAR: tile k - 1 is read, k + 1 takes its slot
            tg.fence("proxy_async")  # WAR: the reads of tile k - 1 come before copies, which use another proxy
            copy(k + 1)
        acc = multiply(k, acc)
    tg.global_write(acc, C, (top + wave * 16, left))


def reference(inputs: dict[str, np.ndarray], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    return {"C": inputs["A"].astype(np.float32) @ inputs["B"].astype(np.float32).T}
