"""One run of a graph on the hostile machine, with the verdicts in the form in which the brute force gives them."""

from __future__ import annotations

from oracles.brute.brute_force import Verdict
from tidegate.graph.model import SyncGraph
from tidegate.simulate.choices import Choices
from tidegate.simulate.explore import Everything, Explored, explore, explore_all, order_varies
from tidegate.simulate.machine import Listed, Machine, start_machine
from tidegate.simulate.overlaps import Overlaps
from tidegate.simulate.position import shape_of
from tidegate.simulate.queues import rules_of
from tidegate.simulate.races import Verdicts, Watch
from tidegate.simulate.regions import Regions
from tidegate.simulate.unroll import Surroundings, unroll
from tidegate.targets import Target


def unrolled(graph: SyncGraph, target: Target, env: dict[str, int], regions: Regions) -> list[Listed]:
    known = {"wg0": 0, "wg1": 0, "wg2": 0, **env}
    around = Surroundings(graph, shape_of(graph), regions, bool(target.counters), known)
    choices = Choices()
    return [Listed(unroll(around, wave, choices)) for wave in range(graph.waves)]


def by_clocks(graph: SyncGraph, target: Target, env: dict[str, int], most: int = 20_000) -> tuple[Verdict, Explored]:
    """As `check` does it, but forgetting as early as it may, so that forgetting too much shows."""
    regions, verdicts, rules = Regions(), Verdicts(), rules_of(target)
    sources = unrolled(graph, target, env, regions)
    varies = order_varies([each.steps for each in sources])
    watch = Watch(regions, verdicts, rules.fenced, varies, rules.in_issue_order, limit=1, least=1)
    found = explore(start_machine(rules, sources, watch), most)
    verdicts.settle()
    return Verdict(_pairs(verdicts), found.hang is not None), found


def by_overlaps(
    graph: SyncGraph, target: Target, env: dict[str, int], most: int = 20_000
) -> tuple[Verdict, Everything]:
    """Every order, without reduction and without clocks."""
    regions, verdicts = Regions(), Verdicts()
    machine = overlap_machine(graph, target, env, regions, verdicts)
    found = explore_all(machine, most)
    verdicts.settle()
    return Verdict(_pairs(verdicts), found.hangs), found


def overlap_machine(
    graph: SyncGraph, target: Target, env: dict[str, int], regions: Regions, verdicts: Verdicts
) -> Machine:
    rules = rules_of(target)
    watch = Overlaps(regions, verdicts, rules.fenced, True, rules.in_issue_order)
    return start_machine(rules, unrolled(graph, target, env, regions), watch)


def _pairs(verdicts: Verdicts) -> frozenset[tuple[str, int, int]]:
    return frozenset((kind, min(one, other), max(one, other)) for kind, one, other in verdicts.clashes)
