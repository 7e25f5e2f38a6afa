"""What the expressions of a graph depend on, and where.

Needs   a well-formed graph
Gives   for points: the expressions they evaluate, the conditions they test and those they stand under
        for names: which are assigned, unknown, steer waves, differ between waves, or have one meaning everywhere
Cost    linear in the graph, for conditions around points times the nesting
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.graph import model as g
from tidegate.graph.expressions import barrier_expressions, expressions_of
from tidegate.graph.joins import find_joins
from tidegate.index import (
    COND_TYPES,
    INDEX_TYPES,
    LANE,
    Binary,
    Compare,
    Cond,
    Const,
    Index,
    Not,
    Select,
    names,
    substitute,
    walk,
)


def assigned_names(graph: g.SyncGraph) -> set[str]:
    found: set[str] = set()
    for point in graph.points:
        match point.action:
            case g.Assign(pairs):
                found.update(name for name, _ in pairs)
            case g.Havoc(given):
                found.update(given)
    return found


def unknown_names(graph: g.SyncGraph) -> list[str]:
    return list(
        dict.fromkeys(
            name for point in graph.points if isinstance(point.action, g.Havoc) for name in point.action.names
        )
    )


def steering_names(graph: g.SyncGraph) -> set[str]:
    """Names on which it depends where a wave goes or which barrier it uses; others only say which bytes it touches."""
    found: set[str] = set()
    for point in graph.points:
        if isinstance(point.action, g.Branch) and point.action.cond is not None:
            found.update(names(point.action.cond))
        found.update(name for expr in barrier_expressions(point) for name in names(expr))
    return _with_sources(graph, found)


def bounding_names(graph: g.SyncGraph) -> set[str]:
    """Names on which it depends how often a loop runs."""
    found = {name for loop in graph.loops for side in (loop.lower, loop.upper) for name in names(side)}
    for point in graph.points:
        if isinstance(point.action, g.Branch) and point.action.cond is not None and point.loop >= 0:
            found.update(names(point.action.cond))
    return _with_sources(graph, found)


def _with_sources(graph: g.SyncGraph, found: set[str]) -> set[str]:
    """The names, and all from which they are assigned."""
    grown = True
    while grown:
        before = len(found)
        for point in graph.points:
            if isinstance(point.action, g.Assign):
                for name, value in point.action.pairs:
                    if name in found and isinstance(value, INDEX_TYPES):
                        found.update(names(value))
        grown = len(found) > before
    return found


def single_meanings(graph: g.SyncGraph) -> dict[str, Index]:
    """Names that have one meaning everywhere, in terms of others that do not change."""
    seen: dict[str, list[Index]] = {}
    changing = {loop.counter for loop in graph.loops} | set(unknown_names(graph)) | {each.name for each in graph.free}
    for point in graph.points:
        if isinstance(point.action, g.Assign):
            for name, value in point.action.pairs:
                if isinstance(value, INDEX_TYPES):
                    seen.setdefault(name, []).append(value)
    found: dict[str, Index] = {}
    for name, values in seen.items():
        if len(values) == 1 and name not in changing:
            found[name] = substitute(values[0], found)
    return {name: value for name, value in found.items() if LANE not in names(value)}


def differing_names(graph: g.SyncGraph) -> frozenset[str]:
    """Unknown numbers on which waves need not agree: by which they go different ways, or choose barriers."""
    found: set[str] = set()
    rank = g.VARIATIONS.index
    apart = {
        name
        for point in graph.points
        if isinstance(point.action, g.Havoc) and not point.action.agree
        for name in point.action.names
    }
    for point in graph.points:
        if isinstance(point.action, g.Branch) and point.action.cond is not None:
            if point.under != "uniform":  # inside a region of some waves a branch need not raise what it stands under
                found.update(apart.intersection(names(point.action.cond)))
            most = max(rank(graph.points[each].under) for each in point.successors)
            if most > rank(point.under) or most == rank("divergent"):
                found.update(names(point.action.cond))
        found.update(name for expr in barrier_expressions(point) for name in names(expr))
    agreed = {
        name
        for point in graph.points
        if isinstance(point.action, g.Havoc)
        if point.action.agree
        for name in point.action.names
    }
    return frozenset(_with_sources(graph, found) - agreed)


def guards_of(graph: g.SyncGraph) -> list[list[Cond]]:
    """For every point the conditions of branches in one arm of which it lies."""
    found: list[list[Cond]] = [[] for _ in graph.points]
    joins = find_joins([point.successors for point in graph.points])
    for number, point in enumerate(graph.points):
        if not isinstance(point.action, g.Branch) or point.action.cond is None:
            continue
        then, otherwise = (_between(graph, each, number, joins[number]) for each in point.successors)
        for inside in then - otherwise:
            found[inside].append(point.action.cond)
        for inside in otherwise - then:
            found[inside].append(Not(point.action.cond))
    return found


def _between(graph: g.SyncGraph, start: int, branch: int, join: int) -> set[int]:
    """Points that one arm of a branch leads through before the arms meet."""
    seen: set[int] = set()
    stack = [start]
    while stack:
        number = stack.pop()
        if number not in seen and number not in (branch, join):
            seen.add(number)
            stack += graph.points[number].successors
    return seen


def conditions_of(point: g.Point) -> Iterator[Cond]:
    """The conditions that a point tests: its own, those of `select`, `min` and `max`, and where limits begin to cut."""
    for expr in expressions_of(point):
        if isinstance(expr, COND_TYPES):
            yield expr
        for node in walk(expr):
            match node:
                case Select(cond):
                    yield cond
                case Binary("min" | "max", left, right):
                    yield Compare("<", left, right)
    if isinstance(point.action, g.Access):
        for extent in point.action.footprint.extents:
            if extent.limit is not None:
                yield Compare("<", extent.limit, Const(1))
                yield Compare("<", extent.limit, Const(extent.count))


def expressions_in(graph: g.SyncGraph) -> Iterator[Index | Cond]:
    """Every expression that decides what a wave does or touches."""
    for point in graph.points:
        yield from expressions_of(point)
