"""CUB's block and warp primitives: what `tidegate check` says of a kernel around each, and without its barrier.

    python -m bench.cub_blocks [NAME...]       the table of docs/benchmarks.md

Needs   NVRTC and CUB, which comes with the extra `cuda`
Gives   for each primitive the verdict on a kernel that calls it twice with a barrier between, as CUB's pages demand,
        and on the same kernel without this barrier
Cost    a compilation and a check for each kernel
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.cuda_corpus import judge_one
from tidegate.hosts.cuda.compile import compile_cuda
from tidegate.hosts.cuda.options import CudaOptions

THREADS, ITEMS = 128, 4
BLOCK = "reduce scan radix_sort exchange histogram load store shuffle adjacent_difference discontinuity merge_sort"
WARP = "reduce scan exchange load store merge_sort"
HEADERS = "".join(
    f"#include <cub/{level}/{level}_{each}.cuh>\n"
    for level, names in (("block", BLOCK), ("warp", WARP))
    for each in names.split()
)


@dataclass(frozen=True, slots=True)
class Primitive:
    """`type` is that of the primitive, `call` uses it once, on `room`, an array `v` of items, and numbers `x`, `y`."""

    name: str
    type: str
    call: str
    warp: bool = False

    def kernel(self, barrier: str) -> str:
        room = f"room[{THREADS // 32}]" if self.warp else "room"
        mine = "room[threadIdx.x / 32]" if self.warp else "room"
        call = self.call.replace("ROOM", mine)
        sync = ("__syncwarp();" if self.warp else "__syncthreads();") if barrier else ""
        return f"""
extern "C" __global__ void {self.name}{barrier}(int *out, const int *in) {{
  using Primitive = cub::{self.type};
  __shared__ typename Primitive::TempStorage {room};
  int v[{ITEMS}], w[{ITEMS}], x = in[threadIdx.x], y = 0;
  for (int k = 0; k < {ITEMS}; k++) v[k] = in[threadIdx.x * {ITEMS} + k], w[k] = 0;
  {{ {call} }}
  for (int k = 0; k < {ITEMS}; k++) v[k] += w[k] + x + y;  // so that no call is without effect
  {sync}
  {{ {call} }}
  for (int k = 0; k < {ITEMS}; k++) out[threadIdx.x * {ITEMS} + k] = v[k] + w[k] + x + y;
}}
"""


def _block(kind: str, call: str, *parameters: str, name: str = "") -> Primitive:
    last = name or parameters[-1].removeprefix("cub::BLOCK_").removeprefix(f"{_snake(kind)}_".upper()).lower()
    last = "" if last.isdigit() else f"_{last}"
    return Primitive(f"block_{_snake(kind)}{last}", f"Block{kind}<{', '.join(('int', *parameters))}>", call)


def _snake(kind: str) -> str:
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in kind).lstrip("_")


LOAD = "Primitive(ROOM).Load(in + v[0], w);"
SCATTER = "for (int k = 0; k < 4; k++) w[k] = threadIdx.x * 4 + (k ^ 1); Primitive(ROOM).ScatterToStriped(v, w);"
LESS = "[](int a, int b) { return a < b; }"
MINUS = "[](int a, int b) { return a - b; }"
T, N = str(THREADS), str(ITEMS)
PRIMITIVES = (
    *(
        _block("Reduce", "x = Primitive(ROOM).Sum(x);", T, f"cub::{each}")
        for each in (
            "BLOCK_REDUCE_RAKING",
            "BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY",
            "BLOCK_REDUCE_WARP_REDUCTIONS",
        )
    ),
    *(
        _block("Scan", "Primitive(ROOM).ExclusiveSum(x, x, y);", T, f"cub::{each}")
        for each in ("BLOCK_SCAN_RAKING", "BLOCK_SCAN_RAKING_MEMOIZE", "BLOCK_SCAN_WARP_SCANS")
    ),
    *(
        _block("Load", LOAD, T, N, f"cub::{each}")
        for each in ("BLOCK_LOAD_TRANSPOSE", "BLOCK_LOAD_WARP_TRANSPOSE", "BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED")
    ),
    *(
        _block("Store", "Primitive(ROOM).Store(out, v);", T, N, f"cub::{each}")
        for each in ("BLOCK_STORE_TRANSPOSE", "BLOCK_STORE_WARP_TRANSPOSE", "BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED")
    ),
    _block("Exchange", "Primitive(ROOM).BlockedToStriped(v);", T, N, name="blocked_to_striped"),
    _block("Exchange", "Primitive(ROOM).StripedToBlocked(v);", T, N, name="striped_to_blocked"),
    _block("Exchange", "Primitive(ROOM).BlockedToWarpStriped(v);", T, N, name="blocked_to_warp_striped"),
    _block(
        "Exchange",
        SCATTER,
        T,
        N,
        name="scatter_to_striped",
    ),
    _block("Shuffle", "Primitive(ROOM).Up(v, w);", T, name="up"),
    _block("Shuffle", "Primitive(ROOM).Offset(x, y, 1);", T, name="offset"),
    _block("AdjacentDifference", f"Primitive(ROOM).SubtractLeft(v, w, {MINUS});", T),
    _block("Discontinuity", "Primitive(ROOM).FlagHeads(w, v, cuda::std::not_equal_to<int>());", T),
    _block("MergeSort", f"Primitive(ROOM).Sort(v, {LESS});", T, N),
    _block("RadixSort", "Primitive(ROOM).Sort(v);", T, N),
    Primitive(
        "block_histogram_atomic",
        f"BlockHistogram<unsigned char, {T}, {N}, 256, cub::BLOCK_HISTO_ATOMIC>",
        "__shared__ int bins[256]; unsigned char b[4] = {1, 2, 3, (unsigned char)x}; "
        "Primitive(ROOM).InitHistogram(bins); __syncthreads(); Primitive(ROOM).Composite(b, bins);",
    ),
    Primitive("warp_reduce", "WarpReduce<int>", "x = Primitive(ROOM).Sum(x);", True),
    Primitive("warp_reduce_12", "WarpReduce<int, 12>", "x = Primitive(ROOM).Sum(x);", True),
    Primitive("warp_scan", "WarpScan<int>", "Primitive(ROOM).InclusiveSum(x, x);", True),
    Primitive("warp_scan_12", "WarpScan<int, 12>", "Primitive(ROOM).InclusiveSum(x, x);", True),
    Primitive("warp_exchange", f"WarpExchange<int, {N}>", "Primitive(ROOM).BlockedToStriped(v, v);", True),
    Primitive("warp_load", f"WarpLoad<int, {N}, cub::WARP_LOAD_TRANSPOSE>", LOAD, True),
    Primitive("warp_store", f"WarpStore<int, {N}, cub::WARP_STORE_TRANSPOSE>", "Primitive(ROOM).Store(out, v);", True),
    Primitive("warp_merge_sort", f"WarpMergeSort<int, {N}>", f"Primitive(ROOM).Sort(v, {LESS});", True),
)
WITH = "_with_barrier"


def judged(primitive: Primitive, folder: Path) -> list[tuple[str, str, float]]:
    """Verdict, reason and seconds, with the barrier between the calls and without it."""
    text = HEADERS + primitive.kernel(WITH) + primitive.kernel("")
    kept = folder / f"{primitive.name}.ptx"
    kept.write_text(compile_cuda(text, f"{primitive.name}.cu", CudaOptions()).ptx, encoding="utf-8")
    found = []
    for barrier in (WITH, ""):
        began = time.process_time()
        verdict, why = judge_one(kept, f"{primitive.name}{barrier}", T, ())
        found.append((verdict, why, time.process_time() - began))
    return found


def short(why: str) -> str:
    """The code of a finding, or what is not decided."""
    return found[0] if (found := re.match(r"TG\d+", why)) else why


def main(names: list[str]) -> None:
    print("| primitive | with the barrier | without it | seconds |\n|---|---|---|---:|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for each in PRIMITIVES:
            if names and not any(name in each.name for name in names):
                continue
            right, wrong = judged(each, Path(folder))
            said = [f"{verdict}{f': {short(why)}' if why else ''}" for verdict, why, _ in (right, wrong)]
            print(f"| `{each.name}` | {said[0]} | {said[1]} | {right[2]:.1f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
