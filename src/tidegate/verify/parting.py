"""Where waves may go different ways, by what the program does and by what it says of itself.

Needs   a flow, and what its branches decide
Gives   the branches at which waves part, and the nodes that not all of them may come to
Keeps   a node that is not among them is reached by all waves or by none: whoever made the graph may have said less
Cost    linear in the nodes, for each branch at which waves part
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.footprint.model import Footprints
from tidegate.graph import model as g
from tidegate.graph.flow import Flow, uniform_nodes
from tidegate.graph.joins import find_joins
from tidegate.index import LANE, WAVE, names


@dataclass(frozen=True, slots=True)
class Parting:
    branches: tuple[int, ...]
    joins: dict[int, int]  # branch → where its arms meet again, or -1
    apart: frozenset[int]


def find_parting(flow: Flow, footprints: Footprints) -> Parting:
    found = [node for node in range(len(flow.origin)) if _parts(flow, footprints, node)]
    joins = find_joins(flow.successors) if found else ()
    apart = {node for node, uniform in enumerate(uniform_nodes(flow)) if not uniform}
    for branch in found:
        for successor in flow.successors[branch]:
            apart |= between(flow, successor, joins[branch], branch)
    return Parting(tuple(found), {branch: joins[branch] for branch in found}, frozenset(apart))


def between(flow: Flow, start: int, join: int, branch: int) -> set[int]:
    """The nodes of an arm: what comes before its end, or before the branch itself again."""
    seen: set[int] = set()
    stack = [start]
    while stack:
        node = stack.pop()
        if node not in seen and node not in (join, branch):
            seen.add(node)
            stack.extend(flow.successors[node])
    return seen


def _parts(flow: Flow, footprints: Footprints, node: int) -> bool:
    if not isinstance(flow.action(node), g.Branch | g.Dispatch) or len(set(flow.successors[node])) < 2:
        return False
    rank = g.VARIATIONS.index
    if any(rank(flow.point(each).under) > rank(flow.point(node).under) for each in flow.successors[node]):
        return True
    if node in footprints.parting:  # nested in another one, a branch need not raise what it stands under
        return True
    used = {name for cond in footprints.branches.get(node, ()) for name in names(cond)}
    opaques = (footprints.opaques.get(name) for name in used)
    # A value that nobody could compute may differ between waves unless it is known that they agree on it.
    own = any(each is not None and not each.agree for each in opaques)
    return own or not used.isdisjoint((WAVE, LANE))
