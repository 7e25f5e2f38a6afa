"""Is there an integer point at which all these conditions hold? And if so, a small one.

Needs   quasi-affine conditions
Gives   the lexicographically least point in the order of names given, or None if there is none, or `UNDECIDED`
Keeps   exact: isl answers; a question that takes too long is undecided, never wrong
Cost    about a millisecond for a dozen names; the same question is asked once

`select`, `min` and `max` become a new variable each, defined by cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache, reduce
from typing import Any, Final, assert_never

from tidegate.index import (
    Binary,
    Compare,
    Cond,
    Const,
    Flag,
    Index,
    Inexact,
    Logic,
    Name,
    Not,
    Select,
    Truth,
    constant,
    names,
)
from tidegate.language.linear import System, as_system

MAX_OPERATIONS = 400_000
REMEMBERED = 20_000  # questions
# Ways to make all choices of a system, if all are needed, and if one is; beyond, isl reads text and joins what it can.
MOST_JOINED, MOST_PIECES = 24, 300


class Undecided:
    """isl gave up."""


UNDECIDED: Final = Undecided()
Point = dict[str, int]


def find_point(conds: Sequence[Cond], order: Sequence[str], *, others: bool = True) -> Point | Undecided | None:
    """A point that satisfies all conditions. Names that occur in them but not in `order` come last.

    Without `others` these have any value: the least ones take isl longer than the question itself.
    """
    found = _find(tuple(conds), tuple(order), others)
    return dict(found) if isinstance(found, dict) else found


@lru_cache(maxsize=REMEMBERED)
def _find(conds: tuple[Cond, ...], order: tuple[str, ...], others: bool) -> Point | Undecided | None:
    """Changed programs ask the same again, and to write a question for isl takes as long as to answer it."""
    system, found = as_system(conds, order)
    question = system if system and system.ways <= MOST_JOINED else _question(conds, order)[0]
    answer = _solve(question, len(found), len(found) if others else len(order))
    return dict(zip(found, answer, strict=True)) if isinstance(answer, tuple) else answer


def has_point(conds: Sequence[Cond]) -> bool:
    """Whether there may be such a point at all: much cheaper than to find one. Yes, if isl gives up."""
    return may_have_point(conds) is not False


def may_have_point(conds: Sequence[Cond]) -> bool | Undecided:
    """The same, and `UNDECIDED` if isl gives up."""
    return _has_point(tuple(conds))


@lru_cache(maxsize=REMEMBERED)
def _has_point(conds: tuple[Cond, ...]) -> bool | Undecided:
    system, _ = as_system(conds, ())
    found = _may_hold(system) if system else None
    found = found if found is not None else _may_hold(_question(conds, ())[0])
    return UNDECIDED if found is None else found


def _question(conds: Sequence[Cond], order: Sequence[str]) -> tuple[str, list[str]]:
    """In isl's notation, with the names in the order of its variables."""
    found: dict[str, None] = dict.fromkeys(order)
    for cond in conds:
        found.update(dict.fromkeys(names(cond)))
    text = IslText({name: f"v{number}" for number, name in enumerate(found)})
    body = " and ".join(f"({text.cond(cond)})" for cond in conds) or "1 = 1"
    outer = ", ".join(text.variables.values())
    hidden = f"exists {', '.join(text.hidden)} : " if text.hidden else ""
    more = "".join(f" and ({each})" for each in text.defined)
    return f"{{ [{outer}] : {hidden}({body}){more} }}", list(found)


@lru_cache(maxsize=REMEMBERED)
def _solve(question: System | str, count: int, least: int) -> tuple[int, ...] | Undecided | None:
    """Questions are equal if they differ in names only: names are numbered."""
    import islpy as isl

    context = _context()
    context.reset_operations()
    context.set_max_operations(MAX_OPERATIONS)
    try:
        points = isl.Set.read_from_str(context, question) if isinstance(question, str) else _joined(context, question)
        if points is None or points.is_empty():
            return None
        return _least(points, count, least)
    except isl.Error:
        # Too many operations; islpy reports that as a syntax error if it happens while reading.
        return UNDECIDED


def _joined(context: Any, system: System) -> Any:
    """All points of a system; None if there is none. Variables that stand for no name come last."""
    found = None
    for piece in system.pieces(context):
        if piece is not None:
            found = piece.to_set() if found is None else found.union(piece.to_set())
    return found


@lru_cache(maxsize=REMEMBERED)
def _may_hold(question: System | str) -> bool | Undecided | None:
    """None if there are too many ways to look at them one by one."""
    import islpy as isl

    context = _context()
    context.reset_operations()
    context.set_max_operations(MAX_OPERATIONS)
    try:
        if isinstance(question, str):
            return not isl.Set.read_from_str(context, question).is_empty()
        for step, piece in enumerate(question.pieces(context)):
            if piece is not None:
                return True
            if step > MOST_PIECES:
                return None
        return False
    except isl.Error:
        return UNDECIDED


@cache
def _context() -> Any:
    import islpy as isl

    return isl.Context()


def _least(points: Any, count: int, least: int) -> tuple[int, ...]:
    """The least point, coordinate by coordinate, of the first ones; of one that has no least value, any. Where isl
    gives up, any point.

    isl's own `lexmin` describes the minimum in general, which may take minutes where one point takes milliseconds.
    """
    import islpy as isl

    try:
        for place in range(least):
            lowest = points.dim_min_val(place)
            if not lowest.is_int():  # there is none
                lowest = points.sample_point().get_coordinate_val(isl.dim_type.set, place)
            fixed = points.fix_val(isl.dim_type.set, place, lowest)
            if fixed.is_empty():  # isl takes 0 for the least of a piece that is empty (test_points: seed 567)
                points = _without_empty(points)
                fixed = points.fix_val(isl.dim_type.set, place, points.dim_min_val(place))
            points = fixed
    except isl.Error:
        points.get_ctx().reset_operations()
    return _coordinates(points.sample_point(), count)


def _without_empty(points: Any) -> Any:
    """The same points without pieces that have none."""
    pieces = [each for each in points.get_basic_sets() if not each.is_empty()]
    return reduce(lambda one, other: one.union(other), (each.to_set() for each in pieces))


def _coordinates(point: Any, count: int) -> tuple[int, ...]:
    import islpy as isl

    return tuple(int(point.get_coordinate_val(isl.dim_type.set, place).to_python()) for place in range(count))


class IslText:
    """Conditions in isl's notation. Hidden variables stand for the results of `select`, `min` and `max`."""

    def __init__(self, variables: dict[str, str]) -> None:
        self.variables = variables
        self.hidden: list[str] = []
        self.defined: list[str] = []
        self.chosen: dict[Index, str] = {}  # a place stands in several conditions: its choices are made once

    def cond(self, cond: Cond) -> str:
        match cond:
            case Truth(value):
                return "1 = 1" if value else "1 = 0"
            case Flag(name):
                return f"{self.variables[name]} >= 1"
            case Compare(op, left, right):
                sign = {"==": "=", "!=": "!="}.get(op, op)
                return f"{self.index(left)} {sign} {self.index(right)}"
            case Not(inner):
                return f"not ({self.cond(inner)})"
            case Logic(op, left, right):
                return f"({self.cond(left)}) {op} ({self.cond(right)})"
            case _:
                assert_never(cond)

    def index(self, index: Index) -> str:
        match index:
            case Const(value):
                return str(value) if value >= 0 else f"({value})"
            case Name(name):
                return self.variables[name]
            case Inexact(inner):
                return self.index(inner)
            case Select() | Binary("min" | "max"):
                if index not in self.chosen:
                    self.chosen[index] = self.choice(index)
                return self.chosen[index]
            case Binary("//", left, right):
                return f"floor(({self.index(left)})/{self.divisor(right)})"
            case Binary("mod", left, right):
                return f"(({self.index(left)}) mod {self.divisor(right)})"
            case Binary("*", left, right):
                factor = constant(left)
                number, other = (factor, right) if factor is not None else (constant(right), left)
                return f"({number} * {self.index(other)})"
            case Binary(op, left, right):
                return f"({self.index(left)} {op} {self.index(right)})"
            case _:
                assert_never(index)

    def choice(self, index: Select | Binary) -> str:
        if isinstance(index, Select):
            test, yes, no = self.cond(index.cond), self.index(index.then), self.index(index.otherwise)
            return self.new(f"({test}) and {{}} = {yes}", f"not ({test}) and {{}} = {no}")
        a, b = self.index(index.left), self.index(index.right)
        sign = "<=" if index.op == "min" else ">="
        return self.new(f"{a} {sign} {b} and {{}} = {a}", f"{b} {sign} {a} and {{}} = {b}")

    def divisor(self, index: Index) -> str:
        return str(constant(index))

    def new(self, *cases: str) -> str:
        name = f"h{len(self.hidden)}"
        self.hidden.append(name)
        self.defined.append(" or ".join(f"({each.format(name)})" for each in cases))
        return name
