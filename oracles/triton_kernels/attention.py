"""Attention forwards: tiles of queries against all keys with a running softmax, and one query against paged keys."""

from __future__ import annotations

from functools import partial

import numpy as np
import triton
import triton.language as tl

from oracles.triton_kernels import Launch
from oracles.triton_kernels.building import case, pointers


@triton.jit
def attend(
    q, k, v, out, sums, tokens, scale, BM: tl.constexpr, BN: tl.constexpr, HEAD: tl.constexpr, CAUSAL: tl.constexpr
):
    """One tile of queries of one head; q, k, v are [heads, tokens, HEAD], `sums` the log2 of what was divided by."""
    head = tl.program_id(1) * tokens * HEAD
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    lane = tl.arange(0, HEAD)
    queries = tl.load(q + head + row[:, None] * HEAD + lane[None, :])
    most = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    result = tl.zeros((BM, HEAD), tl.float32)
    if CAUSAL:
        end = (tl.program_id(0) + 1) * BM
    else:
        end = tokens
    for start in range(0, end, BN):
        col = start + tl.arange(0, BN)
        keys = tl.load(k + head + col[None, :] * HEAD + lane[:, None])
        score = tl.dot(queries, keys) * (scale * 1.4426950408889634)
        if CAUSAL:
            score = tl.where(row[:, None] >= col[None, :], score, float("-inf"))
        higher = tl.maximum(most, tl.max(score, 1))
        weight = tl.exp2(score - higher[:, None])
        shrink = tl.exp2(most - higher)
        total = total * shrink + tl.sum(weight, 1)
        values = tl.load(v + head + col[:, None] * HEAD + lane[None, :])
        result = tl.dot(weight.to(tl.float16), values, result * shrink[:, None])
        most = higher
    result = result / total[:, None]
    tl.store(out + head + row[:, None] * HEAD + lane[None, :], result.to(tl.float16))
    tl.store(sums + tl.program_id(1) * tokens + row, most + tl.log2(total))


@triton.jit
def attend_pages(
    q,
    keys,
    values,
    pages,
    lengths,
    out,
    most_pages,
    scale,
    PAGE: tl.constexpr,
    HEAD: tl.constexpr,
    GROUP: tl.constexpr,
):
    """GROUP query heads of one sequence share a head of keys, which lies in pages of PAGE tokens found by a table."""
    sequence = tl.program_id(0)
    member = tl.arange(0, GROUP)
    lane = tl.arange(0, HEAD)
    spot = tl.arange(0, PAGE)
    query = tl.load(q + sequence * GROUP * HEAD + member[:, None] * HEAD + lane[None, :])
    length = tl.load(lengths + sequence)
    most = tl.full((GROUP,), float("-inf"), tl.float32)
    total = tl.zeros((GROUP,), tl.float32)
    result = tl.zeros((GROUP, HEAD), tl.float32)
    for number in range(tl.cdiv(length, PAGE)):
        page = tl.load(pages + sequence * most_pages + number) * PAGE * HEAD
        inside = number * PAGE + spot < length
        key = tl.load(keys + page + spot[None, :] * HEAD + lane[:, None], inside[None, :], other=0.0)
        score = tl.where(inside[None, :], tl.dot(query, key) * scale, float("-inf"))
        higher = tl.maximum(most, tl.max(score, 1))
        weight = tl.exp(score - higher[:, None])
        shrink = tl.exp(most - higher)
        total = total * shrink + tl.sum(weight, 1)
        value = tl.load(values + page + spot[:, None] * HEAD + lane[None, :], inside[:, None], other=0.0)
        result = tl.dot(weight.to(tl.float16), value, result * shrink[:, None])
        most = higher
    result = result / total[:, None]
    tl.store(out + sequence * GROUP * HEAD + member[:, None] * HEAD + lane[None, :], result.to(tl.float16))


def attention_reference(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, causal: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The result, the log2 of the sums, and the weights, all float64."""
    q, k, v = (each.astype(np.float64) for each in (q, k, v))
    score = np.einsum("hqd,hkd->hqk", q, k) * scale
    if causal:
        score = np.where(np.tril(np.ones(score.shape[1:], bool)), score, -np.inf)
    most = score.max(-1, keepdims=True)
    weight = np.exp(score - most)
    total = weight.sum(-1, keepdims=True)
    sums = (most * np.log2(np.e) + np.log2(total))[..., 0]
    weight /= total
    return np.einsum("hqk,hkd->hqd", weight, v), sums, weight


def launch_attend(rng: np.random.Generator, scale: int, head: int, causal: bool) -> Launch:
    tokens, heads = 256 * scale, 2 * scale
    q, k, v = (rng.standard_normal((heads, tokens, head)).astype(np.float16) for _ in range(3))
    result, sums, _ = attention_reference(q, k, v, head**-0.5, causal)
    args = (q, k, v, np.zeros_like(q), np.zeros((heads, tokens), np.float32), tokens, head**-0.5)
    return Launch((tokens // 128, heads, 1), args, (3, 4), (result, sums), 1e-2)


def launch_pages(rng: np.random.Generator, scale: int, page: int = 32, head: int = 64, group: int = 16) -> Launch:
    sequences, most_pages = 4 * scale, 8
    lengths = rng.integers(1, page * most_pages + 1, sequences).astype(np.int32)
    pages = rng.permutation(sequences * most_pages).reshape(sequences, most_pages).astype(np.int32)
    shape = (sequences * most_pages, page, head)
    keys, values = (rng.standard_normal(shape).astype(np.float16) for _ in range(2))
    q = rng.standard_normal((sequences, group, head)).astype(np.float16)
    expected = np.zeros(q.shape)
    for sequence, length in enumerate(lengths):
        k, v = (each[pages[sequence]].reshape(1, -1, head)[:, :length] for each in (keys, values))
        expected[sequence] = attention_reference(q[sequence][None], k, v, head**-0.5, False)[0][0]
    args = (q, keys, values, pages, lengths, np.zeros_like(q), most_pages, head**-0.5)
    return Launch((sequences, 1, 1), args, (5,), (expected,), 1e-2)


FORWARD = {**pointers("fp16", "q", "k", "v", "out"), "sums": "*fp32:16", "tokens": "i32:16", "scale": "fp32"}
PAGED = {
    **pointers("fp16", "q", "keys", "values", "out"),
    **pointers("i32", "pages", "lengths"),
    "most_pages": "i32",
    "scale": "fp32",
}

CASES = (
    *(
        case(
            f"attention-{'causal' if causal else 'full'}-s{stages}",
            attend,
            FORWARD,
            {"BM": 128, "BN": 64, "HEAD": 64, "CAUSAL": causal},
            kernel="attention",
            launch=partial(launch_attend, head=64, causal=causal),
            num_stages=stages,
            num_warps=4,
        )
        for causal, stages in ((False, 1), (False, 2), (False, 3), (True, 2))
    ),
    case(
        "attention-h128-w8",
        attend,
        FORWARD,
        {"BM": 128, "BN": 64, "HEAD": 128, "CAUSAL": True},
        kernel="attention",
        launch=partial(launch_attend, head=128, causal=True),
        num_stages=3,
        num_warps=8,
    ),
    case(
        "attention-paged",
        attend_pages,
        PAGED,
        {"PAGE": 32, "HEAD": 64, "GROUP": 16},
        launch=launch_pages,
        num_stages=3,
        num_warps=4,
    ),
)
