"""A check that no mutant fails is no check: with any one rule of the verifier switched off, something wrong is proved.

Each rule has a program that shows it, by name; the table of `python -m bench verify-rules` is the same one.
"""

from __future__ import annotations

import pytest

from bench.verify_mutants import SHOWN_BY, UNSEEN, is_proved_without, program
from oracles.rules.verify_rules import CAUTIOUS, RULES
from tests.conftest import ROOT
from tidegate.simulate.judge import judge
from tidegate.verify import inside
from tidegate.verify.verify import verify

OF_ITSELF = {"arm_that_ends_with_a_read"}  # of `tests/verify/test_verify.py`
CASES = sorted(path.stem for path in (ROOT / "tests" / "verify_cases").iterdir())


def test_every_rule_is_shown() -> None:
    assert set(SHOWN_BY) | set(UNSEEN) == set(RULES) | set(CAUTIOUS)
    assert len(RULES) >= 60


def test_every_case_shows_something() -> None:
    used = {name.removeprefix("case ") for name in (*SHOWN_BY.values(), *UNSEEN.values(), *DOUBTS.values(), OUTSIDE)}
    assert set(CASES) - used == OF_ITSELF


@pytest.mark.parametrize("name", [each for each in RULES if each not in UNSEEN])
def test_a_rule_switched_off_is_noticed(name: str) -> None:
    """Without it a program is proved in which the simulator finds something, and which is not proved with it."""
    graph, target = program(SHOWN_BY[name])
    assert not verify(graph, target).is_ordered
    assert is_proved_without(RULES[name], graph, target)
    assert any(each.code.startswith(("TG1", "TG2")) for each in judge(graph, target).findings)


@pytest.mark.parametrize("name", UNSEEN)
def test_a_rule_that_no_run_shows(name: str) -> None:
    """Should the simulator come to show it, it belongs to the others."""
    graph, target = program(UNSEEN[name])
    assert not verify(graph, target).is_ordered
    assert is_proved_without(RULES[name], graph, target)
    assert not judge(graph, target).findings


@pytest.mark.parametrize("name", CAUTIOUS)
def test_without_a_rule_less_is_proved(name: str) -> None:
    graph, target = program(SHOWN_BY[name])
    assert verify(graph, target).is_proved
    assert not is_proved_without(CAUTIOUS[name], graph, target)
    assert not judge(graph, target).findings


# --- doubts -------------------------------------------------------------------------------------------------------

DOUBTS = {"_ends": "case no_end"}
OUTSIDE = "case outside_of_the_buffer"


@pytest.mark.parametrize("name", DOUBTS)
def test_doubts_that_are_not_raised_are_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All accesses are in order there; no run comes to an end."""
    graph, target = program(DOUBTS[name])
    found = verify(graph, target)
    assert found.is_proved
    assert found.doubts
    assert judge(graph, target).findings
    monkeypatch.setattr(inside, name, lambda *_: ())
    assert set(verify(graph, target).doubts) < set(found.doubts)


def test_an_access_that_may_leave_its_buffer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, target = program(OUTSIDE)
    found = verify(graph, target)
    assert found.is_ordered
    assert found.outside
    assert not found.is_proved
    assert judge(graph, target).findings
    monkeypatch.setattr(inside, "_leaving", lambda *_, **__: ())
    assert verify(graph, target).is_proved
