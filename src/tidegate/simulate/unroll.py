"""The steps of each wave of a graph, with every name, condition and footprint decided.

Needs   a well-formed graph, its target, values for its sizes and free names, and choices for what it leaves open
Gives   for each wave the list of its steps; findings where an access leaves its buffer or an index has no value
Keeps   what one wave does depends on nothing that another does, so that each can be unrolled alone
        an access at a place that nobody knows touches the whole buffer, and says that it only may
Cost    linear in the points that are executed
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tidegate.diag import Finding, Label
from tidegate.graph import model as g
from tidegate.index import INDEX_TYPES, LANE, WAVE, Cond, Index, evaluate, holds, names
from tidegate.language import ops
from tidegate.language.types import BarrierObject
from tidegate.simulate.choices import Choices
from tidegate.simulate.events import WORKGROUP, Barrier
from tidegate.simulate.position import Position, Shape
from tidegate.simulate.regions import SHARED, Region, Regions
from tidegate.simulate.steps import (
    Arrive,
    Await,
    Commit,
    Depart,
    Drain,
    End,
    Fence,
    Issue,
    Queue,
    Step,
    Touch,
)

# A wave that takes more steps than this is taken not to end.
MOST_STEPS = 50_000


class Misstep(Exception):
    """A wave cannot go on; carries what to tell the user."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


class Endless(Exception):
    """A wave took more steps than anybody waits for."""

    def __init__(self, wave: int) -> None:
        super().__init__(f"wave {wave} takes more than {MOST_STEPS} steps")


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


@dataclass(frozen=True, slots=True)
class _Place:
    """Bytes from `first` on of a buffer; None: anywhere in it."""

    buffers: tuple[g.Buffer, ...]
    first: int | None


def unroll(
    around: Surroundings, wave: int, choices: Choices, report: Callable[[Finding], None] = lambda _: None
) -> tuple[Step, ...]:
    """All steps of one wave, the last an `End`. `report` is told what is wrong with memory; the wave goes on."""
    return tuple(_Walker(around, wave, choices, report).steps())


class _Walker:
    def __init__(self, around: Surroundings, wave: int, choices: Choices, report: Callable[[Finding], None]) -> None:
        self.around, self.graph, self.wave, self.choices = around, around.graph, wave, choices
        self.report = report
        self.live: dict[str, bool] = {}  # buffers that were allocated, and not freed since
        self.env: dict[str, int] = {**around.env, WAVE: wave, LANE: 0}
        self.unknown: set[str] = {LANE}
        self.views: dict[str, _Place] = {}
        self.buffers = {buffer.name: buffer for buffer in self.graph.buffers}
        self.objects = {each.name: each for each in self.graph.objects}
        self.tokens: dict[str, frozenset[int]] = {}
        self.issued = 0
        self.open_group: list[int] = []
        number, program = next(
            (number, program)
            for number, program in enumerate(self.graph.programs)
            if program.first <= wave < program.last
        )
        self.position = Position(around.shape, number, program.entry)
        self.calls: list[int] = []

    def steps(self) -> Iterator[Step]:
        for _ in range(MOST_STEPS):
            number = self.position.point
            point = self.graph.points[number]
            try:
                yield from self.point(point, number)
            except (ZeroDivisionError, KeyError) as reason:
                raise Misstep(self.no_value(point, number, reason)) from None
            if isinstance(point.action, g.End):
                return
            self.go_on(point, number)
        raise Endless(self.wave)

    # --- control ---

    def go_on(self, point: g.Point, number: int) -> None:
        match point.action:
            case g.Branch(cond):
                which = self.decide(point, number, cond)
            case g.Dispatch(ranges):
                mine = [place for place, (first, last) in enumerate(ranges) if first <= self.wave < last]
                which = mine[0] if mine else len(ranges)
            case g.Call(function, args):
                places = {name: self.place(where) for name, where in args}
                self.views.update(places)
                self.calls.append(number)
                self.position.call(next(each.entry for each in self.graph.functions if each.name == function))
                return
            case g.Return():
                if not self.calls:
                    raise Misstep(Finding("TG602", f"point {number} returns from no function", (Label(point.at),)))
                call = self.calls.pop()
                self.position.come_back(call, self.graph.points[call].successors[0])
                return
            case _:
                self.position.move(point.successors[0])
                return
        self.position.take(number, which)
        self.position.move(point.successors[which])

    def decide(self, point: g.Point, number: int, cond: Cond | None) -> int:
        if cond is not None:
            return 0 if holds(cond, self.env) else 1
        exits = self.exits(number)
        if exits is not None and max(self.position.iterations().values(), default=0) >= self.around.most_trips:
            return exits
        return self.choices.branch(self.position.key(), self.wave, agree=agrees(self.graph, number))

    def exits(self, number: int) -> int | None:
        """Which successor leaves the innermost loop."""
        point = self.graph.points[number]
        for which, successor in enumerate(point.successors):
            if point.loop >= 0 and point.loop not in self.around.shape.chains[successor]:
                return which
        return None

    # --- points ---

    def point(self, point: g.Point, number: int) -> Iterator[Step]:
        if point.issues and not isinstance(point.action, g.Access | g.Unknown | g.Sync):
            yield Issue(Touch(number, "read", None, self.queues(point), key=self.position.key()))
            self.issued += 1
        match point.action:
            case g.Access():
                yield Issue(self.access(point, number, point.action))
                self.issued += 1
            case g.Unknown(reaches):
                for touch in self.anything(point, number, reaches):
                    yield Issue(touch)
                    self.issued += 1
            case g.Sync(op):
                yield from self.sync(point, number, op)
            case g.Assign(pairs):
                self.assign(pairs)
            case g.Havoc(given):
                self.havoc(given)
            case g.Alloc(name) | g.Free(name):
                self.allocate(point, name, isinstance(point.action, g.Alloc))
            case g.End():
                yield End(number, self.position.key())
            case _:
                pass

    def allocate(self, point: g.Point, name: str, begins: bool) -> None:
        """A buffer comes to life, or its bytes are given back."""
        for buffer in self.place(g.Ref(name)).buffers:
            if begins and buffer.offset is not None:
                for other in self.graph.buffers:
                    if other is not buffer and self.live.get(other.name) and _shares(buffer, other):
                        message = f"`{buffer.name}` lies on the bytes of `{other.name}`, which is live"
                        self.report(Finding("TG308", message, (Label(point.at),)))
            self.live[buffer.name] = begins

    def assign(self, pairs: tuple[tuple[str, Index | g.Where | g.Token], ...]) -> None:
        new: list[tuple[str, int | _Place | frozenset[int], bool]] = []
        for name, value in pairs:
            if isinstance(value, g.Token):
                new.append((name, self.tokens.get(value.name, frozenset()), False))
            elif isinstance(value, INDEX_TYPES):
                new.append((name, evaluate(value, self.env), self.is_unknown(value)))
            else:
                new.append((name, self.place(value), False))
        for name, found, unknown in new:
            if isinstance(found, int):
                self.env[name] = found
                (self.unknown.add if unknown else self.unknown.discard)(name)
            elif isinstance(found, _Place):
                self.views[name] = found
            else:
                self.tokens[name] = found

    def havoc(self, given: tuple[str, ...]) -> None:
        for name in given:
            values = self.around.candidates.get(name, (0,))
            agree = name not in self.around.differ
            self.env[name] = self.choices.value(name, self.position.key(), self.wave, values, agree=agree)
            self.unknown.add(name)

    # --- accesses ---

    def access(self, point: g.Point, number: int, access: g.Access) -> Touch:
        region, may = self.region(point, access.footprint)
        reports = None
        if access.mbarrier is not None:
            reports = self.barrier(access.mbarrier.base, evaluate(access.mbarrier.slot, self.env), point)
        if access.is_async:
            self.open_group.append(self.issued)
            if access.token:
                self.tokens[access.token] = frozenset((self.issued,))
        size = access.footprint.width
        for extent in access.footprint.extents:
            size *= extent.count
        return Touch(
            number,
            access.effect,  # type: ignore[arg-type]
            region,
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
        )

    def anything(self, point: g.Point, number: int, reaches: tuple[str, ...]) -> Iterator[Touch]:
        """An operation that nobody has described writes all it can reach."""
        places = [self.place(g.Ref(name)) for name in reaches or tuple(self.buffers)]
        buffers = dict.fromkeys(buffer for place in places for buffer in place.buffers)
        for buffer in buffers:
            region = self.whole(buffer)
            yield Touch(
                number, "write", region, self.queues(point), may=True, key=self.position.key(), loops=self.loops()
            )

    def queues(self, point: g.Point) -> tuple[Queue, ...]:
        return tuple(Queue(each.counter, each.least, each.in_order) for each in point.issues)

    def loops(self) -> tuple[tuple[str, int], ...]:
        loops = self.graph.loops
        found = []
        for number, iteration in self.position.iterations().items():
            counter = loops[number].counter
            known = counter and counter in self.env
            found.append((counter, self.env[counter]) if known else ("iteration", iteration))
        return tuple(found)

    def region(self, point: g.Point, foot: g.Footprint) -> tuple[Region, bool]:
        """The bytes, and whether they are more than will be touched."""
        place = self.place(foot.place)
        for buffer in place.buffers:
            if self.live.get(buffer.name) is False:
                message = f"`{buffer.name}` is used after its memory was given back"
                self.report(Finding("TG309", message, (Label(point.at, f"by wave {self.wave}"),)))
        if place.first is None:
            return self.around.regions.of(
                _space(place.buffers[0]), [s for each in place.buffers for s in self.whole(each).stretches]
            ), True
        steps, may = [], False
        for extent in foot.extents:
            count = extent.count
            if extent.limit is not None:
                if self.is_unknown(extent.limit):
                    may = True
                else:
                    count = max(0, min(count, evaluate(extent.limit, self.env)))
            steps.append((count, extent.stride))
        (buffer,) = place.buffers
        region = self.around.regions.box(_space(buffer), place.first, tuple(steps), foot.width)
        low = buffer.offset or 0
        if region.stretches and not may and not foot.may:
            first, last = region.stretches[0][0] - low, region.stretches[-1][1] - low
            if first < 0 or last > buffer.bytes:
                self.report(self.outside(point, buffer, first, last))
        return region, may

    def whole(self, buffer: g.Buffer) -> Region:
        low = buffer.offset or 0
        return self.around.regions.of(_space(buffer), [(low, low + buffer.bytes)])

    def place(self, where: g.Where) -> _Place:
        match where:
            case g.Either(cond, then, otherwise):
                if any(name in self.unknown for name in names(cond)):
                    one, other = self.place(then), self.place(otherwise)
                    same = one == other
                    return one if same else _Place(tuple(dict.fromkeys((*one.buffers, *other.buffers))), None)
                return self.place(then if holds(cond, self.env) else otherwise)
            case g.Ref(base, slot, offset):
                if base in self.buffers:
                    buffer = self.buffers[base]
                    if self.is_unknown(slot) or self.is_unknown(offset):
                        return _Place((buffer,), None)
                    first = (buffer.offset or 0) + evaluate(slot, self.env) * buffer.slot_bytes
                    return _Place((buffer,), first + evaluate(offset, self.env))
                view = self.views[base]
                if view.first is None or self.is_unknown(offset):
                    return replace(view, first=None)
                return replace(view, first=view.first + evaluate(offset, self.env))

    def is_unknown(self, index: Index) -> bool:
        return any(name in self.unknown for name in names(index))

    # --- synchronization ---

    def sync(self, point: g.Point, number: int, op: object) -> Iterator[Step]:
        key = self.position.key()
        match op:
            case ops.WorkgroupBarrier():
                yield from _meet(number, key)
            case ops.SharedMemoryBarrier(counts=counts, async_deps=deps):
                yield Drain(number, True, op.wait_async_ops, counts, self.copies(deps), key)
                yield from _meet(number, key)
            case ops.ConditionalBarrier(half=half):
                if (self.wave < self.graph.waves // 2) == (half == "low"):
                    yield Arrive(number, WORKGROUP, 0, "half", key)
                    yield Depart(number, WORKGROUP, key)
            case ops.Signal(barrier=barrier):
                yield Arrive(number, self.named(barrier, point), 0, "signal", key)
            case ops.Wait(barrier=barrier):
                yield Depart(number, self.named(barrier, point), key)
            case ops.WaitCount(counts=counts, async_deps=deps):
                yield Drain(number, False, False, counts, self.copies(deps), key)
            case ops.Fence(kind=kind):
                yield Fence(number, kind == "proxy_async", key)
            case ops.CommitGroup(result=result):
                if result is not None:
                    self.tokens[result.name] = frozenset(self.open_group)
                self.open_group.clear()
                yield Commit(number, key)
            case ops.MbarrierArrive(barrier=place, expect=expect):
                yield Arrive(number, self.slot_of(place, point), expect, "mbarrier", key)
            case ops.MbarrierWait(barrier=place, parity=parity):
                yield Await(number, self.slot_of(place, point), evaluate(parity, self.env), key)
            case ops.NullAsyncDep(result=result):
                self.tokens[result.name] = frozenset()
            case _:
                pass  # orders no memory

    def copies(self, deps: tuple[ops.Value, ...]) -> frozenset[int]:
        return frozenset().union(*(self.tokens.get(each.name, frozenset()) for each in deps))

    def named(self, barrier: int | ops.Value, point: g.Point) -> Barrier:
        if isinstance(barrier, int):
            return WORKGROUP if barrier == -1 else Barrier(str(barrier))
        return self.barrier(barrier.name, None, point)

    def slot_of(self, place: ops.Place, point: g.Point) -> Barrier:
        return self.barrier(place.base.name, evaluate(place.slot, self.env), point)

    def barrier(self, name: str, slot: int | None, point: g.Point) -> Barrier:
        type_ = self.objects[name].type
        assert isinstance(type_, BarrierObject)
        if slot is not None and not 0 <= slot < type_.slots:
            message = f"slot {slot} of `{name}`, which has {type_.slots}"
            raise Misstep(Finding("TG304", message, (Label(point.at, f"by wave {self.wave}"),)))
        return Barrier(name, type_.arrivals, slot)

    # --- what goes wrong ---

    def outside(self, point: g.Point, buffer: g.Buffer, first: int, last: int) -> Finding:
        what = f"wave {self.wave} touches bytes {first}..{last} of {buffer.bytes}"
        return Finding("TG301", f"`{buffer.name}` is accessed outside its bytes", (Label(point.at, what),))

    def no_value(self, point: g.Point, number: int, reason: Exception) -> Finding:
        why = "divides by 0" if isinstance(reason, ZeroDivisionError) else f"{reason} has no value here"
        label = Label(point.at, f"evaluated here by wave {self.wave}, at point {number}")
        return Finding("TG312", f"an index has no value: {why}", (label,))


def agrees(graph: g.SyncGraph, branch: int) -> bool:
    """Whether all waves that reach a free branch go the same way."""
    point = graph.points[branch]
    rank = g.VARIATIONS.index
    return all(rank(graph.points[each].under) <= rank(point.under) for each in point.successors)


def _shares(one: g.Buffer, other: g.Buffer) -> bool:
    """Whether two buffers have bytes in common."""
    if one.offset is None or other.offset is None:
        return False
    return one.offset < other.offset + other.bytes and other.offset < one.offset + one.bytes


def _space(buffer: g.Buffer) -> str:
    return SHARED if buffer.offset is not None else buffer.name


def _meet(number: int, key: tuple[int, ...]) -> Iterator[Step]:
    yield Arrive(number, WORKGROUP, 0, "whole", key)
    yield Depart(number, WORKGROUP, key)
