"""The cost model: what a program takes follows from the facts of its target, and from nothing else."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.conftest import ROOT
from tidegate.cli import app
from tidegate.cost import Arrive, Await, Commit, Depart, Do, Machine, Meeting, Program, Stuck, Wait, play, prices_of
from tidegate.cost.luck import lateness
from tidegate.graph.build import build_graph
from tidegate.graph.model import SyncGraph
from tidegate.graph.parse import parse_graph
from tidegate.graph.show import show_graph
from tidegate.language.parse import parse
from tidegate.simulate.cycle_steps import NoEstimate
from tidegate.simulate.cycles import Estimate, estimate
from tidegate.targets import Cost, Target, known_targets, load_target

EXAMPLES = sorted((ROOT / "examples").glob("*.tide"))
MACHINE = Machine(barrier_issue=1, barrier_latency=20, group_counters=("group",))
ALL = Meeting("-1")


def cycles(*programs: tuple[object, ...], simds: int = 4) -> float:
    found = [Program(0, wave % simds, steps) for wave, steps in enumerate(programs)]  # type: ignore[arg-type]
    return play(found, MACHINE).cycles


def lds(busy: float = 4, **more: object) -> Do:
    return Do(0, "lds", 1, busy, 29, **more)  # type: ignore[arg-type]


def copy(busy: float = 8, **more: object) -> Do:
    return Do(0, "global", 1, busy, 500, is_copy=True, **more)  # type: ignore[arg-type]


def mma(busy: float = 64, **more: object) -> Do:
    return Do(0, "mma", 8, busy, 33, parts=8, streams=True, **more)  # type: ignore[arg-type]


# --- the engine ---------------------------------------------------------------------------------------------------


def test_a_value_is_there_after_its_latency() -> None:
    assert cycles((lds(4),)) == 33
    assert cycles((lds(4), Do(1, "alu", 1, 0, 4, needs=(0,)))) == 33 + 1 + 4


def test_the_pipe_of_lds_is_shared() -> None:
    assert cycles((lds(40),), (lds(40),)) == 29 + 80


def test_each_simd_has_its_matrix_unit() -> None:
    assert cycles((mma(),), (mma(),)) == 64 + 33
    assert cycles((mma(),), (mma(),), simds=1) == 2 * 64 + 33


def test_accumulators_go_on_part_by_part() -> None:
    """Eight parts of eight cycles: the first is there when the last begins, so a chain does not wait."""
    assert cycles((mma(), mma(needs=(0,)))) == 2 * 64 + 33


def test_a_short_chain_waits_for_its_result() -> None:
    short = Do(0, "mma", 1, 8, 33, streams=True)
    assert cycles((short, replace(short, needs=(0,)))) == 2 * (8 + 33)


def test_a_matrix_product_begins_with_the_first_parts() -> None:
    read = Do(0, "lds", 8, 64, 29, parts=8)
    assert cycles((read, mma(needs=(0,)))) == 29 + 64 + 8 + 33
    assert cycles((read, replace(mma(needs=(0,)), unit="alu", busy=0, issue=64, streams=False))) > 29 + 64 + 64


def test_a_wait_leaves_the_newest_in_flight() -> None:
    two = (copy(counts=(("vmcnt", 1),)), Do(1, "alu", 300, 0, 1), copy(counts=(("vmcnt", 1),)))
    assert play([Program(0, 0, (*two, Wait(2, (("vmcnt", 1),))))], MACHINE).stalls["wait", 2] == 508 - 302
    assert play([Program(0, 0, (*two, Wait(2, (("vmcnt", 0),))))], MACHINE).stalls["wait", 2] == 301 + 508 - 302


def test_a_wait_for_groups_counts_groups() -> None:
    steps = (
        copy(counts=(("group", 0),)),
        copy(counts=(("group", 0),)),
        Commit(0, ("group",)),
        Wait(3, (("group", 1),)),
    )
    assert ("wait", 3) not in play([Program(0, 0, steps)], MACHINE).stalls
    assert ("wait", 3) in play([Program(0, 0, (*steps[:3], Wait(3, (("group", 0),))))], MACHINE).stalls


def test_a_barrier_holds_up_those_who_come_early() -> None:
    late = Do(0, "alu", 100, 0, 1)
    found = play(
        [Program(0, 0, (Arrive(1, ALL), Depart(1, ALL))), Program(0, 1, (late, Arrive(1, ALL), Depart(1, ALL)))],
        MACHINE,
    )
    assert found.cycles == 100 + 1 + 20
    assert found.stalls["barrier", 1] == (121 - 1) + 20


def test_units_that_are_busy_lose_when_waves_meet() -> None:
    """A unit that has nothing to do loses nothing; a matrix unit that is at work ends later."""
    losing = replace(MACHINE, barrier_loss=6)

    def ends(machine: Machine, *steps: object) -> float:
        meets = (Do(0, "alu", 8, 0, 4), Arrive(0, ALL), Depart(0, ALL))
        return play([Program(0, 0, meets), Program(1, 0, steps)], machine).cycles  # type: ignore[arg-type]

    assert ends(losing, Do(0, "alu", 1, 0, 4)) == ends(MACHINE, Do(0, "alu", 1, 0, 4))
    assert ends(losing, mma(busy=400), mma(busy=400)) == ends(MACHINE, mma(busy=400), mma(busy=400)) + 6


def test_work_between_signal_and_wait_hides_the_barrier() -> None:
    work = Do(2, "alu", 50, 0, 0)
    split = (Arrive(1, ALL), work, Depart(3, ALL))
    assert cycles(split, split) == 51
    whole = (Arrive(1, ALL), Depart(1, ALL), work)
    assert cycles(whole, whole) == 71


def test_a_wave_that_has_ended_is_not_waited_for() -> None:
    assert cycles((Arrive(1, ALL), Depart(1, ALL)), ()) == 21


def test_an_mbarrier_is_complete_when_its_bytes_have_landed() -> None:
    full = Meeting("%full", 1, 0)
    producer = (Arrive(0, full, 512), copy(reports=full, bytes=512))
    assert cycles(producer, (Await(1, full, 0),)) == 1 + 500 + 8 + 20
    assert cycles((*producer, *producer), (Await(1, full, 0), Await(2, full, 1))) > 2 * 8 + 520


def test_waves_that_wait_for_ever_are_said() -> None:
    with pytest.raises(Stuck, match="wave 1 waits forever at point 7"):
        cycles((), (Await(7, Meeting("%m", 1, 0), 0),))


def test_thousands_of_steps_take_milliseconds() -> None:
    steps: list[object] = []
    for _ in range(250):
        at = len(steps)
        steps += [lds(), mma(needs=(at,)), Arrive(0, ALL), Depart(0, ALL)]
    start = time.process_time()
    cycles(*[tuple(steps)] * 8)
    assert time.process_time() - start < 0.5, "8,000 steps; usually 40 ms"


@pytest.mark.parametrize("slots", [2, 3, 4])
def test_where_the_wait_stands_decides_how_many_copies_are_under_way(slots: int) -> None:
    """Work of 300 cycles on a tile, a copy of 1200. With the wait before the copy, one less is under way during it:
    it takes 1200 / (slots - 1) each time, and with the wait behind the copy (1200 + 300) / slots.
    """
    work, sent, latency = Do(0, "alu", 300, 0, 0), Do(0, "global", 0, 0, 1200, counts=(("vmcnt", 1),)), 1200

    def each(early: bool) -> float:
        loop = (
            (work, Wait(1, (("vmcnt", slots - 2),)), sent) if early else (work, sent, Wait(1, (("vmcnt", slots - 1),)))
        )
        short, long = (cycles((sent,) * slots + loop * number) for number in (24, 48))
        return (long - short) / 24

    assert each(early=True) == max(300, latency / (slots - 1))
    assert each(early=False) == max(300, (latency + 300) / slots)


# --- latencies that vary ------------------------------------------------------------------------------------------


def test_luck_is_fixed_and_the_more_lines_the_worse() -> None:
    shares = [[lateness(draw, 0, 0, 0, lines) for draw in range(1000)] for lines in (1, 4, 32)]
    assert shares == [[lateness(draw, 0, 0, 0, lines) for draw in range(1000)] for lines in (1, 4, 32)]
    assert all(0 <= each <= 1 for row in shares for each in row)
    for row, lines in zip(shares, (1, 4, 32), strict=True):
        assert sum(row) / 1000 == pytest.approx(lines / (lines + 1), abs=0.02)
    others = {lateness(*which, 1) for which in ((0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1))}
    assert len(others) == 5


def test_a_late_copy_holds_up_nothing_but_who_waits_for_it() -> None:
    late = Do(0, "global", 1, 8, 500, spread=0, counts=(("vmcnt", 1),))
    soon = replace(late, latency=100)
    assert play([Program(0, 0, (late,)), Program(0, 1, (soon, Wait(1, (("vmcnt", 0),))))], MACHINE).stalls[
        "wait", 1
    ] == pytest.approx(8 + 100 + 8 - 1)


def test_a_barrier_waits_for_the_latest() -> None:
    """Nobody is late without a spread; with one, each barrier costs as much as the latest of the waves."""
    steps = (copy(counts=(("vmcnt", 1),)), Wait(0, (("vmcnt", 0),)), Arrive(1, ALL), Depart(1, ALL)) * 16

    def lost(spread: float) -> float:
        varied = tuple(replace(each, spread=spread, busy=0) if isinstance(each, Do) else each for each in steps)
        return play([Program(0, wave, varied) for wave in range(4)], MACHINE).stalls["barrier", 1]

    assert lost(0) == 4 * 16 * 20
    assert lost(200) > lost(100) > lost(0) + 16 * 100


def test_plans_have_the_same_luck_with_the_same_accesses() -> None:
    def copied(*between: object) -> float:
        return cycles((copy(spread=300), *between, copy(spread=300)))  # type: ignore[arg-type]

    assert copied(Wait(0)) == copied()


def test_copies_that_land_take_the_pipe_of_lds() -> None:
    waited = (copy(0, counts=(("vmcnt", 1),), fills=64), Wait(0, (("vmcnt", 0),)), lds(4))
    assert cycles(waited) == 500 + 64 + 4 + 29


# --- prices -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", *known_targets()])
def test_every_target_has_prices(name: str) -> None:
    prices = prices_of(load_target(name))
    for each in (prices.local("local_read", 1024), prices.copy("gather_to_lds", 1024), prices.mma(65536, "f16")):
        assert each.issue > 0
        assert each.busy > 0
        assert each.latency > 0
    assert prices.local("local_read", 2048).busy == 2 * prices.local("local_read", 1024).busy
    assert prices.copy("gather_to_lds", 1).latency > prices.global_("global_read", 1).latency
    assert prices.workgroups(4, 1024) >= 1


def test_what_is_in_the_cache_comes_sooner() -> None:
    target = load_target("sm_90")
    far, near = (
        prices_of(target).copy("gather_to_lds", 4096),
        prices_of(target, cached=True).copy("gather_to_lds", 4096),
    )
    shared = prices_of(target, reuse=8).copy("gather_to_lds", 4096)
    assert near.latency < far.latency == shared.latency
    assert near.busy == shared.busy < far.busy


def test_workgroups_share_what_a_compute_unit_has() -> None:
    prices = prices_of(load_target("sm_90"))
    assert prices.workgroups(4, 64 * 1024) == 3
    assert prices.workgroups(32, 1024) == 2
    assert prices_of(load_target("")).workgroups(4, 1024) == 1


# --- graphs -------------------------------------------------------------------------------------------------------


def gemm(slots: int, wait: str = "", target: str = "gfx950", work: int = 1) -> str:
    """A loop over copies that are as many tiles ahead as there are slots less one, and `work` products of each tile."""
    ahead = slots - 1
    copies = "gather_to_lds %X[wave * 16, ({0}) * 32] to %x[({0}) mod {1}][wave * 16, 0] : tile<16x32xf16>"
    lines = [
        f"target {target}",
        "kernel @g(%X: global<64xKxf16>, %Y: global<64x64xf32>) sizes(K = 1024) where(K mod 32 == 0) waves 4 {",
        f"%x = alloc : lds<64x32xf16, slots = {slots}>",
        "%acc = fill 0.0 : tile<16x64xf32>",
        *(copies.format(number, slots) for number in range(ahead)),
        "%out = iterate %k in 0 .. K // 32 carry(%c0 = %acc : tile<16x64xf32>) {",
        f"shared_memory_barrier vmcnt({max(0, ahead - 1)})" if ahead else "",
        copies.format(f"%k + {ahead}", slots),
        wait,
        f"%a = local_read %x[%k mod {slots}][wave * 16, 0] : tile<16x32xf16>",
        f"%b = local_read %x[%k mod {slots}][0, 0] : tile<64x32xf16>",
        "%t = transpose %b : tile<32x64xf16>",
        *(f"%c{number + 1} = mma %a, %t, %c{number} : tile<16x64xf32>" for number in range(work)),
        f"yield %c{work}",
        "}",
        "global_write %out, %Y[wave * 16, 0]",
        "}",
    ]
    return "\n".join(lines) + "\n"


def graph_of(text: str) -> tuple[SyncGraph, Target]:
    (kernel,) = parse(text).kernels
    target = load_target(kernel.target)
    return build_graph(kernel, target).graph, target


def test_counts_say_all_that_is_waited_for() -> None:
    """Dependences beside a count only say what it is for: the copy that is named, the newest, is not waited for."""
    lines = (
        "target gfx950",
        "kernel @d(%X: global<2x256xf32>) waves 4 {",
        "%a = alloc : lds<256xf32>",
        "%b = alloc : lds<256xf32>",
        "%first = gather_to_lds %X[0, wave * 64] to %a[wave * 64] : tile<64xf32>",
        "%second = gather_to_lds %X[1, wave * 64] to %b[wave * 64] : tile<64xf32>",
        "shared_memory_barrier WAIT",
        "}",
    )
    counted, both, named = (
        estimated("\n".join(lines).replace("WAIT", wait) + "\n", global_bytes=1, global_spread=0).by_reason()["wait"]
        for wait in ("vmcnt(1)", "vmcnt(1) deps(%second)", "deps(%second)")
    )
    assert counted == both < named


def estimated(text: str, **facts: int) -> Estimate:
    graph, target = graph_of(text)
    return estimate(graph, replace(target, cost=replace(target.cost, **facts)))


def test_a_loop_of_matrix_products_takes_the_matrix_unit() -> None:
    work = 64
    (loop,) = estimated(gemm(4, work=work), global_latency=100, global_bytes=64).loops
    busy = work * 2 * 16 * 64 * 32 / 1024
    assert busy <= loop.cycles < 1.15 * busy


def test_a_wait_behind_its_copy_takes_the_latency_each_iteration() -> None:
    found = estimated(gemm(1, wait="shared_memory_barrier wait_async_ops"))
    assert found.loops[0].cycles > 1000
    assert max(found.loops[0].lost, key=found.loops[0].lost.__getitem__) == "wait"
    assert found.lost[0].reason == "wait"


def test_a_deeper_pipeline_is_never_slower() -> None:
    times = [estimated(gemm(slots)).loops[0].cycles for slots in (2, 3, 4, 6)]
    assert times == sorted(times, reverse=True)
    assert times[0] > 1.5 * times[-1]


@pytest.mark.parametrize(
    "fact", ["global_latency", "lds_latency", "mma_latency", "barrier_latency", "copy_latency", "global_spread"]
)
def test_more_latency_is_never_faster(fact: str) -> None:
    times = [estimated(gemm(3), **{fact: cycles}).cycles for cycles in (20, 100, 400, 1000)]
    assert times == sorted(times)


@pytest.mark.parametrize("fact", ["global_bytes", "lds_bytes", "mma_f16"])
def test_a_higher_rate_is_never_slower(fact: str) -> None:
    times = [estimated(gemm(3), **{fact: rate}).cycles for rate in (4, 16, 64, 256)]
    assert times == sorted(times, reverse=True)


def test_iterations_that_are_not_followed_are_counted() -> None:
    graph, target = graph_of(gemm(3))
    short, long = (estimate(graph, target, sizes={"K": 32 * trips}) for trips in (100, 200))
    assert long.cycles - short.cycles == pytest.approx(100 * short.loops[0].cycles)
    assert long.played == pytest.approx(short.played)
    assert short.loops[0].trips == 100
    exact = estimate(graph, target, trips=20)
    assert exact.cycles == exact.played


def test_copies_do_not_wait_for_what_the_loop_carries() -> None:
    """The index of a copy comes from the loop; the products of the iteration before need not be done."""
    graph, target = graph_of(gemm(3, work=8))
    copies = {number for number, point in enumerate(graph.points) if point.role in ("copy", "local_read")}
    assert not [each for each in estimate(graph, target).lost if each.point in copies and each.reason == "mma"]


def test_workgroups_hide_latency_of_each_other() -> None:
    graph, target = graph_of(gemm(2))
    target = replace(target, cost=replace(target.cost, global_spread=0))
    alone, both = (estimate(graph, target, workgroups=number).loops[0].cycles for number in (1, 2))
    assert alone < both < 2 * alone


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_has_an_estimate(path: Path) -> None:
    for kernel in parse(path.read_text(encoding="utf-8")).kernels:
        target = load_target(kernel.target)
        graph = build_graph(kernel, target).graph
        first, second = (estimate(graph, target, record=record) for record in (False, True))
        assert first.cycles > 0
        assert first.cycles == second.cycles
        assert all(loop.cycles > 0 for loop in first.loops)
        assert second.events


@pytest.mark.parametrize("name", ["", *known_targets()])
def test_a_graph_has_an_estimate_on_every_target(name: str) -> None:
    (kernel,) = parse((EXAMPLES[0].parent / "gemm_two_slots.tide").read_text(encoding="utf-8")).kernels
    target = load_target(name)
    found = estimate(build_graph(kernel, target).graph, target)
    assert found.loops[0].cycles > 0


def test_a_hang_has_no_estimate() -> None:
    text = "target gfx1250\nkernel @h() waves 2 {\n%b = new_barrier : mbarrier<1>\nmbarrier_wait %b[0] parity 0\n}\n"
    graph, target = graph_of(text)
    with pytest.raises(NoEstimate, match="waits forever"):
        estimate(graph, target)


def test_the_work_of_points_is_in_the_text() -> None:
    graph, _ = graph_of(gemm(2))
    assert [point.work.ops for point in graph.points if point.role == "mma"] == [2 * 16 * 64 * 32]
    assert [point.work.bytes for point in graph.points if point.role == "global_write"] == [16 * 64 * 4]
    assert parse_graph(show_graph(graph)) == graph


def test_costs_are_whole_numbers_above_zero_or_not_known() -> None:
    for name in ("", *known_targets()):
        cost = load_target(name).cost
        assert isinstance(cost, Cost)
        assert cost.cache_latency <= cost.global_latency
        assert cost.lds_latency < cost.cache_latency


# --- the command line ---------------------------------------------------------------------------------------------


def invoke(tmp_path: Path, *args: str) -> tuple[int, str]:
    file = tmp_path / "g.tide"
    file.write_text(gemm(3), encoding="utf-8")
    done = CliRunner().invoke(app, ["run", str(file), *args])
    return done.exit_code, done.output


def test_the_command_prints_cycles(tmp_path: Path) -> None:
    status, text = invoke(tmp_path, "--cycles")
    assert status == 0
    assert "cycles an iteration, 32 iterations" in text
    assert "stalls for" in text


def test_the_command_prints_json_and_writes_a_timeline(tmp_path: Path) -> None:
    status, text = invoke(tmp_path, "--cycles", "--json", "--cached", "--trace", str(tmp_path / "t.json"))
    document = json.loads(text)
    assert (status, document["version"]) == (0, 1)
    (program,) = document["programs"]
    assert program["cached"] is True
    assert sum(each["cycles"] for each in program["points"]) == pytest.approx(sum(program["lost"].values()), abs=2)
    events = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))["traceEvents"]
    assert {each["cat"] for each in events if each["ph"] == "X"} >= {"held up", "lds", "global", "mma"}
    ends = max(each["ts"] + each["dur"] for each in events if each["ph"] == "X")
    assert ends == pytest.approx(program["played"], rel=0.05), "one draw, beside the average of all"


@pytest.mark.parametrize(
    "args", [("--cached",), ("--json",), ("--cycles", "--in-order"), ("--cycles", "--workgroups", "0")]
)
def test_options_that_do_not_fit_are_said(tmp_path: Path, args: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, ["run", str(tmp_path / "none.tide"), *args])
    assert done.exit_code != 0
    assert invoke(tmp_path, *args)[0] != 0
