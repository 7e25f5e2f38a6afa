"""A kernel through Triton's stages, with nothing looked up or kept, and what goes in and out of them on the way.

Needs   Triton; no GPU
Gives   `compile_to`: what each stage makes, up to one of them, and Triton's metadata; `watched`: the text that Tidegate
        hands on, and LLVM IR as it is before LLVM's optimizer
Keeps   the stages that Triton would run, in its order; what is watched is not changed
Cost    a second for a kernel: most of it is LLVM's
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.triton_figures import Pair
from bench.triton_kernels import TARGETS
from tidegate.triton import placing, switch


def compile_to(pair: Pair, last: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What each stage makes, by its name, up to the last one; and the metadata."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend

    chip = TARGETS[pair.target]
    gpu = GPUTarget(chip.backend, chip.arch, chip.warp_size)
    source, options = pair.case.source(pair.target)
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


@dataclass(slots=True)
class Seen:
    """What was on its way; empty if it was never there."""

    placed: str = ""  # the module with Tidegate's barriers
    llir: str = ""  # LLVM IR before it is optimized


@contextmanager
def watched() -> Iterator[Seen]:
    """Takes down what one compilation hands on. One at a time."""
    from triton._C.libtriton import llvm

    seen = Seen()
    place, optimize = switch.place_barriers, llvm.optimize_module

    def placing_seen(*args: Any, **kwargs: Any) -> placing.Placement:
        found = place(*args, **kwargs)
        seen.placed = found.text or ""
        return found

    def optimizing_seen(module: Any, *args: Any, **kwargs: Any) -> Any:
        seen.llir = str(module)
        return optimize(module, *args, **kwargs)

    switch.place_barriers, llvm.optimize_module = placing_seen, optimizing_seen
    try:
        yield seen
    finally:
        switch.place_barriers, llvm.optimize_module = place, optimize
