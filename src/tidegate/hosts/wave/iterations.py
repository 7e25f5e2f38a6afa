"""Accesses whose lanes move from one iteration to the next: the bytes of each iteration by itself.

Needs   for each value of some loop counters, where in a buffer each thread starts
Gives   a `Footprint` in which the counters say where a wave starts, and a key for its lanes
Keeps   the loops run a known number of times, so that no iteration is left out. There is a key only if every iteration
        deals the bytes alike, counted from where it starts: it is asked about accesses of different iterations, too
Cost    one evaluation for each iteration; `MOST_ITERATIONS`, and as many places as `MOST_PLACES`, else nothing is said

    lane l of wave w at 64*w + (l + k) mod 64       w * 64, 64 bytes, in every iteration, and no key
    lane l of wave w at 64*w + k + l                (k == 0 ? w * 64 : w * 64 + 1), 64 bytes, and a key
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tidegate.hosts.wave.lanes import lane_key
from tidegate.hosts.wave.touched import Touched, by_wave, shape_of
from tidegate.index import Compare, Cond, Const, Index, Logic, Name, Select

MOST_ITERATIONS = 64
MOST_PLACES = 16
Values = tuple[int, ...]  # of counters


@dataclass(frozen=True, slots=True)
class Iterations:
    """Where an access lies: with the counters in its place; which lane touches which bytes."""

    touched: Touched
    lanes: str


def named_counters(exprs: Iterable[Any], counters: Mapping[str, range]) -> list[Any]:
    """The symbols in these expressions that are counters of which all values are known."""
    named = {each for expr in exprs for each in getattr(expr, "free_symbols", ())}
    return sorted((each for each in named if str(each) in counters), key=str)


def values_of(symbols: Sequence[Any], counters: Mapping[str, range]) -> list[Values] | None:
    """All values of some counters together; None if there are none, or too many."""
    # A loop that is never run has no iteration, and its accesses may be said to lie anywhere: as in a first one.
    ranges = [counters[str(each)] or range(1) for each in symbols]
    return list(product(*ranges)) if ranges and prod(map(len, ranges)) <= MOST_ITERATIONS else None


def by_iteration(
    names: Sequence[str],
    values: Sequence[Values],
    starts: Sequence[np.ndarray[Any, Any]],
    width: int,
    waves: int,
    lanes: int,
    most: int | None = None,
) -> Iterations | None:
    """`starts`: for each of the values of the counters, the first bytes that the threads touch.

    `most`: bytes of the buffer, as `shape_of` takes them.
    """
    lows, shape = shape_of(np.concatenate([each.reshape(waves, -1) for each in starts]), width, most)
    places = [tuple(lows[waves * number : waves * (number + 1)]) for number in range(len(values))]
    if len(set(places)) > MOST_PLACES:
        return None
    # Of waves that start later than it is said, equal places would not mean equal bytes: they have no key.
    keys = {lane_key(each, width, waves, lanes) for each in starts} if not shape.moved else {""}
    return Iterations(replace(shape, offset=_chosen(names, values, places)), keys.pop() if len(keys) == 1 else "")


def _chosen(names: Sequence[str], values: Sequence[Values], places: Sequence[tuple[int, ...]]) -> Index:
    """The place of each value of the counters: the last of them wherever no other is chosen."""
    found = by_wave(list(places[-1]))
    for place in dict.fromkeys(each for each in places if each != places[-1]):
        here = [_equal(names, value) for value, each in zip(values, places, strict=True) if each == place]
        cond = here[0]
        for each in here[1:]:
            cond = Logic("or", cond, each)
        found = Select(cond, by_wave(list(place)), found)
    return found


def _equal(names: Sequence[str], values: Values) -> Cond:
    conds: list[Cond] = [Compare("==", Name(name), Const(value)) for name, value in zip(names, values, strict=True)]
    found = conds[0]
    for each in conds[1:]:
        found = Logic("and", found, each)
    return found
