"""Locations in a TTGIR text: taken out, so that each operation has its place in the text itself, and read.

Needs   the text of a file
Gives   the same text without locations and comments, line for line; for each line the place in the Triton source that
        it came from
Keeps   line and column of what is left, for locations stand at the end of what they belong to
Cost    linear

    %a = ttg.local_load %b : ... loc(#loc51)        →  "gemm.py", 12, 11
    #loc51 = loc("a"(#loc18))
    #loc18 = loc("gemm.py":12:11)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

from tidegate.hosts.mlir.parse import without_comments

_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)[ \t\r]*$", re.MULTILINE)
_LOC = re.compile(r'"(?:[^"\\]|\\.)*"|(?<=\s)loc\(')
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[()]')
_PLACE = re.compile(r'"((?:[^"\\]|\\.)+)":(\d+):(\d+)')
_NAMED = re.compile(r"#loc\d*\b")
_CALLSITE = re.compile(r"callsite\((.*) at (.*)\)")
# A function of Triton's own library says nothing to its user: the call does.
_LIBRARY = re.compile(r"[/\\]triton[/\\](?:language|experimental)[/\\]")
MOST_STEPS = 32


@dataclass(frozen=True, slots=True)
class Source:
    """A place in the program that Triton compiled."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{PurePath(self.file.replace(chr(92), '/')).name}:{self.line}"


@dataclass(frozen=True, slots=True)
class Places:
    """A text without locations and comments, and what the locations said."""

    text: str
    locs: dict[int, str]  # line → the last location in it
    aliases: dict[str, str]
    lines: tuple[str, ...] = ()

    def source(self, line: int) -> Source | None:
        """Where in the Triton source a line of the text comes from, if it says so."""
        text = self.loc(line)
        return None if text is None else self.resolve(text)

    def loc(self, line: int) -> str | None:
        """The location of what starts in a line, as it is written."""
        return self.locs.get(line) or self.locs.get(self.end_of(line))

    def end_of(self, line: int) -> int:
        """Where an operation ends that starts in a line: one with regions has its location there."""
        lines = self.lines
        if not 1 <= line <= len(lines) or not lines[line - 1].rstrip().endswith("{"):
            return line
        start = lines[line - 1]
        indent = start[: len(start) - len(start.lstrip())]
        for number in range(line, len(lines)):
            if lines[number].startswith(indent + "}") and not lines[number].rstrip().endswith("{"):
                return number + 1
        return line

    def resolve(self, text: str, steps: int = 0) -> Source | None:
        if steps > MOST_STEPS:
            return None
        if called := _CALLSITE.fullmatch(text.strip()):
            callee, caller = (self.resolve(part, steps + 1) for part in called.groups())
            return caller if callee is None or (caller and _LIBRARY.search(callee.file)) else callee
        if found := _PLACE.search(text):
            return Source(found[1], int(found[2]), int(found[3]))
        for name in _NAMED.findall(text):
            if (known := self.aliases.get(name)) is not None:
                return self.resolve(known, steps + 1)
        return None


def take_places(text: str) -> Places:
    """The text without its locations; comments are blank, since they state nothing."""
    text = without_comments(text)
    aliases = {found[1]: found[2] for found in _ALIAS.finditer(text)}
    text = _ALIAS.sub("", text)
    pieces: list[str] = []
    locs: dict[int, str] = {}
    place, line, counted = 0, 1, 0
    for found in _LOC.finditer(text):
        if found[0] != "loc(" or found.start() < place:
            continue
        end = _close(text, found.end())
        line += text.count("\n", counted, found.start())
        counted = found.start()
        locs[line] = text[found.end() : end - 1]
        pieces.append(text[place : found.start()].removesuffix(" "))
        place = end
    left = "".join([*pieces, text[place:]])
    return Places(left, locs, aliases, tuple(left.split("\n")))


def _close(text: str, start: int) -> int:
    """Behind the bracket that closes one that is open."""
    depth = 1
    for found in _BRACKET.finditer(text, start):
        depth += (found[0] == "(") - (found[0] == ")")
        if not depth:
            return found.end()
    return len(text)
