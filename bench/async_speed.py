"""How long counts take: a chain of merges, whose paths nobody could walk one by one, and long programs.

`python -m bench async-speed`

A copy, `merges` conditionals one after the other with one or two copies in their arms, and a wait for the first copy:
2 to the power of `merges` paths. Long programs are loops with such chains in them, one after the other, each with a
wait for a copy that the loop carries.
"""

from __future__ import annotations

import statistics
import sys
import time

from tidegate.graph.build import build_graph
from tidegate.graph.flow import Flow, flow_of
from tidegate.language.parse import parse
from tidegate.targets import load_target
from tidegate.waits.counts import count_waits

TARGET = "gfx950"
MERGES = (1, 2, 4, 8, 16, 32, 64, 128)
POINTS = (1_000, 10_000, 100_000)
MOST_MILLISECONDS, MOST_GROWTH = 50.0, 15.0
RUNS = 5
HEAD = "kernel @k(%X: global<4x4x64xf32>, %f: flag) sizes(N = 4) waves 4 {\n  %t = alloc : lds<4x64xf32, slots = 2>\n"
COPY = "gather_to_lds %X[0, wave] to %t[{slot}][wave] : tile<64xf32>\n"


def copy(slot: int, name: str = "") -> str:
    return (f"{name} = " if name else "") + COPY.format(slot=slot)


def merge() -> str:
    return "conditional %f {\n" + copy(1) * 2 + "} else {\n" + copy(1) + "}\n"


def flow(body: str) -> Flow:
    return flow_of(build_graph(parse(f"target {TARGET}\n{HEAD}{body}}}\n").kernels[0], load_target(TARGET)).graph)


def chain(merges: int) -> Flow:
    return flow(copy(0, "%c") + merge() * merges + "wait_count deps(%c)\n")


def loops(points: int) -> Flow:
    """Loops with a chain of four merges in each."""
    count = max(1, points // 38)
    body = "".join(
        f"%d{n} = iterate %k{n} in 0 .. N carry(%o{n} = %none : dep) {{\nwait_count deps(%o{n})\n"
        f"{merge() * 4}{copy(0, f'%c{n}')}{merge()}yield %c{n}\n}}\n"
        for n in range(count)
    )
    return flow("%none = null_async_dep\n" + body)


def seconds(found: Flow) -> float:
    target = load_target(TARGET)
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        counted = count_waits(found, target)
        times.append(time.perf_counter() - start)
        assert all("vmcnt" in each.counts for each in counted.values())
    return statistics.median(times)


def run(quick: bool | None = None) -> tuple[str, bool]:
    quick = "--quick" in sys.argv if quick is None else quick
    lines = ["| merges | paths | milliseconds |", "|---:|---:|---:|"]
    good = True
    for merges in MERGES:
        taken = seconds(chain(merges)) * 1000
        good = good and taken <= MOST_MILLISECONDS
        lines.append(f"| {merges} | 2^{merges} | {taken:.2f} |")
    lines += ["", "| points | waits | seconds | × |", "|---:|---:|---:|---:|"]
    before = 0.0
    for points in POINTS[: 2 if quick else None]:
        found = loops(points)
        taken = seconds(found)
        waits = len(count_waits(found, load_target(TARGET)))
        growth = taken / before if before else 0.0
        good = good and growth <= MOST_GROWTH
        lines.append(f"| {len(found.origin):,} | {waits:,} | {taken:.3f} | {f'{growth:.1f}' if before else '–'} |")
        before = taken
    return "\n".join(lines), good
