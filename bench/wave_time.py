"""How long Wave's barrier pass takes, and how long ours: `python -m bench.wave_time [--target T] [--only NAME,...]`.

On one trace of each kernel and target, in one process, in turn: our conversion in, plan and conversion out, each by
itself, and Wave's own pass. Both change the trace; what they put in is taken away again before the next round. Proofs
are not part of it, since Wave makes none; their time is a column of its own. Medians of rounds, ratios from one run.
What Tidegate has found out about pairs of accesses it remembers for the process, as Wave remembers expressions that it
has simplified; *first* is a plan for which all of that was forgotten.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from oracles.wave_kernels import TARGETS, Case, cases, first_error, trace_of
from tidegate.footprint.conflicts import forget_meetings
from tidegate.hosts.wave.build import build
from tidegate.hosts.wave.context import context_of
from tidegate.hosts.wave.dropin.passing import Options, find_doubt, place_barriers
from tidegate.hosts.wave.nodes import SYNCHRONIZATION
from tidegate.hosts.wave.regions import reached_graphs
from tidegate.hosts.wave.write import take_back
from tidegate.targets import load_target

ROUNDS = 7


@dataclass(slots=True)
class Row:
    """Milliseconds, medians."""

    name: str
    target: str
    wave: float = 0.0
    read: float = 0.0
    plan: float = 0.0
    first: float = 0.0
    write: float = 0.0
    prove: float = 0.0
    error: str = ""

    @property
    def whole(self) -> float:
        return self.read + self.plan + self.write


def look_at(case: Case, target: str) -> Row:
    os.environ["WAVE_CACHE_ON"] = "0"
    row = Row(case.name, target)

    def before(trace: Any, constraints: Any, options: Any) -> None:
        _measure(row, trace, constraints, options.target)

    quiet = io.StringIO()
    try:
        with redirect_stdout(quiet), redirect_stderr(quiet):
            trace_of(case, target, before)
    except Exception as error:  # whatever is raised is what the table says
        row.error = f"{type(error).__name__}: {first_error(str(error))}"
    return row


def _measure(row: Row, trace: Any, constraints: Any, target: str) -> None:
    from wave_lang.kernel.wave.barriers import add_shared_memory_barriers

    facts = load_target(target)
    found: dict[str, list[float]] = {"wave": [], "read": [], "plan": [], "first": [], "write": [], "prove": []}
    for number in range(ROUNDS):
        if number == 0:
            forget_meetings()
        gc.collect()
        stood = set(_synchronization(trace))
        start = time.perf_counter()
        add_shared_memory_barriers(trace, target=target)
        found["wave"].append(time.perf_counter() - start)
        for node in [each for each in _synchronization(trace) if each not in stood]:
            node.graph.erase_node(node)
        gc.collect()
        start = time.perf_counter()
        context = context_of(constraints)
        asked = time.perf_counter() - start
        placed = place_barriers(trace, context, facts, Options(verify=False))
        assert placed.written is not None, placed.why_not
        found["read"].append(placed.seconds["read"] + asked)
        found["plan" if number else "first"].append(placed.seconds["plan"])
        found["write"].append(placed.seconds["write"])
        start = time.perf_counter()
        find_doubt(build(trace, context, facts), facts)
        found["prove"].append(time.perf_counter() - start)
        take_back(placed.written)
    for part, seconds in found.items():
        setattr(row, part, median(seconds) * 1e3)


def _synchronization(trace: Any) -> list[Any]:
    graphs = reached_graphs(trace)
    return [node for graph in graphs for node in graph.nodes if getattr(node, "tkw_op_name", "") in SYNCHRONIZATION]


def show(rows: Sequence[Row]) -> str:
    """The table, as Markdown."""
    done = [row for row in rows if not row.error]
    plans = median(row.wave / row.plan for row in done)
    wholes = median(row.wave / row.whole for row in done)
    firsts = median(row.wave / row.first for row in done)
    lines = [
        f"{len(done)} pairs of kernel and target. Wave's pass over Tidegate's, at the median: plan **{plans:.1f}** "
        f"({firsts:.1f} where nothing is remembered), conversion in, plan and conversion out together "
        f"**{wholes:.2f}**. The plan is the faster in {sum(row.wave > row.plan for row in done)}, the whole in "
        f"{sum(row.wave > row.whole for row in done)}. "
        f"All together: Wave {sum(row.wave for row in done) / 1e3:.2f} s, in "
        f"{sum(row.read for row in done) / 1e3:.2f} s, plan {sum(row.plan for row in done) / 1e3:.2f} s, out "
        f"{sum(row.write for row in done) / 1e3:.2f} s; proofs {sum(row.prove for row in done) / 1e3:.2f} s.",
        "",
        "| kernel | target | Wave ms | in | plan | first | out | Wave / plan | Wave / whole | proof |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        if row.error:
            lines.append(f"| {row.name} | {row.target} | {row.error} | | | | | | | |")
            continue
        times = (row.wave, row.read, row.plan, row.first, row.write)
        ratios = f"{row.wave / row.plan:.1f} | {row.wave / row.whole:.2f}"
        shown = " | ".join(f"{each:.1f}" for each in times)
        lines.append(f"| {row.name} | {row.target} | {shown} | {ratios} | {row.prove:.1f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    if sys.argv[1:2] == ["write"]:
        print(put_together(sys.argv[2:]))
        return
    parser = argparse.ArgumentParser(prog="python -m bench.wave_time", description=__doc__)
    parser.add_argument("--target", default=",".join(TARGETS))
    parser.add_argument("--only", default="")
    parser.add_argument("--slice", default="0/1", help="K/N: every Nth pair, from the Kth on")
    parser.add_argument("-o", dest="out", type=Path)
    given = parser.parse_args()
    first, step = map(int, given.slice.split("/"))
    pairs = [
        (case, target)
        for case in cases()
        for target in given.target.split(",")
        if target in case.targets and (not given.only or case.name in given.only.split(","))
    ]
    rows = []
    for case, target in pairs[first::step]:
        rows.append(look_at(case, target))
        print(rows[-1], file=sys.stderr, flush=True)
        if given.out:
            given.out.write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")
    print(show(rows))


def put_together(files: Sequence[str]) -> str:
    """One table of several runs."""
    return show([Row(**each) for name in files for each in json.loads(Path(name).read_text(encoding="utf-8"))])


if __name__ == "__main__":
    main()
