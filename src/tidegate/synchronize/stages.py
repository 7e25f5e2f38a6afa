"""From a program with little or no synchronization to one that is correct: propose, apply, judge.

Needs   a program and its target
Gives   the plan with its reasons, the program with the plan carried out, and what the judge says of that
Keeps   the input is not changed; what no barrier can order is left to the judge, and reported if it races; what barrier
        objects order, as far as the judge can see, gets no other barrier
Cost    that of the stages; the judge takes most of it

    kernel or graph ─▶ footprints ─▶ hazards ─▶ placement ─▶ plan ─▶ the program, synchronized ─▶ text ─▶ judge
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tidegate.collecting import no_collecting
from tidegate.diag import NOWHERE, BadInput, Finding, Label, Span
from tidegate.footprint.model import show_footprints
from tidegate.graph import model as g
from tidegate.graph.apply import apply_plan, apply_to_graph
from tidegate.graph.barriers import tally, tally_inserted
from tidegate.graph.plan import Plan, show_plan
from tidegate.hazards.facts import PairFacts
from tidegate.hazards.find import Hazards, find_without, no_hazards
from tidegate.hazards.show import show_hazards
from tidegate.language.ops import Kernel
from tidegate.language.uses import names_in_kernel
from tidegate.passes import (
    CHECK,
    NO_MORE_TRIPS,
    NOT_THERE,
    Checked,
    Show,
    Stage,
    check_stage,
    names_of,
    run_in_order,
    run_stages,
)
from tidegate.placement.place import Options, Placed, find_slots, place
from tidegate.placement.trusted import by_objects
from tidegate.placement.walks import Walks
from tidegate.session import Session, pick_target
from tidegate.simulate.judge import AT_ONCE, WITH_OBJECTS, Limits, Progress, judge
from tidegate.synchronize.choose import choose_plan
from tidegate.synchronize.deps import with_deps
from tidegate.synchronize.finish import (
    Finish,
    asks_what_is_proved,
    finish_plan,
    with_loose_counts,
    without_inserts,
)
from tidegate.synchronize.forced import force
from tidegate.synchronize.instructions import final_of, rewrite, session_of
from tidegate.synchronize.judging import BarrierJudge
from tidegate.synchronize.model import AS_WRITTEN, Synchronized, SyncOptions
from tidegate.synchronize.readback import Written, read_back
from tidegate.synchronize.redundant import remove_redundant
from tidegate.synchronize.refine import refine
from tidegate.synchronize.rings import with_rings
from tidegate.synchronize.said import say_why
from tidegate.targets import Target, default_target, known_targets
from tidegate.verify.prover import Prover

if TYPE_CHECKING:
    from tidegate.synchronize.instructions import Final

EXACT = "optimal"
Pairs = frozenset[tuple[int, int]]  # of points
# Where an edit of final instructions stands, in words.
PLACES = {"insert": "before line", "change": "in line", "delete": "in line"}
# Of a program with barrier objects before anything is inserted: as far as `check` goes, which has often done it.
AS_GIVEN = WITH_OBJECTS


def synchronize_graph(graph: g.SyncGraph, target: Target, options: SyncOptions | None = None) -> Placed:
    """Hazards and placement for one graph; nothing is judged, nothing applied."""
    return place_in(Session(graph.name, target, None, graph), options or SyncOptions())


def place_in(session: Session, options: SyncOptions) -> Placed:
    """The same for a session, whose hazards other options share."""
    with no_collecting():
        found = session.hazards(options.atomics, options.stagger)
        placed = _place(found, session.prover, options, racing_in(session, None))
        return with_loose_counts(placed, session.prover, options)


def synchronize(
    unit: Session,
    options: SyncOptions | None = None,
    *,
    print_after: str | None = None,
    stop_after: str | None = None,
    show: Show = lambda *_: None,
    limits: Limits | None = None,
    progress: Progress | None = None,
    given: str = "",
) -> Synchronized:
    """All stages in order, for one program. What is judged is what its text says: that of its file, if `given`."""
    result = propose(unit, options, print_after=print_after, stop_after=stop_after, show=show, limits=limits)
    result.given = given
    if result.made is not None and result.options.judge:
        (written,) = read_back([result], result.text, unit.name, keep_places=True)
        judge_result(
            result, written, print_after=print_after, stop_after=stop_after, show=show, limits=limits, progress=progress
        )
    return result


@no_collecting()
def propose(
    unit: Session,
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
        check_stage(stage, SYNC)
    early = names_of(EARLY)
    seen = run_stages(
        unit,
        print_after=print_after if print_after in early else None,
        stop_after=stop_after if stop_after in early else early[-1],
        show=show,
    )
    result = Synchronized(unit, options, seen.findings)
    if any(each.is_bad_input for each in seen.findings) or stop_after in early:
        result.why_not = seen.why_not
        return result
    if any(each.code in NOT_THERE for each in seen.findings):
        result.why_not = "the target does not have what the program uses"
        return result
    result.graph = unit.graph
    program = final_of(unit)
    if program is not None:
        result.hazards = no_hazards(unit.flow, unit.target, unit.footprints)
        return _in_place(result, program, print_after, stop_after, show)
    run_in_order(PLAN, Planning(result, limits), print_after, stop_after, show)
    if stop_after in names_of(PLAN):
        result.why_not = f"stopped after `{stop_after}`"
    else:
        _apply(result)
    if unit.origin is not None:
        result.notes = (*unit.origin.said, *result.notes)
    return result


def _in_place(
    result: Synchronized, program: Final, print_after: str | None, stop_after: str | None, show: Show
) -> Synchronized:
    """Final instructions: their edits take the place of a plan."""
    found = rewrite(result.unit, program, result.options.bisect)
    result.edits, result.refused = found.edits, found.refused
    if print_after in names_of(PLAN):
        lines = [f"{each.what} {each.text} {PLACES[each.what]} {each.at.line}  # {each.why}" for each in found.edits]
        show(print_after or "", "\n".join(lines))
    if stop_after in names_of(PLAN):
        result.why_not = f"stopped after `{stop_after}`"
    else:
        result.made = session_of(found.program) if found.edits else result.unit
    result.notes = (*program.said, *found.notes)
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
    result.unit.share_runs(unit)
    result.checked = run_stages(
        unit,
        print_after=print_after if print_after in names_of(LATE) else None,
        stop_after=stop_after if stop_after in names_of(LATE) else None,
        show=show,
        limits=limits,
        progress=progress,
    )
    result.checked.findings = say_why(result)
    if was_clean(result, limits):
        note = "the judge finds no errors in the original program: new barriers guard against what it may overlook"
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


# --- the plan -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Planning:
    """One program on its way to a plan."""

    result: Synchronized
    limits: Limits | None

    @property
    def hazards(self) -> Hazards:
        assert self.result.hazards is not None
        return self.result.hazards


def _find_hazards(work: Planning) -> bool:
    options = work.result.options
    work.result.hazards = work.result.unit.hazards(options.atomics, options.stagger)
    return True


def _make_plan(work: Planning) -> bool:
    result, limits, found = work.result, work.limits, work.hazards
    graph, target, options = result.unit.graph, result.unit.target, result.options
    if options.force_barriers:
        plan = force(found.flow, target)
        result.notes = ("barriers were forced, without regard to what the program needs",)
    else:
        result.placed, plan = _place_without_redundant(result, found, limits)
        if result.unit.origin is not None:
            plan = result.unit.origin.possible(plan)
            if asks_what_is_proved(options, graph):
                plan = refine(plan, result.unit.prover)
            result.refined = plan != result.placed.plan
        elif asks_what_is_proved(options, graph):
            plan = with_rings(result, plan)
        result.notes = (*result.notes, *result.placed.notes, *_notes(result.placed, found, target, options))
    result.plan = Plan(plan.edits[: options.bisect])
    result.left_out = len(plan.edits) - len(result.plan.edits)
    if options.bisect is not None:
        result.notes = (*result.notes, f"{len(result.plan.edits)} of {len(plan.edits)} edits applied")
    return True


def _place_without_redundant(result: Synchronized, found: Hazards, limits: Limits | None) -> tuple[Placed, Plan]:
    """The plan; where redundant barriers are to go, those that the verifier proves to be so.

    Where it proves nothing, and where more is asked for than it demands, hazards alone decide, as placement sees them.
    """
    prover, options = result.unit.prover, result.options
    taken = names_in(result.unit.kernel)
    if found.flow.graph.objects and result.unit.verification.undecided:  # asked here and afterwards: was it clean?
        result.judged = result.unit.judged(limits or AS_GIVEN)
        if bounded := [each for each in result.judged.bounded if each != NO_MORE_TRIPS]:
            note = (
                f"barrier objects order accesses without a barrier; not all runs were simulated: {'; '.join(bounded)}"
            )
            result.notes = (*result.notes, note)
    racing = racing_in(result.unit, limits)
    by_proof = asks_what_is_proved(options, found.flow.graph) and result.unit.origin is None
    finish = partial(finish_plan, prover=prover, options=options, by_proof=by_proof)
    if by_proof and options.remove_redundant:
        kept = replace(options, remove_redundant=False)
        placed = _place(found, prover, kept, racing, taken)
        plan = without_inserts(placed.plan, prover) if prover.is_ordered(Plan()) else placed.plan
        less = remove_redundant(plan, prover)
        if less is not None:
            placed = with_loose_counts(replace(placed, plan=less), prover, options)
            return placed, placed.plan
    placed = _place(found, prover, options, racing, taken, finish)
    placed = placed if placed.is_final else finish(placed)
    return placed, placed.plan


def names_in(kernel: Kernel | None) -> frozenset[str]:
    """All names of a kernel, those of its tiles too."""
    return frozenset(names_in_kernel(kernel)) if kernel is not None else frozenset()


def _place(
    found: Hazards,
    prover: Prover,
    options: SyncOptions,
    racing: Pairs,
    taken: frozenset[str] = frozenset(),
    finish: Finish | None = None,
) -> Placed:
    target = prover.target
    found, trusted = trust(found, target, racing)
    asked = Options(
        options.strategy, options.remove_redundant, options.seconds, taken=taken, tighten_waits=options.tighten_waits
    )
    if options.least and not found.flow.graph.objects and asks_what_is_proved(options, found.flow.graph):
        asked = replace(asked, judge=BarrierJudge(found.flow.graph, target, find_slots(found.flow).weight))
    placed = choose_plan(found, prover, asked, options.merge_waits, by_path=options.loosen, finish=finish)
    if len(placed.unplaced) > len(found.unplaced):
        placed = _by_optimum(found, target, asked, placed)
    if trusted:
        note = f"{trusted} pair{'s' * (trusted != 1)} of accesses left to the barrier objects between them"
        placed.notes = (*placed.notes, note)
    return placed


def _by_optimum(found: Hazards, target: Target, asked: Options, placed: Placed) -> Placed:
    """A plan in which no wait is in time, or, where the exact search has a better one, that."""
    other = place(found, target, replace(asked, strategy=EXACT))
    if len(other.unplaced) >= len(placed.unplaced):
        return placed
    other.notes = (*other.notes, f"`{placed.strategy}` finds no place for a wait that is early enough: used `{EXACT}`")
    return other


def racing_in(session: Session, limits: Limits | None) -> Pairs:
    """Pairs of a program with barrier objects that race as it is: by proof, and where nothing is proved in runs."""
    if not session.graph.objects:
        return frozenset()
    found = session.verification
    if found.undecided:
        return frozenset(session.judged(limits or AS_GIVEN).pairs)
    return frozenset(pair for each in found.suspects for pair in ((each.x, each.y), (each.y, each.x)))


def trust(hazards: Hazards, target: Target, racing: Pairs) -> tuple[Hazards, int]:
    """Without the hazards that barrier objects order: each walk passes one, and the pair does not race as it is.

    What other barriers order is not theirs. A pair that is left out hides no other one: hazards are found anew.
    """
    flow = hazards.flow
    if not flow.graph.objects:
        return hazards, 0
    walks = Walks(flow, target, hazards.stagger)
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
        default = "`--atomics commute`, the default, leaves them unordered"
        notes.append(f"{pairs} ordered although they commute: {default}")
    return notes


# --- carrying it out ----------------------------------------------------------------------------------------------


def _apply(result: Synchronized) -> None:
    session = result.unit
    target = target_after(session)
    if _means(target) != session.target.name:
        named = target or default_target()
        result.notes = (
            *result.notes,
            f"the program is synchronized for {named}: its text cannot name the requested target",
        )
    if session.built is None:
        result.made = replace(session, given=replace(apply_to_graph(result.plan, session.graph), target=target))
        return
    kernel = replace(apply_plan(result.plan, session.built), target=target)
    if result.options.async_deps:
        kernel, notes = with_deps(kernel, session.target, result.options.stagger, result.options.atomics)
        result.notes = (*result.notes, *notes)
    result.made = session if kernel == session.kernel else replace(session, kernel=kernel)


def target_after(session: Session) -> str:
    """The target that the program names afterwards: what it was synchronized for, if a program can name that."""
    named, asked = session.program.target, session.target.name
    if not asked or asked not in known_targets():
        return named
    return named if _means(named) == asked else asked


def _means(name: str) -> str | None:
    """The target that a name in a program stands for."""
    try:
        return pick_target(name, None).name
    except BadInput:
        return None


# Footprints that were widened are found while hazards are: so both stages look for hazards, which are remembered.
PLAN: tuple[Stage[Planning], ...] = (
    Stage(
        "footprints",
        "the bytes that each access touches",
        _find_hazards,
        lambda work: show_footprints(work.hazards.footprints),
    ),
    Stage("hazards", "which accesses need an order", _find_hazards, lambda work: show_hazards(work.hazards)),
    Stage(
        "plan",
        "the edits: inserted, changed and removed operations",
        _make_plan,
        lambda work: show_plan(work.result.plan),
    ),
)
# The late stages are about the program that was written, as it was read back.
EARLY, LATE = CHECK[:2], CHECK[2:]
SYNC: tuple[Stage[Any], ...] = (*EARLY, *PLAN, *LATE)
