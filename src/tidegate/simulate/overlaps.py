"""Races read off states: two accesses that clash and are in flight at the same moment.

Needs   a machine that goes through every order of steps and performances (`explore_all`)
Gives   the same verdicts as `races`, which knows from one order what others would show
Keeps   no clocks, except for fences between proxies: what happens is all that counts
Cost    per access the number of accesses issued before
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.simulate.clocks import Clock, Id
from tidegate.simulate.races import Kind, Party, Record, Watch, as_clash, conflict, why_unsure
from tidegate.simulate.steps import Touch


@dataclass(slots=True)
class Overlaps(Watch):
    """All accesses of one order so far; `flying` are those in flight."""

    flying: set[Id] = field(default_factory=set)

    def copy(self) -> Overlaps:
        held = Watch.copy(self)
        same = (held.regions, held.verdicts, held.proxies, held.varies, held.records, held.limit, held.least)
        return Overlaps(*same, {}, set(self.flying))

    def issue(self, party: Party, clock: Clock, time: int) -> None:
        Watch.issue(self, party, clock, time)
        self.flying.add((party.wave, party.number))

    def performed(self, wave: int, number: int, touch: Touch, time: int) -> None:
        Watch.performed(self, wave, number, touch, time)
        self.flying.discard((wave, number))

    def landed(self, at: Id) -> None:
        self.flying.discard(at)

    def meet(self, record: Record, party: Party, clock: Clock) -> None:
        one, other = record.party, party
        own = one.wave == other.wave
        if own and not (one.touch.is_async or other.touch.is_async):
            return
        bytes_ = conflict(one.touch, other.touch, self.regions)
        if bytes_ is None:
            return
        crossing = self.proxies and one.touch.proxy == "generic" and other.touch.proxy == "async"
        unfenced = crossing and why_unsure(record, party.wave, clock, crossing) == "unfenced"
        if (one.wave, one.number) in self.flying or unfenced:
            kind: Kind = "own" if own else "race"
            self.verdicts.add(as_clash(kind, one, other, bytes_, "unfenced" if unfenced else "unmet"))
        elif not own:
            self.ordered(one, other, bytes_)
