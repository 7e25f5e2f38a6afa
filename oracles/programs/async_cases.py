"""Random asynchronous programs through `tidegate sync`.

Needs   the generators of `oracles/programs/random_async.py`
Gives   `number_of(n)`: program n, with the strategy that it is asked about; `synchronized(case)`: the program after
Keeps   the same program for the same number
Cost    some milliseconds a program
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from oracles.programs.random_async import Features, random_async, random_async_kernel
from tidegate.graph import model as g
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.build import build_graph
from tidegate.placement.place import Placed
from tidegate.synchronize import SyncOptions, synchronize_graph
from tidegate.targets import Target

MIXED = (
    *(("graph", "minimal"), ("graph", "intersecting"), ("kernel", "minimal"), ("graph", "minimal")),
    *(("graph", "optimal"), ("graph", "minimal"), ("graph", "intersecting"), ("kernel", "intersecting")),
)


@dataclass(frozen=True, slots=True)
class Case:
    kind: str
    seed: int
    strategy: str
    graph: g.SyncGraph
    target: Target
    features: Features

    @property
    def name(self) -> str:
        return f"{self.kind} {self.seed} {self.strategy}"


def draw(kind: str, seed: int, strategy: str = "minimal") -> Case:
    """The program of a kind with this seed."""
    rng = random.Random(seed)
    if kind == "graph":
        graph, target, features = random_async(rng)
    else:
        kernel, target, features = random_async_kernel(rng)
        graph = build_graph(kernel, target).graph
    return Case(kind, seed, strategy, graph, target, features)


def number_of(number: int) -> Case:
    """The program with this number."""
    kind, strategy = MIXED[number % len(MIXED)]
    return draw(kind, number, strategy)


def synchronized(case: Case) -> tuple[Placed, g.SyncGraph]:
    placed = synchronize_graph(case.graph, case.target, SyncOptions(strategy=case.strategy))
    return placed, apply_to_graph(placed.plan, case.graph)
