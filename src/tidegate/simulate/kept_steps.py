"""Accesses that many waves and runs of one graph make alike, each made once.

Needs   a graph
Gives   for a point, the names whose values decide what an access there touches; what was made for such values
Keeps   a place that a view names, or that a barrier object or a map of threads belongs to, depends on more than values:
        it is made anew each time
Cost    linear in the expressions of a point, once
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.graph import model as g
from tidegate.index import names
from tidegate.simulate.program_order import Key
from tidegate.simulate.steps import Issue, Step


@dataclass(slots=True)
class KeptSteps:
    """For one graph and one set of regions."""

    graph: g.SyncGraph
    issues: dict[tuple[object, ...], Issue] = field(default_factory=dict)
    syncs: dict[tuple[int, Key], tuple[Step, ...]] = field(default_factory=dict)
    _names: dict[int, tuple[str, ...] | None] = field(default_factory=dict)

    def names_at(self, number: int) -> tuple[str, ...] | None:
        """What the access at a point depends on beside where its wave stands; None: on more than values."""
        if number not in self._names:
            self._names[number] = self._names_of(self.graph.points[number])
        return self._names[number]

    def _names_of(self, point: g.Point) -> tuple[str, ...] | None:
        access = point.action
        assert isinstance(access, g.Access)
        foot = access.footprint
        place = foot.place
        if self.graph.functions:  # messages name counters around the call as well
            return None
        if not isinstance(place, g.Ref) or foot.threads or access.mbarrier is not None:
            return None
        if all(each.name != place.base for each in self.graph.buffers):
            return None
        limits = (each.limit for each in foot.extents if each.limit is not None)
        found = dict.fromkeys(name for expr in (place.slot, place.offset, *limits) for name in names(expr))
        loop = point.loop
        while loop >= 0:  # messages name the counters of the loops around
            found[self.graph.loops[loop].counter] = None
            loop = self.graph.loops[loop].parent
        return tuple(name for name in found if name)
