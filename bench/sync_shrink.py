"""A smaller graph that fails in the same way.

Needs   a graph, and what to ask of it
Gives   a graph of which nothing more can be taken away
Keeps   it is well formed, and the answer stays yes
Cost    one question for each point, several times over

    print(show_graph(shrink(graph, lambda each: bool(judge(each, target).findings))))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tidegate.graph import model as g
from tidegate.graph.loops import with_loops
from tidegate.graph.wellformed import check_graph
from tidegate.language.ops import CommitGroup, ConditionalBarrier


def shrink(graph: g.SyncGraph, fails: Callable[[g.SyncGraph], bool]) -> g.SyncGraph:
    found = True
    while found:
        found = False
        for smaller in _smaller(graph):
            if not check_graph(smaller) and fails(smaller):
                graph, found = smaller, True
                break
    return graph


def _smaller(graph: g.SyncGraph) -> Iterator[g.SyncGraph]:
    """Branches that go one way, then points that do nothing, then points left out."""
    for number, point in enumerate(graph.points):
        if isinstance(point.action, g.Branch | g.Dispatch) and len(point.successors) > 1:
            for kept in point.successors:
                if kept > number:
                    yield _without_unreached(
                        _with(graph, number, replace(point, action=g.Compute(), successors=(kept,)))
                    )
    for number, point in enumerate(graph.points):
        if isinstance(point.action, g.Access | g.Unknown | g.Call | g.Havoc | g.Sync) and not _is_half(point.action):
            yield _with(graph, number, replace(point, action=g.Compute(), issues=()))
    for number, point in enumerate(graph.points):
        if (
            isinstance(point.action, g.Compute | g.Assign)
            and len(point.successors) == 1
            and point.successors[0] != number
        ):
            yield _without(graph, number)
    if len(graph.buffers) > 1:
        for buffer in graph.buffers:
            yield replace(graph, buffers=tuple(each for each in graph.buffers if each is not buffer))


def _is_half(action: g.Action) -> bool:
    return isinstance(action, g.Sync) and isinstance(action.op, ConditionalBarrier | CommitGroup)


def _with(graph: g.SyncGraph, number: int, point: g.Point) -> g.SyncGraph:
    return replace(graph, points=(*graph.points[:number], point, *graph.points[number + 1 :]))


def _without(graph: g.SyncGraph, number: int) -> g.SyncGraph:
    """Without a point: whoever led to it leads to its successor."""
    (after,) = graph.points[number].successors
    to = {each: each - (each > number) for each in range(len(graph.points))}
    to[number] = to[after]
    return _renumbered(graph, to, number)


def _renumbered(graph: g.SyncGraph, to: dict[int, int], *gone: int) -> g.SyncGraph:
    points = tuple(
        replace(point, successors=tuple(dict.fromkeys(to[each] for each in point.successors)))
        if not isinstance(point.action, g.Branch | g.Dispatch)
        else replace(point, successors=tuple(to[each] for each in point.successors))
        for number, point in enumerate(graph.points)
        if number not in gone
    )
    return _again(
        replace(
            graph,
            points=points,
            programs=tuple(replace(each, entry=to[each.entry]) for each in graph.programs),
            functions=tuple(replace(each, entry=to[each.entry]) for each in graph.functions),
            loops=tuple(replace(each, head=to[each.head]) for each in graph.loops if each.head not in gone),
        )
    )


def _without_unreached(graph: g.SyncGraph) -> g.SyncGraph:
    seen = {each.entry for each in (*graph.programs, *graph.functions)}
    stack = list(seen)
    while stack:
        for successor in graph.points[stack.pop()].successors:
            if successor not in seen:
                seen.add(successor)
                stack.append(successor)
    kept = sorted(seen)
    to = {each: place for place, each in enumerate(kept)}
    gone = [each for each in range(len(graph.points)) if each not in seen]
    return _renumbered(replace(graph, loops=tuple(each for each in graph.loops if each.head in seen)), to, *gone)


def _again(graph: g.SyncGraph) -> g.SyncGraph:
    """Loops found anew; what was known of their trips stays."""
    known = {loop.head: loop for loop in graph.loops}
    found = with_loops(replace(graph, points=tuple(replace(each, loop=-1) for each in graph.points), loops=()))
    loops = tuple(replace(known[each.head], parent=each.parent) if each.head in known else each for each in found.loops)
    return replace(found, loops=loops)
