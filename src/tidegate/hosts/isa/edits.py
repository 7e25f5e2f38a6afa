"""Edits carried out in the text of final instructions.

Needs   a text, and edits at places of its instructions; where an instruction ends, and how a comment begins
Gives   the text with barriers and waits put in, changed or taken away
Keeps   every other byte: what is put in stands on a line of its own, or before the instruction if something else
        stands before that in its line; what is taken away takes its line with it if nothing else is there
Cost    linear in the text for each edit
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidegate.diag import Span


@dataclass(frozen=True, slots=True)
class TextEdit:
    """`what`: insert, change or delete. `at`: the instruction itself, or the one that `text` is put in before."""

    what: str
    at: Span
    text: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Grammar:
    """`end_of`: behind the instruction that begins at a place of a text. `parts`: what stands between two
    instructions in one line."""

    end_of: Callable[[str, Span, int], int]
    comment: str
    parts: str = " "


@dataclass(frozen=True, slots=True)
class Spelled:
    """How a host writes a barrier of the block, one of the lanes of a wave (empty: none is needed), waits for ordinary
    accesses, and for copies in the background: each as the instructions that make it, waits the cheapest first."""

    barrier: tuple[str, ...]
    lanes: tuple[str, ...]
    waits: tuple[tuple[str, ...], ...]
    copies: tuple[tuple[str, ...], ...]


def carry_out(text: str, edits: Sequence[TextEdit], grammar: Grammar) -> str:
    """What is put in before one instruction keeps its order."""
    starts = [0]
    starts += [match.end() for match in re.finditer("\n", text)]
    found = text
    # From the end, so that places before an edit stay; of those at one place the last comes first.
    backwards = list(reversed(edits))
    for each in sorted(backwards, key=lambda each: -(starts[each.at.line - 1] + each.at.column)):
        line = starts[each.at.line - 1]
        found = _one(found, each, line, line + each.at.column - 1, grammar)
    return found


def _one(text: str, edit: TextEdit, line: int, place: int, grammar: Grammar) -> str:
    before = text[line:place]
    if edit.what == "insert":
        reason = f"  {grammar.comment} {edit.why}" if edit.why else ""
        if before.strip():
            return f"{text[:place]}{edit.text}{grammar.parts}{text[place:]}"
        following = text.find("\n", place)
        end = "\r\n" if following > 0 and text[following - 1] == "\r" else "\n"
        return f"{text[:line]}{before}{edit.text}{reason}{end}{text[line:]}"
    last = grammar.end_of(text, edit.at, place)
    if edit.what == "change":
        return text[:place] + edit.text + text[last:]
    following = text.find("\n", last)
    following = len(text) if following < 0 else following + 1
    if not before.strip() and not text[last:following].strip():
        return text[:line] + text[following:]
    return text[:place] + text[last:]


def offset_of(text: str, at: Span) -> int:
    place = 0
    for _ in range(at.line - 1):
        place = text.index("\n", place) + 1
    return place + at.column - 1
