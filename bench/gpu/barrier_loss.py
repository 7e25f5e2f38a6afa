"""What a barrier takes on an NVIDIA GPU while the units that it makes waves wait for have other work.

Needs   a GPU and CuPy; nothing of Tidegate
Gives   for bodies of matrix products of several tiles, with 0 to 3 barriers at their ends: cycles of an iteration, and
        what one more barrier adds to what a compute unit does for one workgroup
Keeps   nothing is read from global memory but what lies in the cache, and copies are waited for four iterations later:
        no wait holds anything up, so that what is measured is the barriers alone

`python bench/gpu/barrier_loss.py` prints a table; runs of one kernel are interleaved, and medians are taken.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import cupy  # type: ignore[import-not-found]

SOURCE = r"""
extern "C" __global__ void body(const char* __restrict__ from, float* to, long long* cycles, int rounds) {
  extern __shared__ __align__(128) char lds[];
  unsigned base = (unsigned)__cvta_generic_to_shared(lds), lane = threadIdx.x & 31, wave = threadIdx.x >> 5;
  float acc[MMAS][4];
  for (int i = 0; i < MMAS; i++) for (int j = 0; j < 4; j++) acc[i][j] = 0.0f;
  for (unsigned i = threadIdx.x * 4; i < BYTES * SLOTS; i += blockDim.x * 4) *(float*)(lds + i) = 0.0f;
  __syncthreads();
  long long start = clock64();
  for (int k = 0; k < rounds; k++) {
    unsigned slot = base + (k % SLOTS) * BYTES;
    unsigned frag[2][READS][4];
    #pragma unroll
    for (int s = 0; s <= SLICES; s++) {
      #pragma unroll
      for (int i = 0; i < READS && s < SLICES; i++) {
        unsigned* f = frag[s % 2][i];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
          : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
          : "r"(slot + (((wave * SLICES + s) * READS + i) * 512 + lane * 16) % BYTES));
      }
      #pragma unroll
      for (int i = 0; i < MMAS && s > 0; i++) {
        float* c = acc[i];
        unsigned* a = frag[(s + 1) % 2][i % READS]; unsigned* b = frag[(s + 1) % 2][(i / 2) % READS];
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
          "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
      }
    }
    if (BARRIERS > 0) __syncthreads();
    #pragma unroll
    for (int i = 0; i < COPIES; i++) {
      if (BARRIERS > 2 && i == COPIES / 2) __syncthreads();
      unsigned place = (i * blockDim.x + threadIdx.x) * 16;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
        :: "r"(slot + place % BYTES), "l"(from + (blockIdx.x % 4) * BYTES + place % BYTES));
    }
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 3;");
    if (BARRIERS > 1) __syncthreads();
  }
  long long taken = clock64() - start;
  asm volatile("cp.async.wait_group 0;");
  float sum = 0.0f;
  for (int i = 0; i < MMAS; i++) for (int j = 0; j < 4; j++) sum += acc[i][j];
  to[blockIdx.x * blockDim.x + threadIdx.x] = sum;
  if (threadIdx.x == 0) cycles[blockIdx.x] = taken;
}
"""
ROUNDS, RUNS, SLOTS = 400, 9, 4


@dataclass(frozen=True)
class Tile:
    """What a wave does in an iteration: a tile of m by n by k, shared by waves in rows and columns."""

    m: int
    n: int
    k: int
    rows: int
    columns: int
    workgroups: int

    @property
    def threads(self) -> int:
        return 32 * self.rows * self.columns

    def source(self, barriers: int) -> str:
        rows, columns, slices = self.m // self.rows, self.n // self.columns, self.k // 16
        held = 2 * self.k * (self.m + self.n)
        known = {
            "MMAS": rows // 16 * columns // 8,
            "SLICES": slices,
            "READS": rows // 16 + columns // 16,
            "COPIES": held // (16 * self.threads),
            "BYTES": held,
            "SLOTS": SLOTS,
            "BARRIERS": barriers,
        }
        return "".join(f"#define {name} {value}\n" for name, value in known.items()) + SOURCE


TILES = (
    Tile(64, 64, 32, 2, 2, 1),
    Tile(64, 64, 32, 2, 2, 2),
    Tile(64, 64, 32, 2, 2, 4),
    Tile(64, 128, 32, 2, 2, 1),
    Tile(64, 128, 32, 2, 2, 2),
    Tile(64, 128, 32, 2, 2, 3),
    Tile(128, 128, 32, 2, 2, 1),
    Tile(128, 128, 32, 2, 2, 2),
    Tile(128, 128, 64, 2, 2, 1),
    Tile(128, 256, 32, 2, 4, 1),
)


def measure(tile: Tile, units: int, most: int) -> list[float]:
    """Cycles of an iteration with 0 to 3 barriers; workgroups on a unit share it."""
    kernels = []
    held = 2 * tile.k * (tile.m + tile.n) * SLOTS
    asked = min(227 * 1024, max(held, most // tile.workgroups // 1024 * 1024 - 1024))
    for barriers in range(4):
        module = cupy.RawModule(code=tile.source(barriers), options=("--std=c++17",))
        kernel = module.get_function("body")
        kernel.max_dynamic_shared_size_bytes = asked
        assert kernel.local_size_bytes == 0, "registers are spilled"
        assert tile.workgroups * tile.threads * kernel.num_regs <= 65536, "workgroups do not fit"
        kernels.append(kernel)
    source = cupy.zeros(1 << 20, dtype=cupy.uint8)
    grid = units * tile.workgroups
    out, cycles = cupy.zeros(grid * tile.threads, dtype=cupy.float32), cupy.zeros(grid, dtype=cupy.int64)
    found: list[list[float]] = [[] for _ in kernels]
    for run in range(RUNS + 1):
        for place, kernel in enumerate(kernels):
            kernel((grid,), (tile.threads,), (source, out, cycles, ROUNDS), shared_mem=asked)
            if run:
                found[place].append(float(cupy.median(cycles)) / ROUNDS)
    return [statistics.median(each) for each in found]


def main() -> None:
    device = cupy.cuda.Device()
    units, most = device.attributes["MultiProcessorCount"], device.attributes["MaxSharedMemoryPerMultiprocessor"]
    print("| tile | waves | workgroups | 0 barriers | 1 | 2 | 3 | a barrier adds, of a workgroup's share |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for tile in TILES:
        found = measure(tile, units, most)
        each = (found[3] - found[1]) / 2 / tile.workgroups
        print(
            f"| {tile.m}×{tile.n}×{tile.k} | {tile.threads // 32} | {tile.workgroups} | "
            + " | ".join(f"{value:.1f}" for value in found)
            + f" | {each:.1f} |"
        )


if __name__ == "__main__":
    main()
