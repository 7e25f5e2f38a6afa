"""From a program with little or no synchronization to one that is correct: propose, apply, judge.

Needs   a program and its target
Gives   the plan with its reasons, the program with the plan carried out, and what the judge says of that
Keeps   the input is not changed; what no barrier can order is left to the judge, and reported if it races; what barrier
        objects order, as far as the judge can see, gets no other barrier
Cost    that of the stages; the judge takes most of it

    kernel or graph ─▶ footprints ─▶ hazards ─▶ placement ─▶ plan ─▶ the program, synchronized ─▶ judge
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tidegate.diag import BadInput, Finding
from tidegate.footprint.model import show_footprints
from tidegate.graph import model as g
from tidegate.graph.apply import apply_plan, apply_to_graph
from tidegate.graph.build import KernelGraph, build_graph
from tidegate.graph.flow import flow_of
from tidegate.graph.plan import Insert, Plan, show_plan
from tidegate.graph.show import show_graph
from tidegate.hazards.find import Hazards, find_hazards
from tidegate.hazards.show import show_hazards
from tidegate.language.ops import Kernel, SharedMemoryBarrier
from tidegate.language.show import show as show_kernel
from tidegate.passes import NOT_THERE, Checked, Show, Unit, run_stages
from tidegate.placement.place import STRATEGIES, Options, Placed, place
from tidegate.placement.trusted import by_objects
from tidegate.simulate.judge import Limits, Progress, judge
from tidegate.targets import Target

ATOMICS = ("order", "commute")


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """What to do, and how far to look afterwards."""

    strategy: str = ""
    atomics: str = "order"
    stagger: int = 0
    remove_redundant: bool = False
    force_barriers: bool = False
    bisect: int | None = None  # carry out only so many edits
    judge: bool = True
    seconds: float = 20.0

    def check(self) -> None:
        """Raises `BadInput` for what has no meaning."""
        if self.strategy and self.strategy not in STRATEGIES:
            raise BadInput(
                Finding("TG022", f"there is no strategy `{self.strategy}`", (), help=f"one of: {', '.join(STRATEGIES)}")
            )
        if self.atomics not in ATOMICS:
            raise BadInput(Finding("TG022", f"`--atomics {self.atomics}` means nothing", (), help="order or commute"))
        if self.stagger < 0:
            raise BadInput(Finding("TG022", f"a stagger cannot be {self.stagger}", ()))
        if self.bisect is not None and self.bisect < 0:
            raise BadInput(Finding("TG022", f"`--bisect {self.bisect}`: the number of edits is 0 or more", ()))


@dataclass(slots=True)
class Synchronized:
    """One program, before and after. `why_not`: why there is nothing after."""

    unit: Unit
    findings: list[Finding]  # of the program as it was given, without running it
    placed: Placed | None = None
    hazards: Hazards | None = None
    plan: Plan = field(default_factory=Plan)
    graph: g.SyncGraph | None = None  # as it was given
    after: g.SyncGraph | None = None
    kernel: Kernel | None = None  # after, if it was a kernel
    checked: Checked | None = None
    notes: tuple[str, ...] = ()
    why_not: str = ""

    @property
    def text(self) -> str:
        """The program after."""
        if self.kernel is not None:
            return show_kernel(self.kernel)
        assert self.after is not None
        return show_graph(self.after)


def synchronize_graph(graph: g.SyncGraph, target: Target, options: SyncOptions | None = None) -> Placed:
    """Hazards and placement for one graph; nothing is judged, nothing applied."""
    placed = _propose(graph, target, options or SyncOptions(), lambda *_: None, None)[1]
    assert placed is not None
    return placed


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
    """All stages in order, for one program."""
    options = options or SyncOptions()
    options.check()
    early = stop_after if stop_after in ("kernel", "graph") else "graph"
    seen = run_stages(unit, print_after=print_after, stop_after=early, show=show)
    result = Synchronized(unit, seen.findings)
    if any(each.is_bad_input for each in seen.findings) or stop_after in ("kernel", "graph"):
        result.why_not = seen.why_not
        return result
    if any(each.code in NOT_THERE for each in seen.findings):
        result.why_not = "the target does not have what the program uses"
        return result
    built = build_graph(unit.kernel, unit.target) if unit.kernel is not None else None
    graph = result.graph = built.graph if built else unit.graph
    assert graph is not None
    result.hazards, placed = _propose(graph, unit.target, options, show_if(show, print_after), limits, stop_after)
    if placed is None:
        result.why_not = f"stopped after `{stop_after}`"
        return result
    result.placed = placed
    plan = force(graph) if options.force_barriers else placed.plan
    result.plan = Plan(plan.edits[: options.bisect]) if options.bisect is not None else plan
    result.notes = (*placed.notes, *bisect_note(options, plan))
    if print_after == "plan":
        show("plan", show_plan(result.plan))
    _apply(result, built)
    if stop_after == "plan" or not options.judge:
        return result
    assert result.after is not None
    after = Unit(unit.name, unit.target, result.kernel, None if result.kernel else result.after)
    result.checked = run_stages(
        after,
        print_after=print_after if print_after == "judge" else None,
        stop_after=None,
        show=show,
        limits=limits,
        progress=progress,
    )
    return result


def show_if(show: Show, wanted: str | None) -> Show:
    """Shows one stage and no other."""
    return lambda stage, text: show(stage, text) if stage == wanted else None


def _propose(
    graph: g.SyncGraph,
    target: Target,
    options: SyncOptions,
    show: Show,
    limits: Limits | None,
    stop_after: str | None = None,
) -> tuple[Hazards, Placed | None]:
    flow = flow_of(graph)
    hazards = find_hazards(flow, target, atomics=options.atomics, stagger=options.stagger)
    show("footprints", show_footprints(hazards.footprints))
    show("hazards", show_hazards(hazards))
    if stop_after in ("footprints", "hazards"):
        return hazards, None
    hazards, trusted = trust(hazards, target, limits)
    placed = place(hazards, target, Options(options.strategy, options.remove_redundant, options.seconds))
    if trusted:
        note = f"{trusted} pair{'s' * (trusted != 1)} of accesses left to the barrier objects between them"
        placed.notes = (*placed.notes, note)
    return hazards, placed


def trust(hazards: Hazards, target: Target, limits: Limits | None) -> tuple[Hazards, int]:
    """Without the hazards that barrier objects order: each walk passes one, and the judge finds no race as it is."""
    if not hazards.flow.graph.objects:
        return hazards, 0
    passing = by_objects(hazards, target)
    if not passing:
        return hazards, 0
    racing = judge(hazards.flow.graph, target, limits).pairs
    origin = hazards.flow.origin
    kept = []
    for hazard in hazards.hazards:
        ends = (origin[hazard.producer], origin[hazard.consumer])
        if hazard not in passing or ends in racing or ends[::-1] in racing:
            kept.append(hazard)
    return replace(hazards, hazards=tuple(kept)), len(hazards.hazards) - len(kept)


def force(graph: g.SyncGraph) -> Plan:
    """A barrier that drains everything before every access that all waves come to, whether needed or not."""
    return Plan(
        tuple(
            Insert(number, SharedMemoryBarrier(wait_async_ops=True), ("forced",))
            for number, point in enumerate(graph.points)
            if isinstance(point.action, g.Access | g.Unknown) and point.insertable and point.under == "uniform"
        )
    )


def bisect_note(options: SyncOptions, plan: Plan) -> tuple[str, ...]:
    if options.bisect is None:
        return ()
    return (f"{min(options.bisect, len(plan.edits))} of {len(plan.edits)} edits carried out",)


def _apply(result: Synchronized, built: KernelGraph | None) -> None:
    assert result.graph is not None
    if built is not None:
        result.kernel = apply_plan(result.plan, built)
        result.after = build_graph(result.kernel, result.unit.target).graph
    else:
        result.after = apply_to_graph(result.plan, result.graph)
