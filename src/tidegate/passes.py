"""The pipeline, read top to bottom.

Needs   a loaded file and a target
Gives   what each stage makes, as text if asked, and findings
Keeps   a stage sees only what stands before it here
Cost    that of the stages
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from tidegate.adapters.hosts import host_programs
from tidegate.collecting import no_collecting
from tidegate.diag import BadInput, Finding, Label, closest
from tidegate.files import Loaded
from tidegate.graph.model import SyncGraph, ends_some_lanes
from tidegate.graph.plan import Plan
from tidegate.language.ops import Kernel
from tidegate.targets import Target, default_target, load_target

if TYPE_CHECKING:
    from tidegate.assumptions import Assumption
    from tidegate.simulate.judge import Judgement, Limits, Progress
    from tidegate.verify.ground import Ground
    from tidegate.verify.model import Suspect, Verification
    from tidegate.verify.stale import Stale

# Each stage, and what it prints after it has run.
STAGES = {
    "kernel": "the kernel as `.tide` text",
    "graph": "the SyncGraph as `.sync` text",
    "footprints": "which bytes each access touches",
    "hazards": "which accesses need an order",
    "plan": "what is put in, changed and taken away",
    "verify": "what is proved, or what stands in the way of a proof",
    "judge": "what was run, and what that covers",
}
# The stages of each command.
SHOW_STAGES = ("kernel", "graph")
CHECK_STAGES = ("kernel", "graph", "verify", "judge")
SYNC_STAGES = ("kernel", "graph", "footprints", "hazards", "plan", "verify", "judge")

Show = Callable[[str, str], None]
Pairs = set[tuple[int, int]]  # of points

# Of the suspects of a program those that have to be shown; None: all that the program does counts.
Narrow = Callable[["SyncGraph", "Verification"], "tuple[Suspect, ...] | None"]

# Synchronization that the target does not have: there is no machine on which the program could be judged.
NOT_THERE = {"TG206", "TG210", "TG305", "TG307"}
# A question to isl takes as long as so many steps of the simulator.
QUERY_COSTS = 30
NO_MORE_TRIPS = "no more trips than that"
# Accesses that leave their buffers: what they touch instead is not known, and nothing is proved about it.
OUTSIDE = {"TG301", "TG304"}
# Whether waves meet at the workgroup's barrier: seen in the shape of a kernel, and in the runs of a graph.
PROTOCOL = {"TG201", "TG202", "TG203", "TG204", "TG205", "TG207", "TG208"}


class Origin(Protocol):
    """A program of another compiler, of which a graph was made."""

    @property
    def said(self) -> tuple[str, ...]:
        """How it was taken, where that is not just as it stands: a line for each deviation."""

    def findings(self) -> list[Finding]:
        """What is taken for worse than it may be."""

    @property
    def unmodelled(self) -> tuple[str, ...]:
        """What it does that no graph says: nothing is proved of it then. `assumed`: what its graph relies on."""

    @property
    def assumed(self) -> frozenset[Assumption]: ...

    def possible(self, plan: Plan) -> Plan:
        """A plan without the edits that only loosen and that the program's text has no way to say."""

    def with_sources(self, finding: Finding) -> Finding:
        """A finding with the places of the source that it comes from."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One kernel or graph on its way through the stages."""

    name: str
    target: Target
    kernel: Kernel | None
    graph: SyncGraph | None
    origin: Origin | None = None  # what the graph was made of
    note: str = ""  # that the file names another target than the one asked for
    ground: Ground | None = None  # what proofs of programs that differ in synchronization alone have left


def units_of(loaded: Loaded, target: str | None) -> list[Unit]:
    """The programs of a file, each with its target: the one asked for, else the one it names, else the default."""
    units = [Unit(each.name, _target_of(each, target), each, None) for each in loaded.kernels]
    if loaded.graph is not None:
        units.append(Unit(loaded.graph.name, pick_target(loaded.graph.target, target), None, loaded.graph))
    hosts = host_programs(loaded.ttgir, loaded.ptx, target)
    return [*units, *(Unit(host.name, host.target, None, graph, host, host.retargeted) for host, graph in hosts)]


def _target_of(kernel: Kernel, asked: str | None) -> Target:
    """As `pick_target`; a name that the kernel gives is a mistake in the kernel."""
    try:
        return pick_target(kernel.target, asked)
    except BadInput as bad:
        if asked is not None or not kernel.at.line:
            raise
        label = Label(kernel.at, f"for `{kernel.target}`")
        raise BadInput(*(replace(each, labels=each.labels or (label,)) for each in bad.findings)) from None


def pick_target(named: str, asked: str | None) -> Target:
    if asked is not None:
        return load_target("" if asked == "none" else asked)
    return load_target(named or default_target())


def check_stage(name: str | None, stages: Sequence[str] = CHECK_STAGES) -> None:
    """Raises `BadInput` for a stage that does not exist, or not for this command."""
    if name is not None and name not in stages:
        meant = closest(name, stages)
        known = "; ".join(f"`{stage}`: {STAGES[stage]}" for stage in stages)
        raise BadInput(
            Finding("TG007", f"there is no stage `{name}`", (), help=f"did you mean `{meant}`?" if meant else known)
        )


@dataclass(slots=True)
class Checked:
    """What the stages found: what the verifier proved, what the judge ran, or why neither was asked.

    What is proved is not run; what is not, is.
    """

    findings: list[Finding]
    judgement: Judgement | None = None
    why_not: str = ""
    verification: Verification | None = None
    graph: SyncGraph | None = None
    assumptions: tuple[Assumption, ...] = ()  # that the verdict holds under
    shown: int = 0  # suspects of the verifier that the simulator shows
    refuted: int = 0  # and that cannot be, since it has gone through everything
    replays: int = 0  # runs of the judge beside the first, with the sizes of a witness
    unmodelled: tuple[str, ...] = ()  # what the program does that no graph says
    replayed: int = 0  # steps that these took
    narrowed: bool = False  # whether only some suspects were run: the program had the others before it was changed

    @property
    def work(self) -> int:
        """What it took to decide, in steps of the simulator."""
        ran = self.judgement.cost if self.judgement is not None else 0
        asked = self.verification
        return ran + self.replayed + (QUERY_COSTS * asked.queries + 2 * asked.visits if asked is not None else 0)

    @property
    def is_proved(self) -> bool:
        """Whether no run was needed, and no access is known to leave its buffer."""
        proved = self.verification is not None and self.verification.is_proved and self.judgement is None
        return proved and not self.outside

    @property
    def is_clean(self) -> bool:
        """Whether it is proved, or everything was run and nothing wrong was found."""
        wrong = any(each.severity == "error" for each in self.findings)
        return self.is_proved or (self.judgement is not None and self.is_decided and not wrong)

    @property
    def outside(self) -> str:
        """The code with which an access leaves its buffer, if one does."""
        return next((each.code for each in self.findings if each.code in OUTSIDE), "")

    @property
    def is_decided(self) -> bool:
        """Whether anything was said about races and hangs."""
        proved = self.verification is not None and self.verification.is_proved and self.judgement is None
        return proved or (self.judgement is not None and bool(self.judgement.runs))


def run_stages(
    unit: Unit,
    *,
    print_after: str | None,
    stop_after: str | None,
    show: Show,
    limits: Limits | None = None,
    progress: Progress | None = None,
    prove: bool = True,
    narrow: Narrow | None = None,
) -> Checked:
    """All stages in order; findings that leave no meaning end it. Without `prove` everything is left to the judge."""
    with no_collecting():
        checked = _run_stages(unit, print_after, stop_after, show, limits, progress, prove, narrow)
    if unit.origin is not None:
        checked.findings = [*map(unit.origin.with_sources, (*unit.origin.findings(), *checked.findings))]
    return checked


def check_unit(unit: Unit, limits: Limits | None = None, narrow: Narrow | None = None) -> Checked:
    """All stages, for those who want nothing but what they find."""
    return run_stages(unit, print_after=None, stop_after=None, show=lambda *_: None, limits=limits, narrow=narrow)


def _run_stages(
    unit: Unit,
    print_after: str | None,
    stop_after: str | None,
    show: Show,
    limits: Limits | None,
    progress: Progress | None,
    prove: bool,
    narrow: Narrow | None,
) -> Checked:
    findings: list[Finding] = []
    graph = unit.graph
    if unit.kernel is not None:
        from tidegate.language.check import check
        from tidegate.language.show import show as show_text

        if print_after == "kernel":
            show("kernel", show_text(unit.kernel))
        findings += check(unit.kernel, unit.target)
        if stop_after == "kernel" or any(each.is_bad_input for each in findings):
            return Checked(findings, why_not=_why_not(findings, stop_after))
        from tidegate.graph.build import build_graph

        graph = build_graph(unit.kernel, unit.target).graph
    assert graph is not None
    from tidegate.graph.fit import find_graph_misfits
    from tidegate.graph.show import show_graph
    from tidegate.graph.wellformed import check_graph

    findings += check_graph(graph)
    if print_after == "graph":
        show("graph", show_graph(graph))
    if unit.kernel is None and not any(each.is_bad_input for each in findings):
        findings += find_graph_misfits(graph, unit.target, lowered=unit.origin is not None)
    if stop_after == "graph" or any(each.is_bad_input or each.code in NOT_THERE for each in findings):
        return Checked(findings, why_not=_why_not(findings, stop_after))
    from tidegate.verify.model import Verification
    from tidegate.verify.say import show_verification
    from tidegate.verify.say_threads import thread_findings
    from tidegate.verify.verify import verify

    stale = _stale(graph, unit.target)
    verification = Verification(undecided=("nobody was asked to",))
    if prove:  # that a kernel stays in its memory has been seen in its shape; Triton sees to that of its own
        memory = unit.kernel is None and unit.origin is None
        verification = verify(graph, unit.target, memory=memory, ground=unit.ground)
    # What is not modelled may order a suspect that threads show; of waves a run decides.
    if unit.origin is not None and unit.origin.unmodelled and (graph.maps or not verification.suspects):
        verification = Verification(undecided=unit.origin.unmodelled)
    if print_after == "verify":
        show("verify", show_verification(verification, graph))
    if verification.is_proved:  # the shape of a kernel does not tell what its guards exclude
        findings = [each for each in findings if each.code not in PROTOCOL]
    checked = Checked(findings, None, "", verification, graph, _assumptions(unit, graph, verification))
    checked.unmodelled = unit.origin.unmodelled if unit.origin is not None else ()
    if stop_after == "verify":
        checked.why_not = _why_not(findings, stop_after)
        checked.findings += _possible(verification.suspects, graph, lambda _: "nothing was run", limits)
        checked.findings += _stale_findings(stale, graph)
        return checked
    if verification.is_proved and not verification.doubts and not (limits is not None and limits.count):
        if print_after == "judge":
            show("judge", "not run: there is nothing left to decide")
        if stale:  # whether the conditions on the way allow that is seen in runs
            from tidegate.simulate.judge import judge

            checked.findings += _stale_findings(stale, graph, judge(graph, unit.target, limits, progress))
        return checked
    if graph.maps:  # the simulator knows waves, and no threads
        checked.findings += thread_findings(verification, graph)
        return checked
    left = narrow(graph, verification) if narrow is not None and not stale else None
    _run(checked, unit.target, limits, progress, left)
    checked.findings += _stale_findings(stale, graph, checked.judgement)
    if print_after == "judge" and checked.judgement is not None:
        show("judge", checked.judgement.show())
    return checked


def _assumptions(unit: Unit, graph: SyncGraph, verification: Verification) -> tuple[Assumption, ...]:
    from tidegate.assumptions import find_assumptions

    # The shape of a kernel shows that it stays in its memory; a graph was asked, and Triton sees to its own.
    in_range = unit.kernel is not None or (unit.origin is None and not verification.doubts)
    leans = verification.leans_on_lanes or not verification.is_proved
    return find_assumptions(graph, unit.target, kernel=unit.kernel, in_range=in_range, leans=leans, host=unit.origin)


def _stale(graph: SyncGraph, target: Target) -> list[Stale]:
    """Counts that do not wait for what stands beside them, if conditions are free."""
    from tidegate.graph.flow import flow_of
    from tidegate.verify.stale import claims, find_stale

    if not any(claims(point.action) for point in graph.points):
        return []
    return find_stale(flow_of(graph), target)


def _stale_findings(stale: list[Stale], graph: SyncGraph, judgement: Judgement | None = None) -> list[Finding]:
    """Those that a run shows; all where nothing was run."""
    from tidegate.verify.say import stale_findings

    if judgement is not None and judgement.runs:
        stale = [each for each in stale if each.wait in judgement.late]
    return stale_findings(stale, graph)


def _run(
    checked: Checked, target: Target, limits: Limits | None, progress: Progress | None, only: tuple[Suspect, ...] | None
) -> None:
    """Runs what is not proved: each suspect, or `only` some, is shown again, with its own sizes if need be."""
    from tidegate.simulate.judge import AT_ONCE, judge

    assert checked.graph is not None and checked.verification is not None  # noqa: PT018
    limits, asked = limits or AT_ONCE, checked.verification
    suspects, checked.narrowed = asked.suspects if only is None else only, only is not None
    if only == ():
        return
    wanted = {(each.x, each.y, each.within_a_wave) for each in suspects}
    others = {(each.x, each.y) for each in asked.suspects} - {(x, y) for x, y, _ in wanted}
    limits = replace(limits, shown=frozenset(others | {(y, x) for x, y in others}))
    if not (asked.undecided or limits.count):  # else anything may be wrong
        limits = replace(limits, wanted=None if asked.doubts else frozenset(wanted), sample=True)
    checked.judgement = judgement = judge(checked.graph, target, limits, progress)
    known = checked.findings
    checked.findings = [*known, *_new(judgement, known)]
    if limits.sizes:  # no others were asked for
        return
    pairs = set(judgement.pairs)
    hidden = sum(not _is_among(suspect, pairs) for suspect in suspects)
    steps = limits.steps // 2 // max(1, min(hidden, limits.replays))
    left: list[Suspect] = []
    for suspect in suspects:
        if not _is_among(suspect, pairs) and not (limits.first and pairs):
            again = _replay(checked, suspect, target, limits, steps, pairs)
            pairs |= again.pairs
            found = {(each.code, each.at, each.message) for each in checked.findings} if again.findings else set()
            checked.findings += [each for each in _new(again, known) if (each.code, each.at, each.message) not in found]
        if _is_among(suspect, pairs):
            checked.shown += 1
        elif (
            not judgement.bounded and judgement.runs and not (suspect.within_a_wave and ends_some_lanes(checked.graph))
        ):
            checked.refuted += 1  # everything was run
        else:
            left.append(suspect)
    checked.findings += _possible(left, checked.graph, lambda each: _why_not_shown(each, checked), limits)


def _why_not_shown(suspect: Suspect, checked: Checked) -> str:
    assert checked.judgement is not None and checked.graph is not None  # noqa: PT018
    if bounded := [each for each in checked.judgement.bounded if each != NO_MORE_TRIPS]:
        return f"not everything was run ({bounded[0]})"
    sizes = [f"{each.name} = {value}" for each in checked.graph.sizes if (value := suspect.point.value(each.name))]
    return f"runs with {', '.join(sizes)} are in order" if sizes else "no run comes there, or bytes were widened"


def _is_among(suspect: Suspect, pairs: Pairs) -> bool:
    return (suspect.x, suspect.y) in pairs or (suspect.y, suspect.x) in pairs


def _replay(checked: Checked, suspect: Suspect, target: Target, limits: Limits, steps: int, pairs: Pairs) -> Judgement:
    """With what the witness names, until it is shown; what that leaves open is decided in every way."""
    from tidegate.simulate.judge import Judgement, judge

    assert checked.graph is not None
    if checked.replays >= limits.replays or checked.replayed > limits.steps // 2:
        return Judgement()  # before the witness is looked for: that takes isl longer than the proof
    names = {each.name for each in checked.graph.sizes} | {each.name for each in checked.graph.free}
    sizes = tuple((name, value) for name, value in suspect.point.values if name in names)
    if not sizes:
        return Judgement()
    checked.replays += 1
    wanted = frozenset(((suspect.x, suspect.y, suspect.within_a_wave),))
    limits = replace(limits, sizes=sizes, few=True, steps=steps, wanted=wanted, enough=0, sample=False)
    found = judge(checked.graph, target, replace(limits, shown=limits.shown | pairs))
    checked.replayed += found.cost
    return found


def _possible(
    suspects: Sequence[Suspect], graph: SyncGraph, why_not: Callable[[Suspect], str], limits: Limits | None
) -> list[Finding]:
    """A finding for each suspect; of many with one cause the first stand for all, since each takes a witness."""
    from tidegate.simulate.judge import AT_ONCE
    from tidegate.verify.say import cause_of, possible

    alike: dict[str, list[Suspect]] = {}
    for each in suspects:
        alike.setdefault(cause_of(each), []).append(each)
    most = (limits or AT_ONCE).alike
    found: list[Finding] = []
    for group in alike.values():
        written = [possible(each, graph, why_not(each)) for each in (group[:most] if most else group)]
        found += [replace(written[0], count=1 + len(group) - len(written)), *written[1:]]
    return found


def _why_not(findings: list[Finding], stop_after: str | None) -> str:
    bad = any(each.is_bad_input for each in findings)
    return (
        "the program has no meaning"
        if bad
        else f"stopped after `{stop_after}`"
        if stop_after
        else "the target does not have what the program uses"
    )


def _new(judgement: Judgement, known: list[Finding]) -> list[Finding]:
    """What the judge adds to what was found without running: not the same mistake again, nor the hang it leads to.

    The shape of a kernel says better where a mistake with the workgroup's barrier comes from; in a run the same mistake
    often has another code.
    """
    places = {(code, each.at.line) for each in known for code in (each.code, *["TG301"] * (each.code == "TG304"))}
    protocol = any(each.code in PROTOCOL for each in known)
    barriers = any(each.code.startswith("TG2") for each in known)
    return [
        each
        for each in judgement.findings
        if (each.code, each.at.line) not in places
        and not (protocol and each.code in PROTOCOL)
        and not (barriers and each in judgement.at_the_barrier)
    ]
