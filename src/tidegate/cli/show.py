"""`tidegate targets`, `show` and `demo`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli.complete import complete_show_stage, complete_target
from tidegate.cli.launch import launch_of
from tidegate.cli.options import ArgOption, BlockOption, FileArg, GridOption, JsonOption, OutOption, TargetOption
from tidegate.cli.say import emit, emit_json, print_findings, say, say_notes, say_program, say_table, write

if TYPE_CHECKING:
    from tidegate.diag import Finding, Sources


def targets_command(
    target: Annotated[
        str | None,
        typer.Argument(metavar="T", help="Show one target, or a `.toml` file.", autocompletion=complete_target),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the known GPUs, or show one with every fact and its source.

    Examples: `tidegate targets`, `tidegate targets gfx1250`, `tidegate targets my_gpu.toml --json`
    """
    from tidegate.targets import default_target, list_targets, load_target, show_target, target_to_json

    if target is not None:
        found = load_target("" if target == "none" else target)
        if as_json:
            emit_json(target_to_json(found))
        else:
            say(show_target(found))
        return
    rows = list_targets()
    if as_json:
        emit_json({"version": 1, "targets": [_row(row) for row in rows]})
        return
    say_table([list(_row(rows[0])), *[[_cell(value) for value in _row(row).values()] for row in rows]])
    say(f"\ndefault: {default_target()}; `none` assumes nothing about the target")


def show_command(
    file: FileArg,
    target: TargetOption = None,
    print_after: Annotated[
        str,
        typer.Option(
            metavar="STAGE",
            help="Print the program after a stage: `kernel` or `graph`.",
            autocompletion=complete_show_stage,
        ),
    ] = "kernel",
    output: OutOption = None,
    block: BlockOption = None,
    grid: GridOption = None,
    arg: ArgOption = None,
) -> None:
    """Print a program as text: the kernel language (default), or its SyncGraph.

    Examples: `tidegate show gemm.py -o gemm.tide`, `tidegate show gemm.tide --print-after graph`
    """
    from tidegate.passes import SHOW, check_stage, run_stages
    from tidegate.session import sessions_of

    check_stage(print_after, SHOW)
    loaded = launch_of([file], target, block=block, grid=grid, arg=arg, assembly=True).load(file)
    shown: list[str] = []
    units = sessions_of(loaded, target)
    say_notes(units)
    for unit in units:
        stage = "graph" if unit.kernel is None else print_after
        checked = run_stages(
            unit, print_after=stage, stop_after="graph", show=lambda _, text: shown.append(text.rstrip("\n"))
        )
        bad = [each for each in checked.findings if each.is_bad_input]
        if bad:
            print_findings(bad, loaded.sources)
            raise typer.Exit(2)
    text = "\n\n".join(shown)
    if output is None:
        emit(text)
    else:
        write(output, text + "\n")


def demo_command(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT.html", help="The page to write.")] = Path(
        "tidegate-demo.html"
    ),
) -> None:
    """Take one kernel without barriers: show its races, synchronize it for two GPUs, prove, run, schedule and draw it.

    Takes about ten seconds and needs no GPU. Exit status: 0, or 3 if a step failed.

    Examples: `tidegate demo`, `tidegate demo -o demo.html`
    """
    from tidegate.demo import run_demo

    raise typer.Exit(run_demo(_Terminal(), output))


class _Terminal:
    """Tells the demo."""

    def say(self, text: str) -> None:
        say(text)

    def program(self, text: str, before: str = "") -> None:
        say_program(text, before)

    def findings(self, findings: Sequence[Finding], sources: Sources) -> None:
        print_findings(findings, sources)

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        say_table(rows, indent=3)


def _row(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__dataclass_fields__}


def _cell(value: object) -> str:
    if isinstance(value, tuple):
        value = " ".join(map(str, value))
    return str(value or "–")
