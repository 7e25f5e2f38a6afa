"""Hazards that are left out lie around others: a plan for those that are found serves every pair that conflicts.

With regions, of accesses that touch the same bytes only the last producer and the first consumer of a region are kept.
Here all pairs are taken, as for graphs without regions, and looked at in the program after the plan is carried out.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oracles.programs.async_cases import number_of
from oracles.programs.sync_cases import cases
from tidegate.footprint import Conflicts, find_footprints
from tidegate.graph import model as g
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.flow import Flow, flow_of
from tidegate.hazards import find
from tidegate.hazards.facts import PairFacts
from tidegate.hazards.model import Hazard
from tidegate.placement.place import Options, place
from tidegate.placement.walks import Walks
from tidegate.targets import Target


def programs(first: int, count: int) -> Iterator[tuple[str, g.SyncGraph, Target]]:
    for case in cases(count, first):
        yield case.name, case.graph, case.target
    for number in range(first, first + count):
        copies = number_of(number)
        yield copies.name, copies.graph, copies.target


def all_pairs(flow: Flow, target: Target) -> tuple[Hazard, ...]:
    footprints = find_footprints(flow)
    facts = PairFacts(flow, target)
    return find._find(flow, facts, footprints, Conflicts(flow, footprints), None, frozenset()).hazards


@pytest.mark.parametrize(("first", "count"), [(0, 40), pytest.param(40, 160, marks=pytest.mark.slow)])
def test_a_plan_for_the_hazards_that_are_found_serves_all_pairs(first: int, count: int) -> None:
    fewer = 0
    for name, graph, target in programs(first, count):
        found = find.find_hazards(flow_of(graph), target)
        if found.regions is None or found.stagger.matters:
            continue
        placed = place(found, target, Options("minimal"))
        if placed.unplaced:
            continue
        flow = flow_of(apply_to_graph(placed.plan, graph))
        hazards, walks = all_pairs(flow, target), Walks(flow, target)
        for hazard in hazards:
            assert walks.is_served(hazard), (name, hazard)
        fewer += len(hazards) > len(found.hazards)
    assert fewer > 5
