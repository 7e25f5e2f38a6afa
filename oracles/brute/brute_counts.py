"""How large may a count be? Found by going through all runs of a small program, one byte and one wave after the other.

Needs   a well-formed graph that has barriers of the whole workgroup alone, no `Havoc`, `Unknown`, tokens, or
        conditions that waves decide each for itself; its target
Gives   for each count on a queue of copies the largest value with which nothing races, all else unchanged
Keeps   no clever idea: every value of sizes and flags, every decision of `branch any`, every trip count up to a bound;
        for each run the events of each wave, by the machine of `brute_force.py`; then the ordering rule on them
Cost    runs times pairs of accesses that conflict; `capped` says that some runs were left out

    x is performed before its wave's arrival d + 1       required: d < i, if x comes first in program order;
    y is issued after its wave's departure i             in one wave: x is performed before y is issued, if either is
                                                         asynchronous; without program order one way or the other

What performs what is worked out here again, from docs/machine-model.md: nothing of the compiler is used.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from oracles.brute.brute_force import LDS_OPERATIONS, Flight, Machine, _Walk, in_two_arms, leaves_loop, loops_around
from tidegate.graph import model as g
from tidegate.index import evaluate, holds
from tidegate.language import ops
from tidegate.targets import Target

MOST_RUNS = 240  # of one program
MOST_STEPS = 60_000  # of all waves in all runs
MORE_TRIPS = 3  # than there are slots, or iterations between a copy and its use

ALL_COPIES = "all copies"  # in changes: `wait_async_ops` is left out there

Place = tuple[int, str]  # of a count: point, counter
Changes = Mapping[Place, int]
Spans = tuple[tuple[str, int, int], ...]  # memory, from, up to
Key = tuple[Any, ...]


class Beyond(Exception):
    """Something that is not understood here."""


@dataclass(frozen=True, slots=True)
class Count:
    """A count that stands in a program. `largest`: None if even without it nothing races."""

    point: int
    name: str
    value: int
    largest: int | None
    is_safe: bool

    @property
    def place(self) -> Place:
        return self.point, self.name


@dataclass(frozen=True, slots=True)
class Freedom:
    """What is taken as free that the program decides: for the reasons of counts that could be larger."""

    conditions: bool = False
    trips: bool = False  # a loop that certainly runs does so once at least; more is not known
    bytes: bool = False  # an access touches its whole buffer


NONE = Freedom()


def counts_of(graph: g.SyncGraph, names: Iterable[str]) -> list[tuple[int, str, int]]:
    """All counts on these counters: point, counter, value."""
    known = set(names)
    return [
        (number, name, value)
        for number, point in enumerate(graph.points)
        if isinstance(point.action, g.Sync) and isinstance(point.action.op, ops.SharedMemoryBarrier | ops.WaitCount)
        for name, value in point.action.op.counts
        if name in known
    ]


def queues_of(graph: g.SyncGraph) -> set[str]:
    """The counters on which copies count."""
    copies = (each for each in graph.points if isinstance(each.action, g.Access) and each.action.is_async)
    return {issue.counter for each in copies for issue in each.issues}


# --- all runs of a program ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Runs:
    """All runs of a program, and what conflicts in them. `safe` says whether nothing races with other counts."""

    graph: g.SyncGraph
    target: Target
    runs: list[Run] = field(default_factory=list)
    capped: bool = False

    def safe(self, changes: Changes | None = None) -> bool:
        return next(self.races(changes), None) is None

    def races(self, changes: Changes | None = None) -> Iterator[tuple[int, int]]:
        """Points of accesses that race, meet a copy of their own wave, or are inverted."""
        for run in self.runs:
            yield from run.races(changes or {})

    def racing(self, changes: Changes) -> set[tuple[int, int, int]]:
        """Which pairs of which runs race."""
        return {(number, *pair) for number, run in enumerate(self.runs) for pair in run.racing(changes)}

    def others_off(self, place: Place) -> dict[Place, int]:
        """Changes with which nothing else waits for copies on the counter of a count."""
        point, name = place
        found = {(each, name): self.target.counters[name].largest + 1 for each in range(len(self.graph.points))}
        found |= {(each, ALL_COPIES): 0 for each in range(len(self.graph.points)) if each != point}
        del found[place]
        return found

    def conflicts(self) -> set[tuple[int, int]]:
        return {(x.point, y.point) for run in self.runs for x, y, _ in run.pairs}

    def largest(self, place: Place, value: int) -> int | None:
        """The largest value of a count with which nothing races, from one that is safe; None: all are."""
        most = self.target.counters[place[1]].largest
        if self.safe({place: most + 1}):  # says nothing
            return None
        while value < most and self.safe({place: value + 1}):
            value += 1
        return value


def find_counts(runs: Runs) -> list[Count]:
    """Every count on a queue of copies, and how large it may be."""
    found = []
    is_safe = runs.safe()
    for point, name, value in counts_of(runs.graph, queues_of(runs.graph)):
        if is_safe:
            found.append(Count(point, name, value, runs.largest((point, name), value), True))
        else:
            guilty = value > 0 and runs.safe({(point, name): 0})
            found.append(Count(point, name, value, 0 if guilty else value, not guilty))
    return found


def all_runs(
    graph: g.SyncGraph,
    target: Target,
    freedom: Freedom = NONE,
    most: int = MOST_RUNS,
    only: dict[str, int] | None = None,
) -> Runs:
    """Every value of sizes and free names, or `only` these, and every decision; beyond `most` runs it is capped."""
    found = Runs(graph, target)
    arms: dict[tuple[int, int], bool] = {}
    steps = 0
    for env in environments(graph, freedom) if only is None else (only,):
        for decided in _decisions():
            if len(found.runs) >= most or steps > MOST_STEPS:
                found.capped = True
                return found
            run = Run(graph, target, arms)
            for wave in range(graph.waves):
                walk = _Path(graph, Machine(target), wave, {"wg0": 0, "wg1": 0, "wg2": 0, **env, "wave": wave})
                walk.decided, walk.freedom = decided, freedom
                walk.run()
                run.add(walk)
                steps += len(walk.steps)
            run.find_conflicts()
            found.runs.append(run)
    return found


def environments(graph: g.SyncGraph, freedom: Freedom) -> Iterator[dict[str, int]]:
    """Values for sizes, from many to few, and for free names: flags."""
    most = longest(graph)
    sizes = [each.name for each in graph.sizes]
    names = [each.name for each in graph.free]
    if freedom.trips:
        sizes_values: Iterable[tuple[int, ...]] = [(each,) * len(sizes) for each in range(most, most - 4, -1)]
    else:
        sizes_values = itertools.product(range(most, 0, -1), repeat=len(sizes))
    for values in sizes_values:
        env = dict(zip(sizes, values, strict=True))
        if not all(holds(cond, env) for cond in graph.where):
            continue
        for flags in itertools.product((0, 1), repeat=0 if freedom.conditions else len(names)):
            yield {**dict.fromkeys(names, 0), **env, **dict(zip(names, flags, strict=False))}


def longest(graph: g.SyncGraph) -> int:
    """Trips that show all that a loop does: more than slots, and than a copy is issued ahead."""
    slots = max((each.slots for each in graph.buffers), default=1)
    ahead = [0]
    for point in graph.points:
        if isinstance(point.action, g.Access):
            slot = point.action.footprint.place.slot
            ahead += (each.value for each in _parts(slot) if type(each).__name__ == "Const")
    return min(slots, max(ahead) + 1) + max(slots, 2) + MORE_TRIPS - 1 if len(graph.loops) == 1 else slots + MORE_TRIPS


def _parts(index: Any) -> Iterator[Any]:
    yield index
    for name in ("left", "right"):
        if hasattr(index, name):
            yield from _parts(getattr(index, name))


class _Decided:
    """Decisions of one run, by place and moment, the same for all waves; those not met before are taken as false."""

    def __init__(self) -> None:
        self.script: list[bool] = []
        self.given: dict[Key, bool] = {}

    def of(self, key: Key) -> bool:
        if key not in self.given:
            if len(self.given) >= len(self.script):
                self.script.append(False)
            self.given[key] = self.script[len(self.given)]
        return self.given[key]

    def next(self) -> bool:
        """Goes on to the decisions of the next run; whether there is one."""
        del self.script[len(self.given) :]
        while self.script and self.script[-1]:
            self.script.pop()
        self.given = {}
        if not self.script:
            return False
        self.script[-1] = True
        return True


def _decisions() -> Iterator[_Decided]:
    decided = _Decided()
    yield decided
    while decided.next():
        yield decided


class _Path(_Walk):
    """One wave on its way; what it does is kept as steps, and what that performs is found later."""

    decided: _Decided
    freedom: Freedom

    def __init__(self, graph: g.SyncGraph, machine: Machine, wave: int, names: dict[str, int]) -> None:
        super().__init__(graph, machine, wave, names)
        self.steps: list[Flight | tuple[int, Any]] = []
        self.now = 0
        self.spans: dict[int, Spans] = {}

    def step(self, number: int) -> int | None:
        self.now = number
        point = self.graph.points[number]
        if isinstance(point.action, g.Branch):
            free = self.is_free(number, point)
            if free is not None:
                self.count_loops(number)
                return point.successors[0 if free else 1]
        return super().step(number)

    def is_free(self, number: int, point: g.Point) -> bool | None:
        """What a free choice decides here; None if it is none."""
        action = point.action
        assert isinstance(action, g.Branch)
        if action.cond is None:
            return self.decided.of((number, tuple(self.loops)))
        if point.under != "uniform" or _of_wave(action.cond):
            return None
        if leaves_loop(self.graph, number):
            return self.goes_on(number, point) if self.freedom.trips else None
        return self.decided.of((number, tuple(self.loops))) if self.freedom.conditions else None

    def goes_on(self, number: int, point: g.Point) -> bool:
        """Whether a loop runs once more, where trips are free."""
        loop = self.graph.loops[loops_around(self.graph, number)[-1]]
        done = self.loops[-1][1] + 1 if self.loops and self.graph.loops[self.loops[-1][0]] is loop else 0
        if done < min(1, loop.least):
            return True
        if done >= min(longest(self.graph), loop.most or 1_000) and loop.most != 0:
            return False
        return loop.most != 0 and self.decided.of((number, done, tuple(self.loops[:-1])))

    def bytes_of(self, foot: g.Footprint) -> Any:
        """Nothing yet: see `spans_of`."""
        return frozenset()

    def issue(self, number: int, point: g.Point, access: g.Access | None) -> None:
        super().issue(number, point, access)
        if access is not None:
            if access.mbarrier is not None or access.token:
                raise Beyond("an mbarrier or a token")
            self.spans[self.flights[-1].number] = self.spans_of(access.footprint)

    def spans_of(self, foot: g.Footprint) -> Spans:
        memory, first, _ = self.place(foot.place)
        if self.freedom.bytes:
            return ((memory, 0, 1 << 30),)
        starts = [first]
        for extent in foot.extents:
            count = extent.count if extent.limit is None else min(extent.count, evaluate(extent.limit, self.names))
            starts = [start + step * extent.stride for start in starts for step in range(count)]
        merged: list[tuple[int, int]] = []
        for start in sorted(starts):
            if merged and merged[-1][1] >= start:
                merged[-1] = (merged[-1][0], max(merged[-1][1], start + foot.width))
            else:
                merged.append((start, start + foot.width))
        return tuple((memory, start, end) for start, end in merged)

    def add(self, kind: str, needs: Iterable[Flight] = (), which: int = 0, number: int = 0) -> None:
        if kind == "issue":
            self.steps.append(self.flights[-1])

    def sync(self, op: Any) -> None:
        self.steps.append((self.now, op))


def _of_wave(cond: Any) -> bool:
    """Whether a condition speaks of the wave."""
    if getattr(cond, "name", "") == "wave":
        return True
    parts = (getattr(cond, name) for name in ("left", "right", "cond", "operand") if hasattr(cond, name))
    return any(_of_wave(each) for each in parts)


# --- one run ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Moment:
    """When an access of a wave was issued and performed: by step, and by arrivals and departures of the wave."""

    issued: int
    departed: int
    performed: int = -1
    arrived: int = -1


@dataclass(frozen=True, slots=True)
class _Fence:
    wave: int
    step: int
    arrived: int
    departed: int


class Run:
    """One run of all waves. Conflicts do not depend on counts; what is performed when does."""

    def __init__(self, graph: g.SyncGraph, target: Target, arms: dict[tuple[int, int], bool]) -> None:
        self.graph, self.target, self.arms = graph, target, arms
        self.waves: list[_Path] = []
        self.pairs: list[tuple[Flight, Flight, bool]] = []  # the first comes first; or there is no order
        lds = (target.counter_of(each) for each in LDS_OPERATIONS)
        self.lds_counters = {each for each in lds if each}

    def add(self, walk: _Path) -> None:
        self.waves.append(walk)

    def find_conflicts(self) -> None:
        accesses = [
            (flight, walk.spans[flight.number])
            for walk in self.waves
            for flight in walk.flights
            if flight.access is not None
        ]
        meet: dict[tuple[Spans, Spans], bool] = {}
        for (x, at_x), (y, at_y) in itertools.combinations(accesses, 2):
            assert x.access is not None
            assert y.access is not None
            if x.access.effect == "read" and y.access.effect == "read":
                continue
            if x.wave == y.wave and not (x.access.is_async or y.access.is_async):
                continue
            key = (at_x, at_y)
            if key not in meet:
                meet[key] = any(m == n and a < d and c < b for m, a, b in at_x for n, c, d in at_y)
            if not meet[key]:
                continue
            if x.wave == y.wave or self.first(x, y):
                self.pairs.append((x, y, True))
            elif self.first(y, x):
                self.pairs.append((y, x, True))
            else:
                self.pairs.append((x, y, False))

    def first(self, x: Flight, y: Flight) -> bool:
        """Whether `x` comes before `y` in the program."""
        ((loops_x, point_x),), ((loops_y, point_y),) = x.history, y.history
        for (loop_x, round_x), (loop_y, round_y) in zip(loops_x, loops_y, strict=False):
            if loop_x != loop_y:
                break
            if round_x != round_y:
                return round_x < round_y
        if point_x >= point_y:
            return False
        key = (point_x, point_y)
        if key not in self.arms:
            self.arms[key] = in_two_arms(self.graph, *key)
        return not self.arms[key]

    def races(self, changes: Changes) -> Iterator[tuple[int, int]]:
        for x, y in self.racing_flights(changes):
            yield min(x.point, y.point), max(x.point, y.point)

    def racing(self, changes: Changes) -> Iterator[tuple[int, int]]:
        """Instances: by wave and number."""
        for x, y in self.racing_flights(changes):
            yield x.wave << 20 | x.number, y.wave << 20 | y.number

    def racing_flights(self, changes: Changes) -> Iterator[tuple[Flight, Flight]]:
        moments: list[dict[int, _Moment]] = []
        fences: list[_Fence] = []
        for walk in self.waves:
            queue = _Queue(self, walk, changes)
            moments.append(queue.run())
            fences += queue.fences
        for x, y, ordered in self.pairs:
            at_x, at_y = moments[x.wave][x.number], moments[y.wave][y.number]
            forth = self.before(x, at_x, y, at_y, fences)
            if not forth and (ordered or not self.before(y, at_y, x, at_x, fences)):
                yield x, y

    def before(self, x: Flight, at_x: _Moment, y: Flight, at_y: _Moment, fences: list[_Fence]) -> bool:
        """Whether `x` is certain to be performed before `y` is issued, and its proxy knows of it."""
        if x.wave == y.wave:
            if at_x.performed < 0 or at_x.performed > at_y.issued:
                return False
        elif at_x.arrived < 0 or at_x.arrived >= at_y.departed:
            return False
        assert x.access is not None
        assert y.access is not None
        if not (self.target.fence.proxy_needed and y.access.proxy == "async" and x.access.proxy == "generic"):
            return True
        return any(
            (at_x.performed <= each.step if each.wave == x.wave else at_x.arrived < each.departed)
            and (each.step < at_y.issued if each.wave == y.wave else each.arrived < at_y.departed)
            for each in fences
        )


class _Queue:
    """What one wave has in flight, step by step."""

    def __init__(self, run: Run, walk: _Path, changes: Changes) -> None:
        self.target, self.lds_counters, self.changes, self.walk = run.target, run.lds_counters, changes, walk
        self.found: dict[int, _Moment] = {}
        self.fences: list[_Fence] = []
        self.pending: list[Flight] = []
        self.issued: dict[str, int] = {}  # instructions on a counter so far
        self.after: dict[tuple[int, str], int] = {}  # how many there had been, with a flight's own
        self.open: list[Flight] = []
        self.groups: dict[str, int] = {}  # groups closed so far
        self.group_of: dict[tuple[int, str], int] = {}
        self.arrived = self.departed = self.now = 0

    def run(self) -> dict[int, _Moment]:
        for now, step in enumerate(self.walk.steps):
            self.now = now
            if isinstance(step, Flight):
                self.issue(step)
            else:
                self.sync(*step)
        return self.found  # what is in flight at the end is performed after the last arrival

    def issue(self, flight: Flight) -> None:
        self.found[flight.number] = _Moment(self.now, self.departed)
        for issue in flight.issues:
            self.issued[issue.counter] = self.issued.get(issue.counter, 0) + issue.least
            self.after[flight.number, issue.counter] = self.issued[issue.counter]
        self.pending.append(flight)
        if flight.is_async:
            self.open.append(flight)

    def perform(self, is_one: Any) -> None:
        still = []
        for each in self.pending:
            if is_one(each):
                moment = self.found[each.number]
                moment.performed, moment.arrived = self.now, self.arrived
            else:
                still.append(each)
        self.pending = still

    def sync(self, point: int, op: Any) -> None:
        match op:
            case ops.SchedulingBarrier() | ops.SetWavePrio():
                pass
            case ops.CommitGroup():
                self.commit()
            case ops.WorkgroupBarrier():
                self.arrive()
                self.departed += 1
            case ops.SharedMemoryBarrier(counts, wait_async_ops, async_deps):
                self.perform(self.is_drained)
                self.count(point, counts, async_deps)
                if wait_async_ops and (point, ALL_COPIES) not in self.changes:
                    self.perform(lambda each: each.is_async and (each.issues or not self.target.counters))
                self.arrive()
                self.departed += 1
            case ops.WaitCount(counts, async_deps):
                self.count(point, counts, async_deps)
            case ops.Fence(kind):
                if kind == "proxy_async" or self.target.fence.wave_performs == "ordinary":
                    self.perform(lambda each: each.is_ordinary)
                if kind == "proxy_async":
                    self.fences.append(_Fence(self.walk.wave, self.now, self.arrived, self.departed))
            case ops.Signal(int()):
                self.arrive()
            case ops.Wait(int()):
                self.departed += 1
            case _:
                raise Beyond(type(op).__name__)

    def is_drained(self, flight: Flight) -> bool:
        return flight.is_ordinary or any(issue.counter in self.lds_counters for issue in flight.issues)

    def arrive(self) -> None:
        if self.target.barrier.performs == "ordinary":
            self.perform(lambda each: each.is_ordinary)
        self.arrived += 1

    def commit(self) -> None:
        for name, counter in self.target.counters.items():
            if counter.unit == "groups":
                for each in self.open:
                    self.group_of[each.number, name] = self.groups.get(name, 0)
                self.groups[name] = self.groups.get(name, 0) + 1
        self.open = []

    def count(self, point: int, counts: Iterable[tuple[str, int]], deps: Iterable[Any]) -> None:
        if tuple(deps):
            raise Beyond("a token")
        # In turn or not is decided by what is in flight before the wait, whatever its other counts perform.
        before = list(self.pending)
        for name, value in counts:
            self.wait(name, self.changes.get((point, name), value), before)

    def wait(self, name: str, value: int, before: list[Flight]) -> None:
        counter = self.target.counters.get(name)
        if counter is None or (counter.max and value > counter.max - (counter.unit == "instructions")):
            return
        on = [each for each in before if any(issue.counter == name for issue in each.issues)]
        turns = all(issue.in_order for each in on for issue in each.issues if issue.counter == name)
        if value > 0 and not (counter.in_order and turns):
            return
        if counter.unit == "groups":
            last = self.groups.get(name, 0) - value
            done = {each.number for each in on if self.group_of.get((each.number, name), 1 << 30) < last}
        else:
            total = self.issued.get(name, 0)
            done = {each.number for each in on if total - self.after[each.number, name] >= value}
        self.perform(lambda each: each.number in done)
