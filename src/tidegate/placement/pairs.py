"""Barriers pulled apart: signal as early, wait as late as the hazards allow.

Needs   barriers that serve all hazards, as few as there can be
Gives   signals and waits, no more of them than barriers, with as much between the two as there can be
Keeps   every hazard is served; on every path signals and waits take turns; the two of a pair stand in one region, or on
        both sides of a loop's end, then with a signal before the loop and a wait behind it
Cost    for each barrier a search for each step up and down, over the hazards that it serves

    shared_memory_barrier        signal                 wait           signal before the loop, wait behind it
    global_read                  global_read            local_read
    local_read           or      wait           or      local_write
    local_write                  local_read             signal
    mma                          ...                    mma

A pair covers no more than a barrier at either of its places would, so the fewest pairs are as many as the fewest
barriers. A copy has to be waited for before the signal, so a barrier that serves one is left whole, at its latest.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tidegate.graph import model as g
from tidegate.hazards.find import Hazards
from tidegate.hazards.model import Hazard
from tidegate.hazards.regions import Region, Regions
from tidegate.placement.anywhere import Slots
from tidegate.placement.events import MEET, Arrive, Barrier, Depart, Event
from tidegate.placement.walks import Walk, Walks

WHOLE = -1  # the barrier that every target with split pairs has
UP, DOWN = Arrive(WHOLE), Depart(WHOLE)


def split(
    found: Hazards,
    walks: Walks,
    slots: Slots,
    hazards: Sequence[Hazard],
    meets: Mapping[int, Sequence[Event]],
    names: tuple[str, ...] = (),
    paid: frozenset[int] = frozenset(),
) -> dict[int, tuple[Event, ...]]:
    """The same barriers as pairs, some of them on barriers of their own. What cannot be taken apart stays.

    `paid`: loops whose pair may reach round their end even if the pair around the loop is one arrival more.
    """
    whole = {point: tuple(events) for point, events in meets.items()}
    if found.regions is None or walks.flow.closed or not take_turns(walks, {}):
        return whole
    splitter = _Splitter(
        found.regions, walks, slots, hazards, whole, names if ends_once(walks) and not walks.halves else (), paid
    )
    splitter.run()
    result = {point: events for point, events in splitter.events.items() if events}
    before = slots_before(slots, result)
    works = take_turns(walks, before) and all(walks.is_served(each, before, drained=True) for each in hazards)
    return result if works else whole


def slots_before(slots: Slots, events: Mapping[int, tuple[Event, ...]]) -> dict[int, tuple[Event, ...]]:
    return {node: each for point, each in events.items() for node in slots.nodes[point]}


@dataclass(slots=True)
class _Pair:
    """Where a pair stands: points, in one region."""

    region: int
    signal: int
    wait: int


class _Splitter:
    def __init__(
        self,
        regions: Regions,
        walks: Walks,
        slots: Slots,
        hazards: Sequence[Hazard],
        meets: Mapping[int, tuple[Event, ...]],
        names: tuple[str, ...],
        paid: frozenset[int],
    ) -> None:
        self.regions, self.walks, self.slots, self.paid = regions, walks, slots, paid
        self.events: dict[int, tuple[Event, ...]] = dict(meets)
        self.before = slots_before(slots, self.events)
        self.weight = 0.0  # of signals, from here on
        self.names = list(names)  # that are left for barriers of their own
        self.undo: list[tuple[int, tuple[Event, ...]]] = []  # what stood where before each change
        self.lines: dict[int, list[tuple[int, int]]] = {}  # region → (place, point) of its own slots
        for point, nodes in slots.nodes.items():
            node = nodes[0]
            if len(nodes) == 1 and node not in walks.head_of:
                region = regions.region_of[node]
                self.lines.setdefault(region, []).append((regions.place[node], point))
        for line in self.lines.values():
            line.sort()
        self.stands = sorted(
            regions.place[node]
            for node, events in walks.own.items()
            if node in regions.place and any(isinstance(each, Arrive | Depart) for each in events)
        )
        # Half of the waves arrive at the same barrier there.
        self.stands += [regions.place[node] for node in walks.halves if node in regions.place]
        self.stands.sort()
        self.used = sorted(self.place(point) for point, each in self.events.items() if each)
        self.served: dict[int, list[Hazard]] = {}  # point → hazards served there
        for hazard in hazards:
            at = walks.served_at(hazard, self.before, drained=True)
            for node in () if isinstance(at, Walk) else at:
                self.served.setdefault(walks.flow.origin[node], []).append(hazard)

        self.serving = sorted((self.place(point), point) for point in self.served if point in slots.nodes)

    def run(self) -> None:
        order = sorted(self.events, key=self.place)
        pairs = [pair for point in order if (pair := self.pull(point)) is not None]
        by_region: dict[int, list[_Pair]] = {}
        for pair in pairs:
            by_region.setdefault(pair.region, []).append(pair)
        for pair in sorted(pairs, key=lambda each: -self.regions.depth[each.region]):
            if pair in by_region[pair.region]:  # one that an inner loop has made needless is gone
                parent = self.regions.regions[pair.region].parent
                self.wrap(pair, by_region.setdefault(parent, []))

    def place(self, point: int) -> int:
        return self.regions.place[self.slots.nodes[point][0]]

    # --- within a region ---

    def pull(self, point: int) -> _Pair | None:
        """Moves the signal of a barrier up and its wait down."""
        region = self.regions.region_of[self.slots.nodes[point][0]]
        hazards = self.served.get(point, [])
        if self.events[point] != MEET or any(each.performed.is_async for each in hazards):
            return None
        self.put(point, ())
        pair = self.stretch(_Pair(region, point, point), hazards, WHOLE)
        if self.names:
            # Another barrier may be signalled and waited for in between: then one of its own reaches further.
            name = self.names[0]
            wider = self.stretch(_Pair(region, point, point), hazards, name)
            if self.slack(wider) > self.slack(pair):
                self.names.pop(0)
                self.add_pair(wider.signal, wider.wait, name)
                return None
        self.add_pair(pair.signal, pair.wait)
        return pair

    def slack(self, pair: _Pair) -> int:
        return self.place(pair.wait) - self.place(pair.signal)

    def stretch(self, pair: _Pair, hazards: Sequence[Hazard], barrier: Barrier) -> _Pair:
        """A pair as far apart as its hazards allow, and other signals and waits if it is the workgroup's barrier."""
        place = self.place(pair.signal)
        for signal in self.upwards(pair.region, place, barrier):
            if not self.works(hazards, signal, pair.wait, barrier):
                break
            pair.signal = signal
        for wait in self.downwards(pair.region, place, barrier):
            if not self.works(hazards, pair.signal, wait, barrier):
                break
            pair.wait = wait
        return pair

    def upwards(self, region: int, place: int, barrier: Barrier = WHOLE) -> list[int]:
        """Points of a region's own sequence before a place, up to where waves meet otherwise."""
        line = self.lines.get(region, [])
        at = bisect_left(line, (place, -1))
        found = []
        for where, point in reversed(line[:at]):
            if barrier == WHOLE and self.meets_between(where, place):
                break
            found.append(point)
            if barrier == WHOLE and self.events.get(point):
                break
        return found

    def downwards(self, region: int, place: int, barrier: Barrier = WHOLE) -> list[int]:
        line = self.lines.get(region, [])
        at = bisect_left(line, (place + 1, -1))
        found = []
        for where, point in line[at:]:
            if barrier == WHOLE and self.meets_between(place, where):
                break
            found.append(point)
            if barrier == WHOLE and self.events.get(point):
                break
        return found

    def meets_between(self, first: int, last: int) -> bool:
        """Whether anything behind one place and before the other meets: what stands there, or is put there."""
        stands = bisect_left(self.stands, last) - bisect_left(self.stands, first)
        return stands > 0 or bisect_left(self.used, last) > bisect_left(self.used, first + 1)

    def works(self, hazards: Sequence[Hazard], signal: int, wait: int, barrier: Barrier = WHOLE) -> bool:
        kept = {each: self.events.get(each, ()) for each in (signal, wait)}
        self.add_pair(signal, wait, barrier)
        served = all(self.walks.is_served(each, self.before, drained=True) for each in hazards)
        for point, events in kept.items():
            self.put(point, events)
        return served

    def add_pair(self, signal: int, wait: int, barrier: Barrier = WHOLE) -> None:
        if signal == wait:
            self.put(signal, (*self.events.get(signal, ()), Arrive(barrier), Depart(barrier)))
            return
        self.put(signal, (*self.events.get(signal, ()), Arrive(barrier)))
        self.put(wait, (Depart(barrier), *self.events.get(wait, ())))

    def put(self, point: int, events: tuple[Event, ...]) -> None:
        place, old = self.place(point), self.events.get(point, ())
        if events and not old:
            insort(self.used, place)
        elif old and not events:
            del self.used[bisect_left(self.used, place)]
        self.weight += self.slots.weight[point] * (events.count(UP) - old.count(UP))
        self.undo.append((point, old))
        self.events[point] = events
        for node in self.slots.nodes[point]:
            self.before[node] = events

    # --- round a loop ---

    def wrap(self, pair: _Pair, around_it: list[_Pair]) -> None:
        """Takes a loop's first or last pair round its end, if that leaves more between: the signal of the first moves
        to the end of the iteration before, the wait of the last to the start of the one behind."""
        region = self.regions.regions[pair.region]
        around = self.outside(region) if region.loop >= 0 else None
        if around is None:
            return
        is_first = not self.meets_between(region.first - 1, self.place(pair.signal))
        if is_first and self.goes_round(region, pair, around, around_it, self.signal_earlier):
            return
        if not self.meets_between(self.place(pair.wait), region.last):
            self.goes_round(region, pair, around, around_it, self.wait_later)

    def goes_round(
        self,
        region: Region,
        pair: _Pair,
        around: tuple[int, int],
        around_it: list[_Pair],
        move: Callable[[Region, _Pair, Sequence[Hazard]], int],
    ) -> bool:
        """Moves one half of a pair, and puts a pair around the loop. Undone if that is not better, or costs more."""
        beside = sorted(around_it, key=lambda each: abs(self.place(each.wait) - region.first))[:4]
        hazards = list(dict.fromkeys(h for each in (pair, *beside) for h in self.served_near(each)))
        weight, changes = self.weight, len(self.undo)
        prologue, epilogue = around
        self.take(pair)
        self.put(prologue, (*self.events.get(prologue, ()), UP))
        self.put(epilogue, (DOWN, *self.events.get(epilogue, ())))
        if move(region, pair, hazards) > self.slack(pair):
            gone = self.drop_others(beside, hazards)
            if (self.weight <= weight or region.loop in self.paid) and self.all_served(hazards):
                for each in gone:
                    around_it.remove(each)
                self.pull_around(region.parent, prologue, epilogue, hazards)
                return True
        for point, events in reversed(self.undo[changes:]):
            self.put(point, events)
        return False

    def signal_earlier(self, region: Region, pair: _Pair, hazards: Sequence[Hazard]) -> int:
        """Puts a pair's signal at the end of a body, as early as everything stays served there; what lies between the
        two then, or -1."""
        self.put(pair.wait, (DOWN, *self.events.get(pair.wait, ())))
        best = None
        for point in self.upwards(region.number, region.last):
            if not self.holds(point, (*self.events.get(point, ()), UP), hazards):
                break
            best = point
        if best is None:
            return -1
        self.put(best, (*self.events.get(best, ()), UP))
        return region.last - self.place(best) + self.place(pair.wait) - region.first

    def wait_later(self, region: Region, pair: _Pair, hazards: Sequence[Hazard]) -> int:
        """Puts a pair's wait at the start of a body, as late as everything stays served there; what lies between the
        two then, or -1."""
        self.put(pair.signal, (*self.events.get(pair.signal, ()), UP))
        best = None
        for point in self.downwards(region.number, region.first - 1):
            if not self.holds(point, (DOWN, *self.events.get(point, ())), hazards):
                break
            best = point
        if best is None:
            return -1
        self.put(best, (DOWN, *self.events.get(best, ())))
        return region.last - self.place(pair.signal) + self.place(best) - region.first

    def holds(self, point: int, events: tuple[Event, ...], hazards: Sequence[Hazard]) -> bool:
        """Whether hazards are served with other events before a point; what stands there stays."""
        kept = self.events.get(point, ())
        self.put(point, events)
        served = self.all_served(hazards)
        self.put(point, kept)
        return served

    def pull_around(self, parent: int, prologue: int, epilogue: int, hazards: Sequence[Hazard]) -> None:
        """Moves the signal before a loop up, and the wait behind it down."""
        for point in self.upwards(parent, self.place(prologue)):
            if not self.moves(UP, prologue, point, hazards):
                break
            prologue = point
        for point in self.downwards(parent, self.place(epilogue)):
            if not self.moves(DOWN, epilogue, point, hazards):
                break
            epilogue = point

    def moves(self, event: Event, old: int, new: int, hazards: Sequence[Hazard]) -> bool:
        """Moves one half of a pair to another point, if everything stays served."""
        kept = {each: self.events.get(each, ()) for each in (old, new)}
        if event == UP:
            self.put(old, _without(self.events[old], UP))
            self.put(new, (*self.events.get(new, ()), UP))
        else:
            self.put(old, _without(self.events[old], DOWN))
            self.put(new, (DOWN, *self.events.get(new, ())))
        if self.all_served(hazards):
            return True
        for point, events in kept.items():
            self.put(point, events)
        return False

    def served_near(self, pair: _Pair) -> list[Hazard]:
        """The hazards that were served where the pair stands now."""
        low = bisect_left(self.serving, (self.place(pair.signal), -1))
        high = bisect_left(self.serving, (self.place(pair.wait) + 1, -1))
        return [each for _, point in self.serving[low:high] for each in self.served[point]]

    def outside(self, region: Region) -> tuple[int, int] | None:
        """The points right before and right behind a loop."""
        before = self.upwards(region.parent, region.first)
        behind = self.downwards(region.parent, region.last - 1)
        return (before[0], behind[0]) if before and behind else None

    def take(self, pair: _Pair) -> None:
        """Takes a pair away."""
        if pair.signal == pair.wait:
            events = list(self.events[pair.signal])
            at = next(i for i in range(len(events) - 1) if events[i : i + 2] == list(MEET))
            self.put(pair.signal, tuple(events[:at] + events[at + 2 :]))
            return
        self.put(pair.signal, _without(self.events[pair.signal], UP))
        self.put(pair.wait, _without(self.events[pair.wait], DOWN))

    def drop_others(self, beside: list[_Pair], hazards: Sequence[Hazard]) -> list[_Pair]:
        """Takes away pairs around a loop that its new signal and wait have made needless."""
        gone = []
        for other in beside:
            kept = {point: self.events[point] for point in (other.signal, other.wait)}
            self.take(other)
            if self.all_served(hazards):
                gone.append(other)
                continue
            for point, events in kept.items():
                self.put(point, events)
        return gone

    def all_served(self, hazards: Sequence[Hazard]) -> bool:
        return all(self.walks.is_served(each, self.before, drained=True) for each in hazards)


def _without(events: tuple[Event, ...], gone: Event) -> tuple[Event, ...]:
    """Without one half of a pair: the last signal, or the first wait."""
    at = len(events) - 1 - events[::-1].index(gone) if gone == UP else events.index(gone)
    return (*events[:at], *events[at + 1 :])


def ends_once(walks: Walks) -> bool:
    """Whether no wave ends early: a barrier of its own would wait for it."""
    ends = [node for node in range(len(walks.flow.origin)) if isinstance(walks.flow.action(node), g.End)]
    return len(ends) == 1 and len(walks.flow.entries) == 1


def take_turns(walks: Walks, before: Mapping[int, Sequence[Event]]) -> bool:
    """Whether on every path signals and waits of each barrier take turns, and none is left over."""
    flow = walks.flow
    waiting: dict[int, frozenset[Barrier]] = {}
    stack: list[tuple[int, frozenset[Barrier]]] = [(entry, frozenset()) for entry in flow.entries]
    while stack:
        node, signalled = stack.pop()
        if node in waiting:
            if waiting[node] != signalled:
                return False
            continue
        waiting[node] = signalled
        for event in (*before.get(node, ()), *(walks.own.get(node, ()) if walks.uniform[node] else ())):
            if isinstance(event, Arrive | Depart):
                if (event.barrier in signalled) == isinstance(event, Arrive):
                    return False
                signalled = signalled ^ {event.barrier}
        if isinstance(flow.action(node), g.End) and signalled:
            return False
        stack.extend((successor, signalled) for successor in flow.successors[node])
    return True
