"""Kernels for Triton: what its users write, as TTGIR for every target where it compiles, and how to run it on a GPU.

Needs   Triton (`pip install tidegate[triton]`) to list or compile; nothing but numpy to import; no GPU
Gives   `cases()`: each kernel with the targets that it compiles for, `compile_ttgir` the text that Triton's cache
        would hold, and for what runs on NVIDIA a `Launch` with arguments and a float64 reference
Keeps   a case compiles for every target that it lists: what does not is an error, never left out
Cost    a fifth of a second for a kernel and a target: passes run up to TTGIR, nothing is assembled

    python -m oracles.triton_kernels DIR --only matmul-s3-w4 --target gfx950    # DIR/matmul-s3-w4.gfx950.ttgir
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Chip:
    """What Triton calls a target."""

    backend: str
    arch: int | str
    warp_size: int


TARGETS: dict[str, Chip] = {
    "gfx942": Chip("hip", "gfx942", 64),
    "gfx950": Chip("hip", "gfx950", 64),
    "gfx1201": Chip("hip", "gfx1201", 32),
    "gfx1250": Chip("hip", "gfx1250", 32),
    "sm_80": Chip("cuda", 80, 32),
    "sm_90": Chip("cuda", 90, 32),
}
EVERYWHERE = tuple(TARGETS)
NVIDIA = tuple(name for name, chip in TARGETS.items() if chip.backend == "cuda")
AMD = tuple(name for name, chip in TARGETS.items() if chip.backend == "hip")

MODULES = (
    "matmul",
    "matmul_loops",
    "matmul_types",
    "attention",
    "attention_back",
    "norms",
    "sorting",
    "moving",
    "sharing",
    "few_warps",
    "gluon_shared",
    "gluon_nvidia",
    "gluon_hopper",
    "gluon_amd",
    "gluon_gfx1250",
)


@dataclass(frozen=True, slots=True)
class Launch:
    """One run on a GPU.

    After it `np.allclose(args[outputs[i]], expected[i], rtol=tolerance, atol=tolerance)` holds for every i.
    """

    grid: tuple[int, int, int]
    args: tuple[np.ndarray | int | float, ...]  # in the order of the parameters that are no constexpr
    outputs: tuple[int, ...]  # places in `args`
    expected: tuple[np.ndarray, ...]  # float64, in the order of `outputs`
    tolerance: float


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel with its sizes and options."""

    name: str
    kernel: str  # the family: "matmul"
    targets: tuple[str, ...]  # where it compiles
    source: Callable[[str], tuple[object, dict[str, object]]]  # target → ASTSource or GluonASTSource, and options
    launch: Callable[[np.random.Generator, int], Launch] | None  # (rng, scale); None: not for NVIDIA


@cache
def cases() -> tuple[Case, ...]:
    """All kernels, in the order of the modules and of their lines."""
    return tuple(case for name in MODULES for case in import_module(f"{__name__}.{name}").CASES)


def compile_ttgir(case: Case, target: str) -> str:
    """The TTGIR of a kernel, with locations: what Triton keeps in its cache, without the stages after it."""
    return str(compile_to(case, target, "ttgir")[0]["ttgir"])


def compile_to(case: Case, target: str, last: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What each of Triton's stages makes, by its name, up to the last one; and its metadata. Nothing is cached."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend

    chip = TARGETS[target]
    gpu = GPUTarget(chip.backend, chip.arch, chip.warp_size)
    source, options = case.source(target)
    backend = make_backend(gpu)
    parsed = backend.parse_options(dict(options))
    stages: dict[str, Callable] = {}
    backend.add_stages(stages, parsed, source.language)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    codegen, modules = backend.get_codegen_implementation(parsed), backend.get_module_map()
    module = source.make_ir(gpu, parsed, codegen, modules, context)
    metadata: dict[str, Any] = {"target": gpu, **parsed.__dict__}
    order, made = list(stages), {}
    for stage in order[order.index(source.ext) : order.index(last) + 1]:
        made[stage] = module = stages[stage](module, metadata)
    return made, metadata
