"""Barriers at which the n-th arrival of each wave meets the n-th of all others.

Needs   statements at the workgroup's barrier, at barriers by their number, and at named ones
Gives   edges between arrivals and departures; which named barriers are of this kind
Keeps   roles that meet come to the barrier equally often, in the same loops and under the same conditions; a wave waits
        between two arrivals
Cost    a comparison of isl's sets for each role

Nothing is guessed: the arrivals of a role are told apart by where they stand among its arrivals, `[2, i0, 1]` for the
first arrival in the second loop that has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import islpy as isl

from tidegate.verify.phase_model import Instant, Outside, Role
from tidegate.verify.phase_space import Space, union
from tidegate.verify.phase_statements import ARRIVES, MEETS, WAITS, ObjectUseAt, SyncObject


@dataclass(slots=True)
class MeetingEdges:
    """`edges`: from arrivals to ends, but for walls. `names`: of the barriers that are decided by these.

    `maybe`: the same where all waves meet in iterations that nobody knows: each may be there or not.
    `walls`: for each role the places outside all loops at which all waves meet, in their order.
    """

    edges: list[tuple[Instant, Instant, Any]] = field(default_factory=list)
    maybe: list[tuple[Instant, Instant, Any]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    walls: dict[int, list[int]] = field(default_factory=dict)


def find_meetings(space: Space, roles: Sequence[Role], statements: Sequence[ObjectUseAt], known: Any) -> MeetingEdges:
    found = MeetingEdges()
    at: dict[SyncObject, list[ObjectUseAt]] = {}
    for each in statements:
        if not each.barrier.by_parity and not each.maybe:
            at.setdefault(each.barrier, []).append(each)
    found.maybe += _maybe(space, [each for each in statements if each.maybe])
    found.names.update(each.barrier.name for each in statements if each.maybe)
    for barrier, here in at.items():
        try:
            meeting = _OneMeeting(space, roles, barrier, here, known)
            meeting.check()
        except Outside:
            if not barrier.arrivals:
                raise
            continue  # it has phases, and may be decided by counting
        found.names.add(barrier.name)
        walls = meeting.walls() if len(meeting.roles) == len(roles) else {}
        for role, ranks in walls.items():
            found.walls.setdefault(role, []).extend(ranks)
        found.edges += meeting.edges({role: set(ranks) for role, ranks in walls.items()})
    for ranks in found.walls.values():
        ranks.sort()
    return found


def _maybe(space: Space, statements: Sequence[ObjectUseAt]) -> Iterator[tuple[Instant, Instant, Any]]:
    """Waves that come to one node in the same iterations meet there."""
    for one in statements:
        for other in statements:
            if one.node == other.node and one.role is not other.role:
                first, second = Instant(one.role, one.node), Instant(other.role, other.node, 1)
                inner = ", ".join(f"i{place}" for place in range(len(space.paths.around[one.node])))
                same = space.read_map(f"{{ {space.name(first)}[{inner}] -> {space.name(second)}[{inner}] }}")
                yield first, second, same.intersect_domain(space.moments(first, one.domain))


class _OneMeeting:
    """One barrier at which roles meet."""

    def __init__(
        self, space: Space, roles: Sequence[Role], barrier: SyncObject, here: Sequence[ObjectUseAt], known: Any
    ) -> None:
        self.space, self.barrier, self.known = space, barrier, known
        self.roles = list({each.role.number: each.role for each in here}.values())
        if not barrier.arrivals and len(self.roles) < len(roles):
            raise Outside(f"not all waves come to {barrier}")
        if barrier.arrivals and sum(len(role.waves) for role in self.roles) != barrier.arrivals:
            raise Outside(f"{barrier} counts other arrivals than one of each wave")
        self.arriving: dict[int, list[tuple[ObjectUseAt, Any]]] = {}
        self.leaving: dict[int, list[tuple[ObjectUseAt, Any]]] = {}
        for role in self.roles:
            own = [each for each in here if each.role is role]
            self.arriving[role.number] = self.places([each for each in own if each.kind in (ARRIVES, MEETS)])
            self.leaving[role.number] = self.places([each for each in own if each.kind in (WAITS, MEETS)])

    def check(self) -> None:
        if not all(self.leaving.values()) or not all(self.arriving.values()):
            raise Outside(f"an arrival at {self.barrier} without a wait")
        for role in self.arriving:
            self.take_turns(role)
        parts = [
            union(points.range() for _, points in each) for each in (*self.arriving.values(), *self.leaving.values())
        ]
        if any(not each.is_equal(parts[0]) for each in parts):
            raise Outside(f"waves come to {self.barrier} in different loops, or under different conditions")

    def edges(self, walls: dict[int, set[int]]) -> list[tuple[Instant, Instant, Any]]:
        """From arrivals to ends; of walls everybody knows."""
        found = []
        for ones in self.arriving.values():
            for others in self.leaving.values():
                for one, here in ones:
                    for other, there in others:
                        if any(self.space.outermost(x.node) in walls.get(x.role.number, ()) for x in (one, other)):
                            continue
                        first, second = Instant(one.role, one.node), Instant(other.role, other.node, 1)
                        edge = self.name(first, here).apply_range(self.name(second, there).reverse())
                        if not edge.is_empty():
                            found.append((first, second, edge.coalesce()))
        return found

    def name(self, moment: Instant, places: Any) -> Any:
        """From moments to places."""
        return places.set_tuple_name(isl.dim_type.in_, self.space.name(moment))

    def walls(self) -> dict[int, list[int]]:
        """Where all waves meet outside all loops, whatever happens."""
        here: dict[int, dict[int, int]] = {}  # for each role the number of the arrival, and its place
        for role, statements in self.arriving.items():
            here[role] = {}
            for each, points in statements:
                always = not self.space.paths.around[each.node] and each.kind == MEETS
                if always and self.known.is_subset(points.domain().params()):
                    number = int(points.range().dim_min_val(0).to_python())
                    here[role][number] = self.space.rank[each.node]
        # Others may come to the same rendezvous in two steps, or in a loop that runs once.
        common = sorted(set.intersection(*(set(each) for each in here.values())))
        return {role: [ranks[number] for number in common] for role, ranks in here.items()} if common else {}

    def take_turns(self, role: int) -> None:
        """A wave that has arrived waits before it arrives again."""
        barrier = self.barrier
        for one, here in self.arriving[role]:
            for other, there in self.leaving[role]:
                own = here.apply_range(there.reverse())
                if not self.is_later(one, 0, other, 1, own):
                    raise Outside(f"a wait for {barrier} stands before its arrival")
                following = isl.Map.lex_lt(here.range().get_space())
                again = there.apply_range(following).apply_range(here.reverse())
                if not self.is_later(other, 1, one, 0, again):
                    raise Outside(f"an arrival at {barrier} before the wait for the one before it")

    def is_later(self, one: ObjectUseAt, end: int, other: ObjectUseAt, other_end: int, pairs: Any) -> bool:
        first, second = Instant(one.role, one.node, end), Instant(other.role, other.node, other_end)
        if pairs.is_empty():
            return True
        text = self.space.order_text(first, second)
        if not text:
            return False
        named = pairs.set_tuple_name(isl.dim_type.in_, self.space.name(first))
        named = named.set_tuple_name(isl.dim_type.out, self.space.name(second))
        return bool(named.is_subset(self.space.read_map(text)))

    def places(self, statements: Sequence[ObjectUseAt]) -> list[tuple[ObjectUseAt, Any]]:
        """From iterations to places among the role's own statements."""
        numbers = dict(_numbered(self.space, statements))
        found = []
        for each in statements:
            chain = self.space.paths.around[each.node]
            inner = ", ".join(f"i{place}" for place in range(len(chain)))
            coordinates: list[str] = []
            for place, number in enumerate(numbers[each]):
                coordinates += [str(number), *([f"i{place}"] if place < len(chain) else [])]
            coordinates += ["0"] * (2 * self.space.depth + 1 - len(coordinates))
            name = self.space.read_map(f"{{ [{inner}] -> [{', '.join(coordinates)}] }}")
            found.append((each, name.intersect_domain(each.domain.intersect_params(self.known))))
        return found


def _numbered(space: Space, statements: Sequence[ObjectUseAt]) -> Iterator[tuple[ObjectUseAt, list[int]]]:
    """For each statement its number among the statements and loops on each level around it."""
    levels: dict[tuple[int, ...], list[int]] = {}
    paths = {each: _path(space, each.node) for each in statements}
    for path in paths.values():
        for depth in range(len(path)):
            found = levels.setdefault(path[:depth], [])
            if path[depth] not in found:
                found.append(path[depth])
    for found in levels.values():
        found.sort()
    for each, path in paths.items():
        yield each, [levels[path[:depth]].index(path[depth]) for depth in range(len(path))]


def _path(space: Space, node: int) -> tuple[int, ...]:
    """The ranks of the loops around a node, and its own."""
    heads = [space.flow.loops[loop].head for loop in space.paths.around[node]]
    return tuple(space.rank[each] for each in (*heads, node))
