"""Atomics that leave the same in any order, and why others do not.

Needs   two atomics that touch common bytes
Gives   whether they commute; where their elements keep them from it, a sentence
Keeps   what is not known of an atomic is taken to differ
Cost    constant
"""

from __future__ import annotations

from tidegate.graph.model import COMMUTING
from tidegate.simulate.steps import Touch


def commute(one: Touch, other: Touch) -> bool:
    """Whether they do the same to the same elements, and nobody looks at what was there before."""
    alike = one.operator == other.operator in COMMUTING
    return alike and not (one.fetches or other.fetches) and not why_apart(one, other)


def why_apart(one: Touch, other: Touch) -> str:
    """Why two atomics do not work on the same elements; empty if they do."""
    if not one.element or not other.element:
        return "atomics commute only if the type of their elements is known"
    if one.element != other.element:
        return f"atomics of {one.element} and of {other.element} do not commute"
    if one.grid is None or one.grid != other.grid:
        return f"the elements of the two atomics do not begin at the same places, counted in whole {one.element}"
    return ""
