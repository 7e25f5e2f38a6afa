"""The steps of one wave of a graph, as far as time is concerned.

Needs   a well-formed graph, prices, values for its sizes, and how often loops may run
Gives   the steps of one wave, and how many iterations of each loop were left out
Keeps   where the graph leaves a branch open, the heavier arm is taken; what nobody knows counts as 0
        a point that only names things takes no time: its value is that of what it uses
Cost    linear in the points passed

Unlike `unroll` it asks for no bytes: what an access costs depends on how many it touches, not on which.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tidegate.cost import Meeting, Prices
from tidegate.cost import steps as c
from tidegate.graph import model as g
from tidegate.index import INDEX_TYPES, LANE, WAVE, WORKGROUP, Cond, Index, evaluate, holds
from tidegate.language import ops

# A wave that passes more points than this is not followed further.
MOST_POINTS = 200_000
# Of the steps that a value comes from, only the newest can be late.
MOST_NEEDS = 8


class NoEstimate(Exception):
    """The waves of the graph do not come to their end; says why."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How often loops run: exactly so often, at most so often, and what holds for all others; 0 is no limit."""

    exactly: Mapping[int, int] = field(default_factory=dict)
    at_most: Mapping[int, int] = field(default_factory=dict)
    most: int = 0

    def of(self, loop: int, wanted: float) -> int:
        if loop in self.exactly:
            return self.exactly[loop]
        most = self.at_most.get(loop, self.most)
        return int(min(wanted, most)) if most else int(wanted)


@dataclass(frozen=True, slots=True)
class Asked:
    """What all waves of a run share. `trips`: every loop has so many iterations, whatever its bounds say."""

    graph: g.SyncGraph
    prices: Prices
    sizes: Mapping[str, int]
    trips: int | None = None
    most_points: int = MOST_POINTS  # that one wave may pass
    # Kept from wave to wave: the step of a point without what it needs, and which successor of a branch ends its loop.
    made: dict[int, c.Do] = field(default_factory=dict, compare=False)
    exits: dict[int, int | None] = field(default_factory=dict, compare=False)


@dataclass(slots=True)
class Walked:
    """The steps of a wave; of each loop the iterations that were run, and those that its bounds ask for beside them."""

    steps: tuple[c.Step, ...] = ()
    ran: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    missing: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    points: int = 0  # that were passed


class Walker:
    """Follows one wave from point to point and writes down its steps."""

    def __init__(self, asked: Asked, wave: int, bounds: Limits) -> None:
        self.asked, self.graph, self.wave, self.bounds = asked, asked.graph, wave, bounds
        graph = self.graph
        self.env: dict[str, int] = {
            **dict.fromkeys((each.name for each in graph.free), 0),
            **{size.name: size.default for size in graph.sizes},
            **asked.sizes,
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
        self.found = Walked()

    def walk(self) -> Walked:
        at = next(each.entry for each in self.graph.programs if each.first <= self.wave < each.last)
        for _ in range(self.asked.most_points):
            point = self.graph.points[at]
            self.found.points += 1
            self.step(at, point)
            if isinstance(point.action, g.End):
                break
            at = self.next(at, point)
        else:
            raise NoEstimate(f"@{self.graph.name}: wave {self.wave} passes more than {self.asked.most_points:,} points")
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
        known = self.asked.exits
        if at not in known:
            known[at] = self.exit_of(at, point)
        exits = known[at]
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
        leaves = [not g.is_inside(self.graph, self.graph.points[each].loop, point.loop) for each in point.successors]
        if all(leaves) or not any(leaves):
            return None
        if at != self.graph.loops[point.loop].head and self.graph.loops[point.loop].counter:
            return None  # an early way out of a loop that ends by its count
        return leaves.index(True)

    def turn(self, loop: int, exits: int) -> int:
        """Another iteration, or out."""
        if loop not in self.rounds:
            self.rounds[loop] = 0
            wanted = self.wanted(loop)
            self.limits[loop] = self.bounds.of(loop, wanted)
            self.found.ran[loop] += self.limits[loop]
            self.found.missing[loop] += max(0.0, wanted - self.limits[loop])
        if self.rounds[loop] < self.limits[loop]:
            self.rounds[loop] += 1
            return 1 - exits
        del self.rounds[loop]
        return exits

    def wanted(self, number: int) -> float:
        """Iterations that a loop has from here: as asked for, by its bounds, or as the graph expects."""
        loop = self.graph.loops[number]
        if self.asked.trips is not None:
            return self.asked.trips
        if loop.counter:
            lower, upper = self.value(loop.lower), self.value(loop.upper)
            if lower is not None and upper is not None and loop.step:
                return max(0, -(-(upper - lower) // loop.step))
        return loop.expect

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
                self.do(at, point, lambda: self.asked.prices.local("atomic_add", 0, at))
            case g.Havoc(given):
                self.env.update(dict.fromkeys(given, 0))
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
        prices, work = self.asked.prices, point.work
        if point.role == "mma":
            self.do(at, point, lambda: prices.mma(work.ops, work.dtype, at))
        elif point.role in ("global_read", "global_write"):
            self.do(at, point, lambda: prices.global_(point.role, work.bytes or 4 * prices.target.lanes, at))
        elif work.ops:
            self.do(at, point, lambda: prices.plain(work.ops, at))
        else:
            self.made[at] = self.needs(point)  # names only: a value goes through

    def access(self, at: int, point: g.Point, access: g.Access) -> None:
        self.do(at, point, lambda: self.moving(at, point, access))
        if not access.is_async:
            return
        if access.mbarrier is not None:
            told = self.meeting(access.mbarrier.base, self.value(access.mbarrier.slot) or 0)
            step = self.steps[-1]
            assert isinstance(step, c.Do)
            self.steps[-1] = replace(step, reports=told)
        made = self.made[at]
        self.open_group += made
        if access.token:
            self.tokens[access.token] = made

    def moving(self, at: int, point: g.Point, access: g.Access) -> c.Do:
        prices, moved = self.asked.prices, access.footprint.width
        for extent in access.footprint.extents:
            moved *= extent.count
        if access.is_async:
            label = point.label if point.label in prices.target.operations else "gather_to_lds"
            return replace(prices.copy(label, moved, at), is_copy=True)
        words = {"read": "local_read", "write": "local_write", "atomic": "atomic_add"}
        return prices.local(words[access.effect], moved, at)

    def do(self, at: int, point: g.Point, price: Callable[[], c.Do]) -> None:
        """The step of a point: what it costs does not change, what it needs does."""
        step = self.asked.made.get(at)
        if step is None:
            step = price()
            # What may not be issued mostly is: a time is an estimate, and relies on nothing.
            counts = tuple((each.counter, each.least or min(each.most, step.parts)) for each in point.issues)
            step = self.asked.made[at] = replace(step, counts=counts)
        needs = self.needs(point)
        self.made[at] = (len(self.steps),)
        self.steps.append(replace(step, needs=needs) if needs else step)

    def needs(self, point: g.Point) -> tuple[int, ...]:
        """The steps that make what a point uses.

        Which of the values that a loop carries is used, a graph does not say. Reads and copies take only indices; what
        is written was read or computed before, unless all that is carried are matrix products.
        """
        if not point.uses:
            return ()
        found: dict[int, None] = {}
        for each in point.uses:
            made = self.made.get(each, ())
            if each in self.heads and point.role in ("local_read", "global_read", "copy"):
                continue
            if each in self.heads and point.role in ("local_write", "global_write"):
                made = tuple(step for step in made if not self.is_mma(step)) or made
            found.update(dict.fromkeys(made))
        return tuple(sorted(found)[-MOST_NEEDS:])

    def is_mma(self, step: int) -> bool:
        made = self.steps[step]
        return isinstance(made, c.Do) and made.unit == "mma"

    # --- synchronization ---

    def sync(self, at: int, op: object) -> None:
        target = self.asked.prices.target
        match op:
            case ops.WorkgroupBarrier():
                self.meet(at)
            case ops.SharedMemoryBarrier(counts=counts, async_deps=deps):
                drains = target.barrier.performs != "ordinary"
                if drains or counts or deps or op.wait_async_ops:
                    waited = self.copies(() if counts else deps)
                    self.steps.append(c.Wait(at, counts, waited, drains, op.wait_async_ops))
                self.meet(at)
            case ops.ConditionalBarrier(half=half):
                if (self.wave < self.graph.waves // 2) == (half == "low"):
                    self.meet(at)
            case ops.Signal(barrier=barrier):
                self.steps.append(c.Arrive(at, self.named(barrier)))
            case ops.Wait(barrier=barrier):
                self.steps.append(c.Depart(at, self.named(barrier)))
            case ops.WaitCount(counts=counts, async_deps=deps):
                self.steps.append(c.Wait(at, counts, self.copies(() if counts else deps)))
            case ops.CommitGroup(result=result):
                if result is not None:
                    self.tokens[result.name] = tuple(self.open_group)
                self.open_group.clear()
                self.steps.append(c.Commit(at, self.asked.prices.machine().group_counters))
            case ops.MbarrierArrive(barrier=place, expect=expect):
                where = self.meeting(place.base.name, self.value(place.slot) or 0)
                self.steps.append(c.Arrive(at, where, expect))
            case ops.MbarrierWait(barrier=place, parity=parity):
                where = self.meeting(place.base.name, self.value(place.slot) or 0)
                self.steps.append(c.Await(at, where, self.value(parity) or 0))
            case ops.SetWavePrio(level=level):
                self.steps.append(c.Prefer(at, level))
            case ops.NullAsyncDep(result=result):
                self.tokens[result.name] = ()
            case ops.Fence(kind="wave") if self.asked.prices.target.fence.wave_performs != "nothing":
                self.steps.append(self.asked.prices.plain(1, at))  # else it only holds the compiler
            case _:
                pass  # fences between proxies: nothing that this model knows the price of

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
