"""Where the keys of a target file stand in its text.

Needs   text that `tomllib` accepts
Gives   a `Span` for a dotted key, as exact as a look at single lines can make it
Keeps   never wrong about the file; a key that is not found has the place of the closest table around it
Cost    linear in the text

`tomllib` keeps no places. The files are written one fact to a line, so a textual search finds nearly all of them; it
serves messages only, never meaning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tidegate.diag import Span

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?")
_KEY = re.compile(r"\s*([\w.\-]+)\s*=\s*(.*)")


@dataclass(slots=True)
class Places:
    """Spans by dotted key; entry i of an array of tables is `key[i]`."""

    file: str
    lines: list[str]
    spans: dict[str, Span] = field(default_factory=dict)

    def at(self, key: str) -> Span:
        """The place of a key, of the word for it in its parent's line, or of the nearest table around it."""
        if key in self.spans:
            return self.spans[key]
        parent, _, last = key.rpartition(".")
        if not parent:
            return Span(self.file, 0, 0, 0)
        around = self.at(parent)
        if around.line:
            word = re.compile(rf"(?<![\w.\"]){re.escape(last)}\s*=").search(self.lines[around.line - 1], around.column)
            if word:
                return Span(self.file, around.line, word.start() + 1, word.start() + 1 + len(last))
        return around

    def add(self, key: str, line: int, start: int, end: int) -> None:
        self.spans.setdefault(key, Span(self.file, line, start + 1, end + 1))


def find_places(text: str, file: str) -> Places:
    """Look at each line once: table headers, keys, and the entries of arrays that span lines."""
    places = Places(file, text.split("\n"))
    prefix, array, counts = "", "", dict[str, int]()
    for number, line in enumerate(places.lines, 1):
        if array:
            array = _add_entry(places, array, counts, number, line)
        elif header := _HEADER.match(line):
            prefix = header[2]
            if header[1] == "[[":
                prefix = _next_entry(counts, header[2])
            places.add(prefix, number, header.start(1), header.end())
        elif key := _KEY.match(line):
            dotted = f"{prefix}.{key[1]}" if prefix else key[1]
            places.add(dotted, number, key.start(1), key.end(1))
            array = dotted if key[2].startswith("[") and "]" not in key[2] else ""
    return places


def _add_entry(places: Places, array: str, counts: dict[str, int], number: int, line: str) -> str:
    """Note an entry of an open array; gives the array's key while it stays open."""
    stripped = line.strip()
    if stripped.startswith("]"):
        return ""
    if stripped.startswith("{"):
        start = line.index("{")
        places.add(_next_entry(counts, array), number, start, line.rindex("}") + 1 if "}" in line else len(line))
    return array


def _next_entry(counts: dict[str, int], key: str) -> str:
    index = counts.get(key, 0)
    counts[key] = index + 1
    return f"{key}[{index}]"
