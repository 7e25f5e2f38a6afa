"""How fast kernels are parsed, printed, traced and turned into graphs, from 1k to 128k operations.

Each measurement is a process of its own, so that its peak memory is its own; sizes and stages are interleaved and
each is measured several times; the median counts.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from statistics import median

SIZES = tuple(1000 * 2**power for power in range(8))
STAGES = ("parse", "print", "trace", "graph", "graph text")
REPEATS = 3
MOST_GROWTH = 2.5


def measure(stage: str, count: int) -> dict[str, float]:
    """One stage once, in this process: operations, seconds, and the megabytes that it added at its peak."""
    from bench.kernels import count_ops, make_kernel, traced_kernel
    from tidegate.graph.build import build_graph
    from tidegate.graph.parse import parse_graph
    from tidegate.graph.show import show_graph
    from tidegate.language.parse import parse
    from tidegate.language.show import show
    from tidegate.targets import load_target

    target = load_target("gfx942")
    build_graph(make_kernel(50), target)  # what is read and imported once is not part of the measurement
    kernel = make_kernel(count) if stage != "trace" else None
    text = show(kernel) if kernel is not None else ""
    if stage == "graph text":
        assert kernel is not None
        graph = build_graph(kernel, target).graph
    function = traced_kernel(count)
    before = _peak()
    start = time.perf_counter()
    if stage == "parse":
        done: object = parse(text)
    elif stage == "print":
        assert kernel is not None
        done = show(kernel)
    elif stage == "trace":
        kernel = function.trace().kernel
        done = kernel
    elif stage == "graph":
        assert kernel is not None
        done = build_graph(kernel, target)
    else:
        done = parse_graph(show_graph(graph))
    seconds = time.perf_counter() - start
    assert done is not None
    assert kernel is not None
    return {"ops": count_ops(kernel), "seconds": seconds, "megabytes": _peak() - before}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run() -> tuple[str, bool]:
    """The table as Markdown, and whether every doubling stayed under the limit."""
    found: dict[tuple[str, int], list[dict[str, float]]] = {}
    for _ in range(REPEATS):
        for count in SIZES:
            for stage in STAGES:
                found.setdefault((stage, count), []).append(_in_own_process(stage, count))
    lines = [
        "| operations | " + " | ".join(f"{stage}: ops/s | × | MB" for stage in STAGES) + " |",
        "|---:|" + "---:|" * (3 * len(STAGES)),
    ]
    good, last = True, {}
    for count in SIZES:
        cells = [f"{count:,}"]
        for stage in STAGES:
            runs = found[stage, count]
            seconds = median(each["seconds"] for each in runs)
            ops = runs[0]["ops"]
            growth = seconds / last[stage] if stage in last else 0.0
            good = good and growth <= MOST_GROWTH
            last[stage] = seconds
            megabytes = median(each["megabytes"] for each in runs)
            cells += [f"{ops / seconds:,.0f}", f"{growth:.2f}" if growth else "–", f"{megabytes:.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines), good


def _in_own_process(stage: str, count: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.scaling", stage, str(count)], capture_output=True, text=True, check=True
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
