"""Bytes that depend on the wave apart from bytes that depend on the iteration.

Needs   a question whose two boxes start at a slot plus a part of the slot that the wave alone decides
Gives   the same question about slots alone, and for the waves an example
Keeps   exact: which parts of which waves overlap, at which distance of their slots, is tried for all pairs of waves
Cost    the pairs of waves, once for each question; what is left to isl has no boxes and no waves

    %a + (#0 + 2) mod 3 * 4096 + wave * 1024, 1024 bytes        (#0 + 2) mod 3 * 4096 == #1 mod 3 * 4096
    %a + #1 mod 3 * 4096, 4096 bytes                            waves 0 and 0, for example
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from tidegate.footprint.arithmetic import Arithmetic
from tidegate.footprint.boxes import box
from tidegate.footprint.meetings import Pairs
from tidegate.footprint.phases import kind_of
from tidegate.footprint.questions import Question, Side
from tidegate.index import Binary, Compare, Cond, Const, Index, Logic, evaluate, names

WAVES = {"u", "v"}
MOST_WAVES = 32
MOST_STEPS = 4  # distances of slots at which parts may overlap
_MATH = Arithmetic({})


@dataclass(frozen=True, slots=True)
class Slots:
    """What is left of a question: that slots lie so far apart; and waves for which parts then overlap."""

    conds: tuple[Cond, ...]
    waves: tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Part:
    """One side: where its slot starts, with its steps, and the bytes of each wave as bits from `low` on."""

    slot: Index
    step: int
    low: int
    bits: tuple[int, ...]

    @property
    def high(self) -> int:
        return self.low + max(each.bit_length() for each in self.bits)


def by_waves(question: Question, kind: Pairs) -> Slots | bool:
    """The question about slots; False if no pair of waves of this kind ever overlaps; True if it cannot be divided."""
    sides = (question.x, question.y)
    exprs = [expr for side in sides for expr in (side.cond, *side.facts)]
    if question.waves > MOST_WAVES or any(name in WAVES for expr in (*exprs, *question.around) for name in names(expr)):
        return True
    x, y = (_part(side, question.waves) for side in sides)
    if x is None or y is None:
        return True
    step = gcd(x.step, y.step)
    least, most = (0, 0) if not step else (-((y.high - x.low) // step), (x.high - y.low) // step)
    if most - least > MOST_STEPS:
        return True
    found: list[tuple[int, tuple[int, int]]] = []
    for distance in range(least, most + 1):
        pair = _overlap(x, y, distance * step, kind, question.waves)
        if pair is not None:
            found.append((distance * step, pair))
    if not found:
        return False
    apart = Binary("-", y.slot, x.slot)
    conds = [Compare("==", apart, Const(distance)) for distance, _ in found] if step else []
    together: Cond | None = None
    for cond in conds:
        together = cond if together is None else Logic("or", together, cond)
    return Slots(() if together is None else (together,), found[0][1])


def _part(side: Side, waves: int) -> _Part | None:
    terms, rest = _MATH.sum(side.start)
    own = {atom: factor for atom, factor in terms.items() if set(names(atom)) <= WAVES}
    slot = {atom: factor for atom, factor in terms.items() if WAVES.isdisjoint(names(atom))}
    if len(own) + len(slot) != len(terms) or any(span.limit is not None for span in side.spans):
        return None
    bits, before = box(tuple((span.count, span.stride) for span in side.spans), side.width)
    if not bits:
        return None
    where = _MATH.index((own, rest))
    starts = [evaluate(where, {"u": wave, "v": wave}) - before for wave in range(waves)]
    low = min(starts)
    return _Part(_MATH.index((slot, 0)), gcd(*slot.values()), low, tuple(bits << (start - low) for start in starts))


def _overlap(x: _Part, y: _Part, distance: int, kind: Pairs, waves: int) -> tuple[int, int] | None:
    """The first pair of waves whose parts overlap if y's slot lies so far behind x's."""
    shift = y.low + distance - x.low
    for v in range(waves):
        theirs = y.bits[v] << shift if shift >= 0 else y.bits[v]
        for u in range(waves):
            if kind_of(u, v, waves) == kind and (x.bits[u] if shift >= 0 else x.bits[u] << -shift) & theirs:
                return u, v
    return None
