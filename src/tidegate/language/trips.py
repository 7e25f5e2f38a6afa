"""Which trips of a loop there are, and what a condition is worth in each.

Needs   a loop with uniform, affine bounds, and what holds around it
Gives   for zero trips, the only trip, the first, those between and the last: the conditions that hold there
Keeps   a condition is decided only where it is the same for all sizes; whatever isl cannot say is left open
Cost    two questions to isl for each condition; asked only of loops whose guards matter
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.index import (
    WAVE,
    WORKGROUP,
    Binary,
    Compare,
    Cond,
    Const,
    Index,
    Name,
    Not,
    add,
    substitute,
    substitute_cond,
    why_not_affine,
)
from tidegate.language.facts import Facts, Variation
from tidegate.language.ops import Iterate, Kernel
from tidegate.language.points import Point, Undecided, find_point

ZERO_TRIPS, ONLY, FIRST, BETWEEN, LAST = "none", "only", "first", "between", "last"
Conds = tuple[Cond, ...]


def header_conds(kernel: Kernel) -> Conds:
    """What holds everywhere: the assumptions, that sizes are positive, which waves and workgroups there are."""
    sizes = (Compare(">=", Name(size.name), Const(1)) for size in kernel.sizes)
    waves = (Compare(">=", Name(WAVE), Const(0)), Compare("<", Name(WAVE), Const(kernel.waves)))
    groups = (
        cond
        for name, count in zip(WORKGROUP, kernel.grid, strict=False)
        if not why_not_affine(count)
        for cond in (Compare(">=", Name(name), Const(0)), Compare("<", Name(name), count))
    )
    return (*kernel.where, *sizes, *waves, *groups)


def inside_conds(op: Iterate, facts: Facts) -> Conds:
    """What holds in the loop's body, as far as it can be said."""
    if not _is_plain(op, facts):
        return ()
    lower, upper, counter = plain(op.lower, facts), plain(op.upper, facts), Name(op.counter.name)
    return Compare(">=", counter, lower), Compare("<", counter, upper)


def trips_of(op: Iterate, facts: Facts, around: Conds) -> dict[str, Conds] | None:
    """The kinds of trips that may happen, each with what holds then; None where bounds are not known well enough."""
    if not _is_plain(op, facts):
        return None
    lower, upper, counter = plain(op.lower, facts), plain(op.upper, facts), Name(op.counter.name)
    is_start = Compare("==", counter, lower)
    is_later = Compare(">", counter, lower)
    on_grid = Compare("==", Binary("mod", Binary("-", counter, lower), op.step), Const(0))
    goes_on = Compare("<", add(counter, op.step), upper)
    enters = Compare("<", counter, upper)
    kinds: dict[str, Conds] = {
        ZERO_TRIPS: (Compare(">=", lower, upper),),
        ONLY: (is_start, enters, Not(goes_on)),
        FIRST: (is_start, goes_on),
        BETWEEN: (is_later, on_grid, goes_on),
        LAST: (is_later, on_grid, enters, Not(goes_on)),
    }
    return {kind: conds for kind, conds in kinds.items() if _possible((*around, *conds))}


def rounds_of(op: Iterate, facts: Facts, around: Conds) -> list[Conds]:
    """What holds in the first trip, and what in all later ones; without trips that never happen."""
    kinds = trips_of(op, facts, around)
    if kinds is None:
        return [(), ()]
    counter, lower = Name(op.counter.name), plain(op.lower, facts)
    inside = inside_conds(op, facts)
    found = [(*inside, Compare("==", counter, lower))] if {ONLY, FIRST} & kinds.keys() else []
    return [*found, (*inside, Compare(">", counter, lower))] if FIRST in kinds else found


def decide(cond: Cond, facts: Facts, around: Conds) -> bool | None:
    """Whether the condition is always true or always false here, for every wave; None if it may be either."""
    if facts.is_inexact(cond) or facts.of(cond) == Variation.DIVERGENT:
        return None
    cond = plain_cond(cond, facts)
    if not _possible((*around, cond)):
        return False
    return None if _possible((*around, Not(cond))) else True


def witness(conds: Conds, names: Sequence[str]) -> str:
    """The sizes at which the conditions hold: `K = 1, M = 64`."""
    point = find_point(conds, names)
    if point is None or isinstance(point, Undecided):
        return ""
    return ", ".join(f"{name} = {point[name]}" for name in names)


def _possible(conds: Conds) -> bool:
    point: Point | Undecided | None = find_point(conds, ())
    return point is not None


def _is_plain(op: Iterate, facts: Facts) -> bool:
    bounds = (op.lower, op.upper)
    return all(facts.of(each) == Variation.UNIFORM and not facts.is_inexact(each) for each in bounds)


def plain(index: Index, facts: Facts) -> Index:
    """The index with names of `let` replaced by what they stand for."""
    for _ in range(20):
        new = substitute(index, facts.lets)
        if new is index:
            break
        index = new
    return index


def plain_cond(cond: Cond, facts: Facts) -> Cond:
    for _ in range(20):
        new = substitute_cond(cond, facts.lets)
        if new == cond:
            break
        cond = new
    return cond
