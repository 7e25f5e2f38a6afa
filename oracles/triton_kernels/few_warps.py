"""Kernels of one and two warps: there the order between lanes of one warp is all, or nearly all, that barriers are for.

Needs   Triton
Gives   `CASES`
Keeps   the same functions as the modules that they come from, in tiles that one or two warps hold
"""

from __future__ import annotations

from functools import partial

import numpy as np

from oracles.triton_kernels import Launch
from oracles.triton_kernels.attention import FORWARD, attend, attention_reference
from oracles.triton_kernels.building import case
from oracles.triton_kernels.matmul import TYPES, launch_matmul, matmul
from oracles.triton_kernels.norms import ROWS, launch_softmax, softmax_online
from oracles.triton_kernels.sorting import (
    SUMS,
    column_sums,
    cumsum,
    launch_column_sums,
    launch_cumsum,
    launch_sort,
    sort_rows,
)

TILE = (64, 64, 64)
HEAD = 32


def launch_small(rng: np.random.Generator, scale: int) -> Launch:
    tokens, heads = 128 * scale, 2 * scale
    q, k, v = (rng.standard_normal((heads, tokens, HEAD)).astype(np.float16) for _ in range(3))
    result, sums, _ = attention_reference(q, k, v, HEAD**-0.5, False)
    args = (q, k, v, np.zeros_like(q), np.zeros((heads, tokens), np.float32), tokens, HEAD**-0.5)
    return Launch((tokens // 32, heads, 1), args, (3, 4), (result, sums), 1e-2)


CASES = (
    *(
        case(
            f"matmul-64-s{stages}-w{warps}",
            matmul,
            TYPES,
            dict(zip(("BM", "BN", "BK"), TILE, strict=True)),
            kernel="matmul",
            launch=partial(launch_matmul, tile=TILE),
            num_stages=stages,
            num_warps=warps,
        )
        for warps in (1, 2)
        for stages in (1, 3)
    ),
    *(
        case(
            f"attention-32-w{warps}",
            attend,
            FORWARD,
            {"BM": 32, "BN": 32, "HEAD": HEAD, "CAUSAL": False},
            kernel="attention",
            launch=launch_small,
            num_stages=2,
            num_warps=warps,
        )
        for warps in (1, 2)
    ),
    *(
        case(f"{name}-w{warps}", function, types, constants, kernel=name, launch=launch, num_warps=warps)
        for warps in (1, 2)
        for name, function, types, constants, launch in (
            ("softmax-online", softmax_online, ROWS, {"BLOCK": 512}, launch_softmax),
            ("cumsum", cumsum, ROWS, {"BLOCK": 1024}, launch_cumsum),
            ("sort", sort_rows, ROWS, {"BLOCK": 512}, launch_sort),
            ("column-sums", column_sums, SUMS, {"ROWS": 32, "BLOCK": 64}, launch_column_sums),
        )
    ),
)
