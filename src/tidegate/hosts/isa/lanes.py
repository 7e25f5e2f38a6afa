"""What a wave finds out about its lanes as one.

Needs   values and truths for each thread, and how many lanes a wave has
Gives   `any_in_wave`: whether a truth holds in any lane; `spread`: what one lane holds, for all lanes of its wave;
        which lanes meet; whether lanes write the same bytes, and the same values
Keeps   a wave of which nobody knows enough gets what nobody knows; what all threads share stays shared
Cost    linear in the threads

    exec & (lane < 3)      any: true in every wave;  the first lane's value of `4 * tid`: 0, 256, 512, …
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tidegate.hosts.isa.values import OUTSIDE, Numbers, Pred, Truths, Value, unknown, unsure
from tidegate.index import ZERO

TILES = (16, 8, 4)  # lanes of a group, the largest first
Starts = tuple[int | None, ...]


def any_in_wave(pred: Pred, lanes: int) -> Pred:
    if pred.cond is not None:
        return pred
    if pred.known is not None and pred.same:
        return unsure(len(pred.base), True)
    held, known = _by_wave(pred.base & pred.lanes, lanes), _by_wave(pred.lanes, lanes, True)
    there = held.any(axis=1)
    sure = there | known.all(axis=1)
    base, certain = (np.repeat(each, lanes)[: len(pred.base)] for each in (there, sure))
    return Pred(base, None if certain.all() else certain)


def spread(value: Value, lane: Value | None, active: Pred | None, lanes: int) -> Value:
    """`lane`: its number in the wave. Without, it is the first for which `active` holds, or the first of all."""
    threads = len(value.base)
    if OUTSIDE in value.tags:
        return unknown(threads, False)
    if value.is_uniform:
        return value if value.is_known else unknown(threads, True, value.tags)
    thread = np.arange(threads)
    known = np.ones(threads, bool)
    if lane is not None:
        if not lane.is_known or lane.plus != ZERO:
            return unknown(threads, False, value.tags)
        chosen = thread // lanes * lanes + (lane.base & (lanes - 1))
    else:
        chosen, known = _first(active, threads, lanes)
    known = known & (chosen < threads)
    chosen = np.minimum(chosen, threads - 1)
    known = known & value.lanes[chosen]
    if not known.any():
        return unknown(threads, False, value.tags)
    return Value(value.base[chosen], value.plus, None if known.all() else known, False, value.tags)


def _first(active: Pred | None, threads: int, lanes: int) -> tuple[Any, Truths]:
    """The first active lane of each thread's wave, and whether it is known. Without any it is the first of all."""
    thread = np.arange(threads)
    if active is None or active.cond is not None:
        return thread // lanes * lanes, np.ones(threads, bool)
    held, known = _by_wave(active.base & active.lanes, lanes), _by_wave(active.lanes, lanes, True)
    first = held.argmax(axis=1)
    # Lanes before the first one that is active for sure may be active, too.
    before = np.where(held.any(axis=1), first, lanes)
    sure = (known | (np.arange(lanes) >= before[:, None])).all(axis=1)
    return thread // lanes * lanes + np.repeat(first, lanes)[:threads], np.repeat(sure, lanes)[:threads]


def _by_wave(truths: Truths, lanes: int, beyond: bool = False) -> Truths:
    """A row for each wave; lanes that the last wave does not have are `beyond`."""
    found: Truths = np.pad(truths, (0, -len(truths) % lanes), constant_values=beyond).reshape(-1, lanes)
    return found


# --- meetings of lanes ---


def good_groups(alive: Truths, here: Truths, masks: Any, known: Truths, size: int) -> Truths:
    """The groups of lanes that meet: all that have not ended are there, and each names all of them.

    A row of each table is a wave; in `masks` stand the lanes that each lane names.
    """
    bits = np.left_shift(1, np.arange(alive.shape[1], dtype=np.int64))
    groups = (alive * bits).reshape(-1, size)
    wanted = groups.sum(axis=1)[:, None]
    covers = ((masks.reshape(-1, size) & wanted) == wanted) & known.reshape(-1, size)
    found: Truths = ((here.reshape(-1, size) & covers) | ~alive.reshape(-1, size)).all(axis=1)
    return found


def tile_of(alive: Truths, here: Truths, masks: Any, known: Truths) -> int:
    """The largest groups into which this meeting divides all lanes that are there; 0 if it does not."""
    for size in (alive.shape[1], *TILES):
        good = good_groups(alive, here, masks, known, size)
        if good[here.reshape(-1, size).any(axis=1)].all():
            return size
    return 0


# --- lanes that write the same bytes ---


def doubles(starts: Starts, size: int, lanes: int) -> bool:
    """Whether two lanes of one wave write the same bytes at once."""
    for first in range(0, len(starts), lanes):
        ordered = sorted(each for each in starts[first : first + lanes] if each is not None)
        if any(after - before < size for before, after in pairwise(ordered)):
            return True
    return False


def may_double(tables: list[Starts], size: int, lanes: int) -> bool:
    """The same where each lane writes to one place of several, by each table another one."""
    for first in range(0, len(tables[0]), lanes):
        places = sorted(
            (start, lane)
            for starts in tables
            for lane, start in enumerate(starts[first : first + lanes])
            if start is not None
        )
        if any(after - before < size and one != other for (before, one), (after, other) in pairwise(places)):
            return True
    return False


def agree(starts: Starts, size: int, stored: Numbers) -> bool:
    """Whether threads that write the same bytes write the same values: `stored` has a number for each value."""
    by_start: dict[int, int] = {}
    for start, value in zip(starts, stored.tolist(), strict=True):
        if start is not None and by_start.setdefault(start, value) != value:
            return False
    ordered = sorted(by_start)
    return all(second - first >= size for first, second in pairwise(ordered))


def waves_in(lanes: Truths, size: int) -> Truths:
    found: Truths = np.asarray(np.pad(lanes, (0, -len(lanes) % size)).reshape(-1, size).any(axis=1))
    return found
