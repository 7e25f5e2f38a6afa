"""What is said of two accesses that touch one byte.

Needs   nothing
Gives   which pairs of waves, how many iterations apart, and an example
Keeps   frozen
Cost    constant
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Pairs(enum.Flag):
    """Which waves: one with itself, two of one half, x in the high half and y in the low one, or the other way."""

    OWN = enum.auto()
    WITHIN = enum.auto()
    BACK = enum.auto()
    FORTH = enum.auto()


KINDS = (Pairs.OWN, Pairs.WITHIN, Pairs.BACK, Pairs.FORTH)
NO_PAIRS = Pairs(0)


@dataclass(frozen=True, slots=True)
class Witness:
    """An example: the waves, the bytes that both touch, counted from the buffer's beginning, and the iterations."""

    x_wave: int
    y_wave: int
    buffer: str
    first: int
    last: int  # not included
    x_iterations: tuple[tuple[int, int], ...] = ()  # loop, iteration; outermost first
    y_iterations: tuple[tuple[int, int], ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Meeting:
    """Two accesses meet. `rounds`: loops around y alone, with the first iteration in which they can, if not 0."""

    distance: int
    pairs: Pairs
    rounds: tuple[tuple[int, int], ...]
    witness: Witness
    exact: bool
