"""Which moments come before which, whatever the order of the waves is.

Needs   relations
Gives   `Order`: for two moments, in which iterations the first is over before the second begins
Keeps   `before` holds only pairs of moments of which the first is over, in all waves of its role, when the second
        begins in any wave of its role; `is_closed` says that there are no other such pairs
Cost    a few joins of isl's maps for each pair of statements in one stretch between two walls

There are two orders. In time, whatever follows the landing of a copy follows its issue. What memory shows is less: an
arrival performs what stands before it, a copy that lands shows what it wrote and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import islpy as isl

from tidegate.verify.phase_model import Instant
from tidegate.verify.phase_relations import Relations
from tidegate.verify.phase_space import Space, maps_of, sets_of, several, several_sets, union
from tidegate.verify.phase_statements import ARRIVES, COPIES, MEETS, ObjectUseAt

MOST_STEPS = 12
MOST_PIECES = 2_000


@dataclass
class Precedence:
    """`kinds`: the statements whose edges count. `every`: also those of which nobody knows whether they are there."""

    relations: Relations
    kinds: tuple[str, ...]
    every: bool = False
    is_closed: bool = False
    kept: dict[object, Any] = field(default_factory=dict)

    @property
    def space(self) -> Space:
        return self.relations.space

    @cached_property
    def sources(self) -> list[Instant]:
        return self.relations.sources(*self.kinds)

    @cached_property
    def edges(self) -> Any:
        """From statements to the ends of waits, within one stretch."""
        meetings = self.relations.meetings
        parts = [edge for _, _, edge in (*meetings.edges, *(meetings.maybe if self.every else ()))]
        for kind in self.kinds:
            parts += self.relations.joined(kind)
        return several(parts)

    @cached_property
    def further(self) -> Any:
        """From the ends of waits to statements behind them."""
        return self.relations.all_order(self.relations.targets, self.sources)

    @cached_property
    def turns(self) -> Any:
        """From statements to those that come behind them, by way of at least one edge."""
        step = _simple(self.edges.apply_range(self.further))
        found = new = step
        for _ in range(MOST_STEPS):
            new = _simple(new.apply_range(step))
            if new.is_subset(found):
                self.is_closed = True
                break
            found = _simple(found.union(new))
            if sum(each.n_basic_map() for each in maps_of(found)) > MOST_PIECES:
                break
        return found

    @cached_property
    def closure(self) -> Any:
        """From statements to the ends of waits that follow from them."""
        return _simple(self.edges.union(self.turns.apply_range(self.edges)))

    @property
    def has_circle(self) -> bool:
        """Whether a statement may have to come before itself."""
        if self.relations.meetings.maybe and not self.every:
            more = Precedence(self.relations, self.kinds, every=True)
            return more.has_circle or not more.is_closed
        return self.relations.goes_back or not self.circle.is_empty()

    @cached_property
    def circle(self) -> Any:
        """The statements that may have to come before themselves."""
        alike = (
            each
            for each in maps_of(self.turns)
            if each.get_tuple_name(isl.dim_type.in_) == each.get_tuple_name(isl.dim_type.out)
        )
        return several_sets(each.intersect(isl.Map.identity(each.get_space())).domain() for each in alike)

    # --- what comes before what ---

    def before(self, one: Instant, other: Instant) -> Any:
        """In which iterations the first is over before the second begins, by way of at least one edge."""
        key = ("before", one, other)
        if key not in self.kept:
            here, there = self.relations.stretch(one), self.relations.stretch(other)
            if here == there:
                self.kept[key] = self.to(self.reached(one), one, other)
            else:
                self.kept[key] = self.space.pairs(one, other, every=here < there)
        return self.kept[key]

    def reached(self, one: Instant) -> Any:
        """From a moment to the ends of waits in its stretch that come behind it."""
        key = ("reached", one)
        if key not in self.kept:
            self.kept[key] = _simple(self.relations.all_order([one], self.sources).apply_range(self.closure))
        return self.kept[key]

    def to(self, ends: Any, one: Instant, other: Instant) -> Any:
        """From a moment by way of ends of waits to one that begins behind them."""
        found = ends.apply_range(self.relations.all_order(self.relations.targets, [other]))
        return _simple(self.space.only(found, one, other))

    def released(self, one: Instant, at: Instant, sooner: Any, other: Instant) -> Any:
        """The same by way of one arrival, and from those iterations alone that are over there."""
        here, there = self.relations.stretch(at), self.relations.stretch(other)
        if here < there:
            return self.space.pairs(one, other, every=True).intersect_domain(sooner.domain())
        if here > there:
            return self.space.pairs(one, other, every=False)
        return self.to(several([sooner]).apply_range(self.closure), one, other)

    # --- copies that report ---

    def landed(self, one: Instant) -> list[tuple[int, Any]]:
        """From a copy that reports to the ends of waits by which it has landed, with the stretch of these."""
        key = ("landed", one)
        if key not in self.kept:
            found = []
            for copy, end, edge in self.relations.pairs(COPIES):
                if copy == one:
                    ends = several([edge])
                    more = ends.apply_range(self.further).apply_range(self.closure)
                    found.append((self.relations.stretch(end), _simple(ends.union(more))))
            self.kept[key] = found
        return self.kept[key]  # type: ignore[no-any-return]

    def landed_before(self, one: Instant, other: Instant) -> Any:
        """A wall does not wait for copies, but whoever waits for one before it does."""
        key = ("landed", one, other)
        if key in self.kept:
            return self.kept[key]
        found, there = self.space.pairs(one, other, every=False), self.relations.stretch(other)
        for here, ends in self.landed(one):
            if here == there:
                found = found.union(self.to(ends, one, other))
            elif here < there:
                waited = union(sets_of(ends.domain()))
                found = found.union(self.space.pairs(one, other, every=True).intersect_domain(waited))
        self.kept[key] = _simple(found)
        return self.kept[key]

    # --- of statements ---

    def behind(self, wait: ObjectUseAt, other: ObjectUseAt) -> Any:
        """What comes behind the end of a wait, in its own role or by way of edges."""
        end, begin = Instant(wait.role, wait.node, 1), Instant(other.role, other.node)
        order = self.relations.order(end, begin)
        found = self.before(end, begin)
        return found if order is None else found.union(order)

    def not_before(self, pairs: Any, one: ObjectUseAt, other: ObjectUseAt) -> Any:
        """Those of which the first may not be over before the second. One wave needs no edge to itself."""
        if pairs.is_empty():
            return pairs
        first, second = Instant(one.role, one.node), Instant(other.role, other.node)
        if one.kind == COPIES:
            return pairs.subtract(self.landed_before(first, second))
        rest = pairs.subtract(self.before(first, second))
        order = self.relations.order(first, second) if len(one.role.waves) == 1 else None
        return rest if order is None else rest.subtract(order)


def in_time(relations: Relations) -> Precedence:
    return Precedence(relations, (ARRIVES, COPIES, MEETS))


def in_memory(relations: Relations) -> Precedence:
    return Precedence(relations, (ARRIVES, MEETS))


def _simple(relation: Any) -> Any:
    return relation.detect_equalities().coalesce()
