"""Operations of MLIR as values: names, operands, attributes, regions, places.

Needs   nothing
Gives   frozen values; attributes and types stay text until somebody asks for them
Keeps   an SSA name is unique in its function; `%7:2` stands for `%7#0` and `%7#1`
Cost    a few hundred bytes an operation

    module ::= operation                      block ::= label? arguments operation*
    operation ::= results name operands successors properties regions attributes type location
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from tidegate.diag import NOWHERE, Span

# An arrow and comparisons are no brackets.
_DELIMITER = re.compile(r'->|[<>]=|[(){}\[\]<>,]|"(?:[^"\\]|\\.)*"')
_INTEGER = re.compile(r"(-?\d+)(?: : \S+)?")


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
        """An attribute such as `3 : i32` or `true`, as a number."""
        text = self.attribute(name)
        return None if text is None else integer(text)

    def integers(self, name: str) -> tuple[int, ...]:
        """An attribute such as `array<i32: 1, 1, 0>` or `[0, 16]`, as numbers."""
        return integers(self.attribute(name) or "")

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
    return int(found[1]) if found else None


@lru_cache(maxsize=4096)
def integers(text: str) -> tuple[int, ...]:
    body = text.partition(":")[2] if text.startswith("array<") else text
    return tuple(int(each) for each in re.findall(r"(?<![\w.])-?\d+", body))
