"""`tidegate check`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.bars import progress_bar
from tidegate.cli.grouping import MOST_FINDINGS, Grouped, count_all, group
from tidegate.cli.launch import LaunchAsked, launch_of
from tidegate.cli.options import (
    AllowOption,
    ArchOption,
    ArgOption,
    BlockOption,
    DefineOption,
    FilesArg,
    GridOption,
    IncludeOption,
    JsonOption,
    KeepPtxOption,
    MaxFindings,
    PrintAfter,
    SeedOption,
    StdOption,
    StopAfter,
    TargetOption,
)
from tidegate.cli.say import emit_json, print_findings, print_stage, read_sizes, say, status_of, stop, write
from tidegate.diag import visible

if TYPE_CHECKING:
    from tidegate.advice import Advice
    from tidegate.cli.sarif import Reported
    from tidegate.comparison import Against
    from tidegate.diag import Finding, Sources
    from tidegate.passes import Checked, Show
    from tidegate.session import Session
    from tidegate.simulate.judge import Limits


# What barriers and waits would order.
ORDERED_BY_SYNC = {"TG101", "TG102", "TG103", "TG105", "TG108", "TG109"}


def check_command(
    files: FilesArg,
    target: TargetOption = None,
    allow: AllowOption = None,
    as_json: JsonOption = False,
    as_sarif: Annotated[
        bool,
        typer.Option("--sarif", help="Print a SARIF 2.1.0 log, for code scanning and editors; not with `--json`."),
    ] = False,
    explore: Annotated[
        bool,
        typer.Option("--explore", help="Visit many more orders, and report how many of how many. May take minutes."),
    ] = False,
    size: Annotated[
        list[str] | None,
        typer.Option("--size", "-s", metavar="NAME=N", help="Judge only with this size; may be repeated."),
    ] = None,
    seed: SeedOption = 0,
    advice: Annotated[
        bool,
        typer.Option(
            "--advice",
            help="For programs without findings, report which barriers and waits could be weaker or removed.",
        ),
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="PLAN",
            help="AMD assembly: the `.ttgir` or `.tide` that it was made of; report which barriers the compiler has "
            "added, moved and dropped. Or the assembly, if FILE is the program.",
        ),
    ] = None,
    max_findings: MaxFindings = MOST_FINDINGS,
    block: BlockOption = None,
    grid: GridOption = None,
    arg: ArgOption = None,
    include: IncludeOption = None,
    define: DefineOption = None,
    arch: ArchOption = None,
    std: StdOption = None,
    keep_ptx: KeepPtxOption = None,
    print_after: PrintAfter = None,
    stop_after: StopAfter = None,
) -> None:
    """Find errors in programs: invalid text, memory errors, operations that the target lacks, races, inversions, hangs.

    A verifier proves that there are no races and hangs, for all sizes, trip counts and orders of the waves. A program
    that it cannot prove is simulated on a hostile machine: each loop from 0 iterations to two more than the largest
    number of slots, or more where a wait count, an index or a condition needs it; each condition both ways; all orders
    of the waves. The output states every bound. A Python file is executed to trace its kernels; text files are never
    executed.

    Exit status: 0 clean, perhaps with advice, 1 findings, 2 bad input; the worst of all files.

    Examples: `tidegate check gemm.tide`, `tidegate check gemm.py::gemm --target gfx1201 --json`,
    `tidegate check ring.tide --explore`, `tidegate check ring.tide gemm.py --sarif`,
    `tidegate check gemm.tide --advice`
    """
    from tidegate.diag import BadInput, Sources
    from tidegate.passes import CHECK, check_stage
    from tidegate.simulate.judge import AT_ONCE, EXPLORE

    if as_json and as_sarif:
        stop("`--json` and `--sarif` cannot be combined", "give one of the two")
    as_text = not (as_json or as_sarif)
    launch = launch_of(
        files,
        target,
        block=block,
        grid=grid,
        arg=arg,
        include=include,
        define=define,
        arch=arch,
        std=std,
        keep_ptx=keep_ptx,
        assembly=True,
        allow=allow,
    )
    if against is not None and len(files) != 1:
        stop("`--against` compares one file with another", "give one file, and the other behind `--against`")
    checks = [_Check(file, len(files) > 1, launch, keep_ptx) for file in files]
    refused: Sequence[Finding] = ()
    try:
        check_stage(print_after, CHECK)
        check_stage(stop_after, CHECK)
        sizes = tuple(read_sizes(size or []).items())
        limits = replace(EXPLORE if explore else AT_ONCE, seed=seed, sizes=sizes)
        limits = limits if max_findings else replace(limits, alike=0)
        with progress_bar("files", quiet=not as_text or len(files) == 1) as progress:
            for number, each in enumerate(checks):
                progress(number, len(checks))
                each.run(target, print_after, stop_after, print_stage if as_text else None, limits)
                if advice:
                    each.advise(limits, quiet=not as_text)
                if against is not None:
                    each.compare(against, target)
                if as_text:
                    shown = [finding for found in each.groups(max_findings) for finding in found.shown]
                    print_findings(shown, each.sources or Sources(), err=each.sources is None)
                    for line in each.verdicts(max_findings):
                        say(line)
    except BadInput as bad:
        if not as_sarif:
            raise
        refused = bad.findings
    status = max(max(status_of([*each.findings, *refused]), each.is_weaker) for each in checks)
    if as_json:
        _say_json(checks, max_findings)
    if as_sarif:
        _say_sarif(checks, refused, status, max_findings)
    raise typer.Exit(status)


def _say_json(checks: list[_Check], most: int) -> None:
    from tidegate.diag import findings_to_json

    files = [each.file for each in checks]
    given = files if len(files) > 1 else files[0]
    groups = [found for each in checks for found in each.groups(most)]
    findings = [finding for found in groups for finding in found.shown]
    emit_json(findings_to_json(findings, file=given, **_facts(checks), **count_all(groups)))


def _say_sarif(checks: list[_Check], refused: Sequence[Finding], status: int, most: int) -> None:
    """Also where the command line cannot be carried out: who asks for a log gets one."""
    from tidegate.cli.sarif import Reported, sarif_log
    from tidegate.diag import Sources

    reported = [found for each in checks for found in each.reported(most)]
    counts = count_all([found for each in checks for found in each.groups(most)])
    sources = Sources({file: text for each in checks if each.sources for file, text in each.sources.texts.items()})
    log = sarif_log([*reported, *map(Reported, refused)], sources, status=status, **_facts(checks), **counts)
    emit_json(log)


def _facts(checks: list[_Check]) -> dict[str, object]:
    return {
        "checked": [name for each in checks for name in each.names],
        "decided": _decided(checks),
        "verified": [fact for each in checks for fact in each.verified()],
        "judged": [fact for each in checks for fact in each.judged()],
        **({"against": found} if (found := [fact for each in checks for fact in each.compared()]) else {}),
        **({"advice": facts} if (facts := [fact for each in checks for fact in each.advised()]) else {}),
    }


def _decided(checks: list[_Check]) -> list[str]:
    """What every program was checked for."""
    if not all(each.units for each in checks):
        return []
    ran = all(checked.is_decided for each in checks for checked in each.results)
    return ["meaning", "memory", "workgroup barrier", "target", *(["races", "hangs"] if ran else [])]


class _Check:
    """What `check` finds out about one file; without sources, no program could be made of it."""

    def __init__(self, file: str, among_others: bool, launch: LaunchAsked, keep_ptx: Path | None) -> None:
        self.file, self.among_others, self.launch, self.keep_ptx = file, among_others, launch, keep_ptx
        self.bad: list[Finding] = []
        self.units: list[Session] = []
        self.results: list[Checked] = []
        self.advice: list[Advice] = []  # of each program, if it was asked for
        self.text = ""
        self.against: dict[str, Against] = {}  # by the names of programs
        self.sources: Sources | None = None
        self.shown: str | None = None  # the stage that was printed

    @property
    def names(self) -> list[str]:
        return [_name(unit) for unit in self.units]

    @property
    def findings(self) -> list[Finding]:
        found = [each.findings for each in self.results] + [each.findings for each in self.advice]
        return [*self.bad, *chain(*found)]

    def run(
        self, target: str | None, print_after: str | None, stop_after: str | None, show: Show | None, limits: Limits
    ) -> None:
        from tidegate.diag import BadInput
        from tidegate.passes import run_stages
        from tidegate.session import sessions_of

        self.shown = print_after
        try:
            loaded = self.launch.load(self.file)
            if self.keep_ptx is not None and loaded.ptx is not None:
                write(self.keep_ptx, loaded.ptx.text)
            units = sessions_of(loaded, target, self.launch.allow)
        except BadInput as bad:
            self.bad += bad.findings
            return
        self.sources = loaded.sources
        _check_sizes(self.file, units, dict(limits.sizes))
        for unit in units:
            with progress_bar(f"judging @{unit.name}", quiet=show is None) as progress:
                self.results.append(
                    run_stages(
                        unit,
                        print_after=print_after,
                        stop_after=stop_after,
                        show=show or (lambda *_: None),
                        limits=limits,
                        progress=progress,
                    )
                )
            self.units.append(unit)
        self.text = loaded.sources.texts.get(loaded.file, "")

    def advise(self, limits: Limits, *, quiet: bool) -> None:
        from tidegate.advice import Advice, advise
        from tidegate.limits import MOST_EXPLAINED, count_operations

        for unit, checked in zip(self.units, self.results, strict=True):
            if count_operations([unit.kernel] if unit.kernel else [], unit.given) > MOST_EXPLAINED:
                self.advice.append(Advice(why_not=f"it has more than {MOST_EXPLAINED:,} operations"))
                continue
            with progress_bar(f"advising @{unit.name}", quiet=quiet) as progress:
                found = advise(checked, limits, progress)
            if unit.origin is not None:
                found = replace(found, findings=[*map(unit.origin.with_sources, found.findings)])
            self.advice.append(found)

    def compare(self, other: str, target: str | None) -> None:
        """The other file is what this one was made of; or this one is what the other was made of."""
        from tidegate.comparison import compare_unit
        from tidegate.files import ASSEMBLY
        from tidegate.session import sessions_of

        files = [self.file, other]
        found = [Path(each.partition("::")[0]).suffix.lower() in ASSEMBLY for each in files]
        if found.count(True) != 1:
            stop("`--against` compares assembly with what it was made of", "give a `.s` and, for instance, a `.ttgir`")
        if self.bad:
            return
        loaded = self.launch.load(other)
        if loaded.amdgcn is not None:
            text, names, units = loaded.amdgcn.text, [each.name for each in loaded.amdgcn.kernels], self.units
        else:
            text, names = self.text, [each.name for each in self.units]
            units = sessions_of(loaded, target or self.units[0].target.name)
        self.against = {unit.name: compare_unit(text, unit, names) for unit in units}

    @property
    def is_weaker(self) -> bool:
        return any(each.is_weaker for each in self.against.values())

    def compared(self) -> list[dict[str, object]]:
        """What became of the barriers, program by program, for the JSON document."""
        return [{"program": name, "file": self.file, **each.to_json()} for name, each in self.against.items()]

    def groups(self, most: int) -> list[Grouped]:
        """What is shown of the file, and then of each program: findings of one cause as one, no more than `most`."""
        found = [group(self.bad, most)]
        for number, checked in enumerate(self.results):
            advice = [each.findings for each in self.advice[number : number + 1]]
            found.append(group([*checked.findings, *chain(*advice)], most))
        return found

    def reported(self, most: int) -> Iterator[Reported]:
        """The findings, each with its program, for the SARIF log."""
        from tidegate.cli.sarif import sort_reported

        for name, found in zip(("", *(unit.name for unit in self.units)), self.groups(most), strict=True):
            yield from sort_reported(found.shown, self.file, name)

    def verdicts(self, most: int) -> list[str]:
        """For each program how many findings there are, and what was run."""
        from tidegate.decided import show_decided

        lines = []
        where = f"{visible(self.file)}: " if self.among_others else ""
        for number, (name, checked) in enumerate(zip(self.names, self.results, strict=True)):
            what = group(checked.findings, most).said
            if checked.verification is None:
                lines.append(f"{where}{name}: {what}; races and hangs were not judged: {checked.why_not}")
                continue
            lines.append(f"{where}{name}: {what}")
            origin = self.units[number].origin
            lines += [f"  {each}" for each in (origin.said if origin is not None else ())]
            if self.shown not in ("judge", "verify"):
                lines += [f"  {line}" for line in show_decided(checked).splitlines()]
            unit = self.units[number]
            placed = unit.given is None or not unit.given.maps  # `sync` takes no programs by threads
            if placed and checked.findings and all(each.code in ORDERED_BY_SYNC for each in checked.findings):
                which = visible(self.file if len(self.units) == 1 else f"{self.file}::{unit.name}")
                lines += _sync_hint(unit, which)
            lines += [f"  {each.said}" for each in self.advice[number : number + 1]]
        for name, found in self.against.items():
            lines.append(f"@{visible(name)} against its assembly: {found.said}")
            lines += [f"  {each}" for each in found.differences[: most or None]]
            left_out = len(found.differences) - most
            lines += [f"  and {left_out} more"] if most and left_out > 0 else []
        return lines

    def verified(self) -> list[dict[str, object]]:
        """What was proved, program by program, for the JSON document."""
        from tidegate.cli.say import verification_to_json

        return [
            {"program": name, "file": self.file, **verification_to_json(checked)}
            for name, checked in zip(self.names, self.results, strict=True)
            if checked.verification is not None
        ]

    def advised(self) -> list[dict[str, object]]:
        """What was tried, program by program, for the JSON document."""
        return [
            {
                "program": name,
                "file": self.file,
                "pieces": len(advice.findings),
                "tried": advice.trials,
                "left_out": advice.left_out,
                "held": advice.held,
                "why_not": advice.why_not or None,
            }
            for name, advice in zip(self.names, self.advice, strict=bool(self.advice))
        ]

    def judged(self) -> list[dict[str, object]]:
        """What was run, program by program, for the JSON document."""
        return [
            {
                "program": name,
                "file": self.file,
                "configurations": ran.configurations,
                "runs": ran.runs,
                "steps": ran.steps,
                "orders": ran.orders,
                "possible_orders": (ran.possible or None) if not ran.uncounted else None,
                "covered": ran.covered,
                "bounded": ran.bounded,
            }
            for name, checked in zip(self.names, self.results, strict=True)
            if (ran := checked.judgement) is not None
        ]


def _sync_hint(unit: Session, which: str) -> list[str]:
    """That `sync` helps, as far as it does: the plan is made to know it."""
    from tidegate.limits import MOST_EXPLAINED, count_operations
    from tidegate.synchronize import propose
    from tidegate.synchronize.said import unplaced_of

    if count_operations([unit.kernel] if unit.kernel else [], unit.given) > MOST_EXPLAINED:
        return []  # the plan would take longer than the check
    result = propose(unit)
    if result.made is None or not result.plan.edits:
        return []
    if unplaced_of(result):
        return [f"  `tidegate sync {which}` inserts part of the missing barriers and waits, and reports the rest"]
    return [f"  `tidegate sync {which}` inserts the missing barriers and waits"]


def _name(unit: Session) -> str:
    return f"@{unit.name} on {unit.target.name or 'no target'}"


def _check_sizes(file: str, units: list[Session], given: dict[str, int]) -> None:
    """Sizes on the command line must exist, and satisfy what the programs assume."""
    from tidegate.index import holds, names, show

    programs = [unit.program for unit in units]
    known = {size.name for program in programs for size in program.sizes}
    for name in given:
        if name not in known:
            stop(f"`{file}` has no size `{name}`", f"its sizes: {', '.join(sorted(known)) or 'none'}")
    for unit, program in zip(units, programs, strict=True):
        for cond in program.where:
            if given and set(names(cond)) <= set(given) and not holds(cond, given):
                stop(f"`@{unit.name}` assumes `{show(cond)}`, which does not hold with these sizes")
