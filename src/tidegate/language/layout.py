"""Where each buffer lies in shared memory.

Needs   a kernel
Gives   the byte offset of every `alloc`, and the total
Keeps   a buffer without a stated offset lies behind everything before it: no bytes are reused unless the text says so
Cost    linear
"""

from __future__ import annotations

from dataclasses import dataclass

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
        if isinstance(op, Alloc | NewBarrier) and bytes_of(op.result.type):
            stated = op.offset if isinstance(op, Alloc) else None
            start = -(-top // ALIGNMENT) * ALIGNMENT if stated is None else stated
            offsets[op.result.name] = start
            top = max(top, start + bytes_of(op.result.type))
    return Layout(offsets, top)


def bytes_of(type_: Type) -> int:
    """How much shared memory a value of this type takes."""
    if isinstance(type_, BarrierObject):
        return MBARRIER_BYTES * type_.slots if type_.kind == "mbarrier" else 0
    return type_.bytes if isinstance(type_, Lds) else 0
