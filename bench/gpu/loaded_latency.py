"""How long a line of global memory takes on an NVIDIA GPU while all compute units ask for others.

Needs   a GPU and CuPy; nothing of Tidegate
Gives   for data in the shared cache and beyond it, and for streams that ask for more and more: bytes in a cycle that
        each compute unit gets, and cycles that one dependent read takes meanwhile
Keeps   one wave of a compute unit follows a chain of lines in random order, its other waves read streams and pause

`python bench/gpu/loaded_latency.py` prints a table; each row is the median over all compute units.
"""

from __future__ import annotations

import cupy  # type: ignore[import-not-found]

SOURCE = r"""
extern "C" __global__ void load(const uint4* data, unsigned lines, int pause, int steps, long long* took,
                                long long* moved, unsigned* out) {
  __shared__ volatile int done;
  if (threadIdx.x == 0) done = 0;
  __syncthreads();
  unsigned wave = threadIdx.x >> 5, lane = threadIdx.x & 31;
  if (wave == 0) {
    if (lane == 0) {
      unsigned at = (blockIdx.x * 7919u) % lines;
      for (int i = 0; i < 64; i++) at = __ldcg((const unsigned*)data + (size_t)at * 32);
      long long start = clock64();
      for (int i = 0; i < steps; i++) at = __ldcg((const unsigned*)data + (size_t)at * 32);
      took[blockIdx.x] = (clock64() - start);
      done = 1;
      out[blockIdx.x] = at;
    }
    return;
  }
  unsigned at = (blockIdx.x * 31u + wave) * 2654435761u, sum = 0;
  long long start = clock64(), count = 0;
  while (!done) {
    #pragma unroll
    for (int i = 0; i < 4; i++) {
      at = at * 1664525u + 1013904223u;
      uint4 got = __ldcg(data + (size_t)(at % (lines / 4)) * 32 + lane);
      sum += got.x ^ got.y ^ got.z ^ got.w;
    }
    count += 4 * 512;
    if (pause < 0) { while (!done) __nanosleep(1000); break; }
    long long until = clock64() + pause;
    while (clock64() < until) { }
  }
  if (lane == 0) moved[blockIdx.x * 32 + wave] = count * 1000 / (clock64() - start);
  out[gridDim.x + threadIdx.x] = sum;
}
"""
STEPS, THREADS = 2000, 544
PAUSES = (-1, 8000, 4000, 2000, 1200, 800, 500, 300, 150, 0)


def main() -> None:
    units = cupy.cuda.Device().attributes["MultiProcessorCount"]
    kernel = cupy.RawModule(code=SOURCE).get_function("load")
    print("| data | bytes in a cycle, of a unit | cycles of a read |")
    print("|---|---:|---:|")
    for name, size in (("in the cache", 16 << 20), ("beyond it", 2 << 30)):
        lines = size // 128
        data = cupy.zeros((lines, 32), dtype=cupy.uint32)
        order = cupy.random.permutation(lines).astype(cupy.uint32)
        data[order, 0] = cupy.roll(order, -1)
        took, moved = cupy.zeros(units, dtype=cupy.int64), cupy.zeros((units, 32), dtype=cupy.int64)
        out = cupy.zeros(units + THREADS, dtype=cupy.uint32)
        for pause in PAUSES:
            for _ in range(2):
                kernel((units,), (THREADS,), (data, lines, pause, STEPS, took, moved, out))
            rate = float(cupy.median(moved.sum(axis=1))) / 1000 if pause >= 0 else 0.0
            print(f"| {name} | {rate:.1f} | {float(cupy.median(took)) / STEPS:.0f} |")


if __name__ == "__main__":
    main()
