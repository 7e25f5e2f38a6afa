"""The fuzz is tested itself: with any one rule of `tidegate sync` switched off, random programs come out wrong.

Each rule has a program here that shows it, found by `bench.sync_soundness.notice`, so that the test is short. A rule
that no program shows would be one that the fuzz does not test, and needs programs of its own in `random_sync`.
"""

from __future__ import annotations

import pytest

from oracles.programs.sync_cases import draw, outcomes
from oracles.rules.sync_rules import RULES

# Rule → a program that comes out wrong without it, and the strategy.
SHOWN_BY: dict[str, tuple[str, int, str]] = {
    "write after write": ("program", 0, "minimal"),
    "write after read": ("kernel", 2, "minimal"),
    "read after write": ("program", 0, "minimal"),
    "cross-iteration": ("standing", 1, "minimal"),
    "nested loop": ("program", 3, "minimal"),
    "distance": ("standing", 1, "minimal"),
    "rounds": ("program", 0, "minimal"),
    "within a wave": ("kernel", 2, "minimal"),
    "atomics keep their order": ("program", 3, "minimal"),
    "stagger": ("stagger", 0, "minimal"),
    "unknown operations": ("program", 278, "minimal"),
    "a copy hides behind nothing": ("kernel", 262, "minimal"),
    "a consumer in an arm stands for none behind it": ("standing", 4, "minimal"),
    "cycles with several ways in": ("program", 15, "minimal"),
    "slot recurrence": ("kernel", 8, "minimal"),
    "views that loops carry": ("program", 94, "minimal"),
    "views by condition": ("program", 0, "minimal"),
    "extents": ("standing", 26, "minimal"),
    "overlapping buffers": ("standing", 6, "minimal"),
    "numbers from memory": ("program", 288, "minimal"),
    "call": ("standing", 26, "minimal"),
    "zero-trip": ("program", 13, "minimal"),
    "branch cover": ("program", 3, "minimal"),
    "arms in the nest": ("standing", 106, "minimal"),
    "round a loop": ("kernel", 2, "minimal"),
    "performed before arriving": ("program", 0, "minimal"),
    "counts": ("standing", 4, "minimal"),
    "between signal and wait": ("standing", 131, "minimal"),
    "drains": ("program", 0, "minimal"),
    "drains of copies": ("kernel", 2, "minimal"),
    "what arriving performs": ("program", 0, "minimal"),
    "fences": ("program", 10, "minimal"),
    "upgrades": ("standing", 1, "minimal"),
    "drains before signals": ("program", 0, "intersecting"),
    "pairs serve": ("program", 0, "intersecting"),
    "prologue and epilogue": ("program", 13, "intersecting"),
    "redundant means needless": ("standing", 13, "minimal"),
    "what stands is not enough": ("standing", 1, "minimal"),
}


def codes(name: str) -> tuple[str, ...]:
    kind, seed, strategy = SHOWN_BY[name]
    options = {**dict(RULES[name].options), "least": False}  # a proof repairs what a rule is missing for
    return next(outcomes(draw(kind, seed), (strategy,), **options)).codes


def test_every_rule_is_shown() -> None:
    assert set(SHOWN_BY) == set(RULES)
    assert len(RULES) >= 20


@pytest.mark.parametrize("name", SHOWN_BY)
def test_a_rule_switched_off_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    RULES[name].off(monkeypatch)
    assert codes(name)


@pytest.mark.parametrize("name", SHOWN_BY)
def test_with_all_rules_nothing_is_found(name: str) -> None:
    assert not codes(name)
