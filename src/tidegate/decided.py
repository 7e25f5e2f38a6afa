"""The verdict on a program in words.

Needs   what the stages of `check` found
Gives   who decided about races and hangs, the verifier or the simulator, what that covers and what it assumes
"""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.assumptions import show_assumptions
from tidegate.diag import Finding, Findings
from tidegate.passes import Checked
from tidegate.verify.say import show_verification


def verdict_on(checked: Checked, more: Iterable[Finding] = ()) -> Findings:
    """Findings of the stages and others, with the verdict that those who see only a list would miss."""
    wrong = any(each.severity == "error" for each in checked.findings)
    return Findings(
        (*checked.findings, *more), is_proved=checked.is_proved and not wrong, verdict=show_decided(checked)
    )


def show_decided(checked: Checked) -> str:
    """Who decided about races and hangs, the verifier or the simulator, and what that covers."""
    if checked.verification is None or checked.graph is None:
        return f"not judged: {checked.why_not}"
    lines = [show_verification(checked.verification, checked.graph)]
    if checked.judgement is not None and checked.judgement.findings and checked.verification.is_proved:
        lines = ["not proved: a run shows what is found above"]
    elif checked.outside and checked.verification.is_proved:
        lines = [f"not proved: accesses leave their buffers ({checked.outside}); in order as long as they do not"]
    if checked.judgement is not None:
        count = len(checked.verification.suspects)
        for many, does in ((checked.shown, "shows"), (checked.refuted, "goes through everything and refutes")):
            if many:
                which = "it" if count == 1 else "them all" if many == count else f"{many} of them"
                lines[0] += f"; the simulator {does} {which}"
        lines.append(checked.judgement.show())
    elif checked.why_not:
        lines.append(f"not judged: {checked.why_not}")
    if checked.is_clean and (assumed := show_assumptions(checked.assumptions)):
        lines.append(assumed)
    return "\n".join(lines)
