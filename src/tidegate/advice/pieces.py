"""Synchronization by what can be changed as a whole.

Needs   a graph
Gives   pieces: what `explain` calls one barrier; those that stand in one place of the source are one
Keeps   each point that synchronizes is in one piece
Cost    that of `find_barriers`
"""

from __future__ import annotations

from tidegate.advice.model import Piece
from tidegate.diag import Span
from tidegate.explanation.barriers import Group, find_barriers, weigh
from tidegate.graph import model as g
from tidegate.graph.flow import flow_of
from tidegate.hazards.stagger import Stagger


def find_pieces(graph: g.SyncGraph) -> list[Piece]:
    """In the order of their first points."""
    flow = flow_of(graph)
    merged: dict[int, list[Group]] = {}
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
        weight = weigh(flow, (node for point in points for node in nodes.get(point, ())))
        found.append(Piece(groups[0].kind, points, any(each.pinned for each in groups), weight))
    return sorted(found, key=lambda each: each.points)


def _places(graph: g.SyncGraph, group: Group) -> set[Span]:
    return {at for point in group.points if (at := graph.points[point].at).line}
