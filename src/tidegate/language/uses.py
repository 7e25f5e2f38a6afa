"""Which names an operation reads, and which places it touches.

Needs   one operation
Gives   the names of the values it uses, and its places, in the order of its fields, regions not included
Keeps   every name that the operation reads, also in its places and bounds
Cost    linear in the operation's own text
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any

from tidegate.index import COND_TYPES, INDEX_TYPES, Index, names
from tidegate.language import ops
from tidegate.language.ops import Block, Carried, Iterate, Kernel, Op, Place, Value, blocks_of, results_of, walk_ops
from tidegate.language.types import Tile

# What an operation defines, and where it stands; regions are skipped by their type.
_OWN = ("result", "results", "counter", "at")


def uses_of(op: Op) -> Iterator[str]:
    """Values (`%a`) and other names (`wave`, `K`) that the operation itself reads."""
    cls: Any = type(op)
    for get in _getters(cls):
        yield from _names(get(op))


@cache
def _getters(cls: Any) -> tuple[Callable[[Any], Any], ...]:
    return tuple(attrgetter(each.name) for each in fields(cls) if each.name not in _OWN)


def _names(item: object) -> Iterator[str]:
    if isinstance(item, Value):
        yield item.name
    elif isinstance(item, (*INDEX_TYPES, *COND_TYPES)):
        yield from names(item)
    elif isinstance(item, Place):
        yield item.base.name
        yield from names(item.slot)
        for each in item.index:
            yield from names(each)
    elif isinstance(item, Carried):
        yield from _names(item.init)
    elif isinstance(item, tuple):
        for each in item:
            yield from _names(each)


def places_of(op: Op) -> Iterator[tuple[Place, tuple[int, ...], tuple[Index, ...]]]:
    """Every place that an operation touches, with the shape of the tile there and the bounds that mask it."""
    match op:
        case ops.GlobalRead() | ops.LocalRead() if isinstance(op.result.type, Tile):
            yield op.place, op.result.type.shape, op.bounds
        case ops.GlobalWrite() | ops.LocalWrite() | ops.AtomicAdd() if isinstance(op.tile.type, Tile):
            yield op.place, op.tile.type.shape, op.bounds
        case ops.ReadIndex():
            yield op.place, (), ()
        case ops.View():
            yield op.place, (), ()
        case ops.GatherToLds() | ops.TensorLoadToLds():
            yield op.source, op.tile.shape, op.bounds
            yield op.dest, op.tile.shape, ()
        case ops.LdsToGlobal():
            yield op.source, op.tile.shape, ()
            yield op.dest, op.tile.shape, op.bounds


def names_in_block(block: Block) -> set[str]:
    """Every name that is read anywhere in a region, its `yield` included."""
    found: set[str] = set()
    stack = [block]
    while stack:
        current = stack.pop()
        found.update(_names(current.yields))
        for op in current.ops:
            found.update(uses_of(op))
            stack.extend(blocks_of(op))
    return found


def names_in_kernel(kernel: Kernel) -> set[str]:
    """All names that a kernel gives to values: its arguments, results, counters and what loops carry."""
    made = (value for op in walk_ops(kernel.body) for value in (*results_of(op), *own_names(op)))
    return {value.name for value in (*kernel.args, *made)}


def own_names(op: Op) -> tuple[Value, ...]:
    """Names that belong to the body of a loop: its counter and what it carries."""
    return (op.counter, *(each.value for each in op.carried)) if isinstance(op, Iterate) else ()
