"""Whether a kernel fits its target: memory, operations, counters, barriers.

Needs   a well-typed kernel and a target
Gives   findings TG303, TG305 to TG311, TG206 and TG210
Keeps   what a target does not state is not held against the kernel
Cost    linear in the kernel
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.diag import Finding, Label, Span, closest
from tidegate.language import ops
from tidegate.language.layout import lay_out
from tidegate.language.ops import Kernel, Op, Value, walk_ops
from tidegate.language.types import BarrierObject, Lds, Tile
from tidegate.language.uses import uses_of
from tidegate.targets import Target

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
    for op in walk_ops(kernel.body):
        yield from _operation(op, target, title)
        if isinstance(op, ops.NewBarrier):
            objects.append(op)
    yield from _objects(objects, target, title)
    yield from _lifetimes(kernel)
    yield from _size(kernel, target)
    most = target.wave.max_per_workgroup
    if most and kernel.waves > most:
        yield Finding(
            "TG311",
            f"{kernel.waves} waves do not fit in a workgroup on {title}",
            (Label(kernel.at),),
            (f"the most is {most}",),
        )


def _operation(op: Op, target: Target, title: str) -> Iterator[Finding]:
    kind = CLASS_OF.get(type(op))
    if kind is not None and not target.has(kind):
        yield _at("TG305", f"`{kind}` does not exist on {title}", op.at)
    match op:
        case ops.Mma():
            yield from _mma(op, target, title)
        case ops.SharedMemoryBarrier() | ops.WaitCount():
            yield from _counters(op, target, title)
        case ops.Signal() | ops.Wait() if isinstance(op.barrier, int):
            yield from _split(op.barrier, op.at, target, title)
        case ops.CommitGroup() if target.counters and all(c.unit != "groups" for c in target.counters.values()):
            yield _at("TG305", f"{title} does not count copies in groups", op.at, "drop `commit_group`")
        case ops.Fence() if op.kind == "proxy_async" and target.name and "proxy_async" not in target.fence.kinds:
            yield _at("TG305", f"`fence {op.kind}` does not exist on {title}", op.at)
        case ops.GatherToLds() | ops.TensorLoadToLds() if op.mbarrier is not None and kind is not None:
            if target.name and target.has(kind) and not target.operations[kind].mbarrier:
                yield _at("TG305", f"`{kind}` does not report to an mbarrier on {title}", op.at)


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
            known = ", ".join(target.counters)
            meant = closest(name, target.counters)
            yield Finding(
                "TG307",
                f"{title} has no counter `{name}`",
                (Label(op.at),),
                (f"its counters: {known}",),
                f"did you mean `{meant}`?" if meant else "",
            )
        elif counter.max and most > counter.max:
            yield Finding(
                "TG310",
                f"`{name}({most})` waits for nothing: the counter ends at {counter.max}",
                (Label(op.at),),
                help=f"use at most {counter.max}",
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


def _objects(found: list[ops.NewBarrier], target: Target, title: str) -> Iterator[Finding]:
    if not target.name:
        return
    named = [op for op in found if isinstance(op.result.type, BarrierObject) and op.result.type.kind == "named_barrier"]
    room = len(target.barrier.named_ids)
    if len(named) > room:
        have = f"has {room} of them" if room else "has none"
        yield _at("TG210", f"{len(named)} named barriers are used, but {title} {have}", named[room].at)
    if not target.barrier.mbarrier:
        for op in found:
            if op not in named:
                yield _at("TG210", f"{title} has no mbarriers", op.at)


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


def _lifetimes(kernel: Kernel) -> Iterator[Finding]:
    """Live buffers do not overlap unless the text says so by `dealloc`; nothing is used after it."""
    layout = lay_out(kernel)
    live: dict[str, ops.Alloc] = {}
    dead: dict[str, Span] = {}
    for op in walk_ops(kernel.body):
        if dead:
            for name in dict.fromkeys(uses_of(op)):
                if name in dead:
                    yield Finding(
                        "TG309",
                        f"`{name[1:]}` is used after its memory was given back",
                        (Label(op.at, "used here"), Label(dead[name], "given back here")),
                    )
        if isinstance(op, ops.Dealloc):
            live.pop(op.buffer.name, None)
            dead[op.buffer.name] = op.at
        elif isinstance(op, ops.Alloc) and isinstance(op.result.type, Lds):
            if op.offset is not None:
                yield from _overlaps(op, live, layout.offsets)
            live[op.result.name] = op


def _overlaps(op: ops.Alloc, live: dict[str, ops.Alloc], offsets: dict[str, int]) -> Iterator[Finding]:
    start, end = _bytes(op.result, offsets)
    for other in live.values():
        low, high = _bytes(other.result, offsets)
        if start < high and low < end:
            yield Finding(
                "TG308",
                f"`{op.result.name[1:]}` lies on the bytes of `{other.result.name[1:]}`, which is live",
                (Label(op.at, f"bytes {start}..{end}"), Label(other.at, f"bytes {low}..{high}")),
                help=f"put `dealloc {other.result.name}` before it, or choose another offset",
            )


def _bytes(value: Value, offsets: dict[str, int]) -> tuple[int, int]:
    start = offsets[value.name]
    return start, start + (value.type.bytes if isinstance(value.type, Lds) else 0)


def _at(code: str, message: str, at: Span, help: str = "") -> Finding:
    return Finding(code, message, (Label(at),), help=help)
