"""From a program with little or no synchronization to one that is correct: propose, apply, judge.

Needs   a program and its target
Gives   the plan with its reasons, the program with the plan carried out, and what the judge says of that
Keeps   the input is not changed; what no barrier can order is left to the judge, and reported if it races; what barrier
        objects order, as far as the judge can see, gets no other barrier
Cost    that of the stages; the judge takes most of it

    kernel or graph ─▶ footprints ─▶ hazards ─▶ placement ─▶ plan ─▶ the program, synchronized ─▶ text ─▶ judge
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.collecting import no_collecting
from tidegate.diag import NOWHERE, BadInput, Finding, Label, Span
from tidegate.footprint.model import show_footprints
from tidegate.graph import model as g
from tidegate.graph.apply import apply_plan, apply_to_graph
from tidegate.graph.barriers import tally, tally_inserted
from tidegate.graph.build import build_graph
from tidegate.graph.flow import flow_of
from tidegate.graph.plan import Plan, show_plan
from tidegate.hazards.facts import PairFacts
from tidegate.hazards.find import Hazards, find_hazards, find_without
from tidegate.hazards.show import show_hazards
from tidegate.language.ops import Kernel
from tidegate.language.uses import names_in_kernel
from tidegate.passes import NOT_THERE, SYNC_STAGES, Checked, Show, Unit, check_stage, pick_target, run_stages
from tidegate.placement.place import Options, Placed, find_slots, place
from tidegate.placement.trusted import by_objects
from tidegate.placement.walks import Walks
from tidegate.simulate.judge import AT_ONCE, Judgement, Limits, Progress, judge
from tidegate.synchronize.choose import choose_plan
from tidegate.synchronize.deps import with_deps
from tidegate.synchronize.forced import force
from tidegate.synchronize.judging import BarrierJudge
from tidegate.synchronize.loosen import NOT_LOOSEST, Proofs, loosen
from tidegate.synchronize.model import AS_WRITTEN, Synchronized, SyncOptions
from tidegate.synchronize.readback import Written, read_back
from tidegate.synchronize.redundant import remove_redundant
from tidegate.synchronize.refine import refine
from tidegate.synchronize.said import say_why
from tidegate.synchronize.written import write_programs
from tidegate.targets import Target, default_target, known_targets

EARLY = ("kernel", "graph")
EXACT = "optimal"
LATE = ("verify", "judge")
# Of a program with barrier objects before anything is inserted: further than what is judged afterwards.
AS_GIVEN = Limits(steps=150_000)


def synchronize_graph(graph: g.SyncGraph, target: Target, options: SyncOptions | None = None) -> Placed:
    """Hazards and placement for one graph; nothing is judged, nothing applied."""
    options = options or SyncOptions()
    with no_collecting():
        placed = _place(_find(graph, target, options), target, options, None, None)
        return _with_loose_counts(placed, graph, target, options)


def synchronize(
    unit: Unit,
    options: SyncOptions | None = None,
    *,
    print_after: str | None = None,
    stop_after: str | None = None,
    show: Show = lambda *_: None,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> Synchronized:
    """All stages in order, for one program. What is judged is what its text says."""
    result = propose(unit, options, print_after=print_after, stop_after=stop_after, show=show, limits=limits)
    if result.after is not None and result.options.judge:
        (written,) = read_back([result], write_programs([result]), unit.name, keep_places=True)
        judge_result(
            result, written, print_after=print_after, stop_after=stop_after, show=show, limits=limits, progress=progress
        )
    return result


@no_collecting()
def propose(
    unit: Unit,
    options: SyncOptions | None = None,
    *,
    print_after: str | None = None,
    stop_after: str | None = None,
    show: Show = lambda *_: None,
    limits: Limits | None = None,
) -> Synchronized:
    """The stages up to the plan, which is carried out unless it is the last."""
    options = options or SyncOptions()
    options.check()
    for stage in (print_after, stop_after):
        check_stage(stage, SYNC_STAGES)
    early = print_after if print_after in EARLY else None
    seen = run_stages(unit, print_after=early, stop_after=stop_after if stop_after in EARLY else "graph", show=show)
    result = Synchronized(unit, options, seen.findings)
    if any(each.is_bad_input for each in seen.findings) or stop_after in EARLY:
        result.why_not = seen.why_not
        return result
    if any(each.code in NOT_THERE for each in seen.findings):
        result.why_not = "the target does not have what the program uses"
        return result
    result.built = build_graph(unit.kernel, unit.target) if unit.kernel is not None else None
    result.graph = result.built.graph if result.built else unit.graph
    _make_plan(result, show_if(show, print_after), limits, stop_after)
    if stop_after in ("footprints", "hazards", "plan"):
        result.why_not = f"stopped after `{stop_after}`"
    else:
        _apply(result)
    if unit.origin is not None:
        result.notes = (*unit.origin.said, *result.notes)
    return result


def judge_result(
    result: Synchronized,
    written: Written,
    *,
    print_after: str | None = None,
    stop_after: str | None = None,
    show: Show = lambda *_: None,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> None:
    """Verifies what was written, as it was read back, and, if need be, runs it.

    Without the judge only the places of findings are brought up to date.
    """
    result.places, result.doubt, unit = written.places, written.doubt, written.unit
    if written.doubt:
        message = f"{AS_WRITTEN}: {written.doubt}"
        result.checked = Checked([Finding("TG106", message, (Label(_start_of(result)),))], why_not=written.doubt)
        return
    if not result.options.judge:
        result.findings = run_stages(unit, print_after=None, stop_after="graph", show=show).findings
        return
    result.checked = run_stages(
        unit,
        print_after=print_after if print_after in LATE else None,
        stop_after="verify" if stop_after == "verify" else None,
        show=show,
        limits=limits,
        progress=progress,
    )
    result.checked.findings = say_why(result)
    if was_clean(result, limits):
        note = "the judge finds nothing wrong with the program as it was: new barriers are for what it may overlook"
        result.notes = (*result.notes, note)


def _start_of(result: Synchronized) -> Span:
    program = result.unit.kernel or (result.graph.points[0] if result.graph and result.graph.points else None)
    return program.at if program is not None else NOWHERE


def was_clean(result: Synchronized, limits: Limits | None) -> bool:
    """Whether barriers were put into a program that has some, and in which the judge finds nothing without them."""
    graph = result.graph
    if graph is None or result.options.force_barriers:
        return False
    added, stand = tally_inserted(result.plan, graph).barriers, tally(graph).barriers
    if not (added and stand):
        return False
    known = result.judged or judge(graph, result.unit.target, replace(limits or AT_ONCE, first=True))
    return not known.findings


def show_if(show: Show, wanted: str | None) -> Show:
    """Shows one stage and no other."""
    return lambda stage, text: show(stage, text) if stage == wanted else None


# --- the plan -----------------------------------------------------------------------------------------------------


def _make_plan(result: Synchronized, show: Show, limits: Limits | None, stop_after: str | None) -> None:
    graph, target, options = result.graph, result.unit.target, result.options
    assert graph is not None
    if result.unit.origin is not None:  # `refine` takes back what proofs show to be needless
        options = replace(options, loosen=False)
    result.hazards = found = _find(graph, target, options)
    show("footprints", show_footprints(found.footprints))
    show("hazards", show_hazards(found))
    if stop_after in ("footprints", "hazards"):
        return
    if options.force_barriers:
        plan = force(found.flow, target)
        result.notes = ("barriers were forced: what the program needs was not asked",)
    else:
        result.placed, plan = _place_without_redundant(result, found, limits)
        if result.unit.origin is not None:
            plan = result.unit.origin.possible(plan)
            if asks_what_is_proved(options, graph):
                plan = refine(plan, graph, target)
            result.refined = plan != result.placed.plan
        result.notes = (*result.placed.notes, *_notes(result.placed, found, target, options))
    result.plan = Plan(plan.edits[: options.bisect])
    result.left_out = len(plan.edits) - len(result.plan.edits)
    if options.bisect is not None:
        result.notes = (*result.notes, f"{len(result.plan.edits)} of {len(plan.edits)} edits carried out")
    show("plan", show_plan(result.plan))


def _place_without_redundant(result: Synchronized, found: Hazards, limits: Limits | None) -> tuple[Placed, Plan]:
    """The plan; where redundant barriers are to go, those that the verifier proves to be so.

    Where it proves nothing, and where more is asked for than it demands, hazards alone decide, as placement sees them.
    """
    target, options, taken = result.unit.target, result.options, names_in(result.unit.kernel)
    if found.flow.graph.objects:  # asked here and afterwards: was it clean?
        result.judged = judge(found.flow.graph, target, limits or AS_GIVEN)
    by_proof = asks_what_is_proved(options, found.flow.graph) and result.unit.origin is None
    if by_proof and options.remove_redundant:
        placed = _place(found, target, replace(options, remove_redundant=False), result.judged, limits, taken)
        less = remove_redundant(placed.plan, found.flow.graph, target)
        if less is not None:
            placed = _with_loose_counts(replace(placed, plan=less), found.flow.graph, target, options)
            return placed, placed.plan
    placed = _place(found, target, options, result.judged, limits, taken)
    if by_proof and options.least:
        plan = refine(placed.plan, found.flow.graph, target, bare=True, changes=not options.tighten_waits)
        placed = replace(placed, plan=plan, weight=tally_inserted(plan, found.flow.graph).weight)
    placed = _with_loose_counts(placed, found.flow.graph, target, options)
    return placed, placed.plan


def asks_what_is_proved(options: SyncOptions, graph: g.SyncGraph) -> bool:
    """Whether no more is asked for than a proof demands: no order among atomics that commute, and no stagger that does
    not stand in the program."""
    atomics = any(isinstance(each.action, g.Access) and each.action.effect == "atomic" for each in graph.points)
    return not options.stagger and (options.atomics == "commute" or not atomics)


def names_in(kernel: Kernel | None) -> frozenset[str]:
    """All names of a kernel, those of its tiles too."""
    return frozenset(names_in_kernel(kernel)) if kernel is not None else frozenset()


def _find(graph: g.SyncGraph, target: Target, options: SyncOptions) -> Hazards:
    return find_hazards(flow_of(graph), target, atomics=options.atomics, stagger=options.stagger)


def _place(
    found: Hazards,
    target: Target,
    options: SyncOptions,
    judged: Judgement | None,
    limits: Limits | None,
    taken: frozenset[str] = frozenset(),
) -> Placed:
    found, trusted = trust(found, target, limits, judged)
    asked = Options(
        options.strategy, options.remove_redundant, options.seconds, taken=taken, tighten_waits=options.tighten_waits
    )
    if options.least and not found.flow.graph.objects and asks_what_is_proved(options, found.flow.graph):
        asked = replace(asked, judge=BarrierJudge(found.flow.graph, target, find_slots(found.flow).weight))
    placed = choose_plan(found, target, asked, options.merge_waits, by_path=options.loosen)
    if len(placed.unplaced) > len(found.unplaced):
        placed = _by_optimum(found, target, asked, placed)
    if trusted:
        note = f"{trusted} pair{'s' * (trusted != 1)} of accesses left to the barrier objects between them"
        placed.notes = (*placed.notes, note)
    return placed


def _with_loose_counts(placed: Placed, graph: g.SyncGraph, target: Target, options: SyncOptions) -> Placed:
    """Counts as large as they are proved; if some are not shown to be, that is said where it was asked for."""
    if not options.loosen:
        return placed
    found = loosen(placed.plan, Proofs(graph, target), placed.exact, standing=options.tighten_waits)
    notes = (f"{NOT_LOOSEST}: {found.why_not}",) if found.why_not and options.tighten_waits else ()
    return replace(placed, plan=found.plan, notes=(*placed.notes, *notes))


def _by_optimum(found: Hazards, target: Target, asked: Options, placed: Placed) -> Placed:
    """A plan in which no wait is in time, or, where the exact search has a better one, that."""
    other = place(found, target, replace(asked, strategy=EXACT))
    if len(other.unplaced) >= len(placed.unplaced):
        return placed
    other.notes = (*other.notes, f"`{placed.strategy}` finds no place for a wait that is in time: `{EXACT}` was taken")
    return other


def trust(
    hazards: Hazards, target: Target, limits: Limits | None, judged: Judgement | None = None
) -> tuple[Hazards, int]:
    """Without the hazards that barrier objects order: each walk passes one, and the judge finds no race as it is.

    What other barriers order is not theirs. A pair that is left out hides no other one: hazards are found anew.
    `judged`: what came of the program as it is, where that is known.
    """
    flow = hazards.flow
    if not flow.graph.objects:
        return hazards, 0
    walks, racing = Walks(flow, target, hazards.stagger), (judged or judge(flow.graph, target, limits)).pairs
    ordered: frozenset[tuple[int, int]] = frozenset()
    while True:
        passing = by_objects(hazards, target)
        more = {
            (each.producer, each.consumer)
            for each in hazards.hazards
            if each in passing
            and (flow.origin[each.producer], flow.origin[each.consumer]) not in racing
            and not walks.is_served(each)
        }
        if not more:
            return hazards, len(ordered)
        ordered |= more
        hazards = find_without(hazards, target, ordered)


def _notes(placed: Placed, found: Hazards, target: Target, options: SyncOptions) -> list[str]:
    """What a user would want to know about how barriers were placed."""
    notes = []
    if placed.strategy == "intersecting" and not target.barrier.split:
        notes.append(f"{target.name or 'the empty target'} has no split barriers: whole ones are inserted")
    same = PairFacts(found.flow, target, atomics="commute")
    commuting = sum(same.kind(each.producer, each.consumer) is None for each in placed.hazards)
    if options.atomics == "order" and commuting:
        pairs = f"{commuting} pair{'s' * (commuting != 1)} of atomics"
        default = "`--atomics commute`, the default, leaves them"
        notes.append(f"{pairs} ordered that would give the same in any order: {default}")
    return notes


# --- carrying it out ----------------------------------------------------------------------------------------------


def _apply(result: Synchronized) -> None:
    assert result.graph is not None
    target = target_after(result.unit)
    if _means(target) != result.unit.target.name:
        named = target or default_target()
        result.notes = (*result.notes, f"the program is taken for {named}: it cannot name the target asked for")
    if result.built is not None:
        result.kernel = replace(apply_plan(result.plan, result.built), target=target)
        if result.options.async_deps:
            result.kernel, notes = with_deps(
                result.kernel, result.unit.target, result.options.stagger, result.options.atomics
            )
            result.notes = (*result.notes, *notes)
        result.after = build_graph(result.kernel, result.unit.target).graph
    else:
        result.after = replace(apply_to_graph(result.plan, result.graph), target=target)


def target_after(unit: Unit) -> str:
    """The target that the program names afterwards: what it was synchronized for, if a program can name that."""
    program = unit.kernel or unit.graph
    assert program is not None
    asked = unit.target.name
    if not asked or asked not in known_targets():
        return program.target
    return program.target if _means(program.target) == asked else asked


def _means(name: str) -> str | None:
    """The target that a name in a program stands for."""
    try:
        return pick_target(name, None).name
    except BadInput:
        return None
