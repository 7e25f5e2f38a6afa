"""A kernel as a `SyncGraph`.

Needs   a well-formed kernel and a target
Gives   the graph, and for every point the place in the kernel before which an insertion there goes
Keeps   every operation is at least one point; every region has a point at its end, so that all places can be named
Cost    linear in the kernel

    iterate %k in 0 .. n carry(%s = 0) {       assign %k = 0, %s = 0
      ...                                      branch %k < n -> body, after
      yield (%s + 1) mod 2           becomes     ...
    }                                            assign %k = %k + 1, %s = (%s + 1) mod 2 -> branch
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tidegate.collecting import no_collecting
from tidegate.diag import Span
from tidegate.graph import model as g
from tidegate.graph.memory import footprint_of, issues_of, view_of
from tidegate.index import (
    INDEX_TYPES,
    ONE,
    ZERO,
    Binary,
    Compare,
    Cond,
    Const,
    Flag,
    Index,
    Name,
    Select,
    constant,
    count_trips,
    names,
    substitute,
    why_not_affine,
)
from tidegate.language import ops
from tidegate.language.check import indices_of
from tidegate.language.facts import Facts, Variation, find_facts
from tidegate.language.layout import lay_out
from tidegate.language.ops import Block, Kernel, Op, Operand, Value, blocks_of, results_of, walk_ops
from tidegate.language.points import find_point
from tidegate.language.syntax import form_of
from tidegate.language.types import FLAG, INDEX, BarrierObject, Lds, Tile
from tidegate.language.uses import own_names, uses_of
from tidegate.targets import Target

# Where in a kernel: the number of an operation, then of one of its regions, then of an operation in it, and so on.
# The last number may be one more than the last operation: the end of the region.
Path = tuple[int, ...]
DEFAULT_TRIPS = 16.0


@dataclass(frozen=True, slots=True)
class KernelGraph:
    """A graph and where its points come from."""

    kernel: Kernel
    graph: g.SyncGraph
    paths: tuple[Path, ...]


def build_graph(kernel: Kernel, target: Target) -> KernelGraph:
    """The graph of one kernel on one target."""
    with no_collecting():
        return _build(kernel, target)


def _build(kernel: Kernel, target: Target) -> KernelGraph:
    builder = _Builder(kernel, target, find_facts(kernel))
    builder.tiles = _tiles_in_indices(kernel)
    builder.buffers = {op.result.name for op in walk_ops(kernel.body) if isinstance(op, ops.Alloc)}
    builder.block(kernel.body, (), _Around(-1, 1.0, Variation.UNIFORM, (*kernel.where, *_positive(kernel))))
    builder.add(g.End(), (len(kernel.body.ops),), kernel.body.at, label="end", around=builder.top)
    return KernelGraph(kernel, builder.graph(), tuple(builder.paths))


def _tiles_in_indices(kernel: Kernel) -> set[str]:
    """Tiles whose elements are used as indices or in conditions, one for each element."""
    tiles: set[str] = set()
    used: set[str] = set()
    for op in walk_ops(kernel.body):
        tiles.update(value.name for value in (*results_of(op), *own_names(op)) if isinstance(value.type, Tile))
        if not isinstance(op, ops.Splat):
            used.update(name for expr in indices_of(op) for name in names(expr))
        if isinstance(op, ops.Conditional):
            used.update(names(op.cond))
        for block in blocks_of(op):
            used.update(name for each in block.yields if isinstance(each, INDEX_TYPES) for name in names(each))
    return tiles & used


def _carried_flags(kernel: Kernel) -> tuple[Value, ...]:
    """Flags that loops carry and regions hand on. They are declared, for only then is a name in text a flag."""
    return tuple(
        value for op in walk_ops(kernel.body) for value in (*own_names(op), *results_of(op)) if value.type == FLAG
    )


def _positive(kernel: Kernel) -> Iterable[Cond]:
    return (Compare(">=", Name(size.name), Const(1)) for size in kernel.sizes)


@dataclass(frozen=True, slots=True)
class _Around:
    """What surrounds a point: its loop, how often it runs, who agrees on it, and what is known there."""

    loop: int
    weight: float
    under: Variation
    conds: tuple[Cond, ...]  # counters are named by their depth here, so that equal nests ask isl equal questions
    counters: dict[str, Index] = field(default_factory=dict)

    def plain(self, index: Index) -> Index:
        return substitute(index, self.counters)


@dataclass(slots=True)
class _Draft:
    """A point whose successors are not all known yet."""

    action: g.Action
    label: str
    role: str
    issues: tuple[g.Issue, ...]
    uses: tuple[int, ...]
    around: _Around
    under: Variation
    insertable: bool
    at: Span
    successors: list[int] = field(default_factory=list)

    def point(self) -> g.Point:
        around = self.around
        return g.Point(
            self.action,
            tuple(self.successors),
            self.label,
            self.role,
            self.issues,
            self.uses,
            around.loop,
            around.weight,
            g.VARIATIONS[self.under],
            self.insertable,
            self.at,
        )


@dataclass(slots=True)
class _Builder:
    kernel: Kernel
    target: Target
    facts: Facts
    drafts: list[_Draft] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    loops: list[g.Loop] = field(default_factory=list)
    defined: dict[str, int] = field(default_factory=dict)  # value → the point that makes it
    pending: list[int] = field(default_factory=list)  # points whose next successor is the next point
    buffers: set[str] = field(default_factory=set)
    tiles: set[str] = field(default_factory=set)  # tiles that are used as indices
    gone: Variation = Variation.UNIFORM  # who may have ended before the point at hand
    divergent: bool = False  # whether the operation at hand stands under a lane-divergent condition
    top: _Around = field(default_factory=lambda: _Around(-1, 1.0, Variation.UNIFORM, ()))

    def graph(self) -> g.SyncGraph:
        kernel = self.kernel
        layout = lay_out(kernel)
        buffers, objects = [], []
        for op in walk_ops(kernel.body):
            if isinstance(op, ops.Alloc) and isinstance(op.result.type, Lds):
                type_ = op.result.type
                buffers.append(g.Buffer(op.result.name, type_.slot_bytes, type_.slots, layout.offsets[op.result.name]))
            elif isinstance(op, ops.NewBarrier) and isinstance(op.result.type, BarrierObject):
                objects.append(g.Object(op.result.name, op.result.type))
        return g.SyncGraph(
            name=kernel.name,
            target=self.target.name,
            waves=kernel.waves,
            points=tuple(draft.point() for draft in self.drafts),
            programs=(g.Program(0, 0, kernel.waves),),
            buffers=tuple(buffers),
            loops=tuple(self.loops),
            objects=tuple(objects),
            sizes=kernel.sizes,
            where=kernel.where,
            grid=kernel.grid,
            free=(
                *(arg for arg in kernel.args if arg.type in (INDEX, FLAG)),
                *(Value(name, INDEX) for name in sorted(self.tiles)),
                *_carried_flags(kernel),
            ),
        )

    # --- adding points ---

    def add(
        self,
        action: g.Action,
        path: Path,
        at: Span,
        *,
        label: str,
        around: _Around,
        role: str = "other",
        issues: tuple[g.Issue, ...] = (),
        uses: Iterable[str] = (),
        insertable: bool = True,
    ) -> int:
        """Adds a point; everything pending flows into it, and it is pending itself unless it ends the wave."""
        number = len(self.drafts)
        depends = dict.fromkeys(self.defined[name] for name in uses if name in self.defined)
        under = max(around.under, self.gone)
        self.drafts.append(_Draft(action, label, role, issues, tuple(depends), around, under, insertable, at))
        self.paths.append(path)
        for before in self.pending:
            self.drafts[before].successors.append(number)
        self.pending = [] if isinstance(action, g.End) else [number]
        return number

    # --- operations ---

    def block(self, block: Block, path: Path, around: _Around) -> None:
        if not path:
            self.top = around
        for number, op in enumerate(block.ops):
            self.op(op, (*path, number), around)

    def op(self, op: Op, path: Path, around: _Around) -> None:
        match op:
            case ops.Iterate():
                self.loop(op, path, around)
            case ops.Conditional():
                self.conditional(op, path, around)
            case ops.Specialize():
                self.specialize(op, path, around)
            case _:
                self.divergent = around.under == Variation.DIVERGENT
                number = self.add(
                    self.action(op),
                    path,
                    op.at,
                    label=_label(op),
                    around=around,
                    role=_role(op),
                    issues=issues_of(op, self.target),
                    uses=uses_of(op),
                )
                result: Value | None = getattr(op, "result", None)
                if result is not None:
                    self.defined[result.name] = number

    def action(self, op: Op) -> g.Action:
        match op:
            case ops.LocalRead():
                return g.Access("read", self.footprint(op, op.result))
            case ops.LocalWrite():
                return g.Access("write", self.footprint(op, op.tile))
            case ops.AtomicAdd():
                return g.Access("atomic", self.footprint(op, op.tile), operator="add", fetches=op.result is not None)
            case ops.GatherToLds() | ops.TensorLoadToLds():
                foot = footprint_of(op.dest, op.tile, self.buffers)
                told = g.Ref(op.mbarrier.base.name, op.mbarrier.slot) if op.mbarrier is not None else None
                return g.Access("write", foot, True, self.proxy(op), mbarrier=told)
            case ops.LdsToGlobal():
                foot = footprint_of(op.source, op.tile, self.buffers)
                return g.Access("read", foot, True, self.proxy(op))
            case ops.View():
                return g.Assign(((op.result.name, view_of(op.place, self.buffers)),))
            case ops.SelectView():
                both = g.Either(op.cond, g.Ref(op.then.name), g.Ref(op.otherwise.name))
                return g.Assign(((op.result.name, both),))
            case ops.Let():
                return g.Assign(((op.result.name, op.value),))
            case ops.ReadIndex():
                return g.Havoc((op.result.name,))
            case ops.Alloc():
                return g.Alloc(op.result.name)
            case ops.Dealloc():
                return g.Free(op.buffer.name)
            case ops.Exit():
                return g.End()
            case ops.GlobalRead() | ops.GlobalWrite() | ops.NewBarrier():
                return g.Compute()
            case ops.Fill() | ops.Splat() | ops.Iota() | ops.Elementwise() | ops.Cast() | ops.Reduce() | ops.Scan():
                return g.Compute()
            case ops.Transpose() | ops.Broadcast() | ops.Reshape() | ops.Mma():
                return g.Compute()
            case ops.Iterate() | ops.Conditional() | ops.Specialize():
                raise AssertionError("regions are not one point")
            case _:
                return g.Sync(op)

    def footprint(self, op: ops.LocalRead | ops.LocalWrite | ops.AtomicAdd, tile: Value) -> g.Footprint:
        """A lane that is switched off, or an index of its own for each element, leaves some bytes untouched."""
        scattered = any(name in self.tiles for index in op.place.index for name in names(index))
        may = op.mask is not None or scattered or self.divergent
        return footprint_of(op.place, tile.type, self.buffers, op.bounds, may)

    def proxy(self, op: ops.CopyOp) -> str:
        name = _label(op)
        return self.target.operations[name].proxy or "generic"

    # --- regions ---

    def loop(self, op: ops.Iterate, path: Path, around: _Around) -> None:
        counter = op.counter.name
        step = constant(op.step) or 1
        enter_uses = [*uses_of(op)]
        starts = [(counter, op.lower), *_assigned((each.value, each.init) for each in op.carried)]
        enter = self.add(g.Assign(tuple(starts)), path, op.at, label="iterate", around=around, uses=enter_uses)
        number = len(self.loops)
        lower, upper = around.plain(op.lower), around.plain(op.upper)
        least, most = _trips(lower, upper, step, around.conds)
        expect = float(op.expect if op.expect is not None else most if most == least else DEFAULT_TRIPS)
        varies = max(self.facts.of(op.lower), self.facts.of(op.upper))
        own = Name(f"#{len(around.counters)}")
        known = (*around.conds, Compare(">=", own, lower), Compare("<", own, upper))
        counters = {**around.counters, counter: own}
        inside = _Around(number, around.weight * expect, max(around.under, varies), known, counters)
        self.loops.append(g.Loop(0, around.loop, least, most, expect, counter, op.lower, op.upper, step))
        test = g.Branch(Compare("<", Name(counter), op.upper))
        head = self.add(test, path, op.at, label="trip", around=inside, insertable=False)
        self.loops[number] = g.Loop(head, around.loop, least, most, expect, counter, op.lower, op.upper, step)
        for value in (op.counter, *(each.value for each in op.carried), *op.results):
            self.defined[value.name] = head
        gone = self.gone
        self.block(op.body, (*path, 0), inside)
        nexts = [
            (counter, Binary("+", Name(counter), Const(step))),
            *_assigned(zip((each.value for each in op.carried), op.body.yields, strict=False)),
        ]
        end = (*path, 0, len(op.body.ops))
        uses = _operand_names(op.body.yields)
        latch = self.add(g.Assign(tuple(nexts)), end, op.body.at, label="next", around=inside, uses=uses)
        for before in self.pending:
            self.drafts[before].successors.append(head)
        self.drafts[head].uses = (enter, latch)
        if self.gone > gone:  # whoever ended in one trip is gone in the whole of the next
            for draft in self.drafts[head:]:
                draft.under = max(draft.under, self.gone)
        self.pending = [head]
        self.rename(op.results, tuple(each.value for each in op.carried), path, op.at, around)

    def rename(
        self, results: tuple[Value, ...], from_: tuple[Value, ...], path: Path, at: Span, around: _Around
    ) -> None:
        """After a loop its results are what its carried names hold."""
        pairs = tuple(_assigned((result, _operand(value)) for result, value in zip(results, from_, strict=False)))
        if pairs:
            after = (*path[:-1], path[-1] + 1)
            self.add(g.Assign(pairs), after, at, label="after", around=around, insertable=False)

    def conditional(self, op: ops.Conditional, path: Path, around: _Around) -> None:
        uses = uses_of(op)
        branch = self.add(g.Branch(op.cond), path, op.at, label="conditional", around=around, uses=uses)
        under = max(around.under, self.facts.of(op.cond))
        ends: list[int] = []
        for arm, block in enumerate((op.then, op.otherwise)):
            inside = replace(around, weight=around.weight / 2, under=under)
            self.pending = [branch]
            self.block(block, (*path, arm), inside)
            if _may_end(block):
                self.gone = max(self.gone, under)
            if self.pending:
                pairs = tuple(_assigned(zip(op.results, block.yields, strict=False)))
                action: g.Action = g.Assign(pairs) if pairs else g.Compute()
                end = (*path, arm, len(block.ops))
                names = _operand_names(block.yields)
                at = block.at if block.at.line else op.at
                ends.append(self.add(action, end, at, label="arm", around=inside, uses=names))
        self.join(ends, op.results, path, op.at, around)

    def specialize(self, op: ops.Specialize, path: Path, around: _Around) -> None:
        ranges = tuple((group.first, group.last) for group in op.groups)
        dispatch = self.add(g.Dispatch(ranges), path, op.at, label="specialize", around=around)
        ends: list[int] = []
        for number, group in enumerate(op.groups):
            share = max(0, group.last - group.first) / self.kernel.waves
            inside = replace(around, weight=around.weight * share, under=max(around.under, Variation.PER_WAVE))
            self.pending = [dispatch]
            self.block(group.body, (*path, number), inside)
            if _may_end(group.body):
                self.gone = max(self.gone, Variation.PER_WAVE)
            if self.pending:
                end = (*path, number, len(group.body.ops))
                ends.append(self.add(g.Compute(), end, group.at, label="group", around=inside))
        self.join([*ends, dispatch], (), path, op.at, around)

    def join(self, ends: list[int], results: tuple[Value, ...], path: Path, at: Span, around: _Around) -> None:
        """Where arms meet; if none comes to its end, nothing follows."""
        self.pending = ends
        if not ends:
            return
        after = (*path[:-1], path[-1] + 1)
        number = self.add(g.Compute(), after, at, label="join", around=around, insertable=False)
        self.drafts[number].uses = tuple(ends)
        for value in results:
            self.defined[value.name] = number


def _may_end(block: Block) -> bool:
    return any(isinstance(op, ops.Exit) for op in walk_ops(block))


def _assigned(pairs: Iterable[tuple[Value, Operand]]) -> Iterable[tuple[str, Index | g.Where]]:
    """What takes part in addresses: indices and views. Tiles and dependences are values of points instead."""
    for value, operand in pairs:
        if value.type == INDEX and isinstance(operand, INDEX_TYPES):
            yield value.name, operand
        elif isinstance(value.type, Lds) and isinstance(operand, Value):
            yield value.name, g.Ref(operand.name)
        elif value.type == FLAG and isinstance(operand, Value):
            yield value.name, Select(Flag(operand.name), ONE, ZERO)


def _operand(value: Value) -> Operand:
    return Name(value.name) if value.type == INDEX else value


def _operand_names(operands: Iterable[Operand]) -> list[str]:
    found: list[str] = []
    for operand in operands:
        found += [operand.name] if isinstance(operand, Value) else names(operand)
    return found


def _trips(lower: Index, upper: Index, step: int, conds: tuple[Cond, ...]) -> tuple[int, int | None]:
    """At least none, one or two trips, as far as can be proven; exactly so many where both bounds are numbers."""
    exactly = count_trips(lower, upper, step)
    if exactly is not None:
        return exactly, exactly
    if why_not_affine(lower) or why_not_affine(upper):
        return 0, None
    known = [cond for cond in conds if not why_not_affine(cond)]
    least = 0
    for trips in (1, 2):
        too_few = Compare("<=", upper, Binary("+", lower, Const((trips - 1) * step)))
        if find_point((*known, too_few), ()) is not None:
            break
        least = trips
    return least, None


def _label(op: Op) -> str:
    return op.fn if isinstance(op, ops.Elementwise) else form_of(type(op)).word


def _role(op: Op) -> str:
    match op:
        case ops.GlobalRead() | ops.ReadIndex():
            return "global_read"
        case ops.GlobalWrite():
            return "global_write"
        case ops.LocalRead():
            return "local_read"
        case ops.LocalWrite() | ops.AtomicAdd():
            return "local_write"
        case ops.GatherToLds() | ops.TensorLoadToLds() | ops.LdsToGlobal():
            return "copy"
        case ops.Mma():
            return "mma"
    return "other"
