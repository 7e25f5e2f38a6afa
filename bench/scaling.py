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
from collections.abc import Callable
from statistics import median

SIZES = tuple(1000 * 2**power for power in range(8))
STAGES = ("parse", "print", "trace", "graph", "graph text")
REPEATS = 3
MOST_GROWTH = 2.5


def measure(stage: str, count: int) -> dict[str, float]:
    """One stage in this process: operations, seconds, and the megabytes that it added at its peak.

    Small kernels are done several times, or the clock would be measured: the median counts.
    """
    from oracles.programs.kernels import count_ops, make_kernel, traced_kernel
    from tidegate.graph.build import build_graph
    from tidegate.graph.parse import parse_graph
    from tidegate.graph.show import show_graph
    from tidegate.language.ops import Kernel
    from tidegate.language.parse import parse
    from tidegate.language.show import show
    from tidegate.targets import load_target

    target = load_target("gfx942")
    build_graph(make_kernel(50), target)  # what is read and imported once is not part of the measurement
    kernel = make_kernel(count if stage != "trace" else 50)
    text = show(kernel)
    graph = build_graph(kernel, target).graph if stage == "graph text" else None
    work: dict[str, Callable[[], object]] = {
        "parse": lambda: parse(text),
        "print": lambda: show(kernel),
        "trace": lambda: traced_kernel(count).trace().kernel,
        "graph": lambda: build_graph(kernel, target),
        "graph text": lambda: graph and parse_graph(show_graph(graph)),
    }
    before, times = _peak(), []
    for _ in range(max(1, 32_000 // count)):
        start = time.perf_counter()
        done = work[stage]()
        times.append(time.perf_counter() - start)
    ops = count_ops(done if isinstance(done, Kernel) else kernel)
    return {"ops": ops, "seconds": median(times), "megabytes": _peak() - before}


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
