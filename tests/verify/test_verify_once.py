"""Programs that the verifier once took for right: `check` has to find all that the simulator alone finds in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT
from tidegate.files import load
from tidegate.graph.build import build_graph
from tidegate.passes import run_stages
from tidegate.session import sessions_of
from tidegate.simulate.judge import judge

# A graph that makes no sense any more: one access counts on two counters, and a wait for either performed it.
REFUSED = {"ordinary_on_the_counter_of_copies": {"TG602"}}
FILES = sorted((ROOT / "tests" / "verify_once").iterdir())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_is_found(path: Path) -> None:
    (unit,) = sessions_of(load(str(path)), None)
    graph = unit.graph or build_graph(unit.kernel, unit.target).graph
    wrong = {each.code for each in judge(graph, unit.target).findings}
    assert wrong
    checked = run_stages(unit, print_after=None, stop_after=None, show=lambda *_: None)
    assert not checked.is_proved
    found = {each.code for each in checked.findings}
    assert found == REFUSED[path.stem] if path.stem in REFUSED else wrong <= found
