"""Kernels in Numba's CUDA dialect, as its users write them, and their PTX.

    python oracles/numba_kernels.py FOLDER      FOLDER/NAME.ptx for each; with a Python that has numba-cuda

Needs   numba-cuda with CUDA's NVVM (`pip install 'numba-cuda[cu13]'`); no GPU
Gives   one file of PTX for each kernel, its block shape in the first line
Keeps   nothing of Tidegate is imported: Numba has an environment of its own
"""

from __future__ import annotations

import sys
from pathlib import Path

from numba import cuda, float32, int32, types

VECTOR, MATRIX, NUMBERS = types.float32[::1], types.float32[:, ::1], types.int32[::1]


def block_sum(out, data):
    part = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    part[t] = data[i] if i < data.size else 0
    half = 128
    while half > 0:
        cuda.syncthreads()
        if t < half:
            part[t] += part[t + half]
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


def warp_sum(out, data):
    part = cuda.shared.array((8, 32), float32)
    t = cuda.threadIdx.x
    warp, lane = t // 32, t % 32
    part[warp, lane] = data[cuda.grid(1)]
    cuda.syncwarp()
    width = 16
    while width:
        if lane < width:
            part[warp, lane] += part[warp, lane + width]
        cuda.syncwarp()
        width //= 2
    cuda.syncthreads()
    if t == 0:
        total = float32(0)
        for k in range(8):
            total += part[k, 0]
        out[cuda.blockIdx.x] = total


def matmul(c, a, b):
    left = cuda.shared.array((16, 16), float32)
    right = cuda.shared.array((16, 16), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for k in range((a.shape[1] + 15) // 16):
        left[ty, tx] = a[y, tx + k * 16] if y < a.shape[0] and tx + k * 16 < a.shape[1] else 0
        right[ty, tx] = b[ty + k * 16, x] if x < b.shape[1] and ty + k * 16 < b.shape[0] else 0
        cuda.syncthreads()
        for j in range(16):
            total += left[ty, j] * right[j, tx]
        cuda.syncthreads()
    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = total


def transpose(out, data):
    tile = cuda.shared.array((32, 33), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.blockIdx.x * 32 + tx, cuda.blockIdx.y * 32 + ty
    for k in range(0, 32, 8):
        tile[ty + k, tx] = data[y + k, x]
    cuda.syncthreads()
    x, y = cuda.blockIdx.y * 32 + tx, cuda.blockIdx.x * 32 + ty
    for k in range(0, 32, 8):
        out[y + k, x] = tile[tx, ty + k]


def scan(out, data):
    room = cuda.shared.array((2, 128), float32)
    t = cuda.threadIdx.x
    side, by = 0, 1
    room[0, t] = data[cuda.grid(1)]
    cuda.syncthreads()
    while by < 128:
        room[1 - side, t] = room[side, t] + (room[side, t - by] if t >= by else float32(0))
        side = 1 - side
        by *= 2
        cuda.syncthreads()
    out[cuda.grid(1)] = room[side, t]


def histogram(out, keys):
    bins = cuda.shared.array(256, int32)
    t = cuda.threadIdx.x
    bins[t] = 0
    cuda.syncthreads()
    for k in range(cuda.grid(1), keys.size, cuda.gridsize(1)):
        cuda.atomic.add(bins, keys[k] & 255, 1)
    cuda.syncthreads()
    cuda.atomic.add(out, t, bins[t])


def stencil(out, data, steps):
    row = cuda.shared.array(130, float32)
    t = cuda.threadIdx.x
    mine = data[cuda.grid(1)]
    for _ in range(steps):
        row[t + 1] = mine
        if t == 0:
            row[0] = data[0]
            row[129] = data[1]
        cuda.syncthreads()
        mine = (row[t] + row[t + 1] + row[t + 2]) / 3
        cuda.syncthreads()
    out[cuda.grid(1)] = mine


def softmax(out, data):
    parts = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    most = data[cuda.blockIdx.x, t]
    for by in (16, 8, 4, 2, 1):
        most = max(most, cuda.shfl_xor_sync(0xFFFFFFFF, most, by))
    if t % 32 == 0:
        parts[t // 32] = most
    cuda.syncthreads()
    for k in range(8):
        most = max(most, parts[k])
    cuda.syncthreads()
    value = data[cuda.blockIdx.x, t] - most
    total = value
    for by in (16, 8, 4, 2, 1):
        total += cuda.shfl_xor_sync(0xFFFFFFFF, total, by)
    if t % 32 == 0:
        parts[t // 32] = total
    cuda.syncthreads()
    total = float32(0)
    for k in range(8):
        total += parts[k]
    out[cuda.blockIdx.x, t] = value / total


def bitonic(data):
    room = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    room[t] = data[t]
    cuda.syncthreads()
    size = 2
    while size <= 256:
        by = size // 2
        while by > 0:
            other = t ^ by
            if other > t:
                up = (t & size) == 0
                if (room[t] > room[other]) == up:
                    room[t], room[other] = room[other], room[t]
            cuda.syncthreads()
            by //= 2
        size *= 2
    data[t] = room[t]


def double_buffer(out, data, rounds):
    ring = cuda.shared.array((2, 128), float32)
    t = cuda.threadIdx.x
    ring[0, t] = data[t]
    total = float32(0)
    for k in range(rounds):
        cuda.syncthreads()
        ring[(k + 1) % 2, t] = data[(k + 1) * 128 + t]
        total += ring[k % 2, 127 - t]
    out[t] = total


def dynamic(out, data):
    room = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    room[t] = data[t]
    cuda.syncthreads()
    out[t] = room[127 - t]


KERNELS = (
    (block_sum, (VECTOR, VECTOR), "256"),
    (warp_sum, (VECTOR, VECTOR), "256"),
    (matmul, (MATRIX, MATRIX, MATRIX), "16x16"),
    (transpose, (MATRIX, MATRIX), "32x8"),
    (scan, (VECTOR, VECTOR), "128"),
    (histogram, (NUMBERS, NUMBERS), "256"),
    (stencil, (VECTOR, VECTOR, types.int32), "128"),
    (softmax, (MATRIX, MATRIX), "256"),
    (bitonic, (VECTOR,), "256"),
    (double_buffer, (VECTOR, VECTOR, types.int32), "128"),
    (dynamic, (VECTOR, VECTOR), "128"),
)

if __name__ == "__main__":
    for kernel, signature, block in KERNELS:
        ptx, _ = cuda.compile_ptx(kernel, signature, cc=(8, 0))
        path = Path(sys.argv[1]) / f"{kernel.__name__}.ptx"
        path.write_text(f"// --block {block}\n{ptx}", encoding="utf-8")
        print(path.name)
