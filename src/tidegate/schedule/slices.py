"""Matrix products split along their reduction, so that every cluster has one.

Needs   a body with fewer products than clusters
Gives   the kernel with each product as a chain of shorter ones on one accumulator, whose operands are read in parts
Keeps   every element is multiplied once. The order of accumulation may change, so results may differ in the last bits
Cost    linear in the kernel

    %x = local_read %a[r, 0] : 64x64             %x_0 = local_read %a[r, 0] : 64x32     %x_1 = local_read %a[r, 32]
    %y = local_read %b[c, 0] : 64x64   becomes   %y_0 = local_read %b[c, 0] : 64x32     %y_1 = ...
    %t = transpose %y : 64x64                    %t_0 = transpose %y_0 : 32x64          %t_1 = ...
    %d = mma %x, %t, %c                          %d_0 = mma %x_0, %t_0, %c              %d = mma %x_1, %t_1, %d_0
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from tidegate.index import ZERO, Const, add
from tidegate.language import ops
from tidegate.language.ops import Block, Kernel, Op, Operand, Place, Value, map_blocks, results_of, walk_ops
from tidegate.language.types import Lds, Tile
from tidegate.language.uses import own_names, uses_of
from tidegate.schedule.body import Body, Piece, block_at
from tidegate.schedule.model import Declined


def split_products(body: Body, clusters: int) -> Kernel | Declined:
    """The kernel with as many parts of each product as the clusters ask for; as it is if there are enough products."""
    products = body.of_role("mma")
    parts = -(-clusters // len(products))
    if parts == 1:
        return body.built.kernel
    splitter = _Splitter(body, parts)
    return next((found for each in products if (found := splitter.take(each))), None) or splitter.kernel()


class _Splitter:
    """Gathers what is split: of each operation the axis of its tile along which it is."""

    def __init__(self, body: Body, parts: int) -> None:
        self.body, self.parts = body, parts
        self.made = {value.name: piece for piece in body.pieces for value in results_of(piece.op)}
        self.users: dict[str, set[int]] = defaultdict(set)
        for piece in body.pieces:
            for name in uses_of(piece.op):
                self.users[name].add(piece.number)
        self.kept = {each.name for each in block_at(body.built.kernel, body.path).yields if isinstance(each, Value)}
        self.axes: dict[int, int] = {}
        names = (value for op in walk_ops(body.built.kernel.body) for value in (*results_of(op), *own_names(op)))
        self.taken = {each.name for each in (*body.built.kernel.args, *names)}
        self.new: dict[str, list[Value]] = {}

    def take(self, product: Piece) -> Declined | None:
        """Marks a product and what makes its operands; or why it cannot be split."""
        op = product.op
        assert isinstance(op, ops.Mma)
        left, acc = op.a.type, op.acc.type
        assert isinstance(left, Tile)
        assert isinstance(acc, Tile)
        length = left.shape[1]
        shapes = self.body.target.mmas(left.dtype.name, _dtype(op.b), acc.dtype.name)
        fits = [each.k for each in shapes if acc.shape[0] % each.m == 0 and acc.shape[1] % each.n == 0]
        least = min(fits, default=1)
        if length % (self.parts * least):
            says = f"{product.name} has {length} products to add, which is no multiple of {self.parts} times {least}"
            return Declined("no-split", says, "a deeper tile, or fewer clusters", product.at)
        self.axes[product.number] = -1
        return self.operand(product, op.a, 1) or self.operand(product, op.b, 0)

    def operand(self, product: Piece, value: Value, axis: int) -> Declined | None:
        """Marks the operations that make an operand, down to where it is read from shared memory."""
        piece = self.made.get(value.name)
        op = piece.op if piece is not None else None
        if piece is None or not isinstance(op, ops.LocalRead | ops.Transpose | ops.Cast):
            return self.cannot(product, f"`{value.name}` is not read from shared memory in the loop")
        if isinstance(op, ops.LocalRead) and (op.bounds or op.mask is not None):
            return self.cannot(product, f"`{value.name}` is read with bounds")
        if self.axes.get(piece.number, axis) != axis or value.name in self.kept:
            return self.cannot(product, f"`{value.name}` is used in another way as well")
        others = [self.body.pieces[each] for each in self.users[value.name]]
        if not all(isinstance(each.op, ops.Mma | ops.Transpose | ops.Cast) for each in others):
            return self.cannot(product, f"`{value.name}` is used in another way as well")
        self.axes[piece.number] = axis
        if isinstance(op, ops.LocalRead):
            return None
        return self.operand(product, op.tile, 1 - axis if isinstance(op, ops.Transpose) else axis)

    def cannot(self, product: Piece, why: str) -> Declined:
        says = f"{product.name} cannot be split: {why}"
        return Declined("no-split", says, "as many products as clusters need no splitting", product.at)

    # --- the new kernel ---

    def kernel(self) -> Kernel:
        return replace(self.body.built.kernel, body=self.block(self.body.built.kernel.body, ()))

    def block(self, block: Block, path: tuple[int, ...]) -> Block:
        """Goes down to the loop's body, which is where operations change."""
        if path == (*self.body.path, 0):
            return replace(block, ops=tuple(each for piece in self.body.pieces for each in self.split(piece)))
        number = self.body.path[len(path)]

        def inner(inside: Block, region: int) -> Block:
            here = (*path, number, region)
            return self.block(inside, here) if (*self.body.path, 0)[: len(here)] == here else inside

        changed = list(block.ops)
        changed[number] = map_blocks(changed[number], inner)
        return replace(block, ops=tuple(changed))

    def split(self, piece: Piece) -> list[Op]:
        axis = self.axes.get(piece.number)
        op = piece.op
        if axis is None:
            return [op]
        match op:
            case ops.Mma():
                return self.chain(op)
            case ops.LocalRead(result=result, place=place):
                tiles = self.parts_of(result, axis)
                return [replace(op, result=each, place=_moved(place, axis, n, each)) for n, each in enumerate(tiles)]
            case ops.Transpose(result=result, tile=tile) | ops.Cast(result=result, tile=tile):
                found = self.parts_of(result, axis)
                return [replace(op, result=r, tile=t) for r, t in zip(found, self.new[tile.name], strict=True)]
        raise AssertionError(f"{op} is not split")

    def chain(self, op: ops.Mma) -> list[Op]:
        found: list[Op] = []
        acc = op.acc
        for number, (a, b) in enumerate(zip(self.new[op.a.name], self.new[op.b.name], strict=True)):
            result = op.result if number == self.parts - 1 else Value(self.fresh(op.result.name), op.result.type)
            found.append(replace(op, result=result, a=a, b=b, acc=acc))
            acc = result
        return found

    def parts_of(self, value: Value, axis: int) -> list[Value]:
        assert isinstance(value.type, Tile)
        shape = list(value.type.shape)
        shape[axis] //= self.parts
        part = replace(value.type, shape=tuple(shape))
        self.new[value.name] = [Value(self.fresh(value.name), part) for _ in range(self.parts)]
        return self.new[value.name]

    def fresh(self, name: str) -> str:
        number = 0
        while f"{name}_{number}" in self.taken:
            number += 1
        self.taken.add(f"{name}_{number}")
        return f"{name}_{number}"


def _dtype(value: Operand) -> str:
    return value.type.dtype.name if isinstance(value, Value) and isinstance(value.type, Tile) else ""


def _moved(place: Place, axis: int, number: int, part: Value) -> Place:
    """The place of a part: so many parts further along an axis of the tile."""
    assert isinstance(place.base.type, Lds)
    assert isinstance(part.type, Tile)
    rank = len(place.base.type.shape)
    index = [*place.index, *(ZERO for _ in range(rank - len(place.index)))]
    at = rank - len(part.type.shape) + axis
    index[at] = add(index[at], Const(number * part.type.shape[axis]))
    return replace(place, index=tuple(index))
