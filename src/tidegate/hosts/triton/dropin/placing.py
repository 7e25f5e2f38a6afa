"""A module of Triton's as it stands before its barrier pass, with Tidegate's barriers.

Needs   the text of the module, memory laid out, and the options
Gives   the new text with why each barrier stands, or why the module is left to Triton
Keeps   a text is given only if the verifier proves it, as it is read back; whatever goes wrong leaves the module to
        Triton
Cost    reading, planning, and a few proofs
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.diag import BadInput
from tidegate.hosts.dropin.final import Doubt
from tidegate.hosts.triton.compare import compare
from tidegate.hosts.triton.dropin.candidates import (
    Candidate,
    barriers_in,
    find_spill,
    is_better,
    keep_needed,
    may_be_better,
    plan_anew,
    session_of,
    source_of,
)
from tidegate.hosts.triton.program import TritonProgram, programs_of
from tidegate.hosts.triton.read import Ttgir, read_ttgir
from tidegate.hosts.triton.write import Edited, write_ttgir
from tidegate.verify.say import WHY
from tidegate.verify.verify import verify


@dataclass(frozen=True, slots=True)
class Placement:
    """What came of one module."""

    text: str | None = None  # None: left to Triton
    why_not: str = ""
    reasons: tuple[str, ...] = ()  # one for each edit
    barriers: int = 0


class _LeftToTriton(Exception):
    pass


def place_barriers(text: str, kernel: str, merge_waits: str) -> Placement:
    """Puts barriers into a module, or says why not."""
    try:
        chosen = _chosen(text, f"{kernel}.ttgir", merge_waits)
        new = _written(chosen)
        if (doubt := find_doubt(new, kernel, chosen[0].program.ttgir)).words:
            raise _LeftToTriton(f"the text that was written is not proved: {doubt.words}")
    except _LeftToTriton as left:
        return Placement(why_not=str(left))
    except BadInput as bad:
        return Placement(why_not=bad.findings[0].message)
    reasons = tuple(reason for each in chosen for reason in each.reasons)
    return Placement(new, "", reasons, sum(each.barriers for each in chosen))


def _chosen(text: str, file: str, merge_waits: str) -> Sequence[Candidate]:
    """For each kernel of a module its plan; nearly always there is one kernel."""
    ttgir = read_ttgir(text, file, is_open=True, in_process=True)
    programs = programs_of(ttgir)
    for each in programs:
        if why_not := _unknown(each) or (find_spill(each) if merge_waits != "always" else ""):
            raise _LeftToTriton(why_not)
    if len(programs) != 1:
        return [_best(each, ("never",)) for each in programs]
    if merge_waits == "always":  # as few barriers as there can be, whatever that costs
        return [_best(programs[0], ("always", "never"))]
    kept = keep_needed(replace(ttgir, is_open=False), read_ttgir(text, file, before=("barriers",), in_process=True))
    return [_best(programs[0], ("never", "always") if merge_waits == "model" else ("never",), kept)]


def _best(program: TritonProgram, tried: Sequence[str], best: Candidate | None = None) -> Candidate:
    """The first plan, or one of Tidegate's own that is better than those before it."""
    why_not, session = "", session_of(program)
    for merge_waits in tried:
        if best is not None and not may_be_better(program, session, merge_waits, best):
            continue
        made = plan_anew(program, session, merge_waits, refined=best is None)
        if isinstance(made, Candidate):
            try:
                _written([made])
            except BadInput as bad:
                made = bad.findings[0].message
        if isinstance(made, str):
            why_not = why_not or made
        elif best is None or is_better(made, best):
            best = made
    if best is None:
        raise _LeftToTriton(why_not)
    return best


def _written(chosen: Sequence[Candidate]) -> str:
    edited = [Edited(each.exactly or each.program.built, each.plan) for each in chosen]
    return write_ttgir(chosen[0].program.ttgir, edited, located=True)


def find_doubt(text: str, kernel: str, given: Ttgir | None = None) -> Doubt:
    """Why a module with its barriers is not proved. `given`: the module that it was made of, where barriers were put
    into that: then the rest must be the same.
    """
    try:
        ttgir = read_ttgir(text, f"{kernel}.ttgir", in_process=True)
        programs = programs_of(ttgir)
    except BadInput as bad:
        return Doubt(bad.findings[0].message)
    if given is not None and (difference := compare(given, ttgir).difference):
        return Doubt(f"it is not the module that was given: {difference}")
    return next((doubt for each in programs if (doubt := _doubt(each)).words), Doubt())


def count_barriers(text: str, kernel: str) -> int:
    """Barriers of a module after Triton's own pass; `text` is from before it."""
    ttgir = read_ttgir(text, f"{kernel}.ttgir", before=("barriers",), in_process=True)
    return sum(barriers_in(each) for each in programs_of(ttgir))


# --- what stands in the way of a proof ----------------------------------------------------------------------------


def _unknown(program: TritonProgram) -> str:
    """What is taken for worse than it may be: its own barriers, if it has any, are not known."""
    found = program.findings()
    return f"{found[0].message} ({source_of(program, found[0].at)})" if found else ""


def _doubt(program: TritonProgram) -> Doubt:
    if why_not := _unknown(program):
        return Doubt(why_not)
    graph = program.built.graph
    found = verify(graph, program.target, memory=False, trusted=True)
    if found.undecided or found.outside:
        return Doubt("; ".join((*found.undecided, *found.outside)))
    if not found.suspects:
        return Doubt()
    one = found.suspects[0]
    x, y = (source_of(program, graph.points[each].at) for each in (one.x, one.y))
    return Doubt(f"{x} and {y} touch `{one.point.buffer}`, and {WHY[one.why]}", True)
