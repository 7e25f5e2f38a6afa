"""Our built kernels beside Triton's on a GPU: `PYTHONPATH=src:. python -m bench.built_time FOLDER`.

Needs   CuPy, PyTorch and Triton on the machine with the GPU; PTX that `tidegate build` made, in FOLDER
Gives   medians of interleaved launches, and their ratio
Keeps   both are called on the same arrays, one after the other, in turn
"""

from __future__ import annotations

import statistics
import sys
from functools import partial
from pathlib import Path

import cupy
import torch
import triton
import triton.language as tl

from tidegate.lowering.launch import load_built

ROUNDS, WARM, TIMES = 20, 3, 20


@triton.jit
def matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i, j = tl.program_id(0), tl.program_id(1)
    rows, columns, depth = i * BM + tl.arange(0, BM), j * BN + tl.arange(0, BN), tl.arange(0, BK)
    pa = a + rows[:, None] * k + depth[None, :]
    pb = b + columns[None, :] * k + depth[:, None]
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, k, BK):
        acc = tl.dot(tl.load(pa), tl.load(pb), acc)
        pa += BK
        pb += BK
    tl.store(c + rows[:, None] * n + columns[None, :], acc.to(tl.float16))


@triton.jit
def softmax(x, y, n, BN: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BN)
    v = tl.load(x + row * n + at)
    v = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * n + at, v / tl.sum(v, 0))


@triton.jit
def layer_norm(x, scale, shift, y, n, BN: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BN)
    v = tl.load(x + row * n + at)
    mean = tl.sum(v, 0) / n
    v = v - mean
    var = tl.sum(v * v, 0) / n
    v = v * tl.rsqrt(var + 1e-5) * tl.load(scale + at) + tl.load(shift + at)
    tl.store(y + row * n + at, v)


@triton.jit
def attention(q, k, v, o, s, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    head, rows, d = tl.program_id(1) * s * D, tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    columns = tl.arange(0, BN)
    mine = tl.load(q + head + rows[:, None] * D + d[None, :])
    top = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    out = tl.zeros((BM, D), tl.float32)
    for at in range(0, s, BN):
        keys = tl.load(k + head + (at + columns)[None, :] * D + d[:, None])
        score = tl.dot(mine, keys) * 0.18033688
        new = tl.maximum(top, tl.max(score, 1))
        weight = tl.exp2(score - new[:, None])
        shrink = tl.exp2(top - new)
        total = total * shrink + tl.sum(weight, 1)
        values = tl.load(v + head + (at + columns)[:, None] * D + d[None, :])
        out = tl.dot(weight.to(tl.float16), values, out * shrink[:, None])
        top = new
    tl.store(o + head + rows[:, None] * D + d[None, :], (out / total[:, None]).to(tl.float16))


def timed(ways: dict) -> dict[str, float]:
    """Microseconds of each, in turn."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(ROUNDS + WARM):
        for name, launch in ways.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            launch()
            start.record()
            for _ in range(TIMES):
                launch()
            end.record()
            end.synchronize()
            if number >= WARM:
                found[name].append(1000 * start.elapsed_time(end) / TIMES)
    return {name: statistics.median(each) for name, each in found.items()}


def show(name: str, times: dict[str, float]) -> None:
    ours = times["tidegate"]
    print(
        name,
        "; ".join(f"{key} {each:.1f} us" for key, each in times.items()),
        "; ".join(f"{each / ours:.3f} of {key}" for key, each in times.items() if key != "tidegate"),
        flush=True,
    )


def main(folder: Path) -> None:
    stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
    stream.use()
    n = 4096
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
    for path in sorted(folder.glob("gemm*.ptx")):
        built, c, d = load_built(path), torch.empty_like(a), torch.empty_like(a)
        arrays = {name: cupy.from_dlpack(each) for name, each in (("A", a), ("B", b), ("C", c))}

        theirs = partial(matmul[(n // 128, n // 128)], a, b, d, n, n, n, 128, 128, 32, num_warps=4, num_stages=3)
        ways = {"tidegate": built.prepare(arrays), "triton": theirs, "torch": partial(torch.mm, a, b.T)}
        times = timed(ways)
        right = torch.allclose(c.float(), (a.float() @ b.float().T), atol=0.5, rtol=2e-2)
        show(f"{path.stem} 4096 right={right} {2 * n**3 / times['tidegate'] / 1e6:.0f} TFLOP/s", times)
    for path in sorted(folder.glob("softmax_row.ptx")):
        built = load_built(path)
        x = torch.randn(8192, 4096, device="cuda")
        y, z = torch.empty_like(x), torch.empty_like(x)
        arrays = {"X": cupy.from_dlpack(x), "Y": cupy.from_dlpack(y)}
        times = timed(
            {"tidegate": built.prepare(arrays), "triton": partial(softmax[(8192,)], x, z, 4096, 4096, num_warps=4)}
        )
        show(f"{path.stem} right={torch.allclose(y, z, atol=1e-6)}", times)
    for path in sorted(folder.glob("layer_norm_row.ptx")):
        built = load_built(path)
        x = torch.randn(65536, 512, device="cuda")
        s, t = torch.randn(512, device="cuda"), torch.randn(512, device="cuda")
        y, z = torch.empty_like(x), torch.empty_like(x)
        arrays = {"X": x, "SCALE": s, "SHIFT": t, "Y": y}
        arrays = {name: cupy.from_dlpack(each) for name, each in arrays.items()}
        times = timed(
            {
                "tidegate": built.prepare(arrays),
                "triton": partial(layer_norm[(65536,)], x, s, t, z, 512, 512, num_warps=4),
            }
        )
        show(f"{path.stem} right={torch.allclose(y, z, atol=1e-4)}", times)


def attend(folder: Path) -> None:
    heads, length = 32, 4096
    q, k, v = (torch.randn(heads, length, 64, device="cuda", dtype=torch.float16) for _ in range(3))
    for path in sorted(folder.glob("flash*.ptx")):
        built, o, p = load_built(path), torch.empty_like(q), torch.empty_like(q)
        arrays = {name: cupy.from_dlpack(each) for name, each in (("Q", q), ("K", k), ("V", v), ("OUT", o))}

        grid = (length // 128, heads)
        theirs = partial(attention[grid], q, k, v, p, length, 128, 64, 64, num_warps=8, num_stages=2)
        sdpa = torch.nn.functional.scaled_dot_product_attention
        ways = {"tidegate": built.prepare(arrays), "triton": theirs, "torch": partial(sdpa, q[None], k[None], v[None])}
        times = timed(ways)
        wanted = sdpa(q[None].float(), k[None].float(), v[None].float())[0]
        show(f"{path.stem} right={torch.allclose(o.float(), wanted, atol=5e-3)}", times)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    attend(Path(sys.argv[1]))
