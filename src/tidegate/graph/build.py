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
from typing import Any

from tidegate.collecting import no_collecting
from tidegate.diag import Span
from tidegate.graph import model as g
from tidegate.graph.actions import Actions, label_of, role_of, work_of
from tidegate.graph.builder import GraphBuilder
from tidegate.graph.drafts import Around, Draft, Path
from tidegate.graph.lanes import tiles_with_own_maps
from tidegate.graph.loops import DEFAULT_TRIPS
from tidegate.graph.memory import issues_of
from tidegate.graph.parts import Parts
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
    Not,
    Select,
    constant,
    count_trips,
    names,
    why_not_affine,
)
from tidegate.language import ops
from tidegate.language.check import indices_of
from tidegate.language.facts import Facts, Variation, find_facts
from tidegate.language.layout import lay_out
from tidegate.language.ops import Block, Kernel, Op, Operand, Value, blocks_of, results_of, walk_ops
from tidegate.language.points import find_point
from tidegate.language.trips import header_conds
from tidegate.language.types import DEP, FLAG, INDEX, BarrierObject, Lds, Tile
from tidegate.language.uses import names_in_block, own_names, uses_of
from tidegate.targets import Target


@dataclass(frozen=True, slots=True)
class KernelGraph:
    """A graph and where its points come from."""

    kernel: Kernel
    graph: g.SyncGraph
    paths: tuple[Path, ...]


# That some lanes are switched off, and nobody knows which.
ANY_LANES = Flag("lanes")


def build_graph(kernel: Kernel, target: Target) -> KernelGraph:
    """The graph of one kernel on one target."""
    with no_collecting():
        return _build(kernel, target)


def _build(kernel: Kernel, target: Target) -> KernelGraph:
    tiles, facts = _tiles_in_indices(kernel), find_facts(kernel)
    lanes = {name for name, found in facts.variation.items() if found == Variation.DIVERGENT}
    buffers = {op.result.name for op in walk_ops(kernel.body) if isinstance(op, ops.Alloc)}
    builder = _Builder(
        b=GraphBuilder(kernel.name, kernel.waves, target.name),
        kernel=kernel,
        target=target,
        facts=facts,
        unknown=tiles | lanes,
        actions=Actions(
            target,
            buffers,
            tiles,
            tiles_with_own_maps(kernel),
            names_in_block(kernel.body),
            Parts(kernel, facts, target.known_lanes),
        ),
    )
    top = Around(-1, 1.0, Variation.UNIFORM, header_conds(kernel))
    builder.block(kernel.body, (), top)
    builder.add(g.End(), (len(kernel.body.ops),), kernel.body.at, label="end", around=top)
    builder.declare()
    return KernelGraph(kernel, builder.b.graph(builder.loops), tuple(builder.b.places))


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


@dataclass(slots=True, kw_only=True)
class _Builder:
    b: GraphBuilder
    kernel: Kernel
    target: Target
    facts: Facts
    unknown: set[str]  # what has no one value in a wave: elements that serve as indices, numbers of lanes
    actions: Actions
    loops: list[g.Loop] = field(default_factory=list)
    defined: dict[str, int] = field(default_factory=dict)  # value → the point that makes it
    gone: Variation = Variation.UNIFORM  # who may have ended before the point at hand

    def declare(self) -> None:
        """Memory, barrier objects, sizes, and what is set from outside."""
        b, kernel = self.b, self.kernel
        offsets = lay_out(kernel).offsets
        for op in walk_ops(kernel.body):
            if isinstance(op, ops.Alloc) and isinstance(op.result.type, Lds):
                type_ = op.result.type
                b.buffer(op.result.name, type_.slot_bytes, type_.slots, offsets[op.result.name])
            elif isinstance(op, ops.NewBarrier) and isinstance(op.result.type, BarrierObject):
                b.object(op.result.name, op.result.type, (), offsets.get(op.result.name))
        b.parts.update(sizes=[*kernel.sizes], where=[*kernel.where], grid=[*kernel.grid])
        for value in (*(arg for arg in kernel.args if arg.type in (INDEX, FLAG)), *_carried_flags(kernel)):
            b.declare(value.name, value.type)

    def add(
        self,
        action: g.Action,
        path: Path,
        at: Span,
        *,
        label: str,
        around: Around,
        role: str = "other",
        issues: tuple[g.Issue, ...] = (),
        uses: Iterable[str] = (),
        insertable: bool = True,
        work: g.Work = g.NO_WORK,
    ) -> int:
        """A point at a place of the kernel, with what surrounds it and the points whose values it uses."""
        used = tuple(dict.fromkeys(self.defined[name] for name in uses if name in self.defined))
        under = g.VARIATIONS[max(around.under, self.gone)]
        point = Draft(action, [], label, role, issues, used, around.loop, around.weight, under, insertable, at, work)
        return self.b.add_point(point, path)

    # --- operations ---

    def block(self, block: Block, path: Path, around: Around) -> None:
        for number, op in enumerate(block.ops):
            self.op(op, (*path, number), around)

    def op(self, op: Op, path: Path, around: Around) -> None:
        match op:
            case ops.Iterate():
                self.loop(op, path, around)
            case ops.Conditional():
                self.conditional(op, path, around)
            case ops.Specialize():
                self.specialize(op, path, around)
            case _:
                self.step(op, path, around)

    def step(self, op: Op, path: Path, around: Around) -> None:
        """An operation that is one point, and another if elements of its tile serve as indices."""
        some_lanes = max(around.under, self.gone) == Variation.DIVERGENT
        is_unknown = isinstance(op, ops.Let) and op.result.name in self.unknown
        conds = around.lanes if self.gone != Variation.DIVERGENT else (*around.lanes, ANY_LANES)
        action = g.Compute() if is_unknown else self.actions.of(op, some_lanes=some_lanes, conds=conds)
        if isinstance(action, g.Havoc):
            action = replace(
                action, agree=self.facts.variation.get(action.names[0], Variation.UNIFORM) == Variation.UNIFORM
            )
        issues, uses = issues_of(op, self.target), uses_of(op)
        where: dict[str, Any] = {"label": label_of(op), "around": around, "role": role_of(op), "work": work_of(op)}
        number = self.add(action, path, op.at, issues=issues, uses=uses, **where)
        for value in results_of(op):
            self.defined[value.name] = number
        self.forget(results_of(op), _after(path), op.at, around)
        if isinstance(op, ops.Exit):
            self.gone = max(self.gone, around.under)

    def forget(self, values: Iterable[Value], path: Path, at: Span, around: Around) -> None:
        """What has no one value in a wave is something else each time."""
        unknown = tuple(value.name for value in values if value.name in self.unknown and not _is_memory(value))
        if unknown:
            agree = all(self.facts.variation.get(name, Variation.UNIFORM) == Variation.UNIFORM for name in unknown)
            self.add(g.Havoc(unknown, agree), path, at, label="unknown", around=around, insertable=False)

    def assigned(self, pairs: Iterable[tuple[Value, Operand]]) -> tuple[tuple[str, Index | g.Where | g.Token], ...]:
        known = ((value, operand) for value, operand in pairs if value.name not in self.unknown or _is_memory(value))
        return tuple(_assigned(known))

    # --- regions ---

    def loop(self, op: ops.Iterate, path: Path, around: Around) -> None:
        counter = op.counter.name
        step = constant(op.step) or 1
        enter_uses = [*uses_of(op)]
        starts = self.assigned([(op.counter, op.lower), *((each.value, each.init) for each in op.carried)])
        enter = self.add(_assign(starts), path, op.at, label="iterate", around=around, uses=enter_uses)
        number = len(self.loops)
        lower, upper = around.plain(op.lower), around.plain(op.upper)
        least, most = _trips(lower, upper, step, around.conds)
        expect = float(op.expect if op.expect is not None else most if most == least else DEFAULT_TRIPS)
        varies = max(self.facts.of(op.lower), self.facts.of(op.upper))
        own = Name(f"#{len(around.counters)}")
        known = (*around.conds, Compare(">=", own, lower), Compare("<", own, upper))
        counters = {**around.counters, counter: own}
        lanes_agree = varies != Variation.DIVERGENT
        lanes = around.lanes if lanes_agree else (*around.lanes, ANY_LANES)
        inside = Around(number, around.weight * expect, max(around.under, varies), known, counters, lanes)
        counted = (counter, op.lower, op.upper, step) if lanes_agree else ()
        self.loops.append(g.Loop(0, around.loop, least, most, expect, *counted))
        test = g.Branch(Compare("<", Name(counter), op.upper) if lanes_agree else None)
        head = self.add(test, path, op.at, label="trip", around=inside, insertable=False)
        self.loops[number] = replace(self.loops[number], head=head)
        for value in (op.counter, *(each.value for each in op.carried), *op.results):
            self.defined[value.name] = head
        gone = self.gone
        self.forget((op.counter, *(each.value for each in op.carried)), (*path, 0, 0), op.at, inside)
        self.block(op.body, (*path, 0), inside)
        yielded = zip((each.value for each in op.carried), op.body.yields, strict=False)
        nexts = self.assigned([(op.counter, Binary("+", Name(counter), Const(step))), *yielded])
        end = (*path, 0, len(op.body.ops))
        uses = _operand_names(op.body.yields)
        latch = self.add(_assign(nexts), end, op.body.at, label="next", around=inside, uses=uses)
        self.b.go_round(head, head)
        self.b.points[head].uses = (enter, latch)
        if self.gone > gone:  # whoever ended in one trip is gone in the whole of the next
            for point in self.b.points[head:]:
                point.under = max(point.under, g.VARIATIONS[self.gone], key=g.VARIATIONS.index)
        self.rename(op.results, tuple(each.value for each in op.carried), path, op.at, around)

    def rename(
        self, results: tuple[Value, ...], from_: tuple[Value, ...], path: Path, at: Span, around: Around
    ) -> None:
        """After a loop its results are what its carried names hold."""
        pairs = self.assigned([(result, _operand(value)) for result, value in zip(results, from_, strict=False)])
        if pairs:
            self.add(g.Assign(pairs), _after(path), at, label="after", around=around, insertable=False)
        self.forget(results, _after(path), at, around)

    def conditional(self, op: ops.Conditional, path: Path, around: Around) -> None:
        varies = self.facts.of(op.cond)
        if varies == Variation.DIVERGENT:
            self.divergent_arms(op, path, around)
            return
        inside = replace(around, weight=around.weight / 2, under=max(around.under, varies))
        uses = uses_of(op)
        branch = self.add(g.Branch(op.cond), path, op.at, label="conditional", around=around, uses=uses)
        ends: list[int] = []
        for arm in (0, 1):
            self.b.open = [branch]
            ends += self.arm(op, arm, path, inside)
        self.join(ends, op.results, path, op.at, around)

    def divergent_arms(self, op: ops.Conditional, path: Path, around: Around) -> None:
        """Lanes disagree: the wave runs one arm after the other, and may skip either of them."""
        ends: list[int] = []
        uses = tuple(uses_of(op))
        for arm, label in enumerate(("conditional", "otherwise")):
            lanes = (*around.lanes, Not(op.cond) if arm else op.cond)
            inside = replace(around, weight=around.weight / 2, under=Variation.DIVERGENT, lanes=lanes)
            choice = self.add(g.Branch(None), path, op.at, label=label, around=around, uses=uses, insertable=not arm)
            ends += self.arm(op, arm, path, inside)
            self.b.open = [*self.b.open, choice]
        joined = self.join(self.b.open, op.results, path, op.at, around)
        self.b.points[joined].uses = tuple(ends)

    def arm(self, op: ops.Conditional, arm: int, path: Path, inside: Around) -> list[int]:
        """One arm, up to the point at its end; an arm that always ends the wave has none."""
        block = (op.then, op.otherwise)[arm]
        self.block(block, (*path, arm), inside)
        if not self.b.open:
            return []
        pairs = self.assigned(zip(op.results, block.yields, strict=False))
        action = _assign(pairs)
        at = block.at if block.at.line else op.at
        uses = _operand_names(block.yields)
        return [self.add(action, (*path, arm, len(block.ops)), at, label="arm", around=inside, uses=uses)]

    def specialize(self, op: ops.Specialize, path: Path, around: Around) -> None:
        ranges = tuple((group.first, group.last) for group in op.groups)
        dispatch = self.add(g.Dispatch(ranges), path, op.at, label="specialize", around=around)
        ends: list[int] = []
        for number, group in enumerate(op.groups):
            share = max(0, group.last - group.first) / self.kernel.waves
            inside = replace(around, weight=around.weight * share, under=max(around.under, Variation.PER_WAVE))
            self.b.open = [dispatch]
            self.block(group.body, (*path, number), inside)
            if self.b.open:
                end = (*path, number, len(group.body.ops))
                ends.append(self.add(g.Compute(), end, group.at, label="group", around=inside))
        self.join([*ends, dispatch], (), path, op.at, around)

    def join(self, ends: list[int], results: tuple[Value, ...], path: Path, at: Span, around: Around) -> int:
        """Where arms meet; if none comes to its end, nothing follows."""
        self.b.open = ends
        if not ends:
            return -1
        number = self.add(g.Compute(), _after(path), at, label="join", around=around, insertable=False)
        self.b.points[number].uses = tuple(ends)
        for value in results:
            self.defined[value.name] = number
        self.forget(results, _after(path), at, around)
        return number


def _assign(pairs: tuple[tuple[str, Index | g.Where | g.Token], ...]) -> g.Action:
    """An assignment, unless there is nothing to assign."""
    return g.Assign(pairs) if pairs else g.Compute()


def _is_memory(value: Value) -> bool:
    return isinstance(value.type, Lds | BarrierObject) or value.type == DEP


def _after(path: Path) -> Path:
    return (*path[:-1], path[-1] + 1)


def _assigned(pairs: Iterable[tuple[Value, Operand]]) -> Iterable[tuple[str, Index | g.Where | g.Token]]:
    """What has a name in the graph: indices, views, asynchronous operations. Tiles are values of points instead."""
    for value, operand in pairs:
        if value.type == INDEX and isinstance(operand, INDEX_TYPES):
            yield value.name, operand
        elif isinstance(value.type, Lds) and isinstance(operand, Value):
            yield value.name, g.Ref(operand.name)
        elif value.type == FLAG and isinstance(operand, Value):
            yield value.name, Select(Flag(operand.name), ONE, ZERO)
        elif value.type == DEP and isinstance(operand, Value):
            yield value.name, g.Token(operand.name)


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
