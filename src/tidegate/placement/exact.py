"""Counts that are shown to be the largest without a proof: one more leaves a copy in flight in a run that there is.

Needs   walks, what is drained where, and where waves meet
Gives   points and counters whose count cannot be larger
Keeps   only walks that are runs tell: the program has no conditions, and the walk meets no loop but the one that the
        hazard counts, whose bytes meet at that distance. There a larger count races, whoever is asked
Cost    for each count a search for each hazard of a copy on its counter; none where a program has conditions
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tidegate.hazards.model import Hazard
from tidegate.placement.drains import Drains, Meets, put_before
from tidegate.placement.events import Drain, Event
from tidegate.placement.walks import Before, Walk, Walks

# The point before which something counts, or at which, and the counter.
At = tuple[int, str]


def find_exact(walks: Walks, meets: Meets, drains: Drains) -> frozenset[At]:
    """Of the counts that are put in, those that nobody needs to try."""
    successors = walks.flow.successors
    chooses = any(len(after) > 1 and node not in walks.head_of for node, after in enumerate(successors))
    if chooses or walks.stagger.matters:
        return frozenset()
    before = put_before(walks, meets, drains)
    copies = [each for each, _ in drains.served if each.performed.is_async]
    found: set[At] = set()
    for at in _counts(walks, before):
        raised = _raised(walks, before, at)
        if any(at[1] in each.performed.counters and _races(walks, each, raised) for each in copies):
            found.add(at)
    return frozenset(found)


def _counts(walks: Walks, before: Mapping[int, tuple[Event, ...]]) -> Iterator[At]:
    """Counts that stand alone before their point."""
    for point in {walks.flow.origin[node] for node in before}:
        events = before[walks.nodes[point][0]]
        names = [name for event in events if isinstance(event, Drain) for name, _ in event.counts]
        yield from ((point, name) for name in names if names.count(name) == 1)


def _raised(walks: Walks, before: Mapping[int, tuple[Event, ...]], at: At) -> Before:
    """What is put in, with one more in flight at one place."""
    point, name = at
    return {**before, **{node: tuple(_more(each, name) for each in before[node]) for node in walks.nodes[point]}}


def _more(event: Event, name: str) -> Event:
    if not isinstance(event, Drain):
        return event
    return replace(event, counts=tuple((each, count + (each == name)) for each, count in event.counts))


def _races(walks: Walks, hazard: Hazard, before: Before) -> bool:
    """Whether a hazard is not served on a walk that is a run."""
    if hazard.rounds or not hazard.exact or not (walks.uniform[hazard.producer] and walks.uniform[hazard.consumer]):
        return False
    return any(_is_run(walks, hazard, walk) for walk in walks.all_unserved(hazard, before))


def _is_run(walks: Walks, hazard: Hazard, walk: Walk) -> bool:
    heads = {walks.head_of[node] for node in walk.nodes if node in walks.head_of}
    return heads <= ({hazard.loop} if hazard.distance else set())
