"""Questions about accesses whose bytes are known for each thread.

Needs   two such accesses, and how a path leads from one to the other
Gives   one question for each pair of places: how far apart they have to be, as a condition on iterations
Keeps   conditions on places are left out, and the answer is then not marked exact
Cost    that of `threads`
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidegate.footprint.model import Touch
from tidegate.footprint.values import Spot
from tidegate.graph.model import ONE_LANE
from tidegate.index import TRUE, Binary, Cond, Const, Index
from tidegate.verify.asked import Question, Waves
from tidegate.verify.paths import Iterations, U, V
from tidegate.verify.search import TooMuch
from tidegate.verify.threads import ThreadPairs

if TYPE_CHECKING:
    from tidegate.verify.meet import Meet

MOST_ASKED = 200_000  # of one proof: about seven seconds


def ask_by_thread(
    meet: Meet, x: Touch, y: Touch, iterations: Iterations, waves: Waves, facts: tuple[Cond, ...]
) -> Iterator[Question]:
    assert x.pieces is not None and y.pieces is not None  # noqa: PT018
    meet.by_thread += 1
    if meet.by_thread > MOST_ASKED:
        raise TooMuch("more pairs of accesses than can be compared thread by thread")
    ranges = meet.ranges_with(meet.bases_in(x, y, iterations))
    in_step = x.lanes == y.lanes == ONE_LANE  # the wave is one lane, and any of its threads may meet any
    kind = "lane" if waves.one_lane and not in_step else "wave" if waves.same else "apart"
    for one in x.places:
        for other in y.places:
            shift = meet.shift(one, other)
            if shift is None:
                continue
            apart = _apart(meet, x, y, one, other, shift, iterations)
            pairs = ThreadPairs(x.pieces, y.pieces, kind, waves.of, apart, one.start)
            found = pairs.condition(ranges)
            if found is not None:
                cond, exact = found
                sure = exact and not (x.may or y.may) and one.cond == other.cond == TRUE
                yield Question((*((cond,) if cond != TRUE else ()), *facts), sure, one, threads=pairs)


def _apart(meet: Meet, x: Touch, y: Touch, one: Spot, other: Spot, shift: int, iterations: Iterations) -> Index | None:
    """How far y's place lies behind x's; None if nobody knows."""
    if one.start is None or other.start is None:
        return None
    first = meet.paths.index_at(one.start, x.node, iterations, U)
    second = meet.paths.index_at(other.start, y.node, meet.paths.start(y.node), V)
    if first is None or second is None:
        return None
    return meet.paths.math.put(Binary("-", Binary("+", second, Const(shift)), first), {})
