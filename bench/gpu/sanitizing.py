"""What `compute-sanitizer` says of kernels: its command, and its words read.

Needs   what the tool printed while kernels ran whose names are all different
Gives   for each kernel the kinds of what was found, with how often
Keeps   a report that names no kernel is not lost: it stands under an empty name

    ========= Error: Race reported between Write access at softmax__tidegate+0x460
    =========     and Read access at softmax__tidegate+0x4f0 [64 hazards]
    =========

is one `Race reported` of the kernel `softmax__tidegate`.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter

from bench.gpu.manifest import Refused

TOOL = "compute-sanitizer"
RACECHECK, SYNCCHECK = "racecheck", "synccheck"
_LINE = re.compile(r"^={9} ?(.*)$")
_AT = re.compile(r"\bat (?:0x[0-9a-f]+ in )?(?:void )?(\w+)(?:\(.*?\))?\+0x[0-9a-f]+")
_KINDS = (
    (re.compile(r"^Error: Race reported"), "race"),
    (re.compile(r"^Warning: Race reported"), "race, as a warning"),
    (re.compile(r"^Error: Potential (\w+) hazard"), "race"),
    (re.compile(r"^Barrier error detected\. (.*)"), "barrier"),
    (re.compile(r"^Missing wait"), "missing wait"),
    (re.compile(r"^(?:Invalid|Program hit|Unspecified|Error)"), "error"),
)
_IGNORED = re.compile(r"SUMMARY|^COMPUTE-SANITIZER|^ERROR SUMMARY")


def command(check: str) -> list[str]:
    """What stands before the program."""
    path = shutil.which(TOOL) or shutil.which(TOOL, path="/usr/local/cuda/bin")
    if path is None:
        raise Refused(f"`{TOOL}` is not on the path: it comes with CUDA")
    return [path, "--tool", check, "--print-limit", "100000", "--target-processes", "all"]


def read_reports(text: str) -> dict[str, dict[str, int]]:
    """Kinds of findings and their numbers, by the kernel's name."""
    found: dict[str, Counter[str]] = {}
    for report in _reports(text):
        kind = next((kind for pattern, kind in _KINDS if pattern.search(report[0])), "")
        if not kind:
            continue
        place = next((at[1] for line in report if (at := _AT.search(line))), "")
        found.setdefault(place, Counter())[kind] += 1
    return {name: dict(kinds) for name, kinds in found.items()}


def _reports(text: str) -> list[list[str]]:
    """The paragraphs of the tool's own lines: each begins at the margin, and what belongs to it is indented."""
    reports: list[list[str]] = []
    for line in text.splitlines():
        said = _LINE.match(line)
        if said is None or not said[1].strip() or _IGNORED.search(said[1]):
            continue
        if said[1].startswith(" "):
            if reports:
                reports[-1].append(said[1].strip())
        else:
            reports.append([said[1]])
    return reports
