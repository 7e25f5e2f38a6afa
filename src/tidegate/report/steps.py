"""How windows are found and barriers placed, one step after the other: what the animation of a page plays.

Needs   a graph with its own barriers set aside, its target, a strategy
Gives   rows, windows and steps as dictionaries for JSON, or nothing where there is nothing to place
Keeps   the barriers are those of `placement`, with the windows that it says each serves; steps only put them in an
        order that can be followed: whole barriers by where windows end, split pairs by where they begin
Cost    that of placement and of the windows

Whole barriers are seed 001's first picture: of the windows in the order of their ends, one that holds no barrier yet
gets one at its latest place. Split pairs are the second: windows are cut with each other as long as something is left,
the signal stands where that begins and the wait where it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tidegate.diag import Sources
from tidegate.graph import model as g
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.flow import Flow, flow_of
from tidegate.graph.plan import Delete, Insert, Plan
from tidegate.hazards.find import find_hazards
from tidegate.hazards.model import Hazard
from tidegate.language.ops import NewBarrier, SharedMemoryBarrier, Signal, Wait, WaitCount, WorkgroupBarrier
from tidegate.placement.place import Options, can_split, place
from tidegate.report.player import MOST_WINDOWS, Player, Row
from tidegate.report.windows import find_windows
from tidegate.targets import Target, known_targets, load_target

Json = dict[str, Any]


def animations(graph_for: Callable[[Target], g.SyncGraph | None], target: Target, sources: Sources) -> list[Json]:
    """Whole barriers and split pairs; the second for a target that has them, if this one does not.

    `graph_for`: the program as a graph, for a target; None if it does not fit that.
    """
    plain = graph_for(target)
    found = [_animation(without_barriers(plain), target, "minimal", sources)] if plain is not None else []
    for split in [target] if can_split(target) else _others(target):
        graph = graph_for(split)
        if graph is not None:
            found.append(_animation(without_barriers(graph), split, "intersecting", sources))
            break
    return [each for each in found if each is not None]


def without_barriers(graph: g.SyncGraph) -> g.SyncGraph:
    """With the barriers of the whole workgroup gone, whole and split, pinned ones too; without copies all waits."""
    copies = any(isinstance(point.action, g.Access) and point.action.is_async for point in graph.points)
    edits = [
        Delete(number)
        for number, point in enumerate(graph.points)
        if isinstance(point.action, g.Sync) and _goes(point.action.op, copies)
    ]
    return apply_to_graph(Plan(tuple(edits)), graph) if edits else graph


def _goes(op: g.GraphSyncOp, copies: bool) -> bool:
    match op:
        case SharedMemoryBarrier() | WorkgroupBarrier() | Signal(barrier=int()) | Wait(barrier=int()):
            return True
        case WaitCount():
            return not copies
    return False


def _others(target: Target) -> list[Target]:
    """Targets of the same maker that have split barriers, those with as many lanes first."""
    able = [each for each in map(load_target, known_targets()) if can_split(each) and each.vendor == target.vendor]
    return sorted(able, key=lambda each: each.lanes != target.lanes)


def _animation(graph: g.SyncGraph, target: Target, strategy: str, sources: Sources) -> Json | None:
    found = find_hazards(flow_of(graph), target)
    placed = place(found, target, Options(strategy, named=False))
    hazards = _distinct([each for each in placed.hazards if each.demand], found.flow)
    inserts = [each for each in placed.plan.edits if isinstance(each, Insert) and not isinstance(each.op, NewBarrier)]
    if not hazards or not inserts:
        return None
    windows = find_windows(found, hazards, target)
    if windows is None:
        return None
    rows = _rows(graph, hazards, inserts, found.flow, sources)
    player = Player(graph, found.flow, placed, hazards, windows, rows, inserts)
    return {
        "title": "Split pairs" if strategy == "intersecting" else "Whole barriers",
        "target": target.name or "no target",
        "rows": [[each.line, each.text, each.depth] for each in rows],
        "windows": player.windows(),
        "bars": player.bars(),
        "steps": player.split() if strategy == "intersecting" else player.whole(),
        "left_out": max(0, len(hazards) - MOST_WINDOWS),
    }


def _distinct(hazards: Sequence[Hazard], flow: Flow) -> list[Hazard]:
    """One of those between the same lines."""
    found: dict[tuple[object, ...], Hazard] = {}
    for each in hazards:
        ends = [flow.point(node).at for node in (each.producer, each.consumer)]
        places = [(at.file, at.line) for at in ends]
        found.setdefault((each.kind, each.witness.buffer, *places, each.loop, each.distance), each)
    return list(found.values())


def _rows(
    graph: g.SyncGraph, hazards: Sequence[Hazard], inserts: Sequence[Insert], flow: Flow, sources: Sources
) -> list[Row]:
    """Accesses, what barriers stand before, and the heads of loops, in the order of the text."""
    points = {flow.origin[node] for each in hazards for node in (each.producer, each.consumer)}
    points |= {each.before for each in inserts} | {each.head for each in graph.loops}
    rows: list[Row] = []
    for number in sorted(points):
        point = graph.points[number]
        text = (sources.line(point.at) or point.label or point.role).strip()
        above = graph.points[rows[-1].point].at if rows else None
        if above is not None and point.at.line and (above.file, above.line) == (point.at.file, point.at.line):
            continue
        rows.append(Row(number, point.at.line, text, _depth(graph, number)))
    return rows


def _depth(graph: g.SyncGraph, number: int) -> int:
    depth, loop = 0, graph.points[number].loop
    if any(each.head == number for each in graph.loops):
        loop = graph.loops[loop].parent if loop >= 0 else -1
    while loop >= 0:
        depth, loop = depth + 1, graph.loops[loop].parent
    return depth
