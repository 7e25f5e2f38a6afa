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
from typing import Any, Union, assert_never

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

Row = tuple[bool, int, tuple[tuple[int, int], ...]]
Way = tuple[Row, ...]
# The same before names have numbers: a variable is a name, or stands for a division or a choice.
Key = Union[str, "_Quotient", "_Chosen"]
Sum = tuple[dict[Key, int], int]  # variables with their factors, and the rest
NamedRow = tuple[bool, int, tuple[tuple[Key, int], ...]]
NamedWay = tuple[NamedRow, ...]
OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
ALWAYS: list[NamedWay] = [()]
NEVER: list[NamedWay] = []


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
    known: dict[Key, int] = {name: number for number, name in enumerate(found)}
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
    """One system. A condition is read once, over names; here these, and what stands for divisions, become numbers."""

    def __init__(self, known: dict[Key, int]) -> None:
        self.numbers = known
        self.rows: dict[Row, None] = {}
        self.choices: list[tuple[Way, ...]] = []

    def system(self, conds: Sequence[Cond]) -> System:
        for cond in conds:
            for part in _parts(cond):
                read = _read(part)
                if read is None:
                    raise TooManyWays
                for key in read.new:
                    self.define(key)
                self.choose(read.ways)
        return System(len(self.numbers), tuple(self.rows), tuple(self.choices))

    def define(self, key: _Quotient | _Chosen) -> None:
        """A variable for a quotient or a choice, with what is known of it, unless there is one."""
        if key not in self.numbers:
            self.numbers[key] = len(self.numbers)
            self.choose(key.ways)

    def choose(self, ways: Sequence[NamedWay]) -> None:
        if len(ways) == 1:
            for row in ways[0]:
                self.rows[self.numbered(row)] = None
        else:
            self.choices.append(tuple([tuple([self.numbered(row) for row in way]) for way in ways]))

    def numbered(self, row: NamedRow) -> Row:
        equal, rest, terms = row
        numbers = self.numbers
        return equal, rest, tuple(sorted([(numbers[key], factor) for key, factor in terms]))


@dataclass(frozen=True, slots=True)
class _Read:
    """The ways in which a condition holds, and the variables that these need beside names."""

    ways: tuple[NamedWay, ...]
    new: tuple[_Quotient | _Chosen, ...]


@lru_cache(maxsize=REMEMBERED)
def _read(cond: Cond) -> _Read | None:
    """None if there are too many ways, or a form that has none."""
    reader = _SystemReader()
    try:
        ways = reader.ways(cond, True)
    except TooManyWays:
        return None
    return _Read(tuple(ways), tuple(reader.new))


class _Key:
    """What a variable stands for that has no name. Its hash is computed once: it is looked up all the time."""

    __slots__ = ("known", "ways", "what")

    def __init__(self, what: object) -> None:
        self.what, self.known = what, hash(what)
        self.ways: tuple[NamedWay, ...] = ()

    def __hash__(self) -> int:
        return self.known

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Key) and type(self) is type(other) and self.what == other.what)


class _Quotient(_Key):
    """Of a division that rounds down: by times the quotient is at most the sum, and less than `by` below it."""

    __slots__ = ()


class _Chosen(_Key):
    """A variable that has the value of a `select`, a `min` or a `max`."""

    __slots__ = ()


class _SystemReader:
    """One condition. `new`: variables without names, those that others need first."""

    def __init__(self) -> None:
        self.new: dict[_Quotient | _Chosen, None] = {}

    # --- conditions ---

    def ways(self, cond: Cond, wanted: bool) -> list[NamedWay]:
        """The ways in which a condition holds, or does not."""
        match cond:
            case Truth(value):
                return ALWAYS if value == wanted else NEVER
            case Flag(name):
                return [((False, -1, ((name, 1),)) if wanted else (False, 0, ((name, -1),)),)]
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

    def compare(self, op: str, left: Sum, right: Sum) -> list[NamedWay]:
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
                return {name: 1}, 0
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

    def quotient(self, inside: Sum, by: int) -> _Quotient:
        if by <= 0:
            raise TooManyWays
        key = _Quotient((frozenset(inside[0].items()), inside[1], by))
        if key not in self.new:
            rest = _plus(inside, ({key: by}, 0), -1)
            key.ways = ((_row(False, rest), _row(False, _times(rest, -1), by - 1)),)
            self.new[key] = None
        return key

    def choice(self, index: Index) -> _Chosen:
        key = _Chosen(index)
        if key not in self.new:
            value: Sum = ({key: 1}, 0)
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
            key.ways = tuple(_few(ways))
            self.new[key] = None
        return key


def _parts(cond: Cond) -> Iterator[Cond]:
    """Conditions that all have to hold: each is a choice of its own, where together they would multiply."""
    if isinstance(cond, Logic) and cond.op == "and":
        yield from _parts(cond.left)
        yield from _parts(cond.right)
    else:
        yield cond


def _few(ways: list[NamedWay]) -> list[NamedWay]:
    if len(ways) > MOST_WAYS:
        raise TooManyWays
    return ways


def _number(value: int | None) -> int:
    if value is None:
        raise TooManyWays
    return value


def _row(equal: bool, parts: Sum, more: int = 0) -> NamedRow:
    return equal, parts[1] + more, tuple([(key, factor) for key, factor in parts[0].items() if factor])


def _plus(one: Sum, other: Sum, sign: int) -> Sum:
    terms = dict(one[0])
    for variable, factor in other[0].items():
        terms[variable] = terms.get(variable, 0) + sign * factor
    return terms, one[1] + sign * other[1]


def _times(parts: Sum, by: int) -> Sum:
    return {variable: factor * by for variable, factor in parts[0].items()}, parts[1] * by
