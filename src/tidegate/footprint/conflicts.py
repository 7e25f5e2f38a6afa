"""When two accesses can touch one byte: in one iteration, or how many iterations apart.

Needs   a flow and its footprints
Gives   meetings: which pairs of waves, the least distance, the least rounds of loops around one of the two, a witness
Keeps   every meeting that can happen is reported, at a distance that is not greater; one marked exact does happen
Cost    memoised three times: by classes of accesses, by question, by conditions; isl is asked last

    write %a + #0 mod 2 * 4096 + wave * 1024
    read  %a + #0 mod 2 * 4096                 same iteration: all pairs; carried: all pairs at distance 2
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from tidegate.footprint.ask import Answer, Found, OverlapSolver, forget_answers
from tidegate.footprint.boxes import bytes_at, first_run, reach
from tidegate.footprint.forms import Form, Forms, Open, absolute, together
from tidegate.footprint.meetings import ANYWHERE, KINDS, Lanes, Meeting, Pairs, Witness
from tidegate.footprint.model import Footprints, Note, Touch
from tidegate.footprint.questions import Asker, Question, Side, Variables, lanes_between
from tidegate.graph.flow import Flow
from tidegate.index import Const, evaluate, holds

__all__ = ["Conflicts", "Meeting", "Pairs", "Witness"]


# Meetings of two bodies, whichever program they stand in: kernels of one process ask the same again and again.
_MET: dict[tuple[object, ...], list[Open]] = {}
MOST_REMEMBERED = 20_000


def forget_meetings() -> None:
    """Forgets what other programs of this process have asked."""
    _MET.clear()
    forget_answers()


class Conflicts:
    """Answers for one flow; all are remembered."""

    def __init__(self, flow: Flow, footprints: Footprints) -> None:
        self.flow, self.footprints = flow, footprints
        self.asker, self.judge = Asker(footprints), OverlapSolver()
        self.known: dict[tuple[int, int, int], tuple[Meeting, ...]] = {}
        self.asked: dict[object, tuple[Question, dict[str, int]]] = {}
        self.notes: dict[Note, None] = {}
        self.forms = Forms(flow, self.asker.is_mere_bound, self.asker.free_flags)
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
        if first is None or second is None:
            return [self.counted(each) for each in self.meet(one, other, same, loop)]
        shift = self.asker.shared_from(first.buffer, second.buffer)
        opposed = self.forms.opposed(first, second)
        if shift is None or any(flag not in self.asker.free_flags for flag in opposed):
            return []
        if shift == 0 and self.forms.lie_apart(first, second):
            return []
        if opposed:
            return [self.counted(each) for each in self.meet(one, other, same, loop)]
        # Who does not speak of the carried loop meets in the next iteration as in the same one.
        speaks = loop >= 0 and (loop in first.loops or loop in second.loops)
        most = self.flow.loops[loop].most if loop >= 0 else None
        if most is not None and most < 2:
            return []
        key = self.forms.key(first, second, shift, same, loop if speaks else -1)
        asked = (key, lanes_between(one, other))
        if asked not in self.by_form:
            self.by_form[asked] = self.recall(*asked, (first, second), same, loop if speaks else -1, (x, y))
        found = (absolute(each, one, other, first, second) for each in self.by_form[asked])
        distance = int(loop >= 0 and not speaks)
        return [_later(self.counted(_without(each, same)), distance) for each in found]

    def recall(
        self,
        key: tuple[int, int, int, tuple[object, ...], bool],
        lanes: Lanes,
        forms: tuple[Form, Form],
        same: list[int],
        loop: int,
        nodes: tuple[int, int],
    ) -> list[Open]:
        """What is known of two bodies from another program, else what is found now."""
        bodies = self.forms.bodies[key[0]], self.forms.bodies[key[1]]
        exact = all(self.footprints.accesses[node].exact for node in nodes)
        everywhere = (*bodies, *key[2:], lanes, exact, self.flow.graph.waves, frozenset(self.forms.flags))
        found = _MET.get(everywhere)
        if found is None:
            undecided = self.judge.undecided
            found = self.meet_as_forms(key[:3], lanes, forms, same, loop, nodes)
            if self.judge.undecided == undecided:
                if len(_MET) >= MOST_REMEMBERED:
                    _MET.clear()
                _MET[everywhere] = found
        return found

    def meet_as_forms(
        self,
        numbers: tuple[int, int, int],
        lanes: Lanes,
        forms: tuple[Form, Form],
        same: list[int],
        loop: int,
        nodes: tuple[int, int],
    ) -> list[Open]:
        """As `meet`, with counters in place of loops."""
        question, variables = self.forms.question(numbers, forms, same, loop, self.flow.graph.waves)
        question = replace(question, lanes=lanes)
        exact = all(self.footprints.accesses[node].exact for node in nodes)
        return _by_distance([self.answers(question, self.judge.answer_new, variables, nodes, forms[0].buffer, exact)])

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
        found: list[list[Open]] = []
        nodes, exact = (one.node, other.node), one.exact and other.exact
        for x in one.places:
            for y in other.places:
                shift = self.asker.shared_from(x.buffer, y.buffer)
                if shift is not None:
                    question, variables = self.asker.ask(one, other, (x, y), shift, same, loop)
                    found.append(self.answers(question, self.judge.answer, variables, nodes, x.buffer, exact))
        return _by_distance(found)

    def answers(
        self,
        question: Question,
        judge: Callable[[Question], Answer],
        variables: tuple[Variables, Variables],
        nodes: tuple[int, int],
        buffer: str,
        exact: bool,
    ) -> list[Open]:
        """Meetings, each of all kinds of pairs that meet alike; loops are what the variables stand for."""
        undecided = self.judge.undecided
        answer = judge(question)
        if self.judge.undecided > undecided:
            self.notes[Note(nodes[0], f"isl cannot decide whether it meets node {nodes[1]}: assumed so")] = None
        left_by, entered_by = ({name: loop for loop, name in mine} for mine in variables)
        shown = _shown(answer)
        witnesses = {apart: self.witness(question, each, variables, buffer) for apart, each in shown.items()}
        alike: dict[tuple[object, ...], tuple[Found, list[Pairs]]] = {}
        for kind, each in answer.items():
            alike.setdefault((each.distance, each.rounds, each.left, each.exact), (each, []))[1].append(kind)
        found = []
        for each, kinds in alike.values():
            entered = zip(question.rounds, each.rounds, strict=True)
            left = zip(question.left, each.left, strict=True)
            meeting = Meeting(
                each.distance,
                Pairs(sum(kind.value for kind in kinds)),
                tuple((entered_by[name], first) for name, first in entered if first > 0),
                witnesses[each.distance],
                each.exact and exact,
            )
            ends = tuple((left_by[name], ends) for (name, _), ends in left if ends != ANYWHERE)
            found.append(Open(meeting, ends))
        return found

    def witness(self, question: Question, found: Found, variables: tuple[Variables, Variables], buffer: str) -> Witness:
        point = dict(found.point)
        u = point.setdefault("u", 0)
        v = point.setdefault("v", u)
        if question.carried:
            point.setdefault("i", 0)
            point["d"] = point.get("d", found.distance)
        first, last = _common_bytes(question, point)
        x, y = (tuple((loop, max(0, point.get(name, 0))) for loop, name in mine) for mine in variables)
        if question.carried:
            y = tuple(
                (loop, count + point["d"] if name == "i" else count)
                for (loop, count), (_, name) in zip(y, variables[1], strict=True)
            )
        sizes = tuple((name, point[name]) for name in sorted(self.asker.sizes) if name in point)
        return Witness(u, v, buffer, first, last, x, y, sizes)


def _shown(answer: Answer) -> dict[int, Found]:
    """For each distance the example to show: two waves say more than one that meets itself."""
    found: dict[int, Found] = {}
    for each in answer.values():
        if each.distance not in found or (_is_of_two(each) and not _is_of_two(found[each.distance])):
            found[each.distance] = each
    return found


def _is_of_two(found: Found) -> bool:
    u = found.point.get("u", 0)
    return found.point.get("v", u) != u


def _later(meeting: Meeting, by: int) -> Meeting:
    return replace(meeting, distance=meeting.distance + by) if by else meeting


def _without(found: Open, same: Sequence[int]) -> Open:
    """Loops that only one of two accesses depends on, and that are in the same iteration for both, are not left."""
    if not same or not (found.meeting.rounds or found.left):
        return found
    rounds = tuple(each for each in found.meeting.rounds if each[0] not in same)
    return Open(replace(found.meeting, rounds=rounds), tuple(each for each in found.left if each[0] not in same))


def _by_distance(found: Sequence[Sequence[Open]]) -> list[Open]:
    """Each kind of pair at its least distance, whichever question found it; those at one distance as one meeting."""
    apart: dict[int, list[Open]] = {}
    for each in found[0] if len(found) == 1 else _nearest(found):
        apart.setdefault(each.meeting.distance, []).append(each)
    return [together(apart[distance]) for distance in sorted(apart)]


def _nearest(found: Iterable[Iterable[Open]]) -> list[Open]:
    best: dict[Pairs, Open] = {}
    for each in (each for several in found for each in several):
        for kind in KINDS:
            if kind in each.meeting.pairs:
                alone = Open(replace(each.meeting, pairs=kind), each.left)
                best[kind] = together([best[kind], alone]) if kind in best else alone
    return list(best.values())


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
