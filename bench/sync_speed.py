"""From graph to plan on loop nests of 1k to 128k points: time, peak memory, time in isl.

Each size is a process of its own. `python -m bench sync-speed [--quick]`, on a machine that does nothing else.
The graphs are those of `oracles/programs/nests.py`, seed and all.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

SIZES = tuple(1000 * 2**power for power in range(8))
QUICK = SIZES[:4]
MOST_GROWTH, MOST_SECONDS, MOST_MEGABYTES = 2.5, 30.0, 2048.0


def measure(points: int) -> dict[str, float]:
    """One size, in this process."""
    from oracles.programs.nests import count_hazards, nest_graph
    from tidegate.graph.flow import flow_of
    from tidegate.hazards.find import find_hazards
    from tidegate.placement.place import Options, place
    from tidegate.targets import load_target

    target = load_target("gfx942")
    place(find_hazards(flow_of(nest_graph(200)), target), target)  # what is imported once is no part of it
    graph = nest_graph(points)
    start = time.perf_counter()
    found = find_hazards(flow_of(graph), target)
    middle = time.perf_counter()
    placed = place(found, target, Options("minimal"))
    end = time.perf_counter()
    return {
        "points": len(graph.points),
        "conflicts": count_hazards(graph),
        "hazards": len(placed.hazards),
        "barriers": len(placed.plan.edits),
        "find": middle - start,
        "place": end - middle,
        "isl": found.conflicts.isl_seconds,
        "queries": found.conflicts.isl_queries,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def run(quick: bool | None = None) -> tuple[str, bool]:
    """The table, and whether growth, time and memory stay within their limits."""
    quick = "--quick" in sys.argv if quick is None else quick
    rows = [in_a_process(points) for points in (QUICK if quick else SIZES)]
    lines = [
        "| points | hazards for every four points | hazards kept | barriers | seconds | × | finding | placing "
        "| in isl | queries | peak MB |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    good, before = True, 0.0
    for row in rows:
        total = row["find"] + row["place"]
        growth = total / before if before else 0.0
        good = good and growth <= MOST_GROWTH and total <= MOST_SECONDS and row["megabytes"] <= MOST_MEGABYTES
        good = good and row["conflicts"] * 4 >= row["points"]
        lines.append(
            f"| {row['points']:,.0f} | {row['conflicts'] * 4 / row['points']:.2f} | {row['hazards']:,.0f} "
            f"| {row['barriers']:,.0f} | {total:.2f} | {f'{growth:.2f}' if before else '–'} "
            f"| {row['find'] / total:.0%} | {row['place'] / total:.0%} | {row['isl'] / total:.1%} "
            f"| {row['queries']:,.0f} | {row['megabytes']:,.0f} |"
        )
        before = total
    return "\n".join(lines), good


def in_a_process(points: int) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.sync_speed", str(points)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
