"""Which operations of a program are one barrier.

Needs   a flow and its stagger
Gives   groups of points: single operations; signals with the waits that they lead to; conditional barriers that open
        and close one stagger; all operations of one barrier object
Keeps   each point that synchronizes is in one group; operations that order no memory are in none
Cost    a search for each signal and each conditional barrier

    signal; for { wait; ...; signal }; wait      one group: each wait is reached from both signals
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tidegate.graph import model as g
from tidegate.graph.barriers import Tally
from tidegate.graph.flow import Flow
from tidegate.hazards.stagger import Stagger
from tidegate.language.ops import (
    ConditionalBarrier,
    Fence,
    MbarrierArrive,
    MbarrierWait,
    Place,
    SharedMemoryBarrier,
    Signal,
    Value,
    Wait,
    WaitCount,
    WorkgroupBarrier,
)

SINGLE = {
    WorkgroupBarrier: "workgroup barrier",
    SharedMemoryBarrier: "shared-memory barrier",
    WaitCount: "wait",
    Fence: "fence",
}
WAITS = (SINGLE[WaitCount], SINGLE[Fence])  # no wave meets another there
PAIR, STAGGER, OBJECT = "split pair", "stagger", "barrier object"


@dataclass(frozen=True, slots=True)
class BarrierGroup:
    kind: str
    points: tuple[int, ...]
    pinned: bool


def find_barriers(flow: Flow, stagger: Stagger) -> list[BarrierGroup]:
    """All groups, in the order of their first points."""
    points: list[tuple[int, object]] = [
        (number, point.action.op) for number, point in enumerate(flow.graph.points) if isinstance(point.action, g.Sync)
    ]
    found: list[tuple[str, tuple[int, ...]]] = [
        (word, (number,)) for number, op in points for kind, word in SINGLE.items() if isinstance(op, kind)
    ]
    found += [(PAIR, each) for each in _linked(flow, _is_split, lambda _, op: isinstance(op, Signal))]
    found += [(STAGGER, each) for each in _linked(flow, _is_half, lambda node, _: _stays_open(flow, stagger, node))]
    objects: dict[str, list[int]] = {}
    for number, op in points:
        if name := _object_of(op):
            objects.setdefault(name, []).append(number)
    found += [(OBJECT, tuple(each)) for each in objects.values()]
    ops = dict(points)
    groups = [BarrierGroup(kind, each, any(getattr(ops[one], "pinned", False) for one in each)) for kind, each in found]
    return sorted(groups, key=lambda each: each.points)


def count_runs(flow: Flow, nodes: Iterable[int]) -> float:
    """How often these are executed; a pair as often as its signals are, an mbarrier as often as it is waited for."""
    among = list(nodes)
    counted = [node for node in among if not _is_other_half(flow.action(node))]
    return sum(map(flow.weight, counted or among))


def how_often(found: Tally, runs: float) -> str:
    """Only barriers have a weight: that of a program is the sum of those that are printed."""
    if found.barriers:
        return f"weight {found.weight:g}"
    return "executed once" if runs == 1 else f"executed {runs:g} times"


def _is_other_half(action: g.Action) -> bool:
    return isinstance(action, g.Sync) and isinstance(action.op, Wait | MbarrierArrive)


def _is_split(op: object) -> bool:
    return isinstance(op, Signal | Wait) and isinstance(op.barrier, int)


def _is_half(op: object) -> bool:
    return isinstance(op, ConditionalBarrier)


def _stays_open(flow: Flow, stagger: Stagger, node: int) -> bool:
    """Whether one half is behind after a conditional barrier."""
    return any(stagger.ahead.get(each) for each in flow.successors[node])


def _object_of(op: object) -> str:
    if isinstance(op, MbarrierArrive | MbarrierWait):
        return _base(op.barrier)
    return op.barrier.name if isinstance(op, Signal | Wait) and isinstance(op.barrier, Value) else ""


def _base(place: Place) -> str:
    return place.base.name


def _linked(
    flow: Flow, belongs: Callable[[object], bool], leads_on: Callable[[int, object], bool]
) -> Iterator[tuple[int, ...]]:
    """Points that belong, those together of which one leads on to the next that a walk meets."""
    nodes = {
        node: action.op
        for node in range(len(flow.origin))
        if isinstance(action := flow.action(node), g.Sync) and belongs(action.op)
    }
    leader = {flow.origin[node]: flow.origin[node] for node in nodes}

    def find(point: int) -> int:
        while leader[point] != point:
            point = leader[point]
        return point

    for node, op in nodes.items():
        if leads_on(node, op):
            for other in _next(flow, node, set(nodes)):
                one, two = sorted((find(flow.origin[node]), find(flow.origin[other])))
                leader[two] = one
    together: dict[int, list[int]] = {}
    for point in sorted(leader):
        together.setdefault(find(point), []).append(point)
    yield from map(tuple, together.values())


def _next(flow: Flow, node: int, wanted: set[int]) -> list[int]:
    """The first of the wanted nodes on each walk from a node."""
    found, seen, stack = [], set(flow.successors[node]), list(flow.successors[node])
    while stack:
        here = stack.pop()
        if here in wanted:
            found.append(here)
            continue
        for each in flow.successors[here]:
            if each not in seen:
                seen.add(each)
                stack.append(each)
    return found
