"""Published fixes of races in CUDA kernels: what `tidegate check` says before and after each.

    python -m bench.cuda_fixes           the table of docs/check-cuda.md

Needs   NVRTC
Gives   a row for each kernel of `oracles/cuda_fixes`: code and lines of the finding, the verdict after the fix, seconds
Cost    two compilations and two checks for each kernel
"""

from __future__ import annotations

import re
import time

from oracles.cuda_fixes import FIXES, Fix
from tidegate.results import CheckResult


def said(result: CheckResult, code: str) -> str:
    """The first finding with this code, and its lines."""
    if result.is_proved:
        return "proved"
    first = next(each for each in result.findings if each.code == code)
    lines = sorted({each.at.line for each in first.labels})
    return f"[{first.code}](codes/{first.code}.md), line{'s' * (len(lines) > 1)} {' and '.join(map(str, lines))}"


def link(fix: Fix) -> str:
    owner, name, kind, number = re.findall(r"[^/]+", fix.source)[2:6]
    return f"[{owner}/{name} {'#' if kind == 'pull' else ''}{number}]({fix.source})"


def row(fix: Fix) -> str:
    began = time.process_time()
    before, after = said(fix.before(), fix.code), said(fix.after(), fix.code)
    seconds = time.process_time() - began
    return f"| {link(fix)} | `{fix.path.name}`: {fix.what} | {before} | {after} | {seconds / 2:.1f} |"


def table() -> str:
    head = "| fix | what was wrong | before | after | seconds |\n|---|---|---|---|---:|"
    return "\n".join((head, *map(row, FIXES)))


if __name__ == "__main__":
    print(table())
