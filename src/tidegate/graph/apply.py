"""Plans carried out: on a kernel, which gives a kernel, and on a graph, which gives a graph.

Needs   a plan that fits the graph
Gives   a new program; the old one is untouched
Keeps   what no edit names stays as it is, spans included; a deleted point's predecessors go on to its successor
Cost    linear in the program plus the edits, and in the points once more for each loop that is reordered
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

from tidegate.diag import BadInput, Finding, Label
from tidegate.graph.build import KernelGraph
from tidegate.graph.drafts import Path
from tidegate.graph.model import NO_WORK, Object, Point, Sync, SyncGraph
from tidegate.graph.plan import Change, Delete, Insert, Move, Plan, Reorder, check_plan
from tidegate.language.check import check_names
from tidegate.language.ops import Block, Kernel, MbarrierArrive, MbarrierWait, NewBarrier, Op, SyncOp, map_blocks
from tidegate.language.syntax import form_of
from tidegate.language.types import BarrierObject


@dataclass(slots=True)
class _Edits:
    """Edits by place: what comes before it, and what takes its own place (None: nothing)."""

    before: dict[int, list[Op]] = field(default_factory=dict)
    instead: dict[int, Op | None] = field(default_factory=dict)
    orders: dict[int, Reorder] = field(default_factory=dict)


def apply_plan(plan: Plan, built: KernelGraph) -> Kernel:
    """The kernel with the plan carried out."""
    edits = _collect(plan, built.graph)
    before: dict[Path, list[Op]] = {}
    for point, ops in edits.before.items():
        before.setdefault(built.paths[point], []).extend(ops)
    instead = {built.paths[point]: op for point, op in edits.instead.items()}
    orders = {_body_path(built, number): _op_order(built, edit) for number, edit in edits.orders.items()}
    edited = replace(built.kernel, body=_Rewriter(before, instead, orders).block(built.kernel.body, ()))
    _check_values(edited)
    return edited


def _check_values(kernel: Kernel) -> None:
    """An operation that names a value may have come to stand before it."""
    findings = [
        Finding("TG603", f"the edited kernel is not well-formed: {each.message}", each.labels, each.notes)
        for each in check_names(kernel)
    ]
    if findings:
        raise BadInput(*findings)


def _collect(plan: Plan, graph: SyncGraph) -> _Edits:
    check_plan(plan, graph)
    edits = _Edits()
    for edit in plan.edits:
        match edit:
            case Insert(before, op):
                edits.before.setdefault(before, []).append(op)
            case Delete(point):
                edits.instead[point] = None
            case Change(point, op):
                edits.instead[point] = op
            case Move(point, before):
                edits.instead[point] = None
                edits.before.setdefault(before, []).append(_sync_at(graph, point))
            case Reorder():
                edits.orders[edit.loop] = edit
    return edits


def _sync_at(graph: SyncGraph, point: int) -> Op:
    action = graph.points[point].action
    assert isinstance(action, Sync)
    return action.op


def _body_path(built: KernelGraph, loop: int) -> Path:
    return (*built.paths[built.graph.loops[loop].head], 0)


def _op_order(built: KernelGraph, edit: Reorder) -> tuple[int, ...]:
    """Points of the new order as numbers of operations in the body."""
    body = _body_path(built, edit.loop)
    known = {path[-1] for path in built.paths if path[:-1] == body}
    order = []
    for point in edit.order:
        path = built.paths[point] if 0 <= point < len(built.paths) else ()
        order.append(path[-1] if path[:-1] == body else -1)
    operations = sorted(known)[:-1]  # the last one is the end of the body
    if sorted(order) != operations:
        head = built.graph.points[built.graph.loops[edit.loop].head]
        raise BadInput(
            Finding(
                "TG603",
                f"the new order of loop {edit.loop} does not name each of its {len(operations)} operations once",
                (Label(head.at),),
            )
        )
    return tuple(order)


@dataclass(frozen=True, slots=True)
class _Rewriter:
    before: dict[Path, list[Op]]
    instead: dict[Path, Op | None]
    orders: dict[Path, tuple[int, ...]]

    def block(self, block: Block, path: Path) -> Block:
        groups: list[list[Op]] = []
        for number, op in enumerate(block.ops):
            here = (*path, number)
            group = list(self.before.get(here, ()))
            if here in self.instead:
                other = self.instead[here]
                group += [] if other is None else [other]
            else:
                group.append(map_blocks(op, partial(self.inner, here)))
            groups.append(group)
        if path in self.orders:
            groups = [groups[number] for number in self.orders[path]]
        groups.append(list(self.before.get((*path, len(block.ops)), ())))
        return replace(block, ops=tuple(op for group in groups for op in group))

    def inner(self, path: Path, block: Block, number: int) -> Block:
        """A region of the operation at `path`."""
        return self.block(block, (*path, number))


def apply_to_graph(plan: Plan, graph: SyncGraph) -> SyncGraph:
    """The graph with the plan carried out, points numbered anew. New orders are for kernels only."""
    edits = _collect(plan, graph)
    if edits.orders:
        raise BadInput(Finding("TG603", "a graph has no operations to reorder", ()))
    new = [op for ops in edits.before.values() for op in ops if isinstance(op, NewBarrier)]
    objects = (*graph.objects, *(_object(op) for op in new))
    edits.before = _points_only(edits.before)
    numbers = _Numbers(graph, edits)
    points: list[Point] = []
    for number, point in enumerate(graph.points):
        inserted = edits.before.get(number, [])
        for place, op in enumerate(inserted):
            following = len(points) + 1 if place + 1 < len(inserted) else numbers.after_inserted(number)
            points.append(_new_point(op, point, following))
        if numbers.stays(number):
            points.append(_renumber(point, numbers, edits.instead.get(number)))
    loops = tuple(replace(loop, head=numbers.leads_to(loop.head)) for loop in graph.loops)
    programs = tuple(replace(each, entry=numbers.leads_to(each.entry)) for each in graph.programs)
    functions = tuple(replace(each, entry=numbers.leads_to(each.entry)) for each in graph.functions)
    return replace(graph, points=tuple(points), loops=loops, programs=programs, functions=functions, objects=objects)


def numbers_after(plan: Plan, graph: SyncGraph) -> tuple[tuple[int, int], ...]:
    """For every point, what is put before it and the point itself in the graph that `apply_to_graph` gives."""
    edits = _collect(plan, graph)
    edits.before = _points_only(edits.before)
    numbers = _Numbers(graph, edits)
    return tuple(zip(numbers.first, numbers.own, strict=True))


def _points_only(before: dict[int, list[Op]]) -> dict[int, list[Op]]:
    """Without new objects: in a graph they are declared, and are no points."""
    return {at: [op for op in ops if not isinstance(op, NewBarrier)] for at, ops in before.items()}


def _object(op: NewBarrier) -> Object:
    assert isinstance(op.result.type, BarrierObject)
    return Object(op.result.name, op.result.type)


class _Numbers:
    """New numbers for old points, and where an edge to an old point leads now."""

    def __init__(self, graph: SyncGraph, edits: _Edits) -> None:
        self.graph, self.edits = graph, edits
        self.first: list[int] = []  # the first of what is inserted before a point, or the point itself
        self.own: list[int] = []
        position = 0
        for number in range(len(graph.points)):
            self.first.append(position)
            position += len(edits.before.get(number, ()))
            self.own.append(position)
            position += self.stays(number)

    def stays(self, number: int) -> bool:
        return number not in self.edits.instead or self.edits.instead[number] is not None

    def leads_to(self, number: int) -> int:
        return self.first[number] if self.edits.before.get(number) else self.after_inserted(number)

    def after_inserted(self, number: int) -> int:
        """The point itself; past it if it is deleted."""
        if self.stays(number):
            return self.own[number]
        successor = self.graph.points[number].successors[0]
        seen = {number}
        while not self.stays(successor) and not self.edits.before.get(successor):
            if successor in seen:
                at = self.graph.points[number].at
                raise BadInput(
                    Finding("TG603", "a loop would be empty: all of its operations are deleted", (Label(at),))
                )
            seen.add(successor)
            successor = self.graph.points[successor].successors[0]
        return self.first[successor]


def _renumber(point: Point, numbers: _Numbers, instead: Op | None) -> Point:
    uses = tuple(numbers.own[each] for each in point.uses if numbers.stays(each))
    successors = tuple(map(numbers.leads_to, point.successors))
    moved = replace(point, successors=successors, uses=uses)
    return moved if instead is None else replace(moved, action=_new_action(instead), label=_word(instead))


def _new_point(op: Op, before: Point, following: int) -> Point:
    return replace(
        before,
        action=_new_action(op),
        successors=(following,),
        label=_word(op),
        role="other",
        issues=(),
        uses=(),
        work=NO_WORK,
        insertable=True,
    )


def _new_action(op: object) -> Sync:
    assert isinstance(op, SyncOp | MbarrierArrive | MbarrierWait)
    return Sync(op)


def _word(op: object) -> str:
    return form_of(type(op)).word
