"""What the product says of a trace. The only file here that imports it, and only by what its user page documents."""

from __future__ import annotations

import contextlib
import importlib
import io
import random
import warnings
from dataclasses import dataclass
from typing import Any

from wave_lang.kernel.ops import wave_ops as ops

from .build import Subject, compiled
from .program import Program

tidegate_wave: Any = importlib.import_module("tidegate.wave")
tidegate_targets: Any = importlib.import_module("tidegate.targets")
SYNCS = (
    ops.SharedMemoryBarrier,
    ops.SharedMemoryBarrierSignal,
    ops.SharedMemoryBarrierWait,
    ops.WorkgroupBarrier,
    ops.MemoryCounterWait,
)


@dataclass(frozen=True)
class Placed:
    """A trace that the product synchronized, or Wave's own pass after the product gave up."""

    subject: Subject
    why_not: str
    first_line: str

    @property
    def proved(self) -> bool:
        return not self.why_not and "proved" in self.first_line


def synchronize(program: Program) -> Placed:
    """Through `wave_compile`, with the drop-in in the place of Wave's pass."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):  # Wave prints a trace that it fails on
        warnings.simplefilter("ignore")
        with tidegate_wave.enabled():
            subject = compiled(program, "placed")
    entry = tidegate_wave.report().entries[-1]
    lines = str(tidegate_wave.report()).splitlines()
    first = [line for line in lines if line.startswith("@")][-1]
    return Placed(subject, str(entry.why_not), first)


def wait_is_fence(target: str) -> bool:
    """Whether a target file says, with its source, that LLVM moves no LDS access across a wait."""
    return bool(tidegate_targets.load_target(target).fence.waits)


def errors(subject: Subject) -> list[str]:
    """The codes of what `check` finds wrong, or that it proves nothing; none means that the trace is proved."""
    found = tidegate_wave.check(
        subject.trace,
        subject.setting.target,
        constraints=subject.kernel.constraints,
        sizes=subject.options.subs,
    )
    return sorted(finding.code for finding in found) or ([] if found.is_proved else ["not proved"])


def damage(subject: Subject, seed: int) -> bool:
    """Takes one barrier, or one pair of signal and wait, out of a trace. False if there is none."""
    nodes = [n for n in subject.trace.preorder_walk() if isinstance(ops.get_custom(n), SYNCS)]
    nodes = [n for n in nodes if not isinstance(ops.get_custom(n), ops.SharedMemoryBarrierWait)]
    if not nodes:
        return False
    victim: Any = random.Random(f"wave damage {seed}").choice(nodes)
    if isinstance(ops.get_custom(victim), ops.SharedMemoryBarrierSignal):
        after = victim.next
        while not isinstance(ops.get_custom(after), (ops.SharedMemoryBarrierWait, ops.Output)):
            after = after.next
        if not isinstance(ops.get_custom(after), ops.SharedMemoryBarrierWait):
            return False
        after.graph.erase_node(after)
    victim.graph.erase_node(victim)
    return True
