"""Colours of reports: verdicts, names, codes, and lines of a diff. What words say, colours only repeat."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tidegate.cli.terminal import hang, lay_out
from tidegate.diag import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text

GOOD, BAD, DOUBT, QUIET, ADDED, GONE = "green", "bold red", "yellow", "bright_black", "green", "red"
# What is painted, in this order; the groups of a pattern that have no name are painted, or all of it.
WORDS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"`[^`]+`"), "cyan"),
    (re.compile(r"(?<!\w)@[\w.]+"), "bold"),
    (re.compile(r"\bTG\d{3}\b"), "bold"),
    (re.compile(r"\b(?:RAW|WAR|WAW)\b"), "magenta"),
    (re.compile(r"\bno findings\b|^\s*proved:|\bequals the reference\b|^\s*no errors$"), GOOD),
    (re.compile(r"(?<![\w.])[1-9]\d* findings?\b|\bDIFFERS FROM\b|^\s*error:"), BAD),
    (re.compile(r"^\s*(?:not proved|bounded|uncertain|not judged|not ordered|note):"), DOUBT),
    (re.compile(r": (?:declined$|not synchronized\b|not explained\b)|\bis not (?:written|scheduled)\b"), DOUBT),
    (re.compile(r"\bnot judged\b|\bwere not judged\b"), DOUBT),
    (re.compile(r"^\s*(?:judged|advice|timeline|\d+ barriers?, weight \S+)(?=[:,]|$)"), "cyan"),
    (re.compile(r"^\s*(?:serves|by path|without|earlier|later|weaker|outside|instead|slots)\b(?=  )"), "bold"),
    (re.compile(r"^\s*\d+ \|(?= )"), "blue"),
    (re.compile(r"^# after \w+$"), "bold magenta"),
    (re.compile(r"^\S+ · .*$|^[a-z_]+$"), "bold"),  # the name of a target, the titles of its facts
)
# The last column of a table is wrapped if it keeps so many columns.
LAST = 20
EDITS = {"insert": ADDED, "delete": GONE, "change": DOUBT}


def paint(line: str) -> Text:
    """One line of a report."""
    from rich.text import Text

    text = Text(visible(line))
    for pattern, style in WORDS:
        for found in pattern.finditer(text.plain):
            text.stylize(style, *found.span())
    word = line.partition(" ")[0]
    if word in EDITS:
        text.stylize(EDITS[word], 0, len(word))
    return text


def paint_diff(line: str) -> Text:
    """One line of a unified diff."""
    from rich.text import Text

    style = "bold" if line.startswith(("---", "+++")) else {"+": ADDED, "-": GONE, "@": "cyan"}.get(line[:1], "")
    return Text(visible(line), style)


def paint_new(text: str, before: str) -> list[Text]:
    """A program, in which the lines that were not there before stand out."""
    from difflib import SequenceMatcher

    from rich.text import Text

    old, new = before.splitlines(), text.splitlines()
    lines = [Text(visible(line)) for line in new]
    for what, _, _, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for line in lines[first:last] if what != "equal" else ():
            line.stylize(ADDED)
    return lines


def paint_table(rows: Sequence[Sequence[str]], width: int | None, indent: int) -> list[Text]:
    """A table with its head in bold; if it is too wide, the last column is wrapped, or each row a paragraph."""
    from rich.text import Text

    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    before = indent + sum(widths[:-1]) + 2 * (len(widths) - 1)
    if width is not None and before + min(widths[-1], LAST) > width:
        return _paragraphs(rows, width, indent)
    lines: list[Text] = []
    for number, row in enumerate(rows):
        cells = "  ".join(f"{cell:<{size}}" for cell, size in zip(row, widths, strict=True)).rstrip()
        chosen = row[0].endswith(" *")
        line = Text(" " * indent + visible(cells), "bold" if not number or chosen else "")
        lines += hang(line, width, before) if width is not None else [line]
    return lines


def _paragraphs(rows: Sequence[Sequence[str]], width: int, indent: int) -> list[Text]:
    from rich.text import Text

    head, *body = rows
    size = max(map(len, head[1:]), default=0)
    lines = [Text(" " * indent + visible(head[0]), "bold underline")]
    for row in body:
        lines.append(Text(" " * indent + visible(row[0]), "bold"))
        for name, cell in zip(head[1:], row[1:], strict=True):
            lines += lay_out(Text.assemble(f"{'':{indent + 2}}{name:<{size}}  ", visible(cell)), width)
    return lines
