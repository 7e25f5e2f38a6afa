"""Neighbouring accesses as one point, where that hides nothing: fewer points to place barriers between.

Needs   accesses in the order in which they are added, with the parts of their buffers that they touch
Gives   whether an access became part of a point that stands already
Keeps   of any two accesses between which an order may be needed, each has a point of its own, and a barrier can be put
        between them. Reads never need one. Writes, copies and atomics that may have a byte in common do, in whatever
        waves and lanes: a point for both would be carried out "as one" and hide which of them is the later
Cost    linear in the points of a stretch of straight code

    write %a[part 0]; write %a[part 1]         one point, both parts: no byte of one is a byte of the other
    write %a[wave];   write %a[wave + 1]       two points: wave 1 may write its own row before wave 0 writes it
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidegate.graph import model as g
from tidegate.hosts.wave.build_buffers import Buffers
from tidegate.hosts.wave.build_points import TracePoints
from tidegate.hosts.wave.values import Bases
from tidegate.index import Const, constant


class Merging:
    def __init__(self, points: TracePoints, buffers: Buffers) -> None:
        self.points, self.buffers = points, buffers
        self.bases_at: dict[int, Bases] = {}  # accesses → the allocations that they may touch

    def taken_in(self, node: Any, bases: Bases, action: g.Access, issues: tuple[g.Issue, ...]) -> bool:
        """Whether an access becomes part of one just before it, which does the same to the same memory.

        Between the two stand only others of the same kind, to other memory; nothing can be put between them any more.
        So no two accesses of such a stretch may need an order between them: where two do, `apart` ends the stretch, and
        what comes later is not taken in across that place.
        """
        points, merging = self.points.b.points, self.buffers.merging
        if self.apart(bases, action):
            self.points.stretch_from = len(points)
            return False
        for number in range(len(points) - 1, self.points.stretch_from - 1, -1):
            point = points[number]
            other = point.action
            if isinstance(other, g.Compute) and bases <= merging:
                continue
            if not isinstance(other, g.Access) or (other.effect, other.is_async) != (action.effect, action.is_async):
                return False
            if _same_place(other, action):
                both = _joined(other, action) if bases <= merging else action if action == other else None
                if both is None:
                    return False
                if issues and point.issues:
                    one, more = issues[0], point.issues[0]
                    issues = (g.Issue(more.counter, more.least + one.least, more.most + one.most),)
                if both is not other or issues != point.issues:
                    point.action, point.issues = both, issues
                for between in points[number + 1 :]:
                    between.insertable = False
                self.points.of[node] = number
                self.bases_at[number] |= bases  # of buffers that are numbered through, it now touches both
                return True
            if bases & self.bases_at[number] or self.buffers.shared & bases:
                return False
        return False

    def apart(self, bases: Bases, action: g.Access) -> bool:
        """Whether an access may need an order behind one before it in its stretch: then each stays by itself.

        Different parts of a buffer have no byte in common, nor have its slots, nor buffers that share none.
        """
        if action.effect == "read":
            return False
        known = bases.isdisjoint(self.buffers.shared) and all(each in self.buffers.parts.counts for each in bases)
        for number in range(len(self.points.b.points) - 1, self.points.stretch_from - 1, -1):
            other = self.points.b.points[number].action
            if not isinstance(other, g.Access) or other.effect == "read":
                continue
            if self.buffers.shared & bases and self.buffers.shared & self.bases_at[number]:
                return True
            if bases & self.bases_at[number] and not (known and _is_disjoint(other, action)):
                return True
        return False


def _same_place(one: g.Access, other: g.Access) -> bool:
    first, second = one.footprint.place, other.footprint.place
    return (first.base, first.slot) == (second.base, second.slot)


def _is_disjoint(one: g.Access, other: g.Access) -> bool:
    """Whether two accesses touch different slots, or different parts of one; parts are numbered."""
    first, second = one.footprint, other.footprint
    slots = (constant(first.place.slot), constant(second.place.slot))
    if first.place.base == second.place.base and None not in slots and slots[0] != slots[1]:
        return True
    low, high = constant(first.place.offset), constant(second.place.offset)
    if not _same_place(one, other) or low is None or high is None or first.extents or second.extents:
        return False
    return low >= high + second.width or high >= low + first.width


def _joined(one: g.Access, other: g.Access) -> g.Access | None:
    """Two accesses to parts of one place as one; None if one interval of parts would be more than both.

    Two reads need no order. Two writes come here only if they have no byte in common (`apart`). Neither way does it
    matter which of the two comes first, and what they have in common with others, the interval has too.
    """
    if one == other:
        return one
    if one.footprint == other.footprint:
        return replace(one, lanes="")
    first, second = one.footprint, other.footprint
    low, high = constant(first.place.offset), constant(second.place.offset)
    if low is None or high is None or first.extents or second.extents:
        return None
    ends = (low + first.width, high + second.width)
    if low > ends[1] or high > ends[0]:
        return None
    start = min(low, high)
    foot = g.Footprint(replace(first.place, offset=Const(start)), (), max(ends) - start, first.may or second.may)
    return replace(one, footprint=foot, lanes="")
