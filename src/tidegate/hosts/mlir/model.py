"""Operations of MLIR as values: names, operands, attributes, regions, places.

Needs   nothing
Gives   frozen values; attributes and types stay text until somebody asks for them
Keeps   an SSA name is unique in its function, which `scopes` sees to; `%7:2` stands for `%7#0` and `%7#1`
Cost    a few hundred bytes an operation

    module ::= operation                      block ::= label? arguments operation*
    operation ::= results name operands successors properties regions attributes type location
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

from tidegate.diag import NOWHERE, BadInput, Finding, Label, Span

# An arrow and comparisons are no brackets.
_DELIMITER = re.compile(r'->|[<>]=|[(){}\[\]<>,]|"(?:[^"\\]|\\.)*"')
_INTEGER = re.compile(r"(-?)(0x[0-9a-fA-F]+|\d+)(?:\s*:\s*(?:[su]?i(\d+)|index))?")
_Read = TypeVar("_Read", int, tuple[int, ...])
_LIST = re.compile(r"array<[su]?i\d+(?::(.*))?>|\[(.*)\]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. `properties` and `attributes` are one dictionary here: the text of each value by name."""

    name: str
    results: tuple[str, ...] = ()
    operands: tuple[str, ...] = ()
    successors: tuple[str, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    regions: tuple[Region, ...] = ()
    type: str = "() -> ()"
    loc: str = ""
    at: Span = field(default=NOWHERE, compare=False)

    def attribute(self, name: str) -> str | None:
        """The text of an attribute, or None."""
        return next((value for known, value in self.attributes if known == name), None)

    def integer(self, name: str) -> int | None:
        """An attribute such as `3 : i32` or `true`, as a number; None if it is not there, refused if it is none."""
        text = self.attribute(name)
        return None if text is None else self._read(name, integer(text))

    def integers(self, name: str) -> tuple[int, ...]:
        """An attribute such as `array<i32: 1, 1, 0>` or `[0, 16]`, as numbers; what is no list of them is refused."""
        return self._read(name, integers(self.attribute(name) or ""))

    def _read(self, name: str, found: _Read | None) -> _Read:
        """A fact that cannot be read must not pass for one that is not stated."""
        if found is None:
            message = f"`{name}` of `{self.name}` is not a number, or a list of them: `{self.attribute(name)}`"
            raise BadInput(Finding("TG005", message, (Label(self.at),)))
        return found

    def string(self, name: str) -> str:
        """An attribute such as `"gfx942"`, or a symbol such as `@f`, without its marks."""
        return (self.attribute(name) or "").strip('"').removeprefix("@").strip('"')

    @property
    def result(self) -> str:
        return self.results[0] if self.results else ""

    @property
    def operand_types(self) -> tuple[str, ...]:
        return split_type(self.type)[0]

    @property
    def result_types(self) -> tuple[str, ...]:
        return split_type(self.type)[1]

    @property
    def segments(self) -> tuple[tuple[str, ...], ...]:
        """The operands in the groups that `operandSegmentSizes` names; without it, one group."""
        sizes = self.integers("operandSegmentSizes")
        if not sizes:
            return (self.operands,)
        found, start = [], 0
        for size in sizes:
            found.append(self.operands[start : start + size])
            start += size
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Block:
    """A label, arguments with their types, operations."""

    label: str
    arguments: tuple[tuple[str, str], ...]
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Region:
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class Module:
    """A file: its top operation, and what `#name` stands for."""

    operation: Operation
    aliases: dict[str, str]
    file: str

    def functions(self, name: str) -> Iterator[Operation]:
        """The operations of one name right below the top."""
        for region in self.operation.regions:
            for block in region.blocks:
                yield from (op for op in block.operations if op.name == name)


def walk(op: Operation) -> Iterator[Operation]:
    """An operation and all inside it, in the order of the text."""
    yield op
    for region in op.regions:
        for block in region.blocks:
            for each in block.operations:
                yield from walk(each)


def split_top(text: str) -> list[str]:
    """The parts of a list at its commas, brackets of all kinds respected."""
    parts, depth, start = [], 0, 0
    for match in _DELIMITER.finditer(text):
        sign = match[0]
        if sign == "," and not depth:
            parts.append(text[start : match.start()].strip())
            start = match.end()
        elif sign in "([{<":
            depth += 1
        elif sign in ")]}>":
            depth -= 1
    last = text[start:].strip()
    return [*parts, last] if last or parts else []


@lru_cache(maxsize=4096)
def split_type(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """`(a, b) -> c` as operands and results."""
    depth = 0
    for match in _DELIMITER.finditer(text):
        sign = match[0]
        if sign == "->" and not depth:
            left, right = text[: match.start()].strip(), text[match.end() :].strip()
            return tuple(split_top(left[1:-1])), tuple(split_top(_unwrapped(right)))
        depth += (sign in "([{<") - (sign in ")]}>")
    return (), tuple(split_top(_unwrapped(text.strip())))


def _unwrapped(text: str) -> str:
    return text[1:-1] if text.startswith("(") and text.endswith(")") else text


def integer(text: str) -> int | None:
    if text in ("true", "false"):
        return int(text == "true")
    found = _INTEGER.fullmatch(text)
    if found is None:
        return None
    number, bits = int(found[2], 0) if found[2][:2] == "0x" else int(found[2]), int(found[3] or 64)
    if (
        found[2][:2] == "0x" and number >> (bits - 1) == 1
    ):  # hexadecimal digits are bits, of which the first is the sign
        number -= 1 << bits
    return -number if found[1] else number


@lru_cache(maxsize=4096)
def integers(text: str) -> tuple[int, ...] | None:
    """The numbers of a list; None: it is none, or something else is in it."""
    found = _LIST.fullmatch(text)
    if found is None:
        return None if text else ()
    numbers = [integer(each) for each in split_top(found[1] or found[2] or "")]
    return None if None in numbers else tuple(each for each in numbers if each is not None)
