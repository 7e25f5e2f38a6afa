"""What operations are made of, from tokens: types, places, operands, names in scope, and fields of forms.

Needs   a cursor over tokens
Gives   `Pieces`, which parsers of kernels and of graphs build upon, and readers for the parts of a form
Keeps   a name that is not defined is reported once and goes on as a value of unknown type
Cost    constant per piece
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tidegate.diag import Finding, Label, Span, closest
from tidegate.index import MACHINE_NAMES, ZERO, Cond, Index
from tidegate.language.lexer import Cursor
from tidegate.language.ops import Count, Operand, Place, Value
from tidegate.language.parse_index import parse_cond, parse_index
from tidegate.language.parse_type import parse_type
from tidegate.language.problems import defined_twice
from tidegate.language.syntax import Hole, Literal, Maybe, all_words, form_of
from tidegate.language.types import FLAG, INDEX, UNKNOWN, BarrierObject, Lds, Tile, Type


class Pieces:
    """Reads pieces. `visible` is the scope, `local` what the open region adds to it, `taken` every name so far."""

    def __init__(self, text: str, file: str) -> None:
        self.cursor = Cursor(text, file)
        self.findings: list[Finding] = []
        self.visible: dict[str, Value] = {}
        self.local: list[str] = []
        self.taken: dict[str, Span] = {}
        self.sizes: tuple[str, ...] = ()
        self.depth = 0
        self.odd_brace: Label | None = None

    def listed(self, each: Callable[[], Any]) -> tuple[Any, ...]:
        """`(a, b, c)`."""
        cursor = self.cursor
        items: list[Any] = []
        cursor.expect("(")
        while not cursor.accept(")"):
            if items:
                cursor.expect(",")
            items.append(each())
        return tuple(items)

    def type(self) -> Type:
        cursor = self.cursor
        start = cursor.position
        if cursor.kind == "type" or cursor.text in ("index", "flag", "dep"):
            found = parse_type(cursor.advance())
            if not isinstance(found, str):
                return found
            cursor.fail(found, code="TG005", at=cursor.span(start))
        cursor.fail(
            f"expected a type, found {cursor.found()}",
            help="types are tile<4xf32>, lds<4xf32, slots = 2>, global<NxNxf32>, index, flag, dep, "
            "named_barrier<4> and mbarrier<4>",
        )

    def index(self) -> Index:
        return parse_index(self.cursor, self)

    def cond(self) -> Cond:
        return parse_cond(self.cursor, self)

    def operands(self) -> tuple[Operand, ...]:
        items = [self.operand()]
        while self.cursor.accept(","):
            items.append(self.operand())
        return tuple(items)

    def operand(self) -> Operand:
        """A value, if a name stands alone that is no index; else an index expression."""
        cursor = self.cursor
        if cursor.kind == "value":
            value = self.visible.get(cursor.text)
            if value is not None and value.type != INDEX:
                cursor.advance()
                return value
        return self.index()

    def value(self) -> Value:
        name = self.cursor.expect_kind("value", "a value")
        return self.look_up(name, self.cursor.position - 1)

    def place(self) -> Place:
        """`%a[slot][i, j]`: with one bracket, it is the slot if the buffer has several, else the index."""
        base = self.value()
        opened = self.cursor.position
        first = self.bracket()
        closed = self.cursor.position - 1
        second = self.bracket() if first is not None else None
        if first is None:
            return Place(base)
        many = isinstance(base.type, Lds | BarrierObject) and base.type.slots != 1
        if second is None and not many:
            return Place(base, ZERO, first)
        if len(first) != 1:
            self.cursor.fail(
                f"a slot is one index, found {len(first)}",
                at=self.cursor.span(opened, closed),
                help=f"write `{base.name}[slot][i, j]`: the slot has brackets of its own",
            )
        return Place(base, first[0], second or ())

    def bracket(self) -> tuple[Index, ...] | None:
        cursor = self.cursor
        if not cursor.accept("["):
            return None
        items: list[Index] = []
        while not cursor.accept("]"):
            if items:
                cursor.expect(",")
            items.append(self.index())
        return tuple(items)

    def counts(self) -> tuple[Count, ...]:
        """`vmcnt(2) lgkmcnt(0)`. What follows may be `deps(...)` or the next line, as `yield (%s + 1) mod 2`."""
        cursor, found = self.cursor, []
        while cursor.kind == "word" and cursor.texts[cursor.position + 1] == "(" and cursor.text not in _no_counters():
            name = cursor.advance()
            cursor.expect("(")
            found.append((name, cursor.integer("a count")))
            cursor.expect(")")
        return tuple(found)

    def barrier(self) -> int | Value:
        return self.value() if self.cursor.kind == "value" else self.cursor.integer("a barrier's id")

    def number(self) -> float:
        cursor = self.cursor
        sign = -1 if cursor.accept("-") else 1
        if cursor.kind == "int":
            return sign * cursor.integer("a number")
        if cursor.kind == "float" or cursor.text == "inf":
            return sign * float(cursor.advance())
        cursor.fail(f"expected a number, found {cursor.found()}")

    # --- names ---

    def is_flag(self, name: str) -> bool:
        value = self.visible.get(name)
        return value is not None and value.type == FLAG

    def check_name(self, name: str, at: int) -> None:
        """Names in index expressions: values, sizes, and what the machine provides."""
        if name.startswith("%"):
            self.look_up(name, at)
        elif name not in MACHINE_NAMES and name not in self.sizes and name not in self.taken:
            self.taken[name] = self.cursor.span(at)
            meant = closest(name, (*MACHINE_NAMES, *self.sizes))
            known = ", ".join((*MACHINE_NAMES, *self.sizes))
            self.report(
                "TG008",
                f"`{name}` is not a size of this kernel",
                self.cursor.span(at),
                "used here",
                help=f"did you mean `{meant}`?" if meant else f"known here: {known}",
            )

    def look_up(self, name: str, at: int) -> Value:
        value = self.visible.get(name)
        if value is not None:
            return value
        place = self.cursor.span(at)
        if name in self.taken:
            self.report(
                "TG009",
                f"`{name}` is not visible here",
                place,
                "used here",
                Label(self.taken[name], "defined here, in a region that has ended"),
                help="hand it out of the region with `yield`",
            )
        else:
            meant = closest(name, self.visible)
            self.report(
                "TG003",
                f"`{name}` is not defined",
                place,
                "used here",
                help=f"did you mean `{meant}`?" if meant else "",
            )
        unknown = Value(name, UNKNOWN)
        self.make_visible(unknown)
        return unknown

    def define(self, value: Value, at: int, *, visible: bool = True) -> Value:
        place = self.cursor.span(at)
        if value.name in self.taken:
            self.findings.append(defined_twice(value.name, place, self.taken[value.name]))
        self.taken.setdefault(value.name, place)
        if visible:
            self.make_visible(value)
        return value

    def make_visible(self, value: Value) -> None:
        self.visible[value.name] = value
        self.local.append(value.name)

    def report(self, code: str, message: str, at: Span, label: str, *more: Label, help: str = "") -> None:
        self.findings.append(Finding(code, message, (Label(at, label), *more), help=help))


@cache
def _no_counters() -> frozenset[str]:
    return frozenset((*all_words(), "deps", "yield"))


Reader = Callable[[Pieces, dict[str, Any]], None]


@cache
def readers_of(cls: type) -> tuple[Reader, ...]:
    """One function for each part of a form; together they read an operation after its first word."""
    return tuple(_reader(part) for part in form_of(cls).parts)


def _reader(part: Literal | Hole | Maybe) -> Reader:
    if isinstance(part, Literal):
        text = part.text
        return lambda parser, fields: parser.cursor.expect(text)
    if isinstance(part, Hole):
        name, read = ":" if part.kind == "type" else part.field, _field_reader(part)
        return lambda parser, fields: fields.__setitem__(name, read(parser))
    keyword, name = part.keyword, part.hole.field
    if part.hole.kind == "flag":
        return lambda parser, fields: fields.__setitem__(name, parser.cursor.accept(keyword))
    read = _field_reader(part.hole)

    def maybe(parser: Pieces, fields: dict[str, Any]) -> None:
        if parser.cursor.accept(keyword):
            fields[name] = read(parser)

    return maybe


def _field_reader(hole: Hole) -> Callable[[Pieces], Any]:
    simple: dict[str, Callable[[Pieces], Any]] = {
        "value": Pieces.value,
        "type": Pieces.type,
        "place": Pieces.place,
        "index": Pieces.index,
        "cond": Pieces.cond,
        "counts": Pieces.counts,
        "barrier": Pieces.barrier,
        "float": Pieces.number,
        "tile": _tile,
        "int": lambda parser: parser.cursor.integer("a number"),
        "indices": lambda parser: parser.listed(parser.index),
        "group": lambda parser: parser.listed(parser.value),
    }
    if hole.kind in simple:
        return simple[hole.kind]
    choices = tuple(hole.kind.split("|"))

    def choose(parser: Pieces) -> str:
        if parser.cursor.text not in choices:
            wanted = " or ".join(f"`{each}`" for each in choices)
            parser.cursor.fail(f"expected {wanted}, found {parser.cursor.found()}")
        return parser.cursor.advance()

    return choose


def _tile(parser: Pieces) -> Tile:
    start = parser.cursor.position
    found = parser.type()
    if not isinstance(found, Tile):
        parser.cursor.fail(f"expected a tile type, found `{found}`", code="TG005", at=parser.cursor.span(start))
    return found
