"""Whether barriers at some places are enough, whatever is waited for where.

Needs   a graph, its target, the places where barriers may stand
Gives   `BarrierJudge`: the verifier's word on a set of barriers, as placement asks for it
Keeps   everything is drained and the lanes of each wave meet at every place, barrier or not: a set that is refused is
        not enough with any waits and fences
Cost    a proof for each new set, up to `MOST_WORK` points in all
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidegate.graph import model as g
from tidegate.graph.plan import Insert, Plan
from tidegate.language.ops import Fence, SharedMemoryBarrier, SyncOp
from tidegate.placement.need import COPIES, LANES, ORDINARY, copy_counters, drain_ops
from tidegate.targets import Target
from tidegate.verify.prover import Prover

MOST_WORK = 8_000  # points of all graphs that are proved


class BarrierJudge:
    """Counts the points of what it proves; `is_tired` when that is enough."""

    def __init__(self, graph: g.SyncGraph, target: Target, places: Iterable[int], most: int = MOST_WORK) -> None:
        self.graph, self.target, self.places = graph, target, sorted(places)
        self.prover = Prover(graph, target)
        self.known: dict[tuple[int, ...], bool] = {}
        self.work, self.most = 0, most
        self.drains = self._drains()

    @property
    def is_tired(self) -> bool:
        return self.work >= self.most

    def proves(self, barriers: Mapping[int, int]) -> bool:
        key = tuple(sorted(point for point, count in barriers.items() if count))
        if key not in self.known:
            self.known[key] = self._ask(frozenset(key))
        return self.known[key]

    def _ask(self, barriers: frozenset[int]) -> bool:
        edits = []
        for place in self.places:
            edits += [Insert(place, op) for op in self.drains]
            if place in barriers:
                edits.append(Insert(place, SharedMemoryBarrier(wait_async_ops=True)))
        self.work += len(self.graph.points)
        return self.prover.is_ordered(Plan(tuple(edits)))

    def _drains(self) -> tuple[SyncOp, ...]:
        """All that the target can wait for and fence without a barrier."""
        counters = copy_counters(self.graph)
        wanted = ({ORDINARY}, {COPIES}, {LANES})
        found = [drain_ops(self.target, each, counters, within_a_wave=True) or () for each in wanted]
        fences = (Fence("proxy_async"),) if "proxy_async" in self.target.fence.kinds else ()
        return (*(op for several in found for op in several), *fences)
