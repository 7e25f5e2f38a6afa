"""Values that change places: transpose, rotary embedding, embedding lookup, convolution as a product."""

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl

from oracles.triton_kernels import Launch
from oracles.triton_kernels.building import case, pointers


@triton.jit
def transpose(x, out, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    """One tile; loads and stores both want neighbours next to each other, so it goes through shared memory."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)
    tile = tl.load(x + row[:, None] * cols + col[None, :], (row[:, None] < rows) & (col[None, :] < cols))
    tl.store(out + col[:, None] * rows + row[None, :], tile.T, (col[:, None] < cols) & (row[None, :] < rows))


@triton.jit
def rotary(x, cosine, sine, out, heads, HALF: tl.constexpr, HEADS: tl.constexpr):
    """Each head of a token: its two halves are turned by the angles of the token's place."""
    token = tl.program_id(0)
    head = tl.arange(0, HEADS)
    lane = tl.arange(0, HALF)
    inside = (head < heads)[:, None]
    place = (token * heads + head)[:, None] * (2 * HALF) + lane[None, :]
    first = tl.load(x + place, inside, other=0.0).to(tl.float32)
    second = tl.load(x + place + HALF, inside, other=0.0).to(tl.float32)
    turn_cos = tl.load(cosine + token * HALF + lane)[None, :]
    turn_sin = tl.load(sine + token * HALF + lane)[None, :]
    tl.store(out + place, (first * turn_cos - second * turn_sin).to(tl.float16), inside)
    tl.store(out + place + HALF, (second * turn_cos + first * turn_sin).to(tl.float16), inside)


@triton.jit
def gather_rows(table, places, out, tokens, cols, TOKENS: tl.constexpr, BLOCK: tl.constexpr):
    """Rows of a table, by number."""
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    row = tl.load(places + token, token < tokens, other=0)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        inside = (token[:, None] < tokens) & (col[None, :] < cols)
        values = tl.load(table + row[:, None] * cols + col[None, :], inside, other=0.0)
        tl.store(out + token[:, None] * cols + col[None, :], values, inside)


@triton.jit
def convolve(
    x,
    weights,
    out,
    images,
    height,
    width,
    channels,
    filters,
    SIDE: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    """SIDE × SIDE, stride 1, zeros around it, as one product: pixels × filters, summed over places and channels."""
    pixel = tl.program_id(0) * BM + tl.arange(0, BM)
    image = pixel // (height * width)
    y = pixel % (height * width) // width
    left = pixel % width
    exists = image < images
    to = tl.program_id(1) * BN + tl.arange(0, BN)
    blocks = tl.cdiv(channels, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(SIDE * SIDE * blocks):
        down = step // blocks // SIDE
        right = step // blocks % SIDE
        channel = step % blocks * BK + tl.arange(0, BK)
        at_y = y + down - SIDE // 2
        at_x = left + right - SIDE // 2
        inside = exists & (at_y >= 0) & (at_y < height) & (at_x >= 0) & (at_x < width)
        from_x = ((image * height + at_y) * width + at_x)[:, None] * channels + channel[None, :]
        values = tl.load(x + from_x, inside[:, None] & (channel[None, :] < channels), other=0.0)
        from_weights = ((down * SIDE + right) * channels + channel)[:, None] * filters + to[None, :]
        weight = tl.load(weights + from_weights, (channel[:, None] < channels) & (to[None, :] < filters), other=0.0)
        total = tl.dot(values, weight, total)
    tl.store(
        out + pixel[:, None] * filters + to[None, :],
        total.to(tl.float16),
        exists[:, None] & (to[None, :] < filters),
    )


def launch_transpose(rng: np.random.Generator, scale: int) -> Launch:
    rows, cols = 112 * scale, 80 * scale
    x = rng.standard_normal((rows, cols)).astype(np.float16)
    args = (x, np.zeros((cols, rows), np.float16), rows, cols)
    return Launch((-(-rows // 64), -(-cols // 64), 1), args, (1,), (x.T.astype(np.float64),), 0.0)


def launch_rotary(rng: np.random.Generator, scale: int) -> Launch:
    tokens, heads, half = 10 * scale, 12, 64
    x = rng.standard_normal((tokens, heads, 2 * half)).astype(np.float16)
    angle = np.arange(tokens)[:, None] * 10000.0 ** (-np.arange(half) / half)
    cosine, sine = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    first, second = x[..., :half].astype(np.float64), x[..., half:].astype(np.float64)
    turn_cos, turn_sin = cosine[:, None].astype(np.float64), sine[:, None].astype(np.float64)
    expected = np.concatenate([first * turn_cos - second * turn_sin, second * turn_cos + first * turn_sin], -1)
    return Launch((tokens, 1, 1), (x, cosine, sine, np.zeros_like(x), heads), (3,), (expected,), 5e-3)


def launch_gather(rng: np.random.Generator, scale: int) -> Launch:
    tokens, cols = 50 * scale, 300
    table = rng.standard_normal((1000, cols)).astype(np.float16)
    places = rng.integers(0, 1000, tokens).astype(np.int32)
    args = (table, places, np.zeros((tokens, cols), np.float16), tokens, cols)
    return Launch((-(-tokens // 16), 1, 1), args, (2,), (table[places].astype(np.float64),), 0.0)


def launch_convolve(rng: np.random.Generator, scale: int) -> Launch:
    images, height, width, channels, filters = 2 * scale, 9, 14, 48, 80
    x = rng.standard_normal((images, height, width, channels)).astype(np.float16)
    weights = (rng.standard_normal((3, 3, channels, filters)) / (9 * channels) ** 0.5).astype(np.float16)
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    expected = np.zeros((images, height, width, filters))
    for down in range(3):
        for right in range(3):
            seen = padded[:, down : down + height, right : right + width]
            expected += seen @ weights[down, right].astype(np.float64)
    args = (x, weights, np.zeros(expected.shape, np.float16), images, height, width, channels, filters)
    grid = (-(-images * height * width // 64), -(-filters // 64), 1)
    return Launch(grid, args, (2,), (expected,), 5e-3)


TURNED = {**pointers("fp16", "x", "out"), **pointers("fp32", "cosine", "sine"), "heads": "i32"}
GATHERED = {**pointers("fp16", "table", "out"), **pointers("i32", "places"), "tokens": "i32", "cols": "i32"}
CONVOLVED = {
    **pointers("fp16", "x", "weights", "out"),
    "images": "i32",
    "height": "i32",
    "width": "i32",
    "channels": "i32:16",
    "filters": "i32:16",
}

CASES = (
    case(
        "transpose",
        transpose,
        {**pointers("fp16", "x", "out"), "rows": "i32:16", "cols": "i32:16"},
        {"ROWS": 64, "COLS": 64},
        launch=launch_transpose,
        num_warps=4,
    ),
    case("rotary", rotary, TURNED, {"HALF": 64, "HEADS": 16}, launch=launch_rotary, num_warps=4),
    case("gather-rows", gather_rows, GATHERED, {"TOKENS": 16, "BLOCK": 128}, launch=launch_gather, num_warps=4),
    case(
        "convolution",
        convolve,
        CONVOLVED,
        {"SIDE": 3, "BM": 64, "BN": 64, "BK": 32},
        launch=launch_convolve,
        num_stages=3,
        num_warps=4,
    ),
)
