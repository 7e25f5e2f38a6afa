"""Races read off states: two accesses that clash and are in flight at the same moment.

Needs   a machine that goes through every order of steps and performances (`explore_all`)
Gives   the same verdicts as `races`, which knows from one order what others would show
Keeps   no clocks, except for fences between proxies: what happens is all that counts
Cost    per access the number of accesses issued before
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.simulate.clocks import Clock, Id
from tidegate.simulate.races import Moment, Party, Record, Watch, Why, why_unsure
from tidegate.simulate.steps import Touch


@dataclass(slots=True)
class Overlaps(Watch):
    """All accesses of one order so far; `flying` are those in flight."""

    flying: set[Id] = field(default_factory=set)

    def copy(self) -> Overlaps:
        held = Watch.copy(self)
        facts = (held.regions, held.verdicts, held.fenced, held.varies, held.in_issue_order)
        return Overlaps(*facts, held.records, held.limit, held.least, held.count, {}, set(self.flying))

    def issue(self, party: Party, clock: Clock, now: Moment) -> None:
        Watch.issue(self, party, clock, now)
        self.flying.add((party.wave, party.number))

    def performed(self, wave: int, number: int, touch: Touch, now: Moment) -> None:
        Watch.performed(self, wave, number, touch, now)
        self.flying.discard((wave, number))

    def landed(self, at: Id) -> None:
        self.flying.discard(at)

    def unsure(self, record: Record, wave: int, clock: Clock, crossing: bool) -> Why | None:
        if crossing and why_unsure(record, wave, clock, crossing) == "unfenced":
            return "unfenced"
        return "unmet" if (record.party.wave, record.party.number) in self.flying else None
