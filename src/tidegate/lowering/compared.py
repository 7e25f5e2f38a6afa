"""Does every barrier, wait and fence of a kernel have its instruction in what LLVM made?

Needs   a kernel, and assembly with the lines of the source
Gives   what is missing
Keeps   looks at the text alone: nothing of the lowering is asked. LLVM may copy code, so that an operation has its
        instruction at least once; it leaves out what never runs, which is looked at by whoever proves the text
Cost    linear
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidegate.language import ops
from tidegate.language.ops import Kernel, walk_ops
from tidegate.targets import Target

PLACE = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)")


@dataclass(frozen=True, slots=True)
class MissingInstruction:
    line: int
    operation: str
    wanted: str

    def __str__(self) -> str:
        return f"line {self.line}: `{self.operation}` has no `{self.wanted}`"


def compare_with_plan(kernel: Kernel, assembly: str, target: Target) -> Iterator[MissingInstruction]:
    """What has no instruction. A kernel that was not read from text has no lines, and nothing is compared."""
    there = instructions_by_line(assembly)
    for op in walk_ops(kernel.body):
        if op.at.line not in there:  # what never runs is gone, with all that belongs to it
            continue
        for wanted in wanted_of(op, target):
            if not any(re.search(wanted, each) for each in there[op.at.line]):
                yield MissingInstruction(op.at.line, word_of(op), wanted)


def counts_of(kernel: Kernel, target: Target) -> dict[str, int]:
    """How many operations of each kind have instructions of their own."""
    return dict(Counter(word_of(op) for op in walk_ops(kernel.body) if wanted_of(op, target)))


def word_of(op: ops.Op) -> str:
    """What the language calls an operation."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(op).__name__).lower()


def wanted_of(op: ops.Op, target: Target) -> tuple[str, ...]:
    """The instructions that an operation must have, as patterns."""
    return _nvidia(op) if target.vendor == "NVIDIA" else _amd(op, target)


MEETS = r"\bbar(rier)?\.(cta\.)?sync"


def _nvidia(op: ops.Op) -> tuple[str, ...]:
    match op:
        case ops.WorkgroupBarrier() | ops.ConditionalBarrier():
            return (MEETS,)
        case ops.SharedMemoryBarrier(counts, wait_async, deps):
            return (*_groups(counts, wait_async or bool(deps and not counts)), MEETS)
        case ops.WaitCount(counts, deps):
            return tuple(_groups(counts, bool(deps and not counts)))
        case ops.CommitGroup():
            return (r"\bcp\.async\.commit_group",)
        case ops.Fence("wave"):
            return (r"\bbar\.warp\.sync",)
        case ops.Fence("proxy_async"):
            return (r"\bfence\.proxy\.async",)
        case ops.MbarrierArrive(expect=expect):
            return (r"\bmbarrier\.arrive\.expect_tx" if expect else r"\bmbarrier\.arrive\b",)
        case ops.MbarrierWait():
            return (r"\bmbarrier\.(try|test)_wait",)
    return ()


def _groups(counts: Sequence[ops.Count], for_all: bool) -> Iterator[str]:
    """Waits for groups; a wait for no more than a count is that count exactly, for nothing else was proved."""
    for name, count in (("group", 0),) if for_all else counts:
        bulk, everything = "bulk." if name == "bulk_group" else "", "" if count else "|all"
        yield rf"\bcp\.async\.{bulk}wait_(group\s+{count}\b{everything})"


AMD_MEETS = r"\bs_barrier(_signal|_wait)?\b"


def _amd(op: ops.Op, target: Target) -> tuple[str, ...]:
    match op:
        case ops.WorkgroupBarrier() | ops.ConditionalBarrier() | ops.SharedMemoryBarrier():
            counts = op.counts if isinstance(op, ops.SharedMemoryBarrier) else ()
            return (*(_counted(name, count, target) for name, count in counts), AMD_MEETS)
        case ops.WaitCount(counts):
            return tuple(_counted(name, count, target) for name, count in counts)
        case ops.Signal():
            return (r"\bs_barrier(_signal)?\b",)
        case ops.Wait():
            return (r"\bs_barrier(_wait)?\b",)
        case ops.SetWavePrio(level):
            return (rf"\bs_setprio (0x)?{level}\b",)
    return ()


def _counted(name: str, count: int, target: Target) -> str:
    """A wait that leaves no more than so many under way: LLVM joins waits, and a smaller count is as good."""
    fewer = "|".join(f"{each}|0x{each:x}" for each in range(count + 1))
    if target.counter_of("local_read") != target.counter_of("scalar_read"):
        alone = rf"\bs_wait_{name} ({fewer})\b"
        both = r"|\bs_wait_(load|store)cnt_dscnt\b" if name in ("dscnt", "loadcnt", "storecnt") else ""
        return alone + both
    return rf"\b{name}\(({fewer})\)"


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
