"""Random Wave traces through the drop-in: what it reports as proved is looked at again, byte by byte.

Once by `tidegate.wave.check`, which reads the trace as it was written; once by following every wave of it, for some
numbers of trips, with nothing of Tidegate (`wave_phases`). What is not proved is as it was before.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

import tidegate.wave
from tidegate.adapters.wave.build import Built, build
from tidegate.adapters.wave.context import Context, context_of
from tidegate.adapters.wave.merging import Merging
from tidegate.adapters.wave.regions import reached_graphs
from tidegate.targets import Target, load_target
from tidegate.verify.verify import find_wrong
from tidegate.wave import passing
from tidegate.wave.passing import Options, Placement, place_barriers
from wave_phases import find_races
from wave_random import Access, Barrier, Kernel, Loop, Made, draw_kernel, make_trace

TRIPS = (0, 1, 2, 3)
OPTIONS = (
    Options(),
    Options(),
    Options(counts=True),
    Options(remove_redundant=True),
    Options(strategy="minimal"),
    Options(verify=False),
)


@dataclass
class Looked:
    """What came of many kernels."""

    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def nodes_of(made: Made) -> list[Any]:
    return [node for graph in reached_graphs(made.trace) for node in graph.nodes]


def place(kernel: Kernel, options: Options) -> tuple[Made, Placement]:
    made = make_trace(kernel)
    context = context_of(made.constraints, {})
    return made, place_barriers(made.trace, context, load_target(kernel.target), options)


def errors_of(made: Made) -> list[str]:
    """What the checker finds in a trace as it stands."""
    found = tidegate.wave.check(made.trace, made.kernel.target, constraints=made.constraints, sizes={})
    return [f"{each.code} {each.message}" for each in found if each.severity == "error"]


def races_of(made: Made) -> list[str]:
    """What following every wave finds."""
    for trips in TRIPS:
        for x, y in find_races(made, trips):
            return [f"{x.node.name} and {y.node.name}, {trips} trips"]
    return []


def look(kernel: Kernel, options: Options, looked: Looked, where: str) -> None:
    races = bool(races_of(make_trace(kernel)))
    made, placed = place(kernel, options)
    looked.counts["kernels"] += 1
    looked.counts["racy before"] += races
    if placed.why_not:
        looked.counts["left to Wave"] += 1
        if [node.name for node in nodes_of(made)] != [node.name for node in nodes_of(make_trace(kernel))]:
            looked.wrong.append(f"{where}: left to Wave, and changed")
        return
    looked.counts["barriers put in"] += placed.barriers
    found = races_of(made) or errors_of(made)
    if found:
        looked.wrong.append(f"{where}, {options}: {found[0]}\n{kernel}")


def look_at(seeds: range) -> Looked:
    looked = Looked()
    for seed in seeds:
        rng = random.Random(seed)
        look(draw_kernel(rng), rng.choice(OPTIONS), looked, f"seed {seed}")
    return looked


def check_all(looked: Looked) -> None:
    counts = looked.counts
    assert looked.wrong == []
    assert counts["racy before"] >= 0.3 * counts["kernels"], counts
    assert counts["left to Wave"] <= 0.05 * counts["kernels"], counts


@pytest.mark.parametrize("part", range(4))
def test_what_is_reported_as_proved_is_right(part: int) -> None:
    check_all(look_at(range(50 * part, 50 * (part + 1))))


@pytest.mark.full
def test_many_that_are_reported_as_proved_are_right(request: pytest.FixtureRequest) -> None:
    count = request.config.getoption("--count") or 10_000
    looked = look_at(range(1_000_000, 1_000_000 + count))
    print(dict(looked.counts))
    check_all(looked)
