"""Where text goes: a terminal has a width and perhaps colours; anything else gets plain text.

`NO_COLOR` turns colours off, `FORCE_COLOR` turns them on even in a pipe, and `NO_COLOR` is the stronger of the two. A
terminal that says of itself `TERM=dumb` has a width and no colours. A pipe has no width: nothing is wrapped or cut.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.text import Text

# Narrower than this nothing is laid out: the terminal wraps it.
NARROWEST = 20
# Numbers of lines before quoted source, which is cut and never wrapped.
QUOTED = re.compile(r"\s*\d+ \| ")
# What wrapped lines stand under: the indent, and the word of a list with two columns.
HANGING = re.compile(r"(\s*)([\w-]+(?: [\w-]+){0,3}:? {2,})?")
CUT = "…"


def is_coloured(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    forced = os.environ.get("FORCE_COLOR", "")
    if forced:
        return forced != "0"
    return is_terminal(stream) and not is_dumb()


def is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def is_dumb() -> bool:
    """Whether the terminal cannot move its cursor."""
    return os.environ.get("TERM", "").lower() in ("dumb", "unknown")


def width_of(stream: TextIO) -> int | None:
    """Columns of the terminal, `COLUMNS` if that is set; None for what is no terminal."""
    if not is_terminal(stream):
        return None
    asked = os.environ.get("COLUMNS", "")
    if asked.isdigit() and int(asked):
        return max(NARROWEST, int(asked))
    try:
        found = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        found = 0
    return max(NARROWEST, found or 80)


def is_plain(stream: TextIO) -> bool:
    """Whether text goes there as it is."""
    return not is_terminal(stream) and not is_coloured(stream)


def put(lines: Iterable[Text], stream: TextIO) -> None:
    """Prints lines that are laid out already."""
    from rich.console import Console

    console = Console(
        file=stream,
        force_terminal=True,
        color_system="standard" if is_coloured(stream) else None,
        no_color=False,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    for line in lines:
        console.print(line, soft_wrap=True)


def lay_out(text: Text, width: int | None) -> list[Text]:
    """One line of a report: wrapped under its own beginning, or cut if it quotes source."""
    from rich.cells import cell_len

    if width is None or cell_len(text.plain) <= width:
        return [text]
    if QUOTED.match(text.plain):
        return [cut(text, width)]
    found = HANGING.match(text.plain)
    indent = len(found[0]) if found and found[2] else len(found[1]) + 2 if found else 2
    return hang(text, width, min(indent, width // 2))


def hang(text: Text, width: int, indent: int) -> list[Text]:
    """Wrapped at spaces; all lines but the first are indented. Addresses stay whole, to be clicked on."""
    from rich.cells import cell_len
    from rich.text import Text

    lines: list[Text] = []
    line = Text()
    margin = 0
    for found in re.finditer(r"\s*\S+", text.plain):
        word = text[found.start() : found.end()]
        if line and cell_len(line.plain + word.plain) > width - margin:
            lines.append(_indented(line, margin))
            line, margin = Text(), indent
            word = word[len(word) - len(word.plain.lstrip()) :]
        while not line and cell_len(word.plain) > width - margin and "://" not in word.plain:
            fits = max(1, _fits(word.plain, width - margin))
            lines.append(_indented(word[:fits], margin))
            word, margin = word[fits:], indent
        line = line + word
    return [*lines, _indented(line, margin)]


def _fits(text: str, room: int) -> int:
    """How many characters of a text have room."""
    from rich.cells import cell_len

    count = min(len(text), room)
    while count and cell_len(text[:count]) > room:
        count -= 1
    return count


def _indented(text: Text, by: int) -> Text:
    from rich.text import Text

    return Text(" " * by) + text if by else text


def cut(text: Text, width: int) -> Text:
    found = text.copy()
    found.truncate(width, overflow="ellipsis")
    return found
