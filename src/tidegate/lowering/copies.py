"""Asynchronous copies, as the target's copy instructions.

Needs   a copy of the language
Gives   `cp.async` pieces of 4, 8 or 16 bytes of a lane; bulk copies of whole rows
Keeps   an operation without an instruction on the target is a finding, never a plain load
Cost    an instruction for each piece, or row, of a lane
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.language import ops
from tidegate.language.types import Tile
from tidegate.lowering.gpu import refuse
from tidegate.lowering.ir import Scalar
from tidegate.lowering.memory import MemoryWriter, TileSpot
from tidegate.lowering.spread import FREE, TileSpread, bits_of, coordinates, in_order, padded, width_of
from tidegate.targets import Target

SMALLEST = 4  # bytes of a lane's piece


@dataclass(slots=True)
class CopyWriter:
    memory: MemoryWriter
    target: Target

    def copy(self, op: ops.CopyOp, objects: dict[str, int]) -> None:
        if padded(op.tile.shape) != op.tile.shape:
            raise refuse("a copy of a tile with sides that are no powers of two", op.at, self.target)
        stores = hasattr(self.memory.gpu, "store")
        alone = isinstance(op, ops.GatherToLds) and op.mbarrier is None
        if isinstance(op, ops.GatherToLds | ops.LdsToGlobal) and (
            alone or (stores and isinstance(op, ops.LdsToGlobal))
        ):
            self.by_lanes(op)
        elif why := self.why_not(op):
            raise refuse(why, op.at, self.target)
        else:
            self.by_rows(op, objects)

    def why_not(self, op: ops.CopyOp) -> str:
        """What keeps a copy from being one of whole rows."""
        if not hasattr(self.memory.gpu, "copy_rows"):
            return f"`{type(op).__name__}`"
        if not isinstance(op, ops.LdsToGlobal) and op.mbarrier is None:
            return "a bulk copy that reports to no mbarrier"
        return "a bulk copy with bounds" if op.bounds else ""

    def by_lanes(self, op: ops.GatherToLds | ops.LdsToGlobal) -> None:
        memory, w, tile = self.memory, self.memory.w, op.tile
        is_load = isinstance(op, ops.GatherToLds)
        spread, many, source, dest = self.spread_of(op)
        bytes_ = many * tile.dtype.bytes
        for register in range(0, spread.count, many):
            inside = memory.active(source if is_load else dest, spread, register, None, stores=False)
            given: Scalar = bytes_
            if inside and is_load:
                if self.target.vendor != "NVIDIA":
                    raise refuse("a copy with bounds", op.at, self.target)
                given = w.once(f"select i1 {inside}, i32 {bytes_}, i32 0")

            def one(register: int = register, given: Scalar = given) -> list[str]:
                to, from_ = memory.address(dest, spread, register), memory.address(source, spread, register)
                if is_load:
                    memory.gpu.copy(w, to, from_, source.pointer, bytes_, given)  # type: ignore[attr-defined]
                else:
                    memory.gpu.store(w, to, from_, bytes_)  # type: ignore[attr-defined]
                return []

            active = memory.active(source if is_load else dest, spread, register, None, stores=True)
            memory.guarded(memory.active(dest, spread, register, None, stores=True) if is_load else active, one, [])

    def spread_of(self, op: ops.GatherToLds | ops.LdsToGlobal) -> tuple[TileSpread, int, TileSpot, TileSpot]:
        """Lanes follow each other along rows; pieces are the widest that places and the instruction take."""
        memory, tile, lanes = self.memory, op.tile, self.memory.gpu.lanes
        name = "gather_to_lds" if isinstance(op, ops.GatherToLds) else "lds_to_global"
        allowed = [each for each in self.target.operations[name].bytes_per_lane or () if each >= SMALLEST]
        is_load = isinstance(op, ops.GatherToLds)
        for bytes_ in sorted(allowed, reverse=True):
            many, total = bytes_ // tile.dtype.bytes, sum(map(width_of, tile.shape))
            if many & (many - 1) or width_of(many) > min(width_of(tile.shape[-1]), max(0, total - width_of(lanes))):
                continue
            spread = in_order(list(range(total)), lanes, width_of(many))
            source = memory.spot(op.source, tile.shape, op.bounds if is_load else (), spread)
            dest = memory.spot(op.dest, tile.shape, () if is_load else op.bounds, spread)
            if source.scattered or dest.scattered:
                raise refuse("a copy with an address for each element", op.at, self.target)
            if min(memory.pieces(dest, spread, False), memory.pieces(source, spread, False)) < many:
                continue
            if memory.gpu.copies_by_lane or _follow(dest, spread, bytes_):
                return spread, many, source, dest
        raise refuse("a copy of which no lane has whole pieces that the instruction takes", op.at, self.target)

    def by_rows(self, op: ops.CopyOp, objects: dict[str, int]) -> None:
        """Each lane moves rows of its own, of whole pieces of 16 bytes."""
        memory, w, tile, gpu = self.memory, self.memory.w, op.tile, self.memory.gpu
        shape = tile.shape or (1,)
        rows = Tile((*shape[:-1], 1), tile.dtype)
        many = sum(width_of(side) for side in rows.shape)
        lanes = width_of(gpu.lanes)
        spread = TileSpread(tuple(range(lanes, many)), (*range(min(many, lanes)), *(FREE,) * max(0, lanes - many)))
        bytes_ = shape[-1] * tile.dtype.bytes
        spots = [memory.spot(each, rows.shape, (), spread) for each in (op.source, op.dest)]
        if bytes_ % 16 or any(each.aligned % 16 for each in spots):
            raise refuse("a bulk copy of rows that are no whole pieces of 16 bytes", op.at, self.target)
        for register in range(spread.count):
            assert coordinates(spread.of_register(register), rows.shape)

            def one(register: int = register) -> list[str]:
                source, dest = (self.place(each, spread, register) for each in spots)
                if isinstance(op, ops.LdsToGlobal):
                    gpu.store_rows(w, dest, source, bytes_)  # type: ignore[attr-defined]
                else:
                    assert op.mbarrier is not None
                    slot = w.int("mul", memory.scalars.index(op.mbarrier.slot), 8)
                    at = w.int("add", slot, objects[op.mbarrier.base.name])
                    told = w.once(f"getelementptr i8, ptr addrspace(3) {memory.shared}, i32 {at}")
                    gpu.copy_rows(w, dest, source, bytes_, told)  # type: ignore[attr-defined]
                return []

            memory.guarded(memory.active(spots[0], spread, register, None, stores=True), one, [])

    def place(self, spot: TileSpot, spread: TileSpread, register: int) -> str:
        return self.memory.address(spot, spread, register)


def _follow(dest: TileSpot, spread: TileSpread, bytes_: int) -> bool:
    """Whether lanes write pieces that follow each other: the instruction has one address for the whole wave."""
    for place, bit in enumerate(spread.lanes):
        for axis, step in enumerate(dest.stride):
            bits = bits_of(dest.sides, axis)
            if bit in bits and step * dest.dtype.bytes << bits.index(bit) != bytes_ << place:  # type: ignore[operator]
                return False
        if bit == FREE:
            return False
    return True
