"""What the wave of x drains behind the place of y, where x may still be in flight when y is issued elsewhere.

Needs   a flow, its events, and how many arrivals may pass
Gives   states to begin the way back with, one for each path that matters
Keeps   what every path drains before that many arrivals; at the end of a wave everything is performed
Cost    the nodes up to that arrival, times the ways to drain

A half of the waves that is ahead reads what the other half has written: x may be performed later than y in its own
program, as long as its wave is held back by then.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace

from tidegate.graph.flow import Flow
from tidegate.verify.events import Arrive, Drain, Event, ProxyFence, Rules
from tidegate.verify.state import AT_ONCE, State, drained, is_weaker


def drained_behind(
    flow: Flow,
    events: dict[int, tuple[Event, ...]],
    rules: Rules,
    start: int,
    arrivals: int,
    half: str,
    apart: Container[int],
) -> Iterator[tuple[State, bool]]:
    """From behind a node up to an arrival; and whether there were several ways to go. `apart`: where waves part."""
    found: dict[State, None] = {}
    seen: set[tuple[int, int, State]] = set()
    stack = [(each, arrivals, AT_ONCE) for each in flow.successors[start]]
    while stack:
        node, left, state = here = stack.pop()
        if here in seen:
            continue
        seen.add(here)
        for event in events.get(node, ()):
            match event:
                case Drain() | ProxyFence() if node in apart:
                    pass  # x's wave may not come there
                case Drain():
                    # Counts as if nothing had been issued since y; names may stand for other copies by then.
                    state = drained(state, replace(event, tokens=()), rules)
                case ProxyFence():
                    state = replace(state, ordinary=True)
                case Arrive(who) if who in ("", half):
                    state = replace(state, ordinary=state.ordinary or rules.arrival_performs)
                    left -= 1
                    if not left:
                        found[state] = None
                        break
        if left:
            stack += [(each, left, state) for each in flow.successors[node]]
    weakest = [each for each in found if not any(other != each and is_weaker(other, each) for other in found)]
    for state in weakest:
        yield state, len(found) > 1
