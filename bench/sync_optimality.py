"""Least weight: `optimal` against a search that asks the simulator alone, and `minimal` against `optimal`.

`python -m bench sync-optimality [--quick]`
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass

from bench.slices import CHUNK, in_order
from oracles.brute.brute_placement import SHAPES, UNIT, least_weight, small_program
from oracles.programs.sync_cases import MIXED, draw
from tidegate.graph import model as g
from tidegate.graph.builder import GraphBuilder
from tidegate.index import Binary, Const, Index, Name
from tidegate.language import ops
from tidegate.synchronize import SyncOptions, synchronize_graph
from tidegate.targets import Target, load_target

COUNT, QUICK = 2_000, 60
RANDOM, RANDOM_QUICK = 1_000, 50
STAGGERED = "staggered loop"
LEAST = ("line", "loop", "nest", STAGGERED)  # where `minimal` says that it is least


@dataclass(frozen=True, slots=True)
class Compared:
    """The weights for one program. `brute` is None where no search was made."""

    shape: str
    seed: int
    minimal: float
    optimal: float
    proven: bool
    brute: float | None


def compare(asked: tuple[str, int]) -> Compared:
    """All three, for a small program; the search only for the shapes that it knows."""
    shape, seed = asked
    if shape == STAGGERED:
        return Compared(shape, seed, *weights(*staggered_loop(random.Random(seed))), None)
    graph, target = small_program(random.Random(f"optimal {shape} {seed}"), shape)
    return Compared(shape, seed, *weights(graph, target), least_weight(graph, target)[0])


def compare_case(number: int) -> Compared:
    """Both strategies, for a program of the fuzz."""
    case = draw(MIXED[number % len(MIXED)], number)
    return Compared(f"random: {case.kind}", case.seed, *weights(case.graph, case.target), None)


def weights(graph: g.SyncGraph, target: Target) -> tuple[float, float, bool]:
    """What the two strategies cost, and whether the second is proven to be least."""
    minimal = synchronize_graph(graph, target, SyncOptions(strategy="minimal"))
    optimal = synchronize_graph(graph, target, SyncOptions(strategy="optimal"))
    return minimal.weight, optimal.weight, optimal.optimum is None or optimal.optimum.proven


def staggered_loop(rng: random.Random) -> tuple[g.SyncGraph, Target]:
    """One loop in which one half of the waves is held back: hazards demand up to three barriers."""
    target = load_target(rng.choice(("", "gfx942", "gfx1100", "gfx1201", "gfx1250", "sm_80")))
    waves, slots, by = rng.choice((2, 4)), rng.choice((1, 2, 2, 3, 4)), rng.choice((1, 1, 2))
    b = GraphBuilder("staggered", waves=waves, target=target.name, lanes="one")
    b.buffer("%a", waves * UNIT, slots)
    mine: Index = Binary("*", Name("wave"), Const(UNIT))
    other: Index = Binary("*", Binary("mod", Binary("+", Name("wave"), Const(1)), Const(waves)), Const(UNIT))
    for _ in range(by):
        b.sync(ops.ConditionalBarrier("high"))
    with b.loop("%k", 0, rng.choice((slots + 2, slots + 4))) as k:
        for _ in range(rng.choice((2, 3, 4, 5))):
            ahead = rng.randrange(slots + 1)
            slot = Binary("mod", Binary("+", k, Const(ahead)) if ahead else k, Const(slots)) if slots > 1 else Const(0)
            add = rng.choice((b.read, b.write))
            add("%a", slot=slot, offset=rng.choice((mine, other)), bytes=UNIT)
            if rng.random() < 0.2:
                b.compute("compute", insertable=rng.random() < 0.5)
    for _ in range(by):
        b.sync(ops.ConditionalBarrier("low"))
    return b.finish(), target


def run(quick: bool | None = None) -> tuple[str, bool]:
    """The tables, and whether everything is equal that should be."""
    quick = "--quick" in sys.argv if quick is None else quick
    each = (QUICK if quick else COUNT) // len(SHAPES) + 1
    found = list(in_order(compare, [(shape, seed) for shape in (*SHAPES, STAGGERED) for seed in range(each)], CHUNK))
    found += in_order(compare_case, range(RANDOM_QUICK if quick else RANDOM), CHUNK)
    good = all(each.brute in (None, each.optimal) for each in found)
    good = good and all(each.minimal == each.optimal for each in found if each.shape in LEAST)
    return table(found), good


def table(found: list[Compared]) -> str:
    lines = [
        "| programs | number | `optimal` equals the search | proven | `minimal` equals `optimal` | worst ratio |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for shape in dict.fromkeys(each.shape for each in found):
        of = [each for each in found if each.shape == shape]
        searched = [each for each in of if each.brute is not None]
        equal = f"{sum(each.brute == each.optimal for each in searched)}" if searched else "–"
        same = sum(each.minimal == each.optimal for each in of)
        ratio = max((each.minimal / each.optimal for each in of if each.optimal), default=1.0)
        proven = sum(each.proven for each in of)
        lines.append(f"| {shape} | {len(of)} | {equal} | {proven} | {same} ({same / len(of):.1%}) | {ratio:.2f} |")
    wrong = [each for each in found if each.brute not in (None, each.optimal)]
    wrong += [each for each in found if each.shape in LEAST and each.minimal != each.optimal]
    if wrong:
        lines += ["", "| not equal | minimal | optimal | search |", "|---|---:|---:|---:|"]
        lines += (f"| {w.shape} {w.seed} | {w.minimal:g} | {w.optimal:g} | {w.brute} |" for w in wrong[:20])
    return "\n".join(lines)
