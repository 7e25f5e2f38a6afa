"""Published hangs and phase bugs: what `tidegate check` says of the wrong form, and of the right one.

    python -m bench.object_fixes         the table of docs/verify.md

Gives   a row for each kernel of `oracles/object_fixes`: code and witness of the finding, the verdict on the right form
Cost    two checks for each kernel
"""

from __future__ import annotations

import time

import tidegate as tg
from oracles.object_fixes import CASES, Case
from tidegate.diag import Finding


def found(case: Case) -> str:
    (kernel,) = tg.parse(case.wrong).kernels
    findings = [each for each in tg.check(kernel).findings if each.code == case.code]
    first = max(findings, key=lambda each: "circle" in dict(each.witness))
    return f"[{first.code}](codes/{first.code}.md): {witness(first)}"


def witness(finding: Finding) -> str:
    """The circle of a hang, or where its waves wait; of a race the two accesses."""
    facts = dict(finding.witness)
    circle = facts.get("circle")
    if isinstance(circle, tuple):
        links = [dict(each) for each in circle]
        waits = [f"wave {each['wave']} for phase {each['phase']} of `{each['barrier']}`" for each in links]
        return f"circle of {len(links)}: {', '.join(waits)}"
    places = [each.text.replace(" here", "") for each in finding.labels]
    return "; ".join(places)


def row(name: str, case: Case) -> str:
    (kernel,) = tg.parse(case.right).kernels
    start = time.perf_counter()
    proved = tg.check(kernel).is_proved
    seconds = time.perf_counter() - start
    after = "proved" if proved else "not proved"
    return f"| [{name}]({case.url}) | {case.what} | {found(case)} | {after}, {seconds:.1f} s |"


def table() -> str:
    head = "| report | what it describes | found | fixed |\n|---|---|---|---|"
    return "\n".join((head, *(row(name, case) for name, case in CASES.items())))


if __name__ == "__main__":
    print(table())
