"""A point at which conditions hold, found by trying small numbers: where there is one, most often cheaper than isl.

Needs   conditions on names; which names should be small, and which loops should be near their end
Gives   such a point, or None: then nobody knows whether there is one
Keeps   at a point that is given all conditions hold; nothing follows from there being none
Cost    `MOST_TRIED` evaluations, most of them of one condition

    max(0, (%n + 31) // 32 - 2) mod 3 == (x0 + 2) mod 3, x0 * 32 < %n - 64      %n = 128, x0 = 0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import lcm
from typing import Any

from tidegate.compiled import to_function
from tidegate.footprint.questions import is_counter
from tidegate.index import Binary, Compare, Cond, Const, Index, Name, names, walk

MOST_TRIED = 128
REMEMBERED = 20_000  # conditions
COUNTS, ENDS, SIZES = 4, 3, 9  # values that are tried of a counter, of what remains of a loop, of a size

Function = Callable[[Mapping[str, int]], Any]


def guess(
    conds: Sequence[Cond], small: Iterable[str], left: Iterable[tuple[str, Index | None]]
) -> dict[str, int] | None:
    """A point with small numbers: those of `small` first, then what remains of the loops in `left`."""
    used = dict.fromkeys(name for cond in conds for name in names(cond))
    ends = {name: to_function(trips) for name, trips in left if name in used and _is_told(trips, used)}
    first = [name for name in small if name in used and name not in ends]
    order = list(dict.fromkeys((*first, *ends, *used)))
    axes = [range(ENDS) if name in ends else _values(name, conds) for name in order]
    hardest_first = sorted(dict.fromkeys(conds), key=lambda cond: not (isinstance(cond, Compare) and cond.op == "=="))
    return _first(order, axes, ends, hardest_first)


def _first(
    order: Sequence[str], axes: Sequence[Sequence[int]], ends: Mapping[str, Function], conds: Iterable[Cond]
) -> dict[str, int] | None:
    """Of all combinations, the last name changing first, the first point that fits.

    Each condition is looked at as soon as the names in it have values: with it all points fail that differ in later
    names alone. They count as tried.
    """
    place = {name: number if name not in ends else len(order) - 1 for number, name in enumerate(order)}
    ready: list[list[Cond]] = [[] for _ in (*order, "")]  # by how many names have values
    for cond in conds:
        ready[1 + max((place[name] for name in names(cond)), default=-1)].append(cond)
    checks: list[list[Function] | None] = [None] * len(ready)
    alike = [1] * len(ready)  # so many points have the same first values
    for number in reversed(range(len(order))):
        alike[number] = alike[number + 1] * len(axes[number])
    point: dict[str, int] = {}
    chosen = [0] * len(order)  # which value of each axis
    tried = depth = 0
    while tried < MOST_TRIED:
        own = checks[depth]
        if own is None:
            own = checks[depth] = [to_function(cond) for cond in ready[depth]]
        now = _ended(point, ends) if ends and depth == len(order) else point
        if not own or _all_hold(own, now):
            if depth == len(order):
                return now
            chosen[depth] = 0
        else:
            tried += alike[depth]
            while depth and chosen[depth - 1] + 1 == len(axes[depth - 1]):
                depth -= 1
            if not depth:
                return None
            depth -= 1
            chosen[depth] += 1
        point[order[depth]] = axes[depth][chosen[depth]]
        depth += 1
    return None


def _ended(values: Mapping[str, int], ends: Mapping[str, Function]) -> dict[str, int]:
    """Of a loop in `ends` the value says how many iterations follow."""
    point = dict(values)
    for name, trips in ends.items():
        point[name] = trips(point) - 1 - point[name]
    return point


def _is_told(trips: Index | None, used: Mapping[str, None]) -> bool:
    return trips is not None and all(name in used for name in names(trips))


def _all_hold(checks: Iterable[Function], point: Mapping[str, int]) -> bool:
    try:
        return all(check(point) for check in checks)
    except ZeroDivisionError:
        return False


def _values(name: str, conds: Iterable[Cond]) -> Sequence[int]:
    if name in ("u", "v") or (name[0] in "ef" and name[1:].isdigit()):  # waves, and pieces of boxes
        return (0,)
    if is_counter(name):
        return range(name == "d", COUNTS)
    step = _step(name, conds)
    return range(0, SIZES * step, step)


def _step(name: str, conds: Iterable[Cond]) -> int:
    """In which steps a size changes anything: what it is divided by at once."""
    return lcm(*(_steps(cond).get(name, 1) for cond in conds))


@lru_cache(maxsize=REMEMBERED)
def _steps(cond: Cond) -> Mapping[str, int]:
    """By name, what it is divided by at once in one condition."""
    found: dict[str, int] = {}
    for node in walk(cond):
        match node:
            case Binary("//" | "mod", left, Const(by)) if by > 0:
                for term in _terms(left):
                    if isinstance(term, Name):
                        found[term.name] = lcm(found.get(term.name, 1), by)
    return found


def _terms(index: Index) -> Iterator[Index]:
    """The parts of a sum."""
    stack = [index]
    while stack:
        node = stack.pop()
        if isinstance(node, Binary) and node.op in ("+", "-"):
            stack += (node.left, node.right)
        else:
            yield node
