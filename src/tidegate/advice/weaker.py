"""What could stand in the place of a barrier or a wait and ask less.

Needs   an operation, the program that it stands in, and its target
Gives   operations that do less, the weakest first, each with what it leaves out; waits with one thing less to wait for
Keeps   nothing that is offered does more than what stands there
Cost    constant for each operation, and the copies of the program once

    shared_memory_barrier wait_async_ops      a wait; a bare barrier; a barrier that drains LDS alone
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tidegate.graph import model as g
from tidegate.language.ops import SharedMemoryBarrier, SyncOp, WaitCount, WorkgroupBarrier
from tidegate.placement.need import ORDINARY, copy_counters, drain_ops
from tidegate.targets import Target

Waiting = SharedMemoryBarrier | WaitCount
MEETS = "all waves meet here, but each need only wait for its own accesses"
LDS = "it drains LDS, but the waves need only meet"
LDS_AND_COPIES = "it drains LDS and waits for copies, but the waves need only meet"
COPIES_TOO = "it waits for copies, but only LDS needs draining"
ALL_COPIES = "it waits for all copies, but the named ones are enough"


def weaker(op: object, graph: g.SyncGraph, target: Target) -> Iterator[tuple[SyncOp, str]]:
    """What stands for a barrier that nobody has pinned, the weakest first."""
    match op:
        case SharedMemoryBarrier(counts, copies, deps, pinned=False):
            for wait in _waits(op, graph, target):
                yield wait, MEETS
            if target.barrier.performs == "nothing":  # else it costs nothing to drain LDS
                yield WorkgroupBarrier(), LDS_AND_COPIES if counts or copies or deps else LDS
            if counts or copies or deps:
                yield SharedMemoryBarrier(), COPIES_TOO
            if copies and (counts or deps):
                yield replace(op, wait_async_ops=False), ALL_COPIES
        case WorkgroupBarrier(pinned=False) if target.barrier.performs != "nothing":
            for wait in _single(drain_ops(target, {ORDINARY}, ())):
                yield wait, MEETS


def _waits(op: SharedMemoryBarrier, graph: g.SyncGraph, target: Target) -> Iterator[SyncOp]:
    """For copies alone, for LDS alone, for both."""
    counters = copy_counters(graph) if op.wait_async_ops else ()
    copies = {**dict(op.counts), **dict.fromkeys(counters, 0)}
    if copies or op.async_deps:
        yield WaitCount(tuple(sorted(copies.items())), op.async_deps)
    ordinary = list(_single(drain_ops(target, {ORDINARY}, ())))
    yield from ordinary
    for wait in ordinary if copies or op.async_deps else ():
        if isinstance(wait, WaitCount):
            yield WaitCount(tuple(sorted((copies | dict(wait.counts)).items())), op.async_deps)


def _single(ops: tuple[SyncOp, ...] | None) -> tuple[SyncOp, ...]:
    return ops if ops is not None and len(ops) == 1 else ()


def things_of(op: Waiting) -> tuple[str, ...]:
    """The counts and operations that it waits for by name. Beside `wait_async_ops` they ask no more."""
    if isinstance(op, SharedMemoryBarrier) and op.wait_async_ops:
        return ()
    if op.counts:  # what is named beside counts is only what they are for
        return tuple(f"{name}({count})" for name, count in op.counts)
    return tuple(dep.name for dep in op.async_deps)


def without_thing(op: Waiting, word: str) -> Waiting:
    if op.counts:
        counts = tuple((name, count) for name, count in op.counts if f"{name}({count})" != word)
        return replace(op, counts=counts, async_deps=())
    return replace(op, async_deps=tuple(each for each in op.async_deps if each.name != word))


def with_count(op: Waiting, name: str, count: int) -> Waiting:
    """With another count; what the old one was for is no longer named."""
    counts = tuple((each, count if each == name else known) for each, known in op.counts)
    return replace(op, counts=counts, async_deps=())
