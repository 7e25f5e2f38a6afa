"""What the searches of the verifier are about, and what they find.

Needs   accesses by their nodes, and pairs of waves
Gives   `SearchMode`: which waves, and how many arrivals are needed; `Unordered`: an access that a search reached;
        `OneWrong`: raised where one suspect is enough to know
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.verify.asked import Waves
from tidegate.verify.conds import Conds
from tidegate.verify.paths import Iterations


@dataclass(frozen=True, slots=True)
class SearchMode:
    """Which waves are asked about, and how many arrivals of x's wave have to lie between."""

    waves: Waves
    need: int


@dataclass(frozen=True, slots=True)
class Unordered:
    """An access that may be unordered before those at the end of a search."""

    node: int
    iterations: Iterations
    ways: tuple[Conds, ...]
    loose: bool
    why: str
    met: bool = False  # whether the waves, or the lanes, have met behind it


class OneWrong(Exception):
    """One suspect is enough to know."""

    def __init__(self, first: int, second: int) -> None:
        self.points = (first, second)
