"""`tidegate draw`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli.options import FileArg, TargetOption
from tidegate.cli.say import print_findings, read_sizes, say, stop, write

if TYPE_CHECKING:
    from collections.abc import Mapping

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
) -> None:
    """Draw both halves of a program's waves over time, by the target's cost model, as an SVG.

    One wave of each half is drawn, for the first iterations of the loop with most matrix work: its clusters between
    barriers, what it has in flight, its matrix products, what holds it up, and its barriers. Nothing is run or judged.
    Exit status: 0 if it was drawn, 2 bad input, which a program that does not come to its end is too.

    Examples: `tidegate draw gemm.tide -o gemm.svg`,
    `tidegate draw examples/gemm_pingpong.tide --size K=1024 --cached -o pingpong.svg`
    """
    from tidegate.files import load
    from tidegate.passes import units_of
    from tidegate.report import Panel, draw_panels, headline

    _check_output(output)
    loaded = load(file)
    units = units_of(loaded, target)
    if len(units) > 1:
        stop("one program is drawn, and the file has several", f"pick one: `{file}::{units[0].name}`")
    for unit in units:
        graph = _graph_of(unit, loaded)
        found = _estimate(graph, unit.target, _sizes(graph, read_sizes(size or [])), cached)
        title = headline("as it is", graph, unit.target, found)
        write(output, draw_panels([Panel(title, graph, unit.target, found)]))
        say(f"{output}: @{graph.name} on {unit.target.name or 'no target'}, {title}")


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


def _sizes(graph: SyncGraph, asked: Mapping[str, int]) -> dict[str, int]:
    known = {each.name: each.default for each in graph.sizes}
    unknown = sorted(set(asked) - set(known))
    if unknown:
        stop(f"`@{graph.name}` has no size `{unknown[0]}`", f"its sizes: {', '.join(known) or 'none'}")
    return {**known, **asked}


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
