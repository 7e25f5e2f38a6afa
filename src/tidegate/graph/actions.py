"""What one operation of a kernel does, as an action of a graph.

Needs   an operation that is no region
Gives   its action, its role, its label, how much work it is
Keeps   an access that may leave some of its bytes untouched says so: a mask, an index of its own for each element, or
        lanes that are switched off
Cost    constant per operation
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from math import prod
from typing import Any

from tidegate.graph import model as g
from tidegate.graph.lanes import lanes_of
from tidegate.graph.memory import bytes_before, footprint_of, view_of
from tidegate.graph.parts import Parts
from tidegate.index import Cond, Const, names
from tidegate.language import ops
from tidegate.language.ops import Op, Place, Value
from tidegate.language.syntax import form_of
from tidegate.language.types import Lds, Tile, Type
from tidegate.targets import Target

LocalOp = ops.LocalRead | ops.LocalWrite | ops.AtomicAdd


@dataclass(frozen=True, slots=True)
class Actions:
    """What actions depend on beside their operation: the target, the buffers, tiles that serve as indices, those whose
    lanes a matrix product or a transposition decides, and the names that anything reads."""

    target: Target
    buffers: Container[str]
    tiles: Container[str]
    own_maps: Container[str]
    read: Container[str]
    parts: Parts

    def of(self, op: Op, *, some_lanes: bool, conds: tuple[Cond, ...] = ()) -> g.Action:
        """The action; `some_lanes`: lanes may be switched off here; `conds`: all that are not satisfy these."""
        match op:
            case ops.LocalRead():
                return g.Access("read", **self.bytes(op, op.result, some_lanes, conds))
            case ops.LocalWrite():
                return g.Access("write", **self.bytes(op, op.tile, some_lanes, conds))
            case ops.AtomicAdd():
                touched = self.bytes(op, op.tile, some_lanes, conds)
                base, fetches = op.place.base.type, op.result is not None and op.result.name in self.read
                element = base.dtype.name if isinstance(base, Lds) else ""
                return g.Access("atomic", operator="add", fetches=fetches, element=element, **touched)
            case ops.GatherToLds() | ops.TensorLoadToLds():
                told = g.Ref(op.mbarrier.base.name, op.mbarrier.slot) if op.mbarrier is not None else None
                return self.copy("write", op, op.dest, some_lanes, told)
            case ops.LdsToGlobal():
                return self.copy("read", op, op.source, some_lanes, None)
            case ops.View():
                return g.Assign(((op.result.name, view_of(op.place, self.buffers)),))
            case ops.SelectView():
                both = g.Either(op.cond, g.Ref(op.then.name), g.Ref(op.otherwise.name))
                return g.Assign(((op.result.name, both),))
            case ops.Let():
                return g.Assign(((op.result.name, op.value),))
            case ops.ReadIndex():
                return g.Havoc((op.result.name,))
            case ops.Alloc():
                return g.Alloc(op.result.name)
            case ops.Dealloc():
                return g.Free(op.buffer.name)
            case ops.Exit():
                return g.End()
        return self.other(op)

    def other(self, op: Op) -> g.Action:
        """Operations without an effect of their own on shared memory, and synchronization."""
        match op:
            case ops.GlobalRead() | ops.GlobalWrite() | ops.NewBarrier():
                return g.Compute()
            case ops.Fill() | ops.Splat() | ops.Iota() | ops.Elementwise() | ops.Cast() | ops.Reduce() | ops.Scan():
                return g.Compute()
            case ops.Transpose() | ops.Broadcast() | ops.Reshape() | ops.Mma():
                return g.Compute()
            case ops.WorkgroupBarrier() | ops.SharedMemoryBarrier() | ops.Signal() | ops.Wait() | ops.WaitCount():
                return g.Sync(op)
            case ops.ConditionalBarrier() | ops.Fence() | ops.SchedulingBarrier() | ops.SetWavePrio():
                return g.Sync(op)
            case ops.CommitGroup() | ops.MbarrierArrive() | ops.MbarrierWait() | ops.NullAsyncDep():
                return g.Sync(op)
        raise AssertionError(f"`{type(op).__name__}` is not one point")

    def bytes(self, op: LocalOp, tile: Value, some_lanes: bool, conds: tuple[Cond, ...]) -> dict[str, Any]:
        """The footprint, and which lane touches which byte; nobody knows where each element has an index of its own."""
        if self.is_scattered(op):
            return {"footprint": footprint_of(op.place, tile.type, self.buffers, op.bounds, True)}
        may, lanes = op.mask is not None or some_lanes, lanes_of(op, self.own_maps)
        assert isinstance(tile.type, Tile)
        part = self.parts.of(tile.type, op.mask, conds) if may and not op.bounds else None
        if part is None:
            return {"footprint": footprint_of(op.place, tile.type, self.buffers, op.bounds, may), "lanes": lanes}
        assert isinstance(op.place.base.type, Lds)
        before = bytes_before(part, op.place.base.type)
        foot = footprint_of(op.place, tile.type, self.buffers, (), not part.exact, part)
        if not isinstance(before, Const):
            return {"footprint": foot}
        return {"footprint": foot, "lanes": lanes, "lanes_from": before.value if lanes else 0}

    def is_scattered(self, op: LocalOp) -> bool:
        """Whether each element has an index of its own."""
        return any(name in self.tiles for index in op.place.index for name in names(index))

    def copy(self, effect: str, op: ops.CopyOp, place: Place, some_lanes: bool, told: g.Ref | None) -> g.Access:
        foot = footprint_of(place, op.tile, self.buffers, may=some_lanes)
        proxy = self.target.operations[label_of(op)].proxy or "generic"
        token = op.result.name if op.result is not None else ""
        return g.Access(effect, foot, True, proxy, mbarrier=told, token=token)


def label_of(op: Op) -> str:
    return op.fn if isinstance(op, ops.Elementwise) else form_of(type(op)).word


def role_of(op: Op) -> str:
    match op:
        case ops.GlobalRead() | ops.ReadIndex():
            return "global_read"
        case ops.GlobalWrite():
            return "global_write"
        case ops.LocalRead():
            return "local_read"
        case ops.LocalWrite() | ops.AtomicAdd():
            return "local_write"
        case ops.GatherToLds() | ops.TensorLoadToLds() | ops.LdsToGlobal():
            return "copy"
        case ops.Mma():
            return "mma"
    return "other"


def work_of(op: Op) -> g.Work:
    """What a cost model cannot tell from the footprint: arithmetic, and bytes of global memory."""
    match op:
        case ops.Mma(a=Value(type=Tile() as a), result=Value(type=Tile() as result)):
            return g.Work(2 * prod(result.shape) * a.shape[-1], dtype=a.dtype.name)
        case ops.GlobalRead():
            return g.Work(bytes=_bytes(op.result.type))
        case ops.GlobalWrite():
            return g.Work(bytes=_bytes(op.tile.type))
        case ops.Elementwise() | ops.Cast():
            return g.Work(_elements(op.result.type))
        case ops.Reduce() | ops.Scan():
            return g.Work(_elements(op.tile.type))
    return g.NO_WORK


def _bytes(type_: Type) -> int:
    return type_.bytes if isinstance(type_, Tile) else 0


def _elements(type_: Type) -> int:
    return prod(type_.shape) if isinstance(type_, Tile) else 0
