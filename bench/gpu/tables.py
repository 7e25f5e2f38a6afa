"""The results of a run as tables of docs/benchmarks.md.

Needs   the results.json of a run
Gives   `gpu`: times, checks and fallbacks of all kernels; `gpu-removed`: what finds that a barrier is missing; and
        whether the figures are within their limits
Keeps   a kernel that fell back has no share in a mean; what was not run is said
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from bench.gpu.manifest import REMOVED, TIDEGATE, TRITON
from bench.gpu.results import CHECKS, PERCENTILE, Results, beyond, missed, read_results, slower, without_a_barrier

GPU, WITHOUT = "gpu", "gpu-removed"


def write_tables(path: Path) -> int:
    """Writes both tables; 1 if a figure is beyond its limits."""
    from bench.__main__ import write

    results = read_results(path)
    write(GPU, kernels_table(results))
    write(WITHOUT, removed_table(results))
    wrong = beyond(results)
    print("\n".join(wrong) or "within its limits")
    return 1 if wrong else 0


# --- all kernels --------------------------------------------------------------------------------------------------


def kernels_table(results: Results) -> str:
    made = results.read["versions"]
    by = f"Triton {made['triton']}, Tidegate {made['tidegate']}, waits merged: {made['merge_waits']}"
    head = f"{results.read['device']}, {by}"
    columns = [summary(results, target) for target in results.targets]
    lines = [f"| {head} | " + " | ".join(results.targets) + " |", "|---" + "|---:" * len(columns) + "|"]
    lines += [f"| {name} | " + " | ".join(column[name] for column in columns) + " |" for name in columns[0]]
    lines += ["", *each_kernel(results), "", *fallbacks(results), *left_out(results)]
    return "\n".join(lines).strip()


def summary(results: Results, target: str) -> dict[str, str]:
    pairs, timed = results.names(TIDEGATE, target), results.timed(target)
    changed = [each for each in timed if not results.is_control(each)]
    order = sorted(changed, key=results.ratio)
    checks = {
        f"{check}: kernels with reports, Triton's barriers / Tidegate's": " / ".join(
            str(sum(bool(results.reports(check, f"{pair}.{variant}")) for pair in pairs))
            for variant in (TRITON, TIDEGATE)
        )
        for check in CHECKS
    }
    wrong = sum(results.is_right(f"{pair}.{TIDEGATE}") is False for pair in pairs)
    return {
        "kernels": str(len(pairs)),
        "left to Triton, without a share in what follows": str(sum(bool(results.fallback(each)) for each in pairs)),
        "the same PTX from both": str(len(timed) - len(changed)),
        "other PTX": str(len(changed)),
        "time with Triton's barriers over Tidegate's, geometric mean of other PTX": mean(results, changed),
        "geometric mean with the same PTX, too": mean(results, timed),
        "best": named(results, order[-1:]),
        "worst": named(results, order[:1]),
        f"noise: {PERCENTILE} of 100 control pairs are within": f"±{results.noise:.2%}",
        "**slower than the noise**": str(len(slower(results, target))),
        "**wrong numbers**": str(wrong),
        **checks,
    }


def mean(results: Results, pairs: list[str]) -> str:
    ratios = [results.ratio(each) for each in pairs]
    return f"{np.exp(np.mean(np.log(ratios))):.4f} ({len(ratios)})" if ratios else "–"


def named(results: Results, pairs: list[str]) -> str:
    return f"{results.ratio(pairs[0]):.3f} {pairs[0].rpartition('.')[0]}" if pairs else "–"


def each_kernel(results: Results) -> Iterable[str]:
    yield (
        "| kernel | programs | µs, Triton's barriers | barriers in PTX | Triton's time : Tidegate's | quartiles "
        "| control pair | numbers | racecheck | synccheck |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|---|---:|---:|"
    for target in results.targets:
        for pair in results.timed(target):
            yield kernel_row(results, pair)


def kernel_row(results: Results, pair: str) -> str:
    timed = results.time(pair)
    assert timed is not None
    both = [f"{pair}.{variant}" for variant in (TRITON, TIDEGATE)]
    low, middle, high = timed["ratio"]
    ratio = f"({middle:.3f})" if results.is_control(pair) else f"{middle:.3f}"
    cells = [
        pair,
        f"{np.prod(timed['grid']):,}",
        f"{timed['micros'][TRITON]:.1f}",
        " → ".join(str(results.entries[name]["barriers"]) for name in both),
        f"**{ratio}**" if results.is_worse(pair) else ratio,
        f"{low:.3f}–{high:.3f}",
        f"{timed['control'][1]:.3f}",
        {True: "right", False: "**wrong**", None: "–"}[results.is_right(both[1])],
        *(" / ".join(shown(results.reports(check, name)) for name in both) for check in CHECKS),
    ]
    return "| " + " | ".join(cells) + " |"


def shown(count: int | None) -> str:
    return "–" if count is None else str(count)


def fallbacks(results: Results) -> Iterable[str]:
    why = [(each, results.fallback(each)) for each in results.names(TIDEGATE) if results.fallback(each)]
    if why:
        yield from ("| left to Triton | why |", "|---|---|", *(f"| {pair} | {words} |" for pair, words in why))


def left_out(results: Results) -> Iterable[str]:
    """What did not compile, broke or was not run."""
    said = [(name, f"does not compile: {error}") for name, error in results.read["failed"].items()]
    for phase in ("numbers", "time", *CHECKS):
        broken = ((name, each["error"]) for name, each in results.read.get(phase, {}).items() if "error" in each)
        said += [(name, f"{phase}: {error}") for name, error in broken if f".{REMOVED}" not in name]
        count = len(results.read["not run"].get(phase, ()))
        said += [(f"{count} more", f"{phase}: not run, time was up")] * bool(count)
        for name, kinds in results.read["unassigned"].get(phase, {}).items():
            counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
            said.append((name or "?", f"{phase}: reports {counts}"))
    if said:
        yield from ("", "| not shown | why |", "|---|---|", *(f"| {name} | {words} |" for name, words in said))


# --- barriers removed ---------------------------------------------------------------------------------------------


def removed_table(results: Results) -> str:
    lines = ["| one barrier removed; the verifier says | kernels | racecheck finds | numbers are wrong | either |"]
    lines.append("|---|---:|---:|---:|---:|")
    names = without_a_barrier(results)
    for verdict in sorted({results.entries[name]["verdict"] for name in names}, reverse=True):
        mine = [name for name in names if results.entries[name]["verdict"] == verdict]
        race = {name for name in mine if results.reports("racecheck", name)}
        wrong = {name for name in mine if results.is_right(name) is False}
        lines.append(f"| {verdict} | {len(mine)} | {len(race)} | {len(wrong)} | {len(race | wrong)} |")
    blind = [name for name in names if results.is_right(name) is False and not results.reports("racecheck", name)]
    lines += ["", f"Proved by the verifier, and shown to be wrong by racecheck or by numbers: {len(missed(results))}."]
    if blind:
        lines += ["", f"Wrong numbers, and no report by racecheck: {', '.join(blind)}."]
    return "\n".join(lines)
