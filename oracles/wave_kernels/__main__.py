"""`python -m oracles.wave_kernels [--only NAME] [--target T] [--assembly] [--all]`: what compiles, what it waits for.

Prints a row for each kernel and target with the barriers that were there before Wave's barrier pass and those that it
adds, and what did not compile with the first line of the error. The exit status is 1 when a kernel did not compile for
a target that it lists.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from oracles.wave_kernels import TARGETS, cases
from oracles.wave_kernels.counting import Row, look_at


def main() -> int:
    arguments = read_arguments()
    chosen = [each for each in cases() if arguments.only in (None, each.name, each.kernel)]
    if not chosen:
        print(f"no kernel is named {arguments.only}", file=sys.stderr)
        return 2
    wanted = [arguments.target] if arguments.target else list(TARGETS)
    work = [(each.name, target) for each in chosen for target in wanted if arguments.all or target in each.targets]
    print("| kernel | target | there before | Wave adds | its pass | assembly |\n|---|---|---|---|---|---|")
    failed: set[tuple[str, str]] = set()
    for row in rows_of(work, arguments.assembly):
        print(line_of(row), flush=True)
        if row.error:
            failed.add((row.name, row.target))
    listed = {(each.name, target) for each in chosen for target in each.targets}
    print(f"{len(work) - len(failed)} compiled, {len(failed)} did not")
    return 1 if failed & listed else 0


def rows_of(work: list[tuple[str, str]], assembly: bool) -> Iterator[Row]:
    """One process after another: a crash costs the row that it happened in."""
    pool = new_pool()
    for name, target in work:
        try:
            yield pool.submit(look_at, name, target, assembly).result()
        except BrokenProcessPool:
            pool = new_pool()
            yield Row(name, target, {}, {}, 0.0, 0, "the process ended")
    pool.shutdown()


def new_pool() -> ProcessPoolExecutor:
    # Forked processes would share what MLIR has set up.
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


def line_of(row: Row) -> str:
    if row.error:
        return f"| {row.name} | {row.target} | {row.error} |"
    added = {name: count - row.before.get(name, 0) for name, count in row.after.items()}
    length = f"{row.lines} lines" if row.lines else ""
    cells = (row.name, row.target, listing(row.before), listing(added), f"{row.milliseconds:.1f} ms", length)
    return "| " + " | ".join(cells) + " |"


def listing(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m oracles.wave_kernels", description=__doc__)
    parser.add_argument("--only", help="a kernel, or all of a family")
    parser.add_argument("--target", choices=TARGETS, help="one target")
    parser.add_argument("--assembly", action="store_true", help="let IREE compile it, too")
    parser.add_argument("--all", action="store_true", help="try the targets that a kernel does not list, too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
