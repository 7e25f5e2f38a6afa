"""Removes the barriers that the verifier proves redundant, one after the other.

Needs   a plan, and the prover of its graph
Gives   a plan without redundant barriers: those that stand in the program are deleted, those of the plan not inserted
Keeps   after each step the program is proved; pinned barriers, staggers and waits for stores stay. The order is
        that of advice: the dearest first, of equal ones those that drain nothing, then the first in the text
Cost    a proof for each barrier, up to `MOST_POINTS` points in all of them
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.graph import model as g
from tidegate.graph.barriers import weights_of
from tidegate.graph.plan import Change, Delete, Edit, Insert, Move, Plan
from tidegate.language.ops import SharedMemoryBarrier, Signal, Wait, WorkgroupBarrier
from tidegate.placement.groups import OBJECT, PAIR, SINGLE
from tidegate.placement.pieces import Piece, find_pieces
from tidegate.placement.stores import find_stores, waits_for
from tidegate.verify.prover import Prover

MOST_POINTS = 100_000
WHOLE = (SharedMemoryBarrier, WorkgroupBarrier)
REMOVED = (*(SINGLE[each] for each in WHOLE), PAIR)


@dataclass(frozen=True, slots=True)
class _Barrier:
    """One that stands in the program, by its points, or one that the plan inserts."""

    points: tuple[int, ...]
    edit: Insert | None
    weight: float
    drains: bool


def remove_redundant(plan: Plan, prover: Prover) -> Plan | None:
    """The plan without redundant barriers; None if the program is not proved with the plan as it is."""
    nothing_new = Plan(tuple(each for each in plan.edits if not isinstance(each, Insert)))
    graph = prover.graph
    proved = (each for each in (nothing_new, plan) if prover.is_ordered(each))
    found = next(proved, None)
    if found is None:
        return None
    plan = found
    left = MOST_POINTS // len(graph.points)
    for barrier in sorted(_barriers(plan, graph), key=lambda each: (-each.weight, each.drains, each.points))[:left]:
        trial = _without(barrier, plan)
        if prover.is_ordered(trial):
            plan = trial
    return plan


def _barriers(plan: Plan, graph: g.SyncGraph) -> Iterator[_Barrier]:
    gone = {edit.point for edit in plan.edits if isinstance(edit, Delete | Move)}
    changed = {edit.point: edit.op for edit in plan.edits if isinstance(edit, Change)}
    stores = find_stores(graph)
    for piece in find_pieces(graph):
        if can_go(piece, graph) and gone.isdisjoint(piece.points):
            actions = ((point, graph.points[point].action) for point in piece.points)
            ops = [changed.get(point, each.op) for point, each in actions if isinstance(each, g.Sync)]
            if not any(waits_for(op, stores) for op in ops):
                yield _Barrier(piece.points, None, piece.weight, any(isinstance(op, SharedMemoryBarrier) for op in ops))
    weights = weights_of(graph)
    for edit in plan.edits:
        if isinstance(edit, Insert) and isinstance(edit.op, WHOLE):
            yield _Barrier((edit.before,), edit, weights[edit.before], isinstance(edit.op, SharedMemoryBarrier))


def can_go(piece: Piece, graph: g.SyncGraph) -> bool:
    """Whether a plan may delete it. An object that copies report to is left alone."""
    if piece.pinned or piece.kind not in (*REMOVED, OBJECT):
        return False
    ops = [action.op for point in piece.points if isinstance(action := graph.points[point].action, g.Sync)]
    return piece.kind != OBJECT or all(isinstance(op, Signal | Wait) for op in ops)


def _without(barrier: _Barrier, plan: Plan) -> Plan:
    if barrier.edit is not None:
        return Plan(tuple(each for each in plan.edits if each is not barrier.edit))
    kept: list[Edit] = [each for each in plan.edits if not (isinstance(each, Change) and each.point in barrier.points)]
    return Plan((*kept, *(Delete(point) for point in barrier.points)))
