"""What is wrong with a program: the stages of `check`, read top to bottom.

Needs   a session
Gives   `Checked`: findings, the proof or what was run; what each stage makes, as text if asked
Keeps   a stage sees only what stands before it in the tuple. What is proved is not run; what is not, is
Cost    that of the stages; what the session has computed already costs nothing
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tidegate.collecting import no_collecting
from tidegate.diag import BadInput, Finding, closest
from tidegate.graph.model import SyncGraph, ends_some_lanes
from tidegate.replays import judge_with
from tidegate.session import Session
from tidegate.targets import Target

if TYPE_CHECKING:
    from tidegate.assumptions import Assumption
    from tidegate.simulate.judge import Judgement, Limits, Progress
    from tidegate.verify.model import Suspect, Verification

Show = Callable[[str, str], None]
Pairs = set[tuple[int, int]]  # of points

# Of the suspects of a program those that have to be shown; None: all that the program does counts.
Narrow = Callable[["SyncGraph", "Verification"], "tuple[Suspect, ...] | None"]

# Synchronization that the target does not have: there is no machine on which the program could be judged.
NOT_THERE = {"TG206", "TG210", "TG305", "TG307"}
# A question to isl takes as long as so many steps of the simulator.
QUERY_COSTS = 30
NO_MORE_TRIPS = "no larger trip counts"
# Accesses that leave their buffers: what they touch instead is not known, and nothing is proved about it.
OUTSIDE = {"TG301", "TG304"}
# Whether waves meet at the workgroup's barrier: seen in the shape of a kernel, and in the runs of a graph.
PROTOCOL = {"TG201", "TG202", "TG203", "TG204", "TG205", "TG207", "TG208"}

Work = TypeVar("Work")


@dataclass(frozen=True, slots=True)
class Stage(Generic[Work]):
    """`run` says whether what comes next has something to work on; `show` what `--print-after` prints, None: nothing.

    `about`: that in a few words."""

    name: str
    about: str
    run: Callable[[Work], bool]
    show: Callable[[Work], str | None]


def finder(name: str, about: str, find: Callable[[SyncGraph], list[Finding]]) -> Stage[Checking]:
    """The stage of a pass that reads the graph and gives findings."""

    def run(work: Checking) -> bool:
        work.checked.findings += find(work.session.graph)
        return True

    def show(work: Checking) -> str:
        return "\n".join(f"{each.at}: {each.message}" for each in find(work.session.graph)) or "none"

    return Stage(name, about, run, show)


def run_in_order(
    stages: Sequence[Stage[Work]], work: Work, print_after: str | None, stop_after: str | None, show: Show
) -> str | None:
    """Gives the name of the stage that was the last, if not all of them were run."""
    for stage in stages:
        goes_on = stage.run(work)
        if stage.name == print_after and (text := stage.show(work)) is not None:
            show(stage.name, text)
        if stage is not stages[-1] and (not goes_on or stage.name == stop_after):
            return stage.name
    return None


def check_stage(name: str | None, stages: Sequence[Stage[Work]]) -> None:
    """Raises `BadInput` for a stage that does not exist, or not for this command."""
    names = names_of(stages)
    if name is not None and name not in names:
        meant = closest(name, names)
        known = "; ".join(f"`{each.name}`: {each.about}" for each in stages)
        raise BadInput(
            Finding("TG007", f"there is no stage `{name}`", (), help=f"did you mean `{meant}`?" if meant else known)
        )


def names_of(stages: Sequence[Stage[Work]]) -> tuple[str, ...]:
    return tuple(each.name for each in stages)


@dataclass(slots=True)
class Checked:
    """What the stages found: what the verifier proved, what the judge ran, or why neither was asked.

    What is proved is not run; what is not, is.
    """

    findings: list[Finding]
    judgement: Judgement | None = None
    why_not: str = ""
    verification: Verification | None = None
    session: Session | None = None  # what was verified
    assumptions: tuple[Assumption, ...] = ()  # that the verdict holds under
    shown: int = 0  # suspects of the verifier that the simulator shows
    refuted: int = 0  # and that cannot be, since it has gone through everything
    replays: int = 0  # runs of the judge beside the first, with the sizes of a witness
    unmodelled: tuple[str, ...] = ()  # what the program does that no graph says
    replayed: int = 0  # steps that these took
    narrowed: bool = False  # whether only some suspects were run: the program had the others before it was changed

    @property
    def graph(self) -> SyncGraph | None:
        return self.session.graph if self.session is not None else None

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


@dataclass(slots=True)
class Checking:
    """One program on its way through the stages of `check`. Without `prove` everything is left to the judge."""

    session: Session
    limits: Limits | None = None
    progress: Progress | None = None
    prove: bool = True
    narrow: Narrow | None = None
    checked: Checked = field(default_factory=lambda: Checked([]))

    @property
    def proof(self) -> Verification:
        assert self.checked.verification is not None
        return self.checked.verification

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left for a run to decide."""
        proof = self.proof
        return proof.is_proved and not proof.doubts and not (self.limits is not None and self.limits.count)


@no_collecting()
def run_stages(
    session: Session,
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
    work = Checking(session, limits, progress, prove, narrow)
    checked, origin = work.checked, session.origin
    stages = CHECK if session.kernel is not None else CHECK[1:]
    last = run_in_order(stages, work, print_after, stop_after, show)
    if last == "verify":
        checked.findings += _possible(work.proof.suspects, session.graph, lambda _: "nothing was run", limits)
        checked.findings += _stale_findings(session)
    if last is not None:
        checked.why_not = _why_not(checked.findings, stop_after)
    if origin is not None:
        checked.findings = [*map(origin.with_sources, (*origin.findings(), *checked.findings))]
    return checked


def check_session(
    session: Session,
    limits: Limits | None = None,
    narrow: Narrow | None = None,
    *,
    prove: bool = True,
    simulate: bool = True,
) -> Checked:
    """All stages, for those who want nothing but what they find. Without `simulate` nothing is run."""
    stop = None if simulate else "verify"
    how: dict[str, Any] = {"limits": limits, "narrow": narrow, "prove": prove}
    return run_stages(session, print_after=None, stop_after=stop, show=lambda *_: None, **how)


# --- the kernel and the graph -------------------------------------------------------------------------------------


def _check_kernel(work: Checking) -> bool:
    work.checked.findings += work.session.of_kernel
    return not _is_meaningless(work.checked.findings)


def _show_kernel(work: Checking) -> str | None:
    from tidegate.language.show import show

    return show(work.session.kernel) if work.session.kernel is not None else None


def _check_graph(work: Checking) -> bool:
    findings = work.checked.findings
    findings += work.session.of_graph
    return not _is_meaningless(findings) and not any(each.code in NOT_THERE for each in findings)


def _show_graph(work: Checking) -> str:
    from tidegate.graph.show import show_graph

    return show_graph(work.session.graph)


def _is_meaningless(findings: Sequence[Finding]) -> bool:
    return any(each.is_bad_input for each in findings)


# --- the proof ----------------------------------------------------------------------------------------------------


def _verify(work: Checking) -> bool:
    from tidegate.verify.model import Verification
    from tidegate.verify.say import accepted

    session, checked, origin = work.session, work.checked, work.session.origin
    graph = session.graph
    verification = session.verification if work.prove else Verification(undecided=("no proof was requested",))
    # What is not modelled may order a suspect that threads show; of waves a run decides.
    if origin is not None and origin.unmodelled and (graph.maps or not verification.suspects):
        verification = Verification(undecided=origin.unmodelled)
    if verification.is_proved:  # the shape of a kernel does not tell what its guards exclude
        checked.findings = [each for each in checked.findings if each.code not in PROTOCOL]
    checked.verification, checked.session = verification, session
    checked.assumptions = _assumptions(session, verification)
    checked.findings += accepted(session.turned_down or (), session.graph)
    checked.unmodelled = origin.unmodelled if origin is not None else ()
    return True


def _show_proof(work: Checking) -> str:
    from tidegate.verify.say import show_verification

    return show_verification(work.proof, work.session.graph)


def _assumptions(session: Session, verification: Verification) -> tuple[Assumption, ...]:
    from tidegate.assumptions import find_assumptions

    graph, kernel, origin = session.graph, session.kernel, session.origin
    # The shape of a kernel shows that it stays in its memory; a graph was asked, and Triton sees to its own.
    in_range = kernel is not None or (origin is None and not verification.doubts and not verification.outside)
    leans = verification.leans_on_lanes or not verification.is_proved
    allows, target = session.turned_down is not None, session.target
    how: dict[str, Any] = {"in_range": in_range, "leans": leans, "allows": allows}
    return find_assumptions(graph, target, kernel=kernel, host=origin, **how)


# --- runs ---------------------------------------------------------------------------------------------------------


def _judge(work: Checking) -> bool:
    from tidegate.simulate.judge import judge
    from tidegate.verify.say_threads import thread_findings

    session, checked = work.session, work.checked
    if work.is_settled:
        if session.stale:  # whether the conditions on the way allow that is seen in runs
            ran = judge(session.graph, session.target, work.limits, work.progress)
            checked.findings += _stale_findings(session, ran)
    elif session.graph.maps:  # the simulator knows waves, and no threads
        checked.findings += thread_findings(work.proof, session.graph)
    else:
        left = work.narrow(session.graph, work.proof) if work.narrow is not None and not session.stale else None
        _run(checked, session.target, work.limits, work.progress, left)
        checked.findings += _stale_findings(session, checked.judgement)
    return True


def _show_runs(work: Checking) -> str | None:
    if work.is_settled:
        return "not run: nothing is left to decide"
    return work.checked.judgement.show() if work.checked.judgement is not None else None


def _stale_findings(session: Session, judgement: Judgement | None = None) -> list[Finding]:
    """Those that a run shows; all where nothing was run."""
    from tidegate.verify.say import stale_findings

    stale = [*session.stale]
    if judgement is not None and judgement.runs:
        stale = [each for each in stale if each.wait in judgement.late]
    return stale_findings(stale, session.graph)


def _run(
    checked: Checked, target: Target, limits: Limits | None, progress: Progress | None, only: tuple[Suspect, ...] | None
) -> None:
    """Runs what is not proved: each suspect, or `only` some, is shown again, with its own sizes if need be."""
    from tidegate.simulate.judge import AT_ONCE, WITH_OBJECTS

    assert checked.session is not None and checked.graph is not None and checked.verification is not None  # noqa: PT018
    limits, asked = limits or AT_ONCE, checked.verification
    if checked.graph.objects and limits == AT_ONCE:
        limits = WITH_OBJECTS
    suspects, checked.narrowed = asked.suspects if only is None else only, only is not None
    if only == ():
        return
    wanted = {(each.x, each.y, each.within_a_wave) for each in suspects}
    others = {(each.x, each.y) for each in asked.suspects} - {(x, y) for x, y, _ in wanted}
    limits = replace(limits, shown=frozenset(others | {(y, x) for x, y in others}))
    if not (asked.undecided or limits.count):  # else anything may be wrong
        limits = replace(limits, wanted=None if asked.doubts or asked.outside else frozenset(wanted), sample=True)
    checked.judgement = judgement = checked.session.judged(limits, progress)
    known = checked.findings
    checked.findings = [*known, *_new(judgement, known)]
    if limits.sizes:  # no others were asked for
        return
    _show_broken(checked, target, limits)
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
        elif not judgement.bounded and judgement.runs and asked.is_for_runs(suspect, ends_some_lanes(checked.graph)):
            checked.refuted += 1  # everything was run
        else:
            left.append(suspect)
    checked.findings += _possible(left, checked.graph, lambda each: _why_not_shown(each, checked), limits)


def _why_not_shown(suspect: Suspect, checked: Checked) -> str:
    assert checked.judgement is not None and checked.graph is not None  # noqa: PT018
    if bounded := [each for each in checked.judgement.bounded if each != NO_MORE_TRIPS]:
        return f"the simulation was bounded ({bounded[0]})"
    sizes = [f"{each.name} = {value}" for each in checked.graph.sizes if (value := suspect.point.value(each.name))]
    return f"runs with {', '.join(sizes)} show no error" if sizes else "no run reaches it, or bytes were widened"


def _is_among(suspect: Suspect, pairs: Pairs) -> bool:
    return (suspect.x, suspect.y) in pairs or (suspect.y, suspect.x) in pairs


def _replay(checked: Checked, suspect: Suspect, target: Target, limits: Limits, steps: int, pairs: Pairs) -> Judgement:
    """With what the witness names, until it is shown; what that leaves open is decided in every way."""
    from tidegate.simulate.judge import Judgement

    assert checked.graph is not None
    if checked.replays >= limits.replays or checked.replayed > limits.steps // 2:
        return Judgement()  # before the witness is looked for: that takes isl longer than the proof
    wanted = frozenset(((suspect.x, suspect.y, suspect.within_a_wave),))
    limits = replace(limits, steps=steps, wanted=wanted, shown=limits.shown | pairs)
    if (found := judge_with(checked.graph, target, limits, suspect.point.values)) is None:
        return Judgement()
    checked.replays, checked.replayed = checked.replays + 1, checked.replayed + found.cost
    return found


def _show_broken(checked: Checked, target: Target, limits: Limits) -> None:
    """Runs with the sizes with which an obligation of the proof does not hold, if no other run has shown anything."""
    assert checked.graph is not None and checked.verification is not None  # noqa: PT018
    if any(each.severity == "error" for each in checked.findings):
        return
    found = judge_with(checked.graph, target, replace(limits, first=True), checked.verification.shows)
    if found is not None:
        checked.findings = [*checked.findings, *_new(found, checked.findings)]
        checked.replays, checked.replayed = checked.replays + 1, checked.replayed + found.cost


def _possible(
    suspects: Sequence[Suspect], graph: SyncGraph, why_not: Callable[[Suspect], str], limits: Limits | None
) -> list[Finding]:
    from tidegate.simulate.judge import AT_ONCE
    from tidegate.verify.say import all_possible

    return all_possible(suspects, graph, why_not, (limits or AT_ONCE).alike)


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


CHECK: tuple[Stage[Checking], ...] = (
    Stage("kernel", "the kernel as `.tide` text", _check_kernel, _show_kernel),
    Stage("graph", "the SyncGraph as `.sync` text", _check_graph, _show_graph),
    Stage("verify", "what is proved, or what prevents a proof", _verify, _show_proof),
    Stage("judge", "what was run, and what the runs cover", _judge, _show_runs),
)
SHOW = CHECK[:2]  # what `show` prints
