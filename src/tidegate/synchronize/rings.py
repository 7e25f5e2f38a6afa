"""Completes the rings of a program with roles: waits, arrivals, fences between proxies, a rendezvous of roles.

Needs   a session whose program has roles and is not proved with the plan so far
Gives   a plan with which it is proved; or why there is none
Keeps   nothing is inserted without a proof of the whole program with it; what the proof does without goes again
Cost    a proof for each plan that is tried, up to `MOST_TRIALS`

Order and phases come first, as if no fence between the proxies were needed; then fences where the proof asks for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

from tidegate.diag import BadInput
from tidegate.graph import model as g
from tidegate.graph.apply import apply_plan, apply_to_graph, numbers_after
from tidegate.graph.barriers import tally_inserted
from tidegate.graph.plan import Insert, Plan
from tidegate.language.ops import Fence, NewBarrier
from tidegate.language.uses import names_in_kernel
from tidegate.session import Session
from tidegate.synchronize.model import Synchronized
from tidegate.synchronize.ring_repairs import Edits, Lack, RingRepairs
from tidegate.targets import Target
from tidegate.verify.model import Verification
from tidegate.verify.verify import verify

MOST_TRIALS = 64
MOST_LACKS, MOST_WAYS = 4, 12  # that are combined
FENCE = ("a fence between the proxies",)


@dataclass(frozen=True, slots=True)
class Completed:
    """`plan`: None where nothing that was tried is proved; then `why_not` says what was."""

    plan: Plan | None
    why_not: str = ""


def complete_rings(unit: Session) -> Completed:
    """For a program without functions in which waves run different programs."""
    if unit.graph.functions:
        return Completed(None, "roles are not completed in programs with functions")
    ground = unit.ground
    taken = frozenset(names_in_kernel(unit.kernel)) if unit.kernel is not None else frozenset()
    repairs = RingRepairs(ground.flow, ground.footprints, ground.paths, unit.target, taken)
    if len(repairs.roles) < 2:
        return Completed(None)
    return _RingTrials(unit, repairs).run()


def with_rings(result: Synchronized, plan: Plan) -> Plan:
    """The plan of a program that is proved with it; else what its rings lack, if that is proved, in its place."""
    if result.placed is None or result.unit.prover.is_ordered(plan):
        return plan
    found = complete_rings(result.unit)
    if found.plan is not None:
        weight = tally_inserted(found.plan, result.unit.graph).weight
        result.placed = replace(result.placed, plan=found.plan, unplaced=(), weight=weight)
    elif found.why_not:
        result.notes = (*result.notes, found.why_not)
    return found.plan or plan


class _RingTrials:
    def __init__(self, unit: Session, repairs: RingRepairs) -> None:
        self.unit, self.graph, self.repairs = unit, unit.graph, repairs
        self.trials = 0
        self.known: dict[tuple[Plan, bool], Verification] = {}

    def run(self) -> Completed:
        lacks, pairs = list(self.repairs.of_rings()), list(self.repairs.of_pairs())
        for plan in islice(self.plans(lacks, pairs), MOST_TRIALS):
            if self.trials >= MOST_TRIALS:
                break
            if (
                self.fits(plan)
                and self.is_ordered(plan, fenced=False)
                and (whole := self.with_fences(plan)) is not None
            ):
                return Completed(self.least(whole))
        return Completed(None, self.why_not([*lacks, *pairs]))

    def plans(self, lacks: Sequence[Lack], pairs: Sequence[Lack]) -> Iterator[Plan]:
        """What rings are certain to lack, then one more thing, then a rendezvous; the likeliest ways first."""
        certain = [each for each in lacks if each.certain and each.ways]
        yield from _joined(certain)
        for more in lacks:
            if not more.certain:
                yield from _joined([*certain, more])
        if pairs:
            yield from _joined([*certain, *pairs])

    def why_not(self, lacks: Sequence[Lack]) -> str:
        dispatched = len(self.graph.programs) > 1 or any(
            isinstance(each.action, g.Dispatch) for each in self.graph.points
        )
        if not (self.graph.objects or dispatched):  # one program: placement has said why
            return ""
        missing = [each.says for each in lacks if each.certain]
        if not missing:
            return "the rings lack nothing that `sync` inserts: waits, arrivals, fences, or a rendezvous of two roles"
        said = f"the program lacks {'; '.join(dict.fromkeys(missing))}"
        if not any(each.ways for each in lacks):
            return f"{said}; no role has a place or a slot for it"
        return f"{said}; no insertion of {self.trials} that were tried is proved"

    def fits(self, plan: Plan) -> bool:
        """Whether all names in what is inserted are known there."""
        try:
            if self.unit.built is not None:
                apply_plan(plan, self.unit.built)
        except BadInput:
            return False
        return True

    # --- fences ---

    def with_fences(self, plan: Plan) -> Plan | None:
        """With a fence for each pair that goes from one proxy to the other; on the side of the first, or the second."""
        target = self.unit.target
        if not target.fenced or self.is_ordered(plan, fenced=True):
            return plan
        if "proxy_async" not in target.fence.kinds:
            return None
        for behind in (True, False):
            fences = dict.fromkeys(self.fences(plan, behind))
            # A fence comes before the arrival that is inserted at the same point, and behind the wait that is.
            edits = (*fences, *plan.edits) if behind else (*plan.edits, *fences)
            if fences and self.is_ordered(Plan(edits), fenced=True):
                return Plan(edits)
        return None

    def fences(self, plan: Plan, behind: bool) -> Iterator[Insert]:
        inserted = _numbers(plan, self.graph)
        for each in self.verified(plan, fenced=True).suspects:
            if each.why != "unfenced":
                return
            point = inserted.get(each.x if behind else each.y)
            if point is None:
                return
            if behind:
                following = self.graph.points[point].successors
                point = following[0] if len(following) == 1 else None
            if point is not None and self.graph.points[point].insertable:
                yield Insert(point, Fence("proxy_async"), FENCE)

    # --- proofs ---

    def least(self, plan: Plan) -> Plan:
        """Without the operations that the proof does without, the last first."""
        for edit in reversed(plan.edits):
            if not isinstance(edit, Insert) or isinstance(edit.op, NewBarrier):
                continue
            less = Plan(tuple(each for each in plan.edits if each is not edit))
            if len(plan.edits) > 1 and self.is_ordered(less, fenced=True):
                plan = less
        return plan

    def is_ordered(self, plan: Plan, *, fenced: bool) -> bool:
        return self.verified(plan, fenced=fenced).is_ordered

    def verified(self, plan: Plan, *, fenced: bool) -> Verification:
        if (plan, fenced) not in self.known:
            self.trials += 1
            target = self.unit.target if fenced else _without_fences(self.unit.target)
            self.known[plan, fenced] = verify(apply_to_graph(plan, self.graph), target, memory=False)
        return self.known[plan, fenced]


def _without_fences(target: Target) -> Target:
    return replace(target, fence=replace(target.fence, proxy_needed=False))


def _joined(lacks: Sequence[Lack]) -> Iterator[Plan]:
    """One way for each, those with the likeliest ways first."""
    numbers = sorted(product(*(range(len(each.ways[:MOST_WAYS])) for each in lacks[:MOST_LACKS])), key=_likeliest)
    for choice in numbers:
        ways: list[Edits] = [each.ways[number] for each, number in zip(lacks, choice, strict=False)]
        yield Plan(tuple(edit for way in ways for edit in way))


def _likeliest(numbers: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    return sum(numbers), numbers


def _numbers(plan: Plan, graph: g.SyncGraph) -> dict[int, int]:
    """From the points of the edited graph to those of the graph."""
    return {own: point for point, (_, own) in enumerate(numbers_after(plan, graph))}
