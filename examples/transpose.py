"""Transpose through shared memory, so that global memory is read and written along rows.

A workgroup takes a tile of 64×64: each wave writes 16 of its rows to shared memory and reads 16 of its columns. Rows
are padded to 65 elements, which puts the elements of a column into different banks.

A column crosses the rows of all waves, so one barrier stands between the writes and the reads. The tile is used once,
so nothing is overwritten and no other barrier is needed.
"""

import numpy as np

import tidegate as tg

M, N = tg.sizes(M=128, N=64)
TOLERANCE = (0, 0)


@tg.kernel(waves=4, target="gfx942", grid=(M // 64, N // 64), where=[M % 64 == 0, N % 64 == 0])
def transpose(X: tg.Global[M, N, tg.f32], Y: tg.Global[N, M, tg.f32]):
    tile = tg.alloc((64, 65), tg.f32)
    wave, top, left = tg.wave(), tg.workgroup(0) * 64, tg.workgroup(1) * 64
    rows = tg.global_read(X, (top + wave * 16, left), (16, 64))
    tg.local_write(rows, tile, (wave * 16, 0))
    tg.shared_memory_barrier()  # RAW: all rows are written
    columns = tg.local_read(tile, (0, wave * 16), (64, 16))
    tg.global_write(tg.transpose(columns), Y, (left + wave * 16, top))


def reference(inputs: dict[str, np.ndarray], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    return {"Y": inputs["X"].T}
