"""Kernels with numbers on the hostile machine, and graphs without: every wave at its own pace, every access late.

Needs   a well-formed kernel and arguments that fit it, or a graph; a target, and a seed
Gives   the global arrays after the run, the races and wrong orders that the run shows, a hang if there is one, and
        how much was in flight
Keeps   the same seed gives the same run; a kernel without races computes what the in-order machine computes
        races are judged by what is certain, so that a lucky run finds them too; numbers show what luck there was
        accesses to global memory are performed at once and not judged
Cost    the arithmetic, plus per access what others may still meet (`races`)

Numbers move when an access is performed, and may move earlier: at the first use of a value, or by chance. That tells
the clocks of `races` nothing. Ordinary accesses of one wave move in issue order.

    ran = run_hostile(kernel, make_inputs(kernel), target=load_target("gfx942"), seed=7)
    ran.findings()
    run_graph(graph, target=load_target("gfx942"), sizes={"N": 4}).findings()
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tidegate.diag import Finding
from tidegate.graph.model import SyncGraph
from tidegate.index import LANE, WAVE, WORKGROUP
from tidegate.language.ops import Kernel
from tidegate.simulate.choices import Choices
from tidegate.simulate.clocks import Id
from tidegate.simulate.configurations import find_open
from tidegate.simulate.faults import Budget
from tidegate.simulate.findings import Statement, clash_finding
from tidegate.simulate.hangs import hang_finding
from tidegate.simulate.inorder import workgroups
from tidegate.simulate.inputs import Sizes, bind_arguments, check_assumptions, check_machine, fill_sizes
from tidegate.simulate.kernel_steps import KernelSource, facts_of, statements_of
from tidegate.simulate.machine import Listed, Machine, Source, start_machine
from tidegate.simulate.memory import LDS, Memory, as_bytes, lds_layout, poisoned_lds
from tidegate.simulate.moving import Data
from tidegate.simulate.position import shape_of
from tidegate.simulate.queues import Rules, rules_of
from tidegate.simulate.races import Verdicts, Watch, in_order
from tidegate.simulate.regions import Regions
from tidegate.simulate.statements import crosses_proxies
from tidegate.simulate.statements import statements_of as graph_statements
from tidegate.simulate.statistics import Listener, Silent, Statistics, Tally
from tidegate.simulate.steps import Arrive, Await, Depart, Drain, End, Issue, Step, Touch
from tidegate.simulate.tiles import Array
from tidegate.simulate.unroll import Surroundings, unroll
from tidegate.simulate.values import Env, PerLane
from tidegate.simulate.wave import Wave
from tidegate.targets import Target

Place = tuple[int, int, int]
# Told after each workgroup, and now and then within one, how many are done, and of how many.
Progress = Callable[[int, int], None]
TELL_EVERY = 1024


def _quiet(done: int, total: int) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True)
class HostileRun:
    """What a run left behind. After a hang, `hang` is the machine as it stands, and the arrays are unfinished."""

    name: str
    statements: tuple[Statement, ...]
    arrays: dict[str, Array]
    verdicts: Verdicts
    hang: Machine | None
    statistics: Statistics
    places: Mapping[object, Place]  # the workgroup that showed it, by the statements of a clash; of a hang, by None
    missteps: tuple[Finding, ...] = ()  # of a graph: accesses that leave their memory

    def findings(self) -> list[Finding]:
        """Races and wrong orders in the order of the text, then a hang."""
        found = [
            clash_finding(
                clash,
                self.statements,
                self._where(clash.statements),
                phases=self._meets(),
                safe=self.verdicts.safe,
            )
            for clash in in_order(self.verdicts.clashes.values())
        ]
        if self.hang is not None:
            found.append(hang_finding(self.hang, self.statements, self.name, self._where(None)))
        return [*self.missteps, *found]

    def _meets(self) -> bool:
        """Whether the workgroup's barrier is used, or no other is."""
        used = {barrier for wave in self.statistics.waves for barrier in wave.arrivals}
        return any(not barrier.arrivals for barrier in used) or not used

    def _where(self, what: object) -> tuple[str, ...]:
        place = self.places.get(what)
        return (
            ()
            if place is None or self.statistics.workgroups == 1
            else (f"in workgroup ({', '.join(map(str, place))})",)
        )


def run_hostile(
    kernel: Kernel,
    inputs: Mapping[str, Any],
    *,
    target: Target,
    sizes: Sizes | None = None,
    waves: int | None = None,
    seed: int = 0,
    listener: Listener | None = None,
    progress: Progress | None = None,
    most_steps: int = 0,
) -> HostileRun:
    """Every workgroup of the grid, one after the other, until one hangs."""
    values = fill_sizes(kernel, sizes)
    arguments, arrays = bind_arguments(kernel, inputs, values)
    count, lanes = kernel.waves if waves is None else waves, target.lanes or 64
    check_machine(kernel, count, lanes)
    shared: Env = {**values, **arguments, LANE: PerLane(np.arange(lanes, dtype=np.int64))}
    spaces = {name: as_bytes(array) for name, array in arrays.items()}
    grid, facts, layout = workgroups(kernel.name, kernel.grid, values), facts_of(kernel, target), lds_layout(kernel)
    tally = Tally(count, listener or Silent())
    rng, budget = random.Random(seed), Budget(most_steps)
    run = _Run(rules_of(target), rng, tally, progress or _quiet, len(grid), kernel.name, budget)
    for place in grid:
        memory = Memory({**spaces, LDS: poisoned_lds(kernel)})
        env = {**shared, **dict(zip(WORKGROUP, place, strict=True))}
        data = [Data(memory, run.tally.mover(wave), lanes) for wave in range(count)]
        sources = [
            KernelSource(Wave(kernel.body, {**env, WAVE: wave}, layout, waves=count, lanes=lanes), facts, each)
            for wave, each in enumerate(data)
        ]
        run.workgroup(place, sources, data, facts.regions, facts.crosses)
        if run.hang is not None:
            break
    statements = statements_of(kernel)
    return HostileRun(kernel.name, statements, arrays, run.verdicts, run.hang, run.tally.statistics(), dict(run.places))


def run_graph(
    graph: SyncGraph,
    *,
    target: Target,
    sizes: Sizes | None = None,
    seed: int = 0,
    listener: Listener | None = None,
    progress: Progress | None = None,
    most_steps: int = 0,
) -> HostileRun:
    """As `run_hostile`, for a graph: what it leaves open is decided at random, and there are no numbers."""
    values = {size.name: size.default for size in graph.sizes} | dict(sizes or {})
    check_assumptions(graph.name, graph.where, {**dict.fromkeys((each.name for each in graph.free), 0), **values})
    rng, regions = random.Random(seed), Regions()
    about, shape = find_open(graph), shape_of(graph)
    grid = workgroups(graph.name, graph.grid, values)
    tally, budget = Tally(graph.waves, listener or Silent()), Budget(most_steps)
    run = _Run(rules_of(target), rng, tally, progress or _quiet, len(grid), graph.name, budget)
    missteps: dict[str, Finding] = {}
    for place in grid:
        env = {
            **dict.fromkeys((each.name for each in graph.free), 0),
            **values,
            **dict(zip(WORKGROUP, place, strict=True)),
        }
        around = Surroundings(
            graph, shape, regions, bool(target.counters), env, about.candidates, about.differ, about.most_trips
        )
        choices = Choices((), rng)

        def report(finding: Finding) -> None:
            missteps.setdefault(f"{finding.code} {finding.at} {finding.message}", finding)

        sources = [Listed(unroll(around, wave, choices, report)) for wave in range(graph.waves)]
        run.workgroup(place, sources, [], regions, crosses_proxies(graph))
        if run.hang is not None:
            break
    statements, counted = graph_statements(graph), run.tally.statistics()
    return HostileRun(
        graph.name, statements, {}, run.verdicts, run.hang, counted, dict(run.places), tuple(missteps.values())
    )


# --- the schedule -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Mood:
    """How a workgroup behaves: how long a wave runs alone, how likely copies land and other accesses move early, and
    lanes read what others of their wave have yet to write.

    Once in a while it is kind: waves take turns and nothing is late, as hardware often has it.
    """

    bursts: tuple[int, ...]
    lands: float
    early: float
    apart: float = 0.0
    kind: bool = False


def _mood(rng: random.Random) -> _Mood:
    if rng.random() < 0.1:
        return _Mood((1,), 0.5, 1.0, kind=True)
    bursts = rng.choice(((1,), (1, 2, 4), (1, 4, 16, 64), (8, 64, 512)))
    return _Mood(bursts, rng.choice((0.02, 0.1, 0.5)), rng.choice((0.0, 0.02, 0.2)), rng.choice((0.0, 0.1, 0.5)))


@dataclass(slots=True)
class _Run:
    """A run of a grid: what its workgroups share, and what they found."""

    rules: Rules
    rng: random.Random
    tally: Tally
    progress: Progress
    total: int
    name: str
    budget: Budget
    verdicts: Verdicts = field(default_factory=Verdicts)
    places: dict[object, Place] = field(default_factory=dict)
    hang: Machine | None = None

    def workgroup(
        self, place: Place, sources: Sequence[Source], data: list[Data], regions: Regions, crosses: bool
    ) -> None:
        tally, verdicts = self.tally, Verdicts()
        tally.start(place)
        fenced = self.rules.fenced if crosses else frozenset()
        watch = Watch(regions, verdicts, fenced, in_issue_order=self.rules.in_issue_order)
        machine = start_machine(self.rules, sources, watch)

        def on_step(wave: int, step: Step) -> None:
            tally.step(wave, step)
            source = sources[wave]
            if isinstance(step, Issue) and isinstance(source, KernelSource):
                state = machine.waves[wave]
                data[wave].meet(state.known_to_lanes)
                source.issue(state.issued)

        def on_perform(wave: int, number: int, touch: Touch) -> None:
            if data:
                data[wave].perform(number)
            tally.performed(wave, number, touch)

        machine.on_step, machine.on_perform = on_step, on_perform
        self._schedule(machine, data)
        for wave, held in machine.blocked():
            tally.listener.hangs(tally.time, wave, held, machine.waits_for(wave, held))
        tally.end()
        self.progress(tally.groups, self.total)
        self.verdicts.lower(verdicts.safe)
        for statements, clash in verdicts.clashes.items():
            if statements not in self.verdicts.clashes:
                self.verdicts.add(clash)
                self.places[statements] = place
        if not all(wave.ended for wave in machine.waves):
            self.hang = machine
            self.places[None] = place

    def _schedule(self, machine: Machine, data: list[Data]) -> None:
        """Steps until nothing can happen. A wave that a barrier holds is left alone until something arrives."""
        rng, mood = self.rng, _mood(self.rng)
        for each in data:
            each.runs_apart = lambda: rng.random() < mood.apart
        ready = list(range(len(machine.waves)))
        wave = left = 0
        while ready or machine.landing:
            if machine.landing and (not ready or rng.random() < mood.lands):
                self._land(machine, rng.choice(list(machine.landing)))
                ready = _living(machine)
                continue
            fresh = left <= 0 or wave not in ready
            if fresh:
                wave, left = self._pick(machine, ready, mood), rng.choice(mood.bursts)
            if not machine.can_step(wave):
                ready.remove(wave)
                continue
            step = machine.next(wave)
            if not fresh and isinstance(step, Drain | Depart | Await) and rng.random() < 0.5:
                left = 0  # hesitates before a wait
                continue
            left -= 1
            self._step(machine, wave, step)
            if self.tally.time % TELL_EVERY == 0:
                self.progress(self.tally.groups - 1, self.total)
            if isinstance(step, Arrive | End):
                ready = _living(machine)
            elif isinstance(step, Depart | Await) and rng.random() < 0.75:
                left = 0
            if data and mood.early and rng.random() < mood.early:
                other = wave if mood.kind else rng.randrange(len(data))
                if waiting := data[other].waiting(machine, other):
                    data[other].perform(rng.choice(waiting))

    def _pick(self, machine: Machine, ready: list[int], mood: _Mood) -> int:
        if mood.kind:
            return min(ready, key=lambda wave: machine.waves[wave].place)
        return self.rng.choice(ready)

    def _step(self, machine: Machine, wave: int, step: Step | None) -> None:
        number, clashes = machine.waves[wave].issued, machine.watch.verdicts.clashes
        known = len(clashes)
        self.tally.tick()
        before = machine.watch.verdicts.compared
        machine.step(wave)
        self.budget.compared += machine.watch.verdicts.compared - before
        self.budget.step(self.name)
        if isinstance(step, Issue):
            if number in machine.waves[wave].flight.touches:
                self.tally.in_flight(wave, step.touch)
            for clash in list(clashes.values())[known:] if len(clashes) > known else ():
                self.tally.clash(clash)

    def _land(self, machine: Machine, at: Id) -> None:
        self.tally.tick()
        machine.land(at)


def _living(machine: Machine) -> list[int]:
    return [number for number, wave in enumerate(machine.waves) if not wave.ended]
