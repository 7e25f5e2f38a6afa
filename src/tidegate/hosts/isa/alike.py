"""Which threads hold one value, where nobody knows which value that is.

Needs   values and truths for each thread
Gives   `Alike`: for each thread the first one that is sure to hold the same; of one value, of several together, of what
        a wave computes from them as one
Keeps   two threads have one number only if they hold the same bits whenever they are at the same point of the code in
        the same round of its loops. What differs by nothing but the wave is computed alike: the same instruction on
        the same operands
Cost    a sort of one number for each thread; the same question is answered once

    row = tid and 63;  x = load table[row]      nobody knows x, and threads 0, 64 and 128 hold the same
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np

from tidegate.hosts.isa.values import NO_TAGS, OUTSIDE, Held, Numbers, Pred, Truths, Value, merge, unknown, unsure
from tidegate.index import ZERO


class Alike:
    def __init__(self, threads: int, lanes: int) -> None:
        self.threads, self.lanes = threads, lanes
        self.nobody = np.arange(threads, dtype=np.int64)
        self.all = np.zeros(threads, np.int64)
        self.known: dict[object, Numbers] = {}

    def of(self, held: Held) -> Numbers:
        if held.is_uniform and not (isinstance(held, Value) and OUTSIDE in held.tags):
            return self.all
        found = self.known.get(held.key)
        if found is None:
            found = self.known[held.key] = self._of(held)
        return found

    def _of(self, held: Held) -> Numbers:
        if isinstance(held, Value) and OUTSIDE in held.tags:  # `base` does not say which lanes hold another number
            return self.nobody if held.alike is None else held.alike
        if held.known is None:
            return first_equal(held.base.astype(np.int64))
        own = self.nobody if held.alike is None else held.alike
        known = first_equal(held.base.astype(np.int64))
        return first_equal(np.where(held.known, known, own + self.threads))

    def together(self, *each: Numbers) -> Numbers:
        """Threads that are alike in all of these."""
        return reduce(self._both, each, self.all)

    def _both(self, one: Numbers, other: Numbers) -> Numbers:
        if one is self.all or other is self.nobody:
            return other
        if other is self.all or one is self.nobody:
            return one
        key = (one.tobytes(), other.tobytes())
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = first_equal(one * self.threads + other)
        return found

    def by_wave(self, *each: Numbers) -> Numbers:
        """Lanes of waves that are alike in all lanes of all of these: what a lane gets may come from any other."""
        if self.threads % self.lanes:
            return self.nobody
        rows = np.stack(each or (self.nobody,), axis=1).reshape(self.threads // self.lanes, -1)
        first: dict[bytes, int] = {}
        waves = [first.setdefault(row.tobytes(), number) for number, row in enumerate(rows)]
        return np.repeat(np.array(waves, np.int64) * self.lanes, self.lanes) + self.nobody % self.lanes

    def chosen(self, pred: Pred, then: Held, otherwise: Held) -> Numbers:
        """Of what is selected."""
        one, other = self.of(then), self.of(otherwise)
        if pred.cond is not None:
            return self.together(one, other)
        sure = pred.lanes
        one = np.where(sure & ~pred.base, -1, one) + 1  # who does not choose it need not be like the others in it
        other = np.where(sure & pred.base, -1, other) + 1
        rows = self.of(pred) * (self.threads + 1) + one
        return first_equal(first_equal(rows) * (self.threads + 1) + other)


def with_alike(held: Held, alike: Numbers) -> Held:
    """A result with what is known of threads that hold the same; nothing where every value is known."""
    is_open = isinstance(held, Value) and OUTSIDE in held.tags
    if not is_open and (held.known is None or held.is_uniform):
        return held
    return replace(held, alike=alike)


def without_numbers(held: Held, alike: Numbers) -> Held:
    """Of a register that no address depends on: numbers beside symbols would only tell rounds of a loop apart."""
    if isinstance(held, Pred):
        return unsure(len(held.base), True) if held.cond is not None else held
    if held.plus == ZERO and (held.known is None or not held.known.any()) and not held.tags and held.among is None:
        return held
    if held.is_uniform:
        return unknown(len(held.base), True)
    return replace(unknown(len(held.base), False, held.tags & {OUTSIDE} or NO_TAGS), alike=alike)


def first_equal(values: Numbers) -> Numbers:
    """For each place the first one that holds the same."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    found: Numbers = first[inverse].astype(np.int64)
    return found


def merge_alike(first: Truths, one: Held, second: Truths, other: Held) -> Held:
    """As `merge`: lanes that come from one of two places may be alike, if they come from nowhere else."""
    found = merge(first, one, second, other)
    if one.alike is None and other.alike is None:
        return found
    threads = len(first)
    ways = Alike(threads, threads)
    rows = ways.nobody + 2 * threads
    rows = np.where(first & ~second, ways.of(one), rows)
    rows = np.where(second & ~first, ways.of(other) + threads, rows)
    return with_alike(found, first_equal(rows))
