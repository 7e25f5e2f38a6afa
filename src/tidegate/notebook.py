"""What notebooks show of programs, plans and findings: small pieces of HTML.

Needs   texts
Gives   HTML without scripts, which any notebook shows, light or dark
Keeps   every text is escaped; colours come from the notebook, but for those of findings, which both grounds bear
Cost    linear in the text
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

BLOCK = "font: 13px/1.5 ui-monospace, Menlo, Consolas, monospace; margin: 0.4em 0; overflow-x: auto; white-space: pre"
NEW = "background: rgba(20, 145, 155, 0.22)"
# Of red, amber and green, shades that can be read on white and on black.
COLOURS = {"error": "#d0453c", "warning": "#a87400", "note": "#2b7a96", "good": "#2c8a4b"}


def text_block(text: str, new: Iterable[int] = ()) -> str:
    """A program; the lines that are `new` stand out. Lines count from 0."""
    marked = set(new)
    lines = [
        f'<span style="{NEW}">{html.escape(line)}</span>' if number in marked else html.escape(line)
        for number, line in enumerate(text.rstrip("\n").split("\n"))
    ]
    body = "\n".join(lines)
    return f'<pre style="{BLOCK}">{body}</pre>'


def new_lines(before: str, after: str) -> list[int]:
    """Lines of the second text that the first does not have."""
    matcher = SequenceMatcher(a=before.split("\n"), b=after.split("\n"), autojunk=False)
    changes = (each for each in matcher.get_opcodes() if each[0] != "equal")
    return [number for _, _, _, first, last in changes for number in range(first, last)]


def headed_block(head: str, body: str, kind: str) -> str:
    """A finding: its first line in colour, the rest as it is."""
    colour = COLOURS.get(kind, COLOURS["warning"])
    return f'<pre style="{BLOCK}"><b style="color: {colour}">{html.escape(head)}</b>\n{html.escape(body)}</pre>'


def table_block(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        style = "text-align: left; vertical-align: top; padding: 2px 12px 2px 0"
        found = "".join(f'<{tag} style="{style}">{html.escape(cell)}</{tag}>' for cell in cells)
        return f"<tr>{found}</tr>"

    return f"<table>{row(head, 'th')}{''.join(row(each, 'td') for each in rows)}</table>"


def paragraph(text: str, kind: str = "") -> str:
    colour = f' style="color: {COLOURS[kind]}"' if kind in COLOURS else ""
    return f"<p{colour}>{'<br>'.join(map(html.escape, text.split(chr(10))))}</p>"
