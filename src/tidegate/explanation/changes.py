"""What can be tried with a barrier: take it away, move it past its neighbour, out of its loop, or weaken it.

Needs   a flow, its target, one group of points
Gives   changes, each with the operations that go, come and stand instead; where there is nothing to try, why
Keeps   points that stay keep their places; a barrier is moved past one access or one other synchronization, no further,
        and only where every wave that passes the one place passes the other
Cost    linear in the points, for each group
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tidegate.diag import BadInput
from tidegate.graph import model as g
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.plan import Insert, Plan
from tidegate.language.ops import (
    CommitGroup,
    ConditionalBarrier,
    Count,
    Fence,
    MbarrierArrive,
    MbarrierWait,
    SharedMemoryBarrier,
    Signal,
    SyncOp,
    Value,
    Wait,
    WaitCount,
    WorkgroupBarrier,
)
from tidegate.language.show import show_op
from tidegate.placement.groups import OBJECT, PAIR, SINGLE, STAGGER, BarrierGroup
from tidegate.placement.need import COPIES, ORDINARY, copy_counters, drain_ops
from tidegate.targets import Target

LOOSEST = 8  # so many more operations in flight are tried at a wait
# What a barrier is moved past, beside accesses.
ORDERING = (
    WorkgroupBarrier,
    SharedMemoryBarrier,
    Signal,
    Wait,
    ConditionalBarrier,
    WaitCount,
    Fence,
    CommitGroup,
    MbarrierArrive,
    MbarrierWait,
)


@dataclass(frozen=True, slots=True)
class Change:
    """`instead`: what stands at a point, None for nothing; `before`: what is put before one."""

    question: str
    tried: str
    instead: dict[int, SyncOp | None] = field(default_factory=dict)
    before: dict[int, tuple[SyncOp, ...]] = field(default_factory=dict)
    why: str = ""  # why there is nothing to try
    part: int = -1

    def apply(self, graph: g.SyncGraph) -> g.SyncGraph | None:
        """Any graph of these points with this change; None if nothing can be put where it asks."""
        points = list(graph.points)
        for number, op in self.instead.items():
            action = g.Compute() if op is None else g.Sync(op)
            points[number] = replace(points[number], action=action)
        edited = replace(graph, points=tuple(points))
        inserts = tuple(Insert(number, op) for number, ops in self.before.items() for op in ops)
        try:
            return apply_to_graph(Plan(inserts), edited) if inserts else edited
        except BadInput:
            return None


class Changes:
    """What can be tried in one graph."""

    def __init__(self, graph: g.SyncGraph, target: Target) -> None:
        self.graph, self.target = graph, target
        self.before = g.predecessors(graph)

    def of(self, group: BarrierGroup) -> Iterator[Change]:
        """Everything but taking it away."""
        if group.kind in (STAGGER, OBJECT):
            return
        if len(group.points) > 1 and group.kind in SINGLE.values():
            yield from self.of_copies(group)
            return
        for point in group.points:
            yield self.move(group, point, -1)
            yield self.move(group, point, 1)
        yield from self.weaker(group.points[0])
        yield from self.outside(group)

    def of_copies(self, group: BarrierGroup) -> Iterator[Change]:
        """One instruction at several points: it is changed at all of them, or not at all."""
        for way in (-1, 1):
            yield _together([self.move(group, point, way) for point in group.points])
        for changes in zip(*map(self.weaker, group.points), strict=False):
            yield _together(changes)

    def without(self, group: BarrierGroup) -> Change:
        return Change("without", "", dict.fromkeys(group.points))

    def without_one(self, group: BarrierGroup) -> Iterator[Change]:
        """Halves of a stagger, one at a time: the others are then left over."""
        if group.kind == STAGGER and len(group.points) > 1:
            for point in group.points:
                yield Change("without", self.place(point), {point: None}, part=point)

    def op(self, point: int) -> SyncOp:
        action = self.graph.points[point].action
        assert isinstance(action, g.Sync)
        assert isinstance(action.op, SyncOp)
        return action.op

    def place(self, point: int) -> str:
        return place_of(self.graph, point)

    # --- moving ---

    def move(self, group: BarrierGroup, point: int, way: int) -> Change:
        """Past the neighbouring access or synchronization; `way` is -1 for earlier, 1 for later."""
        question = "earlier" if way < 0 else "later"
        part = point if group.kind == PAIR else -1
        neighbour = point
        while True:
            following = self.step(neighbour, way)
            if following < 0:
                return Change(question, "", why=self.edge(neighbour, way), part=part)
            neighbour = following
            if self.counts(neighbour):
                break
        if neighbour in group.points and group.kind != PAIR:
            return Change(question, "", why="no access between it and itself")
        if neighbour in group.points:
            word = "signal" if isinstance(self.op(point), Wait) else "wait"
            return Change(question, "", why=f"no access between it and its {word}", part=part)
        if self.graph.points[neighbour].action == self.graph.points[point].action:
            return Change(question, "", why=f"the adjacent {self.place(neighbour)} is the same", part=part)
        tried = f"{'before' if way < 0 else 'after'} {self.place(neighbour)}"
        at = neighbour if way < 0 else self.step(neighbour, 1)
        if at < 0:
            return Change(question, "", why=self.edge(neighbour, way), part=part)
        return Change(question, tried, {point: None}, {at: (self.op(point),)}, part=part)

    def step(self, point: int, way: int) -> int:
        """The point that alone leads here, or to which alone this one leads; -1 if there are several or none."""
        one, other = (self.before[point], None) if way < 0 else (self.graph.points[point].successors, self.before)
        if len(one) != 1:
            return -1
        back = self.graph.points[one[0]].successors if other is None else other[one[0]]
        return one[0] if len(back) == 1 and self.graph.points[one[0]].loop == self.graph.points[point].loop else -1

    def counts(self, point: int) -> bool:
        match self.graph.points[point].action:
            case g.Access() | g.Unknown() | g.Call():
                return True
            case g.Sync(op):
                return isinstance(op, ORDERING)
        return False

    def edge(self, point: int, way: int) -> str:
        """Why there is nothing further on this way."""
        here = self.graph.points[point]
        there = self.before[point] if way < 0 else here.successors
        if not there:
            return f"no access {'before' if way < 0 else 'after'} it"
        which = "first" if way < 0 else "last"
        if here.loop >= 0 and self.graph.loops[here.loop].head in there:
            return f"{which} in {self.loop(here.loop)}"
        beside = {self.graph.points[each].loop for each in there} - {here.loop}
        loop = beside.pop() if len(there) == len(beside) == 1 else -1
        if loop >= 0 and not self.inside(point, loop):
            return f"right {'after' if way < 0 else 'before'} {self.loop(loop)}"
        return "next to a join or branch"

    def loop(self, number: int) -> str:
        counter = self.graph.loops[number].counter
        return f"the loop over `{counter}`" if counter else f"loop {number}"

    # --- weakening ---

    def weaker(self, point: int) -> Iterator[Change]:
        match self.op(point):
            case SharedMemoryBarrier(counts, wait_async_ops, deps, pinned):
                yield Change("weaker", "bare", {point: WorkgroupBarrier(pinned)})
                if counts or wait_async_ops or deps:
                    yield Change("weaker", "LDS only", {point: SharedMemoryBarrier(pinned=pinned)})
                yield self.wait_only(point, counts, wait_async_ops)
            case WaitCount(counts, deps):
                yield from self.looser(point, counts, deps)

    def wait_only(self, point: int, counts: tuple[Count, ...], copies: bool) -> Change:
        counters = copy_counters(self.graph)
        found = drain_ops(self.target, {ORDINARY, COPIES} if copies and counters else {ORDINARY}, counters)
        if not found:
            return Change("weaker", "a wait only", why="the target has no wait for it")
        wait = next((op for op in found if isinstance(op, WaitCount)), None)
        if wait is None:
            return Change("weaker", "a wait only", {point: found[0]})
        merged = dict(counts) | dict(wait.counts)
        return Change("weaker", "a wait only", {point: WaitCount(tuple(sorted(merged.items())))})

    def looser(self, point: int, counts: tuple[Count, ...], deps: tuple[Value, ...]) -> Iterator[Change]:
        for number, (name, count) in enumerate(counts):
            counter = self.target.counters.get(name)
            most = counter.largest if counter is not None else 0
            for more in range(count + 1, min(count + LOOSEST, most) + 1):
                changed = (*counts[:number], (name, more), *counts[number + 1 :])
                yield Change("weaker", f"{name}({more})", {point: WaitCount(changed)})  # values only say what for
        if len(deps) > 1 and not counts:
            for number, dep in enumerate(deps):
                rest = (*deps[:number], *deps[number + 1 :])
                yield Change("weaker", f"without {dep.name}", {point: WaitCount(counts, rest)})

    # --- out of a loop ---

    def outside(self, group: BarrierGroup) -> Iterator[Change]:
        loops = {self.graph.points[point].loop for point in group.points}
        if len(loops) != 1 or -1 in loops:
            return
        (loop,) = loops
        ops = tuple(map(self.op, group.points))
        for word, at in (("before", self.entrance(loop)), ("after", self.exit(loop))):
            tried = f"{word} {self.loop(loop)}"
            if at < 0:
                yield Change("outside", tried, why="nothing can be inserted there")
            else:
                yield Change("outside", tried, dict.fromkeys(group.points), {at: ops})

    def inside(self, point: int, loop: int) -> bool:
        number = self.graph.points[point].loop
        while number >= 0 and number != loop:
            number = self.graph.loops[number].parent
        return number == loop

    def entrance(self, loop: int) -> int:
        """The one point that leads into the loop from outside."""
        head = self.graph.loops[loop].head
        found = [each for each in self.before[head] if not self.inside(each, loop)]
        alone = len(found) == 1 and self.graph.points[found[0]].successors == (head,)
        return found[0] if alone and self.graph.points[found[0]].insertable else -1

    def exit(self, loop: int) -> int:
        """The one point that the loop is left to, if nothing else leads there."""
        inner = [number for number in range(len(self.graph.points)) if self.inside(number, loop)]
        found = {each for one in inner for each in self.graph.points[one].successors if not self.inside(each, loop)}
        if len(found) != 1:
            return -1
        (at,) = found
        alone = all(self.inside(each, loop) for each in self.before[at])
        return at if alone and self.graph.points[at].insertable else -1


def _together(changes: Sequence[Change]) -> Change:
    """All of them as one; why not, if one of them has nothing to try, or they would end in different places."""
    first = changes[0]
    for each in changes:
        if each.why:
            return replace(each, part=-1)
        if each.tried != first.tried:
            return Change(first.question, "", why="its neighbours differ from copy to copy")
    instead = {point: op for each in changes for point, op in each.instead.items()}
    return replace(first, instead=instead, before={at: ops for each in changes for at, ops in each.before.items()})


def place_of(graph: g.SyncGraph, point: int) -> str:
    line = graph.points[point].at.line
    return f"line {line}" if line else f"point {point}"


def show_sync(graph: g.SyncGraph, point: int) -> str:
    """The operation at a point, as it is written."""
    action = graph.points[point].action
    assert isinstance(action, g.Sync)
    return next(show_op(action.op))
