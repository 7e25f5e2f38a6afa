"""Counts that `tidegate sync` puts for asynchronous copies, beside the largest that are safe.

`python -m bench async-counts [--quick]`: programs are drawn by `async_cases.py`, number n with seed n; two
processes share them. For each count on a queue of copies `brute_counts.py` goes through all runs of the program
and finds the largest value with which nothing races, all else unchanged.

A count that could be larger has a reason, found by taking as free what the program decides, and asking again: if one
more races then, that is why. A count may also serve accesses that another wait, or a later barrier, serves as well.

Each count is also raised by one, all else unchanged, and the verifier asked: none is smaller than the loosest that it
proves. `where`: behind loops of known or unknown trips, and where copies are guarded.

A long run can be made in slices, which are put together to one table; the table says which programs it is about:

    python -m bench.async_counts 0 1000 > one.json
    python -m bench.async_counts 1000 1000 > two.json
    python -m bench.async_counts write one.json two.json
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace

from bench.slices import by_slices, numbers, row, sums_of
from oracles.brute.brute_counts import Beyond, Count, Freedom, Runs, all_runs, find_counts
from oracles.programs.async_cases import Case, number_of, synchronized
from oracles.programs.random_async import STANDING, Features, show_features
from tidegate.graph import model as g
from tidegate.language.ops import SharedMemoryBarrier, WaitCount
from tidegate.placement.need import copy_counters
from tidegate.targets import Target
from tidegate.verify.verify import is_ordered

COUNT, QUICK = 2_000, 100
MOST_NAMED = 12
MOST_FREE_RUNS = 160  # where more is taken as free

EXACT, CUT, UNSAFE = "the largest that is safe", "the largest that the counter can tell", "**unsafe**"
UNKNOWN = "for no reason that can be told"
REASONS = (
    "conditions that never hold together",
    "how often loops run",
    "conditions together with how often loops run",
    "which iterations of two loops meet",
    "something elsewhere on the counter may complete out of turn",
    "another wait or barrier is enough as well",
    UNKNOWN,
)
OUTCOMES = (EXACT, CUT, UNSAFE)
LOOSEST, TIGHTER, NOT_PROVED = "the loosest that is proved", "**one more is proved**", "in programs that are not proved"
# What programs are told apart by, beside all.
WHERE = ("constant trips", "symbolic trips", "zero trips possible", "counter around copy", "flag around copy")


@dataclass(slots=True)
class Sums:
    """What came of some programs. Counters are keyed by target, queue and outcome, with tabs between."""

    slices: list[tuple[int, int]] = field(default_factory=list)  # numbers of programs: from, up to
    counts: Counter[str] = field(default_factory=Counter)
    values: Counter[str] = field(default_factory=Counter)  # how many counts have which value
    loosest: Counter[str] = field(default_factory=Counter)  # by what a program has, and what the verifier says
    other: Counter[str] = field(default_factory=Counter)  # what else there is to say, by programs
    named: dict[str, list[str]] = field(default_factory=dict)
    features: list[Features] = field(default_factory=list)

    def add(self, case: Case) -> None:
        self.features.append(case.features)
        placed, after = synchronized(case)
        self.ask_verifier(case, after)
        self.other["programs"] += 1
        self.other["programs in which something waits for all copies"] += waits_for_all(after)
        self.other["programs with conflicts that are left unplaced"] += bool(placed.unplaced)
        try:
            runs = all_runs(after, case.target)
        except Beyond as why:
            self.other[f"programs that are not judged: {why}"] += 1
            return
        self.other["programs of which not all runs were gone through"] += runs.capped
        self.other["runs gone through"] += len(runs.runs)
        if not runs.safe():
            self.other["**programs that race**"] += 1
            self.named.setdefault("**races**", []).append(case.name)
        for count in find_counts(runs):
            if after.points[count.point].label == STANDING:
                continue
            outcome = outcome_of(runs, count)
            self.counts[f"{case.target.name}\t{count.name}\t{outcome}"] += 1
            self.values[str(count.value)] += 1
            if outcome in (UNSAFE, UNKNOWN):
                self.named.setdefault(outcome, []).append(f"{case.name} point {count.point}")

    def ask_verifier(self, case: Case, after: g.SyncGraph) -> None:
        proved = is_ordered(after, case.target)
        for point, name, _ in counts_in(after):
            outcome = NOT_PROVED
            if proved:
                outcome = LOOSEST if is_loosest(after, case.target, point, name) else TIGHTER
            for where in ("all", *(tag for tag in WHERE if tag in case.features.tags)):
                self.loosest[f"{where}\t{outcome}"] += 1
            if outcome == TIGHTER:
                self.named.setdefault(outcome, []).append(f"{case.name} point {point}")

    def join(self, other: Sums) -> None:
        self.slices += [tuple(each) for each in other.slices]
        for name in ("counts", "values", "loosest", "other"):
            getattr(self, name).update(getattr(other, name))
        for outcome, names in other.named.items():
            self.named[outcome] = [*self.named.get(outcome, ()), *names]
        self.features += [each if isinstance(each, Features) else read_features(each) for each in other.features]

    @property
    def is_good(self) -> bool:
        tighter = self.loosest[f"all\t{TIGHTER}"]
        return not self.named.get("**races**") and not self.outcomes()[UNSAFE] and not tighter

    def outcomes(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for key, count in self.counts.items():
            found[key.split("\t")[2]] += count
        return found


def waits_for_all(graph: g.SyncGraph) -> bool:
    return any(
        getattr(each.action.op, "wait_async_ops", False) for each in graph.points if isinstance(each.action, g.Sync)
    )


# --- what the verifier says ---------------------------------------------------------------------------------------


def counts_in(graph: g.SyncGraph) -> Iterator[tuple[int, str, int]]:
    """Counts on queues of copies that were put in: point, counter, value."""
    queues = copy_counters(graph)
    for number, point in enumerate(graph.points):
        if isinstance(point.action, g.Sync) and point.label != STANDING:
            counts = getattr(point.action.op, "counts", ())
            yield from ((number, name, value) for name, value in counts if name in queues)


def is_loosest(graph: g.SyncGraph, target: Target, number: int, name: str) -> bool:
    """Whether the verifier proves no larger count at a point, or the counter tells none."""
    point = graph.points[number]
    assert isinstance(point.action, g.Sync)
    assert isinstance(point.action.op, SharedMemoryBarrier | WaitCount)
    value = dict(point.action.op.counts)[name]
    if value >= target.counters[name].largest:
        return True
    counts = tuple((each, count + (each == name)) for each, count in point.action.op.counts)
    changed = replace(point, action=g.Sync(replace(point.action.op, counts=counts)))
    return not is_ordered(replace(graph, points=(*graph.points[:number], changed, *graph.points[number + 1 :])), target)


# --- one count ----------------------------------------------------------------------------------------------------


def outcome_of(runs: Runs, count: Count) -> str:
    if not count.is_safe:
        return UNSAFE
    if count.largest == count.value:
        return CUT if count.value == runs.target.counters[count.name].largest else EXACT
    return reason_of(runs, count)


def reason_of(runs: Runs, count: Count) -> str:
    """Why a count is smaller than it could be."""
    more = {count.place: count.value + 1}
    freedoms = (Freedom(conditions=True), Freedom(trips=True), Freedom(conditions=True, trips=True))
    for reason, freedom in zip(REASONS, freedoms, strict=False):
        if not all_runs(runs.graph, runs.target, freedom, MOST_FREE_RUNS).safe(more):
            return reason
    wide = all_runs(runs.graph, runs.target, Freedom(bytes=True), MOST_FREE_RUNS)
    loops = [each.loop for each in runs.graph.points]
    apart = {(x, y) for x, y in runs.conflicts() if loops[x] != loops[y]}
    racing = set(wide.races(more)) - set(wide.races())
    if {(min(pair), max(pair)) for pair in apart} & racing:
        return "which iterations of two loops meet"
    if count.value == 0 and is_out_of_turn(runs, count.name):
        return "something elsewhere on the counter may complete out of turn"
    alone = runs.others_off(count.place)
    for each in (runs, all_runs(runs.graph, runs.target, freedoms[-1], MOST_FREE_RUNS)):
        if each.racing(alone | more) - each.racing(alone | {count.place: count.value}):
            return "another wait or barrier is enough as well"
    return UNKNOWN


def is_out_of_turn(runs: Runs, name: str) -> bool:
    issues = (issue for point in runs.graph.points for issue in point.issues)
    return any(issue.counter == name and not issue.in_order for issue in issues)


# --- many ---------------------------------------------------------------------------------------------------------


def chunk(limits: tuple[int, int]) -> Sums:
    sums = Sums([limits])
    for number in range(*limits):
        sums.add(number_of(number))
    return sums


def run(quick: bool | None = None) -> tuple[str, bool]:
    """The tables, and whether no count is unsafe."""
    quick = "--quick" in sys.argv if quick is None else quick
    sums = sums_of(Sums(), chunk, 0, QUICK if quick else COUNT)
    return table(sums), sums.is_good


# --- tables -------------------------------------------------------------------------------------------------------


def table(sums: Sums) -> str:
    queues = sorted({tuple(key.split("\t")[:2]) for key in sums.counts})
    lines = [
        f"| counts in {numbers(sums.slices)} | {' | '.join(f'{target} {name}' for target, name in queues)} | all |",
        "|---|" + "---:|" * (len(queues) + 1),
    ]
    everything = [sum(sums.counts[f"{a}\t{b}\t{each}"] for each in (*OUTCOMES, *REASONS)) for a, b in queues]
    lines.append(row("counts", everything))
    for outcome in (*OUTCOMES, *REASONS):
        name = outcome if outcome in OUTCOMES else f"could be larger: {outcome}"
        lines.append(row(name, [sums.counts[f"{a}\t{b}\t{outcome}"] for a, b in queues]))
    best = [sum(sums.counts[f"{a}\t{b}\t{each}"] for each in (EXACT, CUT)) for a, b in queues]
    shares = [*(part / max(1, whole) for part, whole in zip(best, everything, strict=True))]
    shares.append(sum(best) / max(1, sum(everything)))
    lines.append(f"| share of the largest | {' | '.join(f'{each:.1%}' for each in shares)} |")
    lines += ["", *loosest_table(sums), "", "| what else | |", "|---|---:|"]
    lines += (f"| {what} | {count:,} |" for what, count in sums.other.items())
    values = sorted(sums.values.items(), key=lambda each: int(each[0]))
    lines += ["", f"Values: {', '.join(f'{value} ({count:,})' for value, count in values)}."]
    for outcome, names in sorted(sums.named.items()):
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        lines += ["", f"{outcome}: {', '.join(names[:MOST_NAMED])}{more}."]
    return "\n".join([*lines, "", show_features(sums.features)])


def loosest_table(sums: Sums) -> list[str]:
    """What the verifier says of each count with one more in flight."""
    outcomes = (LOOSEST, TIGHTER, NOT_PROVED)
    lines = [f"| counts in programs with | {' | '.join(outcomes)} |", "|---|" + "---:|" * len(outcomes)]
    for where in ("all", *WHERE):
        found = (sums.loosest["\t".join((where, each))] for each in outcomes)
        cells = " | ".join(f"{each:,}" for each in found)
        lines.append(f"| {'anything' if where == 'all' else where} | {cells} |")
    return lines


def read_features(known: Sequence[object]) -> Features:
    *rest, tags = known
    return Features(*rest, frozenset(tags))  # type: ignore[arg-type, call-arg]


def as_json(sums: Sums) -> str:
    found = {each.name: getattr(sums, each.name) for each in fields(sums)}
    found["features"] = [
        [*(getattr(each, one.name) for one in fields(each)[:-1]), sorted(each.tags)] for each in sums.features
    ]
    return json.dumps(found)


if __name__ == "__main__":
    by_slices(sys.argv[1:], "async-counts", Sums, chunk, table, as_json)
