"""`tidegate explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tidegate.cli.bars import progress_bar
from tidegate.cli.grouping import MOST_FINDINGS, count_all, group
from tidegate.cli.launch import launch_of
from tidegate.cli.options import (
    AllowOption,
    ArchOption,
    ArgOption,
    AtomicsOption,
    BlockOption,
    DefineOption,
    FileArg,
    GridOption,
    IncludeOption,
    JsonOption,
    MaxFindings,
    StaggerOption,
    StdOption,
    TargetOption,
)
from tidegate.cli.say import emit_json, print_findings, say, say_notes

if TYPE_CHECKING:
    from tidegate.diag import Finding
    from tidegate.explanation import Barrier, Explained, Pair, Trial
    from tidegate.hazards.model import Hazard


def explain_command(
    file: FileArg,
    target: TargetOption = None,
    allow: AllowOption = None,
    as_json: JsonOption = False,
    atomics: AtomicsOption = "commute",
    stagger: StaggerOption = 0,
    max_findings: MaxFindings = MOST_FINDINGS,
    block: BlockOption = None,
    grid: GridOption = None,
    arg: ArgOption = None,
    include: IncludeOption = None,
    define: DefineOption = None,
    arch: ArchOption = None,
    std: StdOption = None,
) -> None:
    """Explain what each barrier orders, what breaks without it, and why other accesses need none.

    The program is not changed. Each barrier is removed, moved past its neighbour, weakened and moved out of its loop,
    one at a time, and each result is judged.

    Exit status: 0, or 2 for bad input; use `check` to find errors.

    Examples: `tidegate explain gemm.tide`, `tidegate explain gemm.py::gemm --target gfx1201 --json`,
    `tidegate explain kernel.ptx --block 256`
    """
    from tidegate.diag import BadInput, findings_to_json
    from tidegate.explanation import explain
    from tidegate.explanation.show import show_explained
    from tidegate.limits import check_explained
    from tidegate.session import sessions_of
    from tidegate.synchronize import SyncOptions

    SyncOptions(atomics=atomics, stagger=stagger).check()
    results: list[Explained] = []
    try:
        launch = launch_of(
            [file],
            target,
            block=block,
            grid=grid,
            arg=arg,
            include=include,
            define=define,
            arch=arch,
            std=std,
            allow=allow,
        )
        loaded = launch.load(file)
        units = sessions_of(loaded, target, launch.allow)
        if not as_json:
            say_notes(units)
        for unit in units:
            check_explained(unit.kernel, unit.given, unit.name, "`explain`")
            with progress_bar(f"explaining @{unit.name}", quiet=as_json) as progress:
                results.append(explain(unit, atomics=atomics, stagger=stagger, progress=progress))
    except BadInput as bad:
        if not as_json:
            raise
        emit_json(findings_to_json(bad.findings, file=file, programs=[]))
        raise typer.Exit(2) from None
    if as_json:
        groups = [group(each.findings, max_findings) for each in results]
        findings = [finding for each in groups for finding in each.shown]
        programs = [program_to_json(each) for each in results]
        document = findings_to_json(findings, file=file, programs=programs, **count_all(groups))
        emit_json(document)
    else:
        for result in results:
            unusable = [each for each in result.findings if each.is_bad_input]
            print_findings(group(unusable, max_findings).shown, loaded.sources)
        say("\n".join(show_explained(each, loaded.sources) for each in results).rstrip("\n"))
    raise typer.Exit(2 if any(each.graph is None for each in results) else 0)


# --- JSON ---------------------------------------------------------------------------------------------------------


def program_to_json(result: Explained) -> dict[str, object]:
    """One program; `docs/json.md` describes its fields."""
    from tidegate.cli.sync_report import hazard_to_json, tally_to_json

    found = result.hazards
    hazards = _hazards(result)
    numbers = {id(each): number for number, each in enumerate(hazards)}
    return {
        "program": f"@{result.unit.name} on {result.unit.target.name or 'no target'}",
        "hazards": [hazard_to_json(each, found.flow) for each in hazards if found is not None],
        "barriers": [_barrier(each, result, numbers) for each in result.barriers],
        "tally": tally_to_json(result.tally) if result.graph is not None else None,
        "pairs": [_pair(each, result, numbers) for each in result.pairs],
        "notes": result.notes,
        "why_not": result.why_not or None,
    }


def _hazards(result: Explained) -> list[Hazard]:
    """All that barriers serve and pairs speak of, each once."""
    if result.hazards is None:
        return []
    found = [*result.hazards.hazards, *(hazard for each in result.barriers for hazard in each.serves)]
    found += [each.hazard for each in result.pairs if each.hazard is not None]
    return list({id(each): each for each in found}.values())


def _barrier(barrier: Barrier, result: Explained, numbers: dict[int, int]) -> dict[str, object]:
    from tidegate.explanation.changes import show_sync

    graph = result.graph
    assert graph is not None
    parts = [
        {"point": each, "line": result.line(each) or None, "op": show_sync(graph, each)} for each in barrier.points
    ]
    return {
        "kind": barrier.kind,
        "parts": parts,
        "weight": barrier.weight,
        "counts": barrier.tally.barriers,
        "loop": barrier.loop or None,
        "pinned": barrier.pinned,
        "needed": barrier.is_needed,
        "serves": [numbers[id(each)] for each in barrier.serves],
        "held": barrier.held,
        "instead": list(barrier.instead),
        "too_weak": [numbers[id(each)] for each in barrier.too_weak],
        "trials": [_trial(each, numbers) for each in barrier.trials],
        "more_slots": _more_slots(barrier),
    }


def _more_slots(barrier: Barrier) -> dict[str, object] | None:
    found = barrier.more_slots
    if found is None:
        return None
    return {
        "buffers": [{"buffer": name, "slots": have} for name, have in zip(found.buffers, found.have, strict=True)],
        "saves": found.is_saved,
        "more": found.more,
        "tried": found.tried,
        "bytes": found.bytes,
        "anew": found.anew,
    }


def _trial(trial: Trial, numbers: dict[int, int]) -> dict[str, object]:
    return {
        "question": trial.question,
        "tried": trial.tried or None,
        "part": trial.part if trial.part >= 0 else None,
        "verdict": trial.verdict.value,
        "why": trial.why or None,
        "hazards": [numbers[id(each)] for each in trial.hazards],
        "findings": _findings(trial.findings),
        "gone": _findings(trial.gone),
    }


def _findings(findings: tuple[Finding, ...]) -> object:
    from tidegate.diag import findings_to_json

    return findings_to_json(findings)["findings"]


def _pair(pair: Pair, result: Explained, numbers: dict[int, int]) -> dict[str, object]:
    from tidegate.hazards.show import loop_name

    assert result.hazards is not None
    flow = result.hazards.flow
    ends = [{"point": flow.origin[node], "line": flow.point(node).at.line or None} for node in pair.ends]
    return {
        "reason": pair.reason.name.lower(),
        "kind": pair.kind.name if pair.kind is not None else None,
        "buffer": pair.buffer,
        "producer": ends[0],
        "consumer": ends[1],
        "loop": loop_name(flow, pair.loop) if pair.loop >= 0 else None,
        "distances": list(pair.distances) if pair.distances is not None else None,
        "by": list(pair.by),
        "why": pair.why or None,
        "hazard": numbers[id(pair.hazard)] if pair.hazard is not None else None,
    }
