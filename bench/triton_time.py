"""Triton's own kernels: how long Triton's barrier pass takes, and how long a plan of ours.

`python -m bench triton-time [--quick] [--texts=DIR]`, on a machine that does nothing else. Each module is measured in
children that are forked for it alone, after everything was imported and used once on other, small modules: what one
module leaves behind in memory helps no other, and no repetition of its own. In a child both work on the same text,
Triton first in every second one; a ratio is that of one child, and the table has medians of three children, or of
eleven where both take about as long.

    Triton    its `add_membar`, on a module that it has parsed and laid out
    plan      hazards and placement, on the graph: strategy `minimal`, waits left where they are
    reading   the text through Triton's parser, its allocation and its printer, and through our reader
    graph     the graph from what was read
    writing   the plan carried out in the text

A long run can be made in slices, which are put together to one table; the table says which pairs it is about:

    python -m bench.triton_time 0 200 > one.json
    python -m bench.triton_time 200 174 > two.json
    python -m bench.triton_time write one.json two.json
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import median

from bench.slices import numbers
from bench.triton_barriers import LEFT_IN_PLACE
from bench.triton_figures import figures, in_a_child, slices
from oracles.triton_kernels.texts import Pair, text_of
from tidegate.hosts.triton import libtriton
from tidegate.hosts.triton.program import programs_of
from tidegate.hosts.triton.read import read_to_edit
from tidegate.hosts.triton.write import Edited, write_ttgir
from tidegate.synchronize.stages import synchronize_graph

CHILDREN, MORE_CHILDREN = 3, 11  # more where both take about as long
CLOSE = (0.7, 1.5)
# A child that takes longer is not repeated; one that takes much longer is stopped.
MOST_FOR_MORE, MOST_SECONDS = 8.0, 180.0
EVERY_QUICK = 47  # of the pairs, with --quick
OFTEN = 20.0  # ms that Triton's pass takes where ours must not be slower
PARTS = ("triton", "plan", "reading", "graph", "writing")

Times = dict[str, float]

# What imports and first calls cost is paid on this: nobody else measures it.
COPIES = Path(__file__).parents[1] / "tests" / "ttgir" / "gemm.gfx950.ttgir"  # not one of the corpus
TINY = """
#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#turned = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:80",
    "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @tiny(%n: i32) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %a = arith.constant dense<1.0> : tensor<256xf32, #blocked>
    %m = ttg.local_alloc : () -> !ttg.memdesc<256xf32, #shared, #smem, mutable>
    scf.for %i = %zero to %n step %one : i32 {
      ttg.local_store %a, %m : tensor<256xf32, #blocked> -> !ttg.memdesc<256xf32, #shared, #smem, mutable>
      %b = ttg.local_load %m : !ttg.memdesc<256xf32, #shared, #smem, mutable> -> tensor<256xf32, #turned>
    }
    tt.return
  }
}
"""


@dataclass(slots=True)
class Sums:
    """Times of some pairs, in ms: for each the medians, and its ratios."""

    slices: list[tuple[int, int]] = field(default_factory=list)
    rows: list[dict] = field(default_factory=list)

    def add(self, pair: Pair) -> None:
        self.rows.append({"name": pair.name, **measure(text_of(pair), pair.name)})

    def join(self, other: Sums) -> None:
        self.slices += [tuple(each) for each in other.slices]
        self.rows += other.rows

    @property
    def is_good(self) -> bool:
        return not slower(self.rows)


def slower(rows: list[dict]) -> list[dict]:
    """Where Triton takes long, and ours longer."""
    return [each for each in rows if not each["error"] and each["triton"] > OFTEN and each["ratio"] > 1]


# --- one module ---------------------------------------------------------------------------------------------------


def measure(text: str, name: str) -> dict:
    """Medians of several children, or what went wrong in one."""
    warm_up()
    found: list[Times] = []
    for number in range(MORE_CHILDREN):
        if number >= CHILDREN and not CLOSE[0] < median(each["plan"] / each["triton"] for each in found) < CLOSE[1]:
            break
        start = time.perf_counter()
        one = in_a_child(lambda number=number: times_of(text, name, triton_first=number % 2 == 0), MOST_SECONDS)
        if "error" in one:
            return {"error": one["error"]}
        found.append(one)
        if time.perf_counter() - start > MOST_FOR_MORE:
            break
    row: dict = {part: median(each[part] for each in found) for part in PARTS}
    row["ratio"] = median(each["plan"] / each["triton"] for each in found)
    row["both"] = median((each["graph"] + each["plan"]) / each["triton"] for each in found)
    return {"error": "", "children": len(found), **row}


@cache
def warm_up() -> None:
    """Imports, first calls and tables that are read once; with copies isl and HiGHS are asked."""
    times_of(TINY, "tiny", triton_first=True)
    times_of(COPIES.read_text(encoding="utf-8"), "copies", triton_first=True)


def times_of(text: str, name: str, *, triton_first: bool) -> Times:
    """Both, in this process."""
    parts = (_triton, _ours) if triton_first else (_ours, _triton)
    found: Times = {}
    for part in parts:
        found.update(part(text, f"{name}.ttgir"))
    return found


def _triton(text: str, file: str) -> Times:
    from triton._C.libtriton import ir

    parsed = libtriton.parse(text, file)
    stages = ("warp-pipeline",) if parsed.has_stages() else ()
    parsed.run(*stages, "allocate", "fences")
    manager = ir.pass_manager(parsed.context)
    libtriton.PASSES["barriers"](manager, parsed.gpu)
    start = time.perf_counter()
    manager.run(parsed.module, "membar")
    return {"triton": 1e3 * (time.perf_counter() - start)}


def _ours(text: str, file: str) -> Times:
    clock = [time.perf_counter()]
    read = read_to_edit(text, file)
    clock.append(time.perf_counter())
    programs = programs_of(read)
    clock.append(time.perf_counter())
    if any(each.built.graph.objects for each in programs):
        raise RuntimeError("barrier objects, which the verifier does not decide: left to Triton")
    plans = [synchronize_graph(each.built.graph, each.target, LEFT_IN_PLACE).plan for each in programs]
    clock.append(time.perf_counter())
    write_ttgir(read, [Edited(each.built, plan) for each, plan in zip(programs, plans, strict=True)])
    clock.append(time.perf_counter())
    names = ("reading", "graph", "plan", "writing")
    return {name: 1e3 * (end - start) for name, start, end in zip(names, clock, clock[1:], strict=False)}


# --- many ---------------------------------------------------------------------------------------------------------


def run(quick: bool | None = None) -> tuple[str, bool]:
    """The tables, and whether ours is nowhere slower where Triton takes long."""
    return figures(Sums, table, EVERY_QUICK, quick)


# --- tables -------------------------------------------------------------------------------------------------------


def table(sums: Sums) -> str:
    good = [each for each in sums.rows if not each["error"]]
    bad = [each for each in sums.rows if each["error"]]
    often = sorted((each for each in good if each["triton"] > OFTEN), key=lambda each: -each["triton"])
    lines = [f"| Triton {libtriton.version()}, {numbers(sums.slices)} | all | over {OFTEN:g} ms |", "|---|---:|---:|"]
    for words, count in (
        ("measured", len),
        ("ours is slower", lambda rows: sum(each["ratio"] > 1 for each in rows)),
        ("plan beside Triton's pass, median", _median_of("ratio")),
        ("graph and plan beside Triton's pass, median", _median_of("both")),
        ("Triton's pass, all together, ms", _sum_of("triton")),
        ("plans, all together, ms", _sum_of("plan")),
    ):
        lines.append(f"| {words} | {count(good)} | {count(often)} |")
    if late := slower(good):
        lines += ["", f"**SLOWER THAN TRITON, where Triton takes over {OFTEN:g} ms:**", ""]
        lines += time_lines(sorted(late, key=lambda each: -each["ratio"]))
    if bad:
        lines += ["", "| not measured | because |", "|---|---|"]
        lines += (f"| {each['name']} | {each['error'].replace('|', '/')} |" for each in bad)
    if often:
        lines += ["", *time_lines(often)]
    return "\n".join(lines)


def time_lines(rows: list[dict]) -> list[str]:
    lines = ["| ms | Triton's pass | plan | plan / pass | graph | (graph + plan) / pass | reading | writing |"]
    lines.append("|---|---:|---:|---:|---:|---:|---:|---:|")
    return [*lines, *map(time_line, rows)]


def time_line(row: dict) -> str:
    triton, plan, reading, graph, writing = (_ms(row[part]) for part in PARTS)
    ratios = f"{row['ratio']:.2f} | {graph} | {row['both']:.2f}"
    return f"| {row['name']} | {triton} | {plan} | {ratios} | {reading} | {writing} |"


def _ms(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _median_of(key: str) -> Callable[[list[dict]], str]:
    return lambda rows: f"{median(each[key] for each in rows):.2f}" if rows else "–"


def _sum_of(key: str) -> Callable[[list[dict]], str]:
    return lambda rows: f"{sum(each[key] for each in rows):,.0f}"


if __name__ == "__main__":
    slices("triton-time", Sums, table)
