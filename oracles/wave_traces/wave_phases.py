"""Which accesses of a small trace nothing orders: every wave is followed step by step, for a given number of trips.

Needs   a trace that `wave_random` made, with barriers and waits put in by whoever
Gives   `find_races`: pairs of accesses of different waves, or of one wave and a copy, that nothing orders
Keeps   nothing of Tidegate is used: bytes come from the formulas, order from the nodes of the trace as they stand
Cost    quadratic in the accesses that are carried out

An access is performed before its wave's arrival d + 1, if a wait before that arrival drains it; it is issued behind its
wave's departure i. The earlier of two, in the order of the program, must be performed before an arrival whose departure
the later one lies behind: d < i. One execution of one node by all waves counts as one. Within a wave, lanes that touch
one byte must have met in between, at a barrier or a wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import accumulate, product
from operator import or_
from typing import Any, Self

from oracles.wave_traces.wave_random import Access, Loop, Made

NEVER = 1 << 30
SYNCHRONIZING = """
    shared_memory_barrier workgroup_barrier shared_memory_barrier_signal shared_memory_barrier_wait memory_counter_wait
""".split()


@dataclass
class Event:
    """One access of one wave."""

    node: Any
    access: Access
    lanes: tuple[int, ...]  # the bytes of each lane, a bit for each
    order: int  # the same in all waves for one execution of one node
    at: int  # the step of its wave at which it is issued
    issued: int  # departures before
    performed: int = NEVER  # arrivals before
    done: int = NEVER  # the step of its wave at which it is performed

    @cached_property
    def bytes(self) -> int:
        return reduce(or_, self.lanes)

    @cached_property
    def others(self) -> list[int]:
        """For each lane, what all others touch."""
        up = list(accumulate(self.lanes, or_, initial=0))[:-1]
        down = list(accumulate(reversed(self.lanes), or_, initial=0))[:-1]
        return [one | other for one, other in zip(up, reversed(down), strict=True)]


class _Walk:
    """One wave."""

    def __init__(self, made: Made, wave: int, trips: int) -> None:
        self.made, self.wave, self.trips = made, wave, trips
        self.events: list[Event] = []
        self.copies: list[Event] = []
        self.pending: list[Event] = []
        self.met: list[int] = []  # steps at which the lanes of the wave have come to one place
        self.arrivals = self.departures = self.steps = self.order = 0

    def run(self) -> Self:
        names = {each: each for each in self.made.kernel.buffers}
        self.region(self.made.trace.get_root_graph(), names, 0, True)
        return self

    def region(self, graph: Any, names: dict[str, str], step: int, here: bool) -> None:
        for node in graph.nodes:
            self.steps += 1
            self.node(node, names, step, here)

    def node(self, node: Any, names: dict[str, str], step: int, here: bool) -> None:
        op = getattr(node, "tkw_op_name", "")
        if node in self.made.accesses:
            self.order += 1
            if here:
                self.access(node, names, step)
        elif op == "iterate":
            self.loop(node, names, here)
        elif op == "conditional":
            inner = self.made.trace.region_graph.subgraphs[node.args[1]]
            self.region(inner, names, step, here and self.wave < self.made.somes[node].waves)
        elif op in SYNCHRONIZING:
            self.synchronize(node, op)

    def loop(self, node: Any, names: dict[str, str], here: bool) -> None:
        loop: Loop = self.made.loops[node]
        inner = self.made.trace.region_graph.subgraphs[node.args[2]]
        for step in range(self.trips if loop.trips is None else loop.trips):
            own = dict(names)  # what an iteration renames, it renames for itself, but for what the loop carries
            self.region(inner, own, step, here)
            turned = [own[each] for each in (*loop.turns[1:], *loop.turns[:1])]
            names |= dict(zip(loop.turns, turned, strict=True))

    def access(self, node: Any, names: dict[str, str], step: int) -> None:
        access, buffer = self.made.accesses[node]
        bytes_ = self.made.kernel.bytes_of(access, names[buffer], self.wave, step)
        event = Event(node, access, bytes_, self.order, self.steps, self.departures)
        self.events.append(event)
        (self.copies if access.kind == "copy" else self.pending).append(event)

    def synchronize(self, node: Any, op: str) -> None:
        self.met.append(self.steps)
        first = node.args[0] if node.args else None
        if op == "shared_memory_barrier":
            self.drain(0 if first else None, True)
            self.arrive()
            self.depart()
        elif op == "workgroup_barrier":
            self.arrive()
            self.depart()
        elif op == "shared_memory_barrier_signal":
            self.drain(None, True)
            self.arrive()
        elif op == "shared_memory_barrier_wait":
            self.depart()
        elif op == "memory_counter_wait":
            loads, stores, lds = (*node.args, None, None, None)[:3]
            assert stores is None
            assert lds in (None, 0)
            self.drain(loads, lds == 0)

    def arrive(self) -> None:
        self.arrivals += 1

    def depart(self) -> None:
        self.departures += 1

    def drain(self, copies: int | None, ordinary: bool) -> None:
        """All copies but so many of the newest; all ordinary accesses, if asked for."""
        landed: list[Event] = []
        if copies is not None:
            split = max(0, len(self.copies) - copies)
            landed, self.copies = self.copies[:split], self.copies[split:]
        if ordinary:
            landed, self.pending = [*landed, *self.pending], []
        for each in landed:
            each.performed, each.done = self.arrivals, self.steps


def find_races(made: Made, trips: int) -> Iterator[tuple[Event, Event]]:
    """Pairs that nothing orders, the earlier one first."""
    waves = [_Walk(made, wave, trips).run() for wave in range(made.kernel.waves)]
    for one, other in product(waves, repeat=2):
        for x, y in product(one.events, other.events):
            if x.order >= y.order or not _conflict(x, y):
                continue
            if x.performed >= y.issued if one is not other else not _is_ordered_in(one, x, y):
                yield x, y


def _is_ordered_in(wave: _Walk, x: Event, y: Event) -> bool:
    """Within a wave: a copy must have landed, and two lanes must have met."""
    if "copy" in (x.access.kind, y.access.kind):
        return x.done < y.at
    if any(one & other for one, other in zip(x.lanes, y.others, strict=True)):
        return any(x.at < step < y.at for step in wave.met)
    return True


def _conflict(x: Event, y: Event) -> bool:
    kinds = {x.access.kind, y.access.kind}
    return kinds != {"read"} and kinds != {"atomic"} and bool(x.bytes & y.bytes)
