"""Indices that a loop carries: the ranges that they stay in, and what they are in the first trips.

Needs   a loop, and the ranges of names around it
Gives   ranges that hold in every trip, or `ANY`; values trip by trip, as long as they are numbers
Keeps   a range is never too narrow; values are exact
Cost    `MAX_TRIPS` times the indices that the body computes; a trip is compared with those before it
"""

from __future__ import annotations

from tidegate.index import INDEX_TYPES, Binary, Const, Index, constant, names, substitute
from tidegate.language.ops import Iterate, Let
from tidegate.language.ranges import ANY, Range, join, range_of
from tidegate.language.types import INDEX

# Trips of a loop that a carried index is followed through.
MAX_TRIPS = 70


def settle_ranges(op: Iterate, ranges: dict[str, Range]) -> None:
    """Ranges of carried indices: widened by what the body hands on until they hold, or unknown."""
    carried = [
        (each.value.name, each.init, op.body.yields[place])
        for place, each in enumerate(op.carried)
        if each.value.type == INDEX and place < len(op.body.yields)
    ]
    lets = {each.result.name: each.value for each in op.body.ops if isinstance(each, Let)}
    for name, init, _ in carried:
        ranges[name] = range_of(init, ranges) if isinstance(init, INDEX_TYPES) else ANY
    for _ in range(MAX_TRIPS):
        for let, value in lets.items():
            ranges[let] = range_of(value, ranges)
        new = {
            name: join(ranges[name], range_of(next_, ranges) if isinstance(next_, INDEX_TYPES) else ANY)
            for name, _, next_ in carried
        }
        if all(ranges[name] == found for name, found in new.items()):
            return
        ranges.update(new)
    ranges.update({name: ANY for name, _, _ in carried})


def follow_carried(
    op: Iterate, values: dict[str, Index], lower: Index, step: int
) -> tuple[list[dict[str, Index]], int]:
    """The numbers that carried indices are in the first trips, and after how many of them they come again; 0: not.

    `values` are those that they start with; `lower` and `step` say what the counter is.
    """
    states: list[dict[str, Index]] = []
    while len(states) < MAX_TRIPS and all(constant(value) is not None for value in values.values()):
        fixed: dict[str, Index] = {name: Const(constant(value) or 0) for name, value in values.items()}
        if fixed in states and not _counts(op):
            return states, len(states) - states.index(fixed)
        states.append(fixed)
        now = Binary("+", lower, Const((len(states) - 1) * step))
        values = _next(op, {**fixed, op.counter.name: now})
    return states, 0


def _counts(op: Iterate) -> bool:
    """Whether what is carried into the next trip depends on the counter."""
    lets = {each.result.name: each.value for each in op.body.ops if isinstance(each, Let)}
    found = [name for each in op.body.yields if isinstance(each, INDEX_TYPES) for name in names(each)]
    seen: set[str] = set()
    while found:
        name = found.pop()
        if name not in seen:
            seen.add(name)
            found += names(lets[name]) if name in lets else ()
    return op.counter.name in seen


def _next(op: Iterate, fixed: dict[str, Index]) -> dict[str, Index]:
    """What carried indices are after one trip."""
    lets = {each.result.name: each.value for each in op.body.ops if isinstance(each, Let)}
    found: dict[str, Index] = {}
    for each, operand in zip(op.carried, op.body.yields, strict=False):
        if each.value.type == INDEX and isinstance(operand, INDEX_TYPES):
            value: Index = operand
            for _ in range(20):
                new = substitute(value, {**lets, **fixed})
                if new == value:
                    break
                value = new
            number = constant(value)
            found[each.value.name] = value if number is None else Const(number)
    return found
