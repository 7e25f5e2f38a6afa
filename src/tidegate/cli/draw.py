"""`tidegate draw`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.bars import progress_bar
from tidegate.cli.complete import complete_schedule_strategy
from tidegate.cli.launch import launch_of
from tidegate.cli.options import (
    AllowOption,
    ArchOption,
    ArgOption,
    BlockOption,
    DefineOption,
    FileArg,
    GridOption,
    IncludeOption,
    StdOption,
    TargetOption,
)
from tidegate.cli.say import fill_sizes, print_findings, read_sizes, say, say_notes, stop, write
from tidegate.diag import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidegate.files import Loaded
    from tidegate.graph.model import SyncGraph
    from tidegate.report.build import Asked, Report
    from tidegate.session import Session
    from tidegate.simulate.cycles import Estimate
    from tidegate.targets import Target

KINDS = (".html", ".svg")


def draw_command(
    file: FileArg,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT.html|OUT.svg",
            help="The page or picture to write.",
            show_default=False,
        ),
    ] = None,
    target: TargetOption = None,
    allow: AllowOption = None,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="OUT.json", help="Write the cost model's timeline for Perfetto and Chrome."),
    ] = None,
    size: Annotated[
        list[str] | None, typer.Option("--size", "-s", metavar="NAME=N", help="Set a size; may be repeated.")
    ] = None,
    cached: Annotated[
        bool, typer.Option("--cached", help="Global memory hits in the cache that all compute units share.")
    ] = False,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Also draw the result of `tidegate schedule` with this strategy.",
            autocompletion=complete_schedule_strategy,
        ),
    ] = None,
    prefetch: Annotated[
        bool, typer.Option("--prefetch", help="With `--strategy`: prefetch the loop's tiles one iteration ahead.")
    ] = False,
    block: BlockOption = None,
    grid: GridOption = None,
    arg: ArgOption = None,
    include: IncludeOption = None,
    define: DefineOption = None,
    arch: ArchOption = None,
    std: StdOption = None,
) -> None:
    """Draw a program: an interactive page (`-o OUT.html`), or its waves over time for a paper (`-o OUT.svg`).

    The page is one self-contained file: the program text with hazards as arcs and barriers as bars in the margin, the
    purpose of each barrier, the findings, the result of `tidegate sync`, zoomable timelines of the waves, the placement
    of barriers step by step, counts and costs. The picture shows one wave of each half, for the first iterations of the
    loop with most matrix work, by the target's cost model; it runs and judges nothing. With `--strategy` the scheduled
    program is drawn too.

    Exit status: 0 drawn, 1 not scheduled, 2 bad input; for a picture, also a program that does not terminate.

    Examples: `tidegate draw gemm.tide -o gemm.html`, `tidegate draw gemm.ttgir -o gemm.html`,
    `tidegate draw gemm.tide -o gemm.svg`, `tidegate draw gemm.tide --trace gemm.json`,
    `tidegate draw examples/gemm_pingpong.tide --size K=1024 --cached -o pingpong.svg`,
    `tidegate draw gemm.tide --prefetch --strategy two-pp-cluster -o both.html`
    """
    from tidegate.session import sessions_of

    _check_output(output, trace)
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
    if len(units) > 1:
        stop("`draw` takes one program, and the file has several", f"pick one: `{file}::{units[0].name}`")
    (unit,) = units
    say_notes(units)
    if prefetch and strategy is None:
        stop("`--prefetch` needs `--strategy`", "name a strategy: `--strategy auto`")
    graph = _graph_of(unit, loaded)
    given = read_sizes(size or [])
    sizes = fill_sizes(graph.name, graph.sizes, given)
    if output is not None and output.suffix.lower() == ".html":
        from tidegate.report.build import Asked

        _draw_page(unit, loaded, output, file, Asked(given, cached, strategy or "", prefetch))
    elif output is not None:
        _draw_picture(unit, graph, output, sizes, cached, strategy, prefetch)
    if trace is not None:
        from tidegate.simulate.cycle_trace import trace_of

        write(trace, trace_of(_estimate(graph, unit.target, sizes, cached), graph))
        say(f"{visible(str(trace))}: @{graph.name} on {unit.target.name or 'no target'}, for https://ui.perfetto.dev")


def _check_output(output: Path | None, trace: Path | None) -> None:
    if output is None:
        if trace is None:
            stop("no output file given", "name a file: `-o out.html`, `-o out.svg` or `--trace out.json`")
        return
    if output.suffix.lower() not in KINDS:
        named = output.with_suffix(".html") if output.name else "out.html"
        stop(f"`{output}` cannot be drawn: only `.html` and `.svg` are supported", f"name it `{named}`")


# --- the page -----------------------------------------------------------------------------------------------------


def _draw_page(unit: Session, loaded: Loaded, output: Path, file: str, asked: Asked) -> None:
    from tidegate.diag import BadInput
    from tidegate.limits import check_explained
    from tidegate.report.build import NotScheduled, as_written, build_report

    check_explained(unit.kernel, unit.given, unit.name, "a page")
    before = as_written(file, loaded, unit)
    if asked.strategy and unit.kernel is None:
        stop("only a kernel can be scheduled: the operations of other loops are not known", "give a kernel")
    try:
        with progress_bar(f"drawing @{unit.name}") as progress:
            report = build_report(
                unit, loaded.sources, asked, before=before, progress=lambda _, done, of: progress(done, of)
            )
    except BadInput as bad:
        print_findings(bad.findings, loaded.sources)
        raise typer.Exit(2) from None
    except NotScheduled as reason:
        say(f"@{unit.name} is not scheduled: {reason}")
        raise typer.Exit(1) from None
    write(output, report.html)
    say_page(report, output)


def say_page(report: Report, output: Path) -> None:
    """Where the page is, and the verdict of each program on it."""
    first, *others = str(report).split("\n")
    say(f"{visible(str(output))}: {first}")
    for each in others:
        say(each)


# --- the picture --------------------------------------------------------------------------------------------------


def _draw_picture(
    unit: Session,
    graph: SyncGraph,
    output: Path,
    sizes: Mapping[str, int],
    cached: bool,
    strategy: str | None,
    prefetch: bool,
) -> None:
    from tidegate.report import Panel, draw_panels, headline

    panels = []
    for what, drawn in _drawn(unit, graph, strategy, prefetch):
        found = _estimate(drawn, unit.target, sizes, cached)
        panels.append(Panel(headline(what, drawn, unit.target, found), drawn, unit.target, found))
    write(output, draw_panels(panels))
    for panel in panels:
        say(f"{visible(str(output))}: @{panel.graph.name} on {unit.target.name or 'no target'}, {panel.title}")


def _drawn(unit: Session, graph: SyncGraph, strategy: str | None, prefetch: bool) -> Iterator[tuple[str, SyncGraph]]:
    """The program, and what was made of it, each with what it is called."""
    if strategy is None:
        yield "as it is", graph
        return
    from tidegate.pingpong import schedule_kernel

    if unit.kernel is None:
        stop("only a kernel can be scheduled: the operations of other loops are not known", "give a kernel")
    made = schedule_kernel(unit.kernel, unit.target, strategy, pipeline=prefetch, certain=False)
    if made.chosen is None:
        assert made.declined is not None
        say(f"@{unit.name} is not scheduled: {made.declined}")
        raise typer.Exit(1)
    plain = next((each for each in made.candidates if each.strategy == "none"), None)
    yield "before", plain.graph if plain is not None else graph
    yield f"after, {made.chosen.strategy}", made.chosen.graph


def _graph_of(unit: Session, loaded: Loaded) -> SyncGraph:
    """The graph of a program that has a meaning; says what is wrong with one that has none, and ends."""
    if unit.meaningless:
        print_findings(unit.meaningless, loaded.sources)
        raise typer.Exit(2)
    return unit.graph


def _estimate(graph: SyncGraph, target: Target, sizes: Mapping[str, int], cached: bool) -> Estimate:
    from tidegate.simulate.cycle_steps import NoEstimate
    from tidegate.simulate.cycles import estimate

    try:
        found = estimate(graph, target, sizes=sizes, cached=cached, record=True)
    except NoEstimate as reason:
        stop(f"no picture: {reason}", "`tidegate check` reports what is wrong with it")
    if not found.events:
        stop(f"`@{graph.name}` does nothing that takes time; nothing to draw")
    return found
