"""What one wave did over time, sorted by what a picture shows of it.

Needs   a graph, its target, and the events of an estimate
Gives   a `WaveView`: the work of each unit, what held the wave up, barriers, iterations, and clusters between barriers
Keeps   times are those of the events; iterations are of one loop: the one with most matrix work that the wave runs
Cost    linear in the events of the wave

Events say nothing of the head of a loop. An iteration begins where the wave is at an earlier point of it than before.
The cost model notes no event for a barrier that held nobody up, nor for a signal: they are not seen here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidegate.cost import Event, prices_of
from tidegate.graph import model as g
from tidegate.language import ops
from tidegate.targets import Target

HELD = "stalled: "
MEMORY = ("global_read", "global_write", "local_read", "local_write", "copy")


@dataclass(frozen=True, slots=True)
class Bar:
    """Work of a unit: of memory from its issue until all has landed, of matrix units while they are busy."""

    unit: str  # global | lds | mma | alu
    kind: str  # a role, `atomic` or `other`
    where: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Held:
    reason: str
    where: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Meeting:
    """A barrier that held the wave up. `half`: the only one that arrives, of a conditional barrier."""

    where: int
    arrived: float
    released: float
    half: str = ""
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class Cluster:
    """A stretch of the loop between two barriers, until the wave arrives at the second; without a loop, of all."""

    kind: str  # memory | matrix | both | other
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class WaveView:
    """`iterations`: when each began; `end`: when the last of them ended. A wave that runs no loop has none."""

    wave: int
    bars: tuple[Bar, ...]
    held: tuple[Held, ...]
    meetings: tuple[Meeting, ...]
    clusters: tuple[Cluster, ...]
    loop: int
    iterations: tuple[float, ...]
    end: float


def view_of(graph: g.SyncGraph, target: Target, events: Sequence[Event], wave: int) -> WaveView:
    own = [each for each in events if each.wave == wave]
    loop = heaviest_loop(graph, {graph.points[each.where].loop for each in own})
    inside = [each for each in own if is_inside(graph, graph.points[each.where].loop, loop)]
    iterations = tuple(_iterations(graph, loop, inside))
    end = max((each.end if each.what.startswith(HELD) else each.start for each in inside), default=0.0)
    return WaveView(
        wave,
        tuple(_bars(graph, target, own)),
        tuple(
            Held(each.what.removeprefix(HELD), each.where, each.start, each.end)
            for each in own
            if each.what.startswith(HELD)
        ),
        tuple(_meetings(graph, own)),
        tuple(_clusters(graph, inside or own)),
        loop,
        iterations,
        end,
    )


def heaviest_loop(graph: g.SyncGraph, among: set[int]) -> int:
    """Of some loops the one with most matrix work of its own, else with most accesses; -1 if there is none."""
    products, accesses = [0.0] * len(graph.loops), [0.0] * len(graph.loops)
    for point in graph.points:
        if point.loop >= 0:
            products[point.loop] += point.weight * point.work.ops * (point.role == "mma")
            accesses[point.loop] += point.weight * (point.role in MEMORY)
    loops = [each for each in range(len(graph.loops)) if each in among]
    return max(loops, key=lambda each: (products[each], accesses[each], -each), default=-1)


def is_inside(graph: g.SyncGraph, loop: int, outer: int) -> bool:
    """Whether a loop is another one or lies in it; -1 is no loop."""
    while loop >= 0 and loop != outer:
        loop = graph.loops[loop].parent
    return loop == outer and outer >= 0


def meeting_of(graph: g.SyncGraph, event: Event) -> Meeting | None:
    """The barrier at which the wave was held up in an event, if it was one."""
    action = graph.points[event.where].action
    if event.what != f"{HELD}barrier" or not isinstance(action, g.Sync):
        return None
    match action.op:
        case ops.ConditionalBarrier(half=half):
            return Meeting(event.where, event.start, event.end, half=half)
        case ops.WorkgroupBarrier(pinned=pinned) | ops.SharedMemoryBarrier(pinned=pinned) | ops.Wait(pinned=pinned):
            return Meeting(event.where, event.start, event.end, pinned=pinned)
    return Meeting(event.where, event.start, event.end)


def _meetings(graph: g.SyncGraph, own: Sequence[Event]) -> Iterator[Meeting]:
    for event in own:
        meeting = meeting_of(graph, event)
        if meeting is not None:
            yield meeting


def _bars(graph: g.SyncGraph, target: Target, own: Sequence[Event]) -> Iterator[Bar]:
    """A matrix product begins when the unit is free, which the event of its stall says, and ends with its busy time."""
    prices, free = prices_of(target), (0.0, 0.0)
    for event in own:
        if event.what == f"{HELD}mma":
            free = (event.start, event.end)
        if event.what.startswith(HELD):
            continue
        point, start, end = graph.points[event.where], event.start, event.end
        if event.what == "mma":
            start = free[1] if free[0] == event.start else event.start
            end = start + prices.mma(point.work.ops, point.work.dtype).busy
        yield Bar(event.what, _kind(point), event.where, start, end)


def _kind(point: g.Point) -> str:
    if isinstance(point.action, g.Access) and point.action.effect == "atomic":
        return "atomic"
    return point.role


def _iterations(graph: g.SyncGraph, loop: int, inside: Sequence[Event]) -> Iterator[float]:
    before, done = -1, True
    for event in inside:
        at, where = _place(graph, loop, event.where), event.where
        again = at == before and at == where and done  # a loop of one point
        if at < before or before < 0 or again:
            yield event.start
        before, done = at, not event.what.startswith(HELD)


def _place(graph: g.SyncGraph, loop: int, where: int) -> int:
    """A point of the loop, or the head of the loop right inside of it that holds the point."""
    inner = graph.points[where].loop
    while inner != loop:
        where, inner = graph.loops[inner].head, graph.loops[inner].parent
    return where


def _clusters(graph: g.SyncGraph, among: Sequence[Event]) -> Iterator[Cluster]:
    start = last = among[0].start if among else 0.0
    roles = set[str]()
    for event in among:
        meeting = meeting_of(graph, event)
        if meeting is None:
            roles |= set() if event.what.startswith(HELD) else {graph.points[event.where].role}
            last = max(last, event.end if event.what.startswith((HELD, "mma")) else event.start)
            continue
        if roles:
            yield Cluster(_what(roles), start, meeting.arrived)
        start, last, roles = meeting.released, meeting.released, set()
    if roles:
        yield Cluster(_what(roles), start, last)


def _what(roles: set[str]) -> str:
    matrix, memory = "mma" in roles, any(each in roles for each in MEMORY)
    if matrix and memory:
        return "both"
    return "matrix" if matrix else "memory" if memory else "other"
