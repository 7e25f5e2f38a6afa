"""Random programs through `tidegate sync`: whatever comes out is free of races and hangs, by the simulator's word.

In `make test` there are 500 programs in all, a few of them in `make check`. `make fuzz` draws far more: `--count N` is
how many of each kind.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.sync_necessity import commute, try_all
from oracles.programs.sync_cases import Case, Outcome, cases, draw, outcomes
from tidegate.graph import model as g
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.plan import Insert, Plan
from tidegate.graph.show import show_graph
from tidegate.language import ops
from tidegate.simulate.judge import judge
from tidegate.synchronize import SyncOptions, synchronize_graph

CHUNKS, EACH = 10, 50


@pytest.mark.parametrize("strategy", ["minimal", "optimal"])
def test_slot_that_only_an_inner_loop_uses_is_carried_by_the_outer_one(strategy: str) -> None:
    assert not next(outcomes(draw("program", 893), (strategy,))).findings


@pytest.mark.parametrize("strategy", ["minimal", "intersecting"])
def test_where_no_wait_is_in_time_the_exact_search_is_asked(strategy: str) -> None:
    """A copy of an inner loop's last round, overwritten in its next run: the barrier chosen first has no wait."""
    case = draw("program", 20905)
    (outcome,) = outcomes(case, [strategy])
    assert not outcome.codes
    assert not outcome.placed.unplaced
    assert "used `optimal`" in outcome.placed.notes[-1]


def test_what_no_counter_knows_of_is_fenced_before_a_signal() -> None:
    """An operation without a description is on no counter that could be waited for."""
    assert not next(outcomes(draw("standing", 3446), ("intersecting",))).findings


def chunks(count: int = CHUNKS) -> list[object]:
    return [pytest.param(each, marks=[pytest.mark.slow] if each else []) for each in range(count)]


def drawn(chunk: int, request: pytest.FixtureRequest, each: int = EACH, of: int = CHUNKS) -> Iterator[Case]:
    """The programs of a chunk; with `--count` as many in all chunks together."""
    count = int(request.config.getoption("--count")) // of or each
    return cases(count, chunk * count)


def explain(case: Case, outcome: Outcome) -> str:
    found = "\n".join(f"{each.code} {each.message} {each.notes}" for each in outcome.findings)
    return f"{case.name}, {outcome.strategy}\n{show_graph(outcome.after)}\n{found}"


@pytest.mark.parametrize("chunk", chunks())
def test_what_comes_out_is_clean(chunk: int, request: pytest.FixtureRequest) -> None:
    """All strategies; the kinds of barriers follow from the targets. What is left unplaced is listed, or does race."""
    for case in drawn(chunk, request):
        for outcome in outcomes(case):
            assert not outcome.findings, explain(case, outcome)
            for unplaced in outcome.placed.unplaced:
                ends = (unplaced.hazard.producer, unplaced.hazard.consumer)
                assert is_listed(case, *ends), f"{case.name}: {unplaced.why}"


def is_listed(case: Case, first: int, second: int) -> bool:
    """Conflicts that no barrier can order and that do no harm: atomics that commute."""
    return commute(case.graph, first, second)


@pytest.mark.parametrize("chunk", chunks(4))
def test_what_is_clean_stays_as_it_is(chunk: int, request: pytest.FixtureRequest) -> None:
    """Synchronizing the result again changes nothing."""
    for case in drawn(chunk, request, 15, 4):
        for strategy in ("minimal", "intersecting"):
            options = SyncOptions(strategy=strategy)
            once = apply_to_graph(synchronize_graph(case.graph, case.target, options).plan, case.graph)
            assert not synchronize_graph(once, case.target, options).plan.edits, f"{case.name} {strategy}"


@pytest.mark.parametrize("chunk", chunks(4))
def test_without_what_is_redundant(chunk: int, request: pytest.FixtureRequest) -> None:
    """Nothing races, pinned barriers stay, and there are no more barriers than before."""
    count = int(request.config.getoption("--count")) // 4 or 15
    for number in range(chunk * count, (chunk + 1) * count):
        case = draw("standing", number)
        for outcome in outcomes(case, ("minimal", "intersecting"), remove_redundant=True):
            assert not outcome.findings, explain(case, outcome)
            assert pinned(case.graph) == pinned(outcome.after), case.name
            plain = next(outcomes(case, (outcome.strategy,)))
            assert meets(outcome.after) <= meets(plain.after), case.name


def pinned(graph: g.SyncGraph) -> int:
    """Pinned barriers and signals, whatever else became of them."""
    found = [point.action.op for point in graph.points if isinstance(point.action, g.Sync)]
    return sum(bool(getattr(op, "pinned", False)) for op in found)


def meets(graph: g.SyncGraph) -> float:
    """How often waves arrive."""
    kinds = (ops.WorkgroupBarrier, ops.SharedMemoryBarrier, ops.Signal)
    return sum(
        point.weight
        for point in graph.points
        if isinstance(point.action, g.Sync) and isinstance(point.action.op, kinds)
    )


@pytest.mark.parametrize("chunk", chunks(4))
def test_pinned_barriers_survive(chunk: int, request: pytest.FixtureRequest) -> None:
    """Also where what is redundant goes."""
    seen = 0
    for case in drawn(chunk, request, 40, 4):
        if "standing pinned" in case.features.tags:
            seen += 1
            for strategy in ("minimal", "intersecting"):
                options = SyncOptions(strategy=strategy, remove_redundant=True)
                plan = synchronize_graph(case.graph, case.target, options).plan
                assert pinned(apply_to_graph(plan, case.graph)) == pinned(case.graph), case.name
    assert seen


@pytest.mark.parametrize("chunk", chunks(4))
def test_atomics_that_commute_may_stay_unordered(chunk: int, request: pytest.FixtureRequest) -> None:
    """Fewer barriers, still clean, and nothing is left unplaced: those were the atomics."""
    for case in drawn(chunk, request, 25, 4):
        if not {"atomic", "commuting atomic"} & case.features.tags:
            continue
        for outcome in outcomes(case, ("minimal", "intersecting"), atomics="commute"):
            assert not outcome.findings, explain(case, outcome)
            assert not outcome.placed.unplaced, case.name
            ordered = synchronize_graph(
                case.graph, case.target, SyncOptions(strategy=outcome.strategy, atomics="order")
            )
            assert outcome.placed.weight <= ordered.weight, case.name


# --- one half of the waves held back ------------------------------------------------------------------------------

# Seeds of `staggered_program` that once came out wrong: fences among several barriers, drains of pairs pulled apart.
ONCE_WRONG = (7, 16, 35, 36, 41, 101)


@pytest.mark.parametrize("seed", ONCE_WRONG)
def test_one_half_held_back_that_once_came_out_wrong(seed: int) -> None:
    for outcome in outcomes(draw("stagger", seed)):
        assert not outcome.findings, outcome.strategy


@pytest.mark.slow
def test_one_half_held_back(request: pytest.FixtureRequest) -> None:
    """Conditional barriers around a loop, by hand: one arrival and two, either half."""
    failing = []
    for number in range(int(request.config.getoption("--count")) or 110):
        case = draw("stagger", number)
        failing += [f"{case.name} {each.strategy} {each.codes}" for each in outcomes(case) if each.findings]
    assert not failing


@pytest.mark.slow
def test_a_plan_without_one_edit_is_noticed() -> None:
    """The judge that these tests trust does find what is missing: most barriers are needed."""
    found = tried = 0
    for case in cases(20):
        outcome = next(outcomes(case, ("minimal",)))
        for place, edit in enumerate(outcome.placed.plan.edits):
            if isinstance(edit, Insert):
                edits = outcome.placed.plan.edits
                less = apply_to_graph(Plan((*edits[:place], *edits[place + 1 :])), case.graph)
                found += bool(judge(less, case.target).findings)
                tried += 1
    assert found >= tried * 0.7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("program", 0),
        ("standing", 1),
        ("kernel", 2),  # barriers where the target has no waits
        ("program", 3),
        ("standing", 4),
        ("standing", 19),  # a drain before the upgraded barrier
        ("program", 30),  # two waits in one loop
        ("program", 65),  # atomics, drained before a signal
        ("standing", 121),  # a slot that tells how often a loop has run
        ("kernel", 142),  # a drain on the way to another
        ("standing", 269),  # a fence that only the waves which need it come to
        ("kernel", 887),  # a barrier for want of a wait, in a loop that always runs
        ("program", 788),  # two of them, on both ways on
        ("standing", 1529),  # a barrier that drains copies drains LDS too
    ],
)
def test_every_barrier_is_needed(kind: str, seed: int) -> None:
    """Without any one something is found, or it is known why not."""
    tried = list(try_all(draw(kind, seed)))
    assert tried
    assert not [each for each in tried if each.reason == "nobody knows yet"]


def test_a_pair_that_an_inner_loop_made_needless_is_gone() -> None:
    """It was wrapped round its own loop afterwards, and could not be found."""
    case = draw("stagger", 5879)
    assert all(not outcome.findings for outcome in outcomes(case, ("intersecting",)))
