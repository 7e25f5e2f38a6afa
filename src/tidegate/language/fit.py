"""Whether a kernel fits its target: memory, operations, counters, barriers.

Needs   a well-typed kernel and a target
Gives   findings TG303, TG305 to TG311, TG206 and TG210
Keeps   what a target does not state is not held against the kernel
Cost    linear in the kernel
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tidegate.diag import Finding, Label, Span
from tidegate.language import ops
from tidegate.language.layout import bytes_of, lay_out
from tidegate.language.ops import Kernel, Op, Value, walk_ops
from tidegate.language.types import BarrierObject, DType, Lds, Tile
from tidegate.language.uses import uses_of
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
    yield from _lifetimes(kernel)
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
        case ops.GatherToLds() | ops.TensorLoadToLds() if op.mbarrier is not None and kind is not None:
            known = target.name and target.barrier.mbarrier and target.has(kind)
            if known and not target.operations[kind].mbarrier:
                yield _at("TG305", f"`{kind}` does not report to an mbarrier on {title}", op.at)


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
        yield _at("TG210", text, op.at, "put `signal` directly before `wait`, or use an mbarrier")


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


def _lifetimes(kernel: Kernel) -> Iterator[Finding]:
    """Live buffers do not overlap unless the text says so by `dealloc`; nothing is used after it."""
    walker = _Lives(lay_out(kernel).offsets, {})
    walker.block(kernel.body, {}, {})
    yield from walker.findings.values()


@dataclass(slots=True)
class _Lives:
    """Walks regions with what is live and what was given back: after a conditional, what was so in either arm."""

    offsets: dict[str, int]
    roots: dict[str, set[str]]  # the buffers that a view, or a name that carries one, may lie in
    findings: dict[tuple[str, Span], Finding] = field(default_factory=dict)
    again: bool = False  # whether a loop around runs for the second time

    def block(self, block: ops.Block, live: dict[str, ops.Alloc | ops.NewBarrier], dead: dict[str, Span]) -> None:
        for op in block.ops:
            self.op(op, live, dead)
        for operand in block.yields:
            if isinstance(operand, Value):
                self.use(operand.name, block.at, dead)

    def op(self, op: Op, live: dict[str, ops.Alloc | ops.NewBarrier], dead: dict[str, Span]) -> None:
        for name in dict.fromkeys(uses_of(op)) if dead else ():
            self.use(name, op.at, dead)
        match op:
            case ops.Dealloc():
                for name in self.roots.get(op.buffer.name, {op.buffer.name}):
                    live.pop(name, None)
                    dead.setdefault(name, op.at)
            case ops.Alloc() if isinstance(op.result.type, Lds):
                if op.offset is not None:
                    for finding in _overlaps(op, live, self.offsets):
                        self.findings[finding.code + finding.message, op.at] = finding
                live[op.result.name] = op
                dead.pop(op.result.name, None)
            case ops.NewBarrier() if op.result.name in self.offsets:
                live[op.result.name] = op
            case ops.View():
                self.alias(op.result, op.place.base)
            case ops.SelectView():
                self.alias(op.result, op.then, op.otherwise)
            case ops.Iterate():
                self.loop(op, live, dead)
            case ops.Conditional():
                self.arms([op.then, op.otherwise], live, dead)
                for place, result in enumerate(op.results):
                    self.alias(result, *(arm.yields[place] for arm in (op.then, op.otherwise)))
            case ops.Specialize():
                self.arms([*(group.body for group in op.groups), ops.Block()], live, dead)

    def loop(self, op: ops.Iterate, live: dict[str, ops.Alloc | ops.NewBarrier], dead: dict[str, Span]) -> None:
        """The body twice: what a trip gives back is gone in the next. Inner loops of the second time go once."""
        outermost = not self.again
        for again in (False, True) if outermost else (True,):
            self.again = again or self.again
            for place, each in enumerate(op.carried):
                self.alias(each.value, each.init, op.body.yields[place])
            self.block(op.body, live, dead)
        self.again = not outermost
        for result, each in zip(op.results, op.carried, strict=True):
            self.alias(result, each.value, each.init)

    def arms(self, blocks: list[ops.Block], live: dict[str, ops.Alloc | ops.NewBarrier], dead: dict[str, Span]) -> None:
        """Arms may run side by side in different waves: what one allocates is live in the others."""
        start, before = dict(live), dict(dead)
        for block in blocks:
            own_live, own_dead = {**live, **start}, dict(before)
            self.block(block, own_live, own_dead)
            live.update(own_live)
            dead.update(own_dead)
        for name in dead:
            live.pop(name, None)

    def alias(self, name: Value, *sources: ops.Operand) -> None:
        if isinstance(name.type, Lds):
            found = self.roots.setdefault(name.name, set())
            for source in sources:
                if isinstance(source, Value):
                    found |= self.roots.get(source.name, {source.name})

    def use(self, name: str, at: Span, dead: dict[str, Span]) -> None:
        for root in sorted(self.roots.get(name, {name})):
            if root in dead:
                of = "" if root == name else f", a view of `{root[1:]}`,"
                same = dead[root] == at
                self.findings.setdefault(
                    (name, at),
                    Finding(
                        "TG309",
                        f"`{name[1:]}`{of} is used after its memory was given back",
                        (Label(at, "used here again in the next trip" if same else "used here"),)
                        + (() if same else (Label(dead[root], "given back here"),)),
                        help="move the `dealloc` behind the last use",
                    ),
                )


def _overlaps(op: ops.Alloc, live: dict[str, ops.Alloc | ops.NewBarrier], offsets: dict[str, int]) -> Iterator[Finding]:
    start, end = _bytes(op.result, offsets)
    for other in live.values():
        low, high = _bytes(other.result, offsets)
        if other is not op and start < high and low < end:
            yield Finding(
                "TG308",
                f"`{op.result.name[1:]}` lies on the bytes of `{other.result.name[1:]}`, which is live",
                (Label(op.at, f"bytes {start}..{end}"), Label(other.at, f"bytes {low}..{high}")),
                help=f"put `dealloc {other.result.name}` before it, or choose another offset"
                if isinstance(other, ops.Alloc)
                else "choose another offset",
            )


def _bytes(value: Value, offsets: dict[str, int]) -> tuple[int, int]:
    start = offsets[value.name]
    return start, start + bytes_of(value.type)


def _at(code: str, message: str, at: Span, help: str = "") -> Finding:
    return Finding(code, message, (Label(at),), help=help)
