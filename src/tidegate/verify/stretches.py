"""Accesses by stretches of straight code: one search serves all that stand in one.

Needs   a flow and its events
Gives   `stretches`: accesses by the first node of the straight code that they stand in; `groups_at_fences`: waves that
        come to the same fences
Keeps   nothing in a stretch orders anything in it
Cost    linear in the nodes

    depart          ends a stretch
    wait lgkmcnt(0)  ends one within a wave; between waves it does not: what is drained behind all arrivals counts for
    read            nothing there
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidegate.graph.flow import Flow
from tidegate.verify.events import Access, Drain, Event, Issue, LaneFence

Events = Mapping[int, tuple[Event, ...]]


def stretches(flow: Flow, events: Events, accesses: Iterable[int], *, among_waves: bool) -> dict[int, list[int]]:
    """`accesses`: their nodes, in an order in which nodes come before those they lead to."""
    found: dict[int, list[int]] = {}
    heads: dict[int, int] = {}
    for node in accesses:
        chain = [node]
        while chain[-1] not in heads and (previous := _straight(flow, events, chain[-1], among_waves)) >= 0:
            chain.append(previous)
        head = heads.get(chain[-1], chain[-1])
        heads.update(dict.fromkeys(chain, head))
        found.setdefault(head, []).append(node)
    return found


def _straight(flow: Flow, events: Events, node: int, among_waves: bool) -> int:
    """The node before, if nothing but it leads here and it does nothing to any order; else -1."""
    previous = flow.before[node]
    if len(previous) != 1 or flow.successors[previous[0]] != (node,) or node in flow.entries:
        return -1
    if flow.loop_of[previous[0]] != flow.loop_of[node]:
        return -1
    kinds = Access | Issue | Drain | LaneFence if among_waves else Access
    plain = all(isinstance(event, kinds) for event in events.get(previous[0], ()))
    return previous[0] if plain else -1


def groups_at_fences(events: Events, waves: int) -> list[frozenset[int] | None]:
    """None: all of them do."""
    fences = dict.fromkeys(
        event.waves
        for each in events.values()
        for event in each
        if isinstance(event, LaneFence) and event.waves is not None
    )
    if not fences:
        return [None]
    alike: dict[tuple[bool, ...], list[int]] = {}
    for wave in range(waves):
        alike.setdefault(tuple(wave in each for each in fences), []).append(wave)
    return [frozenset(each) for each in alike.values()]
