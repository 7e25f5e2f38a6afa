"""Sizes with which the loops and conditions of a graph show all they do.

Needs   a well-formed graph, and sizes that are fixed, if any
Gives   values of the sizes, smallest first; how often each loop runs with them; what they leave out, in words
Keeps   every answer satisfies the graph's assumptions; sizes are at least 1
        each loop runs 0 times up to two more than the most slots, or as many times as its wait counts, its indices and
        its conditions need, as far as the assumptions allow
        each condition is true and false where it stands, each `select` too
Cost    one question to isl for each combination of trip counts, conditions and remainders, a few hundred at most
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from tidegate.graph import model as g
from tidegate.graph.expressions import expressions_of
from tidegate.index import (
    COND_TYPES,
    INDEX_TYPES,
    WAVE,
    WORKGROUP,
    Binary,
    Compare,
    Cond,
    Const,
    Index,
    Name,
    Not,
    evaluate,
    names,
    show,
    substitute,
    substitute_cond,
    walk,
    why_not_affine,
)
from tidegate.language.points import find_point
from tidegate.simulate.expressions import conditions_of, expressions_in, guards_of, single_meanings
from tidegate.simulate.periods import trips_to_show

# Combinations of trip counts; beyond these, one loop after the other.
MOST_COMBINATIONS = 128
# Trips of a loop, however long it takes its indices to repeat.
MOST_TRIPS = 40
# Remainders of sizes that are combined with trip counts.
MOST_REMAINDERS = 8

Values = dict[str, int]


@dataclass(frozen=True, slots=True)
class Counted:
    """A loop whose trips can be asked for, because sizes, waves and outer counters decide them."""

    name: str
    lower: Index
    upper: Index
    step: int
    most: int
    around: tuple[Cond, ...]
    number: int = -1

    def exactly(self, trips: int) -> list[Cond]:
        def after(count: int) -> Index:
            return Binary("+", self.lower, Const(count * self.step))

        conds: list[Cond] = [*self.around, Compare(">=", after(trips), self.upper)]
        return [*conds, Compare("<", after(trips - 1), self.upper)] if trips else conds

    def trips(self, env: Mapping[str, int]) -> int | None:
        """How often it runs, if these names decide it."""
        if not all(name in env for side in (self.lower, self.upper) for name in names(side)):
            return None
        return max(0, -(-(evaluate(self.upper, env) - evaluate(self.lower, env)) // self.step))


@dataclass(slots=True)
class TripCounts:
    """Finds sizes for one graph. `numbers` are indices that come from outside."""

    graph: g.SyncGraph
    numbers: Sequence[str]
    fixed: Mapping[str, int]
    bounded: list[str] = field(default_factory=list)
    needed: dict[int, int] = field(default_factory=dict)
    names: list[str] = field(init=False)
    meaning: dict[str, Index] = field(init=False)
    guards: list[list[Cond]] = field(init=False)
    always: list[Cond] = field(init=False)

    def __post_init__(self) -> None:
        graph = self.graph
        self.names = [size.name for size in graph.sizes]
        self.meaning, self.guards = single_meanings(graph), guards_of(graph)
        self.always = [cond for cond in graph.where if not why_not_affine(cond)]
        self.always += (Compare(">=", Name(name), Const(1)) for name in self.names)
        self.always += (Compare("==", Name(name), Const(value)) for name, value in self.fixed.items())
        self.always += (Compare(">=", Name(WAVE), Const(0)), Compare("<", Name(WAVE), Const(graph.waves)))
        self.always += (Compare(">=", Name(name), Const(0)) for name in WORKGROUP)
        for name, grid in zip(WORKGROUP, graph.grid, strict=False):
            if not why_not_affine(grid):
                self.always.append(Compare("<", Name(name), grid))

    def sizes(self) -> list[Values]:
        """All that are worth a run, the default ones among them."""
        default = {size.name: self.fixed.get(size.name, size.default) for size in self.graph.sizes}
        if not self.names:
            return [default]
        asked = self.for_trips()
        questions = [*asked, *self.with_others(asked)] if self.depends() else asked
        found = [sizes for conds in questions if (sizes := self.solve(conds)) is not None]
        return list({tuple(each.items()): each for each in (*found, default)}.values())

    def least_sizes(self) -> list[Values]:
        """The default ones, and the least that satisfy all assumptions."""
        default = {size.name: self.fixed.get(size.name, size.default) for size in self.graph.sizes}
        least = self.solve([])
        return [default] if least is None or least == default else [default, least]

    def depends(self) -> bool:
        """Whether anything that a wave does depends on a size."""
        used = {name for expr in expressions_in(self.graph) for name in names(_substitute(expr, self.meaning))}
        return bool(used & set(self.names))

    @property
    def loops(self) -> list[Counted]:
        """Those that some sizes come to: one inside a loop that never runs would leave no sizes for the others."""
        found = [each for each in map(self.counted, range(len(self.graph.loops))) if each is not None]
        return [each for each in found if not each.around or self.solve(each.around) is not None]

    # --- trips ---

    def for_trips(self) -> list[list[Cond]]:
        """Every combination of trip counts where there are few, else one loop after the other, as questions.

        All go as far as any needs: loops that hand slots to each other run as often as each other.
        """
        loops = list({(each.lower, each.upper, each.step): each for each in self.loops}.values())
        if not loops:
            return [[]]
        ways = range(max(each.most for each in loops) + 1)
        if len(ways) ** len(loops) <= MOST_COMBINATIONS:
            combinations = [list(enumerate(way)) for way in product(ways, repeat=len(loops))]
        else:
            combinations = [[(place, trips)] for place in range(len(loops)) for trips in ways]
            self.bounded.append("not every combination of the loops' trip counts")
        asked = [[cond for place, trips in each for cond in loops[place].exactly(trips)] for each in combinations]
        return [*asked, *self.without(loops)]

    def without(self, loops: Sequence[Counted]) -> list[list[Cond]]:
        """Each loop that holds others not run at all: what these ask for holds inside of it only."""
        found = []
        for each in loops:
            others = [other for other in loops if not g.is_inside(self.graph, other.number, each.number)]
            if len(others) + 1 < len(loops):
                found.append(each.exactly(0))
                found += [[*each.exactly(0), *other.exactly(trips)] for other in others for trips in range(other.most)]
        return found

    def with_others(self, asked: Sequence[Sequence[Cond]]) -> list[list[Cond]]:
        """Each of these with each condition and each remainder; and conditions with each other, where they are few."""
        conds = self.conditions()
        single = [[*around, each] for around, cond in conds for each in (cond, Not(cond))]
        single += [[each] for each in self.remainders()]
        found = [[*trips, *each] for trips in asked for each in single]
        if len(found) > MOST_COMBINATIONS:
            self.bounded.append("not every combination of trip counts, conditions and remainders")
            found = [*single, *found[:: -(-len(found) // MOST_COMBINATIONS)]]
        if len(conds) > 1 and 2 ** len(conds) <= MOST_COMBINATIONS:
            signs = product((False, True), repeat=len(conds))
            found += [
                [
                    each
                    for (around, cond), sign in zip(conds, way, strict=True)
                    for each in (*around, cond if sign else Not(cond))
                ]
                for way in signs
            ]
        elif len(conds) > 1:
            self.bounded.append("not every combination of conditions on sizes")
        return found

    def remainders(self) -> list[Cond]:
        """What `N mod 3` in an index or a condition may be."""
        nodes = {node for expr in expressions_in(self.graph) for node in walk(_substitute(expr, self.meaning))}
        wanted: list[Cond] = [
            Compare("==", node, Const(value))
            for node in sorted((node for node in nodes if self.is_remainder(node)), key=show)
            if isinstance(node, Binary) and isinstance(node.right, Const)
            for value in range(node.right.value)
        ]
        if len(wanted) > MOST_REMAINDERS:
            self.bounded.append("not every remainder of the sizes")
        return wanted[:MOST_REMAINDERS]

    def is_remainder(self, node: Index | Cond) -> bool:
        """Whether a node is an affine index of sizes modulo a small constant."""
        match node:
            case Binary("mod", inside, Const(by)):
                used = set(names(inside))
                return 1 < by <= MOST_REMAINDERS and bool(used) and used <= set(self.names) and not why_not_affine(node)
        return False

    def counted(self, number: int) -> Counted | None:
        loop = self.graph.loops[number]
        if not loop.counter or loop.most is not None:
            return None
        lower, upper = substitute(loop.lower, self.meaning), substitute(loop.upper, self.meaning)
        if why_not_affine(lower) or why_not_affine(upper) or not (self.is_known(lower) and self.is_known(upper)):
            return None
        return Counted(
            loop.counter, lower, upper, loop.step, self.trips_needed(number), tuple(self.around(loop.parent)), number
        )

    def trips_needed(self, number: int) -> int:
        """Two more than the most slots, or than what a wait count, an index or a condition in the loop needs."""
        if number not in self.needed:
            self.needed[number] = self._find_needed(number)
        return self.needed[number]

    def _find_needed(self, number: int) -> int:
        own = self.graph.loops[number]
        inside = [point for point in self.graph.points if g.is_inside(self.graph, point.loop, number)]
        shown = max(self._slots(), self._counts(inside), self._indices(own, inside))
        if shown + 2 > MOST_TRIPS and own.most is None:
            name = f"over `{own.counter}`" if own.counter else str(number)
            self.bounded.append(f"loop {name}: {shown} trips are needed to show all it does, {MOST_TRIPS} are run")
        return min(MOST_TRIPS, shown + 2)

    def _slots(self) -> int:
        """A slot of an mbarrier has a parity, which is the same again after two rounds."""
        parities = (2 * each.type.slots for each in self.graph.objects if each.type.kind == "mbarrier")
        return max([1, *parities, *(buffer.slots for buffer in self.graph.buffers)])

    def _counts(self, inside: Sequence[g.Point]) -> int:
        """Trips after which a wait count makes a difference."""
        most = 1
        for point in inside:
            counts = getattr(point.action.op, "counts", ()) if isinstance(point.action, g.Sync) else ()
            for counter, count in counts:
                each = sum(issue.least for other in inside for issue in other.issues if issue.counter == counter)
                most = max(most, -(-count // each)) if each else most
        return most

    def _indices(self, own: g.Loop, inside: Sequence[g.Point]) -> int:
        moving: set[str] = set()
        for point in inside:
            if isinstance(point.action, g.Assign):
                moving.update(name for name, value in point.action.pairs if isinstance(value, INDEX_TYPES))
        test = Compare("<", Name(own.counter), own.upper)
        exprs = [expr for point in inside for expr in expressions_of(point) if expr != test]
        start = own.lower.value if isinstance(own.lower, Const) else 0
        return trips_to_show(exprs, moving, start, own.step)

    # --- conditions ---

    def conditions(self) -> list[tuple[list[Cond], Cond]]:
        """Every condition, of a branch, a `select` or a limit, with what holds where it stands.

        Counters have names of their own in each: one condition may hold in one iteration, and another in another.
        """
        found: dict[Cond, tuple[list[Cond], Cond]] = {}
        for number, point in enumerate(self.graph.points):
            for cond in conditions_of(point):
                plain = substitute_cond(cond, self.meaning)
                if plain in found or why_not_affine(plain) or not self.is_known(plain) or not set(names(plain)):
                    continue
                if point.loop >= 0 and plain == self.test_of(point.loop):
                    continue
                own = {loop.counter: Name(f"{loop.counter}@{len(found)}") for loop in self.graph.loops if loop.counter}
                around = [*self.around(point.loop), *self.guarding(number)]
                renamed = [substitute_cond(each, own) for each in around]
                found[plain] = (renamed, substitute_cond(plain, own))
        return list(found.values())

    def test_of(self, number: int) -> Cond:
        """What a loop asks before each trip."""
        loop = self.graph.loops[number]
        return Compare("<", Name(loop.counter), substitute(loop.upper, self.meaning))

    def guarding(self, number: int) -> list[Cond]:
        """The conditions under which a point is reached, as far as they are known."""
        plain = (substitute_cond(cond, self.meaning) for cond in self.guards[number])
        return [cond for cond in plain if not why_not_affine(cond) and self.is_known(cond)]

    def around(self, loop: int) -> list[Cond]:
        """What holds inside a loop, as far as it is known."""
        conds: list[Cond] = []
        while loop >= 0:
            each = self.graph.loops[loop]
            lower, upper = substitute(each.lower, self.meaning), substitute(each.upper, self.meaning)
            known = each.counter and not (why_not_affine(lower) or why_not_affine(upper))
            if known and self.is_known(lower) and self.is_known(upper):
                conds += (Compare(">=", Name(each.counter), lower), Compare("<", Name(each.counter), upper))
            loop = each.parent
        return conds

    def is_known(self, expr: Index | Cond) -> bool:
        counters = {loop.counter for loop in self.graph.loops}
        known = {*self.names, *self.numbers, *counters, WAVE, *WORKGROUP}
        return all(name in known for name in names(expr))

    def solve(self, conds: Sequence[Cond]) -> Values | None:
        point = find_point([*self.always, *conds], self.names, others=False)
        if not isinstance(point, dict):
            return None
        return {name: point[name] for name in self.names}


def _substitute(expr: Index | Cond, by: Mapping[str, Index]) -> Index | Cond:
    return substitute_cond(expr, by) if isinstance(expr, COND_TYPES) else substitute(expr, by)
