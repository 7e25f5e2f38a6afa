"""The steps of each wave of a graph, with every name, condition and footprint decided.

Needs   a well-formed graph, its target, values for its sizes and free names, and choices for what it leaves open
Gives   for each wave the list of its steps; findings where an access leaves its buffer or an index has no value
Keeps   what one wave does depends on nothing that another does, so that each can be unrolled alone
        an access at a place that nobody knows touches the whole buffer, and says that it only may
Cost    linear in the points that are executed
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.compiled import to_function
from tidegate.diag import Finding, Label
from tidegate.graph import model as g
from tidegate.index import INDEX_TYPES, LANE, WAVE, Cond, Index
from tidegate.language import ops
from tidegate.language.types import BarrierObject
from tidegate.simulate.barriers import WORKGROUP, Barrier
from tidegate.simulate.choices import Choices
from tidegate.simulate.graph_memory import GraphMemory, PlaceNow
from tidegate.simulate.kept_steps import KeptSteps
from tidegate.simulate.position import Position, Shape
from tidegate.simulate.regions import Regions
from tidegate.simulate.steps import (
    Arrive,
    Await,
    Commit,
    Depart,
    Drain,
    Effect,
    End,
    Issue,
    LaneFence,
    Manner,
    ProxyFence,
    Queue,
    Step,
    Touch,
)

# Where a point leads depends on more than the point.
TURNS = frozenset((g.Branch, g.Dispatch, g.Call, g.Return))
# Without copies that they name, these are the same steps for all waves that come there in one iteration.
MADE_ONCE = (ops.WorkgroupBarrier, ops.SharedMemoryBarrier, ops.Signal, ops.Wait, ops.WaitCount)
# A wave that passes more points than this, or calls deeper than this, is taken not to end.
MOST_POINTS, MOST_CALLS = 50_000, 64


class Misstep(Exception):
    """A wave cannot go on; carries what to tell the user."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


class Endless(Exception):
    """A wave goes on for longer than anybody waits."""

    def __init__(self, wave: int, how: str) -> None:
        super().__init__(f"wave {wave} {how}")


@dataclass(slots=True)
class Passed:
    """How many points all waves have passed."""

    points: int = 0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all waves of a run share."""

    graph: g.SyncGraph
    shape: Shape
    regions: Regions
    has_counters: bool
    env: Mapping[str, int]
    candidates: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    differ: frozenset[str] = frozenset()  # unknown numbers of which each wave has its own
    most_trips: int = 4  # of loops that only free choices end
    used: dict[int, Sequence[str]] = field(default_factory=dict)  # names in expressions, kept from wave to wave
    passed: Passed = field(default_factory=Passed)
    kept: KeptSteps | None = None  # accesses of other waves and other runs, where these share their sizes' meaning


def unroll(
    around: Surroundings, wave: int, choices: Choices, report: Callable[[Finding], None] = lambda _: None
) -> tuple[Step, ...]:
    """All steps of one wave, the last an `End`. `report` is told what is wrong with memory; the wave goes on."""
    return tuple(_Walker(around, wave, choices, report).steps())


class _Walker:
    def __init__(self, around: Surroundings, wave: int, choices: Choices, report: Callable[[Finding], None]) -> None:
        self.around, self.graph, self.wave, self.choices = around, around.graph, wave, choices
        self.env: dict[str, int] = {**around.env, WAVE: wave, LANE: 0}
        self.unknown: set[str] = {LANE}
        buffers = {buffer.name: buffer for buffer in self.graph.buffers}
        self.memory = GraphMemory(around.regions, buffers, wave, self.env, self.unknown, report, used=around.used)
        self.memory.maps = {each.name: (self.graph.lanes, each) for each in self.graph.maps}
        self.objects = {each.name: each for each in self.graph.objects}
        self.tokens: dict[str, frozenset[int]] = {}
        self.issued = 0
        self.open_group: dict[int, frozenset[str]] = {}  # copies, and the counters on which these are in groups
        number, program = next(
            (number, program)
            for number, program in enumerate(self.graph.programs)
            if program.first <= wave < program.last
        )
        self.position = Position(around.shape, number, program.entry)
        self.calls: list[tuple[int, dict[str, PlaceNow]]] = []  # where from, and the views of the caller
        self.visits: dict[int, int] = {}  # of free branches
        self.kept = KeptSteps(self.graph) if around.kept is None else around.kept

    def steps(self) -> list[Step]:
        found: list[Step] = []
        points, position = self.graph.points, self.position
        for _ in range(MOST_POINTS):
            self.around.passed.points += 1
            number = position.point
            point = points[number]
            kind = type(point.action)
            try:
                if kind is g.Access:  # most of all points are one of these: runs pass hundreds of thousands
                    found.append(self.kept_access(point, number, point.action))  # type: ignore[arg-type]
                elif kind is not g.Compute or point.issues:
                    found += self.point(point, number)
                    if kind is g.End:
                        return found
                if kind in TURNS:
                    self.go_on(point, number)
                else:
                    position.move(point.successors[0])
            except (ZeroDivisionError, KeyError) as reason:
                raise Misstep(self.no_value(point, number, reason)) from None
        raise Endless(self.wave, f"passes more than {MOST_POINTS:,} points")

    # --- control ---

    def go_on(self, point: g.Point, number: int) -> None:
        match point.action:
            case g.Branch(cond):
                which = self.decide(point, number, cond)
            case g.Dispatch(ranges):
                mine = [place for place, (first, last) in enumerate(ranges) if first <= self.wave < last]
                which = mine[0] if mine else len(ranges)
            case g.Call(function, args):
                places = {name: self.memory.place(where) for name, where in args}
                self.calls.append(
                    (number, {name: self.memory.views[name] for name in places if name in self.memory.views})
                )
                self.memory.views.update(places)
                if len(self.calls) > MOST_CALLS:
                    raise Endless(self.wave, f"calls deeper than {MOST_CALLS}")
                self.position.call(next(each.entry for each in self.graph.functions if each.name == function))
                return
            case g.Return():
                if not self.calls:
                    raise Misstep(Finding("TG602", f"point {number} returns from no function", (Label(point.at),)))
                call, views = self.calls.pop()
                self.memory.views.update(views)
                self.position.come_back(call, self.graph.points[call].successors[0])
                return
            case _:
                raise AssertionError(point.action)
        self.position.take(number, which)
        self.position.move(point.successors[which])

    def decide(self, point: g.Point, number: int, cond: Cond | None) -> int:
        if cond is not None:
            return 0 if to_function(cond)(self.env) else 1
        self.visits[number] = self.visits.get(number, 0) + 1
        exits = self.exits(number)
        if exits is not None and self.rounds(point, number) > self.around.most_trips:
            return exits
        return self.choices.branch(self.position.key(), self.wave, agree=agrees(self.graph, number))

    def exits(self, number: int) -> int | None:
        """Which successor ends a loop that nothing but this choice ends; outside of stated loops, which leads on."""
        point = self.graph.points[number]
        if point.loop >= 0:
            if self.graph.loops[point.loop].counter:
                return None
            chains = self.around.shape.chains
            return next((n for n, each in enumerate(point.successors) if point.loop not in chains[each]), None)
        back = [each <= number for each in point.successors]
        return back.index(False) if any(back) and not all(back) else None

    def rounds(self, point: g.Point, number: int) -> int:
        return self.position.iterations().get(point.loop, 0) if point.loop >= 0 else self.visits[number]

    # --- points ---

    def point(self, point: g.Point, number: int) -> Iterator[Step]:
        if point.issues and not isinstance(point.action, g.Unknown | g.Sync):
            effect: Effect = "write" if point.role == "global_write" else "read"
            yield self.issue(Touch(number, effect, None, self.queues(point), key=self.position.key()))
        match point.action:
            case g.Unknown(reaches):
                yield from self.anything(point, number, reaches)
            case g.Sync(op):
                yield from self.kept_sync(point, number, op)
            case g.Assign(pairs):
                self.assign(pairs)
            case g.Havoc(given):
                self.havoc(given)
            case g.Alloc(name) | g.Free(name):
                self.memory.allocate(point, name, isinstance(point.action, g.Alloc))
            case g.End():
                yield End(number, self.position.key())
            case _:
                pass

    def assign(self, pairs: tuple[tuple[str, Index | g.Where | g.Token], ...]) -> None:
        new: list[tuple[str, int | PlaceNow | frozenset[int], bool]] = []
        for name, value in pairs:
            if isinstance(value, g.Token):
                new.append((name, self.tokens.get(value.name, frozenset()), False))
            elif isinstance(value, INDEX_TYPES):
                new.append((name, to_function(value)(self.env), self.memory.is_unknown(value)))
            else:
                new.append((name, self.memory.place(value), False))
        for name, found, unknown in new:
            if isinstance(found, int):
                self.env[name] = found
                (self.unknown.add if unknown else self.unknown.discard)(name)
            elif isinstance(found, PlaceNow):
                self.memory.views[name] = found
            else:
                self.tokens[name] = found

    def havoc(self, given: tuple[str, ...]) -> None:
        for name in given:
            values = self.around.candidates.get(name, (0,))
            agree = name not in self.around.differ
            self.env[name] = self.choices.value(name, self.position.key(), self.wave, values, agree=agree)
            self.unknown.add(name)

    # --- accesses ---

    def kept_access(self, point: g.Point, number: int, access: g.Access) -> Issue:
        """An access, made once for all waves and runs in which the names that decide it have the same values."""
        env, by = self.env, self.kept.names_at(number)
        if by is None or not self.unknown.isdisjoint(by) or self.memory.live.get(access.footprint.place.base) is False:
            found = Issue(self.access(point, number, access))
        else:
            key = (number, self.position.key(), *[env.get(name) for name in by])
            kept = self.kept.issues.get(key)
            found = self.kept.issues[key] = Issue(self.access(point, number, access)) if kept is None else kept
        if access.is_async:
            self.open_group[self.issued] = frozenset(each.counter for each in point.issues if not each.most)
            if access.token:
                self.tokens[access.token] = frozenset((self.issued,))
        self.issued += 1
        return found

    def access(self, point: g.Point, number: int, access: g.Access) -> Touch:
        regions, may, first = self.memory.touched(point, access.footprint)
        reports = None
        if access.mbarrier is not None and access.is_async:
            reports = self.barrier(access.mbarrier.base, to_function(access.mbarrier.slot)(self.env), point)
        size = access.footprint.width
        for extent in access.footprint.extents:
            size *= extent.count
        return Touch(
            number,
            access.effect,  # type: ignore[arg-type]
            regions[0],
            self.queues(point),
            access.is_async,
            may or access.footprint.may,
            access.proxy,
            access.operator,
            access.fetches,
            reports,
            size,
            bool(point.issues) or not self.around.has_counters,
            self.position.key(),
            self.loops(),
            access.as_one,
            tuple(regions[1:]),
            access.element,
            self.memory.grid(access.footprint, access.element) if access.element else None,
            access.lanes or _map_of(access),
            None if first is None else first - access.lanes_from,
        )

    def anything(self, point: g.Point, number: int, reaches: tuple[str, ...]) -> Iterator[Step]:
        """An operation without a description writes all it can reach."""
        places = [self.memory.place(g.Ref(name)) for name in reaches or tuple(self.memory.buffers)]
        buffers = tuple(dict.fromkeys(buffer for place in places for buffer in place.buffers))
        key, loops = self.position.key(), self.loops()
        regions = self.memory.all_of(buffers)
        if regions:
            more = tuple(regions[1:])
            queues = self.queues(point)
            yield self.issue(Touch(number, "write", regions[0], queues, may=True, key=key, loops=loops, more=more))

    def issue(self, touch: Touch) -> Issue:
        self.issued += 1
        return Issue(touch)

    def queues(self, point: g.Point) -> tuple[Queue, ...]:
        return tuple(Queue(each.counter, each.least, each.in_order, each.most == 0) for each in point.issues)

    def loops(self) -> tuple[tuple[str, int], ...]:
        loops = self.graph.loops
        found = []
        for number, iteration in self.position.iterations().items():
            counter = loops[number].counter
            known = counter and counter in self.env
            found.append((counter, self.env[counter]) if known else ("iteration", iteration))
        return tuple(found)

    # --- synchronization ---

    def kept_sync(self, point: g.Point, number: int, op: object) -> Sequence[Step]:
        """Synchronization; where nothing but its place decides what it is, made once for all waves and runs."""
        names_copies = isinstance(op, ops.SharedMemoryBarrier | ops.WaitCount) and bool(op.async_deps)
        of_object = isinstance(op, ops.Signal | ops.Wait) and isinstance(op.barrier, ops.Value)  # hangs name counters
        if not isinstance(op, MADE_ONCE) or names_copies or of_object:
            return tuple(self.sync(point, number, op))
        key = (number, self.position.key())
        found = self.kept.syncs.get(key)
        if found is None:
            found = self.kept.syncs[key] = tuple(self.sync(point, number, op))
        return found

    def sync(self, point: g.Point, number: int, op: object) -> Iterator[Step]:
        key = self.position.key()
        match op:
            case ops.WorkgroupBarrier():
                yield from _meet(number, key)
            case ops.SharedMemoryBarrier(counts=counts, async_deps=deps):
                copies, named = self.named_copies(counts, deps)
                yield Drain(number, True, op.wait_async_ops, counts, copies, key, named)
                yield from _meet(number, key)
            case ops.ConditionalBarrier(half=half):
                if (self.wave < self.graph.waves // 2) == (half == "low"):
                    yield from _meet(number, key, "half")
            case ops.Signal(barrier=barrier):
                yield Arrive(number, self.named(barrier, point), 0, "signal", key, self.loops())
            case ops.Wait(barrier=barrier):
                yield Depart(number, self.named(barrier, point), key, self.loops())
            case ops.WaitCount(counts=counts, async_deps=deps):
                copies, named = self.named_copies(counts, deps)
                yield Drain(number, False, False, counts, copies, key, named, point.under != "divergent")
            case ops.Fence(kind="proxy_async"):
                yield ProxyFence(number, key)
            case ops.Fence():
                assert isinstance(point.action, g.Sync)
                comes = not point.action.waves or self.wave in point.action.waves
                yield LaneFence(number, key, comes and point.under != "divergent")
            case ops.CommitGroup(result=result):
                closed = frozenset(each.counter for each in point.issues if each.least)
                group = {copy for copy, on in self.open_group.items() if not on or on & closed}
                if result is not None:
                    self.tokens[result.name] = frozenset(group)
                self.open_group = {copy: on for copy, on in self.open_group.items() if copy not in group}
                yield Commit(number, key, closed)
            case ops.MbarrierArrive(barrier=place, expect=expect):
                yield Arrive(number, self.slot_of(place, point), expect, "mbarrier", key, self.loops())
            case ops.MbarrierWait(barrier=place, parity=parity):
                yield Await(number, self.slot_of(place, point), to_function(parity)(self.env), key, self.loops())
            case ops.NullAsyncDep(result=result):
                self.tokens[result.name] = frozenset()
            case _:
                pass  # orders no memory

    def named_copies(
        self, counts: tuple[ops.Count, ...], deps: tuple[ops.Value, ...]
    ) -> tuple[frozenset[int], frozenset[int]]:
        """What is waited for by name; and what counts stand for, which then are all that is waited for."""
        found = frozenset[int]().union(*(self.tokens.get(each.name, frozenset()) for each in deps))
        return (frozenset(), found) if counts else (found, frozenset())

    def named(self, barrier: int | ops.Value, point: g.Point) -> Barrier:
        if isinstance(barrier, int):
            return WORKGROUP if barrier == -1 else Barrier(str(barrier))
        return self.barrier(barrier.name, None, point)

    def slot_of(self, place: ops.Place, point: g.Point) -> Barrier:
        return self.barrier(place.base.name, to_function(place.slot)(self.env), point)

    def barrier(self, name: str, slot: int | None, point: g.Point) -> Barrier:
        type_ = self.objects[name].type
        assert isinstance(type_, BarrierObject)
        if slot is not None and not 0 <= slot < type_.slots:
            message = f"slot {slot} of `{name}`, which has {type_.slots}"
            raise Misstep(Finding("TG304", message, (Label(point.at, f"by wave {self.wave}"),)))
        return Barrier(name, type_.arrivals, slot)

    # --- what goes wrong ---

    def no_value(self, point: g.Point, number: int, reason: Exception) -> Finding:
        why = "divides by 0" if isinstance(reason, ZeroDivisionError) else f"{reason} has no value here"
        label = Label(point.at, f"evaluated here by wave {self.wave}, at point {number}")
        return Finding("TG312", f"an index has no value: {why}", (label,))


def agrees(graph: g.SyncGraph, branch: int) -> bool:
    """Whether all waves that reach a free branch go the same way."""
    point = graph.points[branch]
    rank = g.VARIATIONS.index
    return all(rank(graph.points[each].under) <= rank(point.under) for each in point.successors)


def _meet(number: int, key: tuple[int, ...], manner: Manner = "whole") -> Iterator[Step]:
    yield Arrive(number, WORKGROUP, 0, manner, key)
    yield Depart(number, WORKGROUP, key)


def _map_of(access: g.Access) -> str:
    """A name for which lane has which byte: one map, at one place, gives them to the same lanes."""
    foot = access.footprint
    return f"{foot.threads} {foot.width}" if foot.threads and not access.collective else ""
