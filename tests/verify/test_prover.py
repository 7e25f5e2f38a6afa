"""Proofs that take over what earlier proofs have left: they say what a proof from nothing says.

Programs are drawn, synchronized and edited at random: barriers and waits inserted, weakened, moved and deleted. The
same plans are proved one after the other on one ground, and each of them from nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from oracles.programs.focused_graphs import focused_graph
from oracles.programs.random_async import random_async
from oracles.programs.random_sync import partly_synchronized, random_program, staggered_program
from tidegate.diag import BadInput
from tidegate.graph import model as g
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.flow import flow_of
from tidegate.graph.parse import parse_graph
from tidegate.graph.plan import Change, Delete, Edit, Insert, Move, Plan
from tidegate.graph.show import show_graph
from tidegate.hazards.find import find_hazards
from tidegate.language.ops import (
    ConditionalBarrier,
    Fence,
    SharedMemoryBarrier,
    Signal,
    SyncOp,
    Wait,
    WaitCount,
    WorkgroupBarrier,
)
from tidegate.placement.place import Options, place
from tidegate.targets import Target, load_target
from tidegate.verify import ground
from tidegate.verify.model import Verification
from tidegate.verify.prover import Prover
from tidegate.verify.verify import is_ordered, verify

PLANS = 6  # of each program
SOURCES: dict[str, Callable[[random.Random], tuple[g.SyncGraph, Target]]] = {
    "ordinary": lambda rng: random_program(rng)[:2],
    "partly": lambda rng: partly_synchronized(rng)[:2],
    "staggered": lambda rng: staggered_program(rng)[:2],
    "copies": lambda rng: random_async(rng)[:2],
    "focused": lambda rng: focused_graph(rng)[:2],
}


def random_op(rng: random.Random, target: Target) -> SyncOp:
    counts = [WaitCount(((name, rng.randrange(3)),)) for name in target.counters]
    halves = [Signal(-1), Wait(-1)] if target.barrier.split else []
    plain = [WorkgroupBarrier(), SharedMemoryBarrier(), SharedMemoryBarrier(wait_async_ops=True), Fence("wave")]
    return rng.choice([*plain, *plain, *counts, *halves, ConditionalBarrier("low")])


def random_edits(rng: random.Random, graph: g.SyncGraph, target: Target, edited: set[int]) -> Iterator[Edit]:
    places = [number for number, point in enumerate(graph.points) if point.insertable]
    standing = [
        number
        for number, point in enumerate(graph.points)
        if isinstance(point.action, g.Sync) and isinstance(point.action.op, SyncOp) and number not in edited
    ]
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        if places:
            yield Insert(rng.choice(places), random_op(rng, target))
    for point in rng.sample(standing, min(len(standing), rng.choice((0, 0, 1)))):
        kind = rng.randrange(3)
        if kind == 0:
            yield Delete(point)
        elif kind == 1 or not places:
            yield Change(point, random_op(rng, target))
        else:
            yield Move(point, rng.choice(places))


def drawn(source: str, seed: int) -> tuple[g.SyncGraph, Target, list[Plan]]:
    rng = random.Random(f"{source} {seed}")
    graph, target = SOURCES[source](rng)
    placed = place(find_hazards(flow_of(graph), target), target, Options("minimal")).plan
    plans = [placed]
    while len(plans) < PLANS:
        edits = [each for each in placed.edits if rng.random() < 0.8]
        plans.append(Plan((*edits, *random_edits(rng, graph, target, {getattr(each, "point", -1) for each in edits}))))
    return graph, target, plans


def said(found: Verification, graph: g.SyncGraph) -> object:
    """What a verification says, whatever its points are called: kinds of suspects by what the points do."""

    def end(number: int) -> object:
        point = graph.points[number]
        return (point.action, point.loop, point.at)

    suspects = [(end(each.x), end(each.y), each.why, each.within_a_wave) for each in found.suspects]
    return (found.is_proved, found.undecided, found.doubts, sorted(map(repr, suspects)))


def compare(source: str, seed: int) -> tuple[int, int]:
    """How many plans are proved, and of how many."""
    graph, target, plans = drawn(source, seed)
    shared, full, count = Prover(graph, target), Prover(graph, target), 0
    proved = 0
    for number, plan in enumerate(plans):
        try:
            alone = apply_to_graph(plan, graph)
        except BadInput:
            continue
        count += 1
        text = f"{source} {seed}, plan {number}: {plan}\n{show_graph(graph)}"
        expected = is_ordered(alone, target)
        proved += expected
        assert shared.is_ordered(plan) == expected, text
        tried = full.program(plan)
        again = verify(tried.graph, target, ground=tried.ground)
        # The program with gaps, proved from nothing, and the program that the plan makes.
        assert said(again, tried.graph) == said(verify(tried.graph, target), tried.graph), text
        assert again.is_ordered == expected, text
    return proved, count


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    "chunk", [0, *(pytest.param(each, marks=pytest.mark.slow if each == 1 else pytest.mark.full) for each in (1, 2, 3))]
)
def test_proofs_on_one_ground_are_proofs_from_nothing(source: str, chunk: int, request: pytest.FixtureRequest) -> None:
    each = int(request.config.getoption("--count")) // 20 or 8
    results = [compare(source, seed) for seed in range(chunk * each, (chunk + 1) * each)]
    proved, count = sum(one for one, _ in results), sum(many for _, many in results)
    assert 0 < proved < count  # plans of both kinds


# --- mistakes in what is kept ---------------------------------------------------------------------------------------


def _looks_at_nothing(kept: ground.Ground, key: object, found: ground.Stretch) -> None:
    nothing = ground.Stretch(frozenset(), {}, found.suspects, found.leans, found.effort)
    kept.kept.setdefault(key, []).append(nothing)


MUTANTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "what a search looked at is forgotten": lambda m: m.setattr(ground.Ground, "keep", _looks_at_nothing),
    "edits are overlooked": lambda m: m.setattr(ground.Ground, "edited", lambda *_: {}),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mistake_in_what_is_kept_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    with pytest.raises(AssertionError):
        _compare_many()


def _compare_many() -> None:
    for seed in range(40):
        compare("ordinary", seed)
        compare("copies", seed)


def test_what_is_deleted_issues_nothing() -> None:
    """The wait lets two instructions in flight: without those of the barrier before it, the copy is one of them."""
    graph = parse_graph(COUNTED)
    target = load_target("gfx950")
    plan = Plan((Delete(1),))
    assert not is_ordered(apply_to_graph(plan, graph), target)
    assert not Prover(graph, target).is_ordered(plan)
    assert Prover(graph, target).is_ordered(Plan((*plan.edits, Change(2, WaitCount((("vmcnt", 0),))))))


COUNTED = """graph @counted target gfx950 waves 1
buffer %a bytes 1024 slots 1 at 0
program entry 0 waves 0 .. 1
{
  0: write %a[0, 0] box() width 256 async issues vmcnt 1 .. 1 -> 1
  1: sync shared_memory_barrier issues vmcnt 4 .. 4 -> 2
  2: sync wait_count vmcnt(2) -> 3
  3: sync workgroup_barrier -> 4
  4: read %a[0, 0] box() width 256 -> 5
  5: end
}
"""
