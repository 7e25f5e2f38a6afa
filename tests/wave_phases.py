"""Which accesses of a small trace nothing orders: every wave is followed step by step, for a given number of trips.

Needs   a trace that `wave_random` made, with barriers and waits put in by whoever
Gives   `find_races`: pairs of accesses of different waves, or of one wave and a copy, that nothing orders
Keeps   nothing of Tidegate is used: bytes come from the formulas, order from the nodes of the trace as they stand
Cost    quadratic in the accesses that are carried out

An access is performed before its wave's arrival d + 1, if a wait before that arrival drains it; it is issued behind its
wave's departure i. The earlier of two, in the order of the program, must be performed before an arrival whose departure
the later one lies behind: d < i. One execution of one node by all waves counts as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from wave_random import Access, Loop, Made

NEVER = 1 << 30


@dataclass
class Event:
    """One access of one wave."""

    node: Any
    access: Access
    bytes: int  # a bit for each
    order: int  # the same in all waves for one execution of one node
    at: int  # the step of its wave at which it is issued
    issued: int  # departures before
    performed: int = NEVER  # arrivals before
    done: int = NEVER  # the step of its wave at which it is performed


class _Walk:
    """One wave."""

    def __init__(self, made: Made, wave: int, trips: int) -> None:
        self.made, self.wave, self.trips = made, wave, trips
        self.events: list[Event] = []
        self.copies: list[Event] = []
        self.pending: list[Event] = []
        self.arrivals = self.departures = self.steps = self.order = 0

    def run(self) -> list[Event]:
        names = {each: each for each in self.made.kernel.buffers}
        self.region(self.made.trace.get_root_graph(), names, 0, True)
        return self.events

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
        elif op:
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
    for u, v in product(range(len(waves)), repeat=2):
        for x, y in product(waves[u], waves[v]):
            if x.order < y.order and _conflict(x, y) and not _is_ordered(x, y, u == v):
                yield x, y


def _is_ordered(x: Event, y: Event, same_wave: bool) -> bool:
    if not same_wave:
        return x.performed < y.issued
    return "copy" not in (x.access.kind, y.access.kind) or x.done < y.at


def _conflict(x: Event, y: Event) -> bool:
    kinds = {x.access.kind, y.access.kind}
    return kinds != {"read"} and kinds != {"atomic"} and bool(x.bytes & y.bytes)
