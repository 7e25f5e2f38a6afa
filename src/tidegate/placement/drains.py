"""What each barrier has to drain, and waits where no barrier is needed: the weakest kind that is enough.

Needs   hazards, and where waves meet: what is put in, and what stands there
Gives   for each arrival what is drained before it; waits for hazards within one wave; hazards that nothing serves
Keeps   a drain stands at the latest arrival that is early enough; a copy is waited for with the largest count that is
        certain to perform it: on no walk from it to there are fewer instructions, or groups, younger than it
Cost    a search for each hazard, and one more for each drain and each smaller count

A bare barrier comes first. A walk on which a producer is still in flight when it has to be performed asks for a drain
before one arrival on it. What stands in the program and drains too little is upgraded, never doubled; counts that stand
there stay, and a wait of its own is put beside them.

    copy %a[(%k + 2) mod 3]      vmcnt  1 and 1     on the way round to the barrier one younger copy is certain to
    barrier                      vmcnt(1)           have been issued: a count of 1 waits for the older one alone
    read %a[%k mod 3]
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.graph import model as g
from tidegate.hazards.facts import ACROSS
from tidegate.hazards.model import Hazard
from tidegate.language.ops import Fence as FenceOp
from tidegate.language.ops import SharedMemoryBarrier, Signal, SyncOp, WaitCount
from tidegate.placement.events import Arrive, Depart, Event, all_events
from tidegate.placement.need import (
    COPIES,
    LANES,
    ORDINARY,
    PROXY,
    UNCOUNTED,
    Need,
    drain_events,
    drain_ops,
    least_counts,
)
from tidegate.placement.walks import Walk, Walks
from tidegate.targets import Target

MOST_TRIES = 4_000  # hazards times barriers, beyond which nothing is taken back

Meets = Mapping[int, Sequence[Event]]  # point → arrivals and departures that are put before it


@dataclass(slots=True)
class Drains:
    """What is drained where, by the point before which an arrival is put or at which one stands."""

    at_new: dict[int, Need] = field(default_factory=dict)
    at_old: dict[int, Need] = field(default_factory=dict)
    waits: dict[int, tuple[SyncOp, ...]] = field(default_factory=dict)  # put before a point, for its wave alone
    failed: list[Hazard] = field(default_factory=list)
    served: list[tuple[Hazard, frozenset[int]]] = field(default_factory=list)  # with the nodes where walks become so
    asked: dict[int, list[Hazard]] = field(default_factory=dict)  # point → hazards that asked for what is drained there
    counts: dict[tuple[int, str], set[int]] = field(default_factory=dict)  # point and counter → counts asked for


def find_drains(
    walks: Walks, hazards: Sequence[Hazard], meets: Meets, slots: Container[int], partly: Sequence[Hazard] = ()
) -> Drains:
    """Hazards between waves first: what they drain may be enough for those within one.

    `partly`: hazards that only some walks follow, nobody knows which: every barrier between their ends drains for them.
    """
    finder = _Finder(walks, meets, slots)
    for hazard in partly:
        finder.ask_all(hazard)
    return finder.find(sorted(hazards, key=lambda each: each.demand == 0))


def put_before(walks: Walks, meets: Meets, drains: Drains) -> dict[int, tuple[Event, ...]]:
    """Everything that is put before nodes, as a walk meets it."""
    points = {*meets, *drains.waits, *drains.at_old}
    return {node: events for point in points for node, events in put_at(walks, meets, drains, point)}


def put_at(walks: Walks, meets: Meets, drains: Drains, point: int) -> Iterator[tuple[int, tuple[Event, ...]]]:
    """What is put before the nodes of one point: arrivals, the first one drained, then waits."""
    found: list[Event] = []
    drained = False
    events = meets.get(point, ())
    for place, event in enumerate(events):
        if isinstance(event, Arrive) and not drained:
            whole = events[place + 1 : place + 2] == (Depart(event.barrier),)
            need = drains.at_new.get(point, Need())
            # A barrier that drains all copies drains LDS as well.
            words = need.words | {ORDINARY} if whole and COPIES in need.words else need.words
            found += drain_events(walks.target, Need(words, need.counts), whole)
            drained = True
        found.append(event)
    found += all_events(drains.waits.get(point, ()))
    found += drain_events(walks.target, drains.at_old.get(point, Need()), not is_signal(walks.flow.graph.points[point]))
    for node in walks.nodes[point]:
        yield node, tuple(found)


def meetings(drains: Drains) -> set[int]:
    """Points where a barrier stands among the waits, for want of a wait that would do."""
    return {point for point, waits in drains.waits.items() if any(isinstance(op, SharedMemoryBarrier) for op in waits)}


def is_signal(point: g.Point) -> bool:
    return isinstance(point.action, g.Sync) and isinstance(point.action.op, Signal)


def has_wait(target: Target, hazard: Hazard) -> bool:
    """Whether a target can perform the first of two accesses of one wave without a barrier."""
    return drain_ops(target, _needed(hazard), hazard.performed.counters, within_a_wave=True) is not None


class _Finder:
    def __init__(self, walks: Walks, meets: Meets, slots: Container[int]) -> None:
        self.walks, self.meets, self.slots = walks, meets, slots
        self.drains = Drains()
        self.before = put_before(walks, meets, self.drains)

    def find(self, hazards: Sequence[Hazard]) -> Drains:
        for hazard in hazards:
            while isinstance(walk := self.walks.served_at(hazard, self.before), Walk):
                if not self.serve(hazard, walk):
                    self.drains.failed.append(hazard)
                    break
            else:
                self.drains.served.append((hazard, walk))
        self.weaken()
        return self.drains

    def ask_all(self, hazard: Hazard) -> None:
        """Asks every arrival between the ends of a hazard to drain, as if nothing were younger than its producer."""
        flow, own = self.walks.flow, self.walks.own
        behind = g.reached_from(flow.successors[hazard.producer], flow.successors)
        before = g.reached_from([hazard.consumer], flow.before)
        for node in sorted(behind & before):
            point = flow.origin[node]
            if any(isinstance(event, Arrive) for event in self.meets.get(point, ())):
                self.ask(hazard, point, True, 0)
            if self.walks.uniform[node] and any(isinstance(event, Arrive) for event in own.get(node, ())):
                self.ask(hazard, point, False, 0)

    def serve(self, hazard: Hazard, walk: Walk) -> bool:
        """Puts in something more for a walk; whether there is anything."""
        met = hazard.demand > 0 and self.at_arrival(hazard, walk)
        return met or (not hazard.pairs & ACROSS and self.within_a_wave(hazard, walk))

    def weaken(self) -> None:
        """Takes back what drains and waits that came later have made needless: drains first."""
        drains = self.drains
        count = len(drains.at_new) + len(drains.at_old) + len(drains.waits)
        if count < 2 or len(drains.served) * count > MOST_TRIES:
            return
        for point, need in (*drains.at_new.items(), *drains.at_old.items()):
            for each in sorted(need.words - {UNCOUNTED}):
                if not self.is_enough_with(point, need, need.words - {each}) and each == COPIES:
                    # What waits for all copies drains LDS as well: perhaps that is what is needed.
                    self.is_enough_with(point, need, need.words - {COPIES} | {ORDINARY, UNCOUNTED})
            if ORDINARY not in need.words:
                need.words.discard(UNCOUNTED)
            for name in sorted(need.counts):
                self.loosen(point, need, name)
        for point, waits in list(drains.waits.items()):
            for op in waits:
                self.waits_enough(point, tuple(each for each in drains.waits[point] if each is not op))
            counted = [op for op in drains.waits[point] if isinstance(op, WaitCount)]
            for counting in counted[0].counts if counted else ():
                self.without_count(point, counting)

    def without_count(self, point: int, count: tuple[str, int]) -> None:
        """Waits for one counter less, if that is enough."""
        waits = self.drains.waits[point]
        wait = next(op for op in waits if isinstance(op, WaitCount))
        fewer = tuple(each for each in wait.counts if each != count)
        if fewer:
            self.waits_enough(point, tuple(WaitCount(fewer) if op is wait else op for op in waits))

    def waits_enough(self, point: int, waits: tuple[SyncOp, ...]) -> bool:
        """Puts other waits before a point, if that is enough."""
        known = self.drains.waits[point]
        self.drains.waits[point] = waits
        if self.is_enough(point):
            return True
        self.drains.waits[point] = known
        self.update(point)
        return False

    def is_enough_with(self, point: int, need: Need, words: set[str]) -> bool:
        """Drains other kinds, if that is enough."""
        known, need.words = need.words, words
        if self.is_enough(point):
            return True
        need.words = known
        self.update(point)
        return False

    def loosen(self, point: int, need: Need, name: str) -> None:
        """No count, or the largest that somebody asked for and that is still enough."""
        known = need.counts.pop(name)
        if self.is_enough(point):
            return
        asked = self.drains.counts.get((point, name), set())
        for count in sorted((each for each in asked if each > known), reverse=True):
            need.counts[name] = count
            if self.is_enough(point):
                return
        need.counts[name] = known
        self.update(point)

    def is_enough(self, point: int) -> bool:
        """Whether all that is served stays so, now that less is put at a point. Who asked for it is asked first."""
        self.update(point)
        asked = self.drains.asked.get(point, ())
        if any(self.walks.unserved(each, self.before) is not None for each in asked):
            return False
        served: list[tuple[Hazard, frozenset[int]]] = []
        for hazard, _ in self.drains.served:
            found = self.walks.served_at(hazard, self.before)
            if isinstance(found, Walk):
                return False
            served.append((hazard, found))
        self.drains.served = served
        return True

    def update(self, point: int) -> bool:
        self.before.update(put_at(self.walks, self.meets, self.drains, point))
        return True

    def at_arrival(self, hazard: Hazard, walk: Walk) -> bool:
        """Asks the last arrival on a walk that is early enough to drain; an earlier one if that is not enough."""
        arrivals = self.arrivals(hazard, walk)
        left = range(len(arrivals), 0, -1)  # arrivals from each of them on
        early = [
            each for each, count in zip(arrivals, left, strict=True) if count >= self.arrivals_from(hazard, each[0])
        ]
        return any(self.ask(hazard, *each) for each in reversed(early)) or self.fence_at(hazard, walk)

    def arrivals_from(self, hazard: Hazard, point: int) -> int:
        """How many arrivals a producer takes that is drained at one: fewer where no stagger is open yet."""
        nodes = self.walks.nodes[point] if hazard.demand > 1 else ()
        return min(hazard.demand, max((self.walks.need(hazard.pairs, node) for node in nodes), default=1))

    def need(self, hazard: Hazard, younger: int) -> Need:
        """What performs a producer for certain where so much is younger than it."""
        words, count = _needed(hazard), self.walks.count_for(hazard, younger)
        return Need(words) if count is None else Need(words - {COPIES}, dict((count,)))

    def fence_at(self, hazard: Hazard, walk: Walk) -> bool:
        """A copy is waited for at a barrier: who comes behind it fences, as late as can be."""
        if not (hazard.performed.needs_fence and hazard.performed.is_async):
            return False
        point, _ = self.latest(hazard, walk)
        return point >= 0 and self.put_wait(hazard, point, (FenceOp("proxy_async"),))

    def latest(self, hazard: Hazard, walk: Walk) -> tuple[int, int]:
        """The last point of a walk before which something can be put, or -1; and what is younger than its producer."""
        flow = self.walks.flow
        passed = self.walks.younger_on(hazard, walk.nodes)
        for node, younger in zip(reversed(walk.nodes), reversed(passed), strict=True):
            # In a divergent region only some of the lanes would meet.
            some_lanes = hazard.demand == 0 and flow.point(node).under == "divergent"
            if flow.point(node).insertable and not some_lanes:
                return flow.origin[node], younger
        return -1, 0

    def ask(self, hazard: Hazard, point: int, is_new: bool, younger: int) -> bool:
        """Asks an arrival to drain for a hazard; whether it can, and that is new."""
        need = self.need(hazard, younger)
        need.words.discard(LANES)  # whoever arrives meets them
        needed = need.words
        here = self.walks.flow.graph.points[point]
        if not is_new and not here.insertable and (PROXY in needed or is_signal(here)):
            return False  # what it takes cannot be put before it
        alone = self.is_alone(point) if is_new else is_signal(here)
        if alone and drain_ops(self.walks.target, needed, hazard.performed.counters, False) is None:
            return False
        if not is_new and not here.insertable and need.counts and has_counts(here):
            return False  # counts that stand there stay
        known = self.drains.at_new if is_new else self.drains.at_old
        if known.get(point, Need()).holds(need) or (not is_new and self.drained_at(point).holds(need)):
            return False
        known.setdefault(point, Need()).add(need)
        for name, count in need.counts.items():
            self.drains.counts.setdefault((point, name), set()).add(count)
        self.drains.asked.setdefault(point, []).append(hazard)
        return self.update(point)

    def drained_at(self, point: int) -> Need:
        """What a barrier that stands in the program drains anyway."""
        action = self.walks.flow.graph.points[point].action
        if not isinstance(action, g.Sync) or not isinstance(action.op, SharedMemoryBarrier):
            return Need()
        copies = {COPIES} if action.op.wait_async_ops else set()
        zeros = dict.fromkeys(self.walks.target.counters if copies else (), 0)
        return Need({ORDINARY, UNCOUNTED} | copies, {**dict(action.op.counts), **zeros})

    def is_alone(self, point: int) -> bool:
        """Whether what is put before a point signals there, and waits elsewhere."""
        events = list(self.meets.get(point, ()))
        return any(
            isinstance(a, Arrive) and b != Depart(a.barrier) for a, b in zip(events, [*events[1:], None], strict=True)
        )

    def arrivals(self, hazard: Hazard, walk: Walk) -> list[tuple[int, bool, int]]:
        """Where the barriers that a walk meets were arrived at: points, whether they are put there, what is younger."""
        pending: dict[int | str, tuple[int, bool, int]] = {}
        found: list[tuple[int, bool, int]] = []
        for node, younger in zip(walk.nodes, self.walks.younger_on(hazard, walk.nodes), strict=True):
            point = self.walks.flow.origin[node]
            own = self.walks.own.get(node, ()) if node != walk.nodes[-1] else ()
            for events, is_new in ((self.meets.get(point, ()), True), (own, False)):
                for event in events if self.walks.uniform[node] else ():
                    if isinstance(event, Arrive):
                        pending[event.barrier] = (point, is_new, younger)
                    elif isinstance(event, Depart) and event.barrier in pending:
                        found.append(pending.pop(event.barrier))
        return found

    def within_a_wave(self, hazard: Hazard, walk: Walk) -> bool:
        """A wait at the latest place on a walk; if the target has none that helps, a barrier that drains."""
        points = list(dict.fromkeys(self.walks.flow.origin[node] for node in reversed(walk.nodes)))
        return (
            self.wait_at(hazard, walk)
            or self.drain_more(hazard, walk)
            or self.fence_at(hazard, walk)
            or self.meet_at(hazard, points)
        )

    def wait_at(self, hazard: Hazard, walk: Walk) -> bool:
        """For whichever wave comes there."""
        point, younger = self.latest(hazard, walk)
        need = self.need(hazard, younger)
        counters, counted = hazard.performed.counters, need.all_counts
        wait = drain_ops(self.walks.target, need.words, counters, counted=counted, within_a_wave=True)
        known = self.drains.waits.get(point, ())
        if wait is None or point < 0 or not self.put_wait(hazard, point, wait):
            return False
        left = self.walks.unserved(hazard, self.before)
        if left is None or left.nodes != walk.nodes:
            return True
        self.drains.waits[point] = known
        self.update(point)  # a copy that is in no group yet
        return False

    def put_wait(self, hazard: Hazard, point: int, wait: tuple[SyncOp, ...]) -> bool:
        """Waits before a point, those for counts as one; fences stand behind what is waited for."""
        known = self.drains.waits.get(point, ())
        after = _together((*known, *wait))
        if after == known:
            return False
        self.drains.waits[point] = after
        self.drains.asked.setdefault(point, []).append(hazard)
        return self.update(point)

    def drain_more(self, hazard: Hazard, walk: Walk) -> bool:
        """The last barrier on a walk that can."""
        return any(self.ask(hazard, *each) for each in reversed(self.arrivals(hazard, walk)))

    def meet_at(self, hazard: Hazard, points: list[int]) -> bool:
        full = SharedMemoryBarrier(wait_async_ops=hazard.performed.is_async)
        return any(self.put_wait(hazard, point, (full,)) for point in points if point in self.slots)


def _together(ops: Sequence[SyncOp]) -> tuple[SyncOp, ...]:
    """Each operation once, and one wait for the least of each count."""
    counts = least_counts(*(op.counts for op in ops if isinstance(op, WaitCount)))
    wait = (WaitCount(tuple(sorted(counts.items()))),) if counts else ()
    others = dict.fromkeys(op for op in ops if not isinstance(op, WaitCount))
    return tuple(sorted((*wait, *others), key=_is_proxy_fence))


def has_counts(point: g.Point) -> bool:
    """Whether counts stand there."""
    return isinstance(point.action, g.Sync) and bool(getattr(point.action.op, "counts", ()))


def _is_proxy_fence(op: SyncOp) -> bool:
    return isinstance(op, FenceOp) and op.kind == "proxy_async"


def _needed(hazard: Hazard) -> set[str]:
    performed = hazard.performed
    lanes = set() if hazard.demand or performed.in_one_lane else {LANES}
    if not hazard.demand and performed.in_turn:
        return lanes
    needed = {COPIES} if performed.is_async else set() if performed.by_arrival and hazard.demand else {ORDINARY}
    if ORDINARY in needed and not performed.counters:
        needed |= {UNCOUNTED}
    if performed.needs_fence and not performed.is_async:
        needed = {PROXY}
    return needed | lanes
