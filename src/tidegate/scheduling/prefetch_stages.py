"""The body of a loop in two stages: what fetches a tile, and what works with it.

Needs   a loop and what is known there (`prefetch_loop.py`)
Gives   `Stages`: the operations of both in order, and the values that the first hands to the second; or why not
Keeps   a stage-0 operation depends on the counter, on what stands outside the loop and on stage 0; within a stage,
        operations that depend on each other or touch the same memory keep their order. Synchronization is left out
Cost    quadratic in the operations of the body at worst

    %g = global_read %A        stage 0, fetch
    local_write %g, %a         stage 0, store
    shared_memory_barrier      left out: it is for this order
    %x = local_read %a         stage 1, first
    %d = mma %x, ...           stage 1, rest
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidegate.language import ops
from tidegate.language.ops import Block, Op, Place, Value, results_of
from tidegate.language.show import show_op
from tidegate.language.uses import names_in_block, uses_of
from tidegate.scheduling.model import Declined
from tidegate.scheduling.prefetch_loop import Spot, touched

_FENCES = (ops.Fence, ops.SchedulingBarrier, ops.SetWavePrio)
_OBJECTS = (ops.NewBarrier, ops.MbarrierArrive, ops.MbarrierWait)
_PLACED = (ops.WorkgroupBarrier, ops.SharedMemoryBarrier, ops.Signal, ops.Wait, ops.WaitCount)
_COPIES = (ops.GatherToLds, ops.TensorLoadToLds)
_SOURCES = (ops.GlobalRead, ops.ReadIndex, ops.LocalRead)
_PURE = (ops.View, ops.SelectView, ops.Let, ops.NullAsyncDep, *ops.TileOp.__args__)


@dataclass(frozen=True, slots=True)
class Stages:
    """Stage 0 is `fetch` and `store`, stage 1 `first` and `rest`; `ahead` and `work` have them in the loop's order."""

    ahead: tuple[Op, ...]
    work: tuple[Op, ...]
    fetch: frozenset[int]  # numbers of operations in `ahead`
    first: frozenset[int]  # and in `work`
    handed: tuple[Value, ...]
    copied: frozenset[str]  # buffers that asynchronous copies of stage 0 fill


def find_fed(spot: Spot, body: Iterable[Op]) -> list[frozenset[str]]:
    """Buffers that are read after the same iteration has written them, each once."""
    written: list[Place] = []
    found: dict[frozenset[str], None] = {}
    for op in body:
        reads, writes = touched(op)
        if isinstance(op, ops.LocalRead | ops.LdsToGlobal):
            found.update((spot.memory(place), None) for place in written if spot.may_meet(place, reads[0]))
        if isinstance(op, (ops.LocalWrite, *_COPIES)):
            written += writes
    return list(found)


def split(spot: Spot) -> Stages | Declined | None:
    """Both stages, if all that is in the loop may go into one of them; None if there is nothing to fetch ahead."""
    body = spot.loop.body.ops
    splitter = _Splitter(spot, tuple(op for op in body if not isinstance(op, _PLACED)))
    if splitter.is_exchange():
        return None
    unfit = next((found for op in body if (found := _unfit(op))), None)
    if unfit is not None:
        return unfit
    return splitter.split()


def _unfit(op: Op) -> Declined | None:
    """What cannot go into either stage."""
    says = f"`{next(show_op(op)).removesuffix(' {')}` is in the loop"
    if isinstance(op, ops.ControlOp):
        return Declined("nested", says, "only loops without branches are prefetched", op.at)
    if isinstance(op, ops.ConditionalBarrier):
        return Declined("staggered", says, "fetch ahead first, then schedule", op.at)
    if isinstance(op, _FENCES) or getattr(op, "pinned", False):
        return Declined("fenced", says, "remove it: what the new order needs is inserted afterwards", op.at)
    named = isinstance(op, ops.Signal | ops.Wait) and isinstance(op.barrier, Value)
    if isinstance(op, _OBJECTS) or named or getattr(op, "mbarrier", None) is not None:
        return Declined("objects", says, "copies that are counted can be waited for", op.at)
    if isinstance(op, ops.Alloc | ops.Dealloc):
        return Declined("dependence", says, "make buffers before the loop", op.at)
    return None


@dataclass(slots=True)
class _Splitter:
    spot: Spot
    body: tuple[Op, ...]
    made: dict[str, int] = field(init=False)  # value → the number of its operation
    carried: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.made = {value.name: number for number, op in enumerate(self.body) for value in results_of(op)}
        self.carried = {each.value.name for each in self.spot.loop.carried}

    def split(self) -> Stages | Declined:
        staged: set[str] = set()
        for memory in find_fed(self.spot, self.body):
            fits = self.is_staged(memory)
            if isinstance(fits, Declined):
                return fits
            staged |= memory if fits else set()
        if not staged:
            says = "what the loop writes to shared memory depends on what it computes"
            return Declined("dependence", says, "write what is read from global memory", self.spot.loop.at)
        zero = self.closure(number for number, _ in self.writes(frozenset(staged)))
        unfit = next((found for each in (self.groups, self.orders) if (found := each(zero, staged))), None)
        return unfit or self.stages(zero | self.commits(), staged)

    # --- which buffers are filled ahead ---

    def is_exchange(self) -> bool:
        """Whether what is written and read in one iteration is only what waves have computed, for each other."""
        fed = find_fed(self.spot, self.body)
        slices = [self.closure([number]) for memory in fed for number, _ in self.writes(memory)]
        return bool(fed) and all(self.multiplies(each) or self.computes(each) > self.fetches(each) for each in slices)

    def is_staged(self, memory: frozenset[str]) -> bool | Declined:
        """Whether all writes to these bytes bring data from outside, and nothing else."""
        writes = self.writes(memory)
        slices = {number: self.closure([number]) for number, _ in writes}
        if not any(self.fetches(each) and not self.computes(each) for each in slices.values()):
            return False
        for number, op in writes:
            what = self.blocks(slices[number])
            if what or not isinstance(op, (ops.LocalWrite, *_COPIES)):
                says = f"{_name(op)} depends on {what}" if what else f"{_name(op)} changes what was fetched"
                return Declined(
                    "dependence", says, "a tile is fetched ahead if its place follows from the counter", op.at
                )
        kinds = {isinstance(op, ops.LocalWrite) for _, op in writes}
        if len(kinds) > 1:
            says = f"`{min(memory)}` is filled by copies and by writes"
            return Declined("dependence", says, "fill it in one way", writes[0][1].at)
        return True

    def writes(self, memory: frozenset[str]) -> list[tuple[int, Op]]:
        return [
            (number, op)
            for number, op in enumerate(self.body)
            if any(self.spot.memory(place) & memory for place in touched(op)[1])
        ]

    def closure(self, numbers: Iterable[int]) -> set[int]:
        """Operations and all that they get their values from in the loop."""
        stack, found = list(numbers), set[int]()
        while stack:
            number = stack.pop()
            if number not in found:
                found.add(number)
                stack += (self.made[name] for name in uses_of(self.body[number]) if name in self.made)
        return found

    def fetches(self, numbers: set[int]) -> bool:
        return any(isinstance(self.body[number], (ops.GlobalRead, *_COPIES)) for number in numbers)

    def multiplies(self, numbers: set[int]) -> bool:
        return any(isinstance(self.body[number], ops.Mma) for number in numbers)

    def computes(self, numbers: set[int]) -> bool:
        """Whether something of it is work with what the loop itself has written or multiplied."""
        return any(self.is_work(self.body[number]) for number in numbers)

    def is_work(self, op: Op) -> bool:
        if isinstance(op, ops.LocalRead):
            return bool(self.writes(self.spot.memory(op.place)))
        return isinstance(op, ops.Mma | ops.AtomicAdd)

    def blocks(self, numbers: set[int]) -> str:
        """What of a slice keeps it from being done an iteration earlier."""
        for number in sorted(numbers):
            op = self.body[number]
            if self.is_work(op):
                return _name(op)
            name = next((each for each in uses_of(op) if each in self.carried), "")
            if name:
                return f"`{name}`, which the loop carries"
        return ""

    # --- what the order of the stages must keep ---

    def groups(self, zero: set[int], staged: set[str]) -> Declined | None:
        """Groups of copies stay groups only if all copies go the same way."""
        late = [op for number, op in enumerate(self.body) if isinstance(op, ops.CopyOp) and number not in zero]
        if late and self.commits():
            return Declined("objects", f"{_name(late[0])} shares groups with what is fetched", at=late[0].at)
        return None

    def commits(self) -> set[int]:
        return {number for number, op in enumerate(self.body) if isinstance(op, ops.CommitGroup)}

    def orders(self, zero: set[int], staged: set[str]) -> Declined | None:
        """Stage 0 goes before stage 1 of the iteration before: nothing of that may have stood the other way round."""
        for number in sorted(zero):
            reads, writes = touched(self.body[number])
            for other, op in enumerate(self.body):
                if other in zero:
                    continue
                read, written = touched(op)
                changed = any(self.spot.memory(x) & self.spot.memory(y) for x in reads for y in written)
                earlier = other < number and any(self.spot.may_meet(x, y) for x in writes for y in (*read, *written))
                if changed or earlier:
                    says = f"{_name(op)} stands before {_name(self.body[number])}" if earlier else ""
                    says = says or f"{_name(op)} changes what {_name(self.body[number])} reads"
                    return Declined("dependence", says, "tiles that do not depend on it can be fetched ahead", op.at)
        return None

    # --- the stages ---

    def stages(self, zero: set[int], staged: set[str]) -> Stages:
        one = set(range(len(self.body))) - zero
        handed, shared = self.crossing(zero, one)
        one |= shared
        ahead, work = sorted(zero), sorted(one)
        fetch = self.closure(number for number in ahead if isinstance(self.body[number], (*_SOURCES, *_COPIES)))
        copies = [op.dest for number in ahead if isinstance(op := self.body[number], _COPIES)]
        return Stages(
            tuple(self.body[number] for number in ahead),
            tuple(self.body[number] for number in work),
            frozenset(ahead.index(number) for number in ahead if number in fetch | self.commits()),
            frozenset(work.index(number) for number in self.hoisted(one, staged)),
            handed,
            frozenset[str]().union(*(self.spot.memory(place) for place in copies)),
        )

    def crossing(self, zero: set[int], one: set[int]) -> tuple[tuple[Value, ...], set[int]]:
        """Values of stage 0 that stage 1 needs; and operations that both do, for they touch no memory."""
        stack = [name for number in one for name in uses_of(self.body[number])]
        stack += names_in_block(Block((), self.spot.loop.body.yields))
        handed: set[int] = set()
        shared: set[int] = set()
        while stack:
            number = self.made.get(stack.pop(), -1)
            if number not in zero or number in shared:
                continue
            if all(isinstance(self.body[each], _PURE) for each in self.closure([number])):
                shared.add(number)
                stack += uses_of(self.body[number])
            else:
                handed.add(number)
        return tuple(value for number in sorted(handed) for value in results_of(self.body[number])), shared

    def hoisted(self, one: set[int], staged: set[str]) -> set[int]:
        """Reads of what was fetched, with all that must stand before them."""
        stack = [number for number in one if any(self.spot.memory(x) & staged for x in touched(self.body[number])[0])]
        found: set[int] = set()
        while stack:
            number = stack.pop()
            if number not in found:
                found.add(number)
                stack += (self.made[name] for name in uses_of(self.body[number]) if self.made.get(name) in one)
                stack += (each for each in one if each < number and self.conflict(each, number))
        return found

    def conflict(self, one: int, other: int) -> bool:
        """Whether two operations touch the same memory and one of them writes."""
        (reads, writes), (read, written) = touched(self.body[one]), touched(self.body[other])
        pairs = [(x, y) for x in writes for y in (*read, *written)] + [(x, y) for x in reads for y in written]
        return any(self.spot.memory(x) & self.spot.memory(y) for x, y in pairs)


def _name(op: Op) -> str:
    text = next(show_op(op))
    return f"line {op.at.line}, `{text}`" if op.at.line else f"`{text}`"
