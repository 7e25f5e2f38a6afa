"""Which sizes, flags, numbers and workgroups a graph is run with, so that it shows all it does.

Needs   a well-formed graph, and sizes that are fixed, if any
Gives   configurations, smallest first; what to try for numbers that nobody knows; in words what that covers, what not
Keeps   every configuration satisfies the graph's assumptions; sizes are those of `trip_counts`
        each flag is set and not; each number is tried on both sides of what it is compared with, and with as many
        values as a loop that it bounds needs trips
Cost    that of `trip_counts`, and linear in the configurations
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import prod

from tidegate.graph import model as g
from tidegate.index import (
    WAVE,
    WORKGROUP,
    Compare,
    Cond,
    Const,
    Not,
    evaluate,
    holds,
    names,
    substitute_cond,
    walk,
    why_not_affine,
)
from tidegate.language.points import find_point
from tidegate.language.types import FLAG
from tidegate.simulate.expressions import (
    assigned_names,
    bounding_names,
    conditions_of,
    differing_names,
    expressions_in,
    steering_names,
    unknown_names,
)
from tidegate.simulate.trip_counts import MOST_COMBINATIONS, TripCounts, Values

# Beyond these, configurations are drawn at random.
MOST_CONFIGURATIONS = 192
MOST_WORKGROUPS = 8
# Values that a number from outside, or one that nobody knows, is tried with beside those around its comparisons.
USUAL = (0, 1, 2, 5)


@dataclass(frozen=True, slots=True)
class Configuration:
    """Values for every size, every free name, and the workgroup. `flags` are shown as such."""

    env: tuple[tuple[str, int], ...]
    flags: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()  # names that the graph does not use

    def __str__(self) -> str:
        """Without the workgroup where it is the first."""
        shown = [
            f"{name} = {('false', 'true')[value] if name in self.flags else value}"
            for name, value in self.env
            if name not in self.hidden and (name not in WORKGROUP or value)
        ]
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
    total: int = 0  # configurations, of which `runs` may be some
    sampled: str = ""  # in words, where they are only some


def find_configurations(graph: g.SyncGraph, seed: int = 0, sizes: Mapping[str, int] | None = None) -> Configurations:
    return _Finder(graph, random.Random(seed), sizes or {}).find()


def find_few(graph: g.SyncGraph, seed: int, fixed: Mapping[str, int]) -> Configurations:
    """Those around given sizes, numbers and flags: other sizes are as by default, and as small as can be."""
    return _Finder(graph, random.Random(seed), fixed).find(few=True)


def find_open(graph: g.SyncGraph) -> Configurations:
    """What runs decide themselves, whatever their configuration; none is chosen."""
    finder = _Finder(graph, random.Random(0), {})
    finder.leave_open()
    return finder.found


class _Finder:
    def __init__(self, graph: g.SyncGraph, rng: random.Random, fixed: Mapping[str, int]) -> None:
        self.graph, self.rng, self.fixed = graph, rng, fixed
        assigned = assigned_names(graph)
        self.flags = [v.name for v in graph.free if v.type == FLAG and v.name not in assigned]
        self.open = [name for name in self.flags if name not in fixed]
        self.numbers = [v.name for v in graph.free if v.type != FLAG and v.name not in assigned]
        self.trips = TripCounts(graph, self.numbers, fixed)
        self.used = {name for expr in expressions_in(graph) for name in names(expr)}
        self.bounding = bounding_names(graph)
        self.found = Configurations([])
        needed = (self.trips.trips_needed(each) for each in range(len(graph.loops)))
        self.found.most_trips = max(needed, default=4)

    def find(self, *, few: bool = False) -> Configurations:
        found = self.found
        sizes = self.trips.least_sizes() if few else self.trips.sizes()
        flags, numbers = self.all_flags(), self.all_numbers()
        start = dict.fromkeys((each.name for each in self.graph.free), 0)
        envs = [
            {**start, **size, **number, **flag, **group}
            for size in sizes
            for number in numbers
            for flag in flags
            for group in self.workgroups(size)
        ]
        envs = [env for env in envs if self.is_assumed(env)]
        found.total = len(envs)
        if len(envs) > MOST_CONFIGURATIONS:
            found.sampled = f"{MOST_CONFIGURATIONS} of {len(envs):,} configurations, at random"
            found.bounded.append(found.sampled)
            picked = sorted(self.rng.sample(range(1, len(envs)), MOST_CONFIGURATIONS - 1))
            envs = [envs[0], *(envs[each] for each in picked)]
        hidden = frozenset(name for name in start if name not in self.used)
        found.runs = [Configuration(tuple(env.items()), frozenset(self.flags), hidden) for env in envs]
        if not few:
            self.say_trips(envs)
        self.leave_open()
        found.bounded[:0] = self.trips.bounded
        return found

    def is_assumed(self, env: Values) -> bool:
        """Whether the assumptions hold, as far as these names decide them."""
        known = (cond for cond in self.graph.where if all(name in env for name in names(cond)))
        try:
            return all(holds(cond, env) for cond in known)
        except ZeroDivisionError:
            return False

    def say_trips(self, envs: list[Values]) -> None:
        """How often each loop runs in these configurations."""
        loops = self.trips.loops
        for loop in loops:
            by_wave = any(WAVE in names(side) for side in (loop.lower, loop.upper))
            waves = range(self.graph.waves if by_wave else 1)
            numbers = {loop.trips({**env, WAVE: wave}) for env in envs for wave in waves} - {None}
            shown = (
                _trips(_spans({each for each in numbers if each is not None}))
                if numbers
                else f"up to {loop.most} trips"
            )
            self.found.covered.append(f"loop over `{loop.name}`: {shown}")
        if not all(self.is_fixed(loop.number) for loop in loops):
            self.found.bounded.append("no larger trip counts")
        in_bounds = {name for loop in loops for side in (loop.lower, loop.upper) for name in names(side)}
        others = [name for name in self.trips.names if name in self.used and name not in in_bounds]
        if others:
            values = {name: tuple(sorted({env[name] for env in envs})) for name in others}
            self.found.bounded.append(f"sizes: {_show_values(values)}")
        for each in self.graph.loops:
            if each.counter and each.most is not None:
                self.found.covered.append(f"loop over `{each.counter}`: {_trips(str(each.most))}")

    def is_fixed(self, number: int) -> bool:
        """Whether nothing but the wave and the loops around it decide how often a loop runs: every run shows it all."""
        loop = self.graph.loops[number]
        if loop.most is not None:
            return True
        around: set[str] = set()
        parent = loop.parent
        while parent >= 0 and self.is_fixed(parent):
            around.add(self.graph.loops[parent].counter)
            parent = self.graph.loops[parent].parent
        used = {name for side in (loop.lower, loop.upper) for name in names(side)}
        return bool(loop.counter) and parent < 0 and used <= {WAVE, *around}

    def leave_open(self) -> None:
        """What runs decide themselves: numbers that nobody knows, and free choices that end loops."""
        found, steering = self.found, steering_names(self.graph)
        found.candidates = {name: self.values_for(name) for name in unknown_names(self.graph) if name in steering}
        found.differ = differing_names(self.graph)
        if found.candidates:
            found.bounded.append(f"unknown numbers: {_show_values(found.candidates)}")
        free = [point for point in self.graph.points if point.action == g.Branch(None) and point.loop >= 0]
        if any(self.leaves_loop(point) for point in free):
            found.bounded.append(f"loops that end only by a free choice: up to {found.most_trips} trips")

    def leaves_loop(self, point: g.Point) -> bool:
        return any(not g.is_inside(self.graph, self.graph.points[each].loop, point.loop) for each in point.successors)

    # --- what comes from outside ---

    def all_flags(self) -> list[Values]:
        known, flags = {name: self.fixed[name] for name in self.flags if name in self.fixed}, self.open
        if not flags:
            return [known]
        if 2 ** len(flags) <= MOST_COMBINATIONS:
            self.found.covered.append(f"flags {', '.join(f'`{each}`' for each in flags)}: every combination")
            return [{**known, **dict(zip(flags, way, strict=True))} for way in product((0, 1), repeat=len(flags))]
        self.found.bounded.append(f"{MOST_COMBINATIONS} of {2 ** len(flags):,} combinations of flags, at random")
        return [{**known, **{name: self.rng.randrange(2) for name in flags}} for _ in range(MOST_COMBINATIONS)]

    def all_numbers(self) -> list[Values]:
        if not self.numbers:
            return [{}]
        values = {name: (self.fixed[name],) if name in self.fixed else self.values_for(name) for name in self.numbers}
        self.found.bounded.append(f"numbers from outside: {_show_values(values)}")
        count = prod(map(len, values.values()))
        if count <= MOST_COMBINATIONS:
            return [dict(zip(values, way, strict=True)) for way in product(*values.values())]
        self.found.bounded.append(f"{MOST_COMBINATIONS} of {count:,} combinations of such numbers, at random")
        return [_combination(values, number) for number in self.rng.sample(range(count), MOST_COMBINATIONS)]

    def values_for(self, name: str) -> tuple[int, ...]:
        """Numbers on both sides of what the name is compared with, and trips for loops that it bounds."""
        found = set(USUAL)
        if name in self.bounding:
            found.update(range(self.found.most_trips + 1))
        for expr in expressions_in(self.graph):
            for node in walk(expr):
                if isinstance(node, Compare) and name in names(node):
                    for each in walk(node):
                        if isinstance(each, Const):
                            found.update((each.value - 1, each.value, each.value + 1))
        for point in self.graph.points:
            for cond in conditions_of(point):
                found.update(self.values_in(substitute_cond(cond, self.trips.meaning), name))
        return tuple(sorted(found))

    def values_in(self, cond: Cond, name: str) -> list[int]:
        """Values with which a condition holds, and does not."""
        if name not in names(cond) or why_not_affine(cond):
            return []
        answers = (find_point([each], [name]) for each in (cond, Not(cond)))
        return [point[name] for point in answers if isinstance(point, dict)]

    def workgroups(self, sizes: Values) -> Iterator[Values]:
        """All workgroups where they matter and are few, else those at the corners of the grid."""
        extents = []
        for place, name in enumerate(WORKGROUP):
            try:
                extent = evaluate(self.graph.grid[place], sizes) if place < len(self.graph.grid) else 1
            except (ZeroDivisionError, KeyError):
                extent = 1
            extents.append(extent if name in self.used else min(extent, 1))
        if min(extents) < 1:
            return  # nothing runs
        total = extents[0] * extents[1] * extents[2]
        if total > MOST_WORKGROUPS:
            self.bound("workgroups at the corners of the grid only")
        ways = (range(each) if total <= MOST_WORKGROUPS else sorted({0, each - 1}) for each in extents)
        for way in product(*ways):
            yield dict(zip(WORKGROUP, way, strict=True))

    def bound(self, text: str) -> None:
        if text not in self.found.bounded:
            self.found.bounded.append(text)


def _combination(values: Mapping[str, tuple[int, ...]], number: int) -> Values:
    """One of all combinations, by its number in their product: the last name changes first."""
    found: dict[str, int] = {}
    for name, way in reversed(list(values.items())):
        number, place = divmod(number, len(way))
        found[name] = way[place]
    return {name: found[name] for name in values}


def _show_values(values: Mapping[str, tuple[int, ...]]) -> str:
    return "; ".join(f"`{name}` in {_spans(set(way))}" for name, way in values.items())


def _trips(spans: str) -> str:
    return f"{spans} trip{'s' * (spans != '1')}"


def _spans(numbers: set[int]) -> str:
    """`0 to 4`, `1, 3`, `1 to 4, 16`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)
