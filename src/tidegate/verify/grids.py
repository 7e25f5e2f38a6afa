"""Where the elements of atomics begin: the remainder of their addresses by the size of an element.

Needs   a graph
Gives   point of an atomic → that remainder, if it is one number in all waves and iterations
Keeps   nothing is assumed of names: only multiples of the size, and sums of what is known, have a remainder
Cost    linear in the expressions, times the views that depend on each other

    atomic %a[0, wave * 4 + 8] ... element f32        0
    atomic %a[0, wave * 6] ... element f32            none: wave 1 adds across the elements of wave 0
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidegate.graph import model as g
from tidegate.index import Binary, Const, Index, Inexact, Select
from tidegate.language.types import DTYPES

# A view, and what it may stand for.
Given = tuple[str, g.Where]


def find_grids(graph: g.SyncGraph) -> dict[int, int]:
    found: dict[int, int] = {}
    tables: dict[int, _Places] = {}
    for number, point in enumerate(graph.points):
        access = point.action
        if not isinstance(access, g.Access) or access.element not in DTYPES:
            continue
        size, foot = DTYPES[access.element].bytes, access.footprint
        if foot.width % size or any(each.count > 1 and each.stride % size for each in foot.extents):
            continue
        if size not in tables:
            tables[size] = _Places(graph, size)
        begins = tables[size].of(foot.place)
        if begins is not None:
            found[number] = begins
    return found


class _Places:
    """Remainders of places by one size."""

    def __init__(self, graph: g.SyncGraph, size: int) -> None:
        self.size = size
        self.buffers = {buffer.name: buffer for buffer in graph.buffers}
        self.views: dict[str, int | None] = {}  # those of which nothing is known yet are left out
        given = list(_given(graph))
        changed = True
        while changed:
            changed = False
            for name, where in given:
                if self.is_open(where):
                    continue
                now = self.of(where)
                joined = now if name not in self.views or self.views[name] == now else None
                if name not in self.views or self.views[name] != joined:
                    self.views[name] = joined
                    changed = True

    def is_open(self, where: g.Where) -> bool:
        """Whether it depends on a view that nothing has been assigned to yet."""
        if isinstance(where, g.Either):
            return self.is_open(where.then) or self.is_open(where.otherwise)
        return where.base not in self.buffers and where.base not in self.views

    def of(self, where: g.Where) -> int | None:
        if isinstance(where, g.Either):
            then, otherwise = self.of(where.then), self.of(where.otherwise)
            return then if then == otherwise else None
        buffer = self.buffers.get(where.base)
        if buffer is None:
            return self.sum(self.views.get(where.base), remainder(where.offset, self.size))
        slots = remainder(Binary("*", where.slot, Const(buffer.slot_bytes)), self.size)
        within = self.sum(slots, remainder(where.offset, self.size))
        return self.sum((buffer.offset or 0) % self.size, within)

    def sum(self, one: int | None, other: int | None) -> int | None:
        return None if one is None or other is None else (one + other) % self.size


def _given(graph: g.SyncGraph) -> Iterator[Given]:
    """Everything that any view is assigned anywhere."""
    for point in graph.points:
        pairs: Mapping[str, object] = {}
        match point.action:
            case g.Assign(pairs_):
                pairs = dict(pairs_)
            case g.Call(args=args):
                pairs = dict(args)
        for name, value in pairs.items():
            if isinstance(value, g.Ref | g.Either):
                yield name, value


def remainder(index: Index, size: int) -> int | None:
    """Of an index by a size, if it is the same whatever its names stand for."""
    match index:
        case Const(value):
            return value % size
        case Inexact(inner):
            return remainder(inner, size)
        case Select(_, then, otherwise):
            one, other = remainder(then, size), remainder(otherwise, size)
            return one if one == other else None
        case Binary(op, left, right):
            return _binary(op, left, right, size)
    return 0 if size == 1 else None


def _binary(op: str, left: Index, right: Index, size: int) -> int | None:
    one, other = remainder(left, size), remainder(right, size)
    if op == "*" and 0 in (one, other):
        return 0
    if op == "mod" and isinstance(right, Const) and right.value and right.value % size == 0:
        return one
    if one is None or other is None:
        return 0 if size == 1 else None
    if op in ("min", "max"):
        return one if one == other else None
    signs = {"+": one + other, "-": one - other, "*": one * other}
    return signs[op] % size if op in signs else 0 if size == 1 else None
