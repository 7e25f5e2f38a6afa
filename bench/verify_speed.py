"""The verifier on loop nests of 100 to 10k points, and on the examples: time, peak memory, questions.

Each graph is a process of its own, stopped after a while. `python -m bench verify-speed [--quick]`, on a machine
that does nothing else. The graphs are those of `nests.py` with loops one to three deep, synchronized, and as they
are, without any barrier: there every path leads back to the beginning, and almost every pair is unordered.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

SIZES, QUICK = (100, 1_000, 10_000), (100, 1_000)
DEPTHS = (1, 2, 3)
VARIANTS = ("as it is", "synchronized")
MOST_SECONDS = {100: 1.0, 1_000: 5.0}  # what has no limit is shown all the same
MOST_FOR_AN_EXAMPLE = 1.0
STOP_AFTER = 60.0
EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

Row = dict[str, float | str]


def measure_nest(points: int, depth: int, variant: str) -> Row:
    from oracles.programs import nests
    from tidegate.graph.apply import apply_to_graph
    from tidegate.synchronize import synchronize_graph
    from tidegate.targets import load_target
    from tidegate.verify.verify import verify

    nests.MOST_DEPTH = depth
    target = load_target("gfx942")
    verify(nests.nest_graph(60), target)  # what is imported once is no part of it
    graph = nests.nest_graph(points)
    if variant == "synchronized":
        graph = apply_to_graph(synchronize_graph(graph, target).plan, graph)
    before = _megabytes()
    start = time.perf_counter()
    found = verify(graph, target)
    seconds = time.perf_counter() - start
    outcome = "; ".join(found.undecided) or (_suspects(len(found.suspects)) if found.suspects else "proved")
    return {
        "points": len(graph.points),
        "accesses": found.accesses,
        "classes": found.classes,
        "questions": found.questions,
        "queries": found.queries,
        "seconds": seconds,
        "megabytes": _megabytes() - before,
        "outcome": outcome,
    }


def _suspects(count: int) -> str:
    return f"{count:,} suspect{'s' * (count != 1)}"


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure_examples() -> dict[str, float]:
    """Seconds for each; the first is asked about twice, so that imports are no part of it."""
    from tidegate.files import load
    from tidegate.graph.build import build_graph
    from tidegate.targets import load_target
    from tidegate.verify.verify import verify

    found: dict[str, float] = {}
    paths = sorted(EXAMPLES.glob("*.tide"))
    for path in (paths[0], *paths):
        (kernel,) = load(str(path)).kernels
        target = load_target(kernel.target)
        graph = build_graph(kernel, target).graph
        start = time.perf_counter()
        if graph.objects:
            continue  # barrier objects are left to the simulator
        assert verify(graph, target).is_proved, path.stem
        found[path.stem] = time.perf_counter() - start
    return found


# --- tables -------------------------------------------------------------------------------------------------------


def run(quick: bool | None = None) -> tuple[str, bool]:
    """The tables, and whether what has a limit stays within it."""
    quick = "--quick" in sys.argv if quick is None else quick
    lines = [
        "| points | loops | program | accesses | classes | questions | isl queries | seconds | MB | outcome |",
        "|---:|---:|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    good = True
    for points in QUICK if quick else SIZES:
        for depth in DEPTHS:
            for variant in VARIANTS:
                row = in_a_process("nest", str(points), str(depth), variant)
                if row is None:
                    rest = f"– | – | – | – | – | more than {STOP_AFTER:.0f} | – | stopped"
                    lines.append(f"| {points:,} | {depth} | {variant} | {rest} |")
                    good = good and points not in MOST_SECONDS
                    continue
                good = good and float(row["seconds"]) <= MOST_SECONDS.get(points, STOP_AFTER)
                counts = " | ".join(f"{row[each]:,}" for each in ("accesses", "classes", "questions", "queries"))
                lines.append(
                    f"| {row['points']:,} | {depth} | {variant} | {counts} | {row['seconds']:.2f} "
                    f"| {row['megabytes']:.0f} | {row['outcome']} |"
                )
    examples = in_a_process("examples")
    assert examples is not None, "the examples take too long"
    good = good and all(float(each) <= MOST_FOR_AN_EXAMPLE for each in examples.values())
    lines += ["", "| example | ms |", "|---|---:|"]
    lines += (f"| {name} | {float(seconds) * 1000:.0f} |" for name, seconds in examples.items())
    return "\n".join(lines), good


def in_a_process(*arguments: str) -> Row | None:
    """None if it takes too long."""
    command = [sys.executable, "-m", "bench.verify_speed", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=STOP_AFTER)
    except subprocess.TimeoutExpired:
        return None
    found: Row = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    if sys.argv[1] == "examples":
        print(json.dumps(measure_examples()))
    else:
        print(json.dumps(measure_nest(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])))
