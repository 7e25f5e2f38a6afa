"""What regions and blocks of TTGIR hand on.

Needs   arguments and results of regions and blocks, and the values that they take
Gives   assignments in the graph; views for results that are descriptors
Keeps   arguments and results take their values all at once; where waves or lanes need not agree on a value, each finds
        one of its own
Cost    linear in the values

    scf.yield %next, %slot        assign %i = %next, %s = %slot
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tidegate.graph import model as g
from tidegate.hosts.mlir.model import Operation
from tidegate.hosts.triton.build_descriptors import Descriptors
from tidegate.hosts.triton.build_points import Points
from tidegate.hosts.triton.values import YIELDS, name_of
from tidegate.index import Index

Pair = tuple[str, Index | g.Where | g.Token]


class Handing:
    def __init__(self, points: Points, descriptors: Descriptors) -> None:
        self.points, self.descriptors = points, descriptors
        self.facts, self.views = points.facts, descriptors.views

    def assign(
        self, op: Operation, label: str, names: Sequence[str], values: Sequence[str], first: tuple[Pair, ...] = ()
    ) -> None:
        """Names take values. There is a point also where nobody asks for any of them."""
        pairs = (*first, *self.pairs(zip(names, values, strict=True)))
        self.points.add(g.Assign(pairs) if pairs else g.Compute(), op, label)
        self.part(op, names)

    def pairs(self, given: Iterable[tuple[str, str]]) -> tuple[Pair, ...]:
        """Assignments of arguments, where somebody asks for them."""
        found: list[Pair] = []
        for name, value in given:
            if name in self.views or value in self.views:
                found.append((name_of(name), self.descriptors.place_of(value)))
            elif self.facts.is_carried(name):
                found.append((name_of(name), self.facts.values.index(value)))
        return tuple(found)

    def part(self, op: Operation, values: Iterable[str]) -> None:
        """Values that were assigned, but on which waves or lanes need not agree: each finds one of its own."""
        apart = [name for name in values if name in self.views or self.facts.is_carried(name)]
        if found := tuple(name_of(name) for name in apart if self.facts.is_apart((name,))):
            self.points.add(g.Havoc(found, False), op, "apart", insertable=False)

    # --- results ---

    def end_region(self, op: Operation, last: Operation) -> None:
        """What the results of an operation are, where one of its regions ends."""
        pairs = self.taken_by(op, last.operands)
        self.points.add(g.Assign(pairs) if pairs else g.Compute(), last, "yield")
        self.part(last, op.results)

    def results_of(self, op: Operation, given: Sequence[str]) -> None:
        """After a region its results are what its arguments hold, or what it hands on."""
        pairs = self.taken_by(op, given)
        for result, value in zip(op.results, given, strict=False):
            if value in self.views:
                self.views[result] = replace(self.views[value], place=g.Ref(name_of(result)), is_buffer=False)
        if pairs:
            self.points.add(g.Assign(pairs), op, "after", insertable=False)
        self.part(op, op.results)

    def taken_by(self, op: Operation, given: Sequence[str]) -> tuple[Pair, ...]:
        """What the results of an operation take, where somebody asks for them."""
        found: list[Pair] = []
        for result, value in zip(op.results, given, strict=False):
            if value in self.views:
                found.append((name_of(result), self.views[value].place))
            elif self.facts.is_carried(result):
                found.append((name_of(result), self.facts.values.index(value)))
        return tuple(found)

    def join(self, op: Operation, ends: list[int]) -> None:
        """The ways that a region may be left meet."""
        self.points.b.open = ends
        self.points.add(g.Compute(), op, "join", insertable=False)
        blocks = [block for region in op.regions for block in region.blocks]
        arms = [last.operands for block in blocks if (last := block.operations[-1]).name in YIELDS]
        for number, (result, type_) in enumerate(zip(op.results, op.result_types, strict=True)):
            found = self.descriptors.handed_on(result, type_)
            if found is not None and all(arm[number] in self.views for arm in arms):
                self.views[result] = replace(found, start=None)
