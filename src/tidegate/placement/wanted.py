"""Hazards as placement serves them: which can be served at all, and what each asks for beside what stands there.

Needs   hazards, walks, where barriers may stand
Gives   hazards that barriers can serve, as they ask for them; the others with the reason
Keeps   a copy that a standing wait covers asks for a barrier behind that wait, if waits are kept; a hazard within one
        wave for which the target has no wait asks for a barrier
Cost    a search or two for each hazard
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from tidegate.hazards.model import Hazard, Unplaced
from tidegate.placement.anywhere import Slots
from tidegate.placement.drains import has_wait
from tidegate.placement.events import MEET, Drain, ProxyFence, all_events
from tidegate.placement.need import COPIES, LANES, drain_ops
from tidegate.placement.walks import Before, Walks


class Wanted:
    """One program. `waits_stand`: whether any wait for copies is in it already."""

    def __init__(self, walks: Walks, slots: Slots, keep_waits: bool) -> None:
        self.walks, self.slots, self.keep_waits = walks, slots, keep_waits
        self.flow, self.target = walks.flow, walks.target
        self.waits_stand = any(
            isinstance(event, Drain) and (event.counts or event.copies or event.tokens)
            for events in walks.own.values()
            for event in events
        )
        self.all_fence = all(
            walks.uniform[node] or not isinstance(event, ProxyFence)
            for node, events in walks.own.items()
            for event in events
        )

    def find(self, hazards: Sequence[Hazard]) -> tuple[list[Hazard], list[Unplaced]]:
        """Hazards that barriers at all the places there are would serve, and the others with the reason."""
        everywhere = self.slots.before(dict.fromkeys(self.slots.weight, 1))
        most = max((each.demand for each in hazards), default=1)
        if most > 1:
            everywhere = self.slots.before(dict.fromkeys(self.slots.weight, most))
        kept: list[Hazard] = []
        unplaced: list[Unplaced] = []
        seen: set[tuple[object, ...]] = set()
        for hazard in hazards:
            key = (hazard.producer, hazard.consumer, hazard.loop, hazard.distance, hazard.demand, hazard.rounds)
            if key in seen:
                continue  # they meet in several buffers
            seen.add(key)
            if hazard.demand and not self.may_be_served(hazard, everywhere):
                why = "no point between them is reached by all waves"
                unplaced.append(Unplaced(hazard, why))
            else:
                kept.append(self.as_waited_for(self.as_met(hazard, everywhere)))
        return kept, unplaced

    def as_waited_for(self, hazard: Hazard) -> Hazard:
        """A copy for which a wait stands on every walk needs a barrier behind that, not an earlier wait."""
        if not (self.keep_waits and self.waits_stand and hazard.performed.is_async and hazard.demand):
            return hazard
        # Behind some barriers of several, or out of the way of all waves, a fence may come to count through new ones.
        counts_anyway = not hazard.performed.needs_fence or (hazard.demand == 1 and self.all_fence)
        if counts_anyway and self.flow.origin[hazard.consumer] in self.slots.nodes:
            lacks = self.walks.lacks_barriers_alone(hazard)
        else:
            met = dict.fromkeys(self.last_place(hazard.consumer), MEET * hazard.demand)
            lacks = self.walks.is_served(hazard, met) and not self.walks.is_served(hazard)
        return replace(hazard, performed=replace(hazard.performed, is_waited_for=True)) if lacks else hazard

    def last_place(self, node: int) -> Sequence[int]:
        """The nodes of the last point on the way to a node before which a barrier can stand: its own, or one behind."""
        while self.flow.origin[node] not in self.slots.nodes:
            before = self.flow.before[node]
            if len(before) != 1:
                return ()
            (node,) = before
        return self.slots.nodes[self.flow.origin[node]]

    def as_met(self, hazard: Hazard, everywhere: Before) -> Hazard:
        """A hazard within one wave for which the target has no wait asks for a barrier, as those between waves do."""
        if hazard.demand or not hazard.performed.drainable or self.can_wait(hazard):
            return hazard
        met = replace(hazard, demand=1)
        if self.walks.is_served(hazard):  # perhaps by something that not all waves come to
            return met if self.walks.is_served(met) else hazard
        return met if self.may_be_served(met, everywhere) else hazard

    def can_wait(self, hazard: Hazard) -> bool:
        """Whether a wait performs the producer; a copy that is in no group is waited for by barriers alone."""
        if not has_wait(self.target, hazard):
            return False
        units = (self.target.counters[each].unit for each in hazard.performed.counters if each in self.target.counters)
        if not hazard.performed.is_async or "groups" not in units:
            return True
        ops = drain_ops(self.target, {COPIES, LANES}, hazard.performed.counters, within_a_wave=True) or ()
        waits = dict.fromkeys(itertools.chain(*self.slots.nodes.values()), tuple(all_events(ops)))
        return self.walks.is_served(hazard, waits)

    def may_be_served(self, hazard: Hazard, everywhere: Before) -> bool:
        """A barrier may stand right before the consumer, or somewhere on every walk to it."""
        stands = self.flow.origin[hazard.consumer] in self.slots.weight
        return stands or self.walks.is_served(hazard, everywhere, drained=True)
