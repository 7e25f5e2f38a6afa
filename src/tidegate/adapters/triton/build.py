"""TTGIR as a `SyncGraph`.

Needs   a `Ttgir` with its memory laid out, and one of its functions
Gives   the graph, and for every point the operation before which an insertion there goes
Keeps   what the effects table does not describe and what takes a memory descriptor reads and writes all it can reach,
        and is reported; scalars that nobody can follow may be anything; an operation that all waves carry out together
        does not conflict with itself
Cost    linear in the operations

    ttg.convert_layout {allocation.offset = 0}        write scratch, as one; barrier; read scratch
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from tidegate.adapters.mlir.model import Block, Operation, Region, integer, walk
from tidegate.adapters.triton.effects import NOTHING, Effect, effects
from tidegate.adapters.triton.halves import waves_where
from tidegate.adapters.triton.layouts import may_stay_in_warps
from tidegate.adapters.triton.read import Ttgir, is_written, name_in_text
from tidegate.adapters.triton.types import MemDesc, Types
from tidegate.adapters.triton.values import Values, is_scalar, jumps, name_of, values_of
from tidegate.adapters.triton.views import Owner, View, footprint, index_view, same_view, subslice_view
from tidegate.graph import model as g
from tidegate.graph.builder import GraphBuilder
from tidegate.index import (
    TRUE,
    WAVE,
    ZERO,
    Binary,
    Compare,
    Cond,
    Const,
    Index,
    Logic,
    Name,
    constant,
    count_trips,
    names,
    scale,
)
from tidegate.language import ops
from tidegate.language.ops import Place, Value
from tidegate.language.types import FLAG, INDEX, BarrierObject
from tidegate.targets import Target

LOCAL = 1  # the bit of shared memory among the address spaces of a barrier
EXPECTED_TRIPS = 16.0
MBARRIER_BYTES = 8
WARP_GROUP = 4  # waves that carry out a matrix product of sm_90 together


@dataclass(frozen=True, slots=True)
class Built:
    """A graph, where its points come from, and what could not be understood."""

    graph: g.SyncGraph
    before: tuple[Operation | None, ...]  # point → the operation before which an insertion goes
    unknown: tuple[Operation, ...]
    relaxed: tuple[Operation, ...] = ()  # waits that are taken for ones at which waves do not meet


def build(ttgir: Ttgir, function: Operation, target: Target) -> Built:
    """The graph of one function."""
    return _Builder(ttgir, function, target).built()


def names_of(graph: g.SyncGraph) -> set[str]:
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


def _step(value: Index, counter: str) -> int | None:
    """By how much a counter grows, if the value is the counter and a constant."""
    match value:
        case Binary("+", Name(name), Const(step)) if name == counter:
            return step
        case Binary("+", Const(step), Name(name)) if name == counter:
            return step
    return None


def bytes_of(foot: g.Footprint) -> int:
    """How many bytes one wave moves."""
    return foot.width * prod(each.count for each in foot.extents)


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


@dataclass(slots=True)
class _Group:
    """The waves that run a region, and the barrier at which they meet."""

    first: int
    count: int
    barrier: Value | None = None  # None: that of the workgroup
    is_part: bool = False  # other waves run something else


class _Builder:
    def __init__(
        self, ttgir: Ttgir, function: Operation, target: Target, caller: _Builder | None = None, name: str = ""
    ) -> None:
        self.ttgir, self.function, self.target = ttgir, function, target
        self.around: tuple[str, ...] = (*(caller.around if caller else ()), *((name,) if name else ()))
        self.frame = f"%{name}_frame" if caller else None  # where the function's own memory lies
        self.types = Types(ttgir.module.aliases)
        self.values: Values = values_of(function)
        self.table = effects()
        self.waves = self.count_waves()
        self.b = caller.b if caller else GraphBuilder(function.string("sym_name") or "kernel", self.waves, target.name)
        self.before: list[Operation | None] = caller.before if caller else []
        self.functions: dict[str, str] = caller.functions if caller else {}
        self.wanted: list[tuple[Operation, str]] = caller.wanted if caller else []
        self.views: dict[str, View] = {}
        self.unknown: list[Operation] = caller.unknown if caller else []
        self.relaxed: list[Operation] = caller.relaxed if caller else []
        self.at: Operation | None = None
        self.under = "uniform"
        self.depth = 0  # loops around
        self.group = _Group(0, ttgir.waves)
        self.buffers: dict[str, int] = caller.buffers if caller else {}
        self.objects: dict[str, Value] = {}
        self.free: dict[str, Value] = caller.free if caller else {}
        self.asked: set[str] = set()
        self.special: Operation | None = None  # where waves part
        self.labels: dict[str, tuple[tuple[str, str], ...]] = {}  # of blocks, with their arguments
        self.split = -1
        self.pending: list[int] = []  # copies that are in no group and report to no barrier yet

    def count_waves(self) -> int:
        own = self.ttgir.waves
        extra = [
            sum(op.integers("partitionNumWarps")) for op in walk(self.function) if op.name == "ttg.warp_specialize"
        ]
        return own + max(extra, default=0)

    def built(self) -> Built:
        self.find_objects()
        self.ask()
        for name, type_ in self.function.regions[0].blocks[0].arguments:
            if is_scalar(type_) and name_of(name) in self.names:
                self.declare(name, type_)
            elif (found := self.types.memdesc(type_)) is not None and found.is_shared:
                self.parameter(name, found)
        self.start()
        self.region(self.function.regions[0], self.function)
        self.work()
        self.callees()
        self.b.parts["free"] = list(self.free.values())
        graph = self.b.finish()
        used = names_of(graph)
        graph = replace(graph, free=tuple(each for each in self.free.values() if each.name in used))
        before = [*self.before, *([None] * (len(graph.points) - len(self.before)))]
        return Built(graph, tuple(before), tuple(self.unknown), tuple(self.relaxed))

    # --- what has to be known of scalars ---

    def ask(self) -> None:
        """Scalars that slots, conditions, trips and phases depend on, and all that flows into them."""
        values = self.values
        for op in walk(self.function):
            for value in self.scalars_of(op):
                values.expression(value)
        pending = list(values.needed)
        by_name = {name_of(value): value for value in (*values.arguments, *values.results, *values.outside)}
        done: set[str] = set()
        while pending:
            name = pending.pop()
            if name in done:
                continue
            done.add(name)
            value = by_name.get(name)
            if value is None:
                continue
            argument = values.arguments.get(values.results.get(value, value))
            if value in values.results:
                pending.append(name_of(values.results[value]))
            for source in argument.sources if argument else ():
                values.expression(source)
            if value in values.counters:
                for bound in values.counters[value]:
                    values.expression(bound)
            pending += [each for each in values.needed if each not in done]
        self.names = frozenset(values.needed | done)

    def scalars_of(self, op: Operation) -> Iterator[str]:
        match op.name:
            case "ttg.memdesc_index":
                yield op.operands[1]
            case "scf.if" | "cf.cond_br" | "scf.condition":
                yield op.operands[0]
            case "scf.for":
                yield from op.operands[:3]
            case "arith.select" if self.types.memdesc(op.result_types[0]) is not None:
                yield op.operands[0]
            case _ if self.effect(op).mbarrier or self.effect(op).by == "one":
                yield from (
                    value for value, type_ in zip(op.operands, op.operand_types, strict=False) if is_scalar(type_)
                )

    def effect(self, op: Operation) -> Effect:
        return self.table.get(op.name, NOTHING)

    def declare(self, value: str, type_: str) -> None:
        name = name_of(value)
        self.free[name] = Value(name, FLAG if type_ == "i1" else INDEX)

    def is_carried(self, value: str) -> bool:
        return name_of(value) in self.names

    # --- points ---

    def add(self, action: g.Action, op: Operation, label: str = "", **facts: object) -> int:
        """A point. Only the first of an operation has a place before it."""
        first = self.at is not op
        self.at = op
        facts.setdefault("insertable", first and self.under == "uniform" and is_written(self.ttgir, op))
        facts.setdefault("under", self.under)
        number = self.b.add(action, label=label or op.name, at=op.at, **facts)
        self.before.append(op)
        return number

    def sync(self, what: object, op: Operation, **facts: object) -> int:
        return self.add(g.Sync(what), op, **facts)  # type: ignore[arg-type]

    # --- regions ---

    def region(self, region: Region, parent: Operation) -> None:
        """The blocks of a region: one after the other, or as their terminators say."""
        if len(region.blocks) == 1:
            self.block(region.blocks[0])
            return
        self.depth += 1  # blocks may form loops
        self.labels.update((block.label, block.arguments) for block in region.blocks)
        starts: dict[str, int] = {}
        waiting: list[tuple[int, str]] = []
        leaving: list[int] = []
        for number, block in enumerate(region.blocks):
            entered, self.b.open = ([] if number else self.b.open), []
            starts[block.label] = len(self.b.points)
            loop = self.counted_loop(block, region)
            if loop is None:
                self.add(g.Compute(), block.operations[0], "block", insertable=False)
                self.enter(block)
                self.block(block)
            for each in entered:
                self.b.edge(each, starts[block.label])
            leaving += self.leave(block, waiting, insertable=loop is None)
            if loop is not None:
                self.b.counted[starts[block.label]] = replace(loop, head=starts[block.label])
        for point, label in waiting:
            self.b.edge(point, starts[label])
        self.b.open = leaving
        self.depth -= 1

    def enter(self, block: Block) -> None:
        """Descriptors that are handed to a block are places with a name of their own."""
        for name, type_ in block.arguments:
            found = self.types.memdesc(type_)
            if found is not None and found.is_shared and name not in self.views:
                start = (0,) * found.rank if found.allocated[-found.rank :] == found.slot_shape else None
                self.views[name] = View(g.Ref(name_of(name)), start, found)

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
        starts, steps = [], []
        for other in region.blocks:
            for label, given in jumps(other.operations[-1]):
                if label == block.label:
                    value = self.values.index(given[0])
                    step = _step(value, counter)
                    (starts if step is None else steps).append(value if step is None else step)
        if len(starts) != 1 or len(steps) != 1 or steps[0] <= 0:
            return None
        lower, by = starts[0], steps[0]
        trips = count_trips(lower, test.right, by)
        expect = EXPECTED_TRIPS if trips is None else float(trips)
        return g.Loop(0, -1, trips or 0, trips, expect, counter, lower, test.right, by)

    def does_something(self, op: Operation) -> bool:
        """Whether an operation is more than arithmetic on scalars that can be followed."""
        if self.effect(op) != NOTHING or op.regions or op.integer("allocation.offset") is not None:
            return True
        return any(result in self.values.opaque and self.is_carried(result) for result in op.results)

    def leave(self, block: Block, waiting: list[tuple[int, str]], *, insertable: bool) -> list[int]:
        """The edges that a terminator makes; gives the points from which the region is left."""
        last = block.operations[-1]
        targets = list(jumps(last))
        if not targets:
            ends, self.b.open = self.b.open, []
            return ends
        if len(targets) == 1:
            self.hand_over(last, *targets[0], waiting)
            return []
        facts = {} if insertable else {"insertable": False}
        test = self.add(g.Branch(self.values.cond(last.operands[0])), last, "branch", **facts)
        for label, given in targets:
            self.b.open = [test]
            self.add(g.Compute(), last, "arm", insertable=False)
            self.hand_over(last, label, given, waiting)
        return []

    def hand_over(self, op: Operation, label: str, given: tuple[str, ...], waiting: list[tuple[int, str]]) -> None:
        """Arguments of a block take their values, all at once, on the way to it."""
        pairs = self.pairs(zip((name for name, _ in self.labels[label]), given, strict=False))
        if pairs:
            self.add(g.Assign(pairs), op, "jump")
        waiting += [(point, label) for point in self.b.open]
        self.b.open = []

    def pairs(self, given: Iterator[tuple[str, str]] | object) -> tuple[tuple[str, Index | g.Where | g.Token], ...]:
        """Assignments of arguments, where somebody asks for them."""
        found: list[tuple[str, Index | g.Where | g.Token]] = []
        for name, value in given:  # type: ignore[union-attr]
            if value in self.views:
                found.append((name_of(name), self.views[value].place))
            elif self.is_carried(name):
                found.append((name_of(name), self.values.index(value)))
        return tuple(found)

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
                self.region(op.regions[0], op)
                self.results_of(op, op.regions[0].blocks[-1].operations[-1].operands)
            case "ttg.warp_specialize":
                self.specialize(op)
            case "scf.yield" | "scf.condition" | "cf.br" | "cf.cond_br" | "ttg.warp_yield" | "ttg.warp_return":
                pass
            case "tt.return":
                self.add(g.End() if self.frame is None else g.Return(), op, "return")
            case "tt.call":
                self.call(op)
            case _:
                self.step(op)

    # --- loops and conditionals ---

    def loop(self, op: Operation) -> None:
        block = op.regions[0].blocks[0]
        (counter, _), carried = block.arguments[0], block.arguments[1:]
        lower, upper, step = (self.values.index(each) for each in op.operands[:3])
        by = constant(step)
        name = name_of(counter)
        inits, yielded = op.operands[3:], block.operations[-1].operands
        self.carry(carried, inits)
        pairs = self.pairs(zip((each for each, _ in carried), inits, strict=True))
        self.add(g.Assign(((name, lower), *pairs)), op, "loop")
        test = g.Branch(Compare("<", Name(name), upper) if by is not None and by > 0 else None)
        head = self.add(test, op, "trip", insertable=False)
        if by is not None and by > 0:
            trips = count_trips(lower, upper, by)
            expect = EXPECTED_TRIPS if trips is None else float(trips)
            self.b.counted[head] = g.Loop(head, -1, trips or 0, trips, expect, name, lower, upper, by)
        self.depth += 1
        self.block(block)
        self.depth -= 1
        last = block.operations[-1]
        nexts = self.pairs(zip((each for each, _ in carried), yielded, strict=True))
        following = Binary("+", Name(name), Const(by if by is not None else 1))
        self.add(g.Assign(((name, following), *nexts)), last, "next")
        for point in self.b.open:
            self.b.edge(point, head)
        self.b.open = [head]
        self.results_of(op, tuple(each for each, _ in carried))

    def carry(self, carried: tuple[tuple[str, str], ...], inits: tuple[str, ...]) -> None:
        """Descriptors that loops carry are places with a name of their own."""
        for (name, type_), init in zip(carried, inits, strict=True):
            found = self.types.memdesc(type_)
            if found is not None and found.is_shared and init in self.views:
                start = (0,) * found.rank if found.allocated[-found.rank :] == found.slot_shape else None
                self.views[name] = View(g.Ref(name_of(name)), start, found)

    def results_of(self, op: Operation, given: tuple[str, ...]) -> None:
        """After a region its results are what its arguments hold, or what it hands on."""
        pairs: list[tuple[str, Index | g.Where | g.Token]] = []
        for result, value in zip(op.results, given, strict=False):
            if value in self.views:
                view = self.views[value]
                self.views[result] = View(g.Ref(name_of(result)), view.start, view.type)
                pairs.append((name_of(result), view.place))
            elif self.is_carried(result):
                pairs.append((name_of(result), self.values.index(value)))
        if pairs:
            self.add(g.Assign(tuple(pairs)), op, "after", insertable=False)

    def while_loop(self, op: Operation) -> None:
        before, after = op.regions[0].blocks[0], op.regions[1].blocks[0]
        self.carry(before.arguments, op.operands)
        pairs = self.pairs(zip((name for name, _ in before.arguments), op.operands, strict=True))
        self.add(g.Assign(pairs) if pairs else g.Compute(), op, "loop")
        head = self.add(g.Compute(), op, "head", insertable=False)
        self.depth += 1
        self.block(before)
        condition = before.operations[-1]
        self.carry(after.arguments, condition.operands[1:])
        test = self.add(g.Branch(self.values.cond(condition.operands[0])), condition, "trip")
        self.add(g.Compute(), op, "body", insertable=False)
        pairs = self.pairs(zip((name for name, _ in after.arguments), condition.operands[1:], strict=True))
        if pairs:
            self.add(g.Assign(pairs), op, "body", insertable=False)
        self.block(after)
        self.depth -= 1
        last = after.operations[-1]
        nexts = self.pairs(zip((name for name, _ in before.arguments), last.operands, strict=True))
        self.add(g.Assign(nexts) if nexts else g.Compute(), last, "next")
        for point in self.b.open:
            self.b.edge(point, head)
        self.b.open = [test]
        self.results_of(op, condition.operands[1:])

    def conditional(self, op: Operation) -> None:
        branch = self.add(g.Branch(self.values.cond(op.operands[0])), op, "if")
        ends: list[int] = []
        for region in (*op.regions, *([Region()] * (2 - len(op.regions)))):
            self.b.open = [branch]
            self.add(g.Compute(), op, "arm", insertable=False)
            if region.blocks:
                self.region(region, op)
                last = region.blocks[-1].operations[-1]
                pairs = [pair for pair in self.arm_results(op, last.operands)]
                self.add(g.Assign(tuple(pairs)) if pairs else g.Compute(), last, "yield")
            ends += self.b.open
        self.b.open = ends
        self.add(g.Compute(), op, "join", insertable=False)
        for result, type_ in zip(op.results, op.result_types, strict=True):
            found = self.types.memdesc(type_)
            if found is not None and found.is_shared:
                self.views[result] = View(g.Ref(name_of(result)), None, found)

    def arm_results(self, op: Operation, given: tuple[str, ...]) -> Iterator[tuple[str, Index | g.Where | g.Token]]:
        for result, value in zip(op.results, given, strict=False):
            if value in self.views:
                yield name_of(result), self.views[value].place
            elif self.is_carried(result):
                yield name_of(result), self.values.index(value)

    # --- operations ---

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
        if effect.alloc:
            self.alloc(op)
        elif effect.free:
            self.dealloc(op)
        elif effect.view:
            self.view(op, effect)
        elif op.name == "arith.select" and op.operands[1] in self.views:
            self.select(op)
        elif effect.mbarrier:
            self.mbarrier(op, effect)
        elif effect.barrier:
            self.barrier(op, effect)
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
        elif op.integer("allocation.offset") is not None:
            self.scratch(op, effect)
        elif effect.release or effect.acquire:
            self.ordered(op, effect)
        elif self.touches_memory(op):
            self.anything(op)
        elif effect.role:
            self.add(g.Compute(), op, role=effect.role)

    def havoc(self, op: Operation) -> None:
        """Scalars that nobody can follow are something else each time."""
        names = []
        for result in op.results:
            if result in self.values.opaque and self.is_carried(result):
                if self.depth:
                    names.append(name_of(result))
                if not self.depth or self.values.opaque[result] == "i1":  # outside of loops it is what it is
                    self.declare(result, self.values.opaque[result])
        if names:
            self.add(g.Havoc(tuple(names), True), op)

    def touches_memory(self, op: Operation) -> bool:
        return any(value in self.views for value in op.operands) or any(
            self.types.memdesc(type_) is not None and "shared" in (self.types.memdesc(type_) or _NONE).space
            for type_ in op.result_types
        )

    def anything(self, op: Operation) -> None:
        """An operation that nobody has described."""
        self.unknown.append(op)
        bases = (self.views[value].place.base for value in op.operands if value in self.views)
        reached = tuple(dict.fromkeys(f"{each}_memory" if each in self.objects else each for each in bases))
        self.add(g.Unknown(reached), op)
        for result, type_ in zip(op.results, op.result_types, strict=True):
            found = self.types.memdesc(type_)
            if found is not None and found.is_shared and reached:
                self.views[result] = View(g.Ref(reached[0]), None, found)

    # --- memory ---

    def alloc(self, op: Operation) -> None:
        type_ = self.types.memdesc(op.result_types[0])
        if type_ is None or not type_.is_shared:
            return
        if op.result in self.objects:
            self.views[op.result] = View(g.Ref(name_of(op.result)), (0,) * type_.rank, type_, True)
            return
        name = self.buffer_name(op)
        offset = op.integer("allocation.offset")
        if not type_.is_known:  # from there on all of it, and any part of it is all of it
            rest = max(type_.all_bytes, self.ttgir.shared - (offset or 0))
            place = self.own_memory(name, rest, 1, offset)
            self.views[op.result] = View(place, None, type_, opaque=rest)
        else:
            # The padding behind the last slot may be another's.
            whole = not self.has_plain_slots(op) or type_.all_bytes != type_.slot_bytes * type_.slots
            slots, bytes_ = (1, type_.all_bytes) if whole else (type_.slots, type_.slot_bytes)
            place = self.own_memory(name, bytes_, slots, offset)
            self.views[op.result] = View(place, (0,) * type_.rank, type_, slots > 1 and self.frame is None)
        if self.frame is None:
            self.add(g.Alloc(name), op)
        if op.operands:
            self.access(op, "write", op.result, self.effect(op))

    def buffer_name(self, op: Operation) -> str:
        name = name_of(name_in_text(self.ttgir, op))
        count = self.buffers.get(name, 0)
        self.buffers[name] = count + 1
        return f"{name}_again{count}" if count else name

    def has_plain_slots(self, op: Operation) -> bool:
        """Whether all who use an allocation take one slot of it, so that slots can be told apart by number."""
        allowed = ("ttg.memdesc_index", "ttg.local_dealloc", "scf.for", "scf.yield", "ttg.warp_specialize.partitions")
        users = [each for each in walk(self.function) if op.result in each.operands]
        return all(each.name in allowed for each in users)

    def dealloc(self, op: Operation) -> None:
        view = self.views.get(op.operands[0])
        if view is not None and view.place.base in {each.name for each in self.b.parts.get("buffers", ())}:
            self.add(g.Free(view.place.base), op)

    def parameter(self, name: str, type_: MemDesc) -> None:
        """A descriptor that comes from outside: it may be any memory, and is taken for memory of its own."""
        buffer = self.b.buffer(name_of(name), type_.slot_bytes, type_.slots)
        self.views[name] = View(g.Ref(buffer), (0,) * type_.rank, type_, type_.slots > 1)

    def view(self, op: Operation, effect: Effect) -> None:
        source = self.views.get(op.operands[0])
        type_ = self.types.memdesc(op.result_types[0])
        if source is None or type_ is None:
            return
        if effect.view == "index":
            self.views[op.result] = index_view(source, self.values.index(op.operands[1]), type_)
        elif effect.view == "subslice":
            self.views[op.result] = subslice_view(source, op.integers("offsets"), type_)
        else:
            self.views[op.result] = same_view(source, op, type_)

    def select(self, op: Operation) -> None:
        then, otherwise = self.views.get(op.operands[1]), self.views.get(op.operands[2])
        if then is None or otherwise is None:
            self.anything(op)
            return
        both = g.Either(self.values.cond(op.operands[0]), then.place, otherwise.place)
        self.add(g.Assign(((name_of(op.result), both),)), op)
        start = then.start if then.start == otherwise.start else None
        self.views[op.result] = View(g.Ref(name_of(op.result)), start, then.type)

    def forward(self, op: Operation) -> None:
        """Results that are the operands again."""
        for result, value in zip(op.results, op.operands, strict=False):
            if value in self.views:
                self.views[result] = self.views[value]

    # --- accesses ---

    def accesses(self, op: Operation, effect: Effect) -> None:
        descriptors = [value for value in op.operands if value in self.views]
        told = next((v for v, what in zip(descriptors, effect.memory, strict=False) if what == "barrier"), None)
        if len(descriptors) > len(effect.memory) or "unknown" in effect.memory:
            self.anything(op)
            return
        for value, what in zip(descriptors, effect.memory, strict=False):
            if what not in ("barrier", "view"):
                self.access(op, what, value, effect, told)

    def access(self, op: Operation, what: str, value: str, effect: Effect, told: str | None = None) -> None:
        view = self.views[value]
        type_ = self.type_of(op, value)
        later = bool(effect.queue or told) and (not effect.only_if or bool(op.integer(effect.only_if)))
        alone = effect.by == "one"
        scattered = effect.layout == "scattered"
        register = None if scattered else self.register_layout(op, effect)
        owner = Owner(self.group.count, self.group.first)
        foot, _ = footprint(view, type_, register, scattered, owner)
        if self.is_masked(op):
            foot = g.Footprint(foot.place, foot.extents, foot.width, True)
        issues = (g.Issue(effect.queue, 0 if effect.queue == "async" else 1, 0 if effect.queue == "async" else 1),)
        action = g.Access(
            what,
            foot,
            later,
            effect.proxy,
            operator=str(op.integer("atomic_rmw_op") or "") if what == "atomic" else "",
            fetches=what == "atomic",
            mbarrier=self.barrier_ref(told) if told is not None else None,
            as_one=not alone,
        )
        facts = {
            "role": "copy" if later else "local_read" if what == "read" else "local_write",
            "issues": issues if later and effect.queue else (),
        }
        if alone:
            self.by_one(op, action, **facts)
        else:
            number = self.add(action, op, **facts)
            if effect.queue == "async":
                self.pending.append(number)
            if effect.queue == "tdm" and told is not None:
                self.arrive_when_done(op, told, bytes_of(foot))

    def arrive_when_done(self, op: Operation, told: str, expect: int) -> None:
        """The data mover arrives for a wave when its copy is done: at once, with so many bytes to come."""
        view = self.views[told]
        object_ = self.objects.get(view.place.base)
        if object_ is None:
            self.anything(op)
            return
        self.sync(ops.MbarrierArrive(Place(object_, view.place.slot), expect), op)

    def by_one(self, op: Operation, action: g.Action, **facts: object) -> None:
        """One wave does it for all of its group, where the operation's predicate holds."""
        predicate = self.predicate(op)
        cond: Cond = Compare("==", Name(WAVE), Const(self.group.first))
        first = self.add(g.Branch(cond if predicate is None else Logic("and", cond, predicate)), op, "elect")
        under, self.under = self.under, "per_wave"
        self.add(action, op, **facts)
        done = self.b.open
        self.b.open = [first]
        self.add(g.Compute(), op, "others", insertable=False)
        self.b.open = [*done, *self.b.open]
        self.under = under
        self.add(g.Compute(), op, "elected", insertable=False)

    def type_of(self, op: Operation, value: str) -> MemDesc:
        if value == op.result:
            text = op.result_types[0]
        else:
            text = op.operand_types[op.operands.index(value)]
        found = self.types.memdesc(text)
        assert found is not None
        return found

    def register_layout(self, op: Operation, effect: Effect):  # type: ignore[no-untyped-def]
        texts = op.result_types if effect.layout == "result" else op.operand_types
        found = next((tensor for text in texts if (tensor := self.types.tensor(text)) is not None), None)
        return None if found is None else found.encoding

    def is_masked(self, op: Operation) -> bool:
        """Whether a mask may leave some bytes untouched."""
        for value, type_ in zip(op.operands, op.operand_types, strict=False):
            if type_ == "i1" or (type_.startswith("tensor<") and "xi1," in type_):
                return True
        return False

    # --- memory of an operation's own ---

    def scratch(self, op: Operation, effect: Effect) -> None:
        offset, size = op.integer("allocation.offset"), op.integer("allocation.size")
        assert offset is not None
        known = size if size is not None else max(0, self.ttgir.shared - offset)
        place = self.own_memory(f"%scratch{len(self.b.parts.get('buffers', ()))}", known, 1, offset)
        if not effect.scratch:
            self.unknown.append(op)
            self.add(g.Unknown((place.base,)), op)
            return
        foot = g.Footprint(place, (), known, True)
        if self.meets_before(op, effect):
            self.meet(op)
        if effect.inside_a_warp and self.stays_in_warps(op):
            self.add(g.Access("write", foot, as_one=True), op, role="local_write")
            return
        if effect.by == "one":
            self.by_one(op, g.Access("write", foot), role="local_write")
            return
        for what in effect.scratch:
            if what == "barrier":
                self.meet(op)
            else:
                role = "local_read" if what == "read" else "local_write"
                self.add(g.Access(what, foot, as_one=True), op, role=role)

    def own_memory(self, name: str, bytes: int, slots: int, offset: int | None) -> g.Ref:
        """Memory of the function itself: a buffer, or a part of the frame that a call gives it."""
        if self.frame is None:
            return g.Ref(self.b.buffer(name, bytes, slots, offset))
        return g.Ref(self.frame, ZERO, Const(offset or 0))

    def stays_in_warps(self, op: Operation) -> bool:
        """Whether a conversion moves nothing between warps: then they do not meet in it."""
        source, result = self.types.tensor(op.operand_types[0]), self.types.tensor(op.result_types[0])
        if source is None or result is None or source.encoding is None or result.encoding is None:
            return True  # nobody knows: then no barrier is relied on
        return may_stay_in_warps(source.encoding, result.encoding, result.shape)

    def ordered(self, op: Operation, effect: Effect) -> None:
        """Atomics that release and acquire let all waves meet before and after."""
        before, after = self.meets_before(op, effect), self.meets_after(op, effect)
        if before:
            self.meet(op)
        self.add(g.Compute(), op, role="global_write")
        if after:
            self.meet(op)

    def meets_before(self, op: Operation, effect: Effect) -> bool:
        return effect.release and op.integer("sem") in (3, 4)

    def meets_after(self, op: Operation, effect: Effect) -> bool:
        return effect.acquire and op.integer("sem") in (2, 4)

    # --- synchronization ---

    def meet(self, op: Operation, bare: bool = False) -> None:
        """All waves of the group meet, and what they did to shared memory is performed."""
        if self.group.barrier is not None:
            if self.group.count == 1:
                return
            self.sync(ops.Signal(self.group.barrier), op)
            self.sync(ops.Wait(self.group.barrier), op)
            return
        inside = not self.effect(op).barrier  # the barrier of an operation stays with it
        self.sync(ops.WorkgroupBarrier(pinned=True) if bare else ops.SharedMemoryBarrier(pinned=inside), op)

    def barrier(self, op: Operation, effect: Effect) -> None:
        if effect.barrier == "conditional":
            half = waves_where(self.values, op.operands[0], self.waves, self.ttgir.lanes)
            if half is None:
                self.unknown.append(op)
                self.add(g.Compute(), op)
            else:
                self.sync(ops.ConditionalBarrier(half), op)
            return
        spaces = integer(op.attribute(effect.spaces) or "") if effect.spaces else LOCAL
        self.meet(op, effect.barrier == "bare" or not (spaces or 0) & LOCAL)

    def wait(self, op: Operation, effect: Effect) -> None:
        count = op.integer(effect.count)
        if effect.unit == "instructions" and count:
            self.unknown.append(op)  # how many instructions a copy becomes is not known here
            self.add(g.Compute(), op)
            return
        what = ops.WaitCount(((effect.wait, count or 0),))
        if effect.by == "one":
            self.by_one(op, g.Sync(what))
        else:
            self.sync(what, op)
        if effect.meets and self.group.count > WARP_GROUP and op.attribute(effect.meets) is None:
            if self.ttgir.is_open:  # whether they meet here is still to be decided
                self.relaxed.append(op)
            else:
                self.meet(op)

    # --- barrier objects ---

    def find_objects(self) -> None:
        """Allocations that hold mbarriers: what `init_barrier` is told of."""
        allocs = {op.result: op for op in walk(self.function) if op.name == "ttg.local_alloc"}
        views = {op.result: op.operands[0] for op in walk(self.function) if self.effect(op).view}
        for op in walk(self.function):
            if op.name == "ttg.warp_specialize.partitions":
                for region in op.regions:
                    views.update(zip((name for name, _ in region.blocks[0].arguments), op.operands, strict=False))
        counts: dict[str, set[int]] = {}
        by_lanes: set[str] = set()
        for op in walk(self.function):
            if effect := self.effect(op).mbarrier:
                base = op.operands[0]
                while base in views:
                    base = views[base]
                if base in allocs and effect == "init":
                    counts.setdefault(base, set()).add(op.integer("count") or 1)
                if self.effect(op).by == "lanes":
                    by_lanes.add(base)
        for base, found in counts.items():
            type_ = self.types.memdesc(allocs[base].result_types[0])
            assert type_ is not None
            arrivals = max(found)
            if base in by_lanes and arrivals % self.ttgir.lanes == 0:  # a wave arrives with all its lanes at once
                arrivals //= self.ttgir.lanes
            value = Value(name_of(base), BarrierObject("mbarrier", arrivals, type_.slots))
            self.objects[base] = value
            offset = allocs[base].integer("allocation.offset")
            self.b._part("objects", g.Object(value.name, value.type, (), offset))  # type: ignore[arg-type]
            self.b.buffer(f"{value.name}_memory", MBARRIER_BYTES * type_.slots, 1, offset)

    def barrier_ref(self, value: str) -> g.Ref | None:
        view = self.views.get(value)
        return view.place if view is not None else None

    def mbarrier(self, op: Operation, effect: Effect) -> None:
        view = self.views.get(op.operands[0])
        object_ = self.objects.get(view.place.base) if view is not None else None
        if view is None or object_ is None:
            self.anything(op)
            return
        if effect.mbarrier == "copies":
            self.tell(op, view, object_)
            return
        if effect.mbarrier in ("init", "end"):
            self.by_one(op, self.at_barrier(view, "write"), role="local_write")
            return
        place = Place(object_, view.place.slot)
        if effect.mbarrier == "wait":
            phase = next(
                (value for value, type_ in zip(op.operands, op.operand_types, strict=False) if type_ == "i32"), ""
            )
            self.add(self.at_barrier(view, "read"), op)
            self.if_so(op, g.Sync(ops.MbarrierWait(place, self.values.index(phase) if phase else ZERO)))
        else:
            expect = op.integer("size") or 0 if effect.mbarrier == "expect" else 0
            self.add(self.at_barrier(view, "read"), op)
            arrive = g.Sync(ops.MbarrierArrive(place, expect))
            if effect.by == "lanes":
                self.if_so(op, arrive)
            else:
                self.by_one(op, arrive)

    def tell(self, op: Operation, view: View, object_: Value) -> None:
        """The barrier is told of all copies of a wave that nobody was told of: all lanes arrive when these are done."""
        told = 0
        for number in self.pending:
            point = self.b.points[number]
            assert isinstance(point.action, g.Access)
            told += bytes_of(point.action.footprint)
            self.b.points[number] = replace(point, action=replace(point.action, mbarrier=view.place))
        self.pending.clear()
        self.add(self.at_barrier(view, "read"), op)
        self.sync(ops.MbarrierArrive(Place(object_, view.place.slot), told), op)

    def at_barrier(self, view: View, what: str) -> g.Access:
        """Who sets a barrier up, or ends it, writes its memory; who uses it only relies on it."""
        slot = scale(view.place.slot, MBARRIER_BYTES)
        return g.Access(what, g.Footprint(g.Ref(f"{view.place.base}_memory", ZERO, slot), (), MBARRIER_BYTES), as_one=True)

    def if_so(self, op: Operation, action: g.Action, **facts: object) -> None:
        """Only where the operation's predicate holds."""
        predicate = self.predicate(op)
        if predicate is None:
            self.add(action, op, **facts)
            return
        test = self.add(g.Branch(predicate), op, "if")
        self.add(action, op, **facts)
        done = self.b.open
        self.b.open = [test]
        self.add(g.Compute(), op, "not", insertable=False)
        self.b.open = [*done, *self.b.open]
        self.add(g.Compute(), op, "then", insertable=False)

    def predicate(self, op: Operation) -> Cond | None:
        """The scalar condition of an operation, unless it always holds."""
        found = [value for value, type_ in zip(op.operands, op.operand_types, strict=False) if type_ == "i1"]
        cond = self.values.cond(found[-1]) if found and not op.name.startswith("ttng.warp_group_dot") else TRUE
        return None if cond == TRUE else cond

    # --- several programs ---

    def start(self) -> None:
        """Waves of partitions wait for their work from the start; the others run the function."""
        special = [op for op in walk(self.function) if op.name == "ttg.warp_specialize"]
        if not special:
            return
        self.special = special[0]
        self.under = "per_wave"
        own = self.ttgir.waves
        self.split = self.add(g.Dispatch(((0, own),)), self.function, "waves", insertable=False)
        self.add(g.Compute(), self.function, "own", insertable=False)
        self.group = self.group_of(0, own)

    def group_of(self, first: int, count: int) -> _Group:
        """Waves that meet at a barrier of their own."""
        name = f"%group{first}"
        type_ = BarrierObject("named_barrier", count)
        if count > 1:
            self.b._part("objects", g.Object(name, type_, tuple(range(first, first + count))))
        return _Group(first, count, Value(name, type_), True)

    def meet_all(self, op: Operation) -> None:
        self.sync(ops.SharedMemoryBarrier(pinned=True), op, insertable=False)

    def specialize(self, op: Operation) -> None:
        """All waves meet, run their regions, and meet again."""
        if op is not self.special:
            self.unknown.append(op)
            self.add(g.Unknown(()), op)
            return
        self.meet_all(op)
        self.region(op.regions[0], op)
        self.meet_all(op)
        self.results_of(op, op.regions[0].blocks[-1].operations[-1].operands)

    def work(self) -> None:
        """The waves of partitions: each group runs its region, and ends with the function."""
        if self.special is None:
            return
        op, ended = self.special, self.b.open
        self.b.open = [self.split]
        self.at = None
        self.add(g.Compute(), op, "workers", insertable=False)
        self.meet_all(op)
        partitions = op.regions[1].blocks[0].operations[0]
        counts = op.integers("partitionNumWarps")
        ranges, first = [], self.ttgir.waves
        for count in counts:
            ranges.append((first, first + count))
            first += count
        choose = self.add(g.Dispatch(tuple(ranges[:-1])), op, "partitions", insertable=False) if len(ranges) > 1 else None
        ends: list[int] = []
        for (low, high), region in zip(ranges, partitions.regions, strict=False):
            if choose is not None:
                self.b.open = [choose]
                self.add(g.Compute(), op, "partition", insertable=False)
            self.group = self.group_of(low, high - low)
            self.captured(partitions, region)
            self.region(region, op)
            ends += self.b.open
        self.b.open = ends
        self.meet_all(op)
        self.add(g.End(), op, "end of the workers", insertable=False)
        self.b.open = ended

    def captured(self, op: Operation, region: Region) -> None:
        given = zip((name for name, _ in region.blocks[0].arguments), op.operands, strict=False)
        pairs = []
        for name, value in given:
            if value in self.views:
                self.views[name] = self.views[value]
            elif self.is_carried(name):
                pairs.append((name_of(name), self.values.index(value)))
        if pairs:
            self.add(g.Assign(tuple(pairs)), op, "captured", insertable=False)

    def call(self, op: Operation) -> None:
        """Another function of the file, with its memory where this call has it."""
        name = op.string("callee")
        callee = next((each for each in self.ttgir.functions if each.string("sym_name") == name), None)
        if callee is None or not callee.regions or name in self.around:
            self.unknown.append(op)
            self.add(g.Unknown(()), op)
            return
        function = self.functions.get(name)
        if function is None:
            function = self.functions[name] = f"f{len(self.functions)}"
            self.wanted.append((callee, function))
        offset, size = op.integer("allocation.offset"), op.integer("allocation.size") or 0
        frame = self.own_memory(f"%call{len(self.b.parts.get('buffers', ()))}", size, 1, offset)
        given: list[tuple[str, g.Where]] = [(f"%{function}_frame", frame)]
        for (value, type_), argument in zip(callee.regions[0].blocks[0].arguments, op.operands, strict=True):
            found = self.types.memdesc(type_)
            if found is not None and found.is_shared and argument in self.views:
                given.append((f"%{function}_{name_of(value)[1:]}", self.views[argument].place))
        self.havoc(op)
        self.add(g.Call(function, tuple(given)), op)

    def callees(self) -> None:
        """The functions that are called, each once."""
        while self.wanted:
            callee, function = self.wanted.pop(0)
            renamed = with_prefix(callee, function)
            inner = _Builder(self.ttgir, renamed, self.target, self, function)
            inner.body()

    def body(self) -> None:
        """The points of a called function."""
        assert self.frame is not None
        self.ask()
        params = [self.frame]
        for name, type_ in self.function.regions[0].blocks[0].arguments:
            found = self.types.memdesc(type_)
            if found is not None and found.is_shared:
                params.append(name_of(name))
                self.views[name] = View(g.Ref(name_of(name)), None, found)
            elif is_scalar(type_) and self.is_carried(name):
                self.declare(name, type_)
        self.b.function(self.around[-1], tuple(params))
        self.region(self.function.regions[0], self.function)
        self.callees()


def with_prefix(op: Operation, prefix: str) -> Operation:
    """An operation whose values have names of their own."""

    def name(value: str) -> str:
        return f"%{prefix}_{value[1:]}"

    def block(each: Block) -> Block:
        arguments = tuple((name(value), type_) for value, type_ in each.arguments)
        return Block(each.label, arguments, tuple(with_prefix(inner, prefix) for inner in each.operations))

    return replace(
        op,
        results=tuple(map(name, op.results)),
        operands=tuple(map(name, op.operands)),
        regions=tuple(Region(tuple(map(block, region.blocks))) for region in op.regions),
    )


_NONE = MemDesc((), "i8", None, "", ())
