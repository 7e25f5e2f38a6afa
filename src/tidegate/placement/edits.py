"""Arrivals, departures and drains as edits of a program.

Needs   what is put before which point, what is drained where, and the hazards served there
Gives   a `Plan`
Keeps   the weakest operation that does it: a bare barrier where nothing is to be drained, LDS only, or copies too. A
        barrier that stands there is changed; before a pinned bare one, and before a signal, a wait is put instead,
        and where no wait will do the pinned one drains more and stays pinned
Cost    linear in the edits
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidegate.graph import model as g
from tidegate.graph.flow import Flow
from tidegate.graph.plan import Change, Delete, Edit, Insert, Plan
from tidegate.hazards.model import Hazard
from tidegate.hazards.show import name_hazard
from tidegate.language.ops import Fence as FenceOp
from tidegate.language.ops import (
    NewBarrier,
    SharedMemoryBarrier,
    Signal,
    SyncOp,
    Value,
    Wait,
    WaitCount,
    WorkgroupBarrier,
)
from tidegate.language.types import BarrierObject
from tidegate.placement.drains import Drains, Meets
from tidegate.placement.events import Arrive, Depart, Event
from tidegate.placement.need import COPIES, ORDINARY, PROXY, Need, copy_counters, drain_ops, least_counts
from tidegate.targets import Target


def make_plan(
    flow: Flow,
    target: Target,
    meets: Meets,
    drains: Drains,
    serves: Mapping[int, Sequence[Hazard]],
    removed: frozenset[int] = frozenset(),
) -> Plan:
    """Edits in the order of points."""
    writer = _Writer(flow, target)
    edits: list[Edit] = [
        Insert(flow.graph.programs[0].entry, NewBarrier(each), ("for a split pair that spans another",))
        for each in writer.named(meets)
    ]
    for point in sorted({*meets, *drains.waits, *drains.at_old, *removed}):
        reasons = (*serves.get(point, ()), *drains.asked.get(point, ()))
        why = tuple(dict.fromkeys(name_hazard(each, flow) for each in reasons))
        meet = writer.meet(meets.get(point, ()), drains.at_new.get(point, Need()))
        edits += [Insert(point, op, why) for op in meet]
        edits += [Insert(point, op, why) for op in drains.waits.get(point, ())]
        if point in drains.at_old:
            edits += writer.upgrade(point, drains.at_old[point], why)
        if point in removed:
            edits.append(Delete(point, ("redundant",)))
    return Plan(tuple(edits))


class _Writer:
    def __init__(self, flow: Flow, target: Target) -> None:
        self.flow, self.target = flow, target
        self.counters = copy_counters(flow.graph)

    def meet(self, events: Sequence[Event], need: Need) -> list[SyncOp]:
        """Barriers and halves of pairs; the first arrival drains."""
        found: list[SyncOp] = []
        rest = list(events)
        while rest:
            event = rest.pop(0)
            if isinstance(event, Depart):
                found.append(Wait(self.barrier_of(event.barrier)))
            elif isinstance(event, Arrive):
                if rest and rest[0] == Depart(event.barrier) and isinstance(event.barrier, int):
                    rest.pop(0)
                    found += self.barrier(need)
                else:
                    drained = drain_ops(self.target, need.words, self.counters, counted=need.all_counts)
                    assert drained is not None  # `find_drains` asks no signal for what cannot stand before it
                    found += drained
                    found.append(Signal(self.barrier_of(event.barrier)))
                need = Need()
        return found

    def named(self, meets: Meets) -> list[Value]:
        """The barriers of their own that are put in."""
        used = {event.barrier for events in meets.values() for event in events if isinstance(event, Arrive)}
        return [self.named_barrier(each) for each in sorted(each for each in used if isinstance(each, str))]

    def named_barrier(self, name: str) -> Value:
        return Value(name, BarrierObject("named_barrier", self.flow.graph.waves))

    def barrier_of(self, barrier: int | str) -> int | Value:
        return barrier if isinstance(barrier, int) else self.named_barrier(barrier)

    def barrier(self, need: Need) -> list[SyncOp]:
        found: list[SyncOp] = [FenceOp("proxy_async")] if PROXY in need.words else []
        if need.words & {ORDINARY, COPIES}:
            return [*found, SharedMemoryBarrier(need.all_counts, wait_async_ops=COPIES in need.words)]
        if need.counts:
            found.append(WaitCount(need.all_counts))
        return [*found, WorkgroupBarrier()]

    def upgrade(self, point: int, need: Need, why: tuple[str, ...]) -> list[Edit]:
        """Makes what stands at a point drain more. Counts that stand there stay: a wait is put beside them."""
        here = self.flow.graph.points[point]
        assert isinstance(here.action, g.Sync)
        op = here.action.op
        edits: list[Edit] = [Insert(point, FenceOp("proxy_async"), why)] if PROXY in need.words else []
        words, counts = need.words - {PROXY}, need.all_counts
        if not words and not counts:
            return edits
        alone = drain_ops(self.target, words, self.counters, in_groups=False, counted=counts)
        if not here.insertable:
            alone = None
        bare = isinstance(op, WorkgroupBarrier)
        if isinstance(op, SharedMemoryBarrier) and (alone is None or not (op.counts or op.async_deps)):
            least = tuple(sorted(least_counts(op.counts, counts).items()))
            more = replace(op, counts=least, wait_async_ops=op.wait_async_ops or COPIES in words)
            return [*edits, Change(point, more, why)]
        if isinstance(op, WorkgroupBarrier) and (alone is None or (words and not op.pinned)):
            full = SharedMemoryBarrier(counts, wait_async_ops=COPIES in words, pinned=op.pinned)
            return [*edits, Change(point, full, why)]
        assert alone is not None or not bare
        return [*edits, *(Insert(point, each, why) for each in alone or ())]
