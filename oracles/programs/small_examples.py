"""The examples with small tiles and two to four waves: few steps, the same synchronization.

Needs   the Python files of `examples/`
Gives   for each of them a module with the kernel and its `reference`, and the kernel traced
Keeps   the text of the file but for the whole numbers named here, and so its lines: a span points into the example
Cost    one trace each

    small = load_small("gemm_pingpong")
    small.kernel.waves, small.module.reference(...)
"""

from __future__ import annotations

import linecache
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import tidegate as tg
from tidegate.language import ops
from tidegate.language.ops import Block, Kernel

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

# Which whole numbers become which. A tile that is multiplied stays at 16x16 or more: targets have no smaller `mma`.
HALVED = {128: 64, 64: 32, 32: 16, 16: 8}
SCALES: dict[str, dict[int, int]] = {
    "attention_async": {4: 2, 32: 16, 64: 32, 128: 64},
    "flash_attention": {4: 2, 32: 16, 64: 32, 128: 64},
    "gemm_async_four_slots": {192: 96} | HALVED,
    "gemm_async_store": {128: 32, 256: 64},
    "gemm_async_two_slots": HALVED,
    "gemm_cp_async": HALVED,
    "gemm_gather": HALVED,
    "gemm_mbarrier": {4: 2, 32: 16, 64: 32, 128: 64},
    "gemm_one_slot": HALVED,
    "gemm_pingpong": {8: 4, 4: 2, 32: 16, 64: 32, 128: 64, 192: 96, 256: 64},
    "gemm_prefetch": HALVED,
    "gemm_split": HALVED,
    "gemm_tdm": {256: 128} | HALVED,
    "gemm_three_slots": HALVED,
    "gemm_two_slots": HALVED,
    "histogram": {64: 4, 255: 15, 256: 16, 1024: 64},
    "layer_norm": {8: 2, 16: 4, 64: 16, 128: 4, 512: 16},
    "scan": {64: 4, 256: 16, 1024: 64},
    "softmax": {8: 2, 16: 4, 64: 4, 256: 16, 512: 32},
    "split_k": {8: 4, 32: 16, 64: 32, 128: 64, 512: 256},
    "stencil_2d": {16: 2, 63: 7, 64: 8, 66: 10},
    "transpose": {16: 2, 64: 8, 65: 9, 128: 16},
    "wave_private": {16: 2, 64: 8, 68: 12, 128: 16},
}
NAMES = tuple(SCALES)

# A whole number that is no part of a name, of a fraction or of an exponent.
WHOLE = re.compile(r"(?<![\w.])(?<!e-)\d+(?![\w.])")


@dataclass(frozen=True, slots=True)
class SmallExample:
    """The module made of the changed text, and its kernel."""

    name: str
    module: ModuleType
    kernel: Kernel


@cache
def load_small(name: str) -> SmallExample:
    """The small form of an example."""
    scale = SCALES[name]
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    small = WHOLE.sub(lambda found: str(scale.get(int(found[0]), int(found[0]))), text)
    file = f"<small {name}.py>"
    # The tracer reads the source of a kernel through `linecache`.
    linecache.cache[file] = (len(small), None, small.splitlines(keepends=True), file)
    module = ModuleType(f"small_{name}")
    exec(compile(small, file, "exec"), module.__dict__)
    function = getattr(module, name)
    assert isinstance(function, tg.KernelFunction)
    return SmallExample(name, module, function.trace().kernel)


def skeleton(block: Block) -> tuple[object, ...]:
    """Regions and what synchronizes in them, in order: what must not change when an example is made small."""
    found: list[object] = []
    for op in block.ops:
        inner = ops.blocks_of(op)
        if inner:
            found.append((type(op).__name__, *map(skeleton, inner)))
        elif isinstance(op, ops.SyncOp | ops.ObjectOp | ops.CopyOp | ops.LocalRead | ops.LocalWrite | ops.AtomicAdd):
            found.append((type(op).__name__, *(getattr(op, each, None) for each in ("counts", "half", "kind"))))
    return tuple(found)
