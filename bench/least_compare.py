"""One small kernel through each strategy of `sync`, beside the least that brute force finds.

Needs   a kernel of `oracles.programs.least_cases`, and `bench.least_search`
Gives   `compare(case)`: a `Record` with an `Outcome` for each strategy; `Record.failures()` says what is wrong
Keeps   the same record for the same kernel, whatever was compared before it
Cost    about a sixth of a second of processor time for each kernel
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bench.least_search import Search, Weaker, executed, executions, weaker, weight_of
from oracles.programs.least_cases import Case
from tidegate.diag import BadInput
from tidegate.footprint.conflicts import forget_meetings
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.plan import Plan
from tidegate.session import Session
from tidegate.synchronize import Synchronized, SyncOptions, synchronize
from tidegate.synchronize.pricing import cycles_of
from tidegate.verify.verify import is_ordered

STRATEGIES = {"default": "", "minimal": "minimal", "optimal": "optimal"}
EPSILON = 1e-6
# Every so many programs of known trips the simulator is asked about sets that are not proved, so many of them.
ASKED_EVERY, ASKED = 4, 2


@dataclass(slots=True)
class Outcome:
    """The plan of one strategy."""

    strategy: str
    weight: float = 0.0
    proved: bool = False
    bound: float | None = None
    error: str = ""
    executed: float | None = None  # of a heavy plan: how often waves meet, all sizes 16
    cycles: float | None = None  # of a heavy plan, by the cost model
    counts: int = 0  # that the plan puts in, unless another strategy has the same plan
    same_as: str = ""
    spare: dict[str, list[str]] = field(default_factory=dict)  # by kind: what can be weaker


@dataclass(slots=True)
class Record:
    """One kernel. `least` is None where no set of barriers is proved."""

    seed: int
    kind: str
    target: str
    least: float | None
    least_draining: float | None = None  # where waits and fences alone help: with barriers alone
    least_executed: float | None = None  # the least number of meetings, all sizes 16
    proofs: int = 0
    unsure: int = 0  # sets that are not proved and in which the simulator finds nothing
    asked: int = 0
    outcomes: list[Outcome] = field(default_factory=list)

    def ratio(self, outcome: Outcome) -> float:
        return outcome.weight / self.least if self.least else (1.0 if outcome.weight <= EPSILON else 99.0)

    def is_heavy(self, outcome: Outcome) -> bool:
        return self.least is not None and outcome.weight > self.least + EPSILON

    def is_met_more(self, outcome: Outcome) -> bool:
        """Whether waves really meet more often than they have to."""
        if outcome.executed is None or self.least_executed is None:
            return False
        return outcome.executed > self.least_executed + EPSILON

    def is_faster(self, outcome: Outcome) -> bool:
        """Whether a heavy plan is faster than another strategy's, by the cost model: barriers were traded for time."""
        others = [each.cycles for each in self.outcomes if each.cycles is not None and each is not outcome]
        return outcome.cycles is not None and any(round(outcome.cycles) < round(cycles) for cycles in others)

    def is_bound_wrong(self, outcome: Outcome) -> bool:
        return self.least is not None and outcome.bound is not None and outcome.bound > self.least + EPSILON

    def failures(self) -> list[str]:
        """What breaks the promise. More barriers that save time do not: that is what the cost model is for."""
        found = []
        for each in self.outcomes:
            if not each.proved:
                found.append(f"{each.strategy}: {each.error or 'not proved'}")
            if self.is_heavy(each) and not self.is_faster(each):
                met = f", met {each.executed:g} times, least {self.least_executed:g}"
                found.append(f"{each.strategy}: weight {each.weight:g}, least {self.least:g}{met}")
            if self.is_bound_wrong(each):
                found.append(f"{each.strategy}: bound {each.bound:g}, least {self.least:g}")
            found += (f"{each.strategy}: {kind}: {', '.join(what)}" for kind, what in each.spare.items())
        return found


def compare(case: Case) -> Record:
    """Brute force, then each strategy beside it. Nothing is recalled from kernels before: a seed decides its record."""
    forget_meetings()
    search = Search(case)
    least = search.least()
    record = Record(case.seed, case.kind, case.target.name, least.weight if least else None, proofs=search.proofs)
    if least is None:
        return record
    if case.known_trips and case.seed % ASKED_EVERY == 0:
        record.asked = min(ASKED, len(search.unproved))
        record.unsure = search.unsure(ASKED)
    seen: dict[Plan, Outcome] = {}
    plans: list[Plan | None] = []
    for name in STRATEGIES:
        outcome, plan = run_strategy(case, name)
        if plan is not None and plan in seen:
            outcome.same_as, outcome.proved = seen[plan].strategy, seen[plan].proved
        elif plan is not None:
            seen[plan] = outcome
            examine(case, plan, outcome)
        record.outcomes.append(outcome)
        plans.append(plan)
    if any(record.is_heavy(each) for each in record.outcomes):
        look_closer(case, record, plans)
    return record


def look_closer(case: Case, record: Record, plans: list[Plan | None]) -> None:
    """For plans that are too heavy: the least with barriers alone and by executions, and what the cost model says."""
    for outcome, plan in zip(record.outcomes, plans, strict=True):
        if plan is not None:
            after = apply_to_graph(plan, case.graph)
            outcome.executed = executed(after) - executed(case.graph)
            outcome.cycles = cycles_of(plan, case.graph, case.target)
    draining = Search(case, free=False).least()
    meetings = Search(case, weights=executions(case.graph)).least()
    record.least_draining = draining.weight if draining else None
    record.least_executed = meetings.weight if meetings else None


def run_strategy(case: Case, name: str) -> tuple[Outcome, Plan | None]:
    outcome = Outcome(name)
    try:
        result = made(case, name)
    except BadInput as bad:
        outcome.error = str(bad)
        return outcome, None
    if result.after is None or result.graph is None:
        outcome.error = result.why_not
        return outcome, None
    outcome.weight = weight_of(result.after) - weight_of(case.graph)
    placed = result.placed
    optimum = placed.optimum if placed is not None else None
    outcome.bound = optimum.bound if optimum is not None else None
    return outcome, result.plan


def made(case: Case, name: str) -> Synchronized:
    unit = Session(case.kernel.name, case.target, case.kernel, None)
    return synchronize(unit, SyncOptions(strategy=STRATEGIES[name], judge=False))


def examine(case: Case, plan: Plan, outcome: Outcome) -> None:
    """Whether it is proved, and what of it could be weaker."""
    after = apply_to_graph(plan, case.graph)
    outcome.proved = is_ordered(after, case.target)
    if not outcome.proved:
        return
    gone: set[int] = set()
    for trial in weaker(plan):
        outcome.counts += trial.kind == "count"
        if gone.intersection(trial.edits) or not holds(case, trial):
            continue
        if "removed" in trial.kind:
            gone.update(trial.edits)
        outcome.spare.setdefault(trial.kind, []).append(trial.what)


def holds(case: Case, trial: Weaker) -> bool:
    try:
        return is_ordered(apply_to_graph(trial.plan, case.graph), case.target)
    except BadInput:
        return False
