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
from tidegate.language.ops import Block, Kernel, Op, Operand, Place, Value, map_blocks, results_of
from tidegate.language.types import Lds, Tile
from tidegate.language.uses import names_in_kernel, uses_of
from tidegate.scheduling.body import Body, Piece, block_at
from tidegate.scheduling.model import Declined


def split_products(body: Body, clusters: int) -> Kernel | Declined:
    """The kernel with at least as many products as clusters; as it is if it has enough.

    The largest parts are split further until there are enough.
    """
    products = body.of_role("mma")
    parts = {each.number: 1 for each in products}
    refused: Declined | None = None
    while sum(parts.values()) < clusters:
        for product in sorted(products, key=lambda each: _depth(each) / parts[each.number], reverse=True):
            more = {**parts, product.number: _next(body, product, parts[product.number])}
            found = _Splitter(body, more).take_all()
            if found is None:
                parts = more
                break
            refused = refused or found
        else:
            assert refused is not None
            return refused
    if all(each == 1 for each in parts.values()):
        return body.built.kernel
    splitter = _Splitter(body, parts)
    splitter.take_all()
    return splitter.kernel()


def _next(body: Body, product: Piece, parts: int) -> int:
    """The next number of parts into which a product may be cut, by its depth; else one that does not fit."""
    units = _depth(product) // _least(body, product)
    return next((each for each in range(parts + 1, units + 1) if units % each == 0), parts + 1)


def _least(body: Body, product: Piece) -> int:
    """How deep the shortest matrix instruction for a product is."""
    op = product.op
    assert isinstance(op, ops.Mma)
    assert isinstance(op.acc.type, Tile)
    rows, columns = op.acc.type.shape
    shapes = body.target.mmas(_dtype(op.a), _dtype(op.b), _dtype(op.acc))
    return min((each.k for each in shapes if rows % each.m == 0 and columns % each.n == 0), default=1)


def _depth(product: Piece) -> int:
    """How many numbers a product adds up for each of its elements."""
    op = product.op
    assert isinstance(op, ops.Mma)
    assert isinstance(op.a.type, Tile)
    return op.a.type.shape[1]


class _Splitter:
    """Gathers what is split: of each operation the axis of its tile along which it is, and into how many parts."""

    def __init__(self, body: Body, parts: dict[int, int]) -> None:
        self.body, self.parts = body, parts
        self.made = {value.name: piece for piece in body.pieces for value in results_of(piece.op)}
        self.users: dict[str, set[int]] = defaultdict(set)
        for piece in body.pieces:
            for name in uses_of(piece.op):
                self.users[name].add(piece.number)
        self.kept = {each.name for each in block_at(body.built.kernel, body.path).yields if isinstance(each, Value)}
        self.cuts: dict[int, tuple[int, int]] = {}
        self.taken = names_in_kernel(body.built.kernel)
        self.new: dict[str, list[Value]] = {}

    def take_all(self) -> Declined | None:
        """Marks all products that are split; or why one cannot be."""
        split = [self.body.pieces[number] for number, parts in self.parts.items() if parts > 1]
        return next((found for each in split if (found := self.take(each))), None) or self.shared()

    def take(self, product: Piece) -> Declined | None:
        """Marks a product and what makes its operands; or why it cannot be split."""
        op, parts = product.op, self.parts[product.number]
        assert isinstance(op, ops.Mma)
        depth, least = _depth(product), _least(self.body, product)
        if depth % (parts * least):
            says = f"{product.name} adds up {depth}, which cannot be cut into {parts} multiples of {least}"
            return Declined("no-split", says, "a deeper tile, or fewer clusters", product.at)
        self.cuts[product.number] = (-1, parts)
        return self.operand(product, op.a, 1, parts) or self.operand(product, op.b, 0, parts)

    def operand(self, product: Piece, value: Value, axis: int, parts: int) -> Declined | None:
        """Marks the operations that make an operand, down to where it is read from shared memory."""
        piece = self.made.get(value.name)
        op = piece.op if piece is not None else None
        if piece is None or not isinstance(op, ops.LocalRead | ops.Transpose | ops.Cast):
            return self.cannot(product, f"`{value.name}` is not read from shared memory in the loop")
        if isinstance(op, ops.LocalRead) and (op.bounds or op.mask is not None):
            return self.cannot(product, f"`{value.name}` is read with bounds")
        if self.cuts.get(piece.number, (axis, parts)) != (axis, parts) or value.name in self.kept:
            return self.cannot(product, f"`{value.name}` is used in another way as well")
        self.cuts[piece.number] = (axis, parts)
        if isinstance(op, ops.LocalRead):
            return None
        return self.operand(product, op.tile, 1 - axis if isinstance(op, ops.Transpose) else axis, parts)

    def shared(self) -> Declined | None:
        """Every use of a value that is cut must be cut, too."""
        for number, (axis, _) in self.cuts.items():
            for value in results_of(self.body.pieces[number].op) if axis >= 0 else ():
                if not self.users[value.name] <= self.cuts.keys():
                    return self.cannot(self.body.pieces[number], f"`{value.name}` is used in another way as well")
        return None

    def cannot(self, piece: Piece, why: str) -> Declined:
        says = f"{piece.name} cannot be split: {why}"
        return Declined("no-split", says, "as many products as clusters need no splitting", piece.at)

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
        op = piece.op
        if piece.number not in self.cuts:
            return [op]
        axis, parts = self.cuts[piece.number]
        match op:
            case ops.Mma():
                return self.chain(op, parts)
            case ops.LocalRead(result=result, place=place):
                tiles = self.parts_of(result, axis, parts)
                return [replace(op, result=each, place=_moved(place, axis, n, each)) for n, each in enumerate(tiles)]
            case ops.Transpose(result=result, tile=tile) | ops.Cast(result=result, tile=tile):
                found = self.parts_of(result, axis, parts)
                return [replace(op, result=r, tile=t) for r, t in zip(found, self.new[tile.name], strict=True)]
        raise AssertionError(f"{op} is not split")

    def chain(self, op: ops.Mma, parts: int) -> list[Op]:
        found: list[Op] = []
        acc = op.acc
        for number, (a, b) in enumerate(zip(self.new[op.a.name], self.new[op.b.name], strict=True)):
            result = op.result if number == parts - 1 else Value(self.fresh(op.result.name), op.result.type)
            found.append(replace(op, result=result, a=a, b=b, acc=acc))
            acc = result
        return found

    def parts_of(self, value: Value, axis: int, parts: int) -> list[Value]:
        assert isinstance(value.type, Tile)
        shape = list(value.type.shape)
        shape[axis] //= parts
        part = replace(value.type, shape=tuple(shape))
        self.new[value.name] = [Value(self.fresh(value.name), part) for _ in range(parts)]
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
