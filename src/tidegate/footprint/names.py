"""Which names points set and read, and in which loops.

Needs   a flow
Gives   for every loop the names that are set in it; for every name the innermost loop around all that read it
Keeps   names of asynchronous operations are left out: they are no indices and no places
Cost    linear in the points, times the depth of loops
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.graph import model as g
from tidegate.graph.flow import Flow
from tidegate.index import INDEX_TYPES, Index, names


@dataclass(frozen=True, slots=True)
class Names:
    """`number` orders the names that points set; views among them are places, all others are indices."""

    number: dict[str, int]
    given: tuple[str, ...]
    views: frozenset[str]
    set_in: tuple[frozenset[int], ...]  # loop → names set in it, by number
    home: dict[str, int]  # name → the innermost loop that holds all that set or read it; -1 for none
    given_in: tuple[dict[int, set[Index | None]], ...]  # loop → name → the indices that it is set to; None: anything
    free_running: frozenset[str]  # what functions set: a call that is not written out may set it


def names_of(flow: Flow) -> Names:
    number: dict[str, int] = {}
    views: set[str] = set()
    sets: list[dict[int, set[Index | None]]] = [{} for _ in flow.loops]
    home: dict[str, int] = {}
    chains = chains_of(flow)
    by_functions = sorted(_of_functions(flow, views)) if flow.closed else []
    cache: dict[int, tuple[list[str], list[str]]] = {}
    for node, point in enumerate(flow.origin):
        if point not in cache:
            cache[point] = (list(set_by(flow.graph.points[point].action, views)), list(_read_by(flow, point)))
        given, read = cache[point]
        loop = flow.loop_of[node]
        for name in by_functions if node in flow.closed else given:
            key = number.setdefault(name, len(number))
            for each in chains[loop]:
                sets[each].setdefault(key, set()).add(_given(flow.graph.points[point].action, name))
        for name in (*given, *read):
            home[name] = _around(chains, home[name], loop) if name in home else loop
    return Names(
        number,
        tuple(number),
        frozenset(views),
        tuple(map(frozenset, sets)),
        home,
        tuple(sets),
        frozenset(by_functions),
    )


def chains_of(flow: Flow) -> dict[int, tuple[int, ...]]:
    """The loops around each loop and itself, outermost first; none around -1."""
    chains: dict[int, tuple[int, ...]] = {-1: ()}
    for number, loop in enumerate(flow.loops):
        chains[number] = (*chains[loop.parent], number)
    return chains


def _around(chains: dict[int, tuple[int, ...]], one: int, other: int) -> int:
    if one == other:
        return one
    found = -1
    for a, b in zip(chains[one], chains[other], strict=False):
        if a != b:
            break
        found = a
    return found


def _given(action: g.Action, name: str) -> Index | None:
    """The index that a name is set to."""
    if isinstance(action, g.Assign):
        for each, value in action.pairs:
            if each == name and isinstance(value, INDEX_TYPES):
                return value
    return None


def set_by(action: g.Action, views: set[str]) -> Iterator[str]:
    """The names that an action sets; those of places are added to `views`."""
    match action:
        case g.Assign(pairs):
            for name, value in pairs:
                if isinstance(value, g.Ref | g.Either):
                    views.add(name)
                if not isinstance(value, g.Token):
                    yield name
        case g.Havoc(given):
            yield from given
        case g.Call(_, args):
            for name, _ in args:
                views.add(name)
                yield name
        case _:
            pass


def _read_by(flow: Flow, point: int) -> Iterator[str]:
    match flow.graph.points[point].action:
        case g.Access(footprint=foot):
            yield from _in_place(foot.place)
            for extent in foot.extents:
                if extent.limit is not None:
                    yield from names(extent.limit)
        case g.Unknown(reaches):
            yield from reaches
        case g.Assign(pairs):
            for _, value in pairs:
                if isinstance(value, g.Ref | g.Either):
                    yield from _in_place(value)
                elif isinstance(value, INDEX_TYPES):
                    yield from names(value)
        case g.Branch(cond) if cond is not None:
            yield from names(cond)
        case g.Call(_, args):
            for _, where in args:
                yield from _in_place(where)
        case _:
            pass


def _in_place(where: g.Where) -> Iterator[str]:
    stack: list[g.Where] = [where]
    while stack:
        match stack.pop():
            case g.Either(cond, then, otherwise):
                yield from names(cond)
                stack += (then, otherwise)
            case g.Ref(base, slot, offset):
                yield base
                yield from names(slot)
                yield from names(offset)


def _of_functions(flow: Flow, views: set[str]) -> set[str]:
    """What any function may set, and what the functions that it calls may set."""
    found: set[str] = set()
    stack = [each.entry for each in flow.graph.functions]
    seen: set[int] = set(stack)
    while stack:
        point = flow.graph.points[stack.pop()]
        found.update(set_by(point.action, views))
        for each in point.successors:
            if each not in seen:
                seen.add(each)
                stack.append(each)
    return found
