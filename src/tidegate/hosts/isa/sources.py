"""Places of the source, as compilers note them in PTX and in assembly.

Needs   text with `.loc` and `.file` directives (PTX ISA 9.0, 11.5), as `-lineinfo` makes it
Gives   for each line of the text the place of the source that it was made of, and where that was inlined
Keeps   a line has the place of the last directive before it in its function, and without one none
Cost    linear: one look at each line

    .file 1 "/home/me/k.cu"
    .loc  1 8 3                                                      line 8, column 3
    .loc  1 3 3, function_name $L__info_string0, inlined_at 1 8 3    line 3, called in line 8
    .loc  1 3 3    ; k.py:3:3 @[ k.py:8:3 ]                          the same as LLVM notes it, in a comment
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LOC = re.compile(
    r"\s*\.loc\s+(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})"
    r"(?:\s*,\s*function_name\s+[^\s,]+(?:\s*\+\s*\d+)?\s*,\s*inlined_at\s+(\d{1,9})\s+(\d{1,9})\s+(\d{1,9}))?"
)
_FILE = re.compile(r'^\s*\.file\s+(\d{1,9})\s+"([^"\n]*)"(?:\s+"([^"\n]*)")?', re.MULTILINE)
_FUNCTION = re.compile(r"\s*(?:(?:\.(?:visible|extern|weak|common)\s+)*\.(?:entry|func)\b|\.type\s+\S+,@function)")
_INLINED = re.compile(r"@\[ ([^\s:\]]+):(\d{1,9}):(\d{1,9})")
MOST_INLINED = 64  # calls within calls


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the source; `inside`: the call that was replaced by its function's body, or nothing."""

    file: str
    line: int
    column: int
    inside: Place | None = None

    @property
    def chain(self) -> list[Place]:
        """This place, the call that it was inlined at, the call of that."""
        found = [self]
        while found[-1].inside is not None and len(found) < MOST_INLINED:
            found.append(found[-1].inside)
        return found


def place_at(places: list[Place | None], line: int) -> Place | None:
    return places[line] if 0 < line < len(places) else None


def find_places(text: str) -> list[Place | None]:
    """By lines, the first of which is 1."""
    files = {number: f"{folder}/{name}" if name else folder for number, folder, name in _FILE.findall(text)}
    found: list[Place | None] = [None]
    known: dict[tuple[str, str, str], Place] = {}
    here: Place | None = None
    for line in text.split("\n"):
        if _FUNCTION.match(line):
            here, known = None, {}
        said = _LOC.match(line) if ".loc" in line else None
        if said is not None and said[1] in files:
            key = (said[1], said[2], said[3])
            at = (said[4], said[5], said[6])
            inside = None
            if said[4] in files:  # the call has been noted before, with what it is inside of itself
                inside = known.get(at) or Place(files[said[4]], int(said[5]), int(said[6]))
            for file, row, column in reversed(_INLINED.findall(line)):
                inside = Place(file, int(row), int(column), inside)
            here = Place(files[said[1]], int(said[2]), int(said[3]), inside)
            known[key] = here
            here = here if here.line else None  # code that no line of the source is the reason of
        found.append(here)
    return found
