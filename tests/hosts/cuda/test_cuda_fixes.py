"""Races that others published and fixed: found before the fix, at the right lines, and proved after it."""

from __future__ import annotations

import pytest

from oracles.cuda_fixes import FIXES, Fix
from tidegate.hosts.cuda.installed import find_nvrtc

pytestmark = pytest.mark.cuda
# After this fix one thread stores the threshold, the one whose bin holds it. That it is one only follows from sums.
UNDECIDED = {"flashinfer_topk": 20}


@pytest.fixture(autouse=True)
def compiler() -> None:
    if find_nvrtc() is None:
        pytest.skip("NOT TESTED: NVRTC is not installed (`pip install 'tidegate[cuda]'`)")


@pytest.mark.parametrize("fix", FIXES, ids=[each.name for each in FIXES])
def test_a_published_race_is_found_at_its_lines(fix: Fix) -> None:
    found = [each for each in fix.before().findings if each.code != "TG403"]
    lines = {label.at.line for each in found for label in each.labels}
    expected = fix.lines | ({UNDECIDED[fix.name]} if fix.name in UNDECIDED else set())
    assert lines == expected
    assert fix.code in {each.code for each in found}


@pytest.mark.parametrize("fix", FIXES, ids=[each.name for each in FIXES])
def test_its_fix_is_proved(fix: Fix) -> None:
    after = fix.after()
    if fix.name in UNDECIDED:
        errors = [each for each in after.findings if each.severity == "error"]
        assert {each.code for each in errors} == {"TG106"}
        assert {label.at.line for each in errors for label in each.labels} == {UNDECIDED[fix.name]}
    else:
        assert after.is_proved, after.verdict
