"""What is remembered of pairs of accesses from other programs of the process changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conftest import ROOT
from tidegate.footprint.conflicts import Conflicts, Meeting, forget_meetings
from tidegate.footprint.model import Footprints
from tidegate.footprint.resolve import find_footprints
from tidegate.graph.build import build_graph
from tidegate.graph.flow import Flow, flow_of
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


@pytest.mark.parametrize("target", ["gfx942", "sm_80"])
def test_what_is_known_of_two_waves_is_the_same_with_lanes_and_without(target: str) -> None:
    """`explain` asks about accesses with their lanes, then without: only one wave with itself may make a difference."""
    facts, compared = load_target(target), 0
    for path in FILES:
        for kernel in parse(path.read_text(encoding="utf-8"), path.name).kernels:
            flow = flow_of(build_graph(kernel, facts).graph)
            footprints = find_footprints(flow)
            forget_meetings()
            bare = meetings(flow, without_lanes(footprints))
            forget_meetings()
            with_lanes = meetings(flow, footprints)
            assert meetings(flow, without_lanes(footprints)) == bare
            forget_meetings()
            meetings(flow, without_lanes(footprints))
            assert meetings(flow, footprints) == with_lanes
            compared += sum(map(bool, bare.values()))
    assert compared > 200


def meetings(flow: Flow, footprints: Footprints) -> dict[tuple[int, int, int], tuple[Meeting, ...]]:
    """Of all pairs of accesses, in one iteration and round each loop around both."""
    conflicts, nodes = Conflicts(flow, footprints), list(footprints.accesses)
    return {
        (x, y, loop): conflicts.meetings(x, y, loop)
        for x in nodes
        for y in nodes
        for loop in (-1, *(each for each in flow.loops_around(x) if each in flow.loops_around(y)))
        if loop < 0 or flow.loops[loop].reducible
    }


def without_lanes(footprints: Footprints) -> Footprints:
    accesses = {node: replace(touch, lanes="") for node, touch in footprints.accesses.items()}
    return replace(footprints, accesses=accesses)
