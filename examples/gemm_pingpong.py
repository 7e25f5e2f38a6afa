"""Matrix product in two-cluster ping-pong: while one half of eight waves multiplies, the other moves data.

C = A · Bᵀ in tiles of 128×256×64. Waves w and w + 4 share a SIMD. An iteration has four clusters, each closed by a
barrier: read, multiply, write, multiply. A conditional barrier holds the high waves back by one arrival, so that the
halves are always one cluster apart; another after the loop lets the low waves arrive once more and closes the gap.

The stagger changes what a barrier proves. When a low wave leaves barrier n of the loop, a high wave has only arrived
at barrier n - 1 of the loop. So a hazard from a high wave to a low wave needs two arrivals between its ends, within a
half one, and from low to high none:

* WAR, reads of tile k before writes of tile k + 1: the barriers after the reads and after the first multiplication.
* RAW, writes of tile k + 1 before its reads: the barriers after the writes and after the second multiplication.

In both windows the accesses must be done before the *first* of the two arrivals: that barrier drains shared memory. The
second is bare. The schedule put it there, to hand the matrix unit over, so it is pinned; the stagger then leans on it,
and without it the kernel would race.
"""

import numpy as np

import tidegate as tg

M, N, K = tg.sizes(M=128, N=256, K=192)
TOLERANCE = (1e-4, 1e-4)


@tg.kernel(
    waves=8,
    target="gfx942",
    grid=(M // 128, N // 256),
    where=[M % 128 == 0, N % 256 == 0, K % 64 == 0, K >= 64],
)
def gemm_pingpong(A: tg.Global[M, K, tg.f16], B: tg.Global[N, K, tg.f16], C: tg.Global[M, N, tg.f32]):
    a = tg.alloc((128, 64), tg.f16)
    b = tg.alloc((256, 64), tg.f16)
    wave, top, left = tg.wave(), tg.workgroup(0) * 128, tg.workgroup(1) * 256
    row, column = wave // 4 * 64, wave % 4 * 64

    @tg.function
    def multiply(a_tile, b_tile, acc):
        tg.set_wave_prio(1)
        acc = tg.mma(a_tile, tg.transpose(b_tile), acc)
        tg.set_wave_prio(0)
        return acc

    acc = tg.fill((64, 64), tg.f32)
    a_first = tg.global_read(A, (top + wave * 16, 0), (16, 64))
    b_first = tg.global_read(B, (left + wave * 32, 0), (32, 64))
    tg.local_write(a_first, a, (wave * 16, 0))
    tg.local_write(b_first, b, (wave * 32, 0))
    tg.shared_memory_barrier()  # RAW: all waves have written tile 0
    tg.conditional_barrier("high")  # opens the stagger: waves 4 to 7 stay one arrival behind
    for k in tg.iterate(K // 64 - 1):
        # Cluster 1: read tile k from shared memory, the next one from global memory.
        a_low = tg.local_read(a, (row, 0), (64, 32))
        b_low = tg.local_read(b, (column, 0), (64, 32))
        tg.scheduling_barrier()
        a_part = tg.global_read(A, (top + wave * 16, (k + 1) * 64), (16, 64))
        tg.scheduling_barrier()
        a_high = tg.local_read(a, (row, 32), (64, 32))
        b_high = tg.local_read(b, (column, 32), (64, 32))
        tg.scheduling_barrier()
        b_part = tg.global_read(B, (left + wave * 32, (k + 1) * 64), (32, 64))
        tg.shared_memory_barrier()  # WAR, first of two arrivals: the reads of tile k are done
        tg.scheduling_barrier()
        # Cluster 2: multiply the first half of tile k.
        acc = multiply(a_low, b_low, acc)
        tg.workgroup_barrier(pinned=True)  # hands the matrix unit over; WAR, second arrival
        tg.scheduling_barrier()
        # Cluster 3: write tile k + 1.
        tg.local_write(a_part, a, (wave * 16, 0))
        tg.local_write(b_part, b, (wave * 32, 0))
        tg.shared_memory_barrier()  # RAW, first of two arrivals: the writes of tile k + 1 are done
        tg.scheduling_barrier()
        # Cluster 4: multiply the second half of tile k.
        acc = multiply(a_high, b_high, acc)
        tg.workgroup_barrier(pinned=True)  # hands the matrix unit over; RAW, second arrival
        tg.scheduling_barrier()
    tg.conditional_barrier("low")  # closes the stagger: arrivals are equal again
    for half in range(2):
        a_last = tg.local_read(a, (row, half * 32), (64, 32))
        b_last = tg.local_read(b, (column, half * 32), (64, 32))
        acc = tg.mma(a_last, tg.transpose(b_last), acc)
    tg.global_write(acc, C, (top + row, left + column))


def reference(inputs: dict[str, np.ndarray], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    return {"C": inputs["A"].astype(np.float32) @ inputs["B"].astype(np.float32).T}
