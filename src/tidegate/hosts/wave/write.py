"""Plans carried out in a trace, as operations of Wave.

Needs   a trace, its graph with the node of each point, a plan, and whether counted waits are wanted
Gives   the trace with barriers and waits put in, changed or taken away; the nodes that were put in
Keeps   what stands in the trace is never weaker than the plan: where Wave has no operation for a count, or counts are
        not wanted, the wait is for all; Wave's own code generator lowers every operation that is put in
Cost    linear in the edits

    insert shared_memory_barrier vmcnt(0)         SharedMemoryBarrier(wait_async_ops=True)
    insert shared_memory_barrier vmcnt(4)         MemoryCounterWait(load=4, ds=0), WorkgroupBarrier, SchedulingBarrier
    insert wait_count dscnt(0); signal -1         SharedMemoryBarrierSignal(-1)

A counted wait stands before a bare barrier: Wave's own barrier becomes one that waits for everything (LLVM 22).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

from tidegate.diag import BadInput, Finding, Label
from tidegate.graph import model as g
from tidegate.graph.plan import Change, Delete, Edit, Insert, Move, Plan, Reorder
from tidegate.hosts.wave.build import Built
from tidegate.hosts.wave.build_sync import WORKGROUP_BARRIER
from tidegate.hosts.wave.nodes import op_of, span_of
from tidegate.language import ops
from tidegate.targets import Target


@dataclass(frozen=True, slots=True)
class Written:
    """What was done to a trace, and how to undo it."""

    new: tuple[Any, ...]  # nodes that were put in
    undo: tuple[Callable[[], None], ...] = ()  # what brings back the others


def write(plan: Plan, built: Built, target: Target, *, counts: bool = False) -> Written:
    """Carries out a plan in the trace that a graph was made of."""
    writer = _Writer(built, target, counts)
    try:
        writer.plan(plan)
    except BaseException:  # all of it, or nothing
        take_back(Written(tuple(writer.new), tuple(writer.undo)))
        raise
    return Written(tuple(writer.new), tuple(writer.undo))


def take_back(written: Written) -> None:
    """Makes a trace what it was: the last that was done goes first, and what was taken away went last."""
    for undo in reversed(written.undo):
        undo()
    for node in reversed(written.new):
        node.graph.erase_node(node)


@dataclass
class _Writer:
    built: Built
    target: Target
    counts: bool
    new: list[Any] = field(default_factory=list)
    undo: list[Callable[[], None]] = field(default_factory=list)
    back: dict[Any, Any] = field(default_factory=dict)  # what was taken away → what was put back for it

    def __post_init__(self) -> None:
        of = self.target.counter_of
        self.lds, self.loads, self.stores = of("local_read"), of("global_read"), of("global_write")
        self.tensor = of("tensor_load_to_lds")
        graph = self.built.graph
        self.copies = any(isinstance(each.action, g.Access) and each.action.is_async for each in graph.points)

    def plan(self, plan: Plan) -> None:
        self.check(plan)
        before: dict[int, list[Any]] = {}
        for edit in plan.edits:
            if isinstance(edit, Insert):
                before.setdefault(edit.before, []).append(edit.op)
        for point, inserted in before.items():
            self.insert(point, inserted)
        for edit in plan.edits:
            if isinstance(edit, Change):
                self.change(edit.point, edit.op)
        for edit in plan.edits:
            if isinstance(edit, Delete):
                self.delete(edit.point)

    def check(self, plan: Plan) -> None:
        """Everything can be said in Wave's operations, or nothing is touched."""
        for edit in plan.edits:
            if isinstance(edit, Move | Reorder):
                self.fail(None, "only barriers and waits are inserted, changed or removed")
            op = getattr(edit, "op", None)
            known = {self.lds, self.loads, self.stores, self.tensor}
            for counter, _ in getattr(op, "counts", ()):
                if counter not in known:
                    self.fail(self.node(edit), f"Wave has no operation that waits for `{counter}`")
            if isinstance(edit, Insert) and self.built.nodes[edit.before] is None:
                self.fail(None, "that place is not in a graph")

    def node(self, edit: Edit) -> Any:
        point = edit.before if isinstance(edit, Insert) else getattr(edit, "point", -1)
        return self.built.nodes[point] if point >= 0 else None

    def fail(self, node: Any, why: str) -> NoReturn:
        labels = (Label(span_of(node)),) if node is not None else ()
        raise BadInput(Finding("TG603", f"the plan cannot be applied to this trace: {why}", labels))

    # --- putting in ---

    def insert(self, point: int, inserted: Sequence[Any]) -> None:
        node = self.built.nodes[point]
        counts: dict[str, int] = {}  # of waits that the next barrier can take along
        with node.graph.inserting_before(node):
            for op in inserted:
                match op:
                    case ops.WaitCount(counts=given):
                        for counter, count in given:
                            counts[counter] = min(count, counts.get(counter, count))
                        continue
                    case ops.SharedMemoryBarrier(counts=given):
                        counts[self.lds] = 0
                        for counter, count in given:
                            counts[counter] = min(count, counts.get(counter, count))
                        self.barrier(node, counts)
                    case ops.WorkgroupBarrier():
                        self.barrier(node, counts)
                    case ops.Signal(barrier=-1):
                        self.signal(node, counts)
                    case ops.Wait(barrier=-1):
                        self.wait(node, counts)
                        self.put("SharedMemoryBarrierWait", node, WORKGROUP_BARRIER)
                    case ops.Fence(kind="wave"):  # Wave has none
                        counts[self.lds] = 0
                        if self.target.fence.waits:
                            continue  # the lanes of a wave meet at a wait
                        self.barrier(node, counts)  # where all waves meet, the lanes of each do
                    case ops.SchedulingBarrier():
                        self.put("SchedulingBarrier", node, [])
                    case ops.SetWavePrio(level=level):
                        self.put("SetWavePrio", node, level)
                    case _:
                        self.fail(node, f"Wave has no counterpart of `{type(op).__name__}`")
                counts = {}
        if self.tensor and self.tensor in counts:
            self.wait_for_tensors(point, node, op_of(node), counts)
            return
        with node.graph.inserting_before(node):
            self.wait(node, counts)

    def barrier(self, node: Any, counts: dict[str, int]) -> None:
        """All waves meet, after what they have to wait for."""
        if self.counts and self.copies and self.tensor not in counts:
            self.wait(node, counts)
            self.put("WorkgroupBarrier", node)
            self.put("SchedulingBarrier", node, [])
            return
        if (
            self.tensor in counts and self.tensor
        ):  # Wave's whole barrier does not wait for tensor copies, its signal does
            self.signal(node, counts)
            self.put("SharedMemoryBarrierWait", node, WORKGROUP_BARRIER)
            return
        self.put("SharedMemoryBarrier", node, self.loads in counts, False)

    def signal(self, node: Any, counts: dict[str, int]) -> None:
        """Wave's own waits for LDS, and for tensor copies if told."""
        rest = {counter: count for counter, count in counts.items() if counter not in (self.lds, self.tensor)}
        self.wait(node, rest)
        self.put("SharedMemoryBarrierSignal", node, WORKGROUP_BARRIER, bool(self.tensor) and self.tensor in counts)

    def wait(self, node: Any, counts: dict[str, int]) -> None:
        if not counts:
            return
        if self.tensor in counts and self.tensor:
            self.fail(node, "Wave has no operation of its own that waits for tensor copies")
        numbers = {counter: count if self.counts else 0 for counter, count in counts.items()}
        loads, lds = numbers.get(self.loads), numbers.get(self.lds)
        stores = numbers.get(self.stores) if self.stores != self.loads else None
        self.put("MemoryCounterWait", node, loads, stores, lds, None)

    def put(self, name: str, before: Any, *args: Any) -> None:
        from wave_lang.kernel.ops import wave_ops

        made = getattr(wave_ops, name)(*args).add_to_graph(before.graph, loc=getattr(before, "location", None))
        self.new.append(made)

    # --- what stands there ---

    def change(self, point: int, op: Any) -> None:
        """A barrier that has to wait for more, or a wait with another count."""
        node = self.built.nodes[point]
        kind = op_of(node)
        counts = dict(getattr(op, "counts", ()))
        if kind == "memory_counter_wait" and isinstance(op, ops.WaitCount):
            loads, lds = counts.get(self.loads), counts.get(self.lds)
            stores = counts.get(self.stores) if self.stores != self.loads else None
            self.undo.append(partial(setattr, node, "args", node.args))
            node.args = (loads, stores, lds, node.args[3] if len(node.args) > 3 else None)
            return
        if kind not in ("shared_memory_barrier", "workgroup_barrier", "shared_memory_barrier_signal"):
            self.fail(node, f"`{kind}` cannot become `{type(op).__name__}`")
        if isinstance(op, ops.SharedMemoryBarrier) and kind == "workgroup_barrier":
            counts[self.lds] = 0
        if self.tensor and self.tensor in counts:
            self.wait_for_tensors(point, node, kind, counts)
            return
        with node.graph.inserting_before(node):  # a wait before it is as good, and leaves what stands there as it is
            self.wait(node, counts)

    def wait_for_tensors(self, point: int, node: Any, kind: str, counts: dict[str, int]) -> None:
        """Only Wave's signal waits for tensor copies: one that stands there is told to, a whole barrier becomes a pair.

        Elsewhere a pair is put in. Whether waves may meet there, the proof of what was written decides.
        """
        if kind == "shared_memory_barrier_signal":
            with node.graph.inserting_before(node):
                self.wait(node, {each: count for each, count in counts.items() if each not in (self.lds, self.tensor)})
            self.undo.append(partial(setattr, node, "args", node.args))
            node.args = (node.args[0], True)
            return
        if kind == "shared_memory_barrier" and node.args and node.args[0] and self.loads:
            counts[self.loads] = 0  # as the barrier that goes has waited for them
        with node.graph.inserting_before(node):
            self.signal(node, counts)
            self.put("SharedMemoryBarrierWait", node, WORKGROUP_BARRIER)
        if kind == "shared_memory_barrier":
            self.delete(point)

    def delete(self, point: int) -> None:
        node = self.built.nodes[point]
        self.undo.append(partial(self.put_back, node, node.next, node.tkw_op, node.args))
        node.graph.erase_node(node)

    def put_back(self, old: Any, following: Any, op: Any, args: Any) -> None:
        """What stood behind it may have been taken away, too, and put back already."""
        kind = op if isinstance(op, type) else type(op)  # Wave's copies of a node hold one or the other
        before = self.back.get(following, following)
        with before.graph.inserting_before(before):
            made = kind(*args).add_to_graph(before.graph, loc=getattr(old, "location", None))
        self.back[old] = made
