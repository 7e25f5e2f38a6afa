"""Explored nodes as a `SyncGraph`.

Needs   what exploration gave, the arrays, the target, the shape of waves
Gives   the graph, and for each point the operation that it comes from
Keeps   one wave passes every point, whether or not its threads take part in the access there: every meeting is one of
        all threads. Names that stand for arguments are set from outside; all others are assigned on edges
Cost    linear in the nodes and their steps
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby

from tidegate.graph import model as g
from tidegate.graph.builder import GraphBuilder
from tidegate.hosts.isa import model as m
from tidegate.hosts.isa import nodes as n
from tidegate.index import MACHINE_NAMES, WAVE, ZERO, Compare, Cond, Const, Logic, Name
from tidegate.language.ops import (
    CommitGroup,
    ConditionalBarrier,
    Fence,
    SharedMemoryBarrier,
    Signal,
    Value,
    Wait,
    WaitCount,
    WorkgroupBarrier,
)
from tidegate.language.types import DEP
from tidegate.targets import Target


@dataclass(frozen=True, slots=True)
class Launch:
    """The threads of a block: how many in each direction, and how many lanes a wave has."""

    shape: tuple[int, ...]
    lanes: int

    @property
    def threads(self) -> int:
        found = 1
        for each in self.shape:
            found *= each
        return found

    @property
    def waves(self) -> int:
        return -(-self.threads // self.lanes)


def build_graph(code: m.Code, explored: n.Explored, launch: Launch, target: Target) -> g.SyncGraph:
    return _Build(code, explored, launch, target).graph()


@dataclass(slots=True)
class _Build:
    code: m.Code
    explored: n.Explored
    launch: Launch
    target: Target
    buffers: dict[str, str] = field(default_factory=dict)  # array → its buffer
    maps: dict[tuple[int | None, ...], str] = field(default_factory=dict)
    first: dict[int, int] = field(default_factory=dict)  # node → its first point
    fixes: list[tuple[int, int, int]] = field(default_factory=list)  # point, place among its successors, node

    def graph(self) -> g.SyncGraph:
        b = GraphBuilder(self.code.name, self.launch.waves, self.target.name, wave_lanes=self.launch.lanes)
        self.builder = b
        taken = {*self.explored.uses_free, *self.explored.names}
        for array in self.code.arrays:
            name = buffer_of(array.name)
            while name in taken:  # by another array, of which a mark is not for the text of graphs, or by a number
                name += "_"
            taken.add(name)
            self.buffers[array.name] = name
            b.buffer(name, array.bytes)
        for name in sorted(self.explored.uses_free.difference(self.explored.names, MACHINE_NAMES)):
            b.scalar(name)
        for number, node in enumerate(self.explored.nodes):
            self.node(number, node)
        for point, place, number in self.fixes:
            b.points[point].successors[place] = self.first[number]
        b.open = []
        return b.finish()

    builder: GraphBuilder = field(init=False)

    def node(self, number: int, node: n.Node) -> None:
        b = self.builder
        b.open = []
        self.first[number] = len(b.points)
        for waves, steps in groupby(node.steps, key=_waves_of):
            self.steps(waves, list(steps))
        if not node.edges:
            b.add(g.End(), label="end")
        elif len(node.edges) == 1:
            self.edge(node.edges[0])
        else:
            branch = b.add(g.Branch(node.cond), 0, 0, label="branch")
            for place, edge in enumerate(node.edges):
                if edge.assigned:
                    b.open = []
                    self.to_here(branch, place)
                    self.edge(edge)
                else:
                    self.fixes.append((branch, place, edge.node))

    def edge(self, edge: n.Edge) -> None:
        action: g.Action = g.Assign(edge.assigned) if edge.assigned else g.Compute()
        number = self.builder.add(action, 0, label="next")
        self.fixes.append((number, 0, edge.node))

    def steps(self, waves: n.Waves, steps: list[n.Step]) -> None:
        """Steps that other waves jump over: whoever does not know which waves come leaves it open."""
        if waves is None:
            for step in steps:
                self.step(step)
            return
        b = self.builder
        if len(steps) == 1 and isinstance(steps[0], n.Barrier) and (half := self.half_of(waves)):
            b.add(g.Sync(ConditionalBarrier(half)), label=steps[0].op.text, at=steps[0].op.at)
            return
        branch = b.add(g.Branch(_is_one_of(waves)), 0, 0, label="waves")
        self.to_here(branch, 0)
        for step in steps:
            self.step(step)
        b.add(g.Compute(), label="next")
        self.to_here(branch, 1, len(b.points) - 1)

    def half_of(self, waves: tuple[int, ...]) -> str:
        """The half of the waves that these are, if they are one."""
        half, rest = divmod(self.launch.waves, 2)
        low, high = tuple(range(half)), tuple(range(half, self.launch.waves))
        return "" if rest or not half else "low" if waves == low else "high" if waves == high else ""

    def to_here(self, point: int, place: int, where: int | None = None) -> None:
        here = len(self.builder.points) if where is None else where
        self.builder.points[point].successors[place] = here

    def step(self, step: n.Step) -> None:
        b, label = self.builder, step.op.text.replace('"', "'")
        match step:
            case n.Access():
                self.access(step, label)
            case n.Barrier(op, object=str(name)) if name:
                copies = tuple(Value(each, DEP) for each in sorted(self.explored.tracked.get(name, ())))
                b.add(g.Sync(SharedMemoryBarrier(async_deps=copies)), label=label, at=op.at)
            case n.SetsUp(op) | n.Arrives(op):
                b.add(g.Compute(), label=label, at=op.at)
            case n.Barrier(op, part):
                b.add(g.Sync(_BARRIERS[part]), label=label, at=op.at)
            case n.Issues(op, counter):
                b.add(g.Compute(), label=label, at=op.at, issues=(g.Issue(counter, 1, 1),))
            case n.CountedWait(op, counts):
                b.add(g.Sync(WaitCount(counts)), label=label, at=op.at)
            case n.Fence(op, waves):
                b.add(g.Sync(Fence("wave"), waves or ()), label=label, at=op.at)
            case n.ProxyOrder(op):
                b.add(g.Sync(Fence("proxy_async")), label=label, at=op.at)
            case n.Commit(op, _):
                b.add(g.Sync(CommitGroup(None)), label=label, at=op.at, issues=(g.Issue(self.queue_of(op), 1, 1),))
            case n.WaitGroups(op, count, _):
                b.add(g.Sync(WaitCount(((self.queue_of(op), count),))), label=label, at=op.at)

    def access(self, step: n.Access, label: str) -> None:
        touch = step.op.action
        name = self.maps.get(step.starts)
        if name is None:
            name = self.maps[step.starts] = self.builder.threads(f"%t{len(self.maps)}", step.starts)
        # Waits of some threads only are left out, so what races here may be ordered by them (test_ptx_check).
        may = step.may or (self.explored.parts_wait and isinstance(touch, m.Touch) and touch.is_async)
        foot = g.Footprint(g.Ref(self.buffers[step.array], ZERO, step.plus), (), step.bytes, may, name)
        if not isinstance(touch, m.Touch):  # of an operation without a description
            whole = g.Access("write", foot, lanes=self.lanes, collective=self.code.by_wave)
            self.builder.add(whole, label=label, role="other", at=step.op.at)
            return
        action = g.Access(
            touch.effect,
            foot,
            touch.is_async,
            touch.proxy,
            operator=touch.operator,
            element=touch.element if not step.widened else "",
            as_one=step.as_one,
            collective=touch.collective or self.code.by_wave,
            lanes=self.lanes,
            token=step.token,
        )
        if touch.effect == "atomic" and step.widened:
            action = replace(action, element=touch.element)
        role = "copy" if touch.is_async else "local_read" if touch.effect == "read" else "local_write"
        issues = (g.Issue(self.queue_of(step.op), 0, 0, self.in_order),) if touch.is_async else ()
        if touch.counter:
            issues = (g.Issue(touch.counter, int(step.counts and touch.counted), 1),)
        self.builder.add(action, label=label, role=role, at=step.op.at, issues=issues)

    @property
    def lanes(self) -> str:
        """A wave that carries out an instruction as one is as good as a single lane: program order is that of all."""
        return g.ONE_LANE if self.code.by_wave else ""

    def queue_of(self, op: m.Op) -> str:
        """The counter of the groups that an operation is about."""
        match op.action:
            case m.Touch(queue=queue) | m.Commit(queue=queue) | m.WaitGroups(queue=queue) if queue:
                return queue
        return self.target.counter_of("gather_to_lds")

    @property
    def in_order(self) -> bool:
        return self.target.operations["gather_to_lds"].in_order


_BARRIERS: dict[str, WorkgroupBarrier | Signal | Wait] = {
    "": WorkgroupBarrier(),
    "arrive": Signal(-1),
    "depart": Wait(-1),
}


def _waves_of(step: n.Step) -> n.Waves:
    return step.waves if isinstance(step, n.Access | n.Barrier | n.Issues | n.CountedWait | n.ProxyOrder) else None


def _is_one_of(waves: tuple[int, ...]) -> Cond | None:
    """A condition on the number of the wave; None where it is not known which they are."""
    found: Cond | None = None
    for first in (each for each in waves if each - 1 not in waves):
        last = next(each for each in range(first, max(waves) + 1) if each + 1 not in waves)
        run = Logic("and", Compare(">=", Name(WAVE), Const(first)), Compare("<=", Name(WAVE), Const(last)))
        found = run if found is None else Logic("or", found, run)
    return found


def buffer_of(array: str) -> str:
    """A name that the text of graphs can hold."""
    return "%" + "".join(each if each.isalnum() or each == "_" else "_" for each in array)
