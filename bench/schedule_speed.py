"""How long it takes to schedule a loop body, by its operations: arranging alone, and with synchronization and proof.

`python -m bench schedule-speed`: bodies of `oracles/programs/schedule_kernels.py`, two clusters, on gfx942.
"""

from __future__ import annotations

from time import perf_counter

from oracles.programs.schedule_kernels import long_body
from tidegate.language.parse import parse
from tidegate.pingpong import schedule_kernel
from tidegate.scheduling.body import Body, find_body, without_placed
from tidegate.scheduling.clusters import Arrangement, arrange
from tidegate.targets import load_target

SIZES = (125, 250, 500, 1000, 2000)
TARGET, STRATEGY = "gfx942", "clusters=2"
MOST = 60.0  # seconds for the longest, all in all


def run() -> tuple[str, bool]:
    lines = ["| operations | arranged, s | scheduled, synchronized, priced and proved, s |", "|---:|---:|---:|"]
    target, last = load_target(TARGET), 0.0
    for size in SIZES:
        (kernel,) = parse(long_body(size)).kernels
        start = perf_counter()
        body = find_body(without_placed(kernel), target)
        assert isinstance(body, Body)
        assert isinstance(arrange(body, 2), Arrangement)
        arranged = perf_counter() - start
        start = perf_counter()
        assert schedule_kernel(kernel, target, STRATEGY, certain=False).kernel is not None
        last = perf_counter() - start
        lines.append(f"| {len(body.pieces):,} | {arranged:.2f} | {last:.1f} |")
    return "\n".join(lines), last <= MOST
