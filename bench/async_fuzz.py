"""Random asynchronous programs: synchronized, and the same with one count raised by one, judged and verified.

`python -m bench async-fuzz [--quick]`: programs are drawn by `async_cases.py`, number n with seed n; two
processes share them. Nothing may be found in what `tidegate sync` made, and nothing may be proved that the simulator
shows to be wrong. Then one rule of counting after the other is switched off (`async_rules.py`): programs come
out wrong, and the simulator notices.

A long run can be made in slices, which are put together to one table; the table says which programs it is about:

    python -m bench.async_fuzz 0 1000 > one.json
    python -m bench.async_fuzz 1000 1000 > two.json
    python -m bench.async_fuzz write one.json two.json
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from bench.slices import by_slices, in_order, numbers, row, sums_of
from bench.verify_agreement import CLEAN, MUST_BE_NONE, ROWS, SAME, UNDECIDED, compare
from oracles.brute.brute_counts import counts_of, queues_of
from oracles.programs.async_cases import Case, draw, number_of, synchronized
from oracles.programs.random_async import STANDING
from oracles.rules.async_rules import RULES
from tidegate.graph import model as g
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.plan import Change, Plan
from tidegate.language import ops
from tidegate.simulate.judge import judge
from tidegate.synchronize import SyncOptions, synchronize_graph

COUNT, QUICK = 10_000, 100
VARIANTS = ("synchronized", "one count raised")
MOST_NAMED = 8
MOST_FOR_A_RULE = 800  # programs after which a rule counts as not noticed
WRONG = "**found in what was synchronized**"


@dataclass(slots=True)
class Sums:
    """What came of some programs. Counters are keyed by variant and outcome, with a tab between."""

    slices: list[tuple[int, int]] = field(default_factory=list)  # numbers of programs: from, up to
    asked: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    named: dict[str, list[str]] = field(default_factory=dict)  # outcome → programs, of those that are not agreement

    def add(self, case: Case) -> None:
        for variant, graph in variants_of(case):
            found = compare(graph, case.target)
            outcome = found.outcome
            self.asked[variant] += 1
            self.outcomes[f"{variant}\t{outcome}"] += 1
            if variant == VARIANTS[0] and found.judgement.findings:
                self.named.setdefault(WRONG, []).append(case.name)
            if outcome not in (CLEAN, SAME) and not (outcome.startswith(UNDECIDED) and found.is_shown):
                self.named.setdefault(outcome, []).append(f"{case.name}, {variant}")

    def join(self, other: Sums) -> None:
        self.slices += [tuple(each) for each in other.slices]
        for name in ("asked", "outcomes"):
            getattr(self, name).update(getattr(other, name))
        for outcome, names in other.named.items():
            self.named[outcome] = [*self.named.get(outcome, ()), *names]

    @property
    def is_good(self) -> bool:
        return not any(self.named.get(each) for each in (WRONG, *MUST_BE_NONE))


def variants_of(case: Case) -> Iterator[tuple[str, g.SyncGraph]]:
    _, done = synchronized(case)
    yield VARIANTS[0], done
    raised = list(with_more(done))
    if raised:
        yield VARIANTS[1], apply_to_graph(Plan((random.Random(case.seed).choice(raised),)), done)


def with_more(graph: g.SyncGraph) -> Iterator[Change]:
    """Each count on a queue of copies that was put there, one higher."""
    for number, name, value in counts_of(graph, queues_of(graph)):
        point = graph.points[number]
        if point.label == STANDING or not isinstance(point.action, g.Sync):
            continue
        op = point.action.op
        assert isinstance(op, ops.SharedMemoryBarrier | ops.WaitCount)
        counts = tuple((each, value + 1 if each == name else known) for each, known in op.counts)
        yield Change(number, replace(op, counts=counts))


# --- rules --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Noticed:
    """After how many programs the fuzz notices that a rule is off; `by` is empty if it does not."""

    rule: str
    programs: int
    by: str
    codes: tuple[str, ...]


def notice(name: str) -> Noticed:
    """The first program that shows that a rule is switched off."""
    with pytest.MonkeyPatch.context() as patch:
        RULES[name].off(patch)
        for number in range(MOST_FOR_A_RULE):
            case = draw("kernel" if number % 4 == 3 else "graph", number)
            if codes := codes_of(case):
                return Noticed(name, number + 1, case.name, codes)
    return Noticed(name, MOST_FOR_A_RULE, "", ())


def codes_of(case: Case) -> tuple[str, ...]:
    """What the simulator finds in a program that was synchronized by walks alone: a proof repairs their mistakes."""
    by_walks = SyncOptions(strategy=case.strategy, loosen=False, least=False)
    done = apply_to_graph(synchronize_graph(case.graph, case.target, by_walks).plan, case.graph)
    return tuple(sorted({each.code for each in judge(done, case.target).findings}))


# --- many ---------------------------------------------------------------------------------------------------------


def chunk(limits: tuple[int, int]) -> Sums:
    sums = Sums([limits])
    for number in range(*limits):
        sums.add(number_of(number))
    return sums


def rules() -> list[Noticed]:
    return list(in_order(notice, RULES))


def run(quick: bool | None = None) -> tuple[str, bool]:
    """The tables, and whether nothing is found with all rules and something without any one."""
    quick = "--quick" in sys.argv if quick is None else quick
    sums, noticed = sums_of(Sums(), chunk, 0, QUICK if quick else COUNT), rules()
    return table(sums, noticed), sums.is_good and all(each.by for each in noticed)


# --- tables -------------------------------------------------------------------------------------------------------


def table(sums: Sums, noticed: Sequence[Noticed]) -> str:
    rows = {*ROWS, *(key.split("\t")[1] for key in sums.outcomes)}
    lines = [f"| {numbers(sums.slices)} | {' | '.join(VARIANTS)} | all |", "|---|" + "---:|" * (len(VARIANTS) + 1)]
    lines.append(row("asked about", [sums.asked[each] for each in VARIANTS]))
    order = sorted(rows, key=lambda each: (ROWS.index(each) if each in ROWS else len(ROWS), each))
    lines += (row(name, [sums.outcomes[f"{variant}\t{name}"] for variant in VARIANTS]) for name in order)
    lines.append(row(WRONG, [len(sums.named.get(WRONG, ())), 0]))
    if sums.named:
        lines += ["", "| not the same | programs |", "|---|---|"]
        for outcome, names in sorted(sums.named.items()):
            more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
            lines.append(f"| {outcome} | {'; '.join(names[:MOST_NAMED])}{more} |")
    lines += ["", "| rule of counting | switched off, found after | by | codes |", "|---|---:|---|---|"]
    for each in noticed:
        found = f"{each.programs} programs" if each.by else f"**not in {each.programs}**"
        lines.append(f"| {each.rule}: {RULES[each.rule].says} | {found} | {each.by} | {' '.join(each.codes)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    by_slices(sys.argv[1:], "async-fuzz", Sums, chunk, lambda sums: table(sums, rules()))
