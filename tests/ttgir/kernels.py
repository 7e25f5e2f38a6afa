"""The kernels that the fixture texts of this folder were compiled from.

`python tests/ttgir/kernels.py` compiles them again, with the Triton that `pyproject.toml` names; review the diff.
Offsets are the simplest that keep the loops as Triton makes them: the texts are to be read.
"""

import os
import re
from pathlib import Path

import triton
import triton.language as tl
from triton.compiler import ASTSource


@triton.jit
def gemm(a, b, c, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    k = tl.arange(0, BK)
    at_a = a + tl.arange(0, BM)[:, None] * BK + k[None, :]
    at_b = b + k[:, None] * BN + tl.arange(0, BN)[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(n):
        left = tl.load(at_a)
        right = tl.load(at_b)
        total = tl.dot(left, right, total)
        at_a += BM * BK
        at_b += BN * BK
    at_c = c + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
    tl.store(at_c, total)


@triton.jit
def spread(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for row in range(n):
        v = tl.load(x + row * BLOCK + i)
        v -= tl.max(v, 0)
        tl.store(y + row * BLOCK + i, v / tl.sum(v, 0))


# name → kernel, GPU, constants, options
TEXTS = {
    "gemm.sm_80": (gemm, ("cuda", 80, 32), (64, 64, 32), {"num_warps": 4, "num_stages": 3}),
    "gemm.sm_90": (gemm, ("cuda", 90, 32), (64, 64, 32), {"num_warps": 4, "num_stages": 3}),
    "gemm.gfx942": (gemm, ("hip", "gfx942", 64), (64, 64, 32), {"num_warps": 4, "num_stages": 2}),
    "gemm.gfx950": (gemm, ("hip", "gfx950", 64), (64, 64, 64), {"num_warps": 4, "num_stages": 3}),
    "pingpong.gfx942": (gemm, ("hip", "gfx942", 64), (256, 256, 64), {"num_warps": 8, "num_stages": 2}),
    "spread.gfx942": (spread, ("hip", "gfx942", 64), (1024,), {"num_warps": 4}),
    "spread.sm_80": (spread, ("cuda", 80, 32), (1024,), {"num_warps": 4}),
}


def compiled(name: str) -> str:
    """The TTGIR of one text, as Triton's cache keeps it; the source is named without its folder."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend

    function, gpu, constants, options = TEXTS[name]
    element = "*fp16" if function is gemm else "*fp32"
    names = list(function.arg_names)
    pointers = names[: names.index("n")]
    types = {each: "*fp32" if each == "c" else element for each in pointers}
    signature = {each: types.get(each, "i32" if each == "n" else "constexpr") for each in names}
    facts = {(place,): [["tt.divisibility", 16], ["tt.pointer_range", 32]] for place in range(len(pointers))}
    source = ASTSource(function, signature, dict(zip(names[names.index("n") + 1 :], constants, strict=True)), facts)
    target = GPUTarget(*gpu)
    backend = make_backend(target)
    known = {"enable_fp_fusion": True, **({"ptx_version": 86} if target.backend == "cuda" else {})}
    parsed = backend.parse_options({**options, **known})
    stages: dict = {}
    backend.add_stages(stages, parsed, source.language)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    made = backend.get_codegen_implementation(parsed), backend.get_module_map()
    module = source.make_ir(target, parsed, *made, context)
    metadata = {"target": target, **parsed.__dict__}
    for stage in ("ttir", "ttgir"):
        module = stages[stage](module, metadata)
    return re.sub(r'"[^"]*/(\w+\.py)"', r'"\1"', str(module))


def main() -> None:
    folder = Path(__file__).resolve().parent
    os.chdir(folder)
    for name in TEXTS:
        (folder / f"{name}.ttgir").write_text(compiled(name), encoding="utf-8")


if __name__ == "__main__":
    main()
