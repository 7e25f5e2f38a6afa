"""`python -m bench.gpu compile DIR`, `run DIR --out OUT`, `table OUT/results.json`, or `all DIR`: see docs/gpu.md.

Mistakes of the caller are one sentence on the error stream, and exit status 2.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.gpu.manifest import Refused

TARGETS = ("sm_90", "sm_80")
MERGE_WAITS = ("model", "never", "always")


def main(given: list[str] | None = None) -> int:
    arguments = build_parser().parse_args(given)
    try:
        return arguments.do(arguments)
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 2


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description="Triton's kernels on a GPU")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, do, what in (
        ("compile", do_compile, "compile the kernels: no GPU is needed"),
        ("run", do_run, "run what was compiled: neither Triton nor Tidegate is needed"),
        ("all", do_all, "compile, run, and write the tables"),
    ):
        command = commands.add_parser(name, help=what, description=what)
        command.set_defaults(do=do)
        command.add_argument("dir", type=Path, help="the folder of compiled kernels")
        command.add_argument("--targets", nargs="+", choices=TARGETS, default=TARGETS, help="which chips' kernels")
        command.add_argument("--only", help="one kernel")
        if name != "run":
            command.add_argument("--merge-waits", choices=MERGE_WAITS, default=MERGE_WAITS[0], help="as in Tidegate")
            command.add_argument("--no-removed", action="store_true", help="no kernels with a barrier removed")
        if name != "compile":
            add_run_arguments(command)
    table = commands.add_parser("table", help="write the tables into docs/benchmarks.md")
    table.set_defaults(do=do_table)
    table.add_argument("results", type=Path, help="the results.json of a run")
    work = commands.add_parser("work", help="a process of `run`; it takes tasks on its input")
    work.set_defaults(do=do_work)
    for name in ("dir", "kind", "progress", "lock"):
        work.add_argument(name, type=str if name == "kind" else Path)
    return parser


def add_run_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--out", type=Path, default=Path("build/gpu-results"), help="the folder of results.json")
    command.add_argument("--seconds", type=float, default=1800, help="when time is up, the rest is listed as not run")
    command.add_argument("--numbers", action="store_true", help="numbers against float64; without any of these: all")
    command.add_argument("--time", action="store_true", help="times, with control pairs")
    command.add_argument("--racecheck", action="store_true", help="racecheck and synccheck")


def do_compile(arguments: argparse.Namespace) -> int:
    try:
        from bench.gpu.compiling import compile_corpus
    except ImportError as missing:
        raise Refused(f"{missing.name} is not installed: `pip install 'tidegate[triton]'`") from None
    removed = not arguments.no_removed
    made = compile_corpus(arguments.dir, tuple(arguments.targets), arguments.only, arguments.merge_waits, removed)
    for name, error in made.failed.items():
        print(f"{name} does not compile: {error}")
    print(f"{len(made.entries)} entries in {arguments.dir}")
    return 1 if made.failed else 0


def do_run(arguments: argparse.Namespace) -> int:
    from bench.gpu.running import PHASES, run_corpus

    asked = {
        "numbers": arguments.numbers,
        "time": arguments.time,
        "racecheck": arguments.racecheck,
        "synccheck": arguments.racecheck,
    }
    phases = tuple(each.name for each in PHASES if asked[each.name] or not any(asked.values()))
    run_corpus(arguments.dir, arguments.out, phases, arguments.only, tuple(arguments.targets), arguments.seconds)
    return 0


def do_table(arguments: argparse.Namespace) -> int:
    from bench.gpu.tables import write_tables

    return write_tables(arguments.results)


def do_all(arguments: argparse.Namespace) -> int:
    from bench.gpu.running import RESULTS

    status = do_compile(arguments)
    do_run(arguments)
    arguments.results = arguments.out / RESULTS
    return max(status, do_table(arguments))


def do_work(arguments: argparse.Namespace) -> int:
    from bench.gpu.working import work

    return work(arguments.dir, arguments.kind, arguments.progress, arguments.lock)


if __name__ == "__main__":
    sys.exit(main())
