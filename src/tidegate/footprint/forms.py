"""Accesses without the names of their loops: equal pairs of forms meet in equal ways.

Needs   accesses of one flow
Gives   for a pair a key that is equal for pairs which differ in loops and buffers only; meetings from one to the other
Keeps   equal keys have equal answers: a counter that matters through its remainder alone is as good as any other of
        the same role, once its loop runs twice as long as the remainder takes to come again
Cost    linear in the expressions, once for each class of accesses; then a few look-ups for each pair
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import lcm

from tidegate.footprint.arithmetic import Arithmetic
from tidegate.footprint.meetings import NO_PAIRS, Ends, Meeting, Witness
from tidegate.footprint.model import Touch
from tidegate.footprint.sequences import period_in
from tidegate.footprint.values import iteration
from tidegate.graph.flow import Flow
from tidegate.index import WAVE, Compare, Cond, Const, Index, Name, names
from tidegate.language.types import FLAG


@dataclass(frozen=True, slots=True)
class Form:
    """An access over counters c0, c1, ... in the order of their use. `number` stands for all of it but the loops."""

    number: int
    loops: tuple[int, ...]  # which loop each counter counts
    periods: tuple[int, ...]  # after how many iterations each is the same again; 0: never
    buffer: str


class Forms:
    def __init__(self, flow: Flow, is_bound: Callable[[Cond], bool]) -> None:
        self.flow, self.is_bound = flow, is_bound
        self.rooms = {buffer.name: buffer.bytes for buffer in flow.graph.buffers}
        self.plain = {WAVE, *(value.name for value in flow.graph.free if value.type == FLAG)}
        self.numbers: dict[object, int] = {}
        self.known: dict[int, Form | None] = {}

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
        facts = [fact for fact in touch.facts if not (self.is_bound(fact) or self.is_most(fact, touch))]
        limits = [span.limit for span in touch.extents if span.limit is not None]
        parts: list[Index | Cond] = [spot.cond, spot.start, *limits, *facts]
        used = dict.fromkeys(name for part in parts for name in names(part))
        counters = {iteration(loop): loop for loop in touch.loops if iteration(loop) in used}
        order = [name for name in used if name in counters]
        if not used.keys() <= counters.keys() | self.plain:
            return None  # a size that decides more than how long a loop runs
        by: dict[str, Index] = {name: Name(f"c{place}") for place, name in enumerate(order)}
        math = Arithmetic({})
        form = (
            math.put_cond(spot.cond, by),
            math.put(spot.start, by),
            tuple((s.count, s.stride, None if s.limit is None else math.put(s.limit, by)) for s in touch.extents),
            touch.width,
            tuple(math.put_cond(fact, by) for fact in facts),
            touch.exact,
            self.rooms[spot.buffer],
        )
        periods = tuple(lcm(*(period_in(part, name) or 0 for part in parts)) for name in order)
        loops = tuple(counters[name] for name in order)
        return Form(self.numbers.setdefault(form, len(self.numbers)), loops, periods, spot.buffer)

    def is_most(self, fact: Cond, touch: Touch) -> bool:
        """Whether a fact says of a counter what is known of its loop anyway."""
        match fact:
            case Compare("<", Name(name), Const(most)):
                return any(iteration(loop) == name and self.flow.loops[loop].most == most for loop in touch.loops)
        return False

    def key(self, x: Form, y: Form, same: Sequence[int], loop: int) -> object:
        """What a meeting of two forms in one buffer depends on."""
        shared: dict[int, int] = {}
        roles = []
        for form in (x, y):
            for each, period in zip(form.loops, form.periods, strict=True):
                both = each in x.loops and each in y.loops
                if each == loop:
                    role = -1
                elif both and each in same:
                    role = shared.setdefault(each, len(shared))
                else:
                    role = -2
                longest = self.long(each, x, y) if both else self.limit(each, period)
                roles.append((role, period, longest))
        most = self.flow.loops[loop].most if loop >= 0 else None
        uses = loop in x.loops or loop in y.loops
        carried = (loop >= 0, self.long(loop, x, y) if uses else None if most is None else min(most, 2))
        return (x.number, y.number, tuple(roles), carried)

    def long(self, loop: int, x: Form, y: Form) -> int | None:
        """How often a loop runs at most, or None if that is longer than anything about it can matter."""
        found = [
            period for form in (x, y) for each, period in zip(form.loops, form.periods, strict=True) if each == loop
        ]
        return self.limit(loop, lcm(*found))

    def limit(self, loop: int, period: int) -> int | None:
        most = self.flow.loops[loop].most
        return None if most is None or (period and most >= 2 * period) else most


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


def relative(found: Open, x_form: Form, y_form: Form) -> Open:
    """A meeting with counters in place of loops, kept for other pairs."""
    witness = found.meeting.witness
    meeting = replace(
        found.meeting,
        rounds=tuple((y_form.loops.index(loop), first) for loop, first in found.meeting.rounds),
        witness=replace(
            witness,
            x_iterations=_counted(witness.x_iterations, x_form),
            y_iterations=_counted(witness.y_iterations, y_form),
        ),
    )
    return Open(meeting, tuple((x_form.loops.index(loop), ends) for loop, ends in found.left))


def _counted(found: Sequence[tuple[int, int]], form: Form) -> tuple[tuple[int, int], ...]:
    return tuple((form.loops.index(loop), count) for loop, count in found if loop in form.loops)


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
