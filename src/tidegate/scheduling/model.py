"""What ping-pong scheduling is asked for, and what it says when it declines.

Needs   nothing
Gives   the strategies by name, and `Declined`: the reason as a word, one sentence, and what would make it fit
Keeps   a reason is one of `REASONS`; words never change their meaning, for tests and `--json` rely on them
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tidegate.diag import NOWHERE, Span

# Why a loop is not scheduled; what a user can do about it stands in each `Declined`.
REASONS = {
    "scheduling-type": "only loops that are pipelined by prefetching are scheduled",
    "misfit": "the target does not have what the kernel needs",
    "odd-waves": "the waves cannot be halved",
    "wave-groups": "waves run different programs",
    "no-loop": "no loop holds matrix products",
    "under-condition": "not all waves reach the loop",
    "nested": "the loop holds another loop, a conditional or an early end",
    "staggered": "the kernel already has conditional barriers",
    "objects": "the loop uses barrier objects",
    "fenced": "something in the loop must not be crossed",
    "no-memory": "there is too little memory work to overlap with",
    "not-copies": "the strategy is for loops of another kind",
    "not-pipelined": "products need what is written to shared memory in the same iteration",
    "no-split": "there are fewer matrix products than clusters, and they cannot be split",
    "dependence": "dependences need more clusters",
    "unordered": "something races under stagger and cannot be ordered",
    "not-proven": "the result could not be proved",
}

AUTO, NONE, TWO, ASYNC_TWO = "auto", "none", "two-pp-cluster", "async-two-pp-cluster"
CLUSTERS = "clusters"  # as many as are cheapest
MOST_CLUSTERS = 16


def clusters_of(strategy: str) -> int | None:
    """How many clusters a strategy asks for: 0 for none, None if there is no such strategy."""
    if strategy in (TWO, ASYNC_TWO):
        return 2
    found = re.fullmatch(r"clusters=(\d+)", strategy)
    if found and 1 <= int(found[1]) <= MOST_CLUSTERS:
        return int(found[1])
    return 0 if strategy == NONE else None


@dataclass(frozen=True, slots=True)
class Declined:
    """Why nothing was done: `says` is a sentence about the kernel at hand, `fits` what would make it fit."""

    reason: str
    says: str
    fits: str = ""
    at: Span = field(default=NOWHERE, compare=False)

    def __post_init__(self) -> None:
        assert self.reason in REASONS, self.reason

    def __str__(self) -> str:
        return f"{self.says}; {self.fits}" if self.fits else self.says
