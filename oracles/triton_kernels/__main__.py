"""`python -m oracles.triton_kernels DIR [--only NAME] [--target T] [--jobs N]`: writes DIR/NAME.TARGET.ttgir for all.

Prints a table of what compiled and what did not, with the first line of the error; the exit status is 1 when a kernel
did not compile for a target that it lists.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from oracles.triton_kernels import TARGETS, cases
from oracles.triton_kernels.writing import write_one


def main() -> int:
    arguments = read_arguments()
    chosen = [each for each in cases() if arguments.only in (None, each.name, each.kernel)]
    if not chosen:
        print(f"no kernel is named {arguments.only}", file=sys.stderr)
        return 2
    wanted = [arguments.target] if arguments.target else list(TARGETS)
    work = [(each.name, target) for each in chosen for target in wanted if arguments.all or target in each.targets]
    arguments.dir.mkdir(parents=True, exist_ok=True)
    folders = [str(arguments.dir)] * len(work)
    # Forked processes would share what LLVM has set up.
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
        errors = dict(zip(work, pool.map(write_one, folders, *zip(*work, strict=True), chunksize=4), strict=True))
    print("| kernel | " + " | ".join(wanted) + " |")
    print("|---" * (len(wanted) + 1) + "|")
    for each in chosen:
        cells = [{None: "–", "": "yes"}.get(errors.get((each.name, target)), "no") for target in wanted]
        print(f"| {each.name} | " + " | ".join(cells) + " |")
    failed = {key: error for key, error in errors.items() if error}
    for (name, target), error in failed.items():
        print(f"{name} for {target}: {error}")
    listed = {(each.name, target) for each in chosen for target in each.targets}
    print(f"{len(work) - len(failed)} compiled, {len(failed)} did not")
    return 1 if failed.keys() & listed else 0


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m oracles.triton_kernels", description=__doc__)
    parser.add_argument("dir", type=Path, help="where the files go")
    parser.add_argument("--only", help="a kernel, or all of a family")
    parser.add_argument("--target", choices=list(TARGETS), help="one target")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--all", action="store_true", help="try the targets that a kernel does not list, too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
