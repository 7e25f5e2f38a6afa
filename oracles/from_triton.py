"""Triton's own output through its last compiler: PTX through ptxas, LLVM IR through Triton's LLVM.

Needs   Triton; no GPU
Gives   `compared`: what `sides.compare` finds for one kernel and target
Keeps   the text is compiled as Triton would do it, with other line information only
Cost    a second or two, nearly all of it Triton's and ptxas's
"""

from __future__ import annotations

from oracles import llvm, ptx
from oracles.amdgcn import read_amdgcn
from oracles.compilers import to_sass
from oracles.sass import read_sass
from oracles.sides import Compared, compare
from oracles.triton_kernels import TARGETS, compile_to
from oracles.triton_kernels.texts import pair_named


def compared(name: str) -> Compared:
    """`matmul-s3-w4.sm_80`, with Triton's own barriers."""
    pair = pair_named(name)
    if TARGETS[pair.target].backend == "cuda":
        text = str(compile_to(pair.case, pair.target, "ptx")[0]["ptx"])
        (final,) = read_sass(to_sass(ptx.with_lines(text), _arch(text))).values()
        return compare(ptx.read_ptx(text), final)
    text = str(compile_to(pair.case, pair.target, "llir")[0]["llir"])
    return compare(llvm.read_llvm(text), read_amdgcn(_assembled(llvm.with_lines(text), pair.target)))


def _arch(text: str) -> str:
    return next(line.split()[1].rstrip(",") for line in text.split("\n") if line.startswith(".target"))


def _assembled(text: str, target: str) -> str:
    """Triton's last stage before the object file, on a text of ours."""
    from triton.backends.compiler import GPUTarget, Language
    from triton.compiler.compiler import make_backend

    chip = TARGETS[target]
    backend = make_backend(GPUTarget(chip.backend, chip.arch, chip.warp_size))
    stages: dict = {}
    backend.add_stages(stages, backend.parse_options({"arch": chip.arch}), Language.TRITON)
    return str(stages["amdgcn"](text, {}))
