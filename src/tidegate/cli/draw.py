"""`tidegate draw`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli.options import FileArg, TargetOption
from tidegate.cli.say import fill_sizes, print_findings, read_sizes, say, stop, write

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidegate.graph.model import SyncGraph
    from tidegate.passes import Unit
    from tidegate.simulate.cycles import Estimate
    from tidegate.targets import Target


def draw_command(
    file: FileArg,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="OUT.svg", help="The picture that is written.", show_default=False)
    ],
    target: TargetOption = None,
    size: Annotated[
        list[str] | None, typer.Option("--size", "-s", metavar="NAME=N", help="Set a size; may be repeated.")
    ] = None,
    cached: Annotated[
        bool, typer.Option("--cached", help="Global memory is found in the cache that all compute units share.")
    ] = False,
    strategy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Below it, what `tidegate schedule` makes of it with this strategy."),
    ] = None,
    prefetch: Annotated[
        bool, typer.Option("--prefetch", help="With `--strategy`: the loop fetches its tiles an iteration ahead.")
    ] = False,
) -> None:
    """Draw both halves of a program's waves over time, by the target's cost model, as an SVG.

    One wave of each half is drawn, for the first iterations of the loop with most matrix work: its clusters between
    barriers, what it has in flight, its matrix products, what holds it up, and its barriers. Nothing is run or judged.
    With `--strategy` the program is drawn twice: synchronized as it is, and scheduled.

    Exit status: 0 if it was drawn, 1 if it could not be scheduled, 2 bad input, which a program that does not come to
    its end is too.

    Examples: `tidegate draw gemm.tide -o gemm.svg`,
    `tidegate draw examples/gemm_pingpong.tide --size K=1024 --cached -o pingpong.svg`,
    `tidegate draw gemm.tide --prefetch --strategy two-pp-cluster -o both.svg`
    """
    from tidegate.files import load
    from tidegate.passes import units_of
    from tidegate.report import Panel, draw_panels, headline

    _check_output(output)
    loaded = load(file)
    units = units_of(loaded, target)
    if len(units) > 1:
        stop("one program is drawn, and the file has several", f"pick one: `{file}::{units[0].name}`")
    (unit,) = units
    if prefetch and strategy is None:
        stop("`--prefetch` is for `--strategy`", "name a strategy: `--strategy auto`")
    panels = []
    for what, graph in _drawn(unit, _graph_of(unit, loaded), strategy, prefetch):
        found = _estimate(graph, unit.target, fill_sizes(graph.name, graph.sizes, read_sizes(size or [])), cached)
        panels.append(Panel(headline(what, graph, unit.target, found), graph, unit.target, found))
    write(output, draw_panels(panels))
    for panel in panels:
        say(f"{output}: @{panel.graph.name} on {unit.target.name or 'no target'}, {panel.title}")


def _drawn(unit: Unit, graph: SyncGraph, strategy: str | None, prefetch: bool) -> Iterator[tuple[str, SyncGraph]]:
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


def _check_output(output: Path) -> None:
    if output.suffix.lower() != ".svg":
        stop(f"`{output}` cannot be drawn: only `.svg` is written now", f"name it `{output.with_suffix('.svg')}`")


def _graph_of(unit: Unit, loaded: Any) -> SyncGraph:
    """The graph of a program that has a meaning; says what is wrong with one that has none, and ends."""
    from tidegate.graph.build import build_graph
    from tidegate.graph.wellformed import check_graph
    from tidegate.language.check import check

    if unit.kernel is None:
        assert unit.graph is not None
        findings = list(check_graph(unit.graph))
    else:
        findings = [each for each in check(unit.kernel, unit.target) if each.is_bad_input]
    if findings:
        print_findings(findings, loaded.sources)
        raise typer.Exit(2)
    if unit.kernel is not None:
        return build_graph(unit.kernel, unit.target).graph
    assert unit.graph is not None
    return unit.graph


def _estimate(graph: SyncGraph, target: Target, sizes: Mapping[str, int], cached: bool) -> Estimate:
    from tidegate.simulate.cycle_steps import NoEstimate
    from tidegate.simulate.cycles import estimate

    try:
        found = estimate(graph, target, sizes=sizes, cached=cached, record=True)
    except NoEstimate as reason:
        stop(f"there is no picture of {reason}", "`tidegate check` says what is wrong with it")
    if not found.events:
        stop(f"`@{graph.name}` does nothing that takes time: there is nothing to draw")
    return found
