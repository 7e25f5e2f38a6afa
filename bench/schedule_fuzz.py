"""Random loops through ping-pong scheduling: what comes of it is judged, verified and run against the original.

`python -m bench schedule-fuzz [--quick]`: loops are drawn by `random_bodies.py`, number n with seed n; two
processes share them. Of a loop that is scheduled the simulator, which shares no code with placement, and the verifier
are asked about every order; then original and result are run in order and on the hostile machine with 0, 1, 2 and 5
trips: bit for bit the same, or nearly where a product was split. Loops with one thing wrong (one for each
`PER_ILLEGAL` others) must be declined for that reason.

A long run can be made in slices, which are put together to one table; the table says which programs it is about:

    python -m bench.schedule_fuzz 0 1000 > one.json
    python -m bench.schedule_fuzz 1000 1000 > two.json
    python -m bench.schedule_fuzz write one.json two.json
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.slices import by_slices, numbers, sums_of
from oracles.programs.random_bodies import (
    TAGS,
    TRIPS,
    Case,
    IllegalCase,
    draw_body,
    draw_illegal,
    synchronized,
)
from tidegate.graph.build import build_graph
from tidegate.language import ops
from tidegate.language.ops import Kernel, walk_ops
from tidegate.pingpong import schedule_kernel
from tidegate.scheduling.model import REASONS
from tidegate.simulate.hostile import run_hostile
from tidegate.simulate.inorder import make_inputs
from tidegate.simulate.inorder import run as run_in_order
from tidegate.simulate.judge import judge
from tidegate.verify.verify import verify

COUNT, QUICK = 2_000, 40
PER_ILLEGAL = 4
MOST_NAMED = 8
# Of the largest number in an array: a split product adds in another order, and what is made of it is rounded to f16.
NEARLY = 0.02

REORDERED, DECLINED, BROKEN = "reordered", "declined", "**raised an error**"
ELSEWHERE = "of these, in another number of clusters than was asked for"
RACES, HANGS, OTHER = "**races**", "**hangs**", "**other findings**"
RESULTS, PROOF, STAGGER = "**wrong results**", "not proved by the verifier", "**no stagger around the loop**"
RIGHT, WRONG, ACCEPTED = "declined for the right reason", "declined for another reason", "**accepted**"
MUST_BE_NONE = (BROKEN, RACES, HANGS, OTHER, RESULTS, STAGGER, ACCEPTED, WRONG)


@dataclass(slots=True)
class Sums:
    """What came of some programs. `named`: those of which something is not as it should be."""

    slices: list[tuple[int, int]] = field(default_factory=list)  # numbers of programs: from, up to
    legal: Counter[str] = field(default_factory=Counter)
    declined: Counter[str] = field(default_factory=Counter)  # by reason
    illegal: Counter[str] = field(default_factory=Counter)  # reason, a tab, outcome
    features: Counter[str] = field(default_factory=Counter)  # of all
    reordered: Counter[str] = field(default_factory=Counter)  # and of those that were reordered
    named: dict[str, list[str]] = field(default_factory=dict)

    def add(self, case: Case) -> None:
        found = examine(case)
        words = (*features_of(case), "all")
        self.features.update(words)
        self.legal.update(found.outcomes)
        if found.reason:
            self.declined[found.reason] += 1
        if REORDERED in found.outcomes:
            self.reordered.update(words)
        for outcome in found.outcomes:
            if outcome in MUST_BE_NONE or outcome == PROOF:
                self.named.setdefault(outcome, []).append(f"{case.name}: {found.says}" if found.says else case.name)

    def add_illegal(self, case: IllegalCase) -> None:
        outcome, says = refuse(case)
        self.illegal[f"{case.reason}\t{outcome}"] += 1
        if outcome != RIGHT:
            self.named.setdefault(outcome, []).append(f"{case.name}: {says}")

    def join(self, other: Sums) -> None:
        self.slices += [(start, end) for start, end in other.slices]
        for name in ("legal", "declined", "illegal", "features", "reordered"):
            getattr(self, name).update(getattr(other, name))
        for outcome, names in other.named.items():
            self.named[outcome] = [*self.named.get(outcome, ()), *names]

    @property
    def is_good(self) -> bool:
        return not any(self.named.get(each) for each in MUST_BE_NONE)


# --- one program --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Examined:
    """What came of one loop."""

    outcomes: tuple[str, ...]
    reason: str = ""  # for which it was declined
    says: str = ""


def examine(case: Case) -> Examined:
    """Schedules a loop, and looks at what came of it in every way there is."""
    try:
        made = asked = schedule_kernel(case.kernel, case.target, case.strategy)
        if asked.kernel is None:
            made = schedule_kernel(case.kernel, case.target, "clusters")
    except Exception as error:
        return Examined((BROKEN,), says=f"{type(error).__name__}: {error}"[:200])
    if made.kernel is None:
        assert made.declined is not None
        return Examined((DECLINED,), made.declined.reason)
    faults = list(faults_of(case, made.kernel))
    outcomes = (REORDERED,) if made is asked else (REORDERED, ELSEWHERE)
    return Examined((*outcomes, *dict.fromkeys(each for each, _ in faults)), says="; ".join(says for _, says in faults))


def faults_of(case: Case, kernel: Kernel) -> Iterator[tuple[str, str]]:
    """Everything that is wrong with what came of a loop: the outcome, and words about it."""
    if not is_staggered(kernel):
        yield STAGGER, "no pair of conditional barriers"
    graph = build_graph(kernel, case.target).graph
    for finding in judge(graph, case.target).findings:
        kind = RACES if finding.code.startswith("TG1") else HANGS if finding.code.startswith("TG2") else OTHER
        yield kind, f"{finding.code} {finding.message}"
    proof = verify(graph, case.target)
    if not proof.is_proved:
        yield PROOF, "; ".join(proof.undecided) or f"{len(proof.suspects)} suspects"
    original = synchronized(case.kernel, case.target)
    for trips in TRIPS:
        for says in different(case, original, kernel, trips):
            yield RESULTS, f"{trips} trips, {says}"


def is_staggered(kernel: Kernel) -> bool:
    """Whether the high half is held back before a loop, and the low half behind it."""
    halves = [op.half for op in walk_ops(kernel.body) if isinstance(op, ops.ConditionalBarrier)]
    return halves == ["high", "low"]


def different(case: Case, original: Kernel, kernel: Kernel, trips: int) -> Iterator[str]:
    """Arrays that are not what the original computes, in order and on the hostile machine."""
    sizes = case.sizes(trips)
    inputs = make_inputs(case.kernel, sizes, seed=trips)
    wanted = run_in_order(original, inputs, sizes=sizes, lanes=case.target.lanes)
    exact = products(kernel) == products(original)
    in_order = run_in_order(kernel, inputs, sizes=sizes, lanes=case.target.lanes)
    hostile = run_hostile(kernel, inputs, target=case.target, sizes=sizes, seed=trips).arrays
    for machine, arrays in (("in order", in_order), ("hostile", hostile)):
        for name, array in wanted.items():
            if not is_same(arrays[name], array, exact=exact):
                yield f"`{name}` {machine}"


def products(kernel: Kernel) -> int:
    return sum(isinstance(op, ops.Mma) for op in walk_ops(kernel.body))


def is_same(array: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], *, exact: bool) -> bool:
    if exact:
        return np.array_equal(array, wanted)
    one, other = array.astype(np.float64), wanted.astype(np.float64)
    return bool(np.allclose(one, other, rtol=0.0, atol=NEARLY * max(1.0, np.abs(other).max(initial=0.0))))


def refuse(case: IllegalCase) -> tuple[str, str]:
    """Whether a loop with something wrong is declined for that, and what was said instead."""
    try:
        made = schedule_kernel(case.kernel, case.target, case.strategy)
    except Exception as error:
        return BROKEN, f"{type(error).__name__}: {error}"[:200]
    if made.declined is None:
        return ACCEPTED, f"not {case.reason}"
    return (RIGHT, "") if made.declined.reason == case.reason else (WRONG, f"{made.declined.reason}, not {case.reason}")


def features_of(case: Case) -> list[str]:
    found = case.features
    words = [f"target: {found.target}", f"waves: {found.waves}", f"clusters asked for: {found.clusters}"]
    return [*words, f"products in one iteration: {found.products}", *sorted(found.tags)]


# --- many ---------------------------------------------------------------------------------------------------------


def chunk(limits: tuple[int, int]) -> Sums:
    sums = Sums([limits])
    for number in range(*limits):
        sums.add(draw_body(number))
        if number % PER_ILLEGAL == 0:
            sums.add_illegal(draw_illegal(number // PER_ILLEGAL))
    return sums


def run(quick: bool | None = None) -> tuple[str, bool]:
    """The tables, and whether nothing is wrong."""
    quick = "--quick" in sys.argv if quick is None else quick
    sums = sums_of(Sums(), chunk, 0, QUICK if quick else COUNT)
    return table(sums), sums.is_good


# --- tables -------------------------------------------------------------------------------------------------------


def table(sums: Sums) -> str:
    lines = [f"| {numbers(sums.slices)} | |", "|---|---:|"]
    total = sums.features["all"]
    for word in (REORDERED, ELSEWHERE, DECLINED, BROKEN, RACES, HANGS, OTHER, RESULTS, STAGGER, PROOF):
        share = f" ({sums.legal[word] / total:.0%})" if word in (REORDERED, ELSEWHERE, DECLINED) and total else ""
        lines.append(f"| {word} | {sums.legal[word]:,}{share} |")
    lines += ["", "| declined because | programs |", "|---|---:|"]
    lines += (f"| {each}: {REASONS[each]} | {count:,} |" for each, count in sorted(sums.declined.items()))
    lines += illegal_lines(sums)
    if sums.named:
        lines += ["", "| not as it should be | programs |", "|---|---|"]
        for outcome, names in sorted(sums.named.items()):
            more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
            lines.append(f"| {outcome} | {'; '.join(names[:MOST_NAMED])}{more} |")
    return "\n".join([*lines, *feature_lines(sums)])


def illegal_lines(sums: Sums) -> list[str]:
    outcomes = (RIGHT, WRONG, ACCEPTED, BROKEN)
    lines = ["", f"| one thing wrong | {' | '.join(outcomes)} |", "|---|" + "---:|" * len(outcomes)]
    reasons = sorted({key.split("\t")[0] for key in sums.illegal})
    for reason in reasons:
        counts = (sums.illegal[f"{reason}\t{outcome}"] for outcome in outcomes)
        lines.append(f"| {reason} | {' | '.join(f'{count:,}' for count in counts)} |")
    totals = (sum(sums.illegal[f"{reason}\t{outcome}"] for reason in reasons) for outcome in outcomes)
    return [*lines, f"| all | {' | '.join(f'{count:,}' for count in totals)} |"]


def feature_lines(sums: Sums) -> list[str]:
    """How many programs have what, and how many of those were reordered."""
    others = sorted(each for each in sums.features if each not in TAGS and each != "all")
    lines = ["", "| programs with | drawn | reordered |", "|---|---:|---:|"]
    words = (*others, *TAGS, "all")
    return [*lines, *(f"| {word} | {sums.features[word]:,} | {sums.reordered[word]:,} |" for word in words)]


if __name__ == "__main__":
    by_slices(sys.argv[1:], "schedule-fuzz", Sums, chunk, table)
