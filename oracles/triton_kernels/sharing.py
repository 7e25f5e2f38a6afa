"""What one thread fetches for others: a lock, the count that tells who is last, values looked up in registers.

A scalar that one thread fetches, such as the result of an atomic, reaches the others through shared memory.
"""

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl

from oracles.triton_kernels import Launch
from oracles.triton_kernels.building import case, pointers


@triton.jit
def sum_locked(x, out, lock, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Sums of columns: each program sums a band of rows and adds it to the result while it holds the lock."""
    col = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for number in range(ROWS):
        row = tl.program_id(0) * ROWS + number
        total += tl.load(x + row * cols + col, (col < cols) & (row < rows), other=0.0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    before = tl.load(out + col, col < cols, other=0.0, cache_modifier=".cg")
    tl.store(out + col, before + total, col < cols)
    # All stores of the program come before the lock is open again.
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def sum_last(x, parts, out, count, total, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr):
    """Each program leaves its sum; the one that finishes last sums these."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(parts + tl.program_id(0), tl.sum(tl.load(x + place, place < total, other=0.0), 0))
    tl.debug_barrier()
    if tl.atomic_add(count, 1) == tl.num_programs(0) - 1:
        number = tl.arange(0, PROGRAMS)
        found = tl.load(parts + number, number < tl.num_programs(0), other=0.0, cache_modifier=".cg")
        tl.store(out, tl.sum(found, 0))


@triton.jit
def look_up(x, places, out, cols, BLOCK: tl.constexpr, COUNT: tl.constexpr):
    """COUNT values of a row by their places, out of registers: Triton moves them through shared memory."""
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    values = tl.load(x + row * cols + col, col < cols, other=0.0)
    number = tl.arange(0, COUNT)
    chosen = tl.gather(values, tl.load(places + row * COUNT + number), 0)
    tl.store(out + row * COUNT + number, chosen)


def launch_locked(rng: np.random.Generator, scale: int) -> Launch:
    rows, cols = 30 * scale, 500
    x = rng.standard_normal((rows, cols)).astype(np.float32)
    args = (x, np.zeros(cols, np.float32), np.zeros(1, np.int32), rows, cols)
    return Launch((-(-rows // 8), 1, 1), args, (1,), (x.astype(np.float64).sum(0),), 1e-4)


def launch_last(rng: np.random.Generator, scale: int) -> Launch:
    total = min(9000 * scale, 64 * 1024)  # the last one sums what 64 programs left
    x = rng.standard_normal(total).astype(np.float32)
    programs = -(-total // 1024)
    args = (x, np.zeros(programs, np.float32), np.zeros(1, np.float32), np.zeros(1, np.int32), total)
    return Launch((programs, 1, 1), args, (2,), (x.astype(np.float64).sum(keepdims=True),), 1e-3)


def launch_look_up(rng: np.random.Generator, scale: int) -> Launch:
    rows, cols, count = 4 * scale, 900, 256
    x = rng.standard_normal((rows, cols)).astype(np.float32)
    places = rng.integers(0, cols, (rows, count)).astype(np.int32)
    expected = np.take_along_axis(x, places, 1).astype(np.float64)
    return Launch((rows, 1, 1), (x, places, np.zeros((rows, count), np.float32), cols), (2,), (expected,), 0.0)


LOCKED = {**pointers("fp32", "x", "out"), **pointers("i32", "lock"), "rows": "i32", "cols": "i32"}
LAST = {**pointers("fp32", "x", "parts", "out"), **pointers("i32", "count"), "total": "i32"}
LOOKED_UP = {**pointers("fp32", "x", "out"), **pointers("i32", "places"), "cols": "i32"}

CASES = (
    case("sum-locked", sum_locked, LOCKED, {"ROWS": 8, "BLOCK": 512}, launch=launch_locked, num_warps=4),
    case("sum-last", sum_last, LAST, {"BLOCK": 1024, "PROGRAMS": 64}, launch=launch_last, num_warps=4),
    case("look-up", look_up, LOOKED_UP, {"BLOCK": 1024, "COUNT": 256}, launch=launch_look_up, num_warps=4),
)
