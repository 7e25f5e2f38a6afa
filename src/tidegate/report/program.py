"""One program as a page shows it: lines, accesses, hazards with their windows, barriers with their reasons, findings.

Needs   what `explain` and `check` found out about it, and the source
Gives   a dictionary for JSON; hazards and barriers have numbers by which they speak of each other
Keeps   findings and verdict are those of `check`, what is said of barriers is that of `explain`; hazards that look
        alike are one, and that is called ordered only if all of them are. What races and is no hazard of its own gets
        an arc too. Lines are of the file that is shown: what stands in others is named, and has no arc
Cost    that of the windows, and a search for each hazard
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tidegate.decided import show_decided
from tidegate.diag import Finding, Label, Sources, Span, sort_findings
from tidegate.explanation.changes import show_sync
from tidegate.explanation.model import Barrier, Explained
from tidegate.explanation.show import Sayings, count
from tidegate.graph import model as g
from tidegate.hazards.model import Hazard, Kind
from tidegate.hazards.show import loop_name
from tidegate.passes import Checked
from tidegate.placement.groups import how_often
from tidegate.placement.walks import Walks
from tidegate.report.listing import Listing, listing_of
from tidegate.report.windows import find_windows

Json = dict[str, Any]
VERBS = {Kind.RAW: ("write", "read"), Kind.WAR: ("read", "write"), Kind.WAW: ("write", "write")}
MOST_PLACES = 8
MOST_HAZARDS, MOST_FINDINGS = 300, 100
# How a hazard is called that nothing orders, that windows show to be ordered, and of which neither is known.
RACES, ORDERED, QUIET = "races", "ordered", "quiet"


def program_view(result: Explained, checked: Checked, sources: Sources, title: str) -> Json:
    """All of one program but its timeline and its costs."""
    assert result.graph is not None
    assert result.hazards is not None
    if result.listing:
        sources.texts[result.graph.points[0].at.file] = result.listing
    view = _ProgramView(result, result.graph, sources, sort_findings(checked.findings))
    hazards = view.hazards()
    notes = list(result.notes)
    more = sum(each.count for each in view.findings) - min(len(view.findings), MOST_FINDINGS)
    if more:
        notes.append(f"{more:,} more findings are not shown")
    if len(hazards) > MOST_HAZARDS:
        notes.append(f"{len(hazards) - MOST_HAZARDS:,} more hazards are not shown")
    return {
        "title": title,
        "name": result.graph.name,
        "target": result.unit.target.name or "no target",
        "waves": result.graph.waves,
        "file": view.listing.file,
        "lines": [[each.number, each.text] for each in view.listing.lines],
        "accesses": view.accesses(),
        "hazards": hazards[:MOST_HAZARDS],
        "barriers": [view.barrier(each) for each in result.barriers],
        "findings": [view.finding(each) for each in view.findings[:MOST_FINDINGS]],
        "pairs": ["\n".join(block) for block in view.sayings.pairs()],
        "verdict": verdict_of(checked),
        "notes": notes,
    }


def verdict_of(checked: Checked) -> Json:
    """Whether it is proved, wrong, or neither."""
    errors = sum(each.severity == "error" for each in checked.findings)
    text = show_decided(checked)
    if errors:
        return {
            "kind": "wrong",
            "text": f"{count(errors, 'finding')}; of races and hangs: {text}" if checked.is_proved else text,
        }
    return {"kind": "proved" if text.startswith("proved") else "open", "text": text}


class _ProgramView:
    def __init__(self, result: Explained, graph: g.SyncGraph, sources: Sources, findings: list[Finding]) -> None:
        assert result.hazards is not None
        self.result, self.graph, self.sources, self.flow = result, graph, sources, result.hazards.flow
        self.findings = findings
        self.sayings = Sayings(result, graph)
        self.alike = _alike(self, _all_hazards(result))
        self.number = {id(each): place for place, group in enumerate(self.alike) for each in group}
        self.listing: Listing = listing_of(graph, sources, self.told(), head=self.head())
        self.walks = Walks(self.flow, result.unit.target, result.hazards.stagger)
        self.racing = {frozenset(label.at for label in each.labels): each for each in findings if _is_race(each)}

    def told(self) -> set[Span]:
        """Places about which something is said."""
        points = self.graph.points
        found = {point.at for point in points if isinstance(point.action, g.Access | g.Unknown | g.Sync)}
        found |= {points[each.head].at for each in self.graph.loops}
        return found | {label.at for each in self.findings[:MOST_FINDINGS] for label in each.labels}

    def head(self) -> Span | None:
        """Where a kernel begins; None: it has no place."""
        kernel = self.result.unit.kernel
        return kernel.at if kernel is not None and kernel.at.line else None

    def line(self, at: Span) -> int:
        """Of the file that is shown; 0: it is in another."""
        return at.line if at.file == self.listing.file else 0

    def place(self, at: Span) -> str:
        return str(at.line) if at.file == self.listing.file else f"{Path(at.file).name}:{at.line}"

    def accesses(self) -> list[Json]:
        found: dict[tuple[int, str, str], None] = {}
        for point in self.graph.points:
            if isinstance(point.action, g.Access) and self.line(point.at):
                what = "copy" if point.action.is_async else point.action.effect
                found.setdefault((point.at.line, what, point.action.footprint.place.base))
        return [{"line": line, "what": what, "buffer": buffer} for line, what, buffer in found]

    # --- hazards ---

    def hazards(self) -> list[Json]:
        """Those that there are, then races between other pairs."""
        assert self.result.hazards is not None
        first = [group[0] for group in self.alike]
        windows = find_windows(self.result.hazards, first, self.result.unit.target)
        found = [
            self.hazard(number, each, windows[number] if windows is not None else ())
            for number, each in enumerate(first)
        ]
        known = {self.ends(each) for group in self.alike for each in group}
        races = [self.race(each) for ends, each in self.racing.items() if ends not in known]
        return [*found, *races, *self.kept()]

    def kept(self) -> list[Json]:
        """Of a program whose threads are known one by one: the pairs that race without some barriers, and which."""
        found: dict[frozenset[Span], tuple[Finding, list[int]]] = {}
        for place, barrier in enumerate(self.result.barriers if self.graph.maps else ()):
            for each in filter(_is_race, barrier.without.findings):
                ends = frozenset(label.at for label in each.labels)
                if ends not in self.racing:
                    barriers = found.setdefault(ends, (each, []))[1]
                    barriers += [place] * (place not in barriers)
        return [{**self.race(each), "barriers": barriers, "state": ORDERED} for each, barriers in found.values()]

    def hazard(self, number: int, hazard: Hazard, window: tuple[int, ...]) -> Json:
        producer, consumer = self.spans(hazard)
        barriers = self.result.barriers
        own = [place for place, each in enumerate(barriers) if self.is_among(number, each.serves)]
        weak = [place for place, each in enumerate(barriers) if self.is_among(number, each.too_weak)]
        state = self.state(number)
        lines = [each for each in dict.fromkeys(self.line(self.graph.points[point].at) for point in window) if each]
        carried = hazard.loop >= 0 and hazard.distance > 0
        later = f" at {loop_name(self.flow, hazard.loop)} + {hazard.distance}" if carried else ""
        title = f"{hazard.kind.name} {hazard.witness.buffer}, {self.place(producer)} → {self.place(consumer)}{later}"
        return {
            "kind": hazard.kind.name,
            "buffer": hazard.witness.buffer,
            "from": self.line(producer),
            "to": self.line(consumer),
            "carried": carried,
            "title": title,
            "window": lines,
            "barriers": own,
            "weak": weak,
            "state": state,
            "rows": self.hazard_rows(hazard, len(self.alike[number]), lines, own, state),
        }

    def state(self, number: int) -> str:
        """Of all that look alike the worst."""
        group = self.alike[number]
        if any(self.ends(each) in self.racing for each in group):
            return RACES
        return ORDERED if all(self.walks.is_served(each) for each in group) else QUIET

    def race(self, finding: Finding) -> Json:
        """A finding between two accesses that are no hazard of their own: a barrier for another pair would order it."""
        facts = dict(finding.witness)
        consumer, producer = finding.labels[0].at, finding.labels[-1].at
        kind = str(facts.get("hazard", "RAW"))
        return {
            "kind": kind if kind in Kind.__members__ else "RAW",
            "buffer": "",
            "from": self.line(producer),
            "to": self.line(consumer),
            "carried": False,
            "title": f"{kind}, {self.place(producer)} → {self.place(consumer)}",
            "window": [],
            "barriers": [],
            "weak": [],
            "state": RACES,
            "rows": [["found", finding.message], *(["", each] for each in finding.notes)],
        }

    def is_among(self, number: int, hazards: Sequence[Hazard]) -> bool:
        return any(self.number.get(id(each)) == number for each in hazards)

    def spans(self, hazard: Hazard) -> tuple[Span, Span]:
        return self.flow.point(hazard.producer).at, self.flow.point(hazard.consumer).at

    def ends(self, hazard: Hazard) -> frozenset[Span]:
        return frozenset(self.spans(hazard))

    def hazard_rows(self, hazard: Hazard, alike: int, window: list[int], own: list[int], state: str) -> list[list[str]]:
        producer, consumer = map(self.place, self.spans(hazard))
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
            enough = "one barrier is" if hazard.demand == 1 else f"{hazard.demand} barriers are"
            rows.append(["window", f"{enough} enough before line {_or(window)}"])
        if alike > 1:
            rows.append(["alike", f"{alike} pairs of accesses in these lines"])
        if state == RACES:
            rows.append(["served by", "nothing sufficient: it races"])
        elif not own:
            ordered = "barriers that serve other pairs"
            quiet = "not every window between them holds a barrier; no error is found"
            rows.append(["served by", ordered if state == ORDERED else quiet])
        return rows

    # --- barriers ---

    def barrier(self, barrier: Barrier) -> Json:
        spans = [self.graph.points[each].at for each in barrier.points]
        return {
            "kind": barrier.kind,
            "title": self.sayings.title(barrier),
            "parts": [
                {"line": self.line(at), "place": self.place(at), "op": show_sync(self.graph, point)}
                for at, point in zip(spans, barrier.points, strict=True)
            ],
            "costs": how_often(barrier.tally, barrier.weight),
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
            "lines": [line for each in finding.labels if (line := self.line(each.at))],
            "labels": [[self.label(each), each.text] for each in finding.labels if each.at.line],
            "notes": list(finding.notes),
            "help": finding.help,
        }

    def label(self, label: Label) -> str:
        return f"line {self.place(label.at)}" if self.line(label.at) else self.place(label.at)


def _is_race(finding: Finding) -> bool:
    return finding.code in ("TG101", "TG102", "TG103", "TG105", "TG108", "TG109") and len(finding.labels) > 1


def _all_hazards(result: Explained) -> list[Hazard]:
    """All that there are, those that no barrier can order too, each once."""
    assert result.hazards is not None
    found = [*result.hazards.hazards, *(each.hazard for each in result.hazards.unplaced)]
    found += [hazard for each in result.barriers for hazard in each.serves]
    return list({id(each): each for each in found}.values())


def _alike(view: _ProgramView, hazards: Sequence[Hazard]) -> list[list[Hazard]]:
    """Those together of which a reader sees no difference."""
    groups: dict[tuple[object, ...], list[Hazard]] = {}
    for each in hazards:
        places = [(at.file, at.line) for at in view.spans(each)]
        key = (each.kind, each.witness.buffer, *places, each.loop, each.distance)
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
