"""Findings of one cause together, and no more of them than anybody reads.

Needs   findings, each with its cause and the number of pairs that it stands for
Gives   those to show, in source order, and how many there are in all
Keeps   what is not shown is counted; three findings of one cause or fewer are shown one by one
Cost    linear in the findings
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tidegate.diag import Finding, sort_findings

MOST_FINDINGS = 20
# Of one cause, so many are shown one by one; of more, the first, with the places of some others.
MOST_ALIKE, MOST_PLACES = 3, 5


@dataclass(frozen=True, slots=True)
class Grouped:
    """`shown`: in source order. `total`: findings in all; `hidden`: those that neither stand here nor are named."""

    shown: list[Finding]
    total: int
    causes: int
    hidden: int

    @property
    def said(self) -> str:
        """`3 findings`, or `40,000 findings of 2 causes, of which 1 is not shown: ...`."""
        if not self.total:
            return "no findings"
        text = f"{self.total:,} finding{'s' * (self.total != 1)}"
        if len(self.shown) == self.total:
            return text
        text += f" of {self.causes} cause{'s' * (self.causes != 1)}"
        return f"{text}, {self.hidden:,} not shown (`--max-findings`)" if self.hidden else text


def count_all(groups: Sequence[Grouped]) -> dict[str, int]:
    """How many there are of all programs together, for documents."""
    return {
        "total": sum(each.total for each in groups),
        "causes": sum(each.causes for each in groups),
        "not_shown": sum(each.hidden for each in groups),
    }


def group(findings: Iterable[Finding], most: int = MOST_FINDINGS) -> Grouped:
    """With `most` 0 all findings are shown, one by one."""
    ordered = sort_findings(findings)
    total = sum(each.count for each in ordered)
    alike: dict[str, list[Finding]] = {}
    for number, each in enumerate(ordered):
        alike.setdefault(each.cause or f"#{number}", []).append(each)
    if not most:
        return Grouped(ordered, total, len(alike), total - len(ordered))
    found: list[Finding] = []
    for together in alike.values():
        found += together if sum(each.count for each in together) <= MOST_ALIKE else [_first_of(together)]
    shown = sort_findings(found)[:most]
    return Grouped(shown, total, len(alike), total - sum(each.count for each in shown))


def _first_of(findings: list[Finding]) -> Finding:
    """The first of many, with what it stands for."""
    count = sum(each.count for each in findings)
    distinct = list(dict.fromkeys(_lines(each) for each in findings[1:]))
    places = distinct[:MOST_PLACES]
    more = f"and {count - 1:,} more with the same cause"
    named = ", ".join(filter(None, places))
    rest = ", …" if len(distinct) > len(places) or count > len(findings) else ""
    note = f"{more}: {named}{rest}" if named else more
    return replace(findings[0], notes=(*findings[0].notes, note), count=count)


def _lines(finding: Finding) -> str:
    """`lines 6 and 10`, first what comes first."""
    lines = list(dict.fromkeys(label.at.line for label in finding.labels if label.at.line))
    return f"lines {' and '.join(map(str, reversed(lines)))}" if len(lines) > 1 else f"line {lines[0]}" if lines else ""
