"""Which part of a flow a search backwards needs to look at.

Needs   a flow, what each node does to a state, and which nodes are asked about
Gives   the nodes from which the way back leads to one that is asked about
Keeps   conditions and iterations are ignored, so that no path which a wave can take is left out
Cost    each node once for each state in which it is met, up to a bound

    barrier; 700 branches; read       the search from the read stops at once: behind the barrier nothing writes
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tidegate.graph.flow import Flow
from tidegate.verify.events import Access, conflict
from tidegate.verify.state import State

MOST_VISITS = 20_000
FEW = 200  # nodes of a flow in which a search is short anyway


def find_useful(
    flow: Flow,
    step: Callable[[int, State], State | None],
    access: Mapping[int, Access],
    nodes: Sequence[int],
    head: int,
    state: State,
) -> frozenset[int] | None:
    """Asked about is what conflicts with any of `nodes`. None: everything is to be looked at."""
    if len(flow.origin) < FEW:
        return None
    seen = {(head, state)}
    stack = [(head, state)]
    ahead: dict[int, set[int]] = {}  # node → nodes from which the search comes to it
    while stack:
        node, here = stack.pop()
        for before in flow.before[node]:
            ahead.setdefault(before, set()).add(node)
            after = step(before, here)
            if after is not None and (before, after) not in seen:
                seen.add((before, after))
                stack.append((before, after))
        if len(seen) > MOST_VISITS:
            return None
    asked = tuple(dict.fromkeys(access[each] for each in nodes))
    useful = {node for node in ahead if node in access and any(conflict(access[node], each) for each in asked)}
    waiting = list(useful)
    while waiting:
        new = ahead.get(waiting.pop(), set()) - useful
        useful |= new
        waiting += new
    return frozenset(useful)
