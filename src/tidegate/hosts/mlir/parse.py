"""Read MLIR in its generic form.

Needs   text in which every operation is written as `"dialect.name"(operands) ... : (types) -> types`
Gives   a `Module`; raises `BadInput` with the place where the text stops making sense
Keeps   nothing is known about dialects: attributes and types are kept as text
Cost    linear, about 40,000 operations a second (bench: triton-reading)

    %2 = "arith.addi"(%0, %1) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32 loc(#loc4)
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import replace
from typing import NoReturn

from tidegate.diag import BadInput, Finding, Label, Span
from tidegate.hosts.mlir.model import Block, Module, Operation, Region, split_top
from tidegate.hosts.mlir.scopes import with_unique_names

_SKIP = re.compile(r"\s*")
_ALIAS = re.compile(r"([#!][\w.$-]+)\s*=\s*")
# An alias has no dot in its name, and nothing in brackets behind it: types of dialects have one of both.
_TYPE_ALIAS = re.compile(r'"(?:[^"\\]|\\.)*"|![\w$-]+(?![\w.$<-])')
_PAIR = re.compile(r'("(?:[^"\\]|\\.)*"|[^\s="]+)\s*=\s*(.*)', re.DOTALL)
_HEAD = re.compile(r'(?:(%[\w.$-]+)(?::(\d+))?\s*=\s*)?"((?:[^"\\]|\\.)*)"\s*\(([^()]*)\)')
_LABEL = re.compile(r"(\^[\w.$-]+)")
_TYPE_WORD = re.compile(r"[!#]?[\w.$]+")
_OPEN, _CLOSE = "([{<", ")]}>"
_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*')
_DELIMITER = re.compile(r'->|[<>]=|[(){}\[\]<>]|"(?:[^"\\]|\\.)*"')
_IN_ALIAS = re.compile(r'->|[<>]=|[(){}\[\]<>]|"(?:[^"\\]|\\.)*"|\n')
_BRACE = re.compile(r'[{}]|"(?:[^"\\]|\\.)*"')
# Regions in each other, as deep as the stages behind this reader can follow: they recurse, too.
MAX_REGIONS = 64
# Characters that a type may have once its aliases are replaced: each may name others twice, which doubles it each time.
MAX_TYPE = 1 << 20
_ARROW = re.compile(r"\s*->\s*")


def without_comments(text: str) -> str:
    """The text with blanks in the place of comments, so that nothing that a comment says is taken for a fact."""
    return _COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else " " * len(found[0]), text)


def is_generic(text: str) -> bool:
    """Whether the first operation of a text is written in the generic form."""
    return _Reader(text, "").is_generic()


def refuse_deep(text: str, file: str) -> None:
    """Raises `BadInput` for a text in any form that nests deeper than this reader follows, before another parser that
    recurses is given it.
    """
    depth = 0
    for found in _BRACE.finditer(text):
        depth += (found[0] == "{") - (found[0] == "}")
        if depth > MAX_REGIONS:
            line = text.count("\n", 0, found.start()) + 1
            column = found.start() - text.rfind("\n", 0, found.start())
            raise BadInput(_too_deep(Span(file, line, column, column + 1)))


def _too_deep(at: Span) -> Finding:
    return Finding("TG006", f"regions are nested more than {MAX_REGIONS} deep", (Label(at),))


def parse_generic(text: str, file: str = "<text>") -> Module:
    """The module in a text; several operations at the top are put into one module."""
    module = _Reader(text, file).module()
    regions = tuple(Region(tuple(map(_named, region.blocks))) for region in module.operation.regions)
    return replace(module, operation=replace(module.operation, regions=regions))


def _named(block: Block) -> Block:
    """Functions are isolated: each has names of its own."""
    return replace(block, operations=tuple(map(with_unique_names, block.operations)))


class _Reader:
    """A position in the text, and what stands there."""

    def __init__(self, text: str, file: str) -> None:
        text = without_comments(text)
        self.text, self.file, self.place = text, file, 0
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.aliases: dict[str, str] = {}
        self.depth = 0  # regions around the place

    def module(self) -> Module:
        tops = []
        while self.skip() < len(self.text):
            if not self.passes_alias():
                tops.append(self.operation())
        if len(tops) == 1 and tops[0].name == "builtin.module":
            return Module(tops[0], self.aliases, self.file)
        if not tops:
            self.fail("the file holds no operation")
        block = Block("", (), tuple(tops))
        return Module(Operation("builtin.module", regions=(Region((block,)),)), self.aliases, self.file)

    def is_generic(self) -> bool:
        while self.skip() < len(self.text) and self.passes_alias():
            pass
        return _HEAD.match(self.text, self.place) is not None

    def passes_alias(self) -> bool:
        """Goes on behind an alias, or the resources of dialects, if one stands here."""
        if alias := _ALIAS.match(self.text, self.place):
            self.place = alias.end()
            rest = self.rest_of_alias()
            self.aliases[alias[1]] = self.resolved(rest) if alias[1].startswith("!") else rest
        elif self.text.startswith("{-#", self.place):
            end = self.text.find("#-}", self.place)
            self.place = len(self.text) if end < 0 else end + 3
        else:
            return False
        return True

    def rest_of_alias(self) -> str:
        """What an alias stands for: up to the end of its line, brackets respected."""
        start, depth = self.place, 0
        for match in _IN_ALIAS.finditer(self.text, start):
            sign = match[0]
            if sign == "\n" and depth <= 0:
                self.place = match.start()
                return self.text[start : self.place].strip()
            depth += (sign in _OPEN) - (sign in _CLOSE)
        self.place = len(self.text)
        return self.text[start:].strip()

    # --- operations ---

    def operation(self) -> Operation:
        head = _HEAD.match(self.text, self.place)
        if head is None:
            self.fail(
                "an operation in generic form is expected here", 'such as `%1 = "dialect.name"(%0) : (i32) -> i32`'
            )
        result, count, name, operands = head.groups()
        at = self.span(self.place, head.start(4))
        self.place = head.end()
        successors: tuple[str, ...] = ()
        attributes: list[tuple[str, str]] = []
        regions: tuple[Region, ...] = ()
        if self.sees("["):
            successors = tuple(split_top(self.balanced()[1:-1]))
        if self.sees("<{"):
            attributes += _pairs(self.balanced()[2:-2])
        if self.sees("({"):
            regions = self.regions()
        if self.sees("{"):
            attributes += _pairs(self.balanced()[1:-1])
        self.expect(":")
        type_ = self.type()
        loc = self.balanced("loc") if self.sees("loc(") else ""
        names = () if not result else tuple(f"{result}#{n}" for n in range(int(count))) if count else (result,)
        found = tuple(operands.replace(" ", "").split(",")) if operands.strip() else ()
        return Operation(name, names, found, successors, tuple(attributes), regions, type_, loc, at)

    def regions(self) -> tuple[Region, ...]:
        self.expect("(")
        found = [self.region()]
        while self.sees(","):
            self.place += 1
            self.skip()
            found.append(self.region())
        self.expect(")")
        return tuple(found)

    def region(self) -> Region:
        # A module around the text, which Triton adds where there is none, is not counted against it.
        if self.depth > MAX_REGIONS:
            raise BadInput(_too_deep(self.span(self.place, self.place + 1)))
        self.expect("{")
        self.depth += 1
        blocks: list[Block] = []
        while not self.sees("}"):
            label = ""
            arguments: tuple[tuple[str, str], ...] = ()
            if self.sees("^"):
                label, arguments = self.label()
            operations = []
            while not (self.sees("}") or self.sees("^")):
                operations.append(self.operation())
            blocks.append(Block(label, arguments, tuple(operations)))
        self.place += 1
        self.depth -= 1
        return Region(tuple(blocks))

    def label(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        found = _LABEL.match(self.text, self.place)
        if found is None:
            self.fail("a label such as `^bb0` is expected here")
        self.place = found.end()
        arguments: tuple[tuple[str, str], ...] = ()
        if self.sees("("):
            inside = self.balanced()[1:-1]
            arguments = tuple(_argument(each) for each in split_top(self.resolved(inside)))
        self.expect(":")
        return found[1], arguments

    # --- pieces ---

    def type(self) -> str:
        """A type, or a function type."""
        self.skip()
        start = self.place
        self.one_type()
        arrow = _ARROW.match(self.text, self.place)
        if arrow:
            self.place = arrow.end()
            self.one_type()
        return self.resolved(self.text[start : self.place])

    def resolved(self, text: str) -> str:
        """A type without aliases: what nobody can read must not pass for a type that is no memory."""

        def meant(found: re.Match[str]) -> str:
            if found[0].startswith('"'):
                return found[0]
            if found[0] not in self.aliases:
                self.fail(f"`{found[0]}` is not defined")
            return self.aliases[found[0]]

        if "!" not in text:
            return text
        # Counted before it is put together: forty aliases that name each other twice would take a terabyte.
        if sum(len(self.aliases.get(found[0], "")) for found in _TYPE_ALIAS.finditer(text)) > MAX_TYPE:
            self.fail(f"a type is longer than {MAX_TYPE >> 20} MB once its aliases are replaced")
        return _TYPE_ALIAS.sub(meant, text)

    def one_type(self) -> None:
        if self.text.startswith("(", self.place):
            self.balanced()
            return
        word = _TYPE_WORD.match(self.text, self.place)
        if word is None:
            self.fail("a type is expected here")
        self.place = word.end()
        if self.text.startswith("<", self.place):
            self.balanced()

    def balanced(self, word: str = "") -> str:
        """From a bracket to the one that closes it."""
        start = self.place
        depth = 0
        for match in _DELIMITER.finditer(self.text, start + len(word)):
            sign = match[0]
            if sign in _OPEN:
                depth += 1
            elif sign in _CLOSE:
                depth -= 1
                if not depth:
                    self.place = match.end()
                    return self.text[start : self.place]
        self.fail("this bracket is not closed")

    def skip(self) -> int:
        found = _SKIP.match(self.text, self.place)
        self.place = found.end() if found else self.place
        return self.place

    def sees(self, sign: str) -> bool:
        return self.text.startswith(sign, self.skip())

    def expect(self, sign: str) -> None:
        if not self.sees(sign):
            self.fail(f"`{sign}` is expected here")
        self.place += len(sign)

    def span(self, start: int, end: int) -> Span:
        line = bisect_right(self.starts, start)
        column = start - self.starts[line - 1] + 1
        return Span(self.file, line, column, column + end - start)

    def fail(self, message: str, help: str = "") -> NoReturn:
        place = min(self.place, max(len(self.text) - 1, 0))
        raise BadInput(Finding("TG001", message, (Label(self.span(place, place + 1)),), help=help))


def _pairs(text: str) -> list[tuple[str, str]]:
    """`a = 1 : i32, b` as names and values; a name alone is true."""
    found = []
    for part in split_top(text):
        pair = _PAIR.fullmatch(part)
        name, value = (pair[1], pair[2].strip()) if pair is not None else (part, "unit")
        found.append((name.strip().strip('"'), value or "unit"))
    return found


def _argument(text: str) -> tuple[str, str]:
    """`%arg0: i32 loc(...)` as name and type."""
    name, _, rest = text.partition(":")
    return name.strip(), re.sub(r"\s+loc\(.*\)$", "", rest.strip())
