"""How many cycles a graph takes on a target, by the target's cost model, and where waves are held up.

Needs   a well-formed graph and a target; the steps are played by `tidegate.cost`
Gives   an `Estimate`: cycles in all, for one iteration of each loop, and lost by reason and by point
Keeps   nothing is drawn at random: where the graph leaves a branch open, the heavier arm is taken; the same graph gives
        the same numbers
Cost    linear in the points passed; a loop is run for a few iterations, whatever its bounds are

A loop of n iterations is run for at most `MOST` of them. What an iteration costs in the steady state is the difference
between two runs, divided by the difference in iterations; the iterations that were not run are added at that price.

    iterations      12 ......... 24 ......... n
    cycles          a            b            b + (n - 24) * (b - a) / 12
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from tidegate.cost import Event, Meeting, Played, Prices, Program, Stuck, play, prices_of
from tidegate.cost import steps as c
from tidegate.cost.steps import STALLS
from tidegate.graph import model as g
from tidegate.index import INDEX_TYPES, LANE, WAVE, WORKGROUP, Cond, Index, evaluate, holds
from tidegate.language import ops
from tidegate.targets import Target

# Iterations of the two runs of a loop that are compared, and of the loops inside of it and around it meanwhile. The
# difference is a multiple of the usual numbers of slots, so that the state of the pipeline is the same.
FEW, MOST, OTHERS = 12, 24, 4
# A wave that passes more points than this is not followed further.
MOST_POINTS = 200_000


class NoEstimate(Exception):
    """The waves of the graph do not come to their end; says why."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Cycles for which a wave was held up, on average over the waves: at a point, for a reason."""

    point: int
    reason: str
    cycles: float


@dataclass(frozen=True, slots=True)
class LoopCost:
    """One iteration in the steady state. `lost` is by reason, on average over the waves."""

    loop: int
    cycles: float
    trips: float
    lost: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a graph costs. `lost` is of the run that is listed in `events`; loops there end after `MOST` iterations."""

    cycles: float
    loops: tuple[LoopCost, ...]
    lost: tuple[Lost, ...]
    played: float
    workgroups: int
    events: tuple[Event, ...] = ()

    def by_reason(self) -> dict[str, float]:
        """Cycles lost in sum for each reason, in a fixed order, reasons without any left out."""
        return _sums((each.reason, each.cycles) for each in self.lost)


def estimate(
    graph: g.SyncGraph,
    target: Target,
    *,
    trips: int | None = None,
    sizes: Mapping[str, int] | None = None,
    cached: bool = False,
    reuse: int = 1,
    workgroups: int = 1,
    record: bool = False,
) -> Estimate:
    """The cycles of `workgroups` workgroups that share a compute unit.

    `trips`: every loop runs so often; without it the bounds and sizes say. `cached`: what is read from global memory
    lies in the cache that all compute units share. `reuse`: so many of them read the same bytes at about the same
    time, so that memory need give them only once.
    """
    model = _Model(graph, prices_of(target, cached=cached, reuse=reuse), dict(sizes or {}), trips, workgroups)
    whole, walked = model.run({}, record)
    loops = tuple(model.loop(number, whole.cycles) for number in range(len(graph.loops)))
    costs = {each.loop: each.cycles for each in loops}
    missing = _missing(graph, walked, costs)
    waves = graph.waves * workgroups
    lost = [Lost(where, reason, cycles / waves) for (reason, where), cycles in whole.stalls.items()]
    lost.sort(key=lambda each: (-each.cycles, each.point, each.reason))
    return Estimate(whole.cycles + missing, loops, tuple(lost), whole.cycles, workgroups, whole.events)


def _missing(graph: g.SyncGraph, walked: _Walked, costs: Mapping[int, float]) -> float:
    """What iterations would cost that were not run. Of loops that different waves run at once, the longest counts."""
    found = [walked.missing[number] * cycles for number, cycles in costs.items()]
    apart = [graph.points[loop.head].under != "uniform" for loop in graph.loops]
    most = max((each for each, alone in zip(found, apart, strict=True) if alone), default=0.0)
    return most + sum(each for each, alone in zip(found, apart, strict=True) if not alone)


def _sums(items: Iterator[tuple[str, float]]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for reason, cycles in items:
        found[reason] += cycles
    return {reason: found[reason] for reason in STALLS if found[reason]}


@dataclass(frozen=True, slots=True)
class _Model:
    graph: g.SyncGraph
    prices: Prices
    sizes: Mapping[str, int]
    trips: int | None
    workgroups: int

    def run(self, forced: Mapping[int, int], record: bool = False) -> tuple[Played, _Walked]:
        """One play, in which these loops run so often and others as their bounds say, but not for long."""
        walked: list[_Walked] = []
        alike = _waves_are_alike(self.graph)
        for wave in range(self.graph.waves):
            if alike and walked:
                walked.append(walked[0])
            else:
                walked.append(_Walker(self, wave, forced).walk())
        simds = self.prices.simds
        programs = [
            Program(group, (group * self.graph.waves + wave) % simds, each.steps)
            for group in range(self.workgroups)
            for wave, each in enumerate(walked)
        ]
        try:
            return play(programs, self.prices.machine(), record=record), _together(walked)
        except Stuck as stuck:
            raise NoEstimate(f"@{self.graph.name}: {stuck}") from None

    def loop(self, number: int, whole: float) -> LoopCost:
        """The steady state of a loop: two runs that differ only in its iterations, and in those of its partners."""
        others = dict.fromkeys(range(len(self.graph.loops)), OTHERS)
        together = self.partners(number)
        try:
            few, walked = self.run(others | {each: FEW + more for each, more in together.items()})
            more, further = self.run(others | {each: MOST + more for each, more in together.items()})
        except NoEstimate:  # waves wait for others that now run too few iterations: only the whole run says something
            wanted = _Walker(self, 0, {}).wanted(number)
            return LoopCost(number, whole / max(1.0, min(wanted, MOST)), wanted, {})
        entered = walked.entered[number]
        if not entered:
            return LoopCost(number, 0.0, 0.0, {})
        rounds, waves = (MOST - FEW) * entered, self.graph.waves * self.workgroups
        reasons = _sums((reason, cycles) for (reason, _), cycles in more.stalls.items())
        before = _sums((reason, cycles) for (reason, _), cycles in few.stalls.items())
        lost = {
            reason: max(0.0, cycles - before.get(reason, 0.0)) / rounds / waves for reason, cycles in reasons.items()
        }
        inner = sum(
            (further.missing[each] - walked.missing[each]) / rounds * self.loop(each, whole).cycles
            for each, loop in enumerate(self.graph.loops)
            if loop.parent == number and further.missing[each]
        )
        cycles = (more.cycles - few.cycles) / rounds + inner
        return LoopCost(number, cycles, walked.wanted[number] / entered, lost)

    def partners(self, number: int) -> dict[int, int]:
        """The loop, and those in which other waves run meanwhile, which may wait for each other; each with how many
        iterations it has more than this one.
        """
        own, points, walker = self.graph.loops[number], self.graph.points, _Walker(self, 0, {})
        apart = points[own.head].under != "uniform"
        return {
            each: max(1 - FEW, round(walker.wanted(each) - walker.wanted(number)))
            for each, loop in enumerate(self.graph.loops)
            if each == number or (apart and loop.parent == own.parent and points[loop.head].under != "uniform")
        }


def _waves_are_alike(graph: g.SyncGraph) -> bool:
    """Whether all waves do the same steps: none of them goes its own way."""
    for point in graph.points:
        if point.under != "uniform" or isinstance(point.action, g.Dispatch):
            return False
        if isinstance(point.action, g.Sync) and isinstance(point.action.op, ops.ConditionalBarrier):
            return False
    return len(graph.programs) == 1


# --- one wave -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Walked:
    """The steps of a wave; of each loop how often it was entered, iterations wanted, and of those the ones not run."""

    steps: tuple[c.Step, ...] = ()
    entered: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    wanted: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    missing: dict[int, float] = field(default_factory=lambda: defaultdict(float))


def _together(walked: list[_Walked]) -> _Walked:
    """For each loop the wave that enters it most often."""
    found = _Walked()
    for each in walked:
        for number, entered in each.entered.items():
            if entered > found.entered[number]:
                found.entered[number], found.wanted[number] = entered, each.wanted[number]
                found.missing[number] = each.missing[number]
    return found


class _Walker:
    """Follows one wave from point to point and writes down its steps."""

    def __init__(self, model: _Model, wave: int, forced: Mapping[int, int]) -> None:
        self.model, self.graph, self.wave, self.forced = model, model.graph, wave, forced
        graph = self.graph
        self.env: dict[str, int] = {
            **dict.fromkeys((each.name for each in graph.free), 0),
            **{size.name: size.default for size in graph.sizes},
            **model.sizes,
            **dict.fromkeys(WORKGROUP, 0),
            WAVE: wave,
            LANE: 0,
        }
        self.objects = {each.name: each for each in graph.objects}
        self.heads = {loop.head: number for number, loop in enumerate(graph.loops)}
        self.steps: list[c.Step] = []
        self.made: dict[int, tuple[int, ...]] = {}  # point → the steps that make its value
        self.tokens: dict[str, tuple[int, ...]] = {}
        self.open_group: list[int] = []
        self.calls: list[int] = []
        self.rounds: dict[int, int] = {}  # of the loops that the wave is in
        self.limits: dict[int, int] = {}
        self.found = _Walked()

    def walk(self) -> _Walked:
        at = next(each.entry for each in self.graph.programs if each.first <= self.wave < each.last)
        for _ in range(MOST_POINTS):
            point = self.graph.points[at]
            self.step(at, point)
            if isinstance(point.action, g.End):
                break
            at = self.next(at, point)
        else:
            raise NoEstimate(f"@{self.graph.name}: wave {self.wave} passes more than {MOST_POINTS:,} points")
        self.found.steps = tuple(self.steps)
        return self.found

    # --- control ---

    def next(self, at: int, point: g.Point) -> int:
        match point.action:
            case g.Branch(cond):
                return point.successors[self.decide(at, point, cond)]
            case g.Dispatch(ranges):
                mine = [place for place, (first, last) in enumerate(ranges) if first <= self.wave < last]
                return point.successors[mine[0] if mine else len(ranges)]
            case g.Call(function):
                self.calls.append(at)
                return next(each.entry for each in self.graph.functions if each.name == function)
            case g.Return():
                if not self.calls:
                    raise NoEstimate(f"@{self.graph.name}: point {at} returns from no function")
                return self.graph.points[self.calls.pop()].successors[0]
        return point.successors[0]

    def decide(self, at: int, point: g.Point, cond: Cond | None) -> int:
        exits = self.exit_of(at, point)
        if exits is not None:
            return self.turn(point.loop, exits)
        if cond is not None:
            value = self.holds(cond)
            if value is not None:
                return 0 if value else 1
        weights = [self.graph.points[each].weight for each in point.successors]
        return 0 if weights[0] >= weights[1] else 1

    def exit_of(self, at: int, point: g.Point) -> int | None:
        """Which successor of a branch ends its loop, if one does: the test at the head, or the only way out."""
        if point.loop < 0:
            return None
        leaves = [not self.inside(self.graph.points[each].loop, point.loop) for each in point.successors]
        if all(leaves) or not any(leaves):
            return None
        if at != self.graph.loops[point.loop].head and self.graph.loops[point.loop].counter:
            return None  # an early way out of a loop that ends by its count
        return leaves.index(True)

    def turn(self, loop: int, exits: int) -> int:
        """Another iteration, or out."""
        if loop not in self.rounds:
            self.rounds[loop] = 0
            self.found.entered[loop] += 1
            wanted = self.wanted(loop)
            self.limits[loop] = int(min(wanted, MOST)) if loop not in self.forced else self.forced[loop]
            self.found.wanted[loop] += wanted
            self.found.missing[loop] += max(0.0, wanted - self.limits[loop])
        if self.rounds[loop] < self.limits[loop]:
            self.rounds[loop] += 1
            return 1 - exits
        del self.rounds[loop]
        return exits

    def wanted(self, number: int) -> float:
        """Iterations that a loop has from here: as asked for, by its bounds, or as the graph expects."""
        loop = self.graph.loops[number]
        if self.model.trips is not None:
            return self.model.trips
        if loop.counter:
            lower, upper = self.value(loop.lower), self.value(loop.upper)
            if lower is not None and upper is not None and loop.step:
                return max(0, -(-(upper - lower) // loop.step))
        return loop.expect

    def inside(self, loop: int, outer: int) -> bool:
        while loop >= 0 and loop != outer:
            loop = self.graph.loops[loop].parent
        return loop == outer

    def holds(self, cond: Cond) -> bool | None:
        try:
            return holds(cond, self.env)
        except (KeyError, ZeroDivisionError):
            return None

    def value(self, index: Index) -> int | None:
        try:
            return evaluate(index, self.env)
        except (KeyError, ZeroDivisionError):
            return None

    # --- points ---

    def step(self, at: int, point: g.Point) -> None:
        match point.action:
            case g.Sync(op):
                self.sync(at, op)
            case g.Assign(pairs):
                self.assign(pairs)
                self.made[at] = self.needs(point)
            case g.Access() as access:
                self.access(at, point, access)
            case g.Unknown():
                self.do(at, self.model.prices.local("atomic_add", 0, at), point)
            case g.Havoc(names):
                self.env.update(dict.fromkeys(names, 0))
                self.compute(at, point)
            case _:
                self.compute(at, point)

    def assign(self, pairs: tuple[tuple[str, Index | g.Where | g.Token], ...]) -> None:
        new: list[tuple[str, int | tuple[int, ...]]] = []
        for name, value in pairs:
            if isinstance(value, g.Token):
                new.append((name, self.tokens.get(value.name, ())))
            elif isinstance(value, INDEX_TYPES):
                new.append((name, self.value(value) or 0))
        for name, found in new:
            if isinstance(found, tuple):
                self.tokens[name] = found
            else:
                self.env[name] = found

    def compute(self, at: int, point: g.Point) -> None:
        prices, work = self.model.prices, point.work
        if point.role == "mma":
            self.do(at, prices.mma(work.ops, work.dtype, at), point)
        elif point.role in ("global_read", "global_write"):
            self.do(at, prices.global_(point.role, work.bytes or 4 * prices.target.lanes, at), point)
        elif work.ops:
            self.do(at, prices.plain(work.ops, at), point)
        else:
            self.made[at] = self.needs(point)  # names only: a value goes through

    def access(self, at: int, point: g.Point, access: g.Access) -> None:
        prices, moved = self.model.prices, access.footprint.width
        for extent in access.footprint.extents:
            moved *= extent.count
        if access.is_async:
            label = point.label if point.label in prices.target.operations else "gather_to_lds"
            step = prices.copy(label, moved, at)
            if access.mbarrier is not None:
                told = self.meeting(access.mbarrier.base, self.value(access.mbarrier.slot) or 0)
                step = replace(step, reports=told)
            self.do(at, replace(step, is_copy=True), point)
            made = self.made[at]
            self.open_group += made
            if access.token:
                self.tokens[access.token] = made
            return
        words = {"read": "local_read", "write": "local_write", "atomic": "atomic_add"}
        self.do(at, prices.local(words[access.effect], moved, at), point)

    def do(self, at: int, step: c.Do, point: g.Point) -> None:
        counts = tuple((each.counter, each.least) for each in point.issues)
        self.made[at] = (len(self.steps),)
        self.steps.append(replace(step, needs=self.needs(point), counts=counts))

    def needs(self, point: g.Point) -> tuple[int, ...]:
        found: dict[int, None] = {}
        for each in point.uses:
            found.update(dict.fromkeys(self.made.get(each, ())))
        if len(found) > 8:  # only the newest can be late
            return tuple(sorted(found)[-8:])
        return tuple(found)

    # --- synchronization ---

    def sync(self, at: int, op: object) -> None:
        target = self.model.prices.target
        match op:
            case ops.WorkgroupBarrier():
                self.meet(at)
            case ops.SharedMemoryBarrier(counts=counts, async_deps=deps):
                drains = target.barrier.performs != "ordinary"
                if drains or counts or deps or op.wait_async_ops:
                    self.steps.append(c.Wait(at, counts, self.copies(deps), drains, op.wait_async_ops))
                self.meet(at)
            case ops.ConditionalBarrier(half=half):
                if (self.wave < self.graph.waves // 2) == (half == "low"):
                    self.meet(at)
            case ops.Signal(barrier=barrier):
                self.steps.append(c.Arrive(at, self.named(barrier)))
            case ops.Wait(barrier=barrier):
                self.steps.append(c.Depart(at, self.named(barrier)))
            case ops.WaitCount(counts=counts, async_deps=deps):
                self.steps.append(c.Wait(at, counts, self.copies(deps)))
            case ops.CommitGroup(result=result):
                if result is not None:
                    self.tokens[result.name] = tuple(self.open_group)
                self.open_group.clear()
                self.steps.append(c.Commit(at, self.model.prices.machine().group_counters))
            case ops.MbarrierArrive(barrier=place, expect=expect):
                where = self.meeting(place.base.name, self.value(place.slot) or 0)
                self.steps.append(c.Arrive(at, where, expect))
            case ops.MbarrierWait(barrier=place, parity=parity):
                where = self.meeting(place.base.name, self.value(place.slot) or 0)
                self.steps.append(c.Await(at, where, self.value(parity) or 0))
            case ops.NullAsyncDep(result=result):
                self.tokens[result.name] = ()
            case _:
                pass  # fences, priorities: nothing that this model knows the price of

    def meet(self, at: int) -> None:
        self.steps += (c.Arrive(at, _WORKGROUP), c.Depart(at, _WORKGROUP))

    def copies(self, deps: tuple[ops.Value, ...]) -> tuple[int, ...]:
        return tuple(step for each in deps for step in self.tokens.get(each.name, ()))

    def named(self, barrier: int | ops.Value) -> Meeting:
        if isinstance(barrier, int):
            return _WORKGROUP if barrier == -1 else Meeting(str(barrier))
        return self.meeting(barrier.name, None)

    def meeting(self, name: str, slot: int | None) -> Meeting:
        return Meeting(name, self.objects[name].type.arrivals, slot)


# Every barrier of the whole workgroup, and signal and wait on -1.
_WORKGROUP = Meeting("-1")
