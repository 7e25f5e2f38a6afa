"""Judge a small SyncGraph by trying everything: every order of every step of every wave.

Needs   a well-formed graph without `Havoc`, `Unknown`, `branch any` and `inexact`; its target; a value for each size
        and each free name
Gives   a `Verdict`: the pairs of points that race, meet an own copy or are inverted, and whether some run gets stuck
Keeps   no clever idea: waves are unrolled into lists of events, then a search visits every state of the workgroup. A
        step is one event of one wave, or the performance of one access in flight. What overlaps and what precedes what
        is read off the states in which accesses are issued
Cost    exponential; None where there are more than `limit` states

    wave 0   issue write | arrive 0 | depart 0 | end          a state: how far each wave is, which accesses have been
    wave 1   arrive 0 | depart 0 | issue read | end           performed, where named barriers and mbarriers stand

An event `needs` accesses of its own wave: it is enabled when all of them have been performed. What it needs follows
from the program alone, so it is worked out while the wave is unrolled.

Proxies: a state also holds which accesses had been performed when some wave last executed `fence proxy_async`. For an
access by the asynchronous proxy, ordinary ones count as performed only if they are among those. "In every run a fence
lies between" is then the same question as "in no run do they overlap". It applies to accesses of one wave, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, NamedTuple

from tidegate.graph import model as g
from tidegate.index import INDEX_TYPES, evaluate, holds
from tidegate.language import ops
from tidegate.targets import Target

LDS_OPERATIONS = ("local_read", "local_write", "atomic_add")
SIZES = {"i8": 1, "i16": 2, "f16": 2, "i32": 4, "f32": 4, "i64": 8, "f64": 8}  # bytes of an element
LONGEST_WALK = 10_000  # points; a wave that passes more will never end

Bytes = frozenset[tuple[str, int]]  # memory, address; a buffer without an offset is a memory of its own
History = tuple[tuple[tuple[tuple[int, int], ...], int], ...]  # for each call: loops with iterations, then the point


@dataclass(frozen=True)
class Verdict:
    """What some run can show: ("race" | "own" | "inversion", lower point, higher point), and whether one gets stuck."""

    findings: frozenset[tuple[str, int, int]]
    hang: bool


def judge_by_brute_force(
    graph: g.SyncGraph, target: Target, env: dict[str, int], limit: int = 200_000
) -> Verdict | None:
    """The verdict over all interleavings, or None if there are more than `limit` states."""
    seen = explore(unroll(graph, target, env), limit)
    return None if seen is None else Verdict(frozenset(_findings(graph, seen)), seen.hang)


# --- one wave after the other: its events -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Flight:
    """What is in flight from its issue until it is performed: an access, or something else that counts on a counter."""

    number: int  # its bit in every set of flights
    wave: int
    point: int
    program: int
    history: History
    access: g.Access | None
    bytes: Bytes
    issues: tuple[g.Issue, ...]
    report: tuple[int, int] | None  # the mbarrier that is told, and how many bytes
    elements: Bytes | None = None  # the first byte of each element of an atomic; None where it has no whole ones

    @property
    def is_async(self) -> bool:
        return self.access is not None and self.access.is_async

    @property
    def is_ordinary(self) -> bool:
        return self.access is not None and not self.access.is_async


@dataclass(frozen=True)
class Event:
    """One step of a wave. `kind` says what `which` and `number` mean."""

    kind: str  # issue | arrive | depart | signal | await | mbarrier_arrive | mbarrier_wait | wait | fence_proxy | end
    needs: int = 0  # the flights of this wave that must have been performed
    which: int = 0  # a flight, or a barrier
    number: int = 0  # the departure's number, the bytes to expect, the parity


@dataclass
class Machine:
    """Everything that does not change while the waves run."""

    target: Target
    flights: list[Flight] = field(default_factory=list)
    waves: list[list[Event]] = field(default_factory=list)
    barriers: dict[int, int] = field(default_factory=dict)  # id → its number
    named: dict[str, int] = field(default_factory=dict)
    mbarriers: dict[tuple[str, int], int] = field(default_factory=dict)
    arrivals: dict[str, int] = field(default_factory=dict)  # object → arrivals that complete a phase


def unroll(graph: g.SyncGraph, target: Target, env: dict[str, int]) -> Machine:
    machine = Machine(target)
    machine.arrivals = {each.name: each.type.arrivals for each in graph.objects}
    for wave in range(graph.waves):
        walk = _Walk(graph, machine, wave, {"wg0": 0, "wg1": 0, "wg2": 0, **env, "wave": wave})
        walk.run()
        machine.waves.append(walk.events)
    return machine


class _Walk:
    """One wave on its way through the graph."""

    def __init__(self, graph: g.SyncGraph, machine: Machine, wave: int, names: dict[str, int]) -> None:
        self.graph, self.machine, self.target, self.wave, self.names = graph, machine, machine.target, wave, names
        self.events: list[Event] = []
        self.flights: list[Flight] = []
        self.certain: set[Flight] = set()  # performed for sure: an earlier event needed them
        self.views: dict[str, tuple[str, int, int]] = {}  # name → memory, first byte, bytes of a slot
        for each in graph.buffers:
            apart = each.offset is None
            self.views[each.name] = (each.name if apart else "", 0 if apart else each.offset, each.slot_bytes)
        self.tokens: dict[str, frozenset[Flight]] = {}
        self.open: list[Flight] = []  # asynchronous accesses since the last `commit_group`
        self.groups: dict[str, list[list[Flight]]] = {
            name: [] for name, counter in self.target.counters.items() if counter.unit == "groups"
        }
        self.departures: dict[int, int] = {}
        self.loops: list[tuple[int, int]] = []  # loops around this point, with iterations
        self.calls: list[tuple[int, list[tuple[int, int]]]] = []  # points of calls, and the loops around them

    def run(self) -> None:
        matching = [n for n, each in enumerate(self.graph.programs) if each.first <= self.wave < each.last]
        (self.program,) = matching
        number: int | None = self.graph.programs[self.program].entry
        for _ in range(LONGEST_WALK):
            if number is None:
                return
            number = self.step(number)
        raise AssertionError("the walk does not end")

    def step(self, number: int) -> int | None:
        """Does what the point says; the next point, or None at the end."""
        self.count_loops(number)
        point = self.graph.points[number]
        match point.action:
            case g.End():
                self.add("end", (each for each in self.flights if not self.outlives_wave(each)))
                return None
            case g.Branch(cond):
                return point.successors[0 if holds(cond, self.names) else 1]
            case g.Dispatch(ranges):
                taken = [place for place, (first, last) in enumerate(ranges) if first <= self.wave < last]
                return point.successors[taken[0] if taken else -1]
            case g.Call(function, args):
                self.views.update([(name, self.place(where)) for name, where in args])
                self.calls.append((number, self.loops))
                self.loops = []
                return next(each.entry for each in self.graph.functions if each.name == function)
            case g.Return():
                number, self.loops = self.calls.pop()
                return self.graph.points[number].successors[0]
            case g.Access() as access:
                self.issue(number, point, access)
            case g.Sync(op):
                self.sync(op)
            case g.Assign(pairs):
                self.assign(pairs)
            case g.Compute() | g.Alloc() | g.Free():
                if point.issues:
                    self.issue(number, point, None)
            case _:
                raise AssertionError(f"{point.action} has no single meaning")
        return point.successors[0]

    def count_loops(self, number: int) -> None:
        around = loops_around(self.graph, number)
        while self.loops and self.loops[-1][0] not in around:
            self.loops.pop()
        if around and self.graph.loops[around[-1]].head == number:
            if self.loops and self.loops[-1][0] == around[-1]:
                loop, iteration = self.loops.pop()
                self.loops.append((loop, iteration + 1))
            else:
                self.loops.append((around[-1], 0))

    # --- names ---

    def assign(self, pairs: tuple[tuple[str, Any], ...]) -> None:
        new = [(name, value, self.value(value)) for name, value in pairs]
        for name, value, result in new:
            if isinstance(value, g.Token):
                self.tokens[name] = result
            elif isinstance(value, INDEX_TYPES):
                self.names[name] = result
            else:
                self.views[name] = result

    def value(self, value: Any) -> Any:
        if isinstance(value, g.Token):
            return self.tokens.get(value.name, frozenset())
        return evaluate(value, self.names) if isinstance(value, INDEX_TYPES) else self.place(value)

    def place(self, where: g.Where) -> tuple[str, int, int]:
        if isinstance(where, g.Either):
            return self.place(where.then if holds(where.cond, self.names) else where.otherwise)
        memory, first, slot_bytes = self.views[where.base]
        first += evaluate(where.slot, self.names) * slot_bytes + evaluate(where.offset, self.names)
        return memory, first, slot_bytes

    def bytes_of(self, foot: g.Footprint) -> Bytes:
        memory, first, _ = self.place(foot.place)
        steps = []
        for extent in foot.extents:
            count = extent.count if extent.limit is None else min(extent.count, evaluate(extent.limit, self.names))
            steps.append([place * extent.stride for place in range(count)])
        return frozenset(
            (memory, first + sum(way) + byte) for way in itertools.product(*steps) for byte in range(foot.width)
        )

    def elements_of(self, access: g.Access | None) -> Bytes | None:
        size = SIZES.get(access.element, 0) if access is not None else 0
        if access is None or not size or access.footprint.width % size:
            return None
        starts = self.bytes_of(replace(access.footprint, width=1))
        return frozenset((m, byte + k) for m, byte in starts for k in range(0, access.footprint.width, size))

    # --- accesses ---

    def issue(self, number: int, point: g.Point, access: g.Access | None) -> None:
        history = (*((tuple(loops), call) for call, loops in self.calls), (tuple(self.loops), number))
        bytes_, report = frozenset(), None
        if access is not None:
            bytes_ = self.bytes_of(access.footprint)
            if access.is_async and access.mbarrier is not None:
                size = prod(extent.count for extent in access.footprint.extents) * access.footprint.width
                report = (self.mbarrier(access.mbarrier.base, access.mbarrier.slot), size)
        where = (self.wave, number, self.program, history)
        elements = self.elements_of(access)
        flight = Flight(len(self.machine.flights), *where, access, bytes_, point.issues, report, elements)
        self.machine.flights.append(flight)
        self.flights.append(flight)
        if flight.is_async:
            self.open.append(flight)
            if access is not None and access.token:
                self.tokens[access.token] = frozenset([flight])
        self.add("issue", which=flight.number)

    def can_be_awaited(self, flight: Flight) -> bool:
        return bool(flight.issues) or not self.target.counters

    def outlives_wave(self, flight: Flight) -> bool:
        return flight.report is not None and not self.can_be_awaited(flight)

    def ordinary(self) -> list[Flight]:
        return [each for each in self.flights if each.is_ordinary]

    def on(self, counter: str) -> list[Flight]:
        return [each for each in self.flights if any(issue.counter == counter for issue in each.issues)]

    # --- synchronization ---

    def add(self, kind: str, needs: Iterable[Flight] = (), which: int = 0, number: int = 0) -> None:
        needed = set(needs)
        self.certain |= needed
        self.events.append(Event(kind, sum(1 << each.number for each in needed), which, number))

    def sync(self, op: Any) -> None:
        match op:
            case ops.SchedulingBarrier() | ops.SetWavePrio():
                pass
            case ops.NullAsyncDep(result):
                self.tokens[result.name] = frozenset()
            case ops.CommitGroup(result):
                self.commit(result)
            case ops.WorkgroupBarrier():
                self.arrive(-1)
                self.depart(-1)
            case ops.SharedMemoryBarrier(counts, wait_async_ops, async_deps):
                self.arrive(-1, [*self.drained(), *self.asked(counts, wait_async_ops, async_deps)])
                self.depart(-1)
            case ops.ConditionalBarrier(half):
                if (self.wave < self.graph.waves // 2) == (half == "low"):
                    self.arrive(-1)
                    self.depart(-1)
            case ops.WaitCount(counts, async_deps):
                self.add("wait", self.asked(counts, False, async_deps))
            case ops.Fence(kind):
                if kind == "proxy_async":
                    self.add("fence_proxy", self.ordinary())
                elif self.target.fence.wave_performs == "ordinary":
                    self.add("wait", self.ordinary())
            case ops.Signal(int(barrier)):
                self.arrive(barrier)
            case ops.Wait(int(barrier)):
                self.depart(barrier)
            case ops.Signal(barrier):
                self.add("signal", self.on_arrival(), self.named(barrier.name))
            case ops.Wait(barrier):
                self.add("await", which=self.named(barrier.name))
            case ops.MbarrierArrive(place, expect):
                self.add("mbarrier_arrive", self.on_arrival(), self.mbarrier(place.base.name, place.slot), expect)
            case ops.MbarrierWait(place, parity):
                which = self.mbarrier(place.base.name, place.slot)
                self.add("mbarrier_wait", which=which, number=evaluate(parity, self.names) % 2)
            case _:
                raise AssertionError(f"{op} is not synchronization")

    def named(self, name: str) -> int:
        return self.machine.named.setdefault(name, len(self.machine.named))

    def mbarrier(self, name: str, slot: Any) -> int:
        known = self.machine.mbarriers
        return known.setdefault((name, evaluate(slot, self.names)), len(known))

    def arrive(self, barrier: int, needs: Iterable[Flight] = ()) -> None:
        known = self.machine.barriers
        self.add("arrive", [*self.on_arrival(), *needs], known.setdefault(barrier, len(known)))

    def depart(self, barrier: int) -> None:
        known = self.machine.barriers
        self.departures[barrier] = self.departures.get(barrier, 0) + 1
        self.add("depart", which=known.setdefault(barrier, len(known)), number=self.departures[barrier])

    def on_arrival(self) -> list[Flight]:
        return self.ordinary() if self.target.barrier.performs == "ordinary" else []

    def drained(self) -> list[Flight]:
        """What `shared_memory_barrier` drains without being asked."""
        counters = {self.target.counter_of(kind) for kind in LDS_OPERATIONS} - {""}
        return [*self.ordinary(), *(each for counter in sorted(counters) for each in self.on(counter))]

    def asked(self, counts: tuple[ops.Count, ...], wait_async_ops: bool, deps: tuple[ops.Value, ...]) -> list[Flight]:
        found = [each for counter, n in counts for each in self.beyond(counter, n)]
        if wait_async_ops:
            found += [each for each in self.flights if each.is_async and self.can_be_awaited(each)]
        for value in deps:
            for flight in self.tokens.get(value.name, frozenset()):
                if self.can_be_awaited(flight):
                    found += [flight, *self.before(flight)]
        return found

    def beyond(self, counter: str, n: int) -> list[Flight]:
        """What a count of `n` waits for."""
        if counter not in self.target.counters:
            return []
        known = self.target.counters[counter]
        if known.max and n > known.max - (known.unit == "instructions"):
            return []
        if n > 0 and not self.in_turn(counter):
            return []
        if counter in self.groups:
            groups = self.groups[counter]
            return [each for group in groups[: max(0, len(groups) - n)] for each in group]
        queue = self.on(counter)
        return [each for place, each in enumerate(queue) if self.fewest(queue[place + 1 :], counter) >= n]

    def fewest(self, flights: list[Flight], counter: str) -> int:
        return sum(issue.least for each in flights for issue in each.issues if issue.counter == counter)

    def in_turn(self, counter: str) -> bool:
        """Whether what is in flight on the counter is performed in the order of issue."""
        in_flight = [each for each in self.on(counter) if each not in self.certain]
        ordered = all(issue.in_order for each in in_flight for issue in each.issues if issue.counter == counter)
        return counter in self.target.counters and self.target.counters[counter].in_order and ordered

    def before(self, flight: Flight) -> list[Flight]:
        """What has been performed when this one has, since they share a counter."""
        found: list[Flight] = []
        for counter in {issue.counter for issue in flight.issues}:
            if not self.in_turn(counter):
                continue
            if counter in self.groups:
                places = [place for place, group in enumerate(self.groups[counter]) if flight in group]
                for group in self.groups[counter][: places[0] if places else 0]:
                    found += group
            else:
                found += [each for each in self.on(counter) if each.number < flight.number]
        return found

    def commit(self, result: ops.Value | None) -> None:
        for counter, groups in self.groups.items():
            on_counter = self.on(counter)
            groups.append([each for each in self.open if each in on_counter])
        if result is not None:
            self.tokens[result.name] = frozenset(self.open)
        self.open = []


# --- all waves at once: states ------------------------------------------------------------------------------------


class State(NamedTuple):
    """Where everything stands. Sets of flights are bits of one number."""

    at: tuple[int, ...]  # for each wave, how many events have happened
    performed: int
    fenced: int  # of those performed, the ones that some `fence proxy_async` came after
    named: tuple[
        tuple[int, int, tuple[int, ...], tuple[int, ...]], ...
    ]  # complete, arrived; by wave: signalled, departed
    mbarriers: tuple[tuple[int, int, int], ...]  # complete, arrived, bytes outstanding


@dataclass
class Seen:
    """What the states have shown. For each flight, at its issue: what had been performed, what was in flight."""

    machine: Machine
    before: list[int]
    during: list[int]
    states: int = 0
    hang: bool = False


def explore(machine: Machine, limit: int) -> Seen | None:
    """Visits every state that can be reached; None if there are more than `limit`."""
    rules, count = _Rules(machine), len(machine.flights)
    seen = Seen(machine, [0] * count, [0] * count)
    start = rules.start()
    visited, work = {start}, [start]
    while work:
        state = work.pop()
        following = list(rules.steps(state, seen))
        seen.hang |= not following and not rules.all_ended(state)
        for each in following:
            if each not in visited:
                visited.add(each)
                work.append(each)
        if len(visited) > limit:
            return None
    seen.states = len(visited)
    return seen


class _Rules:
    """Which steps are possible in a state, and where they lead."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.target = machine, machine.target
        self.flights, self.waves = machine.flights, machine.waves
        self.named_arrivals = [machine.arrivals[name] for name in machine.named]
        self.mbarrier_arrivals = [machine.arrivals[name] for name, _ in machine.mbarriers]
        self.issued = [_prefixes(events, lambda e: 1 << e.which if e.kind == "issue" else 0) for events in self.waves]
        self.arrived = [
            [
                _prefixes(events, lambda e, barrier=barrier: e.kind == "arrive" and e.which == barrier)
                for barrier in range(len(machine.barriers))
            ]
            for events in self.waves
        ]
        self.unfenced = [self.needs_fence(each) for each in self.flights]

    def needs_fence(self, flight: Flight) -> int:
        """The flights that only a fence makes performed for this one."""
        access = flight.access
        if access is None or access.proxy != "async" or not self.target.fence.proxy_needed:
            return 0
        others = (each for each in self.flights if each.access is not None and each.access.proxy == "generic")
        return sum(1 << each.number for each in others)

    def start(self) -> State:
        none = (0,) * len(self.waves)
        named = tuple((0, 0, none, none) for _ in self.named_arrivals)
        return State(none, 0, 0, named, tuple((0, 0, 0) for _ in self.mbarrier_arrivals))

    def has_ended(self, state: State, wave: int) -> bool:
        return state.at[wave] == len(self.waves[wave])

    def all_ended(self, state: State) -> bool:
        return all(self.has_ended(state, wave) for wave in range(len(self.waves)))

    def all_issued(self, state: State) -> int:
        return sum(issued[at] for issued, at in zip(self.issued, state.at, strict=True))

    def steps(self, state: State, seen: Seen) -> Iterator[State]:
        """Every state that is one step away. What is in flight when something is issued is noted in `seen`."""
        in_flight = self.all_issued(state) & ~state.performed
        for flight in self.flights:
            if in_flight >> flight.number & 1:
                yield self.perform(state, flight)
        for wave, events in enumerate(self.waves):
            if self.has_ended(state, wave):
                continue
            event = events[state.at[wave]]
            if event.needs & ~state.performed == 0 and self.is_enabled(state, wave, event):
                if event.kind == "issue":
                    self.note(state, event.which, seen)
                yield self.happen(state, wave, event)

    def note(self, state: State, flight: int, seen: Seen) -> None:
        settled = state.performed & (state.fenced | ~self.unfenced[flight])
        seen.before[flight] |= settled
        seen.during[flight] |= self.all_issued(state) & ~settled

    def perform(self, state: State, flight: Flight) -> State:
        mbarriers = state.mbarriers
        if flight.report is not None:
            which, size = flight.report
            mbarriers = self.tell(mbarriers, which, 0, -size)
        return state._replace(performed=state.performed | 1 << flight.number, mbarriers=mbarriers)

    def tell(self, mbarriers: tuple[Any, ...], which: int, arrivals: int, bytes_: int) -> tuple[Any, ...]:
        """An arrival at an mbarrier, or a report to it; phases complete while they can."""
        complete, arrived, outstanding = mbarriers[which]
        arrived, outstanding = arrived + arrivals, outstanding + bytes_
        while arrived >= self.mbarrier_arrivals[which] and outstanding == 0:
            complete, arrived = complete + 1, arrived - self.mbarrier_arrivals[which]
        return _put(mbarriers, which, (complete, arrived, outstanding))

    def is_enabled(self, state: State, wave: int, event: Event) -> bool:
        match event.kind:
            case "depart":
                return all(self.lets_depart(state, other, event) for other in range(len(self.waves)))
            case "await":
                return state.named[event.which][0] >= self.awaited_phase(state, wave, event.which)
            case "mbarrier_wait":
                return state.mbarriers[event.which][0] % 2 != event.number
        return True

    def lets_depart(self, state: State, other: int, event: Event) -> bool:
        if self.target.barrier.wave_end == "leaves" and self.has_ended(state, other):
            return True
        return self.arrived[other][event.which][state.at[other]] >= event.number

    def awaited_phase(self, state: State, wave: int, which: int) -> int:
        _, _, signalled, departed = state.named[which]
        return signalled[wave] or departed[wave] + 1

    def happen(self, state: State, wave: int, event: Event) -> State:
        """The state after an event of a wave."""
        named, mbarriers, fenced = state.named, state.mbarriers, state.fenced
        match event.kind:
            case "signal":
                complete, arrived, signalled, departed = named[event.which]
                signalled, arrived = _put(signalled, wave, complete + 1), arrived + 1
                if arrived == self.named_arrivals[event.which]:
                    complete, arrived = complete + 1, 0
                named = _put(named, event.which, (complete, arrived, signalled, departed))
            case "await":
                complete, arrived, signalled, departed = named[event.which]
                departed = _put(departed, wave, self.awaited_phase(state, wave, event.which))
                named = _put(named, event.which, (complete, arrived, _put(signalled, wave, 0), departed))
            case "mbarrier_arrive":
                mbarriers = self.tell(mbarriers, event.which, 1, event.number)
            case "fence_proxy" if any(self.unfenced):
                fenced = state.performed
        return State(_put(state.at, wave, state.at[wave] + 1), state.performed, fenced, named, mbarriers)


def _prefixes(events: list[Event], worth: Any) -> list[int]:
    """What the first 0, 1, 2, ... events are worth together."""
    return list(itertools.accumulate(map(worth, events), initial=0))


def _put(items: tuple[Any, ...], place: int, item: Any) -> tuple[Any, ...]:
    return (*items[:place], item, *items[place + 1 :])


# --- verdicts -----------------------------------------------------------------------------------------------------


def _findings(graph: g.SyncGraph, seen: Seen) -> Iterator[tuple[str, int, int]]:
    accesses = [each for each in seen.machine.flights if each.access is not None]
    for x, y in itertools.combinations(accesses, 2):
        kind = _judge(graph, seen, x, y) if conflict(x, y) else ""
        if kind:
            yield kind, min(x.point, y.point), max(x.point, y.point)


def conflict(x: Flight, y: Flight) -> bool:
    assert x.access is not None
    assert y.access is not None
    effects = {x.access.effect, y.access.effect}
    if effects == {"read"} or not x.bytes & y.bytes:
        return False
    if effects != {"atomic"} or x.access.fetches or y.access.fetches:
        return True
    same = (x.access.operator, x.access.element) == (y.access.operator, y.access.element)
    if not same or x.elements is None or y.elements is None:
        return True
    size = SIZES[x.access.element]
    return any(one[0] == other[0] and 0 < abs(one[1] - other[1]) < size for one in x.elements for other in y.elements)


def _judge(graph: g.SyncGraph, seen: Seen, x: Flight, y: Flight) -> str:
    """What is wrong with two accesses that conflict; `y` has the higher number: in one wave it is issued later."""

    def holds_for(masks: list[int], early: Flight, late: Flight) -> bool:
        return bool(masks[late.number] >> early.number & 1)

    overlap = holds_for(seen.during, x, y) or holds_for(seen.during, y, x)
    if x.wave == y.wave:
        return "own" if overlap and (x.is_async or y.is_async) else ""
    forth, back = holds_for(seen.before, x, y), holds_for(seen.before, y, x)
    if overlap or (forth and back):
        return "race"
    if (back and comes_first(graph, x, y)) or (forth and comes_first(graph, y, x)):
        return "inversion"
    return ""


# --- program order ------------------------------------------------------------------------------------------------


def comes_first(graph: g.SyncGraph, x: Flight, y: Flight) -> bool:
    """Whether `x` comes before `y` in the program, where both have a place in one order."""
    if x.program != y.program:
        return False
    for (loops_x, point_x), (loops_y, point_y) in zip(x.history, y.history, strict=False):
        for (loop_x, iteration_x), (loop_y, iteration_y) in zip(loops_x, loops_y, strict=False):
            if loop_x != loop_y:
                break
            if iteration_x != iteration_y:
                return iteration_x < iteration_y
        if point_x != point_y:
            return point_x < point_y and not in_two_arms(graph, point_x, point_y)
    return False


def in_two_arms(graph: g.SyncGraph, x: int, y: int) -> bool:
    """Whether some branch or dispatch leads to both, by different ways that have not met before them."""
    for number, point in enumerate(graph.points):
        if not isinstance(point.action, g.Branch | g.Dispatch) or leaves_loop(graph, number):
            continue
        ways = [reachable(graph, successor, number) for successor in point.successors]
        to_x, to_y = [x in way for way in ways], [y in way for way in ways]
        if any(to_x) and any(to_y) and not any(a and b for a, b in zip(to_x, to_y, strict=True)):
            return True
    return False


def leaves_loop(graph: g.SyncGraph, number: int) -> bool:
    """Whether a branch decides if its loop goes on."""
    point = graph.points[number]
    if point.loop < 0:
        return False
    return any(point.loop not in loops_around(graph, each) for each in point.successors)


def loops_around(graph: g.SyncGraph, number: int) -> list[int]:
    """The loops around a point, outermost first."""
    found, loop = [], graph.points[number].loop
    while loop >= 0:
        found.insert(0, loop)
        loop = graph.loops[loop].parent
    return found


def reachable(graph: g.SyncGraph, start: int, end: int) -> set[int]:
    """Points that can be reached from `start`, itself included, without going through `end`."""
    found, work = {start}, [start]
    while work:
        for each in graph.points[work.pop()].successors:
            if each != end and each not in found:
                found.add(each)
                work.append(each)
    return found
