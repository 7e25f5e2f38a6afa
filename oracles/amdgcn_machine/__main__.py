"""`python -m oracles.amdgcn_machine TARGET [--only NAME] [--timing T] [--order O] [--seed S] [--workgroups N]`

Compiles Triton's kernels for a target and runs them; prints for each whether its results equal the reference and what
the machine found. With `--workgroups` only the first few workgroups run, and results are not compared. The exit status
is 1 if something differs or was found; what is not understood is listed and does not count.
"""

from __future__ import annotations

import argparse
import sys
import time

from oracles import triton_kernels
from oracles.amdgcn_machine.machine import ORDERS, TIMINGS, Hostility
from oracles.amdgcn_machine.text import NotUnderstood
from oracles.amdgcn_machine.triton import LIKE, TARGETS, kernel

MOST = 3  # sentences for one kernel


def main() -> int:
    given = read_arguments()
    how = Hostility(given.timing, given.order, given.seed)
    as_for = LIKE.get(given.target, given.target)
    chosen = [each for each in triton_kernels.cases() if each.launch and as_for in each.targets]
    counts = {"right": 0, "WRONG": 0, "not understood": 0}
    for case in chosen:
        if given.only not in (None, case.name, case.kernel):
            continue
        began = time.monotonic()
        verdict, said = run_one(case.name, given.target, how, given.workgroups)
        counts[verdict] += 1
        print(f"{case.name:26} {verdict} {time.monotonic() - began:.1f} s", *said[:MOST], sep="\n    ", flush=True)
    print(f"{given.target}: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return 1 if counts["WRONG"] else 0


def run_one(name: str, target: str, how: Hostility, workgroups: int) -> tuple[str, list[str]]:
    """A verdict and sentences."""
    try:
        one = kernel(name, target)
        ran = one.run(how, workgroups)
    except NotUnderstood as error:
        return "not understood", [str(error)]
    said = ran.lines() + ([] if workgroups else one.compare(ran))
    return ("WRONG" if said else "right"), said


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m oracles.amdgcn_machine", description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--only", help="a kernel, or all of a family")
    parser.add_argument("--timing", choices=TIMINGS, default="late")
    parser.add_argument("--order", choices=ORDERS, default="ahead")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workgroups", type=int, default=0, help="run only the first few")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
