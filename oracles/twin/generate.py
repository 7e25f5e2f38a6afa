"""Random programs of three kinds, the same for the same seed."""

from __future__ import annotations

import random

from .builder import Builder
from .generate_atomics import atomics
from .generate_counts import counts
from .generate_lanes import lanes
from .program import Program

KINDS = {"lanes": lanes, "counts": counts, "atomics": atomics}
TARGETS = ("gfx90a", "gfx942", "gfx950", "gfx1201", "gfx1250", "sm_80", "sm_90")


def generate(kind: str, seed: int) -> Program:
    """One program; kinds are lanes, counts and atomics."""
    rng = random.Random(f"{kind} {seed}")
    builder = Builder(rng, rng.choice(TARGETS), rng.choice((1, 2, 2, 3, 4)))
    KINDS[kind](builder)
    return builder.program(kind, seed)
