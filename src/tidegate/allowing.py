"""Findings that the user turns down to notes, in a file or on the command line.

Needs   the text of a file; codes that were asked for
Gives   the codes that are turned down
Keeps   only a code whose cases differ from GPU to GPU can be named; a proof that leans on one says so
Cost    linear in the text

    # tidegate: allow TG109          in a .tide, .sync or Python file; `//` in TTGIR, PTX and CUDA, `;` in assembly
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from tidegate.codes import ALLOWED, CODES, PROXY_READ
from tidegate.diag import BadInput, Finding, Label, Span
from tidegate.targets import Target

LINE = re.compile(r"^[ \t]*(?:#|//|;)[ \t]*tidegate:[ \t]*allow\b[ \t]*([^\n]*)", re.MULTILINE)


def allowed_in(text: str, file: str) -> frozenset[str]:
    """What lines of a file turn down, for all of its programs."""
    found: set[str] = set()
    if "tidegate:" not in text:
        return frozenset()
    for line in LINE.finditer(text):
        start = text.rfind("\n", 0, line.start(1)) + 1
        at = Span(file, text.count("\n", 0, line.start(1)) + 1, line.start(1) - start + 1, line.end(1) - start + 1)
        found |= check_allowed(line[1].replace(",", " ").split() or [""], at)
    return frozenset(found)


def check_allowed(codes: Iterable[str], at: Span | None = None) -> frozenset[str]:
    """Raises `BadInput` for a code that cannot be turned down. `at`: where a file names it."""
    found = frozenset(codes)
    for each in sorted(found - ALLOWED):
        known = f"it is about: {CODES[each]}" if each in CODES else "there is no such code"
        message = f"`{each}` cannot be allowed: {known}"
        help_ = f"only {', '.join(f'`{code}`' for code in sorted(ALLOWED))} can be turned down to a note"
        raise BadInput(Finding("TG022" if at is None else "TG001", message, (Label(at),) if at else (), help=help_))
    return found


def with_allowed(target: Target, codes: Iterable[str]) -> Target:
    """The target with what is turned down on it; the same where nothing is."""
    found = target.allowed.union(codes)
    return replace(target, allowed=found) if found != target.allowed else target


def fence_help(first: str, second: str, *, apart: bool) -> str:
    """Where the fence may stand for a generic read and the write behind it. `apart`: whether in two waves."""
    places = (
        f"after {first}, before its wave arrives, or before {second}, behind its wave's wait"
        if apart
        else f"between {first} and {second}"
    )
    return f"insert `fence proxy_async` {places}; `--allow {PROXY_READ}` accepts it without (docs/verify.md)"
