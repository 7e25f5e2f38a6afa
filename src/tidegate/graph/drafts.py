"""Points of a graph while it is made: their successors become known later.

Needs   what is known of a point when it is added
Gives   `Draft`, which becomes a `Point` when the graph is complete
Keeps   the fields of a point, each with the same default
Cost    constant for each point
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.diag import NOWHERE, Span
from tidegate.graph import model as g
from tidegate.index import Cond, Index, substitute
from tidegate.language.facts import Variation

# Where in a kernel: the number of an operation, then of one of its regions, then of an operation in it, and so on.
# The last number may be one more than the last operation: the end of the region.
Path = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Around:
    """What surrounds a point: its loop, how often it runs, who agrees on it, and what is known there."""

    loop: int
    weight: float
    under: Variation
    conds: tuple[Cond, ...]  # counters are named by their depth here, so that equal nests ask isl equal questions
    counters: dict[str, Index] = field(default_factory=dict)
    lanes: tuple[Cond, ...] = ()  # what holds of all lanes that are not switched off

    def plain(self, index: Index) -> Index:
        return substitute(index, self.counters)


@dataclass(slots=True)
class Draft:
    """A point whose facts may still change."""

    action: g.Action
    successors: list[int]
    label: str = ""
    role: str = "other"
    issues: tuple[g.Issue, ...] = ()
    uses: tuple[int, ...] = ()
    loop: int = -1
    weight: float = 1.0
    under: str = "uniform"
    insertable: bool = True
    at: Span = NOWHERE
    work: g.Work = g.NO_WORK

    def point(self) -> g.Point:
        return g.Point(
            self.action,
            tuple(self.successors),
            self.label,
            self.role,
            self.issues,
            self.uses,
            self.loop,
            self.weight,
            self.under,
            self.insertable,
            self.at,
            self.work,
        )
