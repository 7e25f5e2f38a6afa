"""`python -m bench [NAME ...] [--quick]`: runs the benchmarks and writes their tables into docs/benchmarks.md.

Each table stands between two markers in that page; what is around them is written by hand. With `--quick` those that
draw programs draw few, and nothing is written.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable

from bench import (
    async_counts,
    async_fuzz,
    async_speed,
    cost_ranking,
    documentation,
    draw_pages,
    explore,
    house,
    least,
    removals,
    repeats,
    rings,
    scaling,
    schedule_fuzz,
    schedule_speed,
    schedule_table,
    simulate,
    slow_kernels,
    startup,
    sync_examples,
    sync_necessity,
    sync_optimality,
    sync_soundness,
    sync_speed,
    triton_assembly,
    triton_barriers,
    triton_compile,
    triton_mutants,
    triton_time,
    twins,
    verify_agreement,
    verify_mutants,
    verify_speed,
)
from bench.page import put
from oracles.triton_kernels.texts import TEXTS
from tidegate.hosts.triton import libtriton

BENCHMARKS: dict[str, Callable[[], tuple[str, bool]]] = {
    "startup": startup.run,
    "scaling": scaling.run,
    "removals": removals.run,
    "explore": explore.run,
    "simulate": simulate.run,
    "sync-examples": sync_examples.run,
    "sync-optimality": sync_optimality.run,
    "sync-necessity": sync_necessity.run,
    "least": least.run,
    "sync-soundness": sync_soundness.run,
    "sync-speed": sync_speed.run,
    "async-counts": async_counts.run,
    "async-fuzz": async_fuzz.run,
    "async-speed": async_speed.run,
    "schedule": schedule_table.run,
    "schedule-fuzz": schedule_fuzz.run,
    "schedule-speed": schedule_speed.run,
    "verify-agreement": verify_agreement.run,
    "verify-rules": verify_mutants.run,
    "verify-speed": verify_speed.run,
    "rings": rings.run,
    "slow-kernels": slow_kernels.run,
    "twins": twins.run,
    "cost-ranking": cost_ranking.run,
    "draw-pages": draw_pages.run,
    "documentation": documentation.run,
    "house": house.run,
    "repeats": repeats.run,
    "triton-barriers": triton_barriers.run,
    "triton-time": triton_time.run,
    "triton-mutants": triton_mutants.run,
    "triton-assembly": triton_assembly.run,
    "triton-compile": triton_compile.run,
}
QUICK = "--quick"
NEED_TRITON = ("triton-barriers", "triton-time", "triton-mutants", "triton-assembly", "triton-compile")
# Tables without a clock, which are the same on every machine, and those that say themselves where they were made.
UNTIMED = (
    "gpu",
    "gpu-removed",
    "removals",
    "sync-examples",
    "sync-optimality",
    "sync-necessity",
    "least",
    "sync-soundness",
    "async-counts",
    "async-fuzz",
    "schedule",
    "schedule-fuzz",
    "verify-agreement",
    "verify-rules",
    "twins",
    "cost-ranking",
    "documentation",
    "house",
    "repeats",
    "triton-barriers",
    "triton-mutants",
    "triton-assembly",
)


def main() -> int:
    names = [each for each in sys.argv[1:] if each != QUICK and not each.startswith(TEXTS)] or all_that_can_run()
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"there is no benchmark `{unknown[0]}`; there are: {', '.join(BENCHMARKS)}")
        return 2
    status = 0
    for name in names:
        table, good = BENCHMARKS[name]()
        print(f"\n{name}\n\n{table}\n\n{'within' if good else 'BEYOND'} its limits")
        status = max(status, 0 if good else 1)
        if QUICK not in sys.argv:
            write(name, table)
    return status


def all_that_can_run() -> list[str]:
    """Every benchmark; those on Triton's kernels only where Triton is."""
    if libtriton.is_installed():
        return list(BENCHMARKS)
    print(f"NOT RUN: {', '.join(NEED_TRITON)}, because Triton is not installed; {libtriton.INSTALL}")
    return [name for name in BENCHMARKS if name not in NEED_TRITON]


def write(name: str, table: str) -> None:
    machine = f"\n\nPython {platform.python_version()}, {platform.machine()}, medians of one interleaved run."
    put(name, f"{table}{'' if name in UNTIMED else machine}")


if __name__ == "__main__":
    sys.exit(main())
