"""Tiles in registers: who holds what, and how a tile moves between lanes.

Needs   values of a tile, one for each register of a lane
Gives   `HeldTile`; the same tile held otherwise
Keeps   a tile that only changes registers costs nothing; lanes that hold the same elements hold the same values
Cost    a cross-lane move for each register that changes lanes, times the registers that lanes choose from
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.language.types import DType
from tidegate.lowering.gpu import Backend
from tidegate.lowering.ir import IrWriter, Scalar, type_of
from tidegate.lowering.spread import FREE, Shape, TileSpread


@dataclass(frozen=True, slots=True)
class HeldTile:
    """A tile: value r of `values` is that of register r, in every lane."""

    values: tuple[str, ...]
    spread: TileSpread
    shape: Shape
    dtype: DType

    @property
    def type(self) -> str:
        return type_of(self.dtype)

    def with_values(self, values: list[str]) -> HeldTile:
        return replace(self, values=tuple(values))


def lane_bits(w: IrWriter, lane: Scalar, spread: TileSpread, bits: range) -> Scalar:
    """The part of a coordinate that the lane decides: the bits of the element's number in `bits`, from 0 on."""
    found: Scalar = 0
    for place, bit in enumerate(spread.lanes):
        if bit in bits:
            one = w.int("and", w.int("lshr", lane, place), 1)
            found = w.int("or", found, w.int("shl", one, bits.index(bit)))
    return found


def held_as(tile: HeldTile, wanted: TileSpread, w: IrWriter, gpu: Backend) -> HeldTile:
    """The same tile, held as `wanted`."""
    have = tile.spread
    if have == wanted:
        return tile
    of_lanes = {bit: place for place, bit in enumerate(wanted.lanes) if bit != FREE}
    of_regs = {bit: place for place, bit in enumerate(wanted.regs)}
    choosing = [place for place, bit in enumerate(have.regs) if bit in of_lanes]
    # Each lane of a copy finds its own: where the source's lane does not matter, it is the lane itself.
    stays = all(bit in (FREE, wanted.lanes[place]) for place, bit in enumerate(have.lanes))
    made = []
    for register in range(wanted.count):
        fixed = sum(
            1 << place for place, bit in enumerate(have.regs) if bit in of_regs and register >> of_regs[bit] & 1
        )
        source = gpu.lane if stays else _source_lane(w, gpu.lane, have, wanted, of_lanes, of_regs, register)
        found = ""
        for choice in range(1 << len(choosing)):
            chosen = fixed | sum(1 << place for number, place in enumerate(choosing) if choice >> number & 1)
            value = tile.values[chosen]
            value = value if stays else gpu.from_lane(w, value, tile.dtype, source)
            if not choice:
                found = value
                continue
            tests = [
                w.compare(
                    "eq", w.int("and", w.int("lshr", gpu.lane, of_lanes[have.regs[place]]), 1), choice >> number & 1
                )
                for number, place in enumerate(choosing)
            ]
            found = w.once(f"select i1 {w.both(tests)}, {tile.type} {value}, {tile.type} {found}")
        made.append(found)
    return HeldTile(tuple(made), wanted, tile.shape, tile.dtype)


def _source_lane(
    w: IrWriter,
    lane: Scalar,
    have: TileSpread,
    wanted: TileSpread,
    of_lanes: dict[int, int],
    of_regs: dict[int, int],
    register: int,
) -> Scalar:
    """The lane that holds what a lane wants in one of its registers."""
    found: Scalar = 0
    for place, bit in enumerate(have.lanes):
        if bit in of_regs:
            found = w.int("or", found, (register >> of_regs[bit] & 1) << place)
        else:  # of copies each lane asks the one that has its own number there
            one = w.int("and", w.int("lshr", lane, of_lanes.get(bit, place)), 1)
            found = w.int("or", found, w.int("shl", one, place))
    return found


def moved(tile: HeldTile, spread: TileSpread, shape: Shape) -> HeldTile:
    """The same registers, with other numbers of elements: a transposed or reshaped tile."""
    return HeldTile(tile.values, spread, shape, tile.dtype)
