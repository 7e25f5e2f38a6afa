"""Do two accesses touch a byte, in these iterations, under these conditions, in some pair of waves?

Needs   two footprints, and how a path leads from one to the other
Gives   a point: waves, iterations, sizes, the byte; None if there is none; or that nobody can say
Keeps   exact where everything is affine; what is not is taken as the whole buffer, and the answer is marked
Cost    one question to isl, unless intervals are apart; the same question is asked once

    u', v'     the waves of x and of y         #3         y's iteration of loop 3
    x'0, y'0   which piece of an access        <#3, #3|   other iterations that a path goes through
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

from tidegate.footprint.arithmetic import Arithmetic, Range, both
from tidegate.footprint.model import Footprints, Touch
from tidegate.footprint.values import Spot
from tidegate.index import (
    TRUE,
    ZERO,
    Binary,
    Compare,
    Cond,
    Const,
    Index,
    Name,
    why_not_affine,
)
from tidegate.language.points import Undecided
from tidegate.verify.asked import BYTE, Point, Question, Waves
from tidegate.verify.by_thread import ask_by_thread
from tidegate.verify.by_wave import by_wave
from tidegate.verify.conds import Conds
from tidegate.verify.isl_questions import Questions
from tidegate.verify.paths import WILD, Iterations, Paths, U, V, value_of
from tidegate.verify.tables import Box, RangesOf, make_table, normal_start

NO_COND: Conds = frozenset()
MOST_POINTS_KEPT = 1 << 23  # of large tables; others are made anew


class Meet:
    """Questions about one flow; answers are kept."""

    def __init__(self, paths: Paths) -> None:
        self.paths, self.flow = paths, paths.flow
        self.footprints: Footprints = paths.footprints
        self.graph = self.flow.graph
        self.buffers = {each.name: each for each in self.graph.buffers}
        self.isl = Questions(self.graph, self.footprints)
        self.asked = self.by_thread = 0
        self.room = MOST_POINTS_KEPT
        self.known: dict[object, Point | None] = {}
        self.covered: dict[object, tuple[list[Cond], bool, int, int]] = {}
        self.held: dict[object, list[Cond]] = {}
        self.may: dict[object, bool] = {}
        self.made: dict[object, tuple[Question, ...]] = {}
        self.sides: dict[object, tuple[Box | None, list[Cond], bool, bool]] = {}
        self.starts: dict[object, Index] = {}  # of boxes, as tables take them
        self.by_lanes: dict[object, bool] = {}  # pairs of one wave that do not meet: whether lanes alone see to that

    def find(self, x: Touch, y: Touch, iterations: Iterations, ways: Sequence[Conds], waves: Waves) -> Point | None:
        """x in these iterations, y in its own; one of the ways must be possible. The first point found."""
        classes = (self.footprints.class_of(x.node), self.footprints.class_of(y.node))
        key = (*classes, iterations, waves, tuple(ways))
        if key not in self.known:
            self.known[key] = self.find_new(x, y, iterations, ways, waves) if self.ever_meet(x, y, waves) else None
        return self.known[key]

    def find_new(self, x: Touch, y: Touch, iterations: Iterations, ways: Sequence[Conds], waves: Waves) -> Point | None:
        """Most pairs never meet, whatever the iterations are, and of those that do most meet in these as well: whether
        they do whatever happens between them is asked only if not, and then for all other ways too."""
        if tuple(ways) == (NO_COND,):
            return self.ask_about(x, y, iterations, ways, waves)
        key = (self.footprints.class_of(x.node), self.footprints.class_of(y.node), iterations, waves)
        if (key in self.may or not self.is_for_isl(x, y, iterations, waves)) and not self.may_meet(
            x, y, iterations, waves
        ):
            return None
        given_up = self.isl.given_up
        found = self.ask_about(x, y, iterations, ways, waves)
        unsure = self.isl.given_up > given_up  # with less to decide isl may see that there is none
        if key not in self.may and (found is None or unsure) and not self.may_meet(x, y, iterations, waves):
            return None
        return found

    def is_for_isl(self, x: Touch, y: Touch, iterations: Iterations, waves: Waves) -> bool:
        """Whether isl alone decides, for which what holds under more conditions holds under fewer of them."""
        questions = self.questions(x, y, iterations, waves)
        return all(each.table is None and each.threads is None for each in questions)

    def find_reached(
        self,
        x: Touch,
        y: Touch,
        iterations: Iterations,
        ways: Sequence[Conds],
        before: Sequence[Conds],
        waves: Waves,
    ) -> Point | None:
        """As `find`, if x is reached at all, which asks for one of `before` as well. Where it meets y on its only way
        under these, it does so without them."""
        ways, before = self.possible_of(ways), self.possible_of(before)
        strict = tuple(dict.fromkeys(one | other for one in ways for other in before))
        if not strict:
            return None
        classes = (self.footprints.class_of(x.node), self.footprints.class_of(y.node))
        key, stricter = ((*classes, iterations, waves, each) for each in (tuple(ways), strict))
        new = len(ways) == 1 and key not in self.known and stricter not in self.known
        if new and self.ever_meet(x, y, waves) and self.is_for_isl(x, y, iterations, waves):
            questions, given_up = self.questions(x, y, iterations, waves), self.isl.given_up
            if len(questions) == 1 and self.find(x, y, iterations, strict, waves) and self.isl.given_up == given_up:
                self.known[key] = self.point(questions[0], ways[0])
        found = self.find(x, y, iterations, ways, waves)
        return found if found is not None and self.find(x, y, iterations, strict, waves) is not None else None

    def leans_on_lanes(self, x: Touch, y: Touch, iterations: Iterations, ways: Sequence[Conds], waves: Waves) -> bool:
        """Whether two accesses of a wave that do not meet would, if nothing were known of their lanes."""
        if not x.lanes or x.lanes != y.lanes:
            return False
        key = (self.footprints.class_of(x.node), self.footprints.class_of(y.node), iterations, tuple(ways))
        if key not in self.by_lanes:
            asked = (
                question.with_way(map(self.paths.book.conds.__getitem__, sorted(way)))
                for question in self.questions(x, y, iterations, waves, by_lanes=False)
                for way in ways
            )
            self.by_lanes[key] = any(self.isl.holds(given[0]) for given in asked if given is not None)
        return self.by_lanes[key]

    def ever_meet(self, x: Touch, y: Touch, waves: Waves) -> bool:
        """Whether they meet in any iterations at all: the same whichever comes first, unless halves tell them apart."""
        swapped = not (waves.x or waves.y) and self.footprints.class_of(x.node) > self.footprints.class_of(y.node)
        first, second = (y, x) if swapped else (x, y)
        lane = waves.one_lane and first.pieces is not None and second.pieces is not None
        return self.may_meet(first, second, self.anywhere(first), replace(waves, one_lane=lane))

    def may_meet(self, x: Touch, y: Touch, iterations: Iterations, waves: Waves) -> bool:
        """Whether they meet at all, whatever happens between them."""
        key = (self.footprints.class_of(x.node), self.footprints.class_of(y.node), iterations, waves)
        if key not in self.may:
            # Four pairs of halves ask about the same accesses: most never meet, whichever waves do them.
            self.may[key], whole = False, replace(waves, x="", y="")
            if whole == waves or self.may_meet(x, y, iterations, whole):
                self.asked += 1
                asked = (each.with_way(()) for each in self.questions(x, y, iterations, waves))
                self.may[key] = any(self.isl.holds(found[0]) for found in asked if found is not None)
        return self.may[key]

    def questions(
        self, x: Touch, y: Touch, iterations: Iterations, waves: Waves, *, by_lanes: bool = True
    ) -> tuple[Question, ...]:
        """One for each pair of places. `by_lanes`: whether accesses of a wave that keep to their lanes do not meet."""
        key = (self.footprints.class_of(x.node), self.footprints.class_of(y.node), iterations, waves, by_lanes)
        found = self.made.get(key)
        if found is None:
            if (waves.x or waves.y) and (
                x.pieces is None or y.pieces is None
            ):  # what all waves are asked about, of some of them
                either = replace(waves, x="", y="")
                whole = self.questions(x, y, iterations, either, by_lanes=by_lanes)
                found = tuple(replace(each, conds=(*each.conds, *waves.halves(self.graph.waves))) for each in whole)
                if (*key[:3], either, by_lanes) in self.made:  # else its tables are too large to be kept
                    self.made[key] = found
                return found
            found = tuple(self.new_questions(x, y, iterations, waves, by_lanes=by_lanes))
            points = sum(each.table.points for each in found if each.table is not None and not each.table.is_small)
            if points <= self.room:
                self.room -= points
                self.made[key] = found  # asked again on other ways
        return found

    def new_questions(
        self, x: Touch, y: Touch, iterations: Iterations, waves: Waves, *, by_lanes: bool
    ) -> Iterator[Question]:
        facts = (*self.facts(x, iterations, U), *self.facts(y, self.paths.start(y.node), V))
        if x.pieces is not None and y.pieces is not None:
            yield from ask_by_thread(self, x, y, iterations, waves, facts)
            return
        for one in x.places:
            for other in y.places:
                shift = self.shift(one, other)
                if shift is None:
                    continue
                tried = self.tried(x, y, one, other, shift, iterations, waves, by_lanes)
                if tried is not None:
                    yield tried
                    continue
                conds, sure = self.bytes_meet(x, y, one, other, shift, iterations)
                if conds is not None and waves.same and by_lanes:
                    conds = self.in_two_lanes(conds, x, y, one, other, shift, iterations)
                if conds is not None:
                    yield Question((*conds, *facts, *waves.conds(self.graph.waves)), sure, one)

    def tried(
        self,
        x: Touch,
        y: Touch,
        one: Spot,
        other: Spot,
        shift: int,
        iterations: Iterations,
        waves: Waves,
        by_lanes: bool,
    ) -> Question | None:
        """The question with a table, if it is not affine and there can be one."""
        if any(span.limit is not None for touch in (x, y) for span in touch.extents):
            return None
        start = self.paths.start(y.node)
        ours, conds, sure_x, odd_x = self.side(x, one, iterations, U, 0)
        theirs, more, sure_y, odd_y = self.side(y, other, start, V, shift)
        if ours is None or theirs is None or not (odd_x or odd_y):
            return None
        known = [*conds, *more]
        pairs = reduce(both, waves.conds(self.graph.waves))
        keeps = by_lanes and waves.same and x.lanes == y.lanes != "" and not (x.is_async or y.is_async)
        apart = y.lanes_from - x.lanes_from if keeps else None
        bases = self.bases_in(x, y, iterations)
        starts = (self.start_of(ours, bases), self.start_of(theirs, bases))
        table = make_table((ours, theirs), starts, known, (U, V), self.ranges_with(bases), pairs, apart)
        if table is None:
            return None
        trips = (*self.trips_of(x, iterations), *self.trips_of(y, start))
        return Question((*known, *trips), sure_x and sure_y, one, table)

    def side(
        self, touch: Touch, spot: Spot, iterations: Iterations, wave: str, shift: int
    ) -> tuple[Box | None, list[Cond], bool, bool]:
        """The box of one access, what is known wherever it is reached, whether that is all there is to know, and
        whether something of it is not affine. No box: its place is unknown."""
        key = (self.footprints.class_of(touch.node), spot, iterations, wave, shift)
        found = self.sides.get(key)
        if found is None:
            place = None if spot.start is None else self.paths.index_at(spot.start, touch.node, iterations, wave)
            box = None
            if place is not None:
                steps = tuple((span.count, span.stride) for span in touch.extents)
                box = Box(Binary("+", place, Const(shift)), steps, touch.width)
            conds = [self.paths.put_at(cond, touch.node, iterations, wave) for cond in (*touch.facts, spot.cond)]
            known = [cond for cond in conds if cond is not None]
            odd = any(map(why_not_affine, known)) or (box is not None and bool(why_not_affine(box.start)))
            found = self.sides[key] = (box, known, len(known) == len(conds) and not touch.may, odd)
        return found

    def start_of(self, box: Box, bases: Mapping[str, Range]) -> Index:
        """Where a box starts, in the form that tables take."""
        key = (box.start, tuple(bases.items()))
        if key not in self.starts:
            self.starts[key] = normal_start(box.start, self.ranges_with(bases))
        return self.starts[key]

    def anywhere(self, x: Touch) -> Iterations:
        """Iterations of which nothing is known."""
        return tuple((f"{base}?" if base != WILD else WILD, 0) for base, _ in self.paths.start(x.node))

    def ask_about(
        self, x: Touch, y: Touch, iterations: Iterations, ways: Sequence[Conds], waves: Waves
    ) -> Point | None:
        self.asked += 1
        for question in self.questions(x, y, iterations, waves):
            for way in ways:
                if not self.isl.possible.get(way, True):
                    continue
                given = question.with_way(map(self.paths.book.conds.__getitem__, sorted(way)))
                if given is not None and self.isl.holds(given[0]):
                    return self.point(question, way)
                if len(ways) > 1:  # if nobody can go it, no further accesses are asked about there
                    self.isl.is_possible(way, self.paths.book)
        return None

    def possible_of(self, ways: Sequence[Conds]) -> Sequence[Conds]:
        """Of several ways those that can be gone: each that cannot would be asked about with each pair of accesses."""
        return ways if len(ways) == 1 else tuple(each for each in ways if self.isl.is_possible(each, self.paths.book))

    def point(self, question: Question, way: Conds) -> Point | None:
        given = question.with_way(map(self.paths.book.conds.__getitem__, sorted(way)))
        if given is None:
            return None
        return Point(question.spot.buffer, given[1], partial(self.witness, question, way, given[0]))

    def witness(self, question: Question, way: Conds, asked: Sequence[Cond]) -> dict[str, int] | Undecided | None:
        """The point that shows a meeting, with the waves that a table has for it."""
        found = self.isl.ask(asked)
        if isinstance(found, dict):
            found.update(question.waves_at(found, map(self.paths.book.conds.__getitem__, sorted(way))))
        return found

    def shift(self, one: Spot, other: Spot) -> int | None:
        """Where the second buffer begins, seen from the first."""
        a, b = self.buffers[one.buffer], self.buffers[other.buffer]
        if a is b:
            return 0
        return None if a.offset is None or b.offset is None else b.offset - a.offset

    # --- conditions ---

    def bytes_meet(
        self, x: Touch, y: Touch, one: Spot, other: Spot, shift: int, iterations: Iterations
    ) -> tuple[list[Cond] | None, bool]:
        """That both touch `byte`; None if they lie apart."""
        start = self.paths.start(y.node)
        first, sure_x, low_x, high_x = self.covers(x, one, "x'", iterations, U, 0)
        second, sure_y, low_y, high_y = self.covers(y, other, "y'", start, V, shift)
        if high_x < low_y or high_y < low_x:
            return None, True
        return [*first, *second], sure_x and sure_y

    def in_two_lanes(
        self, conds: list[Cond], x: Touch, y: Touch, one: Spot, other: Spot, shift: int, iterations: Iterations
    ) -> list[Cond] | None:
        """With what keeps two accesses of one wave out of one lane; None if they always keep to it.

        Accesses of one map that start at the same byte do; of other maps nothing is known.
        """
        if not x.lanes or x.lanes != y.lanes or x.is_async or y.is_async or one.start is None or other.start is None:
            return conds
        first = self.paths.index_at(one.start, x.node, iterations, U)
        second = self.paths.index_at(other.start, y.node, self.paths.start(y.node), V)
        if first is None or second is None:
            return conds
        same_wave = {V: Name(U)}
        by = shift - y.lanes_from + x.lanes_from
        apart = self.paths.math.put(Binary("-", Binary("+", second, Const(by)), first), same_wave)
        if isinstance(apart, Const):
            return conds if apart.value else None
        return conds if why_not_affine(apart) else [*conds, Compare("!=", apart, ZERO)]

    def covers(
        self, touch: Touch, spot: Spot, side: str, iterations: Iterations, wave: str, shift: int
    ) -> tuple[list[Cond], bool, int, int]:
        """That an access touches `byte`; whether exactly so; and between which bytes it lies."""
        key = (self.footprints.class_of(touch.node), spot, side, iterations, shift)
        known = self.covered.get(key)
        if known is None:
            conds, sure = self.touches(touch, spot, side, iterations, wave, shift)
            known = self.covered[key] = (conds, sure, *self.reach(conds, spot, shift))
        return known

    def touches(
        self, touch: Touch, spot: Spot, side: str, iterations: Iterations, wave: str, shift: int
    ) -> tuple[list[Cond], bool]:
        buffer, byte = self.buffers[spot.buffer], Name(BYTE)
        found: list[Cond] = [Compare(">=", byte, Const(shift)), Compare("<", byte, Const(shift + buffer.bytes))]
        sure = True
        if spot.cond != TRUE:
            cond = self.paths.at(spot.cond, touch.node, iterations, wave)
            sure = cond is not None
            found += [cond] if cond is not None else []
        place = None if spot.start is None else self.paths.index_at(spot.start, touch.node, iterations, wave)
        if place is not None and why_not_affine(place):
            place, more = by_wave(place, wave, f"{side}place", self.graph.waves, self.paths.math)
            found += more
        if place is None:
            return found, False
        place = Binary("+", place, Const(shift)) if shift else place
        for number, span in enumerate(touch.extents):
            step = Name(f"{side}{number}")
            found += [Compare(">=", step, ZERO), Compare("<", step, Const(span.count))]
            if span.limit is not None:
                limit = self.paths.index_at(span.limit, touch.node, iterations, wave)
                if limit is not None and not why_not_affine(limit):
                    found.append(Compare("<", step, limit))
                else:
                    sure = False
            place = Binary("+", place, Binary("*", step, Const(span.stride)))
        found += [Compare(">=", byte, place), Compare("<", byte, Binary("+", place, Const(touch.width)))]
        return found, sure and not touch.may

    def reach(self, conds: list[Cond], spot: Spot, shift: int) -> tuple[int, int]:
        """The bytes between which an access lies at most: intervals keep many apart."""
        math = self.math_under(conds)
        low, high = shift, shift + self.buffers[spot.buffer].bytes - 1
        for cond in conds:
            if not (isinstance(cond, Compare) and cond.left == Name(BYTE)):
                continue
            bound = math.bounds(math.put(cond.right, {}))
            if cond.op == ">=" and bound[0] is not None:
                low = max(low, bound[0])
            if cond.op == "<" and bound[1] is not None:
                high = min(high, bound[1] - 1)
        return low, high

    def bounds(self, index: Index, conds: Sequence[Cond], ranges: Callable[[str], Range]) -> Range:
        """Between which values an index lies, as far as single conditions and ranges of names tell."""
        steps = self.math_under(conds).ranges
        math = Arithmetic(RangesOf(lambda name: steps[name] if name in steps else ranges(name)))
        return math.bounds(math.put(index, {}))

    def math_under(self, conds: Sequence[Cond]) -> Arithmetic:
        """Arithmetic that knows waves, and how many pieces an access has."""
        ranges: dict[str, Range] = {U: (0, self.graph.waves - 1), V: (0, self.graph.waves - 1)}
        for cond in conds:
            match cond:
                case Compare("<", Name(name), Const(most)) if name[:2] in ("x'", "y'") and name[2:].isdigit():
                    ranges[name] = (0, most - 1)
        return Arithmetic(ranges)

    def facts(self, touch: Touch, iterations: Iterations, wave: str) -> list[Cond]:
        """What holds wherever an access is reached."""
        key = (touch.facts, self.flow.loop_of[touch.node], iterations, wave)
        if key not in self.held:
            found = (self.paths.at(fact, touch.node, iterations, wave) for fact in touch.facts)
            known = [cond for cond in found if cond is not None]
            self.held[key] = [*known, *self.trips_of(touch, iterations)]
        return self.held[key]

    def trips_of(self, touch: Touch, iterations: Iterations) -> Iterator[Cond]:
        """That iterations lie below a number of trips that only the graph states."""
        for loop, step in zip(self.paths.around[touch.node], iterations, strict=True):
            most = self.flow.loops[loop].most
            if most is not None and step[0] != WILD and loop not in self.paths.trips:
                yield Compare("<", value_of(step), Const(most))

    def bases_in(self, x: Touch, y: Touch, iterations: Iterations) -> dict[str, Range]:
        """What is known of x's and y's iterations, which end with their loops, and of waves."""
        known: dict[str, Range] = dict.fromkeys((U, V), (0, self.graph.waves - 1))
        for touch, steps in ((x, iterations), (y, self.paths.start(y.node))):
            for loop, (base, offset) in zip(self.paths.around[touch.node], steps, strict=True):
                most = self.flow.loops[loop].most
                low, high = known.get(base, (0, None))
                if base != WILD and most is not None:
                    known[base] = (low, most - offset if high is None else min(high, most - offset))
        return known

    def ranges_with(self, known: Mapping[str, Range]) -> Callable[[str], Range]:
        return lambda name: known[name] if name in known else self.isl.range_of(name)
