"""What moves values between lanes and waves: running sums, histograms, sorts, the largest few, sums over columns."""

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl

from oracles.triton_kernels import Launch
from oracles.triton_kernels.building import case


@triton.jit
def cumsum(x, out, cols, BLOCK: tl.constexpr):
    """The running sum of a row in pieces: what stands before a piece is carried along."""
    row = tl.program_id(0) * cols
    before = tl.zeros((), tl.float32)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        values = tl.load(x + row + col, col < cols, other=0.0)
        tl.store(out + row + col, tl.cumsum(values, 0) + before, col < cols)
        before += tl.sum(values, 0)


@triton.jit
def combine_steps(keep_first, add_first, keep_second, add_second):
    return keep_first * keep_second, add_first * keep_second + add_second


@triton.jit
def recurrence(keep, add, out, cols, BLOCK: tl.constexpr):
    """h[i] = keep[i] * h[i - 1] + add[i] along a row, by a scan of pairs."""
    row = tl.program_id(0) * cols
    col = tl.arange(0, BLOCK)
    keeps = tl.load(keep + row + col, col < cols, other=1.0)
    adds = tl.load(add + row + col, col < cols, other=0.0)
    _, state = tl.associative_scan((keeps, adds), 0, combine_steps)
    tl.store(out + row + col, state, col < cols)


@triton.jit
def histogram(x, counts, total, BINS: tl.constexpr, BLOCK: tl.constexpr):
    """Counts of one block of numbers below BINS, added to the counts of all."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + place, place < total, other=0)
    found = tl.histogram(values, BINS, mask=place < total)
    tl.atomic_add(counts + tl.arange(0, BINS), found)


@triton.jit
def sort_rows(x, out, cols, BLOCK: tl.constexpr):
    """A row in rising order."""
    row = tl.program_id(0) * cols
    col = tl.arange(0, BLOCK)
    values = tl.load(x + row + col, col < cols, other=float("inf"))
    tl.store(out + row + col, tl.sort(values), col < cols)


@triton.jit
def top_rows(x, out, cols, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """The COUNT largest of a row, falling."""
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    values = tl.load(x + row * cols + col, col < cols, other=float("-inf"))
    tl.store(out + row * COUNT + tl.arange(0, COUNT), tl.topk(values, COUNT))


@triton.jit
def route_tokens(x, weights, experts, cols, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """The COUNT best experts of a token and their shares: one argmax after the other."""
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    values = tl.load(x + row * cols + col, col < cols, other=float("-inf"))
    first = tl.max(values, 0)
    share = tl.exp(values - first)
    share = share / tl.sum(share, 0)
    for number in tl.static_range(COUNT):
        best, place = tl.max(share, 0, return_indices=True)
        tl.store(weights + row * COUNT + number, best)
        tl.store(experts + row * COUNT + number, place)
        share = tl.where(col == place, -1.0, share)


@triton.jit
def column_sums(x, out, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Sums over the rows of a tile that slides down: the sum crosses the waves at the end."""
    col = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, rows, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row[:, None] < rows) & (col[None, :] < cols)
        total += tl.load(x + row[:, None] * cols + col[None, :], inside, other=0.0)
    tl.store(out + col, tl.sum(total, 0), col < cols)


def launch_cumsum(rng: np.random.Generator, scale: int) -> Launch:
    rows, cols = 4 * scale, 2500
    x = rng.standard_normal((rows, cols)).astype(np.float32)
    expected = x.astype(np.float64).cumsum(1)
    return Launch((rows, 1, 1), (x, np.zeros_like(x), cols), (1,), (expected,), 1e-3)


def launch_recurrence(rng: np.random.Generator, scale: int) -> Launch:
    rows, cols = 4 * scale, 1000
    keep = rng.uniform(0.2, 0.95, (rows, cols)).astype(np.float32)
    add = rng.standard_normal((rows, cols)).astype(np.float32)
    expected = np.zeros((rows, cols))
    state = np.zeros(rows)
    for col in range(cols):
        state = keep[:, col].astype(np.float64) * state + add[:, col]
        expected[:, col] = state
    return Launch((rows, 1, 1), (keep, add, np.zeros_like(add), cols), (2,), (expected,), 1e-4)


def launch_histogram(rng: np.random.Generator, scale: int) -> Launch:
    total = 5000 * scale
    x = np.minimum(rng.geometric(0.02, total), 255).astype(np.int32)
    expected = np.bincount(x, minlength=256).astype(np.float64)
    args = (x, np.zeros(256, np.int32), total)
    return Launch((-(-total // 1024), 1, 1), args, (1,), (expected,), 0.0)


def launch_sort(rng: np.random.Generator, scale: int) -> Launch:
    rows, cols = 4 * scale, 500
    x = rng.standard_normal((rows, cols)).astype(np.float32)
    expected = np.sort(x, 1).astype(np.float64)
    return Launch((rows, 1, 1), (x, np.zeros_like(x), cols), (1,), (expected,), 0.0)


def launch_top(rng: np.random.Generator, scale: int) -> Launch:
    rows, cols, count = 4 * scale, 500, 16
    x = rng.standard_normal((rows, cols)).astype(np.float32)
    expected = -np.sort(-x, 1)[:, :count].astype(np.float64)
    return Launch((rows, 1, 1), (x, np.zeros((rows, count), np.float32), cols), (1,), (expected,), 0.0)


def launch_route(rng: np.random.Generator, scale: int) -> Launch:
    rows, cols, count = 8 * scale, 250, 4
    x = rng.standard_normal((rows, cols)).astype(np.float32)
    order = np.argsort(-x, 1, kind="stable")[:, :count]
    share = np.exp(x.astype(np.float64))
    share /= share.sum(1, keepdims=True)
    expected = (np.take_along_axis(share, order, 1), order.astype(np.float64))
    args = (x, np.zeros((rows, count), np.float32), np.zeros((rows, count), np.int32), cols)
    return Launch((rows, 1, 1), args, (1, 2), expected, 1e-5)


def launch_column_sums(rng: np.random.Generator, scale: int) -> Launch:
    rows, cols = 300, 200 * scale
    x = rng.standard_normal((rows, cols)).astype(np.float32)
    expected = x.astype(np.float64).sum(0)
    args = (x, np.zeros(cols, np.float32), rows, cols)
    return Launch((-(-cols // 64), 1, 1), args, (1,), (expected,), 1e-3)


ROWS = {"x": "*fp32:16", "out": "*fp32:16", "cols": "i32"}
STEPS = {"keep": "*fp32:16", "add": "*fp32:16", "out": "*fp32:16", "cols": "i32"}
COUNTS = {"x": "*i32:16", "counts": "*i32:16", "total": "i32"}
ROUTES = {"x": "*fp32:16", "weights": "*fp32:16", "experts": "*i32:16", "cols": "i32"}
SUMS = {"x": "*fp32:16", "out": "*fp32:16", "rows": "i32", "cols": "i32"}

CASES = (
    case("cumsum", cumsum, ROWS, {"BLOCK": 1024}, launch=launch_cumsum, num_warps=4),
    case("recurrence", recurrence, STEPS, {"BLOCK": 1024}, launch=launch_recurrence, num_warps=4),
    case("histogram", histogram, COUNTS, {"BINS": 256, "BLOCK": 1024}, launch=launch_histogram, num_warps=4),
    case("sort", sort_rows, ROWS, {"BLOCK": 512}, launch=launch_sort, num_warps=4),
    case("top-k", top_rows, ROWS, {"COUNT": 16, "BLOCK": 512}, launch=launch_top, num_warps=4),
    case("route-tokens", route_tokens, ROUTES, {"COUNT": 4, "BLOCK": 256}, launch=launch_route, num_warps=4),
    case("column-sums", column_sums, SUMS, {"ROWS": 32, "BLOCK": 64}, launch=launch_column_sums, num_warps=4),
)
