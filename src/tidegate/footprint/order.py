"""In which order nodes are visited, and which node every path to another one passes.

Needs   a flow
Gives   the nodes that can be reached, each after all that lead to it but for the ends of loops; immediate dominators
Keeps   all nodes of a loop come before every node that the loop is left to, so that a loop is known when it is left
Cost    near-linear: one search, then the iteration of Cooper, Harvey and Kennedy
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.graph.flow import Flow


@dataclass(frozen=True, slots=True)
class Order:
    nodes: tuple[int, ...]
    place: dict[int, int]  # node → its position in `nodes`
    above: dict[int, int]  # node → its immediate dominator, -1 for those that start something
    first: dict[int, int]  # entered and left the tree of dominators: who dominates whom
    last: dict[int, int]

    def dominates(self, one: int, other: int) -> bool:
        return self.first[one] <= self.first[other] and self.last[other] <= self.last[one]

    def common(self, nodes: list[int]) -> int:
        """The nearest node that dominates all of them, or -1."""
        found = nodes[0]
        for each in nodes[1:]:
            found = _meet(self.above, self.place, found, each)
            if found < 0:
                break
        return found


def order_of(flow: Flow) -> Order:
    nodes = _search(flow)
    place = {node: number for number, node in enumerate(nodes)}
    above = _dominators(flow, nodes, place)
    return Order(tuple(nodes), place, above, *_intervals(nodes, above))


def _search(flow: Flow) -> list[int]:
    """Depth first. Ways out of loops are taken first, and so come last when the order is turned round."""
    depth = _depths(flow)
    seen: set[int] = set()
    found: list[int] = []
    for entry in reversed(flow.entries):
        if entry in seen:
            continue
        seen.add(entry)
        stack = [(entry, iter(_ways(flow, entry, depth)))]
        while stack:
            node, rest = stack[-1]
            following = next((each for each in rest if each not in seen), None)
            if following is None:
                found.append(node)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(_ways(flow, following, depth))))
    found.reverse()
    return found


def _depths(flow: Flow) -> list[int]:
    depths: list[int] = []
    for loop in flow.loops:
        depths.append(1 + (depths[loop.parent] if loop.parent >= 0 else 0))
    return [depths[loop] if loop >= 0 else 0 for loop in flow.loop_of]


def _ways(flow: Flow, node: int, depth: list[int]) -> list[int]:
    following = flow.successors[node]
    if len(following) < 2:
        return list(following)
    return sorted(following, key=lambda each: min(depth[each], depth[node]))


def _dominators(flow: Flow, nodes: list[int], place: dict[int, int]) -> dict[int, int]:
    above = dict.fromkeys(flow.entries, -1)
    entries = set(flow.entries)
    changed = True
    while changed:
        changed = False
        for node in nodes:
            if node in entries:
                continue
            new = -2
            for before in flow.before[node]:
                if before in above:
                    new = before if new == -2 else _meet(above, place, new, before)
            if above.get(node, -2) != new:
                above[node] = new
                changed = True
    return above


def _meet(above: dict[int, int], place: dict[int, int], one: int, other: int) -> int:
    while one != other:
        if one < 0 or other < 0:
            return -1
        if place[one] > place[other]:
            one = above[one]
        else:
            other = above[other]
    return one


def _intervals(nodes: list[int], above: dict[int, int]) -> tuple[dict[int, int], dict[int, int]]:
    below: dict[int, list[int]] = {node: [] for node in nodes}
    roots: list[int] = []
    for node in nodes:
        (below[above[node]] if above[node] >= 0 else roots).append(node)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    clock = 0
    for root in roots:
        stack = [(root, iter(below[root]))]
        first[root] = clock = clock + 1
        while stack:
            node, rest = stack[-1]
            child = next(rest, None)
            if child is None:
                last[node] = clock = clock + 1
                stack.pop()
            else:
                first[child] = clock = clock + 1
                stack.append((child, iter(below[child])))
    return first, last
