"""Attention backwards: one kernel sums over queries for dk and dv, one over keys for dq; both compute weights again."""

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl

from oracles.triton_kernels import Launch
from oracles.triton_kernels.attention import attention_reference
from oracles.triton_kernels.building import case, pointers


@triton.jit
def dot_grads(out, grad, sums, HEAD: tl.constexpr, BM: tl.constexpr):
    """The product of each row of the result with its gradient."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    lane = tl.arange(0, HEAD)
    place = row[:, None] * HEAD + lane[None, :]
    product = tl.load(out + place).to(tl.float32) * tl.load(grad + place).to(tl.float32)
    tl.store(sums + row, tl.sum(product, 1))


@triton.jit
def attend_back_keys(
    q, k, v, grad, sums, dots, dk, dv, tokens, scale, BM: tl.constexpr, BN: tl.constexpr, HEAD: tl.constexpr
):
    """dk and dv of one tile of keys, causal: queries before the tile do not see it."""
    head = tl.program_id(1) * tokens
    col = tl.program_id(0) * BN + tl.arange(0, BN)
    lane = tl.arange(0, HEAD)
    mine = (head + col)[:, None] * HEAD + lane[None, :]
    keys = tl.load(k + mine)
    values = tl.load(v + mine)
    grad_keys = tl.zeros((BN, HEAD), tl.float32)
    grad_values = tl.zeros((BN, HEAD), tl.float32)
    for start in range(tl.program_id(0) * BN, tokens, BM):
        row = start + tl.arange(0, BM)
        theirs = (head + row)[:, None] * HEAD + lane[None, :]
        queries = tl.load(q + theirs)
        back = tl.load(grad + theirs)
        score = tl.dot(keys, queries.T) * (scale * 1.4426950408889634)
        weight = tl.exp2(score - tl.load(sums + head + row)[None, :])
        weight = tl.where(col[:, None] <= row[None, :], weight, 0.0)
        grad_values = tl.dot(weight.to(tl.float16), back, grad_values)
        slope = weight * (tl.dot(values, back.T) - tl.load(dots + head + row)[None, :])
        grad_keys = tl.dot(slope.to(tl.float16), queries, grad_keys)
    tl.store(dk + mine, (grad_keys * scale).to(tl.float16))
    tl.store(dv + mine, grad_values.to(tl.float16))


@triton.jit
def attend_back_queries(
    q, k, v, grad, sums, dots, dq, tokens, scale, BM: tl.constexpr, BN: tl.constexpr, HEAD: tl.constexpr
):
    """dq of one tile of queries, causal: keys after the tile are not seen."""
    head = tl.program_id(1) * tokens
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    lane = tl.arange(0, HEAD)
    mine = (head + row)[:, None] * HEAD + lane[None, :]
    queries = tl.load(q + mine)
    back = tl.load(grad + mine)
    total = tl.load(sums + head + row)
    dot = tl.load(dots + head + row)
    grad_queries = tl.zeros((BM, HEAD), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BM, BN):
        col = start + tl.arange(0, BN)
        theirs = (head + col)[None, :] * HEAD + lane[:, None]
        keys = tl.load(k + theirs)
        values = tl.load(v + theirs)
        score = tl.dot(queries, keys) * (scale * 1.4426950408889634)
        weight = tl.exp2(score - total[:, None])
        weight = tl.where(row[:, None] >= col[None, :], weight, 0.0)
        slope = weight * (tl.dot(back, values) - dot[:, None])
        grad_queries = tl.dot(slope.to(tl.float16), keys.T, grad_queries)
    tl.store(dq + mine, (grad_queries * scale).to(tl.float16))


def draw_back(rng: np.random.Generator, scale: int, head: int) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """What both kernels are passed, and the gradients of q, k and v."""
    tokens, heads = 256 * scale, 2 * scale
    q, k, v, grad = (rng.standard_normal((heads, tokens, head)).astype(np.float16) for _ in range(4))
    result, sums, weight = attention_reference(q, k, v, head**-0.5, causal=True)
    wide_q, wide_k, wide_v, back = (each.astype(np.float64) for each in (q, k, v, grad))
    dots = (result * back).sum(-1)
    slope = weight * (np.einsum("hqd,hkd->hqk", back, wide_v) - dots[..., None]) * head**-0.5
    grad_q = np.einsum("hqk,hkd->hqd", slope, wide_k)
    grad_k = np.einsum("hqk,hqd->hkd", slope, wide_q)
    grad_v = np.einsum("hqk,hqd->hkd", weight, back)
    passed = (q, k, v, grad, sums.astype(np.float32), dots.astype(np.float32))
    return passed, (grad_q, grad_k, grad_v)


def launch_dots(rng: np.random.Generator, scale: int) -> Launch:
    out, grad = (rng.standard_normal((2 * scale, 256 * scale, 64)).astype(np.float16) for _ in range(2))
    expected = (out.astype(np.float64) * grad.astype(np.float64)).sum(-1)
    args = (out, grad, np.zeros(expected.shape, np.float32))
    return Launch((expected.size // 64, 1, 1), args, (2,), (expected,), 1e-3)


def launch_back_keys(rng: np.random.Generator, scale: int) -> Launch:
    passed, (_, grad_k, grad_v) = draw_back(rng, scale, 64)
    blank = np.zeros(grad_k.shape, np.float16)
    args = (*passed, blank, blank.copy(), 256 * scale, 64**-0.5)
    return Launch((4 * scale, 2 * scale, 1), args, (6, 7), (grad_k, grad_v), 2e-2)


def launch_back_queries(rng: np.random.Generator, scale: int) -> Launch:
    passed, (grad_q, _, _) = draw_back(rng, scale, 64)
    args = (*passed, np.zeros(grad_q.shape, np.float16), 256 * scale, 64**-0.5)
    return Launch((4 * scale, 2 * scale, 1), args, (6,), (grad_q,), 2e-2)


INPUTS = {**pointers("fp16", "q", "k", "v", "grad"), **pointers("fp32", "sums", "dots")}
SIZES = {"tokens": "i32:16", "scale": "fp32"}
DOTS = {**pointers("fp16", "out", "grad"), **pointers("fp32", "sums")}
TILE = {"BM": 64, "BN": 64, "HEAD": 64}

CASES = (
    case("attention-back-dots", dot_grads, DOTS, {"HEAD": 64, "BM": 64}, launch=launch_dots, num_warps=4),
    case(
        "attention-back-keys",
        attend_back_keys,
        {**INPUTS, **pointers("fp16", "dk", "dv"), **SIZES},
        TILE,
        launch=launch_back_keys,
        num_stages=2,
        num_warps=4,
    ),
    case(
        "attention-back-queries",
        attend_back_queries,
        {**INPUTS, **pointers("fp16", "dq"), **SIZES},
        TILE,
        launch=launch_back_queries,
        num_stages=3,
        num_warps=4,
    ),
)
