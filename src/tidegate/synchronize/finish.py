"""What proofs make of a plan before it is carried out: needless edits go, counts grow.

Needs   a plan, and the prover of its graph
Gives   the plan as it will be carried out, which is the one that prices are about
Keeps   a plan that is proved stays proved; one that is not stays as it is
Cost    that of `refine` and `loosen`
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from tidegate.graph import model as g
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.barriers import tally_inserted
from tidegate.graph.plan import Change, Insert, Plan
from tidegate.placement.place import Placed
from tidegate.simulate.judge import AT_ONCE, judge
from tidegate.synchronize.loosen import NOT_LOOSEST, Proofs, loosen
from tidegate.synchronize.model import SyncOptions
from tidegate.synchronize.refine import refine
from tidegate.verify.prover import Prover

Finish = Callable[[Placed], Placed]


def finish_plan(placed: Placed, prover: Prover, options: SyncOptions, by_proof: bool) -> Placed:
    """Without what proofs take back, if they decide, and with counts as they are proved."""
    if by_proof and options.tighten_waits and prover.is_ordered(Plan()):
        placed = replace(placed, plan=without_inserts(placed.plan, prover), weight=0.0)
    elif by_proof and options.least:
        plan = refine(placed.plan, prover, bare=True, changes=not options.tighten_waits)
        placed = replace(placed, plan=plan, weight=tally_inserted(plan, prover.graph).weight)
    return replace(with_loose_counts(placed, prover, options), is_final=True)


def without_inserts(plan: Plan, prover: Prover) -> Plan:
    """For a program that is proved as it stands: looser waits in their places, and no other waits beside them."""
    changes = Plan(tuple(each for each in plan.edits if isinstance(each, Change)))
    rest = Plan(tuple(each for each in plan.edits if not isinstance(each, Insert)))
    return next((each for each in (rest, changes) if prover.is_ordered(each)), Plan())


def asks_what_is_proved(options: SyncOptions, graph: g.SyncGraph) -> bool:
    """Whether no more is asked for than a proof demands: no order among atomics that commute, and no stagger that does
    not stand in the program."""
    atomics = any(isinstance(each.action, g.Access) and each.action.effect == "atomic" for each in graph.points)
    return not options.stagger and (options.atomics == "commute" or not atomics)


def with_loose_counts(placed: Placed, prover: Prover, options: SyncOptions) -> Placed:
    """Counts as large as they are proved; if some are not shown to be, that is said where it was asked for."""
    if not options.loosen:
        return placed
    races = partial(_races, prover) if options.tighten_waits else None
    found = loosen(placed.plan, Proofs(prover), placed.exact, standing=options.tighten_waits, races=races)
    notes = (f"{NOT_LOOSEST}: {found.why_not}",) if found.why_not and options.tighten_waits else ()
    return replace(placed, plan=found.plan, notes=(*placed.notes, *notes))


def _races(prover: Prover, plan: Plan) -> bool:
    """Whether a run shows that a plan is wrong."""
    found = judge(apply_to_graph(plan, prover.graph), prover.target, replace(AT_ONCE, first=True))
    return bool(found.findings)
