"""The verdict on a program in words.

Needs   what the stages of `check` found
Gives   who decided about races and hangs, the verifier or the simulator, what that covers and what it assumes
"""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.assumptions import show_assumptions
from tidegate.diag import Finding, Findings
from tidegate.passes import Checked
from tidegate.verify.say import cut_short, show_verification


def verdict_on(checked: Checked, more: Iterable[Finding] = ()) -> Findings:
    """Findings of the stages and others, with the verdict that those who see only a list would miss."""
    wrong = any(each.severity == "error" for each in checked.findings)
    return Findings(
        (*checked.findings, *more), is_proved=checked.is_proved and not wrong, verdict=show_decided(checked)
    )


def is_right(checked: Checked | None) -> bool:
    """Whether a program is proved and nothing is left open: no error was found, and no case only a run would decide."""
    if checked is None or checked.verification is None or any(each.severity == "error" for each in checked.findings):
        return False
    return checked.is_proved and not checked.verification.doubts


def show_decided(checked: Checked) -> str:
    """Who decided about races and hangs, the verifier or the simulator, and what that covers."""
    if checked.verification is None or checked.graph is None:
        return f"not judged: {checked.why_not}"
    lines = [show_verification(checked.verification, checked.graph)]
    if checked.judgement is not None and checked.judgement.findings and checked.verification.is_proved:
        lines = ["not proved: simulation found the errors above"]
    elif checked.outside and checked.verification.is_proved:
        lines = [f"not proved: accesses leave their buffers ({checked.outside}); the rest is ordered"]
    if checked.judgement is not None:
        lines[0] = _reproduced(checked, lines[0])
        lines.append(checked.judgement.show())
    elif checked.why_not:
        lines.append(f"not judged: {checked.why_not}")
    if checked.is_clean and (assumed := show_assumptions(checked.assumptions)):
        lines.append(assumed)
    return "\n".join(lines)


def _reproduced(checked: Checked, line: str) -> str:
    """The verifier's line, with what the simulator found out about its suspects."""
    assert checked.verification is not None
    count = len(checked.verification.suspects)
    if checked.shown == count > 0 and all(each.code != "TG104" for each in checked.findings):
        races = "1 race," if count == 1 else f"{count} races, each"
        return f"not proved: {races} reproduced in simulation{cut_short(checked.verification)}"
    for many, how in (
        (checked.shown, "reproduced in simulation"),
        (checked.refuted, "refuted by exhaustive simulation"),
    ):
        if many:
            line += f", {how}" if count == 1 else f", {'all' if many == count else many} {how}"
    return line
