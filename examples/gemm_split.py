"""Matrix product with split barriers: waves multiply between arriving at a barrier and waiting at it.

C = A · Bᵀ as in `gemm_two_slots`, one tile ahead. A wave reads tile k, writes tile k + 1 into the other slot, signals,
multiplies tile k from registers, and only then waits for the others.

One pair per iteration does both jobs, and it spans the end of the iteration. Signal k says: my part of tile k + 1 is
written, and I have read tile k. After the wait, tile k + 1 may be read and the slot of tile k overwritten. The signal
is the arrival, so the drain that both need stands before it: a drain before the wait would come too late.
"""

import numpy as np

import tidegate as tg

M, N, K = tg.sizes(M=128, N=128, K=128)
TOLERANCE = (1e-4, 1e-4)


@tg.kernel(
    waves=4,
    target="gfx1201",
    grid=(M // 64, N // 64),
    where=[M % 64 == 0, N % 64 == 0, K % 32 == 0, K >= 32],
)
def gemm_split(A: tg.Global[M, K, tg.f16], B: tg.Global[N, K, tg.f16], C: tg.Global[M, N, tg.f32]):
    a = tg.alloc((64, 32), tg.f16, slots=2)
    b = tg.alloc((64, 32), tg.f16, slots=2)
    wave, top, left = tg.wave(), tg.workgroup(0) * 64, tg.workgroup(1) * 64
    row, column = wave // 2 * 32, wave % 2 * 32

    @tg.function
    def fetch(k):
        a_part = tg.global_read(A, (top + wave * 16, k * 32), (16, 32))
        b_part = tg.global_read(B, (left + wave * 16, k * 32), (16, 32))
        return a_part, b_part

    @tg.function
    def store(parts, slot):
        tg.local_write(parts[0], a, (wave * 16, 0), slot=slot)
        tg.local_write(parts[1], b, (wave * 16, 0), slot=slot)

    @tg.function
    def load(k):
        a_tile = tg.local_read(a, (row, 0), (32, 32), slot=k % 2)
        b_tile = tg.local_read(b, (column, 0), (32, 32), slot=k % 2)
        return a_tile, tg.transpose(b_tile)

    acc = tg.fill((32, 32), tg.f32)
    store(fetch(0), slot=0)
    tg.wait_count(dscnt=0)  # the writes of tile 0 are done
    tg.signal(-1)  # RAW: tile 0
    for k in tg.iterate(K // 32 - 1):
        parts = fetch(k + 1)
        tg.wait(-1)  # RAW: tile k is written; WAR: tile k - 1 is read, k + 1 takes its slot
        a_tile, b_tile = load(k)
        store(parts, slot=(k + 1) % 2)
        tg.wait_count(dscnt=0)  # the reads of tile k and the writes of tile k + 1 are done
        tg.signal(-1)  # RAW: tile k + 1; WAR: tile k
        acc = tg.mma(a_tile, b_tile, acc)
    tg.wait(-1)  # RAW: the last tile is written
    a_tile, b_tile = load(K // 32 - 1)
    acc = tg.mma(a_tile, b_tile, acc)
    tg.global_write(acc, C, (top + row, left + column))


def reference(inputs: dict[str, np.ndarray], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    return {"C": inputs["A"].astype(np.float32) @ inputs["B"].astype(np.float32).T}
