"""Conditions as systems of linear constraints over integers, for isl.

Needs   quasi-affine conditions, and the names whose values matter, in order
Gives   a `System`: rows that always hold, and choices of each of which one way must hold; None if one has too many ways
Keeps   a system has an integer point if and only if the conditions have one, with the same values of the names
Cost    linear in the conditions, times the ways of a choice

isl reads text slowly: it intersects one set for each condition, and takes a hundred times as long for that as to see
whether the result is empty. A matrix is taken as it is.

A row is (equal, constant, ((variable, factor), ...)) and says that the sum is 0, or at least 0. Each `//` and `mod` is
a new variable, the quotient, between two rows; `select`, `min` and `max` are a new variable and a choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, assert_never

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

# More ways of one choice than these are left to isl, which joins what it can.
MOST_WAYS = 64
LARGE = 1 << 31
REMEMBERED = 50_000  # rows

Sum = tuple[dict[int, int], int]  # variables with their factors, and the rest
Row = tuple[bool, int, tuple[tuple[int, int], ...]]
Way = tuple[Row, ...]
OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
ALWAYS: list[Way] = [()]
NEVER: list[Way] = []


class TooManyWays(Exception):
    """Or a form that has none."""


@dataclass(frozen=True, slots=True)
class System:
    """Equal for questions that differ in names only. The first variables are the names that were asked about."""

    variables: int
    rows: Way
    choices: tuple[tuple[Way, ...], ...]

    @property
    def ways(self) -> int:
        """In how many ways all choices can be made."""
        return prod(map(len, self.choices))

    def pieces(self, context: Any) -> Iterator[Any]:
        """Its points, way by way; a way that has none is left as soon as that is seen. None for each such step."""
        start = _basic_set(context, self.variables, self.rows)
        choices = sorted(self.choices, key=len)
        parts: list[list[Any]] = []  # made when they are come to: where nothing holds anyway no choice is
        stack = [(start, 0)]
        while stack:
            here, made = stack.pop()
            if here is None or here.is_empty():
                yield None
            elif made == len(choices):
                yield here
            else:
                if made == len(parts):
                    parts.append([_basic_set(context, self.variables, way) for way in choices[made]])
                stack += ((here.intersect(way), made + 1) for way in reversed(parts[made]) if way is not None)


def as_system(conds: Sequence[Cond], order: Sequence[str]) -> tuple[System | None, list[str]]:
    """And the names of its first variables: those given, and then all others that occur."""
    found: dict[str, None] = dict.fromkeys(order)
    for cond in conds:
        found.update(dict.fromkeys(names(cond)))
    known = {name: number for number, name in enumerate(found)}
    try:
        return _Maker(known).system(conds), list(found)
    except TooManyWays:
        return None, list(found)


def _basic_set(context: Any, variables: int, rows: Sequence[Row]) -> Any:
    """The points of one way; None if it is seen to have none."""
    import islpy as isl

    parts: dict[bool, list[Row]] = {True: [], False: []}
    for row in rows:
        equal, rest, terms = row
        if terms:
            parts[equal].append(row)
        elif rest < 0 or (equal and rest):
            return None
    matrices = (_matrix(context, variables, parts[equal]) for equal in (True, False))
    kinds = (isl.dim_type.cst, isl.dim_type.param, isl.dim_type.set, isl.dim_type.div)
    space = isl.Space.set_alloc(context, 0, variables)
    return isl.BasicSet.from_constraint_matrices(space, *matrices, *kinds)


def _matrix(context: Any, variables: int, rows: Sequence[Row]) -> Any:
    """The constant first, then the variables. Rows are joined two by two: isl copies a matrix whenever it changes."""
    import islpy as isl

    if not rows:
        return isl.Mat.alloc(context, 0, variables + 1)
    parts = [_row_of(context, variables, rest, terms) for _, rest, terms in rows]
    while len(parts) > 1:
        odd = parts[-1:] if len(parts) % 2 else []
        parts = [one.concat(other) for one, other in zip(parts[::2], parts[1::2], strict=False)] + odd
    return parts[0]


@lru_cache(maxsize=REMEMBERED)
def _row_of(context: Any, variables: int, rest: int, terms: tuple[tuple[int, int], ...]) -> Any:
    """A matrix of one row: most rows stand in many questions."""
    import islpy as isl

    row = isl.Mat.alloc(context, 0, variables + 1).add_zero_rows(1)
    for place, value in ((-1, rest), *terms):
        if value:
            row = row.set_element_val(0, place + 1, _value(context, value))
    return row


@lru_cache(maxsize=REMEMBERED)
def _value(context: Any, value: int) -> Any:
    import islpy as isl

    # isl takes no Python number that a register does not hold.
    small = abs(value) < LARGE
    return isl.Val.int_from_si(context, value) if small else isl.Val.read_from_str(context, str(value))


class _Maker:
    def __init__(self, known: dict[str, int]) -> None:
        self.known = known
        self.count = len(known)
        self.rows: list[Row] = []
        self.choices: list[tuple[Way, ...]] = []
        self.quotients: dict[tuple[tuple[tuple[int, int], ...], int, int], int] = {}
        self.chosen: dict[Index, int] = {}

    def system(self, conds: Sequence[Cond]) -> System:
        for cond in conds:
            for part in _parts(cond):
                self.choose(self.ways(part, True))
        return System(self.count, tuple(dict.fromkeys(self.rows)), tuple(self.choices))

    def choose(self, ways: list[Way]) -> None:
        if len(ways) == 1:
            self.rows += ways[0]
        else:
            self.choices.append(tuple(ways))

    # --- conditions ---

    def ways(self, cond: Cond, wanted: bool) -> list[Way]:
        """The ways in which a condition holds, or does not."""
        match cond:
            case Truth(value):
                return ALWAYS if value == wanted else NEVER
            case Flag(name):
                variable = self.known[name]
                return [((False, -1, ((variable, 1),)) if wanted else (False, 0, ((variable, -1),)),)]
            case Not(inner):
                return self.ways(inner, not wanted)
            case Logic(op, left, right):
                one, other = self.ways(left, wanted), self.ways(right, wanted)
                if (op == "or") == wanted:
                    return _few([*one, *other])
                return _few([(*a, *b) for a, b in product(one, other)])
            case Compare(op, left, right):
                return self.compare(op if wanted else OPPOSITE[op], self.sum(left), self.sum(right))
            case _:
                assert_never(cond)

    def compare(self, op: str, left: Sum, right: Sum) -> list[Way]:
        match op:
            case "==":
                return [(_row(True, _plus(left, right, -1)),)]
            case "!=":
                return [*self.compare("<", left, right), *self.compare(">", left, right)]
            case "<":
                return [(_row(False, _plus(right, left, -1), -1),)]
            case "<=":
                return [(_row(False, _plus(right, left, -1)),)]
            case ">":
                return [(_row(False, _plus(left, right, -1), -1),)]
            case _:
                return [(_row(False, _plus(left, right, -1)),)]

    # --- indices ---

    def sum(self, index: Index) -> Sum:
        match index:
            case Const(value):
                return {}, value
            case Name(name):
                return {self.known[name]: 1}, 0
            case Inexact(inner):
                return self.sum(inner)
            case Select() | Binary("min" | "max"):
                return {self.choice(index): 1}, 0
            case Binary("+" | "-" as op, left, right):
                return _plus(self.sum(left), self.sum(right), 1 if op == "+" else -1)
            case Binary("*", left, right):
                factor = constant(left)
                by, other = (factor, right) if factor is not None else (constant(right), left)
                return _times(self.sum(other), _number(by))
            case Binary("//" | "mod" as op, left, right):
                by, inside = _number(constant(right)), self.sum(left)
                quotient = self.quotient(inside, by)
                return ({quotient: 1}, 0) if op == "//" else _plus(inside, ({quotient: by}, 0), -1)
            case Binary():
                raise TooManyWays
            case _:
                assert_never(index)

    def quotient(self, inside: Sum, by: int) -> int:
        """Of a division that rounds down: by times the quotient is at most the sum, and less than `by` below it."""
        if by <= 0:
            raise TooManyWays
        key = (tuple(sorted(inside[0].items())), inside[1], by)
        if key not in self.quotients:
            self.quotients[key] = number = self.new()
            rest = _plus(inside, ({number: by}, 0), -1)
            self.rows += (_row(False, rest), _row(False, _times(rest, -1), by - 1))
        return self.quotients[key]

    def choice(self, index: Index) -> int:
        """A variable that has the value of a `select`, a `min` or a `max`."""
        if index not in self.chosen:
            number = self.new()
            value: Sum = ({number: 1}, 0)
            match index:
                case Select(cond, then, otherwise):
                    a, b = self.sum(then), self.sum(otherwise)
                    one, other = self.ways(cond, True), self.ways(cond, False)
                case Binary(op, left, right):
                    a, b = self.sum(left), self.sum(right)
                    first = "<=" if op == "min" else ">="
                    one, other = self.compare(first, a, b), self.compare(first, b, a)
                case _:
                    raise TooManyWays
            ways = [(*way, *self.compare("==", value, a)[0]) for way in one]
            ways += [(*way, *self.compare("==", value, b)[0]) for way in other]
            self.choose(_few(ways))
            self.chosen[index] = number
        return self.chosen[index]

    def new(self) -> int:
        self.count += 1
        return self.count - 1


def _parts(cond: Cond) -> Iterator[Cond]:
    """Conditions that all have to hold: each is a choice of its own, where together they would multiply."""
    if isinstance(cond, Logic) and cond.op == "and":
        yield from _parts(cond.left)
        yield from _parts(cond.right)
    else:
        yield cond


def _few(ways: list[Way]) -> list[Way]:
    if len(ways) > MOST_WAYS:
        raise TooManyWays
    return ways


def _number(value: int | None) -> int:
    if value is None:
        raise TooManyWays
    return value


def _row(equal: bool, parts: Sum, more: int = 0) -> Row:
    return equal, parts[1] + more, tuple((variable, factor) for variable, factor in sorted(parts[0].items()) if factor)


def _plus(one: Sum, other: Sum, sign: int) -> Sum:
    terms = dict(one[0])
    for variable, factor in other[0].items():
        terms[variable] = terms.get(variable, 0) + sign * factor
    return terms, one[1] + sign * other[1]


def _times(parts: Sum, by: int) -> Sum:
    return {variable: factor * by for variable, factor in parts[0].items()}, parts[1] * by
