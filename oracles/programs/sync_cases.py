"""Random programs through `tidegate sync`, and the simulator's word on what comes out.

Needs   the generators of `oracles/programs/random_sync.py`
Gives   `draw(kind, seed)`: a program; `cases(count)`: a mixture of all kinds; `outcomes(case)`: a plan for each
        strategy, carried out and judged
Keeps   the same program for the same kind and seed; equal plans are judged once
Cost    that of the judge: about 30 ms a plan

    for case in cases(500):
        for outcome in outcomes(case):
            assert not outcome.findings, case.name
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from oracles.programs.random_sync import (
    Features,
    partly_synchronized,
    random_kernel_program,
    random_program,
    staggered_program,
)
from tidegate.diag import Finding
from tidegate.graph import model as g
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.build import build_graph
from tidegate.graph.plan import Change, Insert, Plan
from tidegate.language import ops
from tidegate.placement.place import STRATEGIES, Placed
from tidegate.simulate.judge import Judgement, judge
from tidegate.synchronize import SyncOptions, synchronize_graph
from tidegate.targets import Target

# A program without synchronization, with some that stands already, as a kernel, with one half of the waves held back.
KINDS = ("program", "standing", "kernel", "stagger")
MIXED = ("program", "standing", "kernel", "program", "standing", "program", "standing", "kernel", "program", "standing")


@dataclass(frozen=True, slots=True)
class Case:
    kind: str
    seed: int
    graph: g.SyncGraph
    target: Target
    features: Features

    @property
    def name(self) -> str:
        return f"{self.kind} {self.seed}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One strategy's plan, carried out and judged."""

    strategy: str
    placed: Placed
    after: g.SyncGraph
    judgement: Judgement

    @property
    def findings(self) -> list[Finding]:
        return self.judgement.findings

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(sorted({each.code for each in self.findings}))


def draw(kind: str, seed: int) -> Case:
    """The program of a kind with this seed."""
    rng = random.Random(seed)
    match kind:
        case "program":
            graph, target, features = random_program(rng)
        case "standing":
            graph, target, features = partly_synchronized(rng)
        case "stagger":
            graph, target, features = staggered_program(rng)
        case _:
            kernel, target, features = random_kernel_program(rng)
            graph = build_graph(kernel, target).graph
    return Case(kind, seed, graph, target, features)


def cases(count: int, start: int = 0) -> Iterator[Case]:
    """Programs of all kinds in turn, each with a seed of its own."""
    return (draw(MIXED[number % len(MIXED)], number) for number in range(start, start + count))


def outcomes(case: Case, strategies: Sequence[str] = STRATEGIES, **options: object) -> Iterator[Outcome]:
    """What comes of each strategy. `options` are those of `SyncOptions`."""
    judged: dict[Plan, Judgement] = {}
    for strategy in strategies:
        placed = synchronize_graph(case.graph, case.target, SyncOptions(strategy=strategy, **options))  # type: ignore[arg-type]
        after = apply_to_graph(placed.plan, case.graph)
        if placed.plan not in judged:
            judged[placed.plan] = judge(after, case.target)
        yield Outcome(strategy, placed, after, judged[placed.plan])


def kinds_of(plan: Plan) -> Counter[str]:
    """How many operations of which kind a plan puts in or changes."""
    return Counter(kind_of(edit.op) for edit in plan.edits if isinstance(edit, Insert | Change))


def kind_of(op: ops.SyncOp) -> str:
    match op:
        case ops.WorkgroupBarrier():
            return "bare barrier"
        case ops.SharedMemoryBarrier(wait_async_ops=True):
            return "barrier that drains copies"
        case ops.SharedMemoryBarrier():
            return "barrier that drains LDS"
        case ops.Signal() | ops.Wait():
            return "signal or wait"
        case ops.Fence():
            return "fence"
        case ops.WaitCount():
            return "wait for a count"
    return type(op).__name__
