"""Questions that isl decides: conditions, with all that is known of the names in them.

Needs   a graph and its footprints
Gives   a point at which conditions hold, or whether there may be one
Keeps   `UNDECIDED` where isl gives up; such questions are counted, since their answer proves nothing
Cost    one question to isl each
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate.footprint.arithmetic import ANY, Range
from tidegate.footprint.model import Footprints
from tidegate.graph import model as g
from tidegate.index import TRUE, WORKGROUP, Compare, Cond, Const, Name, Truth, names, why_not_affine
from tidegate.language.points import UNDECIDED, Undecided, find_point, may_have_point
from tidegate.verify.conds import CondBook, Conds
from tidegate.verify.paths import U, V


class Questions:
    """Those about one graph."""

    def __init__(self, graph: g.SyncGraph, footprints: Footprints) -> None:
        self.footprints = footprints
        self.where = (*graph.where, *_grid(graph))
        self.sizes = [each.name for each in graph.sizes]
        self.count = 0
        self.given_up = 0  # questions that isl did not decide
        self.possible: dict[Conds, bool] = {}  # ways that were asked about alone

    def ask(self, conds: Sequence[Cond]) -> dict[str, int] | Undecided | None:
        """A small point, sizes first."""
        asked = self.ranged(conds)
        used = {name for cond in asked for name in names(cond)}
        order = [*(name for name in self.sizes if name in used), *sorted(used - set(self.sizes), key=_late)]
        self.count += 1
        return find_point(asked, order)

    def holds(self, conds: Sequence[Cond]) -> bool:
        """Whether there may be a point."""
        if _contradict(conds):
            return False
        self.count += 1
        found = may_have_point(self.ranged(conds))
        self.given_up += found is UNDECIDED
        return found is not False

    def is_possible(self, way: Conds, book: CondBook) -> bool:
        """Whether a way can be gone at all, whatever stands at its ends."""
        if way not in self.possible:
            self.possible[way] = self.holds([book.conds[each] for each in sorted(way)])
        return self.possible[way]

    def ranged(self, conds: Sequence[Cond]) -> list[Cond]:
        """Conditions with what is known of their names."""
        found: dict[Cond, None] = dict.fromkeys(cond for cond in conds if cond != TRUE)
        used = {name for cond in found for name in names(cond)}
        around = _closed(self.where, used)
        used |= {name for cond in around for name in names(cond)}
        for name in sorted(used):
            low, high = self.range_of(name)
            if low is not None:
                found[Compare(">=", Name(name), Const(low))] = None
            if high is not None:
                found[Compare("<=", Name(name), Const(high))] = None
        return [*around, *found]

    def range_of(self, name: str) -> Range:
        if name in self.sizes:
            return 1, None
        if name in WORKGROUP or name.startswith(("#", "<")):
            return 0, None
        opaque = self.footprints.opaques.get(name.split("@")[0])
        return (opaque.low, opaque.high) if opaque is not None else ANY


def _contradict(conds: Iterable[Cond]) -> bool:
    """Whether bounds of one name leave no value, or a condition never holds: a look is enough, and isl is not asked."""
    least: dict[str, int] = {}
    most: dict[str, int] = {}
    for cond in conds:
        match cond:
            case Truth(False):
                return True
            case Compare("<" | "<=", Name(name), Const(value)):
                bound = value - (cond.op == "<")
                most[name] = min(bound, most.get(name, bound))
            case Compare(">" | ">=", Name(name), Const(value)):
                bound = value + (cond.op == ">")
                least[name] = max(bound, least.get(name, bound))
            case Compare("==", Name(name), Const(value)):
                most[name] = min(value, most.get(name, value))
                least[name] = max(value, least.get(name, value))
    return any(name in most and most[name] < bound for name, bound in least.items())


def _late(name: str) -> tuple[int, str]:
    """Iterations first, then waves, then bytes."""
    return (0 if name[0] in "#<" else 1 if name in (U, V) else 2, name)


def _grid(graph: g.SyncGraph) -> list[Cond]:
    return [Compare("<", Name(name), extent) for name, extent in zip(WORKGROUP, graph.grid, strict=False)]


def _closed(where: Iterable[Cond], used: set[str]) -> list[Cond]:
    """Assumptions about names in use, and about names that these bring in."""
    found: list[Cond] = []
    rest, known = [cond for cond in where if not why_not_affine(cond)], set(used)
    while True:
        more = [cond for cond in rest if not known.isdisjoint(names(cond))]
        if not more:
            return found
        found += more
        rest = [cond for cond in rest if cond not in more]
        known |= {name for cond in more for name in names(cond)}
