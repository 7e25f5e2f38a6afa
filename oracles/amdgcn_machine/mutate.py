"""Assembly with one mistake in its synchronization.

Needs   a kernel's text that the machine can load
Gives   `mutants`: every mutant of each kind, in the order of the text
Keeps   exactly one place is changed, and all else byte for byte; an access moves only over instructions that share no
        register with it, and over no label or jump, so that what it computes for itself stays the same
Cost    linear

    barrier   `s_barrier`, or a signal with the wait behind it, is taken away
    count     one counter of a wait is raised by one
    wait      a wait is taken away
    later     an access to shared memory before a barrier comes after it
    sooner    an access to shared memory after a barrier comes before it
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from oracles.amdgcn_machine.counters import DS
from oracles.amdgcn_machine.program import ACCESS, BARRIER, END, JUMP, WAIT, Program, Step, load

KINDS = ("barrier", "count", "wait", "later", "sooner")
OLD_COUNT = re.compile(r"\b(vmcnt|lgkmcnt)\((\d+)\)")
NEW_COUNT = re.compile(r"^\s*s_wait_(\w+?cnt)(_dscnt)?\s+(0x[0-9a-f]+|\d+)")
OURS = ("loadcnt", "storecnt", "dscnt", "asynccnt", "tensorcnt")
FARTHEST = 12  # instructions over which an access moves to a barrier


@dataclass(frozen=True, slots=True)
class Mutant:
    """A text with one mistake, and where it is in the text that was right."""

    kind: str
    line: int
    text: str
    change: str


def mutants(text: str) -> Iterator[Mutant]:
    program = load(text)
    lines = text.split("\n")
    for number, step in enumerate(program.steps):
        if step.kind == BARRIER and step.barrier[0] in ("meet", "signal"):
            yield from _without_barrier(lines, program, number)
            yield from _moved(lines, program, number)
        elif step.kind == WAIT and step.waits:
            yield from _raised(lines, step)
            yield Mutant("wait", step.line, _with(lines, {step.line: None}), f"without `{step.text}`")


def _with(lines: list[str], changes: dict[int, str | None], moved: tuple[int, int] | None = None) -> str:
    """Lines replaced or left out by number; then a line put before another."""
    found = []
    for number, line in enumerate(lines, 1):
        if moved and number == moved[1]:
            found.append(lines[moved[0] - 1])
        if number in changes:
            new = changes[number]
            found += [] if new is None else [new]
        elif not (moved and number == moved[0]):
            found.append(line)
    return "\n".join(found)


def _meeting(program: Program, number: int) -> int | None:
    """The number of the step at which a wave has left the barrier; None if other things happen on the way."""
    step = program.steps[number]
    if step.barrier[0] == "meet":
        return number
    for other in range(number + 1, min(number + FARTHEST, len(program.steps))):
        found = program.steps[other]
        if found.kind == BARRIER and found.barrier == ("wait", step.barrier[1]):
            return other
        if found.kind in (BARRIER, JUMP, END) or other in program.listing.labels.values():
            return None
    return None


def _without_barrier(lines: list[str], program: Program, number: int) -> Iterator[Mutant]:
    end = _meeting(program, number)
    if end is not None:
        step, last = program.steps[number], program.steps[end]
        yield Mutant("barrier", step.line, _with(lines, {step.line: None, last.line: None}), f"without `{step.text}`")


def _raised(lines: list[str], step: Step) -> Iterator[Mutant]:
    line = lines[step.line - 1]
    for found in OLD_COUNT.finditer(line):
        new = f"{line[: found.start()]}{found[1]}({int(found[2]) + 1}){line[found.end() :]}"
        yield Mutant("count", step.line, _with(lines, {step.line: new}), f"{found[0]} raised by one")
    found = NEW_COUNT.match(line)
    if found and found[1] in OURS:
        names = [found[1], DS] if found[2] else [found[1]]
        for name in names:
            more = 0x100 if found[2] and name != DS else 1
            new = f"{line[: found.start(3)]}{int(found[3], 0) + more:#x}{line[found.end(3) :]}"
            yield Mutant("count", step.line, _with(lines, {step.line: new}), f"{name} of `{step.text}` raised by one")


def _moved(lines: list[str], program: Program, number: int) -> Iterator[Mutant]:
    """The nearest access on either side, if nothing on the way speaks against it."""
    end = _meeting(program, number)
    if end is None:
        return
    barrier = program.steps[number]
    before = _reach(program, number, -1)
    if before is not None:
        after = program.steps[end + 1].line if end + 1 < len(program.steps) else 0
        text = _with(lines, {}, (before.line, after))
        yield Mutant("later", before.line, text, f"`{before.text}` after the barrier of line {barrier.line}")
    behind = _reach(program, end, 1)
    if behind is not None:
        text = _with(lines, {}, (behind.line, barrier.line))
        yield Mutant("sooner", behind.line, text, f"`{behind.text}` before the barrier of line {barrier.line}")


def _reach(program: Program, start: int, way: int) -> Step | None:
    labels = set(program.listing.labels.values())
    between: set[int] = set()
    for count in range(1, FARTHEST):
        number = start + way * count
        if not 0 <= number < len(program.steps) or (number if way > 0 else number + 1) in labels:
            return None
        step = program.steps[number]
        if step.kind in (BARRIER, JUMP, END):
            return None
        if step.kind == ACCESS and _is_shared(step):
            return step if between.isdisjoint(step.registers) else None
        if step.kind == WAIT and way > 0:
            return None  # what the access needs may come with this wait
        between |= step.registers
    return None


def _is_shared(step: Step) -> bool:
    moves = ("permute", "swizzle")
    return (step.text.startswith("ds_") and not any(each in step.text for each in moves)) or "lds" in step.text
