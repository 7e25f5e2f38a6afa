"""Plans for a module of Triton's, and which of them to carry out.

Needs   a program as it was read, from before Triton's barriers
Gives   candidates that are proved: Tidegate's own plans, and what is left of Triton's own barriers without those that
        the verifier does without
Keeps   where loops gain nothing, barriers stay where Triton has them: where a wave waits decides what it has under way
        by then, and Triton's kernels are arranged around its own barriers; what would be slower by the cost model is
        not taken
Cost    a plan and a few proofs for each candidate
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tidegate.diag import Span
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.barriers import MEETING, is_barrier, tally, tally_inserted
from tidegate.graph.model import Access, Alloc, Assign, Compute, Free, Havoc, Point, SyncGraph
from tidegate.graph.plan import Change, Delete, Insert, Plan
from tidegate.hazards.model import Hazard
from tidegate.hosts.mlir.model import Operation, walk
from tidegate.hosts.triton.build import Built
from tidegate.hosts.triton.effects import NOTHING, effects
from tidegate.hosts.triton.program import TritonProgram, programs_of
from tidegate.hosts.triton.read import Ttgir
from tidegate.hosts.triton.types import Types
from tidegate.language.ops import SharedMemoryBarrier
from tidegate.language.show import show_op
from tidegate.session import Session
from tidegate.simulate.cycle_steps import NoEstimate
from tidegate.simulate.cycles import iteration
from tidegate.synchronize import Synchronized, SyncOptions, place_in, propose
from tidegate.synchronize.pricing import MARGIN, MOST_POINTS
from tidegate.synchronize.written import PREPARES, hazards_served
from tidegate.verify.prover import Prover
from tidegate.verify.verify import find_wrong

STRATEGY = "minimal"
BARRIER = "ttg.barrier"
# What a barrier may stand before or behind alike; and what no plan can put one before.
HARMLESS = (Compute, Alloc, Free, Assign, Havoc)
NOWHERE = -1
# Enough for a comparison: latencies that vary are drawn once, iterations run twice, so often each.
DRAWS, ROUNDS = 1, (6, 12)
MOST_PLACES = 3  # that one reason names
ONCE = "met once, where Triton has it"
EFFECTS = {"read": "R", "write": "W", "atomic": "U"}
# Registers of a thread (CUDA C++ Programming Guide, technical specifications by compute capability). What takes
# more spills, and how fast a kernel is then hangs on where its waves happen to be.
REGISTERS = {"cuda": 255}


@dataclass(frozen=True)
class Candidate:
    """A plan for one program, and what comes of it."""

    program: TritonProgram
    plan: Plan
    after: SyncGraph
    reasons: tuple[str, ...]  # one for each edit
    moves_waits: bool = False
    exactly: Built | None = None  # where edits go in the text, if not before the operations of their points

    @property
    def barriers(self) -> int:
        put = tally_inserted(self.plan, self.program.built.graph).barriers
        taken = sum(isinstance(each, Delete) for each in self.plan.edits)
        return barriers_in(self.program) + put - taken

    @cached_property
    def in_loops(self) -> float:
        """How often barriers in loops are met, as far as anybody knows."""
        points = enumerate(self.after.points)
        return tally(self.after, (number for number, point in points if point.loop >= 0)).weight

    @cached_property
    def priced(self) -> SyncGraph:
        """What comes of it, with the bytes of each wave: they cost something, also where they do not matter."""
        (fine,) = programs_of(replace(self.program.ttgir, is_fine=True))
        return apply_to_graph(self.plan, fine.built.graph)

    def cycles(self, loop: int) -> float | None:
        """One iteration of a loop, by the cost model; None if it does not say."""
        if len(self.after.points) > MOST_POINTS:
            return None
        target = self.program.target
        try:
            return iteration(self.priced, target, loop, cached=True, draws=DRAWS, rounds=ROUNDS).cycles or None
        except NoEstimate:
            return None


def barriers_in(program: TritonProgram) -> int:
    """Those that stand by themselves, and waits at which waves meet; what an operation brings along is its own."""
    built, rows = program.built, effects()
    points = zip(built.graph.points, built.before, strict=True)
    rows_of = (rows.get(op.name, NOTHING) for point, op in points if op is not None and is_barrier(point.action))
    return sum(bool(row.barrier or row.meets) for row in rows_of)


# --- which ----------------------------------------------------------------------------------------------------------


def is_better(one: Candidate, other: Candidate) -> bool:
    """Fewer barriers in loops, and not slower by the model; without loops, fewer barriers.

    Where waits have moved, the model must say that it pays: else they stay.
    """
    if one.in_loops == other.in_loops == 0:
        return one.barriers < other.barriers
    if one.in_loops >= other.in_loops:
        return False
    pairs = [(one.cycles(loop), other.cycles(loop)) for loop in _loops_with_barriers(other)]
    known = [(mine, others) for mine, others in pairs if mine is not None and others is not None]
    if any(mine > others * (1 + MARGIN) for mine, others in known):
        return False
    return not one.moves_waits or any(mine < others * (1 - MARGIN) for mine, others in known)


def _loops_with_barriers(candidate: Candidate) -> list[int]:
    return sorted({point.loop for point in candidate.after.points if point.loop >= 0 and is_barrier(point.action)})


def may_be_better(program: TritonProgram, session: Session, merge_waits: str, than: Candidate) -> bool:
    """Whether a plan of Tidegate's own is worth a proof."""
    draft = place_in(session, _options(merge_waits)).plan
    made = Candidate(program, draft, apply_to_graph(draft, program.built.graph), ())
    if than.in_loops == made.in_loops == 0:
        return made.barriers < than.barriers
    return made.in_loops < than.in_loops


def find_spill(program: TritonProgram) -> str:
    """Why barriers had better stay as they are: a sum of products that does not fit into the registers of its thread.

    Other values are made where they are needed; a sum stays.
    """
    ttgir = program.ttgir
    most = REGISTERS.get(ttgir.gpu.backend)
    if most is None:
        return ""
    types = Types(ttgir.module.aliases)
    products = (op for op in walk(program.function) if effects().get(op.name, NOTHING).role == "mma")
    found = (types.tensor(text) for op in products for text in op.result_types)
    largest = max((each.bytes for each in found if each is not None), default=0) // (4 * ttgir.waves * ttgir.lanes)
    return f"a sum of products takes {largest} registers of a thread, and spills" if largest > most else ""


# --- Tidegate's own -------------------------------------------------------------------------------------------------


def session_of(program: TritonProgram) -> Session:
    """For all plans of Tidegate's own; without their program they are not refined."""
    return Session(program.name, program.target, None, program.built.graph)


def plan_anew(program: TritonProgram, session: Session, merge_waits: str, *, refined: bool) -> Candidate | str:
    """The plan that `tidegate sync` would make, or why there is none.

    `refined`: without what the proof does without.
    """
    result = propose(replace(session, origin=program) if refined else session, _options(merge_waits))
    if result.made is None or result.after is None:
        return result.findings[0].message if result.findings else result.why_not
    if (pair := find_wrong(result.after, program.target)) is not None:
        return say_wrong(program, result.after, pair)
    moves = any(not isinstance(getattr(edit, "op", None), MEETING) for edit in result.plan.edits)
    return Candidate(program, result.plan, result.after, tuple(_reasons(result, program)), moves)


def _options(merge_waits: str) -> SyncOptions:
    return SyncOptions(strategy=STRATEGY, merge_waits=merge_waits, judge=False, least=False, loosen=False)


def say_wrong(program: TritonProgram, graph: SyncGraph, pair: tuple[int, int]) -> str:
    if pair[0] < 0:
        return "the verifier does not decide it"
    first, second = (source_of(program, graph.points[each].at) for each in pair)
    return f"the verifier sees no order between {first} and {second}"


def _reasons(result: Synchronized, program: TritonProgram) -> Iterator[str]:
    """Why each edit stands, in lines of the Triton source."""
    for edit, served in zip(result.plan.edits, hazards_served(result), strict=True):
        what = next(show_op(edit.op)) if isinstance(edit, Insert | Change) else f"{type(edit).__name__.lower()}d"
        pairs: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
        for hazard in served:
            kinds, buffers = pairs.setdefault(_places(hazard, result, program), ({}, {}))
            kinds[hazard.kind.name] = buffers[hazard.witness.buffer] = None
        words = [f"{' '.join(kinds)} of {', '.join(buffers)}, {place}" for place, (kinds, buffers) in pairs.items()]
        more = [f"and {len(words) - MOST_PLACES} more"] if len(words) > MOST_PLACES else []
        yield f"{what}: {'; '.join((*words[:MOST_PLACES], *more)) or PREPARES}"


def _places(hazard: Hazard, result: Synchronized, program: TritonProgram) -> str:
    assert result.graph is not None
    assert result.hazards is not None
    points, origin = result.graph.points, result.hazards.flow.origin
    ends = (points[origin[each]].at for each in (hazard.producer, hazard.consumer))
    return _way(program, *ends)


def _way(program: TritonProgram, first: Span, second: Span) -> str:
    one, other = source_of(program, first), source_of(program, second)
    return one if one == other else f"{one} → {other}"


def source_of(program: TritonProgram, at: Span) -> str:
    return str(program.source(at) or f"line {at.line}")


# --- Triton's own ---------------------------------------------------------------------------------------------------


def keep_needed(late: Ttgir, with_barriers: Ttgir) -> Candidate | None:
    """Triton's own barriers without those that the proof does without; None where they do not fit or are not proved.

    `late` is read as a text in which barriers are final, and has none of Triton's; `with_barriers` is the same with
    them.
    """
    aligned = _align(late, with_barriers)
    if aligned is None:
        return None
    (program,) = programs_of(replace(late, relaxed=aligned.relaxed))
    places = _points(program, aligned)
    if places is None:
        return None
    kept = [Insert(place, SharedMemoryBarrier()) for place in places]
    graph = program.built.graph
    prover = Prover(graph, program.target)
    if not prover.is_ordered(Plan(tuple(kept))):
        return None
    plan, reasons = _without_needless(program, kept, prover)
    return Candidate(program, plan, apply_to_graph(plan, graph), reasons, exactly=_exactly(program, places, aligned))


def _without_needless(program: TritonProgram, kept: list[Insert], prover: Prover) -> tuple[Plan, tuple[str, ...]]:
    """What is left, and why.

    Where loops have barriers, those outside of loops stay: they are met once, which costs nothing that can be measured,
    and waves come out of a loop together.
    """
    graph = program.built.graph
    points = graph.points
    loops = any(point.loop >= 0 and is_barrier(point.action) for point in points)
    loops = loops or any(points[each.before].loop >= 0 for each in kept)
    tried = [each for each in kept if points[each.before].loop >= 0 or not loops]
    reasons: dict[int, str] = {}
    for edit in sorted(tried, key=lambda each: -points[each.before].weight):
        less = [each for each in kept if each is not edit]
        wrong = prover.find_wrong(Plan(tuple(less)))
        if wrong is None:
            kept = less
        else:
            reasons[id(edit)] = _why(program, wrong)
    return Plan(tuple(kept)), tuple(f"{next(show_op(each.op))}: {reasons.get(id(each), ONCE)}" for each in kept)


def _why(program: TritonProgram, ends: tuple[Point, ...]) -> str:
    """What a barrier orders, from what is wrong without it."""
    if len(ends) < 2:
        return "without it, undecided"
    accesses = [each.action for each in ends if isinstance(each.action, Access)]
    kind = "A".join(EFFECTS[each.effect] for each in reversed(accesses))
    memory = ", ".join(dict.fromkeys(each.footprint.place.base for each in accesses))
    return f"{kind} of {memory}, {_way(program, ends[0].at, ends[1].at)}"


@dataclass(frozen=True, slots=True)
class _Aligned:
    """What Triton's pass has done to a text."""

    before: tuple[int, ...]  # operations, by their number in it, before which a barrier stands now
    relaxed: frozenset[int]  # lines of waits at which waves do not meet any more


def _align(late: Ttgir, with_barriers: Ttgir) -> _Aligned | None:
    """Goes through both texts side by side; None if they differ in anything but barriers."""
    own = _operations(late)
    before: list[int] = []
    relaxed: set[int] = set()
    at = 0
    for op in _operations(with_barriers):
        if at < len(own) and op.name == own[at].name:
            meets = effects().get(op.name, NOTHING).meets
            if meets and op.attribute(meets) is not None and own[at].attribute(meets) is None:
                relaxed.add(own[at].at.line)
            at += 1
        elif op.name == BARRIER:
            before.append(at)
        else:
            return None
    return _Aligned(tuple(before), frozenset(relaxed)) if at == len(own) else None


def _operations(ttgir: Ttgir) -> list[Operation]:
    return [op for function in ttgir.functions for op in walk(function)]


def _exactly(program: TritonProgram, places: Sequence[int], aligned: _Aligned) -> Built:
    """With the operations before which Triton has its barriers: a point may come some arithmetic later."""
    own, before = _operations(program.ttgir), list(program.built.before)
    for place, at in zip(places, aligned.before, strict=True):
        before[place] = own[at]
    return replace(program.built, before=tuple(before))


def _points(program: TritonProgram, aligned: _Aligned) -> list[int] | None:
    """The points before which Triton has its barriers."""
    first_point: dict[int, int] = {}
    for number, op in enumerate(program.built.before):
        point = program.built.graph.points[number]
        if op is None:
            continue
        if point.insertable:
            first_point.setdefault(id(op), number)
        elif not isinstance(point.action, HARMLESS):
            first_point.setdefault(id(op), NOWHERE)
    own = _operations(program.ttgir)
    found = [_point_from(own, at, first_point) for at in aligned.before]
    return None if None in found else [each for each in found if each is not None]


def _point_from(own: Sequence[Operation], at: int, first_point: dict[int, int]) -> int | None:
    """The first point from an operation on: what is no point touches no memory. None if something cannot be passed."""
    for op in own[at:]:
        if id(op) in first_point:
            return first_point[id(op)] if first_point[id(op)] != NOWHERE else None
        if op.regions or op.successors:
            return None
    return None
