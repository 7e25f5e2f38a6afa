"""Does every access stay in its buffer, and does every path come to an end?

Needs   footprints, and questions about them
Gives   why that is not certain, in words; nothing if it is
Keeps   nothing said means: no access in any iteration of any wave lies outside of its buffer, no index divides by what
        may be 0, and from every node an end can be reached
Cost    two questions for each class of accesses
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.footprint.model import Touch
from tidegate.footprint.values import Spot
from tidegate.graph import model as g
from tidegate.graph.flow import Flow
from tidegate.graph.model import invert
from tidegate.index import TRUE, ZERO, Binary, Compare, Const, Name, why_not_affine
from tidegate.verify.meet import Meet, U


def find_doubts(meet: Meet) -> tuple[str, ...]:
    """What has to be run to be known."""
    return tuple(dict.fromkeys((*_places(meet), *_ends(meet.flow))))


def _places(meet: Meet) -> Iterator[str]:
    seen: set[int] = set()
    for node, touch in meet.footprints.accesses.items():
        if meet.footprints.class_of(node) in seen:
            continue
        seen.add(meet.footprints.class_of(node))
        if not isinstance(meet.flow.action(node), g.Access):
            continue
        for spot in touch.places:
            if spot.start is None:
                yield "places that cannot be computed"
            elif not _is_inside(meet, touch, spot):
                yield f"bytes of `{spot.buffer.removeprefix('%')}` that an access may leave"


def _is_inside(meet: Meet, touch: Touch, spot: Spot) -> bool:
    paths, start = meet.paths, meet.paths.start(touch.node)
    assert spot.start is not None
    place = paths.index_at(spot.start, touch.node, start, U)
    if place is None or why_not_affine(place):
        return False
    conds = [*meet.facts(touch, start, U), Compare(">=", Name(U), ZERO), Compare("<", Name(U), Const(meet.graph.waves))]
    if spot.cond != TRUE:
        cond = paths.at(spot.cond, touch.node, start, U)
        conds += [cond] if cond is not None else []
    for number, span in enumerate(touch.extents):
        step = Name(f"x{number}")
        conds += [Compare(">=", step, ZERO), Compare("<", step, Const(span.count))]
        limit = paths.index_at(span.limit, touch.node, start, U) if span.limit is not None else None
        if limit is not None and not why_not_affine(limit):
            conds.append(Compare("<", step, limit))
        place = Binary("+", place, Binary("*", step, Const(span.stride)))
    last = Const(meet.buffers[spot.buffer].bytes - touch.width)
    return (
        meet.ask([*conds, Compare("<", place, ZERO)]) is None and meet.ask([*conds, Compare(">", place, last)]) is None
    )


def _ends(flow: Flow) -> Iterator[str]:
    before = invert(flow.successors)
    ending = [node for node in range(len(flow.origin)) if isinstance(flow.action(node), g.End)]
    seen = set(ending)
    while ending:
        for node in before[ending.pop()]:
            if node not in seen:
                seen.add(node)
                ending.append(node)
    if len(seen) < len(flow.origin):
        reached, stack = set(flow.entries), list(flow.entries)
        while stack:
            for node in flow.successors[stack.pop()]:
                if node not in reached:
                    reached.add(node)
                    stack.append(node)
        if not reached <= seen:
            yield "paths that come to no end"
