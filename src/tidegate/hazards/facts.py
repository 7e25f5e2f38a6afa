"""What a hazard needs beside bytes: when its producer is performed, and how many arrivals lie between its ends.

Needs   a flow, its target, an assumed stagger
Gives   `Performed` of a pair of accesses; the demand of a pair of waves; the kind of a pair of effects
Keeps   only what is certain counts: a copy that reports to an mbarrier and to nothing else cannot be drained
Cost    linear in the nodes, once
"""

from __future__ import annotations

from tidegate.footprint.meetings import Pairs
from tidegate.graph import model as g
from tidegate.graph.flow import Flow
from tidegate.hazards.elements import Elements
from tidegate.hazards.model import Kind, Performed
from tidegate.hazards.stagger import Stagger
from tidegate.targets import Target

ACROSS = Pairs.WITHIN | Pairs.BACK | Pairs.FORTH


class PairFacts:
    """What depends on the ends of a pair, and on nothing between them."""

    def __init__(self, flow: Flow, target: Target, stagger: int = 0, atomics: str = "commute") -> None:
        self.flow, self.target, self.atomics = flow, target, atomics
        self.by_arrival = target.barrier.performs == "ordinary"
        self.stagger = Stagger(flow, stagger)
        actions = [point.action for point in flow.graph.points]
        accesses = [action for action in actions if isinstance(action, g.Access)]
        self.may_cross = bool(target.fenced) and any(each.proxy != "generic" for each in accesses)
        self.effects: dict[int, str] = {}
        self.tokens = any(
            isinstance(each.action, g.Sync) and getattr(each.action.op, "async_deps", ()) for each in flow.graph.points
        )
        self.known: dict[tuple[int, bool, bool, bool], Performed] = {}
        self.elements = Elements(flow.graph)

    def kind(self, first: int, second: int) -> Kind | None:
        """The kind of a pair of accesses in this order; None if they may come in any order."""
        x, y = self.effect(first), self.effect(second)
        if x == "read":
            return None if y == "read" else Kind.WAR
        if y == "read":
            return Kind.RAW
        if x == y == "atomic":
            return None if self.commute(first, second) else Kind.WAW
        return Kind.RAW if y == "atomic" else Kind.WAW

    def commute(self, first: int, second: int) -> bool:
        """Whether two atomics may stay without order, as far as that is asked for."""
        return self.atomics == "commute" and self.any_order(first, second)

    def any_order(self, first: int, second: int) -> bool:
        """Whether two accesses are atomics that leave the same in any order."""
        one, other = self.flow.action(first), self.flow.action(second)
        if not isinstance(one, g.Access) or not isinstance(other, g.Access):
            return False
        return one.effect == other.effect == "atomic" and self.elements.commute(one, other)

    def effect(self, node: int) -> str:
        known = self.effects.get(node)
        if known is None:
            action = self.flow.action(node)
            known = self.effects[node] = action.effect if isinstance(action, g.Access) else "write"
        return known

    def crosses(self, second: int) -> bool:
        """Whether a consumer may go through another proxy than its producer did."""
        if not self.may_cross:
            return False
        y = self.flow.action(second)
        return isinstance(y, g.Access) and y.proxy != "generic"

    def performed(self, first: int, second: int) -> Performed:
        key = first, self.crosses(second), self.is_async(second), self.in_one_lane(first, second)
        known = self.known.get(key)
        if known is None:
            known = self.known[key] = self.find_performed(*key)
        return known

    def in_one_lane(self, first: int, second: int) -> bool:
        """Whether one lane of a wave does both."""
        one, other = self.flow.action(first), self.flow.action(second)
        if not isinstance(one, g.Access) or not isinstance(other, g.Access):
            return False
        return one.lanes == other.lanes == g.ONE_LANE

    def find_performed(self, first: int, crosses: bool, to_async: bool, in_one_lane: bool) -> Performed:
        x = self.flow.action(first)
        in_turn = self.target.lds.in_order and not to_async
        if not isinstance(x, g.Access):
            return Performed(by_arrival=self.by_arrival, needs_fence=crosses, in_turn=in_turn)
        counters = tuple(each.counter for each in self.flow.point(first).issues)
        return Performed(
            x.is_async,
            counters,
            x.token if self.tokens else "",
            not x.is_async or bool(counters) or not self.target.counters,
            self.by_arrival and not x.is_async,
            crosses and x.proxy == "generic" and x.effect in self.target.fenced,
            in_turn=in_turn and not x.is_async,
            in_one_lane=in_one_lane,
        )

    def is_async(self, node: int) -> bool:
        action = self.flow.action(node)
        return isinstance(action, g.Access) and action.is_async

    def demand(self, pairs: Pairs, second: int) -> int:
        """Arrivals that must lie between; 0 if only lanes of one wave meet."""
        return self.stagger.demand(pairs, second)

    @property
    def most(self) -> int:
        """No hazard needs more arrivals than this."""
        return self.stagger.most
