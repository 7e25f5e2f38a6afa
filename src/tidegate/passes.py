"""The pipeline, read top to bottom.

Needs   a loaded file and a target
Gives   what each stage makes, as text if asked, and findings
Keeps   a stage sees only what stands before it here
Cost    that of the stages
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.diag import BadInput, Finding, Label, closest
from tidegate.files import Loaded
from tidegate.graph.model import SyncGraph
from tidegate.language.ops import Kernel
from tidegate.targets import Target, default_target, load_target

if TYPE_CHECKING:
    from tidegate.simulate.judge import Judgement, Limits, Progress

# Each stage, and what it prints after it has run.
STAGES = {
    "kernel": "the kernel as `.tide` text",
    "graph": "the SyncGraph as `.sync` text",
    "footprints": "which bytes each access touches",
    "hazards": "which accesses need an order",
    "plan": "what is put in, changed and taken away",
    "judge": "what was run, and what that covers",
}
# The stages of each command.
SHOW_STAGES = ("kernel", "graph")
CHECK_STAGES = ("kernel", "graph", "judge")
SYNC_STAGES = ("kernel", "graph", "footprints", "hazards", "plan", "judge")

Show = Callable[[str, str], None]

# Synchronization that the target does not have: there is no machine on which the program could be judged.
NOT_THERE = {"TG206", "TG210", "TG305", "TG307"}
# Whether waves meet at the workgroup's barrier: seen in the shape of a kernel, and in the runs of a graph.
PROTOCOL = {"TG201", "TG202", "TG203", "TG204", "TG205", "TG207", "TG208"}


@dataclass(frozen=True, slots=True)
class Unit:
    """One kernel or graph on its way through the stages."""

    name: str
    target: Target
    kernel: Kernel | None
    graph: SyncGraph | None


def units_of(loaded: Loaded, target: str | None) -> list[Unit]:
    """The programs of a file, each with its target: the one asked for, else the one it names, else the default."""
    units = [Unit(each.name, _target_of(each, target), each, None) for each in loaded.kernels]
    if loaded.graph is not None:
        units.append(Unit(loaded.graph.name, pick_target(loaded.graph.target, target), None, loaded.graph))
    return units


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
    """What the stages found, and what the judge ran, or why it ran nothing."""

    findings: list[Finding]
    judgement: Judgement | None = None
    why_not: str = ""


def run_stages(
    unit: Unit,
    *,
    print_after: str | None,
    stop_after: str | None,
    show: Show,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> Checked:
    """All stages in order; findings that leave no meaning end it."""
    findings: list[Finding] = []
    graph = unit.graph
    if unit.kernel is not None:
        from tidegate.language.check import check
        from tidegate.language.show import show as show_text

        if print_after == "kernel":
            show("kernel", show_text(unit.kernel))
        findings += check(unit.kernel, unit.target)
        if stop_after == "kernel" or _is_bad(findings):
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
    if unit.kernel is None and not _is_bad(findings):
        findings += find_graph_misfits(graph, unit.target)
    if stop_after == "graph" or _is_bad(findings) or any(each.code in NOT_THERE for each in findings):
        return Checked(findings, why_not=_why_not(findings, stop_after))
    from tidegate.simulate.judge import judge

    judgement = judge(graph, unit.target, limits, progress)
    if print_after == "judge":
        show("judge", show_judgement(judgement))
    return Checked([*findings, *_new(judgement, findings)], judgement)


def _why_not(findings: list[Finding], stop_after: str | None) -> str:
    if _is_bad(findings):
        return "the program has no meaning"
    return f"stopped after `{stop_after}`" if stop_after else "the target does not have what the program uses"


def _is_bad(findings: list[Finding]) -> bool:
    return any(each.is_bad_input for each in findings)


def _new(judgement: Judgement, known: list[Finding]) -> list[Finding]:
    """What the judge adds to what was found without running: not the same mistake again, nor the hang it leads to.

    The shape of a kernel says better where a mistake with the workgroup's barrier comes from; in a run the same mistake
    often has another code.
    """
    places = {(each.code, each.at.line) for each in known}
    places |= {("TG301", each.at.line) for each in known if each.code == "TG304"}
    protocol = any(each.code in PROTOCOL for each in known)
    barriers = any(each.code.startswith("TG2") for each in known)
    return [
        each
        for each in judgement.findings
        if (each.code, each.at.line) not in places
        and not (protocol and each.code in PROTOCOL)
        and not (barriers and each in judgement.at_the_barrier)
    ]


def show_judgement(judgement: Judgement) -> str:
    """What was run and what that covers, in a line or two."""
    count = judgement.configurations
    parts = [f"{count} configuration{'s' * (count != 1)}", *judgement.covered]
    lines = [f"judged: {', '.join(parts)}" if judgement.runs else "judged: nothing"]
    if judgement.bounded:
        lines.append(f"bounded: {'; '.join(judgement.bounded)}")
    return "\n".join(lines)
