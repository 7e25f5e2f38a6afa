"""What a name stands for: an index over canonical names, or places in memory; and names for what nobody can compute.

Needs   normal forms
Gives   `Spot` (a place under a condition), `Opaque` (a number of which little is known), and the book that keeps them
Keeps   an opaque name has one value for each iteration of the loops in which it varies, and for each wave unless the
        waves agree on it; what may differ inside a wave is marked, and never serves as a place
Cost    constant

Canonical names are `wave`, `wg0` to `wg2`, sizes, values from outside, `#3` for the iteration of loop 3, `?7` for an
opaque number. While loops are being solved there are also `@3.%s`, what `%s` holds at the head of loop 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tidegate.footprint.arithmetic import ANY, Arithmetic, Range, both, negate
from tidegate.graph import model as g
from tidegate.index import LANE, TRUE, WAVE, Cond, Const, Index, Name, Truth, children, names
from tidegate.language.types import FLAG

MOST_SPOTS = 16


@dataclass(frozen=True, slots=True)
class Spot:
    """Bytes from `start` on, counted from a buffer's beginning, where the condition holds; None: anywhere in it."""

    cond: Cond
    buffer: str
    start: Index | None


View = tuple[Spot, ...]
Value = Index | View


@dataclass(frozen=True, slots=True)
class Opaque:
    """A number that cannot be computed. `differs`: its parts may differ inside one wave, as elements of a tile do."""

    name: str
    node: int  # where it comes to be
    what: str  # the name or the expression that it stands for
    when: str  # arrives: what the name holds before the node; leaves: after it; branch: whether the first way is taken
    loops: frozenset[int]  # it is another number in each iteration of these
    agree: bool  # all waves find the same
    low: int | None = None
    high: int | None = None
    differs: bool = False
    by_lane: bool = False  # it depends on the number of the lane


def iteration(loop: int) -> str:
    return f"#{loop}"


def is_head(name: str) -> bool:
    return name.startswith("@")


class _Values(Arithmetic):
    """Arithmetic with what names hold: a graph may assign any number to a flag."""

    def is_flag(self, name: str) -> bool:
        """For isl a flag holds from 1 on, for a wave unless it is 0: of `%n` below 0 that is not the same
        (test_believed_more: `test_a_number_below_zero_in_a_flag`)."""
        low = self.ranges.get(name, ANY)[0]
        return is_head(name) or (low is not None and low >= 0)


class Book:
    """Opaque names, what they depend on, and what ranges are known."""

    def __init__(self, graph: g.SyncGraph, loops: int) -> None:
        self.graph = graph
        self.ranges: dict[str, Range] = {WAVE: (0, graph.waves - 1)}
        self.ranges.update({size.name: (1, None) for size in graph.sizes})
        self.ranges.update({f"wg{axis}": (0, None) for axis in range(3)})
        self.ranges.update({iteration(loop): (0, None) for loop in range(loops)})
        self.ranges.update({each.name: (0, 1) for each in graph.free if each.type == FLAG})
        self.math = _Values(self.ranges)
        self.opaques: dict[str, Opaque] = {}
        self.depends: dict[str, set[str]] = {}
        self.differing: set[str] = {LANE}
        self.everything: View = tuple(Spot(TRUE, buffer.name, None) for buffer in graph.buffers)

    def opaque(
        self,
        node: int,
        what: str,
        when: str,
        loops: Iterable[int],
        on: Iterable[str] | None,
        within: Range = ANY,
        differs: bool = False,
    ) -> Name:
        """A new opaque name. Waves agree on it if they agree on all names that it depends `on`; None: they do not."""
        name = f"?{len(self.opaques)}"
        self.opaques[name] = Opaque(name, node, what, when, frozenset(loops), True, *within, differs)
        self.depends[name] = {WAVE} if on is None else set(on)
        if within != ANY:
            self.ranges[name] = within
        if differs:
            self.differing.add(name)
        return Name(name)

    def settle(self) -> None:
        """Decides for every opaque name whether the waves agree on it, and whether it depends on the lane."""
        users: dict[str, list[str]] = {}
        for name, used in self.depends.items():
            for each in used:
                users.setdefault(each, []).append(name)
        apart, by_lane = _depending(users, (WAVE, LANE)), _depending(users, (LANE,))
        for name, known in self.opaques.items():
            self.opaques[name] = replace(known, agree=name not in apart, by_lane=name in by_lane)

    def is_differing(self, expr: Index | Cond) -> bool:
        return any(name in self.differing for name in names(expr))

    # --- views ---

    def moved(self, view: View, by: Index) -> View:
        """The same places, some bytes further."""
        if by == Const(0):
            return view
        return tuple(
            replace(spot, start=None if spot.start is None else self.math.binary("+", spot.start, by)) for spot in view
        )

    def put_view(self, view: View, by: Mapping[str, Index], views: Mapping[str, View]) -> View:
        """Names and views in a view replaced."""
        found: list[Spot] = []
        for spot in view:
            cond = self.math.put_cond(spot.cond, by)
            start = None if spot.start is None else self.math.put(spot.start, by)
            if spot.buffer in views:
                for inner in views[spot.buffer]:
                    known = start is not None and inner.start is not None
                    at = self.math.binary("+", inner.start, start) if known else None  # type: ignore[arg-type]
                    found.append(Spot(both(cond, inner.cond), inner.buffer, at))
            else:
                found.append(Spot(cond, spot.buffer, start))
        return self.trim(found)

    def either(self, cond: Cond, then: View, otherwise: View) -> View:
        if then == otherwise:
            return then
        if self.is_differing(cond):
            return self.trim([replace(spot, cond=TRUE, start=None) for spot in (*then, *otherwise)])
        yes = [replace(spot, cond=both(cond, spot.cond)) for spot in then]
        no = [replace(spot, cond=both(negate(cond), spot.cond)) for spot in otherwise]
        return self.trim([*yes, *no])

    def trim(self, spots: Iterable[Spot]) -> View:
        """Without what cannot be; of too many places only the buffers remain."""
        found = list(dict.fromkeys(spot for spot in spots if spot.cond != Truth(False)))
        whole = {spot.buffer for spot in found if spot.start is None and spot.cond == TRUE}
        found = [spot for spot in found if spot.buffer not in whole or (spot.start is None and spot.cond == TRUE)]
        if len(found) > MOST_SPOTS:
            found = [Spot(TRUE, buffer, None) for buffer in dict.fromkeys(spot.buffer for spot in found)]
        return tuple(found)


def _depending(users: Mapping[str, Iterable[str]], on: Iterable[str]) -> set[str]:
    """These names, and all that depend on one of them."""
    found = set(on)
    work = [*found]
    while work:
        for name in users.get(work.pop(), ()):
            if name not in found:
                found.add(name)
                work.append(name)
    return found


def size_of(expr: Index | Cond, most: int) -> int:
    """How many nodes a tree has; counting ends beyond `most`."""
    count, stack = 0, [expr]
    while stack and count <= most:
        count += 1
        stack.extend(children(stack.pop()))
    return count
