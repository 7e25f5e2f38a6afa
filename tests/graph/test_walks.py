"""Walks of hazards: what a search leaves out, and what is remembered of it, changes no answer.

A search hurries past nodes at which nothing happens, and what stands in the program is asked about once. Here it is
asked again by a search that stops everywhere and remembers nothing, on random programs, with copies and without.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from oracles.programs.async_cases import number_of
from oracles.programs.small_graphs import small_graph
from oracles.programs.sync_cases import cases
from tidegate.graph import model as g
from tidegate.graph.flow import flow_of
from tidegate.hazards.find import find_hazards
from tidegate.hazards.model import Hazard
from tidegate.placement.events import MEET, Drain, ProxyFence
from tidegate.placement.place import find_slots
from tidegate.placement.walks import Before, Walk, Walks
from tidegate.targets import Target

COUNT = 60


def programs() -> Iterator[tuple[str, g.SyncGraph, Target]]:
    for case in cases(COUNT):
        yield case.name, case.graph, case.target
    for number in range(COUNT):
        copies = number_of(number)
        yield copies.name, copies.graph, copies.target


def with_proxies() -> Iterator[tuple[str, g.SyncGraph, Target]]:
    """Small programs whose accesses go through two proxies, with fences here and there."""
    for seed in range(2 * COUNT):
        graph, target, _ = small_graph(random.Random(seed), proxies=True)
        yield f"proxies {seed}", graph, target


class Slow(Walks):
    """Stops at every node."""

    def follows(self, counter: str) -> list[int]:
        return [-1] * len(self.flow.origin)


def events_before(hazards: tuple[Hazard, ...], walks: Walks) -> list[Before]:
    """Nothing, and a barrier before every third consumer."""
    return [{}, {each.consumer: MEET for each in hazards[::3] if walks.uniform[each.consumer]}]


@pytest.mark.parametrize("drained", [False, True])
def test_a_search_that_hurries_finds_what_one_that_stops_everywhere_finds(drained: bool) -> None:
    served: set[bool] = set()
    for name, graph, target in programs():
        found = find_hazards(flow_of(graph), target)
        fast, slow = (make(found.flow, target, found.stagger) for make in (Walks, Slow))
        for hazard in found.hazards:
            for before in events_before(found.hazards, fast):
                answers = [walks.served_at(hazard, before, drained=drained) for walks in (fast, slow)]
                sets = [each if isinstance(each, frozenset) else None for each in answers]
                assert sets[0] == sets[1], (name, hazard)
                served.add(sets[0] is not None)
    assert served == {False, True}


@pytest.mark.parametrize("drained", [False, True])
def test_what_is_remembered_is_what_a_new_search_finds(drained: bool) -> None:
    """Of a copy that is left to a wait, too, which shares what was found without that. Which of several walks is named
    may differ: who remembers stops only at what can matter."""
    shared = 0
    for name, graph, target in programs():
        found = find_hazards(flow_of(graph), target)
        fresh, remembering = (Walks(found.flow, target, found.stagger) for _ in range(2))
        remembering.remembers = True
        asked = 0
        for hazard in found.hazards:
            left = replace(hazard, performed=replace(hazard.performed, is_waited_for=True))
            for each in (hazard, left):
                is_served = fresh.is_served(each, drained=drained)
                assert remembering.is_served(each, drained=drained) == is_served, (name, each)
                before = {each.consumer: MEET} if fresh.uniform[each.consumer] else {}
                where = [walks.served_at(each, before, drained=drained) for walks in (fresh, remembering)]
                assert isinstance(where[0], Walk) == isinstance(where[1], Walk), (name, each)
                assert isinstance(where[0], Walk) or where[0] == where[1], (name, each)
                asked += 1
        shared += asked - len(remembering.asked)
    assert shared > 0


def test_one_search_tells_whether_barriers_right_before_the_consumer_are_all_that_is_missing() -> None:
    """The other way asks twice: with nothing put in, and with such barriers."""
    answers: set[tuple[bool, bool]] = set()
    for name, graph, target in (*programs(), *with_proxies()):
        found = find_hazards(flow_of(graph), target)
        walks, slots = Walks(found.flow, target, found.stagger), find_slots(found.flow)
        scatter(walks, random.Random(name))
        for hazard in found.hazards:
            nodes = slots.nodes.get(found.flow.origin[hazard.consumer], ())
            if not (nodes and hazard.demand and hazard.performed.is_async):
                continue
            if hazard.performed.needs_fence and (hazard.demand > 1 or not all_fence(walks)):
                continue
            met = dict.fromkeys(nodes, MEET * hazard.demand)
            asked_twice = walks.is_served(hazard, met) and not walks.is_served(hazard)
            assert walks.lacks_barriers_alone(hazard) == asked_twice, (name, hazard)
            answers.add((asked_twice, hazard.performed.needs_fence))
    assert answers == {(False, False), (True, False), (False, True), (True, True)}


def scatter(walks: Walks, rng: random.Random) -> None:
    """Puts drains, fences and barriers where all waves pass, as if they stood in the program."""
    some = ((Drain(True, True),), (ProxyFence(),), (Drain(True, True), ProxyFence()), (ProxyFence(), *MEET))
    for node, uniform in enumerate(walks.uniform):
        if uniform and rng.random() < 0.3:
            walks.own[node] = (*walks.own.get(node, ()), *rng.choice(some))


def all_fence(walks: Walks) -> bool:
    fences = [node for node, events in walks.own.items() for event in events if isinstance(event, ProxyFence)]
    return all(walks.uniform[node] for node in fences)
