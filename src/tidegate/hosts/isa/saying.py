"""What exploring a program shows, as findings and as reasons why nothing is proved.

Needs   what exploration gave, and the places of the source, line by line
Gives   findings, reasons, and findings with the lines of the source that they come from
Keeps   a problem without a code is a reason: nothing is proved beside it
Cost    linear in what was found
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.diag import Finding, Label, Span
from tidegate.hosts.isa import nodes as n
from tidegate.hosts.isa.sources import Place, place_at

MOST_CALLS = 4  # calls that are named with a place


def reasons_of(explored: n.Explored) -> dict[str, None]:
    return dict.fromkeys(f"{each.text} (line {each.op.at.line})" for each in explored.problems)


def findings_of(explored: n.Explored) -> list[Finding]:
    """Mistakes that exploring shows, and what was taken for more than it may be."""
    found = []
    for each in explored.problems:
        if each.code:
            found.append(Finding(each.code, each.text, (Label(each.op.at),)))
        else:
            found.append(Finding("TG407", each.text, (Label(each.op.at, "nothing else is proved"),)))
    return found + [Finding("TG403", each.text, (Label(each.op.at),)) for each in explored.notes]


def exact_said(explored: n.Explored) -> list[str]:
    if not explored.touches:
        return []
    return [f"{explored.exact} of {explored.touches} instructions that touch shared memory have exact addresses"]


def doubled_said(explored: n.Explored, wave: str) -> list[str]:
    if not (doubled := len(explored.doubled)):
        return []
    what = "instruction writes" if doubled == 1 else "instructions write"
    return [f"{doubled} {what} the same bytes from several lanes of a {wave}: assumed to be one value"]


def with_lines(finding: Finding, places: list[Place | None]) -> Finding:
    """With where its lines come from, as the compiler notes."""
    more = dict.fromkeys(
        filter(None, (_source_of(each, places) for each in dict.fromkeys(each.at for each in finding.labels)))
    )
    return replace(finding, notes=(*finding.notes, *more)) if more else finding


def _source_of(at: Span, places: list[Place | None]) -> str:
    place = place_at(places, at.line)
    if place is None:
        return ""
    chain = place.chain
    if len(chain) > MOST_CALLS:  # the kernel's own statement is the last
        chain = [*chain[: MOST_CALLS - 1], chain[-1]]
    calls = "".join(f", inlined at {each.file}:{each.line}" for each in chain[1:])
    return f"line {at.line} comes from {place.file}:{place.line}{calls}"
