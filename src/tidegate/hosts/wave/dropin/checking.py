"""Are the barriers of a Wave trace enough? The verifier asked, for any trace, whoever put them in.

Needs   a trace; its constraints and sizes, or that it was compiled while Tidegate listened
Gives   a result that is true only if the trace is proved. Its findings: races with both places and a witness, hangs,
        operations that nobody has described; with advice, also barriers that nothing needs
Keeps   places are those of the Wave source, where Wave has kept them; the nodes are named too
Cost    that of the verifier; what is not proved is run by the simulator
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from tidegate.assumptions import Assumption
from tidegate.decided import verdict_on
from tidegate.diag import BadInput, Finding, Label, Span
from tidegate.graph.plan import Plan
from tidegate.hosts.wave.build import Built, build
from tidegate.hosts.wave.context import Context, context_of
from tidegate.passes import Checked, check_session
from tidegate.results import CheckResult
from tidegate.session import Session
from tidegate.targets import Target, load_target


@dataclass(frozen=True, slots=True)
class Known:
    """What a trace was compiled with."""

    context: Context
    target: str
    kernel: str


_known: WeakKeyDictionary[Any, Known] = WeakKeyDictionary()


def remember(trace: Any, context: Context, target: str, kernel: str) -> None:
    """Keeps what `check` needs, as long as the trace lives."""
    _known[trace] = Known(context, target, kernel)


def check(
    trace: Any,
    target: str | None = None,
    *,
    constraints: Iterable[Any] | None = None,
    sizes: dict[Any, Any] | None = None,
    advice: bool = False,
) -> CheckResult:
    """What is wrong with the synchronization of a trace, whoever put it there; nothing is changed.

    The result is true if the trace is proved, and iterates over its findings. No findings are no proof: a trace that
    the verifier leaves open was run up to a bound, and is false even if the runs found nothing. `verdict` says in words
    what was decided.

    `target`: the one it was compiled for, if nobody says otherwise. `constraints` and `sizes` are needed only for a
    trace that was compiled while nobody listened; sizes are Wave's `options.subs`. With `advice`, also barriers and
    waits that nothing needs: findings that are warnings.
    """
    program = trace_program(trace, target, constraints=constraints, sizes=sizes)
    checked = check_program(program, advice=advice)
    return CheckResult(program.name, verdict_on(checked), checked)


@dataclass(frozen=True, slots=True)
class WaveProgram:
    """A trace as the stages take it."""

    trace: Any
    context: Context
    target: Target
    built: Built
    name: str

    @property
    def said(self) -> tuple[str, ...]:
        return ()

    @property
    def unmodelled(self) -> tuple[str, ...]:
        cluster = ("workgroups of a cluster, which are not modelled",) if self.context.mapped > 1 else ()
        return (*cluster, *(f"`{each.node.name}`: {each.why}" for each in self.built.unmodelled))

    @property
    def assumed(self) -> frozenset[Assumption]:
        return frozenset()

    @property
    def is_final(self) -> bool:
        return False

    def findings(self) -> list[Finding]:
        """Operations that are taken for worse than they may be."""
        found = [
            Finding("TG407", f"`{each.node.name}`: {each.why}", (Label(self.place(each.node)),))
            for each in (*self.built.unclear, *self.built.unmodelled)
        ]
        if self.context.mapped > 1:
            message = "the workgroups of a cluster share memory: only accesses within one workgroup were checked"
            found.append(Finding("TG407", message, ()))
        return found

    @property
    def held(self) -> frozenset[Span]:
        return frozenset()

    def possible(self, plan: Plan) -> Plan:
        """Every edit that loosens can be said in Wave's operations, or has one that is stricter."""
        return plan

    def widened(self) -> list[Finding]:
        """Accesses that are taken for ones to a whole buffer: what is found about them may not be so."""
        return [
            Finding("TG403", f"`{each.node.name}`: {each.why}", (Label(self.place(each.node)),))
            for each in self.built.widened
        ]

    def place(self, node: Any) -> Span:
        points = self.built.graph.points
        number = next((n for n, each in enumerate(self.built.nodes) if each is node), None)
        return points[number].at if number is not None else Span(f"{self.name}.wave", 0, 0, 0)

    def beside(self, at: Span) -> str:
        return ""  # its lines are those of the source

    def with_sources(self, finding: Finding) -> Finding:
        """A finding with the nodes that it is about: one line of the source becomes many of them."""
        if finding.code == "TG108":
            finding = replace(finding, help=_ORDER_LANES)
        facts: dict[str, Any] = dict(finding.witness)
        both = [dict(facts[each]).get("statement", "") for each in ("first", "second") if _is_facts(facts.get(each))]
        if len(both) < 2:
            return finding
        return replace(finding, notes=(*finding.notes, f"nodes: `{both[0]}` and `{both[1]}`"))


_ORDER_LANES = (
    "insert Wave's `shared_memory_barrier()` between the two, or let `tidegate.wave.install()` do so: "
    "Wave has no fence for the lanes of a wave alone"
)


def _is_facts(item: object) -> bool:
    return isinstance(item, tuple) and all(isinstance(each, tuple) and len(each) == 2 for each in item)


def merge_alike(findings: Iterable[Finding]) -> list[Finding]:
    """Findings that say the same of the same places as one: Wave makes many nodes of one line."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for each in findings:
        groups.setdefault((each.code, each.message, tuple(label.at for label in each.labels)), []).append(each)
    merged = []
    for first, *others in groups.values():
        count = len(others)
        more = (f"{count} more pair{'s' * (count != 1)} of nodes like it",) if others else ()
        merged.append(replace(first, notes=(*first.notes, *more)))
    return merged


def trace_program(
    trace: Any,
    target: str | None = None,
    *,
    constraints: Iterable[Any] | None = None,
    sizes: dict[Any, Any] | None = None,
) -> WaveProgram:
    """A trace with its graph."""
    known = _known.get(trace)
    if constraints is not None:
        context = context_of(constraints, sizes)
    elif known is not None:
        context = known.context
    else:
        help = "compile it in `with tidegate.wave.traces():`, or pass `constraints=` and `sizes=`"
        raise BadInput(Finding("TG008", "the sizes and waves of this trace are unknown", (), help=help))
    name = target if target is not None else known.target if known is not None else ""
    facts = load_target("" if name == "none" else name)
    kernel = known.kernel if known is not None else "kernel"
    return WaveProgram(trace, context, facts, build(trace, context, facts, name=kernel), kernel)


def session_of(program: WaveProgram) -> Session:
    return Session(program.name, program.target, None, program.built.graph, program)


def check_program(program: WaveProgram, *, advice: bool = False) -> Checked:
    """All stages; what is not proved is run."""
    checked = check_session(session_of(program))
    checked.findings = told_apart(program, checked.findings)
    if advice:
        from tidegate.advice import advise

        found = advise(checked).findings
        checked.findings = [*checked.findings, *map(program.with_sources, found)]
    return checked


def told_apart(program: WaveProgram, findings: list[Finding]) -> list[Finding]:
    """Findings about many nodes of one line as one; beside errors, the accesses that were widened."""
    wide = program.widened() if any(each.severity == "error" for each in findings) else []
    return merge_alike((*findings, *wide))
