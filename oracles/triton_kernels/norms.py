"""Rows that are summed and scaled: softmax, layer norm forwards and backwards, RMS norm, cross entropy."""

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl

from oracles.triton_kernels import Launch
from oracles.triton_kernels.building import case, pointers


@triton.jit
def softmax(x, out, cols, BLOCK: tl.constexpr):
    """One row at once."""
    row = tl.program_id(0) * cols
    col = tl.arange(0, BLOCK)
    values = tl.load(x + row + col, col < cols, other=float("-inf"))
    values = tl.exp(values - tl.max(values, 0))
    tl.store(out + row + col, values / tl.sum(values, 0), col < cols)


@triton.jit
def softmax_online(x, out, cols, BLOCK: tl.constexpr):
    """A row in pieces: the largest so far and the sum are kept, then a second walk divides."""
    row = tl.program_id(0) * cols
    most = tl.full((), float("-inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        values = tl.load(x + row + col, col < cols, other=float("-inf"))
        higher = tl.maximum(most, tl.max(values, 0))
        total = total * tl.exp(most - higher) + tl.sum(tl.exp(values - higher), 0)
        most = higher
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        values = tl.load(x + row + col, col < cols, other=float("-inf"))
        tl.store(out + row + col, tl.exp(values - most) / total, col < cols)


@triton.jit
def layer_norm(x, gain, bias, out, means, spreads, cols, epsilon, BLOCK: tl.constexpr):
    """Rows in pieces: mean, then variance, then the scaled row; keeps the mean and 1/deviation for the way back."""
    row = tl.program_id(0)
    x += row * cols
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        total += tl.load(x + col, col < cols, other=0.0).to(tl.float32)
    mean = tl.sum(total, 0) / cols
    square = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        off = tl.where(col < cols, tl.load(x + col, col < cols, other=0.0).to(tl.float32) - mean, 0.0)
        square += off * off
    spread = 1 / tl.sqrt(tl.sum(square, 0) / cols + epsilon)
    tl.store(means + row, mean)
    tl.store(spreads + row, spread)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        scaled = (tl.load(x + col, col < cols, other=0.0).to(tl.float32) - mean) * spread
        scaled = scaled * tl.load(gain + col, col < cols) + tl.load(bias + col, col < cols)
        tl.store(out + row * cols + col, scaled.to(tl.float16), col < cols)


@triton.jit
def layer_norm_back(
    x, gain, grad, means, spreads, dx, dgain, dbias, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """A band of rows: dx of each, and what the band adds to dgain and dbias, by atomics."""
    col = tl.arange(0, BLOCK)
    inside = col < cols
    weight = tl.load(gain + col, inside, other=0.0)
    add_gain = tl.zeros((BLOCK,), tl.float32)
    add_bias = tl.zeros((BLOCK,), tl.float32)
    for number in range(ROWS):
        row = tl.program_id(0) * ROWS + number
        mask = inside & (row < rows)
        spread = tl.load(spreads + row, row < rows, other=0.0)
        scaled = (tl.load(x + row * cols + col, mask, other=0.0) - tl.load(means + row, row < rows, other=0.0)) * spread
        scaled = tl.where(mask, scaled, 0.0)
        back = tl.load(grad + row * cols + col, mask, other=0.0)
        add_gain += back * scaled
        add_bias += back
        back *= weight
        result = (back - tl.sum(back, 0) / cols - scaled * tl.sum(back * scaled, 0) / cols) * spread
        tl.store(dx + row * cols + col, result, mask)
    tl.atomic_add(dgain + col, add_gain, inside)
    tl.atomic_add(dbias + col, add_bias, inside)


@triton.jit
def rms_norm(x, gain, out, rows, cols, epsilon, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """A tile of whole rows at once."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, BLOCK)
    inside = (row[:, None] < rows) & (col[None, :] < cols)
    values = tl.load(x + row[:, None] * cols + col[None, :], inside, other=0.0).to(tl.float32)
    spread = tl.rsqrt(tl.sum(values * values, 1) / cols + epsilon)
    scaled = values * spread[:, None] * tl.load(gain + col, col < cols, other=0.0)[None, :]
    tl.store(out + row[:, None] * cols + col[None, :], scaled.to(tl.float16), inside)


@triton.jit
def cross_entropy(scores, labels, losses, grad, cols, BLOCK: tl.constexpr):
    """The loss of one row and the gradient of its scores, the row in pieces."""
    row = tl.program_id(0)
    scores += row * cols
    label = tl.load(labels + row)
    most = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        values = tl.load(scores + col, col < cols, other=-1e30)
        higher = tl.maximum(most, values)
        total = total * tl.exp(most - higher) + tl.exp(values - higher)
        most = higher
    peak = tl.max(most, 0)
    log_sum = peak + tl.log(tl.sum(total * tl.exp(most - peak), 0))
    tl.store(losses + row, log_sum - tl.load(scores + label))
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        share = tl.exp(tl.load(scores + col, col < cols, other=0.0) - log_sum)
        tl.store(grad + row * cols + col, share - (col == label).to(tl.float32), col < cols)


def launch_softmax(rng: np.random.Generator, scale: int) -> Launch:
    rows, cols = 8 * scale, 900
    x = rng.standard_normal((rows, cols)).astype(np.float32)
    share = np.exp(x.astype(np.float64))
    expected = share / share.sum(1, keepdims=True)
    return Launch((rows, 1, 1), (x, np.zeros_like(x), cols), (1,), (expected,), 1e-5)


def launch_layer_norm(rng: np.random.Generator, scale: int) -> Launch:
    rows, cols = 8 * scale, 3000
    x = rng.standard_normal((rows, cols)).astype(np.float16)
    gain, bias = (rng.standard_normal(cols).astype(np.float32) for _ in range(2))
    wide = x.astype(np.float64)
    mean = wide.mean(1)
    spread = 1 / np.sqrt(wide.var(1) + 1e-5)
    expected = (wide - mean[:, None]) * spread[:, None] * gain + bias
    stats = [np.zeros(rows, np.float32) for _ in range(2)]
    args = (x, gain, bias, np.zeros_like(x), *stats, cols, 1e-5)
    return Launch((rows, 1, 1), args, (3, 4, 5), (expected, mean, spread), 5e-3)


def launch_layer_norm_back(rng: np.random.Generator, scale: int) -> Launch:
    rows, cols = 30 * scale, 1000
    x, grad = (rng.standard_normal((rows, cols)).astype(np.float32) for _ in range(2))
    gain = rng.standard_normal(cols).astype(np.float32)
    means = x.mean(1)
    spreads = 1 / np.sqrt(x.var(1) + np.float32(1e-5))
    scaled = (x.astype(np.float64) - means[:, None]) * spreads[:, None]
    back = grad.astype(np.float64) * gain
    dx = back - back.mean(1, keepdims=True) - scaled * (back * scaled).mean(1, keepdims=True)
    expected = (dx * spreads[:, None], (grad * scaled).sum(0), grad.astype(np.float64).sum(0))
    outputs = (np.zeros_like(x), np.zeros(cols, np.float32), np.zeros(cols, np.float32))
    args = (x, gain, grad, means, spreads, *outputs, rows, cols)
    return Launch((-(-rows // 8), 1, 1), args, (5, 6, 7), expected, 1e-4)


def launch_rms_norm(rng: np.random.Generator, scale: int) -> Launch:
    rows, cols = 10 * scale, 1000
    x = rng.standard_normal((rows, cols)).astype(np.float16)
    gain = rng.standard_normal(cols).astype(np.float32)
    wide = x.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5) * gain
    args = (x, gain, np.zeros_like(x), rows, cols, 1e-5)
    return Launch((-(-rows // 4), 1, 1), args, (2,), (expected,), 5e-3)


def launch_cross_entropy(rng: np.random.Generator, scale: int) -> Launch:
    rows, cols = 8 * scale, 5000
    scores = rng.standard_normal((rows, cols)).astype(np.float32)
    labels = rng.integers(0, cols, rows).astype(np.int32)
    share = np.exp(scores.astype(np.float64))
    log_sum = np.log(share.sum(1))
    grad = share / share.sum(1, keepdims=True)
    grad[np.arange(rows), labels] -= 1
    losses = log_sum - scores[np.arange(rows), labels]
    args = (scores, labels, np.zeros(rows, np.float32), np.zeros_like(scores), cols)
    return Launch((rows, 1, 1), args, (2, 3), (losses, grad), 1e-4)


ROWS = {**pointers("fp32", "x", "out"), "cols": "i32"}
NORM = {
    **pointers("fp16", "x", "out"),
    **pointers("fp32", "gain", "bias", "means", "spreads"),
    "cols": "i32",
    "epsilon": "fp32",
}
NORM_BACK = {
    **pointers("fp32", "x", "gain", "grad", "means", "spreads", "dx", "dgain", "dbias"),
    "rows": "i32",
    "cols": "i32",
}
RMS = {**pointers("fp16", "x", "out"), **pointers("fp32", "gain"), "rows": "i32", "cols": "i32", "epsilon": "fp32"}
ENTROPY = {**pointers("fp32", "scores", "losses", "grad"), **pointers("i32", "labels"), "cols": "i32"}

CASES = (
    case("softmax", softmax, ROWS, {"BLOCK": 1024}, launch=launch_softmax, num_warps=4),
    case("softmax-w16", softmax, ROWS, {"BLOCK": 1024}, kernel="softmax", launch=launch_softmax, num_warps=16),
    case("softmax-online", softmax_online, ROWS, {"BLOCK": 512}, launch=launch_softmax, num_warps=4),
    case("layer-norm", layer_norm, NORM, {"BLOCK": 1024}, launch=launch_layer_norm, num_warps=8),
    case(
        "layer-norm-back",
        layer_norm_back,
        NORM_BACK,
        {"ROWS": 8, "BLOCK": 1024},
        launch=launch_layer_norm_back,
        num_warps=8,
    ),
    case("rms-norm", rms_norm, RMS, {"ROWS": 4, "BLOCK": 1024}, launch=launch_rms_norm, num_warps=4),
    case("cross-entropy", cross_entropy, ENTROPY, {"BLOCK": 1024}, launch=launch_cross_entropy, num_warps=4),
)
