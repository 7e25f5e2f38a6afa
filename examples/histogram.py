"""Histogram of the low bytes of integers, counted in shared memory with atomic additions.

Each workgroup counts one row of X. Which bin a value falls into is known only at run time, so the index is marked
`inexact`: an analysis must take it for any place in the buffer.

Two barriers. The first orders the zeros before every count, the second every count before the result is read. None is
needed in the loop: atomic additions of different waves may hit the same bin in any order, and no result of one is used.
`--atomics order` would insert one there.
"""

import numpy as np

import tidegate as tg

G, N = tg.sizes(G=2, N=1024)
TOLERANCE = (0, 0)


@tg.kernel(waves=4, target="gfx942", grid=(G,), where=[N % 256 == 0])
def histogram(X: tg.Global[G, N, tg.i32], COUNTS: tg.Global[G, 256, tg.i32]):
    counts = tg.alloc((256,), tg.i32)
    wave, row = tg.wave(), tg.workgroup(0)
    one = tg.fill((64,), tg.i32, 1)
    tg.local_write(tg.fill((64,), tg.i32), counts, (wave * 64,))
    tg.shared_memory_barrier()  # RAW and WAW: all bins are zero
    for i in tg.iterate(N // 256):
        x = tg.global_read(X, (row, i * 256 + wave * 64), (64,))
        low_byte = x & 255
        tg.atomic_add(one, counts, (tg.inexact(low_byte),))
    tg.shared_memory_barrier()  # RAW: all values are counted
    tg.global_write(tg.local_read(counts, (wave * 64,), (64,)), COUNTS, (row, wave * 64))


def reference(inputs: dict[str, np.ndarray], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    return {"COUNTS": np.array([np.bincount(row & 255, minlength=256) for row in inputs["X"]], np.int32)}
