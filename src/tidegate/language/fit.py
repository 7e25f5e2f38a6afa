"""Whether a kernel fits its target: memory, operations, counters, barriers.

Needs   a well-typed kernel and a target
Gives   findings TG303, TG305 to TG311, TG206 and TG210
Keeps   what a target does not state is not held against the kernel
Cost    linear in the kernel
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd

from tidegate.diag import Finding, Label, Span
from tidegate.index import Binary, Const, Index, Inexact, Select
from tidegate.language import ops
from tidegate.language.layout import lay_out
from tidegate.language.ops import Kernel, Op, Value, walk_ops
from tidegate.language.types import BarrierObject, DType, Lds, Tile, strides
from tidegate.targets import Target

# How many places of one mistake are shown.
MAX_PLACES = 3
# What to write where a target has no such copy.
INSTEAD = {
    "gather_to_lds": "use `global_read` and `local_write`",
    "tensor_load_to_lds": "use `global_read` and `local_write`",
    "lds_to_global": "use `local_read` and `global_write`",
}
# The class of access, as targets name it.
CLASS_OF: dict[type, str] = {
    ops.LocalRead: "local_read",
    ops.LocalWrite: "local_write",
    ops.AtomicAdd: "atomic_add",
    ops.GlobalRead: "global_read",
    ops.GlobalWrite: "global_write",
    ops.ReadIndex: "scalar_read",
    ops.GatherToLds: "gather_to_lds",
    ops.TensorLoadToLds: "tensor_load_to_lds",
    ops.LdsToGlobal: "lds_to_global",
}


def find_misfits(kernel: Kernel, target: Target) -> Iterator[Finding]:
    """Findings in the order of the text, then those about the kernel as a whole."""
    title = target.name or "no target"
    objects: list[ops.NewBarrier] = []
    found: list[Finding] = []
    for op in walk_ops(kernel.body):
        found += operation_misfits(op, target, title)
        if isinstance(op, ops.NewBarrier):
            objects.append(op)
    found += _waits_apart(kernel.body, target, title)
    yield from once(found)
    yield from object_misfits(objects, target, title)
    yield from _size(kernel, target)
    yield from wave_misfits(kernel.waves, kernel.at, target, title)


def wave_misfits(waves: int, at: Span, target: Target, title: str) -> Iterator[Finding]:
    most = target.wave.max_per_workgroup
    if most and waves > most:
        yield Finding(
            "TG311",
            f"{waves} waves do not fit in a workgroup on {title}",
            (Label(at),),
            (f"the most is {most}",),
            "use fewer waves, and larger tiles for each",
        )


def once(findings: list[Finding]) -> Iterator[Finding]:
    """What the target does not have is said once, with the places that use it."""
    groups: dict[Finding, list[Label]] = {}
    for each in findings:
        groups.setdefault(replace(each, labels=()), []).extend(each.labels)
    for finding, labels in groups.items():
        shown = (labels[0], *(replace(label, text="and here") for label in labels[1:MAX_PLACES]))
        more = len(labels) - len(shown)
        notes = (*finding.notes, f"and in {more} more place{'s' * (more != 1)}") if more else finding.notes
        yield replace(finding, labels=shown, notes=notes)


def missing(kind: str, at: Span, title: str) -> Finding:
    """A class of access that the target does not have."""
    return _at("TG305", f"`{kind}` does not exist on {title}", at, INSTEAD.get(kind, ""))


def operation_misfits(op: Op, target: Target, title: str) -> Iterator[Finding]:
    kind = CLASS_OF.get(type(op))
    if kind is not None and not target.has(kind):
        yield missing(kind, op.at, title)
    match op:
        case ops.Mma():
            yield from _mma(op, target, title)
        case ops.AtomicAdd(place=ops.Place(base=Value(type=Lds(dtype=dtype)))) if target.has("atomic_add"):
            yield from atomic_misfits(dtype, op.at, target, title)
        case ops.SharedMemoryBarrier() | ops.WaitCount():
            yield from _counters(op, target, title)
        case ops.Signal() | ops.Wait() if isinstance(op.barrier, int):
            yield from _split(op.barrier, op.at, target, title)
        case ops.CommitGroup() if target.counters and all(c.unit != "groups" for c in target.counters.values()):
            yield _at("TG305", f"{title} does not count copies in groups", op.at, "drop `commit_group`")
        case ops.Fence() if op.kind == "proxy_async" and target.name and "proxy_async" not in target.fence.kinds:
            yield _at("TG305", f"`fence {op.kind}` does not exist on {title}", op.at)
        case ops.MbarrierArrive() if op.expect and target.barrier.mbarrier and not target.barrier.mbarrier_bytes:
            text = f"an mbarrier counts arrivals on {title}, not bytes"
            yield _at("TG305", text, op.at, "wait for the copies by their counter, then arrive")
        case ops.GatherToLds() if target.has("gather_to_lds"):
            yield from piece_misfits(op, target, title)
    match op:
        case ops.GatherToLds() | ops.TensorLoadToLds() if op.mbarrier is not None and kind is not None:
            known = target.name and target.barrier.mbarrier and target.has(kind)
            if known and not target.operations[kind].mbarrier:
                yield _at("TG305", f"`{kind}` does not report to an mbarrier on {title}", op.at)


def piece_misfits(op: ops.GatherToLds, target: Target, title: str) -> Iterator[Finding]:
    """A copy that does not consist of whole pieces: each lane writes one, and what is left over of the last is written
    over bytes of others (test_outside: `test_copies_of_less_than_a_piece`)."""
    base, sizes = op.dest.base.type, target.operations["gather_to_lds"].bytes_per_lane
    if not sizes or not isinstance(base, Lds):
        return
    piece, steps = min(sizes), strides(base.shape, base.dtype.bytes)
    run, apart = base.dtype.bytes, [base.slot_bytes * factor_of(op.dest.slot)]
    for size, step in zip(
        reversed((1,) * (len(steps) - len(op.tile.shape)) + op.tile.shape), reversed(steps), strict=True
    ):
        if step == run:
            run *= size
        elif size > 1:
            apart.append(step)
    apart += [step * factor_of(index) for step, index in zip(steps, op.dest.index, strict=False)]
    if run % piece == 0 and not any(each % piece for each in apart):
        return
    what = f"{run} bytes side by side" if run % piece else f"bytes that begin at no multiple of {piece}"
    moved = " or ".join(map(str, sizes))
    yield Finding(
        "TG305",
        f"`gather_to_lds` of {what} does not exist on {title}",
        (Label(op.at),),
        (f"each lane writes {moved} bytes: the last piece reaches into bytes of others",),
        f"copy rows of a multiple of {piece} bytes to places that are one, or use `global_read` and `local_write`",
    )


def factor_of(index: Index) -> int:
    """A number of which an index is a multiple, whatever its names stand for; 0 of zero itself."""
    match index:
        case Const(value):
            return abs(value)
        case Inexact(inner):
            return factor_of(inner)
        case Binary("+" | "-" | "min" | "max", left, right):
            return gcd(factor_of(left), factor_of(right))
        case Binary("*", left, right):
            return factor_of(left) * factor_of(right)
        case Binary("mod", left, Const(by)):
            return gcd(factor_of(left), by)
        case Select(_, then, otherwise):
            return gcd(factor_of(then), factor_of(otherwise))
    return 1


def atomic_misfits(dtype: DType, at: Span, target: Target, title: str) -> Iterator[Finding]:
    """An atomic on elements of a size that no instruction of the target takes."""
    known = target.operations["atomic_add"].bytes_per_lane
    if not known or dtype.bytes in known:
        return
    sizes = " and ".join(map(str, known))
    yield Finding(
        "TG305",
        f"`atomic_add` of {dtype}, which has {dtype.bytes} byte{'s' * (dtype.bytes != 1)}, does not exist on {title}",
        (Label(at),),
        (f"its atomics take {sizes} bytes",),
        "cast to a larger type, such as f32 or i32, and use a buffer of it",
    )


def waits_apart(target: Target) -> bool:
    """Whether a wave can wait at a named barrier later than it signals it, or without signalling it."""
    return target.barrier.split or not target.name or not target.barrier.named


def wait_misfit(op: ops.Wait, before: object, title: str) -> Iterator[Finding]:
    """A wait at a named barrier that does not follow its signal, where arriving and waiting are one instruction."""
    if isinstance(op.barrier, Value) and not (isinstance(before, ops.Signal) and before.barrier == op.barrier):
        text = f"{title} cannot wait at a named barrier apart from its signal"
        yield _at("TG210", text, op.at, "place `signal` directly before `wait`, or use an mbarrier")


def _waits_apart(block: ops.Block, target: Target, title: str) -> Iterator[Finding]:
    if waits_apart(target):
        return
    before: Op | None = None
    for op in block.ops:
        if isinstance(op, ops.Wait):
            yield from wait_misfit(op, before, title)
        for inner in ops.blocks_of(op):
            yield from _waits_apart(inner, target, title)
        before = op


def _mma(op: ops.Mma, target: Target, title: str) -> Iterator[Finding]:
    a, b, acc = op.a.type, op.b.type, op.acc.type
    if not target.mma or not (isinstance(a, Tile) and isinstance(b, Tile) and isinstance(acc, Tile)):
        return
    shapes = target.mmas(a.dtype.name, b.dtype.name, acc.dtype.name)
    m, k, n = *a.shape, b.shape[1]
    if not any(m % each.m == 0 and n % each.n == 0 and k % each.k == 0 for each in shapes):
        known = ", ".join(f"{each.m}x{each.n}x{each.k}" for each in shapes) or "none"
        yield Finding(
            "TG306",
            f"{title} has no `mma` for {m}x{n}x{k} of {a.dtype} and {b.dtype} into {acc.dtype}",
            (Label(op.at),),
            (f"shapes for these types: {known}",),
            "use tiles that are multiples of one of them",
        )


def _counters(op: ops.SharedMemoryBarrier | ops.WaitCount, target: Target, title: str) -> Iterator[Finding]:
    for name, most in op.counts:
        if not target.counters:
            continue
        counter = target.counters.get(name)
        if counter is None:
            yield Finding(
                "TG307",
                f"{title} has no counter `{name}`",
                (Label(op.at),),
                (f"its counters: {', '.join(target.counters)}",),
            )
        elif most > counter.largest:
            # A counter of instructions stops at its maximum: waiting for that many waits for nothing.
            yield Finding(
                "TG310",
                f"`{name}({most})` waits for nothing: the counter ends at {counter.max}",
                (Label(op.at),),
                help=f"use at most {counter.largest}",
            )


def _split(number: int, at: Span, target: Target, title: str) -> Iterator[Finding]:
    if not target.barrier.split:
        yield _at("TG210", f"{title} has no split barriers", at, "use `shared_memory_barrier`")
    elif number not in target.barrier.ids:
        known = ", ".join(map(str, target.barrier.ids))
        yield Finding(
            "TG206",
            f"{title} has no workgroup barrier {number}",
            (Label(at),),
            (f"its ids: {known}",),
            "use `new_barrier` for a barrier with participants of its own" if target.barrier.named else "",
        )


def object_misfits(found: list[ops.NewBarrier], target: Target, title: str) -> Iterator[Finding]:
    if not target.name:
        return
    named = [op for op in found if isinstance(op.result.type, BarrierObject) and op.result.type.kind == "named_barrier"]
    room = len(target.barrier.named_ids)
    if len(named) > room:
        text = f"{len(named)} named barriers are used, but {title} has {room}"
        help = "use one again for waves that have met at it"
        if not room:
            text, help = f"{title} has no named barriers", "let all waves meet at the workgroup's barrier"
        yield _at("TG210", text, named[room].at, help)
    if not target.barrier.mbarrier:
        bad = [_at("TG210", f"{title} has no mbarriers", op.at) for op in found if op not in named]
        yield from once(bad)


def _size(kernel: Kernel, target: Target) -> Iterator[Finding]:
    layout = lay_out(kernel)
    if not target.lds.bytes or layout.total <= target.lds.bytes:
        return
    last = kernel.at
    lines = []
    for op in walk_ops(kernel.body):
        if isinstance(op, ops.Alloc) and isinstance(op.result.type, Lds):
            start = layout.offsets[op.result.name]
            lines.append(f"{op.result.name}: bytes {start}..{start + op.result.type.bytes}")
            last = op.at
    yield Finding(
        "TG303",
        f"the buffers need {layout.total} bytes of shared memory, {target.name} has {target.lds.bytes}",
        (Label(last, "the last buffer"),),
        tuple(lines),
        "use smaller tiles, fewer slots, or reuse bytes with `at`",
    )


def _at(code: str, message: str, at: Span, help: str = "") -> Finding:
    return Finding(code, message, (Label(at),), help=help)
