"""Does every access stay in its buffer, and does every path come to an end?

Needs   footprints, and questions about them
Gives   why that is not certain, in words; nothing if it is
Keeps   nothing said means: no access in any iteration of any wave lies outside of its buffer, every name has a value
        where it is read, no index divides by what may be 0, and from every node an end can be reached
Cost    two questions for each class of accesses, and one walk along the edges
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tidegate.footprint.model import Touch
from tidegate.footprint.values import Spot, iteration
from tidegate.graph import model as g
from tidegate.graph.expressions import expressions_of
from tidegate.graph.flow import Flow
from tidegate.graph.model import reached_from
from tidegate.index import (
    MACHINE_NAMES,
    TRUE,
    ZERO,
    Binary,
    Compare,
    Cond,
    Const,
    Index,
    Name,
    is_inexact,
    names,
    walk,
    why_not_affine,
)
from tidegate.verify.meet import NO_COND, Meet
from tidegate.verify.paths import U
from tidegate.verify.reach import Reach
from tidegate.verify.tables import RangesOf, always


def find_doubts(meet: Meet, memory: bool) -> tuple[str, ...]:
    """What has to be run to be known.

    `memory`: whether nobody has asked yet that places can be computed, that buffers live where they are touched, and
    that loops end. Who asked could not say it of places that are marked inexact.
    """
    found = [*_places(meet, memory), *_ends(meet.flow), *_values(meet.flow)]
    if memory:
        found += _lives(meet.flow)
        found += _loops(meet)
    return tuple(dict.fromkeys(found))


def _lives(flow: Flow) -> Iterator[str]:
    placed = sorted((each.offset, each.offset + each.bytes) for each in flow.graph.buffers if each.offset is not None)
    overlap = any(end > start for (_, end), (start, _) in itertools.pairwise(placed))
    freed = any(isinstance(point.action, g.Free) for point in flow.graph.points)
    if freed or (overlap and any(isinstance(point.action, g.Alloc) for point in flow.graph.points)):
        yield "buffers that are deallocated or overlap"


def _loops(meet: Meet) -> Iterator[str]:
    for number, loop in enumerate(meet.flow.loops):
        if number not in meet.paths.trips or (loop.facts is not None and not loop.facts.counter):
            yield "loops whose trip counts are unknown, or only stated by the graph"


def find_contradiction(meet: Meet, reach: Reach, memory: bool) -> tuple[str, ...]:
    """A loop whose counter does not run as often as the graph states: nothing is proved of such a graph.

    `trips 2 .. 2` beside a counter from 0 to 8 was believed (test_believed: `test_trips_that_a_counter_contradicts`).
    `memory`: the graph was not built from a program, so that a counter is also held against its loop where the test
    is not at the head and cannot be counted. What must hold for a wave to come to the loop counts: `0 .. N` runs at
    least twice inside of `1 .. N` (test_false_alarms: `test_trips_that_the_loop_around_ensures`).
    """
    for number, (loop, counted) in enumerate(zip(meet.flow.loops, meet.footprints.counted, strict=True)):
        if loop.facts is None or not loop.facts.counter or (not loop.least and loop.most is None):
            continue
        if counted is None or why_not_affine(counted):
            fits = not memory and not _ends_where_it_holds(meet.flow, number)
        else:
            fits = not any(meet.isl.holds(conds) for conds in _too_few_or_many(meet, reach, number, counted))
        if not fits:
            return ("a loop that does not run as often as the graph states",)
    return ()


def _too_few_or_many(meet: Meet, reach: Reach, number: int, counted: Index) -> Iterator[list[Cond]]:
    """What would have to hold for a loop to run less or more often than the graph states."""
    loop, paths = meet.flow.loops[number], meet.paths
    start = paths.start(loop.head)
    trips = paths.index_at(counted, loop.head, start, U)
    around = [each for each in paths.around[loop.head] if each != number and each in paths.trips]
    inside = [Compare("<", Name(iteration(each)), paths.trips[each]) for each in around]
    known = [cond for each in inside if (cond := paths.at(each, loop.head, start, U)) is not None]
    if trips is None:
        trips, known, ways = counted, [], None
    else:
        ways = reach.ways_to(loop.head, start)
    for way in ways or [NO_COND]:
        conds = [*known, *(paths.book.conds[each] for each in sorted(way))]
        if loop.least > 0:
            yield [Compare("<", trips, Const(loop.least)), *conds]
        if loop.most is not None:
            yield [Compare(">", trips, Const(loop.most)), *conds]


def _ends_where_it_holds(flow: Flow, number: int) -> bool:
    """Whether a loop is left where the test at its head holds, and goes on where not."""
    inside = [number in flow.loops_around(each) for each in flow.successors[flow.loops[number].head]]
    return inside == [False, True]


def find_outside(meet: Meet, trusted: bool) -> tuple[str, ...]:
    """Accesses that may leave their buffers: they touch bytes of whatever lies beside, and no proof looked there.

    The bounds check of the kernel language reports only what it is sure of, so every access is asked here: `a[i + 1]`
    under a mask, or with a carried `i`, was proved (test_outside). `trusted`: another compiler vouches for places that
    depend on values that nobody knows. The author does for those that are marked inexact.
    """
    return tuple(dict.fromkeys(each for each, sure in _leaving(meet, trusted) if sure))


def _leaving(meet: Meet, trusted: bool) -> Iterator[tuple[str, bool]]:
    """Accesses that may leave their buffers, and whether no assumption excludes it."""
    for touch in _of_each_class(meet):
        inexact = trusted or any(map(is_inexact, expressions_of(meet.flow.point(touch.node))))
        for spot in touch.places:
            if spot.start is not None and not _is_inside(meet, touch, spot):
                is_known = not _is_open(meet, touch, spot, trusted)
                yield f"an access that may leave `{spot.buffer.removeprefix('%')}`", is_known or not inexact


def _of_each_class(meet: Meet) -> Iterator[Touch]:
    """One access for all that touch the same bytes under the same conditions."""
    seen: set[int] = set()
    for node, touch in meet.footprints.accesses.items():
        if meet.footprints.class_of(node) not in seen and isinstance(meet.flow.action(node), g.Access):
            seen.add(meet.footprints.class_of(node))
            yield touch


def _is_open(meet: Meet, touch: Touch, spot: Spot, trusted: bool) -> bool:
    """Whether where an access lies depends on a value that nobody knows.

    `trusted`: arguments are such values too, and so is how often loops run whose bounds are not numbers.
    """
    exprs: list[Index | Cond] = [spot.cond, *touch.facts, *([spot.start] if spot.start is not None else [])]
    exprs += [span.limit for span in touch.extents if span.limit is not None]
    used = {name for expr in exprs for name in names(expr)}
    unknown = set(meet.footprints.opaques)
    if trusted:
        unknown |= {each.name for each in meet.graph.free}
        unknown |= {
            iteration(loop)
            for loop in meet.paths.around[touch.node]
            if meet.flow.loops[loop].most is None and not isinstance(meet.paths.trips.get(loop), Const)
        }
    return not used.isdisjoint(unknown)


def _places(meet: Meet, memory: bool) -> Iterator[str]:
    for touch in _of_each_class(meet):
        if memory or any(map(is_inexact, expressions_of(meet.flow.point(touch.node)))):
            for spot in touch.places:
                if spot.start is None:
                    yield "places that cannot be computed"
    yield from (each for each, sure in _leaving(meet, trusted=False) if not sure)


def _is_inside(meet: Meet, touch: Touch, spot: Spot) -> bool:
    paths, start = meet.paths, meet.paths.start(touch.node)
    assert spot.start is not None
    place = paths.index_at(spot.start, touch.node, start, U)
    if place is None:
        return False
    conds = [*meet.facts(touch, start, U), Compare(">=", Name(U), ZERO), Compare("<", Name(U), Const(meet.graph.waves))]
    if spot.cond != TRUE:
        cond = paths.at(spot.cond, touch.node, start, U)
        conds += [cond] if cond is not None else []
    for number, span in enumerate(touch.extents):
        step = Name(f"x'{number}")
        conds += [Compare(">=", step, ZERO), Compare("<", step, Const(span.count))]
        limit = paths.index_at(span.limit, touch.node, start, U) if span.limit is not None else None
        if limit is not None and not why_not_affine(limit):
            conds.append(Compare("<", step, limit))
        place = Binary("+", place, Binary("*", step, Const(span.stride)))
    last = Const(meet.buffers[spot.buffer].bytes - touch.width)
    low, high = meet.bounds(place, conds, meet.ranges_with(meet.bases_in(touch, touch, start)))
    least, most = low is not None and low >= 0, high is not None and high <= last.value
    if why_not_affine(place):  # a swizzle `(… xor …) mod rows` stays inside, whatever isl can say of it
        steps = meet.math_under(conds).ranges
        around = meet.ranges_with(meet.bases_in(touch, touch, start))
        known = RangesOf(lambda name: steps[name] if name in steps else around(name))
        return (least and most) or always((U, U), place, conds, known.get, (0, last.value))
    if not least and meet.isl.holds([*conds, Compare("<", place, ZERO)]):
        return False
    return most or not meet.isl.holds([*conds, Compare(">", place, last)])


def _values(flow: Flow) -> Iterator[str]:
    """Names that have no value on some path to where they are read, and divisors that may be 0."""
    reads = [list(expressions_of(point)) for point in flow.graph.points]
    for expr in (each for found in reads for each in found):
        for part in walk(expr):
            if isinstance(part, Binary) and part.op in ("//", "mod") and not isinstance(part.right, Const):
                yield "indices with a divisor that may be 0"
    graph = flow.graph
    known = {*MACHINE_NAMES, *(name for each in graph.functions for name in each.params)}
    known |= {each.name for each in graph.free} | {each.name for each in graph.sizes}
    known |= {each.name for each in graph.buffers} | {each.name for each in graph.objects}
    used = {name for found in reads for expr in found for name in names(expr)}
    used |= {base for point in flow.graph.points for base in _bases(point.action)}
    bit = {name: 1 << number for number, name in enumerate(sorted(used - known))}
    if not bit:
        return
    given = [sum({bit.get(name, 0) for name in _gives(point.action)}) for point in flow.graph.points]
    needs = [
        sum(
            {bit.get(name, 0) for expr in found for name in names(expr)}
            | {bit.get(name, 0) for name in _bases(each.action)}
        )
        for found, each in zip(reads, flow.graph.points, strict=True)
    ]
    have = dict.fromkeys(flow.entries, 0)
    stack = list(flow.entries)
    while stack:
        node = stack.pop()
        after = have[node] | given[flow.origin[node]]
        for successor in flow.successors[node]:
            held = have.get(successor)
            if held is None or held & ~after:
                have[successor] = after if held is None else held & after
                stack.append(successor)
    if any(needs[flow.origin[node]] & ~held for node, held in have.items()):
        yield "names that have no value on some path"


def _gives(action: g.Action) -> tuple[str, ...]:
    match action:
        case g.Assign(pairs):
            return tuple(name for name, _ in pairs)
        case g.Havoc(given):
            return given
    return ()


def _bases(action: g.Action) -> Iterator[str]:
    """Views that are read."""
    places: list[object] = []
    match action:
        case g.Assign(pairs):
            places += [value for _, value in pairs]
        case g.Call(_, args):
            places += [where for _, where in args]
        case g.Access(footprint=foot):
            places.append(foot.place)
        case g.Unknown(reaches):
            yield from reaches
    while places:
        match places.pop():
            case g.Ref(base):
                yield base
            case g.Either(_, then, otherwise):
                places += [then, otherwise]


def _ends(flow: Flow) -> Iterator[str]:
    ends = [node for node in range(len(flow.origin)) if isinstance(flow.action(node), g.End)]
    if not reached_from(flow.entries, flow.successors) <= reached_from(ends, flow.before):
        yield "paths that do not end"
