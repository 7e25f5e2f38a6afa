"""Accesses to shared and global memory, lane by lane.

Needs   places, bounds and masks of the language
Gives   loads, stores, atomics and copies of as many bytes at once as alignment allows
Keeps   what is clipped or masked is neither read nor written; of lanes that hold the same elements one stores them
Cost    an instruction for each piece of a lane
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

from tidegate.index import Index, names
from tidegate.language.ops import Place
from tidegate.language.types import DType, Global, Lds, Tile, strides
from tidegate.lowering.arithmetic import inside_of, number
from tidegate.lowering.gpu import Backend
from tidegate.lowering.held import HeldTile, held_as, lane_bits
from tidegate.lowering.ir import IrWriter, Scalar, in_memory, type_of
from tidegate.lowering.scalars import Scalars
from tidegate.lowering.spread import FREE, Shape, TileSpread, bits_of, coordinates

WIDEST = 16  # bytes of one access of a lane


@dataclass(frozen=True, slots=True)
class TileSpot:
    """Where a tile starts: a base, and for each of its dimensions an index and a stride in elements.

    `sides` are those of the tile, with 1 for the array's first dimensions that it does not have.
    """

    pointer: str  # of the base, in its address space
    space: int
    base: Scalar  # bytes from the pointer to the slot
    index: tuple[Scalar, ...]
    stride: tuple[Scalar, ...]
    sides: Shape
    dtype: DType
    aligned: int  # bytes that divide the place of each row's first element
    bounds: tuple[Scalar, ...] = ()
    whole: int = 1  # elements that a bound divides into
    scattered: tuple[tuple[Scalar, ...], ...] = ()  # for each register, where each element has a place of its own


@dataclass(slots=True)
class MemoryWriter:
    """What the program does to memory."""

    w: IrWriter
    gpu: Backend
    scalars: Scalars
    shared: str  # the name of shared memory
    offsets: dict[str, tuple[Scalar, int, Lds]]  # buffer → its first byte, what divides that, its type
    globals_: dict[str, Global]
    sizes: Mapping[str, Scalar]
    tiles: dict[str, HeldTile]

    # --- where ---

    def spot(self, place: Place, shape: Shape, bounds: tuple[Index, ...], spread: TileSpread) -> TileSpot:
        name = place.base.name
        if name in self.offsets:
            start, divisor, type_ = self.offsets[name]
            sides: tuple[int | str, ...] = type_.shape
            unit = type_.dtype.bytes
            slot = self.w.int("mul", self.scalars.index(place.slot), type_.slot_bytes)
            slot_divides = type_.slot_bytes & -type_.slot_bytes if type_.slots > 1 else WIDEST
            base, space, pointer = self.w.int("add", start, slot), 3, self.shared
            aligned = gcd(divisor, slot_divides)
        else:
            type_of_array = self.globals_[name]
            sides, unit = type_of_array.shape, type_of_array.dtype.bytes
            base, space, pointer, aligned = 0, 1, f"%{name[1:]}", WIDEST
        rank = len(sides)
        given = (*place.index, *[None] * (rank - len(place.index)))
        stride, divides = self._strides(sides)
        known = [WIDEST if each is None else self.scalars.known(each).divisor for each in given]
        for axis in range(rank):
            step = known[axis] * divides[axis]
            aligned = gcd(aligned, step * unit)
            if axis < rank - 1:
                aligned = gcd(aligned, divides[axis] * unit)
        own = self._elements(given, shape, spread)
        index = tuple(0 if each is None or own else self.scalars.index(each) for each in given)
        limits = tuple(self.scalars.index(each) for each in bounds)
        whole = gcd(known[-1], self.scalars.known(bounds[-1]).divisor) if bounds and rank else 1
        return TileSpot(
            pointer,
            space,
            base,
            index,
            stride,
            (1,) * (rank - len(shape)) + shape,
            place.base.type.dtype,  # type: ignore[union-attr]
            aligned,
            limits,
            whole,
            own,
        )

    def _strides(self, sides: tuple[int | str, ...]) -> tuple[tuple[Scalar, ...], list[int]]:
        """Elements from one to the next along each dimension, and what divides them."""
        if all(isinstance(side, int) for side in sides):
            steps = strides(tuple(int(side) for side in sides), 1)
            return steps, [each & -each for each in steps]
        step: Scalar = 1
        divides = 1
        found: list[Scalar] = []
        known: list[int] = []
        for side in reversed(sides):
            found.append(step)
            known.append(divides)
            if isinstance(side, int):
                step = step * side if isinstance(step, int) else self.w.once(f"mul i64 {step}, {side}")
                divides *= side & -side
            else:
                wide = self.w.wide(self.sizes[side])
                step = wide if step == 1 else self.w.once(f"mul i64 {wide}, {step}")
                divides *= self.scalars.facts[side].divisor
        return tuple(reversed(found)), [min(each, 1 << 30) for each in reversed(known)]

    def _elements(
        self, given: Sequence[Index | None], shape: Shape, spread: TileSpread
    ) -> tuple[tuple[Scalar, ...], ...]:
        """The index of each register's element, if tiles are among the names."""
        tiles = {name for each in given if each is not None for name in names(each) if name in self.tiles}
        if not tiles:
            return ()
        held = {}
        for name in tiles:
            tile = self.tiles[name]
            tile = replace(tile, shape=shape) if tile.shape != shape else tile
            held[name] = held_as(tile, spread, self.w, self.gpu)
        found = []
        for register in range(spread.count):
            own = {name: self._as_index(tile, register) for name, tile in held.items()}
            found.append(tuple(0 if each is None else self.scalars.index(each, own) for each in given))
        return tuple(found)

    def _as_index(self, tile: HeldTile, register: int) -> Scalar:
        value = tile.values[register]
        if tile.dtype.bits == 32:
            return value
        how = "trunc" if tile.dtype.bits > 32 else "zext" if tile.dtype.bits == 1 else "sext"
        return self.w.once(f"{how} {tile.type} {value} to i32")

    # --- pieces ---

    def pieces(self, spot: TileSpot, spread: TileSpread, masked: bool) -> int:
        """How many registers are one access."""
        many = 1
        while (
            not masked
            and not spot.scattered
            and 2 * many <= spread.vector
            and 2 * many * spot.dtype.bytes <= WIDEST
            and spot.aligned % (2 * many * spot.dtype.bytes) == 0
            and (not spot.bounds or spot.whole % (2 * many) == 0)
            and spot.sides[-1] % (2 * many) == 0
        ):
            many *= 2
        return many

    def address(self, spot: TileSpot, spread: TileSpread, register: int) -> str:
        w, at = self.w, self._at(spot, spread, register)
        if spot.space == 3:
            total: Scalar = spot.base
            for place, step in zip(at, spot.stride, strict=True):
                total = w.int("add", total, w.int("mul", place, _number(step) * spot.dtype.bytes))
            return w.once(f"getelementptr i8, ptr addrspace(3) {spot.pointer}, i32 {total}")
        fixed, moving = self._parts(spot, spread, register)
        pointer = spot.pointer
        for many in (moving, fixed):
            sums: str | int = 0
            for place, each in zip(many, spot.stride, strict=True):
                term = self._times(place, each)
                sums = term if sums == 0 else sums if term == 0 else w.once(f"add i64 {sums}, {term}")
            if sums != 0:
                kind = in_memory(spot.dtype)
                pointer = w.once(f"getelementptr {kind}, ptr addrspace(1) {pointer}, i64 {sums}")
        return pointer

    def _times(self, place: Scalar, step: Scalar) -> str | int:
        w = self.w
        if isinstance(place, int):
            if isinstance(step, int):
                return place * step
            return 0 if place == 0 else step if place == 1 else w.once(f"mul i64 {step}, {place}")
        wide = w.wide(place)
        return wide if step == 1 else w.once(f"mul i64 {wide}, {step}")

    def _parts(
        self, spot: TileSpot, spread: TileSpread, register: int
    ) -> tuple[tuple[Scalar, ...], tuple[Scalar, ...]]:
        """What only the register decides, and the rest of an index: equal rests are computed once."""
        if spot.scattered:
            return (0,) * len(spot.stride), spot.scattered[register]
        fixed = coordinates(spread.of_register(register), spot.sides)
        moving = tuple(
            self.w.int("add", each, lane_bits(self.w, self.gpu.lane, spread, bits_of(spot.sides, axis)))
            for axis, each in enumerate(spot.index)
        )
        return fixed, moving

    def _at(self, spot: TileSpot, spread: TileSpread, register: int) -> tuple[Scalar, ...]:
        fixed, moving = self._parts(spot, spread, register)
        return tuple(self.w.int("add", b, a) for a, b in zip(fixed, moving, strict=True))

    def active(self, spot: TileSpot, spread: TileSpread, register: int, mask: HeldTile | None, *, stores: bool) -> str:
        """Whether this lane touches a register's element; empty if it always does."""
        w, tests = self.w, []
        padding = inside_of(w, self.gpu, spread, spot.sides, register)
        if padding == "false":
            return padding
        if padding:
            tests.append(padding)
        for place, limit in zip(self._at(spot, spread, register), spot.bounds, strict=False):
            tests.append(w.compare("slt", place, limit))
        if mask is not None:
            tests.append(mask.values[register])
        if stores:
            free = sum(1 << place for place, bit in enumerate(spread.lanes) if bit == FREE)
            if free:
                tests.append(w.compare("eq", w.int("and", self.gpu.lane, free), 0))
        return w.both(tests)

    def guarded(self, cond: str, do: Callable[[], list[str]], otherwise: list[tuple[str, str]]) -> list[str]:
        """What `do` gives where the condition holds, and values with their types where it does not."""
        w = self.w
        if not cond:
            return do()
        if cond == "false":
            return [value for _, value in otherwise]
        then, after = w.fresh("do"), w.fresh("done")
        before = w.block
        w.branch(cond, then, after)
        w.start(then)
        found = do()
        inside = w.block
        w.jump(after)
        w.start(after)
        return [
            w.let(f"phi {kind} [ {value}, %{inside} ], [ {zero}, %{before} ]")
            for value, (kind, zero) in zip(found, otherwise, strict=True)
        ]

    # --- reads and writes ---

    def read(
        self, place: Place, tile: Tile, bounds: tuple[Index, ...], mask: HeldTile | None, spread: TileSpread
    ) -> HeldTile:
        w, spot = self.w, self.spot(place, tile.shape, bounds, spread)
        mask = held_as(mask, spread, w, self.gpu) if mask is not None else None
        if mask is None and (found := self.gpu.fragments(self, spot, spread)) is not None:
            return HeldTile(tuple(found), spread, tile.shape, tile.dtype)
        many, kind, stored = self.pieces(spot, spread, mask is not None), type_of(tile.dtype), in_memory(tile.dtype)
        values: list[str] = []
        for register in range(0, spread.count, many):

            def load(register: int = register) -> list[str]:
                address, align = self.address(spot, spread, register), many * spot.dtype.bytes
                if many == 1:
                    found = w.let(f"load {stored}, ptr addrspace({spot.space}) {address}, align {align}")
                    return [w.let(f"trunc i8 {found} to i1") if kind == "i1" else found]
                whole = w.let(f"load <{many} x {stored}>, ptr addrspace({spot.space}) {address}, align {align}")
                parts = [w.let(f"extractelement <{many} x {stored}> {whole}, i32 {each}") for each in range(many)]
                return [w.let(f"trunc i8 {each} to i1") for each in parts] if kind == "i1" else parts

            cond = self.active(spot, spread, register, mask, stores=False)
            values += self.guarded(cond, load, [(kind, number(0, tile.dtype))] * many)
        return HeldTile(tuple(values), spread, tile.shape, tile.dtype)

    def write(self, tile: HeldTile, place: Place, bounds: tuple[Index, ...], mask: HeldTile | None) -> None:
        w, spread = self.w, tile.spread
        spot = self.spot(place, tile.shape, bounds, spread)
        mask = held_as(mask, spread, w, self.gpu) if mask is not None else None
        many, kind, stored = self.pieces(spot, spread, mask is not None), tile.type, in_memory(tile.dtype)
        for register in range(0, spread.count, many):

            def store(register: int = register) -> list[str]:
                values = tile.values[register : register + many]
                if kind == "i1":
                    values = tuple(w.let(f"zext i1 {each} to i8") for each in values)
                whole, what = values[0], stored
                if many > 1:
                    what, whole = f"<{many} x {stored}>", "poison"
                    for number_, each in enumerate(values):
                        whole = w.let(f"insertelement {what} {whole}, {stored} {each}, i32 {number_}")
                address = self.address(spot, spread, register)
                w.do(f"store {what} {whole}, ptr addrspace({spot.space}) {address}, align {many * spot.dtype.bytes}")
                return []

            self.guarded(self.active(spot, spread, register, mask, stores=True), store, [])

    def add(
        self, tile: HeldTile, place: Place, bounds: tuple[Index, ...], mask: HeldTile | None, *, fetch: bool
    ) -> HeldTile | None:
        """Adds atomically, element by element."""
        w, spread = self.w, tile.spread
        spot = self.spot(place, tile.shape, bounds, spread)
        mask = held_as(mask, spread, w, self.gpu) if mask is not None else None
        how, kind = "fadd" if tile.dtype.is_float else "add", tile.type
        values: list[str] = []
        for register in range(spread.count):

            def one(register: int = register) -> list[str]:
                address = self.address(spot, spread, register)
                pointer = f"ptr addrspace({spot.space}) {address}"
                return [w.let(f"atomicrmw {how} {pointer}, {kind} {tile.values[register]} {self.gpu.scope} monotonic")]

            cond = self.active(spot, spread, register, mask, stores=True)
            values += self.guarded(cond, one, [(kind, number(0, tile.dtype))])
        if not fetch:
            return None
        free = sum(1 << place for place, bit in enumerate(spread.lanes) if bit == FREE)
        if free:  # one lane has added for all that hold the element
            first = w.int("and", self.gpu.lane, ~free)
            values = [self.gpu.from_lane(w, each, tile.dtype, first) for each in values]
        return HeldTile(tuple(values), spread, tile.shape, tile.dtype)


def _number(step: Scalar) -> int:
    assert isinstance(step, int), "shared memory has numbers for its sides"
    return step
