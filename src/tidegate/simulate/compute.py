"""Tile operations under a wave's environment.

Needs   a well-formed operation, and an environment with its operands
Gives   one new tile
Keeps   the environment is only read; the numbers are made in `tiles`
"""

from __future__ import annotations

from typing import assert_never

from tidegate.language.ops import (
    Broadcast,
    Cast,
    Elementwise,
    Fill,
    Iota,
    Mma,
    Reduce,
    Reshape,
    Scan,
    Splat,
    TileOp,
    Transpose,
    Value,
)
from tidegate.language.types import DType, Tile
from tidegate.simulate import tiles
from tidegate.simulate.tiles import Array
from tidegate.simulate.values import Env, NoValue, evaluate, tile_of


def compute(op: TileOp, env: Env) -> Array:
    """The tile that the operation makes."""
    kind = tile_type(op.result)
    shape, dtype = kind.shape, kind.dtype
    match op:
        case Elementwise(fn=fn, args=args):
            return tiles.elementwise(fn, tuple(tile_of(arg, env) for arg in args), tuple(map(_dtype, args)), dtype)
        case Mma(a=a, b=b, acc=acc):
            return tiles.mma(tile_of(a, env), tile_of(b, env), tile_of(acc, env), _dtype(acc), dtype)
        case Fill(value=value):
            return tiles.fill(value, shape, dtype)
        case Splat(value=index):
            return tiles.splat(evaluate(index, env, shape), shape, dtype)
        case Iota(axis=axis):
            return tiles.iota(axis, shape, dtype)
        case Cast(tile=tile):
            return tiles.convert(tile_of(tile, env), dtype)
        case Reduce(fn=fn, tile=tile, axis=axis):
            return tiles.reduce(fn, tile_of(tile, env), _dtype(tile), axis, dtype)
        case Scan(fn=fn, tile=tile, axis=axis):
            return tiles.scan(fn, tile_of(tile, env), _dtype(tile), axis, dtype)
        case Transpose(tile=tile):
            return tiles.transpose(tile_of(tile, env))
        case Broadcast(tile=tile):
            return tiles.broadcast(tile_of(tile, env), shape)
        case Reshape(tile=tile):
            return tiles.reshape(tile_of(tile, env), shape)
        case _:
            assert_never(op)


def tile_type(value: Value) -> Tile:
    if not isinstance(value.type, Tile):
        raise NoValue(f"`{value.name}` is not a tile")
    return value.type


def _dtype(value: Value) -> DType:
    return tile_type(value).dtype
