"""Blocks of TTGIR that jump to one another, and what regions hand on.

Needs   blocks of the `cf` dialect, and terminators of regions
Gives   the edges that terminators make; arguments and results that take their values
Keeps   arguments of a block take their values all at once, on the way to it; a region may be left from several blocks,
        each of which gives its results
Cost    linear in the operations
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegate.diag import BadInput, Finding, Label
from tidegate.graph import model as g
from tidegate.graph.model import invert, reached_from
from tidegate.hosts.mlir.model import Block, Operation, Region
from tidegate.hosts.triton.build_sync import Synchronization
from tidegate.hosts.triton.effects import NOTHING
from tidegate.hosts.triton.types import MemDesc
from tidegate.hosts.triton.values import YIELDS, jumps, name_of
from tidegate.hosts.triton.views import View, is_traced
from tidegate.hosts.triton.widths import NARROW, fits, range_of, width_of
from tidegate.index import Binary, Compare, Const, Index, Name, constant, count_trips, names

EXPECTED_TRIPS = 16.0
Pair = tuple[str, Index | g.Where | g.Token]


class Blocks(Synchronization):
    """Blocks that jump to one another."""

    def enter(self, block: Block) -> None:
        """Descriptors that are handed to a block are places with a name of their own."""
        for name, type_ in block.arguments:
            if name not in self.views and (found := self.handed_on(name, type_)) is not None:
                self.views[name] = found

    def handed_on(self, name: str, type_: str) -> View | None:
        """A descriptor that a region or a block takes; None: no type tells where in its memory it lies.

        Whoever uses one without a view may touch everything, and that is reported.
        """
        found = self.types.memdesc(type_)
        if found is None or not found.is_shared or not self.is_traced(name, frozenset()):
            return None
        return named(name, found)

    def is_traced(self, value: str, asked: frozenset[str]) -> bool:
        """Whether a descriptor is nowhere `opaque` on its way from its allocations, by the types alone.

        Views inside of a loop are made later than the argument that they flow into.
        """
        if value in asked:
            return True
        asked |= {value}
        if value in self.views:
            return not self.views[value].opaque
        values = self.values
        type_ = self.types.memdesc(values.type_of(value))
        if type_ is None or not type_.is_known:
            return False
        if value in values.results:
            return self.is_traced(values.results[value], asked)
        if value in values.arguments:
            return all(self.is_traced(each, asked) for each in values.arguments[value].sources)
        if value not in values.made:
            return value in values.outside
        op, number = values.made[value]
        effect = self.effect(op)
        if effect.alloc:
            return True
        if op.name == "arith.select":
            return all(self.is_traced(each, asked) for each in op.operands[1:])
        if effect.view:
            source = self.types.memdesc(op.operand_types[0])
            return (
                source is not None and is_traced(effect.view, source, type_) and self.is_traced(op.operands[0], asked)
            )
        return effect.forwards and self.is_traced(op.operands[number], asked)

    def counted_loop(self, block: Block, region: Region) -> g.Loop | None:
        """What is known of a loop that a block does nothing but test: `^bb1(%i): cmpi slt, %i, %n; cond_br`."""
        last = block.operations[-1]
        if last.name != "cf.cond_br" or not block.arguments or any(map(self.does_something, block.operations[:-1])):
            return None
        self.enter(block)
        test = self.values.cond(last.operands[0])
        counter = name_of(block.arguments[0][0])
        if not (isinstance(test, Compare) and test.op == "<" and test.left == Name(counter)):
            return None
        inside = _loop_of(block, region)
        stays, leaves = last.successors
        if stays not in inside or leaves in inside or self.is_apart((last.operands[0],)):
            return None
        starts: list[Index] = []
        steps: list[int | None] = []
        for other in region.blocks:
            for label, given in jumps(other.operations[-1]):
                if label == block.label:
                    value = self.values.index(given[0])
                    if other.label in inside:
                        steps.append(_step(value, counter))
                    else:
                        starts.append(value)
                elif other.label in inside and label not in inside and other is not block:
                    return None  # left from its middle: nobody knows how often it runs
        if len(starts) != 1 or len(steps) != 1 or steps[0] is None or steps[0] <= 0:
            return None
        lower, by = starts[0], steps[0]
        changing = {name_of(name) for each in region.blocks if each.label in inside for name in made_in(each)}
        bits, most = width_of(block.arguments[0][1]), constant(test.right)
        most = range_of(bits)[1] if most is None else most
        if not changing.isdisjoint((*names(lower), *names(test.right))) or not self.has_room(bits, most, by):
            return None
        trips = count_trips(lower, test.right, by)
        expect = EXPECTED_TRIPS if trips is None else float(trips)
        return g.Loop(0, -1, trips or 0, trips, expect, counter, lower, test.right, by)

    def has_room(self, bits: int, upper: int, step: int) -> bool:
        """Whether a counter passes its bound without wrapping. From 32 bits on that is assumed."""
        if fits((0, upper - 1 + step), bits):
            return True
        self.values.ranges.may_overflow |= bits >= NARROW
        return bits >= NARROW

    def does_something(self, op: Operation) -> bool:
        """Whether an operation is more than arithmetic on scalars that can be followed."""
        if self.effect(op) != NOTHING or op.regions or op.integer("allocation.offset") is not None:
            return True
        if self.touches_memory(op):
            return True
        return any(result in self.values.opaque and self.is_carried(result) for result in op.results)

    def leave(self, block: Block, waiting: list[tuple[int, str]], *, insertable: bool) -> list[int]:
        """The edges that a terminator makes; gives the points from which the region is left."""
        last = block.operations[-1]
        targets = list(jumps(last))
        if last.successors and not targets:
            message = f"`{last.name}` jumps to other blocks in a way that Tidegate does not know"
            raise BadInput(Finding("TG005", message, (Label(last.at),)))
        if not targets:
            if last.name in YIELDS and self.executed is not None:
                self.hand_on(self.executed, last)
            ends, self.b.open = self.b.open, []
            return ends
        if len(targets) == 1:
            self.hand_over(last, *targets[0], waiting)
            return []
        facts = {} if insertable else {"insertable": False}
        test = self.fork(last.operands[:1], self.values.cond(last.operands[0]), last, "branch", **facts)
        for label, given in targets:
            self.b.open = [test]
            with self.only_if(last.operands[0]):
                self.add(g.Compute(), last, "arm", insertable=False)
                self.hand_over(last, label, given, waiting)
        return []

    def hand_over(self, op: Operation, label: str, given: tuple[str, ...], waiting: list[tuple[int, str]]) -> None:
        """Arguments of a block take their values, all at once, on the way to it."""
        taken = [name for name, _ in self.labels[label]]
        pairs = self.pairs(zip(taken, given, strict=False))
        if pairs:
            self.add(g.Assign(pairs), op, "jump")
        self.part(op, taken)
        waiting += [(point, label) for point in self.b.open]
        self.b.open = []

    def pairs(self, given: Iterable[tuple[str, str]]) -> tuple[Pair, ...]:
        """Assignments of arguments, where somebody asks for them."""
        found: list[Pair] = []
        for name, value in given:
            if name in self.views or value in self.views:
                found.append((name_of(name), self.place_of(value)))
            elif self.is_carried(name):
                found.append((name_of(name), self.values.index(value)))
        return tuple(found)

    def place_of(self, value: str) -> g.Where:
        """Where a descriptor lies. What becomes of a name that takes one of which nobody knows that, nobody can say."""
        if value not in self.views:
            at = (Label(self.at.at),) if self.at is not None else ()
            message = f"`{value}` comes from an operation without a description, and is handed on where others are too"
            raise BadInput(Finding("TG005", message, at))
        return self.views[value].place

    def hand_on(self, op: Operation, last: Operation) -> None:
        """What the results of an operation are, where one of its regions ends."""
        pairs = tuple(self.arm_results(op, last.operands))
        self.add(g.Assign(pairs) if pairs else g.Compute(), last, "yield")
        self.part(last, op.results)

    def part(self, op: Operation, values: Iterable[str]) -> None:
        """Values that were assigned, but on which waves or lanes need not agree: each finds one of its own."""
        apart = [name for name in values if name in self.views or self.is_carried(name)]
        if found := tuple(name_of(name) for name in apart if self.is_apart((name,))):
            self.add(g.Havoc(found, False), op, "apart", insertable=False)

    def arm_results(self, op: Operation, given: tuple[str, ...]) -> Iterator[Pair]:
        for result, value in zip(op.results, given, strict=False):
            if value in self.views:
                yield name_of(result), self.views[value].place
            elif self.is_carried(result):
                yield name_of(result), self.values.index(value)


def named(name: str, type_: MemDesc) -> View:
    """A descriptor that is handed on: a slot, or a part of one of which nobody knows where it starts."""
    start = (0,) * type_.rank if type_.allocated[-type_.rank :] == type_.slot_shape else None
    return View(g.Ref(name_of(name)), start, type_)


def _step(value: Index, counter: str) -> int | None:
    """By how much a counter grows, if the value is the counter and a constant."""
    match value:
        case Binary("+", Name(name), Const(step)) if name == counter:
            return step
        case Binary("+", Const(step), Name(name)) if name == counter:
            return step
    return None


def _loop_of(head: Block, region: Region) -> set[str]:
    """The labels of the blocks that a block leads to and from which control comes back to it."""
    labels = [block.label for block in region.blocks]
    number = {label: place for place, label in enumerate(labels)}
    following = [[number[label] for label, _ in jumps(block.operations[-1])] for block in region.blocks]
    start = number[head.label]
    behind = reached_from(following[start], following)
    back = reached_from([start], invert(following))
    return {labels[each] for each in behind & back}


def made_in(block: Block) -> Iterator[str]:
    """The values that a block and the regions in it make."""
    yield from (name for name, _ in block.arguments)
    for op in block.operations:
        yield from op.results
        for region in op.regions:
            for inner in region.blocks:
                yield from made_in(inner)
