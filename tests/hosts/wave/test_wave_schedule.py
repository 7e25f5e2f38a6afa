"""Ping-pong of Wave's traces: what is taken is right and not slower, what is declined leaves the trace as it was."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from oracles.wave_kernels import Case, cases, trace_of

try:
    import wave_lang.kernel  # noqa: F401
except ImportError:
    pytest.skip(
        "NOT TESTED: scheduling of Wave traces needs Wave, which is not installed; "
        "`pip install wave-lang==3.9.1 torch==2.13.0`",
        allow_module_level=True,
    )

from wave_lang.kernel.ops.wave_ops import WorkgroupBarrier

from bench.wave_run import judge
from bench.wave_schedule import more_cases, schedule_pass_watched
from tidegate.hosts.wave.build import build
from tidegate.hosts.wave.context import context_of
from tidegate.hosts.wave.dropin.passing import Options, find_doubt, place_barriers
from tidegate.hosts.wave.dropin.schedule import Reordered, schedule_reordering
from tidegate.hosts.wave.dropin.schedule_by_wave import find_inverted
from tidegate.hosts.wave.dropin.schedule_clusters import arrange_loop, put_clusters
from tidegate.hosts.wave.dropin.schedule_kept import keep
from tidegate.hosts.wave.dropin.schedule_loop import Facts, Loop, find_loop, find_pairs
from tidegate.hosts.wave.nodes import op_of
from tidegate.hosts.wave.regions import reached_graphs
from tidegate.targets import load_target

CASES: dict[str, Case] = {case.name: case for case in (*cases(), *more_cases())}
ALL = ("none", "wave", "clusters=2", "clusters=4", "clusters=99", "auto")
MEMORY = {"read", "write", "gather_to_lds"}
Use = Callable[..., None]  # trace, constraints, kind of schedule, whether copies are asynchronous


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVE_CACHE_ON", "0")


def at_schedule(name: str, target: str, use: Use) -> Any:
    """Calls `use` in the place of Wave's reordering, raises what it raises, and goes on to MLIR."""
    raised: list[BaseException] = []

    def watch(_own: Any, *given: Any) -> None:
        try:
            use(*given)
        except BaseException as error:  # Wave would print the whole trace
            raised.append(error)

    with schedule_pass_watched(watch):
        try:
            return trace_of(CASES[name], target)
        finally:
            if raised:
                raise raised[0]


def body_of(trace: Any) -> list[Any]:
    """The operations of the innermost loop that is reached last."""
    graphs = [each for each in reached_graphs(trace) if any(op_of(node) == "mma" for node in each.nodes)]
    return list(graphs[-1].nodes)


@cache
def tried(name: str, *strategies: str, target: str = "gfx942") -> dict[str, Any]:
    """What each strategy makes of one trace, which is put back each time, and is as before where one is declined."""
    found: dict[str, Any] = {}

    def use(trace: Any, *given: Any) -> None:
        kept = keep(trace)
        for strategy in strategies or ALL:
            result = schedule_reordering(trace, *given, target=target, strategy=strategy)
            found[strategy] = result
            assert kept.is_changed() == (result.strategy != "none"), strategy
            found[f"{strategy} body"] = [op_of(node) for node in body_of(trace)]
            kept.put_back()
            assert not kept.is_changed()

    at_schedule(name, target, use)
    return found


# --- what is taken ------------------------------------------------------------------------------------------------


def test_of_all_that_fit_the_cheapest_is_taken() -> None:
    found = tried("pingpong-square")
    before = found["auto"].cycles_before
    cycles = {name: found[name].cycles_after for name in ("wave", "clusters=2", "clusters=4")}
    assert {name: found[name].strategy for name in cycles} == {name: name for name in cycles}
    assert all(each < before for each in cycles.values())
    assert found["wave"].by_wave == "TWO_PP_CLUSTER"
    chosen: Reordered = found["auto"]
    assert chosen.cycles_after <= min(cycles.values()) * 1.01
    assert {name for name, _ in chosen.why_not} == cycles.keys() - {chosen.strategy}
    assert all("cheap" in why or "as long" in why for _, why in chosen.why_not)
    assert f"{before:.0f} → {chosen.cycles_after:.0f} cycles an iteration" in str(chosen)


@pytest.mark.parametrize("clusters", [2, 4])
def test_clusters_are_memory_and_products_in_turns_with_a_barrier_behind_each(clusters: int) -> None:
    body = tried("pingpong-square")[f"clusters={clusters} body"]
    phases: list[set[str]] = [set()]
    for op in body:
        if op == "workgroup_barrier":
            phases.append(set())
        phases[-1].add(op)
    assert len(phases) == 2 * clusters + 1
    kinds = [
        "".join(sorted({"mma" if op == "mma" else "memory" for op in each & (MEMORY | {"mma"})})) for each in phases
    ]
    assert kinds == ["memory", "mma"] * clusters + [""]
    assert body.count("set_wave_prio") == body.count("workgroup_barrier") == body.count("scheduling_barrier")
    assert tried("pingpong-square")[f"clusters={clusters}"].barriers == (2, 2 * clusters)


def test_products_that_wait_for_each_other_stand_apart() -> None:
    """Of one sum, no two products come one right behind the other."""

    def use(trace: Any, constraints: Any, *_: Any) -> None:
        loop = find_loop(Facts(trace, context_of(constraints), load_target("gfx942")))
        assert isinstance(loop, Loop)
        products = [step.node for step in loop.steps if step.role == "mma"]
        assert len(products) == 32
        assert not any(one in other.args for one, other in pairwise(products))

    at_schedule("pingpong-square", "gfx942", use)


def test_a_tile_that_wave_does_not_take_is_cut_into_clusters() -> None:
    found = tried("eight-prefetch-64x128x64", "wave", "auto")
    assert found["wave"].strategy == "none"
    assert dict(found["wave"].why_not)["wave"].startswith("Wave takes tiles of multiples of 128×128×64 of 16 bits")
    assert found["auto"].strategy.startswith("clusters=")
    assert found["auto"].cycles_after < found["auto"].cycles_before


def test_copies_are_waited_for_under_stagger() -> None:
    found = tried("eight-async-2-64x128x64", "clusters=2")
    assert found["clusters=2"].strategy == "clusters=2"
    assert found["clusters=2"].barriers == (1, 4)


@pytest.mark.parametrize(
    ("name", "strategy"), [("pingpong-square", "clusters=4"), ("attention-pingpong", "clusters=2")]
)
def test_what_came_of_it_computes_the_reference(name: str, strategy: str) -> None:
    """Tidegate's order and barriers, run by the machine with accesses as late as can be."""
    target, placed = "gfx942", []

    def watch(_own: Any, *given: Any) -> None:
        assert schedule_reordering(*given, target=target, strategy=strategy).strategy == strategy

    def place(trace: Any, constraints: Any, _options: Any) -> None:
        placed.append(place_barriers(trace, context_of(constraints), load_target(target), Options()))

    with schedule_pass_watched(watch):
        row = judge(CASES[name], target, place=place, runs=(("late", 1), ("random", 1)))
    assert [each.why_not for each in placed] == [""]
    assert (row.verdict, row.why) == ("equal", "")


# --- what is declined ---------------------------------------------------------------------------------------------


def test_wave_puts_a_write_of_attention_before_the_read_of_what_was_there() -> None:
    """Wave's own order reads the keys of the wrong iteration: it is declined, and Tidegate's own is taken."""
    found = tried("attention-pingpong", "wave", "auto")
    assert (found["wave"].strategy, found["wave"].by_wave) == ("none", "attention")
    assert "would come before `read_" in dict(found["wave"].why_not)["wave"]
    assert found["auto"].strategy == "clusters=2"


@pytest.mark.parametrize(
    ("name", "target", "wave", "own"),
    [
        ("gemm-prefetch", "gfx942", "Wave takes 8 waves, and there are 4", "waves are not 8, but 4"),
        ("softmax-4", "gfx942", "not as NONE", "no loop with products"),
        ("eight-none-128x128x64", "gfx942", "not as NONE", "the loop does not fetch ahead"),
        ("manual-stagger", "gfx942", "not as MANUAL", "the kernel already has conditional barriers"),
        ("eight-modulo-128x128x32", "gfx1201", "not as MODULO", "gfx1201 does not say that 8 waves share 4 SIMDs"),
    ],
)
def test_a_trace_that_does_not_fit_stays_as_it_is_and_says_why(name: str, target: str, wave: str, own: str) -> None:
    def use(trace: Any, *given: Any) -> None:
        kept = keep(trace)
        found = schedule_reordering(trace, *given, target=target)
        assert found.strategy == "none"
        assert not kept.is_changed()
        reasons = dict(found.why_not)
        assert wave in reasons["wave"]
        assert own in reasons["clusters=2"]
        assert own in reasons["clusters=4"]
        assert found.cycles_before == found.cycles_after
        assert str(found).startswith("as it was; not wave: ")

    at_schedule(name, target, use)


def test_names_that_nobody_knows_are_declined() -> None:
    found = tried("pingpong-square")
    assert found["clusters=99"] == Reordered("none", (("clusters=99", "there is no strategy `clusters=99`"),))
    assert found["none"] == Reordered("none")


# --- twins: what is wrong is seen ---------------------------------------------------------------------------------


def test_without_one_of_its_barriers_the_order_is_not_proved() -> None:
    doubts: list[str] = []

    def use(trace: Any, constraints: Any, *_: Any) -> None:
        context, target = context_of(constraints), load_target("gfx942")
        loop, kept = find_loop(Facts(trace, context, target)), keep(trace)
        assert isinstance(loop, Loop)
        phases = arrange_loop(loop, 2)
        assert not isinstance(phases, str)
        put_clusters(trace, constraints, loop, phases[0])
        place_barriers(trace, context, target, Options())
        assert find_doubt(build(trace, context, target), target) == ""
        for node in [each for each in loop.graph.nodes if op_of(each) == "workgroup_barrier"]:
            args, behind = node.args, node.next
            loop.graph.erase_node(node)
            doubts.append(find_doubt(build(trace, context, target), target))
            with loop.graph.inserting_before(behind):
                WorkgroupBarrier(*args).add_to_graph(loop.graph)
        kept.put_back()

    at_schedule("pingpong-square", "gfx942", use)
    assert len(doubts) == 4
    assert all("sees no order" in each for each in doubts)


def test_accesses_that_change_places_are_seen() -> None:
    def use(trace: Any, constraints: Any, *_: Any) -> None:
        pairs = find_pairs(Facts(trace, context_of(constraints), load_target("gfx942")))
        assert pairs
        assert find_inverted(trace, pairs) == ""
        kept = keep(trace)
        read, write = pairs[0]
        assert (op_of(read), op_of(write)) == ("read", "write")
        write.append(read)
        assert find_inverted(trace, pairs).startswith(f"`{write.name}` would come before `{read.name}`")
        kept.put_back()

    at_schedule("pingpong-square", "gfx942", use)
