"""How many cycles a graph takes on a target, by the target's cost model, and where waves are held up.

Needs   a well-formed graph and a target; the steps are played by `tidegate.cost`
Gives   an `Estimate`: cycles in all, for one iteration of each loop, and lost by reason and by point
Keeps   where the graph leaves a branch open, the heavier arm is taken; latencies of memory that vary are averaged over
        `DRAWS` plays whose luck is fixed, so the same graph gives the same numbers
Cost    linear in the points passed; a loop is run for a few iterations, whatever its bounds are

A loop of n iterations is run for at most `MOST` of them. What an iteration costs in the steady state is the difference
between two runs, divided by the difference in iterations; the iterations that were not run are added at that price.
The two runs have larger sizes where the bounds of the loop depend on sizes; else the bounds are set aside.

    iterations      12 ......... 24 ......... n
    cycles          a            b            b + (n - 24) * (b - a) / 12
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.cost import Do, Event, Played, Program, Stuck, play, prices_of
from tidegate.cost.steps import STALLS, Stall
from tidegate.graph import model as g
from tidegate.index import names
from tidegate.language import ops
from tidegate.simulate.cycle_steps import Asked, Limits, NoEstimate, Walked, Walker
from tidegate.targets import Target

# Iterations of the two runs of a loop that are compared, and of the loops inside of it and around it meanwhile. The
# difference is a multiple of the usual numbers of slots, so that the state of the pipeline is the same.
FEW, MOST, OTHERS = 12, 24, 4
# Plays over which varying latencies are averaged; each has tens of accesses of each wave.
DRAWS = 4
# Sizes are made at most so many times larger to see the steady state of a loop.
MOST_FACTOR = 64

_TwoRuns = tuple[tuple[Played, Walked], tuple[Played, Walked]]


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
    """What a graph costs. `lost` and `played` are of a run whose loops end after `MOST` iterations, on average over its
    draws; `events` is the first of them.
    """

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
    model = _Model(Asked(graph, prices_of(target, cached=cached, reuse=reuse), dict(sizes or {}), trips), workgroups)
    try:
        whole, walked = model.run(Limits(most=MOST), record)
    except NoEstimate:  # waves wait for what the iterations that were left out would have done
        whole, walked = model.run(Limits(), record)
    loops = tuple(model.loop(number, whole.cycles) for number in range(len(graph.loops)))
    costs = {each.loop: each.cycles for each in loops}
    missing = _missing(graph, walked, costs)
    waves = graph.waves * workgroups
    lost = [Lost(where, reason, cycles / waves) for (reason, where), cycles in whole.stalls.items()]
    lost.sort(key=lambda each: (-each.cycles, each.point, each.reason))
    return Estimate(whole.cycles + missing, loops, tuple(lost), whole.cycles, workgroups, whole.events)


@dataclass(frozen=True, slots=True)
class Effort:
    """How long a graph is played: every loop at most so often, with these sizes, and so many draws."""

    trips: int
    draws: int
    sizes: tuple[tuple[str, int], ...] = ()


def affordable(graph: g.SyncGraph, target: Target, efforts: Sequence[Effort], most: int) -> Effort | None:
    """The first that takes at most so many points of all waves in all draws; None if each takes more.

    Its sizes are those with which loops run as often as they are played. With other sizes the last iterations would
    come too early, or never: `conditional %k + 2 < N` holds in 14 of 16 iterations only if N is 16
    (test_loose_counts: `test_a_guard_is_priced_with_the_trips_that_are_played`).
    """
    for each in efforts:
        effort = replace(each, sizes=_fitting_sizes(graph, target, each.trips))
        asked = Asked(graph, prices_of(target), dict(effort.sizes), most_points=most // (graph.waves * each.draws))
        try:
            Walker(asked, 0, Limits(most=each.trips)).walk()
        except NoEstimate:
            continue
        return effort
    return None


def whole_cycles(graph: g.SyncGraph, target: Target, effort: Effort) -> float:
    """The cycles of one workgroup whose tiles lie in the cache: a part of what `estimate` says, sooner. Raises
    `NoEstimate`."""
    asked = Asked(graph, prices_of(target, cached=True), dict(effort.sizes))
    return _Model(asked, 1, effort.draws).run(Limits(most=effort.trips))[0].cycles


def _fitting_sizes(graph: g.SyncGraph, target: Target, trips: int) -> tuple[tuple[str, int], ...]:
    """The smallest sizes with which loops run at least so often, outer loops first; a size is changed once."""
    model = _Model(Asked(graph, prices_of(target), {}), 1)
    for number, loop in enumerate(graph.loops):
        if model.asked.sizes.keys().isdisjoint({*names(loop.lower), *names(loop.upper)}):
            model = model.larger(number, trips) or model
    return tuple(model.asked.sizes.items())


def iteration(
    graph: g.SyncGraph,
    target: Target,
    loop: int,
    *,
    cached: bool = False,
    draws: int = DRAWS,
    rounds: tuple[int, int] = (FEW, MOST),
) -> LoopCost:
    """One iteration of one loop in the steady state: a part of what `estimate` says, sooner. Raises `NoEstimate`.

    `rounds`: iterations of the two runs that are compared.
    """
    model = _Model(Asked(graph, prices_of(target, cached=cached), {}), 1, draws, rounds)
    runs = model.by_sizes(loop) or model.by_force(loop)
    return model.loop(loop, model.run(Limits(most=MOST))[0].cycles if runs is None else 0.0, runs)


def _missing(graph: g.SyncGraph, walked: Walked, costs: Mapping[int, float]) -> float:
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
    asked: Asked
    workgroups: int
    draws: int = DRAWS
    rounds: tuple[int, int] = (FEW, MOST)

    @property
    def graph(self) -> g.SyncGraph:
        return self.asked.graph

    def run(self, limits: Limits, record: bool = False) -> tuple[Played, Walked]:
        """One play of each draw."""
        known: dict[int, Walked] = {}
        like = _which_are_alike(self.graph)
        for wave in range(self.graph.waves):
            if like[wave] not in known:
                known[like[wave]] = Walker(self.asked, wave, limits).walk()
        walked = [known[each] for each in like]
        simds = self.asked.prices.simds
        programs = [
            Program(group, (group * self.graph.waves + wave) % simds, each.steps)
            for group in range(self.workgroups)
            for wave, each in enumerate(walked)
        ]
        try:
            plays = [
                play(programs, self.asked.prices.machine(), draw=draw, record=record and draw == 0)
                for draw in range(self.draws if _varies(programs) else 1)
            ]
        except Stuck as stuck:
            raise NoEstimate(f"@{self.graph.name}: {stuck}") from None
        return _average(plays), _together(walked)

    def loop(self, number: int, whole: float, runs: _TwoRuns | None = None) -> LoopCost:
        """The steady state of a loop: two runs that differ only in its iterations."""
        runs = runs or self.by_sizes(number) or self.by_force(number)
        if runs is None:  # waves wait for others that run too few iterations: only the whole run says something
            wanted = self.wanted(number)
            return LoopCost(number, whole / max(1.0, wanted), wanted, {})
        (few, walked), (more, further) = runs
        rounds = further.ran[number] - walked.ran[number]
        if rounds <= 0:
            return LoopCost(number, 0.0, 0.0, {})
        waves = self.graph.waves * self.workgroups
        after = _sums((reason, cycles) for (reason, _), cycles in more.stalls.items())
        before = _sums((reason, cycles) for (reason, _), cycles in few.stalls.items())
        lost = {reason: max(0.0, each - before.get(reason, 0.0)) / rounds / waves for reason, each in after.items()}
        inner = sum(
            (further.missing[each] - walked.missing[each]) / rounds * self.loop(each, whole).cycles
            for each, loop in enumerate(self.graph.loops)
            if loop.parent == number and further.missing[each] > walked.missing[each]
        )
        cycles = (more.cycles - few.cycles) / rounds + inner
        return LoopCost(number, cycles, self.wanted(number), lost)

    def by_sizes(self, number: int) -> _TwoRuns | None:
        """With larger sizes, where it depends on them how often the loop runs: so all conditions fit the iterations."""
        others = {each: OTHERS for each in range(len(self.graph.loops)) if each != number}
        first, last = self.rounds
        few = self.larger(number, first)
        more = self.larger(number, few.wanted(number) + last - first) if few is not None else None
        if few is None or more is None:
            return None
        try:
            return few.run(Limits(at_most=others)), more.run(Limits(at_most=others))
        except NoEstimate:
            return None

    def larger(self, number: int, trips: float) -> _Model | None:
        """The same with sizes so large that the loop runs at least so often; the smallest multiples that do."""
        loop = self.graph.loops[number]
        if self.asked.trips is not None or not loop.counter:
            return None
        sizes = {size.name: size.default for size in self.graph.sizes} | dict(self.asked.sizes)
        used = [name for name in sizes if name in {*names(loop.lower), *names(loop.upper)}]
        if not used:
            return None
        for factor in (each / 8 for each in range(1, 8 * MOST_FACTOR)):
            scaled = {name: max(1, int(sizes[name] * factor)) for name in used}
            if any(sizes[name] * factor != scaled[name] for name in used):
                continue
            model = replace(self, asked=replace(self.asked, sizes={**self.asked.sizes, **scaled}))
            if model.wanted(number) >= trips and model.is_allowed():
                return model
        return None

    def wanted(self, number: int) -> float:
        """The iterations of a loop, as far as they are known before anything runs."""
        return Walker(self.asked, 0, Limits()).wanted(number)

    def is_allowed(self) -> bool:
        """Whether the sizes are what the graph assumes, as far as that can be told."""
        walker = Walker(self.asked, 0, Limits())
        return all(walker.holds(cond) is not False for cond in self.graph.where)

    def by_force(self, number: int) -> _TwoRuns | None:
        """Whatever its bounds are, together with its partners."""
        others = dict.fromkeys(range(len(self.graph.loops)), OTHERS)
        together = self.partners(number)
        try:
            first, last = self.rounds
            few = self.run(Limits({each: first + more for each, more in together.items()}, others))
            return few, self.run(Limits({each: last + more for each, more in together.items()}, others))
        except NoEstimate:
            return None

    def partners(self, number: int) -> dict[int, int]:
        """The loop, and those in which other waves run meanwhile, which may wait for each other; each with how many
        iterations it has more than this one.
        """
        own, points = self.graph.loops[number], self.graph.points
        apart = points[own.head].under != "uniform"
        return {
            each: max(1 - self.rounds[0], round(self.wanted(each) - self.wanted(number)))
            for each, loop in enumerate(self.graph.loops)
            if each == number or (apart and loop.parent == own.parent and points[loop.head].under != "uniform")
        }


def _varies(programs: list[Program]) -> bool:
    """Whether some latency varies."""
    steps = {id(each.steps): each.steps for each in programs}
    return any(isinstance(step, Do) and step.spread for each in steps.values() for step in each)


def _average(plays: list[Played]) -> Played:
    """Of all numbers; what happened when is that of the first."""
    stalls: dict[tuple[Stall, int], float] = defaultdict(float)
    for each in plays:
        for key, cycles in each.stalls.items():
            stalls[key] += cycles / len(plays)
    return Played(sum(each.cycles for each in plays) / len(plays), dict(stalls), plays[0].events)


def _together(walked: list[Walked]) -> Walked:
    """For each loop the wave that runs it most often."""
    found = Walked()
    for each in walked:
        for number, ran in each.ran.items():
            if ran >= found.ran[number]:
                found.ran[number], found.missing[number] = ran, each.missing[number]
    return found


def _which_are_alike(graph: g.SyncGraph) -> list[int]:
    """For each wave a number; waves with the same number do the same steps. Conditional barriers part the halves."""
    halves = False
    for point in graph.points:
        if point.under != "uniform" or isinstance(point.action, g.Dispatch):
            return list(range(graph.waves))
        halves |= isinstance(point.action, g.Sync) and isinstance(point.action.op, ops.ConditionalBarrier)
    if len(graph.programs) > 1:
        return list(range(graph.waves))
    return [int(halves and wave >= graph.waves // 2) for wave in range(graph.waves)]
