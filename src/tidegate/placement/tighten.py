"""Counts that stand in the program, made as loose as they can be: `--tighten-waits`.

Needs   walks over the program and what is put into it, and the hazards that are served
Gives   edits: counts that become larger, waits for all copies that become counts, waits that go
Keeps   every hazard stays served; counts of other counters than those of copies, and pinned barriers, stay
Cost    for each wait that stands there a search for each hazard, and one more for each smaller count

A count that is too large is no matter of this: what it lets go on gets a wait of its own, beside which the old one is
needless.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidegate.graph import model as g
from tidegate.graph.plan import Change, Delete, Edit
from tidegate.hazards.model import Hazard
from tidegate.language.ops import SharedMemoryBarrier, WaitCount
from tidegate.placement.events import Event, all_events
from tidegate.placement.need import copy_counters
from tidegate.placement.walks import Walk, Walks

Waiting = SharedMemoryBarrier | WaitCount
LOOSER = "as loose as all paths from the copies allow"
NEEDLESS = "the copies are complete without it"


def tighten(walks: Walks, hazards: Sequence[Hazard], before: Mapping[int, Sequence[Event]]) -> list[Edit]:
    """Edits for what stands in the program, the last wait first: what an earlier one does is done again there."""
    tightener = _Tightener(walks, hazards, before)
    points = walks.flow.graph.points
    edits: list[Edit] = []
    for number in reversed(range(len(points))):
        op = waiting_at(points[number])
        if op is not None and number in walks.nodes:
            new = tightener.loosest(number, op)
            if new is None:
                edits.append(Delete(number, (NEEDLESS,)))
            elif new != op:
                edits.append(Change(number, new, (LOOSER,)))
    return edits


def waiting_at(point: g.Point) -> Waiting | None:
    """What waits for copies at a point, and is not pinned there."""
    match point.action:
        case g.Sync(SharedMemoryBarrier(pinned=False) as op) if op.counts or op.wait_async_ops or op.async_deps:
            return op
        case g.Sync(WaitCount() as op):
            return op
    return None


class _Tightener:
    def __init__(self, walks: Walks, hazards: Sequence[Hazard], before: Mapping[int, Sequence[Event]]) -> None:
        self.walks, self.hazards, self.before = walks, hazards, before
        self.counters = set(copy_counters(walks.flow.graph))

    def loosest(self, point: int, op: Waiting) -> Waiting | None:
        """What is enough at a point; None if nothing is needed there."""
        others = tuple(each for each in op.counts if each[0] not in self.counters)
        plain = replace(op, counts=others, async_deps=())
        if isinstance(plain, SharedMemoryBarrier):
            plain = replace(plain, wait_async_ops=False)
        counts: dict[str, int] = {}
        self.put(point, plain)
        for hazard in self.hazards:
            while (walk := self.walks.unserved(hazard, self.before)) is not None:
                found = self.count(hazard, walk, point)
                if found is None or counts.get(found[0], found[1] + 1) <= found[1]:
                    self.put(point, op)  # no count does what stands there
                    return op
                counts[found[0]] = found[1]
                self.put(point, self.with_counts(plain, counts))
        new = self.with_counts(plain, counts)
        if isinstance(new, WaitCount) and not new.counts:
            for node in self.walks.nodes[point]:
                self.walks.own.pop(node, None)
            return None
        return op if _same(op, new) else new

    def with_counts(self, op: Waiting, counts: Mapping[str, int]) -> Waiting:
        return replace(op, counts=tuple(sorted({**dict(op.counts), **counts}.items())))

    def put(self, point: int, op: Waiting) -> None:
        for node in self.walks.nodes[point]:
            self.walks.own[node] = all_events((op,))

    def count(self, hazard: Hazard, walk: Walk, point: int) -> tuple[str, int] | None:
        """What a wait at a point on a walk has to count down to."""
        origin = self.walks.flow.origin
        younger = self.walks.younger_on(hazard, walk.nodes)
        here = [count for node, count in zip(walk.nodes, younger, strict=True) if origin[node] == point]
        return self.walks.count_for(hazard, here[-1]) if here else None


def _same(op: Waiting, new: Waiting) -> bool:
    """Nothing that the hardware would do otherwise: values that are named stay."""
    return op.counts == new.counts and not getattr(op, "wait_async_ops", False) and bool(op.counts)
