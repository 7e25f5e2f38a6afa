"""The events of single operations: memory accesses, copies and synchronization.

Needs   an operation, the wave's environment, and its active lanes
Gives   events; results are bound in the environment when the scheduler has answered
Keeps   a copy's bounds clip its global side only: elements beyond them arrive in shared memory as 0, and its shared
        side is always the whole tile
"""

from __future__ import annotations

from typing import assert_never

import numpy as np

from tidegate.language.ops import (
    AtomicAdd,
    CommitGroup,
    ConditionalBarrier,
    CopyOp,
    Count,
    Fence,
    GatherToLds,
    GlobalRead,
    GlobalWrite,
    LdsToGlobal,
    LocalRead,
    LocalWrite,
    MbarrierArrive,
    MbarrierWait,
    MemoryOp,
    Place,
    ReadIndex,
    SharedMemoryBarrier,
    Signal,
    TensorLoadToLds,
    Value,
    Wait,
    WaitCount,
    WorkgroupBarrier,
)
from tidegate.simulate import events
from tidegate.simulate.address import Guard, locate, single
from tidegate.simulate.barriers import WORKGROUP, Barrier
from tidegate.simulate.compute import tile_type
from tidegate.simulate.events import (
    Access,
    Answer,
    Arrive,
    Asking,
    AwaitPhase,
    Commit,
    Copy,
    Depart,
    Drain,
)
from tidegate.simulate.faults import Actor
from tidegate.simulate.memory import Cells
from tidegate.simulate.tiles import Array, convert
from tidegate.simulate.values import BarrierRef, Dep, Env, NoSlot, NoValue, Pending, PerLane, evaluate, tile_of

Synchronization = (
    WorkgroupBarrier
    | SharedMemoryBarrier
    | Signal
    | Wait
    | ConditionalBarrier
    | WaitCount
    | Fence
    | MbarrierArrive
    | MbarrierWait
)


class Requests:
    """Turns operations of one wave into events. Counts the wave's copies, and remembers those in no group yet."""

    def __init__(self, env: Env, waves: int) -> None:
        self.env = env
        self.waves = waves
        self.issued = 0
        self.open_group: set[int] = set()

    # --- accesses ---

    def memory(self, op: MemoryOp, active: Array | None, lanes: int) -> Asking:
        actor = Actor(op, self.env)
        match op:
            case ReadIndex():
                yield from self._read_index(op, actor, active, lanes)
            case GlobalRead(result=result) | LocalRead(result=result):
                cells = self._cells(op, result, active, "read")
                found = yield Access(op, "read", cells)
                self.env[result.name] = _answered(found)
            case GlobalWrite(tile=tile) | LocalWrite(tile=tile):
                cells = self._cells(op, tile, active, "written")
                yield Access(op, "write", cells, convert(tile_of(tile, self.env), cells.dtype))
            case AtomicAdd(tile=tile):
                cells = self._cells(op, tile, active, "added to")
                before = yield Access(op, "atomic", cells, convert(tile_of(tile, self.env), cells.dtype))
                if op.result is not None:
                    self.env[op.result.name] = _answered(before)
            case _:
                assert_never(op)

    def _cells(
        self,
        op: GlobalRead | LocalRead | GlobalWrite | LocalWrite | AtomicAdd,
        tile: Value,
        active: Array | None,
        verb: str,
    ) -> Cells:
        guard = Guard(op.bounds, op.mask, active)
        return locate(op.place, tile_type(tile).shape, guard, Actor(op, self.env), verb)

    def _read_index(self, op: ReadIndex, actor: Actor, active: Array | None, lanes: int) -> Asking:
        """One integer for the wave, or one for each lane where the place differs between lanes."""
        starts = [evaluate(index, self.env) for index in (op.place.slot, *op.place.index)]
        if all(isinstance(start, int) for start in starts):
            found = yield Access(op, "read", locate(op.place, (), Guard(), actor, "read"))
            self.env[op.result.name] = int(_now(found))
            return
        cells = locate(op.place, (lanes,), Guard(lanes=active), actor, "read", points=True)
        found = yield Access(op, "read", cells)
        self.env[op.result.name] = PerLane(_now(found).astype(np.int64))

    def copies(self, op: CopyOp | CommitGroup, active: Array | None) -> Asking:
        match op:
            case CommitGroup():
                group = frozenset(self.open_group)
                self.open_group.clear()
                self._bind(op.result, Dep(group))
                yield Commit(op, group)
            case GatherToLds() | TensorLoadToLds() | LdsToGlobal():
                self.issued += 1
                number = self.issued
                self.open_group.add(number)
                self._bind(op.result, Dep(frozenset((number,))))
                yield self._copy(op, number, active)
            case _:
                assert_never(op)

    def _copy(self, op: CopyOp, number: int, active: Array | None) -> Copy:
        actor, whole, clipped = Actor(op, self.env), Guard(lanes=active), Guard(op.bounds, lanes=active)
        outward = isinstance(op, LdsToGlobal)
        source = locate(op.source, op.tile.shape, whole if outward else clipped, actor, "read")
        dest = locate(op.dest, op.tile.shape, clipped if outward else whole, actor, "written")
        reports = None
        if not isinstance(op, LdsToGlobal) and op.mbarrier is not None:
            reports = self._slot(op.mbarrier, actor, active)
        return Copy(op, number, source, dest, reports, op.tile.bytes)

    # --- synchronization ---

    def synchronization(self, op: Synchronization, active: Array | None) -> Asking:
        actor = Actor(op, self.env)
        match op:
            case WorkgroupBarrier():
                yield from _meet(op)
            case SharedMemoryBarrier(counts=counts, async_deps=deps):
                copies, named = self._waited_for(counts, deps)
                yield Drain(op, counts, copies, lds=True, every_copy=op.wait_async_ops, named=named)
                yield from _meet(op)
            case ConditionalBarrier(half=half):
                wave = self.env["wave"]
                if isinstance(wave, int) and (wave < self.waves // 2) == (half == "low"):
                    yield from _meet(op)
            case Signal(barrier=barrier):
                yield Arrive(op, self._barrier(barrier))
            case Wait(barrier=barrier):
                yield Depart(op, self._barrier(barrier))
            case WaitCount(counts=counts, async_deps=deps):
                copies, named = self._waited_for(counts, deps)
                yield Drain(op, counts, copies, named=named, all_lanes=active is None)
            case Fence():
                yield events.FenceEvent(op, active is None)
            case MbarrierArrive(barrier=place, expect=expect):
                yield Arrive(op, self._slot(place, actor, active), expect)
            case MbarrierWait(barrier=place, parity=parity):
                yield AwaitPhase(op, self._slot(place, actor, active), single(parity, actor, active))
            case _:
                assert_never(op)

    def _barrier(self, barrier: int | Value) -> Barrier:
        if isinstance(barrier, int):
            return Barrier(str(barrier))
        ref = self._ref(barrier)
        return Barrier(ref.name, ref.type.arrivals)

    def _slot(self, place: Place, actor: Actor, active: Array | None) -> Barrier:
        ref, slot = self._ref(place.base), single(place.slot, actor, active)
        if not 0 <= slot < ref.type.slots:
            raise NoSlot(f"`{ref.name}` has {ref.type.slots} slots, and none has number {slot}")
        return Barrier(ref.name, ref.type.arrivals, slot)

    def _ref(self, value: Value) -> BarrierRef:
        found = self.env.get(value.name)
        if not isinstance(found, BarrierRef):
            raise NoValue(f"`{value.name}` is not a barrier")
        return found

    def _waited_for(self, counts: tuple[Count, ...], deps: tuple[Value, ...]) -> tuple[frozenset[int], frozenset[int]]:
        """Copies that are waited for by name, and those that counts are only said to be for."""
        found = self._copies_of(deps)
        return (frozenset(), found) if counts else (found, frozenset())

    def _copies_of(self, deps: tuple[Value, ...]) -> frozenset[int]:
        found = (self.env.get(dep.name) for dep in deps)
        return frozenset().union(*(dep.copies for dep in found if isinstance(dep, Dep)))

    def _bind(self, result: Value | None, value: Dep) -> None:
        if result is not None:
            self.env[result.name] = value


def _meet(op: WorkgroupBarrier | SharedMemoryBarrier | ConditionalBarrier) -> Asking:
    yield Arrive(op, WORKGROUP)
    yield Depart(op, WORKGROUP)


def _answered(answer: Answer) -> Array | Pending:
    assert answer is not None, "a read must be answered"
    return answer


def _now(answer: Answer) -> Array:
    """An index steers the wave, so that it cannot stay in flight."""
    found = _answered(answer)
    return found.tile() if isinstance(found, Pending) else found
