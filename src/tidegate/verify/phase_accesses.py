"""Whether accesses of different waves that touch the same bytes are ordered by barrier objects.

Needs   the order of moments, in which iterations each role comes to each node, footprints
Gives   pairs of accesses that nothing orders, with a point where they meet
Keeps   every pair of conflicting accesses of two waves is asked about, in all iterations in which both are reached and
        in which neither is over before the other one begins
Cost    a difference of isl's sets for each pair that may meet, and a question about bytes for what is left

    read of slot k mod 3  →  arrives %empty, generation k div 3  →  end of a wait for it  →  write of slot k mod 3 again
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations_with_replacement
from typing import Any

from tidegate.footprint.values import iteration
from tidegate.graph import model as g
from tidegate.language import ops
from tidegate.verify.asked import Waves
from tidegate.verify.events import Access, Event, Rules, conflict
from tidegate.verify.meet import Meet
from tidegate.verify.paths import Paths, U, V
from tidegate.verify.phase_conditions import one_of, relation_of, ways_of
from tidegate.verify.phase_domains import Domains
from tidegate.verify.phase_model import Instant, LoosePair, Role
from tidegate.verify.phase_order import Precedence
from tidegate.verify.phase_space import Space
from tidegate.verify.phase_statements import COPIES
from tidegate.verify.phase_ties import tied
from tidegate.verify.search import Search
from tidegate.verify.state import AT_ONCE, State, before, is_performed

UNORDERED, UNFENCED = "unmet", "unfenced"


class Accesses:
    """All accesses of all roles."""

    def __init__(
        self,
        order: Precedence,
        domains: Sequence[Domains],
        meet: Meet,
        events: Mapping[int, tuple[Event, ...]],
        rules: Rules,
    ) -> None:
        self.order, self.meet, self.events, self.rules = order, meet, events, rules
        self.domains = {each.role: each for each in domains}
        self.flow, self.footprints = meet.flow, meet.footprints
        self.access = {
            node: each[0] for node in self.footprints.accesses if isinstance((each := events[node])[0], Access)
        }
        self.reporting = {each.node for each in order.relations.statements if each.kind == COPIES}
        self.found: dict[tuple[object, ...], Any] = {}

    @property
    def space(self) -> Space:
        return self.order.space

    @property
    def paths(self) -> Paths:
        return self.meet.paths

    def clashes(self) -> Iterator[LoosePair]:
        for one, other in combinations_with_replacement(self.domains, 2):
            for x in self.of(one):
                for y in self.of(other):
                    if one is not other or x <= y:
                        yield from self.between(Instant(one, x), Instant(other, y))

    def of(self, role: Role) -> list[int]:
        return [node for node in self.access if node in role.arms]

    def between(self, one: Instant, other: Instant) -> Iterator[LoosePair]:
        """Two accesses of two waves; and of one if the first is a copy that reports, of which nothing else knows."""
        if not conflict(self.access[one.node], self.access[other.node]):
            return
        apart = one.role is not other.role or len(one.role.waves) > 1
        if apart and self.may_meet(one, other, Waves()):
            yield from self.ask(one, other, self.apart(one, other), Waves(), UNORDERED)
            yield from self.unfenced(one, other)
        if one.role is other.role:
            for x, y in {(one, other), (other, one)}:
                if x.node in self.reporting and self.may_meet(x, y, Waves(same=True)):
                    yield from self.ask(x, y, self.in_flight(x, y), Waves(same=True), UNORDERED)

    # --- iterations ---

    def both(self, one: Instant, other: Instant) -> Any:
        """All iterations in which both are reached."""
        pairs = self.space.pairs(one, other, every=True)
        return pairs.intersect_domain(self.reached(one)).intersect_range(self.reached(other))

    def reached(self, moment: Instant) -> Any:
        points = self.domains[moment.role].found[moment.node].points
        return self.space.moments(moment, points).intersect_params(self.order.relations.known)

    def apart(self, one: Instant, other: Instant) -> Any:
        """Iterations in which neither is over before the other one."""
        rest = self.both(one, other)
        if one.node == other.node and self.access[one.node].as_one:
            rest = rest.subtract(self.together(one, other))
        rest = rest.subtract(self.in_turn(one, other))
        return rest if rest.is_empty() else rest.subtract(self.in_turn(other, one).reverse())

    def in_turn(self, one: Instant, other: Instant) -> Any:
        """Iterations in which the first is over before the second begins, and does not come behind it in their program.

        Waves of one program that take different ways are several roles: what stands behind an access may always be
        over before that, which is as wrong as a race.
        """
        found = self.over(one, other)
        if one.role is other.role or one.role.entry != other.role.entry or found.is_empty():
            return found
        # Of final instructions the arms that different waves take stand one behind the other.
        if self.flow.graph.maps and not any({one.node, other.node} <= role.arms.keys() for role in self.domains):
            return found
        text = self.space.program_order_text(other, one)
        return found.subtract(self.space.read_map(text).reverse()) if text else found

    def together(self, one: Instant, other: Instant) -> Any:
        count = len(self.paths.around[one.node])
        same = " and ".join(f"i{place} = j{place}" for place in range(count)) or "1 = 1"
        return self.space.read_map(f"{{ {self.space.named(one)} -> {self.space.named(other, 'j')} : {same} }}")

    def in_flight(self, copy: Instant, other: Instant) -> Any:
        """Iterations in which a wave comes from a copy to something of its own while the copy may be in flight."""
        later = self.order.relations.order(copy, other)
        if later is None:
            return self.space.pairs(copy, other, every=False)
        own = self.both(copy, other).intersect(later)
        if copy.node == other.node:
            own = own.subtract(self.together(copy, other))
        return own.subtract(self.order.landed_before(copy, other))

    def over(self, one: Instant, other: Instant) -> Any:
        """Iterations in which the first is over, and seen to be, before the second begins."""
        key = ("over", one, other)
        if key not in self.found:
            access = self.access[one.node]
            if one.node in self.reporting:
                self.found[key] = self.order.landed_before(one, other)
            elif not access.is_async and self.rules.arrival_performs:
                self.found[key] = self.order.before(one, other)
            else:
                self.found[key] = self.by_arrivals(one, other)
        return self.found[key]

    # --- arrivals that do not perform everything ---

    def by_arrivals(self, one: Instant, other: Instant) -> Any:
        """By way of arrivals of its own role at which the first is performed."""
        found = self.space.pairs(one, other, every=False)
        for at in self.order.sources:
            later = self.order.relations.order(one, at) if at.role is one.role else None
            if later is None or self.order.relations.stretch(at) > self.order.relations.stretch(other):
                continue
            sooner = later.intersect_range(self.reached(at)).intersect_domain(self.reached(one))
            pending = self.pending(at).get(one.node)
            sooner = sooner if pending is None else sooner.subtract(pending)
            if not sooner.is_empty():
                found = found.union(self.order.released(one, at, sooner, other))
        return found.coalesce()

    def pending(self, at: Instant) -> dict[int, Any]:
        """What may not be performed when an arrival is: from its iterations to those of the arrival."""
        key = ("pending", at)
        if key not in self.found:
            self.found[key] = self.search_back(at)
        return self.found[key]  # type: ignore[no-any-return]

    def search_back(self, at: Instant) -> dict[int, Any]:
        start = self.step(at.node, AT_ONCE)
        search = Search(self.paths, lambda node, state: self.step(node, state) if node in at.role.arms else None)
        search.run(at.node, start)
        found: dict[int, Any] = {}
        for met in search.met:
            x = self.access.get(met.node)
            if x is None or met.node not in at.role.arms or is_performed(x, met.state, self.rules):
                continue
            part = relation_of(self.space, self.paths, met, at)
            found[met.node] = found[met.node].union(part) if met.node in found else part
        return found

    def step(self, node: int, state: State) -> State:
        for event in reversed(self.events.get(node, ())):
            state = before(state, event, self.rules, "")
        return state

    # --- fences between the proxies ---

    def unfenced(self, one: Instant, other: Instant) -> Iterator[LoosePair]:
        for x, y in ((one, other), (other, one)):
            if self.rules.needs_fence(self.access[x.node]) and self.access[y.node].proxy != "generic":
                rest = self.both(x, y).intersect(self.over(x, y)).subtract(self.over_behind_fence(x, y))
                yield from self.ask(x, y, rest, Waves(), UNFENCED)

    def over_behind_fence(self, one: Instant, other: Instant) -> Any:
        """By way of a fence, whoever executes it: behind the first, and before the second."""
        found = self.space.pairs(one, other, every=False)
        for fence in (each for role in self.domains for each in self.fences(role)):
            here = self.reached(fence)
            own, met = self.order.relations.order(one, fence), self.over(one, fence).intersect_range(here)
            later, own_later = self.order.before(fence, other), self.order.relations.order(fence, other)
            found = found.union(met.apply_range(later))
            if own is not None:
                found = found.union(own.intersect_range(here).apply_range(later))
            if own_later is not None:
                found = found.union(met.apply_range(own_later))
        return found

    def fences(self, role: Role) -> Iterator[Instant]:
        for node in role.arms:
            match self.flow.action(node):
                case g.Sync(ops.Fence(kind="proxy_async")) if self.domains[role].found[node].exact:
                    yield Instant(role, node)

    # --- bytes ---

    def may_meet(self, one: Instant, other: Instant, waves: Waves) -> bool:
        """Whether they touch a common byte in any iterations at all."""
        x, y = self.footprints.accesses[one.node], self.footprints.accesses[other.node]
        return self.meet.ever_meet(x, y, waves)

    def ask(self, one: Instant, other: Instant, apart: Any, waves: Waves, why: str) -> Iterator[LoosePair]:
        """Whether two accesses meet in one of these iterations."""
        if apart.is_empty():
            return
        x, y = self.footprints.accesses[one.node], self.footprints.accesses[other.node]
        iterations = self.meet.anywhere(x)
        first = [base for base, _ in iterations]
        second = [iteration(loop) for loop in self.paths.around[other.node]]
        members = [one_of(U, one.role.waves), one_of(V, other.role.waves)]
        start = self.paths.start(other.node)
        ways = [
            frozenset(map(self.paths.book.number, [*way, *more, *members]))
            for part, more in tied(self.space, (one, x, iterations), (other, y, start), apart)
            for way in ways_of(self.space, part.coalesce(), first, second)
        ]
        point = self.meet.find(x, y, iterations, ways, waves)
        if point is not None:
            exact = self.domains[one.role].found[one.node].exact and self.domains[other.role].found[other.node].exact
            yield LoosePair(one.node, other.node, why, point, waves.same, exact)
