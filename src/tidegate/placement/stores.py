"""Copies out of shared memory, and the waits for them: who reads what they write is not known here.

Needs   a graph
Gives   `Stores`; whether an operation waits for any of them
Keeps   a wait that may be for one of them counts as such
Cost    linear in the points
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.graph import model as g
from tidegate.language.ops import SharedMemoryBarrier, WaitCount


@dataclass(frozen=True, slots=True)
class Stores:
    """Copies out of shared memory: the counters they count on, and the names by which waits speak of them."""

    counters: frozenset[str]
    tokens: frozenset[str]


def find_stores(graph: g.SyncGraph) -> Stores:
    counters, tokens = set(), set()
    for point in graph.points:
        if isinstance(point.action, g.Access) and point.action.is_async and point.action.effect == "read":
            counters |= {issue.counter for issue in point.issues}
            tokens |= {point.action.token} - {""}
    if tokens:  # names take other names on the way round a loop
        pairs = [pair for point in graph.points if isinstance(point.action, g.Assign) for pair in point.action.pairs]
        while more := {name for name, value in pairs if isinstance(value, g.Token) and value.name in tokens} - tokens:
            tokens |= more
    return Stores(frozenset(counters), frozenset(tokens))


def waits_for(op: object, stores: Stores) -> bool:
    if not isinstance(op, SharedMemoryBarrier | WaitCount):
        return False
    every = isinstance(op, SharedMemoryBarrier) and op.wait_async_ops and bool(stores.counters | stores.tokens)
    named = any(name in stores.counters for name, _ in op.counts)
    return every or named or any(dep.name in stores.tokens for dep in op.async_deps)
