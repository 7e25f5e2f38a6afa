"""The lines of a program that a page shows.

Needs   a graph whose points have places, and the source
Gives   numbered lines of one file: those of the program, from its head to its last brace
Keeps   of a long program only the lines that something is said about, and one around each; a gap is one line
Cost    linear in the text
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.diag import Sources, Span
from tidegate.graph.model import SyncGraph

# What begins a program, in any of the forms that it may have.
HEADS = ("kernel @", "target ", "graph ", "tt.func ", "def ", "@")
LONGEST, AROUND = 70, 1
# Where an operation of MLIR comes from: said by findings, and no part of the program.
LOCATION = re.compile(r" loc\((#loc\d*|\".*?\"\(#loc\d*\)|unknown)\)$")


@dataclass(frozen=True, slots=True)
class Line:
    """Number 0 is a gap."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Listing:
    file: str
    lines: tuple[Line, ...]

    def text(self, number: int) -> str:
        return next((each.text for each in self.lines if each.number == number), "")


def listing_of(graph: SyncGraph, sources: Sources, told: Iterable[Span] = (), *, head: Span | None = None) -> Listing:
    """`told`: places about which something is said, which stay in a long program; `head`: where it begins, if known."""
    places = [point.at for point in graph.points if point.at.line]
    if not places:
        return Listing("", ())
    file = head.file if head is not None else Counter(each.file for each in places).most_common(1)[0][0]
    numbers = [each.line for each in (*places, *([head] if head is not None else [])) if each.file == file]
    first, last = _grown(file, min(numbers), max(numbers), sources)
    first = min(first, head.line) if head is not None else first
    while first < last and not (_line(file, first, sources) or "").strip():
        first += 1
    lines = [(number, _line(file, number, sources) or "") for number in range(first, last + 1)]
    if len(lines) > LONGEST:
        lines = list(_short(lines, {first, last, *(each.line for each in told if each.file == file)}))
    return Listing(file, tuple(Line(number, LOCATION.sub("", text).rstrip().expandtabs(4)) for number, text in lines))


def _line(file: str, number: int, sources: Sources) -> str | None:
    return sources.line(Span(file, number, 1, 1))


def _grown(file: str, first: int, last: int, sources: Sources) -> tuple[int, int]:
    """Up to the head of the program with what stands right above it, down to its last brace."""
    start = first
    while start > 1 and not _is_head(_line(file, start, sources)):
        start -= 1
    if _is_head(_line(file, start, sources)):
        first = start
        while first > 1 and _is_above(_line(file, first - 1, sources)):
            first -= 1
    while LOCATION.sub("", (_line(file, last + 1, sources) or "").strip()) in ("}", "})"):
        last += 1
    return first, last


def _is_head(text: str | None) -> bool:
    return text is not None and text.lstrip().startswith(HEADS)


def _is_above(text: str | None) -> bool:
    """Decorators, the target, comments: what belongs to a head."""
    stripped = (text or "").strip()
    return _is_head(text) or stripped.startswith(("#", "//")) or stripped == ""


def _short(lines: list[tuple[int, str]], told: set[int]) -> Iterable[tuple[int, str]]:
    kept = {number + offset for number in told for offset in range(-AROUND, AROUND + 1)}
    gap = False
    for number, text in lines:
        if number in kept:
            gap = False
            yield number, text
        elif not gap:
            gap = True
            yield 0, ""
