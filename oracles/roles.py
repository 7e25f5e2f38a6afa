"""Accesses of waves that run different programs: a barrier that one side arrives at and the other side leaves.

Needs   `Code`; lines of two accesses that no path joins
Gives   `meeting`: the barriers that order the first before the second, whichever paths the waves take
Keeps   x is performed before the arrival, on every path from x to the end; y comes behind a departure on every path
        from the start
Cost    a search over blocks and small states
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from oracles.code import Code, Event

Names = frozenset[str]


@dataclass(frozen=True, slots=True)
class Place:
    """A block, an event in it, what is known there, and the predicate that holds since the walk began."""

    block: int
    event: int
    known: Names = frozenset()
    given: str = ""


def meeting(code: Code, x: int, y: int) -> Names:
    """Barriers that the wave of line `x` arrives at behind it and the wave of line `y` leaves before it."""
    return _arrived_behind(code, x) & _left_before(code, y)


def _left_before(code: Code, line: int) -> Names:
    found: list[Names] = []

    def step(at: Place, event: Event) -> Names:
        if event.touches_lds and event.line == line:
            found.append(at.known)
        return at.known | {event.barrier} if event.departs and not event.when else at.known

    _walk(code, [Place(0, 0)], step)
    return frozenset.intersection(*found) if found else frozenset()


def _arrived_behind(code: Code, line: int) -> Names:
    """A barrier that does not perform accesses counts for nothing here: no target of this corpus needs it."""
    starts = [
        Place(number, place + 1, given=event.when)
        for number, block in enumerate(code.blocks)
        for place, event in enumerate(block.events)
        if event.touches_lds and event.line == line
    ]

    def step(at: Place, event: Event) -> Names:
        counts = event.arrives and event.performs and event.when in ("", at.given)
        return at.known | {event.barrier} if counts else at.known

    ends = _walk(code, starts, step)
    return frozenset.intersection(*ends) if ends else frozenset()


def _walk(code: Code, starts: list[Place], step: Callable[[Place, Event], Names]) -> list[Names]:
    """From each start along all paths; what is known at the ends."""
    seen, todo, ends = set(starts), list(starts), []
    while todo:
        at = todo.pop()
        block = code.blocks[at.block]
        for event in block.events[at.event :]:
            at = replace(at, known=step(at, event))
        if block.may_end or not block.after:
            ends.append(at.known)
        if block.may_end and block.ends_when in ("", at.given):
            continue
        for after in block.after:
            # Going back, predicates are set again.
            new = Place(after, 0, at.known, at.given if after > at.block else "")
            if new not in seen:
                seen.add(new)
                todo.append(new)
    return ends
