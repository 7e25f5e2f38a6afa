"""Which sizes, flags and workgroups a graph is run with, so that its loops and conditions show all they do.

Needs   a well-formed graph
Gives   configurations, smallest first, and in words what they cover and what they leave out
Keeps   every configuration satisfies the graph's assumptions
        each loop runs 0 times up to two more than the most slots, or as many times as its wait counts, its indices and
        its conditions need, as far as the assumptions allow
        each condition is true and false where it stands, each `select` too; each flag is set and not
Cost    one question to isl for each combination of trip counts, and two for each condition
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from tidegate.graph import model as g
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
from tidegate.language.types import FLAG
from tidegate.simulate.expressions import (
    assigned_names,
    conditions_of,
    differing_names,
    expressions_in,
    expressions_of,
    guards_of,
    single_meanings,
    steering_names,
    unknown_names,
)
from tidegate.simulate.periods import trips_to_show

# Beyond these, configurations are drawn at random.
MOST_COMBINATIONS = 128
MOST_CONFIGURATIONS = 192
MOST_WORKGROUPS = 8
# Trips of a loop, however long it takes its indices to repeat.
MOST_TRIPS = 40
# Remainders of sizes that are combined with trip counts.
MOST_REMAINDERS = 8
# Values that a number from outside, or one that nobody knows, is tried with beside those around its comparisons.
USUAL = (0, 1, 2, 5)


@dataclass(frozen=True, slots=True)
class Configuration:
    """Values for every size, every free name, and the workgroup."""

    env: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        """Without the workgroup where it is the first."""
        shown = [f"{name} = {value}" for name, value in self.env if name not in WORKGROUP or value]
        return ", ".join(shown)


@dataclass(slots=True)
class Configurations:
    """What to run, and what that covers and leaves out, in words."""

    runs: list[Configuration]
    covered: list[str] = field(default_factory=list)
    bounded: list[str] = field(default_factory=list)
    candidates: dict[str, tuple[int, ...]] = field(default_factory=dict)
    differ: frozenset[str] = frozenset()
    most_trips: int = 4


def find_configurations(graph: g.SyncGraph, seed: int = 0) -> Configurations:
    return _Finder(graph, random.Random(seed)).find()


class _Finder:
    def __init__(self, graph: g.SyncGraph, rng: random.Random) -> None:
        self.graph, self.rng = graph, rng
        self.meaning = single_meanings(graph)
        self.sizes = [size.name for size in graph.sizes]
        assigned = assigned_names(graph)
        self.flags = [v.name for v in graph.free if v.type == FLAG and v.name not in assigned]
        self.numbers = [v.name for v in graph.free if v.type != FLAG and v.name not in assigned]
        positive = [Compare(">=", Name(name), Const(1)) for name in self.sizes]
        waves = [Compare(">=", Name(WAVE), Const(0)), Compare("<", Name(WAVE), Const(graph.waves))]
        groups = [Compare(">=", Name(name), Const(0)) for name in WORKGROUP]
        groups += [
            Compare("<", Name(name), grid)
            for name, grid in zip(WORKGROUP, graph.grid, strict=False)
            if not why_not_affine(grid)
        ]
        assumed = [cond for cond in graph.where if not why_not_affine(cond)]
        self.always: list[Cond] = [*assumed, *positive, *waves, *groups]
        self.guards = guards_of(graph)
        self.needed: dict[int, int] = {}
        self.remainders: list[tuple[Cond, ...]] | None = None
        self.found = Configurations([])

    def find(self) -> Configurations:
        self.found.most_trips = max((self.trips_needed(each) for each in range(len(self.graph.loops))), default=4)
        sizes = self.all_sizes()
        flags = self.all_flags()
        numbers = self.all_numbers()
        runs = [
            Configuration(tuple({**size, **number, **flag, **group}.items()))
            for size in sizes
            for number in numbers
            for flag in flags
            for group in self.workgroups(size)
        ]
        if len(runs) > MOST_CONFIGURATIONS:
            kept = self.rng.sample(runs[1:], MOST_CONFIGURATIONS - 1)
            self.found.bounded.append(f"{MOST_CONFIGURATIONS} of {len(runs)} configurations, at random")
            runs = [runs[0], *kept]
        self.found.runs = runs
        steering = steering_names(self.graph)
        self.found.candidates = {name: self.values_for(name) for name in unknown_names(self.graph) if name in steering}
        self.found.differ = differing_names(self.graph)
        return self.found

    # --- sizes ---

    def all_sizes(self) -> list[dict[str, int]]:
        default = {size.name: size.default for size in self.graph.sizes}
        loops = [each for each in map(self.counted, range(len(self.graph.loops))) if each is not None]
        found: list[dict[str, int]] = []
        if loops and self.sizes:
            found += self.sizes_for_trips(loops)
        if self.sizes:
            found += self.sizes_for_conditions()
        found = list({tuple(each.items()): each for each in (*found, default)}.values())
        self.say_trips(loops, found)
        for loop in self.graph.loops:
            if loop.counter and loop.most is not None:
                self.found.covered.append(f"loop over `{loop.counter}`: {loop.most} trips")
        return found

    def sizes_for_trips(self, loops: Sequence[_Counted]) -> list[dict[str, int]]:
        """Every combination of trip counts where there are few, else one loop after the other.

        All go as far as any needs: loops that hand slots to each other run as often as each other.
        """
        ways = [range(max(each.most for each in loops) + 1) for _ in loops]
        total = 1
        for way in ways:
            total *= len(way)
        found: list[dict[str, int]] = []
        if total <= MOST_COMBINATIONS:
            combinations = [list(enumerate(way)) for way in product(*ways)]
        else:
            combinations = [[(place, trips)] for place, way in enumerate(ways) for trips in way]
            self.found.bounded.append("trip counts of different loops not in every combination")
        for combination in combinations:
            conds = [cond for place, trips in combination for cond in loops[place].exactly(trips)]
            for more in ((), *self.residues()):
                if len(found) < MOST_COMBINATIONS:
                    sizes = self.solve([*conds, *more])
                    found += [sizes] if sizes is not None else []
        return found

    def residues(self) -> list[tuple[Cond, ...]]:
        """What `N mod 3` in an index or a condition may be: the same trips come with different remainders."""
        if self.remainders is None:
            nodes = {node for expr in expressions_in(self.graph) for node in walk(substitute_any(expr, self.meaning))}
            mods = sorted((node for node in nodes if _is_remainder(node, self.sizes)), key=show)
            found: list[tuple[Cond, ...]] = [
                (Compare("==", node, Const(value)),)
                for node in mods
                if isinstance(node, Binary) and isinstance(node.right, Const)
                for value in range(node.right.value)
            ]
            self.remainders = found[:MOST_REMAINDERS]
        return self.remainders

    def sizes_for_conditions(self) -> list[dict[str, int]]:
        """For every condition, of a branch or a `select`, sizes with which it is true where it stands, and false."""
        found = []
        for number, point in enumerate(self.graph.points):
            for cond in conditions_of(point):
                plain = substitute_cond(cond, self.meaning)
                if why_not_affine(plain) or not self.is_known(plain):
                    continue
                around = [*self.around(point.loop), *self.around_in(number)]
                for wanted in (plain, Not(plain)):
                    sizes = self.solve([*around, wanted])
                    if sizes is not None:
                        found.append(sizes)
        return found

    def around_in(self, number: int) -> list[Cond]:
        """The conditions under which a point is reached, as far as they are known."""
        plain = (substitute_cond(cond, self.meaning) for cond in self.guards[number])
        return [cond for cond in plain if not why_not_affine(cond) and self.is_known(cond)]

    def say_trips(self, loops: Sequence[_Counted], sizes: Sequence[dict[str, int]]) -> None:
        """How often each loop runs in these configurations."""
        for loop in loops:
            numbers: set[int] = set()
            for size in sizes:
                for wave, group in product(range(self.graph.waves), self.workgroups(size)):
                    env = {**size, WAVE: wave, **group, **dict.fromkeys(self.numbers, 0)}
                    if all(name in env for side in (loop.lower, loop.upper) for name in names(side)):
                        numbers.add(count_trips_of(loop, env))
            if numbers:
                self.found.covered.append(f"loop over `{loop.name}`: {_spans(numbers)} trips")
            else:
                self.found.covered.append(f"loop over `{loop.name}`: up to {loop.most} trips")
        if loops and self.sizes:
            self.found.bounded.append("no more trips than that")

    def solve(self, conds: Sequence[Cond]) -> dict[str, int] | None:
        point = find_point([*self.always, *conds], self.sizes)
        if not isinstance(point, dict):
            return None
        return {name: point[name] for name in self.sizes}

    def around(self, loop: int) -> list[Cond]:
        """What holds inside a loop, as far as it is known."""
        conds: list[Cond] = []
        while loop >= 0:
            each = self.counted(loop)
            if each is not None:
                counter = Name(each.name)
                conds += (Compare(">=", counter, each.lower), Compare("<", counter, each.upper))
            loop = self.graph.loops[loop].parent
        return conds

    def counted(self, number: int) -> _Counted | None:
        """A loop with bounds that sizes, waves and outer counters decide."""
        loop = self.graph.loops[number]
        if not loop.counter or loop.most is not None:
            return None
        lower, upper = substitute(loop.lower, self.meaning), substitute(loop.upper, self.meaning)
        if why_not_affine(lower) or why_not_affine(upper) or not (self.is_known(lower) and self.is_known(upper)):
            return None
        parents = tuple(self.around(loop.parent))
        return _Counted(loop.counter, lower, upper, loop.step, self.trips_needed(number), parents)

    def is_known(self, expr: Index | Cond) -> bool:
        counters = {loop.counter for loop in self.graph.loops}
        known = {*self.sizes, *self.numbers, *counters, WAVE, *WORKGROUP}
        return all(name in known for name in names(expr))

    def trips_needed(self, number: int) -> int:
        """Two more than the most slots, or than what a wait count, an index or a condition in the loop needs."""
        if number not in self.needed:
            self.needed[number] = self.find_trips(number)
        return self.needed[number]

    def find_trips(self, number: int) -> int:
        most = max((buffer.slots for buffer in self.graph.buffers), default=1)
        # A slot of an mbarrier has a parity, which is the same again after two rounds.
        most = max(most, *(2 * each.type.slots for each in self.graph.objects if each.type.kind == "mbarrier"), 1)
        inside = [point for point in self.graph.points if self.is_inside(point.loop, number)]
        moving: set[str] = set()
        for point in inside:
            if isinstance(point.action, g.Assign):
                moving.update(name for name, value in point.action.pairs if isinstance(value, INDEX_TYPES))
            counts = getattr(point.action.op, "counts", ()) if isinstance(point.action, g.Sync) else ()
            for counter, count in counts:
                each = sum(issue.least for other in inside for issue in other.issues if issue.counter == counter)
                if each:
                    most = max(most, -(-count // each))
        own = self.graph.loops[number]
        exprs = [
            expr
            for point in inside
            for expr in expressions_of(point)
            if not (isinstance(expr, Compare) and expr == Compare("<", Name(own.counter), own.upper))
        ]
        shown = trips_to_show(exprs, moving) // max(1, own.step)
        if shown + 2 > MOST_TRIPS:
            what = f"loop over `{own.counter or number}`: its indices repeat after {shown} trips, {MOST_TRIPS} are run"
            self.found.bounded.append(what)
        return min(MOST_TRIPS, max(most, shown) + 2)

    def is_inside(self, loop: int, outer: int) -> bool:
        while loop >= 0 and loop != outer:
            loop = self.graph.loops[loop].parent
        return loop == outer

    # --- what comes from outside ---

    def all_flags(self) -> list[dict[str, int]]:
        if not self.flags:
            return [{}]
        if 2 ** len(self.flags) <= MOST_COMBINATIONS:
            self.found.covered.append(f"flags {', '.join(f'`{each}`' for each in self.flags)}: every combination")
            return [dict(zip(self.flags, way, strict=True)) for way in product((0, 1), repeat=len(self.flags))]
        self.found.bounded.append(f"{MOST_COMBINATIONS} of {2 ** len(self.flags)} combinations of flags, at random")
        return [{name: self.rng.randrange(2) for name in self.flags} for _ in range(MOST_COMBINATIONS)]

    def all_numbers(self) -> list[dict[str, int]]:
        if not self.numbers:
            return [{}]
        ways = [self.values_for(name) for name in self.numbers]
        shown = [f"`{name}` in {', '.join(map(str, way))}" for name, way in zip(self.numbers, ways, strict=True)]
        self.found.bounded.append(f"numbers from outside: {'; '.join(shown)}")
        found = [dict(zip(self.numbers, way, strict=True)) for way in product(*ways)]
        if len(found) <= MOST_COMBINATIONS:
            return found
        self.found.bounded.append(f"{MOST_COMBINATIONS} of {len(found)} combinations of such numbers, at random")
        return self.rng.sample(found, MOST_COMBINATIONS)

    def values_for(self, name: str) -> tuple[int, ...]:
        """Numbers on both sides of what the name is compared with."""
        found = set(USUAL)
        for expr in expressions_in(self.graph):
            for node in walk(expr):
                if isinstance(node, Compare) and name in names(node):
                    for each in walk(node):
                        if isinstance(each, Const):
                            found.update((each.value - 1, each.value, each.value + 1))
        return tuple(sorted(value for value in found if value >= 0))

    def workgroups(self, sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
        """All workgroups where they matter and are few, else the first, the last and some between."""
        used = {name for expr in expressions_in(self.graph) for name in names(expr)}
        extents = []
        for place, name in enumerate(WORKGROUP):
            known = place < len(self.graph.grid) and name in used
            extents.append(max(1, evaluate(self.graph.grid[place], sizes)) if known else 1)
        total = extents[0] * extents[1] * extents[2]
        ways = list(product(*(range(each) if total <= MOST_WORKGROUPS else {0, each - 1} for each in extents)))
        if total > MOST_WORKGROUPS:
            text = "workgroups at the corners of the grid only"
            if text not in self.found.bounded:
                self.found.bounded.append(text)
        for way in ways:
            yield dict(zip(WORKGROUP, way, strict=True))


@dataclass(frozen=True, slots=True)
class _Counted:
    """A loop whose trips can be asked for."""

    name: str
    lower: Index
    upper: Index
    step: int
    most: int
    around: tuple[Cond, ...]

    def exactly(self, trips: int) -> list[Cond]:
        def after(count: int) -> Index:
            return Binary("+", self.lower, Const(count * self.step))

        conds: list[Cond] = [*self.around, Compare(">=", after(trips), self.upper)]
        return [*conds, Compare("<", after(trips - 1), self.upper)] if trips else conds


def count_trips_of(loop: _Counted, env: Mapping[str, int]) -> int:
    return max(0, -(-(evaluate(loop.upper, env) - evaluate(loop.lower, env)) // loop.step))


def substitute_any(expr: Index | Cond, by: Mapping[str, Index]) -> Index | Cond:
    return substitute_cond(expr, by) if isinstance(expr, COND_TYPES) else substitute(expr, by)


def _is_remainder(node: Index | Cond, sizes: Sequence[str]) -> bool:
    """Whether a node is a size, or an affine index of sizes, modulo a small constant."""
    match node:
        case Binary("mod", inside, Const(by)):
            used = set(names(inside))
            return 1 < by <= MOST_REMAINDERS and bool(used) and used <= set(sizes) and not why_not_affine(node)
    return False


def _spans(numbers: set[int]) -> str:
    """`0 to 4`, `1, 3`, `1 to 4, 16`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)
