"""`python -m bench repeats`: how often a command computes what one computation would give.

Needs   the command line in this process, and the examples
Gives   for each command and program how often graphs, flows, footprints and hazards are computed and programs verified,
        and how many of these computations had an input that the command had already asked about
Keeps   inputs are compared by value: places in the text count only where a graph is built from a kernel, since the
        graph carries them on. Programs that differ in synchronization are different inputs
Cost    that of the commands, once

`python -m bench.repeats times` measures the commands instead, this tree beside another one:
`python -m bench.repeats times OTHER_TREE`.
"""

from __future__ import annotations

import contextlib
import io
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
COUNTED = {
    "graphs": ("tidegate.graph.build", "build_graph"),
    "flows": ("tidegate.graph.flow", "flow_of"),
    "footprints": ("tidegate.footprint.resolve", "find_footprints"),
    "hazards": ("tidegate.hazards.find", "find_hazards"),
    "proofs": ("tidegate.verify.verify", "_Verifier"),
}
PROGRAMS = (
    "examples/gemm_two_slots.tide",
    "examples/attention_async.tide",
    "examples/flash_attention.tide",
    "examples/broken/missing_barrier.tide",
    "tests/ttgir/gemm.gfx942.ttgir",
)
COMMANDS = {
    "check": ("check",),
    "check --advice": ("check", "--advice"),
    "sync": ("sync",),
    "schedule": ("schedule",),
    "explain": ("explain",),
    "draw": ("draw", "-o", "page.html"),
}
ROUNDS = 5
MOST_AGAIN = 1  # graphs: two ways to arrange a loop may lead to one kernel


def cases() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The name of a command, that of a program, and the command line."""
    for name, (command, *options) in COMMANDS.items():
        for program in PROGRAMS:
            if command != "schedule" or program.endswith(".tide"):
                yield name, Path(program).name, (command, str(ROOT / program), *options)


class Count:
    """Stands in the place of a function and counts what it is asked."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.calls, self.inputs = function, 0, set[object]()

    def __call__(self, *args: Any, **options: Any) -> Any:
        self.calls += 1
        self.inputs.add(_key(args, options))
        return self.function(*args, **options)


def _key(args: tuple[Any, ...], options: dict[str, Any]) -> object:
    program, *rest = args
    program = getattr(program, "graph", program)  # a flow is that of its graph
    places = repr(program) if type(program).__name__ == "Kernel" else ""
    rest = [each for each in rest if type(each).__name__ == "Target"]
    return program, hash(places), *(each.name for each in rest), *sorted(options.get("atomics", ""))


def counts_of(line: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """For each stage how often it was computed, and how often again for the same input."""
    from tidegate.cli import main

    counts = {}
    for stage, (module, name) in COUNTED.items():
        original = getattr(import_module(module), name)
        counts[stage] = count = Count(original)
        _replace(original, count)
    try:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), _quiet(line):
            main()
    finally:
        for count in counts.values():
            _replace(count, count.function)
    return {stage: (count.calls, count.calls - len(count.inputs)) for stage, count in counts.items()}


def _replace(old: object, new: object) -> None:
    """In every module that has imported it."""
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("tidegate"):
            for name, value in list(vars(module).items()):
                if value is old:
                    setattr(module, name, new)


@contextlib.contextmanager
def _quiet(line: tuple[str, ...]) -> Iterator[None]:
    arguments, sys.argv = sys.argv, ["tidegate", *line]
    try:
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
            yield
    finally:
        sys.argv = arguments


def run() -> tuple[str, bool]:
    """The table, and whether no command builds graphs of one kernel again and again."""
    lines = [f"| command | program | {' | '.join(COUNTED)} |", f"|---|---|{'---:|' * len(COUNTED)}"]
    total: Counter[str] = Counter()
    good = True
    for name, program, line in cases():
        found = counts_of(line)
        good &= found["graphs"][1] <= MOST_AGAIN
        total.update({stage: calls for stage, (calls, _) in found.items()})
        cells = (f"{calls} ({again})" if again else f"{calls}" for calls, again in found.values())
        lines.append(f"| {name} | `{program}` | {' | '.join(cells)} |")
    lines.append(f"| all | | {' | '.join(str(total[stage]) for stage in COUNTED)} |")
    return "\n".join(lines), good


# --- times --------------------------------------------------------------------------------------------------------

# Processor time of a command in a process that has imported everything it needs, and has remembered nothing.
TIMED = """
import contextlib, importlib, io, pkgutil, sys, time
import tidegate
from tidegate.cli import main
for each in pkgutil.walk_packages(tidegate.__path__, "tidegate."):
    if not each.name.endswith("__main__"):
        with contextlib.suppress(ImportError):
            importlib.import_module(each.name)
sys.argv = ["tidegate", *sys.argv[1:]]
out = io.StringIO()
start = time.process_time()
with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), contextlib.suppress(SystemExit):
    main()
print(time.process_time() - start)
"""


def times(other: Path) -> str:
    """Medians of `ROUNDS` rounds, in each of which both trees run every command."""
    seconds: dict[tuple[str, str], dict[Path, list[float]]] = {}
    for _ in range(ROUNDS):
        for name, program, line in cases():
            for tree in (other, ROOT):
                known = seconds.setdefault((name, program), {other: [], ROOT: []})
                known[tree].append(_time(tree, line))
    lines = ["| command | program | before, ms | now, ms | before / now |", "|---|---|---:|---:|---:|"]
    for (name, program), found in seconds.items():
        before, now = (1000 * statistics.median(found[tree]) for tree in (other, ROOT))
        lines.append(f"| {name} | `{program}` | {before:,.0f} | {now:,.0f} | {before / now:.2f} |")
    return "\n".join(lines)


def _time(tree: Path, line: tuple[str, ...]) -> float:
    env = {**os.environ, "PYTHONPATH": str(tree / "src")}
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            [sys.executable, "-c", TIMED, *line], env=env, cwd=folder, capture_output=True, text=True, check=True
        )
    return float(run.stdout.splitlines()[-1])


if __name__ == "__main__":
    if sys.argv[1:2] == ["times"]:
        print(times(Path(sys.argv[2]).resolve()))
    else:
        print(run()[0])
