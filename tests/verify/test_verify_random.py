"""The verifier against the simulator on random programs: what it proves is never shown to be wrong.

In `make test` there are 150 programs, a few of them in `make check`: as they are, synchronized, and damaged
(`bench/verify_agreement.py`). `--count N` draws more; `python -m bench verify-agreement` draws most, and counts.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from bench.verify_agreement import ALONE, LESS, MUST_BE_NONE, compare, number_of, variants_of
from oracles.programs import random_pairs
from tidegate.graph.parse import parse_graph
from tidegate.graph.show import show_graph
from tidegate.graph.wellformed import check_graph
from tidegate.simulate.judge import Limits, judge
from tidegate.targets import load_target
from tidegate.verify import search
from tidegate.verify.verify import verify

CHUNKS, EACH = 10, 15
# Suspects that the simulator does not show, in so many programs.
MOST_ALONE = 2


@pytest.mark.parametrize(
    "chunk",
    [
        pytest.param(each, marks=[pytest.mark.full] if each % 2 else [pytest.mark.slow] if each else [])
        for each in range(CHUNKS)
    ],
)
def test_what_is_proved_is_right(chunk: int, request: pytest.FixtureRequest) -> None:
    count = int(request.config.getoption("--count")) // CHUNKS or EACH
    alone = []
    for number in range(chunk * count, (chunk + 1) * count):
        case = number_of(number)
        for variant, graph in variants_of(case):
            outcome = compare(graph, case.target).outcome
            assert outcome not in (*MUST_BE_NONE, LESS), f"{case.name} {variant}\n{show_graph(graph)}"
            alone += [f"{case.name} {variant}"] if outcome.startswith(ALONE) else []
    assert len(alone) <= MOST_ALONE * count // EACH, alone


@pytest.mark.slow
@pytest.mark.parametrize("name", ["MOST_ROUNDS", "MOST_GUARDED", "MOST_WAYS"])
def test_limits_make_it_more_cautious_only(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, name, 1)
    for number in range(40):
        case = number_of(number)
        for variant, graph in variants_of(case):
            assert compare(graph, case.target).outcome not in MUST_BE_NONE, f"{case.name} {variant}"


PAIRS: dict[str, Callable[[random.Random], str]] = {
    "staggered": random_pairs.staggered,
    **{
        target: lambda rng, target=target: random_pairs.copied(rng, target)  # type: ignore[misc]
        for target in random_pairs.COUNTERS
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", PAIRS)
def test_one_pair_that_is_proved_is_right(kind: str, request: pytest.FixtureRequest) -> None:
    """Of each kind some programs are proved, and none of these is wrong."""
    proved = wrong = 0
    count = int(request.config.getoption("--count")) or 250
    for number in range(count):
        text = PAIRS[kind](random.Random(number))
        graph = parse_graph(text)
        assert check_graph(graph) == []
        target = load_target(graph.target)
        found = verify(graph, target)
        assert not found.undecided, text
        if found.accesses < 2:
            continue
        codes = {each.code for each in judge(graph, target, Limits(steps=10_000)).findings}
        hurts = any(each.startswith(("TG1", "TG2")) for each in codes)
        assert not (found.is_proved and hurts), text
        proved += found.is_proved
        wrong += hurts
    assert proved > count // 10
    assert wrong > count // 10
