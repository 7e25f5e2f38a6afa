"""Paths backwards through a flow, iterations and conditions included.

Needs   edges, and for each node what it does to a state
Gives   for every node that is met, in which states, in which iterations and under which conditions
Keeps   every path that a wave can take is followed. Nothing else is, but for what `loose` says: conditions that were
        dropped, because a loop goes round unchanged, because there were too many of them, or because the search is long
Cost    each stretch of straight code once for each state and iteration in which it is met; a loop that changes nothing
        is gone round once
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field, replace

from tidegate.footprint.values import iteration
from tidegate.index import Name
from tidegate.verify.conds import NO, CondBook, Conds, is_lower_bound
from tidegate.verify.paths import WILD, Iterations, Paths, Step, U, show_steps, value_of
from tidegate.verify.state import State, is_weaker

MOST_ROUNDS = 80  # that are told apart while the state changes
MOST_GUARDED = 4  # and while only conditions do
# Trips of a loop, if that is all it runs, in which each iteration keeps its own count of what is behind it.
MOST_TOLD = 16
MOST_WAYS = 12  # conditions under which one node is met in one state
MOST_EFFORT = 100_000  # visits of nodes in all searches of a flow, for each of so many nodes
NODES = 1_500
# Visits in one search, after which conditions are dropped sooner: in a flow of few steps so far, and of many.
PATIENCE, LITTLE_PATIENCE = 1_500, 100
COMPARISONS = 20  # sets of conditions that are compared in the time of a visit


class TooMuch(Exception):
    """There are more paths than anybody waits for."""


@dataclass(frozen=True, slots=True)
class Met:
    """A node on a path, with the state behind it. Any of `ways` leads there."""

    node: int
    state: State
    iterations: Iterations
    ways: tuple[Conds, ...]
    loose: bool


Key = tuple[int, State, Iterations]


@dataclass(slots=True)
class _Waiting:
    ways: list[Conds] = field(default_factory=list)
    loose: bool = False


class Search:
    """One search. `step` gives the state before a node, or None where there is nothing left to look for."""

    def __init__(
        self,
        paths: Paths,
        step: Callable[[int, State], State | None],
        *,
        parted: bool = False,
        useful: Container[int] | None = None,
    ) -> None:
        self.paths, self.flow, self.step = paths, paths.flow, step
        self.parted = parted  # whether it starts where x's wave need not be: conditions on waves say nothing then
        self.useful = useful  # nodes to look at; None: all
        self.waiting: dict[Key, _Waiting] = {}
        self.done: dict[tuple[int, Iterations], list[tuple[State, Conds]]] = {}
        self.queue: list[tuple[int, int, int, Key]] = []
        self.count = self.visits = 0
        self.turned: dict[tuple[int, int, Iterations, State], tuple[int, Conds]] = {}
        self.unchanged: dict[tuple[int, State], bool] = {}
        self.met: list[Met] = []
        self.ended: list[Met] = []  # at the beginning of the program

    def run(self, node: int, state: State, *, loose: bool = False) -> None:
        """From before a node."""
        self.go_back(Met(node, state, self.paths.start(node), (frozenset(),), loose), 0)
        while self.queue:
            turns, _, _, key = heapq.heappop(self.queue)
            waiting = self.waiting.pop(key, None)
            if waiting is None:
                continue
            ways, loose = simplified(self.paths, tuple(waiting.ways), 1 if self.is_long() else MOST_WAYS)
            node, state, iterations = key
            known = self.done.setdefault((node, iterations), [])
            # Whoever knew less, and had less asked of it, has met all that is met from here.
            self.paths.effort += len(known) * len(ways) // COMPARISONS
            weaker = [way for other, way in known if is_weaker(other, state)]
            ways = tuple(way for way in ways if not any(map(way.issuperset, weaker)))
            if ways:
                known += [(state, way) for way in ways]
                self.visit(key, ways, waiting.loose or loose, turns)

    def is_long(self) -> bool:
        return self.visits > (PATIENCE if self.paths.effort < MOST_EFFORT // 3 else LITTLE_PATIENCE)

    def put(
        self, node: int, state: State, iterations: Iterations, ways: Iterable[Conds], loose: bool, turns: int
    ) -> None:
        if self.useful is not None and node not in self.useful:
            return
        key = (node, state, iterations)
        waiting = self.waiting.get(key)
        if waiting is None:
            waiting = self.waiting[key] = _Waiting()
            self.count += 1
            heapq.heappush(self.queue, (turns, -self.paths.rank[node], self.count, key))
        waiting.ways += ways
        waiting.loose |= loose

    def visit(self, key: Key, ways: tuple[Conds, ...], loose: bool, turns: int) -> None:
        """A node, and the straight code before it as long as nothing changes there."""
        node, state, iterations = key
        self.visits += 1
        spend(self.paths, 1)
        while True:
            self.met.append(Met(node, state, iterations, ways, loose))
            after = self.step(node, state)
            if after is None:
                return
            previous = self.paths.straight[node]
            if previous < 0 or after is not state:
                break
            node = previous
        self.go_back(Met(node, after, iterations, ways, loose), turns)

    def go_back(self, here: Met, turns: int) -> None:
        if here.node in self.flow.entries:
            self.ended.append(here)
        for before in dict.fromkeys(self.flow.before[here.node]):
            loop = self.paths.turns(here.node, before)
            if loop >= 0:
                self.go_round(before, here, loop, turns + 1)
            else:
                self.go(before, here, None, turns)

    def go(self, before: int, here: Met, turned: Step | None, turns: int) -> None:
        # Before the arrival the path is that of y's wave, which is x's only where their lanes are asked about.
        wave = U if (here.state.arrived or here.state.lanes) and not self.parted else None
        found, conds = self.paths.edge(here.node, before, here.iterations, turned, wave)
        if NO in conds:
            return
        ways = [way | conds for way in here.ways] if conds else list(here.ways)
        loop = self.paths.head_of.get(here.node, -1)
        if loop >= 0 and loop not in self.paths.around[before]:
            base = here.iterations[self.paths.around[here.node].index(loop)][0]
            ways = [left for way in ways if (left := self.paths.left(way, base)) is not None]
            if any(step[0] == WILD for step in here.iterations) and not base[1:].isdigit():
                # It may be entered again in an iteration of the same name: what was asked of this one is forgotten.
                book = self.paths.book
                ways = [frozenset(cond for cond in way if not book.about(cond, base)) for way in ways]
        if ways:
            self.put(before, here.state, found, ways, here.loose, turns)

    def go_round(self, before: int, here: Met, loop: int, turns: int) -> None:
        """To the iteration before; to any before it, if nothing has changed since the last time."""
        place = self.paths.around[here.node].index(loop)
        base, offset = here.iterations[place]
        if base == WILD:
            self.go(before, here, None, turns)
            return
        if base.startswith("<"):  # any earlier one already: what was asked of that one is forgotten
            book, where = self.paths.book, self.paths.where_it_lies.get(base, set())
            kept = tuple(
                frozenset(cond for cond in way if cond in where or not book.about(cond, base)) for way in here.ways
            )
            loose = here.loose or any(len(a) != len(b) for a, b in zip(kept, here.ways, strict=True))
            self.go(before, replace(here, ways=kept, loose=loose), (base, 0), turns)
            return
        if self.passes_unchanged(loop, here.state):
            self.any_earlier(before, here, loop, offset, turns)
            return
        key = (before, loop, here.iterations[:place], here.state)
        common = frozenset.intersection(*here.ways)
        first, asked_then = self.turned.setdefault(key, (offset, common))
        if first != offset and not self.tells_apart(loop, here.state, offset):
            book = self.paths.book
            asked = any(
                book.about(cond, base) and not is_lower_bound(book.conds[cond], base) for cond in common - asked_then
            )
            most = 1 if self.is_long() else MOST_GUARDED
            if not asked or first - offset >= most or -offset >= MOST_ROUNDS:
                self.any_earlier(before, replace(here, loose=here.loose or asked), loop, first, turns)
                return
        self.go(before, here, None, turns)

    def tells_apart(self, loop: int, state: State, offset: int) -> bool:
        """Whether rounds are counted although the same is known in another one: arms that issue more and less lead to
        one count after fewer and more rounds, and how many are left decides what is certain to be issued."""
        most = self.flow.loops[loop].most
        return bool(state.counts) and most is not None and most <= MOST_TOLD and -offset < most and not self.is_long()

    def any_earlier(self, before: int, here: Met, loop: int, first: int, turns: int) -> None:
        """Nothing changes on the way round: whatever happens in the iteration before, happens in all earlier ones."""
        place = self.paths.around[here.node].index(loop)
        base, offset = here.iterations[place]
        new = f"<{iteration(loop)}|{show_steps(here.iterations[:place])}|!{base}!{first:+}"
        bound = self.paths.math.compare("<=", Name(new), value_of((base, offset - 1)))
        number = self.paths.book.number(bound)
        self.paths.where_it_lies.setdefault(new, set()).add(number)
        ways = tuple(way | {number} for way in here.ways)
        self.go(before, replace(here, ways=ways), (new, 0), turns)

    def passes_unchanged(self, loop: int, state: State) -> bool:
        """Whether a way round a loop asks for nothing and changes nothing, whatever else it may do."""
        key = (loop, state)
        if key not in self.unchanged:
            self.unchanged[key] = self.paths.is_free_round(loop, lambda node: self.step(node, state) == state)
        return self.unchanged[key]


def spend(paths: Paths, effort: int) -> None:
    """Counts visits of nodes; raises `TooMuch` where there are more than any search may make."""
    paths.effort += effort
    most = MOST_EFFORT * max(1, len(paths.flow.origin) // NODES)  # an unrolled kernel has long paths, and few of them
    if paths.effort > most:
        raise TooMuch(f"the bound of {most:,} steps back along its paths was reached")


def simplified(paths: Paths, ways: tuple[Conds, ...], most: int) -> tuple[tuple[Conds, ...], bool]:
    """Straight code asks for nothing: what comes to one node mostly comes to the next one as well."""
    if len(ways) == 1:
        return ways, False
    known = paths.simplified.get((ways, most))
    if known is None:
        found, loose = _simplified(ways, paths.book, most)
        known = paths.simplified[ways, most] = (tuple(found), loose)
    return known


def _simplified(ways: Sequence[Conds], book: CondBook, most: int) -> tuple[list[Conds], bool]:
    """Ways of which one holds if and only if one of the given ones does; or, if there are too many, what all ask."""
    found: list[Conds] = list(dict.fromkeys(ways))
    changed = True
    while changed:
        changed = False
        found = [way for way in found if not any(map(way.__gt__, found))]
        for place, one in enumerate(found):
            for other in found[place + 1 :]:
                if len(one) != len(other) or len(alone := one - other) != 1:
                    continue
                if book.negation(next(iter(alone))) == next(iter(other - one)):
                    found.append(one & other)
                    changed = True
                    break
            if changed:
                break
    if len(found) <= most:
        return found, False
    return [frozenset.intersection(*found)], True
