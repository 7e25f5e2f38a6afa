"""Accesses of waves that run different programs: a barrier that one side arrives at and the other side leaves.

Needs   `Code`; lines of two accesses that no path joins
Gives   `meeting`: the barriers that order the first before the second, whichever paths the waves take
Keeps   x is performed before the arrival, on every path from x to the end; y comes behind a departure on every path
        from the start
Cost    a search over blocks and small states
"""

from __future__ import annotations

from collections.abc import Callable

from oracles.code import Code, Event

Names = frozenset[str]
Place = tuple[int, int, Names]  # a block, an event in it, and what is known there


def meeting(code: Code, x: int, y: int) -> Names:
    """Barriers that the wave of line `x` arrives at behind it and the wave of line `y` leaves before it."""
    return _arrived_behind(code, x) & _left_before(code, y)


def _left_before(code: Code, line: int) -> Names:
    found: list[Names] = []

    def step(known: Names, event: Event) -> Names:
        if event.touches_lds and event.line == line:
            found.append(known)
        return known | {event.barrier} if event.departs and not event.may_skip else known

    _walk(code, [(0, 0, frozenset())], step)
    return frozenset.intersection(*found) if found else frozenset()


def _arrived_behind(code: Code, line: int) -> Names:
    """A barrier that does not perform accesses counts for nothing here: no target of this corpus needs it."""
    starts: list[Place] = [
        (number, place + 1, frozenset())
        for number, block in enumerate(code.blocks)
        for place, event in enumerate(block.events)
        if event.touches_lds and event.line == line
    ]

    def step(known: Names, event: Event) -> Names:
        counts = event.arrives and event.performs and not event.may_skip
        return known | {event.barrier} if counts else known

    ends = _walk(code, starts, step)
    return frozenset.intersection(*ends) if ends else frozenset()


def _walk(code: Code, starts: list[Place], step: Callable[[Names, Event], Names]) -> list[Names]:
    """From each start along all paths; what is known at the ends."""
    seen, todo, ends = set(starts), list(starts), []
    while todo:
        number, place, known = todo.pop()
        for event in code.blocks[number].events[place:]:
            known = step(known, event)
        if code.blocks[number].may_end or not code.blocks[number].after:
            ends.append(known)
        for key in [(after, 0, known) for after in code.blocks[number].after]:
            if key not in seen:
                seen.add(key)
                todo.append(key)
    return ends
