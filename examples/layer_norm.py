"""Layer normalization of rows of 512, many rows per workgroup.

Each wave keeps a quarter of 8 rows in registers. Mean and variance need a sum over whole rows, so twice per iteration
the waves exchange partial sums: first of the values, then of the squares of what is left without the mean.

Two exchanges need two barriers. None is needed at the end of an iteration, because the exchanges use two buffers that
guard each other: the sums of the next iteration are written after the barrier of the squares, which every wave reaches
after its reads of the sums, and likewise the other way round. With one buffer for both there would be four.
"""

import numpy as np

import tidegate as tg

M = tg.size("M", 64)
N, GROUPS = 512, 2
TOLERANCE = (1e-4, 1e-5)


@tg.kernel(waves=4, target="gfx942", grid=(GROUPS,), where=[M % 16 == 0])
def layer_norm(
    X: tg.Global[M, N, tg.f32],
    SCALE: tg.Global[N, tg.f32],
    SHIFT: tg.Global[N, tg.f32],
    Y: tg.Global[M, N, tg.f32],
):
    sums = tg.alloc((8, 4), tg.f32)
    squares = tg.alloc((8, 4), tg.f32)
    wave = tg.wave()
    column = wave * 128
    scale = tg.global_read(SCALE, (column,), (128,))
    shift = tg.global_read(SHIFT, (column,), (128,))
    for i in tg.iterate(M // 16):
        row = (i * GROUPS + tg.workgroup(0)) * 8
        x = tg.global_read(X, (row, column), (8, 128))
        tg.local_write(tg.reduce("add", x, axis=1), sums, (0, wave))
        tg.shared_memory_barrier()  # RAW: sums are written; WAR: squares of iteration i - 1 are read
        mean = tg.reduce("add", tg.local_read(sums, (0, 0), (8, 4)), axis=1) / N
        centred = x - mean
        tg.local_write(tg.reduce("add", centred * centred, axis=1), squares, (0, wave))
        tg.shared_memory_barrier()  # RAW: squares are written; WAR: sums of iteration i are read
        variance = tg.reduce("add", tg.local_read(squares, (0, 0), (8, 4)), axis=1) / N
        tg.global_write(centred * tg.rsqrt(variance + 1e-5) * scale + shift, Y, (row, column))


def reference(inputs: dict[str, np.ndarray], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    x = inputs["X"]
    centred = x - x.mean(axis=1, keepdims=True)
    variance = (centred * centred).mean(axis=1, keepdims=True)
    return {"Y": centred / np.sqrt(variance + 1e-5) * inputs["SCALE"] + inputs["SHIFT"]}
