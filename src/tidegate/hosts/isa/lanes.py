"""What a wave finds out about its lanes as one.

Needs   values and truths for each thread, and how many lanes a wave has
Gives   `any_in_wave`: whether a truth holds in any lane; `spread`: what one lane holds, for all lanes of its wave
Keeps   a wave of which nobody knows enough gets what nobody knows; what all threads share stays shared
Cost    linear in the threads

    exec & (lane < 3)      any: true in every wave;  the first lane's value of `4 * tid`: 0, 256, 512, …
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidegate.hosts.isa.values import OUTSIDE, Pred, Truths, Value, unknown, unsure
from tidegate.index import ZERO


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
