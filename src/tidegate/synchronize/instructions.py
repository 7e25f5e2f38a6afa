"""Synchronizes final instructions in place: what is missing is put in, and then what nobody needs goes.

Needs   a program of final instructions
Gives   edits of its text, each with its reason; or why a race has no barrier that would be safe in compiled code
Keeps   a program with edits is proved, as it is read from the new text; else there are none. Barriers that may order
        global memory stay, and so do waits: only their counts grow, and no more copies are in flight where a thread
        ends than before. The result has nothing left to take away
Cost    an exploration and a proof for each barrier that is put in; a proof for each that is tried without

    race st 13 → ld 17        insert `bar.sync 0;` before 17, if all threads come there
    bar.sync in line 18       gone, if it is proved without
    wait_group 0              wait_group 1, if that is proved
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import starmap
from typing import TYPE_CHECKING

from tidegate.diag import Span
from tidegate.graph import model as g
from tidegate.graph.plan import Change, Delete, Edit, Plan
from tidegate.language.ops import CommitGroup, SyncOp, WaitCount
from tidegate.placement.pieces import Piece, find_pieces, removal_order
from tidegate.session import Session
from tidegate.verify.model import Suspect, Verification
from tidegate.verify.prover import Prover
from tidegate.verify.threads import S, T

if TYPE_CHECKING:
    from tidegate.hosts.amdgcn.program import AmdgcnProgram
    from tidegate.hosts.isa.edits import TextEdit
    from tidegate.hosts.isa.gaps import Gaps
    from tidegate.hosts.ptx.program import PtxProgram
    from tidegate.synchronize.counts import Loosening

    Final = AmdgcnProgram | PtxProgram

MOST_INSERTED = 32
MOST_TRIALS, MOST_POINTS = 400, 100_000  # of programs without some barrier, and points of all of them
MOST_GROUPS = 64  # in flight, that are told apart

NOWHERE_TOGETHER = "there is no place between them to which all threads of the block come together"
NOT_ENOUGH = "no barrier between them orders them"
AT_ONCE = "one instruction touches the bytes in two threads at once"


@dataclass(frozen=True, slots=True)
class Rewritten:
    """`edits` of the text that was given; `refused`: pairs of places that race, and why nothing is put in there."""

    program: Final
    edits: tuple[TextEdit, ...] = ()
    refused: Mapping[frozenset[Span], str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def final_of(unit: Session) -> Final | None:
    """The program of final instructions that a session is about."""
    return ptx_of(unit) or amdgcn_of(unit)


def ptx_of(unit: Session) -> PtxProgram | None:
    if unit.origin is None:
        return None
    from tidegate.hosts.ptx.program import PtxProgram

    return unit.origin if isinstance(unit.origin, PtxProgram) else None


def amdgcn_of(unit: Session) -> AmdgcnProgram | None:
    if unit.origin is None:
        return None
    from tidegate.hosts.amdgcn.program import AmdgcnProgram

    return unit.origin if isinstance(unit.origin, AmdgcnProgram) else None


def session_of(program: Final) -> Session:
    return Session(program.name, program.target, None, program.graph, program, program.retargeted)


def rewrite(unit: Session, program: Final, most: int | None = None) -> Rewritten:
    """`most`: only the first edits are carried out."""
    if program.why_left:
        return Rewritten(program, notes=(program.why_left,))
    if program.unmodelled:
        return Rewritten(program, notes=(f"left as it is: {program.unmodelled[0]}",))
    inserted = _Inserter(program, _Inserting(program, unit.verification)).run()
    if inserted.refused:
        return replace(inserted, notes=tuple(starmap(_refusal, inserted.refused.items())))
    own = {at for at, old in align(program, inserted.program, inserted.edits).items() if not isinstance(old, Span)}
    made = inserted.program
    less = _Reducer(unit if made is program else session_of(made), made, frozenset(own))
    composed = _composed(program, inserted, list(_less(less, made)))
    edits = tuple(sorted(composed, key=lambda each: (each.at.line, each.at.column)))[:most]
    return Rewritten(
        program.rewritten(edits) if edits else program, edits, notes=(*_said(program, edits), *less.said())
    )


def _refusal(ends: frozenset[Span], why: str) -> str:
    lines = sorted(at.line for at in ends)
    between = f" between lines {lines[0]} and {lines[-1]}" if lines else ""
    return f"no barrier is inserted{between}: {why}"


def _said(program: Final, edits: Sequence[TextEdit]) -> tuple[str, ...]:
    inserted = [
        each
        for each in edits
        if each.what == "insert" and each.text in (program.spelled.barrier[0], *program.spelled.lanes)
    ]
    notes = []
    if inserted:
        places = dict.fromkeys(filter(None, (program.beside(each.at) for each in inserted)))
        where = f"in the source it belongs before {', '.join(places)}" if places else "no `.loc` says where it belongs"
        notes.append(f"compiled without a barrier, loads may have been dropped or moved that it calls for; {where}")
    asked = (
        program.graph.points
        if not program.spelled.waits
        else [each for each in program.graph.points if not _waits(each)]
    )
    held = len({point.at for point in asked if point.at in program.held})
    if held:
        some = f"{held} barrier{'s' * (held != 1)} or wait{'s' * (held != 1)}"
        notes.append(f"{some} may order accesses to global memory and stay")
    return tuple(notes)


def _waits(point: g.Point) -> bool:
    return isinstance(point.action, g.Sync) and isinstance(point.action.op, WaitCount)


# --- what is missing ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Inserting:
    """The program with what was put in so far, and what the verifier says of it."""

    program: Final
    verification: Verification
    edits: tuple[TextEdit, ...] = ()


class _Inserter:
    def __init__(self, given: Final, start: _Inserting) -> None:
        self.given, self.now = given, start

    def run(self) -> Rewritten:
        while not self.now.verification.is_proved:
            found = self.now.verification
            open_ = (*found.undecided, *map(str, found.doubts), *map(str, found.outside))
            if open_ or not found.suspects:
                why = str(open_[0]) if open_ else "it is not proved"
                return Rewritten(self.given, refused={frozenset(): why})
            suspect = min(found.suspects, key=self.place)
            step = AT_ONCE if suspect.why == "parallel" else self.order(suspect)
            if isinstance(step, str) or len(step.edits) > MOST_INSERTED:
                why = step if isinstance(step, str) else f"more than {MOST_INSERTED} barriers are missing"
                return Rewritten(self.given, refused={frozenset(self.pair(suspect, self.now)): why})
            self.now = step
        return Rewritten(self.now.program, self.now.edits)

    def place(self, suspect: Suspect) -> tuple[int, int]:
        """Races by the later of their accesses, as the text has them: a barrier there may order others, too."""
        points = self.now.program.graph.points
        return points[suspect.y].at.line, points[suspect.x].at.line

    def pair(self, suspect: Suspect, state: _Inserting) -> tuple[Span, ...]:
        """The places of both accesses in the text that was given: one before the other, which may race both ways."""
        points, known = state.program.graph.points, align(self.given, state.program, state.edits)
        ends = (known[points[each].at] for each in (suspect.x, suspect.y))
        return tuple(each for each in ends if isinstance(each, Span))

    def order(self, suspect: Suspect) -> _Inserting | str:
        """With a barrier, or a wait, that orders it; or why there is none."""
        from tidegate.hosts.isa.gaps import Gaps

        program = self.now.program
        gaps = Gaps(program)
        points = program.graph.points
        x, y = points[suspect.x], points[suspect.y]
        why = ""
        for place, forms in self.ways(suspect, gaps, x, y):
            both = _writes(x.action) and _writes(y.action)
            for texts in forms:
                unsafe = "" if self.is_wait(texts) else gaps.why_unsafe(place, x.at, y.at, both_write=both)
                step = unsafe or self.tried(suspect, place, texts)
                if isinstance(step, _Inserting):
                    return step
                why = why or step
        return why or NOWHERE_TOGETHER

    def is_wait(self, texts: tuple[str, ...]) -> bool:
        """Whether nothing is put in but waits: they only delay, and a compiler keeps what it has loaded."""
        spelled = self.now.program.spelled
        return not {*spelled.barrier, *spelled.lanes}.intersection(texts)

    def ways(
        self, suspect: Suspect, gaps: Gaps, x: g.Point, y: g.Point
    ) -> Iterator[tuple[Span, list[tuple[str, ...]]]]:
        first = suspect.point.value(S)
        own = first is not None and first == suspect.point.value(T)
        copies = isinstance(x.action, g.Access) and x.action.is_async
        spelled = self.now.program.spelled
        waits = spelled.copies if copies else spelled.waits
        if own:
            yield y.at, list(waits) if copies else []
            return
        if spelled.waits:
            for place in gaps.meetings(x.at, y.at):
                yield place, list(waits)
        forms = [spelled.barrier, *((*each, *spelled.barrier) for each in waits)]
        for place in gaps.places(x.at, y.at):
            yield place, forms
        if suspect.within_a_wave and spelled.lanes:
            yield y.at, [spelled.lanes, *((*each, *spelled.lanes) for each in waits)]

    def tried(self, suspect: Suspect, place: Span, texts: tuple[str, ...]) -> _Inserting | str:
        from tidegate.hosts.isa.edits import TextEdit

        at = align(self.given, self.now.program, self.now.edits)[place]
        assert isinstance(at, Span)
        why = f"orders accesses to {suspect.point.buffer.removeprefix('%')}"
        edits = (*self.now.edits, *(TextEdit("insert", at, each, why) for each in texts))
        program = self.given.rewritten(edits)
        if program.unmodelled:
            return program.unmodelled[0]
        step = _Inserting(program, session_of(program).verification, edits)
        wanted = self.pair(suspect, self.now)
        left = any(self.pair(each, step) == wanted for each in step.verification.suspects)
        return NOT_ENOUGH if left or step.verification.undecided else step


def _writes(action: g.Action) -> bool:
    return isinstance(action, g.Access) and action.effect != "read"


# --- what nobody needs --------------------------------------------------------------------------------------------


def _less(less: _Reducer, program: Final) -> Iterator[TextEdit]:
    """Barriers that go, and counts that grow, of a program that is proved."""
    from tidegate.hosts.isa.edits import TextEdit

    less.begin()
    gone: list[Span] = []
    for piece in less.gone():
        for at in dict.fromkeys(less.graph.points[point].at for point in piece.points):
            gone.append(at)
            yield TextEdit("delete", at, program.own_text(at), "proved without it")
    if less.loosening is None:
        yield from _looser_groups(less, program)
        return
    for each in less.loosening.loosen(frozenset(gone)):
        if each.text:
            yield TextEdit("change", each.at, each.text, "enough for registers and for memory")
        else:
            yield TextEdit("delete", each.at, each.own, "neither registers nor memory need it")


def _looser_groups(less: _Reducer, program: Final) -> Iterator[TextEdit]:
    """Waits for groups of copies."""
    from tidegate.hosts.isa.edits import TextEdit
    from tidegate.hosts.ptx.write import with_count

    for piece, count in less.loosened():
        at = less.graph.points[piece.points[0]].at
        new = with_count(program.text, at, count)
        if new is not None:
            yield TextEdit("change", at, new, "proved with this count")


class _Reducer:
    """`own`: what was put in, and may go again."""

    def __init__(self, unit: Session, program: Final, own: frozenset[Span]) -> None:
        self.own = own
        self.graph, self.target, self.program = unit.graph, unit.target, program
        self.prover = Prover(unit.graph, unit.target, unit.ground)
        self.pieces = sorted(find_pieces(unit.graph), key=lambda each: removal_order(each, unit.graph))
        self.plan = Plan()
        self.trials = 0
        self.loosening: Loosening | None = None

    def begin(self) -> None:
        """Counts of assembly first: a barrier that goes because some wait drains everything keeps that wait."""
        from tidegate.hosts.amdgcn.program import AmdgcnProgram

        if isinstance(self.program, AmdgcnProgram):
            from tidegate.synchronize.counts import Loosening

            self.loosening = Loosening(self.program, self.graph, self.keeps)
            self.loosening.loosen()

    def is_possible(self, edits: Sequence[Edit]) -> bool:
        return self.program.possible(Plan(tuple(edits))).edits == tuple(edits)

    @property
    def is_spent(self) -> bool:
        return self.trials > MOST_TRIALS or self.trials * len(self.graph.points) > MOST_POINTS

    def said(self) -> tuple[str, ...]:
        return ("a bound on proofs was reached: more may be redundant, run it again",) if self.is_spent else ()

    def is_proved(self, edits: Sequence[Edit]) -> bool:
        """Together with what was found so far, which then counts as found."""
        self.trials += 1
        if self.is_spent:
            return False
        return self.prover.is_ordered(Plan((*self.plan.edits, *edits)))

    def is_own(self, piece: Piece) -> bool:
        return all(self.graph.points[point].at in self.own for point in piece.points)

    def gone(self) -> Iterator[Piece]:
        """What was put in goes first: what stands there is left alone if it can be."""
        for piece in sorted(self.pieces, key=lambda each: not self.is_own(each)):
            edits = [Delete(point) for point in piece.points]
            if (self.is_own(piece) or self.is_possible(edits)) and self.keeps_order(edits) and self.is_proved(edits):
                self.plan = Plan((*self.plan.edits, *edits))
                yield piece

    def keeps_order(self, edits: Sequence[Delete]) -> bool:
        """Of global memory, of which no graph knows, with all that is gone already."""
        gone = [each.point for each in (*self.plan.edits, *edits) if isinstance(each, Delete)]
        places = frozenset(at for each in gone if (at := self.graph.points[each].at) not in self.waits)
        return self.program.keeps_order(places, self.own) and (self.loosening is None or self.loosening.fits(places))

    @property
    def waits(self) -> Set[Span]:
        return self.loosening.ops.keys() if self.loosening is not None else frozenset()

    def keeps(self, changed: Mapping[int, SyncOp | None]) -> bool:
        """Whether it is proved with these operations, too, which then stay."""
        edits = tuple(
            each for each in self.plan.edits if not isinstance(each, Change | Delete) or each.point not in changed
        )
        more = tuple(Delete(point) if op is None else Change(point, op) for point, op in changed.items())
        self.trials += 1
        if self.is_spent or not self.prover.is_ordered(Plan((*edits, *more))):
            return False
        self.plan = Plan((*edits, *more))
        return True

    def loosened(self) -> Iterator[tuple[Piece, int]]:
        """The first wait first: what it leaves in flight is left to those behind it."""
        before = in_flight(self.graph)
        for piece in sorted(self.pieces, key=lambda each: each.points):
            ops = {action.op for action in self.actions(piece) if isinstance(action, g.Sync)}
            if len(ops) != 1 or not isinstance(op := ops.pop(), WaitCount) or len(op.counts) != 1:
                continue
            ((counter, count),) = op.counts
            most = self.largest(piece, op, counter, count, max(before[point] for point in piece.points))
            if most > count:
                self.plan = Plan((*self.plan.edits, *_with_count(piece, op, counter, most)))
                yield piece, most

    def actions(self, piece: Piece) -> list[g.Action]:
        return [self.graph.points[each].action for each in piece.points]

    def largest(self, piece: Piece, op: WaitCount, counter: str, count: int, limit: int) -> int:
        """Steps that double, then halves: a larger count only asks less."""
        good, bad, step = count, limit + 1, 1
        while bad - good > 1:
            middle = min(good + step, limit) if bad > limit else (good + bad) // 2
            if self.is_enough(_with_count(piece, op, counter, middle)):
                good, step = middle, 2 * step
            else:
                bad = middle
        return good

    def is_enough(self, edits: list[Edit]) -> bool:
        if not self.is_possible(edits):
            return False
        points = list(self.graph.points)
        for edit in (*self.plan.edits, *edits):
            if isinstance(edit, Change):
                points[edit.point] = replace(points[edit.point], action=g.Sync(edit.op))
        before, after = in_flight(self.graph), in_flight(replace(self.graph, points=tuple(points)))
        ends = [number for number, point in enumerate(points) if not point.successors]
        return all(after[end] <= before[end] for end in ends) and self.is_proved(edits)


def _with_count(piece: Piece, op: WaitCount, counter: str, count: int) -> list[Edit]:
    return [Change(point, replace(op, counts=((counter, count),))) for point in piece.points]


def in_flight(graph: g.SyncGraph) -> list[int]:
    """The most groups of copies that a thread may have in flight when it comes to each point; -1: none comes there."""
    at = [-1] * len(graph.points)
    stack = [(each.entry, 0) for each in graph.programs]
    while stack:
        number, count = stack.pop()
        if count <= at[number]:
            continue
        at[number] = count
        point = graph.points[number]
        op = point.action.op if isinstance(point.action, g.Sync) else None
        if isinstance(op, CommitGroup):
            count = min(count + 1, MOST_GROUPS)
        elif isinstance(op, WaitCount) and op.counts:
            count = min(count, *(most for _, most in op.counts), MOST_GROUPS)
        stack += [(each, count) for each in point.successors]
    return at


# --- both together ------------------------------------------------------------------------------------------------


def align(given: Final, made: Final, edits: Sequence[TextEdit]) -> dict[Span, Span | int]:
    """For each place of a text in which something was put in the one in the text before; or the number of the edit."""
    before: dict[Span, list[int]] = {}
    for number, each in enumerate(edits):
        before.setdefault(each.at, []).append(number)
    found: dict[Span, Span | int] = {}
    rest = iter(made.body)
    for item in given.body:
        for number in before.get(item.at, ()):
            found[next(rest).at] = number
        found[next(rest).at] = item.at
    return found


def _composed(given: Final, inserted: Rewritten, less: Sequence[TextEdit]) -> list[TextEdit]:
    """All edits as ones of the text that was given: what was put in and is not needed is not put in."""
    known = align(given, inserted.program, inserted.edits)
    edits: dict[int, TextEdit] = dict(enumerate(inserted.edits))
    rest = []
    for each in less:
        at = known[each.at]
        if isinstance(at, Span):
            rest.append(replace(each, at=at))
        elif each.what == "change":
            edits[at] = replace(edits[at], text=each.text)
        else:
            del edits[at]
    return [*edits.values(), *rest]
