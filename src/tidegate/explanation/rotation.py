"""The same program with more slots in some buffers.

Needs   a graph whose accesses take slots in turn: `... mod N`, or the pipeliner's `select(i + 1 >= N, 0, i + 1)`
Gives   the graph with M in place of N, or None where slots are chosen in any other way
Keeps   all points keep their numbers. Constants that fill slots before a loop stay. A buffer with one slot takes slots
        by the counter of its loop, if each iteration writes first what it reads, all of it. Whether the same writes
        reach the same reads is not asked here
Cost    linear in the graph

    write %a[(%k + 1) mod 2]                      write %a[(%k + 1) mod 3]
    assign %r = select(%r + 1 >= 2, 0, %r + 1)    assign %r = select(%r + 1 >= 3, 0, %r + 1)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tidegate.graph import model as g
from tidegate.graph.expressions import expressions_of
from tidegate.index import (
    INDEX_TYPES,
    WAVE,
    WORKGROUP,
    ZERO,
    Binary,
    Compare,
    Const,
    Index,
    Name,
    Select,
    constant,
    names,
)


def grow(graph: g.SyncGraph, more: Mapping[str, int]) -> g.SyncGraph | None:
    """The graph with so many more slots in these buffers; None where that has no plain meaning."""
    buffers = {each.name: each for each in graph.buffers}
    if graph.functions or any(_is_shared(buffers[name], graph) for name in more):
        return None
    points = list(graph.points)
    for name, extra in more.items():
        buffer = buffers[name]
        grown = _Rotation(graph, buffer, buffer.slots + extra, set(more)).points(points)
        if grown is None:
            return None
        points = grown
        buffers[name] = replace(buffer, slots=buffer.slots + extra, offset=None)  # it lies apart from all others
    return replace(graph, points=tuple(points), buffers=tuple(buffers.values()))


def _is_shared(buffer: g.Buffer, graph: g.SyncGraph) -> bool:
    """Whether its bytes may be reached in another way than by its name and slot."""
    for other in graph.buffers:
        if other.name != buffer.name and other.offset is not None and buffer.offset is not None:
            apart = other.offset + other.bytes <= buffer.offset or buffer.offset + buffer.bytes <= other.offset
            if not apart:
                return True
    for point in graph.points:
        match point.action:
            case g.Unknown(reaches) if not reaches or buffer.name in reaches:
                return True
            case g.Call():
                return True
            case g.Assign(pairs) if any(buffer.name in _bases(value) for _, value in pairs):
                return True
    return False


def _bases(value: object) -> Iterable[str]:
    match value:
        case g.Ref(base):
            return (base,)
        case g.Either(_, then, otherwise):
            return (*_bases(then), *_bases(otherwise))
    return ()


class _Rotation:
    """One buffer. `circling`: names that go round its slots; `turning`: those that it uses; `among`: all that grow."""

    def __init__(self, graph: g.SyncGraph, buffer: g.Buffer, slots: int, among: set[str]) -> None:
        self.graph, self.buffer, self.slots, self.among = graph, buffer, slots, among
        self.values: dict[str, list[object]] = {}
        for point in graph.points:
            if isinstance(point.action, g.Assign):
                for name, value in point.action.pairs:
                    self.values.setdefault(name, []).append(value)
        self.circling = self.find_circling()
        self.turning: set[str] = set()

    def points(self, points: list[g.Point]) -> list[g.Point] | None:
        """All points, those of `points` with the slots of this buffer in another way."""
        accesses = {number: each.footprint.place.slot for number, each in self.accesses()}
        turned = self.by_counter(accesses) if self.buffer.slots == 1 else self.by_turns(accesses)
        self.follow()
        if turned is None or self.is_used_otherwise():
            return None
        found = list(points)
        for number, slot in turned.items():
            action = found[number].action
            assert isinstance(action, g.Access)
            place = replace(action.footprint.place, slot=slot)
            footprint = replace(action.footprint, place=place)
            found[number] = replace(found[number], action=replace(action, footprint=footprint))
        for number, point in enumerate(found):
            if isinstance(point.action, g.Assign):
                pairs = tuple(
                    (name, self.turn(value) if name in self.turning and isinstance(value, INDEX_TYPES) else value)
                    for name, value in point.action.pairs
                )
                found[number] = replace(point, action=g.Assign(pairs))
        return found

    def accesses(self) -> list[tuple[int, g.Access]]:
        return [
            (number, point.action)
            for number, point in enumerate(self.graph.points)
            if isinstance(point.action, g.Access) and point.action.footprint.place.base == self.buffer.name
        ]

    # --- several slots ---

    def by_turns(self, accesses: dict[int, Index]) -> dict[int, Index] | None:
        """Each access with its new slot; a constant one only before all that go round."""
        round_ = [number for number, slot in accesses.items() if not isinstance(slot, Const)]
        found: dict[int, Index] = {}
        for number, slot in accesses.items():
            if isinstance(slot, Const):
                if not round_ or number > round_[0] or self.graph.points[number].loop >= 0:
                    return None
                found[number] = slot
                continue
            if not self.goes_round(slot, self.circling):
                return None
            self.turning |= self.circling.intersection(names(slot))
            found[number] = self.turn(slot)
        return found if round_ else None

    def find_circling(self) -> set[str]:
        """Names that take only values that go round the slots, constants, and other such names."""
        found = {name for name, values in self.values.items() if not all(isinstance(each, Const) for each in values)}
        while True:
            kept = {name for name in found if all(self.goes_round(each, found) for each in self.values[name])}
            if kept == found:
                return found
            found = kept

    def goes_round(self, value: object, known: set[str]) -> bool:
        """Whether an index is one of the forms that stay below the number of slots."""
        match value:
            case Const(number):
                return 0 <= number < self.buffer.slots
            case Name(name):
                return name in known
            case Binary("mod", _, Const(count)):
                return count == self.buffer.slots
            case Select():
                return self.turned(value) is not None and all(name in known for name in names(value))
        return False

    def turn(self, value: Index) -> Index:
        """The same with more slots."""
        match value:
            case Binary("mod", left, Const()):
                return Binary("mod", left, Const(self.slots))
            case Select():
                return self.turned(value) or value
        return value

    def turned(self, value: Select) -> Index | None:
        """`select(i >= N, 0, i)` and its like, with more slots."""
        cond, count = value.cond, self.buffer.slots
        if not isinstance(cond, Compare) or not isinstance(cond.right, Const):
            return None
        wraps = cond.op in (">=", ">", "==")
        again, on = (value.then, value.otherwise) if wraps else (value.otherwise, value.then)
        index, limit = cond.left, cond.right.value
        limit += cond.op in (">", "<=")  # the first that starts again
        if (limit, on) not in ((count, index), (count - 1, Binary("+", index, Const(1)))) or again not in (
            ZERO,
            Binary("-", index, Const(count)),
        ):
            return None
        if again != ZERO:
            again = Binary("-", index, Const(self.slots))
        moved = Compare(cond.op, index, Const(cond.right.value + self.slots - count))
        return Select(moved, again, on) if wraps else Select(moved, on, again)

    def follow(self) -> None:
        """Names that the turning ones are made of turn as well, if they go round at all."""
        while True:
            values = [each for name in self.turning for each in self.values[name] if isinstance(each, INDEX_TYPES)]
            more = {name for each in values for name in names(each) if name in self.circling}
            if more <= self.turning:
                return
            self.turning |= more

    def is_used_otherwise(self) -> bool:
        """Whether anything else depends on a name that turns: a buffer that stays as it is, a condition, an offset."""
        if not self.turning:
            return False
        for point in self.graph.points:
            match point.action:
                case g.Access(footprint=foot) if foot.place.base in self.among:
                    rest = [foot.place.offset, *(each.limit for each in foot.extents if each.limit is not None)]
                    if self.turning.intersection(name for each in rest for name in names(each)):
                        return True
                    same = next(each for each in self.graph.buffers if each.name == foot.place.base)
                    if same.slots != self.buffer.slots and self.turning.intersection(names(foot.place.slot)):
                        return True
                case g.Assign(pairs):
                    for name, value in pairs:
                        uses = names(value) if isinstance(value, INDEX_TYPES) else ()
                        if name not in self.turning and self.turning.intersection(uses) and not self.is_unused(name):
                            return True
                case _:
                    if self.turning.intersection(name for each in expressions_of(point) for name in names(each)):
                        return True
        return False

    def is_unused(self, name: str) -> bool:
        return all(name not in names(each) for point in self.graph.points for each in expressions_of(point))

    # --- one slot ---

    def by_counter(self, accesses: dict[int, Index]) -> dict[int, Index] | None:
        """A slot for each iteration, if none needs what another one wrote."""
        loops = {self.graph.points[number].loop for number in accesses}
        if len(loops) != 1 or -1 in loops or any(slot != ZERO for slot in accesses.values()):
            return None
        (number,) = loops
        loop = self.graph.loops[number]
        first = constant(loop.lower)
        if not loop.counter or not loop.reducible or loop.step != 1 or first is None or first < 0:
            return None
        writes = [number for number, each in self.accesses() if each.effect == "write"]
        reads = [number for number, each in self.accesses() if each.effect == "read"]
        whole = len(writes) + len(reads) == len(accesses) and not any(
            each.footprint.may for number, each in self.accesses() if number in writes
        )
        if not whole or not writes or not reads or max(writes) > min(reads):
            return None
        if not all(self.is_same_each_time(each) for each in writes) or not all(map(self.always_comes, writes)):
            return None
        slot = Binary("mod", Name(loop.counter), Const(self.slots))
        return dict.fromkeys(accesses, slot)

    def is_same_each_time(self, number: int) -> bool:
        """Whether an access touches the same bytes in every iteration."""
        action = self.graph.points[number].action
        assert isinstance(action, g.Access)
        foot = action.footprint
        used = [foot.place.offset, *(each.limit for each in foot.extents if each.limit is not None)]
        known = {WAVE, *WORKGROUP, *(each.name for each in self.graph.sizes)}
        return all(name in known for each in used for name in names(each))

    def always_comes(self, number: int) -> bool:
        """Whether every iteration comes to a point: none goes round without it."""
        loop = self.graph.points[number].loop
        head = self.graph.loops[loop].head
        seen, stack = {head, number}, [head]
        while stack:
            for successor in self.graph.points[stack.pop()].successors:
                if successor == head:
                    return False
                if successor not in seen and self.is_inside(successor, loop):
                    seen.add(successor)
                    stack.append(successor)
        return True

    def is_inside(self, number: int, loop: int) -> bool:
        found = self.graph.points[number].loop
        while found >= 0 and found != loop:
            found = self.graph.loops[found].parent
        return found == loop
