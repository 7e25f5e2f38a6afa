"""Whether two atomics do the same to the same elements, so that their order makes no difference.

Needs   a graph
Gives   for a pair of atomics, whether they commute: one operator that commutes, one type of elements, at the same
        boundaries, and nobody uses what they fetch
Keeps   an address is a constant and any multiple of the greatest common divisor of all that is added to it; what is
        not known is a multiple of 1. An atomic without a type commutes with none, not even with itself in another wave
Cost    linear in the expressions of atomics and views, once
"""

from __future__ import annotations

from math import gcd

from tidegate.graph import model as g
from tidegate.index import Binary, Const, Index, Inexact, Select, constant
from tidegate.language.types import DTYPES

# A constant, and what every difference from it is a multiple of: 0 if there is none.
Sum = tuple[int, int]
UNKNOWN: Sum = (0, 1)
# Views are followed so often through each other; those that still change are not known.
MOST_ROUNDS = 8


class Elements:
    """The elements of all atomics of a graph."""

    def __init__(self, graph: g.SyncGraph) -> None:
        self.buffers = {each.name: each for each in graph.buffers}
        self.views: dict[str, Sum] = {}
        self.begins: dict[g.Access, int | None] = {}
        if any(isinstance(point.action, g.Access) and point.action.element for point in graph.points):
            self.follow_views(graph)

    def commute(self, one: g.Access, other: g.Access) -> bool:
        if (one.operator, one.element) != (other.operator, other.element) or one.operator not in g.COMMUTING:
            return False
        if one.fetches or other.fetches:
            return False
        first, second = self.begin(one), self.begin(other)
        return first is not None and first == second

    def begin(self, atomic: g.Access) -> int | None:
        """Where its elements begin, modulo their size; None if that differs, or is not known."""
        if atomic not in self.begins:
            self.begins[atomic] = self.find_begin(atomic)
        return self.begins[atomic]

    def find_begin(self, atomic: g.Access) -> int | None:
        if atomic.element not in DTYPES:
            return None
        size, foot = DTYPES[atomic.element].bytes, atomic.footprint
        first, step = self.place(foot.place)
        apart = gcd(step, foot.width, *(extent.stride for extent in foot.extents if extent.count > 1))
        return first % size if apart % size == 0 else None

    def place(self, where: g.Where) -> Sum:
        match where:
            case g.Either(_, then, otherwise):
                return _either(self.place(then), self.place(otherwise))
            case g.Ref(base, slot, offset) if base in self.buffers:
                buffer = self.buffers[base]
                start = _plus((buffer.offset or 0, 0), _times(_sum(slot), buffer.slot_bytes))
                return _plus(start, _sum(offset))
            case g.Ref(base, _, offset):
                return _plus(self.views.get(base, UNKNOWN), _sum(offset))

    def follow_views(self, graph: g.SyncGraph) -> None:
        """What views stand for, from all that is assigned to them: one that is not assigned yet says nothing."""
        given: list[tuple[str, g.Where]] = []
        for point in graph.points:
            match point.action:
                case g.Assign(pairs):
                    given += [(name, value) for name, value in pairs if isinstance(value, g.Ref | g.Either)]
                case g.Call(args=args):
                    given += args
        for _ in range(MOST_ROUNDS):
            before = dict(self.views)
            for name, where in given:
                if all(base in self.buffers or base in self.views for base in _bases(where)):
                    now = self.place(where)
                    self.views[name] = _either(self.views[name], now) if name in self.views else now
            if self.views == before:
                return
        self.views = {}


def _bases(where: g.Where) -> list[str]:
    return [where.base] if isinstance(where, g.Ref) else [*_bases(where.then), *_bases(where.otherwise)]


def _sum(index: Index) -> Sum:
    match index:
        case Const(value):
            return value, 0
        case Inexact(inner):
            return _sum(inner)
        case Select(_, then, otherwise):
            return _either(_sum(then), _sum(otherwise))
        case Binary("+", left, right):
            return _plus(_sum(left), _sum(right))
        case Binary("-", left, right):
            return _plus(_sum(left), _times(_sum(right), -1))
        case Binary("*", left, right):
            by = constant(right)
            if by is None:
                left, by = right, constant(left)
            return UNKNOWN if by is None else _times(_sum(left), by)
        case Binary("mod", left, right) if (by := constant(right)) is not None:
            return _plus(_sum(left), (0, by))
        case Binary("min" | "max", left, right):
            return _either(_sum(left), _sum(right))
    return UNKNOWN


def _plus(one: Sum, other: Sum) -> Sum:
    return one[0] + other[0], gcd(one[1], other[1])


def _times(one: Sum, by: int) -> Sum:
    return one[0] * by, abs(one[1] * by)


def _either(one: Sum, other: Sum) -> Sum:
    return one[0], gcd(one[1], other[1], one[0] - other[0])
