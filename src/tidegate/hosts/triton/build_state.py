"""What building a graph has in common: points, names, who meets, and what is done by one wave for all.

Needs   a `Ttgir` and one of its functions
Gives   `State`: points are added to one `GraphBuilder`, each with the operation before which an insertion goes
Keeps   only the first point of an operation that stands in the file has a place before it, where all waves come
Cost    constant for each point
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tidegate.assumptions import UNIFORM, Assumption
from tidegate.graph import model as g
from tidegate.graph.builder import GraphBuilder
from tidegate.hosts.mlir.model import Operation, walk
from tidegate.hosts.triton.effects import NOTHING, Effect, effects
from tidegate.hosts.triton.harmless import is_harmless
from tidegate.hosts.triton.read import Ttgir, is_written
from tidegate.hosts.triton.spreads import Calls, Spread
from tidegate.hosts.triton.tokens import Left
from tidegate.hosts.triton.types import Types
from tidegate.hosts.triton.values import Values, name_of, values_of
from tidegate.hosts.triton.views import View
from tidegate.index import (
    TRUE,
    WAVE,
    ZERO,
    Compare,
    Cond,
    Const,
    Flag,
    Logic,
    Name,
)
from tidegate.language import ops
from tidegate.language.ops import Value
from tidegate.language.types import FLAG, INDEX
from tidegate.targets import Target

MBARRIER_BYTES = 8


@dataclass(slots=True)
class Group:
    """The waves that run a region, and the barrier at which they meet."""

    first: int
    count: int
    barrier: Value | None = None  # None: that of the workgroup, and all waves run one program


class State:
    def __init__(
        self, ttgir: Ttgir, function: Operation, target: Target, caller: State | None = None, name: str = ""
    ) -> None:
        self.ttgir, self.function, self.target = ttgir, function, target
        self.around: tuple[str, ...] = (*(caller.around if caller else ()), *((name,) if name else ()))
        self.frame = f"%{name}_frame" if caller else None  # where the function's own memory lies
        self.types = Types(ttgir.module.aliases)
        self.values: Values = values_of(function)
        if caller:  # a function's values are others in each call
            self.values.fixed.outside_loops.clear()
        self.calls: Calls = caller.calls if caller else Calls(ttgir.functions)
        self.assumed: set[Assumption] = caller.assumed if caller else set()  # that the graph does not show
        self.spreads = self.calls.of(function, self.values)
        self.values.apart = frozenset(value for value, each in self.spreads.found.items() if not each.is_shared)
        self.table = effects()
        self.waves = self.count_waves()
        self.b: GraphBuilder = (
            caller.b if caller else GraphBuilder(function.string("sym_name") or "kernel", self.waves, target.name)
        )
        self.before: list[Operation | None] = caller.before if caller else []
        self.functions: dict[str, str] = caller.functions if caller else {}
        self.wanted: list[tuple[Operation, str]] = caller.wanted if caller else []
        self.views: dict[str, View] = {}
        self.unknown: list[Operation] = caller.unknown if caller else []
        self.relaxed: list[Operation] = caller.relaxed if caller else []
        self.counted: dict[int, Left] | None = None  # waits for tokens, by `id`; None: nobody has asked yet
        self.at: Operation | None = None
        self.under = "uniform"
        self.depth = 0 if caller is None else 1  # loops around; a function may be called from one
        self.group = Group(0, ttgir.waves)
        self.objects: dict[str, Value] = {}
        self.at_once: dict[str, int] = {}  # object → arrivals that count as one of it: all of it are as many
        self.free: dict[str, Value] = caller.free if caller else {}
        self.names: frozenset[str] = frozenset()  # scalars that the graph knows
        self.special: Operation | None = None  # where waves part
        self.captures: g.Ref | None = None  # what partitions capture lies there
        self.executed: Operation | None = None  # with a region of several blocks that is being built
        self.labels: dict[str, tuple[tuple[str, str], ...]] = {}  # of blocks, with their arguments
        self.split = -1
        self.pending: list[int] = []  # copies that are in no group and report to no barrier yet

    def count_waves(self) -> int:
        own = self.ttgir.waves
        extra = [
            sum(op.integers("partitionNumWarps")) for op in walk(self.function) if op.name == "ttg.warp_specialize"
        ]
        return own + max(extra, default=0)

    def effect(self, op: Operation) -> Effect:
        return self.table.get(op.name, NOTHING)

    def declare(self, value: str, type_: str) -> None:
        name = name_of(value)
        self.free[name] = Value(name, FLAG if type_ == "i1" else INDEX)

    def is_apart(self, values: Iterable[str]) -> bool:
        """Whether waves or lanes need not agree on one of some values."""
        return not self.values.apart.isdisjoint(values)

    @contextmanager
    def only_if(self, *values: str) -> Iterator[None]:
        """What is added inside is reached by those for whom a condition on these values holds."""
        around = self.under
        self.under = max(around, self.spreads.most(values).under, key=g.VARIATIONS.index)
        yield
        self.under = around

    def is_carried(self, value: str) -> bool:
        return name_of(value) in self.names

    def add(self, action: g.Action, op: Operation, label: str = "", **facts: Any) -> int:
        """A point. Only the first of an operation has a place before it."""
        first = self.at is not op
        self.at = op
        facts.setdefault("insertable", first and self.under == "uniform" and is_written(self.ttgir, op))
        facts.setdefault("under", self.under)
        number = self.b.add(action, label=label or op.name, at=op.at, **facts)
        self.before.append(op)
        return number

    def sync(self, what: object, op: Operation, **facts: Any) -> int:
        return self.add(g.Sync(what), op, **facts)  # type: ignore[arg-type]

    def meet(self, op: Operation, bare: bool = False, *, stays: bool = False) -> None:
        """All waves of the group meet, and what they did to shared memory is performed.

        `stays`: whatever shared memory needs. What a barrier does for global memory no proof asks for, and
        `--remove-redundant` took it away (test_triton_written: `test_what_orders_global_memory_stays`).
        """
        if self.group.barrier is not None:
            if self.group.count == 1:
                return
            self.sync(ops.Signal(self.group.barrier), op)
            self.sync(ops.Wait(self.group.barrier), op)
            return
        pinned = stays or not self.effect(op).barrier  # the barrier of an operation stays with it
        self.sync(ops.WorkgroupBarrier(pinned=True) if bare else ops.SharedMemoryBarrier(pinned=pinned), op)

    def by_one(self, op: Operation, action: g.Action, **facts: Any) -> None:
        """One wave does it for all of its group, where the operation's predicate holds."""
        predicate = self.predicate(op)
        cond: Cond = Compare("==", Name(WAVE), Const(self.group.first))
        cond = cond if predicate is None else Logic("and", cond, predicate)
        first = self.fork(self.predicates(op), cond, op, "elect")
        under, self.under = self.under, "per_wave"
        self.add(action, op, **facts)
        done = self.b.open
        self.b.open = [first]
        self.add(g.Compute(), op, "others", insertable=False)
        self.b.open = [*done, *self.b.open]
        self.under = under
        self.add(g.Compute(), op, "elected", insertable=False)

    def if_so(self, op: Operation, action: g.Action, **facts: Any) -> None:
        """Only where the operation's predicate holds."""
        predicate = self.predicate(op)
        if predicate is None:
            self.add(action, op, **facts)
            return
        test = self.fork(self.predicates(op), predicate, op, "if")
        with self.only_if(*self.predicates(op)):
            self.add(action, op, **facts)
            done = self.b.open
            self.b.open = [test]
            self.add(g.Compute(), op, "not", insertable=False)
        self.b.open = [*done, *self.b.open]
        self.add(g.Compute(), op, "then", insertable=False)

    def fork(self, values: Iterable[str], cond: Cond, op: Operation, label: str, **facts: Any) -> int:
        """A branch on some values. Where waves or lanes need not agree on these, each may take either way.

        The choice is a new one at each branch: lanes that take one way here and another there are one wave.
        """
        if not self.is_apart(values := tuple(values)):
            return self.add(g.Branch(cond), op, label, **facts)
        taken = f"{name_of(values[-1])}.taken"
        self.free[taken] = Value(taken, FLAG)
        self.add(g.Havoc((taken,), False), op, label, **facts)
        return self.add(g.Branch(Flag(taken)), op, label, insertable=False)

    def predicate(self, op: Operation) -> Cond | None:
        """The scalar condition of an operation, unless it always holds."""
        found = self.predicates(op)
        cond = self.values.cond(found[-1]) if found and not op.name.startswith("ttng.warp_group_dot") else TRUE
        return None if cond == TRUE else cond

    def predicates(self, op: Operation) -> list[str]:
        return [value for value, type_ in zip(op.operands, op.operand_types, strict=False) if type_ == "i1"]

    def havoc(self, op: Operation) -> None:
        """Scalars that cannot be followed are something else each time.

        Outside of loops it is one number for all waves if it is computed from arguments. If it is read from memory,
        that is assumed; in loops the graph itself says so.
        """
        agreed, apart = [], []
        for result in op.results:
            if result not in self.values.opaque or not self.is_carried(result):
                continue
            name, spread, type_ = name_of(result), self.spreads.of(result), self.values.opaque[result]
            if not spread.is_shared:
                apart.append(name)
            elif self.depth:
                agreed.append(name)
            else:
                self.declare(result, type_)
                if spread == Spread.READ:
                    self.assumed.add(UNIFORM)
            if type_ == "i1":
                self.declare(result, type_)
        if agreed:
            self.add(g.Havoc(tuple(agreed), True), op)
        if apart:
            self.add(g.Havoc(tuple(apart), False), op)

    def anything(self, op: Operation) -> None:
        """An operation without a description: it reads and writes all that it can reach, all waves together."""
        self.unknown.append(op)
        given = self.descriptors(op)
        if not given:  # assembly, or an operation of another dialect: nothing says what it reaches
            self.add(g.Unknown(()), op)
            return
        together = not self.is_apart(given)
        reached = tuple(dict.fromkeys(name for value in given for name in self.buffers_of(value)))
        sizes = {each.name: each.bytes for each in self.b.parts.get("buffers", ())}
        if not all(value in self.views for value in given) or not all(name in sizes for name in reached):
            self.add(g.Unknown(()), op)
            return
        if not reached:
            self.add(g.Compute(), op)
        for name in reached:
            foot = g.Footprint(g.Ref(name), (), sizes[name], True)
            self.add(g.Access("write", foot, as_one=together), op, role="local_write")
        # A descriptor that it makes has no view: whoever uses that may touch everything.

    def buffers_of(self, value: str) -> Iterator[str]:
        """The buffers that a descriptor may lie in; the memory of a barrier object has a name of its own."""
        if value not in self.views:
            return
        known = [self.views[base].place.base for base in self.bases(value, frozenset()) if base in self.views]
        for name in known or [self.views[value].place.base]:
            yield f"{name}_memory" if name in self.objects else name

    def bases(self, value: str, asked: frozenset[str]) -> Iterator[str]:
        """The allocations that a descriptor may lie in."""
        if value in asked:
            return
        asked |= {value}
        values = self.values
        if value in values.results:
            yield from self.bases(values.results[value], asked)
        elif value in values.arguments:
            for source in values.arguments[value].sources:
                yield from self.bases(source, asked)
        elif value in values.made:
            op, number = values.made[value]
            if self.effect(op).alloc:
                yield value
            elif op.name == "arith.select":
                for each in op.operands[1:]:
                    yield from self.bases(each, asked)
            elif self.effect(op).view:
                yield from self.bases(op.operands[0], asked)
            elif self.effect(op).forwards:
                yield from self.bases(op.operands[number], asked)

    def touches_memory(self, op: Operation) -> bool:
        """Whether an operation may touch shared memory, as far as its types and its name tell."""
        if any(map(self.is_memory, (*op.operand_types, *op.result_types))):
            return True
        return op.name not in self.table and not is_harmless(op)

    def is_memory(self, type_: str) -> bool:
        return self.types.is_memory(type_)

    def descriptors(self, op: Operation) -> list[str]:
        """The operands that are shared memory."""
        return [value for value, type_ in zip(op.operands, op.operand_types, strict=True) if self.is_memory(type_)]

    def size_of(self, op: Operation) -> int | None:
        """The bytes that were laid out for an operation or a call; None: it has some, and nobody knows how many.

        Where its own size is not stated, it has all from its offset to the end of shared memory.
        """
        offset, size = op.integer("allocation.offset"), op.integer("allocation.size")
        if size is not None or offset is None:
            return size or 0
        return self.ttgir.shared - offset if self.ttgir.shared > offset else None

    def own_memory(self, name: str, bytes: int, slots: int, offset: int | None) -> g.Ref:
        """Memory of the function itself: a buffer, or a part of the frame that a call gives it."""
        if self.frame is None:
            return g.Ref(self.b.buffer(name, bytes, slots, offset))
        return g.Ref(self.frame, ZERO, Const(offset or 0))
