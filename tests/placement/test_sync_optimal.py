"""`optimal` against a search that knows the simulator only, and `minimal` against `optimal` where it is least, too."""

from __future__ import annotations

import itertools
import random

import pytest

from bench.sync_optimality import compare, staggered_loop, weights
from oracles.brute.brute_placement import SHAPES, small_program, with_barriers
from oracles.programs.random_sync import random_program
from tidegate.simulate.judge import Limits, judge
from tidegate.synchronize import SyncOptions, synchronize_graph

CHUNKS = 5
EACH = 5  # of each shape: 150 in all


def chunks() -> list[object]:
    return [pytest.param(each, marks=[pytest.mark.slow] if each else []) for each in range(CHUNKS)]


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_optimal_is_what_brute_force_finds(shape: str, chunk: int, request: pytest.FixtureRequest) -> None:
    each = int(request.config.getoption("--count")) // (CHUNKS * len(SHAPES)) or EACH
    for seed in range(chunk * each, (chunk + 1) * each):
        found = compare((shape, seed))
        assert found.optimal == found.brute, f"{shape} {seed}"
        assert found.proven


@pytest.mark.parametrize("shape", ["line", "loop", "nest"])
@pytest.mark.parametrize("chunk", chunks())
def test_minimal_is_optimal(shape: str, chunk: int, request: pytest.FixtureRequest) -> None:
    """Straight lines, single loops with any distance, nests whose loops run at least twice."""
    count = int(request.config.getoption("--count")) // CHUNKS or 20
    for seed in range(chunk * count, (chunk + 1) * count):
        graph, target = small_program(random.Random(f"optimal {shape} {seed}"), shape)
        minimal, optimal, _ = weights(graph, target)
        assert minimal == optimal, f"{shape} {seed}"


@pytest.mark.parametrize("chunk", chunks())
def test_minimal_is_optimal_in_a_staggered_loop(chunk: int, request: pytest.FixtureRequest) -> None:
    """Hazards that demand two barriers, and three."""
    count = int(request.config.getoption("--count")) // CHUNKS or 20
    for seed in range(chunk * count, (chunk + 1) * count):
        graph, target = staggered_loop(random.Random(seed))
        minimal, optimal, _ = weights(graph, target)
        assert minimal == optimal, f"staggered loop {seed}"


def test_loop_that_may_not_run_orders_nothing_around_it() -> None:
    """A write in one loop, two barriers in the next, which runs N2 - 1 times, and another write of the same bytes.

    Without a barrier between the loops nothing orders the writes where N2 is 1.
    """
    graph, target = small_program(random.Random("optimal any 64"), "any")
    assert weights(graph, target)[1] == 33
    inside = [6, 9]
    assert sum(graph.points[each].weight for each in inside) == 32
    lighter = with_barriers(graph, target, inside)
    found = judge(lighter, target, Limits(sizes=(("N1", 2), ("N2", 1)))).findings
    assert [each.code for each in found] == ["TG103"]
    assert not judge(with_barriers(graph, target, [4, *inside]), target, Limits(sizes=(("N1", 2), ("N2", 1)))).findings


def test_no_clock_decides_what_minimal_puts_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a graph that is no nest the integer program is asked first; a machine that is slow gets the same plan.

    Without that program this graph gets another one.
    """
    graph, target, _ = random_program(random.Random("clock 396"))
    plans = []
    for step in (0, 1000):
        clock = itertools.count(step=step)
        monkeypatch.setattr("tidegate.placement.optimal.time.monotonic", lambda clock=clock: next(clock))
        plans.append(synchronize_graph(graph, target, SyncOptions("minimal")).plan)
    monkeypatch.setattr("tidegate.placement.place.MOST_POLISHED", 0)
    other = synchronize_graph(graph, target, SyncOptions("minimal")).plan
    assert plans[0] == plans[1] != other
