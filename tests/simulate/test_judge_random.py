"""The machine against the brute force, which shares no code with it, on random small graphs.

Both must name the same pairs of points, with the same kind of clash, and agree whether any order hangs. The graphs have
every kind of synchronization (`small_graphs`); each is unrolled and judged from its own text by both.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from oracles.brute.brute_force import judge_by_brute_force
from oracles.brute.judging import by_clocks, by_overlaps
from oracles.programs.focused_graphs import Made, doubtful, focused_graph, object_graph
from oracles.programs.small_graphs import small_graph
from tests.conftest import slow_if
from tidegate.graph.show import show_graph

CHUNK = 100
FAST, ALL = range(6), range(53)
# Larger ones take the brute force seconds; about one graph in a hundred.
LIMIT = 20_000


def chunks() -> list[object]:
    return [pytest.param(each, marks=[] if each in FAST else [pytest.mark.slow]) for each in ALL]


@pytest.mark.parametrize("chunk", chunks())
def test_same_races_and_hangs_as_by_brute_force(chunk: int) -> None:
    compare(chunk, lambda seed: small_graph(random.Random(seed)))


@pytest.mark.parametrize("chunk", range(10))
def test_same_on_graphs_that_dwell_on_one_rule(chunk: int) -> None:
    compare(chunk, lambda seed: focused_graph(random.Random(f"focus {seed}")))


@pytest.mark.parametrize("chunk", range(3))
def test_same_where_instructions_may_not_be_issued(chunk: int) -> None:
    compare(chunk, lambda seed: doubtful(random.Random(f"doubtful {seed}")))


@pytest.mark.parametrize("chunk", range(3))
def test_same_with_fences_between_proxies(chunk: int) -> None:
    compare(chunk, lambda seed: small_graph(random.Random(f"proxies {seed}"), proxies=True))


@pytest.mark.parametrize("chunk", range(10))
def test_same_at_barrier_objects_without_a_plan(chunk: int) -> None:
    """Of programs that hang, clocks may find a race that only orders show which then hang before its second access."""
    compare(chunk, lambda seed: object_graph(random.Random(f"objects {seed}")), may_find_more=True)


def compare(chunk: int, make: Callable[[int], Made], *, may_find_more: bool = False) -> None:
    judged = 0
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        graph, target, env = make(seed)
        expected = judge_by_brute_force(graph, target, env, LIMIT)
        if expected is None:
            continue
        judged += 1
        found, explored = by_clocks(graph, target, env)
        assert explored.complete
        if may_find_more and expected.hang:
            found = replace(found, findings=found.findings & expected.findings)
        assert found == expected, f"seed {seed}\n{show_graph(graph)}"
    assert judged >= 0.9 * CHUNK


@pytest.mark.parametrize("chunk", slow_if(range(3), lambda chunk: chunk > 0))
def test_reduction_changes_no_verdict(chunk: int) -> None:
    """All orders that there are, against those that the reduction leaves."""
    fewer = 0
    for seed in range(10_000 + chunk * CHUNK, 10_000 + (chunk + 1) * CHUNK):
        graph, target, env = small_graph(random.Random(seed))
        expected, everything = by_overlaps(graph, target, env, 2_000)
        if everything.orders is None:
            continue
        found, explored = by_clocks(graph, target, env)
        assert found == expected, f"seed {seed}\n{show_graph(graph)}"
        assert explored.orders <= everything.orders
        fewer += explored.orders < everything.orders
    assert fewer > CHUNK // 2


@pytest.mark.full
def test_many_more(pytestconfig: pytest.Config) -> None:
    """`make fuzz`: other seeds than in the tests."""
    count = pytestconfig.getoption("--count") // 10 or 2_000
    for seed in range(1_000_000, 1_000_000 + count):
        rng = random.Random(seed)
        graph, target, env = focused_graph(rng) if seed % 3 == 0 else small_graph(rng, proxies=seed % 5 == 0)
        expected = judge_by_brute_force(graph, target, env, LIMIT)
        if expected is not None:
            found, _ = by_clocks(graph, target, env)
            if expected.hang:
                found = replace(found, findings=found.findings & expected.findings)
            assert found == expected, f"seed {seed}\n{show_graph(graph)}"
