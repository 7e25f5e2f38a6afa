"""The judge: runs a graph on the hostile machine in every way that matters, and says what is wrong.

Needs   a well-formed graph and its target
Gives   findings with witnesses; what was run, and what was bounded
Keeps   without barrier objects each configuration is decided for all orders of its waves by one run, with them by all
        orders that differ, up to a bound, and at random beyond it
        shares no code with the stages that it judges
Cost    the steps of all runs; small trip counts keep them few

    judgement = judge(graph, target)
    judgement.findings, judgement.covered, judgement.bounded
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from tidegate.collecting import no_collecting
from tidegate.diag import Finding, Label
from tidegate.graph import model as g
from tidegate.simulate.choices import Choices
from tidegate.simulate.configurations import Configuration, Configurations, find_configurations, find_few
from tidegate.simulate.explore import (
    MOST_STATES,
    Blind,
    Explored,
    at_least,
    explore,
    explore_all,
    order_varies,
    run_once,
)
from tidegate.simulate.findings import cause_of, clash_finding
from tidegate.simulate.hangs import hang_finding
from tidegate.simulate.kept_steps import KeptSteps
from tidegate.simulate.machine import Listed, Machine, start_machine
from tidegate.simulate.meetings import Meetings, Mistake
from tidegate.simulate.position import shape_of
from tidegate.simulate.queues import Rules, rules_of
from tidegate.simulate.races import Clash, Verdicts, Watch, in_order
from tidegate.simulate.regions import Regions
from tidegate.simulate.statements import crosses_proxies, ends_behind_branches, is_early_end, meets_all, statements_of
from tidegate.simulate.steps import Step
from tidegate.simulate.unroll import MOST_POINTS, Endless, Misstep, Surroundings, unroll
from tidegate.targets import Target

# Ways to choose in one configuration that are gone through in order; beyond them, so many more at random.
MOST_CHOICES, MORE_CHOICES = 256, 32
# Orders of one run at random, where there are too many to visit.
RANDOM_ORDERS = 16
# Runs with barrier objects of more steps than this are not explored: so many orders are drawn instead.
LONGEST_EXPLORED, FEW_ORDERS = 2_000, 4
# Steps after which no further configuration is begun. A step that a wave takes counts as much as three points that it
# passes, or three pairs of accesses that are compared: each of these takes some five microseconds.
POINTS_TO_A_STEP = COMPARED_IN_A_STEP = 3
MOST_STEPS, FEW_STEPS = 500_000, 90_000
# Of a program with barrier objects, which nothing but its runs decides.
OBJECT_STEPS = 200_000
# Of one run, how often an access is compared with one before it; hundreds of accesses without a barrier reach it.
MOST_COMPARED = 200_000
# Where everything that is wanted has been seen, so many steps are enough.
ENOUGH_STEPS = 20_000
MOST_ALIKE = 20


@dataclass(frozen=True, slots=True)
class Limits:
    """How far to go. `states`: of one run with barrier objects, before orders are drawn at random."""

    states: int = 5_000
    sizes: tuple[tuple[str, int], ...] = ()  # that are fixed, and free numbers and flags; the others are chosen
    steps: int = MOST_STEPS
    seed: int = 0
    count: int = 0  # states that may be visited to count the orders of one run; 0: do not count
    # Pairs of points to be shown, and whether in one wave; None: whatever there is.
    wanted: frozenset[tuple[int, int, bool]] | None = None
    shown: frozenset[tuple[int, int]] = frozenset()  # pairs of points of which nothing more is said
    alike: int = MOST_ALIKE  # findings of one cause that are written out; others are counted; 0: all are
    replays: int = 20  # further judgements, each with what the witness of one suspect names
    few: bool = False  # whether to keep to what is fixed, and to few sizes beside it
    enough: int = ENOUGH_STEPS  # steps, after which it may end where all of these were seen
    sample: bool = False  # and where only some configurations are run in any case
    first: bool = False  # whether to end with the first configuration in which something is wrong


# Of a command that answers at once, and of one that may take minutes.
AT_ONCE = Limits(steps=FEW_STEPS)
WITH_OBJECTS = Limits(steps=OBJECT_STEPS)
# Of one of many programs that differ little from one that was judged.
A_TRIAL = Limits(steps=10_000, enough=2_000, replays=3)
EXPLORE = Limits(states=10 * MOST_STATES, steps=100 * MOST_STEPS, count=4_000)


@dataclass(slots=True)
class Judgement:
    """What came of it."""

    findings: list[Finding] = field(default_factory=list)
    covered: list[str] = field(default_factory=list)
    bounded: list[str] = field(default_factory=list)
    configurations: int = 0
    runs: int = 0
    orders: int = 0
    possible: int = 0  # orders of all runs, as far as they were counted
    uncounted: int = 0  # runs of which only some orders, or none, are among them
    all_orders: bool = True  # whether every run was decided for all orders of its waves
    steps: int = 0
    at_the_barrier: list[Finding] = field(default_factory=list)  # hangs in which all wait at the workgroup's barrier
    pairs: set[tuple[int, int]] = field(default_factory=set)  # points whose accesses clash
    cost: int = 0  # steps, as `Limits` counts them
    late: set[int] = field(default_factory=set)  # points whose counts let a copy go on that they name

    def show(self) -> str:
        """What was run and what that covers, in a line or two."""
        parts = [f"{self.configurations} configuration{'s' * (self.configurations != 1)}", *self.covered]
        lines = [f"judged: {', '.join(parts)}" if self.runs else "judged: nothing"]
        if self.bounded:
            lines.append(f"bounded: {'; '.join(self.bounded)}")
        return "\n".join(lines)


# Called with the number of configurations done and of all.
Progress = Callable[[int, int], None]


def judge(
    graph: g.SyncGraph, target: Target, limits: Limits | None = None, progress: Progress | None = None
) -> Judgement:
    """Every configuration, every choice, every order, as far as the limits go."""
    with no_collecting():
        return _Judge(graph, target, limits or Limits()).judge(progress)


class _Judge:
    def __init__(self, graph: g.SyncGraph, target: Target, limits: Limits) -> None:
        self.graph, self.target, self.limits = graph, target, limits
        self.rules: Rules = rules_of(target)
        self.shape = shape_of(graph)
        self.regions = Regions()
        self.kept = KeptSteps(graph)
        # Runs that were gone through in all orders, with how often accesses were compared in them.
        self.decided: dict[tuple[tuple[Step, ...], ...], tuple[Explored, int]] = {}
        self.statements = statements_of(graph)
        self.rng = random.Random(limits.seed)
        self.fenced = self.rules.fenced if crosses_proxies(graph) else frozenset()
        self.meets = any(meets_all(point) for point in graph.points) or not graph.objects
        self.endless = ""
        self.cost = 0  # against the limit; what was not done again, because it was known, is not in it
        self.covered = 0  # the same with what was known, and with each point and comparison in full: is it enough?
        self.result = Judgement()
        self.found: dict[tuple[str, int, int], Finding] = {}
        self.clashes: dict[tuple[str, int, int], tuple[Clash, Configuration]] = {}
        self.seen: set[tuple[int, int, bool]] = set()  # pairs of points that clash, and whether in one wave
        self.alike: dict[str, set[tuple[str, int, int]]] = {}  # clashes by cause
        self.verdicts = Verdicts()  # of all runs: what is safe at waits
        self.meetings = Meetings(
            frozenset(n for n, point in enumerate(graph.points) if point.under == "divergent"),
            frozenset(n for n, point in enumerate(graph.points) if is_early_end(point)),
            self.rules.wave_end_leaves,
            ends_behind_branches(graph),
            {each.name: frozenset(each.waves) for each in graph.objects if each.waves},
        )

    def judge(self, progress: Progress | None) -> Judgement:
        find = find_few if self.limits.few else find_configurations
        found = find(self.graph, self.limits.seed, dict(self.limits.sizes))
        result = self.result
        result.covered, result.bounded = found.covered, found.bounded
        for number, configuration in enumerate(found.runs):
            if self.has_enough(found):
                self.cut_short(found, f"{number} of {found.total:,} configurations, the smallest")
                break
            if self.cost > self.limits.steps:
                self.cut_short(found, f"{number} of {found.total:,} configurations: {self.reached()}")
                break
            if progress is not None:
                progress(number, len(found.runs))
            self.run(configuration, found)
            result.configurations += 1
        result.cost = self.cost
        result.covered.append(self.orders())
        mistakes = self.meetings.found()
        if any(each.code in ("TG202", "TG204", "TG207") for each in mistakes):
            self.forget_hangs()
        unknown = [str(n) for n, point in enumerate(self.graph.points) if isinstance(point.action, g.Unknown)]
        if unknown:
            self.bound(f"operations without a description may write all they can reach: points {', '.join(unknown)}")
        if not found.runs:
            result.bounded.append("no sizes that satisfy the assumptions run anything")
        for key, (clash, configuration) in self.clashes.items():
            self.found[key] = self.clash_finding(clash, configuration)
        result.findings = [*map(self.mistake_finding, mistakes), *self.with_counts(self.found.values())]
        if not result.runs and self.endless:
            message = f"`@{self.graph.name}` does not terminate: {self.endless}"
            result.findings.append(Finding("TG221", message, (), ("no run of it ends, so none is judged",)))
        return result

    def reached(self) -> str:
        return f"the bound of {self.limits.steps:,} steps was reached"

    def has_enough(self, found: Configurations) -> bool:
        """Whether more runs tell nothing that is worth their time: the pairs that are wanted were seen, or only some of
        all configurations are run anyway, or one mistake is enough. Which counts are safe at a wait takes all runs to
        know."""
        limits, seen = self.limits, self.seen
        if limits.first and self.found:
            return True
        if self.covered < limits.enough:
            return False
        if limits.sample and found.bounded:
            return True
        if limits.wanted is None or self.clashes:
            return False
        return all((x, y, own) in seen or (y, x, own) in seen for x, y, own in limits.wanted)

    def cut_short(self, found: Configurations, text: str) -> None:
        bounded = self.result.bounded
        place = bounded.index(found.sampled) if found.sampled in bounded else len(bounded)
        bounded[place : place + 1] = [text]

    def orders(self) -> str:
        result = self.result
        bounded = not result.all_orders
        if self.limits.count:
            many = f"more than {_show(result.possible)}" if result.uncounted else _show(result.possible)
            of = f" of {many}" if result.possible > result.orders else ""
            stand = "" if bounded else ", which represent all"
            return f"{_show(result.orders)}{of} orders of the waves visited{stand}"
        return f"{_show(result.orders)} orders of the waves" if bounded else "all orders of the waves"

    # --- one configuration ---

    def run(self, configuration: Configuration, found: Configurations) -> None:
        around = Surroundings(
            self.graph,
            self.shape,
            self.regions,
            bool(self.target.counters),
            dict(configuration.env),
            found.candidates,
            found.differ,
            found.most_trips,
            kept=self.kept,
        )
        for choices in self.ways():
            if self.cost > self.limits.steps:
                self.bound(f"free choices: {self.reached()}")
                return
            try:
                waves = self.unrolled(around, choices, configuration)
            except Misstep as misstep:
                self.add(misstep.finding, configuration)
                self.bound("runs in which an index has no value are not judged")
                continue
            except Endless as endless:
                self.endless = self.endless or str(endless)
                self.cost += MOST_POINTS
                self.covered += MOST_POINTS
                self.bound(f"{endless}: runs that do not end are not judged")
                continue
            self.cost += around.passed.points // POINTS_TO_A_STEP
            self.covered += around.passed.points
            around.passed.points = 0
            if waves is None:
                self.bound(f"runs in which all waves pass more than {most_points(self.limits):,} points are not judged")
                continue
            self.result.runs += 1
            if not self.is_repeated(waves):
                self.meetings.look(waves)
                self.judge_run(waves, configuration)

    def is_repeated(self, waves: list[tuple[Step, ...]]) -> bool:
        """Whether another configuration has made the waves do the same: then all was found that there is to find."""
        known = self.decided.get(tuple(waves))
        if known is None or self.limits.count:
            return False
        explored, compared = known
        self.result.orders, self.result.steps = self.result.orders + explored.orders, self.result.steps + explored.steps
        self.covered += explored.cost + compared
        return True

    def unrolled(
        self, around: Surroundings, choices: Choices, configuration: Configuration
    ) -> list[tuple[Step, ...]] | None:
        """What each wave does; None if that takes more points than a run may have."""
        found: list[tuple[Step, ...]] = []
        for wave in range(self.graph.waves):
            if around.passed.points > most_points(self.limits):
                return None
            found.append(unroll(around, wave, choices, lambda finding: self.add(finding, configuration)))
        return found

    def ways(self) -> Iterator[Choices]:
        """The ways to decide what is left open: all in order, or some and then some at random."""
        script: list[int] | None = []
        for _ in range(MOST_CHOICES):
            choices = Choices(script or ())
            yield choices
            script = choices.next_script()
            if script is None:
                return
        self.bound(f"free choices: {MOST_CHOICES} ways in order and {MORE_CHOICES} at random in each configuration")
        for _ in range(MORE_CHOICES):
            yield Choices((), self.rng)

    def judge_run(self, waves: list[tuple[Step, ...]], configuration: Configuration) -> None:
        verdicts = Verdicts(most=max(self.limits.steps, 0 if self.limits.few else MOST_COMPARED))
        if self.limits.count:
            self.count(waves)
        explored = Explored()
        for explored in self.explored(waves, verdicts):
            self.result.orders += explored.orders
            self.result.steps += explored.steps
            self.cost += explored.cost
            self.covered += explored.cost
            if explored.hang is not None:
                self.hang(explored.hang, configuration)
        self.cost += verdicts.compared // COMPARED_IN_A_STEP
        self.covered += verdicts.compared
        if self.result.all_orders:  # else other orders may be drawn in a run like it
            self.decided[tuple(waves)] = (explored, verdicts.compared)
        if verdicts.cut:
            self.bound(f"accesses are compared {verdicts.most:,} times in one run, and not more often")
        else:  # what was not compared may show the other order
            verdicts.settle()
        for clash in in_order(verdicts.clashes.values()):
            self.result.pairs.add(clash.statements[1:])
            self.seen.add((*clash.statements[1:], clash.kind == "own"))
            if clash.statements not in self.found and self.is_written_out(clash):
                self.found[clash.statements] = self.clash_finding(clash, configuration)
                if clash.left is not None:  # to be said again when it is known what is safe in all runs
                    self.clashes[clash.statements] = (clash, configuration)
        self.verdicts.lower(verdicts.safe)
        self.result.late |= verdicts.late

    def explored(self, waves: list[tuple[Step, ...]], verdicts: Verdicts) -> Iterator[Explored]:
        varies = order_varies(waves)
        if varies and sum(map(len, waves)) > LONGEST_EXPLORED:
            self.result.all_orders = False
            self.bound(f"orders of runs of more than {LONGEST_EXPLORED:,} steps: {FEW_ORDERS} at random in each")
            for _ in range(FEW_ORDERS):
                yield run_once(self.machine(waves, verdicts, varies=False), self.rng)
            return
        first = explore(self.machine(waves, verdicts, varies=varies), self.limits.states)
        yield first
        if first.complete:
            return
        self.result.all_orders = False
        self.bound(
            f"orders of the waves: {self.limits.states:,} states and {RANDOM_ORDERS} orders at random in each run"
        )
        for _ in range(RANDOM_ORDERS):
            yield run_once(self.machine(waves, verdicts, varies=varies), self.rng)

    def count(self, waves: list[tuple[Step, ...]]) -> None:
        """How many orders of steps and performances this run has."""
        blind = Blind(self.regions, Verdicts())
        machine = start_machine(self.rules, [Listed(steps) for steps in waves], blind)
        all_orders = explore_all(machine, self.limits.count).orders
        self.result.possible += at_least(waves) if all_orders is None else all_orders
        self.result.uncounted += all_orders is None

    def machine(self, waves: list[tuple[Step, ...]], verdicts: Verdicts, *, varies: bool) -> Machine:
        watch = Watch(self.regions, verdicts, self.fenced, varies, self.rules.in_issue_order)
        return start_machine(self.rules, [Listed(steps) for steps in waves], watch)

    # --- what was found ---

    def is_written_out(self, clash: Clash) -> bool:
        """Whether there are still few findings of its cause; else it is counted."""
        if clash.statements[1:] in self.limits.shown:
            return False
        alike = self.alike.setdefault(cause_of(clash, self.statements), set())
        alike.add(clash.statements)
        return not self.limits.alike or len(alike) <= self.limits.alike

    def with_counts(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """The first of each cause stands for those that were only counted."""
        for each in findings:
            more = len(self.alike.pop(each.cause, ())) - self.limits.alike if self.limits.alike else 0
            yield replace(each, count=1 + more) if more > 0 else each

    def clash_finding(self, clash: Clash, configuration: Configuration) -> Finding:
        where, safe = self.where(configuration), self.verdicts.safe
        found = clash_finding(clash, self.statements, where, phases=self.meets, safe=safe)
        return with_configuration(found, configuration)

    def hang(self, machine: Machine, configuration: Configuration) -> None:
        held = tuple(step.where for _, step in machine.blocked())
        key = ("hang", min(held, default=-1), max(held, default=-1))
        if key not in self.found:
            found = hang_finding(machine, self.statements, self.graph.name, self.where(configuration))
            found = self.found[key] = with_configuration(found, configuration)
            if all(not step.barrier.arrivals for _, step in machine.blocked()):
                self.result.at_the_barrier.append(found)

    def add(self, finding: Finding, configuration: Configuration) -> None:
        key = (f"{finding.code} {finding.message} {finding.at}", -1, -1)
        notes = (*finding.notes, *self.where(configuration))
        self.found.setdefault(key, Finding(finding.code, finding.message, finding.labels, notes, finding.help))

    def where(self, configuration: Configuration) -> tuple[str, ...]:
        return (f"found with {text}",) if (text := str(configuration)) else ()

    def bound(self, text: str) -> None:
        if text not in self.result.bounded:
            self.result.bounded.append(text)

    def forget_hangs(self) -> None:
        """Barriers that waves do not meet at explain a hang there better than what each wave waits for."""
        for key in [key for key, found in self.found.items() if found in self.result.at_the_barrier]:
            del self.found[key]

    def mistake_finding(self, mistake: Mistake) -> Finding:
        return Finding(
            mistake.code,
            MESSAGES[mistake.code],
            (
                Label(self.statements[mistake.where].at, mistake.what),
                *((Label(self.statements[mistake.other].at, "here"),) if mistake.other >= 0 else ()),
            ),
        )


MESSAGES = {
    "TG201": "a barrier under a condition that diverges within a wave",
    "TG202": "waves arrive at the workgroup's barrier a different number of times",
    "TG203": "a barrier is signalled twice without a wait in between",
    "TG204": "a wait for a barrier that the wave has not signalled",
    "TG205": "a signal without a wait",
    "TG207": "conditional barriers do not match: one half of the waves arrives more often",
    "TG208": "a signal is left over on one path only",
    "TG211": "a wave reaches a barrier that is not for it",
}


def most_points(limits: Limits) -> int:
    """Points that all waves of a run may pass together; one wave may always pass `MOST_POINTS`."""
    return max(FEW_STEPS, limits.steps)


def _show(number: int) -> str:
    return f"{number:,}" if number < 10**9 else f"10^{len(str(number)) - 1}"


def with_configuration(finding: Finding, configuration: Configuration) -> Finding:
    """The finding with the sizes and flags that showed it."""
    return replace(finding, witness=(*finding.witness, ("configuration", configuration.env)))
