"""Waits that count by path: one in each arm of a condition, with counts of their own.

Needs   a graph, and a point that waits
Gives   what waits on the other ways to where the arms meet, on the same counters and down to other counts
Keeps   only straight code between the waits and where they meet
Cost    linear in the arms
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.graph import model as g
from tidegate.language.ops import WaitCount


def other_ways(graph: g.SyncGraph, point: int) -> Iterator[tuple[int, str]]:
    """Points that wait on other ways, and the counts there."""
    own = _counts(graph, point)
    before = g.predecessors(graph)
    here = point
    while own and len(graph.points[here].successors) == 1:
        (after,) = graph.points[here].successors
        if len(before[after]) > 1:
            if not any(loop.head == after for loop in graph.loops):
                for end in before[after]:
                    if end != here:
                        yield from _other(graph, before, end, own)
            return
        here = after


def _other(graph: g.SyncGraph, before: list[list[int]], end: int, own: dict[str, int]) -> Iterator[tuple[int, str]]:
    """The last wait on the way to the end of an arm, if it counts otherwise."""
    while len(graph.points[end].successors) == 1:
        counts = _counts(graph, end)
        differing = [f"{name}({count})" for name, count in counts.items() if own.get(name, count) != count]
        if counts:
            yield from ((end, each) for each in differing)
            return
        if len(before[end]) != 1:
            return
        (end,) = before[end]


def _counts(graph: g.SyncGraph, point: int) -> dict[str, int]:
    action = graph.points[point].action
    return dict(action.op.counts) if isinstance(action, g.Sync) and isinstance(action.op, WaitCount) else {}
