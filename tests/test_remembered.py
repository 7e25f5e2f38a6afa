"""What is remembered of pairs of accesses from other programs of the process changes nothing."""

from __future__ import annotations

import pytest

from conftest import ROOT
from tidegate.footprint.conflicts import forget_meetings
from tidegate.graph.build import build_graph
from tidegate.graph.flow import flow_of
from tidegate.hazards.find import find_hazards
from tidegate.hazards.show import show_hazards
from tidegate.language.parse import parse
from tidegate.targets import load_target

FILES = sorted((ROOT / "examples").glob("*.tide"))


def hazards(target: str, *, afresh: bool = False) -> list[str]:
    """Of all examples, one after the other."""
    facts = load_target(target)
    found = []
    kernels = [kernel for path in FILES for kernel in parse(path.read_text(encoding="utf-8"), path.name).kernels]
    for kernel in kernels:
        if afresh:
            forget_meetings()
        graph = build_graph(kernel, facts).graph
        found.append(show_hazards(find_hazards(flow_of(graph), facts)))
    return found


@pytest.mark.parametrize("target", ["gfx942", "gfx1250"])
def test_hazards_are_the_same_whatever_was_asked_before(target: str) -> None:
    afresh = hazards(target, afresh=True)
    assert len(afresh) >= 20
    forget_meetings()
    assert hazards(target) == afresh
    assert hazards(target) == afresh  # with everything remembered
