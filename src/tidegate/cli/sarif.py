"""Findings as a SARIF 2.1.0 log: what code scanning services and editors read.

Needs   findings, each with the file and the program that it is about, and the exit status
Gives   one run: the codes that were found as rules, findings as results, what is wrong with no text as notifications
Keeps   the log depends on the findings, their text and the folder alone: no clock, no absolute path of a file below it
Cost    linear in the findings

A result stays the same result when lines move: its fingerprint knows no line. GitHub's own fingerprint,
`primaryLocationLineHash`, is left to the action that uploads, which warns of every value but its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tidegate.codes import CODES
from tidegate.diag import Finding, Label, Sources, Span, findings_to_json, sort_findings

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT = "%SRCROOT%"
FINGERPRINT = "tidegate/finding/v1"

# What a code of each hundred says about the program.
GROUPS = {
    "TG0": "Nothing can be run: the text or the request is invalid.",
    "TG1": "Accesses to the same bytes are not performed in the order that the program needs.",
    "TG2": "A barrier does not do what the waves need: some wait forever or go on too early, or the target lacks it.",
    "TG3": "The program exceeds its memory or its target's resources.",
    "TG4": "Advice: the program is correct.",
    "TG5": "The description of a target is invalid.",
    "TG6": "Nothing can be run: a graph or a plan is invalid.",
}
# Numbers of other points in a line of a `.sync` file: they change when a point is put in anywhere.
POINT_NUMBERS = re.compile(r"^\d+: | (uses|->) \d+(, \d+)*| loop \d+")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reported:
    """A finding, and what it is about: a file as it was given, and a program, or empty texts for the command line."""

    finding: Finding
    file: str = ""
    program: str = ""

    @property
    def is_result(self) -> bool:
        """Whether it is about a program or a line, and not about a run that could not be."""
        return bool(self.finding.at.line) or not self.finding.is_bad_input


def sort_reported(findings: Sequence[Finding], file: str, program: str = "") -> list[Reported]:
    """The findings of one program, in source order."""
    return [Reported(each, file.partition("::")[0], program) for each in sort_findings(findings)]


def sarif_log(reported: Sequence[Reported], sources: Sources, *, status: int, **facts: object) -> Json:
    """The whole log; `facts` become properties of its run."""
    from tidegate import __version__

    results = [each for each in reported if each.is_result]
    others = [each for each in reported if not each.is_result]
    rules, kinds = _codes(results), _codes(others)
    driver: Json = {"name": "Tidegate", "version": __version__, "rules": [_descriptor(code) for code in rules]}
    if kinds:
        driver["notifications"] = [_descriptor(code) for code in kinds]
    prints: Counter[str] = Counter()
    run = {
        "tool": {"driver": driver},
        "invocations": [_invocation(others, kinds, sources, status)],
        "originalUriBaseIds": {ROOT: {"description": {"text": "The folder in which the command ran."}}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(each, rules, sources, prints) for each in results],
        "properties": facts,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _codes(reported: Sequence[Reported]) -> list[str]:
    return sorted({each.finding.code for each in reported})


# --- rules --------------------------------------------------------------------------------------------------------


def _descriptor(code: str) -> Json:
    meaning = f"{CODES[code][0].upper()}{CODES[code][1:]}."
    return {
        "id": code,
        "shortDescription": {"text": meaning},
        "fullDescription": {"text": f"{meaning} {GROUPS[code[:3]]}"},
        "help": {"text": f"The page docs/codes/{code}.md of Tidegate has an example, wrong and right."},
        "defaultConfiguration": {"level": Finding(code, "").severity},
    }


# --- invocation ---------------------------------------------------------------------------------------------------


def _invocation(others: Sequence[Reported], kinds: list[str], sources: Sources, status: int) -> Json:
    """With status 2 something was not checked: a result that is missing then is not mended."""
    found: Json = {"executionSuccessful": status < 2, "exitCode": status}
    for name, of_a_file in (("toolExecutionNotifications", True), ("toolConfigurationNotifications", False)):
        notifications = [_notification(each, kinds, sources) for each in others if bool(each.file) == of_a_file]
        if notifications:
            found[name] = notifications
    return found


def _notification(each: Reported, kinds: list[str], sources: Sources) -> Json:
    code = each.finding.code
    found: Json = {
        "descriptor": {"id": code, "index": kinds.index(code)},
        "level": each.finding.severity,
        "message": {"text": _message(each)},
    }
    if each.file:
        found["locations"] = [_location(each.finding.at, each.file, sources)]
    return found


# --- results ------------------------------------------------------------------------------------------------------


def _result(each: Reported, rules: list[str], sources: Sources, prints: Counter[str]) -> Json:
    finding = each.finding
    location = _location(finding.at, each.file, sources, finding.labels[0].text if finding.labels else "")
    if each.program:
        location["logicalLocations"] = [{"name": each.program, "kind": "function"}]
    found: Json = {
        "ruleId": finding.code,
        "ruleIndex": rules.index(finding.code),
        "level": finding.severity,
        "message": {"text": _message(each)},
        "locations": [location],
    }
    related = [
        {"id": number, **_location(label.at, each.file, sources, label.text)}
        for number, label in enumerate(finding.labels[1:], 1)
        if label.at.file
    ]
    if related:
        found["relatedLocations"] = related
    found["partialFingerprints"] = {FINGERPRINT: _fingerprint(each, sources, prints)}
    properties = {"witness": _witness(finding)} if finding.witness else {}
    if finding.count > 1:
        properties["count"] = finding.count
    if properties:
        found["properties"] = properties
    return found


def _message(each: Reported) -> str:
    """All that the text form says, a sentence to a line."""
    finding = each.finding
    lines = [_plain(finding.message), *_places(finding), *map(_plain, finding.notes)]
    if finding.help:
        lines.append(f"help: {_plain(finding.help)}")
    return "\n".join(line if line.endswith((".", "?", "!")) else f"{line}." for line in lines)


def _places(finding: Finding) -> Iterator[str]:
    """What happens where. Further places are links: services show them only so."""
    for number, label in enumerate(finding.labels):
        where = _where(label.at, finding.at)
        if number and where:
            where = f"[{_escape_link(where)}]({number})"
        if label.text or (number and where):
            yield ": ".join(filter(None, (where, _plain(label.text))))


def _where(at: Span, first: Span) -> str:
    line = f"line {at.line}" if at.line else ""
    return line if line and at.file == first.file else ", ".join(filter(None, (at.file, line)))


def _plain(text: str) -> str:
    """Text in which nothing is a placeholder or a link (SARIF 2.1.0, 3.11.5 and 3.11.6)."""
    return text.replace("{", "{{").replace("}", "}}").replace("](", "\\](")


def _escape_link(text: str) -> str:
    return re.sub(r"([\\\[\]])", r"\\\1", text).replace("{", "{{").replace("}", "}}")


def _location(at: Span, file: str, sources: Sources, text: str = "") -> Json:
    """Without a line, the file; without a file, the one that was checked."""
    physical: Json = {"artifactLocation": _artifact(at.file or file)}
    if at.line:
        physical["region"] = {"startLine": at.line}
        if at.column:
            line = sources.line(at)
            end = at.end if line is None else min(at.end, len(line) + 1)  # a mark may stand behind the end of a line
            physical["region"] |= {"startColumn": at.column, "endColumn": max(end, at.column)}
    found: Json = {"physicalLocation": physical}
    if text:
        found["message"] = {"text": _plain(text)}
    return found


def _artifact(file: str) -> Json:
    """Relative to the folder in which the command ran, without `..`; a file elsewhere has an absolute address."""
    path, here = Path(os.path.abspath(file)), Path.cwd()
    if not path.is_relative_to(here):
        return {"uri": path.as_uri()}
    return {"uri": quote(os.fsencode(path.relative_to(here).as_posix())), "uriBaseId": ROOT}


def _fingerprint(each: Reported, sources: Sources, prints: Counter[str]) -> str:
    """Code, program and operations, hashed, and which of its like in the file: nothing that moves with the lines.

    In a race or a hang, all places take part. Elsewhere the further ones are examples, which may become more.
    """
    labels = each.finding.labels if each.finding.witness else each.finding.labels[:1]
    parts = [each.finding.code, each.program, *(_operation(label, sources) for label in labels)]
    found = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
    prints[f"{each.file} {found}"] += 1
    return f"{found}:{prints[f'{each.file} {found}']}"


def _operation(label: Label, sources: Sources) -> str:
    """The text at a place, with single spaces."""
    text = (sources.line(label.at) or "")[max(label.at.column - 1, 0) : label.at.end - 1 if label.at.column else None]
    text = " ".join(text.split())
    return POINT_NUMBERS.sub("", text) if label.at.file.endswith(".sync") else text


def _witness(finding: Finding) -> object:
    """As in `check --json`."""
    document: Any = findings_to_json([finding])
    return document["findings"][0]["witness"]
