"""Counts of waits that Tidegate loosens in AMD assembly, beside those of LLVM and beside a machine.

`python -m bench.amdgcn_counts [--targets=gfx942,…] [--only=KERNEL,…] [--raise=N] [-o OUT.json]`: small kernels of
`oracles/triton_kernels` compiled by Triton; no GPU is needed. Of each kernel two texts are synchronized in place
(`tidegate sync`): as LLVM writes it, and *drained*, with every count of a load, of shared memory and of copies at 0.
The instruction-level machine (`oracles/amdgcn_machine`) runs the results under hostile timings: numbers must be those
of the kernel as it was, no register may be used early, nothing may race. Then each count that is left in the result of
the drained text is raised by one (N of them for each kernel, drawn at random):

    wrong      the machine shows it: a register before its load, a race, other numbers
    memory     stores, fences, atomics or the end may rely on the wait, of which the machine says nothing
    shared     shared memory is not proved with one more, though the machine shows no race
    counted    the count is at the largest that an instruction names
    quiet      a register relies on it, and the machine shows nothing, not in longer launches either

The exit status says whether a loosened text went wrong.
"""

from __future__ import annotations

import json
import random
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import tidegate as tg
from bench.amdgcn_mutants import KERNELS, LONGER, RUNS, is_equal
from oracles.amdgcn_machine.launch import Ran
from oracles.amdgcn_machine.machine import Hostility
from oracles.amdgcn_machine.mutate import Mutant, mutants
from oracles.amdgcn_machine.program import load
from oracles.amdgcn_machine.text import NotUnderstood
from oracles.amdgcn_machine.triton import TARGETS, Kernel, kernel
from tidegate.diag import Sources
from tidegate.files import Loaded
from tidegate.hosts.amdgcn.needs import GONE, Needs
from tidegate.hosts.amdgcn.parse import parse_amdgcn
from tidegate.hosts.amdgcn.program import Amdgcn, programs_of
from tidegate.hosts.amdgcn.waits import waits_of
from tidegate.session import sessions_of
from tidegate.synchronize import synchronize

OLD = re.compile(r"\b(vmcnt|lgkmcnt)\(\d+\)")
NEW = re.compile(r"(s_wait_(?:load|ds|km|async|tensor)cnt(?:_dscnt)?)(\s+)(?:0x[0-9a-f]+|\d+)")
OURS = ("vmcnt", "lgkmcnt", "loadcnt", "dscnt", "kmcnt", "asynccnt", "tensorcnt")
WHY = ("memory", "shared", "counted", "quiet")
MEMORY = ("ends", "orders", "memory", "waits")


@dataclass(slots=True)
class Row:
    """One kernel. `counts`: of the drained text's waits beside LLVM's; `raised`: what one more does."""

    name: str
    why_not: str = ""
    compiled: str = ""  # what sync does to the text as it is
    removed: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    raised: Counter[str] = field(default_factory=Counter)
    quiet: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def drained(text: str) -> str:
    return NEW.sub(r"\g<1>\g<2>0x0", OLD.sub(r"\1(0)", text))


def loosened(text: str, threads: int) -> tuple[str, str]:
    """The text after `sync`, or as it was with the reason."""
    assembly = parse_amdgcn(text, "k.s")
    amdgcn = Amdgcn("k.s", text, assembly, block=(threads,))
    (unit,) = sessions_of(Loaded("k.s", (), None, Sources({"k.s": text}), amdgcn=amdgcn), None)
    if not unit.verification.is_proved or (unit.origin is not None and unit.origin.unmodelled):
        return text, "not proved as it is"
    result = synchronize(unit, given=text)
    return (result.text, "") if result else (text, "the result is not proved")


def ran_wrong(one: Kernel, text: str, right: Ran) -> str:
    """What the machine says against a text, first sentence; empty: nothing."""
    program = load(text)
    for how in RUNS:
        ran = one.run(how, workgroups=1, program=program)
        if not ran.is_good:
            return ran.lines()[0]
        if not is_equal(one, ran, right):
            return f"other numbers ({how.timing}, {how.order})"
    return ""


def waits_in(text: str) -> list[tuple[tuple[str, int], ...]]:
    body = parse_amdgcn(text, "k.s").kernels[0].body
    return [tuple(waits_of(each)) for each in body if getattr(each, "name", "").startswith("s_wait")]


def compare(given: str, made: str, row: Row) -> None:
    """Waits side by side, by their lines: `made` has some of them no more."""
    known = dict(_wait_lines(made, _moved(given, made)))
    for number, text in _wait_lines(given):
        llvm, own = _counts(text), _counts(known.get(number, ""))
        for name, count in llvm.items():
            new = own.get(name, GONE)
            row.counts["same" if new == count else "looser" if new > count else "stricter"] += 1


def _counts(text: str) -> dict[str, int]:
    if not text:
        return {}
    body = parse_amdgcn(f'\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\n\t.type k,@function\nk:\n{text}\n', "k.s")
    return {name: count for name, count in waits_of(body.kernels[0].body[0]) if name in OURS}  # type: ignore[arg-type]


def _wait_lines(text: str, moved: dict[int, int] | None = None) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n")):
        if line.strip().startswith("s_wait"):
            yield (number if moved is None else moved[number]), line


def _moved(given: str, made: str) -> dict[int, int]:
    """For each line of what was made the one it was: lines of waits and barriers may be gone or changed."""
    before, found, place = given.split("\n"), {}, 0
    for number, line in enumerate(made.split("\n")):
        while before[place] != line and not (
            _is_wait(before[place]) and _is_wait(line) and _alike(before, place, line)
        ):
            place += 1
        found[number] = place
        place += 1
    return found


def _is_wait(line: str) -> bool:
    return line.strip().startswith("s_wait")


def _alike(before: list[str], place: int, line: str) -> bool:
    return before[place].split()[0] == line.split()[0]


def examine(one: Kernel, raised: int, seed: int = 0) -> Row:
    row = Row(one.name)
    right = one.run(Hostility("early", "in step"), workgroups=1)
    threads = one.waves * one.program().lanes
    if not right.is_good:
        row.why_not = f"the machine: {right.lines()[0]}"
        return row
    made, row.why_not = loosened(one.text, threads)
    if row.why_not:
        return row
    row.removed = one.text.count("\n") - made.count("\n")
    _watch(one, made, right, "as compiled", row)
    made, row.why_not = loosened(drained(one.text), threads)
    if not row.why_not:
        _watch(one, made, right, "drained", row)
        compare(one.text, made, row)
        raise_some(one, made, right, raised, seed, row)
    return row


def _watch(one: Kernel, text: str, right: Ran, what: str, row: Row) -> None:
    wrong = ran_wrong(one, text, right)
    if wrong:
        row.wrong.append(f"{one.name}, {what}: {wrong}")


def raise_some(one: Kernel, text: str, right: Ran, count: int, seed: int, row: Row) -> None:
    known = [each for each in mutants(text) if each.kind == "count"]
    random.Random(seed).shuffle(known)
    for mutant in known[:count]:
        if ran_wrong(one, mutant.text, right) or any(_wrong_longer(one, mutant.text, *each) for each in LONGER):
            row.raised["wrong"] += 1
            continue
        why = reason_of(text, mutant)
        row.raised[why] += 1
        if why == "quiet":
            row.quiet.append(f"{one.name} line {mutant.line}: {mutant.change}")


def _wrong_longer(one: Kernel, text: str, scale: int, seed: int) -> bool:
    name, _, target = one.name.rpartition(".")
    other = kernel(name, target, scale, seed)
    right = other.run(Hostility("early", "in step"), workgroups=1)
    return bool(ran_wrong(other, text, right))


def reason_of(text: str, mutant: Mutant) -> str:
    """Why a count is not larger, where the machine shows nothing."""
    assembly = parse_amdgcn(text, "k.s")
    program = programs_of(Amdgcn("k.s", text, assembly, block=_block(assembly)), None)[0]
    needs = program.needs()
    place = next(each for each in needs.counts if needs.body[each].at.line == mutant.line)
    raised = _counts(mutant.text.split("\n")[mutant.line - 1])
    for name, count in _counts(text.split("\n")[mutant.line - 1]).items():
        if raised.get(name, GONE) > count:
            return _why(needs, place, name, count)
    return "counted"


def _block(assembly: object) -> tuple[int, ...]:
    most = assembly.kernels[0].facts.get("max_flat_workgroup_size", ())  # type: ignore[attr-defined]
    return tuple(most[:1])


def _why(needs: Needs, place: int, counter: str, count: int) -> str:
    largest = needs.target.counters[counter].largest
    if count + 1 > largest:
        return "counted"
    if needs.is_enough(place, counter, count + 1):
        return "shared"
    return "memory" if needs.reasons[place, counter].what in MEMORY else "quiet"


# --- the table ----------------------------------------------------------------------------------------------------


def show(rows: list[Row]) -> str:
    heads = ("kernels", "waits", "as LLVM", "looser", "stricter", "wrong on the machine", "one more: wrong", *WHY)
    lines = [f"| target | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for target in TARGETS:
        own = [each for each in rows if each.name.endswith(target) and not each.why_not]
        counts, raised = sum((each.counts for each in own), Counter()), sum((each.raised for each in own), Counter())
        cells = [len(own), counts.total(), *(counts[each] for each in ("same", "looser", "stricter"))]
        cells += [
            sum(len(each.wrong) for each in own),
            *(raised[each] for each in ("wrong", *WHY)),
        ]
        if own:
            lines.append(f"| {target} | {' | '.join(map(str, cells))} |")
    lines += ["", *(f"WRONG: {said}" for each in rows for said in each.wrong)]
    lines += [f"quiet: {said}" for each in rows for said in each.quiet]
    lines += [f"left out: {each.name}: {each.why_not}" for each in rows if each.why_not]
    return "\n".join(lines)


def main() -> int:
    warnings.simplefilter("ignore")
    options = dict(f"{each}=".removeprefix("--").split("=", 2)[:2] for each in sys.argv[1:] if each.startswith("--"))
    targets = tuple(options["targets"].split(",")) if "targets" in options else TARGETS
    names = tuple(options["only"].split(",")) if "only" in options else KERNELS
    rows: list[Row] = []
    for target in targets:
        for name in names:
            try:
                rows.append(examine(kernel(name, target), int(options.get("raise", "12"))))
            except (NotUnderstood, tg.TidegateError) as error:
                rows.append(Row(f"{name}.{target}", str(error)[:160]))
            print(
                rows[-1].name,
                rows[-1].why_not,
                dict(rows[-1].counts),
                dict(rows[-1].raised),
                rows[-1].wrong,
                flush=True,
            )
    if "-o" in sys.argv:
        Path(sys.argv[sys.argv.index("-o") + 1]).write_text(
            json.dumps([asdict(each) for each in rows]), encoding="utf-8"
        )
    print(show(rows))
    return int(any(each.wrong for each in rows))


if __name__ == "__main__":
    sys.exit(main())
