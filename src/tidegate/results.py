"""What `tidegate.check` and `tidegate.run` give: a yes or no that can be relied on, its text, and its parts.

Needs   what the stages of `check` found, or what a run left behind
Gives   `CheckResult` and `RunResult`
Keeps   a result is true only if it is right: proved, or a run in which everything that could be compared agrees.
        What was not looked at is never true
Cost    linear in what is shown
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegate.diag import BadInput, Finding, Findings, Sources, findings_to_html, show_findings, visible

if TYPE_CHECKING:
    from tidegate.graph.model import SyncGraph
    from tidegate.passes import Checked
    from tidegate.simulate.judge import Judgement
    from tidegate.simulate.statistics import Statistics
    from tidegate.verify.model import Verification

Arrays = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The findings, in order, and the verdict. True if the program is proved."""

    name: str
    findings: Findings
    checked: Checked = field(repr=False)
    sources: Sources = field(default_factory=Sources, repr=False)

    @property
    def is_proved(self) -> bool:
        """No race, inversion or hang, and no access outside its buffer. That nothing was found is not enough."""
        from tidegate.decided import is_right

        return is_right(self.checked)

    @property
    def verdict(self) -> str:
        """What was proved or run, and what that assumes."""
        return self.findings.verdict

    @property
    def verification(self) -> Verification | None:
        """What the verifier found; None if there was nothing to verify."""
        return self.checked.verification

    @property
    def judgement(self) -> Judgement | None:
        """What was simulated; None if nothing had to be."""
        return self.checked.judgement

    @property
    def graph(self) -> SyncGraph | None:
        return self.checked.graph

    def __bool__(self) -> bool:
        return self.is_proved

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __getitem__(self, number: int) -> Finding:
        return self.findings[number]

    def __str__(self) -> str:
        shown = show_findings(self.findings, self.sources)
        return f"{shown}\n\n{self.verdict}" if shown else self.verdict

    def _repr_html_(self) -> str:
        return findings_to_html(self.findings, self.sources, verdict=self.verdict)


@dataclass(frozen=True, slots=True)
class RunResult:
    """What one run left behind. True if it ended, showed no error, and equals the reference, where there is one.

    In order no race can show: such a run is true only if it was compared with a reference.
    """

    name: str
    inputs: Arrays = field(repr=False)
    arrays: Arrays = field(repr=False)  # all global arrays after it; empty after a hang, and for a graph
    findings: Findings
    in_order: bool = False
    compared: tuple[str, ...] = ()  # arrays that the reference has
    different: tuple[str, ...] = ()  # those that differ from it, a sentence each
    statistics: Statistics | None = field(default=None, repr=False)  # of the hostile machine
    sources: Sources = field(default_factory=Sources, repr=False)

    def __bool__(self) -> bool:
        wrong = any(each.severity == "error" for each in self.findings) or self.different
        return not wrong and (not self.in_order or bool(self.compared))

    def __getitem__(self, name: str) -> Any:
        return self.arrays[name]

    def __str__(self) -> str:
        shown = [each for each in (show_findings(self.findings, self.sources),) if each]
        equal = [f"{name}: equals the reference" for name in self.compared if not self._differs(name)]
        return "\n".join((*shown, self._head(), *(f"  {visible(each)}" for each in (*equal, *self.different))))

    def _repr_html_(self) -> str:
        from tidegate.notebook import paragraph

        head = paragraph(str(self).rpartition("\n\n")[2] if self.findings else str(self), "good" if self else "")
        return (findings_to_html(self.findings, self.sources) if self.findings else "") + head

    def _differs(self, name: str) -> bool:
        return any(each.startswith(f"{name}: ") for each in self.different)

    def _head(self) -> str:
        how = "in order" if self.in_order else "on the hostile machine"
        errors = sum(each.severity == "error" for each in self.findings)
        what = (
            f"{errors} error{'s' * (errors != 1)}" if errors else "no race can show" if self.in_order else "no errors"
        )
        return f"@{self.name} ran {how}: {what}"


def compare(
    after: Mapping[str, Any],
    inputs: Mapping[str, Any],
    sizes: Mapping[str, int],
    reference: Callable[[Arrays, dict[str, int]], Mapping[str, Any]],
    tolerance: tuple[float, float],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of arrays that the reference has, and sentences about those that differ. It is called with copies."""
    import numpy as np

    given = {name: each.copy() if isinstance(each, np.ndarray) else each for name, each in inputs.items()}
    expected = reference(given, dict(sizes))
    if not isinstance(expected, Mapping):
        raise _bad_reference(f"`reference` gives `{type(expected).__name__}`")
    different = []
    for name, wanted in expected.items():
        if name not in after:
            raise _bad_reference(f"`reference` returns `{name}`, which is not an array of the kernel")
        try:
            got, want = np.asarray(after[name], np.float64), np.asarray(wanted, np.float64)
        except (TypeError, ValueError):
            raise _bad_reference(f"`reference` returns no array of numbers for `{name}`") from None
        if got.shape != want.shape:
            different.append(f"{name}: the shape is {got.shape}, not {want.shape}")
        elif not np.allclose(got, want, *tolerance, equal_nan=True):
            count = int((~np.isclose(got, want, *tolerance, equal_nan=True)).sum())
            different.append(f"{name}: {count} of {got.size} elements differ from the reference")
    return tuple(expected), tuple(different)


def _bad_reference(message: str) -> BadInput:
    return BadInput(Finding("TG022", message, (), help="return a dictionary from names of arguments to arrays"))
