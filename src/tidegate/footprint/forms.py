"""Accesses without the names of their loops: equal pairs of forms meet in equal ways.

Needs   accesses of one flow
Gives   for a pair a key that is equal for pairs which differ in loops and places of buffers only, and its question;
        meetings from one to the other
Keeps   equal keys have equal answers: a counter that matters through its remainder, and through comparisons with small
        numbers, is as good as any other of the same role, once its loop runs twice as long as the remainder takes to
        come again. A flag that only decides whether an access runs matters if it decides otherwise for the other one:
        one from outside keeps them apart, one that nobody knows may have changed by then, and is no matter of forms
Cost    linear in the expressions, once for each class of accesses; then a few look-ups for each pair
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm

from tidegate.footprint.arithmetic import Arithmetic
from tidegate.footprint.meetings import NO_PAIRS, Ends, Meeting, Witness
from tidegate.footprint.model import Span, Touch
from tidegate.footprint.questions import AHEAD, Question, Side, Variables, compared_with, decided, is_counter
from tidegate.footprint.sequences import period_in
from tidegate.footprint.values import iteration
from tidegate.graph.flow import Flow
from tidegate.index import WAVE, Binary, Compare, Cond, Const, Index, Name, Select, names
from tidegate.language.types import FLAG

# Roles of counters. A loop that is in one iteration on both sides has a number from 0 on if both speak of it, and is
# `HELD` if one does: in which round of it they meet is not asked (test_plans_do_not_depend_on_earlier_kernels).
CARRIED, ALONE, HELD = -1, -2, -3


@dataclass(frozen=True, slots=True)
class Body:
    """The bytes of an access over counters c0, c1, ... in the order of their use, and what holds there."""

    cond: Cond
    start: Index
    spans: tuple[Span, ...]
    width: int
    facts: tuple[Cond, ...]
    exact: bool
    room: int
    count: int  # of counters

    def parts(self) -> list[Index | Cond]:
        return [self.cond, self.start, *(span.limit for span in self.spans if span.limit is not None)]


@dataclass(frozen=True, slots=True)
class Counter:
    """What is known of one counter of a body."""

    period: int  # after how many iterations it is the same again; 0: never
    reach: int = -1  # the greatest number that it is compared with
    only_above: bool = False  # all comparisons ask for more than a number


@dataclass(frozen=True, slots=True)
class Form:
    """An access as a body in its own loops. `number` stands for the body, `always` for the one without lower bounds."""

    number: int
    always: int
    counters: tuple[Counter, ...]
    loops: tuple[int, ...]  # which loop each counter counts
    flags: frozenset[tuple[str, bool]]  # what decides whether it runs, and nothing else
    buffer: str


class Forms:
    def __init__(self, flow: Flow, is_bound: Callable[[Cond], bool], free_flags: frozenset[str]) -> None:
        self.flow, self.is_bound = flow, is_bound
        self.rooms = {buffer.name: buffer.bytes for buffer in flow.graph.buffers}
        self.flags = {value.name for value in flow.graph.free if value.type == FLAG}
        self.plain = {WAVE, *self.flags}
        where = {name for cond in flow.graph.where for name in names(cond)}
        self.deciders = free_flags | {name for name in self.flags if name not in where}
        self.numbers: dict[Body, int] = {}
        self.bodies: list[Body] = []
        self.always: list[int] = []  # body → the body without lower bounds
        self.counters: list[tuple[Counter, ...]] = []
        self.known: dict[int, Form | None] = {}
        self.kept: dict[int, tuple[tuple[Cond, ...], tuple[Cond, ...]]] = {}  # facts by identity → those that matter
        self.sides: dict[tuple[int, int, str, tuple[Index, ...]], Side] = {}

    def of(self, touch: Touch, number: int) -> Form | None:
        """The form of a class of accesses; None if it has none: several places, or numbers that nobody knows."""
        if number not in self.known:
            self.known[number] = self.find(touch)
        return self.known[number]

    def find(self, touch: Touch) -> Form | None:
        if len(touch.places) != 1 or touch.places[0].start is None:
            return None
        spot = touch.places[0]
        assert spot.start is not None
        facts = self.facts_that_matter(touch)
        parts: list[Index | Cond] = [spot.cond, spot.start]
        parts += [span.limit for span in touch.extents if span.limit is not None]
        used = dict.fromkeys(name for part in parts for name in names(part))
        deciding = {fact: flag for fact in facts if (flag := decided(fact, self.deciders)) and flag[0] not in used}
        facts = tuple(fact for fact in facts if fact not in deciding) if deciding else facts
        flags = frozenset(deciding.values())
        if any((flag, not value) in flags for flag, value in flags):
            return None  # it never runs
        used.update(dict.fromkeys(name for fact in facts for name in names(fact)))
        loops = [int(name[1:]) for name in used if name[0] == "#"]
        if not all(name[0] == "#" or name in self.plain for name in used):
            return None  # a size that decides more than how long a loop runs
        by: dict[str, Index] = {iteration(loop): Name(f"c{place}") for place, loop in enumerate(loops)}
        body = Body(
            _renamed_cond(spot.cond, by),
            _renamed(spot.start, by),
            tuple(replace(each, limit=each.limit and _renamed(each.limit, by)) for each in touch.extents),
            touch.width,
            tuple(_renamed_cond(fact, by) for fact in facts),
            touch.exact,
            self.rooms[spot.buffer],
            len(loops),
        )
        number = self.number(body)
        return Form(number, self.always[number], self.counters[number], tuple(loops), flags, spot.buffer)

    def lie_apart(self, first: Form, second: Form) -> bool:
        """Whether two forms are the same bytes always, and not one of them is common."""
        one, other = self.plain_bytes(first), self.plain_bytes(second)
        return one is not None and other is not None and (one[1] <= other[0] or other[1] <= one[0])

    def plain_bytes(self, form: Form) -> tuple[int, int] | None:
        body = self.bodies[form.number]
        if not isinstance(body.start, Const) or any(span.stride < 0 or span.count < 1 for span in body.spans):
            return None
        start = body.start.value
        return start, start + sum((span.count - 1) * span.stride for span in body.spans) + body.width

    def facts_that_matter(self, touch: Touch) -> tuple[Cond, ...]:
        known = self.kept.get(id(touch.facts))
        if known is None:
            found = tuple(fact for fact in touch.facts if not (self.is_bound(fact) or self.is_most(fact, touch)))
            known = self.kept[id(touch.facts)] = (found, touch.facts)
        return known[0]

    def is_most(self, fact: Cond, touch: Touch) -> bool:
        """Whether a fact says of a counter what is known of its loop anyway."""
        match fact:
            case Compare("<", Name(name), Const(most)):
                return any(iteration(loop) == name and self.flow.loops[loop].most == most for loop in touch.loops)
        return False

    def number(self, body: Body) -> int:
        known = self.numbers.get(body)
        if known is None:
            known = self.numbers[body] = len(self.bodies)
            self.bodies.append(body)
            self.always.append(known)
            self.counters.append(tuple(self.counter(body, f"c{place}") for place in range(body.count)))
            rest = tuple(fact for fact in body.facts if not _asks_for_more(fact))
            if len(rest) < len(body.facts):
                self.always[known] = self.number(replace(body, facts=rest))
        return known

    def counter(self, body: Body, name: str) -> Counter:
        parts, numbers, above = body.parts(), [], True
        for fact in body.facts:
            if name not in names(fact):
                continue
            compared = compared_with(fact)
            if compared is None or compared[0] != (name,):
                parts.append(fact)
            else:
                numbers.append(compared[1])
                above = above and _asks_for_more(fact)
        period = lcm(*(period_in(part, name) or 0 for part in parts))
        return Counter(period, max(numbers, default=-1), bool(numbers) and above)

    # --- pairs ---

    def opposed(self, x: Form, y: Form) -> list[str]:
        """Flags that let only one of them run, if they are the same for both."""
        return [name for name, value in x.flags if (name, not value) in y.flags] if x.flags and y.flags else []

    def key(
        self, x: Form, y: Form, shift: int, same: Sequence[int], loop: int
    ) -> tuple[int, int, int, tuple[object, ...], bool]:
        """What a meeting of two forms depends on: two bodies, how far their buffers are apart, the roles of their
        counters, and whether one of them is that of the carried loop."""
        shared: dict[int, int] = {}
        roles: list[object] = []
        numbers = []
        for form, other in ((x, y), (y, x)):
            is_free = form.always != form.number
            for each, counter in zip(form.loops, form.counters, strict=True):
                there = other.counters[other.loops.index(each)] if each in other.loops else None
                if each == loop:
                    role = CARRIED
                elif each in same:
                    role = shared.setdefault(each, len(shared)) if there is not None else HELD
                else:
                    role = ALONE
                longest = self.longest(each, counter, there)
                roles.append((role, longest))
                if is_free and counter.reach >= 0:
                    # Later iterations meet alike; but y's first one counts if its loop is its own.
                    is_alone = role in (ALONE, HELD)
                    is_free = counter.only_above and longest is None and (not is_alone or form is x)
                    if not is_alone and there is not None and there.reach >= 0:
                        is_free = is_free and there.only_above
            numbers.append(form.always if is_free else form.number)
        return numbers[0], numbers[1], shift, tuple(roles), loop >= 0

    def longest(self, loop: int, one: Counter, other: Counter | None) -> int | None:
        """How often a loop runs at most, or None if that is longer than anything about it can matter."""
        most = self.flow.loops[loop].most
        if most is None:
            return None
        period, reach = one.period, one.reach
        if other is not None:
            period, reach = lcm(period, other.period), max(reach, other.reach)
        return None if period and most > 2 * period + reach else most

    def question(
        self, numbers: tuple[int, int, int], forms: tuple[Form, Form], same: Sequence[int], loop: int, waves: int
    ) -> tuple[Question, tuple[Variables, Variables]]:
        """When two bodies that lie so far apart meet, and which variable stands for which counter of each."""
        shared: dict[int, str] = {}
        ranges: dict[str, tuple[str, int | None, int | None]] = {}
        variables: list[Variables] = []
        sides: list[Side] = []
        shifts = (0, numbers[2])
        for side, number, shift, form in zip("xy", numbers[:2], shifts, forms, strict=True):
            by: list[Index] = []
            mine: list[tuple[int, str]] = []
            for place, each in enumerate(form.loops):
                most = self.flow.loops[each].most
                if each == loop:
                    name = "i"
                    ranges["i"], ranges["d"] = ("i", 0, None), ("d", 1, None)
                else:
                    own = each not in same
                    name = f"{side}{place}" if own else shared.setdefault(each, f"s{len(shared)}")
                    ranges[name] = (name, 0, None if most is None else most - 1)
                by.append(AHEAD if each == loop and side == "y" else Name(name))
                mine.append((place, name))
            variables.append(tuple(mine))
            sides.append(self.side(number, shift, side, tuple(by)))
        used = {name for side in sides for name in side.used}
        ranges |= {name: (name, 0, waves - 1) for name in "uv"}
        ranges |= {name: (name, 0, 1) for name in self.flags}
        x_own, y_own = (
            tuple(name for _, name in mine if name[0] == side and name in used)
            for side, mine in zip("xy", variables, strict=True)
        )
        question = Question(
            waves,
            loop >= 0,
            self.flow.loops[loop].most if loop >= 0 else None,
            sides[0],
            sides[1],
            (),
            tuple(ranges[name] for name in sorted(used)),
            (),
            y_own,
            tuple((name, None) for name in x_own),
        )
        return question, (variables[0], variables[1])

    def side(self, number: int, shift: int, side: str, by: tuple[Index, ...]) -> Side:
        key = (number, shift, side, by)
        known = self.sides.get(key)
        if known is None:
            body, math = self.bodies[number], Arithmetic({})
            new: dict[str, Index] = {f"c{place}": each for place, each in enumerate(by)}
            new[WAVE] = Name("u" if side == "x" else "v")
            spans = tuple(replace(each, limit=each.limit and math.put(each.limit, new)) for each in body.spans)
            facts = tuple(math.put_cond(fact, new) for fact in body.facts)
            start = math.put(body.start, new)
            start = math.binary("+", start, Const(shift)) if shift else start
            room = (shift, shift + body.room)
            known = Side(math.put_cond(body.cond, new), start, spans, body.width, facts, room)
            self.sides[key] = known
        return known


def _asks_for_more(fact: Cond) -> bool:
    match fact:
        case Compare(">" | ">=", Name(name), Const()):
            return is_counter(name)
    return False


def _renamed(index: Index, by: Mapping[str, Index]) -> Index:
    match index:
        case Name(name):
            return by.get(name, index)
        case Binary(op, left, right):
            return Binary(op, _renamed(left, by), _renamed(right, by))
        case Select(cond, then, otherwise):
            return Select(_renamed_cond(cond, by), _renamed(then, by), _renamed(otherwise, by))
        case Const():
            return index
    return Arithmetic({}).put(index, by)


def _renamed_cond(cond: Cond, by: Mapping[str, Index]) -> Cond:
    match cond:
        case Compare(op, left, right):
            return Compare(op, _renamed(left, by), _renamed(right, by))
    return Arithmetic({}).put_cond(cond, by)


@dataclass(frozen=True, slots=True)
class Open:
    """A meeting before it is known how often the loops run that x leaves: by loop, how long before the end x can be."""

    meeting: Meeting
    left: tuple[tuple[int, Ends], ...]


def together(several: list[Open]) -> Open:
    """Meetings as one: all pairs, the least distance and rounds, the first witness at that distance."""
    if len(several) == 1:
        return several[0]
    pairs = NO_PAIRS
    rounds, left = dict(several[0].meeting.rounds), dict(several[0].left)
    for each in several:
        pairs |= each.meeting.pairs
        first, ends = dict(each.meeting.rounds), dict(each.left)
        rounds = {loop: min(least, first[loop]) for loop, least in rounds.items() if loop in first}
        left = {loop: known.joined(ends[loop]) for loop, known in left.items() if loop in ends}
    distance = min(each.meeting.distance for each in several)
    nearest = [each.meeting for each in several if each.meeting.distance == distance]
    # Two waves say more than one that meets itself.
    shown = next((each for each in nearest if each.witness.x_wave != each.witness.y_wave), nearest[0])
    exact = all(each.exact for each in nearest)
    return Open(Meeting(distance, pairs, tuple(rounds.items()), shown.witness, exact), tuple(left.items()))


def absolute(found: Open, x: Touch, y: Touch, x_form: Form, y_form: Form) -> Open:
    """The same for a pair in its own loops; counters that do not matter are at 0."""
    meeting, witness = found.meeting, found.meeting.witness
    x_counts = {x_form.loops[place]: count for place, count in witness.x_iterations}
    y_counts = {y_form.loops[place]: count for place, count in witness.y_iterations}
    shown = Witness(
        witness.x_wave,
        witness.y_wave,
        x_form.buffer,
        witness.first,
        witness.last,
        tuple([(loop, x_counts.get(loop, 0)) for loop in x.loops]),
        tuple([(loop, y_counts.get(loop, 0)) for loop in y.loops]),
        witness.sizes,
    )
    rounds = tuple([(y_form.loops[place], first) for place, first in meeting.rounds])
    left = tuple([(x_form.loops[place], ends) for place, ends in found.left])
    return Open(Meeting(meeting.distance, meeting.pairs, rounds, shown, meeting.exact), left)
