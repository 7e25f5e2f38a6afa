"""Do two accesses touch a byte, where the bytes of every thread are known?

Needs   the pieces of two accesses, and how far apart their places are: a number, or an index over iterations
Gives   the condition under which some pair of threads meets, with a witness; None if no pair ever does
Keeps   exact for every pair of threads; where places may be too many distances apart, they are taken to meet
Cost    a sort for each distance, and a count for each wave

    x  thread t writes 4 bytes at t * 4                    no pair of two waves at distance 0,
    y  thread t reads 4 bytes at (t xor 1) * 4             lanes 0 and 1 of one wave
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, reduce
from math import gcd
from typing import TYPE_CHECKING, Any

from tidegate.footprint.arithmetic import Arithmetic, Range, both, logic
from tidegate.footprint.model import Pieces
from tidegate.index import TRUE, Compare, Cond, Const, Index, evaluate, names, why_not_affine
from tidegate.verify.paths import U, V
from tidegate.verify.tables import RangesOf

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[Any]

MOST_DISTANCES = 600
MOST_CASES = 48
S, T = "s'", "t'"  # the threads of x and of y
BYTE = "byte'"


@dataclass(frozen=True, slots=True)
class ThreadPairs:
    """Two accesses. `kind`: threads of two waves (apart), two lanes of one wave (wave), or one thread (lane).

    `of`: waves that are asked about; None: all. `apart`: how far y's place lies behind x's; None: nobody knows.
    """

    x: Pieces
    y: Pieces
    kind: str
    of: frozenset[int] | None
    apart: Index | None
    start: Index | None  # of x, in its buffer

    def condition(self, ranges: Callable[[str], Range]) -> tuple[Cond, bool] | None:
        """When they meet, and whether exactly then."""
        if self.apart is None or why_not_affine(self.apart):
            return (TRUE, False) if self.anywhere() else None
        if isinstance(self.apart, Const):
            return (TRUE, True) if self.meet(self.apart.value) is not None else None
        math = Arithmetic(RangesOf(ranges))
        terms, rest = math.sum(self.apart)
        step = gcd(*terms.values())
        low, high = self.reach()
        bounds = math.bounds(self.apart)
        low = low if bounds[0] is None else max(low, bounds[0])
        high = high if bounds[1] is None else min(high, bounds[1])
        first = low + (rest - low) % step
        if first > high:
            return None
        if (high - first) // step > MOST_DISTANCES:
            return (TRUE, False) if self.anywhere() else None
        found = [each for each in range(first, high + 1, step) if self.meet(each) is not None]
        return (_one_of(self.apart, found, step), len(_runs(found, step)) <= MOST_CASES) if found else None

    def reach(self) -> tuple[int, int]:
        """Distances at which anything can meet."""
        x, y = ([each for each in pieces.starts if each is not None] for pieces in (self.x, self.y))
        if not x or not y:
            return 0, -1
        return min(x) - max(y) - self.y.width + 1, max(x) - min(y) + self.x.width - 1

    def anywhere(self) -> bool:
        """Whether there are two such threads at all."""
        x, y = (_in_one_place(pieces) for pieces in (self.x, self.y))
        return _meet(x, y, self.kind, self.of, 0, self.is_collective) is not None

    @property
    def is_collective(self) -> bool:
        return self.x.collective or self.y.collective

    def meet(self, distance: int) -> tuple[int, int] | None:
        return _meet(self.x, self.y, self.kind, self.of, distance, self.is_collective)

    def witness(self, point: dict[str, int]) -> dict[str, int]:
        """The threads of an example, their waves, and the byte that both touch."""
        distance = None
        if self.apart is not None and all(name in point for name in names(self.apart)):
            distance = evaluate(self.apart, point)
        pair = None if distance is None else self.meet(distance)
        if pair is None or distance is None:
            return {}
        first, second = pair
        found = {S: first, T: second, U: first // self.x.lanes, V: second // self.y.lanes}
        if self.start is not None and all(name in point for name in names(self.start)):
            one, other = self.x.starts[first], self.y.starts[second]
            assert one is not None and other is not None  # noqa: PT018
            found[BYTE] = evaluate(self.start, point) + max(one, distance + other)
        return found


def _in_one_place(pieces: Pieces) -> Pieces:
    return Pieces(tuple(None if each is None else 0 for each in pieces.starts), 1, pieces.lanes)


@lru_cache(maxsize=1 << 15)
def _meet(
    x: Pieces, y: Pieces, kind: str, of: frozenset[int] | None, distance: int, collective: bool
) -> tuple[int, int] | None:
    """The first pair of threads that share a byte if y's place lies so far behind x's."""
    import numpy as np

    ours, ours_at = _arrays(x)
    theirs, theirs_at = _arrays(y)
    if of is not None:
        mine = np.isin(ours // x.lanes, list(of))
        ours, ours_at = ours[mine], ours_at[mine]
    if not len(ours) or not len(theirs):
        return None
    if kind == "lane":
        both_, place, other = np.intersect1d(ours, theirs, return_indices=True)
        apart = theirs_at[other] + distance - ours_at[place]
        hit = np.flatnonzero((apart < x.width) & (apart > -y.width))
        return (int(both_[hit[0]]), int(both_[hit[0]])) if len(hit) else None
    order = np.argsort(theirs_at, kind="stable")
    theirs, theirs_at = theirs[order], theirs_at[order] + distance
    first = np.searchsorted(theirs_at, ours_at - y.width, side="right")
    last = np.searchsorted(theirs_at, ours_at + x.width, side="left")
    waves = theirs // y.lanes
    counts = np.zeros((int(max(waves.max(), (ours // x.lanes).max())) + 1, len(theirs) + 1), np.int64)
    counts[waves, np.arange(1, len(theirs) + 1)] = 1
    counts = counts.cumsum(axis=1)
    own = counts[ours // x.lanes, last] - counts[ours // x.lanes, first]
    if kind == "apart":
        hits = np.flatnonzero(last - first > own)
    else:
        alone = 0 if collective else _of_itself(x, y, ours, ours_at, distance)
        hits = np.flatnonzero(own > alone)
    if not len(hits):
        return None
    one = int(hits[0])
    for other in theirs[first[one] : last[one]].tolist():
        same = other // y.lanes == ours[one] // x.lanes
        if same != (kind == "wave") or (kind == "wave" and other == ours[one] and not collective):
            continue
        return int(ours[one]), int(other)
    return None


def _of_itself(x: Pieces, y: Pieces, ours: Numbers, ours_at: Numbers, distance: int) -> Numbers:
    """For each thread of x, 1 if it meets itself."""
    import numpy as np

    none = -(1 << 60)
    starts = np.full(max(len(x.starts), len(y.starts)), none, np.int64)
    for thread, start in enumerate(y.starts):
        if start is not None:
            starts[thread] = start
    apart = starts[ours] + distance - ours_at
    return np.asarray((starts[ours] != none) & (apart < x.width) & (apart > -y.width), np.int64)


@lru_cache(maxsize=1 << 12)
def _arrays(pieces: Pieces) -> tuple[Any, Any]:
    import numpy as np

    threads = [thread for thread, start in enumerate(pieces.starts) if start is not None]
    starts = [start for start in pieces.starts if start is not None]
    return np.array(threads, np.int64), np.array(starts, np.int64)


def _runs(values: list[int], step: int) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for value in values:
        if runs and runs[-1][1] == value - step:
            runs[-1] = (runs[-1][0], value)
        else:
            runs.append((value, value))
    return runs


def _one_of(index: Index, values: list[int], step: int) -> Cond:
    """That an index, which takes steps, is one of some values; of too many, that it lies between them."""
    runs = _runs(values, step)
    if len(runs) > MOST_CASES:
        runs = [(values[0], values[-1])]
    cases: list[Cond] = [
        Compare("==", index, Const(first))
        if first == last
        else both(Compare(">=", index, Const(first)), Compare("<=", index, Const(last)))
        for first, last in runs
    ]
    return reduce(lambda one, other: logic("or", one, other), cases)
