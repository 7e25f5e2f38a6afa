"""Findings for a terminal: in colour, and no wider than it.

Needs   findings and their sources
Gives   lines; in colour, `diag.show_finding` says the same without
Keeps   marks stand under what they mark, however narrow the terminal: of a long source line a window is shown
Cost    linear in the text shown

      --> gemm.tide:12:3                                    --> gemm.tide:12:3
       |                                                     |
    12 |   %b = local_read %tile[(wave + 1) mod 4]    or    12 | …ad %tile[(wave + 1) mod 4…
       |                         ---------------- here       |           ---------------- here
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tidegate.cli.terminal import CUT, hang, lay_out
from tidegate.diag import Finding, Label, Sources, Span, sort_findings, visible

if TYPE_CHECKING:
    from rich.text import Text

COLOURS = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan"}
MARGIN, FURTHER, HELP, NOTE = "bold blue", "bold blue", "bold green", "bold"
# Columns of source that stay before a mark, where the window has to move.
BEFORE = 6


def lay_out_findings(findings: Iterable[Finding], sources: Sources, width: int | None) -> Iterator[Text]:
    """All findings, in source order, with an empty line after each."""
    from rich.text import Text

    for finding in sort_findings(findings):
        yield from _Layout(finding, sources, width).lines()
        yield Text()


class _Layout:
    """One finding on its way to the terminal."""

    def __init__(self, finding: Finding, sources: Sources, width: int | None) -> None:
        self.finding, self.sources, self.width = finding, sources, width
        self.colour = COLOURS[finding.severity]
        self.placed = [label for label in finding.labels if sources.line(label.at) is not None]
        self.digits = max((len(str(label.at.line)) for label in self.placed), default=1)

    def lines(self) -> Iterator[Text]:
        from rich.text import Text

        finding, space = self.finding, " " * self.digits
        code = f"{finding.severity}[{finding.code}]"
        head = Text.assemble((code, self.colour), (f": {visible(finding.message)}", "bold"))
        yield from hang(head, self.width, 2) if self.width else [head]
        if finding.at.file:
            yield Text.assemble((f"{space}--> ", MARGIN), visible(str(finding.at)))
        if self.placed:
            yield Text(f"{space} |", MARGIN)
            yield from self.source()
        for note in finding.notes:
            yield from self.note("", note)
        if finding.help:
            yield from self.note("help: ", finding.help)

    def note(self, word: str, text: str) -> Iterator[Text]:
        from rich.text import Text

        for number, line in enumerate(text.split("\n")):
            before, colon, after = ("", word, line) if word else line.partition(": ")
            if not word and (not colon or " " in before):
                before, colon, after = "", "", line
            if number and word:
                colon = " " * len(word)
            start = (" " * self.digits + " = ") if not number else " " * (self.digits + 3)
            whole = Text.assemble((start, MARGIN), (visible(before) + colon, HELP if word else NOTE), visible(after))
            yield from hang(whole, self.width, self.digits + 3 + len(word)) if self.width else [whole]

    # --- source ---

    def source(self) -> Iterator[Text]:
        """Source lines in order, each once, with its labels under it; `...` where lines are left out."""
        from rich.text import Text

        first = self.placed[0].at.file
        order = sorted(self.placed, key=lambda each: (each.at.file != first, each.at.file, each.at.line))
        previous: Span | None = None
        for at, labels in _by_line(order):
            if previous is not None and previous.file != at.file:
                yield Text.assemble((" " * self.digits + " ::: ", MARGIN), visible(at.file))
            elif previous is not None and at.line > previous.line + 1:
                yield Text("...", MARGIN)
            yield from self.source_line(at, labels)
            previous = at

    def source_line(self, at: Span, labels: list[Label]) -> Iterator[Text]:
        from rich.cells import cell_len
        from rich.text import Text

        text = visible((self.sources.line(at) or "").expandtabs(1))
        marks = [_cells(text, label.at) for label in labels]
        room = None if self.width is None else self.width - self.digits - 3
        if room is not None and len(labels) > 1 and not _fit(cell_len(text), marks, room):
            for label in labels:
                yield from self.source_line(at, [label])
            return
        first = 0 if room is None else _first_column(cell_len(text), marks, room)
        shown = text if room is None else _window(text, first, room)
        yield Text.assemble((f"{at.line:>{self.digits}} | ", MARGIN), shown)
        for label, (start, end) in zip(labels, marks, strict=True):
            yield from self.mark(label, max(0, start - first), end - first, room)

    def mark(self, label: Label, start: int, end: int, room: int | None) -> Iterator[Text]:
        """A line of marks, with what happens there behind it or, if there is no room, below."""
        from rich.text import Text

        style = self.colour if label is self.finding.labels[0] else FURTHER
        margin = (" " * self.digits + " | ", MARGIN)
        if room is not None:
            end = min(end, room)
        marks = " " * start + "-" * max(1, end - start)
        said = visible(label.text)
        if room is None or not said or len(marks) + 1 + len(said) <= room:
            yield Text.assemble(margin, (f"{marks} {said}".rstrip(), style))
            return
        yield Text.assemble(margin, (marks, style))
        indent = min(start, room // 3)
        for line in lay_out(Text(said, style), room - indent):
            yield Text.assemble(margin, " " * indent, line)


def _by_line(labels: list[Label]) -> Iterator[tuple[Span, list[Label]]]:
    group: list[Label] = []
    for label in labels:
        if group and (group[0].at.file, group[0].at.line) != (label.at.file, label.at.line):
            yield group[0].at, group
            group = []
        group.append(label)
    yield group[0].at, group


def _cells(text: str, at: Span) -> tuple[int, int]:
    """Where a mark begins and ends on the screen, on which some characters are two columns wide."""
    from rich.cells import cell_len

    padded = text.ljust(at.end - 1)
    start = cell_len(padded[: at.column - 1])
    return start, start + max(1, cell_len(padded[at.column - 1 : at.end - 1]))


def _fit(length: int, marks: list[tuple[int, int]], room: int) -> bool:
    """Whether one window shows all marks of a line; else the line is shown once for each."""
    return (
        max(last for _, last in marks) < room
        or max(last for _, last in marks) - min(marks)[0] + 2 <= room
        or length <= room
    )


def _first_column(length: int, marks: list[tuple[int, int]], room: int) -> int:
    """How far the window is moved: not at all if all marks are seen so, else until they are, or the first of them."""
    start, end = min(first for first, _ in marks), max(last for _, last in marks)
    if max(length, end) <= room or end < room:
        return 0
    if end - start + 2 > room:
        return max(0, start - 1)
    seen = end - room + (end < length)
    return max(0, seen, min(start - BEFORE, length - room))


def _window(text: str, first: int, room: int) -> str:
    """Columns of a line; an ellipsis where it goes on."""
    from rich.cells import cell_len

    found, at = [], 0
    for each in text:
        wide = cell_len(each)
        if at >= first and at + wide <= first + room:
            found.append(each)
        elif at < first + room and at + wide > first:
            found.append(" ")
        at += wide
    shown = "".join(found)
    if first:
        shown = CUT + " " * (cell_len(shown[:1]) - 1) + shown[1:]
    if at > first + room and shown:
        shown = shown[:-1] + " " * (cell_len(shown[-1]) - 1) + CUT
    return shown
