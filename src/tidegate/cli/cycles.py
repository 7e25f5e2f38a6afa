"""`tidegate run --cycles`: what programs cost, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.cli.say import emit_json, say, stop, table, write
from tidegate.diag import visible

if TYPE_CHECKING:
    from tidegate.graph.model import SyncGraph
    from tidegate.simulate.cycles import Estimate
    from tidegate.targets import Target

JSON_VERSION = 1
# Points that are listed in text.
SHOWN = 6


@dataclass(frozen=True, slots=True)
class CyclesAsked:
    """What the command line says about an estimate."""

    workgroups: int
    cached: bool
    trace: Path | None
    as_json: bool


@dataclass(frozen=True, slots=True)
class Costed:
    """One program and what it costs."""

    graph: SyncGraph
    target: Target
    sizes: Mapping[str, int]
    estimate: Estimate


def cost_of(graph: SyncGraph, target: Target, sizes: Mapping[str, int], asked: CyclesAsked) -> Costed:
    """The estimate, or bad input if the program does not come to its end."""
    from tidegate.simulate.cycle_steps import NoEstimate
    from tidegate.simulate.cycle_trace import trace_of
    from tidegate.simulate.cycles import estimate

    try:
        found = estimate(
            graph,
            target,
            sizes=sizes,
            cached=asked.cached,
            workgroups=asked.workgroups,
            record=asked.trace is not None,
        )
    except NoEstimate as reason:
        stop(f"no estimate: {reason}", "`tidegate check` reports what is wrong with it")
    if asked.trace is not None:
        write(asked.trace, trace_of(found, graph))
    return Costed(graph, target, sizes, found)


def say_cycles(costed: list[Costed], file: str, asked: CyclesAsked) -> None:
    if asked.as_json:
        programs = [_to_json(each, asked) for each in costed]
        emit_json({"version": JSON_VERSION, "file": file, "programs": programs})
        return
    for each in costed:
        _say(each, asked)


def _say(costed: Costed, asked: CyclesAsked) -> None:
    graph, target, found = costed.graph, costed.target, costed.estimate
    named = "".join(f", {name} = {value}" for name, value in costed.sizes.items())
    say(f"@{graph.name} on {target.name or 'no target'}, {_count(graph.waves, 'wave')}{named}: {_cycles(costed)}")
    about = [f"{_count(found.workgroups, 'workgroup')} on a compute unit"]
    about.append(f"global memory {'in the cache' if asked.cached else 'not in the cache'}")
    say(f"  {', '.join(about)}")
    for loop in found.loops:
        line = graph.points[graph.loops[loop.loop].head].at.line
        place = f"line {line}" if line else f"point {graph.loops[loop.loop].head}"
        say(f"  loop at {place}: {loop.cycles:,.0f} cycles an iteration, {loop.trips:g} iterations")
        say(f"    stalled for {_reasons(loop.lost)}")
    say(f"  a wave stalls for {_reasons(found.by_reason())} in {found.played:,.0f} cycles, mostly at")
    rows = []
    for each in found.lost[:SHOWN]:
        point = graph.points[each.point]
        place = f"line {point.at.line}" if point.at.line else f"point {each.point}"
        rows.append([f"    {place}", point.label or point.role, each.reason, f"{each.cycles:,.0f}"])
    if rows:
        say(table(rows))
    if asked.trace is not None:
        say(f"  timeline: {visible(str(asked.trace))}, for https://ui.perfetto.dev")


def _cycles(costed: Costed) -> str:
    cycles, clock = costed.estimate.cycles, costed.target.cost.clock
    text = f"{cycles:,.0f} cycles"
    return f"{text}, {cycles / clock:,.1f} µs at {clock} MHz" if clock else text


def _reasons(lost: Mapping[str, float]) -> str:
    parts = [f"{reason} {cycles:,.0f}" for reason, cycles in lost.items() if cycles >= 0.5]
    return ", ".join(parts) or "nothing"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"


def _to_json(costed: Costed, asked: CyclesAsked) -> dict[str, Any]:
    graph, found = costed.graph, costed.estimate
    return {
        "name": graph.name,
        "target": costed.target.name,
        "waves": graph.waves,
        "workgroups": found.workgroups,
        "cached": asked.cached,
        "sizes": dict(costed.sizes),
        "cycles": round(found.cycles, 1),
        "clock": costed.target.cost.clock,
        "loops": [
            {
                "loop": each.loop,
                "line": graph.points[graph.loops[each.loop].head].at.line,
                "cycles": round(each.cycles, 1),
                "trips": each.trips,
                "lost": {reason: round(cycles, 1) for reason, cycles in each.lost.items()},
            }
            for each in found.loops
        ],
        "played": round(found.played, 1),
        "lost": {reason: round(cycles, 1) for reason, cycles in found.by_reason().items()},
        "points": [
            {
                "point": each.point,
                "line": graph.points[each.point].at.line,
                "label": graph.points[each.point].label,
                "reason": each.reason,
                "cycles": round(each.cycles, 1),
            }
            for each in found.lost
        ],
    }
