"""Where waves may go different ways, by what the program does and by what it says of itself.

Needs   a flow, and what its branches decide
Gives   the branches at which waves part, the nodes that not all of them, or not all lanes of one, may come to, and
        those to which they come by ways that cross: `if wave == 1 { if f { …; exit } } …` has a way from its inside to
        what the others do meanwhile
Keeps   a node that is not among them is reached by all waves or by none: whoever made the graph may have said less
Cost    linear in the nodes, for each branch at which waves part
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

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
    divided: frozenset[int]  # those to which not all lanes of a wave may come
    crossing: frozenset[int]  # nodes that waves come to by ways that cross, or in different iterations


def find_parting(flow: Flow, footprints: Footprints) -> Parting:
    found = [node for node in range(len(flow.origin)) if _parts(flow, footprints, node)]
    joins = find_joins(flow.successors) if found else ()
    apart = {node for node, uniform in enumerate(uniform_nodes(flow)) if not uniform}
    crossing: set[int] = set()
    divided = {node for node in range(len(flow.origin)) if flow.point(node).under == "divergent"}
    for branch in found:
        arms = [between(flow, each, joins[branch], branch) for each in dict.fromkeys(flow.successors[branch])]
        apart.update(*arms)
        if divides(flow, footprints, branch):
            divided.update(*arms)
        if any(not one.isdisjoint(other) for one, other in combinations(arms, 2)):
            crossing.update(*arms)
        crossing |= _going_round(flow, set().union(*arms), branch, joins[branch])
    return Parting(
        tuple(found),
        {branch: joins[branch] for branch in found},
        frozenset(apart),
        frozenset(divided),
        frozenset(crossing),
    )


def _going_round(flow: Flow, arms: set[int], branch: int, join: int) -> set[int]:
    """The nodes of loops that an arm goes round before it comes to the join: waves come there in other iterations."""
    found: set[int] = set()
    if join >= 0:
        around = set(flow.loops_around(branch)).intersection(flow.loops_around(join))
        for loop in around:
            if flow.loops[loop].head in arms:
                found.update(node for node in range(len(flow.origin)) if loop in flow.loops_around(node))
    return found


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


def divides(flow: Flow, footprints: Footprints, branch: int) -> bool:
    """Whether the lanes of one wave may go different ways at a branch at which waves part.

    A graph may not say so of what stands behind `branch lane < 16`. Of a number that may differ anywhere it is believed
    that lanes agree only where it says that waves do not (test_believed_more: `test_lanes_that_part_unsaid`).
    """
    labels = [flow.point(each).under for each in flow.successors[branch]]
    if "divergent" in labels:
        return True
    used = {name for cond in footprints.branches.get(branch, ()) for name in names(cond)}
    opaques = [footprints.opaques[name] for name in used if name in footprints.opaques]
    if LANE in used or any(each.by_lane for each in opaques):
        return True
    is_free = isinstance(action := flow.action(branch), g.Branch) and action.cond is None
    return branch in footprints.parting and not is_free and labels == ["uniform"] * len(labels)


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
