"""What one wave has in flight, and what a wait is sure to find performed.

Needs   the accesses of one wave in issue order, groups as they are closed, and the target's counters
Gives   for a drain, the accesses that have been performed when the wave goes on; of the copies that its counts leave in
        flight, the largest count that would not have
Keeps   only what is certain: an operation counts the instructions that it is certain to issue, which may be none, and
        a count above 0 says nothing while something on its counter may complete out of turn
Cost    linear in what is in flight

This is the worst of all choices at once. An instruction that may be issued or not can only make a wait stricter where
it completes in its turn: with it more is younger than a copy. Where it completes out of turn it makes counts void, so
that it is taken to be in flight. Its bytes are touched in any case.

`vmcnt(2)` leaves the two newest instructions in flight. `group(1)` leaves the newest group; what is in no group yet is
not touched by a count.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field

from tidegate.simulate.steps import Drain, Touch
from tidegate.targets import Target


@dataclass(frozen=True, slots=True)
class Rules:
    """The facts of a target that decide when accesses are performed."""

    counters: dict[str, tuple[str, bool, int]]  # name → unit, in order, the largest count that says anything
    lds_counters: tuple[str, ...]
    arrival_performs: bool
    fenced: frozenset[str]  # effects of generic accesses behind which the async proxy needs a fence
    wave_end_leaves: bool
    in_issue_order: bool  # whether ordinary accesses of one wave are performed in the order of issue
    has_lane_fence: bool
    lane_fence_performs: bool  # ordinary accesses, for the lanes of the wave
    waits_meet_lanes: bool

    @property
    def group_counters(self) -> tuple[str, ...]:
        return tuple(name for name, (unit, _, _) in self.counters.items() if unit == "groups")


def rules_of(target: Target) -> Rules:
    counters = {name: (each.unit, each.in_order, each.largest) for name, each in target.counters.items()}
    return Rules(
        counters,
        target.lds_counters,
        target.barrier.performs == "ordinary",
        target.fenced,
        target.barrier.wave_end == "leaves",
        target.lds.in_order,
        "wave" in target.fence.kinds,
        target.fence.wave_performs == "ordinary",
        target.fence.waits,
    )


@dataclass(frozen=True, slots=True)
class Left:
    """A counted wait, by its statement, that left a copy in flight; at most `safe` would have performed it.

    None: no count would, since the copy is in no group yet. `doubtful`: a statement behind the copy whose instructions
    may not be issued on the counter, so that the count cannot rely on them; -1 if there is none.
    """

    where: int
    counter: str
    count: int
    safe: int | None
    doubtful: int = -1


@dataclass(slots=True)
class InFlight:
    """The accesses of one wave that need not be performed yet, by number, in issue order."""

    rules: Rules
    touches: dict[int, Touch] = field(default_factory=dict)
    open_group: dict[str, list[int]] = field(default_factory=dict)
    groups: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)

    def copy(self) -> InFlight:
        return InFlight(
            self.rules,
            dict(self.touches),
            {name: list(each) for name, each in self.open_group.items()},
            {name: list(each) for name, each in self.groups.items()},
        )

    def issue(self, number: int, touch: Touch) -> None:
        if touch.region is None and not self._matters(touch):
            return
        self.touches[number] = touch
        for queue in touch.queues:
            if self._counts_groups(queue.counter):
                self.open_group.setdefault(queue.counter, []).append(number)

    def _matters(self, touch: Touch) -> bool:
        """Whether an operation that touches no shared memory counts: only behind one that does, or out of turn."""
        return any(
            not queue.in_order or any(self.touches[n].region is not None for n in self._on(queue.counter))
            for queue in touch.queues
        )

    def commit(self, counters: Container[str]) -> None:
        for name in self.rules.group_counters:
            if name not in counters:
                continue
            closed = self.groups.setdefault(name, [])
            closed.append(tuple(self.open_group.pop(name, ())))
            while closed and not any(number in self.touches for number in closed[0]):
                closed.pop(0)

    def perform(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.touches.pop(number, None)

    # --- what is certain ---

    def ordinary(self) -> list[int]:
        return [number for number, touch in self.touches.items() if not touch.is_async and touch.region is not None]

    def at_end(self) -> list[int]:
        """Everything, except copies that nobody can wait for but at the barrier that they report to."""
        return [n for n, touch in self.touches.items() if touch.can_wait or touch.reports is None]

    def drained(self, drain: Drain) -> list[int]:
        """What a drain performs, in issue order."""
        found: set[int] = set()
        if drain.ordinary:
            found.update(self.ordinary())
            for name in self.rules.lds_counters:
                found.update(self._counted(name, 0))
        if drain.every_copy:
            found.update(n for n, touch in self.touches.items() if touch.is_async and touch.can_wait)
        for name, count in drain.counts:
            found.update(self._counted(name, count))
        for number in drain.copies:
            found.update(self._upto(number))
        return sorted(found)

    def holds_lanes(self, drain: Drain) -> bool:
        """Whether the lanes of a wave meet at a wait. For nothing, or for copies that have landed, none is issued."""
        known = self.rules.counters
        held = any(name in known and count <= known[name][2] for name, count in drain.counts)
        held = held or any(number in self.touches for number in drain.copies)
        return self.rules.waits_meet_lanes and drain.all_lanes and held

    def left(self, drain: Drain) -> Iterator[tuple[int, Left]]:
        """The copies that are still in flight after a drain with a count on their counter."""
        for name, count in drain.counts:
            if name not in self.rules.counters:
                continue
            unit, in_order, most = self.rules.counters[name]
            certain = in_order and self._in_turn(name)
            for number, newer in self._newer_groups(name) if unit == "groups" else self._newer(name):
                if self.touches[number].is_async:
                    safe = None if newer is None else min(newer, most) if certain else 0
                    doubtful = self._doubtful(name, number) if certain and safe is not None else -1
                    yield number, Left(drain.where, name, count, safe, doubtful)

    def _doubtful(self, name: str, number: int) -> int:
        """The first statement behind a copy that may be on its counter, or not."""
        for other, touch in self.touches.items():
            if other > number and any(each.counter == name and each.is_doubtful for each in touch.queues):
                return touch.where
        return -1

    def _newer(self, name: str) -> Iterator[tuple[int, int]]:
        """What is in flight on a counter, the newest first, with how many instructions are newer."""
        newer = 0
        for number, touch in reversed(self.touches.items()):
            for queue in touch.queues:
                if queue.counter == name:
                    yield number, newer
                    newer += queue.least

    def _newer_groups(self, name: str) -> Iterator[tuple[int, int | None]]:
        """The same for groups; None for what is in none yet."""
        for newer, group in enumerate(reversed(self.groups.get(name, []))):
            yield from ((number, newer) for number in group if number in self.touches)
        yield from ((number, None) for number in self.open_group.get(name, ()) if number in self.touches)

    def _counted(self, name: str, count: int) -> list[int]:
        """What is performed when no more than `count` are in flight on a counter."""
        if name not in self.rules.counters:
            return []
        unit, in_order, most = self.rules.counters[name]
        if count > most or (count and not (in_order and self._in_turn(name))):
            return []
        if unit == "groups":
            closed = self.groups.get(name, [])
            return [n for group in closed[: max(0, len(closed) - count)] for n in group if n in self.touches]
        return [number for number, newer in self._newer(name) if newer >= count]

    def _upto(self, number: int) -> list[int]:
        """A copy, and what completes before it on the same counter."""
        touch = self.touches.get(number)
        if touch is None or not touch.can_wait:
            return []
        found = [number]
        for queue in touch.queues:
            _, in_order, _ = self.rules.counters.get(queue.counter, ("", False, 0))
            if not in_order or not self._in_turn(queue.counter):
                continue
            if not self._counts_groups(queue.counter):
                found += [n for n in self._on(queue.counter) if n < number]
                continue
            for group in self._until_group(queue.counter, number):
                found += [n for n in group if n in self.touches]
        return found

    def _until_group(self, name: str, number: int) -> list[tuple[int, ...]]:
        """The groups before the one with this copy; none if it is in no group yet."""
        closed = self.groups.get(name, [])
        return next((closed[:place] for place, group in enumerate(closed) if number in group), [])

    def _on(self, name: str) -> list[int]:
        return [n for n, touch in self.touches.items() if any(queue.counter == name for queue in touch.queues)]

    def _in_turn(self, name: str) -> bool:
        """Whether all that may be in flight on a counter completes in its turn."""
        return all(
            queue.in_order and (self.rules.in_issue_order or touch.is_async or touch.region is None)
            for touch in self.touches.values()
            for queue in touch.queues
            if queue.counter == name
        )

    def _counts_groups(self, name: str) -> bool:
        return self.rules.counters.get(name, ("", False, 0))[0] == "groups"
