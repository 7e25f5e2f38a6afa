"""A synchronized kernel as LLVM IR.

Needs   a well-typed kernel and a target that has what it uses
Gives   `LoweredKernel`: a module with one function, how it is launched, and where each of its instructions comes from
Keeps   every barrier, wait, fence and arrival of the kernel becomes its instructions, in its place; what cannot be
        built is a finding that names the operation
Cost    linear in the registers of the tiles
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import gcd

from tidegate.index import LANE, WAVE, WORKGROUP, Compare, Cond, Const, Index, Name, names
from tidegate.language import ops
from tidegate.language.check import indices_of
from tidegate.language.facts import find_facts
from tidegate.language.layout import lay_out
from tidegate.language.ops import Block, Kernel, Value, walk_ops
from tidegate.language.types import FLAG, INDEX, BarrierObject, Global, Lds, Tile
from tidegate.lowering import arithmetic
from tidegate.lowering.arithmetic import number
from tidegate.lowering.choose import choose_spreads, is_padded
from tidegate.lowering.copies import CopyWriter
from tidegate.lowering.gpu import Backend, Unbuilt, refuse
from tidegate.lowering.held import HeldTile, lane_bits, moved
from tidegate.lowering.ir import IrWriter, Scalar, debug_of, type_of
from tidegate.lowering.memory import MemoryWriter
from tidegate.lowering.named import LoweredValues
from tidegate.lowering.regions import RegionWriter
from tidegate.lowering.scalars import KnownFacts, Scalars
from tidegate.lowering.spread import FREE, TileSpread, bits_of, coordinates, narrowed, transposed, width_of
from tidegate.targets import Target

SHARED = "@shared"


@dataclass(frozen=True, slots=True)
class LoweredKernel:
    """`arguments`: names in the order of the function's; arrays, then indices and flags, then sizes."""

    name: str
    text: str
    arguments: tuple[tuple[str, str], ...]
    shared: int
    threads: int


def lower(kernel: Kernel, target: Target) -> LoweredKernel:
    """Raises `BadInput` where an operation cannot be built."""
    gpu = gpu_of(kernel, target)
    return _KernelWriter(kernel, target, gpu).module()


def gpu_of(kernel: Kernel, target: Target) -> Backend:
    named = [
        op.result
        for op in walk_ops(kernel.body)
        if isinstance(op, ops.NewBarrier)
        and isinstance(op.result.type, BarrierObject)
        and op.result.type.kind == "named_barrier"
    ]
    if target.vendor == "NVIDIA":
        from tidegate.lowering.nvidia import Nvidia

        return Nvidia(target, kernel.waves, named)
    from tidegate.lowering.amd import Amd

    return Amd(target, kernel.waves, named)


def _names_lanes(kernel: Kernel) -> bool:
    """Whether a condition, or what one is made of, differs between lanes."""
    return any(LANE in names(each) for op in walk_ops(kernel.body) for each in indices_of(op))


@dataclass(slots=True)
class _KernelWriter:
    kernel: Kernel
    target: Target
    gpu: Backend
    w: IrWriter = field(default_factory=IrWriter)
    v: LoweredValues = field(init=False)
    memory: MemoryWriter = field(init=False)
    copies: CopyWriter = field(init=False)
    regions: RegionWriter = field(init=False)
    objects: dict[str, int] = field(default_factory=dict)  # mbarrier → its first byte
    joined: ops.Op | None = None  # the wait that came with its signal

    def __post_init__(self) -> None:
        kernel, scalars = self.kernel, Scalars(self.w)
        spreads = choose_spreads(kernel, self.gpu, by_lanes=_names_lanes(kernel))
        self.v = LoweredValues(self.w, self.gpu, scalars, spreads, _aligned(kernel))
        arrays = {each.name: each.type for each in kernel.args if isinstance(each.type, Global)}
        sizes: dict[str, Scalar] = {each.name: f"%size_{each.name}" for each in kernel.sizes}
        self.memory = MemoryWriter(self.w, self.gpu, scalars, SHARED, self.v.offsets, arrays, sizes, self.v.tiles)
        self.copies = CopyWriter(self.memory, self.target)
        self.regions = RegionWriter(self.v, find_facts(kernel), self.block)

    # --- the function ---

    def module(self) -> LoweredKernel:
        kernel, w = self.kernel, self.w
        layout = lay_out(kernel)
        arguments = self.arguments()
        self.gpu.start(w)
        self.names()
        self.set_up(layout.offsets)
        self.block(kernel.body)
        if not self.v.ended:
            w.do("ret void")
        given = ", ".join(f"{kind} %{name}" for name, kind in arguments)
        body = "\n".join(w.lines)
        # Shared memory that is larger than a kernel may have without asking is given at launch.
        size = max(16, layout.total)
        text = "\n".join(
            (
                f'target triple = "{self.gpu.triple}"',
                f"{SHARED} = {self.gpu.shared_memory(size)}",
                f"define {self.gpu.convention} void @{kernel.name}({given}) #0 !dbg !2 {{",
                "entry:",
                body,
                "}",
                *w.declared.values(),
                f"attributes #0 = {{ {self.gpu.attributes} }}",
                "attributes #1 = { convergent nounwind }",
                self.gpu.metadata(),
                debug_of(w.lines, kernel.name, self.kernel.at.file or "kernel.tide", self.gpu.debug_kind),
                "",
            )
        )
        return LoweredKernel(kernel.name, text, arguments, layout.total, kernel.waves * self.gpu.lanes)

    def arguments(self) -> tuple[tuple[str, str], ...]:
        kernel = self.kernel
        arrays = [(each.name[1:], "ptr addrspace(1)") for each in kernel.args if isinstance(each.type, Global)]
        plain = [
            (each.name[1:], "i32" if each.type == INDEX else "i1") for each in kernel.args if each.type in (INDEX, FLAG)
        ]
        return (*arrays, *plain, *((f"size_{each.name}", "i32") for each in kernel.sizes))

    def names(self) -> None:
        """What the names of sizes, arguments and the machine stand for."""
        kernel, scalars = self.kernel, self.v.scalars
        used = _workgroups(kernel)
        for size in kernel.sizes:
            scalars.values[size.name] = f"%size_{size.name}"
            scalars.facts[size.name] = KnownFacts(_divisor(size.name, kernel.where), True)
        for each in kernel.args:
            if each.type in (INDEX, FLAG):
                scalars.values[each.name] = f"%{each.name[1:]}"
        scalars.values |= {WAVE: self.gpu.wave, LANE: self.gpu.lane}
        scalars.facts |= {name: KnownFacts(1, True) for name in (WAVE, LANE, *WORKGROUP)}
        for axis, name in enumerate(WORKGROUP):
            if name in used:
                scalars.values[name] = self.gpu.workgroup(self.w, axis)

    def set_up(self, offsets: dict[str, int]) -> None:
        """Barrier objects are ready before any wave goes on: what the language takes as given."""
        found = [op for op in walk_ops(self.kernel.body) if isinstance(op, ops.NewBarrier)]
        kept = [each.result for each in found if each.result.name in offsets]
        if not kept:
            return
        w = self.w
        then, after = w.fresh("first"), w.fresh("ready")
        thread = w.int("or", self.gpu.lane, self.gpu.wave)
        w.branch(w.compare("eq", thread, 0), then, after)
        w.start(then)
        for value in kept:
            assert isinstance(value.type, BarrierObject)
            self.objects[value.name] = offsets[value.name]
            for slot in range(value.type.slots):
                self.gpu.set_up(w, self.at_byte(offsets[value.name] + 8 * slot), value.type.arrivals)
        self.gpu.end_of_setting_up(w)
        w.jump(after)
        w.start(after)
        self.gpu.meet(w)

    def at_byte(self, offset: Scalar) -> str:
        return self.w.once(f"getelementptr i8, ptr addrspace(3) {SHARED}, i32 {offset}")

    # --- operations ---

    def block(self, block: Block) -> None:
        for number_, op in enumerate(block.ops):
            if self.v.ended:
                return
            self.w.at(op.at)
            following = block.ops[number_ + 1] if number_ + 1 < len(block.ops) else None
            try:
                self.op(op, following)
            except Unbuilt as why:
                raise refuse(str(why), op.at, self.target) from None

    def op(self, op: ops.Op, following: ops.Op | None) -> None:
        match op:
            case ops.Iterate():
                self.regions.loop(op)
            case ops.Conditional():
                self.regions.conditional(op)
            case ops.Specialize():
                self.regions.specialize(op)
            case ops.Exit():
                self.w.do("ret void")
                self.v.ended = True
            case ops.Let(result, value):
                self.v.scalars.values[result.name] = self.v.scalars.index(value)
                self.v.scalars.facts[result.name] = self.v.scalars.known(value)
            case ops.Alloc(result):
                self.alloc(result)
            case ops.Dealloc() | ops.NewBarrier() | ops.NullAsyncDep():
                pass
            case ops.View() | ops.SelectView():
                self.view(op)
            case ops.ReadIndex():
                self.read_index(op)
            case ops.GatherToLds() | ops.TensorLoadToLds() | ops.LdsToGlobal():
                self.copies.copy(op, self.objects)
            case ops.Signal(barrier) | ops.Wait(barrier):
                self.halves(op, barrier, following)
            case ops.MbarrierArrive(place, expect):
                self.gpu.arrive(self.w, self.object_at(place), expect)
            case ops.MbarrierWait(place, parity):
                self.gpu.wait_for_phase(self.w, self.object_at(place), self.v.scalars.index(parity))
            case ops.LocalRead() | ops.GlobalRead() | ops.LocalWrite() | ops.GlobalWrite() | ops.AtomicAdd():
                self.access(op)
            case _ if isinstance(op, ops.TileOp):
                self.tile(op)
            case _:
                self.gpu.sync(self.w, op)

    def read_index(self, op: ops.ReadIndex) -> None:
        alone = TileSpread((), (FREE,) * width_of(self.gpu.lanes))
        spot = self.memory.spot(op.place, (), (), alone)
        kind, bits = type_of(spot.dtype), spot.dtype.bits
        value = self.w.let(f"load {kind}, ptr addrspace(1) {self.memory.address(spot, alone, 0)}")
        if bits != 32:
            value = self.w.let(f"{'trunc' if bits > 32 else 'sext'} {kind} {value} to i32")
        self.v.scalars.values[op.result.name] = value

    def object_at(self, place: ops.Place) -> str:
        slot = self.w.int("mul", self.v.scalars.index(place.slot), 8)
        return self.at_byte(self.w.int("add", slot, self.objects[place.base.name]))

    def halves(self, op: ops.Signal | ops.Wait, barrier: int | Value, following: ops.Op | None) -> None:
        if isinstance(op, ops.Wait):
            if self.joined is not op:  # otherwise it came with its signal
                self.gpu.depart(self.w, op)
            self.joined = None
            return
        together = isinstance(following, ops.Wait) and following.barrier == barrier and not self.target.barrier.split
        self.gpu.signal(self.w, op, and_wait=together)
        self.joined = following if together else None

    # --- memory ---

    def alloc(self, result: Value) -> None:
        assert isinstance(result.type, Lds)
        start = lay_out(self.kernel).offsets[result.name]
        self.v.offsets[result.name] = (start, (start & -start) or 1 << 30, result.type)

    def view(self, op: ops.View | ops.SelectView) -> None:
        assert isinstance(op.result.type, Lds)
        if isinstance(op, ops.SelectView):
            (a, x, _), (b, y, _) = self.v.offsets[op.then.name], self.v.offsets[op.otherwise.name]
            test = self.v.scalars.cond(op.cond)
            start: Scalar = self.w.once(f"select i1 {test}, i32 {a}, i32 {b}")
            self.v.offsets[op.result.name] = (start, min(x, y), op.result.type)
            return
        spread = TileSpread((), ())
        spot = self.memory.spot(op.place, (), (), spread)
        total = spot.base
        for place, step in zip(spot.index, spot.stride, strict=True):
            assert isinstance(step, int)
            total = self.w.int("add", total, self.w.int("mul", place, step * spot.dtype.bytes))
        self.v.offsets[op.result.name] = (total, spot.aligned, op.result.type)

    def access(self, op: ops.Op) -> None:
        mask = self.v.tiles[op.mask.name] if getattr(op, "mask", None) is not None else None  # type: ignore[union-attr]
        match op:
            case ops.LocalRead(result, place, bounds) | ops.GlobalRead(result, place, bounds):
                assert isinstance(result.type, Tile)
                spread = self.v.spreads.of[result.name]
                if isinstance(op, ops.LocalRead):
                    spread = self.in_shared(result.type, spread)
                self.v.keep(result, self.memory.read(place, result.type, bounds, mask, spread))
            case ops.LocalWrite(tile, place, bounds) | ops.GlobalWrite(tile, place, bounds):
                held = self.v.tiles[tile.name]
                if isinstance(op, ops.LocalWrite):
                    held = self.v.held(tile, self.in_shared(tile.type, held.spread))
                self.memory.write(held, place, bounds, mask)
            case ops.AtomicAdd(result, tile, place, bounds):
                held = self.v.held(tile, self.in_shared(tile.type, self.v.tiles[tile.name].spread))
                found = self.memory.add(held, place, bounds, mask, fetch=result is not None)
                if result is not None and found is not None:
                    self.v.keep(result, found)

    def in_shared(self, tile: object, otherwise: TileSpread) -> TileSpread:
        assert isinstance(tile, Tile)
        return self.v.spreads.in_shared.get((tile.shape, tile.dtype.name), otherwise)

    # --- tiles ---

    def tile(self, op: ops.TileOp) -> None:
        w, gpu, result = self.w, self.gpu, op.result
        assert isinstance(result.type, Tile)
        shape, dtype, spread = result.type.shape, result.type.dtype, self.v.spreads.of[result.name]
        match op:
            case ops.Fill(value=value):
                made = HeldTile((number(value, dtype),) * spread.count, spread, shape, dtype)
            case ops.Splat(value=value):
                one = self.from_index(self.v.scalars.index(value), dtype)
                made = HeldTile((one,) * spread.count, spread, shape, dtype)
            case ops.Iota(axis=axis):
                made = self.iota(axis, HeldTile((), spread, shape, dtype))
            case ops.Elementwise(fn=fn, args=args):
                given = [self.v.held(each, spread) for each in args]
                kinds = [each.dtype for each in given]
                values = [
                    arithmetic.element(w, gpu, fn, [each.values[register] for each in given], kinds, dtype)
                    for register in range(spread.count)
                ]
                made = HeldTile(tuple(values), spread, shape, dtype)
            case ops.Cast(tile=tile):
                have = self.v.held(tile, spread)
                made = HeldTile(
                    tuple(arithmetic.convert(w, each, have.dtype, dtype) for each in have.values), spread, shape, dtype
                )
            case ops.Reduce(fn=fn, tile=tile, axis=axis):
                made = arithmetic.reduced(w, gpu, fn, self.v.tiles[tile.name], axis, dtype)
            case ops.Scan(fn=fn, tile=tile, axis=axis):
                made = arithmetic.scanned(w, gpu, fn, self.v.held(tile, spread), axis, dtype)
            case ops.Transpose(tile=tile):
                have = self.v.tiles[tile.name]
                made = moved(have, transposed(have.spread, have.shape), shape)
            case ops.Reshape(tile=tile):
                if is_padded(result.type) or is_padded(tile.type):  # type: ignore[arg-type]
                    raise Unbuilt("a reshaped tile with sides that are no powers of two")
                made = moved(self.v.tiles[tile.name], self.v.tiles[tile.name].spread, shape)
            case ops.Broadcast(tile=tile):
                have = self.v.held(tile, narrowed(spread, shape, _shape(tile)))
                made = arithmetic.repeated(have, shape, spread)
            case ops.Mma(a=a, b=b, acc=acc):
                given = [self.v.tiles[each.name] for each in (a, b, acc)]
                made = arithmetic.multiplied(w, gpu, given[0], given[1], given[2], dtype)
        self.v.keep(result, made)

    def from_index(self, value: Scalar, dtype) -> str:  # type: ignore[no-untyped-def]
        from tidegate.language.types import i32

        if isinstance(value, int):
            return number(value, dtype)
        return arithmetic.convert(self.w, value, i32, dtype)

    def iota(self, axis: int, tile: HeldTile) -> HeldTile:
        bits = bits_of(tile.shape, axis)
        lane = lane_bits(self.w, self.gpu.lane, tile.spread, bits)
        values = []
        for register in range(tile.spread.count):
            at = coordinates(tile.spread.of_register(register), tile.shape)[axis % len(tile.shape)]
            values.append(self.from_index(self.w.int("add", lane, at), tile.dtype))
        return replace(tile, values=tuple(values))


def _aligned(kernel: Kernel) -> int:
    """What divides the first byte of every buffer and slot: of one that goes round a loop nothing more is known."""
    found = 1 << 20
    for op in walk_ops(kernel.body):
        if isinstance(op, ops.View) and isinstance(op.result.type, Lds):
            found = gcd(found, op.result.type.dtype.bytes)
        elif isinstance(op, ops.Alloc) and isinstance(op.result.type, Lds):
            found = gcd(found, 16 if op.offset is None else op.offset or 16, op.result.type.slot_bytes)
    return found


def _shape(value: Value) -> tuple[int, ...]:
    assert isinstance(value.type, Tile)
    return value.type.shape


def _workgroups(kernel: Kernel) -> set[str]:
    """The numbers of workgroups that a kernel asks for."""
    return {name for op in walk_ops(kernel.body) for each in indices_of(op) for name in names(each)} & set(WORKGROUP)


def _divisor(size: str, where: tuple[Cond, ...]) -> int:
    """A power of two that assumptions say divides a size."""
    found = 1
    for cond in where:
        match cond:
            case Compare("==", left, Const(0)) if many := _modulus(left, size):
                found = max(found, many & -many)
    return found


def _modulus(index: Index, size: str) -> int:
    from tidegate.index import Binary

    match index:
        case Binary("mod", Name(name), Const(many)) if name == size:
            return many
    return 0
