"""Is every barrier that `tidegate sync` puts in needed? Each is taken away, and the simulator says what comes of it.

A barrier, a wait or a fence without which nothing is found is listed with its reason, which is found by trying, too:

    widened         the footprint of an access that it serves is not known exactly
    atomics         it keeps atomics in order that would give the same in any order (`--atomics commute`)
    conditions      the walk needs conditions that never hold together: with all of them free, something is found
    trips           the walk needs more iterations than the loop has, or fewer: with other bounds, something is found
    slots           the walk goes round a loop more or less often than the slot behind it tells: with that slot wherever
                    the loop leaves it, something is found, and nothing in the whole plan
    parting waves   one of the accesses lies where waves part, and which waves come there is not asked; or a wait or a
                    fence does: without it, something is found, and nothing in the whole plan
    bounded         the judge did not go through everything

`python -m bench sync-necessity [--quick]`
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from bench.slices import in_order
from oracles.programs.sync_cases import Case, Outcome, cases, draw, kind_of, outcomes
from tidegate.graph import model as g
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.flow import flow_of
from tidegate.graph.plan import Change, Edit, Insert, Plan
from tidegate.hazards.model import Hazard
from tidegate.hazards.show import name_hazard
from tidegate.index import Binary, Compare, Const, Name, names
from tidegate.language import ops
from tidegate.language.ops import Size
from tidegate.simulate.judge import judge

COUNT, QUICK = 1_200, 100
CHUNK = 20
STRATEGIES = ("minimal", "intersecting")
PROTOCOL = ("TG202", "TG203", "TG204", "TG205", "TG207", "TG208")
REASONS = ("widened", "atomics", "conditions", "trips", "slots", "parting waves", "bounded", "nobody knows yet")


@dataclass(frozen=True, slots=True)
class Tried:
    """Some edits of a plan left out. `reason`: why nothing was found."""

    case: str
    strategy: str
    kind: str
    codes: tuple[str, ...]
    reason: str
    text: str


def try_all(case: Case, strategies: tuple[str, ...] = STRATEGIES) -> Iterator[Tried]:
    """Every edit of every plan left out, one by one; the halves of a pair together."""
    seen: set[Plan] = set()
    for outcome in outcomes(case, strategies):
        plan = outcome.placed.plan
        if plan in seen or outcome.findings:
            continue
        seen.add(plan)
        for group in groups_of(case, plan):
            yield try_without(case, outcome, group)
        yield from try_weaker(case, outcome)


def groups_of(case: Case, plan: Plan) -> Iterator[tuple[int, ...]]:
    """Places in the plan of edits that go together."""
    halves: list[int] = []
    for place, edit in enumerate(plan.edits):
        if not isinstance(edit, Insert | Change):
            continue
        if isinstance(edit, Insert) and isinstance(edit.op, ops.Signal | ops.Wait):
            halves.append(place)
            if isinstance(edit.op, ops.Wait) and _is_whole(case, plan, halves):
                yield tuple(halves)
                halves = []
        else:
            yield (place,)
    if halves:
        yield tuple(halves)


def _is_whole(case: Case, plan: Plan, halves: list[int]) -> bool:
    """Whether signals and waits still take turns without these."""
    found = judge(_without(case, plan, tuple(halves)), case.target).findings
    return not any(each.code in PROTOCOL for each in found)


def _without(case: Case, plan: Plan, left_out: tuple[int, ...]) -> g.SyncGraph:
    return apply_to_graph(Plan(tuple(e for n, e in enumerate(plan.edits) if n not in left_out)), case.graph)


def try_without(case: Case, outcome: Outcome, left_out: tuple[int, ...]) -> Tried:
    plan = outcome.placed.plan
    first = plan.edits[left_out[0]]
    assert isinstance(first, Insert | Change)
    kind = "pair" if isinstance(first.op, ops.Signal | ops.Wait) else kind_of(first.op)
    kind = f"{kind}, in place of a weaker one" if isinstance(first, Change) else kind
    less = _without(case, plan, left_out)
    return _judged(case, outcome, less, kind, [plan.edits[each] for each in left_out])


def try_weaker(case: Case, outcome: Outcome) -> Iterator[Tried]:
    """Barriers that drain less than what was put in."""
    plan = outcome.placed.plan
    for place, edit in enumerate(plan.edits):
        if not isinstance(edit, Insert) or not isinstance(edit.op, ops.SharedMemoryBarrier):
            continue
        copies = edit.op.wait_async_ops
        weaker = replace(edit, op=ops.SharedMemoryBarrier() if copies else ops.WorkgroupBarrier())
        less = apply_to_graph(Plan((*plan.edits[:place], weaker, *plan.edits[place + 1 :])), case.graph)
        yield _judged(case, outcome, less, f"drain of {'copies' if copies else 'LDS'}", [edit])


def _judged(case: Case, outcome: Outcome, less: g.SyncGraph, kind: str, edits: list[Edit]) -> Tried:
    judgement = judge(less, case.target)
    codes = tuple(sorted({each.code for each in judgement.findings}))
    text = "; ".join(dict.fromkeys(why for each in edits for why in each.serves))
    reason = "" if codes else reason_of(case, outcome, less, edits, judgement.bounded)
    return Tried(case.name, outcome.strategy, kind, codes, reason, text)


# --- why nothing is found -----------------------------------------------------------------------------------------


def reason_of(case: Case, outcome: Outcome, less: g.SyncGraph, edits: list[Edit], bounded: list[str]) -> str:
    served = served_by(case, outcome, edits)
    if any(not each.exact for each in served):
        return "widened"
    if any(commute(case.graph, *ends(case, each)) for each in served):
        return "atomics"
    if judge(with_free_conditions(less), case.target).findings:
        return "conditions"
    if judge(with_free_trips(less), case.target).findings:
        return "trips"
    if judge(with_free_trips(with_free_conditions(less)), case.target).findings:
        return "conditions"
    if depends_on_slots(case, outcome, less):
        return "slots"
    if any(case.graph.points[end].under != "uniform" for each in served for end in ends(case, each)):
        return "parting waves"
    if (
        judge(without_parted(less), case.target).findings
        and not judge(without_parted(outcome.after), case.target).findings
    ):
        return "parting waves"
    if any("orders" in each or "choices" in each for each in bounded):
        return "bounded"
    return "nobody knows yet"


def served_by(case: Case, outcome: Outcome, edits: list[Edit]) -> list[Hazard]:
    """The hazards that edits say they serve. A drain before a signal serves what is met at the wait, elsewhere."""
    flow = flow_of(case.graph)
    named = {why for each in edits for why in each.serves}
    return [hazard for hazard in outcome.placed.hazards if name_hazard(hazard, flow) in named]


def ends(case: Case, hazard: Hazard) -> tuple[int, int]:
    """The points of a hazard; with calls, those of the nodes it names."""
    origin = flow_of(case.graph).origin
    return origin[hazard.producer], origin[hazard.consumer]


def commute(graph: g.SyncGraph, first: int, second: int) -> bool:
    """Two atomics of one operator and one type whose results nobody uses; these programs have them all aligned."""
    one, other = graph.points[first].action, graph.points[second].action
    if not isinstance(one, g.Access) or not isinstance(other, g.Access):
        return False
    alike = (one.effect, one.operator, one.element) == (other.effect, other.operator, other.element)
    return alike and one.effect == "atomic" and not (one.fetches or other.fetches)


def with_free_conditions(graph: g.SyncGraph) -> g.SyncGraph:
    """Conditions on which all waves agree are decided anew each time; those of loops stay."""
    heads = {loop.head for loop in graph.loops}
    points = tuple(
        replace(point, action=g.Branch(None))
        if isinstance(point.action, g.Branch)
        and point.under == "uniform"
        and number not in heads
        and _agrees(graph, number)
        else point
        for number, point in enumerate(graph.points)
    )
    return replace(graph, points=points)


def _agrees(graph: g.SyncGraph, number: int) -> bool:
    """Whether what is decided is for all waves: nothing in the arms is only for some."""
    return all(graph.points[each].under == "uniform" for each in graph.points[number].successors)


def with_free_trips(graph: g.SyncGraph) -> g.SyncGraph:
    """Loops that run at all run as often as a size of their own says; not at all too, where nobody rules that out."""
    loops, points, sizes = list(graph.loops), list(graph.points), list(graph.sizes)
    for number, loop in enumerate(loops):
        point = points[loop.head]
        if loop.most == 0 or not loop.counter or not isinstance(point.action, g.Branch):
            continue
        name = f"TRIPS{number}"
        sizes.append(Size(name, 2))
        upper = Name(name) if loop.most is not None else Binary("+", loop.lower, Binary("-", Name(name), Const(1)))
        points[loop.head] = replace(point, action=g.Branch(Compare("<", Name(loop.counter), upper)))
        loops[number] = replace(loop, upper=upper, least=0, most=None)
    return replace(graph, loops=tuple(loops), points=tuple(points), sizes=tuple(sizes))


def depends_on_slots(case: Case, outcome: Outcome, less: g.SyncGraph) -> bool:
    """Whether another slot in one access behind a loop makes the difference between the whole plan and less."""
    return any(
        judge(fewer, case.target).findings and not judge(whole, case.target).findings
        for fewer, whole in zip(with_other_slots(less), with_other_slots(outcome.after), strict=True)
    )


def with_other_slots(graph: g.SyncGraph) -> Iterator[g.SyncGraph]:
    """One by one, accesses whose slot a loop that does not hold them has stepped, in every slot."""
    slots_of = {buffer.name: buffer.slots for buffer in graph.buffers}
    for number, point in enumerate(graph.points):
        match point.action:
            case g.Access(footprint=g.Footprint(place=g.Ref(base=base, slot=slot))) as access:
                if _stepped_elsewhere(graph, point.loop) & set(names(slot)):
                    for fixed in range(slots_of.get(base, 0)):
                        place = replace(access.footprint.place, slot=Const(fixed))
                        action = replace(access, footprint=replace(access.footprint, place=place))
                        points = (*graph.points[:number], replace(point, action=action), *graph.points[number + 1 :])
                        yield replace(graph, points=points)


def without_parted(graph: g.SyncGraph) -> g.SyncGraph:
    """Without waits and fences that not all waves come to."""
    points = tuple(
        replace(point, action=g.Compute(), issues=())
        if isinstance(point.action, g.Sync)
        and isinstance(point.action.op, ops.WaitCount | ops.Fence)
        and point.under != "uniform"
        else point
        for point in graph.points
    )
    return replace(graph, points=points)


def _stepped_elsewhere(graph: g.SyncGraph, loop: int) -> set[str]:
    """Names that loops around other places assign."""
    around = set()
    while loop >= 0:
        around.add(loop)
        loop = graph.loops[loop].parent
    return {
        name
        for point in graph.points
        if isinstance(point.action, g.Assign) and point.loop >= 0 and point.loop not in around
        for name, _ in point.action.pairs
    }


# --- tables -------------------------------------------------------------------------------------------------------


def run(quick: bool | None = None) -> tuple[str, bool]:
    """The tables as Markdown, and whether every harmless removal has a reason."""
    quick = "--quick" in sys.argv if quick is None else quick
    count = QUICK if quick else COUNT
    tried = [each for part in in_order(_chunk, range(0, count, CHUNK)) for each in part]
    tried += [each for case in examples() for each in try_all(case)]
    return table(tried), not any(each.reason == REASONS[-1] for each in tried)


def _chunk(start: int) -> list[Tried]:
    return [each for case in cases(CHUNK, start) for each in try_all(case)]


def examples() -> Iterator[Case]:
    from bench.sync_examples import small_cases

    return small_cases()


def table(tried: list[Tried]) -> str:
    lines = ["| what is left out | strategy | times | found | harmless | " + " | ".join(REASONS) + " |"]
    lines.append("|---|---|---:|---:|---:|" + "---:|" * len(REASONS))
    keys = sorted({(each.kind.startswith("drain"), each.kind, each.strategy) for each in tried})
    for _, kind, strategy in keys:
        of = [each for each in tried if (each.kind, each.strategy) == (kind, strategy)]
        lines.append(_row(kind, strategy, of))
    lines.append(_row("**all**", "", tried))
    unknown = [each for each in tried if each.reason == REASONS[-1]]
    if unknown:
        lines += ["", "Nobody knows yet:", "", "| program | strategy | what | serves |", "|---|---|---|---|"]
        lines += (f"| {each.case} | {each.strategy} | {each.kind} | {each.text} |" for each in unknown[:40])
    return "\n".join(lines)


def _row(kind: str, strategy: str, of: list[Tried]) -> str:
    reasons = Counter(each.reason for each in of if each.reason)
    found = sum(bool(each.codes) for each in of)
    counts = " | ".join(str(reasons[each]) for each in REASONS)
    return f"| {kind} | {strategy} | {len(of)} | {found} | {len(of) - found} | {counts} |"


__all__ = ["commute", "draw", "run", "try_all"]
