"""Finds accesses that nothing orders, and accesses in the wrong order, while the machine runs.

Needs   every access when it is issued, with what its wave knows then, and when it is performed
Gives   for each pair of statements the first witness: a race, an access of the wave's own that is not complete, or the
        wrong order
Keeps   a verdict depends on what is certain, not on luck: two accesses race if neither is sure to be performed before
        the other is issued, whatever this run did
        where the order of barrier objects varies, a pair that is ordered one way here and the other way there is a race
Cost    per access the number of accesses that others may still meet; what all waves know to be performed, and none can
        come before, is forgotten
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tidegate.graph.model import ONE_LANE
from tidegate.simulate.atomics import commute
from tidegate.simulate.clocks import Clock, Id
from tidegate.simulate.program_order import Key, compare, may_still_come
from tidegate.simulate.queues import Left
from tidegate.simulate.regions import Region, Regions, Stretch
from tidegate.simulate.steps import Touch

Kind = Literal["race", "own", "inversion"]
# Why two accesses are not in order: nothing between them; a barrier that does not drain the first; no fence between
# the proxies; a different order in different runs; nothing at which the lanes of their wave meet.
Why = Literal["unmet", "undrained", "unfenced", "varies", "lanes"]

# A wave forgets when there are so many accesses that others may meet.
FORGET_AT = 48
# Of the waits that left a copy in flight, so many are remembered.
MOST_LEFT = 4


@dataclass(slots=True, eq=False)  # as `Touch`, not frozen: runs make one for each access
class Party:
    """One of two accesses: which, of which wave, and after how many departures from the workgroup's barrier."""

    wave: int
    number: int
    touch: Touch
    phase: int


@dataclass(frozen=True, slots=True)
class Clash:
    """Two accesses and what is wrong with them; `first` comes first in program order, or came first here."""

    kind: Kind
    first: Party
    second: Party
    bytes: Stretch
    why: Why
    left: Left | None = None  # the wait that let the first one go on, where one did

    @property
    def statements(self) -> tuple[str, int, int]:
        return self.kind, self.first.touch.where, self.second.touch.where

    @property
    def rank(self) -> tuple[int, ...]:
        """Less for a witness that is easier to follow: early, and by waves of low number. A fence alone says least."""
        return (self.why == "unfenced", self.first.phase + self.second.phase, self.second.wave, self.first.wave)


@dataclass(slots=True, eq=False)
class Moment:
    """Where a wave stands: its own time, its step, and the last step before which all that its lanes did is known to
    all of them; -1: there is none."""

    time: int
    step: int
    lanes_met: int = -1


@dataclass(slots=True)
class Record:
    """What is known about an access that others may still meet."""

    party: Party
    issued: Moment
    performed: Moment | None = None
    left: tuple[tuple[int, Left], ...] = ()  # waits that let it go on, each with the wave's own time then

    def is_over_for_lanes(self, lanes_met: int, in_turn: bool) -> bool:
        """Whether all lanes of its wave know that it is performed. `in_turn`: what follows is performed later."""
        if in_turn and self.issued.step < lanes_met:
            return True
        return self.performed is not None and self.performed.step <= lanes_met

    def left_before(self, time: int | None) -> Left | None:
        """The last such wait; with a time, of those before it."""
        return next((each for at, each in reversed(self.left) if time is None or at < time), None)


@dataclass(slots=True)
class RegionRecords:
    """The records of one region, and what they have in common."""

    records: dict[Id, Record] = field(default_factory=dict)
    waves: set[int] = field(default_factory=set)
    has_async: bool = False
    has_writes: bool = False
    lanes: set[tuple[str, int | None]] = field(default_factory=set)  # maps from bytes to lanes, and where they start

    def add(self, record: Record) -> None:
        party = record.party
        self.records[party.wave, party.number] = record
        self.waves.add(party.wave)
        self.has_async |= party.touch.is_async
        self.has_writes |= party.touch.effect != "read"
        self.lanes.add((party.touch.lanes, party.touch.first))

    def may_clash(self, party: Party) -> bool:
        """Whether any of them can clash with an access: not if all are reads, or ordinary and of the same lanes."""
        touch = party.touch
        if touch.effect == "read" and not self.has_writes:
            return False
        if touch.is_async or self.has_async or self.waves != {party.wave}:
            return True
        return not touch.lanes or self.lanes != {(touch.lanes, touch.first)}

    def copy(self) -> RegionRecords:
        records = {at: Record(r.party, r.issued, r.performed, r.left) for at, r in self.records.items()}
        return RegionRecords(records, set(self.waves), self.has_async, self.has_writes, set(self.lanes))


@dataclass(slots=True)
class Verdicts:
    """All that any run of one configuration found, by statements."""

    clashes: dict[tuple[str, int, int], Clash] = field(default_factory=dict)
    pairs: dict[tuple[Id, Id], _Seen] = field(default_factory=dict)
    raced: set[tuple[Id, Id]] = field(default_factory=set)
    safe: dict[tuple[int, str], int] = field(default_factory=dict)  # wait and counter → with which nothing clashed
    compared: int = 0  # accesses with one another
    most: int = 0  # that are compared; 0: all
    cut: bool = False  # whether some were not
    late: set[int] = field(default_factory=set)  # waits whose counts let a copy go on that they are said to be for

    def add(self, clash: Clash) -> None:
        known = self.clashes.get(clash.statements)
        if known is None or clash.rank < known.rank:
            self.clashes[clash.statements] = clash
        if clash.left is not None and clash.left.safe is not None:
            self.lower({(clash.left.where, clash.left.counter): clash.left.safe})
        if clash.kind == "race":
            self.raced.add(_pair(clash.first, clash.second))

    def lower(self, safe: Mapping[tuple[int, str], int]) -> None:
        """What is safe at a wait is safe for all that it left and that clashed."""
        for key, count in safe.items():
            self.safe[key] = min(count, self.safe.get(key, count))

    def settle(self) -> None:
        """Decides pairs that no run left unordered: one direction, always the right one, is the only good end."""
        for pair, seen in self.pairs.items():
            if pair in self.raced:
                continue
            if seen.forward and seen.backward:
                self.add(as_clash("race", seen.earlier, seen.later, seen.bytes, "varies"))
            elif seen.wrong:
                self.add(as_clash("inversion", seen.earlier, seen.later, seen.bytes, "unmet"))
        self.pairs.clear()
        self.raced.clear()


@dataclass(slots=True)
class _Seen:
    """In which directions two accesses were ordered; `wrong` if that is against program order."""

    earlier: Party
    later: Party
    bytes: Stretch
    forward: bool = False
    backward: bool = False
    wrong: bool = False


@dataclass(slots=True)
class Watch:
    """The accesses of one run that others may still meet, by space and region."""

    regions: Regions
    verdicts: Verdicts
    fenced: frozenset[str] = frozenset()  # effects of generic accesses that need a fence before the async proxy
    varies: bool = False  # whether other runs may order accesses in another way
    in_issue_order: bool = False  # whether ordinary accesses of one wave are performed in the order of issue
    records: dict[str, dict[Region, RegionRecords]] = field(default_factory=dict)
    limit: int = FORGET_AT
    least: int = FORGET_AT  # the limit never falls below this
    count: int = 0  # of all records
    newest: dict[tuple[int, int, Region, int | None], Id] = field(default_factory=dict)

    def copy(self) -> Watch:
        records = {
            space: {region: group.copy() for region, group in held.items()} for space, held in self.records.items()
        }
        same = (self.regions, self.verdicts, self.fenced, self.varies, self.in_issue_order)
        return Watch(*same, records, self.limit, self.least, self.count, dict(self.newest))

    def issue(self, party: Party, clock: Clock, now: Moment) -> None:
        """An access is issued by a wave that knows `clock`."""
        if self.verdicts.most and self.verdicts.compared > self.verdicts.most:
            self.verdicts.cut = True  # without barriers each access meets all before it: the time grows with the square
            return
        for region in party.touch.regions:
            held = self.records.setdefault(region.space, {})
            near = self.regions.near(region)
            for other, group in held.items():
                if other in near and group.may_clash(party):
                    self.verdicts.compared += len(group.records)
                    for record in group.records.values():
                        if not self.is_known(record, party):
                            self.meet(record, party, clock, now)
            group = held.setdefault(region, RegionRecords())
            if not self.varies:
                self._replace(group, party, region)
            group.add(Record(party, now))
            self.count += 1

    def is_known(self, record: Record, party: Party) -> bool:
        """Whether two accesses of one wave can show nothing that an easier witness has not shown."""
        first = record.party
        if first.wave != party.wave or record.left:
            return False
        known = self.verdicts.clashes.get(("own", first.touch.where, party.touch.where))
        return known is not None and known.rank <= (False, first.phase + party.phase, party.wave, party.wave)

    def _replace(self, group: RegionRecords, party: Party, region: Region) -> None:
        """Forgets the same access of an earlier iteration: whoever clashes with that one clashes with this one.

        Not so for copies, which may end out of turn, so that the later one is known to be over before the earlier.
        """
        key = (party.wave, party.touch.where, region, party.touch.grid)
        before = self.newest.get(key)
        if party.touch.as_one:  # that one does not clash with others that this one clashes with
            return
        if before in group.records and (not party.touch.is_async or group.records[before].performed is not None):
            del group.records[before]
            self.count -= 1
        self.newest[key] = (party.wave, party.number)

    def performed(self, wave: int, number: int, touch: Touch, now: Moment) -> None:
        for region in touch.regions:
            group = self.records.get(region.space, {}).get(region)
            if group is not None and (wave, number) in group.records:
                group.records[wave, number].performed = now

    def left(self, wave: int, number: int, touch: Touch, left: Left, time: int) -> None:
        """A wait of the wave has left a copy in flight."""
        for region in touch.regions:
            group = self.records.get(region.space, {}).get(region)
            record = group.records.get((wave, number)) if group is not None else None
            if record is not None:
                before = tuple(each for each in record.left if each[0] != time)
                record.left = (*before, (time, left))[-MOST_LEFT:]

    def landed(self, at: Id) -> None:
        """A copy that reports has ended; who may rely on that, the clocks say."""

    def needs_fence(self, touch: Touch) -> bool:
        return touch.proxy == "generic" and touch.effect in self.fenced

    def forget(self, clocks: Sequence[Clock | None], last: Sequence[Key], lanes_met: Sequence[int]) -> None:
        """Drops what can meet nobody any more. `clocks` are those of waves that have not ended."""
        if self.varies or self.count < self.limit:
            return
        for held in self.records.values():
            for region, group in list(held.items()):
                kept = [each for each in group.records.values() if not self._is_over(each, clocks, last, lanes_met)]
                held[region] = RegionRecords()
                for each in kept:
                    held[region].add(each)
                if not kept:
                    del held[region]
        self.count = sum(len(group.records) for held in self.records.values() for group in held.values())
        self.limit = max(self.least, 2 * self.count)

    def _is_over(
        self, record: Record, clocks: Sequence[Clock | None], last: Sequence[Key], lanes_met: Sequence[int]
    ) -> bool:
        own, touch = record.party.wave, record.party.touch
        for wave, clock in enumerate(clocks):
            if clock is None:
                continue
            if wave == own and not record.is_over_for_lanes(lanes_met[own], in_turn=False):
                return False
            if wave != own and may_still_come(last[wave], touch.key):
                return False
            if why_unsure(record, wave, clock, self.needs_fence(touch)) is not None:
                return False
        return True

    def meet(self, record: Record, party: Party, clock: Clock, now: Moment) -> None:
        one, other = record.party.touch, party.touch
        own = record.party.wave == party.wave
        if own and keep_to_lanes(one, other):
            return
        if one.as_one and not own and one.where == other.where and one.key == other.key:
            return
        bytes_ = conflict(one, other, self.regions)
        if bytes_ is None:
            return
        crossing = self.needs_fence(one) and other.proxy == "async"
        ordinary = not (one.is_async or other.is_async)
        why = None if own and ordinary else self.unsure(record, party.wave, clock, crossing)
        landed = (party.wave, record.party.number) in clock.landed
        if why is None and own and not landed and not in_one_lane(one, other):
            in_turn = ordinary and self.in_issue_order
            why = None if record.is_over_for_lanes(now.lanes_met, in_turn) else "lanes"
        if why is not None:
            kind: Kind = "own" if own else "race"
            waited = why not in ("unfenced", "lanes")
            left = record.left_before(None if own else clock.times[record.party.wave]) if waited else None
            self.verdicts.add(as_clash(kind, record.party, party, bytes_, why, left))
        elif not own:
            self.ordered(record.party, party, bytes_)

    def unsure(self, record: Record, wave: int, clock: Clock, crossing: bool) -> Why | None:
        """Why the first of two accesses may still be in flight when a wave issues the second; None if it is over."""
        return why_unsure(record, wave, clock, crossing)

    def ordered(self, earlier: Party, later: Party, bytes_: Stretch) -> None:
        """One is sure to be performed before the other is issued, at least in runs like this one."""
        wrong = compare(earlier.touch.key, later.touch.key) > 0
        if not self.varies:
            if wrong:
                self.verdicts.add(as_clash("inversion", earlier, later, bytes_, "unmet"))
            return
        seen = self.verdicts.pairs.setdefault(_pair(earlier, later), _Seen(earlier, later, bytes_))
        if (earlier.wave, earlier.number) < (later.wave, later.number):
            seen.forward = True
        else:
            seen.backward = True
        seen.wrong |= wrong


def _pair(one: Party, other: Party) -> tuple[Id, Id]:
    """Two accesses, whichever came first."""
    ours, theirs = (one.wave, one.number), (other.wave, other.number)
    return min(ours, theirs), max(ours, theirs)


def keep_to_lanes(one: Touch, other: Touch) -> bool:
    """Whether two accesses of one wave touch each common byte in one lane, where program order orders them."""
    if one.is_async or other.is_async or not one.lanes or one.lanes != other.lanes:
        return False
    return in_one_lane(one, other) or (one.first is not None and one.first == other.first)


def in_one_lane(one: Touch, other: Touch) -> bool:
    """Whether one lane of a wave does both."""
    return one.lanes == other.lanes == ONE_LANE


def conflict(one: Touch, other: Touch, regions: Regions) -> Stretch | None:
    """The first bytes on which two accesses clash, if their order matters at all."""
    if one.effect == "read" and other.effect == "read":
        return None
    if one.effect == other.effect == "atomic" and commute(one, other):
        return None
    found = (regions.common(ours, theirs) for ours in one.regions for theirs in other.regions)
    return next(filter(None, found), None)


def why_unsure(record: Record, wave: int, clock: Clock, crossing: bool) -> Why | None:
    """Why a wave that knows `clock` cannot be sure that an access is performed; None if it can.

    `crossing`: it goes on through the other proxy, for which a fence has to stand between.
    """
    own, at = record.party.wave, (record.party.wave, record.party.number)
    performed = record.performed.time if record.performed is not None else None
    knows = performed is not None and (wave == own or clock.times[own] > performed)
    if not knows and at not in clock.landed:
        return "undrained" if wave != own and clock.times[own] > record.issued.time else "unmet"
    if not crossing or at in clock.fenced_landed:
        return None
    return None if performed is not None and clock.fenced[own] > performed else "unfenced"


def as_clash(kind: Kind, one: Party, other: Party, bytes_: Stretch, why: Why, left: Left | None = None) -> Clash:
    """The two in program order; where there is none, as they came, or by statement if they could come either way.

    `left`: the wait that let `one` go on.
    """
    order = compare(one.touch.key, other.touch.key) if one.wave != other.wave else -1
    either_way = order == 0 and why in ("unmet", "varies")
    swapped = order > 0 or (either_way and one.touch.where > other.touch.where)
    first, second = (other, one) if swapped else (one, other)
    return Clash(kind, first, second, bytes_, why, None if swapped else left)


def in_order(clashes: Iterable[Clash]) -> list[Clash]:
    return sorted(clashes, key=lambda each: (each.second.touch.where, each.first.touch.where, each.kind))
