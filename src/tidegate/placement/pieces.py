"""Synchronization by what can be changed as a whole.

Needs   a graph
Gives   pieces: what `explain` calls one barrier; those that stand in one place of the source are one
Keeps   each point that synchronizes is in one piece; `removal_order` is the order in which pieces are tried without,
        here and in advice
Cost    that of `find_barriers`
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.diag import Span
from tidegate.graph import model as g
from tidegate.graph.barriers import Tally, tally
from tidegate.graph.flow import flow_of
from tidegate.hazards.stagger import Stagger
from tidegate.language.ops import SharedMemoryBarrier
from tidegate.placement.groups import STAGGER, WAITS, BarrierGroup, count_runs, find_barriers


@dataclass(frozen=True, slots=True)
class Piece:
    """Synchronization that can only be changed as a whole: one barrier, wait or fence, a pair, a stagger, an object.

    What one line of a Python kernel traces again and again is one piece too.
    """

    kind: str
    points: tuple[int, ...]
    pinned: bool
    weight: float  # how often it is executed
    tally: Tally  # the barriers that it counts for


def removal_order(piece: Piece, graph: g.SyncGraph) -> tuple[object, ...]:
    """Barriers before waits, the dearest first; of two that weigh the same, the one that drains stays."""
    actions = [graph.points[point].action for point in piece.points]
    drains = any(isinstance(each, g.Sync) and isinstance(each.op, SharedMemoryBarrier) for each in actions)
    return (piece.kind != STAGGER, piece.kind in WAITS, -piece.weight, drains, piece.points)


def find_pieces(graph: g.SyncGraph) -> list[Piece]:
    """In the order of their first points."""
    flow = flow_of(graph)
    merged: dict[int, list[BarrierGroup]] = {}
    home: dict[Span, int] = {}
    for number, group in enumerate(find_barriers(flow, Stagger(flow))):
        joined = sorted({home[at] for at in _places(graph, group) if at in home})
        merged[number] = [group, *(each for one in joined for each in merged.pop(one))]
        home.update({at: number for each in merged[number] for at in _places(graph, each)})
    nodes: dict[int, list[int]] = {}
    for node, point in enumerate(flow.origin):
        nodes.setdefault(point, []).append(node)
    found = []
    for groups in merged.values():
        points = tuple(sorted({point for each in groups for point in each.points}))
        weight = count_runs(flow, (node for point in points for node in nodes.get(point, ())))
        pinned = any(each.pinned for each in groups)
        found.append(Piece(groups[0].kind, points, pinned, weight, tally(graph, points)))
    return sorted(found, key=lambda each: each.points)


def _places(graph: g.SyncGraph, group: BarrierGroup) -> set[Span]:
    return {at for point in group.points if (at := graph.points[point].at).line}
