"""Who holds which element of each tile of a kernel.

Needs   a kernel, and what the target's matrix instructions ask for
Gives   a `TileSpread` for each tile by name; one for each shape and element type in shared memory
Keeps   values that flow into each other are held alike. A tile of one shape and element type has one map from lanes to
        elements wherever it is in shared memory: proofs of "each lane keeps to its own bytes" rely on that
Cost    linear in the operations, for each group of values that flow into each other

Accumulators come first, then what is multiplied, then whatever is loaded or stored. Transposed, reshaped, repeated and
folded tiles follow those they are made of, or are made into.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from math import prod

from tidegate.language import ops
from tidegate.language.ops import Kernel, Value, walk_ops
from tidegate.language.types import Tile
from tidegate.lowering.gpu import Backend
from tidegate.lowering.spread import Shape, TileSpread, in_blocks, in_rows, narrowed, padded, transposed

Change = Callable[[TileSpread], TileSpread]


@dataclass(slots=True)
class TileSpreads:
    """`of`: by the name of a tile. `in_shared`: by shape and element type."""

    of: dict[str, TileSpread] = field(default_factory=dict)
    in_shared: dict[tuple[Shape, str], TileSpread] = field(default_factory=dict)


@dataclass(slots=True)
class _Chooser:
    kernel: Kernel
    gpu: Backend
    by_lanes: bool  # conditions name lanes: then a lane's elements are those that the language gives it
    same: dict[str, str] = field(default_factory=dict)  # a value → another that is held alike
    tiles: dict[str, Tile] = field(default_factory=dict)
    follows: list[tuple[str, str, Change]] = field(default_factory=list)  # from one's spread to another's
    found: dict[str, TileSpread] = field(default_factory=dict)

    def root(self, name: str) -> str:
        while (up := self.same.get(name, name)) != name:
            name = up
        return name

    def alike(self, *values: object) -> None:
        named = [each for each in values if isinstance(each, Value) and isinstance(each.type, Tile)]
        for each in named[1:]:
            a, b = self.root(named[0].name), self.root(each.name)
            if a != b and self.tiles[a].shape == self.tiles[b].shape:
                self.same[b] = a

    def follow(self, one: Value, other: Value, change: Change) -> None:
        self.follows.append((one.name, other.name, change))

    def collect(self) -> None:
        for op in walk_ops(self.kernel.body):
            for value in _tiles_of(op):
                assert isinstance(value.type, Tile)
                self.tiles.setdefault(value.name, value.type)
        for op in walk_ops(self.kernel.body):
            self.link(op)

    def link(self, op: ops.Op) -> None:
        match op:
            case ops.Elementwise(result, _, args):
                self.alike(result, *args)
            case ops.Cast(result, tile) | ops.Scan(result, _, tile):
                self.alike(result, tile)
            case ops.Iterate(results=results, carried=carried, body=body):
                for result, each, yielded in zip(results, carried, body.yields, strict=False):
                    self.alike(each.value, each.init, yielded, result)
            case ops.Conditional(results=results, then=then, otherwise=otherwise):
                for result, one, other in zip(results, then.yields, otherwise.yields, strict=False):
                    self.alike(result, one, other)
            case ops.Mma(result, _, _, acc):
                self.alike(acc, result)
            case (
                ops.LocalRead(result=Value() as tile, mask=Value() as mask)
                | ops.LocalWrite(tile=tile, mask=Value() as mask)
            ):
                self.alike(tile, mask)
            case ops.Transpose(result, tile):
                self.follow(tile, result, partial(transposed, shape=_shape(tile)))
                self.follow(result, tile, partial(transposed, shape=_shape(result)))
            case ops.Reshape(result, tile):
                self.follow(tile, result, lambda have: have)
                self.follow(result, tile, lambda have: have)
            case ops.Reduce(result, _, tile) | ops.Broadcast(tile, result):
                self.follow(tile, result, partial(narrowed, wide=_shape(tile), narrow=_shape(result)))

    def settle(self, name: str, spread: TileSpread) -> None:
        """A group of values gets its spread, unless it has one; what follows from it gets its own."""
        todo = [(name, spread)]
        while todo:
            name, spread = todo.pop()
            root = self.root(name)
            if root in self.found:
                continue
            self.found[root] = spread
            todo += [(to, change(spread)) for one, to, change in self.follows if self.root(one) == root]

    def choose(self) -> None:
        if not self.by_lanes:
            products = [op for op in walk_ops(self.kernel.body) if isinstance(op, ops.Mma)]
            held = [(each, self.gpu.product(_tile(each.a), _tile(each.b), _tile(each.acc))) for each in products]
            for each, product in held:
                if product is not None:
                    self.settle(each.result.name, product.acc)
            for each, product in held:
                if product is not None:
                    self.settle(each.a.name, product.a)
                    self.settle(each.b.name, product.b)
        moved = (ops.GlobalRead, ops.LocalRead, ops.GlobalWrite, ops.LocalWrite, ops.AtomicAdd)
        for op in walk_ops(self.kernel.body):
            if isinstance(op, moved):
                value = op.result if isinstance(op, ops.GlobalRead | ops.LocalRead) else op.tile
                self.settle(value.name, self.plain(_tile(value)))
        for name, tile in sorted(self.tiles.items(), key=lambda each: -prod(each[1].shape)):
            self.settle(name, self.plain(tile))

    def plain(self, tile: Tile) -> TileSpread:
        if self.by_lanes:
            return in_blocks(tile.shape, self.gpu.lanes)
        return in_rows(tile.shape, tile.dtype.bytes, self.gpu.lanes)

    def spreads(self) -> TileSpreads:
        """One map in shared memory for each shape and type: that of what is read first, for it feeds the most."""
        found = TileSpreads({name: self.found[self.root(name)] for name in self.tiles})
        for kind in (ops.LocalRead, ops.LocalWrite | ops.AtomicAdd):
            for op in walk_ops(self.kernel.body):
                if isinstance(op, kind):
                    value = op.result if isinstance(op, ops.LocalRead) else op.tile
                    tile = _tile(value)
                    found.in_shared.setdefault((tile.shape, tile.dtype.name), found.of[value.name])
        return found


def choose_spreads(kernel: Kernel, gpu: Backend, *, by_lanes: bool) -> TileSpreads:
    chooser = _Chooser(kernel, gpu, by_lanes)
    chooser.collect()
    chooser.choose()
    return chooser.spreads()


def _tiles_of(op: ops.Op) -> Iterator[Value]:
    own = [each.value for each in op.carried] if isinstance(op, ops.Iterate) else []
    for value in (*ops.results_of(op), *own):
        if isinstance(value.type, Tile):
            yield value


def _tile(value: Value) -> Tile:
    assert isinstance(value.type, Tile)
    return value.type


def _shape(value: Value) -> Shape:
    return _tile(value).shape


def is_padded(tile: Tile) -> bool:
    return padded(tile.shape) != tile.shape
