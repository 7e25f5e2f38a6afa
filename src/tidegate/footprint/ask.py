"""Answers to questions: by looking, by trying everything, by a lucky guess, by isl, in this order.

Needs   a question
Gives   for each kind of pair of waves that can meet its least distance, and an example
Keeps   each question is answered once; what isl cannot decide is answered yes, and marked
Cost    microseconds for the first two, milliseconds for isl; `queries` and `seconds` count what isl takes
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import lcm
from operator import or_

from tidegate.footprint.arithmetic import Arithmetic
from tidegate.footprint.boxes import reach
from tidegate.footprint.by_waves import Slots, by_waves
from tidegate.footprint.conditions import conds_of, later, ranged
from tidegate.footprint.guess import guess
from tidegate.footprint.meetings import ANYWHERE, KINDS, Ends, Lanes, Pairs
from tidegate.footprint.phases import Example, Tried, kinds_there_are, try_all
from tidegate.footprint.questions import Question, Side, is_counter
from tidegate.index import (
    TRUE,
    Binary,
    Compare,
    Cond,
    Const,
    Index,
    Name,
    evaluate,
    holds,
    names,
    why_not_affine,
)
from tidegate.language.points import Undecided, find_point

LARGE = lcm(*range(1, 65)) << 16  # leaves no remainder by anything that is tried, nor by a usual tile
LEFT = "left'"  # iterations that follow: a name that no question has
MOST_STEPS = 24  # towards a lesser distance, where isl cannot name the least at once


@dataclass(frozen=True, slots=True)
class Found:
    """One kind of pair meets: how far apart, in which rounds, how long before x's loops end, where for example."""

    distance: int
    rounds: tuple[int, ...]
    left: tuple[Ends, ...]
    point: Mapping[str, int]
    exact: bool


Answer = dict[Pairs, Found]


# What was asked in this process, and how often isl gave up on it: changed programs ask the same again.
_ANSWERS: dict[Question, tuple[Answer, int]] = {}
# By question of which lanes are unknown, what is known of each kind of pairs, and whether isl gave up. `explain` asks
# about two accesses with their lanes and without: only a wave that meets itself makes a difference.
_KINDS: dict[Question, dict[Pairs, tuple[Found | None, bool]]] = {}
MOST_REMEMBERED = 20_000


def forget_answers() -> None:
    """Forgets what other programs of this process have asked."""
    _ANSWERS.clear()
    _KINDS.clear()


class OverlapSolver:
    """Answers questions and remembers them."""

    def __init__(self) -> None:
        self.points: dict[tuple[tuple[Cond, ...], tuple[str, ...], bool], dict[str, int] | Undecided | None] = {}
        self.queries = 0
        self.seconds = 0.0
        self.cheap = 0
        self.undecided = 0

    def answer(self, question: Question) -> Answer:
        known = _ANSWERS.get(question)
        if known is None:
            if len(_ANSWERS) >= MOST_REMEMBERED:
                _ANSWERS.clear()
            undecided = self.undecided
            answer = self.answer_new(question)
            _ANSWERS[question] = (answer, self.undecided - undecided)
            return answer
        self.undecided += known[1]
        return known[0]

    def answer_new(self, question: Question) -> Answer:
        """The same for a question that is known to be asked for the first time: comparing questions takes long."""
        before = self.queries
        found = self.decide(question)
        self.cheap += self.queries == before
        return found

    def decide(self, question: Question) -> Answer:
        if question.carried and question.most is not None and question.most < 2:
            return {}
        if any(low is not None and high is not None and high < low for _, low, high in question.ranges):
            return {}
        if _lie_apart(question):
            return {}
        kinds = kinds_there_are(question.waves)
        match question.lanes:
            case Lanes.UNKNOWN:
                return self.recall_kinds(question, kinds)
            case Lanes.SAME_START if (apart := lanes_apart(question)) is not None:
                own = self.decide_kinds(apart, kinds & Pairs.OWN)
            case _:
                own = {}
        return {**own, **self.recall_kinds(replace(question, lanes=Lanes.UNKNOWN), kinds & ~Pairs.OWN)}

    def recall_kinds(self, question: Question, kinds: Pairs) -> Answer:
        """What is known of some kinds from the question with other lanes; the rest is decided now."""
        known = _KINDS.get(question)
        if known is None:
            if len(_KINDS) >= MOST_REMEMBERED:
                _KINDS.clear()
            known = _KINDS[question] = {}
        missing = [kind for kind in KINDS if kind in kinds and kind not in known]
        if missing:
            undecided = self.undecided
            found = self.decide_kinds(question, reduce(or_, missing))
            unsure, self.undecided = self.undecided > undecided, undecided
            known |= {kind: (found.get(kind), unsure) for kind in (*found, *missing)}
        self.undecided += any(unsure for kind, (_, unsure) in known.items() if kind in kinds)
        return {kind: each for kind, (each, _) in known.items() if each is not None and kind in kinds}

    def decide_kinds(self, question: Question, kinds: Pairs) -> Answer:
        if _is_plain(question.x) and _is_plain(question.y):
            meets = Found(int(question.carried), (), (), {}, True)
            return {kind: _for_waves(meets, kind, question) for kind in KINDS if kind in kinds}
        if not question.own:
            return self.search(question, kinds)
        return {**self.search(alone(question), kinds & Pairs.OWN), **self.search(question, kinds & ~Pairs.OWN)}

    def search(self, question: Question, kinds: Pairs) -> Answer:
        if question.waves > 1 and not question.own and not _tells_waves_apart(question):
            # What holds of one wave holds of all pairs.
            alike = self.search(replace(question, waves=1), Pairs.OWN)
            return {kind: _for_waves(alike[Pairs.OWN], kind, question) for kind in KINDS if alike and kind in kinds}
        tried = try_all(question, kinds)
        if tried is not None and not tried.found:
            return {}
        if tried is not None and not tried.loose:
            return self.confirm(question, tried)
        if _is_affine(question):
            wanted = [kind for kind in KINDS if (kind in tried.found if tried else kind in kinds)]
            answer: Answer = {}
            for kind in wanted:
                example = tried.found[kind] if tried else None
                found = _shown(question, kind, example) or self.by_isl(question, kind, example)
                if found is not None:
                    answer[kind] = found
            return answer
        if tried is not None:
            return {kind: _found(each, False) for kind, each in tried.found.items()}
        return {kind: replace(each, exact=False) for kind, each in self.search(_widened(question), kinds).items()}

    def confirm(self, question: Question, tried: Tried) -> Answer:
        """What was tried is exact, if the conditions on other names can hold at all."""
        rest = [cond for cond in tried.rest if not why_not_affine(cond)]
        exact = len(rest) == len(tried.rest)
        used = {name for cond in rest for name in names(cond)}
        conds = (*rest, *ranged(question, used), *later(question, used))
        point = self.ask(conds, ("d", *question.rounds)) if rest else {}
        if point is None:
            return {}
        if isinstance(point, Undecided):
            self.undecided += 1
            point, exact = {}, False
        elif "d" in point:
            point, sure = self.least(conds, point, ("d", *question.rounds))
            exact = exact and sure
            point = point if sure else {**point, "d": 1}
        rounds = {name: self.least_round(conds, name, point) for name in question.rounds if name in point}
        answer: Answer = {}
        for kind, each in tried.found.items():
            distance = point.get("d", each.distance) if "d" not in tried.names else each.distance
            first = tuple(rounds.get(name, least) for name, least in zip(question.rounds, each.rounds, strict=True))
            answer[kind] = Found(distance, first, each.left, {**point, **each.point}, exact)
        return answer

    # --- isl ---

    def by_isl(self, question: Question, kind: Pairs, example: Example | None) -> Found | None:
        asked = alone(question) if kind == Pairs.OWN else question
        left = example.left if example else (ANYWHERE,) * len(asked.left)
        divided = by_waves(asked, kind)
        if divided is False:
            return None
        slots = divided if isinstance(divided, Slots) else None
        conds = conds_of(asked, kind, slots)
        affine = [cond for cond in conds if not why_not_affine(cond)]
        order = ("d", *asked.rounds, "u", "v", "i")
        point: dict[str, int] | Undecided | None = guess(affine, ("d", *asked.rounds), asked.left)
        if point is None:
            point = self.ask(tuple(affine), order)
        if point is None:
            return None
        if isinstance(point, Undecided):
            self.undecided += 1
            least = example.distance if example else int(asked.carried)
            return Found(least, (0,) * len(asked.rounds), left, dict(example.point) if example else {}, False)
        point, sure = self.least(affine, point, order) if asked.carried else (point, True)
        rounds = tuple(self.least_round(affine, name, point) for name in asked.rounds)
        left = tuple(
            self.ends(affine, name, trips, point) if ends == ANYWHERE and trips is not None else ends
            for (name, trips), ends in zip(asked.left, left, strict=True)
        )
        distance = point.get("d", 1) if asked.carried else 0
        if slots is not None:
            point = {**point, "u": slots.waves[0], "v": slots.waves[1]}
        return Found(distance if sure else 1, rounds, left, point, sure and len(affine) == len(conds))

    def least(
        self, conds: Sequence[Cond], point: dict[str, int], order: tuple[str, ...]
    ) -> tuple[dict[str, int], bool]:
        """isl names the least distance only if nothing else runs to minus infinity; else one asks for a lesser one."""
        for _ in range(MOST_STEPS):
            if point.get("d", 1) <= 1:
                return point, True
            nearer = self.ask((*conds, Compare("<", Name("d"), Const(point["d"]))), order)
            if nearer is None:
                return point, True
            if isinstance(nearer, Undecided):
                return point, False
            point = nearer
        return point, False

    def least_round(self, conds: Sequence[Cond], name: str, point: dict[str, int]) -> int:
        """The first iteration of a loop around y in which the two meet; 0 where nobody can tell."""
        least = point.get(name, 0)
        for _ in range(MOST_STEPS):
            if least <= 0:
                return 0
            found = self.ask((*conds, Compare("<", Name(name), Const(least))), (name,), others=False)
            if found is None:
                return least
            if isinstance(found, Undecided):
                return 0
            least = found[name]
        return 0

    def ends(self, conds: Sequence[Cond], name: str, trips: Index, point: dict[str, int]) -> Ends:
        """How many iterations of a loop that x leaves follow at least; how often it runs is an expression."""
        rest = Binary("-", Binary("-", trips, Const(1)), Name(name))
        if why_not_affine(rest) or not all(each in point for each in names(rest)):
            return ANYWHERE
        least = evaluate(rest, point)
        for _ in range(MOST_STEPS):
            if least <= 0:
                return ANYWHERE
            fewer = (Compare("==", Name(LEFT), rest), Compare("<", Name(LEFT), Const(least)))
            found = self.ask((*conds, *fewer), (LEFT,), others=False)
            if found is None:
                return Ends(1 << 30, frozenset((least,)), True)
            if isinstance(found, Undecided):
                return ANYWHERE
            least = found[LEFT]
        return ANYWHERE

    def ask(
        self, conds: tuple[Cond, ...], order: tuple[str, ...], *, others: bool = True
    ) -> dict[str, int] | Undecided | None:
        """`others`: whether other names have to be as small as they can be."""
        used = {name for cond in conds for name in names(cond)}
        key = (conds, tuple(name for name in order if name in used), others)
        if key not in self.points:
            began = time.perf_counter()
            self.points[key] = find_point(conds, key[1], others=others)
            self.queries += 1
            self.seconds += time.perf_counter() - began
        return self.points[key]


def _tells_waves_apart(question: Question) -> bool:
    """Whether it matters which waves are asked about."""
    used = (*question.x.used, *question.y.used, *(name for cond in question.around for name in names(cond)))
    return "u" in used or "v" in used


def _for_waves(found: Found, kind: Pairs, question: Question) -> Found:
    """The same for two waves that are such a pair."""
    half = question.waves // 2
    u, v = {Pairs.OWN: (0, 0), Pairs.WITHIN: (0, 1), Pairs.BACK: (half, 0), Pairs.FORTH: (0, half)}[kind]
    return Found(found.distance, found.rounds, found.left, {**found.point, "u": u, "v": v}, found.exact)


def _shown(question: Question, kind: Pairs, example: Example | None) -> Found | None:
    """The least of what was tried, if large sizes make an example of it in which everything holds."""
    if example is None:
        return None
    conds = conds_of(alone(question) if kind == Pairs.OWN else question, kind)
    point = dict(example.point)
    point.setdefault("v", point.get("u", 0))
    for name, low, high in question.ranges:
        if high is None and not is_counter(name):
            point[name] = point.get(name, 0) + LARGE  # a size or a number from outside; its remainders stay
        else:
            point.setdefault(name, low or 0)
    if question.carried:
        point.setdefault("i", 0)
        point.setdefault("d", example.distance)
    if not all(name in point for cond in conds for name in names(cond) if name[0] not in "ef"):
        return None
    try:
        facts = (*question.x.facts, *question.y.facts, *question.around, *ranged(question, set(point)))
        late = later(question, set(point))
        if all(holds(cond, point) for cond in (*facts, *late)):
            return _found(example, True)
    except (KeyError, ZeroDivisionError):
        pass
    return None


def alone(question: Question) -> Question:
    """The same question about one wave: y's wave is x's, and so are its own numbers."""
    if question.waves == 1 and not question.own:
        return question
    by: dict[str, Index] = {"v": Name("u")}
    by.update({other: Name(one) for one, other in question.own})
    math = Arithmetic({})
    side = question.y
    spans = tuple(replace(span, limit=None if span.limit is None else math.put(span.limit, by)) for span in side.spans)
    facts = tuple(math.put_cond(fact, by) for fact in side.facts)
    y = Side(math.put_cond(side.cond, by), math.put(side.start, by), spans, side.width, facts, side.room)
    return replace(question, y=y, own=())


def lanes_apart(question: Question) -> Question | None:
    """The question about one wave, where the two accesses do not start at the same byte; None if they always do."""
    single = alone(question)
    math, by = Arithmetic({}), {"v": Name("u")}
    apart = math.put(Binary("-", single.x.start, single.y.start), by)
    if isinstance(apart, Const):
        return single if apart.value else None
    differ = Compare("!=", apart, Const(0))
    return replace(single, y=replace(single.y, facts=(*single.y.facts, differ)))


def _found(example: Example, exact: bool) -> Found:
    return Found(example.distance, example.rounds, example.left, example.point, exact)


def _widened(question: Question) -> Question:
    """A side that isl cannot follow is taken as far as it can reach, whatever its names are."""
    return replace(question, x=_wide(question, question.x), y=_wide(question, question.y))


def _wide(question: Question, side: Side) -> Side:
    if not any(why_not_affine(expr) for expr in side.expressions()):
        return side
    low, high = _math(question).bounds(side.start)
    back, ahead = reach(side)
    first, last = side.room
    if low is not None and high is not None:
        first, last = low + back, high + ahead
    return Side(TRUE, Const(first), (), max(0, last - first), side.facts, side.room)


def _math(question: Question) -> Arithmetic:
    return Arithmetic({name: (low, high) for name, low, high in question.ranges})


def _lie_apart(question: Question) -> bool:
    math, found = _math(question), []
    for side in (question.x, question.y):
        low, high = math.bounds(side.start)
        back, ahead = reach(side)
        if side.width == 0 or any(span.count == 0 for span in side.spans):
            return True
        found.append((None if low is None else low + back, None if high is None else high + ahead))
    (a, b), (c, d) = found
    return (b is not None and c is not None and b <= c) or (d is not None and a is not None and d <= a)


def _is_plain(side: Side) -> bool:
    """Whether it is the same bytes without a gap, whenever and for whichever wave."""
    return isinstance(side.start, Const) and side.cond == TRUE and not side.spans and not side.facts


def _is_affine(question: Question) -> bool:
    return not any(why_not_affine(expr) for expr in (*question.x.expressions(), *question.y.expressions()))
