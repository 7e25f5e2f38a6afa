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
    """Which waves: one with itself, two of one half, x in the high half and y in the low one, or the other way.

    A wave meets itself only where two of its lanes do, as far as `Lanes` tells.
    """

    OWN = enum.auto()
    WITHIN = enum.auto()
    BACK = enum.auto()
    FORTH = enum.auto()


class Lanes(enum.Enum):
    """When two accesses of one wave stay within their lanes, so that program order orders them."""

    UNKNOWN = "never, as far as known"
    SAME_START = "where they start at the same byte"
    ONE = "always: one lane does both"


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
class Ends:
    """How long before the end of a loop x can be: `rests` are its further iterations modulo `period`.

    Unless `known`, how often the loop runs is still to be added to them; then those below 0 are no remainders.
    """

    period: int
    rests: frozenset[int]
    known: bool

    def least(self, trips: int | None) -> int:
        """The least number of further iterations of a loop that runs so often; None: nobody knows."""
        if self.known:
            return min(self.rests, default=0)
        if trips is None:
            return 0
        return min(((trips + each) if each < 0 else (trips + each) % self.period for each in self.rests), default=0)

    def joined(self, other: Ends) -> Ends:
        """What holds of two, as far as they are counted alike."""
        if (self.period, self.known) != (other.period, other.known):
            return ANYWHERE
        return self if other.rests <= self.rests else Ends(self.period, self.rests | other.rests, self.known)


ANYWHERE = Ends(1, frozenset((0,)), True)


@dataclass(frozen=True, slots=True)
class Meeting:
    """Two accesses meet. `rounds`: loops around one alone, and how often every walk goes round them, if at all.

    A walk to y goes round the loops that it enters as often as the first iteration says in which the two can meet; a
    walk from x runs the loops that it leaves as many more times as remain after the last such iteration.
    """

    distance: int
    pairs: Pairs
    rounds: tuple[tuple[int, int], ...]
    witness: Witness
    exact: bool
