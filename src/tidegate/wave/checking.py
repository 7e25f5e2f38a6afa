"""Are the barriers of a Wave trace enough? The verifier asked, for any trace, whoever put them in.

Needs   a trace; its constraints and sizes, or that it was compiled while Tidegate listened
Gives   findings: races with both places and a witness, hangs, operations that nobody has described; with advice, also
        barriers that nothing needs
Keeps   places are those of the Wave source, where Wave has kept them; the nodes are named too
Cost    that of the verifier; what is not proved is run by the simulator
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from tidegate.adapters.wave.build import Built, build
from tidegate.adapters.wave.context import Context, context_of
from tidegate.diag import BadInput, Finding, Label, Span
from tidegate.passes import Checked, Unit, run_stages
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
) -> list[Finding]:
    """What is wrong with the synchronization of a trace, whoever put it there; nothing is changed.

    `target`: the one it was compiled for, if nobody says otherwise. `constraints` and `sizes` are needed only for a
    trace that was compiled while nobody listened; sizes are Wave's `options.subs`. With `advice`, also barriers and
    waits that nothing needs: findings that are warnings.
    """
    return check_program(trace_program(trace, target, constraints=constraints, sizes=sizes), advice=advice).findings


@dataclass(frozen=True, slots=True)
class WaveProgram:
    """A trace as the stages take it."""

    trace: Any
    context: Context
    target: Target
    built: Built
    name: str

    @property
    def said(self) -> str:
        return ""

    def findings(self) -> list[Finding]:
        """Operations that are taken for worse than they may be."""
        found = [
            Finding("TG407", f"`{each.node.name}`: {each.why}", (Label(self.place(each.node)),))
            for each in self.built.unclear
        ]
        if self.context.mapped > 1:
            message = "the workgroups of a cluster share memory: what one of them does alone was looked at"
            found.append(Finding("TG407", message, ()))
        return found

    def place(self, node: Any) -> Span:
        points = self.built.graph.points
        number = next((n for n, each in enumerate(self.built.nodes) if each is node), None)
        return points[number].at if number is not None else Span(f"{self.name}.wave", 0, 0, 0)

    def with_sources(self, finding: Finding) -> Finding:
        """A finding with the nodes that its places are."""
        notes = []
        for label in finding.labels:
            names = [
                node.name
                for node, point in zip(self.built.nodes, self.built.graph.points, strict=False)
                if node is not None and point.at == label.at and point.at.line
            ]
            if names and len(set(names)) <= 4:
                notes.append(f"{label.at} is {', '.join(f'`{each}`' for each in dict.fromkeys(names))}")
        return replace(finding, notes=(*finding.notes, *dict.fromkeys(notes))) if notes else finding


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
        raise BadInput(Finding("TG008", "nothing is known of this trace's sizes and waves", (), help=help))
    name = target if target is not None else known.target if known is not None else ""
    facts = load_target("" if name == "none" else name)
    kernel = known.kernel if known is not None else "kernel"
    return WaveProgram(trace, context, facts, build(trace, context, facts, name=kernel), kernel)


def check_program(program: WaveProgram, *, advice: bool = False) -> Checked:
    """All stages; what is not proved is run."""
    unit = Unit(program.name, program.target, None, program.built.graph, program)
    checked = run_stages(unit, print_after=None, stop_after=None, show=lambda *_: None)
    if advice:
        from tidegate.advice import advise

        found = advise(checked, program.target).findings
        checked.findings = [*checked.findings, *map(program.with_sources, found)]
    return checked
