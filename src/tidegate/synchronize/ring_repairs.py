"""What the rings of a program with roles may lack: arrivals, waits, and a rendezvous where there is no ring.

Needs   a graph, its flow and footprints, its roles, its target
Gives   `Lack`s: each with alternatives, the likeliest first, of which one may mend it
Keeps   nothing is decided here: an alternative counts for nothing until the program with it is proved. Slots are those
        that the role uses in the same loop, parities follow from its other waits or from the slot
Cost    the points of each role

    no wave arrives at %empty          →  mbarrier_arrive %empty[%j mod 2] behind the last read of the consumer's loop
    the producer does not wait for it  →  mbarrier_wait %empty[%k mod 2] parity (%k // 2 + 1) mod 2 before its copy
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from tidegate.footprint.model import Footprints
from tidegate.graph import model as g
from tidegate.graph.flow import Flow
from tidegate.graph.plan import Insert, NewOp
from tidegate.index import ZERO, Binary, Const, Index, Name, substitute
from tidegate.language.ops import (
    Fence,
    MbarrierArrive,
    MbarrierWait,
    NewBarrier,
    Place,
    SharedMemoryBarrier,
    Signal,
    Value,
    Wait,
    WaitCount,
)
from tidegate.language.types import BarrierObject
from tidegate.placement.need import ORDINARY, copy_counters, drain_ops
from tidegate.targets import Target
from tidegate.verify.paths import Paths
from tidegate.verify.phase_model import Role
from tidegate.verify.phase_roles import find_roles

Edits = tuple[Insert, ...]
ONE, TWO = Const(1), Const(2)


@dataclass(frozen=True, slots=True)
class Lack:
    """What is missing, in words; `ways`: edits that may mend it. `certain`: whether the program cannot do without."""

    says: str
    ways: tuple[Edits, ...]
    certain: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class RoleLoop:
    """What one role does with one buffer in one loop, or outside of all (-1). Points in the order of the text."""

    role: Role
    buffer: str
    loop: int
    accesses: tuple[int, ...]
    inside: tuple[int, ...]  # all points of the role in this loop

    @property
    def first(self) -> int:
        return self.accesses[0]

    @property
    def last(self) -> int:
        return self.accesses[-1]


class RingRepairs:
    """What may be missing in one program."""

    def __init__(
        self, flow: Flow, footprints: Footprints, paths: Paths, target: Target, taken: frozenset[str] = frozenset()
    ) -> None:
        self.taken = taken  # names of the program
        self.flow, self.graph, self.target, self.paths = flow, flow.graph, target, paths
        self.roles = find_roles(flow, footprints, paths)
        self.objects = {each.name: each.type for each in self.graph.objects if isinstance(each.type, BarrierObject)}

    @cached_property
    def bodies(self) -> list[RoleLoop]:
        found = []
        for role in self.roles:
            nodes = sorted(role.arms, key=self.paths.rank.__getitem__)
            by_place: dict[tuple[str, tuple[int, ...]], list[int]] = {}
            for node in nodes:
                action = self.flow.action(node)
                if isinstance(action, g.Access):
                    place = action.footprint.place.base, tuple(self.paths.around[node])
                    by_place.setdefault(place, []).append(self.flow.origin[node])
            for (buffer, chain), accesses in by_place.items():
                inside = tuple(self.flow.origin[n] for n in nodes if tuple(self.paths.around[n])[: len(chain)] == chain)
                found.append(RoleLoop(role, buffer, chain[-1] if chain else -1, tuple(accesses), inside))
        return found

    def action(self, point: int) -> g.Action:
        return self.graph.points[point].action

    def of_rings(self) -> Iterator[Lack]:
        for name, type_ in self.objects.items():
            if type_.kind == "mbarrier":
                yield from self.of_ring(name, type_)
                for kind in (MbarrierArrive, MbarrierWait):
                    yield from self.of_siblings(name, kind)

    # --- rings ---

    def of_ring(self, name: str, type_: BarrierObject) -> Iterator[Lack]:
        arriving, waiting = self.users(name, MbarrierArrive), self.users(name, MbarrierWait)
        lacking = type_.arrivals - sum(len(role.waves) for role in arriving)
        reporting = [role for role in self.roles if any(self.reports(point, name) for point in self.points(role))]
        helpers = [each for each in self.sharing() if each.role not in (*arriving, *waiting)]
        if lacking > 0:
            expecting = [each for each in self.bodies if each.role in reporting and each.role not in arriving]
            fit = [each for each in helpers if len(each.role.waves) == lacking and each.role not in reporting]
            ways = tuple(way for each in expecting for way in self.expected(name, type_, each))
            ways += tuple(way for each in fit for way in self.arrivals(name, type_, each))
            yield Lack(f"an arrival at `{name}`, which counts {type_.arrivals}", ways)
        sources = {*arriving, *reporting}
        able = [each for each in helpers if each.role not in reporting]
        ways = tuple(way for each in able for way in self.waits(name, type_, each))
        if not waiting:
            yield Lack(f"a wait for `{name}`", ways)
        elif sources and ways:
            yield Lack(f"a further wait for `{name}`", ways, certain=False)

    def users(self, name: str, kind: type) -> list[Role]:
        return [role for role in self.roles if any(self.uses(point, name, kind) for point in self.points(role))]

    def points(self, role: Role) -> Iterator[int]:
        return (self.flow.origin[node] for node in role.arms)

    def uses(self, point: int, name: str, kind: type) -> bool:
        match self.action(point):
            case g.Sync(MbarrierArrive(barrier=place) | MbarrierWait(barrier=place) as op):
                return isinstance(op, kind) and place.base.name == name
        return False

    def reports(self, point: int, name: str) -> bool:
        action = self.action(point)
        return isinstance(action, g.Access) and action.mbarrier is not None and action.mbarrier.base == name

    def sharing(self) -> list[RoleLoop]:
        """Bodies whose buffer another role touches as well, one of both to write it."""
        return [
            each
            for each in self.bodies
            if any(
                other.buffer == each.buffer
                and other.role is not each.role
                and (self.writes(each) or self.writes(other))
                for other in self.bodies
            )
        ]

    def writes(self, body: RoleLoop) -> bool:
        actions = map(self.action, body.accesses)
        return any(isinstance(each, g.Access) and each.effect != "read" for each in actions)

    def arrivals(self, name: str, type_: BarrierObject, body: RoleLoop) -> Iterator[Edits]:
        for slot in self.slots(type_, body):
            op = MbarrierArrive(Place(Value(name, type_), slot))
            why = (f"ring `{name}`: missing arrival",)
            for point in self.behind(body):
                yield (*(Insert(point, each, why) for each in self.drains()), Insert(point, op, why))

    def waits(self, name: str, type_: BarrierObject, body: RoleLoop) -> Iterator[Edits]:
        for slot in self.slots(type_, body):
            for parity in self.parities(slot, type_, body):
                op = MbarrierWait(Place(Value(name, type_), slot), parity)
                for point in self.before(body):
                    yield (Insert(point, op, (f"ring `{name}`: missing wait",)),)

    def expected(self, name: str, type_: BarrierObject, body: RoleLoop) -> Iterator[Edits]:
        """An arrival that expects the bytes of the copies of one loop, before the first of them."""
        copies = [(each, self.action(each)) for each in body.inside if self.reports(each, name)]
        size = sum(bytes_of(copy) for _, copy in copies if isinstance(copy, g.Access))
        for slot in self.slots(type_, body) if copies and self.graph.points[copies[0][0]].insertable else ():
            op = MbarrierArrive(Place(Value(name, type_), slot), size)
            yield (Insert(copies[0][0], op, (f"ring `{name}`: missing arrival",)),)

    # --- loops of one role that are alike ---

    def of_siblings(self, name: str, kind: type[MbarrierArrive | MbarrierWait]) -> Iterator[Lack]:
        """What one loop of a role does at an object, and another one on the same buffer does not."""
        shared = [each for each in self.sharing() if each.loop >= 0]
        seen: set[tuple[int, int]] = set()
        for role in self.users(name, kind):
            own = [each for each in shared if each.role is role]
            having = [each for each in own if any(self.uses(point, name, kind) for point in each.inside)]
            for body in own:
                models = [each for each in having if each.buffer == body.buffer]
                if body not in having and models and (role.number, body.loop) not in seen:
                    seen.add((role.number, body.loop))
                    here = self.merged([each for each in own if each.loop == body.loop])
                    ways = tuple(way for each in models for way in self.alike(name, kind, each, here))
                    word = "an arrival at" if kind is MbarrierArrive else "a wait for"
                    yield Lack(f"{word} `{name}` in a loop, as in another loop of the role", ways)

    def merged(self, bodies: Sequence[RoleLoop]) -> RoleLoop:
        """Those of one loop, with the accesses to all of their buffers."""
        one = bodies[0]
        touched = {point for each in bodies for point in each.accesses}
        return RoleLoop(
            one.role, one.buffer, one.loop, tuple(each for each in one.inside if each in touched), one.inside
        )

    def alike(self, name: str, kind: type, model: RoleLoop, body: RoleLoop) -> Iterator[Edits]:
        """What another loop does, with the counter of this one."""
        counters = [self.graph.loops[each.loop].counter for each in (model, body)]
        by = {counters[0]: Name(counters[1])} if all(counters) else {}
        for point in (each for each in model.inside if self.uses(each, name, kind)):
            match self.action(point):
                case g.Sync(MbarrierWait(barrier=place, parity=parity)):
                    at = Place(place.base, substitute(place.slot, by))
                    op: NewOp = MbarrierWait(at, substitute(parity, by))
                    places = self.before(body)
                case g.Sync(MbarrierArrive(barrier=place, expect=expect)):
                    op = MbarrierArrive(Place(place.base, substitute(place.slot, by)), expect)
                    places = self.before(body) if expect else self.behind(body)
                case _:
                    continue
            why = (f"ring `{name}`: as in another loop",)
            for each in places:
                drains = self.drains() if isinstance(op, MbarrierArrive) and not op.expect else ()
                yield (*(Insert(each, drain, why) for drain in drains), Insert(each, op, why))

    # --- slots and parities ---

    def slots(self, type_: BarrierObject, body: RoleLoop) -> list[Index]:
        """Those that the role uses in this loop of what has as many slots."""
        if type_.slots == 1:
            return [ZERO]
        found: list[Index] = []
        many = {each.name: each.slots for each in self.graph.buffers} | {n: t.slots for n, t in self.objects.items()}
        for point in (*body.accesses, *body.inside):
            match self.action(point):
                case g.Access(footprint=foot) if many.get(foot.place.base) == type_.slots:
                    found.append(foot.place.slot)
                case g.Sync(MbarrierArrive(barrier=place) | MbarrierWait(barrier=place)):
                    found += [place.slot] if many.get(place.base.name) == type_.slots else []
        return list(dict.fromkeys(found))[:2]

    def parities(self, slot: Index, type_: BarrierObject, body: RoleLoop) -> list[Index]:
        """Of the role's own waits, and as the slot counts; first the one that a writer or a reader would have."""
        found: list[Index] = []
        for point in body.inside:
            match self.action(point):
                case g.Sync(MbarrierWait(barrier=place, parity=parity)) if place.slot == slot:
                    found += [parity, Binary("mod", Binary("+", parity, ONE), TWO)]
        round_ = self.round_of(slot, type_, body)
        if round_ is not None:
            found += [Binary("mod", round_, TWO), Binary("mod", Binary("+", round_, ONE), TWO)]
        elif body.loop < 0:
            found += [ZERO, ONE]
        ordered = list(dict.fromkeys(found))
        if self.writes(body):  # a writer passes the first round at once, and waits for the one before later on
            ordered[:2] = reversed(ordered[:2])
        return ordered[:3]

    def round_of(self, slot: Index, type_: BarrierObject, body: RoleLoop) -> Index | None:
        """How often a slot has been used before, if it is a counter modulo the number of slots."""
        match slot:
            case Binary("mod", counted, Const(value)) if value == type_.slots:
                return Binary("//", counted, Const(value))
        counter = self.graph.loops[body.loop].counter if body.loop >= 0 else ""
        return Name(counter) if counter and type_.slots == 1 else None

    # --- places ---

    def before(self, body: RoleLoop) -> list[int]:
        """In front of the first arrival or access of the loop, and of the first access to the buffer."""
        ring = (point for point in body.inside if self.arrives(point))
        found = [min(next(ring, body.first), body.first), body.first]
        return [each for each in dict.fromkeys(found) if self.graph.points[each].insertable]

    def arrives(self, point: int) -> bool:
        match self.action(point):
            case g.Sync(MbarrierArrive()):
                return True
        return False

    def behind(self, body: RoleLoop) -> list[int]:
        """Behind the last access and what waits or fences behind it, and at the end of the loop."""
        following = self.following(body.last)
        while following >= 0 and self.drains_there(following):
            following = self.following(following)
        found = [following] if following >= 0 else []
        if body.loop >= 0:
            head = self.graph.loops[body.loop].head
            found += [point for point in body.inside if head in self.graph.points[point].successors and point != head]
        return [each for each in dict.fromkeys(found) if self.graph.points[each].insertable]

    def following(self, point: int) -> int:
        """The only point behind one; -1 if there are several, or none."""
        successors = self.graph.points[point].successors
        return successors[0] if len(successors) == 1 else -1

    def drains_there(self, point: int) -> bool:
        action = self.action(point)
        return isinstance(action, g.Sync) and isinstance(action.op, Fence | WaitCount)

    def drains(self) -> Sequence[NewOp]:
        """What performs a wave's own accesses before it arrives, where the arrival itself does not."""
        if self.target.barrier.performs == "ordinary":
            return ()
        return drain_ops(self.target, {ORDINARY}, copy_counters(self.graph)) or ()

    # --- without a ring ---

    def of_pairs(self) -> Iterator[Lack]:
        """A rendezvous for two roles that share a buffer and no object."""
        for number, one in enumerate(self.bodies):
            for other in self.bodies[number + 1 :]:
                if one.buffer == other.buffer and one.role is not other.role and not self.are_joined(one, other):
                    first, second = self.in_order(one, other)
                    if first is not None and second is not None:
                        yield Lack(f"a rendezvous of two roles that share `{one.buffer}`", self.meetings(first, second))

    def are_joined(self, one: RoleLoop, other: RoleLoop) -> bool:
        both = [self.objects_of(each.role) for each in (one, other)]
        return bool(both[0] & both[1]) or not (self.writes(one) or self.writes(other))

    def objects_of(self, role: Role) -> set[str]:
        found: set[str] = set()
        for point in self.points(role):
            match self.action(point):
                case g.Sync(MbarrierArrive(barrier=place) | MbarrierWait(barrier=place)):
                    found.add(place.base.name)
                case g.Sync(Signal() | Wait() as op):
                    found |= {op.barrier.name} if isinstance(op.barrier, Value) else set()
                case g.Access() as access if access.mbarrier is not None:
                    found.add(access.mbarrier.base)
        return found

    def in_order(self, one: RoleLoop, other: RoleLoop) -> tuple[RoleLoop, RoleLoop] | tuple[None, None]:
        """The role that begins with a write comes first; where both do, or their loops differ, nobody can tell."""
        begins = [self.writes_first(each) for each in (one, other)]
        if begins[0] == begins[1] or (one.loop < 0) != (other.loop < 0):
            return None, None
        return (one, other) if begins[0] else (other, one)

    def writes_first(self, body: RoleLoop) -> bool:
        action = self.action(body.first)
        return isinstance(action, g.Access) and action.effect != "read"

    def meetings(self, writer: RoleLoop, reader: RoleLoop) -> tuple[Edits, ...]:
        """Behind the write and before the read; in loops also at the end of both, before the next write."""
        waves = len(writer.role.waves) + len(reader.role.waves)
        ways = []
        for behind in self.behind(writer):
            there = [(behind, reader.first)]
            ends = [self.behind(each)[-1:] for each in (writer, reader)] if writer.loop >= 0 else [[]]
            again = [*there, (ends[0][0], ends[1][0])] if all(ends) else []
            for places in (there, again) if again else (there,):
                if waves == self.graph.waves:
                    ways.append(self.whole(places))
                elif self.target.barrier.named:
                    ways.append(self.named(places, waves))
        return tuple(each for each in ways if all(self.graph.points[edit.before].insertable for edit in each))

    def whole(self, places: Sequence[tuple[int, int]]) -> Edits:
        why = ("the roles meet here",)
        return tuple(Insert(point, SharedMemoryBarrier(), why) for pair in places for point in pair)

    def named(self, places: Sequence[tuple[int, int]], waves: int) -> Edits:
        why, found = ("two roles meet here",), []
        entry = self.graph.programs[0].entry
        for number, pair in enumerate(places):
            barrier = Value(self.free_name(number), BarrierObject("named_barrier", waves))
            found.append(Insert(entry, NewBarrier(barrier), ("for two roles",)))
            for point in pair:
                ops: list[NewOp] = [*self.drains(), Signal(barrier), Wait(barrier)]
                found += [Insert(point, op, why) for op in ops]
        return tuple(found)

    def free_name(self, number: int) -> str:
        taken = {*self.taken, *(each.name for each in self.graph.objects), *(each.name for each in self.graph.buffers)}
        names = (f"%meet{each or ''}" for each in range(len(taken) + 2 * number + 2))
        return [each for each in names if each not in taken][number]


def bytes_of(access: g.Access) -> int:
    return access.footprint.width * prod(each.count for each in access.footprint.extents)
