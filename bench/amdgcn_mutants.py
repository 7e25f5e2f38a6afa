"""Mutated AMD assembly: what an instruction-level machine sees beside what `tidegate check` says.

`python -m bench.amdgcn_mutants [COUNT] [--seed=S] [--targets=gfx942,…] [--only=KERNEL,…] [--list]`: small kernels of
`oracles/triton_kernels`, compiled by Triton for each of AMD's targets without a GPU, with one mistake each
(`oracles/amdgcn_machine/mutate.py`), drawn at random. For each the machine runs a workgroup under several timings and
says what it saw:

    race        two accesses to a byte of shared memory that no wait and barrier orders
    hang        waves that wait at a barrier for ever
    registers   a register that is used before a wait for the load that fills it
    numbers     other results than those of the kernel without the mistake, and none of the above
    nothing     none of these; the mistake may still be one, on another run

`registers` is not the business of shared memory: a proof about it says nothing on them. A mutant that Tidegate proves
though the machine shows a race or a hang is an error, and the exit status says so. Where Tidegate proves nothing and
the machine sees nothing, it looks again at longer launches. Of kernels that are not proved as they are no mutant is,
either: they are counted apart.
"""

from __future__ import annotations

import random
import sys
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import tidegate as tg
from oracles.amdgcn_machine.launch import Ran
from oracles.amdgcn_machine.machine import Hostility
from oracles.amdgcn_machine.mutate import KINDS, Mutant, mutants
from oracles.amdgcn_machine.program import Program, load
from oracles.amdgcn_machine.text import NotUnderstood
from oracles.amdgcn_machine.triton import TARGETS, Kernel, kernel

KERNELS = (
    "softmax",
    "softmax-online-w2",
    "cumsum-w2",
    "layer-norm",
    "column-sums",
    "histogram",
    "transpose",
    "route-tokens",
    "gluon-rotate",
    "gluon-alternate",
    "gluon-permute",
    "gluon-transpose",
    "matmul-64-s1-w2",
    "matmul-64-s3-w2",
    "attention-32-w2",
)
RUNS = (
    Hostility("early", "in step", 4),  # first: registers hold what was loaded, so addresses are right
    Hostility("late", "ahead", 0),
    Hostility("late", "behind", 1),
    Hostility("random", "random", 2),
    Hostility("random", "random", 3),
)
LONGER = ((2, 1), (3, 2))  # scales of a launch, and seeds of its numbers
SEEN = ("race", "hang", "registers", "numbers", "nothing")
SAID = ("proved", "finding", "undecided", "not asked")
MAX_STEPS = 200_000
UNKNOWN_FILE = "unknown file type"  # what `tg.check` says of a suffix that it does not take


@dataclass(slots=True)
class Table:
    """Counts of mutants by what the machine saw and what Tidegate said."""

    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # kind, seen, said
    wrong: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    all: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    hopeless: Counter[str] = field(default_factory=Counter)  # kernels that are not proved as they are
    unsupported: str = ""

    def add(self, name: str, mutant: Mutant, seen: str, said: str, why: str, *, is_hopeless: bool) -> None:
        self.counts[mutant.kind, seen, said] += 1
        if is_hopeless and seen not in ("race", "hang"):
            self.hopeless[name] += 1
        sentence = f"{name} line {mutant.line}, {mutant.kind} ({mutant.change}): machine {seen}, Tidegate {said}"
        self.all.append(f"{sentence}: {why}")
        if seen in ("race", "hang") and said == "proved":
            self.wrong.append(f"{sentence}: {why}")
        if seen not in ("race", "hang") and said in ("finding", "undecided") and not is_hopeless:
            self.missed.append(sentence)

    def show(self) -> str:
        rows = ["| mistake | machine | " + " | ".join(SAID) + " |", "|---|---|" + "---:|" * len(SAID)]
        for kind in KINDS:
            for seen in SEEN:
                cells = [self.counts[kind, seen, said] for said in SAID]
                if any(cells):
                    rows.append(f"| {kind} | {seen} | " + " | ".join(map(str, cells)) + " |")
        total = sum(self.counts.values())
        racy = sum(count for (_, seen, _), count in self.counts.items() if seen in ("race", "hang"))
        rows += ["", f"{total} mutants, {racy} with a race or a hang on the machine"]
        others = total - racy - sum(self.hopeless.values())
        rows.append(
            f"of {others} others of kernels that are proved as they are, {others - len(self.missed)} are proved"
        )
        rows += [f"not proved as it is: {name}, {count} others" for name, count in self.hopeless.items()]
        rows += [f"WRONG: {each}" for each in self.wrong]
        rows += [f"not proved, though the machine sees no race: {each}" for each in self.missed[:20]]
        rows += [f"left out: {each}" for each in self.left_out]
        if self.unsupported:
            rows.append(f"TIDEGATE WAS NOT ASKED: tg.check does not take assembly yet: {self.unsupported}")
        return "\n".join(rows)


# --- the two sides ------------------------------------------------------------------------------------------------


def watch(one: Kernel, program: Program, right: Ran) -> tuple[str, str]:
    """What the machine sees of a mutant in one workgroup, and its first sentence."""
    seen: dict[str, str] = {}
    for how in RUNS:
        ran = one.run(how, workgroups=1, program=program, max_steps=MAX_STEPS)
        found = ran.found[0]
        if found.early:
            seen.setdefault("registers", next(iter(found.early.values())))
        is_itself = how.timing == "early" or not found.early  # else what follows may come of a wrong register
        if found.races and is_itself:
            return "race", str(found.races[0])
        if (found.hang or found.fault) and is_itself:
            seen.setdefault("hang", found.hang or found.fault)
        if not is_equal(one, ran, right):
            seen.setdefault("numbers", f"{how.timing}, {how.order}")
    return next(((each, seen[each]) for each in SEEN if each in seen), ("nothing", ""))


def is_equal(one: Kernel, ran: Ran, right: Ran) -> bool:
    tolerance = one.launch.tolerance
    pairs = ((np.asarray(ran.args[at]), np.asarray(right.args[at])) for at in one.launch.outputs)
    return all(np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True) for a, b in pairs)


def ask(text: str, folder: Path, threads: int) -> tuple[str, str]:
    """What Tidegate says of a text; and its words where it does not take assembly."""
    path = folder / "kernel.s"
    path.write_text(text, encoding="utf-8")
    try:
        result = tg.check(str(path), block=str(threads))
    except tg.TidegateError as error:
        words = str(error).split("\n")[0]
        return ("not asked", words) if UNKNOWN_FILE in words else ("undecided", "")
    if result:
        return "proved", ""
    errors = [each for each in result.findings if each.severity == "error"]
    return ("finding" if errors else "undecided"), ""


# --- many ---------------------------------------------------------------------------------------------------------


def draw(count: int, seed: int, targets: tuple[str, ...], names: tuple[str, ...], table: Table) -> None:
    """As many mutants of each kernel as of the others, and of each kind if there are so many, drawn at random."""
    rng = random.Random(seed)
    kernels = [(name, target) for target in targets for name in names]
    rng.shuffle(kernels)
    share = max(1, -(-count // len(kernels)))
    with tempfile.TemporaryDirectory() as folder:
        for name, target in kernels:
            if sum(table.counts.values()) >= count:
                return
            try:
                one = kernel(name, target)
                all_of_it = list(mutants(one.text))
            except NotUnderstood as error:
                table.left_out.append(f"{name}.{target}: {error}"[:200])
                continue
            chosen = _of_each_kind(rng, all_of_it, share)
            _compare(one, chosen, Path(folder), table)
            print(f"{sum(table.counts.values())} mutants, {one.name} done", file=sys.stderr, flush=True)


def _of_each_kind(rng: random.Random, known: list[Mutant], count: int) -> list[Mutant]:
    """Kinds take turns: a kernel has many more waits than barriers."""
    rng.shuffle(known)
    turns: list[tuple[int, int, Mutant]] = []
    seen: Counter[str] = Counter()
    for each in known:
        turns.append((seen[each.kind], KINDS.index(each.kind), each))
        seen[each.kind] += 1
    return [each for *_, each in sorted(turns, key=lambda turn: turn[:2])[:count]]


def _compare(one: Kernel, chosen: list[Mutant], folder: Path, table: Table) -> None:
    right = one.run(Hostility("early", "in step"), workgroups=1)
    if not right.is_good:
        table.left_out.append(f"{one.name} as it is: {right.lines()[0]}")
        return
    threads = one.waves * one.program().lanes
    is_hopeless = ask(one.text, folder, threads)[0] != "proved"
    for mutant in chosen:
        seen, why = watch(one, load(mutant.text), right)
        said, unsupported = ask(mutant.text, folder, threads)
        if seen not in ("race", "hang") and said != "proved" and not is_hopeless:
            seen, why = watch_longer(one, mutant, seen, why)
        table.unsupported = table.unsupported or unsupported
        table.add(one.name, mutant, seen, said, why, is_hopeless=is_hopeless)


def watch_longer(one: Kernel, mutant: Mutant, seen: str, why: str) -> tuple[str, str]:
    """The same on other launches: more rounds of loops, other numbers."""
    name, _, target = one.name.rpartition(".")
    for scale, seed in LONGER:
        other = kernel(name, target, scale, seed)
        right = other.run(Hostility("early", "in step"), workgroups=1)
        more, because = watch(other, load(mutant.text), right)
        if more in ("race", "hang"):
            return more, because
    return seen, why


def main() -> int:
    warnings.simplefilter("ignore")
    given = [each for each in sys.argv[1:] if not each.startswith("--")]
    options = dict(f"{each}=".removeprefix("--").split("=", 2)[:2] for each in sys.argv[1:] if each.startswith("--"))
    targets = tuple(options["targets"].split(",")) if "targets" in options else TARGETS
    names = tuple(options["only"].split(",")) if "only" in options else KERNELS
    table = Table()
    draw(int(given[0]) if given else 100, int(options.get("seed", "0")), targets, names, table)
    if "list" in options:
        print("\n".join(table.all))
    print(table.show())
    return 1 if table.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
