"""Text to tokens, for `.tide` kernels and `.sync` graphs.

Needs   text
Gives   three parallel lists (kinds, texts, offsets) behind a cursor that can say what it expected
Keeps   nothing is skipped but white space and comments; every error has a place
Cost    one regular-expression match per token

Tokens are kept as parallel lists, not objects: a kernel of 100,000 operations has two million of them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NoReturn

from tidegate.diag import BadInput, Finding, Label, Span

_TOKEN = re.compile(
    r"""[ \t\r\n]+ | \#[^\n]*
      | (?P<type>(?:tile|lds|global|mbarrier|named_barrier)<[^>\n]*>)
      | (?P<value>%[A-Za-z0-9_.]+)
      | (?P<symbol>@[A-Za-z_][\w.]*)
      | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
      | (?P<int>\d+)
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<string>"[^"\n]*")
      | (?P<punct>\.\.|->|<=|>=|==|!=|//|[-+*(){}\[\],:=<>|])
      | (?P<bad>.)""",
    re.VERBOSE,
)
END = "end of file"
# Signs that mean something else in other languages, and are found where nothing of the kind can stand.
ELSEWHERE = {"%": "the remainder is `mod`, as in `wave mod 2`", "//": "comments start with `#`; `//` divides"}
# Numbers longer than this are never meant, and Python refuses to read numbers of thousands of digits.
MAX_DIGITS = 18


class Cursor:
    """A place in a list of tokens. `kind` and `text` are the next token's."""

    __slots__ = ("_last", "_starts", "file", "kinds", "offsets", "position", "source", "texts")

    def __init__(self, source: str, file: str) -> None:
        self.source, self.file, self.position = source, file, 0
        self.kinds: list[str] = []
        self.texts: list[str] = []
        self.offsets: list[int] = []
        for match in _TOKEN.finditer(source):
            kind = match.lastgroup
            if kind is not None:
                self.kinds.append(kind)
                self.texts.append(match.group())
                self.offsets.append(match.start())
        self.kinds.append("end")
        self.texts.append(END)
        self.offsets.append(len(source.rstrip()))
        self._starts = [0, *(match.end() for match in re.finditer("\n", source))]
        self._last = 0

    @property
    def kind(self) -> str:
        return self.kinds[self.position]

    @property
    def text(self) -> str:
        return self.texts[self.position]

    def advance(self) -> str:
        text = self.texts[self.position]
        if self.position < len(self.kinds) - 1:
            self.position += 1
        return text

    def accept(self, text: str) -> bool:
        """Passes over a keyword or a sign if it comes next."""
        if self.texts[self.position] == text and self.kinds[self.position] in ("word", "punct"):
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.fail(f"expected `{text}`, found {self.found()}")

    def expect_kind(self, kind: str, what: str) -> str:
        if self.kinds[self.position] != kind:
            self.fail(f"expected {what}, found {self.found()}")
        return self.advance()

    def integer(self, what: str) -> int:
        """A whole number, perhaps with a minus sign."""
        sign = -1 if self.accept("-") else 1
        digits = self.text if self.kind == "int" else ""
        if len(digits) > MAX_DIGITS:
            self.fail(f"{what} has {len(digits)} digits", help=f"use at most {MAX_DIGITS} digits")
        return sign * int(self.expect_kind("int", what))

    def found(self) -> str:
        if self.kind == "end":
            return END
        text = self.text if len(self.text) <= 40 else self.text[:37] + "..."
        return f"`{text}`"

    def span(self, first: int, last: int | None = None) -> Span:
        """From token `first` to token `last`, or to the end of its line if `last` lies on a later one."""
        start = self.offsets[first]
        line = self._line(start)
        begin = self._starts[line]
        last = first if last is None else max(first, last)
        stop = self.offsets[last] + len(self.texts[last]) if self.kinds[last] != "end" else start + 1
        end_of_line = self._starts[line + 1] - 1 if line + 1 < len(self._starts) else len(self.source)
        stop = max(start + 1, min(stop, end_of_line))
        return Span(self.file, line + 1, start - begin + 1, stop - begin + 1)

    def indent(self, token: int) -> int:
        """How many blanks the line of a token starts with."""
        begin = self._starts[self._line(self.offsets[token])]
        line = self.source[begin : self.source.find("\n", begin) % (len(self.source) + 1)]
        return len(line) - len(line.lstrip())

    def _line(self, offset: int) -> int:
        """Lines are asked for almost in order: try the last one and the next before searching."""
        starts, last = self._starts, self._last
        if not (starts[last] <= offset and (last + 1 == len(starts) or offset < starts[last + 1])):
            last = bisect_right(starts, offset) - 1
            self._last = last
        return last

    def fail(
        self,
        message: str,
        *,
        code: str = "TG001",
        at: Span | None = None,
        label: str = "",
        help: str = "",
        notes: tuple[str, ...] = (),
    ) -> NoReturn:
        if at is None:
            at, help = self.span(self.position), help or ELSEWHERE.get(self.text, "")
        raise BadInput(Finding(code, message, (Label(at, label),), notes, help))
