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

from tidegate.footprint.arithmetic import ANY, Arithmetic, Range, negate
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
    why_not_affine,
)
from tidegate.verify.state import State, is_weaker

Step = tuple[str, int]  # a base, and how many iterations after it
Iterations = tuple[Step, ...]  # of the loops around a node, outermost first
Conds = frozenset[int]  # numbers of conditions, all of which hold

U, V = "u'", "v'"  # the waves of x and of y: names that no program has
WILD = "~"  # the base of a loop with several ways in: it has no iterations
MOST_ROUNDS = 80  # that are told apart while the state changes
MOST_GUARDED = 4  # and while only conditions do
MOST_WAYS = 12  # conditions under which one node is met in one state
MOST_VISITS = 150_000  # of nodes, in all searches of a flow


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


class TooMuch(Exception):
    """There are more paths than anybody waits for."""


YES, NO = 0, 1  # what always holds, and what never does


class CondBook:
    """Conditions by number: sets of them are compared and joined all the time."""

    def __init__(self) -> None:
        self.conds: list[Cond] = []
        self.numbers: dict[Cond, int] = {}
        self.names: list[frozenset[str]] = []
        self.opposite: dict[int, int] = {}
        for cond in (Truth(True), Truth(False)):
            self.number(cond)

    def number(self, cond: Cond) -> int:
        found = self.numbers.get(cond)
        if found is None:
            found = self.numbers[cond] = len(self.conds)
            self.conds.append(cond)
            self.names.append(frozenset(names(cond)))
        return found

    def negation(self, number: int) -> int:
        found = self.opposite.get(number)
        if found is None:
            found = self.opposite[number] = self.number(negate(self.conds[number]))
        return found

    def about(self, number: int, base: str) -> bool:
        """Whether a condition is about an iteration, or one that is counted from it."""
        return any(base in name for name in self.names[number])


class _Ranges(dict[str, Range]):
    """Iterations are counted from 0, whatever they are called."""

    def get(self, name: str, default: Range = ANY) -> Range:  # type: ignore[override]
        return (0, None) if name.startswith(("#", "<")) else super().get(name, default)


class Paths:
    """What all searches in one flow share."""

    def __init__(self, flow: Flow, footprints: Footprints) -> None:
        self.flow, self.footprints = flow, footprints
        self.around = [flow.loops_around(node) for node in range(len(flow.origin))]
        self.head_of = {loop.head: number for number, loop in enumerate(flow.loops) if loop.reducible}
        self.rank = _ranks(flow)
        self.visits = 0
        self.where_it_lies: dict[str, set[int]] = {}  # base of an earlier iteration → that it is one
        self.eliminated: dict[tuple[Conds, str], Conds | None] = {}
        self.replaced: dict[tuple[int, str, Index], int] = {}
        self.book = CondBook()
        self.edges: dict[tuple[int, int, Iterations, Step | None, str | None], tuple[Iterations, Conds]] = {}
        self.math = Arithmetic(_Ranges({each.name: (1, None) for each in flow.graph.sizes}))
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
        return self.math.put_cond(cond, by)

    def index_at(self, index: Index, node: int, iterations: Iterations, wave: str | None) -> Index | None:
        """The same for an index."""
        by: dict[str, Index] = {}
        for name in names(index):
            found = self.named(name, node, iterations, wave)
            if found is None:
                return None
            by[name] = found
        return self.math.put(index, by)

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
                conds.append(self.math.compare(">=", value_of(known[loop]), ZERO))
            else:
                conds.append(self.math.compare("==", value_of(known[loop]), ZERO))
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

    def edge(
        self, node: int, before: int, iterations: Iterations, turned: Step | None, wave: str | None
    ) -> tuple[Iterations, Conds]:
        """The same, with what a branch has decided; what always holds is left out."""
        key = (node, before, iterations, turned, wave)
        known = self.edges.get(key)
        if known is None:
            found, conds = self.back(node, before, iterations, turned)
            decided = self.decided(before, node, found, wave)
            if decided is not None:
                conds.append(decided)
            known = self.edges[key] = (found, frozenset(map(self.book.number, conds)) - {YES})
        return known

    def entered_from_behind(self, loop: int, node: int, count: Index, outside: list[Step]) -> Iterable[Cond]:
        """What is known of the iteration in which a loop was left; `outside`: those of the loops up to it."""
        iterations = (*outside, *((WILD, 0) for _ in self.around[node][len(outside) :]))
        facts = self.flow.loops[loop]
        if node == facts.head:
            trips = self.trips.get(loop)
            placed = self.index_at(trips, node, iterations, None) if trips is not None else None
            if placed is not None:
                yield self.math.compare("==", count, placed)
            if facts.least and placed is None:
                yield self.math.compare(">=", count, Const(facts.least))
        if facts.most is not None and loop not in self.trips:
            yield self.math.compare("<=", count, Const(facts.most))

    def left(self, way: Conds, base: str) -> Conds | None:
        """Conditions without the iteration of a loop that was entered from behind, and that no later one mentions.

        None if they cannot hold.
        """
        key = (way, base)
        if key not in self.eliminated:
            self.eliminated[key] = self.without(way, base)
        return self.eliminated[key]

    def without(self, way: Conds, base: str) -> Conds | None:
        book = self.book
        for name in (base, _below(base)):
            about = [cond for cond in way if name in book.names[cond]] if name and not name[1:].isdigit() else []
            if not about:
                continue
            equal = next((each for cond in about if (each := _equal_to(book.conds[cond], name)) is not None), None)
            if equal is not None:
                new = {self.replace(cond, name, equal) for cond in about}
                way = way.difference(about) | new
            elif all(_is_lower_bound(book.conds[cond], name) for cond in about):
                way = way.difference(about)  # it may be as large as that
        return None if NO in way else way - {YES}

    def replace(self, number: int, name: str, value: Index) -> int:
        key = (number, name, value)
        if key not in self.replaced:
            self.replaced[key] = self.book.number(self.over_trips(self.book.conds[number], name, value))
        return self.replaced[key]

    def over_trips(self, cond: Cond, name: str, value: Index) -> Cond:
        """A condition with a value in place of an iteration; `max(0, n) == 0` says that n is less than 1."""
        found = self.math.put_cond(cond, {name: value})
        match found:
            case Compare("==", Binary("max", Const(0), trips), Const(0)):
                return self.math.compare("<", trips, Const(1))
            case Compare(">=", Binary("max", Const(0), trips), Const(1)):
                return self.math.compare(">=", trips, Const(1))
        return found

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

    def is_free_round(self, loop: int, passes: Callable[[int], bool]) -> bool:
        """Whether some way round a loop asks for nothing, by nodes that let one pass."""
        facts = self.flow.loops[loop]
        seen: set[int] = set()
        stack = [node for node in facts.latches if self.asks_nothing(node, facts.head, loop)]
        while stack:
            node = stack.pop()
            if node in seen or not passes(node):
                continue
            if node == facts.head:
                return True
            seen.add(node)
            inner = self.head_of.get(node, -1)
            if inner >= 0 and not self.is_free_round(inner, passes):
                continue
            stack += [
                each
                for each in self.flow.before[node]
                if loop in self.around[each] and inner not in self.around[each] and self.asks_nothing(each, node, loop)
            ]
        return False

    def asks_nothing(self, before: int, node: int, loop: int) -> bool:
        """Whether an edge asks nothing of the iteration of a loop around it, or of one in that loop."""
        conds = self.footprints.branches.get(before)
        if conds is None or self.is_known(before, node):
            return True
        inner = self.head_of.get(before, -1)
        if inner in self.trips and inner not in self.around[node]:
            return True  # left after its trips
        for name in {name for cond in conds for name in names(cond)}:
            opaque = self.footprints.opaques.get(name)
            if opaque is not None and opaque.when == "branch":
                return True
            if opaque is not None and loop in opaque.loops:
                return False
            if name.startswith("#") and loop in self.chain(int(name[1:])):
                return False
        return True

    def chain(self, loop: int) -> tuple[int, ...]:
        """A loop and those around it."""
        return self.around[self.flow.loops[loop].head]

    def is_known(self, before: int, node: int) -> bool:
        """Whether an edge goes into the body of a loop whose trips are known: on the way back it is never the last."""
        loop = self.head_of.get(before, -1)
        return loop in self.trips and loop in self.around[node]


class Search:
    """One search. `step` gives the state before a node, or None where there is nothing left to look for."""

    def __init__(self, paths: Paths, step: Callable[[int, State], State | None], *, parted: bool = False) -> None:
        self.paths, self.flow, self.step = paths, paths.flow, step
        self.parted = parted  # whether it starts where x's wave need not be: conditions on waves say nothing then
        self.waiting: dict[Key, _Waiting] = {}
        self.done: dict[tuple[int, Iterations], list[tuple[State, Conds]]] = {}
        self.queue: list[tuple[int, int, int, Key]] = []
        self.count = 0
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
            ways, loose = _simplified(waiting.ways, self.paths.book)
            node, state, iterations = key
            known = self.done.setdefault((node, iterations), [])
            # Whoever knew less, and had less asked of it, has met all that is met from here.
            weaker = [way for other, way in known if is_weaker(other, state)]
            ways = [way for way in ways if not any(each <= way for each in weaker)]
            if ways:
                known += [(state, way) for way in ways]
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
        self.paths.visits += 1
        if self.paths.visits > MOST_VISITS:
            raise TooMuch(f"more than {MOST_VISITS:,} steps back along its paths")
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
        wave = U if here.state.arrived and not self.parted else None
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
        if first != offset:
            book = self.paths.book
            asked = any(
                book.about(cond, base) and not _is_lower_bound(book.conds[cond], base) for cond in common - asked_then
            )
            if not asked or first - offset >= MOST_GUARDED or -offset >= MOST_ROUNDS:
                self.any_earlier(before, replace(here, loose=here.loose or asked), loop, first, turns)
                return
        self.go(before, here, None, turns)

    def any_earlier(self, before: int, here: Met, loop: int, first: int, turns: int) -> None:
        """Nothing changes on the way round: whatever happens in the iteration before, happens in all earlier ones."""
        place = self.paths.around[here.node].index(loop)
        base, offset = here.iterations[place]
        new = f"<{iteration(loop)}|{_show(here.iterations[:place])}|!{base}!{first:+}"
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


def _below(base: str) -> str:
    """The iteration before which an unknown one lies, if that is the one in which the loop was left."""
    return base.rsplit("|!", 1)[1].rsplit("!", 1)[0] if base.startswith("<") else ""


def _equal_to(cond: Cond, name: str) -> Index | None:
    """What an iteration is equal to, by a condition in normal form."""
    match cond:
        case Compare("==", Name(found), Const() as value) if found == name:
            return value
        case Compare("==", Binary("+", Name(found), rest), Const(value)) if found == name:
            return _minus(rest, value)
    return None


def _minus(rest: Index, value: int) -> Index:
    """`name + rest == value`."""
    negative: Index = Binary("*", rest, Const(-1))
    return Binary("+", negative, Const(value)) if value else negative


def _is_lower_bound(cond: Cond, name: str) -> bool:
    return isinstance(cond, Compare) and cond.op in (">=", ">") and cond.left == Name(name)


def value_of(step: Step) -> Index:
    base, offset = step
    return Name(base) if not offset else Binary("+", Name(base), Const(offset))


def _show(steps: Iterable[Step]) -> str:
    return ";".join(f"{base}{offset:+}" for base, offset in steps)


def _simplified(ways: list[Conds], book: CondBook) -> tuple[list[Conds], bool]:
    """Ways of which one holds if and only if one of the given ones does; or, if there are too many, what all ask."""
    if len(ways) == 1:
        return ways, False
    found: list[Conds] = list(dict.fromkeys(ways))
    changed = True
    while changed:
        changed = False
        found = [way for way in found if not any(other < way for other in found)]
        for place, one in enumerate(found):
            for other in found[place + 1 :]:
                alone, theirs = one - other, other - one
                if len(alone) == len(theirs) == 1 and book.negation(next(iter(alone))) == next(iter(theirs)):
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
