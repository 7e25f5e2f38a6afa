"""What is proved against the twin: random programs about lanes, counts and atomics, and old beliefs put back."""

from __future__ import annotations

import pytest

from bench.twins import KINDS, compare
from bench.verify_mutants import RULES
from tidegate.graph import memory
from tidegate.graph.model import Issue
from tidegate.targets import Target
from tidegate.verify import verify
from tidegate.verify.events import Access

FAST, MORE = 120, 1_500


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_wrong_is_proved(kind: str) -> None:
    found = compare(kind, range(FAST))
    assert found.false == []
    assert found.wrong >= 0.3 * found.programs
    assert found.share_proved >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_wrong_is_proved_among_more(kind: str, pytestconfig: pytest.Config) -> None:
    count = pytestconfig.getoption("count") or MORE
    found = compare(kind, range(1_000_000, 1_000_000 + count))
    assert found.false == []
    assert found.wrong >= 0.3 * found.programs
    assert found.share_proved >= 0.95


def lanes_in_order(patch: pytest.MonkeyPatch) -> None:
    """Ordinary accesses of one wave are in order."""
    RULES["lanes"].off(patch)


def everything_is_issued(patch: pytest.MonkeyPatch) -> None:
    """Plain loads, stores and LDS accesses count towards a wait."""

    def issues(target: Target, kind: str, bytes_: int, masked: bool) -> tuple[Issue, ...]:
        return (Issue(target.counter_of(kind), *target.instructions(kind, bytes_), target.operations[kind].in_order),)

    patch.setattr(memory, "_issues", issues)


def operators_commute(patch: pytest.MonkeyPatch) -> None:
    """Atomics of one operator commute, whatever their elements are."""
    known = verify.conflict

    def conflict(x: Access, y: Access) -> bool:
        commute = x.effect == y.effect == "atomic" and x.operator == y.operator and not (x.fetches or y.fetches)
        return known(x, y) and not commute

    patch.setattr(verify, "conflict", conflict)


@pytest.mark.parametrize(
    ("kind", "believe"),
    [("lanes", lanes_in_order), ("counts", everything_is_issued), ("atomics", operators_commute)],
    ids=KINDS,
)
def test_an_old_belief_put_back_is_noticed(kind: str, believe: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert callable(believe)
    believe(monkeypatch)
    assert compare(kind, range(FAST)).false
