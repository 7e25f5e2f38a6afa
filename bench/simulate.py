"""How fast the judge goes through the examples, and what a run with numbers costs.

Needs   the examples' graphs; the double-buffered matrix product of eight waves in `oracles/programs/kernels.py`
Gives   steps per second of the judge; seconds and peak memory of the hostile machine, beside the in-order machine
Keeps   every run with numbers is a process of its own, and its result is compared with NumPy's
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from statistics import median

from oracles.programs.small_examples import EXAMPLES, NAMES

REPEATS = 5
RUNS = 3
MACHINES = ("in order", "hostile")


def run() -> tuple[str, bool]:
    """Both tables as Markdown; nothing here has a limit."""
    return f"{_table_of_judge()}\n\n{_table_of_runs()}", True


# --- the judge ----------------------------------------------------------------------------------------------------


def _table_of_judge() -> str:
    from oracles.programs.kernels import gemm_of_eight_waves
    from tidegate.language.ops import Kernel
    from tidegate.language.parse import parse

    examples = {name: parse((EXAMPLES / f"{name}.tide").read_text("utf-8")).kernels[0] for name in NAMES}
    kernels: dict[str, Kernel] = {**examples, "gemm of eight waves": gemm_of_eight_waves().trace().kernel}
    lines = [
        "| kernel | waves | configurations | steps | judge | steps per second |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    times: dict[str, list[float]] = {name: [] for name in kernels}
    facts: dict[str, tuple[int, int]] = {}
    for _ in range(REPEATS):
        for name, kernel in kernels.items():
            seconds, facts[name] = _judge(kernel)
            times[name].append(seconds)
    for name, kernel in kernels.items():
        (configurations, steps), seconds = facts[name], median(times[name])
        lines.append(
            f"| {name} | {kernel.waves} | {configurations} | {steps:,} | {seconds * 1000:.0f} ms "
            f"| {steps / seconds:,.0f} |"
        )
    steps, seconds = sum(count for _, count in facts.values()), sum(median(each) for each in times.values())
    lines.append(f"| all | | | {steps:,} | {seconds * 1000:.0f} ms | {steps / seconds:,.0f} |")
    return "\n".join(lines)


def _judge(kernel: object) -> tuple[float, tuple[int, int]]:
    """Seconds, and how many configurations and steps they went into; the graph is not part of it."""
    from tidegate.graph.build import build_graph
    from tidegate.language.ops import Kernel
    from tidegate.simulate.judge import judge
    from tidegate.targets import load_target

    assert isinstance(kernel, Kernel)
    target = load_target(kernel.target)
    graph = build_graph(kernel, target).graph
    start = time.perf_counter()
    judgement = judge(graph, target)
    seconds = time.perf_counter() - start
    assert not judgement.findings
    return seconds, (judgement.configurations, judgement.steps)


# --- runs with numbers --------------------------------------------------------------------------------------------


def _table_of_runs() -> str:
    found: dict[str, list[dict[str, float]]] = {machine: [] for machine in MACHINES}
    for _ in range(RUNS):
        for machine in MACHINES:
            found[machine].append(_in_own_process(machine))
    base = median(each["seconds"] for each in found["in order"])
    lines = [
        "| machine | time | beside in order | steps per second | peak memory |",
        "|---|---:|---:|---:|---:|",
    ]
    for machine, runs in found.items():
        seconds = median(each["seconds"] for each in runs)
        steps = f"{runs[0]['steps'] / seconds:,.0f}" if runs[0]["steps"] else "–"
        peak = median(each["peak"] for each in runs)
        lines.append(f"| {machine} | {seconds:.2f} s | {seconds / base:.2f} | {steps} | {peak:.0f} MB |")
    return "\n".join(lines)


def _in_own_process(machine: str) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-m", "bench.simulate", machine], capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def measure(machine: str) -> dict[str, float]:
    """The matrix product on one machine in this process; the first run of a small one pays for imports."""
    import numpy as np

    from oracles.programs.kernels import gemm_of_eight_waves
    from tidegate.simulate.hostile import run_hostile
    from tidegate.simulate.inorder import make_inputs
    from tidegate.simulate.inorder import run as run_in_order
    from tidegate.targets import load_target

    kernel = gemm_of_eight_waves().trace().kernel
    target = load_target(kernel.target)

    def go(sizes: dict[str, int]) -> tuple[float, int]:
        inputs = make_inputs(kernel, sizes, seed=1)
        before, steps = time.perf_counter(), 0
        if machine == "hostile":
            ran = run_hostile(kernel, inputs, target=target, sizes=sizes, seed=1)
            after, steps = ran.arrays, ran.statistics.steps
            assert not ran.findings()
        else:
            after = run_in_order(kernel, inputs, sizes=sizes)
        seconds = time.perf_counter() - before
        wanted = inputs["A"].astype(np.float32) @ inputs["B"].astype(np.float32).T
        np.testing.assert_allclose(after["C"], wanted, 1e-3, 1e-3)
        return seconds, steps

    go({"M": 128, "N": 128, "K": 32})
    seconds, steps = go({"M": 256, "N": 256, "K": 1024})
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "steps": steps, "peak": peak}


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
