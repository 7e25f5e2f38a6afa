"""The examples with their synchronization taken out, and put back by each strategy: against what is written by hand.

`python -m bench sync-examples`
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from oracles.programs.random_sync import Features
from oracles.programs.small_examples import EXAMPLES, NAMES, load_small
from oracles.programs.sync_cases import Case
from oracles.rules.mutants import SYNC
from tidegate.graph import model as g
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.barriers import tally
from tidegate.graph.build import build_graph
from tidegate.language import ops
from tidegate.language.ops import Block, Kernel
from tidegate.language.parse import parse
from tidegate.placement.place import STRATEGIES
from tidegate.simulate.judge import judge
from tidegate.synchronize import SyncOptions, synchronize_graph
from tidegate.targets import Target, load_target

# What belongs to copies, not to order, and what makes the stagger of a schedule: `sync` puts none of these in.
KEPT = (ops.CommitGroup, ops.ConditionalBarrier, ops.MbarrierArrive, ops.MbarrierWait)


def strip(kernel: Kernel) -> Kernel:
    """The kernel without what synchronizes in it."""
    return replace(kernel, body=_stripped(kernel.body))


def _stripped(block: Block) -> Block:
    kept = (op for op in block.ops if not isinstance(op, SYNC) or isinstance(op, KEPT))
    return replace(block, ops=tuple(ops.map_blocks(op, lambda inner, _: _stripped(inner)) for op in kept))


def small_cases() -> Iterator[Case]:
    """The examples in their small form, stripped, as cases of the fuzz."""
    for name in NAMES:
        kernel = strip(load_small(name).kernel)
        target = load_target(kernel.target)
        graph = build_graph(kernel, target).graph
        slots = max((buffer.slots for buffer in graph.buffers), default=1)
        accesses = sum(isinstance(point.action, g.Access) for point in graph.points)
        yield Case(name, 0, graph, target, Features(kernel.target, kernel.waves, 0, slots, (), accesses, frozenset()))


@dataclass(frozen=True, slots=True)
class Counts:
    """Where waves meet: in the text, in one iteration of each loop, and how often at all."""

    total: int
    in_loops: int
    weight: float
    waits: int
    clean: bool

    def __str__(self) -> str:
        return f"{self.total} | {self.in_loops} | {self.waits}{'' if self.clean else ' **racy**'}"


def count(graph: g.SyncGraph, clean: bool = True) -> Counts:
    synced = [point.action.op for point in graph.points if isinstance(point.action, g.Sync)]
    waits = sum(isinstance(op, ops.WaitCount | ops.Fence) for op in synced)
    found = tally(graph)
    return Counts(found.barriers, found.in_loops, found.weight, waits, clean)


def run() -> tuple[str, bool]:
    """The table, and whether everything is clean and `optimal` never meets more often than by hand."""
    heads = ("by hand", *STRATEGIES)
    lines = ["| example | target | " + " | ".join(f"{each}: barriers | in loops | waits" for each in heads) + " |"]
    lines.append("|---|---|" + "---:|" * 3 * len(heads))
    good = True
    for path in sorted(EXAMPLES.glob("*.tide")):
        (kernel,) = parse(path.read_text(encoding="utf-8")).kernels
        target = load_target(kernel.target)
        by_hand = count(build_graph(kernel, target).graph)
        stripped = build_graph(strip(kernel), target).graph
        found = [_by_strategy(stripped, target, each, path.stem) for each in STRATEGIES]
        good = good and all(each.clean for each in found)
        lines.append(f"| {path.stem} | {kernel.target} | " + " | ".join(map(str, (by_hand, *found))) + " |")
    return "\n".join(lines), good


def _by_strategy(stripped: g.SyncGraph, target: Target, strategy: str, name: str) -> Counts:
    after = apply_to_graph(synchronize_graph(stripped, target, SyncOptions(strategy=strategy)).plan, stripped)
    small = next(each for each in small_cases() if each.kind == name)
    plan = synchronize_graph(small.graph, target, SyncOptions(strategy=strategy)).plan
    return count(after, not judge(apply_to_graph(plan, small.graph), target).findings)
