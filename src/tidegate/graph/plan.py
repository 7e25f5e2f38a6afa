"""`Plan`: what to change in a program's synchronization, and why.

Needs   points of a graph
Gives   a list of edits, each with the hazards that it serves
Keeps   an edit speaks of points, never of a front end's own operations; only synchronization comes and goes

    insert shared_memory_barrier before 12     # RAW %a, 5 → 12
    change 7 to wait_count vmcnt(2)            # FILL %a, slot (%k + 1) mod 3
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.diag import NOWHERE, BadInput, Finding, Label, Span
from tidegate.graph.model import Sync, SyncGraph
from tidegate.language.ops import MbarrierArrive, MbarrierWait, NewBarrier, SyncOp
from tidegate.language.show import show_op

# What is put into a program: synchronization, the barrier objects that it needs, and uses of its rings.
NewOp = SyncOp | NewBarrier | MbarrierArrive | MbarrierWait


@dataclass(frozen=True, slots=True)
class Insert:
    """Put an operation before a point; several before one point keep their order."""

    before: int
    op: NewOp
    serves: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Delete:
    """Take synchronization away."""

    point: int
    serves: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """Put other synchronization in the place of what stands there."""

    point: int
    op: SyncOp
    serves: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Move:
    """Take synchronization from one place to another."""

    point: int
    before: int
    serves: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reorder:
    """A new order for the operations of a loop's body: the points where they start, each once."""

    loop: int
    order: tuple[int, ...]
    serves: tuple[str, ...] = ()


Edit = Insert | Delete | Change | Move | Reorder

# Where the column of reasons may stand.
NARROWEST, WIDEST = 46, 72


@dataclass(frozen=True, slots=True)
class Plan:
    edits: tuple[Edit, ...] = ()

    def _repr_html_(self) -> str:
        """Its edits and why each stands, for a notebook."""
        from tidegate.notebook import paragraph, table_block

        if not self.edits:
            return paragraph("nothing to change")
        return table_block(("edit", "why"), ((_show_edit(each), "; ".join(each.serves)) for each in self.edits))


def show_plan(plan: Plan) -> str:
    """One line for each edit, reasons in one column; a line that is much longer than the others stands out."""
    texts = [_show_edit(edit) for edit in plan.edits]
    width = max((len(text) for text in texts if len(text) <= WIDEST), default=0)
    lines = (
        f"{text:<{max(width, NARROWEST)}}  # {'; '.join(edit.serves)}" if edit.serves else text
        for text, edit in zip(texts, plan.edits, strict=True)
    )
    return "".join(f"{line}\n" for line in lines)


def _show_edit(edit: Edit) -> str:
    match edit:
        case Insert(before, op):
            return f"insert {next(show_op(op))} before {before}"
        case Delete(point):
            return f"delete {point}"
        case Change(point, op):
            return f"change {point} to {next(show_op(op))}"
        case Move(point, before):
            return f"move {point} before {before}"
        case Reorder(loop, order):
            return f"reorder loop {loop} as {', '.join(map(str, order))}"


def check_plan(plan: Plan, graph: SyncGraph) -> None:
    """Raises `BadInput` with everything that does not fit the graph."""
    findings = [
        Finding("TG603", f"`{_show_edit(edit)}`: {message}", (Label(_place(edit, graph)),))
        for edit, message in _problems(plan, graph)
    ]
    if findings:
        raise BadInput(*findings)


def _problems(plan: Plan, graph: SyncGraph) -> Iterator[tuple[Edit, str]]:
    touched: set[int] = set()
    reordered: set[int] = set()
    for edit in plan.edits:
        if isinstance(edit, Reorder):
            if not 0 <= edit.loop < len(graph.loops):
                yield edit, f"there is no loop {edit.loop}"
            if edit.loop in reordered:
                yield edit, f"loop {edit.loop} is reordered twice"
            reordered.add(edit.loop)
            continue
        for number in _points(edit):
            if not 0 <= number < len(graph.points):
                yield edit, f"there is no point {number}"
                break
        else:
            if isinstance(edit, Insert | Move) and not graph.points[edit.before].insertable:
                yield edit, f"nothing can be inserted before point {edit.before}"
            if isinstance(edit, Delete | Change | Move):
                action = graph.points[edit.point].action
                if not isinstance(action, Sync):
                    yield edit, f"point {edit.point} is not synchronization"
                elif not isinstance(action.op, SyncOp):
                    yield edit, f"point {edit.point} belongs to copies or to a barrier object"
                if edit.point in touched:
                    yield edit, f"point {edit.point} is edited twice"
                touched.add(edit.point)


def _points(edit: Insert | Delete | Change | Move) -> tuple[int, ...]:
    match edit:
        case Insert(before):
            return (before,)
        case Move(point, before):
            return (point, before)
        case Delete(point) | Change(point):
            return (point,)


def _place(edit: Edit, graph: SyncGraph) -> Span:
    if isinstance(edit, Reorder):
        number = graph.loops[edit.loop].head if 0 <= edit.loop < len(graph.loops) else -1
    else:
        number = _points(edit)[0]
    return graph.points[number].at if 0 <= number < len(graph.points) else NOWHERE
