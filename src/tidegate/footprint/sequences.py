"""Values that come one after another, as functions of the iteration.

Needs   the first values, and what follows them
Gives   one expression over `#loop`
Keeps   equal to the sequence in every iteration
Cost    linear in the sequence

    0, 2, 1, 0, 2, 1, ...      (#4 * 2) mod 3
    a, b, b, b, ...            select(#4 == 0, a, b)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd, lcm

from tidegate.footprint.arithmetic import Range
from tidegate.footprint.values import Book, Value, iteration
from tidegate.index import (
    Binary,
    Compare,
    Cond,
    Const,
    Flag,
    Index,
    Logic,
    Name,
    Not,
    Select,
    Truth,
    evaluate,
    names,
    walk,
)

MOST_PERIOD = 64


def follows(book: Book, loop: int, first: Sequence[Value | None], rest: Value) -> Value | None:
    """The first values, one in each iteration, then what `rest` says of the iteration."""
    now = Name(iteration(loop))
    found: Value = rest
    for place in range(len(first) - 1, -1, -1):
        start = first[place]
        if start is None or start == _at(book, rest, loop, place):
            continue
        found = _choose(book, book.math.compare("==", now, Const(place)), start, found)
    return found


def _at(book: Book, value: Value, loop: int, place: int) -> Value:
    by: dict[str, Index] = {iteration(loop): Const(place)}
    return book.put_view(value, by, {}) if isinstance(value, tuple) else book.math.put(value, by)


def _choose(book: Book, cond: Cond, then: Value, otherwise: Value) -> Value:
    if isinstance(then, tuple):
        return book.either(cond, then, otherwise) if isinstance(otherwise, tuple) else then
    return otherwise if isinstance(otherwise, tuple) else book.math.select(cond, then, otherwise)


def sequence(book: Book, loop: int, values: Sequence[Value | None], back: int) -> Value | None:
    """Values of which those from place `back` on come again and again."""
    if any(value is None for value in values) or len(values) > MOST_PERIOD:
        return None
    ring = [value for value in values[back:] if value is not None]
    now = Name(iteration(loop))
    here = book.math.binary("-", now, Const(back))
    found = _fit(book, here, ring)
    if found is None:
        place = book.math.mod(here, len(ring))
        found = ring[-1]
        for number in range(len(ring) - 2, -1, -1):
            found = _choose(book, book.math.compare("==", place, Const(number)), ring[number], found)
    return follows(book, loop, values[:back], found)


def _fit(book: Book, now: Index, ring: Sequence[Value]) -> Value | None:
    """`(start + step * now) mod size`, if the ring is that."""
    if not all(isinstance(each, Const) for each in ring):
        return None
    numbers = [each.value for each in ring if isinstance(each, Const)]
    if len(set(numbers)) == 1:
        return ring[0]
    if min(numbers) < 0:
        return None
    for size in dict.fromkeys((len(ring), max(numbers) + 1)):
        step = numbers[1] - numbers[0]
        if all(each == (numbers[0] + step * place) % size for place, each in enumerate([*numbers, numbers[0]])):
            return book.math.mod(
                book.math.binary("+", Const(numbers[0]), book.math.binary("*", now, Const(step % size))), size
            )
    return None


def rotation_of(after: Index, name: str, sizes: Iterable[int], start: Range) -> tuple[int, int] | None:
    """A step and a size such that the next value is `(value + step) mod size` for every value in 0..size - 1."""
    low, high = start
    if low is None or high is None or low < 0:
        return None
    found = {node.value + more for node in walk(after) if isinstance(node, Const) for more in (-1, 0, 1, 2)}
    for size in sorted(each for each in (*found, *sizes) if high < each <= 256):
        try:
            step = evaluate(after, {name: 0}) % size
            if all(evaluate(after, {name: value}) == (value + step) % size for value in range(size)):
                return step, size
        except (ZeroDivisionError, KeyError):
            return None
    return None


def kept_range(given: Iterable[Index | None], name: str, sizes: Iterable[int], start: Range) -> int:
    """A size such that a name that starts below it is never set to anything else; 0 if none is seen.

    All that the name is set to depends on nothing but the name itself.
    """
    low, high = start
    exprs = list(given)
    if low is None or high is None or low < 0 or high >= MOST_PERIOD:
        return 0
    known = [each for each in exprs if each is not None and all(used == name for used in names(each))]
    if len(known) < len(exprs):
        return 0
    found = {node.value + more for each in known for node in walk(each) if isinstance(node, Const) for more in (0, 1)}
    for size in sorted(each for each in (*found, *sizes) if high < each <= MOST_PERIOD):
        try:
            if all(0 <= evaluate(each, {name: value}) < size for each in known for value in range(size)):
                return size
        except ZeroDivisionError:
            return 0
    return 0


def period_in(expr: Index | Cond, name: str) -> int | None:
    """A number such that adding it to the name changes nothing; None if there is none to be seen."""
    match expr:
        case Const() | Truth():
            return 1
        case Flag(other) | Name(other):
            return None if other == name else 1
        case Binary("mod", left, Const(by)) if by > 0:
            inner = period_in(left, name)
            return inner if inner is not None else _in_sum(left, name, by)
        case Binary(_, left, right) | Compare(_, left, right):
            return _both((period_in(left, name), period_in(right, name)))
        case Logic(_, one, other_):
            return _both((period_in(one, name), period_in(other_, name)))
        case Select(cond, then, otherwise):
            return _both((period_in(cond, name), period_in(then, name), period_in(otherwise, name)))
        case Not(inner_):
            return period_in(inner_, name)
    return None


def _in_sum(index: Index, name: str, by: int) -> int | None:
    """The period of a sum modulo `by`."""
    factor, stack, others = 0, [(index, 1)], 1
    while stack:
        node, times = stack.pop()
        match node:
            case Binary("+" | "-" as op, left, right):
                stack += ((left, times), (right, times if op == "+" else -times))
            case Binary("*", left, Const(value)):
                stack.append((left, times * value))
            case Name(found) if found == name:
                factor += times
            case Binary("//", left, Const(value)) if value > 0:
                inner = _in_sum(left, name, value * by)
                if inner is None:
                    return None
                others = lcm(others, inner)
            case _:
                inner = period_in(node, name)
                if inner is None:
                    return None
                others = lcm(others, inner)
    return lcm(others, by // gcd(factor, by))


def _both(periods: Iterable[int | None]) -> int | None:
    found = 1
    for each in periods:
        if each is None:
            return None
        found = lcm(found, each)
    return found
