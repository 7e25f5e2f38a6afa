"""Which of two accesses of different waves comes first in program order, if either does.

Needs   keys: where in the program and in which iterations a step stands
Gives   -1, 1, or 0 where there is no order: one statement in two waves, two arms of one condition, two programs
Keeps   the keys of one wave only grow
Cost    linear in the nesting

A key goes from the outside in: the number of a statement, then for a loop the iteration, for a condition or a dispatch
the arm (negative), then the statement inside, and so on. Programs that start apart are arms of nothing.
"""

from __future__ import annotations

Key = tuple[int, ...]
START: Key = ()


def arm(number: int) -> int:
    """The part of a key that says which arm was taken."""
    return -1 - number


def compare(one: Key, other: Key) -> int:
    for ours, theirs in zip(one, other, strict=False):
        if ours != theirs:
            return 0 if ours < 0 or theirs < 0 else -1 if ours < theirs else 1
    return 0


def may_still_come(last: Key, other: Key) -> bool:
    """Whether a wave whose last step has the key `last` can issue something that comes before `other`."""
    for ours, theirs in zip(last, other, strict=False):
        if ours != theirs:
            return ours >= 0 and theirs >= 0 and ours < theirs
    return len(last) < len(other)
