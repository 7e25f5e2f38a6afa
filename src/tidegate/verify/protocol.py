"""Does every wave get past every barrier, whatever the trip counts are?

Needs   a flow and its events
Gives   for each node how far one half of the waves is ahead; or why nothing can be said without running the program
Keeps   proved means: all waves make the same arrivals on every path, signals and waits take turns, and conditional
        barriers match
Cost    linear in the edges; where barriers are split, a search back from each half

Where all waves come to every barrier, they make the same arrivals: they agree on the conditions that lead there. What
is left is that a wave never arrives twice without a departure between, and that both halves arrive equally often.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.graph import model as g
from tidegate.graph.flow import Flow
from tidegate.index import Compare
from tidegate.language import ops
from tidegate.verify.events import WORKGROUP, Arrive, Depart, Event
from tidegate.verify.meet import Meet
from tidegate.verify.parting import Parting
from tidegate.verify.paths import value_of
from tidegate.verify.reach import Reach
from tidegate.verify.search import Met, Search
from tidegate.verify.state import State

MOST_AHEAD = 64


@dataclass(frozen=True, slots=True)
class Protocol:
    """`ahead`: how many more arrivals the low half has made than the high one, before each node.

    `beyond`: there is more than barriers of one workgroup that runs one program.
    """

    ahead: dict[int, int]
    undecided: tuple[str, ...] = ()
    beyond: bool = False
    staggers: bool = False
    signalled: frozenset[int] = frozenset()  # nodes between a signal and its wait, on some path


def find_protocol(
    flow: Flow, events: dict[int, tuple[Event, ...]], meet: Meet, parting: Parting, reach: Reach
) -> Protocol:
    reasons = tuple(_reasons(flow, events, parting))
    if reasons:
        return Protocol({}, reasons, beyond=True)
    turns = _Turns(flow, events, meet, reach)
    reasons = tuple(turns.mistakes())
    return Protocol({}, reasons) if reasons else _ahead(flow, events)


def _reasons(flow: Flow, events: dict[int, tuple[Event, ...]], parting: Parting) -> list[str]:
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
        found.append("recursive calls")
    meeting = [node for node, each in events.items() if any(isinstance(event, Arrive | Depart) for event in each)]
    if len(flow.entries) == 1 and not parting.apart.isdisjoint(meeting):
        found.append("barriers under conditions on which waves disagree")
    ends = [node for node in parting.apart if isinstance(points[node].action, g.End)]
    if len(flow.entries) == 1 and meeting and ends:
        found.append("waves that end before others")
    # Between arms that lie apart every pair is asked about; of ways that cross nobody has an order (test_believed).
    if not parting.crossing.isdisjoint(events):
        found.append("waves that diverge and whose paths cross before they meet again")
    return found


class _Turns:
    """Whether signals and waits take turns: on the way back from each, the other kind comes first."""

    def __init__(self, flow: Flow, events: dict[int, tuple[Event, ...]], meet: Meet, reach: Reach) -> None:
        self.flow, self.meet, self.paths, self.reach = flow, meet, meet.paths, reach
        self.halves = {  # a whole barrier is both, in the right order
            node: next(event for event in each if isinstance(event, Arrive | Depart))
            for node, each in events.items()
            if sum(isinstance(event, Arrive | Depart) for event in each) == 1
        }
        self.whole = {
            node for node, each in events.items() if sum(isinstance(event, Arrive | Depart) for event in each) == 2
        }

    def mistakes(self) -> Iterator[str]:
        if not self.halves:
            return
        ends = [node for node in range(len(self.flow.origin)) if isinstance(self.flow.action(node), g.End)]
        for node in (*self.halves, *self.whole, *ends):
            is_wait = isinstance(self.halves.get(node), Depart)
            if not self.is_after(node, signal=is_wait):
                if is_wait:
                    yield "a wait without a signal, on some path"
                else:
                    what = "before the wait for the previous one" if node not in ends else "without a wait"
                    yield f"a signal {what}, on some path"

    def is_after(self, start: int, *, signal: bool) -> bool:
        """Whether the last of signals and waits before a node is always a signal, or never one."""
        meeting = self.halves.keys() | self.whole
        search = Search(self.paths, lambda node, state: None if node in meeting else state)
        search.run(start, State())
        there = (met for met in search.met if met.node in meeting)
        wrong = [met for met in there if isinstance(self.halves.get(met.node), Arrive) != signal]
        if signal:
            wrong += search.ended
        return not any(self.is_possible(start, met) for met in wrong)

    def is_possible(self, start: int, met: Met) -> bool:
        """Whether conditions on the way hold together, in an iteration that there is."""
        book, conds = self.paths.book, []
        for loop, step in zip(self.paths.around[start], self.paths.start(start), strict=True):
            trips = self.paths.trips.get(loop)
            bound = self.paths.index_at(trips, start, self.paths.start(start), None) if trips is not None else None
            if bound is not None and start != self.flow.loops[loop].head:
                conds.append(Compare("<", value_of(step), bound))
        # The search stops at the signal or wait that it meets: the guard of that one is asked as well, so that
        # `if k + 1 < N { signal }` is not met in the last iteration.
        guards = self.reach.ways_to(met.node, met.iterations) or [frozenset()]
        ways = {way | guard for way in met.ways for guard in guards}
        return any(
            self.meet.isl.holds([*conds, *(book.conds[each] for each in sorted(way))])
            for way in sorted(ways, key=sorted)
        )


def _ahead(flow: Flow, events: dict[int, tuple[Event, ...]]) -> Protocol:
    """Along all paths at once: how far the low half is ahead."""
    known: dict[int, int] = dict.fromkeys(flow.entries, 0)
    stack = list(flow.entries)
    staggers = any(event.half for each in events.values() for event in each if isinstance(event, Arrive))
    while stack:
        node = stack.pop()
        ahead = known[node]
        for event in events.get(node, ()):
            if isinstance(event, Arrive):
                ahead += {"low": 1, "high": -1, "": 0}[event.half]
        if abs(ahead) > MOST_AHEAD or (ahead and isinstance(flow.action(node), g.End)):
            return Protocol({}, ("conditional barriers that do not match, on some path",))
        for successor in flow.successors[node]:
            if successor not in known:
                known[successor] = ahead
                stack.append(successor)
            elif known[successor] != ahead:
                return Protocol({}, ("conditional barriers that depend on the path",))
    return Protocol(known, staggers=staggers, signalled=_signalled(flow, events))


def _signalled(flow: Flow, events: dict[int, tuple[Event, ...]]) -> frozenset[int]:
    """Where a wave may have arrived without having departed."""
    halves = {node: each for node, each in events.items() if sum(isinstance(x, Arrive | Depart) for x in each) == 1}
    starts = [node for node, each in halves.items() if any(isinstance(event, Arrive) for event in each)]
    seen: set[int] = set()
    stack = [successor for node in starts for successor in flow.successors[node]]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            if node not in halves:
                stack.extend(flow.successors[node])
    return frozenset(seen)
