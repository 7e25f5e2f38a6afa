"""What a compiler says of a text, as findings at its lines.

Needs   the log of NVRTC, of nvcc or of the host compiler that it calls
Gives   a finding (TG024) for each error, with the compiler's own words
Keeps   no error is lost: a log in which none is recognized is one finding with all of its words
Cost    linear

    e1.cu(4): error: identifier "y" is undefined
          int x = y + 1;
                  ^
    e2.cu:1:10: fatal error: nothere.h: No such file or directory
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tidegate.diag import Finding, Label, Sources, Span

_ERROR = re.compile(
    r"(?P<file>.+?)(?:\((?P<line>\d{1,9})\)|:(?P<row>\d{1,9}):(?P<column>\d{1,9})): "
    r"(?P<kind>(?:catastrophic |fatal |internal )?error|warning)\s?(?:#[\w-]+)?: (?P<text>.*)"
)
_ELSEWHERE = re.compile(r"(?:At end of source|nvcc \w+ *|nvrtc): (?:catastrophic )?error *: (?P<text>.*)")
_SUMMARY = re.compile(r"\d+ (?:catastrophic )?errors? detected|Compilation terminated|compilation terminated|Remark: ")
MOST_FOUND = 50  # errors of one file
LONGEST = 2000  # characters of one


def findings_of(log: str, file: str, named: Callable[[str], str]) -> list[Finding]:
    """`named`: what the user calls a file that the compiler names."""
    sources = Sources()
    found = [_finding(lines, file, named, sources) for lines in _messages(log)]
    errors = list(dict.fromkeys(each for each in found if each is not None))[:MOST_FOUND]
    if errors:
        return errors
    said = log.strip()[:LONGEST] or "the compiler gives no reason"
    return [Finding("TG024", f"the file does not compile: {said}", (Label(Span(file, 0, 0, 0)),))]


def _messages(log: str) -> Iterator[list[str]]:
    """Lines that belong together: a head, and what stands below it."""
    lines: list[str] = []
    for line in log.splitlines():
        if _ERROR.fullmatch(line) or _ELSEWHERE.fullmatch(line) or _SUMMARY.match(line):
            if lines:
                yield lines
            lines = []
        if line.strip() and not _SUMMARY.match(line):
            lines.append(line)
    if lines:
        yield lines


def _finding(lines: list[str], file: str, named: Callable[[str], str], sources: Sources) -> Finding | None:
    head = _ERROR.fullmatch(lines[0])
    if head is None:
        other = _ELSEWHERE.fullmatch(lines[0])
        return Finding("TG024", other["text"][:LONGEST], (Label(Span(file, 0, 0, 0)),)) if other is not None else None
    if head["kind"] == "warning":
        return None
    where, line = named(head["file"]), int(head["line"] or head["row"])
    shown, rest = _shown(lines[1:])
    text = sources.line(Span(where, line, 1, 1)) or ""
    column = int(head["column"]) if head["column"] else _column(shown, text)
    end = column + 1 if column else len(text) + 1
    at = Span(where, line, column or len(text) - len(text.lstrip()) + 1, end)
    notes = tuple(each.strip()[:LONGEST] for each in rest)
    return Finding("TG024", head["text"][:LONGEST], (Label(at),), notes)


def _shown(lines: list[str]) -> tuple[list[str], list[str]]:
    """The source line that the compiler quotes with its mark, and what follows it."""
    for number, line in enumerate(lines):
        if line.strip().lstrip("| ").startswith("^"):
            return lines[: number + 1], lines[number + 1 :]
    return [], lines


def _column(shown: list[str], text: str) -> int:
    """Where the mark stands in the line itself; 0 if it quotes another one, as where a macro was expanded."""
    if len(shown) < 2 or shown[-2].strip() != text.strip():
        return 0
    return shown[-1].index("^") - (len(shown[-2]) - len(shown[-2].lstrip())) + len(text) - len(text.lstrip()) + 1
