"""How long `check` takes for a kernel of PTX, and how much memory: Triton's own kernels, and those of a checkout.

    python -m bench.ptx_speed                              the NVIDIA kernels of `oracles/triton_kernels`
    python -m bench.ptx_speed ROWS.json FOLDER             those of `bench.cuda_corpus --json ROWS.json --keep FOLDER`

Needs   Triton, or what the other bench has kept
Gives   the processor's time and the most memory of a process that checks one kernel; what reached a bound
Keeps   every kernel has a process of its own, forked after all imports. Memory is an upper bound: that of the process
        with Python and its libraries, and what the child added or touched
Cost    that of the checks
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.cuda_corpus import judge_one
from bench.triton_figures import in_a_child

SECONDS = 120.0
BOUNDS = ("bound", "takes more than", "more than")


@dataclass(frozen=True, slots=True)
class Task:
    path: Path
    kernel: str
    block: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Figures:
    name: str
    verdict: str
    why: str
    seconds: float
    megabytes: float


def triton_tasks(folder: Path) -> Iterator[Task]:
    from oracles.triton_kernels import NVIDIA, cases, compile_to
    from tidegate.hosts.ptx.parse import parse_ptx

    for case in cases():
        for target in case.targets:
            if target in NVIDIA:
                path = folder / f"{case.name}.{target}.ptx"
                path.write_text(str(compile_to(case, target, "ptx")[0]["ptx"]), encoding="utf-8")
                text = path.read_text(encoding="utf-8")
                yield from (Task(path, each.name, "") for each in parse_ptx(text, path.name).entries)


def kept_tasks(rows: Path, folder: Path) -> Iterator[Task]:
    for each in json.loads(rows.read_text(encoding="utf-8")):
        if each["kernel"]:
            block, *given = each["block"].split()
            yield Task(folder / (each["file"].replace("/", "_") + ".ptx"), each["kernel"], block, tuple(given))


def measured(task: Task) -> Figures:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # of which the child shares a part

    def work() -> dict[str, object]:
        began = time.process_time()
        verdict, why = judge_one(task.path, task.kernel, task.block, task.arguments)
        most = (before + resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 1024
        return {"verdict": verdict, "why": why, "seconds": time.process_time() - began, "megabytes": most}

    name = f"{task.path.stem}::{task.kernel}"
    found = in_a_child(work, SECONDS)
    if "error" in found:
        return Figures(name, "undecided", found["error"], SECONDS, 0.0)
    return Figures(name, **found)


def table(found: list[Figures]) -> str:
    times = sorted(each.seconds for each in found)
    memory = sorted(each.megabytes for each in found)

    def at(values: list[float], share: float) -> float:
        return values[min(len(values) - 1, int(share * len(values)))]

    late = [each for each in found if any(word in each.why for word in BOUNDS)]
    return "\n".join(
        (
            "| kernels | median | 95 % | most | memory, median | memory, most | a bound was reached |",
            "|---:|---:|---:|---:|---:|---:|---:|",
            f"| {len(found)} | {at(times, 0.5):.2f} s | {at(times, 0.95):.2f} s | {times[-1]:.1f} s "
            f"| {at(memory, 0.5):.0f} MB | {memory[-1]:.0f} MB | {len(late)} |",
            *(f"  {each.name}: {each.why[:120]} ({each.seconds:.1f} s, {each.megabytes:.0f} MB)" for each in late),
        )
    )


def main(given: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tasks = kept_tasks(*map(Path, given)) if given else triton_tasks(Path(folder))
        found = []
        for each in tasks:
            found.append(measured(each))
            print(found[-1], flush=True)
    print(table(found))


if __name__ == "__main__":
    main(sys.argv[1:])
