"""The loop nest of any graph, irreducible ones included.

Needs   points with successors, and where execution may start
Gives   for every point its innermost loop; loops with parents, parents first
Keeps   each cycle lies in a loop; a loop that is entered at one point has that point as its head and is reducible;
        one that is entered at several has the first of them as its head and is marked
Cost    linear for each level of nesting: strongly connected components, then the same without the edges to the heads

Front ends that know their loops do not need this; it finds the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tidegate.graph.model import Loop, SyncGraph, invert

DEFAULT_TRIPS = 16.0


@dataclass(frozen=True, slots=True)
class Nest:
    loops: tuple[Loop, ...]
    loop_of: tuple[int, ...]


def find_loops(successors: Sequence[Sequence[int]], entries: Iterable[int]) -> Nest:
    """Loops by repeated splitting: a component is a loop; without the edges to its head, what remains is inside."""
    loop_of = [-1] * len(successors)
    loops: list[Loop] = []
    is_entry = set(entries)
    before = invert(successors)
    work: list[tuple[list[int], int, frozenset[int]]] = [(list(range(len(successors))), -1, frozenset())]
    while work:
        members, parent, heads = work.pop()
        inside = set(members)
        for component in _components(members, inside, successors, heads):
            if len(component) == 1 and (component[0] in heads or component[0] not in successors[component[0]]):
                continue
            entered = _entered(component, before, is_entry)
            head = entered[0] if entered else min(component)
            number = len(loops)
            loops.append(Loop(head, parent, expect=DEFAULT_TRIPS, reducible=len(entered) <= 1))
            for point in component:
                loop_of[point] = number
            work.append((component, number, frozenset((head,))))
    return _in_order(loops, loop_of)


def _components(
    members: list[int], inside: set[int], successors: Sequence[Sequence[int]], heads: frozenset[int]
) -> list[list[int]]:
    """Strongly connected components of the members, edges to `heads` left out (Tarjan, without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for root in members:
        if root in index:
            continue
        calls = [(root, iter(successors[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while calls:
            point, rest = calls[-1]
            for successor in rest:
                if successor not in inside or successor in heads:
                    continue
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    on_stack.add(successor)
                    calls.append((successor, iter(successors[successor])))
                    break
                if successor in on_stack:
                    low[point] = min(low[point], index[successor])
            else:
                calls.pop()
                if calls:
                    low[calls[-1][0]] = min(low[calls[-1][0]], low[point])
                if low[point] == index[point]:
                    at = _last_index(stack, point)
                    component = stack[at:]
                    del stack[at:]
                    on_stack.difference_update(component)
                    found.append(sorted(component))
    return found


def _last_index(stack: list[int], point: int) -> int:
    at = len(stack) - 1
    while stack[at] != point:
        at -= 1
    return at


def _entered(component: list[int], before: list[list[int]], entries: set[int]) -> list[int]:
    """The points of a component that are reached from outside of it, in order."""
    members = set(component)
    return [point for point in component if point in entries or any(each not in members for each in before[point])]


def _in_order(loops: list[Loop], loop_of: list[int]) -> Nest:
    """Loops in the order of the heads on the way to them: parents first, whatever the order of the search."""
    path: list[tuple[int, ...]] = []
    for loop in loops:
        path.append((*(path[loop.parent] if loop.parent >= 0 else ()), loop.head))
    order = sorted(range(len(loops)), key=lambda number: path[number])
    new = {old: number for number, old in enumerate(order)}
    new[-1] = -1
    renumbered = tuple(replace(loops[old], parent=new[loops[old].parent]) for old in order)
    return Nest(renumbered, tuple(new[number] for number in loop_of))


def with_loops(graph: SyncGraph) -> SyncGraph:
    """The graph with loops found from its edges, and weights from their expected trips."""
    entries = [each.entry for each in graph.programs] + [each.entry for each in graph.functions]
    nest = find_loops([point.successors for point in graph.points], entries)
    weights: list[float] = []
    for loop in nest.loops:
        weights.append(loop.expect * (weights[loop.parent] if loop.parent >= 0 else 1.0))
    points = tuple(
        replace(point, loop=number, weight=weights[number] if number >= 0 else 1.0)
        for point, number in zip(graph.points, nest.loop_of, strict=True)
    )
    return replace(graph, points=points, loops=nest.loops)
