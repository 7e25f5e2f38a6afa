"""PTX text as tokens.

Needs   text, and the name of its file for messages
Gives   a `Cursor` over tokens, each with its place
Keeps   comments and line ends are left out; text that is no token is a finding with its place
Cost    linear
"""

from __future__ import annotations

import re
from typing import NoReturn

from tidegate.diag import BadInput, Finding, Label, Span

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\f\v]+|//[^\n]*|\\\n)
      | (?P<line>\n)
      | (?P<comment>/\*.*?\*/)
      | (?P<string>"[^"\n]*")
      | (?P<float>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|\d+\.\d*(?:[eE][+-]?\d+)?)
      | (?P<number>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)
      | (?P<word>(?:[A-Za-z_$%.][\w$.]*)(?:::[\w.]+)*)
      | (?P<mark>[{}()\[\],;:<>=|!+\-*/@&~?^])""",
    re.VERBOSE | re.DOTALL,
)

MOST_DIGITS = 80  # of an integer: 64 bits, an `0b` and some zeros


class Cursor:
    """Where reading stands."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.kinds: list[str] = []
        self.texts: list[str] = []
        self.spans: list[tuple[int, int]] = []  # line, column
        self.position = 0
        self._split(text)

    def _split(self, text: str) -> None:
        place, line, begin = 0, 1, 0
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                at = Span(self.file, line, place - begin + 1, place - begin + 2)
                raise BadInput(Finding("TG001", f"`{text[place]!a}` is not PTX", (Label(at),)))
            kind, found = str(match.lastgroup), match.group()
            if kind == "line" or found == "\\\n":
                line, begin = line + 1, match.end()
            elif kind == "comment":
                line += found.count("\n")
                begin = place + found.rfind("\n") + 1 if "\n" in found else begin
            elif kind != "space":
                self.kinds.append(kind)
                self.texts.append(found)
                self.spans.append((line, place - begin + 1))
            place = match.end()
        self.kinds.append("end")
        self.texts.append("")
        self.spans.append((line, max(1, place - begin + 1)))

    @property
    def text(self) -> str:
        return self.texts[self.position]

    @property
    def kind(self) -> str:
        return self.kinds[self.position]

    def at(self, first: int | None = None, last: int | None = None) -> Span:
        """The place of a token, or of several up to the end of the first one's line."""
        first = self.position if first is None else first
        last = first if last is None else max(first, last)
        line, column = self.spans[first]
        while last > first and self.spans[last][0] != line:
            last -= 1
        return Span(self.file, line, column, self.spans[last][1] + max(1, len(self.texts[last])))

    def advance(self) -> str:
        found = self.text
        if self.kind != "end":
            self.position += 1
        return found

    def accept(self, text: str) -> bool:
        if self.text == text and self.kind != "string":
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.fail(f"expected `{text}`, found {self.found()}")

    def word(self, what: str) -> str:
        if self.kind != "word":
            self.fail(f"expected {what}, found {self.found()}")
        return self.advance()

    def number(self, what: str) -> int:
        if self.kind != "number":
            self.fail(f"expected {what}, found {self.found()}")
        # Longer texts are not even converted: Python refuses more than 4,300 digits.
        value = to_number(self.text) if len(self.text) <= MOST_DIGITS else 1 << 64
        if value >> 64:
            self.fail("an integer has at most 64 bits")  # PTX ISA 4.5.1
        self.advance()
        return value

    def found(self) -> str:
        if self.kind == "end":
            return "the end of the file"
        return f"`{self.text}`" if len(self.text) <= MOST_DIGITS else f"`{self.text[:MOST_DIGITS]}…`"

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        raise BadInput(Finding("TG001", message, (Label(self.at(at)),)))


def to_number(text: str) -> int:
    """The value of an integer token; a leading 0 means octal."""
    digits = text.rstrip("U")
    if digits[:2].lower() in ("0x", "0b") or not (len(digits) > 1 and digits[0] == "0"):
        return int(digits, 0)
    return int(digits, 8) if all(each in "01234567" for each in digits) else int(digits)
