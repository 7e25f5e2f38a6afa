"""The verifier: facts about kernels that can be checked by hand, and the examples."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from bench.verify_mutants import program
from oracles.rules.verify_rules import RULES
from tests.conftest import ROOT
from tidegate.files import load
from tidegate.graph import model as g
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.build import build_graph
from tidegate.graph.show import show_action
from tidegate.language import points
from tidegate.language.check import check
from tidegate.language.ops import Kernel
from tidegate.language.parse import parse
from tidegate.simulate.judge import Judgement, judge
from tidegate.synchronize import synchronize_graph
from tidegate.targets import load_target
from tidegate.verify import search
from tidegate.verify.model import Verification
from tidegate.verify.verify import is_ordered, verify

EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.tide"))
BROKEN = sorted(path.stem for path in (ROOT / "examples" / "broken").glob("*.tide"))


def asked(text: str) -> tuple[g.SyncGraph, Verification, Judgement]:
    """A kernel, what the verifier says of it, and what the simulator does."""
    (kernel,) = parse(text).kernels
    target = load_target(kernel.target)
    graph = build_graph(kernel, target).graph
    return graph, verify(graph, target), judge(graph, target)


def pairs(found: Verification, graph: g.SyncGraph) -> set[str]:
    """Suspects by the effects of their accesses: `read then write`."""
    return {f"{_effect(graph, each.x)} then {_effect(graph, each.y)}" for each in found.suspects}


def _effect(graph: g.SyncGraph, number: int) -> str:
    action = graph.points[number].action
    return action.effect if isinstance(action, g.Access) else show_action(action)


def codes(judged: Judgement) -> set[str]:
    return {each.code for each in judged.findings}


# --- two clusters in ping-pong ------------------------------------------------------------------------------------

BARE, DRAINS = "workgroup_barrier", "shared_memory_barrier"
WAVES = (2, 4, 8, 16)


def pingpong(waves: int = 8, stagger: int = 1, reads: str = DRAINS, writes: str = DRAINS) -> str:
    """Reads, half of the products, writes of the next tile, the other half; what stands behind reads and writes."""
    opened, closed = "conditional_barrier high\n" * stagger, "conditional_barrier low\n" * stagger
    return f"""
target gfx942
kernel @pingpong(%X: global<Nx{waves}x64xf32>, %Y: global<{waves}x64xf32>) sizes(N = 4) where(N >= 1) waves {waves} {{
  %tile = alloc : lds<{waves}x64xf32>
  %x = global_read %X[0, wave] : tile<64xf32>
  local_write %x, %tile[wave]
  shared_memory_barrier
  {opened}
  %sum = iterate %k in 0 .. N - 1 carry(%acc = %x : tile<64xf32>) {{
    %a = local_read %tile[(wave + {waves // 2}) mod {waves}] : tile<64xf32>
    %n = global_read %X[%k + 1, wave] : tile<64xf32>
    {reads}
    %s = add %acc, %a : tile<64xf32>
    workgroup_barrier pinned
    local_write %n, %tile[wave]
    {writes}
    %t = max %s, %a : tile<64xf32>
    workgroup_barrier pinned
    yield %t
  }}
  {closed}
  global_write %sum, %Y[wave]
}}
"""


@pytest.mark.parametrize("waves", WAVES)
def test_pingpong_with_bare_barriers_is_suspected_both_ways(waves: int) -> None:
    graph, found, judged = asked(pingpong(waves, reads=BARE, writes=BARE))
    assert pairs(found, graph) == {"read then write", "write then read"}
    assert {each.why for each in found.suspects} == {"undrained"}
    assert {(each.x, each.y) for each in found.suspects} == judged.pairs


@pytest.mark.parametrize("waves", WAVES)
def test_pingpong_whose_first_barrier_drains_leaves_the_writes(waves: int) -> None:
    graph, found, judged = asked(pingpong(waves, writes=BARE))
    assert pairs(found, graph) == {"write then read"}
    assert {(each.x, each.y) for each in found.suspects} == judged.pairs


@pytest.mark.parametrize("waves", WAVES)
def test_pingpong_whose_second_barrier_drains_leaves_the_reads(waves: int) -> None:
    graph, found, judged = asked(pingpong(waves, reads=BARE))
    assert pairs(found, graph) == {"read then write"}
    assert {(each.x, each.y) for each in found.suspects} == judged.pairs


@pytest.mark.parametrize("waves", WAVES)
def test_pingpong_whose_barriers_both_drain_is_proved(waves: int) -> None:
    _, found, judged = asked(pingpong(waves))
    assert found.is_proved
    assert not found.doubts
    assert not judged.findings


@pytest.mark.parametrize("waves", WAVES)
def test_pingpong_at_stagger_two_races(waves: int) -> None:
    graph, found, judged = asked(pingpong(waves, stagger=2))
    assert pairs(found, graph) == {"read then write", "write then read"}
    assert all(each.exact for each in found.suspects)
    assert {(each.x, each.y) for each in found.suspects} == judged.pairs
    assert codes(judged) == {"TG101", "TG102"}


@pytest.mark.parametrize("stagger", [3, 4, 5])
def test_pingpong_further_apart_is_always_in_the_wrong_order(stagger: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No two accesses are in flight at once, and each comes before the one that it should follow."""
    text = pingpong(stagger=stagger)
    _, found, judged = asked(text)
    assert {(each.x, each.y) for each in found.suspects} == judged.pairs
    assert codes(judged) == {"TG104"}
    RULES["direction"].off(monkeypatch)
    assert asked(text)[1].is_proved


def test_stagger_is_the_other_way_round_when_the_low_half_is_held_back() -> None:
    swapped = {"high": "low", "low": "high"}
    text = re.sub(r"conditional_barrier (\w+)", lambda m: f"conditional_barrier {swapped[m[1]]}", pingpong(stagger=1))
    assert asked(text)[1].is_proved
    text = re.sub(r"conditional_barrier (\w+)", lambda m: f"conditional_barrier {swapped[m[1]]}", pingpong(stagger=2))
    _, found, judged = asked(text)
    assert {(each.x, each.y) for each in found.suspects} == judged.pairs != set()


@pytest.mark.xfail(strict=True, reason="one statement in two waves is asked about without the stagger between them")
def test_one_statement_that_the_stagger_keeps_apart_is_proved() -> None:
    """One half writes before the barrier at which the other half's write begins: always in one direction."""
    graph, target = program("focused 116")
    assert not judge(graph, target).findings
    assert verify(graph, target).is_proved


# --- examples -----------------------------------------------------------------------------------------------------


def kernel_of(folder: str, name: str) -> Kernel:
    (kernel,) = load(str(ROOT / "examples" / folder / f"{name}.tide")).kernels
    return kernel


# Copies report to mbarriers there: that is for the simulator.
OF_OBJECTS = ("gemm_mbarrier",)


@pytest.mark.parametrize("name", [each for each in EXAMPLES if each not in OF_OBJECTS])
def test_example_is_proved_without_running(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.simulate.judge.judge", _nothing_is_run)
    kernel = kernel_of("", name)
    target = load_target(kernel.target)
    found = verify(build_graph(kernel, target).graph, target)
    assert found.is_proved
    # A histogram counts where its data says.
    assert found.doubts == (("places that cannot be computed",) if name == "histogram" else ())


@pytest.mark.parametrize("name", OF_OBJECTS)
def test_example_with_barrier_objects_is_proved(name: str) -> None:
    kernel = kernel_of("", name)
    target = load_target(kernel.target)
    graph = build_graph(kernel, target).graph
    assert verify(graph, target).is_proved
    assert not judge(graph, target).findings


def _nothing_is_run(*_: object) -> Judgement:
    raise AssertionError("the simulator was asked")


# Why nothing is asked of these; what is wrong with them is found by running, or by the shape of the program.
DISAGREE = (
    "barriers under conditions on which waves disagree: waves come to the workgroup's barrier in different loops, or"
    " under different conditions"
)
TWICE = "a signal before the wait for the previous one, on some path"
UNMATCHED = "conditional barriers that do not match, on some path"
UNDECIDED = {
    "divergent_barrier": (
        "barriers under conditions on which waves disagree: the workgroup's barrier is used under conditions that"
        " nobody can compute"
    ),
    "lost_signal": TWICE,
    "mbarrier_arrivals": "barrier objects: where roles take turns, a wait for `%full` never ends",
    "mbarrier_bytes": "barrier objects: where roles take turns, a wait for `%full` never ends",
    "mbarrier_parity": "barrier objects: where roles take turns, a wait for `%full` never ends",
    "named_cycle": "barrier objects: where roles take turns, a wait for `%q` never ends",
    "named_early_exit": "barrier objects: where roles take turns, a wait for `%all` never ends",
    "named_participants": "barrier objects: where roles take turns, a wait for `%pair` never ends",
    "one_arm": DISAGREE,
    "orphan_signal": "a signal without a wait, on some path",
    "producer_consumer": DISAGREE,
    "signal_twice": TWICE,
    "stagger_closed_on_one_path": UNMATCHED,
    "unequal_trips": DISAGREE,
    "unmatched_stagger": UNMATCHED,
    "wait_without_signal": "a wait without a signal, on some path",
}
# Nothing is out of order there: the target cannot run it.
BY_SHAPE = {"odd_halves": "TG209", "foreign_id": "TG206", "no_named_barrier": "TG210"}


@pytest.mark.parametrize("name", [each for each in BROKEN if each not in UNDECIDED and each not in BY_SHAPE])
def test_broken_example_is_suspected_where_the_simulator_shows_it(name: str) -> None:
    graph, target = program(f"broken {name}")
    found = verify(graph, target)
    assert all(each.exact for each in found.suspects)
    assert {(each.x, each.y) for each in found.suspects} == judge(graph, target).pairs != set()


@pytest.mark.parametrize("name", UNDECIDED)
def test_broken_example_is_undecided_for_a_reason(name: str) -> None:
    graph, target = program(f"broken {name}")
    found = verify(graph, target)
    assert found.undecided == (UNDECIDED[name],)
    assert not found.is_proved
    assert judge(graph, target).findings


@pytest.mark.parametrize("name", BY_SHAPE)
def test_broken_example_that_the_target_cannot_run(name: str) -> None:
    kernel = kernel_of("broken", name)
    assert BY_SHAPE[name] in {each.code for each in check(kernel, load_target(kernel.target))}


FOCUSED = [f"focused {number}" for number in range(60)]


@pytest.mark.parametrize("name", BROKEN)
def test_repaired_example_is_proved(name: str) -> None:
    graph, target = program(f"fixed {name}")
    assert verify(graph, target).is_proved


@pytest.mark.parametrize("name", [*(f"{kind} {each}" for each in BROKEN for kind in ("broken", "fixed")), *FOCUSED])
def test_asked_only_whether_it_is_proved_it_says_the_same(name: str) -> None:
    graph, target = program(name)
    assert is_ordered(graph, target) is verify(graph, target).is_proved


# --- guards -------------------------------------------------------------------------------------------------------


def split(body: str, after: str = "", before: str = "") -> str:
    return f"""
target gfx1201
kernel @split(%X: global<64xf32>) sizes(N = 4) where(N >= 1) waves 4 {{
  %t = alloc : lds<4x64xf32, slots = 2>
  %z = fill 0.0 : tile<64xf32>
  {before}
  iterate %k in 0 .. N {{
    {body}
  }}
  {after}
}}
"""


FIRST = """
    conditional %k > 0 {
      wait -1
      %a = local_read %t[(%k - 1) mod 2][(wave + 1) mod 4, 0] : tile<64xf32>
    }
    local_write %z, %t[%k mod 2][wave, 0]
    wait_count dscnt(0)
    signal -1"""
LAST = """
    local_write %z, %t[%k mod 2][wave, 0]
    wait_count dscnt(0)
    conditional %k < N - 1 {
      signal -1
    }
    conditional %k < N - 1 {
      wait -1
      %a = local_read %t[%k mod 2][(wave + 1) mod 4, 0] : tile<64xf32>
    }"""
THIRD = """
    conditional %k mod 3 == 0 {
      local_write %z, %t[0][wave, 0]
      wait_count dscnt(0)
      signal -1
    }
    conditional %k mod 3 == 0 {
      wait -1
      %a = local_read %t[0][(wave + 1) mod 4, 0] : tile<64xf32>
      wait_count dscnt(0)
      signal -1
      wait -1
    }"""
PIPELINED = """
    wait -1
    local_write %z, %t[%k mod 2][wave, 0]
    wait_count dscnt(0)
    signal -1
    wait -1
    %a = local_read %t[%k mod 2][(wave + 1) mod 4, 0] : tile<64xf32>
    wait_count dscnt(0)
    signal -1"""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(split(FIRST, "wait -1"), id="a wait in all but the first"),
        pytest.param(split(LAST), id="a signal in all but the last"),
        pytest.param(split(THIRD), id="in every third"),
        pytest.param(split(PIPELINED, "wait -1", "signal -1"), id="a signal before the loop"),
    ],
)
def test_signals_and_waits_under_guards_are_proved(text: str) -> None:
    _, found, judged = asked(text)
    assert not judged.findings
    assert found.is_proved


@pytest.mark.parametrize(
    ("guard", "reason"),
    [
        ("%k > 1", "a signal before the wait for the previous one, on some path"),
        ("%k >= 0", "a wait without a signal, on some path"),
        ("%k mod 2 == 1", "a signal before the wait for the previous one, on some path"),
    ],
)
def test_a_guard_that_is_wrong_is_seen(guard: str, reason: str) -> None:
    _, found, judged = asked(split(FIRST, "wait -1").replace("conditional %k > 0", f"conditional {guard}"))
    assert reason in found.undecided
    assert judged.findings


# --- where it stops -----------------------------------------------------------------------------------------------


@pytest.fixture
def isl_that_gives_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    answers = (points._find, points._has_point, points._solve, points._may_hold)
    monkeypatch.setattr(points, "MAX_OPERATIONS", 1)
    for each in answers:
        each.cache_clear()
    yield
    for each in answers:
        each.cache_clear()


@pytest.mark.usefixtures("isl_that_gives_up")
def test_what_isl_does_not_decide_is_suspected() -> None:
    found = verify(*program("fixed missing_barrier"))
    assert found.suspects
    assert not any(each.exact for each in found.suspects)


def test_too_many_paths_are_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_EFFORT", 5)
    (why,) = verify(*program("fixed loop_carried_view")).undecided
    assert why == "the bound of 5 steps back along its paths was reached"


# --- what it has found --------------------------------------------------------------------------------------------


def test_what_sync_makes_of_an_arm_that_ends_with_a_read_is_proved() -> None:
    graph, target = program("case arm_that_ends_with_a_read")
    after = apply_to_graph(synchronize_graph(graph, target).plan, graph)
    assert verify(after, target).is_proved
    assert not judge(after, target).findings


NESTED = """target gfx942

kernel @k(%n: index, %X: global<64xi32>, %Y: global<64xf32>) waves 4 {
  %t = alloc : lds<4x64xf32>
  %a = global_read %X[0] : tile<64xi32>
  %x = global_read %Y[0] : tile<64xf32>
  conditional inexact(%a) < 3 {
    conditional INNER < 1 {
      local_write %x, %t[wave, 0]
    } else {
      %y = local_read %t[3 - wave, 0] : tile<64xf32>
    }
  }
}
"""


def test_a_divergent_condition_inside_a_divergent_one_parts_waves_as_well() -> None:
    """The inner branch raises nothing that it stands under: its arms counted as ones that all waves choose alike."""
    for inner, proved in (("inexact(%a)", False), ("%n", True)):
        (kernel,) = parse(NESTED.replace("INNER", inner), "nested.tide").kernels
        target = load_target("gfx942")
        assert verify(build_graph(kernel, target).graph, target).is_proved is proved, inner
