"""What is said about a result beside its text: why a race could not be ordered, which footprints were widened.

Needs   what came of it
Gives   findings, with a note where placement knows more than the judge; advice; counts of edits
Keeps   the judge's findings stay: only notes are added
Cost    linear in the program and its findings
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tidegate.diag import Finding, Label, Span
from tidegate.graph import model as g
from tidegate.graph.plan import Change, Delete, Insert
from tidegate.hazards.model import Unplaced
from tidegate.hazards.show import name_hazard
from tidegate.language.syntax import form_of
from tidegate.synchronize.model import Synchronized

RACES = ("TG101", "TG102", "TG103", "TG104", "TG105", "TG108", "TG109")


def unplaced_of(result: Synchronized) -> tuple[Unplaced, ...]:
    """Conflicts that no barrier of the plan orders, and why."""
    if result.placed is not None:
        return result.placed.unplaced
    return result.hazards.unplaced if result.hazards is not None else ()


def say_why(result: Synchronized) -> list[Finding]:
    """The judge's findings, with a note on those about accesses that no barrier can order."""
    assert result.checked is not None
    assert result.hazards is not None
    if result.refused:
        return _say_refused(result)
    flow, places = result.hazards.flow, result.places
    known: dict[tuple[Span, ...], list[Unplaced]] = {}
    for each in unplaced_of(result):
        ends = (flow.point(each.hazard.producer).at, flow.point(each.hazard.consumer).at)
        known.setdefault(_pair([places.get(end, end) for end in ends]), []).append(each)
    found, explained = [], []
    for finding in result.checked.findings:
        is_race = finding.code in RACES and not finding.allowed
        reasons = known.get(_pair([label.at for label in finding.labels]), []) if is_race else []
        explained += reasons
        notes = dict.fromkeys(f"`sync` cannot order them: {each.why}" for each in reasons)
        found.append(replace(finding, notes=(*finding.notes, *notes)))
    result.explained = tuple(explained)
    return found


def _say_refused(result: Synchronized) -> list[Finding]:
    """Of final instructions, which stay as they are then: the lines are those that were given."""
    known = {frozenset((at.line, at.column) for at in ends): why for ends, why in result.refused.items()}
    found = []
    for each in result.checked.findings if result.checked is not None else ():
        why = known.get(frozenset((label.at.line, label.at.column) for label in each.labels))
        found.append(replace(each, notes=(*each.notes, f"`sync` inserts nothing: {why}")) if why else each)
    return found


def _pair(places: list[Span]) -> tuple[Span, ...]:
    return tuple(sorted(set(places), key=lambda at: (at.file, at.line, at.column)))


def find_widened(result: Synchronized) -> list[Finding]:
    """Advice: accesses of which it is not known what they touch, so that barriers may stand for nothing."""
    if result.hazards is None:
        return []
    flow, places, found = result.hazards.flow, result.places, {}
    widened = (*result.hazards.footprints.notes, *result.hazards.conflicts.notes)
    for note in widened:
        point = flow.point(note.node)
        labels = (Label(places.get(point.at, point.at), note.text),)
        message = f"the bytes that `{point.label or flow.origin[note.node]}` touches are not known exactly"
        help = "barriers here may be redundant; use an affine index to tell the bytes apart"
        notes = () if point.at.line else (note.text,)
        found[flow.origin[note.node], note.text] = Finding("TG403", message, labels, notes, help)
    return list(found.values())


def count_edits(result: Synchronized) -> dict[str, Counter[str]]:
    """How many operations of which kind were inserted, changed and removed."""
    counts: dict[str, Counter[str]] = {"inserted": Counter(), "changed": Counter(), "removed": Counter()}
    assert result.graph is not None
    kinds = {"insert": "inserted", "change": "changed", "delete": "removed"}
    for each in result.edits:
        counts[kinds[each.what]][each.text] += 1
    for edit in result.plan.edits:
        match edit:
            case Insert(_, op):
                counts["inserted"][form_of(type(op)).word] += 1
            case Change(_, op):
                counts["changed"][form_of(type(op)).word] += 1
            case Delete(point):
                action = result.graph.points[point].action
                assert isinstance(action, g.Sync)
                counts["removed"][form_of(type(action.op)).word] += 1
    return counts


def describe_unplaced(result: Synchronized) -> list[str]:
    """One line for each conflict that no barrier can order and that no finding speaks of."""
    if result.hazards is None:
        return []
    flow = result.hazards.flow
    left = [each for each in unplaced_of(result) if each not in result.explained]
    return [f"{name_hazard(each.hazard, flow)}: {each.why}" for each in left]
