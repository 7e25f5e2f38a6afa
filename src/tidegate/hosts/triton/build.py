"""TTGIR as a `SyncGraph`.

Needs   a `Ttgir` with its memory laid out, and one of its functions
Gives   the graph, and for every point the operation before which an insertion there goes
Keeps   what the effects table does not describe and what takes a memory descriptor reads and writes all it can reach,
        and is reported; scalars that nobody can follow may be anything; an operation that all waves carry out together
        does not conflict with itself
Cost    linear in the operations

    ttg.convert_layout {allocation.offset = 0}        write scratch, as one; barrier; read scratch

A function is built by parts, each in a file of its own. `_FunctionBuilder` makes them, and says which of them takes an
operation; regions come back to it through `Flow.build`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import assert_never

from tidegate.assumptions import NO_OVERFLOW, Assumption
from tidegate.diag import BadInput, Finding, Label
from tidegate.graph import model as g
from tidegate.graph.builder import GraphBuilder
from tidegate.hosts.mlir.model import Operation, walk
from tidegate.hosts.triton import effects as e
from tidegate.hosts.triton.build_calls import call, enter_function, waves_of, with_prefix
from tidegate.hosts.triton.build_descriptors import Descriptors
from tidegate.hosts.triton.build_facts import FunctionFacts
from tidegate.hosts.triton.build_flow import Flow
from tidegate.hosts.triton.build_handing import Handing
from tidegate.hosts.triton.build_memory import Memory
from tidegate.hosts.triton.build_objects import Objects
from tidegate.hosts.triton.build_points import Collected, Points
from tidegate.hosts.triton.build_programs import Programs
from tidegate.hosts.triton.build_sync import Synchronization
from tidegate.hosts.triton.build_waits import Waits
from tidegate.hosts.triton.read import Ttgir
from tidegate.hosts.triton.spreads import Calls
from tidegate.hosts.triton.target import follows_marks
from tidegate.hosts.triton.values import is_scalar
from tidegate.index import Cond, Index, names
from tidegate.language import ops
from tidegate.targets import Target


@dataclass(frozen=True, slots=True)
class Built:
    """A graph, where its points come from, and what could not be understood."""

    graph: g.SyncGraph
    before: tuple[Operation | None, ...]  # point → the operation before which an insertion goes
    unknown: tuple[Operation, ...]
    relaxed: tuple[Operation, ...] = ()  # waits that are taken for ones at which waves do not meet
    assumed: frozenset[Assumption] = frozenset()  # what the graph relies on and does not show


def build(ttgir: Ttgir, function: Operation, target: Target) -> Built:
    """The graph of one function. Text in generic form may say anything: what makes no sense is a mistake in it."""
    try:
        return _build(replace(ttgir, waves=waves_of(function, ttgir.waves)), function, target)
    except (IndexError, KeyError, ValueError, AssertionError) as error:
        message = f"`@{function.string('sym_name')}` does not have the shape that a function of TTGIR has"
        raise BadInput(Finding("TG005", message, (Label(function.at),))) from error


def _build(ttgir: Ttgir, function: Operation, target: Target) -> Built:
    """A kernel, then the functions that are called, each once."""
    calls = Calls(ttgir.functions)
    facts = FunctionFacts(ttgir, function, calls)
    b = GraphBuilder(function.string("sym_name") or "kernel", facts.waves, target.name)
    collected = Collected(b)
    in_order = target.lds.in_order
    _FunctionBuilder(facts, collected, in_order).kernel()
    while collected.wanted:
        callee, prefix = collected.wanted.pop(0)
        called = FunctionFacts(ttgir, with_prefix(callee, prefix), calls, prefix)
        _FunctionBuilder(called, collected, in_order).called()
    # What may touch everything touches memory, also where nothing else is known to be any.
    if not b.buffers and any(isinstance(each.action, g.Unknown) for each in b.points):
        b.buffer("%shared_memory", max(ttgir.shared, 1))
    graph = b.finish()
    used = _names_of(graph)
    graph = replace(graph, free=tuple(each for each in graph.free if each.name in used))
    unknown, relaxed, assumed = collected.unknown, collected.relaxed, collected.assumed
    return Built(graph, tuple(b.places), tuple(unknown), tuple(relaxed), frozenset(assumed))


class _FunctionBuilder:
    def __init__(self, facts: FunctionFacts, collected: Collected, in_order: bool) -> None:
        self.facts = facts
        self.points = points = Points(facts, collected)
        self.descriptors = descriptors = Descriptors(points)
        self.objects = Objects(points, descriptors)
        self.memory = Memory(points, descriptors, self.objects, in_order)
        self.synchronization = Synchronization(points, descriptors)
        self.waits = Waits(points)
        handing = Handing(points, descriptors)
        self.flow = Flow(points, descriptors, handing, self.operation)
        self.programs = Programs(points, descriptors, handing, self.flow)

    def kernel(self) -> None:
        self.objects.find()
        for name, type_ in self.facts.function.regions[0].blocks[0].arguments:
            if is_scalar(type_) and self.facts.is_carried(name):
                self.points.declare(name, type_)
            elif (found := self.facts.types.memdesc(type_)) is not None and found.is_shared:
                self.descriptors.parameter(name, found)
        self.programs.start()
        self.body()
        self.programs.work()
        self.assume()

    def called(self) -> None:
        enter_function(self.points, self.descriptors)
        self.body()
        self.assume()

    def body(self) -> None:
        self.flow.region(self.facts.function.regions[0])

    def assume(self) -> None:
        """What the numbers of this function rely on."""
        if self.facts.values.ranges.may_overflow:
            self.points.collected.assumed.add(NO_OVERFLOW)

    # --- who takes an operation ---

    def operation(self, op: Operation) -> None:
        match op.name:
            case "scf.for":
                self.flow.loop(op)
            case "scf.while":
                self.flow.while_loop(op)
            case "scf.if":
                self.flow.conditional(op)
            case "scf.execute_region":
                self.flow.execute(op)
            case "scf.index_switch":
                self.flow.switch(op)
            case "ttg.warp_specialize":
                self.programs.specialize(op)
            case "scf.yield" | "scf.condition" | "cf.br" | "cf.cond_br" | "ttg.warp_yield" | "ttg.warp_return":
                pass
            case "tt.return":
                self.points.add(g.End() if self.facts.frame is None else g.Return(), op, "return")
            case "tt.call":
                call(self.points, self.descriptors, op)
            case _ if any(self.facts.does_something(each) for each in walk(op) if each is not op):
                self.points.unknown(op)  # nobody knows when its regions are run, or how often
            case _:
                self.carried_out(op)

    def carried_out(self, op: Operation) -> None:
        """An operation without regions. Generic text may say anything: what does not fit is a mistake in it."""
        effect = self.facts.effect(op)
        try:
            self.points.havoc(op)
            if effect.before:
                self.points.meet(op)
            self.what_it_does(op, effect)
            if effect.forwards:
                self.memory.forward(op)
            if effect.after:
                self.points.meet(op)
        except (IndexError, KeyError, ValueError, AssertionError) as error:
            message = f"`{op.name}` does not have the operands, attributes and types that it should have"
            raise BadInput(Finding("TG005", message, (Label(op.at),))) from error

    def what_it_does(self, op: Operation, effect: e.Effect) -> None:
        points, does = self.points, effect.does
        if op.integer("allocation.offset") is not None and not isinstance(does, e.Allocates | e.UsesScratch):
            self.synchronization.scratch(op, None)  # whatever else it does
        match does:
            case e.Allocates():
                self.memory.alloc(op, does)
            case e.Frees():
                self.memory.dealloc(op)
            case e.Views():
                self.memory.view(op, does)
            case e.UsesObject():
                self.objects.mbarrier(op, does)
            case e.Meets():
                self.synchronization.barrier(op, does)
            case e.Commits() if not op.results and not follows_marks(self.facts.ttgir.gpu):
                points.unknown(op)  # a mark of LLVM, which Triton's waits know nothing of here
            case e.Commits(queue):
                points.sync(ops.CommitGroup(), op, issues=(g.Issue(queue, 1, 1),))
                self.objects.pending.clear()
            case e.WaitsFor():
                self.waits.wait(op, does)
            case e.Fences(order):
                points.sync(ops.Fence(order), op)
            case e.Schedules():
                points.sync(ops.SchedulingBarrier(), op)
            case e.Prioritizes(attribute):
                points.sync(ops.SetWavePrio(op.integer(attribute) or 0), op)
            case e.Touches():
                self.memory.accesses(op, does)
            case e.UsesScratch():
                self.synchronization.with_scratch(op, does)
            case None:
                self.no_row(op, effect.role)
            case _:
                assert_never(does)

    def no_row(self, op: Operation, role: str) -> None:
        """An operation of which the table says nothing, or only that it does nothing to shared memory."""
        if op.name == "arith.select" and op.operands[1] in self.descriptors.views:
            self.memory.select(op)
        elif self.facts.touches_memory(op):
            self.descriptors.anything(op)
        elif role:
            self.points.add(g.Compute(), op, role=role)


# --- what a finished graph mentions -------------------------------------------------------------------------------


def _names_of(graph: g.SyncGraph) -> set[str]:
    """The names that places, conditions and assignments of a graph mention."""
    found: set[str] = set()
    for point in graph.points:
        for expr in _expressions(point.action):
            found.update(names(expr))
    for loop in graph.loops:
        found.update((*names(loop.lower), *names(loop.upper)))
    return found


def _expressions(action: g.Action) -> Iterator[Index | Cond]:
    match action:
        case g.Access(footprint=foot, mbarrier=told):
            yield from (foot.place.slot, foot.place.offset)
            if told is not None:
                yield told.slot
        case g.Assign(pairs):
            for _, value in pairs:
                yield from _in_value(value)
        case g.Branch(cond) if cond is not None:
            yield cond
        case g.Sync(ops.MbarrierWait(barrier=place, parity=parity)):
            yield from (place.slot, parity)
        case g.Sync(ops.MbarrierArrive(barrier=place)):
            yield place.slot


def _in_value(value: Index | g.Where | g.Token) -> Iterator[Index | Cond]:
    match value:
        case g.Token():
            return
        case g.Ref(slot=slot, offset=offset):
            yield from (slot, offset)
        case g.Either(cond, then, otherwise):
            yield cond
            yield from _in_value(then)
            yield from _in_value(otherwise)
        case _:
            yield value
