"""Published hangs and phase bugs: the wrong form is found with the witness of its report, the right form is proved."""

from __future__ import annotations

import re

import pytest

from oracles.object_fixes import CASES
from tests.conftest import ROOT
from tidegate.files import load_text
from tidegate.passes import Checked, check_session
from tidegate.session import sessions_of


def checked(text: str) -> Checked:
    (session,) = sessions_of(load_text(text, "k.tide"), None)
    return check_session(session)


@pytest.mark.parametrize("name", CASES)
def test_the_right_form_is_proved(name: str) -> None:
    found = checked(CASES[name].right)
    assert found.is_proved
    assert not [each for each in found.findings if each.severity == "error"]


@pytest.mark.parametrize("name", CASES)
def test_the_wrong_form_is_found_as_described(name: str) -> None:
    case = CASES[name]
    found = [each for each in checked(case.wrong).findings if each.code == case.code]
    texts = [" ".join((*each.notes, each.help, *(label.text for label in each.labels))) for each in found]
    assert any(all(words in text for words in case.says) for text in texts), texts
    circles = [each for finding in found for name, each in finding.witness if name == "circle"]
    if case.circle:
        assert case.circle in [tuple(sorted(dict(link)["wave"] for link in each)) for each in circles]


def test_the_page_names_each_case() -> None:
    page = (ROOT / "docs/verify.md").read_text()
    rows = dict(re.findall(r"^\| \[([^\]]+)\]\((https://[^)]+)\) \|", page, re.MULTILINE))
    assert {name: rows.get(name) for name in CASES} == {name: case.url for name, case in CASES.items()}
