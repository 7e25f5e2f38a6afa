"""Where each buffer lies in shared memory.

Needs   a kernel
Gives   the byte offset of every `alloc`, and the total
Keeps   a buffer without a stated offset lies behind everything before it: no bytes are reused unless the text says so
Cost    linear
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

from tidegate.language.ops import Alloc, Kernel, NewBarrier, walk_ops
from tidegate.language.types import BarrierObject, Lds, Type

ALIGNMENT = 16
MBARRIER_BYTES = 8


@dataclass(frozen=True, slots=True)
class Layout:
    offsets: dict[str, int]
    total: int


def lay_out(kernel: Kernel) -> Layout:
    """Offsets by the name of the buffer; mbarriers take eight bytes each."""
    offsets: dict[str, int] = {}
    top = 0
    for op in walk_ops(kernel.body):
        if isinstance(op, Alloc) and isinstance(op.result.type, Lds):
            start = _aligned(top) if op.offset is None else op.offset
            offsets[op.result.name] = start
            top = max(top, start + op.result.type.bytes)
        elif isinstance(op, NewBarrier) and _is_mbarrier(op.result.type):
            offsets[op.result.name] = start = _aligned(top)
            top = start + MBARRIER_BYTES * op.result.type.slots
    return Layout(offsets, top)


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def _is_mbarrier(type_: Type) -> TypeGuard[BarrierObject]:
    return isinstance(type_, BarrierObject) and type_.kind == "mbarrier"
