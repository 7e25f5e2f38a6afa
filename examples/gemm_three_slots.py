"""Matrix product through three rotating slots, filled two tiles ahead: one barrier per iteration, with slack.

C = A · Bᵀ as in `gemm_one_slot`. Iteration k reads tile k and writes tile k + 2; the two slots rotate as a pipeliner
writes it, `select(slot + 1 == 3, 0, slot + 1)`.

The barrier at the top of iteration k does both jobs. Tile k was written in iteration k - 2, so its writes had a whole
iteration to finish. Tile k + 2 takes the slot of tile k - 1, which was read before this barrier. After the loop one
barrier serves the last two tiles, whether the loop ran or not.
"""

import numpy as np

import tidegate as tg

M, N, K = tg.sizes(M=128, N=128, K=128)
TOLERANCE = (1e-4, 1e-4)


def next_slot(slot):
    return tg.select(slot + 1 == 3, 0, slot + 1)


@tg.kernel(
    waves=4,
    target="gfx942",
    grid=(M // 64, N // 64),
    where=[M % 64 == 0, N % 64 == 0, K % 32 == 0, K >= 64],
)
def gemm_three_slots(A: tg.Global[M, K, tg.f16], B: tg.Global[N, K, tg.f16], C: tg.Global[M, N, tg.f32]):
    a = tg.alloc((64, 32), tg.f16, slots=3)
    b = tg.alloc((64, 32), tg.f16, slots=3)
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
    def multiply(slot, acc):
        a_tile = tg.local_read(a, (row, 0), (32, 32), slot=slot)
        b_tile = tg.local_read(b, (column, 0), (32, 32), slot=slot)
        return tg.mma(a_tile, tg.transpose(b_tile), acc)

    acc = tg.fill((32, 32), tg.f32)
    store(fetch(0), slot=0)
    store(fetch(1), slot=1)
    ready, free = 0, 2
    for k in tg.iterate(K // 32 - 2):
        parts = fetch(k + 2)
        tg.shared_memory_barrier()  # RAW: tile k is written; WAR: tile k - 1 is read, k + 2 takes its slot
        acc = multiply(ready, acc)
        store(parts, slot=free)
        ready, free = next_slot(ready), next_slot(free)
    tg.shared_memory_barrier()  # RAW: the last two tiles are written
    acc = multiply(ready, acc)
    acc = multiply(next_slot(ready), acc)
    tg.global_write(acc, C, (top + row, left + column))


def reference(inputs: dict[str, np.ndarray], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    return {"C": inputs["A"].astype(np.float32) @ inputs["B"].astype(np.float32).T}
