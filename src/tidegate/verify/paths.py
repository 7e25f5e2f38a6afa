"""Paths backwards through a flow, iterations and conditions included.

Needs   a flow, what its branches decide, and for each node what it does to a state
Gives   for every node that is met, in which states, in which iterations and under which conditions
Keeps   every path that a wave can take is followed. Nothing else is, but for what `loose` says: conditions that were
        dropped, because a loop goes round unchanged or because there were too many of them
Cost    each node once for each state and iteration in which it is met; one that changes nothing is gone round once

An iteration is written as a base and an offset: `#2 - 1` is the one before that of the start. A loop that is entered
from behind gets a new base, and so does one that is gone round without a change: any earlier iteration.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from tidegate.footprint.arithmetic import negate
from tidegate.footprint.model import Footprints
from tidegate.footprint.values import iteration
from tidegate.graph.flow import Flow
from tidegate.index import (
    LANE,
    WAVE,
    ZERO,
    Binary,
    Compare,
    Cond,
    Const,
    Index,
    Name,
    Truth,
    names,
    substitute,
    substitute_cond,
    why_not_affine,
)
from tidegate.verify.state import State

Step = tuple[str, int]  # a base, and how many iterations after it
Iterations = tuple[Step, ...]  # of the loops around a node, outermost first
Conds = frozenset[Cond]

WILD = "~"  # the base of a loop with several ways in: it has no iterations
MOST_ROUNDS = 80  # that are told apart while the state changes
MOST_GUARDED = 4  # and while only conditions do
MOST_WAYS = 12  # conditions under which one node is met in one state


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


class Paths:
    """What all searches in one flow share."""

    def __init__(self, flow: Flow, footprints: Footprints) -> None:
        self.flow, self.footprints = flow, footprints
        self.around = [flow.loops_around(node) for node in range(len(flow.origin))]
        self.head_of = {loop.head: number for number, loop in enumerate(flow.loops) if loop.reducible}
        self.rank = _ranks(flow)
        self.trips: dict[int, Index] = {
            loop: trips
            for loop in footprints.ends_at_head
            if (trips := footprints.trips[loop]) is not None and not why_not_affine(trips)
        }

    def start(self, node: int) -> Iterations:
        """The iterations of a start: their own bases."""
        return tuple((iteration(loop) if self.flow.loops[loop].reducible else WILD, 0) for loop in self.around[node])

    # --- conditions ---

    def at(self, cond: Cond, node: int, iterations: Iterations, wave: str | None) -> Cond | None:
        """A condition as it is in these iterations; None if it says nothing. `wave`: the name of whose it is."""
        by: dict[str, Index] = {}
        for name in names(cond):
            if name in by:
                continue
            found = self.named(name, node, iterations, wave)
            if found is None:
                return None
            by[name] = found
        if why_not_affine(cond):
            return None
        found_cond = substitute_cond(cond, by)
        return None if found_cond == Truth(True) else found_cond

    def index_at(self, index: Index, node: int, iterations: Iterations, wave: str | None) -> Index | None:
        """The same for an index."""
        by: dict[str, Index] = {}
        for name in names(index):
            found = self.named(name, node, iterations, wave)
            if found is None:
                return None
            by[name] = found
        return substitute(index, by)

    def named(self, name: str, node: int, iterations: Iterations, wave: str | None) -> Index | None:
        if name == WAVE:
            return Name(wave) if wave else None
        if name == LANE:
            return None
        opaque = self.footprints.opaques.get(name)
        loops = dict(zip(self.around[node], iterations, strict=True))
        if opaque is not None:
            if opaque.differs or (not opaque.agree and not wave):
                return None
            steps = [loops[loop] for loop in sorted(opaque.loops) if loop in loops]
            if any(base == WILD for base, _ in steps):
                return None
            place = ",".join(f"{base}{offset:+}" for base, offset in steps)
            return Name(f"{name}@{place}" if opaque.agree else f"{name}@{place}@{wave}")
        if name.startswith("#"):
            loop = int(name[1:])
            if loop not in loops or loops[loop][0] == WILD:
                return None
            return value_of(loops[loop])
        return Name(name)

    # --- edges ---

    def turns(self, node: int, before: int) -> int:
        """The loop that an edge goes round, or -1."""
        loop = self.head_of.get(node, -1)
        return loop if loop in self.around[before] else -1

    def back(
        self, node: int, before: int, iterations: Iterations, turned: Step | None = None
    ) -> tuple[Iterations, list[Cond]]:
        """Iterations at the beginning of an edge, and what must hold for it; `turned`: of the loop it goes round."""
        known = dict(zip(self.around[node], iterations, strict=True))
        conds: list[Cond] = []
        loop = self.head_of.get(node, -1)
        if loop >= 0:
            if loop in self.around[before]:
                base, offset = known[loop]
                known[loop] = turned or (base, offset - 1)
                conds.append(Compare(">=", value_of(known[loop]), ZERO))
            else:
                conds.append(Compare("==", value_of(known[loop]), ZERO))
        found: list[Step] = []
        for each in self.around[before]:
            if each in known:
                found.append(known[each])
            elif not self.flow.loops[each].reducible:
                found.append((WILD, 0))
            else:
                new = f"{iteration(each)}|{_show(found)}"
                found.append((new, 0))
                conds += self.entered_from_behind(each, before, Name(new), found)
        return tuple(found), conds

    def entered_from_behind(self, loop: int, node: int, count: Index, outside: list[Step]) -> Iterable[Cond]:
        """What is known of the iteration in which a loop was left; `outside`: those of the loops up to it."""
        iterations = (*outside, *((WILD, 0) for _ in self.around[node][len(outside) :]))
        facts = self.flow.loops[loop]
        yield Compare(">=", count, ZERO)
        if node == facts.head:
            trips = self.trips.get(loop)
            placed = self.index_at(trips, node, iterations, None) if trips is not None else None
            if placed is not None:
                yield Compare("==", count, placed)
            if facts.least:
                yield Compare(">=", count, Const(facts.least))
        if facts.most is not None:
            yield Compare("<=", count, Const(facts.most))

    def decided(self, before: int, node: int, iterations: Iterations, wave: str | None) -> Cond | None:
        """What a branch has decided if it went along an edge."""
        conds = self.footprints.branches.get(before)
        if conds is None or self.is_known(before, node):
            return None
        arms = [arm for arm, each in enumerate(self.flow.successors[before]) if each == node]
        if len(arms) != 1:
            return None
        cond = conds[arms[0]]
        if any(opaque.when == "branch" for name in names(cond) if (opaque := self.footprints.opaques.get(name))):
            return None  # free each time, and asked here alone
        return self.at(cond, before, iterations, wave)

    def is_known(self, before: int, node: int) -> bool:
        """Whether an edge goes into the body of a loop whose trips are known: on the way back it is never the last."""
        loop = self.head_of.get(before, -1)
        return loop in self.trips and loop in self.around[node]


class Search:
    """One search. `step` gives the state before a node, or None where there is nothing left to look for."""

    def __init__(self, paths: Paths, step: Callable[[int, State], State | None]) -> None:
        self.paths, self.flow, self.step = paths, paths.flow, step
        self.waiting: dict[Key, _Waiting] = {}
        self.done: dict[Key, list[Conds]] = {}
        self.queue: list[tuple[int, int, int, Key]] = []
        self.count = 0
        self.turned: dict[tuple[int, int, Iterations, State], tuple[int, Conds]] = {}
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
            ways, loose = _simplified(waiting.ways)
            known = self.done.setdefault(key, [])
            ways = [way for way in ways if not any(each <= way for each in known)]
            if ways:
                known += ways
                self.visit(key, tuple(ways), waiting.loose or loose, turns)

    def put(
        self, node: int, state: State, iterations: Iterations, ways: Iterable[Conds], loose: bool, turns: int
    ) -> None:
        key = (node, state, iterations)
        waiting = self.waiting.get(key)
        if waiting is None:
            waiting = self.waiting[key] = _Waiting()
            self.count += 1
            heapq.heappush(self.queue, (turns, -self.paths.rank[node], self.count, key))
        waiting.ways += ways
        waiting.loose |= loose

    def visit(self, key: Key, ways: tuple[Conds, ...], loose: bool, turns: int) -> None:
        node, state, iterations = key
        self.met.append(Met(node, state, iterations, ways, loose))
        after = self.step(node, state)
        if after is None:
            return
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
        found, conds = self.paths.back(here.node, before, here.iterations, turned)
        decided = self.paths.decided(before, here.node, found, "u" if here.state.arrived else None)
        if decided is not None:
            if decided == Truth(False):
                return
            conds.append(decided)
        self.put(before, here.state, found, [way.union(conds) for way in here.ways], here.loose, turns)

    def go_round(self, before: int, here: Met, loop: int, turns: int) -> None:
        """To the iteration before; to any before it, if nothing has changed since the last time."""
        place = self.paths.around[here.node].index(loop)
        base, offset = here.iterations[place]
        if base == WILD:
            self.go(before, here, None, turns)
            return
        if base.startswith("<"):  # any earlier one already: what was asked of that one is forgotten
            kept = tuple(
                frozenset(cond for cond in way if not _about(cond, base) or _bounds(cond)) for way in here.ways
            )
            loose = here.loose or any(len(a) != len(b) for a, b in zip(kept, here.ways, strict=True))
            self.go(before, replace(here, ways=kept, loose=loose), (base, 0), turns)
            return
        key = (before, loop, here.iterations[:place], here.state)
        common = frozenset.intersection(*here.ways)
        first, asked_then = self.turned.setdefault(key, (offset, common))
        if first != offset:
            asked = any(_about_step(cond, base) for cond in common - asked_then)
            if not asked or first - offset >= MOST_GUARDED or -offset >= MOST_ROUNDS:
                # Nothing has changed: whatever it does in the iteration before, it does in all earlier ones.
                new = f"<{iteration(loop)}|{_show(here.iterations[:place])}|{first}"
                bound = Compare("<=", Name(new), value_of((base, offset - 1)))
                ways = tuple(way | {bound} for way in here.ways)
                self.go(before, replace(here, ways=ways, loose=here.loose or asked), (new, 0), turns)
                return
        self.go(before, here, None, turns)


def value_of(step: Step) -> Index:
    base, offset = step
    return Name(base) if not offset else Binary("+", Name(base), Const(offset))


def _show(steps: Iterable[Step]) -> str:
    return ";".join(f"{base}{offset:+}" for base, offset in steps)


def _about(cond: Cond, base: str) -> bool:
    return any(base in name for name in names(cond))


def _about_step(cond: Cond, base: str) -> bool:
    """Whether a condition asks more of an iteration than that it is there."""
    return _about(cond, base) and not (
        isinstance(cond, Compare) and cond.op == ">=" and cond.right == ZERO and isinstance(cond.left, Name | Binary)
    )


def _bounds(cond: Cond) -> bool:
    """Whether a condition says where an unknown iteration lies."""
    return isinstance(cond, Compare) and isinstance(cond.left, Name) and cond.left.name.startswith("<")


def _simplified(ways: list[Conds]) -> tuple[list[Conds], bool]:
    """Ways of which one holds if and only if one of the given ones does; or, if there are too many, what all ask."""
    found: list[Conds] = list(dict.fromkeys(ways))
    changed = True
    while changed:
        changed = False
        found = [way for way in found if not any(other < way for other in found)]
        for place, one in enumerate(found):
            for other in found[place + 1 :]:
                alone, theirs = one - other, other - one
                if len(alone) == len(theirs) == 1 and negate(next(iter(alone))) == next(iter(theirs)):
                    found.append(one & other)
                    changed = True
                    break
            if changed:
                break
    if len(found) <= MOST_WAYS:
        return found, False
    return [frozenset.intersection(*found)], True


def _ranks(flow: Flow) -> list[int]:
    """Places of nodes in an order in which nodes come before those they lead to, but for ends of loops."""
    rank, seen, order = [0] * len(flow.origin), set(flow.entries), []
    stack: list[tuple[int, int]] = [(entry, 0) for entry in reversed(flow.entries)]
    while stack:
        node, place = stack.pop()
        if place < len(flow.successors[node]):
            stack.append((node, place + 1))
            after = flow.successors[node][place]
            if after not in seen:
                seen.add(after)
                stack.append((after, 0))
        else:
            order.append(node)
    for place, node in enumerate(reversed(order)):
        rank[node] = place
    return rank
