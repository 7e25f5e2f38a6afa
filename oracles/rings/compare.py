"""Search against Tidegate's verdict, over random programs: `python -m oracles.rings.compare --count 300 --seed 0`.

Needs   a count and a first seed; each seed gives two programs, one that is right and a mutant of it
Gives   a table of verdicts (proved; an error found; neither); every false proof and every false alarm, with the program
        and the witness of the search
Keeps   Tidegate is asked through its public functions only, with the program as text

    --prove-only       do not let Tidegate run what it does not prove: faster, and less is found
    --graph            ask about the kernel's graph, written and read as `.sync` text
    --quotient         also ask the quotient about all sizes, where the search finds nothing wrong: slower
    --show NAME        print one program (its name is in the table), both verdicts, and the run of the search
    --mutations        every kind of mutation of each of `count` programs, instead of one that is drawn
    --undecided        name each program that is right and not proved, with the reason
"""

from __future__ import annotations

import argparse
import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import tidegate as tg
from oracles.rings.generate import draw
from oracles.rings.model import Program
from oracles.rings.mutants import MUTATIONS, mutate
from oracles.rings.quotient import quotient
from oracles.rings.search import PHASE, RIGHT, UNKNOWN, Verdict, search_all
from oracles.rings.text import to_tide

PROVED, FOUND, UNDECIDED, CRASHED = "proved", "found", "undecided", "crashed"
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


def ask(program: Program, simulate: bool, as_graph: bool = False) -> Answer:
    """The verdict about the kernel's text, or about the text of its graph."""
    given: tg.Kernel | tg.SyncGraph
    (given,) = tg.parse(to_tide(program), f"{program.name}.tide").kernels
    if as_graph:
        given = tg.parse_graph(tg.show_graph(tg.build_graph(given, program.target).graph))
    start = time.perf_counter()
    try:
        result = tg.check(given, simulate=simulate)
    except Exception as error:  # a crash of what is compared is a result, and the other programs go on
        return Answer(CRASHED, (), f"{type(error).__name__}: {error}", time.perf_counter() - start)
    seconds = time.perf_counter() - start
    codes = tuple(sorted({each.code for each in result.findings if each.severity == "error"}))
    kind = FOUND if codes else PROVED if result.is_proved else UNDECIDED
    return Answer(kind, codes, str(result.verdict).splitlines()[0], seconds)


def programs(seeds: Iterable[int], all_mutations: bool = False) -> Iterator[tuple[str, Program]]:
    """A right program of each seed and a mutant of it (of every fifth seed with two changes), or all its mutants."""
    for seed in seeds:
        program = draw(seed)
        yield "none", program
        if not all_mutations:
            mutation, mutant = mutate(program, seed)
            yield (mutation, mutant) if seed % 5 else ("two", mutate(mutant, seed + 1)[1])
            continue
        for kind in MUTATIONS:
            mutation, mutant = mutate(program, seed, kind)
            if mutation != "none":
                yield mutation, mutant


def compare(
    mutation: str, program: Program, simulate: bool = True, for_all: bool = False, as_graph: bool = False
) -> Case:
    """`for_all`: what the search finds right, the quotient judges for all sizes."""
    verdict = search_all(program)
    if for_all and verdict.kind == RIGHT:
        beyond = quotient(program)
        verdict = beyond if beyond.is_wrong else verdict
    return Case(program, mutation, verdict, ask(program, simulate, as_graph))


@dataclass(slots=True)
class Tally:
    """Sums of many cases, which can be joined and written as JSON. Keys are words with tabs between."""

    slices: list[tuple[int, int]] = field(default_factory=list)  # numbers of programs: from, up to
    counts: Counter[str] = field(default_factory=Counter)  # mutation, shape, truth, answer
    reasons: Counter[str] = field(default_factory=Counter)  # why right programs are not proved
    seconds: list[float] = field(default_factory=list)
    false_proofs: list[str] = field(default_factory=list)
    false_alarms: list[str] = field(default_factory=list)

    def add(self, case: Case) -> None:
        shape = case.program.name.partition("_")[0]
        self.counts["\t".join((case.mutation, shape, case.truth, case.answer.kind))] += 1
        self.seconds.append(round(case.answer.seconds, 3))
        if case.answer.kind == CRASHED or (case.truth == RIGHT and case.answer.kind == UNDECIDED):
            self.reasons[case.answer.says] += 1
        if case.is_false_proof:
            self.false_proofs.append(case.program.name)
        if case.is_false_alarm:
            self.false_alarms.append(case.program.name)

    def join(self, other: Tally) -> None:
        self.slices += [(first, end) for first, end in other.slices]
        self.counts.update(other.counts)
        self.reasons.update(other.reasons)
        self.seconds += other.seconds
        self.false_proofs += other.false_proofs
        self.false_alarms += other.false_alarms

    def count(self, column: int, name: str, truth: str, answer: str) -> int:
        """Cases whose mutation (0) or shape (1) is this one, or all if the name is empty."""
        keys = ((key.split("\t"), number) for key, number in self.counts.items())
        return sum(number for key, number in keys if name in ("", key[column]) and key[2:] == [truth, answer])

    def names(self, column: int) -> list[str]:
        return sorted({key.split("\t")[column] for key in self.counts})

    def table(self) -> str:
        answers = (PROVED, FOUND, UNDECIDED, CRASHED)
        lines = [f"| search | {' | '.join(answers)} |", "|---|--:|--:|--:|--:|"]
        for truth in TRUTHS:
            row = [self.count(0, "", truth, each) for each in answers]
            if any(row):
                lines.append(f"| {truth} | {' | '.join(map(str, row))} |")
        return "\n".join(lines)

    def split(self, title: str, column: int) -> str:
        """The same by mutation or by shape."""
        columns = (("wrong", FOUND), ("wrong", UNDECIDED), ("wrong", PROVED), (RIGHT, PROVED), (RIGHT, UNDECIDED))
        lines = [f"| {title} | {' | '.join(f'{truth}: {answer}' for truth, answer in columns)} |"]
        lines.append("|---|" + "--:|" * len(columns))
        for name in self.names(column):
            row = [self.count(column, name, *each) for each in columns]
            lines.append(f"| {name} | {' | '.join(map(str, row))} |")
        return "\n".join(lines)

    def times(self) -> str:
        ordered = sorted(self.seconds) or [0.0]
        at = {name: ordered[min(len(ordered) * share // 100, len(ordered) - 1)] for name, share in SHARES}
        return "time of `check`: " + ", ".join(f"{name} {value:.2f} s" for name, value in at.items())

    def show(self) -> str:
        parts = [self.table(), self.split("mutation", 0), self.split("shape", 1), self.times()]
        if self.reasons:
            whys = "; ".join(f"{count} × {why}" for why, count in self.reasons.most_common(12))
            parts.append(f"right, not proved: {whys}")
        return "\n\n".join(parts)


SHARES = (("median", 50), ("p90", 90), ("p99", 99), ("most", 100))


def explain(case: Case) -> str:
    proof = "FALSE PROOF" if case.truth == "wrong" else "PROVED, though the order decides which phase is which"
    kind = proof if case.is_false_proof else "FALSE ALARM" if case.is_false_alarm else "case"
    head = f"--- {kind}: {case.program.name}\nsearch: {case.verdict}\ncheck: {case.answer.kind} {case.answer.says}"
    codes = f" {', '.join(case.answer.codes)}" if case.answer.codes else ""
    run = "\n".join(f"  {each}" for each in case.verdict.run)
    return f"{head}{codes}\n{run}\n{to_tide(case.program)}"


def named(name: str) -> tuple[str, Program]:
    """The program of this name, as the table prints it: shape_seed, or shape_seed_mutation_seed."""
    seed = int(name.split("_")[1])
    for mutation, program in (*programs([seed]), *programs([seed], all_mutations=True)):
        if program.name == name:
            return mutation, program
    raise SystemExit(f"no program `{name}`")


def main() -> int:
    parser = argparse.ArgumentParser(prog="oracles.rings.compare")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    for flag in ("--prove-only", "--graph", "--quotient", "--mutations", "--undecided"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--show")
    args = parser.parse_args()
    if args.show:
        print(explain(compare(*named(args.show), simulate=not args.prove_only)))
        return 0
    tally = Tally()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # `timeout` gets the table as well
    try:
        compare_many(args, tally)
    except KeyboardInterrupt:
        print(f"stopped after {len(tally.seconds)} programs")
    print(tally.show())
    return 1 if tally.false_proofs else 0


def compare_many(args: argparse.Namespace, tally: Tally) -> None:
    drawn = programs(range(args.seed, args.seed + args.count), args.mutations)
    for mutation, program in drawn if args.mutations else islice(drawn, args.count):
        case = compare(mutation, program, not args.prove_only, args.quotient, args.graph)
        tally.add(case)
        if case.is_false_proof or case.is_false_alarm or case.answer.kind == CRASHED:
            print(explain(case), flush=True)
        elif args.undecided and case.truth == RIGHT and case.answer.kind == UNDECIDED:
            print(f"{program.name}: {case.answer.says} ({case.answer.seconds:.2f} s)", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
