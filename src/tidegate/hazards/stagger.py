"""How far one half of the waves is held back, place by place.

Needs   a flow, and a stagger that is assumed in its loops
Gives   the stagger before each node; how many arrivals a pair of waves needs there
Keeps   where ways to a node disagree, the program is wrong; the larger stagger is safe
Cost    linear in the nodes; where ways disagree, times the conditional barriers at worst

The stagger before a node is how many more conditional arrivals the high half has made than the low half. From wave u to
wave v an access that is performed where u is s arrivals behind v needs no more than 1 + s common ones, and no more than
1 + s for the s at the place of the later access.
"""

from __future__ import annotations

from tidegate.footprint.meetings import Pairs
from tidegate.graph import model as g
from tidegate.graph.flow import Flow
from tidegate.language.ops import ConditionalBarrier


class Stagger:
    def __init__(self, flow: Flow, assumed: int = 0) -> None:
        self.flow, self.assumed = flow, assumed
        self.ahead = _ahead(flow)
        self.matters = bool(self.ahead) or assumed > 0

    def at(self, node: int) -> int:
        inside = self.assumed if self.flow.loop_of[node] >= 0 else 0
        return self.ahead.get(node, 0) + inside

    def demand(self, pairs: Pairs, node: int) -> int:
        """Arrivals between an access and a conflicting one, one of which is at this node; 0 within a wave."""
        stagger = self.at(node)
        needed = [0]
        if pairs & Pairs.WITHIN:
            needed.append(1)
        if pairs & Pairs.BACK:
            needed.append(1 + max(0, stagger))
        if pairs & Pairs.FORTH:
            needed.append(1 + max(0, -stagger))
        return max(needed)

    @property
    def most(self) -> int:
        """No pair needs more arrivals than this."""
        return 1 + self.assumed + max((abs(each) for each in self.ahead.values()), default=0)


def _ahead(flow: Flow) -> dict[int, int]:
    """By node, how far the high half is held back before it; nodes where it is not are left out."""
    shift = {
        node: 1 if action.op.half == "high" else -1
        for node in range(len(flow.origin))
        if isinstance(action := flow.action(node), g.Sync) and isinstance(action.op, ConditionalBarrier)
    }
    if not shift:
        return {}
    found = dict.fromkeys(flow.entries, 0)
    stack = list(flow.entries)
    bound = len(shift)
    while stack:
        node = stack.pop()
        after = found[node] + shift.get(node, 0)
        for successor in flow.successors[node]:
            known = found.get(successor)
            if known is None or (abs(after) > abs(known) and abs(after) <= bound):
                found[successor] = after
                stack.append(successor)
    return {node: each for node, each in found.items() if each}
