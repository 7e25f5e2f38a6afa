"""Search against Tidegate's verdict, over random programs: `python -m oracles.rings.compare --count 300 --seed 0`.

Needs   a count and a first seed; each seed gives two programs, one that is right and a mutant of it
Gives   a table of verdicts; every false proof and every false alarm, with the program and the witness of the search
Keeps   Tidegate is asked through its public functions only, with the program as text

    --prove-only       do not let Tidegate run what it does not prove: faster, and less is found
    --show NAME        print one program (its name is in the table), both verdicts, and the run of the search
    --mutations        also every kind of mutation of each program, instead of one that is drawn
    --undecided        name each program that is right and not proved, with the reason
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import tidegate as tg
from oracles.rings.generate import MUTATIONS, draw, mutate
from oracles.rings.model import Program
from oracles.rings.search import PHASE, RIGHT, UNKNOWN, Verdict, search_all
from oracles.rings.text import to_tide

PROVED, FOUND, UNDECIDED = "proved", "found", "undecided"
TRUTHS = ("right", "wrong", PHASE, UNKNOWN)


@dataclass(frozen=True, slots=True)
class Answer:
    """What Tidegate says about one program."""

    kind: str
    codes: tuple[str, ...]
    says: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Case:
    program: Program
    mutation: str
    verdict: Verdict
    answer: Answer

    @property
    def truth(self) -> str:
        return "wrong" if self.verdict.is_wrong else self.verdict.kind

    @property
    def is_false_proof(self) -> bool:
        return self.answer.kind == PROVED and self.truth in ("wrong", PHASE)

    @property
    def is_false_alarm(self) -> bool:
        return self.answer.kind == FOUND and self.truth == RIGHT


def ask(program: Program, simulate: bool) -> Answer:
    module = tg.parse(to_tide(program), f"{program.name}.tide")
    start = time.perf_counter()
    result = tg.check(module, simulate=simulate)
    seconds = time.perf_counter() - start
    codes = tuple(sorted({each.code for each in result.findings if each.severity == "error"}))
    kind = FOUND if codes else PROVED if result.is_proved else UNDECIDED
    return Answer(kind, codes, str(result.verdict).splitlines()[0], seconds)


def programs(seeds: Iterable[int], all_mutations: bool = False) -> Iterator[tuple[str, Program]]:
    """A right program of each seed, and mutants of it."""
    for seed in seeds:
        program = draw(seed)
        yield "none", program
        for kind in MUTATIONS if all_mutations else (None,):
            mutation, mutant = mutate(program, seed, kind)
            if mutation != "none":
                yield mutation, mutant


def compare(mutation: str, program: Program, simulate: bool = True) -> Case:
    return Case(program, mutation, search_all(program), ask(program, simulate))


@dataclass(slots=True)
class Tally:
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    mutations: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)  # false proofs and false alarms

    def add(self, case: Case) -> None:
        self.counts[case.truth, case.answer.kind] += 1
        self.mutations[case.mutation, case.truth, case.answer.kind] += 1
        self.seconds.append(case.answer.seconds)
        if case.truth == RIGHT and case.answer.kind == UNDECIDED:
            self.reasons[case.answer.says] += 1
        if case.is_false_proof or case.is_false_alarm:
            self.cases.append(case)

    @property
    def false_proofs(self) -> list[Case]:
        return [each for each in self.cases if each.is_false_proof]

    def table(self) -> str:
        answers = (PROVED, FOUND, UNDECIDED)
        lines = ["| search | " + " | ".join(answers) + " |", "|---|--:|--:|--:|"]
        for truth in TRUTHS:
            row = [self.counts[truth, each] for each in answers]
            if any(row):
                lines.append(f"| {truth} | {' | '.join(map(str, row))} |")
        return "\n".join(lines)

    def by_mutation(self) -> str:
        lines = ["| mutation | wrong: found | wrong: undecided | wrong: proved | right: proved | right: undecided |"]
        lines.append("|---|--:|--:|--:|--:|--:|")
        columns = [("wrong", FOUND), ("wrong", UNDECIDED), ("wrong", PROVED), (RIGHT, PROVED), (RIGHT, UNDECIDED)]
        for kind in ("none", *MUTATIONS):
            row = [self.mutations[kind, *each] for each in columns]
            if any(row):
                lines.append(f"| {kind} | {' | '.join(map(str, row))} |")
        return "\n".join(lines)

    def times(self) -> str:
        ordered = sorted(self.seconds) or [0.0]
        at = {name: ordered[min(len(ordered) * share // 100, len(ordered) - 1)] for name, share in SHARES}
        return "check: " + ", ".join(f"{name} {value:.2f} s" for name, value in at.items())


SHARES = (("median", 50), ("p90", 90), ("p99", 99), ("most", 100))


def explain(case: Case) -> str:
    kind = "FALSE PROOF" if case.is_false_proof else "FALSE ALARM" if case.is_false_alarm else "case"
    head = f"--- {kind}: {case.program.name}\nsearch: {case.verdict}\ncheck: {case.answer.kind} {case.answer.says}"
    codes = f" {', '.join(case.answer.codes)}" if case.answer.codes else ""
    run = "\n".join(f"  {each}" for each in case.verdict.run)
    return f"{head}{codes}\n{run}\n{to_tide(case.program)}"


def named(name: str) -> tuple[str, Program]:
    """The program of this name, as the table prints it: shape_seed, or shape_seed_mutation_seed."""
    seed = int(name.split("_")[1])
    for mutation, program in programs([seed], all_mutations=True):
        if program.name == name:
            return mutation, program
    raise SystemExit(f"no program `{name}`")


def main() -> int:
    parser = argparse.ArgumentParser(prog="oracles.rings.compare")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    for flag in ("--prove-only", "--mutations", "--undecided"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--show")
    args = parser.parse_args()
    if args.show:
        print(explain(compare(*named(args.show), simulate=not args.prove_only)))
        return 0
    tally = Tally()
    for number, (mutation, program) in enumerate(programs(range(args.seed, args.seed + args.count), args.mutations)):
        if number == args.count:
            break
        case = compare(mutation, program, not args.prove_only)
        tally.add(case)
        if case.is_false_proof or case.is_false_alarm:
            print(explain(case), flush=True)
        elif args.undecided and case.truth == RIGHT and case.answer.kind == UNDECIDED:
            print(f"{program.name}: {case.answer.says} ({case.answer.seconds:.2f} s)", flush=True)
    print(tally.table(), tally.by_mutation(), tally.times(), sep="\n\n")
    if tally.reasons:
        print("\nright, not proved: " + "; ".join(f"{count} × {why}" for why, count in tally.reasons.most_common(12)))
    return 1 if tally.false_proofs else 0


if __name__ == "__main__":
    raise SystemExit(main())
