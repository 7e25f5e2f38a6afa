"""`tidegate check`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from tidegate.cli.options import FilesArg, JsonOption, PrintAfter, StopAfter, TargetOption
from tidegate.cli.say import print_findings, print_stage, say, status_of

if TYPE_CHECKING:
    from tidegate.diag import Finding, Sources


def check_command(
    files: FilesArg,
    target: TargetOption = None,
    as_json: JsonOption = False,
    print_after: PrintAfter = None,
    stop_after: StopAfter = None,
) -> None:
    """Find what is wrong with programs: meaning, memory, the barrier protocol, the fit to their target.

    Races, and what waves do at barrier objects, are not decided by this version. Exit status: 0 clean, 1 findings,
    2 bad input; the worst of all files.

    Examples: `tidegate check gemm.tide`, `tidegate check gemm.py::gemm --target gfx1201 --json`
    """
    from tidegate.diag import Sources, findings_to_json
    from tidegate.passes import check_stage

    check_stage(print_after)
    check_stage(stop_after)
    show = print_stage if not as_json else lambda *_: None
    checks = [_Check(file, len(files) > 1) for file in files]
    for each in checks:
        each.run(target, print_after, stop_after, show)
        if as_json:
            continue
        print_findings(each.findings, each.sources or Sources(), err=each.sources is None)
        if each.sources is not None:
            say(each.verdict())
    if as_json:
        given = files if len(files) > 1 else files[0]
        decided = (
            ["meaning", "memory", "workgroup barrier", "target"]
            if all(each.sources is not None for each in checks)
            else []
        )
        findings = [finding for each in checks for finding in each.findings]
        names = [name for each in checks for name in each.names]
        say(json.dumps(findings_to_json(findings, file=given, checked=names, decided=decided), indent=2))
    raise typer.Exit(max(status_of(each.findings) for each in checks))


class _Check:
    """What `check` finds out about one file; without sources, no program could be made of it."""

    def __init__(self, file: str, among_others: bool) -> None:
        self.file, self.among_others = file, among_others
        self.findings: list[Finding] = []
        self.names: list[str] = []
        self.sources: Sources | None = None

    def run(self, target: str | None, print_after: str | None, stop_after: str | None, show: Any) -> None:
        from tidegate.diag import BadInput
        from tidegate.files import load
        from tidegate.passes import run_stages, units_of

        try:
            loaded = load(self.file)
            units = units_of(loaded, target)
        except BadInput as bad:
            self.findings += bad.findings
            return
        self.sources = loaded.sources
        for unit in units:
            self.findings += run_stages(unit, print_after=print_after, stop_after=stop_after, show=show)
            self.names.append(f"@{unit.name} on {unit.target.name or 'no target'}")

    def verdict(self) -> str:
        found = self.findings
        what = f"{len(found)} finding{'s' * (len(found) != 1)}" if found else "no findings"
        where = f"{self.file}: " if self.among_others else ""
        return f"{where}{', '.join(self.names)}: {what}; races and barrier objects are not decided by this version"
