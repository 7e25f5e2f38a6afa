"""Loops, conditionals and blocks of TTGIR as edges between points.

Needs   regions of the `scf` and `cf` dialects
Gives   points in program order, with what is known of loops; the edges that terminators make
Keeps   a region may be left from several blocks, each of which gives its results
Cost    linear in the operations
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.diag import BadInput, Finding, Label
from tidegate.graph import model as g
from tidegate.hosts.mlir.model import Block, Operation, Region
from tidegate.hosts.triton.build_descriptors import Descriptors
from tidegate.hosts.triton.build_handing import Handing, Pair
from tidegate.hosts.triton.build_points import Points
from tidegate.hosts.triton.build_trips import counting_of, labels_in_loops, rounds_of, step_of
from tidegate.hosts.triton.read import is_written
from tidegate.hosts.triton.values import YIELDS, jumps, name_of
from tidegate.index import Binary, Compare, Const, Flag, Name

Waiting = list[tuple[int, str]]  # points that flow into a block which may not be there yet


class Flow:
    """`build`: adds the points of one operation, whatever it is."""

    def __init__(
        self, points: Points, descriptors: Descriptors, handing: Handing, build: Callable[[Operation], None]
    ) -> None:
        self.points, self.descriptors, self.handing, self.build = points, descriptors, handing, build
        self.facts, self.b = points.facts, points.b
        self.labels: dict[str, list[str]] = {}  # of blocks → the names of their arguments
        self.executed: Operation | None = None  # with a region of several blocks that is being built

    # --- blocks ---

    def region(self, region: Region) -> None:
        """The blocks of a region: one after the other, or as their terminators say."""
        if len(region.blocks) == 1:
            self.block(region.blocks[0])
            return
        again = labels_in_loops(region)
        turns = [last.operands[0] for block in region.blocks if len((last := block.operations[-1]).successors) > 1]
        self.labels.update((block.label, [name for name, _ in block.arguments]) for block in region.blocks)
        for block in region.blocks[1:]:  # what is handed over later is known to be memory from the start
            self.descriptors.enter(block.arguments)
        starts: dict[str, int] = {}
        waiting: Waiting = []
        leaving: list[int] = []
        for number, block in enumerate(region.blocks):
            entered, self.b.open = ([] if number else self.b.open), []
            start = starts[block.label] = len(self.b.points)
            self.descriptors.enter(block.arguments)
            counting = counting_of(self.facts, block, region)
            self.points.depth += block.label in again
            with self.points.only_if(*(turns if number else ())):
                if counting is None:
                    self.points.add(g.Compute(), block.operations[0], "block", insertable=False)
                    self.points.at = None  # the place before its first operation is still to come
                    self.block(block)
                for each in entered:
                    self.b.edge(each, start)
                leaving += self.leave(block, waiting, insertable=counting is None)
            self.points.depth -= block.label in again
            if counting is not None:
                self.b.count(start, *counting)
        for point, label in waiting:
            self.b.edge(point, starts[label])
        self.b.open = leaving

    def block(self, block: Block) -> None:
        for op in block.operations:
            self.build(op)

    def leave(self, block: Block, waiting: Waiting, *, insertable: bool) -> list[int]:
        """The edges that a terminator makes; gives the points from which the region is left."""
        last = block.operations[-1]
        targets = list(jumps(last))
        if last.successors and not targets:
            message = f"`{last.name}` jumps to other blocks in a way that Tidegate does not know"
            raise BadInput(Finding("TG005", message, (Label(last.at),)))
        if not targets:
            if last.name in YIELDS and self.executed is not None:
                self.handing.end_region(self.executed, last)
            ends, self.b.open = self.b.open, []
            return ends
        if len(targets) == 1:
            self.jump(last, *targets[0], waiting)
            return []
        facts = {} if insertable else {"insertable": False}
        cond = self.facts.values.cond(last.operands[0])
        test = self.points.fork(last.operands[:1], cond, last, "branch", **facts)
        for label, given in targets:
            self.b.open = [test]
            with self.points.only_if(last.operands[0]):
                self.points.add(g.Compute(), last, "arm", insertable=False)
                self.jump(last, label, given, waiting)
        return []

    def jump(self, op: Operation, label: str, given: tuple[str, ...], waiting: Waiting) -> None:
        """Arguments of a block take their values, all at once, on the way to it."""
        pairs = self.handing.pairs(zip(self.labels[label], given, strict=False))
        if pairs:
            self.points.add(g.Assign(pairs), op, "jump")
        self.handing.part(op, self.labels[label])
        waiting += [(point, label) for point in self.b.open]
        self.b.open = []

    # --- loops ---

    def loop(self, op: Operation) -> None:
        block = op.regions[0].blocks[0]
        (counter, _), carried = block.arguments[0], block.arguments[1:]
        values = self.facts.values
        lower, upper = (values.index(each) for each in op.operands[:2])
        by = step_of(self.facts, op)
        name, names = name_of(counter), [each for each, _ in carried]
        counting = (name, lower, upper, by) if by else rounds_of(self.points, op, name)
        self.descriptors.carry(carried, op.operands[3:])
        first: tuple[Pair, ...] = (counting[:2],) if counting else ()
        self.handing.assign(op, "loop", names, op.operands[3:], first)
        if counting:
            goes_on = Compare("<", Name(counting[0]), counting[2])
            head = test = self.points.add(g.Branch(goes_on), op, "trip", insertable=False)
            self.b.count(head, *counting)
        else:
            head, test = self.uncounted(op, name)
        with self.points.only_if(*op.operands[:3]):
            if counting and not by and name in self.facts.names:
                self.points.add(g.Havoc((name,), True), op, "body", insertable=False)
            self.points.depth += 1
            self.block(block)
            self.points.depth -= 1
            last = block.operations[-1]
            following: tuple[Pair, ...] = ()
            if counting:
                following = ((counting[0], Binary("+", Name(counting[0]), Const(counting[3]))),)
            self.handing.assign(last, "next", names, last.operands, following)
        self.b.go_round(head, test)
        self.handing.results_of(op, names)

    def uncounted(self, op: Operation, counter: str) -> tuple[int, int]:
        """The head and the test of a loop that runs as often as it does, with a counter that may be any number."""
        agree = not self.facts.is_apart(op.operands[:3])
        head = len(self.b.points)
        if counter in self.facts.names:
            self.points.add(g.Havoc((counter,), agree), op, "head", insertable=False)
        if agree and self.points.under != "divergent":
            return head, self.points.add(g.Branch(None), op, "trip", insertable=False)
        goes_on = self.b.flag(f"{counter}.goes_on").name
        self.points.add(g.Havoc((goes_on,), agree), op, "head", insertable=False)
        return head, self.points.add(g.Branch(Flag(goes_on)), op, "trip", insertable=False)

    def while_loop(self, op: Operation) -> None:
        before, after = op.regions[0].blocks[0], op.regions[1].blocks[0]
        carried, taken = ([name for name, _ in block.arguments] for block in (before, after))
        condition, last = before.operations[-1], after.operations[-1]
        self.descriptors.carry(before.arguments, op.operands)
        self.handing.assign(op, "loop", carried, op.operands)
        self.points.depth += 1
        plain = not any(map(self.facts.does_something, before.operations[:-1]))  # then the test is the head of the loop
        head = len(self.b.points)
        if not plain:
            with self.points.only_if(condition.operands[0]):
                self.points.add(g.Compute(), op, "head", insertable=False)
                self.block(before)
        self.descriptors.carry(after.arguments, condition.operands[1:])
        cond = self.facts.values.cond(condition.operands[0])
        insertable = not plain and is_written(self.facts.ttgir, condition)
        test = self.points.fork(condition.operands[:1], cond, condition, "trip", insertable=insertable)
        with self.points.only_if(condition.operands[0]):
            self.points.add(g.Compute(), op, "body", insertable=False)
            pairs = self.handing.pairs(zip(taken, condition.operands[1:], strict=True))
            if pairs:
                self.points.add(g.Assign(pairs), op, "body", insertable=False)
            self.handing.part(op, taken)
            self.block(after)
            self.handing.assign(last, "next", carried, last.operands)
        self.points.depth -= 1
        self.b.go_round(head, test)
        self.handing.results_of(op, condition.operands[1:])

    # --- one region of several ---

    def conditional(self, op: Operation) -> None:
        branch = self.points.fork(op.operands[:1], self.facts.values.cond(op.operands[0]), op, "if")
        ends: list[int] = []
        with self.points.only_if(op.operands[0]):
            for region in (*op.regions, *([Region()] * (2 - len(op.regions)))):
                self.b.open = [branch]
                ends += self.arm(op, region)
        self.handing.join(op, ends)

    def switch(self, op: Operation) -> None:
        """Each number in turn is compared, and the first region is for all others."""
        default, *regions = op.regions
        number, ends = self.facts.values.index(op.operands[0]), []
        for case, region in zip(op.integers("cases"), regions, strict=True):
            branch = self.points.fork(op.operands[:1], Compare("==", number, Const(case)), op, "if")
            with self.points.only_if(op.operands[0]):
                ends += self.arm(op, region)
            self.b.open = [branch]
        with self.points.only_if(op.operands[0]):
            ends += self.arm(op, default)
        self.handing.join(op, ends)

    def arm(self, op: Operation, region: Region) -> list[int]:
        """Gives the points from which the region is left."""
        self.points.add(g.Compute(), op, "arm", insertable=False)
        if region.blocks:
            self.region(region)
            self.handing.end_region(op, region.blocks[-1].operations[-1])
        return self.b.open

    def execute(self, op: Operation) -> None:
        """A region that is run once. Of several blocks more than one may end it, each with results of its own."""
        region = op.regions[0]
        if len(region.blocks) == 1:
            self.region(region)
            self.handing.results_of(op, region.blocks[0].operations[-1].operands)
            return
        around, self.executed = self.executed, op
        self.region(region)
        self.executed = around
        self.handing.join(op, self.b.open)
