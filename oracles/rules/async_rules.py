"""Rules of counting, each of which can be switched off: what the fuzz of asynchronous programs has to notice.

Needs   the stages as they are; nothing in them knows of this
Gives   `RULES`: by name what a rule says, and how it is switched off by a patch
Keeps   a patch ends with its context
Cost    none

    with pytest.MonkeyPatch.context() as patch:
        RULES["the least of a range"].off(patch)
        ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from oracles.rules.sync_rules import Patch, Rule, changed, rules_into
from tidegate.graph import model as g
from tidegate.graph.flow import Flow
from tidegate.hazards.model import Hazard
from tidegate.placement import drains, place, walks

RULES: dict[str, Rule] = {}
rule = rules_into(RULES)


# --- what counts --------------------------------------------------------------------------------------------------


@rule("the same counter", "only what is issued on the copy's own counter is younger than it")
def _counter(patch: Patch) -> None:
    def all_counters(self: walks.Walks, node: int, counter: str) -> int:
        return sum(issue.least for issue in self.flow.point(node).issues)

    patch.setattr(walks.Walks, "issued_at", all_counters)


@rule("the least of a range", "an operation counts as few instructions as it may become")
def _least(patch: Patch) -> None:
    def most(self: walks.Walks, node: int, counter: str) -> int:
        return sum(issue.most for issue in self.flow.point(node).issues if issue.counter == counter)

    patch.setattr(walks.Walks, "issued_at", most)


@rule("in order", "a count above 0 says nothing where something may complete out of turn")
def _in_order(patch: Patch) -> None:
    patch.setattr(
        walks.Walks, "_caps", lambda self: {name: each.largest for name, each in self.target.counters.items()}
    )


@rule("the counter's maximum", "a count is no larger than the counter can tell")
def _maximum(patch: Patch) -> None:
    def uncut(old: Any) -> Any:
        return lambda self: dict.fromkeys(old(self), 1 << 10)

    changed(patch, walks.Walks, "_caps", uncut)


@rule("the own group", "the group of a copy itself is not younger than it")
def _own_group(patch: Patch) -> None:
    def count(old: Any) -> Any:
        def found(self: walks.Walks, hazard: Hazard, younger: int) -> Any:
            return old(self, hazard, younger + (self.counted_on(hazard.performed)[1] == "groups"))

        return found

    def old_enough(old: Any) -> Any:
        def found(self: walks._Search, name: str, count: int, state: walks.State) -> bool:
            return bool(old(self, name, count - (self.unit == "groups" and name == self.counter), state))

        return found

    changed(patch, walks.Walks, "count_for", count)
    changed(patch, walks._Search, "old_enough", old_enough)


# --- which walks --------------------------------------------------------------------------------------------------


@rule("the shortest walk", "of two arms the one with fewer instructions counts")
def _shortest(patch: Patch) -> None:
    """Copies are followed through the arm that issues more; arms where they begin or end stay as they are."""

    def heavier(old: Any) -> Any:
        def start(self: walks._Search, of: walks.Walks, hazard: Hazard, *args: Any) -> None:
            old(self, of, hazard, *args)
            if hazard.performed.is_async:
                self.flow = _heavier(self.flow, (hazard.producer, hazard.consumer), self.counter)

        return start

    changed(patch, walks._Search, "__init__", heavier)


def _heavier(flow: Flow, ends: tuple[int, int], counter: str) -> Flow:
    heads = {loop.head for loop in flow.loops}
    successors = list(flow.successors)
    for node, following in enumerate(flow.successors):
        if len(following) != 2 or node in heads or flow.point(node).under != "uniform":
            continue
        reached = [_reach(flow, each, node) for each in following]
        arms = [reached[0] - reached[1], reached[1] - reached[0]]
        if not any(end in arm for end in ends for arm in arms):
            issued = [sum(_issued(flow, each, counter) for each in arm) for arm in arms]
            successors[node] = following[:1] if issued[0] >= issued[1] else following[1:]
    return replace(flow, successors=tuple(successors))


def _reach(flow: Flow, start: int, without: int) -> set[int]:
    return g.reached_from([start], [() if node == without else each for node, each in enumerate(flow.successors)])


def _issued(flow: Flow, node: int, counter: str) -> int:
    return sum(issue.least for issue in flow.point(node).issues if issue.counter == counter)


@rule("round a loop", "copies of earlier iterations are waited for, too")
def _round(patch: Patch) -> None:
    def same_iteration(old: Any) -> Any:
        def find(walks: Any, hazards: Sequence[Hazard], *args: Any) -> Any:
            return old(walks, [each for each in hazards if not (each.performed.is_async and each.distance)], *args)

        return find

    for owner in (drains, place):
        if hasattr(owner, "find_drains"):
            changed(patch, owner, "find_drains", same_iteration)


@rule("every instance of a copy", "a younger instance of the same copy hides no older one")
def _instances(patch: Patch) -> None:
    def hidden(old: Any) -> Any:
        def pass_node(self: walks._Search, state: walks.State, node: int, *args: Any) -> Any:
            again = node == self.hazard.producer and self.hazard.performed.is_async
            return None if again else old(self, state, node, *args)

        return pass_node

    changed(patch, walks._Search, "pass_node", hidden)


@rule("every producer", "of several copies the one with the least behind it decides")
def _every_producer(patch: Patch) -> None:
    def largest(self: drains.Need, other: drains.Need) -> None:
        self.words |= other.words
        for name, count in other.counts.items():
            self.counts[name] = max(count, self.counts.get(name, count))

    def enough(self: drains.Need, other: drains.Need) -> bool:
        return other.words <= self.words and other.counts.keys() <= self.counts.keys()

    def any_count(self: walks._Search, name: str, count: int, state: walks.State) -> bool:
        return name == self.counter

    patch.setattr(drains.Need, "add", largest)
    patch.setattr(drains.Need, "holds", enough)
    patch.setattr(walks._Search, "old_enough", any_count)
