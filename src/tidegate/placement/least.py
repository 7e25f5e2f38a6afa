"""The least weight of barriers that a judge proves.

Needs   hazards, walks, where barriers may stand, a plan that serves all hazards, and a judge of barrier sets
Gives   the cheapest barriers that the judge proves, and a bound below which it proves none
Keeps   a row is certain, or the judge has refused barriers at every place but its own: the bound is a bound even where
        a hazard follows a walk that no run takes. Without stagger more barriers never make a proved set unproved
Cost    proofs, until the judge is tired; none where rows that are certain show that the start is least

A walk goes round a loop as often as a hazard says, through any arm of a branch. Some of these walks no run takes: the
trips of the loop, the slot of an iteration or an earlier condition rules them out. The search asks the integer program
for the cheapest barriers that meet the rows so far, and the judge whether they are enough. If not, hazards that are
left unserved propose a row; where all of those are refused, the judge's own answers make one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.hazards.model import Hazard
from tidegate.placement.anywhere import Chosen, Slots
from tidegate.placement.optimal import Effort, Master, Row, row_of
from tidegate.placement.walks import Walk, Walks

ENOUGH = 1e-9  # weights that differ by less are equal


class Approval(Protocol):
    """Says whether barriers before these points, which drain everything, make the program right."""

    def proves(self, barriers: Mapping[int, int]) -> bool:
        """Whether they do."""
        ...

    @property
    def is_tired(self) -> bool:
        """Whether it has been asked as often as it may be."""
        ...


@dataclass(frozen=True, slots=True)
class Least:
    """`is_least`: no cheaper set is proved. `bound`: none below this weight is."""

    chosen: Chosen
    bound: float
    is_least: bool


def find_least(
    walks: Walks, hazards: Sequence[Hazard], slots: Slots, start: Chosen, judge: Approval, effort: Effort
) -> Least:
    """The cheapest barriers, at most as dear as the start, which serves all hazards."""
    return _Search(walks, hazards, slots, start, judge, effort).run()


class _Search:
    def __init__(
        self, walks: Walks, hazards: Sequence[Hazard], slots: Slots, start: Chosen, judge: Approval, effort: Effort
    ) -> None:
        self.walks, self.hazards, self.slots, self.start = walks, hazards, slots, start
        self.judge, self.effort = judge, effort
        self.master = Master(slots, 1, effort)
        self.doubtful: dict[Row, None] = {}  # rows of which the judge has not been asked
        self.refused: set[Row] = set()
        self.bound = 0.0

    def run(self) -> Least:
        chosen = self.with_rows(Counter())
        if chosen is None:
            return Least(self.start, self.bound, False)
        if self.is_least():
            return Least(self.start, self.slots.cost(self.start)[0], True)
        if not self.judge.proves(dict.fromkeys(self.slots.weight, 1)):
            return Least(self.start, self.bound, False)  # no barriers are enough: nothing can be compared
        while not self.judge.is_tired:
            if self.ask_about_doubtful() or self.learn(chosen):
                chosen = self.with_rows(chosen)
                if chosen is None:
                    break
                if self.is_least():
                    return Least(self.start, self.slots.cost(self.start)[0], True)
            elif not self.judge.is_tired:
                return Least(chosen, self.slots.cost(chosen)[0], True)
        return Least(self.start, self.bound, False)

    def is_least(self) -> bool:
        """Whether the start costs no more than any barriers that meet all rows."""
        return self.bound >= self.slots.cost(self.start)[0] - ENOUGH

    # --- rows ---

    def with_rows(self, chosen: Chosen) -> Chosen | None:
        """The cheapest barriers, when certain rows of the hazards that they leave unserved have been added."""
        while True:
            added = sum(map(self.master.add, self.proposed(chosen)))
            solved = self.master.solve() if self.master.rows else Counter()
            if solved is None:
                return None
            self.bound = self.slots.cost(solved)[0]
            if not added and solved == chosen:
                return chosen
            chosen = solved

    def proposed(self, chosen: Mapping[int, int]) -> list[Row]:
        """Rows that are certain; the others are kept to be asked about."""
        before = self.slots.before(chosen)
        certain = []
        self.doubtful.clear()
        for hazard in self.hazards:
            walk = self.walks.unserved(hazard, before, drained=True)
            if walk is None:
                continue
            row = row_of(self.walks, self.slots, hazard, walk, chosen)
            if self.is_certain(hazard, walk):
                certain.append(row)
            elif row not in self.refused and row not in self.master.rows:
                self.doubtful[row] = None
        return certain

    def is_certain(self, hazard: Hazard, walk: Walk) -> bool:
        """Whether every run that shows the hazard takes this walk, or a wait that stays asks for it."""
        if hazard.performed.is_waited_for:
            return True
        flow = self.walks.flow
        if not hazard.exact or hazard.rounds:
            return False
        inner = flow.loop_of[hazard.consumer]
        if flow.loop_of[hazard.producer] != inner or hazard.loop not in (-1, inner):
            return False
        nodes = (hazard.producer, *walk.nodes[:-1])
        return all(flow.loop_of[node] == inner and self.goes_one_way(node, inner) for node in nodes)

    def goes_one_way(self, node: int, loop: int) -> bool:
        """Whether nothing follows a node but one node of its loop: the loop itself is not left on the way."""
        inside = [each for each in self.walks.flow.successors[node] if loop in self.walks.loops_at[each] or loop < 0]
        return len(inside) == 1

    # --- the judge ---

    def ask_about_doubtful(self) -> int:
        """Asks the judge about rows that are not certain: without a barrier at its places, are all others enough?"""
        added = 0
        for row in list(self.doubtful):
            if self.judge.is_tired:
                break
            del self.doubtful[row]
            places = {point for point, _ in row[0]}
            if self.judge.proves({each: 1 for each in self.slots.weight if each not in places}):
                self.refused.add(row)
            else:
                added += self.master.add((tuple((point, 1) for point in sorted(places)), 1))
        return added

    def learn(self, chosen: Chosen) -> bool:
        """Makes a row of barriers that are not proved; False if they are. The fewest places without which none are."""
        if self.judge.proves(chosen):
            return False
        places = [each for each in sorted(self.slots.weight, key=self.slots.weight.__getitem__) if not chosen[each]]
        size = (len(places) + 1) // 2
        while size and not self.judge.is_tired:
            first = 0
            while first < len(places) and not self.judge.is_tired:
                rest = [*places[:first], *places[first + size :]]
                if self.judge.proves({each: 1 for each in self.slots.weight if each not in rest}):
                    first += size
                else:
                    places = rest
            size = size // 2
        return self.master.add((tuple((each, 1) for each in sorted(places)), 1))
