"""Running sums along rows: each wave sums its part, wave totals travel through shared memory.

A workgroup walks along one row, 256 elements per iteration. Each wave scans 64 of them in registers, publishes its
total, and adds the totals of the waves before it and of the blocks before this one.

Totals of iteration i lie in slot i mod 2, so one barrier per iteration does both jobs: it completes the totals of this
block, and all waves have read those of the block before, whose slot is written next.
"""

import numpy as np

import tidegate as tg

M, N = tg.sizes(M=2, N=1024)
TOLERANCE = (0, 0)


@tg.kernel(waves=4, target="gfx942", grid=(M,), where=[N % 256 == 0])
def scan(X: tg.Global[M, N, tg.i32], Y: tg.Global[M, N, tg.i32]):
    totals = tg.alloc((4,), tg.i32, slots=2)
    wave, row = tg.wave(), tg.workgroup(0)
    is_before = tg.iota((4,)) < wave
    before_block = tg.fill((1,), tg.i32)
    for i in tg.iterate(N // 256):
        x = tg.global_read(X, (row, i * 256 + wave * 64), (64,))
        tg.local_write(tg.reduce("add", x, axis=0), totals, (wave,), slot=i % 2)
        tg.shared_memory_barrier()  # RAW: totals of block i are written; WAR: totals of block i - 1 are read
        all_totals = tg.local_read(totals, (0,), (4,), slot=i % 2)
        before_wave = tg.reduce("add", tg.where(is_before, all_totals, 0), axis=0)
        tg.global_write(tg.scan("add", x, axis=0) + before_wave + before_block, Y, (row, i * 256 + wave * 64))
        before_block = before_block + tg.reduce("add", all_totals, axis=0)


def reference(inputs: dict[str, np.ndarray], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    return {"Y": np.cumsum(inputs["X"], axis=1, dtype=np.int32)}
