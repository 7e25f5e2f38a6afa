"""Softmax of long rows: the waves of a workgroup split each row and exchange partial results.

A workgroup takes 8 rows. In one pass over its quarter of the columns each wave finds a maximum and the sum of
exponentials relative to it; then the partial results of all waves are combined, and a second pass writes the result.

The loops touch no shared memory. The only exchange is of the partial results, maximum and sum together, so the kernel
has one barrier. Nothing is written afterwards, so no other is needed.
"""

import numpy as np

import tidegate as tg

M, N = tg.sizes(M=16, N=512)
TOLERANCE = (1e-5, 1e-6)


@tg.kernel(waves=4, target="gfx942", grid=(M // 8,), where=[M % 8 == 0, N % 256 == 0, N >= 256])
def softmax(X: tg.Global[M, N, tg.f32], Y: tg.Global[M, N, tg.f32]):
    tops = tg.alloc((8, 4), tg.f32)
    sums = tg.alloc((8, 4), tg.f32)
    wave, row = tg.wave(), tg.workgroup(0) * 8
    my_top = tg.fill((8, 1), tg.f32, -np.inf)
    my_sum = tg.fill((8, 1), tg.f32)
    for i in tg.iterate(N // 256):
        x = tg.global_read(X, (row, i * 256 + wave * 64), (8, 64))
        new_top = tg.maximum(my_top, tg.reduce("max", x, axis=1))
        my_sum = my_sum * tg.exp(my_top - new_top) + tg.reduce("add", tg.exp(x - new_top), axis=1)
        my_top = new_top
    tg.local_write(my_top, tops, (0, wave))
    tg.local_write(my_sum, sums, (0, wave))
    tg.shared_memory_barrier()  # RAW: the partial results of all waves are written
    all_tops = tg.local_read(tops, (0, 0), (8, 4))
    all_sums = tg.local_read(sums, (0, 0), (8, 4))
    top = tg.reduce("max", all_tops, axis=1)
    total = tg.reduce("add", all_sums * tg.exp(all_tops - top), axis=1)
    for i in tg.iterate(N // 256):
        weight = tg.exp(tg.global_read(X, (row, i * 256 + wave * 64), (8, 64)) - top)
        tg.global_write(weight / total, Y, (row, i * 256 + wave * 64))


def reference(inputs: dict[str, np.ndarray], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    weight = np.exp(inputs["X"] - inputs["X"].max(axis=1, keepdims=True))
    return {"Y": weight / weight.sum(axis=1, keepdims=True)}
