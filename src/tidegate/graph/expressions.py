"""The expressions that a point evaluates.

Needs   a point of a graph
Gives   its conditions and indices: those of its places, of what it assigns, of what it branches on
Cost    linear in the point
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.graph import model as g
from tidegate.index import INDEX_TYPES, Cond, Index
from tidegate.language import ops


def expressions_of(point: g.Point) -> Iterator[Index | Cond]:
    match point.action:
        case g.Branch(cond) if cond is not None:
            yield cond
        case g.Assign(pairs):
            yield from (value for _, value in pairs if isinstance(value, INDEX_TYPES))
            for _, value in pairs:
                yield from _of_place(value)
        case g.Call(_, args):
            for _, where in args:
                yield from _of_place(where)
        case g.Access(footprint=foot):
            yield from _of_place(foot.place)
            yield from (extent.limit for extent in foot.extents if extent.limit is not None)
        case _:
            pass
    yield from barrier_expressions(point)


def barrier_expressions(point: g.Point) -> Iterator[Index]:
    """What decides which slot of an mbarrier a point uses, and which phase."""
    match point.action:
        case g.Access(mbarrier=told) if told is not None:
            yield told.slot
        case g.Sync(ops.MbarrierArrive(barrier=place)):
            yield place.slot
        case g.Sync(ops.MbarrierWait(barrier=place, parity=parity)):
            yield place.slot
            yield parity
        case _:
            pass


def _of_place(value: object) -> Iterator[Index | Cond]:
    match value:
        case g.Ref(_, slot, offset):
            yield slot
            yield offset
        case g.Either(cond, then, otherwise):
            yield cond
            yield from _of_place(then)
            yield from _of_place(otherwise)
