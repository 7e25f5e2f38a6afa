"""What a proof of a graph relies on: which instruction has to stay before which other.

Needs   a graph without choices that depend on data; its target; values for its sizes
Gives   `Fact`s by lines of the kernel: every pair of accesses that conflict, in each wave pair and lane pair in which
        they do; every access against every barrier that comes before or behind it
Keeps   conflicts are found by counting bytes: all waves are unrolled (by the brute force, which knows neither verifier
        nor placement) for the sizes given. `lag`: access y number n conflicts with x number n - lag and all before it.
        Two accesses of one wave keep to their own lanes only if they touch the same bytes in the same steps
Cost    the square of the accesses that are executed; a few milliseconds for these kernels

    3  local_write %x, %s[wave]         line 3 before line 5, other waves
    4  shared_memory_barrier            line 3 before the arrival of 4; line 5 behind the departure of 4
    5  local_read %s[wave + 1]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from oracles.brute.brute_force import Flight, unroll
from tidegate.graph import model as g
from tidegate.language import ops
from tidegate.targets import Target

WAVES, LANES, OWN, SIDE = "other waves", "other lanes", "own lane", "side of a barrier"
ROLES = "another program"  # in another arm: a barrier object has to lie between
ACCESS, ARRIVAL, DEPARTURE = "access", "arrival", "departure"


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """An instruction of the kernel: its line, and which of its events."""

    line: int
    event: str = ACCESS


@dataclass(frozen=True, slots=True, order=True)
class Fact:
    """`first` stays before `second`. Without a lag every execution of one comes before every execution of the other."""

    first: Mark
    second: Mark
    between: str
    lag: int | None = None
    has_copy: bool = False  # one of the two is an asynchronous copy

    def __str__(self) -> str:
        return f"line {self.first.line} before line {self.second.line} ({self.between})"


def facts_of(graph: g.SyncGraph, target: Target, sizes: dict[str, int]) -> list[Fact]:
    """All facts, in the order of the kernel."""
    walks = _walks(graph, target, sizes)
    return sorted({*_conflicts(graph, walks), *_sides(graph)})


# --- conflicts ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Step:
    flight: Flight
    number: int  # how often this wave has been here before


def _walks(graph: g.SyncGraph, target: Target, sizes: dict[str, int]) -> list[list[_Step]]:
    """For each wave its accesses, in their order."""
    walks: list[list[_Step]] = [[] for _ in range(graph.waves)]
    seen: Counter[tuple[int, int]] = Counter()
    for flight in unroll(graph, target, sizes).flights:
        if flight.access is not None:
            walks[flight.wave].append(_Step(flight, seen[flight.wave, flight.point]))
            seen[flight.wave, flight.point] += 1
    return walks


def _conflicts(graph: g.SyncGraph, walks: list[list[_Step]]) -> Iterator[Fact]:
    lags: dict[tuple[int, int, str], int] = {}
    copies: set[tuple[int, int, str]] = set()
    yield from _roles(graph, walks)
    for one in walks:
        for other in walks:
            if [each.flight.point for each in one] != [each.flight.point for each in other]:
                continue  # they run different programs, which have no common order
            for place, x in enumerate(one):
                for y in other[place + 1 :]:
                    if between := _between(x.flight, y.flight):
                        key = (x.flight.point, y.flight.point, between)
                        lags[key] = min(lags.get(key, y.number - x.number), y.number - x.number)
                        if x.flight.is_async or y.flight.is_async:
                            copies.add(key)
    for (x, y, between), lag in lags.items():
        is_once, is_shared = graph.points[x].loop == -1, graph.points[x].loop == graph.points[y].loop
        known = lag if is_once or is_shared else None
        yield Fact(_mark(graph, x), _mark(graph, y), between, known, (x, y, between) in copies)


def _roles(graph: g.SyncGraph, walks: list[list[_Step]]) -> Iterator[Fact]:
    """Conflicts between waves of different programs: the one that writes first, as the text has it, comes first."""
    for place, one in enumerate(walks):
        for other in walks[place + 1 :]:
            if [each.flight.point for each in one] == [each.flight.point for each in other]:
                continue
            for x in one:
                for y in other:
                    if _between(x.flight, y.flight):
                        first, second = sorted([x.flight.point, y.flight.point])
                        yield Fact(_mark(graph, first), _mark(graph, second), ROLES)


def _between(x: Flight, y: Flight) -> str:
    """Who conflicts; nobody where both read, or commute, or touch different bytes."""
    if x.access is None or y.access is None or x.bytes.isdisjoint(y.bytes):
        return ""
    if x.access.effect == y.access.effect == "read" or _commute(x.access, y.access):
        return ""
    if x.wave != y.wave:
        return WAVES
    is_same = x.bytes == y.bytes and x.access.footprint.extents == y.access.footprint.extents
    return OWN if is_same else LANES


def _commute(x: g.Access, y: g.Access) -> bool:
    is_atomic = x.effect == y.effect == "atomic" and x.operator == y.operator
    return is_atomic and x.footprint.width == y.footprint.width and not (x.fetches or y.fetches)


def _mark(graph: g.SyncGraph, point: int, event: str = ACCESS) -> Mark:
    return Mark(graph.points[point].at.line, event)


# --- barriers -----------------------------------------------------------------------------------------------------


def _sides(graph: g.SyncGraph) -> Iterator[Fact]:
    """Accesses and barriers of one loop (or of none), in each program, in their order."""
    for program in graph.programs:
        reached = [number for number in _reached(graph, program.entry) if _is_one(graph, number)]
        for first, second in _ordered(graph, reached):
            lag = 0 if graph.points[first].loop != -1 else None
            for one in _events(graph, first, is_first=True):
                for other in _events(graph, second, is_first=False):
                    if ACCESS in (one, other) and one != other:
                        yield Fact(_mark(graph, first, one), _mark(graph, second, other), SIDE, lag)


def _reached(graph: g.SyncGraph, entry: int) -> list[int]:
    seen, todo = {entry}, [entry]
    while todo:
        for each in graph.points[todo.pop()].successors:
            if each not in seen:
                seen.add(each)
                todo.append(each)
    return sorted(seen)


def _is_one(graph: g.SyncGraph, number: int) -> bool:
    action = graph.points[number].action
    return isinstance(action, g.Access) or bool(_events(graph, number, is_first=True))


def _ordered(graph: g.SyncGraph, reached: list[int]) -> Iterator[tuple[int, int]]:
    """Each with all that control comes to behind it, in the same loop and the same iteration."""
    for first in reached:
        behind = _behind(graph, first)
        for second in reached:
            if second in behind and graph.points[first].loop == graph.points[second].loop:
                yield first, second


def _behind(graph: g.SyncGraph, first: int) -> set[int]:
    """Points are in program order: an edge to an earlier one closes a loop."""
    found: set[int] = set()
    todo = [first]
    while todo:
        number = todo.pop()
        new = [each for each in graph.points[number].successors if each > number and each not in found]
        found.update(new)
        todo += new
    return found


def _events(graph: g.SyncGraph, number: int, *, is_first: bool) -> list[str]:
    """Events of a point that another one behind it, or before it, has to keep away from."""
    match graph.points[number].action:
        case g.Access():
            return [ACCESS]
        case g.Sync(ops.WorkgroupBarrier() | ops.SharedMemoryBarrier()):
            return [DEPARTURE] if is_first else [ARRIVAL]
        case g.Sync(ops.Signal()):
            return [] if is_first else [ARRIVAL]
        case g.Sync(ops.Wait()):
            return [DEPARTURE] if is_first else []
    return []
