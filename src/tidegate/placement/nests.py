"""The fewest barriers for nested regions, by difference constraints.

Needs   regions, hazards with their demands, the places where barriers may stand
Gives   how many barriers to put before which node, or None if no number of them is enough
Keeps   every walk of every hazard meets as many barriers as it demands. Least weight on straight lines, on single loops
        for any demands, distances and existing barriers; on nests without branches whose hazards demand one barrier
        each and whose loops run at least twice
Cost    for each level of nesting a few sweeps over its hazards (bench: sync-speed)

Let P(t) be the number of barriers in the text before node t. Between two places of the text a walk meets
P(q) - P(p) of them, less those in what it skips: arms not taken, loops that may run zero times. Once it is known how
many barriers each inner region holds, what is skipped is a number, and every demand is a difference constraint:

    P(q) - P(p) >= demand + skipped                                         within an iteration
    P(q) - P(p) >= demand + skipped - K - (distance - 1) * least per round  round a loop whose body holds K

Regions are solved from the inside out, each with the least K that leaves a solution. A weight depends on the numbers
K alone, and another barrier in an inner loop that runs twice costs no less than one before and one behind it, so the
least K from the inside out is the least weight (Darte and Schreiber 2005). Solutions are the least ones: barriers stand
before consumers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from tidegate.hazards.model import Hazard
from tidegate.hazards.regions import Region, Regions

Constraint = tuple[int, int, int]  # (j, i, c): V[j] >= V[i] + c


@dataclass(slots=True)
class _Window:
    """A hazard as a constraint. `fixed` is what does not depend on the number of barriers in its loop."""

    end: int
    start: int
    fixed: int
    loop: int = -1  # the region of the loop that carries it
    rounds: int = 0  # times round beyond the first


@dataclass(slots=True)
class _Solved:
    """What is known of a region: barriers in its text, and how many of them a walk through it may miss."""

    holds: int = 0
    skipped: int = 0
    starts: list[int] = field(default_factory=list)  # of the things in it that can be skipped, in text order
    ends: list[int] = field(default_factory=list)
    total: list[int] = field(default_factory=list)  # what is skipped up to and including each


def place_in_nest(
    regions: Regions, hazards: Sequence[Hazard], slots: Sequence[int], existing: Mapping[int, int]
) -> dict[int, int] | None:
    """Barriers before nodes. `slots` are nodes before which one may stand; `existing` arrivals at nodes."""
    place = regions.place
    if any(each.loop < 0 and place[each.consumer] < place[each.producer] for each in hazards):
        return None  # out of a loop, through an arm that ends the wave: round it first
    return _Nest(regions, hazards, slots, existing).solve()


class _Nest:
    def __init__(
        self, regions: Regions, hazards: Sequence[Hazard], slots: Sequence[int], existing: Mapping[int, int]
    ) -> None:
        self.regions = regions
        place = regions.place
        self.slots = sorted(place[node] for node in slots)
        self.arrivals = [0]
        for node in regions.text:
            self.arrivals.append(self.arrivals[-1] + existing.get(node, 0))
        self.solved: dict[int, _Solved] = {}
        self.inserted: dict[int, int] = {}  # region → barriers that are put into it
        self.body_of = {each.loop: each.number for each in regions.regions if each.loop >= 0}
        self.arms: dict[int, list[int]] = {}
        for each in regions.regions:
            if each.branch >= 0:
                self.arms.setdefault(each.branch, []).append(each.number)
        self.at: dict[int, list[Hazard]] = {}
        for hazard in hazards:
            self.at.setdefault(self._region_of(hazard), []).append(hazard)
        self.windows: dict[int, list[_Window]] = {}
        self.most = 2 + sum(each.demand for each in hazards) + self.arrivals[-1]

    def _region_of(self, hazard: Hazard) -> int:
        """The region that decides a hazard: its loop's body, or the innermost that holds both ends."""
        if hazard.loop >= 0:
            return self.body_of[hazard.loop]
        of = self.regions.region_of
        return self.regions.meet(of[hazard.producer], of[hazard.consumer])[0]

    def solve(self) -> dict[int, int] | None:
        values: list[int] | None = None
        for region in sorted(self.regions.regions, key=lambda each: (-self.regions.depth[each.number], each.number)):
            values = self.solve_region(region)
            if values is None:
                return None
        assert values is not None
        found: dict[int, int] = {}
        before = 0
        for position, value in zip(self.positions, values, strict=True):
            if value > before:
                found[self.regions.text[self.slots[position - 1]]] = value - before
            before = value
        return found

    # --- one region ---

    def solve_region(self, region: Region) -> list[int] | None:
        number = region.number
        mine = [self.window(hazard, region) for hazard in self.at.get(number, ())]
        self.windows[number] = mine + [each for child in region.children for each in self.windows.pop(child)]
        inside = self.regions.inside(number)
        first, last = self.index(region.first - 1), self.index(region.last - 1)
        needed = {first, last}
        needed.update(each.end for each in self.windows[number])
        needed.update(self.index(each.first - 1) for each in inside)
        needed.update(self.index(each.last - 1) for each in inside)
        self.positions = sorted(each for each in needed if first <= each <= last)
        values = self.least(region, inside)
        if values is None:
            return None
        count = values[-1]
        self.inserted[number] = count
        self.settle(region, count)
        return values

    def least(self, region: Region, inside: list[Region]) -> list[int] | None:
        """The least solution with the least number of barriers in the region."""
        carried = [each for each in self.windows[region.number] if each.loop == region.number]
        plain = self.relax(self.constraints(region, inside, ()), self.most)
        if plain is None or not carried:
            return plain
        low = plain[-1]
        found: list[int] | None = None
        step = 1
        while found is None:  # the least number grows from what is needed without going round
            if low > self.most:
                return None
            found = self.with_count(region, inside, carried, low)
            if found is None:
                low, step = low + step, step * 2
        # Beyond the first doubling the least number may lie between.
        below = low - step // 2 if step > 1 else low
        while below < low:
            middle = (below + low) // 2
            tried = self.with_count(region, inside, carried, middle)
            if tried is None:
                below = middle + 1
            else:
                low, found = middle, tried
        return found

    def with_count(self, region: Region, inside: list[Region], carried: list[_Window], count: int) -> list[int] | None:
        values = self.relax(self.constraints(region, inside, carried, count), count)
        if values is None:
            return None
        values[-1] = count  # the rest, if any, stands at the end of the body
        return values

    def constraints(
        self, region: Region, inside: list[Region], carried: Sequence[_Window], count: int = 0
    ) -> list[Constraint]:
        windows = (each for each in self.windows[region.number] if each.loop != region.number)
        found: list[Constraint] = [(each.end, each.start, each.fixed) for each in windows]
        holds = count + self.existing(region)
        through = holds - self.skipped_in(region)
        found += [(each.end, each.start, each.fixed - holds - each.rounds * through) for each in carried]
        for inner in inside:
            start, end = self.index(inner.first - 1), self.index(inner.last - 1)
            if start != end:
                found.append((start, end, -self.inserted[inner.number]))
                found.append((end, start, self.inserted[inner.number]))
        return found

    def relax(self, constraints: list[Constraint], most: int) -> list[int] | None:
        """The least values that satisfy everything, from 0 up to `most`; None if there are none."""
        at = {position: place for place, position in enumerate(self.positions)}
        into: list[list[tuple[int, int]]] = [[] for _ in self.positions]
        for end, start, amount in constraints:
            j, i = at[end], bisect_right(self.positions, start) - 1
            if i != j:
                into[j].append((i, amount))
            elif amount > 0:
                return None
        values = [0] * len(into)
        changed = True
        while changed:
            changed = False
            running = 0
            for place, sources in enumerate(into):
                value = max(values[place], running)
                for i, amount in sources:
                    value = max(value, values[i] + amount)
                if value > most:
                    return None
                if value != values[place]:
                    values[place] = value
                    changed = True
                running = value
            if values[0] > 0:
                return None
        return values

    # --- what walks skip ---

    def window(self, hazard: Hazard, region: Region) -> _Window:
        """A hazard as a constraint on the places of its ends."""
        place, of = self.regions.place, self.regions.region_of
        p, q = place[hazard.producer], place[hazard.consumer]
        start, end = self.index(p), self.index(q)
        carried = hazard.loop >= 0
        after, before = self.after(p, of[hazard.producer], region), self.before(q, of[hazard.consumer], region)
        if carried:
            skipped = after[0] + before[0]
        else:
            skipped = after[0] + before[0] + self.between(region, after[1], before[1])
        fixed = hazard.demand + skipped - (self.arrivals[q] - self.arrivals[p])
        for loop, rounds in hazard.rounds:
            fixed -= rounds * self.through(self.body_of[loop])
        if not carried:
            return _Window(end, start, fixed)
        skipped_ends = self.between(region, after[1], region.last) + self.between(region, region.first, before[1])
        return _Window(end, start, fixed + skipped_ends, region.number, hazard.distance - 1)

    def after(self, place: int, number: int, top: Region) -> tuple[int, int]:
        """What a walk from a place skips until it is back in a region's own sequence, and where it is then."""
        skipped = 0
        while number != top.number:
            region = self.regions.regions[number]
            skipped += self.between(region, place, region.last)
            place = region.last
            if region.branch >= 0:
                arms = self.arms[region.branch]
                skipped += sum(self.solved[each].holds for each in arms if each > number)
                place = self.regions.regions[arms[-1]].last
            number = region.parent
        return skipped, place

    def before(self, place: int, number: int, top: Region) -> tuple[int, int]:
        """What a walk to a place skips since it left a region's own sequence, and where that was."""
        skipped = 0
        while number != top.number:
            region = self.regions.regions[number]
            skipped += self.between(region, region.first, place)
            place = region.first
            if region.branch >= 0:
                arms = self.arms[region.branch]
                skipped += sum(self.solved[each].holds for each in arms if each < number)
                place = self.regions.regions[arms[0]].first
            number = region.parent
        return skipped, place

    def between(self, region: Region, start: int, end: int) -> int:
        """What is skipped of the things in a region that lie between two places of its text."""
        solved = self.solved.get(region.number) or self.prepare(region)
        low, high = bisect_left(solved.starts, start), bisect_right(solved.ends, end)
        if high <= low:
            return 0
        return solved.total[high - 1] - (solved.total[low - 1] if low else 0)

    def prepare(self, region: Region) -> _Solved:
        """What can be skipped in a region, once everything in it is solved."""
        solved = self.solved[region.number] = _Solved()
        branches: dict[int, list[int]] = {}
        for child in region.children:
            inner = self.regions.regions[child]
            if inner.loop < 0:
                branches.setdefault(inner.branch, []).append(child)
                continue
            known = self.solved[child]
            self.add(
                solved, inner.first, inner.last, known.holds if self.regions.may_run_never(inner) else known.skipped
            )
        for arms in branches.values():
            through = [self.through(each) for each in arms if not self.regions.regions[each].ends]
            missed = sum(self.solved[each].holds for each in arms) - min(through, default=0)
            first, last = self.regions.regions[arms[0]].first, self.regions.regions[arms[-1]].last
            self.add(solved, first, last, missed)
        things = sorted(zip(solved.starts, solved.ends, solved.total, strict=True))
        solved.starts = [start for start, _, _ in things]
        solved.ends = [end for _, end, _ in things]
        solved.total = list(accumulate(missed for _, _, missed in things))
        return solved

    @staticmethod
    def add(solved: _Solved, first: int, last: int, missed: int) -> None:
        if missed:
            solved.starts.append(first)
            solved.ends.append(last)
            solved.total.append(missed)

    def settle(self, region: Region, inserted: int) -> None:
        solved = self.solved.get(region.number) or self.prepare(region)
        solved.holds = inserted + self.existing(region)
        solved.skipped = solved.total[-1] if solved.total else 0
        for window in self.windows[region.number]:
            if window.loop == region.number:  # what goes round is a number from here on
                window.fixed -= solved.holds + window.rounds * (solved.holds - solved.skipped)
                window.loop = -1

    def skipped_in(self, region: Region) -> int:
        solved = self.solved.get(region.number) or self.prepare(region)
        return solved.total[-1] if solved.total else 0

    def through(self, number: int) -> int:
        return self.solved[number].holds - self.solved[number].skipped

    # --- places ---

    def index(self, place: int) -> int:
        """The number of slots up to a place of the text."""
        return bisect_right(self.slots, place)

    def existing(self, region: Region) -> int:
        return self.arrivals[region.last] - self.arrivals[region.first]
