"""Points of one function: who comes to them, who meets, and what is done by one wave for all.

Needs   the facts of a function, and the graph that its points go to
Gives   `Points`: each is added with the operation before which an insertion goes
Keeps   only the first point of an operation that stands in the file has a place before it, where all waves come
Cost    constant for each point
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tidegate.assumptions import UNIFORM, Assumption
from tidegate.graph import model as g
from tidegate.graph.builder import GraphBuilder
from tidegate.hosts.mlir.model import Operation
from tidegate.hosts.triton.build_facts import FunctionFacts
from tidegate.hosts.triton.read import is_written
from tidegate.hosts.triton.spreads import Spread
from tidegate.hosts.triton.values import name_of
from tidegate.index import WAVE, Compare, Cond, Const, Flag, Logic, Name
from tidegate.language import ops
from tidegate.language.ops import Value
from tidegate.language.types import FLAG, INDEX


@dataclass(slots=True)
class Group:
    """The waves that run a region, and the barrier at which they meet."""

    first: int
    count: int
    barrier: Value | None = None  # None: that of the workgroup, and all waves run one program


@dataclass(slots=True)
class Collected:
    """What all functions of a kernel add to."""

    b: GraphBuilder
    unknown: list[Operation] = field(default_factory=list)
    relaxed: list[Operation] = field(default_factory=list)
    assumed: set[Assumption] = field(default_factory=set)  # that the graph does not show
    called: dict[str, str] = field(default_factory=dict)  # function → its name in the graph
    wanted: list[tuple[Operation, str]] = field(default_factory=list)  # functions that have no points yet, and names


class Points:
    """The place at which a function is being built."""

    def __init__(self, facts: FunctionFacts, collected: Collected) -> None:
        self.facts, self.collected, self.b = facts, collected, collected.b
        self.group = Group(0, facts.ttgir.waves)
        self.under = "uniform"
        self.depth = 0 if facts.frame is None else 1  # loops around; a function may be called from one
        self.at: Operation | None = None

    def add(self, action: g.Action, op: Operation, label: str = "", **facts: Any) -> int:
        """A point. Only the first of an operation has a place before it."""
        first = self.at is not op
        self.at = op
        facts.setdefault("insertable", first and self.under == "uniform" and is_written(self.facts.ttgir, op))
        facts.setdefault("under", self.under)
        return self.b.add(action, label=label or op.name, place=op, at=op.at, **facts)

    def sync(self, what: g.GraphSyncOp, op: Operation, **facts: Any) -> int:
        return self.add(g.Sync(what), op, **facts)

    def unknown(self, op: Operation, *bases: str) -> None:
        """What nobody has described may touch everything, or all of some memory."""
        self.collected.unknown.append(op)
        self.add(g.Unknown(bases), op)

    def declare(self, value: str, type_: str) -> None:
        self.b.declare(name_of(value), FLAG if type_ == "i1" else INDEX)

    # --- who comes here ---

    @contextmanager
    def only_if(self, *values: str) -> Iterator[None]:
        """What is added inside is reached by those for whom a condition on these values holds."""
        around = self.under
        self.under = max(around, self.facts.spreads.most(values).under, key=g.VARIATIONS.index)
        yield
        self.under = around

    def fork(self, values: Iterable[str], cond: Cond, op: Operation, label: str, **facts: Any) -> int:
        """A branch on some values. Where waves or lanes need not agree on these, each may take either way.

        The choice is a new one at each branch: lanes that take one way here and another there are one wave.
        """
        if not self.facts.is_apart(values := tuple(values)):
            return self.add(g.Branch(cond), op, label, **facts)
        taken = f"{name_of(values[-1])}.taken"
        self.b.flag(taken)
        self.add(g.Havoc((taken,), False), op, label, **facts)
        return self.add(g.Branch(Flag(taken)), op, label, insertable=False)

    def by_one(self, op: Operation, action: g.Action, **facts: Any) -> None:
        """One wave does it for all of its group, where the operation's predicate holds."""
        predicate = self.facts.predicate(op)
        cond: Cond = Compare("==", Name(WAVE), Const(self.group.first))
        cond = cond if predicate is None else Logic("and", cond, predicate)
        first = self.fork(self.facts.predicates(op), cond, op, "elect")
        under, self.under = self.under, "per_wave"
        self.add(action, op, **facts)
        with self.b.other_way(first):
            self.add(g.Compute(), op, "others", insertable=False)
        self.under = under
        self.add(g.Compute(), op, "elected", insertable=False)

    def if_so(self, op: Operation, action: g.Action, **facts: Any) -> None:
        """Only where the operation's predicate holds."""
        predicate, given = self.facts.predicate(op), self.facts.predicates(op)
        if predicate is None:
            self.add(action, op, **facts)
            return
        test = self.fork(given, predicate, op, "if")
        with self.only_if(*given):
            self.add(action, op, **facts)
            with self.b.other_way(test):
                self.add(g.Compute(), op, "not", insertable=False)
        self.add(g.Compute(), op, "then", insertable=False)

    # --- who meets ---

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
        pinned = stays or not self.facts.effect(op).barrier  # the barrier of an operation stays with it
        self.sync(ops.WorkgroupBarrier(pinned=True) if bare else ops.SharedMemoryBarrier(pinned=pinned), op)

    def meet_all(self, op: Operation) -> None:
        """All waves of the workgroup meet, also those of other groups."""
        self.sync(ops.SharedMemoryBarrier(pinned=True), op, insertable=False)

    # --- scalars ---

    def havoc(self, op: Operation) -> None:
        """Scalars that cannot be followed are something else each time.

        Outside of loops it is one number for all waves if it is computed from arguments. If it is read from memory,
        that is assumed; in loops the graph itself says so.
        """
        agreed, apart = [], []
        opaque = self.facts.values.opaque
        for result in op.results:
            if result not in opaque or not self.facts.is_carried(result):
                continue
            name, spread, type_ = name_of(result), self.facts.spreads.of(result), opaque[result]
            if not spread.is_shared:
                apart.append(name)
            elif self.depth:
                agreed.append(name)
            else:
                self.declare(result, type_)
                if spread == Spread.READ:
                    self.collected.assumed.add(UNIFORM)
            if type_ == "i1":
                self.declare(result, type_)
        if agreed:
            self.add(g.Havoc(tuple(agreed), True), op)
        if apart:
            self.add(g.Havoc(tuple(apart), False), op)
