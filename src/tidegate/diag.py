"""Findings: what is wrong, in which two places, with a witness and a way out.

Needs   nothing of the rest of Tidegate, but how files are read and how notebooks show text
Gives   `Finding` values, and text or JSON made from them
Keeps   a code never changes its meaning; text depends on the finding and its source alone, and talks to no terminal
Cost    linear in the text shown

A finder returns findings. `BadInput` is raised only where no program can be made of the text at all. Only `cli`
prints or exits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidegate.disk import read_whole

JSON_VERSION = 1
# The most that is read of a file to quote a line of it.
QUOTED_BYTES = 64 << 20
# Characters that a terminal obeys instead of showing them: controls, of which C1 (U+0080 to U+009F) can begin an escape
# sequence as ESC does, those that end lines or turn the direction of writing, and bytes of a name that are not UTF-8.
OBEYED = re.compile("[\0-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of one source line: columns count from 1 and `end` is the first column after it."""

    file: str
    line: int
    column: int
    end: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


NOWHERE = Span("", 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Label:
    """A place and what happens there."""

    at: Span
    text: str = ""


# Names and their values: numbers, texts, tuples of numbers, or facts again.
Facts = tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. The first label is where it shows; the others are where it comes from."""

    code: str
    message: str
    labels: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()
    help: str = ""
    witness: Facts = ()  # what the sentences say, for programs: names and values, which may be facts again
    cause: str = ""  # the same for findings that one mistake leads to; empty: nothing is known about that
    count: int = 1  # findings that it stands for: of one cause, most are only counted
    allowed: bool = False  # whether the user has turned it down to a note

    @property
    def at(self) -> Span:
        return self.labels[0].at if self.labels else NOWHERE

    @property
    def severity(self) -> str:
        """Advice (TG4xx) is a warning, and what the user allows a note; everything else is an error."""
        return "note" if self.allowed else "warning" if self.code.startswith("TG4") else "error"

    def _repr_html_(self) -> str:
        """As text with its head in colour, for a notebook."""
        return findings_to_html([self])

    @property
    def is_bad_input(self) -> bool:
        """Whether the text has no meaning (TG0xx, TG5xx, TG6xx), so that nothing can be run."""
        return self.code[:3] in ("TG0", "TG5", "TG6")


class Findings(list[Finding]):
    """Findings, and the verdict that they come with; a notebook shows both.

    That there are none is no proof: where a program cannot be proved, runs up to a bound found nothing. `is_proved`
    tells the two apart, and `verdict` says in words what was proved or run, and what it assumes.
    """

    def __init__(self, findings: Iterable[Finding] = (), *, is_proved: bool = False, verdict: str = "") -> None:
        super().__init__(findings)
        self.is_proved, self.verdict = is_proved, verdict

    def _repr_html_(self) -> str:
        return findings_to_html(self, verdict=self.verdict)


class TidegateError(Exception):
    """What the library raises on purpose: the input is wrong, or what was asked for cannot be had."""

    findings: tuple[Finding, ...] = ()


class BadInput(TidegateError):
    """Raised where reading cannot go on; carries every finding gathered so far."""

    def __init__(self, *findings: Finding) -> None:
        super().__init__("; ".join(f"{f.code}: {f.message}" for f in findings))
        self.findings = findings


@dataclass(slots=True)
class Sources:
    """The text of source files, by the name that spans use. Files not given are read when first needed."""

    texts: dict[str, str] = field(default_factory=dict)
    _lines: dict[str, list[str]] = field(default_factory=dict)

    def line(self, at: Span) -> str | None:
        if not at.line:
            return None
        if at.file not in self._lines:
            self._lines[at.file] = self.text(at.file).split("\n")
        lines = self._lines[at.file]
        return lines[at.line - 1].rstrip("\r") if at.line <= len(lines) else None

    def text(self, file: str) -> str:
        if file in self.texts:
            return self.texts[file]
        try:
            return read_whole(file, QUOTED_BYTES).decode("utf-8", errors="replace")
        except (OSError, ValueError):
            return ""


def show_finding(finding: Finding, sources: Sources) -> str:
    """The finding as text: a header, the source lines with labels, the notes, the help."""
    lines = [f"{finding.severity}[{finding.code}]: {visible(finding.message)}"]
    placed = [label for label in finding.labels if sources.line(label.at) is not None]
    width = max((len(str(label.at.line)) for label in placed), default=1)
    margin = " " * width
    if finding.at.file:
        lines.append(f"{margin}--> {visible(str(finding.at))}")
    if placed:
        lines.append(f"{margin} |")
        lines += _show_labels(placed, sources, width)
    lines += [f"{margin} = {_indent_more(note, width + 3)}" for note in finding.notes]
    if finding.help:
        lines.append(f"{margin} = help: {_indent_more(finding.help, width + 9)}")
    return "\n".join(lines)


def _show_labels(labels: list[Label], sources: Sources, width: int) -> list[str]:
    """Source lines in order, each once, with its labels under it; `...` where lines are left out."""
    lines: list[str] = []
    previous: Span | None = None
    for label in sorted(labels, key=lambda each: (each.at.file != labels[0].at.file, each.at.file, each.at.line)):
        at = label.at
        if previous is None or (previous.file, previous.line) != (at.file, at.line):
            if previous is not None and previous.file != at.file:
                lines.append(f"{' ' * width} ::: {visible(at.file)}")
            elif previous is not None and at.line > previous.line + 1:
                lines.append("...")
            lines.append(f"{at.line:>{width}} | {visible((sources.line(at) or '').expandtabs(1))}")
        marks = "-" * max(1, at.end - at.column)
        lines.append(f"{' ' * width} | {' ' * (at.column - 1)}{marks} {visible(label.text)}".rstrip())
        previous = at
    return lines


def _indent_more(text: str, by: int) -> str:
    return ("\n" + " " * by).join(map(visible, text.split("\n")))


def visible(text: str) -> str:
    """A text in which no character is obeyed by a terminal: names and source lines are shown, not executed.

    One character becomes one, so that marks stay under what they mark: controls their pictures, all others U+FFFD.
    """
    return OBEYED.sub(lambda found: _picture(found[0]), text)


def visible_lines(text: str) -> str:
    """Several lines, each visible."""
    return "\n".join(map(visible, text.split("\n")))


def _picture(obeyed: str) -> str:
    return chr(0x2400 + ord(obeyed)) if obeyed < " " else "␡" if obeyed == "\x7f" else "\ufffd"


def show_findings(findings: Iterable[Finding], sources: Sources) -> str:
    """All findings, in source order, with an empty line between them."""
    return "\n\n".join(show_finding(finding, sources) for finding in sort_findings(findings))


def sort_findings(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda each: (each.at.file, each.at.line, each.at.column, each.code))


def findings_to_json(findings: Iterable[Finding], **facts: object) -> dict[str, object]:
    """A versioned document; `docs/json.md` describes its fields."""
    return {
        "version": JSON_VERSION,
        **facts,
        "findings": [
            {
                "code": finding.code,
                "severity": finding.severity,
                "message": finding.message,
                "labels": [_label_to_json(label) for label in finding.labels],
                "notes": list(finding.notes),
                "help": finding.help,
                "count": finding.count,
                "witness": _facts_to_json(finding.witness) if finding.witness else None,
            }
            for finding in sort_findings(findings)
        ],
    }


def _facts_to_json(value: object) -> object:
    """Facts as an object, other tuples as a list."""
    if not isinstance(value, tuple):
        return value
    if value and all(isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], str) for each in value):
        return {name: _facts_to_json(each) for name, each in value}
    return [_facts_to_json(each) for each in value]


def _label_to_json(label: Label) -> Mapping[str, object]:
    at = label.at
    return {"file": at.file, "line": at.line, "column": at.column, "end": at.end, "text": label.text}


def findings_to_html(findings: Iterable[Finding], sources: Sources | None = None, *, verdict: str = "") -> str:
    """All findings in the order of the source, for a notebook, and the verdict; that there is none is said too."""
    from tidegate.notebook import headed_block, paragraph

    shown = sources or Sources()
    blocks = []
    for each in sort_findings(findings):
        head, _, body = show_finding(each, shown).partition("\n")
        blocks.append(headed_block(head, body, each.severity))
    return ("".join(blocks) or paragraph("no findings", "good")) + (paragraph(verdict) if verdict else "")


def closest(word: str, known: Iterable[str]) -> str:
    """The known word that `word` was probably meant to be, or an empty string."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, sorted(known), n=1, cutoff=0.6)), "")
