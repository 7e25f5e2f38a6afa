"""The verifier against the simulator on random programs: what it proves is never shown to be wrong.

In `make test` there are 150 programs, a few of them in `make check`: as they are, synchronized, and damaged
(`bench/verify_agreement.py`). `--count N` draws more; `python -m bench verify-agreement` draws most, and counts.
"""

from __future__ import annotations

import pytest
from bench.verify_agreement import ALONE, LESS, MUST_BE_NONE, compare, number_of, variants_of

from tidegate.graph.show import show_graph
from tidegate.verify import paths

CHUNKS, EACH = 10, 15
# Suspects that the simulator does not show, in so many programs.
MOST_ALONE = 2


@pytest.mark.parametrize(
    "chunk", [pytest.param(each, marks=[pytest.mark.slow] if each else []) for each in range(CHUNKS)]
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
    monkeypatch.setattr(paths, name, 1)
    for number in range(40):
        case = number_of(number)
        for variant, graph in variants_of(case):
            assert compare(graph, case.target).outcome not in MUST_BE_NONE, f"{case.name} {variant}"
