"""Triton's own kernels: how long Triton compiles them, without Tidegate, with it, and with `verify=True`.

`python -m bench triton-compile [--quick]`, on a machine that does nothing else: each kernel of `oracles/triton_kernels`
for each of its targets, from its source to PTX or to AMD's assembly, with nothing from a cache. What comes after that,
ptxas or a linker, is the same for all and not counted. Each compilation has a child that is forked for it alone, after
everything was imported and two other kernels were compiled all three ways. The three take turns, and each round, as
each kernel, begins with another one; a ratio is that of one round. Medians are of three rounds, or of one where it
takes over 1.5 s.

    Triton     all stages, with Triton's own barrier pass
    Tidegate   the same with `tidegate.triton.enabled()`
    verify     the same with `tidegate.triton.enabled(verify=True)`
    inside     of Tidegate: from the module's text to its new text; printing and parsing it are Triton's

A long run can be made in slices, which are put together to one table; the table says which pairs it is about:

    python -m bench.triton_compile 0 200 > one.json
    python -m bench.triton_compile 200 174 > two.json
    python -m bench.triton_compile write one.json two.json
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from statistics import median

import tidegate.triton
from bench.slices import numbers
from bench.triton_figures import figures, in_a_child, slices
from oracles.triton_kernels import NVIDIA, compile_to
from oracles.triton_kernels.texts import Pair, pair_named, pairs
from tidegate.hosts.triton import libtriton

ROUNDS = 3
# A round that takes longer is not repeated; a child that takes much longer is stopped.
MOST_FOR_MORE, MOST_SECONDS = 1.5, 180.0
EVERY_QUICK = 53  # of the pairs, with --quick
WORST = 5
WARM = ("matmul-s2-w4.sm_80", "matmul-s2-w4.gfx950")

TRITON, TIDEGATE, VERIFY = "triton", "tidegate", "verify"
MODES: dict[str, Callable[[], AbstractContextManager[None]]] = {
    TRITON: nullcontext,
    TIDEGATE: tidegate.triton.enabled,
    VERIFY: lambda: tidegate.triton.enabled(verify=True),
}


@dataclass(slots=True)
class Sums:
    """Times of some pairs, in ms: for each the medians, and its ratios."""

    slices: list[tuple[int, int]] = field(default_factory=list)
    rows: list[dict] = field(default_factory=list)

    def add(self, pair: Pair) -> None:
        self.rows.append({"name": pair.name, **measure(pair)})

    def join(self, other: Sums) -> None:
        self.slices += [tuple(each) for each in other.slices]
        self.rows += other.rows

    @property
    def is_good(self) -> bool:
        return not any(each["error"] for each in self.rows)


# --- one pair -----------------------------------------------------------------------------------------------------


def measure(pair: Pair) -> dict:
    """Medians of several rounds, or what went wrong in one."""
    warm_up()
    found: list[dict[str, dict]] = []
    first = pairs().index(pair)
    for number in range(first, first + ROUNDS):
        start = time.perf_counter()
        one = a_round(pair, number)
        if errors := [each["error"] for each in one.values() if "error" in each]:
            return {"error": errors[0]}
        found.append(one)
        if time.perf_counter() - start > MOST_FOR_MORE:
            break
    row: dict = {mode: median(each[mode]["all"] for each in found) for mode in MODES}
    row["share"] = median(each[TIDEGATE]["inside"] / each[TIDEGATE]["all"] for each in found)
    for mode in (TIDEGATE, VERIFY):
        row[f"{mode} inside"] = median(each[mode]["inside"] for each in found)
        row[f"{mode} ratio"] = median(each[mode]["all"] / each[TRITON]["all"] for each in found)
    return {"error": "", "rounds": len(found), "why_not": found[0][TIDEGATE]["why_not"], **row}


def a_round(pair: Pair, number: int) -> dict[str, dict]:
    """All three, in an order that begins with another one in each round."""
    modes = list(MODES)
    at = number % len(modes)
    return {mode: in_a_child(lambda mode=mode: times_of(pair, mode), MOST_SECONDS) for mode in modes[at:] + modes[:at]}


@cache
def warm_up() -> None:
    """Imports, first calls and tables that are read once."""
    for name in WARM:
        for mode in MODES:
            times_of(_for_two_warps(pair_named(name)), mode)


def _for_two_warps(pair: Pair) -> Pair:
    """A kernel that nobody measures."""
    source, options = pair.case.source(pair.target)
    return replace(pair, case=replace(pair.case, source=lambda _: (source, {**options, "num_warps": 2})))


def times_of(pair: Pair, mode: str) -> dict:
    """One compilation, in this process."""
    tidegate.triton.clear_report()
    with warnings.catch_warnings(), MODES[mode]():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        compile_to(pair.case, pair.target, "ptx" if pair.target in NVIDIA else "amdgcn")
        end = time.perf_counter()
    entries = tidegate.triton.report().entries
    why_not = entries[0].why_not if entries else ""
    return {"all": 1e3 * (end - start), "inside": 1e3 * sum(each.seconds for each in entries), "why_not": why_not}


# --- many ---------------------------------------------------------------------------------------------------------


def run(quick: bool | None = None) -> tuple[str, bool]:
    """The tables, and whether everything compiles all three ways."""
    return figures(Sums, table, EVERY_QUICK, quick)


# --- tables -------------------------------------------------------------------------------------------------------


def table(sums: Sums) -> str:
    good = [each for each in sums.rows if not each["error"]]
    bad = [each for each in sums.rows if each["error"]]
    by_backend: dict[str, list[dict]] = {"NVIDIA": [], "AMD": [], "all": good}
    for each in good:
        by_backend["NVIDIA" if each["name"].endswith(NVIDIA) else "AMD"].append(each)
    lines = [
        f"| Triton {libtriton.version()}, {numbers(sums.slices)} | {' | '.join(by_backend)} |",
        "|---|---:|---:|---:|",
    ]
    for words, count in LINES:
        lines.append(f"| {words} | {' | '.join(count(rows) if rows else '–' for rows in by_backend.values())} |")
    if bad:
        lines += ["", "| **does not compile** | because |", "|---|---|"]
        lines += (f"| {each['name']} | {each['error'].replace('|', '/')} |" for each in bad)
    for mode, words in ((TIDEGATE, "with Tidegate"), (VERIFY, "with `verify=True`")):
        worst = sorted(good, key=lambda each, mode=mode: -each[f"{mode} ratio"])[:WORST]
        lines += ["", f"| the {WORST} worst {words}, s | Triton | with it | ratio | inside of Tidegate |"]
        lines += ["|---|---:|---:|---:|---:|", *(_line(each, mode) for each in worst)]
    return "\n".join(lines)


def _line(row: dict, mode: str) -> str:
    times = f"{row[TRITON] / 1e3:.2f} | {row[mode] / 1e3:.2f}"
    return f"| {row['name']} | {times} | {row[f'{mode} ratio']:.2f} | {row[f'{mode} inside'] / 1e3:.2f} |"


def _sum_of(key: str) -> Callable[[list[dict]], str]:
    return lambda rows: f"{sum(each[key] for each in rows) / 1e3:,.1f}"


def _median_of(key: str) -> Callable[[list[dict]], str]:
    return lambda rows: f"{median(each[key] for each in rows):.2f}"


def _ratio_of_sums(key: str, beside: str) -> Callable[[list[dict]], str]:
    return lambda rows: f"{sum(each[key] for each in rows) / sum(each[beside] for each in rows):.2f}"


LINES: tuple[tuple[str, Callable[[list[dict]], str]], ...] = (
    ("measured", lambda rows: str(len(rows))),
    ("of these left to Triton", lambda rows: str(sum(bool(each["why_not"]) for each in rows))),
    ("Triton, all together, s", _sum_of(TRITON)),
    ("with Tidegate, all together, s", _sum_of(TIDEGATE)),
    ("with `verify=True`, all together, s", _sum_of(VERIFY)),
    ("with Tidegate beside Triton, all together", _ratio_of_sums(TIDEGATE, TRITON)),
    ("with Tidegate beside Triton, median", _median_of(f"{TIDEGATE} ratio")),
    ("with `verify=True` beside Triton, all together", _ratio_of_sums(VERIFY, TRITON)),
    ("with `verify=True` beside Triton, median", _median_of(f"{VERIFY} ratio")),
    ("inside of Tidegate, share of all, all together", _ratio_of_sums(f"{TIDEGATE} inside", TIDEGATE)),
    ("inside of Tidegate, share of all, median", _median_of("share")),
)


if __name__ == "__main__":
    slices("triton-compile", Sums, table)
