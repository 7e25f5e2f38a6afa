"""The least weight of barriers that the verifier proves, beside brute force over all sets of barriers."""

from __future__ import annotations

import pytest

from bench.least import record_of
from bench.least_search import Search
from oracles.programs.least_cases import draw
from oracles.programs.sync_cases import draw as draw_graph
from tidegate.footprint.conflicts import forget_meetings
from tidegate.graph import model as g
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.build import build_graph
from tidegate.graph.flow import flow_of
from tidegate.graph.plan import Plan
from tidegate.language.parse import parse
from tidegate.placement import least
from tidegate.placement.place import find_slots
from tidegate.synchronize import SyncOptions, synchronize_graph
from tidegate.synchronize.judging import BarrierJudge
from tidegate.targets import Target, load_target
from tidegate.verify.verify import is_ordered

# The write before the loop meets the read from the second iteration on. The loop needs two barriers anyway; the one
# from the last read round to the next write may stand in the arm, which every iteration but the first takes.
NOT_AT_FIRST = """
target gfx942
kernel @late(%X: global<16x64xf32>, %Y: global<16x64xf32>) sizes(N = 16) waves 2 {
  %a = alloc : lds<2x64xf32, slots = 2>
  %v = fill 1.0 : tile<64xf32>
  local_write %v, %a[1][wave]
  iterate %k in 0 .. N {
    conditional %k > 0 {
      %r = local_read %a[1][(wave + 1) mod 2] : tile<64xf32>
    }
    local_write %v, %a[0][wave]
    %s = local_read %a[0][(wave + 1) mod 2] : tile<64xf32>
  }
}
"""
# Seeds of `oracles.programs.least_cases` for which walks that no run takes ask for more.
SEEDS = (20035, 20047, 20071, 20251, 20359, 20479, 20539, 20612, 391, 223, 3538, 3571)


def graph_of(text: str) -> tuple[g.SyncGraph, Target]:
    kernel = parse(text, "least.tide").kernels[0]
    target = load_target(kernel.target)
    return build_graph(kernel, target).graph, target


def planned(graph: g.SyncGraph, target: Target, strategy: str, **options: bool) -> tuple[float, float | None]:
    """Weight and bound of a plan that the verifier proves."""
    placed = synchronize_graph(graph, target, SyncOptions(strategy=strategy, **options))  # type: ignore[arg-type]
    assert is_ordered(apply_to_graph(placed.plan, graph), target)
    return placed.weight, placed.optimum.bound if placed.optimum else None


@pytest.mark.parametrize("strategy", ["minimal", "optimal"])
def test_an_access_that_is_met_from_the_second_iteration_on(strategy: str) -> None:
    graph, target = graph_of(NOT_AT_FIRST)
    weight, bound = planned(graph, target, strategy)
    assert weight == 24
    assert bound in (None, 24)
    assert planned(graph, target, strategy, least=False)[0] > 24, "walks know nothing of the first iteration"


@pytest.mark.parametrize("seed", SEEDS)
def test_no_cheaper_set_is_proved(seed: int) -> None:
    case = draw(seed, "")
    known = Search(case).least()
    assert known is not None
    for strategy in ("minimal", "optimal"):
        weight, bound = planned(case.graph, case.target, strategy)
        assert weight == known.weight
        assert bound in (None, known.weight)


@pytest.mark.parametrize("strategy", ["minimal", "optimal"])
def test_a_wait_that_only_a_barrier_can_be_weighs_as_one(strategy: str) -> None:
    """Copies in no group are drained by a barrier alone. Of two sets of equal weight `minimal` took the one that needs
    another barrier for that: 9 where 8 is proved."""
    graph, target = graph_of(draw(2311).text)
    assert planned(graph, target, strategy)[0] == 8


def test_a_search_that_trusts_every_walk_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(least._Search, "is_certain", lambda *_: True)
    case = draw(20359, "")
    known = Search(case).least()
    assert known is not None
    assert planned(case.graph, case.target, "optimal")[0] > known.weight


def test_plans_do_not_depend_on_earlier_kernels() -> None:
    """What two accesses of one loop do was remembered for a pair of which one stands before the loop."""
    first, second = draw(76, ""), draw(110, "")
    forget_meetings()
    alone = planned(second.graph, second.target, "minimal", least=False)
    forget_meetings()
    planned(first.graph, first.target, "minimal", least=False)
    assert planned(second.graph, second.target, "minimal", least=False) == alone


def test_a_tired_judge_leaves_the_plan_of_the_walks() -> None:
    graph, target = graph_of(NOT_AT_FIRST)
    judge = BarrierJudge(graph, target, find_slots(flow_of(graph)).weight, most=0)
    assert judge.is_tired
    assert judge.proves({}) is False
    assert judge.work == len(graph.points)


def test_a_judge_is_asked_once_for_a_set() -> None:
    graph, target = graph_of(NOT_AT_FIRST)
    judge = BarrierJudge(graph, target, find_slots(flow_of(graph)).weight)
    assert judge.proves(dict.fromkeys(judge.places, 1))
    assert judge.proves(dict.fromkeys(judge.places, 1))
    assert judge.work == len(graph.points)


@pytest.mark.parametrize("seed", [766, 1054])
def test_a_pair_that_the_proof_does_without_goes(seed: int) -> None:
    """A barrier and a pair were kept where the barrier alone is proved: only whole barriers were tried."""
    assert not record_of(seed).failures()


def test_the_plan_of_a_graph_has_no_barrier_that_the_proof_does_without() -> None:
    case = draw_graph("program", 333)
    plan = synchronize_graph(case.graph, case.target, SyncOptions(strategy="minimal")).plan
    assert plan.edits
    for each in plan.edits:
        less = Plan(tuple(other for other in plan.edits if other is not each))
        assert not is_ordered(apply_to_graph(less, case.graph), case.target), each
