"""Edges backwards through a flow: in which iterations they begin, and what must hold for them.

Needs   a flow, its footprints, what its branches decide
Gives   for an edge and the iterations at its end those at its beginning, and conditions; names as they are in given
        iterations; what is left of conditions when a loop is left
Keeps   whatever a wave can do satisfies the conditions
Cost    constant for each edge and each way to come to it; all is remembered

An iteration is written as a base and an offset: `#2 - 1` is the one before that of the start. A loop that is entered
from behind gets a new base, and so does one that is gone round without a change: any earlier iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidegate.footprint.arithmetic import ANY, Arithmetic, Range
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
    names,
    why_not_affine,
)
from tidegate.verify.conds import NO, YES, CondBook, Conds, equal_to, is_lower_bound

Step = tuple[str, int]  # a base, and how many iterations after it
Iterations = tuple[Step, ...]  # of the loops around a node, outermost first

U, V = "u'", "v'"  # the waves of x and of y: names that no program has
WILD = "~"  # the base of a loop with several ways in: it has no iterations


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
        self.straight = [self.straight_before(node) for node in range(len(flow.origin))]
        self.effort = 0  # of all searches
        self.where_it_lies: dict[str, set[int]] = {}  # base of an earlier iteration → that it is one
        self.eliminated: dict[tuple[Conds, str], Conds | None] = {}
        self.replaced: dict[tuple[int, str, Index], int] = {}
        self.simplified: dict[tuple[tuple[Conds, ...], int], tuple[tuple[Conds, ...], bool]] = {}  # of searches
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

    def straight_before(self, node: int) -> int:
        """The node before one, if there is no other way to either and both stand in the same loops; else -1."""
        before = self.flow.before[node]
        if node in self.flow.entries or len(before) != 1 or self.flow.successors[before[0]] != (node,):
            return -1
        # Where nobody comes, a circle may be all there is: its nodes have no ranks.
        follows = self.rank[before[0]] < self.rank[node] and self.around[before[0]] == self.around[node]
        return before[0] if follows else -1

    # --- conditions ---

    def at(self, cond: Cond, node: int, iterations: Iterations, wave: str | None) -> Cond | None:
        """A condition as it is in these iterations; None if it says nothing. `wave`: the name of whose it is."""
        return None if why_not_affine(cond) else self.put_at(cond, node, iterations, wave)

    def put_at(self, cond: Cond, node: int, iterations: Iterations, wave: str | None) -> Cond | None:
        """The same, affine or not."""
        by: dict[str, Index] = {}
        for name in names(cond):
            if name in by:
                continue
            found = self.named(name, node, iterations, wave)
            if found is None:
                return None
            by[name] = found
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
                new = f"{iteration(each)}|{show_steps(found)}"
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
            equal = next((each for cond in about if (each := equal_to(book.conds[cond], name)) is not None), None)
            if equal is not None:
                new = {self.replace(cond, name, equal) for cond in about}
                way = way.difference(about) | new
            elif all(is_lower_bound(book.conds[cond], name) for cond in about):
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


def _below(base: str) -> str:
    """The iteration before which an unknown one lies, if that is the one in which the loop was left."""
    return base.rsplit("|!", 1)[1].rsplit("!", 1)[0] if base.startswith("<") else ""


def value_of(step: Step) -> Index:
    base, offset = step
    return Name(base) if not offset else Binary("+", Name(base), Const(offset))


def show_steps(steps: Iterable[Step]) -> str:
    return ";".join(f"{base}{offset:+}" for base, offset in steps)


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
