"""Why two accesses of one buffer need no barrier of their own.

Needs   hazards with their footprints and conflicts, walks past the barriers that stand there
Gives   for every ordered pair that is no hazard with a barrier of its own, the reason; for all others, the hazard
Keeps   bytes are asked for as hazards ask for them; slots by the same question about whole slots, so that "another
        slot" means disjoint slots in every iteration between the two
Cost    quadratic in the accesses of a buffer, up to `MOST_PAIRS`; isl is asked once for each class of pairs
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from tidegate.explanation.model import Pair, Reason
from tidegate.footprint.conflicts import Conflicts, Meeting
from tidegate.footprint.meetings import Lanes, Pairs
from tidegate.footprint.model import Footprints, Shape, Touch
from tidegate.footprint.questions import lanes_between
from tidegate.graph import model as g
from tidegate.hazards.facts import PairFacts
from tidegate.hazards.find import Hazards
from tidegate.hazards.model import Hazard
from tidegate.index import WAVE, Const, combine, holds, names, scale
from tidegate.placement.walks import Walk, Walks
from tidegate.targets import Target

# Pairs of accesses of one program, and kinds of pairs that bytes and slots are asked about beyond what hazards asked.
MOST_PAIRS, MOST_KINDS = 3_000, 1_000

Key = tuple[int, int, int, int]


class PairFinder:
    """Every pair of one program.

    `own`: hazards that a barrier stands for; `apart`: those that barrier objects order; `racing`: points that clash.
    """

    def __init__(
        self,
        found: Hazards,
        target: Target,
        walks: Walks,
        own: Iterable[Hazard],
        apart: Iterable[Hazard],
        is_racing: Callable[[int, int], bool],
    ) -> None:
        self.found, self.flow, self.walks = found, found.flow, walks
        self.facts = PairFacts(found.flow, target, found.stagger.assumed, found.atomics)
        self.commuting = PairFacts(found.flow, target, atomics="commute")
        self.own = {key_of(each) for each in own}
        self.is_racing = is_racing
        self.apart = {(each.producer, each.consumer) for each in apart}
        self.unplaced = {(each.hazard.producer, each.hazard.consumer): each.why for each in found.unplaced}
        self.slots = Conflicts(found.flow, _whole_slots(found.footprints))
        self.in_any_lane = Conflicts(found.flow, _without_lanes(found.footprints))
        self.reach: dict[tuple[int, int], frozenset[int]] = {}
        self.cut_short = ""  # by which bound
        self.count = 0  # pairs that were asked about
        self.memory = {each.name: each for each in found.flow.graph.buffers}

    def find(self) -> list[Pair]:
        pairs: list[Pair] = []
        known = self.kinds()
        for first, second in self.candidates():
            if self.count >= MOST_PAIRS or self.kinds() - known > MOST_KINDS:
                many = f"{MOST_PAIRS:,}" if self.count >= MOST_PAIRS else f"{MOST_KINDS:,} kinds of"
                self.cut_short = f"the bound of {many} pairs of accesses was reached"
                break
            pairs += self.pair(first, second)
            self.count += 1
        return pairs

    def kinds(self) -> int:
        return sum(len(each.known) for each in (self.found.conflicts, self.slots, self.in_any_lane))

    def candidates(self) -> Iterator[tuple[int, int]]:
        """Accesses that may share memory, not both of which read."""
        accesses = self.found.footprints.accesses
        for first, one in accesses.items():
            for second, other in accesses.items():
                if self.shared(one, other) and not self.facts.effect(first) == self.facts.effect(second) == "read":
                    yield first, second

    def shared(self, one: Touch, other: Touch) -> bool:
        buffers = self.memory
        return any(
            x.buffer == y.buffer or buffers[x.buffer].overlaps(buffers[y.buffer])
            for x in one.places
            for y in other.places
        )

    def pair(self, first: int, second: int) -> Iterator[Pair]:
        flow = self.flow
        common = [each for each in flow.loops_around(first) if each in flow.loops_around(second)]
        if first != second and second in self.reached(first, common[-1] if common else -1):
            yield from self.relation(first, second, -1, self.found.conflicts.same_iteration(first, second))
        elif first < second and first not in self.reached(second, common[-1] if common else -1):
            yield from self.apart_for_good(first, second)
        elif first == second and (first, second) in self.unplaced:
            yield self.unordered(first, second, -1, None)
        for loop in common:
            if flow.loops[loop].reducible:
                yield from self.relation(first, second, loop, self.found.conflicts.carried(first, second, loop))

    def reached(self, node: int, loop: int) -> frozenset[int]:
        """What a node leads to in one iteration of a loop around it."""
        known = self.reach.get((node, loop))
        if known is None:
            head = self.flow.loops[loop].head if loop >= 0 else -1
            seen: set[int] = set()
            stack = [node]
            while stack:
                for each in self.flow.successors[stack.pop()]:
                    if each not in seen and each != head and (loop < 0 or loop in self.walks.loops_around(each)):
                        seen.add(each)
                        stack.append(each)
            known = self.reach[node, loop] = frozenset(seen)
        return known

    def apart_for_good(self, first: int, second: int) -> Iterator[Pair]:
        """Neither leads to the other: two arms, or two programs."""
        if (first, second, -1, 0) in self.own:
            return
        if (first, second) in self.unplaced:
            yield self.unordered(first, second, -1, None)
        elif (first, second) in self.apart or (second, first) in self.apart:
            yield self.made(Reason.OBJECT, first, second, -1, None)
        elif len(self.flow.entries) == 1 and self.found.conflicts.same_iteration(first, second):
            yield self.made(Reason.ARMS, first, second, -1, None)

    # --- one pair, in one iteration or round one loop ---

    def relation(self, first: int, second: int, loop: int, found: tuple[Meeting, ...]) -> Iterator[Pair]:
        kind = self.facts.kind(first, second)
        if kind is None:
            if found:
                yield self.made(Reason.COMMUTE, first, second, loop, None)
            return
        accesses = self.found.footprints.accesses
        in_any_lane = found
        if lanes_between(accesses[first], accesses[second]) is not Lanes.UNKNOWN:
            in_any_lane = self.in_any_lane.meetings(first, second, loop)
        least = min((each.distance for each in in_any_lane), default=None)
        if not in_any_lane or (loop >= 0 and least is not None and least > 1):
            yield self.disjoint(first, second, loop, least)
        for meeting in found:
            yield from self.hazard(first, second, loop, meeting)
        apart = {each.distance for each in found}
        for meeting in in_any_lane:
            if meeting.pairs & Pairs.OWN and meeting.distance not in apart:
                reason = Reason.ONE_WAVE if self.one_wave(first, second) else Reason.PRIVATE
                until = self.private(meeting, found) if loop >= 0 else None
                yield self.made(reason, first, second, loop, until)

    def private(self, meeting: Meeting, found: tuple[Meeting, ...]) -> tuple[int, int | None]:
        """From a meeting of lanes with themselves up to the next one of two of them; alone, if such come before it."""
        across = [each.distance for each in found]
        later = [each for each in across if each > meeting.distance]
        return meeting.distance, min(later) - 1 if later else meeting.distance if across else None

    def disjoint(self, first: int, second: int, loop: int, least: int | None) -> Pair:
        """They do not meet; or not in the next iterations, before the least distance."""
        several = all(_slots(self.flow.graph, each) for node in (first, second) for each in self.buffers(node))
        reason = Reason.SLOT if several and self.in_other_slots(first, second, loop, least) else Reason.BYTES
        until = (1, least - 1 if least is not None else None) if loop >= 0 else None
        return self.made(reason, first, second, loop, until)

    def in_other_slots(self, first: int, second: int, loop: int, least: int | None) -> bool:
        """Whether the slots alone keep them apart, up to the least distance."""
        met = self.slots.meetings(first, second, loop)
        nearest = min((each.distance for each in met), default=None)
        return nearest is None or (loop >= 0 and least is not None and nearest >= least)

    def hazard(self, first: int, second: int, loop: int, meeting: Meeting) -> Iterator[Pair]:
        hazard = self.as_hazard(first, second, loop, meeting)
        served = self.walks.served_at(hazard)
        at = (meeting.distance, meeting.distance) if loop >= 0 else None
        if key_of(hazard) in self.own:
            return
        if isinstance(served, Walk):
            if (first, second) in self.apart:
                yield self.made(Reason.OBJECT, first, second, loop, at, hazard=hazard)
            else:
                yield self.unordered(first, second, loop, at, hazard)
        else:
            by = tuple(sorted({self.flow.origin[node] for node in served}))
            reason = Reason.DISTANCE if meeting.distance > 1 else Reason.ORDERED
            yield self.made(reason, first, second, loop, at, by=by, hazard=hazard)

    def unordered(
        self,
        first: int,
        second: int,
        loop: int,
        at: tuple[int, int | None] | None,
        hazard: Hazard | None = None,
    ) -> Pair:
        reason = Reason.UNORDERED if self.is_racing(first, second) else Reason.QUIET
        why = self.unplaced.get((first, second), "")
        if self.commuting.kind(first, second) is None:
            why = "atomics that commute"
        return self.made(reason, first, second, loop, at, why=why, hazard=hazard)

    def as_hazard(self, first: int, second: int, loop: int, meeting: Meeting) -> Hazard:
        kind = self.facts.kind(first, second)
        assert kind is not None
        return Hazard(
            kind,
            first,
            second,
            loop,
            meeting.distance,
            self.facts.demand(meeting.pairs, second),
            meeting.pairs,
            self.facts.performed(first, second),
            meeting.rounds,
            meeting.witness,
            meeting.exact,
        )

    def made(
        self,
        reason: Reason,
        first: int,
        second: int,
        loop: int,
        distances: tuple[int, int | None] | None,
        by: tuple[int, ...] = (),
        why: str = "",
        hazard: Hazard | None = None,
    ) -> Pair:
        kind = self.facts.kind(first, second)
        here = self.buffers(second)
        buffer = hazard.witness.buffer if hazard else next((b for b in self.buffers(first) if b in here), here[0])
        return Pair(reason, kind, buffer, first, second, loop, distances, by, why, hazard)

    def buffers(self, node: int) -> list[str]:
        return [place.buffer for place in self.found.footprints.accesses[node].places]

    def one_wave(self, first: int, second: int) -> bool:
        """Whether only one wave, and the same, comes to both."""
        accesses, waves = self.found.footprints.accesses, range(self.flow.graph.waves)
        come = {
            wave
            for node in (first, second)
            for wave in waves
            if all(holds(fact, {WAVE: wave}) for fact in accesses[node].facts if set(names(fact)) == {WAVE})
        }
        return len(come) == 1


def key_of(hazard: Hazard) -> Key:
    return hazard.producer, hazard.consumer, hazard.loop, hazard.distance


def _slots(graph: g.SyncGraph, buffer: str) -> bool:
    return any(each.name == buffer and each.slots > 1 for each in graph.buffers)


def _without_lanes(footprints: Footprints) -> Footprints:
    """Each access as if nothing were known of its lanes, so that a wave also meets itself where they keep apart."""
    accesses = {node: replace(touch, lanes="") for node, touch in footprints.accesses.items()}
    return replace(footprints, accesses=accesses)


def _whole_slots(footprints: Footprints) -> Footprints:
    """Each access as if it touched all of the slot that it starts in."""
    sizes = {buffer.name: buffer.slot_bytes for buffer in footprints.flow.graph.buffers}
    accesses = {node: _whole(touch, sizes) for node, touch in footprints.accesses.items()}
    return replace(footprints, accesses=accesses)


def _whole(touch: Touch, sizes: dict[str, int]) -> Touch:
    bytes_of = {sizes[place.buffer] for place in touch.places}
    if len(bytes_of) != 1:
        return touch
    (size,) = bytes_of
    places = tuple(
        replace(place, start=None if place.start is None else scale(combine("//", place.start, Const(size)), size))
        for place in touch.places
    )
    return replace(touch, shape=Shape(places, (), size), lanes="")
