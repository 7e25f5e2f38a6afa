"""Does every wave get past every barrier, whatever the trip counts are?

Needs   a flow and its events
Gives   for each node how far one half of the waves is ahead; or why nothing can be said without running the program
Keeps   proved means: all waves make the same arrivals on every path, signals and waits take turns, and conditional
        barriers match
Cost    linear in the edges

Where all waves come to every barrier, they make the same arrivals: they agree on the conditions that lead there. What
is left is that a wave never arrives twice without a departure between, and that both halves arrive equally often.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.graph import model as g
from tidegate.graph.flow import Flow, uniform_nodes
from tidegate.language import ops
from tidegate.verify.events import WORKGROUP, Arrive, Depart, Event

MOST_AHEAD = 64


@dataclass(frozen=True, slots=True)
class Protocol:
    """`ahead`: how many more arrivals the low half has made than the high one, before each node."""

    ahead: dict[int, int]
    undecided: tuple[str, ...] = ()
    staggers: bool = False


def find_protocol(flow: Flow, events: dict[int, tuple[Event, ...]]) -> Protocol:
    reasons = tuple(_reasons(flow, events))
    if reasons:
        return Protocol({}, reasons)
    return _alternate(flow, events)


def _reasons(flow: Flow, events: dict[int, tuple[Event, ...]]) -> list[str]:
    """Why barriers are not those of one workgroup that runs one program."""
    found = []
    points = [flow.point(node) for node in range(len(flow.origin))]
    sync = [point.action.op for point in points if isinstance(point.action, g.Sync)]
    if flow.graph.objects:
        found.append("barrier objects")
    elif any(isinstance(op, ops.Signal | ops.Wait) and op.barrier != WORKGROUP for op in sync):
        found.append("barriers other than the workgroup's")
    if len(flow.entries) > 1:
        found.append("waves with different programs")
    if flow.closed:
        found.append("calls that lead back to themselves")
    uniform = uniform_nodes(flow)
    meeting = [node for node, each in events.items() if any(isinstance(event, Arrive | Depart) for event in each)]
    if len(flow.entries) == 1 and not all(uniform[node] for node in meeting):
        found.append("barriers under conditions on which waves disagree")
    ends = [node for node, point in enumerate(points) if isinstance(point.action, g.End) and not uniform[node]]
    if len(flow.entries) == 1 and meeting and ends:
        found.append("waves that end before others")
    return found


def _alternate(flow: Flow, events: dict[int, tuple[Event, ...]]) -> Protocol:
    """Along all paths at once: whether a signal is pending, and how far the low half is ahead."""
    known: dict[int, tuple[bool, int]] = dict.fromkeys(flow.entries, (False, 0))
    stack = list(flow.entries)
    staggers = any(event.half for each in events.values() for event in each if isinstance(event, Arrive))
    while stack:
        node = stack.pop()
        pending, ahead = known[node]
        for event in events.get(node, ()):
            if isinstance(event, Arrive):
                if pending:
                    return Protocol({}, ("a signal before the wait for the one before it, on some path",))
                pending = True
                ahead += {"low": 1, "high": -1, "": 0}[event.half]
            elif isinstance(event, Depart):
                if not pending:
                    return Protocol({}, ("a wait without a signal, on some path",))
                pending = False
        if abs(ahead) > MOST_AHEAD:
            return Protocol({}, ("conditional barriers that do not match, on some path",))
        if isinstance(flow.action(node), g.End) and (pending or ahead):
            what = "a signal that nobody waits for" if pending else "conditional barriers that do not match"
            return Protocol({}, (f"{what}, on some path",))
        for successor in flow.successors[node]:
            if successor not in known:
                known[successor] = (pending, ahead)
                stack.append(successor)
            elif known[successor] != (pending, ahead):
                return Protocol({}, ("arrivals that differ with the path to one place",))
    return Protocol({node: ahead for node, (_, ahead) in known.items()}, (), staggers)
