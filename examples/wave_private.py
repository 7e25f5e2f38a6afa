"""Sliding sums of 4 neighbours along rows; each wave has shared memory of its own.

Y[r, c] = X[r, c] + ... + X[r, c + 3] for rows of 64, where what lies beyond a row is 0. Each wave lays 16 rows into its
own part of the buffer, with a margin of zeros, and reads them back shifted.

No barrier at all: no byte is touched by two waves. But a lane reads what other lanes of its wave have written, and the
lanes of a wave are in no order by themselves, so that `fence wave` stands before the reads and before the writes of the
next iteration. This target performs what a wave does to shared memory in the order of issue: the fence only keeps the
compiler from changing that order, and takes no time.
"""

import numpy as np

import tidegate as tg

M = tg.size("M", 128)
TOLERANCE = (1e-5, 1e-6)


@tg.kernel(waves=4, target="gfx942", where=[M % 64 == 0])
def wave_private(X: tg.Global[M, 64, tg.f32], Y: tg.Global[M, 64, tg.f32]):
    rows = tg.alloc((4, 16, 68), tg.f32)
    wave = tg.wave()
    tg.local_write(tg.fill((16, 4), tg.f32), rows, (wave, 0, 64))
    for i in tg.iterate(M // 64):
        x = tg.global_read(X, (i * 64 + wave * 16, 0), (16, 64))
        tg.fence("wave")  # WAR: other lanes have read the rows of the iteration before
        tg.local_write(x, rows, (wave, 0, 0))
        tg.fence("wave")  # RAW: other lanes have written what is read shifted
        for shift in range(1, 4):
            shifted = tg.local_read(rows, (wave, 0, shift), (16, 64))
            x = x + shifted
        tg.global_write(x, Y, (i * 64 + wave * 16, 0))


def reference(inputs: dict[str, np.ndarray], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    wide = np.pad(inputs["X"], ((0, 0), (0, 3)))
    return {"Y": sum(wide[:, shift : shift + 64] for shift in range(4))}
