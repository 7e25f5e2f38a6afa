"""Which lane of a wave touches which byte, as far as the kernel language fixes it.

Needs   a kernel, and its accesses to shared memory
Gives   tiles whose map from lanes to elements something else decides; a name for the map of all others
Keeps   one name means one map: a tile of one shape and element type has one canonical map from lanes to elements, each
        element has one lane, and where the element lies is told by the strides of its memory
Cost    linear in the kernel

    tile<16x64xf32> in lds<16x68xf32>      "16x64xf32 by 272, 4"
    a tile that a matrix product reads     "": its map is that of the matrix instruction
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from tidegate.language import ops
from tidegate.language.ops import Kernel, Op, Value, blocks_of, results_of, walk_ops
from tidegate.language.types import Lds, Tile, strides

# Operations that may hand on the map of one tile to another.
HAND_ON = (ops.Elementwise, ops.Cast, ops.Reduce, ops.Scan, ops.Broadcast, ops.Reshape, ops.Transpose, ops.Mma)


def lanes_of(op: Op, own_maps: Container[str]) -> str:
    """The name of the canonical map of an ordinary access to shared memory; empty if something else decides the map."""
    if not isinstance(op, ops.LocalRead | ops.LocalWrite | ops.AtomicAdd):
        return ""
    value = op.result if isinstance(op, ops.LocalRead) else op.tile
    tile, memory = value.type, op.place.base.type
    if value.name in own_maps or not isinstance(tile, Tile) or not isinstance(memory, Lds):
        return ""
    steps = strides(memory.shape, memory.dtype.bytes)[len(memory.shape) - len(tile.shape) :]
    return f"{'x'.join(map(str, tile.shape))}x{tile.dtype.name} by {', '.join(map(str, steps))}"


def tiles_with_own_maps(kernel: Kernel) -> frozenset[str]:
    """Tiles that have to do with a matrix product or a transposition, through whatever hands a map on.

    Reductions and reshapes count as well: a lowering may leave their results where their operands were.
    """
    leader: dict[str, str] = {}

    def find(name: str) -> str:
        while leader.setdefault(name, name) != name:
            leader[name] = name = leader[leader[name]]
        return name

    decided: list[str] = []
    for op in walk_ops(kernel.body):
        for tied in _tied(op):
            for name in tied[1:]:
                leader[find(name)] = find(tied[0])
            if isinstance(op, ops.Mma | ops.Transpose):
                decided.append(tied[0])
    fixed = {find(name) for name in decided}
    return frozenset(name for name in leader if find(name) in fixed)


def _tied(op: Op) -> Iterator[list[str]]:
    """Names of tiles that may have one map."""
    if isinstance(op, HAND_ON):
        operands = op.args if isinstance(op, ops.Elementwise) else _operands(op)
        yield [op.result.name, *(each.name for each in operands)]
    for number, result in enumerate(results_of(op) if isinstance(op, ops.Iterate | ops.Conditional) else ()):
        handed = [block.yields[number] for block in blocks_of(op)]
        if isinstance(op, ops.Iterate):
            handed += [op.carried[number].value, op.carried[number].init]
        tiles = [each.name for each in (result, *handed) if isinstance(each, Value) and isinstance(each.type, Tile)]
        if tiles:
            yield tiles


def _operands(op: Op) -> tuple[Value, ...]:
    match op:
        case ops.Mma():
            return op.a, op.b, op.acc
        case ops.Cast() | ops.Reduce() | ops.Scan() | ops.Broadcast() | ops.Reshape() | ops.Transpose():
            return (op.tile,)
    return ()
