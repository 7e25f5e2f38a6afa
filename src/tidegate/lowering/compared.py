"""Does every barrier, wait and fence of a kernel have its instruction in what LLVM made?

Needs   a kernel, and assembly with the lines of the source
Gives   what is missing
Keeps   looks at the text alone: nothing of the lowering is asked. LLVM may copy code, so that an operation has its
        instruction at least once; it leaves out what never runs, which is looked at by whoever proves the text
Cost    linear
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.language import ops
from tidegate.language.ops import Kernel, walk_ops
from tidegate.targets import Target

PLACE = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)")


@dataclass(frozen=True, slots=True)
class Missing:
    line: int
    operation: str
    wanted: str

    def __str__(self) -> str:
        return f"line {self.line}: `{self.operation}` has no `{self.wanted}`"


def compare_with_plan(kernel: Kernel, assembly: str, target: Target) -> Iterator[Missing]:
    """What has no instruction. A kernel that was not read from text has no lines, and nothing is compared."""
    words = NVIDIA if target.vendor == "NVIDIA" else {}
    there = instructions_by_line(assembly)
    for op in walk_ops(kernel.body):
        wanted = words.get(type(op))
        if wanted is None or not op.at.line or op.at.line not in there:
            continue
        if not any(wanted.search(each) for each in there[op.at.line]):
            yield Missing(op.at.line, type(op).__name__, wanted.pattern)


NVIDIA: dict[type, re.Pattern[str]] = {
    ops.WorkgroupBarrier: re.compile(r"\bbar(rier)?\.(cta\.)?sync"),
    ops.SharedMemoryBarrier: re.compile(r"\bbar(rier)?\.(cta\.)?sync"),
    ops.ConditionalBarrier: re.compile(r"\bbar(rier)?\.(cta\.)?sync"),
    ops.CommitGroup: re.compile(r"\bcommit_group"),
    ops.Fence: re.compile(r"\bbar\.warp\.sync|\bfence\.proxy"),
    ops.MbarrierArrive: re.compile(r"\bmbarrier\.arrive"),
    ops.MbarrierWait: re.compile(r"\bmbarrier\.(try|test)_wait"),
}


def instructions_by_line(assembly: str) -> dict[int, list[str]]:
    """The instructions of each line of the source."""
    found: dict[int, list[str]] = defaultdict(list)
    line = 0
    for text in assembly.splitlines():
        if place := PLACE.match(text):
            line = int(place[1])
        elif text.strip() and not text.lstrip().startswith(("//", ";", ".", "$")):
            found[line].append(text.strip())
    return found
