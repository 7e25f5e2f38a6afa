"""The least weight of barriers on any graph, with the bound that proves it.

Needs   hazards, walks, where barriers may stand and what they cost, a plan to start from
Gives   how many barriers to put before which point, their weight, and a bound below which no plan is
Keeps   the bound holds whatever is found; when it equals the weight, the plan is optimal
Cost    an integer program each round (HiGHS); a round adds, for every hazard that the last solution leaves unserved on
        some walk, the cut that this walk asks for: the barriers on it, as often as it passes them, must be enough
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.hazards.model import Hazard
from tidegate.placement.anywhere import Chosen, Slots
from tidegate.placement.walks import Walk, Walks

TIME_LIMIT = 20.0  # seconds
Row = tuple[tuple[tuple[int, int], ...], int]  # points with how often they are passed, and how many barriers it takes


@dataclass(frozen=True, slots=True)
class Optimum:
    chosen: Chosen
    weight: float
    bound: float
    rounds: int
    cuts: int
    proven: bool
    judged: bool = False  # whether the bound holds for whatever can be proved, not for what serves the hazards alone


@dataclass(frozen=True, slots=True)
class Effort:
    """How far to look: for some seconds, where a user has asked for them, else by numbers that no clock decides."""

    seconds: float = float("inf")
    rounds: float = float("inf")
    nodes: int | None = None  # of the search in each round


def place_optimally(
    walks: Walks, hazards: Sequence[Hazard], slots: Slots, start: Chosen, effort: Effort | None = None
) -> Optimum:
    return _Program(walks, hazards, slots, start, effort or Effort(TIME_LIMIT)).solve()


class Master:
    """The integer program: rows that every plan has to meet, and the cheapest barriers that meet them."""

    def __init__(self, slots: Slots, most: int, effort: Effort) -> None:
        self.slots, self.most = slots, most
        self.ends = time.monotonic() + effort.seconds
        self.columns: dict[int, int] = {}  # point → column
        self.told = 0  # columns that the solver knows
        self.rows: dict[Row, None] = {}
        self.told_rows = 0
        self.solver = _new_solver(effort)
        positive = [weight for weight in slots.weight.values() if weight > 0]
        # Of equal weights the fewest barriers: a share of the least weight that all of them together cannot reach.
        self.tie = min(positive, default=1.0) / (1000 * (len(slots.weight) + 1))

    def add(self, row: Row) -> bool:
        """Adds a row; whether it is new."""
        if row in self.rows:
            return False
        self.rows[row] = None
        for point, _ in row[0]:
            self.columns.setdefault(point, len(self.columns))
        return True

    def tell(self) -> None:
        """Tells the solver what is new: columns all at once, since each call takes as long as a search."""
        import highspy

        points = list(self.columns)[self.told :]
        if points:
            count, numbers = len(points), list(range(self.told, len(self.columns)))
            self.solver.addVars(count, [0.0] * count, [float(self.most)] * count)
            self.solver.changeColsCost(count, numbers, [self.slots.weight[each] + self.tie for each in points])
            self.solver.changeColsIntegrality(count, numbers, [int(highspy.HighsVarType.kInteger)] * count)
        for passed, least in list(self.rows)[self.told_rows :]:
            places = [self.columns[point] for point, _ in passed]
            self.solver.addRow(least, 1e30, len(places), places, [float(count) for _, count in passed])
        self.told, self.told_rows = len(self.columns), len(self.rows)

    def solve(self) -> Chosen | None:
        """The cheapest barriers for the rows so far; None if there was no time, or the rows exclude each other."""
        import highspy

        left = self.ends - time.monotonic()
        if left <= 0:
            return None
        self.tell()
        if left != float("inf"):
            self.solver.setOptionValue("time_limit", self.solver.getRunTime() + left)
        self.solver.run()
        if self.solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        values = self.solver.getSolution().col_value
        return +Counter({point: round(values[column]) for point, column in self.columns.items()})


def row_of(walks: Walks, slots: Slots, hazard: Hazard, walk: Walk, chosen: Mapping[int, int]) -> Row:
    """What a walk on which a hazard is not served asks for, beside what stands in the program."""
    behind = walk.where_it_helps(hazard)
    passed = Counter(point for node in behind if (point := walks.flow.origin[node]) in slots.weight)
    stands = walk.met - sum(chosen.get(point, 0) * count for point, count in passed.items())
    return tuple(sorted(passed.items())), hazard.demand - stands


class _Program:
    def __init__(self, walks: Walks, hazards: Sequence[Hazard], slots: Slots, start: Chosen, effort: Effort) -> None:
        self.walks, self.hazards, self.slots, self.start = walks, hazards, slots, start
        self.effort = effort
        self.master = Master(slots, max((each.demand for each in hazards), default=1), effort)

    def solve(self) -> Optimum:
        bound, rounds = 0.0, 0
        chosen: Chosen = Counter()
        while True:
            if not self.cuts(chosen):
                return self.found(chosen, None, rounds)
            rounds += 1
            solved = self.master.solve() if rounds <= self.effort.rounds else None
            if solved is None:
                return self.found(self.start, bound, rounds)
            chosen, bound = solved, self.slots.cost(solved)[0]

    def found(self, chosen: Chosen, bound: float | None, rounds: int) -> Optimum:
        weight = self.slots.cost(chosen)[0]
        proven = bound is None or bound >= weight - 1e-9
        cuts = len(self.master.rows)
        return Optimum(chosen, weight, weight if proven else max(0.0, bound or 0.0), rounds, cuts, proven)

    def cuts(self, chosen: Mapping[int, int]) -> int:
        """Adds a row for each hazard that is not served; how many."""
        before = self.slots.before(chosen)
        added = 0
        for hazard in self.hazards:
            walk = self.walks.unserved(hazard, before, drained=True)
            if walk is not None:
                added += self.master.add(row_of(self.walks, self.slots, hazard, walk, chosen))
        return added


def _new_solver(effort: Effort) -> Any:
    import highspy

    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.setOptionValue("mip_abs_gap", 1e-9)
    solver.setOptionValue("threads", 1)
    if effort.nodes is not None:
        solver.setOptionValue("mip_max_nodes", effort.nodes)
    return solver
