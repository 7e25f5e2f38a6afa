"""One program as a page shows it: lines, accesses, hazards with their windows, barriers with their reasons, findings.

Needs   what `explain` found out about it, and the source
Gives   a dictionary for JSON; hazards and barriers have numbers by which they speak of each other
Keeps   every sentence is one of `explain`, `check` or the verifier; hazards that look alike are one
Cost    that of the windows
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tidegate.diag import Finding, Label, Sources, sort_findings
from tidegate.explanation.changes import show_sync
from tidegate.explanation.model import Barrier, Explained
from tidegate.explanation.show import Sayings
from tidegate.graph import model as g
from tidegate.hazards.model import Hazard, Kind
from tidegate.hazards.show import loop_name
from tidegate.passes import show_decided
from tidegate.report.listing import Listing, listing_of
from tidegate.report.windows import find_windows

Json = dict[str, Any]
VERBS = {Kind.RAW: ("write", "read"), Kind.WAR: ("read", "write"), Kind.WAW: ("write", "write")}
MOST_PLACES = 8


def program_view(result: Explained, sources: Sources, title: str) -> Json:
    """All of one program but its timeline and its costs."""
    assert result.graph is not None
    assert result.hazards is not None
    if result.listing:
        sources.texts[result.graph.points[0].at.file] = result.listing
    view = _View(result, result.graph, sources)
    findings = sort_findings(result.findings)
    return {
        "title": title,
        "name": result.graph.name,
        "target": result.unit.target.name or "no target",
        "waves": result.graph.waves,
        "file": view.listing.file,
        "lines": [[each.number, each.text] for each in view.listing.lines],
        "accesses": view.accesses(),
        "hazards": view.hazards(),
        "barriers": [view.barrier(number, each) for number, each in enumerate(result.barriers)],
        "findings": [view.finding(each) for each in findings],
        "pairs": ["\n".join(block) for block in view.sayings.pairs()],
        "verdict": verdict_of(result),
        "notes": list(result.notes),
    }


def verdict_of(result: Explained) -> Json:
    """Whether it is proved, wrong, or neither."""
    errors = [each for each in result.findings if each.severity == "error"]
    text = show_decided(result.checked) if result.checked is not None else result.why_not or "not judged"
    if errors:
        return {"kind": "wrong", "text": text}
    verification = result.checked.verification if result.checked is not None else None
    proved = verification is not None and verification.is_proved
    return {"kind": "proved" if proved else "open", "text": text}


class _View:
    def __init__(self, result: Explained, graph: g.SyncGraph, sources: Sources) -> None:
        assert result.hazards is not None
        self.result, self.graph, self.sources, self.flow = result, graph, sources, result.hazards.flow
        self.sayings = Sayings(result, graph)
        self.alike = _alike(self, _all_hazards(result))
        self.number = {id(each): place for place, group in enumerate(self.alike) for each in group}
        self.listing: Listing = listing_of(graph, sources, self.told(), head=self.head())

    def told(self) -> set[int]:
        """Lines about which something is said."""
        lines = {point.at.line for point in self.graph.points if isinstance(point.action, g.Access | g.Unknown)}
        lines |= {point.at.line for point in self.graph.points if isinstance(point.action, g.Sync)}
        lines |= {self.graph.points[each.head].at.line for each in self.graph.loops}
        return lines | {label.at.line for each in self.result.findings for label in each.labels}

    def head(self) -> int:
        """The line where a kernel begins; 0: it has no place."""
        return self.result.unit.kernel.at.line if self.result.unit.kernel is not None else 0

    def line(self, point: int) -> int:
        return self.graph.points[point].at.line

    def accesses(self) -> list[Json]:
        found: dict[tuple[int, str, str], None] = {}
        for point in self.graph.points:
            if isinstance(point.action, g.Access):
                what = "copy" if point.action.is_async else point.action.effect
                found.setdefault((point.at.line, what, point.action.footprint.place.base))
        return [{"line": line, "what": what, "buffer": buffer} for line, what, buffer in found]

    # --- hazards ---

    def hazards(self) -> list[Json]:
        assert self.result.hazards is not None
        first = [group[0] for group in self.alike]
        windows = find_windows(self.result.hazards, first, self.result.unit.target)
        return [
            self.hazard(number, each, windows[number] if windows is not None else None)
            for number, each in enumerate(first)
        ]

    def hazard(self, number: int, hazard: Hazard, window: tuple[int, ...] | None) -> Json:
        producer, consumer = self.ends(hazard)
        own = [place for place, barrier in enumerate(self.result.barriers) if self.is_among(number, barrier.serves)]
        weak = [place for place, barrier in enumerate(self.result.barriers) if self.is_among(number, barrier.too_weak)]
        ordered = bool(own) or any(self.number.get(id(each.hazard)) == number for each in self.ordered_pairs())
        lines = list(dict.fromkeys(map(self.line, window))) if window else []
        return {
            "kind": hazard.kind.name,
            "buffer": hazard.witness.buffer,
            "from": producer,
            "to": consumer,
            "carried": hazard.loop >= 0 and hazard.distance > 0,
            "title": f"{hazard.kind.name} {hazard.witness.buffer}, {self.sayings.ends(hazard)}",
            "window": lines,
            "barriers": own,
            "weak": weak,
            "ordered": ordered,
            "rows": self.hazard_rows(hazard, len(self.alike[number]), lines, own, ordered),
        }

    def is_among(self, number: int, hazards: Sequence[Hazard]) -> bool:
        return any(self.number.get(id(each)) == number for each in hazards)

    def ordered_pairs(self) -> list[Any]:
        return [each for each in self.result.pairs if each.hazard is not None and each.by]

    def ends(self, hazard: Hazard) -> tuple[int, int]:
        return self.line(self.flow.origin[hazard.producer]), self.line(self.flow.origin[hazard.consumer])

    def hazard_rows(
        self, hazard: Hazard, alike: int, window: list[int], own: list[int], ordered: bool
    ) -> list[list[str]]:
        producer, consumer = self.ends(hazard)
        first, second = VERBS[hazard.kind]
        when = ""
        if hazard.loop >= 0 and hazard.distance:
            ways = "iteration" if hazard.distance == 1 else "iterations"
            when = f", {hazard.distance} {ways} of {loop_name(self.flow, hazard.loop)} later"
        rows = [
            ["order", f"the {second} in line {consumer}{when} comes after the {first} in line {producer} is performed"],
            ["witness", f"{self.sayings.waves(hazard)}, {self.sayings.example(hazard)}"],
        ]
        if hazard.demand != 1:
            text = f"{hazard.demand} arrivals between them" if hazard.demand else "a wait; both are in one wave"
            rows.append(["needs", text])
        if window:
            rows.append(["window", f"one barrier is enough before line {_or(window)}"])
        if alike > 1:
            rows.append(["alike", f"{alike} pairs of accesses in these lines"])
        if not own:
            rows.append(["served by", "a barrier that stands there for another pair" if ordered else "nothing"])
        return rows

    # --- barriers ---

    def barrier(self, number: int, barrier: Barrier) -> Json:
        return {
            "kind": barrier.kind,
            "title": self.sayings.title(barrier),
            "parts": [{"line": self.line(each), "op": show_sync(self.graph, each)} for each in barrier.points],
            "weight": barrier.weight,
            "loop": barrier.loop,
            "pinned": barrier.pinned,
            "needed": barrier.is_needed,
            "serves": sorted({self.number[id(each)] for each in barrier.serves if id(each) in self.number}),
            "rows": [[word, text] for word, text in self.sayings.rows(barrier) if word != "serves"],
        }

    def finding(self, finding: Finding) -> Json:
        return {
            "code": finding.code,
            "severity": finding.severity,
            "message": finding.message,
            "lines": [each.at.line for each in finding.labels if each.at.file == self.listing.file],
            "labels": [[self.place(each), each.text] for each in finding.labels if each.at.line],
            "notes": list(finding.notes),
            "help": finding.help,
        }

    def place(self, label: Label) -> str:
        here = label.at.file == self.listing.file
        return f"line {label.at.line}" if here else f"{Path(label.at.file).name}:{label.at.line}"


def _all_hazards(result: Explained) -> list[Hazard]:
    """All that there are, those that no barrier can order too, each once."""
    assert result.hazards is not None
    found = [*result.hazards.hazards, *(each.hazard for each in result.hazards.unplaced)]
    found += [hazard for each in result.barriers for hazard in each.serves]
    return list({id(each): each for each in found}.values())


def _alike(view: _View, hazards: Sequence[Hazard]) -> list[list[Hazard]]:
    """Those together of which a reader sees no difference."""
    groups: dict[tuple[object, ...], list[Hazard]] = {}
    for each in hazards:
        key = (each.kind, each.witness.buffer, *view.ends(each), each.loop, each.distance)
        groups.setdefault(key, []).append(each)
    return list(groups.values())


def _or(lines: Sequence[int]) -> str:
    """`12, 13 or 14`; runs of lines as `12 to 15`."""
    runs: list[list[int]] = []
    for line in sorted(lines):
        if runs and line == runs[-1][-1] + 1:
            runs[-1].append(line)
        else:
            runs.append([line])
    parts: list[str] = []
    for run in runs:
        parts += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run)
    parts = [*parts[:MOST_PLACES], "…"] if len(parts) > MOST_PLACES else parts
    return f"{', '.join(parts[:-1])} or {parts[-1]}" if len(parts) > 1 else parts[0]
