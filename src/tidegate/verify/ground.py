"""What a proof rests on that synchronization does not change, computed once for many proofs.

Needs   a graph and its target
Gives   footprints, paths, answers about bytes, and what stretches of code gave in earlier proofs
Keeps   an earlier result is taken only where the search looked at no node whose events differ: it is what the search
        would find again. Whatever depends on the target's rules is kept for one set of rules
Cost    that of footprints, once; an answer for each different question

    ground = Ground(graph, target)
    is_ordered(graph, target, ground)
    is_ordered(edited, target, ground)      # `edited` differs from `graph` in what stands at its synchronization points
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tidegate.footprint.model import Footprints
from tidegate.footprint.resolve import find_footprints
from tidegate.graph import model as g
from tidegate.graph.expressions import expressions_of
from tidegate.graph.flow import Flow, flow_of
from tidegate.targets import Target
from tidegate.verify.events import Event, Rules, events_of, rules_of
from tidegate.verify.inside import find_contradiction, find_doubts, find_outside
from tidegate.verify.meet import Meet
from tidegate.verify.model import Suspect
from tidegate.verify.parting import find_parting
from tidegate.verify.paths import Paths
from tidegate.verify.reach import Reach

Events = Mapping[int, tuple[Event, ...]]
MOST_KEPT = 16  # results of one stretch of code


@dataclass(frozen=True, slots=True)
class Stretch:
    """What one stretch of code gave: `looked` are the nodes whose events decided it, `edited` those that differed."""

    looked: frozenset[int]
    edited: dict[int, tuple[Event, ...]]
    suspects: tuple[Suspect, ...]
    leans: bool
    effort: int


class Ground:
    """For one graph, and for all that differ from it in synchronization alone."""

    def __init__(self, graph: g.SyncGraph, target: Target, footprints: Footprints | None = None) -> None:
        self.graph, self.target = graph, target
        self.footprints = footprints or find_footprints(flow_of(graph))
        self.flow = self.footprints.flow
        self.paths = Paths(self.flow, self.footprints)
        self.meet = Meet(self.paths)
        self.reach = Reach(self.paths)
        self.parting = find_parting(self.flow, self.footprints)
        self.rules = rules_of(self.flow, target)
        self.events = events_of(self.flow, target, self.rules, self.parting.divided)
        self.said: dict[tuple[str, bool], tuple[str, ...]] = {}
        self.kept: dict[object, list[Stretch]] = {}

    def carries(self, graph: g.SyncGraph, target: Target) -> bool:
        """Whether a graph differs from this one in what stands at points for synchronization, and in nothing else."""
        if graph is self.graph:
            return target is self.target
        return (
            target is self.target
            and len(graph.points) == len(self.graph.points)
            and all(
                one is other or (_is_sync(one) and _is_sync(other) and replace(one, action=other.action) == other)
                for one, other in zip(self.graph.points, graph.points, strict=True)
            )
            and replace(graph, points=self.graph.points) == self.graph
        )

    def flow_with(self, graph: g.SyncGraph) -> Flow:
        return self.flow if graph is self.graph else replace(self.flow, graph=graph)

    def rules_and_events(self, flow: Flow) -> tuple[Rules, dict[int, tuple[Event, ...]]]:
        if flow is self.flow:
            return self.rules, self.events
        rules = rules_of(flow, self.target)
        return rules, events_of(flow, self.target, rules, self.parting.divided)

    def edited(self, events: Events) -> dict[int, tuple[Event, ...]]:
        """The nodes whose events differ from those of the graph as it was given."""
        nodes = self.events.keys() | events.keys()
        found = ((node, events.get(node, ())) for node in nodes)
        return {node: each for node, each in found if each != self.events.get(node, ())}

    def contradiction(self, memory: bool) -> tuple[str, ...]:
        if ("contradiction", memory) not in self.said:
            self.said["contradiction", memory] = find_contradiction(self.meet, self.reach, memory)
        return self.said["contradiction", memory]

    def doubts(self, memory: bool) -> tuple[str, ...]:
        if ("doubts", memory) not in self.said:
            self.said["doubts", memory] = find_doubts(self.meet, memory)
        return self.said["doubts", memory]

    def outside(self, trusted: bool) -> tuple[str, ...]:
        if ("outside", trusted) not in self.said:
            self.said["outside", trusted] = find_outside(self.meet, trusted)
        return self.said["outside", trusted]

    def known(self, key: object, edited: Mapping[int, tuple[Event, ...]]) -> Stretch | None:
        """What a stretch gave when all that its search looks at was as it is now."""
        for each in self.kept.get(key, ()):
            if {node: events for node, events in edited.items() if node in each.looked} == each.edited:
                return each
        return None

    def keep(self, key: object, found: Stretch) -> None:
        kept = self.kept.setdefault(key, [])
        if len(kept) < MOST_KEPT:
            kept.append(found)


def _is_sync(point: g.Point) -> bool:
    """Whether synchronization that reads no values stands there, or nothing does."""
    plain = isinstance(point.action, g.Sync | g.Compute)
    return plain and next(iter(expressions_of(point)), None) is None
