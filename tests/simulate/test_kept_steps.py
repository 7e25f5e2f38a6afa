"""Steps that waves and runs share, and runs that are not made again: the same findings as without."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from oracles.programs.random_kernels import runnable_kernel
from tidegate.graph.build import build_graph
from tidegate.graph.model import SyncGraph
from tidegate.index import Compare, Const, Name
from tidegate.language.parse import parse
from tidegate.simulate import judge as judging
from tidegate.simulate.choices import Choices
from tidegate.simulate.configurations import find_configurations
from tidegate.simulate.judge import Judgement, judge
from tidegate.simulate.kept_steps import KeptSteps
from tidegate.simulate.position import shape_of
from tidegate.simulate.regions import Regions
from tidegate.simulate.steps import Issue, Step, Touch
from tidegate.simulate.unroll import Misstep, Surroundings, unroll
from tidegate.targets import load_target
from tidegate.verify.isl_questions import _contradict

TARGETS = ("gfx942", "gfx950", "gfx1250", "sm_80", "sm_90")

# %n is free, and its remainder alone matters: most of its values make the waves do the same. Wave 1 writes what wave 0
# reads, in the slot that %n picks.
REMAINDERS = """
target sm_90
kernel @remainders(%X: global<8x64xf32>, %n: index) sizes(N = 4) waves 2 {
  %a = alloc : lds<2x64xf32, slots = 2>
  %o = new_barrier : mbarrier<2, slots = 2>
  %t = splat wave : tile<64xf32>
  iterate %k in 0 .. %n {
    mbarrier_arrive %o[%k mod 2]
    mbarrier_wait %o[%k mod 2] parity %k // 2 mod 2
  }
  local_write %t, %a[%n mod 2][wave]
  %r = local_read %a[0][(wave + 1) mod 2] : tile<64xf32>
}
"""


def graph_of(text: str) -> SyncGraph:
    (kernel,) = parse(text).kernels
    return build_graph(kernel, load_target(kernel.target)).graph


@pytest.mark.parametrize("seed", range(12))
def test_shared_steps_are_those_that_each_wave_makes_alone(seed: int) -> None:
    """Were a name left out of what decides an access, a wave or a size would get the bytes of another one."""
    target = load_target(TARGETS[seed % len(TARGETS)])
    graph = build_graph(runnable_kernel(random.Random(seed), target.name), target).graph
    found = find_configurations(graph)
    kept, shape, regions = KeptSteps(graph), shape_of(graph), Regions()
    for configuration in found.runs[:12]:
        shared, alone = (
            Surroundings(
                graph, shape, regions, bool(target.counters), dict(configuration.env), found.candidates, kept=each
            )
            for each in (kept, None)
        )
        for wave in range(graph.waves):
            try:
                expected = unroll(alone, wave, Choices())
            except Misstep:
                continue
            assert list(map(said, unroll(shared, wave, Choices()))) == list(map(said, expected))


def said(step: Step) -> object:
    if not isinstance(step, Issue):
        return step
    return [getattr(step.touch, name) for name in Touch.__slots__]


def test_equal_runs_are_judged_once_and_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(REMAINDERS.replace("0 .. %n", "0 .. %n mod 3"))
    judged: list[int] = []
    old = judging._Judge.judge_run

    def counted(self: judging._Judge, waves: list[tuple[Step, ...]], configuration: object) -> None:
        judged.append(len(waves))
        old(self, waves, configuration)  # type: ignore[arg-type]

    monkeypatch.setattr(judging._Judge, "judge_run", counted)
    once = judge(graph, load_target("sm_90"))
    few = len(judged)
    monkeypatch.setattr(judging._Judge, "is_repeated", lambda self, waves: False)
    each = judge(graph, load_target("sm_90"))
    assert few < len(judged) - few == each.runs
    assert facts(once) == facts(each)
    assert {finding.code for finding in once.findings} >= {"TG101"}


def facts(found: Judgement) -> Sequence[object]:
    return found.findings, found.runs, found.orders, found.steps, found.configurations, found.covered, found.bounded


def test_a_look_sees_bounds_that_leave_no_value() -> None:
    u, v = Name("u'"), Name("v'")
    assert _contradict((Compare("==", u, Const(0)), Compare(">=", u, Const(4))))
    assert _contradict((Compare("<", u, Const(4)), Compare(">", u, Const(3))))
    assert not _contradict((Compare("<=", u, Const(4)), Compare(">=", u, Const(4))))
    assert not _contradict((Compare("<", u, Const(4)), Compare(">=", v, Const(4))))
