"""Ping-pong by the cost model: kernels as they are and scheduled, proved, and run in a thousand hostile orders.

`python -m bench schedule [--quick]`: kernels of `schedule_kernels.py` on the targets that have what they need. Of
the schedules the cheapest is shown, and run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from bench.slices import in_order
from oracles.programs.schedule_kernels import async_gemm, attention, gemm
from tidegate.language.parse import parse
from tidegate.pingpong import Candidate, schedule_kernel
from tidegate.simulate.hostile import run_graph
from tidegate.targets import load_target

ORDERS, QUICK = 1000, 20
TARGETS = ("gfx942", "gfx950", "gfx1201")
KERNELS = {
    "GEMM f16 128×256×64": gemm(128, 256, 64),
    "GEMM f16 256×256×64": gemm(256, 256, 64),
    "async GEMM 128×128×32, 3 slots": async_gemm(128, 128, 32, 3),
    "async GEMM 128×256×64, 2 slots": async_gemm(128, 256, 64, 2),
    "async GEMM 128×256×64, 3 slots": async_gemm(128, 256, 64, 3),
    "flash attention 256×64×64": attention(),
}


@dataclass(frozen=True, slots=True)
class Row:
    kernel: str
    target: str
    lines: tuple[str, ...]
    good: bool


def row_of(asked: tuple[str, str, int]) -> Row:
    name, target, orders = asked
    (kernel,) = parse(KERNELS[name]).kernels
    found = schedule_kernel(kernel, load_target(target), certain=True)
    if found.chosen is None:
        return Row(name, target, (f"| {name} | {target} | declined: {found.declined} | | | | | | |",), True)
    scheduled = [each for each in found.candidates if each.arrangement is not None and each.price is not None]
    best = min(scheduled, key=lambda each: each.price.cycles if each.price else 0.0, default=None)
    shown = [each for each in found.candidates if each is best or each.arrangement is None]
    races = hostile(best, target, orders) if best is not None else 0
    lines = [
        _line(name, target, each, each is found.chosen, str(races) if each is best else "", bool(found.uncertain))
        for each in shown
    ]
    return Row(name, target, tuple(lines), not races and not any(each.notes for each in shown))


def _line(name: str, target: str, each: Candidate, chosen: bool, races: str, uncertain: bool) -> str:
    price = each.price
    assert price is not None
    word = f"**{each.strategy}**{' (uncertain)' if uncertain else ''}" if chosen else each.strategy
    proof = "proved" if not each.notes else each.notes[0]
    return (
        f"| {name} | {target} | {word} | {price.cycles:,.0f} | {100 * price.busy:.0f} % | {price.barriers} "
        f"| {price.slack:,.0f} | {proof} | {races} |"
    )


def hostile(each: Candidate, target: str, orders: int) -> int:
    """Races, inversions and hangs in so many orders, with loops that run a few times."""
    facts, found = load_target(target), 0
    for seed in range(orders):
        found += bool(run_graph(each.graph, target=facts, seed=seed).findings())
    return found


def cases(orders: int) -> Iterator[tuple[str, str, int]]:
    for name in KERNELS:
        for target in TARGETS:
            yield name, target, orders


def run(quick: bool | None = None) -> tuple[str, bool]:
    quick = "--quick" in sys.argv if quick is None else quick
    orders = QUICK if quick else ORDERS
    rows = list(in_order(row_of, cases(orders)))
    lines = [
        "| kernel | target | strategy | cycles an iteration | matrix units busy | barriers | slack | proof "
        f"| wrong of {orders:,} orders |",
        "|---|---|---|---:|---:|---:|---:|---|---:|",
        *(line for row in rows for line in row.lines),
    ]
    return "\n".join(lines), all(row.good for row in rows)
