"""A question as conditions, for isl.

Needs   a question, and a kind of pairs of waves
Gives   conditions that hold at a point if and only if two such waves meet there
Keeps   names are those of the question; pieces of a box are `e0`, `e1`, ... of x and `f0`, `f1`, ... of y
Cost    linear in the question
"""

from __future__ import annotations

from tidegate.footprint.by_waves import Slots
from tidegate.footprint.meetings import Pairs
from tidegate.footprint.questions import Question, Side
from tidegate.index import Binary, Compare, Cond, Const, Index, Logic, Name, names


def conds_of(question: Question, kind: Pairs, slots: Slots | None = None) -> list[Cond]:
    """When two boxes meet; or when their slots do, if which waves then overlap is known."""
    x, y = question.x, question.y
    conds = [*x.facts, *y.facts, *question.around, x.cond, y.cond]
    if slots is not None:
        conds += slots.conds
    else:
        first, second = (_piece(side, name, conds) for side, name in ((x, "e"), (y, "f")))
        conds.append(Compare("<", first, Binary("+", second, Const(y.width))))
        conds.append(Compare("<", second, Binary("+", first, Const(x.width))))
        conds += _paired(question.waves, kind)
    used = {name for cond in conds for name in names(cond)}
    conds += later(question, used)
    used |= {"d"} if question.carried else set()
    return [*conds, *ranged(question, used)]


def _piece(side: Side, name: str, conds: list[Cond]) -> Index:
    """Where one piece of a box starts; its steps are new variables."""
    found = side.start
    for place, span in enumerate(side.spans):
        step = Name(f"{name}{place}")
        conds += [Compare(">=", step, Const(0)), Compare("<", step, Const(span.count))]
        if span.limit is not None:
            conds.append(Compare("<", step, span.limit))
        found = Binary("+", found, Binary("*", step, Const(span.stride)))
    return found


def _paired(waves: int, kind: Pairs) -> list[Cond]:
    u, v, half = Name("u"), Name("v"), Const(waves // 2)
    x_low, y_low = Compare("<", u, half), Compare("<", v, half)
    x_high, y_high = Compare(">=", u, half), Compare(">=", v, half)
    match kind:
        case Pairs.OWN:
            return [Compare("==", u, v)]
        case Pairs.WITHIN:
            return [Compare("!=", u, v), Logic("or", Logic("and", x_low, y_low), Logic("and", x_high, y_high))]
        case Pairs.BACK:
            return [x_high, y_low]
    return [x_low, y_high]


def later(question: Question, used: set[str]) -> list[Cond]:
    """That y comes in a later iteration of the carried loop, as far as somebody speaks of that."""
    if not question.carried or ("i" not in used and question.most is None):
        return []
    found: list[Cond] = [Compare(">=", Name("d"), Const(1)), Compare(">=", Name("i"), Const(0))]
    if question.most is not None:
        found.append(Compare("<", Binary("+", Name("i"), Name("d")), Const(question.most)))
    return found


def ranged(question: Question, used: set[str]) -> list[Cond]:
    """Between which values names in use lie."""
    found: list[Cond] = []
    ranges = {name: (low, high) for name, low, high in question.ranges}
    ranges.setdefault("u", (0, question.waves - 1))
    ranges.setdefault("v", (0, question.waves - 1))
    for name, (low, high) in sorted(ranges.items()):
        if name in used and low is not None:
            found.append(Compare(">=", Name(name), Const(low)))
        if name in used and high is not None:
            found.append(Compare("<=", Name(name), Const(high)))
    return found
