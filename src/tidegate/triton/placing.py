"""A module of Triton's as it stands before its barrier pass, with Tidegate's barriers.

Needs   the text of the module, memory laid out, and the options
Gives   the new text with why each barrier stands, or why the module is left to Triton
Keeps   a text is given only if the verifier proves it; whatever goes wrong leaves the module to Triton
Cost    reading, planning, and a few proofs; `verify` adds one of the text as it is written
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from tidegate.adapters.triton.effects import NOTHING, effects
from tidegate.adapters.triton.program import TritonProgram, programs_of
from tidegate.adapters.triton.read import read_ttgir
from tidegate.adapters.triton.write import Edited, write_ttgir
from tidegate.diag import BadInput, Span
from tidegate.graph.model import Action, Sync, SyncGraph
from tidegate.graph.plan import Change, Delete, Insert, Plan
from tidegate.hazards.model import Hazard
from tidegate.language.ops import SharedMemoryBarrier, Signal, WorkgroupBarrier
from tidegate.language.show import show_op
from tidegate.passes import Unit
from tidegate.synchronize import Synchronized, SyncOptions, propose
from tidegate.synchronize.written import PREPARES, hazards_served
from tidegate.verify.say import WHY
from tidegate.verify.verify import verify

STRATEGY = "minimal"
# Where all waves of a group meet; a signal stands for itself and its wait.
MEETING = (SharedMemoryBarrier, WorkgroupBarrier, Signal)


@dataclass(frozen=True, slots=True)
class Placement:
    """What came of one module."""

    text: str | None = None  # None: left to Triton
    why_not: str = ""
    reasons: tuple[str, ...] = ()  # one for each edit
    barriers: int = 0


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why something is not proved, without words if it is; `is_race`: two accesses were found that nothing orders."""

    words: str = ""
    is_race: bool = False


class _LeftToTriton(Exception):
    pass


def place_barriers(text: str, kernel: str, merge_waits: str, *, prove_text: bool) -> Placement:
    """Puts barriers into a module, or says why not."""
    try:
        ttgir = read_ttgir(text, f"{kernel}.ttgir", is_open=True)
        results = [_planned(program, merge_waits) for program in programs_of(ttgir)]
        edited = [Edited(_program(each).built, each.plan, partial(_no_reasons, each.plan)) for each in results]
        new = write_ttgir(ttgir, edited, located=True)
        if prove_text and (doubt := find_doubt(new, kernel)).words:
            raise _LeftToTriton(f"the text that was written is not proved: {doubt.words}")
    except _LeftToTriton as left:
        return Placement(why_not=str(left))
    except BadInput as bad:
        return Placement(why_not=bad.findings[0].message)
    reasons = tuple(reason for each in results for reason in _reasons(each))
    return Placement(new, "", reasons, sum(map(_barriers_after, results)))


def find_doubt(text: str, kernel: str) -> Doubt:
    """Why a module with its barriers is not proved."""
    try:
        programs = programs_of(read_ttgir(text, f"{kernel}.ttgir"))
    except BadInput as bad:
        return Doubt(bad.findings[0].message)
    doubts = (Doubt(_unknown(each)) if _unknown(each) else _doubt(each, each.built.graph) for each in programs)
    return next((each for each in doubts if each.words), Doubt())


def count_barriers(text: str, kernel: str) -> int:
    """Barriers of a module after Triton's own pass; `text` is from before it."""
    ttgir = read_ttgir(text, f"{kernel}.ttgir", before=("barriers",))
    return sum(_barriers_in(each) for each in programs_of(ttgir))


def _barriers_in(program: TritonProgram) -> int:
    """Those that stand by themselves, and waits at which waves meet; what an operation brings along is its own."""
    built, rows = program.built, effects()
    points = zip(built.graph.points, built.before, strict=True)
    rows_of = (rows.get(op.name, NOTHING) for point, op in points if op is not None and _meets(point.action))
    return sum(bool(row.barrier or row.meets) for row in rows_of)


def _barriers_after(result: Synchronized) -> int:
    put = sum(isinstance(each, Insert) and isinstance(each.op, MEETING) for each in result.plan.edits)
    taken = sum(isinstance(each, Delete) for each in result.plan.edits)
    return _barriers_in(_program(result)) + put - taken


def _meets(action: Action) -> bool:
    return isinstance(action, Sync) and isinstance(action.op, MEETING)


def _planned(program: TritonProgram, merge_waits: str) -> Synchronized:
    if why_not := _unknown(program):
        raise _LeftToTriton(why_not)
    unit = Unit(program.name, program.target, None, program.built.graph, program)
    result = propose(unit, SyncOptions(strategy=STRATEGY, merge_waits=merge_waits, judge=False))
    if result.after is None:
        raise _LeftToTriton(result.findings[0].message if result.findings else result.why_not)
    if (doubt := _doubt(program, result.after)).words:
        raise _LeftToTriton(f"it is not proved: {doubt.words}")
    return result


def _program(result: Synchronized) -> TritonProgram:
    assert result.unit.origin is not None
    return result.unit.origin


def _no_reasons(plan: Plan, line: Callable[[int], int]) -> list[str]:
    return [""] * len(plan.edits)


# --- what stands in the way of a proof ----------------------------------------------------------------------------


def _unknown(program: TritonProgram) -> str:
    """What is taken for worse than it may be: its own barriers, if it has any, are not known."""
    if program.built.graph.objects:
        return "barrier objects, which the verifier does not decide"
    found = program.findings()
    return f"{found[0].message} ({_source(program, found[0].at)})" if found else ""


def _doubt(program: TritonProgram, graph: SyncGraph) -> Doubt:
    found = verify(graph, program.target)
    if found.undecided:
        return Doubt("; ".join(found.undecided))
    if not found.suspects:
        return Doubt()
    one = found.suspects[0]
    x, y = (_source(program, graph.points[each].at) for each in (one.x, one.y))
    return Doubt(f"{x} and {y} touch `{one.point.buffer}`, and {WHY[one.why]}", True)


# --- reasons ------------------------------------------------------------------------------------------------------


def _reasons(result: Synchronized) -> Iterator[str]:
    """Why each edit stands, in lines of the Triton source."""
    for edit, served in zip(result.plan.edits, hazards_served(result), strict=True):
        what = next(show_op(edit.op)) if isinstance(edit, Insert | Change) else f"{type(edit).__name__.lower()}d"
        pairs: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
        for hazard in served:
            kinds, buffers = pairs.setdefault(_places(hazard, result), ({}, {}))
            kinds[hazard.kind.name] = buffers[hazard.witness.buffer] = None
        words = (f"{' '.join(kinds)} of {', '.join(buffers)}, {place}" for place, (kinds, buffers) in pairs.items())
        yield f"{what}: {'; '.join(words) or PREPARES}"


def _places(hazard: Hazard, result: Synchronized) -> str:
    assert result.graph is not None
    assert result.hazards is not None
    ends = [result.hazards.flow.origin[each] for each in (hazard.producer, hazard.consumer)]
    first, second = (_source(_program(result), result.graph.points[each].at) for each in ends)
    return first if first == second else f"{first} → {second}"


def _source(program: TritonProgram, at: Span) -> str:
    return str(program.source(at) or f"line {at.line}")
