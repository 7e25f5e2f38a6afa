"""Where the arms of a branch meet again: its immediate postdominator.

Needs   successors of points
Gives   for every point the first point that all ways from it to an end have in common, or -1
Keeps   points from which no end is reached have none
Cost    linear in the edges for structured programs, a few rounds for others (Cooper, Harvey and Kennedy 2001)
"""

from __future__ import annotations

from collections.abc import Sequence


def find_joins(successors: Sequence[Sequence[int]]) -> list[int]:
    count = len(successors)
    end = count  # one end for all
    before: list[list[int]] = [[] for _ in range(count + 1)]
    for point, following in enumerate(successors):
        for successor in following or (end,):
            before[successor].append(point)
    order = _postorder(before, end)
    rank = {point: number for number, point in enumerate(order)}
    join: dict[int, int] = {end: end}
    changed = True
    while changed:
        changed = False
        for point in reversed(order):
            if point == end:
                continue
            found = -1
            for successor in successors[point] or (end,):
                if successor in join:
                    found = successor if found < 0 else _meet(found, successor, join, rank)
            if found >= 0 and join.get(point) != found:
                join[point] = found
                changed = True
    return [each if (each := join.get(point, -1)) != end else -1 for point in range(count)]


def _postorder(before: list[list[int]], end: int) -> list[int]:
    """Points in postorder of the walk from the end backwards."""
    order: list[int] = []
    seen = {end}
    stack = [(end, iter(before[end]))]
    while stack:
        point, rest = stack[-1]
        for other in rest:
            if other not in seen:
                seen.add(other)
                stack.append((other, iter(before[other])))
                break
        else:
            order.append(point)
            stack.pop()
    return order


def _meet(one: int, other: int, join: dict[int, int], rank: dict[int, int]) -> int:
    while one != other:
        while rank[one] < rank[other]:
            one = join[one]
        while rank[other] < rank[one]:
            other = join[other]
    return one
