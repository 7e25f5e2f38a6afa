"""Random asynchronous programs through `tidegate sync`: counts are safe, and nearly all are as large as they can be.

Three judges that share no code: `brute_counts.py` goes through all runs, the simulator runs the program on the
hostile machine, the verifier proves. In `make test` there are some hundred programs, a few of them in `make check`;
`make fuzz` and `python -m bench async-counts async-fuzz` draw more.
"""

from __future__ import annotations

from collections import Counter

import pytest

from bench.async_counts import CUT, EXACT, UNSAFE, outcome_of
from bench.async_fuzz import codes_of, variants_of, with_more
from bench.verify_agreement import CLEAN, MUST_BE_NONE, compare
from oracles.brute.brute_counts import all_runs, find_counts
from oracles.brute.brute_force import judge_by_brute_force
from oracles.programs.async_cases import draw, number_of, synchronized
from oracles.programs.random_async import STANDING, TAGS
from oracles.rules.async_rules import RULES
from tidegate.graph import model as g
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.builder import GraphBuilder
from tidegate.graph.plan import Plan
from tidegate.graph.show import show_graph
from tidegate.index import Binary, Const, Flag, Name, holds
from tidegate.language import ops
from tidegate.targets import load_target

CHUNKS, EACH = 6, 40
LEAST_EXACT = 0.85


def chunks(count: int = CHUNKS) -> list[object]:
    return [pytest.param(each, marks=[pytest.mark.slow] if each else []) for each in range(count)]


# --- the brute force itself ---------------------------------------------------------------------------------------


def pipeline(slots: int, ahead: int, loads: int = 0, conditional: bool = False) -> GraphBuilder:
    """A copy so far ahead of its read, with loads on the same counter."""
    b = GraphBuilder("pipeline", waves=2, target="gfx950", lanes="one")
    b.buffer("%a", 16, slots)
    b.program(0, 2)
    on = (g.Issue("vmcnt", 1, 1),)
    mine = Binary("*", Name("wave"), Const(8))
    for step in range(ahead):
        b.write("%a", slot=step % slots, offset=mine, bytes=8, is_async=True, issues=on)
    with b.loop("%k", 0, b.size("N", 4)):
        k = Name("%k")

        def copy() -> None:
            slot = Binary("mod", Binary("+", k, Const(ahead)), Const(slots))
            b.write("%a", slot=slot, offset=mine, bytes=8, is_async=True, issues=on)

        if conditional:
            b.flag("%f")
            with b.branch(Flag("%f")):
                copy()
        else:
            copy()
        for _ in range(loads):
            b.compute("global_read", role="global_read", issues=on)
        b.sync(ops.SharedMemoryBarrier((("vmcnt", 0),)))
        b.read("%a", slot=Binary("mod", k, Const(slots)), bytes=16)
        b.sync(ops.SharedMemoryBarrier())
    return b


@pytest.mark.parametrize(
    ("slots", "ahead", "loads", "conditional", "largest"),
    [
        (2, 0, 0, False, 0),
        (2, 1, 0, False, 1),
        (4, 3, 0, False, 3),
        (4, 2, 1, False, 3),  # in the first iteration: two copies, one load; later there are more loads
        (4, 2, 1, True, 2),  # without the flag one copy and one load
        (2, 2, 0, False, 0),  # more stages than slots: the copy of this iteration goes into the slot that is read
    ],
)
def test_largest_counts_of_pipelines(slots: int, ahead: int, loads: int, conditional: bool, largest: int) -> None:
    """Known by hand."""
    runs = all_runs(pipeline(slots, ahead, loads, conditional).finish(), load_target("gfx950"))
    (count,) = find_counts(runs)
    assert (count.is_safe, count.largest) == (True, largest)


def test_a_count_that_does_nothing_is_needless() -> None:
    b = GraphBuilder("one", waves=2, target="gfx950", lanes="one")
    b.buffer("%a", 16)
    b.program(0, 2)
    copy = {"offset": Binary("*", Name("wave"), Const(8)), "bytes": 8, "is_async": True}
    b.write("%a", issues=(g.Issue("vmcnt", 1, 1),), **copy)
    for _ in range(2):
        b.sync(ops.WaitCount((("vmcnt", 0),)))
    b.sync(ops.WorkgroupBarrier())
    b.read("%a", bytes=16)
    first, second = find_counts(all_runs(b.finish(), load_target("gfx950")))
    assert (first.largest, second.largest) == (None, None)


def test_a_count_that_is_too_large_is_unsafe() -> None:
    graph = pipeline(3, 1).finish()
    (change,) = with_more(apply_to_graph(Plan(), graph))
    raised = apply_to_graph(Plan((change,)), graph)
    again = apply_to_graph(Plan(tuple(with_more(raised))), raised)
    (count,) = find_counts(all_runs(again, load_target("gfx950")))
    assert not count.is_safe


@pytest.mark.parametrize("start", [0, pytest.param(60, marks=pytest.mark.slow)])
def test_the_ordering_rule_says_what_all_orders_show(start: int) -> None:
    """On programs so small that every order of every step can be gone through."""
    found: Counter[bool] = Counter()
    for number in range(start, start + 60):
        case = draw("graph", number)
        env = {each.name: 2 for each in case.graph.sizes} | {each.name: 1 for each in case.graph.free}
        possible = all(holds(each, env) for each in case.graph.where)
        if case.graph.waves > 2 or not possible or "any around copy" in case.features.tags:
            continue
        _, done = synchronized(case)
        for graph in (case.graph, done, *(apply_to_graph(Plan((each,)), done) for each in with_more(done))):
            runs = all_runs(graph, case.target, only=env)
            if sum(len(each.steps) for each in runs.runs[0].waves) > 34:
                continue
            verdict = judge_by_brute_force(graph, case.target, env, 8_000)
            if verdict is not None:
                assert set(runs.races()) == {pair[1:] for pair in verdict.findings}, case.name
                found[bool(verdict.findings)] += 1
    assert min(found[True], found[False]) > 5


# --- counts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", chunks())
def test_counts_are_safe_and_nearly_all_as_large_as_can_be(chunk: int, request: pytest.FixtureRequest) -> None:
    each = int(request.config.getoption("--count")) // CHUNKS or EACH
    outcomes: Counter[str] = Counter()
    for number in range(chunk * each, (chunk + 1) * each):
        case = number_of(number)
        placed, done = synchronized(case)
        runs = all_runs(done, case.target)
        assert not placed.unplaced, case.name
        assert runs.safe(), f"{case.name}\n{show_graph(done)}\n{set(runs.races())}"
        for count in find_counts(runs):
            if done.points[count.point].label != STANDING:
                outcome = outcome_of(runs, count) if count.largest == count.value else "smaller"
                assert outcome != UNSAFE
                outcomes[outcome] += 1
    assert outcomes[EXACT] + outcomes[CUT] >= LEAST_EXACT * outcomes.total()


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (20, "which iterations of two loops meet"),
        (104, "how often loops run"),
    ],
)
def test_why_a_count_is_smaller(number: int, reason: str) -> None:
    """Each reason, with a program that shows it. If the program has no such count any more, sync has become better."""
    case = number_of(number)
    _, done = synchronized(case)
    runs = all_runs(done, case.target)
    assert reason in {outcome_of(runs, each) for each in find_counts(runs)}


@pytest.mark.parametrize("chunk", chunks())
def test_simulator_and_verifier_agree(chunk: int, request: pytest.FixtureRequest) -> None:
    """Nothing is found in what was synchronized, and nothing wrong is proved if a count is one higher."""
    each = int(request.config.getoption("--count")) // CHUNKS or EACH // 2
    for number in range(chunk * each, (chunk + 1) * each):
        case = number_of(number)
        for variant, graph in variants_of(case):
            found = compare(graph, case.target)
            assert found.outcome not in MUST_BE_NONE, f"{case.name} {variant}"
            assert variant != "synchronized" or not found.judgement.findings, case.name
            assert variant != "synchronized" or found.outcome == CLEAN, case.name


def test_one_more_is_noticed() -> None:
    """The judge that these tests trust does find a count that is too large: nearly all are as large as can be."""
    noticed = tried = 0
    for number in range(40):
        case = number_of(number)
        _, done = synchronized(case)
        for change in with_more(done):
            noticed += not all_runs(apply_to_graph(Plan((change,)), done), case.target).safe()
            tried += 1
    assert noticed >= tried * LEAST_EXACT


def test_all_features_occur() -> None:
    seen = {tag for number in range(600) for tag in number_of(number).features.tags}
    assert set(TAGS) == seen


# --- rules --------------------------------------------------------------------------------------------------------

# Rule → a program that comes out wrong without it, found by `bench.async_fuzz.notice`.
SHOWN_BY: dict[str, tuple[str, int]] = {
    "the same counter": ("graph", 8),
    "the least of a range": ("graph", 21),
    "in order": ("graph", 10),
    "the counter's maximum": ("graph", 46),
    "the own group": ("graph", 0),
    "the shortest walk": ("kernel", 19),
    "round a loop": ("graph", 0),
    "every instance of a copy": ("graph", 8),
    "every producer": ("kernel", 3),
}


def test_every_rule_is_shown() -> None:
    assert set(SHOWN_BY) == set(RULES)


@pytest.mark.parametrize("name", SHOWN_BY)
def test_a_rule_switched_off_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    RULES[name].off(monkeypatch)
    assert codes_of(draw(*SHOWN_BY[name]))


@pytest.mark.parametrize("name", SHOWN_BY)
def test_with_all_rules_nothing_is_found(name: str) -> None:
    assert not codes_of(draw(*SHOWN_BY[name]))
