"""What was synchronized, as text: the author's own where there is one, with the reason beside each edit.

Needs   results of `propose`, and the text that the kernels were read from, if they were
Gives   the text of a file
Keeps   it parses to the programs that the plans give: text in which an edit cannot be carried out is printed anew, with
        the same reasons, and without any if even that says something else. A graph is printed anew if anything changes
Cost    linear in the text plus the edits
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tidegate.diag import BadInput
from tidegate.graph.apply import numbers_after
from tidegate.graph.drafts import Path
from tidegate.graph.flow import Flow
from tidegate.graph.patch import Edited, Reason, comment_graph, patch, show_reasons
from tidegate.graph.plan import Change, Delete, Edit, Insert, Move, Reorder
from tidegate.graph.show import show_graph
from tidegate.hazards.model import Hazard
from tidegate.hazards.show import loop_name, name_hazard
from tidegate.language.ops import Kernel, Module, NewBarrier, Signal, Wait
from tidegate.language.parse import parse
from tidegate.language.show import show
from tidegate.synchronize.by_path import BY_PATH
from tidegate.synchronize.instructions import final_of
from tidegate.synchronize.model import Synchronized

PREPARES = "performs accesses that a later barrier orders"
TAKES_BACK = "for the last signal of the loop"  # of a wait behind a loop that orders nothing itself


def write_programs(results: Sequence[Synchronized], text: str = "", file: str = "<text>") -> str:
    """The programs after. With the text of their file, all of that, in which other kernels stay as they are."""
    if (program := final_of(results[0].unit)) is not None:
        return program.written([edit for each in results for edit in each.edits])
    if results[0].unit.origin is not None:
        return _write_ttgir(results)
    if results[0].unit.kernel is None:
        return text if text and results[0].after == results[0].graph else _write_graph(results[0])
    known = {each.unit.name: each for each in results}
    if text:
        kernels = parse(text, file).kernels
        wanted = tuple(_after(known[each.name]) if each.name in known else each for each in kernels)
        found = _patched(text, file, kernels, wanted, known)
        if found:
            return found
    else:
        kernels = tuple(each.unit.kernel for each in results if each.unit.kernel)
        wanted = tuple(map(_after, results))
    text = show(Module(kernels))
    return _patched(text, file, parse(text, file).kernels, wanted, known) or show(Module(wanted))


def _write_ttgir(results: Sequence[Synchronized]) -> str:
    """The file that the programs were read from; each edit with its reason, places by the lines of the new text."""
    from tidegate.hosts.triton.program import TritonProgram
    from tidegate.hosts.triton.write import Edited as EditedTtgir
    from tidegate.hosts.triton.write import write_ttgir

    origins = [each.unit.origin for each in results]
    programs = [each for each in origins if isinstance(each, TritonProgram)]
    assert len(programs) == len(results)
    edited = [
        EditedTtgir(program.built, each.plan, partial(_reasons_in_text, each))
        for program, each in zip(programs, results, strict=True)
    ]
    return write_ttgir(programs[0].ttgir, edited)


def _reasons_in_text(result: Synchronized, line: Callable[[int], int]) -> list[str]:
    """Why each edit stands; places by the lines of the text that the programs are written to."""
    assert result.graph is not None
    paths: tuple[Path, ...] = tuple((number,) for number in range(len(result.graph.points)))
    lines: dict[Path, int] = {path: line(result.graph.points[path[0]].at.line) for path in paths}
    return [show_reasons(why, lines) if why else "" for why in reasons_of(result, paths)]


def _after(result: Synchronized) -> Kernel:
    assert result.kernel is not None
    return result.kernel


def _patched(
    text: str, file: str, kernels: Sequence[Kernel], wanted: Sequence[Kernel], known: dict[str, Synchronized]
) -> str:
    """The text with the plans carried out, or nothing if it does not say what they ask for."""
    edited = [
        _edited(kernel, known[kernel.name]) if kernel.name in known else Edited(kernel, kernel.target)
        for kernel in kernels
    ]
    try:
        found = patch(text, file, edited)
        return found if parse(found, file).kernels == tuple(wanted) else ""
    except BadInput:
        return ""


def _edited(kernel: Kernel, result: Synchronized) -> Edited:
    assert result.unit.built is not None
    paths, target = result.unit.built.paths, _after(result).target
    return Edited(kernel, target, paths, result.plan, reasons_of(result, paths))


def _write_graph(result: Synchronized) -> str:
    assert result.graph is not None
    assert result.after is not None
    numbers = numbers_after(result.plan, result.graph)
    reasons = reasons_of(result, tuple((number,) for number in range(len(numbers))))
    why: dict[int, tuple[Reason, ...]] = {}
    put: dict[int, int] = {}
    for edit, each in zip(result.plan.edits, reasons, strict=True):
        if isinstance(edit, Insert) and isinstance(edit.op, NewBarrier):
            continue  # an object, not a point
        if isinstance(edit, Insert | Move):
            first, before = numbers[edit.before][0], put.get(edit.before, 0)
            put[edit.before] = before + 1
            why[first + before] = each
        elif isinstance(edit, Change):
            why[numbers[edit.point][1]] = each
    return comment_graph(show_graph(result.after), why, [own for _, own in numbers])


# --- reasons ------------------------------------------------------------------------------------------------------


def hazards_served(result: Synchronized) -> list[tuple[Hazard, ...]]:
    """The hazards of each edit of the plan."""
    if result.placed is None or result.hazards is None:
        return [()] * len(result.plan.edits)
    anywhere = _by_name(result.placed.hazards, result.hazards.flow)
    found = []
    for edit in result.plan.edits:
        # Names are lines and may be shared; what is served at the very point comes first.
        here = _by_name(result.placed.serves.get(_point(edit), ()), result.hazards.flow)
        found.append(tuple(each for name in edit.serves for each in here.get(name) or anywhere.get(name, [])[:1]))
    return found


def _by_name(hazards: Sequence[Hazard], flow: Flow) -> dict[str, list[Hazard]]:
    found: dict[str, list[Hazard]] = {}
    for hazard in hazards:
        found.setdefault(name_hazard(hazard, flow), []).append(hazard)
    return found


def _point(edit: Edit) -> int:
    return edit.before if isinstance(edit, Insert | Move) else -1 if isinstance(edit, Reorder) else edit.point


def reasons_of(result: Synchronized, paths: Sequence[Path]) -> tuple[tuple[Reason, ...], ...]:
    """Why each edit stands. A signal has the reasons of its wait, and a drain those of what it is put in with."""
    found: list[tuple[Reason, ...]] = []
    waits: dict[object, tuple[Reason, ...]] = {}
    following: tuple[int, tuple[Reason, ...]] = (-1, ())
    for edit, hazards in zip(reversed(result.plan.edits), reversed(hazards_served(result)), strict=True):
        words = _words(edit)
        if hazards:  # their names are words, too
            words = tuple(each for each in words if each.startswith(BY_PATH))
        reasons = (*map(Reason, words), *(_reason(each, result, paths) for each in hazards))
        if not reasons and isinstance(edit, Insert):
            reasons = waits.get(edit.op.barrier, ()) if isinstance(edit.op, Signal) else ()
            reasons = reasons or (following[1] if following[0] == edit.before else ())
        if not reasons and not isinstance(edit, Delete):
            is_wait = isinstance(edit, Insert) and isinstance(edit.op, Wait)
            reasons = (Reason(TAKES_BACK if is_wait else PREPARES),)
        if isinstance(edit, Insert) and isinstance(edit.op, Wait):
            waits[edit.op.barrier] = reasons
        following = (_point(edit), reasons)
        found.append(reasons)
    return tuple(reversed(found))


def _words(edit: Edit) -> tuple[str, ...]:
    return () if isinstance(edit, Delete) else edit.serves


def _reason(hazard: Hazard, result: Synchronized, paths: Sequence[Path]) -> Reason:
    assert result.hazards is not None
    flow = result.hazards.flow
    ends = (paths[flow.origin[hazard.producer]], paths[flow.origin[hazard.consumer]])
    later = f" at {loop_name(flow, hazard.loop)} + {hazard.distance}" if hazard.loop >= 0 and hazard.distance else ""
    return Reason(f"{hazard.kind.name} {hazard.witness.buffer}", ends, later)
