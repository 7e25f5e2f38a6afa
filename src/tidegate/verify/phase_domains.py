"""In which iterations a role comes to each of its nodes.

Needs   a role, what its branches decide, how often its loops run
Gives   for each node a set of iterations of the loops around it, and whether it is exact
Keeps   no iteration in which the role comes there is missing; where it is exact, none is too many
Cost    the nodes; isl joins what the arms of a branch leave

    branch %k + 1 < N -> 5, 9      5: { [i0] : 0 <= i0 < N - 1 }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import islpy as isl

from tidegate.graph.joins import find_joins
from tidegate.index import TRUE, WAVE, ZERO, Binary, Compare, Cond, Const, Name
from tidegate.verify.phase_model import Outside, Role
from tidegate.verify.phase_roles import for_wave
from tidegate.verify.phase_space import Space, union

MOST_PIECES = 24  # of one set: beyond these, all iterations count


@dataclass(frozen=True, slots=True)
class Reached:
    """Iterations of the loops around a node, outermost first."""

    points: Any
    exact: bool


@dataclass
class Domains:
    """Those of one role."""

    space: Space
    role: Role
    found: dict[int, Reached] = field(default_factory=dict)
    around: dict[int, Reached] = field(default_factory=dict)  # loop → where it is entered
    conds: dict[tuple[Cond, tuple[int, ...]], Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        flow, arms = self.space.flow, self.role.arms
        self.heads = {loop.head: number for number, loop in enumerate(flow.loops) if loop.head in arms}
        if any(not flow.loops[loop].reducible for loop in self.heads.values()):
            raise Outside("a loop with several entries")
        self.before: dict[int, list[int]] = {node: [] for node in arms}
        for node, following in arms.items():
            for each in following:
                self.before[each].append(node)
        self.joins = find_joins([arms.get(node, ()) for node in range(len(flow.origin))])
        self.above: dict[int, int] = {}
        for node in sorted(arms, key=self.space.rank.__getitem__):
            self.found[node] = self.come_to(node)

    def come_to(self, node: int) -> Reached:
        loop = self.heads.get(node, -1)
        chain = self.space.paths.around[node]
        ways = [each for each in self.before[node] if each in self.found]  # all but the ends of its own loop
        if loop >= 0:
            ways = [each for each in ways if loop not in self.space.paths.around[each]]
        outside = chain[:-1] if loop >= 0 else chain
        self.above[node] = self.dominator(ways)
        found = self.joined(node, ways, outside)
        if loop < 0:
            return found
        self.around[loop] = found
        return self.iterated(loop, found, chain)

    def dominator(self, ways: Sequence[int]) -> int:
        """The nearest node that all ways pass; nodes come in an order in which that is known of those before."""
        rank = self.space.rank
        if not ways:
            return -1
        found = ways[0]
        for other in ways[1:]:
            while found != other and found >= 0 and other >= 0:
                if rank[found] > rank[other]:
                    found = self.above[found]
                else:
                    other = self.above[other]
            if found != other:
                return -1
        return found

    def joined(self, node: int, ways: Sequence[int], chain: Sequence[int]) -> Reached:
        if node == self.role.entry:
            if ways:
                raise Outside("the beginning of a program is come to again")
            return Reached(self.space.read_set("{ [] }"), True)
        above = self.above[node]
        if len(ways) > 1 and above >= 0 and self.is_passed_behind(above, node):
            beside = self.behind(above, chain)
            if beside is not None:
                return beside
        parts = [self.along(way, node, chain) for way in ways]
        points = union(part.points for part in parts)
        if points is None:
            raise Outside("a place that nothing leads to")
        exact = all(part.exact for part in parts)
        if points.n_basic_set() > MOST_PIECES:
            points, exact = points.simple_hull().to_set(), False
        return Reached(points, exact)

    def is_passed_behind(self, first: int, node: int) -> bool:
        """Whether all ways from one node lead to the other one."""
        while first >= 0 and first != node:
            first = self.joins[first]
        return first == node

    def behind(self, node: int, chain: Sequence[int]) -> Reached | None:
        """Where one goes on behind a node: as often as one comes to it, or to the loops that are left until then."""
        around = self.space.paths.around[node]
        if tuple(around) == tuple(chain):
            return self.found[node]
        if len(around) > len(chain) and tuple(around[: len(chain)]) == tuple(chain):
            return self.left(around[len(chain)])  # wherever that leads, it goes on to the node
        return None

    def left(self, loop: int) -> Reached:
        """Where one goes on behind a loop, which is left once each time: as often, if all its ways out lead there."""
        around = self.space.paths.around
        ways_out = {
            each
            for inside, following in self.role.arms.items()
            if loop in around[inside]
            for each in following
            if loop not in around[each]
        }
        found = self.around[loop]
        return found if len(ways_out) == 1 else Reached(found.points, False)

    def along(self, before: int, node: int, chain: Sequence[int]) -> Reached:
        around = self.space.paths.around[before]
        if len(around) > len(chain):
            return self.left(around[len(chain)])
        here = self.found[before]
        loop = self.heads.get(before, -1)
        if loop >= 0 and (trips := self.trips(loop)) is not None:
            count = self.where(Compare("<", Name(f"#{loop}"), trips), around)
            if count is not None:
                return Reached(here.points.intersect(count), here.exact)
        conds = self.space.footprints.branches.get(before)
        if conds is None:
            return here
        following = self.space.flow.successors[before]
        arms = [arm for arm, each in enumerate(following) if each == node]
        if len(arms) != 1:
            return here
        cond = for_wave(self.space.paths, conds[arms[0]], self.role.wave)
        if cond == TRUE:
            return here
        there = self.where(cond, around)
        return self.counted(here, cond, around) if there is None else Reached(here.points.intersect(there), here.exact)

    def counted(self, here: Reached, cond: Cond, around: Sequence[int]) -> Reached:
        """Those of a condition on rounds that are counted over tiles."""
        counting = self.space.counting
        asked = counting.asked(cond) if counting is not None and counting.is_symbolic else None
        parts = [self.where(part, around) for part in asked] if asked is not None else [None]
        if any(part is None for part in parts):
            return Reached(here.points, False)
        yes, unknown = (here.points.intersect(part) for part in parts)
        unknown = unknown.intersect_params(self.space.known())
        return Reached(yes.union(unknown).coalesce(), here.exact and unknown.is_empty())

    def trips(self, loop: int) -> Any:
        """How often a loop runs each time; None if nobody knows."""
        trips = self.space.footprints.trips[loop]
        if trips is None or loop not in self.space.footprints.ends_at_head:
            return None
        put = self.space.paths.math.put(trips, {WAVE: Const(self.role.wave)})
        counting = self.space.counting
        return counting.size if counting is not None and put == counting.unit else self.space.affine(put)

    def iterated(self, loop: int, outside: Reached, chain: Sequence[int]) -> Reached:
        """The head of a loop: once more than the loop runs."""
        trips = self.trips(loop)
        name = Name(f"#{loop}")
        count = self.where(Compare(">=", name, ZERO), chain)
        exact = outside.exact and trips is not None
        if trips is not None:
            zero = Binary("max", ZERO, trips)
            most = self.where(Compare("<=", name, zero), chain)
            if most is None:
                exact = False
            else:
                count = count.intersect(most)
        points = outside.points.add_dims(isl.dim_type.set, 1).intersect(count)
        return Reached(points, exact)

    def where(self, cond: Cond, chain: Sequence[int]) -> Any:
        key = (cond, tuple(chain))
        if key not in self.conds:
            self.conds[key] = self.space.where(cond, chain)
        return self.conds[key]
