"""Loops, conditionals and blocks of TTGIR as edges between points.

Needs   regions of the `scf` and `cf` dialects
Gives   points in program order, with what is known of loops
Keeps   values that a region hands on are assigned, all at once, where it ends
Cost    linear in the operations
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace

from tidegate.diag import BadInput, Finding, Label
from tidegate.graph import model as g
from tidegate.hosts.mlir.model import Block, Operation, Region, walk
from tidegate.hosts.triton.build_blocks import EXPECTED_TRIPS, Blocks, Pair
from tidegate.hosts.triton.effects import Effect
from tidegate.hosts.triton.read import is_written
from tidegate.hosts.triton.target import follows_marks
from tidegate.hosts.triton.values import YIELDS, jumps, name_of
from tidegate.hosts.triton.widths import width_of
from tidegate.index import (
    ZERO,
    Binary,
    Compare,
    Const,
    Flag,
    Name,
    constant,
    count_trips,
)
from tidegate.language import ops
from tidegate.language.ops import Value
from tidegate.language.types import FLAG, INDEX


class Flow(Blocks, ABC):
    def region(self, region: Region) -> None:
        """The blocks of a region: one after the other, or as their terminators say."""
        if len(region.blocks) == 1:
            self.block(region.blocks[0])
            return
        again = _in_loops(region)
        turns = [last.operands[0] for block in region.blocks if len((last := block.operations[-1]).successors) > 1]
        self.labels.update((block.label, block.arguments) for block in region.blocks)
        for block in region.blocks[1:]:  # what is handed over later is known to be memory from the start
            self.enter(block)
        starts: dict[str, int] = {}
        waiting: list[tuple[int, str]] = []
        leaving: list[int] = []
        for number, block in enumerate(region.blocks):
            entered, self.b.open = ([] if number else self.b.open), []
            starts[block.label] = len(self.b.points)
            loop = self.counted_loop(block, region)
            self.depth += block.label in again
            with self.only_if(*(turns if number else ())):
                if loop is None:
                    self.add(g.Compute(), block.operations[0], "block", insertable=False)
                    self.at = None  # the place before its first operation is still to come
                    self.enter(block)
                    self.block(block)
                for each in entered:
                    self.b.edge(each, starts[block.label])
                leaving += self.leave(block, waiting, insertable=loop is None)
            self.depth -= block.label in again
            if loop is not None:
                self.b.counted[starts[block.label]] = replace(loop, head=starts[block.label])
        for point, label in waiting:
            self.b.edge(point, starts[label])
        self.b.open = leaving

    def block(self, block: Block) -> None:
        for op in block.operations:
            self.operation(op)

    def operation(self, op: Operation) -> None:
        match op.name:
            case "scf.for":
                self.loop(op)
            case "scf.while":
                self.while_loop(op)
            case "scf.if":
                self.conditional(op)
            case "scf.execute_region":
                self.execute(op)
            case "scf.index_switch":
                self.switch(op)
            case "ttg.warp_specialize":
                self.specialize(op)
            case "scf.yield" | "scf.condition" | "cf.br" | "cf.cond_br" | "ttg.warp_yield" | "ttg.warp_return":
                pass
            case "tt.return":
                self.add(g.End() if self.frame is None else g.Return(), op, "return")
            case "tt.call":
                self.call(op)
            case _ if any(map(self.does_something, inside(op))):
                self.unknown.append(op)  # nobody knows when its regions are run, or how often
                self.add(g.Unknown(()), op)
            case _:
                self.carried_out(op)

    def carried_out(self, op: Operation) -> None:
        """An operation without regions. Generic text may say anything: what does not fit is a mistake in it."""
        try:
            self.step(op)
        except (IndexError, KeyError, ValueError, AssertionError) as error:
            message = f"`{op.name}` does not have the operands, attributes and types that it should have"
            raise BadInput(Finding("TG005", message, (Label(op.at),))) from error

    def step(self, op: Operation) -> None:
        effect = self.effect(op)
        self.havoc(op)
        if effect.before:
            self.meet(op)
        self.what_it_does(op, effect)
        if effect.forwards:
            self.forward(op)
        if effect.after:
            self.meet(op)

    def what_it_does(self, op: Operation, effect: Effect) -> None:
        laid_out = op.integer("allocation.offset") is not None and not effect.alloc
        if laid_out and not effect.scratch:  # nobody has described what it does there, whatever else it does
            self.scratch(op, effect)
        if effect.alloc:
            self.alloc(op)
        elif effect.free:
            self.dealloc(op)
        elif effect.view:
            self.view(op, effect)
        elif op.name == "arith.select" and op.operands[1] in self.views:
            self.select(op)
        elif effect.mbarrier and self.is_apart(op.operands):  # nobody knows who arrives where
            self.unknown.append(op)
            self.add(g.Unknown(()), op)
        elif effect.mbarrier:
            self.mbarrier(op, effect)
        elif effect.barrier:
            self.barrier(op, effect)
        elif effect.commit and not op.results and not follows_marks(self.ttgir.gpu):
            self.unknown.append(op)  # a mark of LLVM, which Triton's waits know nothing of here
            self.add(g.Unknown(()), op)
        elif effect.commit:
            self.sync(ops.CommitGroup(), op, issues=(g.Issue(effect.commit, 1, 1),))
            self.pending.clear()
        elif effect.wait:
            self.wait(op, effect)
        elif effect.fence:
            self.sync(ops.Fence(effect.fence), op)
        elif effect.schedule:
            self.sync(ops.SchedulingBarrier(), op)
        elif effect.priority:
            self.sync(ops.SetWavePrio(op.integer(effect.priority) or 0), op)
        elif effect.memory:
            self.accesses(op, effect)
        elif effect.scratch and laid_out:
            self.scratch(op, effect)
        elif effect.scratch and not self.needs_no_scratch(op):
            self.unknown.append(op)
            self.add(g.Unknown(()), op)
        elif effect.release or effect.acquire:
            self.ordered(op, effect)
        elif self.touches_memory(op):
            self.anything(op)
        elif effect.role:
            self.add(g.Compute(), op, role=effect.role)

    def loop(self, op: Operation) -> None:
        block = op.regions[0].blocks[0]
        (counter, _), carried = block.arguments[0], block.arguments[1:]
        lower, upper = (self.values.index(each) for each in op.operands[:2])
        by = self.step_of(op)
        name, names = name_of(counter), [each for each, _ in carried]
        trips_of = "" if by else self.fixed_trips(op, name)
        inits, yielded = op.operands[3:], block.operations[-1].operands
        self.carry(carried, inits)
        pairs = self.pairs(zip(names, inits, strict=True))
        if by:
            self.add(g.Assign(((name, lower), *pairs)), op, "loop")
        elif trips_of:
            self.add(g.Assign(((f"{name}.round", ZERO), *pairs)), op, "loop")
        else:
            self.add(g.Assign(pairs) if pairs else g.Compute(), op, "loop")
        self.part(op, names)
        if by:
            head = test = self.add(g.Branch(Compare("<", Name(name), upper)), op, "trip", insertable=False)
            trips = count_trips(lower, upper, by)
            expect = EXPECTED_TRIPS if trips is None else float(trips)
            self.b.counted[head] = g.Loop(head, -1, trips or 0, trips, expect, name, lower, upper, by)
        elif trips_of:
            goes_on = Compare("<", Name(f"{name}.round"), Name(trips_of))
            head = test = self.add(g.Branch(goes_on), op, "trip", insertable=False)
            facts = (f"{name}.round", ZERO, Name(trips_of), 1)
            self.b.counted[head] = g.Loop(head, -1, 0, None, EXPECTED_TRIPS, *facts)
        else:
            head, test = self.uncounted(op, name)
        with self.only_if(*op.operands[:3]):
            if trips_of and name in self.names:
                self.add(g.Havoc((name,), True), op, "body", insertable=False)
            self.depth += 1
            self.block(block)
            self.depth -= 1
            last = block.operations[-1]
            nexts = self.pairs(zip(names, yielded, strict=True))
            if trips_of:
                nexts = ((f"{name}.round", Binary("+", Name(f"{name}.round"), Const(1))), *nexts)
            if by:
                nexts = ((name, Binary("+", Name(name), Const(by))), *nexts)
            self.add(g.Assign(nexts) if nexts else g.Compute(), last, "next")
            self.part(last, names)
        for point in self.b.open:
            self.b.edge(point, head)
        self.b.open = [test]
        self.results_of(op, tuple(names))

    def fixed_trips(self, op: Operation, counter: str) -> str:
        """A name for how often a loop runs whose bounds and step are the same in the whole run; empty if they may not
        be. Loops of several partitions over the same tiles share it."""
        keys = tuple(map(self.values.fixed.key, op.operands[:3]))
        if None in keys or self.is_apart(op.operands[:3]) or self.under == "divergent":
            return ""
        if self.frame is not None:
            return ""  # each call of a function has bounds of its own
        if any(self.effect(each).mbarrier == "init" for each in walk(op)):
            return ""  # each iteration has objects of its own, of which nobody knows that their phases begin anew
        key = (op.attribute("unsignedCmp"), *op.operand_types[:1], *keys)
        name = self.values.fixed.firsts.setdefault(("trips", *key), f"{counter}.trips")
        self.free[name] = Value(name, INDEX)
        return name

    def step_of(self, op: Operation) -> int:
        """The step of a loop whose trips can be counted; 0 if they cannot, or not alike in all waves.

        The bound is compared as a signed number, or `unsignedCmp`. A step that is negative or not known may wrap.
        """
        lower, upper, step = op.operands[:3]
        by = constant(self.values.index(step))
        bits = width_of(op.operand_types[0])
        room = self.has_room(bits, self.values.ranges.bounds(upper)[1], by or 0)
        signed = op.attribute("unsignedCmp") in (None, "false") or all(
            map(self.values.ranges.is_natural, (lower, upper))
        )
        counted = by is not None and by > 0 and room and signed and not self.is_apart(op.operands[:3])
        return by if counted and by is not None else 0

    def uncounted(self, op: Operation, counter: str) -> tuple[int, int]:
        """The head and the test of a loop that runs as often as it does, with a counter that may be any number."""
        agree = not self.is_apart(op.operands[:3])
        head = len(self.b.points)
        if counter in self.names:
            self.add(g.Havoc((counter,), agree), op, "head", insertable=False)
        if agree and self.under != "divergent":
            return head, self.add(g.Branch(None), op, "trip", insertable=False)
        goes_on = f"{counter}.goes_on"
        self.free[goes_on] = Value(goes_on, FLAG)
        self.add(g.Havoc((goes_on,), agree), op, "head", insertable=False)
        return head, self.add(g.Branch(Flag(goes_on)), op, "trip", insertable=False)

    def carry(self, carried: tuple[tuple[str, str], ...], inits: tuple[str, ...]) -> None:
        """Descriptors that loops carry are places with a name of their own."""
        for (name, type_), init in zip(carried, inits, strict=True):
            found = self.handed_on(name, type_)
            if found is not None and init in self.views:
                self.views[name] = found

    def results_of(self, op: Operation, given: tuple[str, ...]) -> None:
        """After a region its results are what its arguments hold, or what it hands on."""
        pairs: list[Pair] = []
        for result, value in zip(op.results, given, strict=False):
            if value in self.views:
                view = self.views[value]
                self.views[result] = replace(view, place=g.Ref(name_of(result)), is_buffer=False)
                pairs.append((name_of(result), view.place))
            elif self.is_carried(result):
                pairs.append((name_of(result), self.values.index(value)))
        if pairs:
            self.add(g.Assign(tuple(pairs)), op, "after", insertable=False)
        self.part(op, op.results)

    def while_loop(self, op: Operation) -> None:
        before, after = op.regions[0].blocks[0], op.regions[1].blocks[0]
        self.carry(before.arguments, op.operands)
        pairs = self.pairs(zip((name for name, _ in before.arguments), op.operands, strict=True))
        self.add(g.Assign(pairs) if pairs else g.Compute(), op, "loop")
        self.part(op, (name for name, _ in before.arguments))
        self.depth += 1
        condition = before.operations[-1]
        plain = not any(map(self.does_something, before.operations[:-1]))  # then the test is the head of the loop
        head = len(self.b.points)
        if not plain:
            with self.only_if(condition.operands[0]):
                self.add(g.Compute(), op, "head", insertable=False)
                self.block(before)
        self.carry(after.arguments, condition.operands[1:])
        cond = self.values.cond(condition.operands[0])
        insertable = not plain and is_written(self.ttgir, condition)
        test = self.fork(condition.operands[:1], cond, condition, "trip", insertable=insertable)
        with self.only_if(condition.operands[0]):
            self.add(g.Compute(), op, "body", insertable=False)
            pairs = self.pairs(zip((name for name, _ in after.arguments), condition.operands[1:], strict=True))
            if pairs:
                self.add(g.Assign(pairs), op, "body", insertable=False)
            self.part(op, (name for name, _ in after.arguments))
            self.block(after)
            last = after.operations[-1]
            nexts = self.pairs(zip((name for name, _ in before.arguments), last.operands, strict=True))
            self.add(g.Assign(nexts) if nexts else g.Compute(), last, "next")
            self.part(last, (name for name, _ in before.arguments))
        self.depth -= 1
        for point in self.b.open:
            self.b.edge(point, head)
        self.b.open = [test]
        self.results_of(op, condition.operands[1:])

    def conditional(self, op: Operation) -> None:
        branch = self.fork(op.operands[:1], self.values.cond(op.operands[0]), op, "if")
        ends: list[int] = []
        with self.only_if(op.operands[0]):
            for region in (*op.regions, *([Region()] * (2 - len(op.regions)))):
                self.b.open = [branch]
                ends += self.arm(op, region)
        self.join(op, ends)

    def switch(self, op: Operation) -> None:
        """One region of several: each number in turn is compared, and the first region is for all others."""
        default, *regions = op.regions
        number, ends = self.values.index(op.operands[0]), []
        for case, region in zip(op.integers("cases"), regions, strict=True):
            branch = self.fork(op.operands[:1], Compare("==", number, Const(case)), op, "if")
            with self.only_if(op.operands[0]):
                ends += self.arm(op, region)
            self.b.open = [branch]
        with self.only_if(op.operands[0]):
            ends += self.arm(op, default)
        self.join(op, ends)

    def arm(self, op: Operation, region: Region) -> list[int]:
        """One of several regions; gives the points from which it is left."""
        self.add(g.Compute(), op, "arm", insertable=False)
        if region.blocks:
            self.region(region)
            self.hand_on(op, region.blocks[-1].operations[-1])
        return self.b.open

    def join(self, op: Operation, ends: list[int]) -> None:
        """The ways that a region may be left meet."""
        self.b.open = ends
        self.add(g.Compute(), op, "join", insertable=False)
        blocks = [block for region in op.regions for block in region.blocks]
        arms = [last.operands for block in blocks if (last := block.operations[-1]).name in YIELDS]
        for number, (result, type_) in enumerate(zip(op.results, op.result_types, strict=True)):
            found = self.handed_on(result, type_)
            if found is not None and all(arm[number] in self.views for arm in arms):
                self.views[result] = replace(found, start=None)

    def execute(self, op: Operation) -> None:
        """A region that is run once. Of several blocks more than one may end it, each with results of its own."""
        region = op.regions[0]
        if len(region.blocks) == 1:
            self.region(region)
            self.results_of(op, region.blocks[0].operations[-1].operands)
            return
        around, self.executed = self.executed, op
        self.region(region)
        self.executed = around
        self.join(op, self.b.open)

    @abstractmethod
    def specialize(self, op: Operation) -> None:
        """Waves part."""

    @abstractmethod
    def call(self, op: Operation) -> None:
        """Another function."""


def inside(op: Operation) -> Iterator[Operation]:
    """The operations in the regions of one."""
    return (each for each in walk(op) if each is not op)


def _in_loops(region: Region) -> set[str]:
    """The blocks that control may come back to."""
    following = {block.label: {label for label, _ in jumps(block.operations[-1])} for block in region.blocks}
    found: set[str] = set()
    for label in following:
        seen: set[str] = set()
        todo = list(following[label])
        while todo:
            each = todo.pop()
            if each not in seen:
                seen.add(each)
                todo += following.get(each, ())
        if label in seen:
            found.add(label)
    return found
