"""Points of a graph while it is made: each flows into the next, and successors become known later.

Needs   actions in the order of the kernel's text, each with what surrounds it
Gives   `Drafts`: points, and for each the place in the kernel before which an insertion there goes
Keeps   whatever is pending flows into the next point
Cost    constant for each point, but for the values that it uses
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidegate.diag import Span
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
    """A point whose successors are not all known yet."""

    action: g.Action
    label: str
    role: str
    issues: tuple[g.Issue, ...]
    uses: tuple[int, ...]
    around: Around
    under: Variation
    insertable: bool
    at: Span
    work: g.Work
    successors: list[int] = field(default_factory=list)

    def point(self) -> g.Point:
        around = self.around
        return g.Point(
            self.action,
            tuple(self.successors),
            self.label,
            self.role,
            self.issues,
            self.uses,
            around.loop,
            around.weight,
            g.VARIATIONS[self.under],
            self.insertable,
            self.at,
            self.work,
        )


@dataclass(slots=True)
class Drafts:
    """All points so far."""

    drafts: list[Draft] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    defined: dict[str, int] = field(default_factory=dict)  # value → the point that makes it
    pending: list[int] = field(default_factory=list)  # points whose next successor is the next point
    gone: Variation = Variation.UNIFORM  # who may have ended before the point at hand

    def add(
        self,
        action: g.Action,
        path: Path,
        at: Span,
        *,
        label: str,
        around: Around,
        role: str = "other",
        issues: tuple[g.Issue, ...] = (),
        uses: Iterable[str] = (),
        insertable: bool = True,
        work: g.Work = g.NO_WORK,
    ) -> int:
        """Adds a point; everything pending flows into it, and it is pending itself unless it ends the wave."""
        number = len(self.drafts)
        depends = dict.fromkeys(self.defined[name] for name in uses if name in self.defined)
        under = max(around.under, self.gone)
        self.drafts.append(Draft(action, label, role, issues, tuple(depends), around, under, insertable, at, work))
        self.paths.append(path)
        for before in self.pending:
            self.drafts[before].successors.append(number)
        self.pending = [] if isinstance(action, g.End) else [number]
        return number
