"""When two accesses can touch one byte: in one iteration, or how many iterations apart.

Needs   a flow and its footprints
Gives   meetings: which pairs of waves, the least distance, the least rounds of loops around one of the two, a witness
Keeps   every meeting that can happen is reported, at a distance that is not greater; one marked exact does happen
Cost    memoised three times: by classes of accesses, by question, by conditions; isl is asked last

    write %a + #0 mod 2 * 4096 + wave * 1024
    read  %a + #0 mod 2 * 4096                 same iteration: all pairs; carried: all pairs at distance 2
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tidegate.footprint.ask import Found, Judge
from tidegate.footprint.boxes import bytes_at, first_run, reach
from tidegate.footprint.forms import Forms, Open, absolute, relative, together
from tidegate.footprint.meetings import Meeting, Pairs, Witness
from tidegate.footprint.model import Footprints, Note, Touch
from tidegate.footprint.questions import Asker, Question, Side
from tidegate.graph.flow import Flow
from tidegate.index import Const, evaluate, holds

__all__ = ["Conflicts", "Meeting", "Pairs", "Witness"]


class Conflicts:
    """Answers for one flow; all are remembered."""

    def __init__(self, flow: Flow, footprints: Footprints) -> None:
        self.flow, self.footprints = flow, footprints
        self.asker, self.judge = Asker(footprints), Judge()
        self.known: dict[tuple[int, int, int], tuple[Meeting, ...]] = {}
        self.asked: dict[object, tuple[Question, dict[str, int]]] = {}
        self.notes: dict[Note, None] = {}
        self.forms = Forms(flow, self.asker.is_mere_bound)
        self.by_form: dict[object, list[Open]] = {}
        self.constant_trips = {
            loop: trips.value for loop in footprints.ends_at_head if isinstance(trips := footprints.trips[loop], Const)
        }
        self.never = {number for number, loop in enumerate(flow.loops) if loop.most == 0}

    @property
    def isl_queries(self) -> int:
        return self.judge.queries

    @property
    def isl_seconds(self) -> float:
        return self.judge.seconds

    @property
    def cheap(self) -> int:
        """Questions that were answered without isl."""
        return self.judge.cheap

    def same_iteration(self, x: int, y: int) -> tuple[Meeting, ...]:
        """Loops around both are in one iteration; others in any. At most one meeting, its distance 0."""
        return self.meetings(x, y, -1)

    def carried(self, x: int, y: int, loop: int) -> tuple[Meeting, ...]:
        """y is later by `distance` iterations of `loop`, in one iteration of all loops around that."""
        return self.meetings(x, y, loop)

    def meetings(self, x: int, y: int, loop: int) -> tuple[Meeting, ...]:
        key = (self.footprints.class_of(x), self.footprints.class_of(y), loop)
        known = self.known.get(key)
        if known is None:
            known = self.known[key] = tuple(self.find(x, y, loop))
        return known

    def find(self, x: int, y: int, loop: int) -> list[Meeting]:
        one, other = self.footprints.accesses[x], self.footprints.accesses[y]
        if not (self.never.isdisjoint(one.loops) and self.never.isdisjoint(other.loops)):
            return []
        common = [each for each in one.loops if each in other.loops]
        same = common[: common.index(loop)] if loop >= 0 else common
        first, second = (
            self.forms.of(one, self.footprints.class_of(x)),
            self.forms.of(other, self.footprints.class_of(y)),
        )
        if first is None or second is None or first.buffer != second.buffer:
            return [self.counted(each) for each in self.meet(one, other, same, loop)]
        key = self.forms.key(first, second, same, loop)
        if key not in self.by_form:
            self.by_form[key] = [relative(each, first, second) for each in self.meet(one, other, same, loop)]
        return [self.counted(absolute(each, one, other, first, second)) for each in self.by_form[key]]

    def counted(self, open_: Open) -> Meeting:
        """A meeting with the rounds of loops that x leaves."""
        if not open_.left:
            return open_.meeting
        rounds = dict(open_.meeting.rounds)
        for loop, ends in open_.left:
            rest = ends.least(self.constant_trips.get(loop))
            if rest > 0:
                rounds[loop] = rounds.get(loop, 0) + rest
        return replace(open_.meeting, rounds=tuple(rounds.items()))

    def meet(self, one: Touch, other: Touch, same: list[int], loop: int) -> list[Open]:
        best: dict[Pairs, Open] = {}
        for kind, found in self.by_places(one, other, same, loop):
            best[kind] = together([best[kind], found]) if kind in best else found
        if loop < 0:
            return [together(list(best.values()))] if best else []
        apart: dict[int, list[Open]] = {}
        for each in best.values():
            apart.setdefault(each.meeting.distance, []).append(each)
        return [together(apart[distance]) for distance in sorted(apart)]

    def by_places(self, x: Touch, y: Touch, same: list[int], loop: int) -> Iterator[tuple[Pairs, Open]]:
        for one in x.places:
            for other in y.places:
                shift = self.asker.shared_from(one, other)
                if shift is None:
                    continue
                question, loops = self.asker.ask(x, y, (one, other), shift, same, loop)
                undecided = self.judge.undecided
                answer = self.judge.answer(question)
                if self.judge.undecided > undecided:
                    self.notes[Note(x.node, f"isl cannot decide whether it meets node {y.node}: taken as yes")] = None
                for kind, each in answer.items():
                    exact = each.exact and x.exact and y.exact
                    rounds = tuple(
                        (loops[name], first)
                        for name, first in zip(question.rounds, each.rounds, strict=True)
                        if first > 0
                    )
                    left = tuple(
                        (loops[name], ends)
                        for (name, _), ends in zip(question.left, each.left, strict=True)
                        if ends.period > 1
                    )
                    witness = self.witness(question, each, (x, y), one.buffer, loops, loop)
                    yield kind, Open(Meeting(each.distance, kind, rounds, witness, exact), left)

    def witness(
        self,
        question: Question,
        found: Found,
        touches: tuple[Touch, Touch],
        buffer: str,
        loops: dict[str, int],
        loop: int,
    ) -> Witness:
        point = dict(found.point)
        u = point.setdefault("u", 0)
        v = point.setdefault("v", u)
        if question.carried:
            point.setdefault("i", 0)
            point["d"] = point.get("d", found.distance)
        first, last = _common_bytes(question, point)
        numbers = {number: name for name, number in loops.items()}
        sides: list[tuple[tuple[int, int], ...]] = []
        for touch, own in zip(touches, ("x", "y"), strict=True):
            rounds: list[tuple[int, int]] = []
            for each in touch.loops:
                if each == loop:
                    rounds.append((each, point["i"] + (point["d"] if own == "y" else 0)))
                else:
                    name = numbers.get(each, "") if own == "x" or each not in numbers else numbers[each]
                    rounds.append((each, max(0, point.get(name, 0))))
            sides.append(tuple(rounds))
        sizes = tuple((name, point[name]) for name in sorted(self.asker.sizes) if name in point)
        return Witness(u, v, buffer, first, last, sides[0], sides[1], sizes)


def _common_bytes(question: Question, point: dict[str, int]) -> tuple[int, int]:
    """The first bytes that both touch; where the example does not show it, what both may touch."""
    x, y = question.x, question.y
    try:
        if holds(x.cond, point) and holds(y.cond, point):
            zero = min(evaluate(side.start, point) + reach(side)[0] for side in (x, y))
            bits = bytes_at(x, point, zero) & bytes_at(y, point, zero)
            if bits:
                first, last = first_run(bits)
                return first + zero, last + zero
    except (KeyError, ZeroDivisionError):
        pass
    return _room(x, y)


def _room(x: Side, y: Side) -> tuple[int, int]:
    first, last = max(x.room[0], y.room[0]), min(x.room[1], y.room[1])
    return first, max(first, last)
