"""Encodings as Triton prints them, read into values.

Needs   the text of an attribute, and the aliases of its module
Gives   `Encoding`: a name and its fields, nested encodings included
Keeps   equal texts give equal values, whatever aliases they went through; nothing is judged here
Cost    linear in the text, once for each text

    #ttg.blocked<{sizePerThread = [1, 8], order = [1, 0]}>     Encoding("blocked", (("order", (1, 0)), ...))
    #ttg.padded_shared<[512:+16] {order = [1, 0]}>             the list in front is the field `pads`: ((512, 16),)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Union

PADS = "pads"
# Brackets and aliases in each other, and characters of an encoding whose aliases are replaced. Triton's own are a few
# deep and a few hundred long; an alias of a file may name others twice, or itself (test_triton_child.py).
DEEPEST, LONGEST = 32, 1 << 16
_TOKEN = re.compile(r"\s*(#[\w.$-]+|[A-Za-z_][\w.]*|-?\d+|[<>{}\[\]=,:+])")

Field = Union[int, bool, str, tuple["Field", ...], "Encoding"]


@dataclass(frozen=True, slots=True)
class Encoding:
    """An attribute of the `ttg` dialect: `name` without the dialect, and its fields by name."""

    name: str
    fields: tuple[tuple[str, Field], ...] = ()

    def get(self, key: str) -> Field | None:
        return next((value for name, value in self.fields if name == key), None)

    def number(self, key: str, otherwise: int) -> int:
        value = self.get(key)
        return value if isinstance(value, int) else otherwise

    def numbers(self, key: str) -> tuple[int, ...]:
        """A list of numbers; empty if it is not there."""
        value = self.get(key)
        if not isinstance(value, tuple):
            return ()
        return tuple(each for each in value if isinstance(each, int))

    def vectors(self, key: str) -> tuple[tuple[int, ...], ...]:
        """A list of lists of numbers; empty if it is not there."""
        value = self.get(key)
        if not isinstance(value, tuple):
            return ()
        return tuple(tuple(n for n in each if isinstance(n, int)) for each in value if isinstance(each, tuple))

    def parent(self) -> Encoding | None:
        value = self.get("parent")
        return value if isinstance(value, Encoding) else None


def is_one_cta(encoding: Encoding) -> bool:
    """Whether the encoding speaks of a single CTA."""
    several = any(count != 1 for count in encoding.numbers("CTAsPerCGA"))
    return not several and not encoding.vectors("CGALayout") and not encoding.vectors("block")


class UnreadableLayout(ValueError):
    """The text is not an encoding."""


def parse_encoding(text: str, aliases: Mapping[str, str]) -> Encoding:
    """The encoding that a text stands for. An alias is a key of `aliases`, with or without its `#`."""
    return _parse(_without_aliases(text, aliases))


def _without_aliases(text: str, aliases: Mapping[str, str]) -> str:
    """Replaces aliases level by level, so that a text that grows too long is noticed before it is put together."""

    def put(found: re.Match[str]) -> str:
        name = found.group()
        return aliases.get(name, aliases.get(name[1:], name))

    for _ in range(DEEPEST):
        if len(text) > LONGEST:
            raise UnreadableLayout(f"the encoding is longer than {LONGEST} characters")
        further = re.sub(r"#[\w.$-]+", put, text)
        if further == text:
            return text.strip()
        text = further
    raise UnreadableLayout(f"aliases name each other more than {DEEPEST} deep")


@lru_cache(maxsize=4096)
def _parse(text: str) -> Encoding:
    tokens = list(_tokens(text))
    _refuse_deep(tokens)
    reader = _Reader(tokens, text)
    found = reader.encoding()
    reader.expect_end()
    return found


def _refuse_deep(tokens: list[str]) -> None:
    """The reader recurses at every bracket."""
    depth = 0
    for token in tokens:
        depth += (token in "<{[") - (token in ">}]")
        if depth > DEEPEST:
            raise UnreadableLayout(f"brackets are nested more than {DEEPEST} deep")


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise UnreadableLayout(f"cannot read `{text[at : at + 20]}` in `{text}`")
        yield found.group(1)
        at = found.end()


class _Reader:
    """Recursive descent over the tokens of one text."""

    def __init__(self, tokens: list[str], text: str) -> None:
        self.tokens, self.text, self.at = tokens, text, 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        token = self.peek()
        if not token or (wanted and token != wanted):
            raise UnreadableLayout(f"expected `{wanted or 'more'}`, not `{token}`, in `{self.text}`")
        self.at += 1
        return token

    def expect_end(self) -> None:
        if self.peek():
            raise UnreadableLayout(f"`{self.peek()}` is left over in `{self.text}`")

    def encoding(self) -> Encoding:
        name = self.take()
        if not name.startswith("#"):
            raise UnreadableLayout(f"an encoding starts with `#`, not `{name}`, in `{self.text}`")
        fields: dict[str, Field] = {}
        if self.peek() == "<":
            self.take("<")
            while self.peek() != ">":
                self.part(fields)
            self.take(">")
        return Encoding(name.removeprefix("#").removeprefix("ttg."), tuple(sorted(fields.items(), key=lambda f: f[0])))

    def part(self, fields: dict[str, Field]) -> None:
        """One of `{ fields }`, `[list]`, `key = value`, with or without a comma after it."""
        if self.peek() == "{":
            fields.update(self.braces())
        elif self.peek() == "[":
            fields[PADS] = self.value()
        else:
            key = self.take()
            self.take("=")
            fields[key] = self.value()
        if self.peek() == ",":
            self.take(",")

    def braces(self) -> dict[str, Field]:
        found: dict[str, Field] = {}
        self.take("{")
        while self.peek() != "}":
            self.part(found)
        self.take("}")
        return found

    def value(self) -> Field:
        token = self.peek()
        if token.startswith("#"):
            return self.encoding()
        if token == "{":
            return Encoding("", tuple(sorted(self.braces().items(), key=lambda f: f[0])))
        if token == "[":
            return self.items()
        if token in ("true", "false"):
            return self.take() == "true"
        if not re.fullmatch(r"-?\d+", token):
            return self.take()
        number = int(self.take())
        if self.peek() == ":":  # `interval:+padding`, or the type of an integer
            self.take(":")
            if self.peek() != "+":
                self.take()
                return number
            self.take("+")
            return (number, int(self.take()))
        return number

    def items(self) -> tuple[Field, ...]:
        found: list[Field] = []
        self.take("[")
        while self.peek() != "]":
            found.append(self.value())
            if self.peek() == ",":
                self.take(",")
        self.take("]")
        return tuple(found)
