"""Kernels with one piece of synchronization taken away or weakened.

Needs   a kernel
Gives   for every operation that synchronizes: the kernel without it; for every count: the kernel with one more; and
        apart from these, weaker forms of it
Keeps   everything else as it is, spans included
Cost    one copy of the regions around each change

    shared_memory_barrier vmcnt(2)     removed
                                       vmcnt(2) raised to vmcnt(3)
                                       weakened to workgroup_barrier
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import get_args

from tidegate.graph import model as g
from tidegate.language import ops
from tidegate.language.ops import Block, Kernel, Op
from tidegate.language.show import show_op

# What orders nothing by itself can be left out of the changes.
IDLE = (ops.SchedulingBarrier, ops.SetWavePrio, ops.NullAsyncDep)
SYNC = tuple(each for each in get_args(g.GraphSyncOp) if each not in IDLE)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A changed kernel: which operation, and what was done to it."""

    op: Op
    change: str
    is_weaker: bool  # a weaker form, not a removal or a raised count
    kernel: Kernel

    @property
    def line(self) -> int:
        return self.op.at.line

    @property
    def text(self) -> str:
        return next(show_op(self.op))


def mutants_of(kernel: Kernel) -> Iterator[Mutant]:
    """All of them, in the order of the text."""
    synchronizing = [op for op in ops.walk_ops(kernel.body) if isinstance(op, SYNC)]
    for op in synchronizing:
        for change, is_weaker, instead in _changes(op):
            body = _replace(kernel.body, op, instead)
            yield Mutant(op, change, is_weaker, replace(kernel, body=body))


def _changes(op: Op) -> Iterator[tuple[str, bool, Op | None]]:
    yield "removed", False, None
    if isinstance(op, ops.SharedMemoryBarrier | ops.WaitCount):
        for place, (counter, most) in enumerate(op.counts):
            counts = (*op.counts[:place], (counter, most + 1), *op.counts[place + 1 :])
            yield f"{counter}({most}) raised to {counter}({most + 1})", False, replace(op, counts=counts)
        if op.async_deps:
            yield "deps dropped", True, replace(op, async_deps=())
    if isinstance(op, ops.SharedMemoryBarrier):
        if op.wait_async_ops:
            yield "wait_async_ops dropped", True, replace(op, wait_async_ops=False)
        yield "weakened to workgroup_barrier", True, ops.WorkgroupBarrier(op.pinned, op.at)
    if isinstance(op, ops.MbarrierArrive) and op.expect:
        yield "expect dropped", True, replace(op, expect=0)


def _replace(block: Block, old: Op, new: Op | None) -> Block:
    changed: list[Op] = []
    for op in block.ops:
        if op is not old:
            changed.append(ops.map_blocks(op, lambda inner, _: _replace(inner, old, new)))
        elif new is not None:
            changed.append(new)
    return replace(block, ops=tuple(changed))
