"""Each synchronization operation of the language as instructions: a row for each target.

Needs   an operation, and the name of a target
Gives   lines of PTX or of LLVM IR; an operation without a row is an error
Keeps   nothing is added that the operation does not ask for: a bare barrier gets no drain
Cost    none

    fence wave               bar.warp.sync -1             fence syncscope("wavefront") acq_rel
    shared_memory_barrier    bar.sync 0                   s.waitcnt lgkmcnt(0); s.barrier
    wait_count vmcnt(1)                                   s.waitcnt vmcnt(1)
    wait_count group(1)      cp.async.wait_group 1
"""

from __future__ import annotations

from typing import Any

from tidegate.language import ops

NAMED = 1  # the hardware barrier behind the only named one of a kernel
FENCE = 'fence syncscope("wavefront") acq_rel'
# Counters with an intrinsic of their own; LLVM 22 takes LDS accesses across some of these, hence a fence behind them.
ALONE = {"dscnt", "loadcnt", "storecnt", "asynccnt", "tensorcnt"}
ALL_FLAGS = {"gfx9": {"vmcnt": 63, "expcnt": 7, "lgkmcnt": 15}, "gfx11": {"vmcnt": 63, "expcnt": 7, "lgkmcnt": 63}}
LDS_COUNTER = {"gfx9": "lgkmcnt", "gfx11": "lgkmcnt", "gfx12": "dscnt"}
ASYNC_COUNTER = {"gfx90a": "vmcnt", "gfx942": "vmcnt", "gfx950": "vmcnt", "gfx1250": "asynccnt"}


class NoRow(Exception):
    """An operation that a target has no instructions for, or that nobody has written down here."""


def ptx_of(op: Any) -> list[str]:
    """Lines of PTX. A kernel of the corpus has one named barrier: the hardware's number 1, with all threads."""
    match op:
        case ops.Fence("wave"):
            return ["bar.warp.sync -1;"]
        case ops.WorkgroupBarrier():
            return ["bar.sync 0;"]
        case ops.SharedMemoryBarrier(counts, False, ()):
            return [*_groups(counts), "bar.sync 0;"]
        case ops.SharedMemoryBarrier((), True, ()):
            return ["cp.async.wait_all;", "bar.sync 0;"]
        case ops.WaitCount(counts, ()):
            return list(_groups(counts))
        case ops.CommitGroup():
            return ["cp.async.commit_group;"]
        case ops.Signal(barrier) if barrier != -1:
            return [f"bar.arrive {NAMED}, NAMED_THREADS;"]
        case ops.Wait(barrier) if barrier != -1:
            return [f"bar.sync {NAMED}, NAMED_THREADS;"]
    raise NoRow(f"{op}")


def _groups(counts: tuple[Any, ...]) -> list[str]:
    return [f"cp.async.wait_group {count};" for counter, count in counts if counter == "group"]


def llvm_of(op: Any, target: str) -> list[str]:
    """Lines of LLVM IR for AMD."""
    family = target[:5] if target.startswith("gfx1") else "gfx9"
    barrier = "call void @llvm.amdgcn.s.barrier()"
    match op:
        case ops.Fence("wave"):
            return [FENCE]
        case ops.WorkgroupBarrier():
            return [barrier]
        case ops.SharedMemoryBarrier(counts, everything, ()):
            wanted = {LDS_COUNTER[family]: 0, **dict(counts)}
            if everything and target in ASYNC_COUNTER:
                wanted[ASYNC_COUNTER[target]] = 0
            return [*_waits(wanted, family), barrier]
        case ops.WaitCount(counts, ()):
            return _waits(dict(counts), family)
        case ops.Signal(-1):
            return ["call void @llvm.amdgcn.s.barrier.signal(i32 -1)"]
        case ops.Wait(-1):
            return ["call void @llvm.amdgcn.s.barrier.wait(i16 -1)"]
    raise NoRow(f"{op} on {target}")


def _waits(wanted: dict[str, int], family: str) -> list[str]:
    if family == "gfx12":
        return [f"call void @llvm.amdgcn.s.wait.{name}(i16 {count})" for name, count in wanted.items() if name in ALONE]
    flags = {**ALL_FLAGS[family], **wanted}
    vm, exp, lgkm = flags["vmcnt"], flags["expcnt"], flags["lgkmcnt"]
    if family == "gfx9":
        bits = (vm & 15) | exp << 4 | lgkm << 8 | (vm >> 4) << 14
    else:
        bits = exp | lgkm << 4 | vm << 10
    return [f"call void @llvm.amdgcn.s.waitcnt(i32 {bits})"]
