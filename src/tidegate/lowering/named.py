"""What the names of a program stand for while it is lowered.

Needs   tiles, places in shared memory and numbers as they are made
Gives   `LoweredValues`: each by its name; values that flow together from several blocks
Keeps   a tile is always held as its spread says
Cost    constant for each register
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidegate.index import INDEX_TYPES
from tidegate.language.ops import Operand, Value
from tidegate.language.types import FLAG, INDEX, Lds, Tile
from tidegate.lowering.choose import TileSpreads
from tidegate.lowering.gpu import Backend
from tidegate.lowering.held import HeldTile, held_as
from tidegate.lowering.ir import IrWriter, Scalar
from tidegate.lowering.scalars import KnownFacts, Scalars
from tidegate.lowering.spread import TileSpread

Start = tuple[Scalar, int, Lds]  # the first byte of a buffer, what divides that, its type
Result = Scalar | HeldTile | Start | None
Merged = list[tuple[str, str]]  # instructions that merge, each with where its values come from so far


@dataclass(slots=True)
class LoweredValues:
    """`ended`: no block follows the one at hand. `aligned`: what divides the first byte of any buffer and slot."""

    w: IrWriter
    gpu: Backend
    scalars: Scalars
    spreads: TileSpreads
    aligned: int
    tiles: dict[str, HeldTile] = field(default_factory=dict)
    offsets: dict[str, Start] = field(default_factory=dict)
    ended: bool = False

    def keep(self, value: Value, tile: HeldTile) -> None:
        self.tiles[value.name] = held_as(tile, self.spreads.of[value.name], self.w, self.gpu)

    def held(self, value: Value, spread: TileSpread) -> HeldTile:
        return held_as(self.tiles[value.name], spread, self.w, self.gpu)

    def given(self, value: Value, operand: Operand) -> Result:
        """What an operand stands for, in the form that a value has."""
        if isinstance(value.type, Tile):
            assert isinstance(operand, Value)
            return self.held(operand, self.spreads.of[value.name])
        if isinstance(value.type, Lds):
            assert isinstance(operand, Value)
            return self.offsets[operand.name]
        if value.type == FLAG and isinstance(operand, Value):
            return self.scalars.values[operand.name]
        if value.type == INDEX and isinstance(operand, INDEX_TYPES):
            return self.scalars.index(operand)
        return None

    def merge(self, value: Value, ways: list[tuple[str, Result]]) -> Merged:
        """Registers that hold a value, whichever way led here: names them, and gives each with its sources."""
        first = ways[0][1]
        made: Merged = []

        def one(kind: str, sources: list[Scalar]) -> str:
            name = self.w.fresh("m")
            texts = ", ".join(f"[ {each}, %{block} ]" for (block, _), each in zip(ways, sources, strict=True))
            made.append((f"{name} = phi {kind} ", texts))
            return name

        if isinstance(first, HeldTile):
            columns = [way.values for _, way in ways if isinstance(way, HeldTile)]
            names_ = [one(first.type, list(each)) for each in zip(*columns, strict=True)]
            self.tiles[value.name] = first.with_values(names_)
        elif isinstance(first, tuple):
            found = [way for _, way in ways if isinstance(way, tuple)]
            start = one("i32", [each[0] for each in found])
            self.offsets[value.name] = (start, self.aligned, first[2])
        elif first is not None:
            kind = "i1" if value.type == FLAG else "i32"
            sources = [each for _, each in ways if isinstance(each, int | str)]
            self.scalars.values[value.name] = one(kind, sources)
            self.scalars.facts.setdefault(value.name, KnownFacts())
        return made

    def own(self, value: Value) -> Result:
        if isinstance(value.type, Tile):
            return self.tiles[value.name]
        if isinstance(value.type, Lds):
            return self.offsets[value.name]
        return self.scalars.values.get(value.name)

    def let(self, result: Value, value: Result, source: Value) -> None:
        """A result is what another value was."""
        if isinstance(value, HeldTile):
            self.keep(result, value)
        elif isinstance(value, tuple):
            self.offsets[result.name] = value
        elif value is not None:
            self.scalars.values[result.name] = value
            self.scalars.facts[result.name] = self.scalars.facts.get(source.name, KnownFacts())


def registers_of(result: Result) -> Iterable[Scalar]:
    if isinstance(result, HeldTile):
        return result.values
    if isinstance(result, tuple):
        return (result[0],)
    return () if result is None else (result,)
