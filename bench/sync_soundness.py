"""Random programs through every strategy, judged by the simulator; and the same with one rule switched off at a time.

`python -m bench sync-soundness [--quick]`: the programs are drawn by `sync_cases.py` from seeds 0, 1, 2 and so
on; two processes share them.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field

import pytest

from bench.slices import in_order
from oracles.programs.random_sync import Features, show_distribution
from oracles.programs.sync_cases import Case, cases, draw, kinds_of, outcomes
from oracles.rules.sync_rules import RULES
from tidegate.placement.place import STRATEGIES

COUNT, QUICK = 10_000, 200
STAGGERED = 10  # one in so many more has a half that is held back
CHUNK = 50
MOST_FOR_A_RULE = 600  # programs after which a rule counts as not noticed
RACES = ("TG101", "TG102", "TG103", "TG104", "TG105")


@dataclass(slots=True)
class Sums:
    """What came of some programs."""

    programs: Counter[str] = field(default_factory=Counter)  # strategy → programs
    races: Counter[str] = field(default_factory=Counter)
    hangs: Counter[str] = field(default_factory=Counter)
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)  # strategy, kind of operation → how many
    edited: Counter[tuple[str, str]] = field(default_factory=Counter)  # and in how many programs
    unplaced: Counter[str] = field(default_factory=Counter)  # why → programs in which nothing is found all the same
    hazards: Counter[str] = field(default_factory=Counter)
    bounded: int = 0  # programs of which the judge did not go through everything
    features: list[Features] = field(default_factory=list)
    failing: list[str] = field(default_factory=list)

    def add(self, case: Case) -> None:
        self.features.append(case.features)
        for outcome in outcomes(case):
            strategy, codes = outcome.strategy, set(outcome.codes)
            self.programs[strategy] += 1
            self.races[strategy] += bool(codes & set(RACES))
            self.hangs[strategy] += bool(codes - set(RACES))
            if codes:
                self.failing.append(f"{case.name} {strategy}: {' '.join(sorted(codes))}")
            for kind, count in kinds_of(outcome.placed.plan).items():
                self.kinds[strategy, kind] += count
                self.edited[strategy, kind] += 1
            if strategy == STRATEGIES[0]:
                self.bounded += any("trips" not in each for each in outcome.judgement.bounded)
                self.count_hazards(outcome.placed.hazards)
            for why in {each.why for each in outcome.placed.unplaced} if not codes else ():
                self.unplaced[f"{strategy}: {why}"] += 1

    def count_hazards(self, hazards: tuple[object, ...]) -> None:
        words: set[str] = set()
        for each in hazards:
            words.add(f"kind {each.kind.name}")  # type: ignore[attr-defined]
            words.add(f"distance {each.distance}")  # type: ignore[attr-defined]
            words.add(f"demand {each.demand}")  # type: ignore[attr-defined]
            if each.rounds:  # type: ignore[attr-defined]
                words.add("rounds of the consumer's loop")
            if not each.exact:  # type: ignore[attr-defined]
                words.add("widened")
        self.hazards.update(words)

    def join(self, other: Sums) -> None:
        for name in ("programs", "races", "hangs", "kinds", "edited", "unplaced", "hazards"):
            getattr(self, name).update(getattr(other, name))
        self.bounded += other.bounded
        self.features += other.features
        self.failing += other.failing


def chunk(start: int) -> Sums:
    sums = Sums()
    for case in cases(CHUNK, start):
        sums.add(case)
    for number in range(start // STAGGERED, (start + CHUNK) // STAGGERED):
        sums.add(draw("stagger", number))
    return sums


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
    rule, strategies = RULES[name], ("minimal", "intersecting")
    with pytest.MonkeyPatch.context() as patch:
        rule.off(patch)
        for number in range(MOST_FOR_A_RULE):
            case = draw("stagger", number) if name == "stagger" else next(cases(1, number))
            for outcome in outcomes(case, strategies, **dict(rule.options)):
                if outcome.findings:
                    return Noticed(name, number + 1, f"{case.name}, {outcome.strategy}", outcome.codes)
    return Noticed(name, MOST_FOR_A_RULE, "", ())


# --- tables -------------------------------------------------------------------------------------------------------


def run(quick: bool | None = None) -> tuple[str, bool]:
    """The tables, and whether nothing is found with all rules and something without any one."""
    quick = "--quick" in sys.argv if quick is None else quick
    sums = Sums()
    for part in in_order(chunk, range(0, QUICK if quick else COUNT, CHUNK)):
        sums.join(part)
    rules = list(in_order(notice, RULES))
    good = not sums.failing and all(each.by for each in rules)
    return "\n\n".join([strategies_table(sums), rest_table(sums), rules_table(rules), distribution(sums)]), good


def strategies_table(sums: Sums) -> str:
    kinds = sorted({kind for _, kind in sums.kinds})
    lines = [
        f"| strategy | programs | races | hangs | {' | '.join(kinds)} |",
        "|---|---:|---:|---:|" + "---:|" * len(kinds),
    ]
    for each in STRATEGIES:
        counts = " | ".join(f"{sums.kinds[each, kind]:,} in {sums.edited[each, kind]:,}" for kind in kinds)
        lines.append(f"| {each} | {sums.programs[each]:,} | {sums.races[each]} | {sums.hangs[each]} | {counts} |")
    if sums.failing:
        lines += ["", "Failing: " + "; ".join(sums.failing[:20])]
    return "\n".join(lines)


def rest_table(sums: Sums) -> str:
    lines = ["| conflicts that no barrier orders, and that do no harm | programs |", "|---|---:|"]
    lines += (f"| {why} | {count:,} |" for why, count in sorted(sums.unplaced.items()))
    lines.append(f"| the judge did not go through everything | {sums.bounded:,} |")
    return "\n".join(lines)


def rules_table(rules: list[Noticed]) -> str:
    lines = ["| rule | switched off, found after | by | codes |", "|---|---:|---|---|"]
    for each in rules:
        found = f"{each.programs} programs" if each.by else f"**not in {each.programs}**"
        lines.append(f"| {each.rule}: {RULES[each.rule].says} | {found} | {each.by} | {' '.join(each.codes)} |")
    return "\n".join(lines)


def distribution(sums: Sums) -> str:
    lines = ["| hazards of programs | programs |", "|---|---:|"]
    lines += (f"| {word} | {count:,} |" for word, count in sorted(sums.hazards.items()))
    return "\n\n".join(["\n".join(lines), show_distribution(sums.features)])
