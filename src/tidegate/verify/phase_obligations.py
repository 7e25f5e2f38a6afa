"""What must hold of the phases of barrier objects, so that every wait ends and ends for what it is meant for.

Needs   relations
Gives   the first obligation that does not hold, in words; nothing if all do
Keeps   arrivals and bytes of each generation are those that it counts, one generation is behind the other, waits come
        when the generation before theirs is over and end before the next one is, and no waits form a circle
Cost    a few questions to isl for each object
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tidegate.verify.phase_model import Instant
from tidegate.verify.phase_numbering import BySlot, ByTile
from tidegate.verify.phase_order import Precedence
from tidegate.verify.phase_space import several_sets, union
from tidegate.verify.phase_statements import ARRIVES, COPIES, WAITS, ObjectUseAt, SyncObject
from tidegate.verify.phase_witness import Broken


def find_broken(order: Precedence) -> Broken | None:
    """The first obligation that is not met; None if all are."""
    return next(_broken(order), None)


def _broken(order: Precedence) -> Iterator[Broken]:
    by_barrier: dict[SyncObject, list[ObjectUseAt]] = {}
    for each in order.relations.counted:
        by_barrier.setdefault(each.barrier, []).append(each)
    objects = [_Obligations(order, barrier, here) for barrier, here in by_barrier.items()]
    for one in objects:
        yield from one.totals()
        yield from one.slots()
        yield from one.parities()
        yield from one.own_arrivals()
        yield from one.counts()
    for one in objects:
        yield from one.one_after_the_other()
        yield from one.no_miss_before()
    for one in objects:
        yield from one.no_miss_behind()
    if order.has_circle:
        yield Broken("waits may wait for each other in a circle", order.circle)
    if not order.is_closed:
        yield Broken("the order of waits and arrivals was not found within the bound")


class _Obligations:
    """The obligations of one barrier object."""

    def __init__(self, order: Precedence, barrier: SyncObject, statements: Sequence[ObjectUseAt]) -> None:
        self.order, self.relations, self.barrier = order, order.relations, barrier
        by_tiles = any(map(order.relations.is_by_tiles, statements))
        self.numbering = ByTile(self.relations, barrier) if by_tiles else BySlot(self.relations, barrier)
        self.arrivals = [each for each in statements if each.kind == ARRIVES]
        self.copies = [each for each in statements if each.kind == COPIES]
        self.waits = [each for each in statements if each.kind == WAITS]

    def phase(self, each: ObjectUseAt, *, end: int = 0) -> Any:
        return self.relations.phase(each, end=end)

    def phases(self, statements: Sequence[ObjectUseAt]) -> Any:
        return union(self.phase(each).range() for each in statements)

    def map(self, text: str) -> Any:
        return self.relations.space.read_map(text)

    @property
    def next(self) -> Any:
        return self.numbering.next

    # --- 1: arrivals and bytes ---

    def totals(self) -> Iterator[Broken]:
        """Each statement is about one phase, whenever it is executed."""
        for each in (*self.arrivals, *self.copies, *self.waits):
            phase = self.phase(each)
            reached = self.relations.space.moments(Instant(each.role, each.node), each.domain)
            everywhere = reached.intersect_params(self.relations.known).is_subset(phase.domain())
            if not (everywhere and phase.is_single_valued()):
                yield Broken(f"no formula was found for the phases of {self.barrier}", reached.subtract(phase.domain()))

    def slots(self) -> Iterator[Broken]:
        for each in (*self.arrivals, *self.copies, *self.waits):
            if not self.numbering.has_slot(each):
                yield Broken(f"a slot of {self.barrier} that it does not have")
            if not self.numbering.is_there(each):
                what = "a wait for" if each.kind == WAITS else "an arrival for"
                yield Broken(f"{what} a phase of {self.barrier} that there is not")

    def parities(self) -> Iterator[Broken]:
        for each in self.waits if self.barrier.by_parity else ():
            if not self.numbering.has_parity(each):
                said = f"a wait for {self.barrier} whose parity is not that of the phase it comes to"
                yield Broken(said, self.numbering.wrong_parity(each))

    def own_arrivals(self) -> Iterator[Broken]:
        """Without a parity, a wait is for the phase that its own wave has arrived for last."""
        later = self.map("{ [o, s, g] -> [o, s, h] : h > g }")
        for wait in self.waits if not self.barrier.by_parity else ():
            phase, own = self.phase(wait), [each for each in self.arrivals if each.role is wait.role]
            same = union(self.arrived(wait, each, phase).domain() for each in own)
            if same is None or not phase.domain().is_subset(same):
                alone = phase.domain() if same is None else phase.domain().subtract(same)
                yield Broken(f"a wait for {self.barrier} without an arrival of its own", alone)
            if any(not self.arrived(wait, each, phase.apply_range(later)).is_empty() for each in own):
                yield Broken(f"a wait for {self.barrier} behind an arrival for a later phase")

    def arrived(self, wait: ObjectUseAt, each: ObjectUseAt, phase: Any) -> Any:
        """From a wait to arrivals before it that are for these phases."""
        order = self.relations.order(Instant(each.role, each.node), Instant(wait.role, wait.node))
        pairs = phase.apply_range(self.phase(each).reverse())
        return pairs.intersect(order.reverse()) if order is not None else pairs.subtract(pairs)

    def needed(self) -> Any:
        """Generations that are waited for, or that another one follows."""
        filled = self.phases([*self.arrivals, *self.copies])
        parts = []
        if self.waits:
            parts.append(self.phases(self.waits).intersect(self.numbering.open))
        if filled is not None:
            parts.append(filled.apply(self.numbering.before))
        return union(parts)

    def counts(self) -> Iterator[Broken]:
        needed, barrier = self.needed(), self.barrier
        for each in (*self.arrivals, *self.copies):
            if not self.phase(each).is_injective():
                yield Broken(f"one statement does several arrivals of one phase of {barrier}")
                return
        cells = self.cells(self.arrivals, lambda each: each.weight)
        exact = union(cell for cell, number in cells if number == barrier.arrivals)
        more = [cell for cell, number in cells if number > barrier.arrivals]
        if more:
            said = f"more arrivals in a phase of {barrier} than the {barrier.arrivals} that it counts"
            yield Broken(said, self.users(union(more)))
        if needed is not None and not (needed.is_empty() if exact is None else needed.is_subset(exact)):
            lacking = needed if exact is None else needed.subtract(exact)
            said = f"a phase of {barrier} has fewer arrivals than the {barrier.arrivals} that it counts"
            yield Broken(said, self.users(lacking))
        bytes_ = self.cells(
            (*self.arrivals, *self.copies),
            lambda each: each.weight * (each.bytes if each.kind == ARRIVES else -each.bytes),
        )
        for cell, number in bytes_:
            if number and needed is not None and not cell.intersect(needed).is_empty():
                said = f"the bytes that a phase of {barrier} expects are not those of its copies"
                yield Broken(said, self.users(cell.intersect(needed)))

    def users(self, phases: Any) -> Any:
        """The moments of waits and arrivals for these phases, as a set over several spaces."""
        here = (
            self.phase(each).intersect_range(phases).domain() for each in (*self.waits, *self.arrivals, *self.copies)
        )
        return several_sets(here)

    def cells(self, statements: Sequence[ObjectUseAt], weigh: Any) -> list[tuple[Any, int]]:
        """Phases that have the same statements, with what these add up to; only phases that have one."""
        found: list[tuple[Any, int]] = []
        for each in statements:
            if not weigh(each):
                continue
            own = self.phase(each).range()
            split: list[tuple[Any, int]] = []
            for cell, number in found:
                both = cell.intersect(own)
                if both.is_empty():
                    split.append((cell, number))
                    continue
                split.append((both.coalesce(), number + weigh(each)))
                rest = cell.subtract(own)
                if not rest.is_empty():
                    split.append((rest.coalesce(), number))
                own = own.subtract(cell)
            if not own.is_empty():
                split.append((own.coalesce(), weigh(each)))
            found = split
        return found

    # --- 2: one generation behind the other ---

    def one_after_the_other(self) -> Iterator[Broken]:
        """All of a generation is over before anything of the next one begins."""
        for each in (*self.arrivals, *self.copies):
            if (early := self.begins_early(each)) is not None:
                yield Broken(f"arrivals of one phase of {self.barrier} may come into the next one", early)

    def begins_early(self, other: ObjectUseAt) -> Any:
        """Where a statement may begin before all of the generation before its own is over; None: nowhere."""
        follows = self.next.apply_range(self.phase(other).reverse())
        for one in (*self.arrivals, *self.copies):
            rest = self.order.not_before(self.phase(one).apply_range(follows), one, other)
            if not rest.is_empty():
                return rest.range()
        return None

    # --- 3 and 5: waits that miss nothing ---

    def no_miss_before(self) -> Iterator[Broken]:
        """A wait by parity begins when the generation before its own is over."""
        for each in self.waits if self.barrier.by_parity else ():
            if (early := self.begins_early(each)) is not None:
                said = f"a wait for {self.barrier} may begin while the phase before is not over, and pass too early"
                yield Broken(said, early)

    def no_miss_behind(self) -> Iterator[Broken]:
        """It ends before the generation behind its own is over, if that ever is."""
        filled = union(
            cell
            for cell, number in self.cells(self.arrivals, lambda each: each.weight)
            if number == self.barrier.arrivals
        )
        for wait in self.waits if self.barrier.by_parity and filled is not None else ():
            phase = self.phase(wait, end=1).apply_range(self.next)
            asked = phase.intersect_range(filled).domain()
            met = union(
                phase.apply_range(self.phase(each).reverse()).intersect(self.order.behind(wait, each)).domain()
                for each in (*self.arrivals, *self.copies)
            )
            if not (asked.is_empty() if met is None else asked.is_subset(met)):
                said = f"a wait for {self.barrier} may still wait when the phase behind it is over, and never end"
                yield Broken(said, asked if met is None else asked.subtract(met))
                return
