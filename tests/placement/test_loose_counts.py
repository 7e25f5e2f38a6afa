"""Counts are the loosest that the verifier proves, whoever is asked for one; and they may differ by path."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

import pytest

import tidegate as tg
from bench.async_counts import counts_in, is_loosest
from oracles.programs.async_cases import number_of, synchronized
from tidegate.advice import advise
from tidegate.diag import Sources
from tidegate.explanation.show import show_explained
from tidegate.explanation.stages import explain
from tidegate.graph import model as g
from tidegate.graph import plan as g_plan
from tidegate.graph.build import build_graph
from tidegate.graph.flow import flow_of
from tidegate.graph.parse import parse_graph
from tidegate.graph.show import show_graph
from tidegate.hazards.find import find_hazards
from tidegate.language import ops
from tidegate.language.show import show
from tidegate.passes import run_stages
from tidegate.placement.place import Options, find_slots, place
from tidegate.session import Session
from tidegate.simulate.cycles import estimate
from tidegate.synchronize import SyncOptions, synchronize
from tidegate.synchronize.loosen import NOT_LOOSEST, PROVED, SHOWN, Proofs, largest, loosen
from tidegate.synchronize.model import Synchronized
from tidegate.targets import load_target
from tidegate.verify.prover import Prover
from tidegate.verify.verify import is_ordered

KNOWN = """
target gfx950
kernel @known(%X: global<99x4x64xf32>, %Y: global<4x64xf32>) waves 4 {{
  %a = alloc : lds<4x64xf32>
  %t = alloc : lds<4x8xf32, slots = {trips}>
  %c = gather_to_lds %X[0, wave] to %a[wave] : tile<64xf32>
  iterate %k in 0 .. {trips} {{
    gather_to_lds %X[%k, wave, 0] to %t[%k][wave] : tile<8xf32>
  }}
  {wait}
  %r = local_read %a[(wave + 1) mod 4] : tile<64xf32>
  global_write %r, %Y[wave]
}}
"""


def known(wait: str = "", trips: int = 7) -> ops.Kernel:
    return tg.parse(KNOWN.format(wait=wait, trips=trips)).kernels[0]


def counts_of(kernel: ops.Kernel) -> list[dict[str, int]]:
    waits = (op for op in ops.walk_ops(kernel.body) if isinstance(op, ops.SharedMemoryBarrier | ops.WaitCount))
    return [dict(op.counts) for op in waits if op.counts]


def sync(kernel: ops.Kernel, **how: object) -> Synchronized:
    return synchronize(unit_of(kernel), SyncOptions(**how))  # type: ignore[arg-type]


def unit_of(kernel: ops.Kernel) -> Session:
    return Session(kernel.name, load_target(kernel.target), kernel, None)


def graph_of(kernel: ops.Kernel) -> g.SyncGraph:
    return build_graph(kernel, load_target(kernel.target)).graph


def proves(kernel: ops.Kernel) -> bool:
    return is_ordered(graph_of(kernel), load_target(kernel.target))


# --- all ways to a count ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["", "minimal", "intersecting"])
@pytest.mark.parametrize("trips", [2, 7, 20])
def test_sync_counts_all_trips_of_a_loop_that_are_known(strategy: str, trips: int) -> None:
    after = sync(known(trips=trips), strategy=strategy).kernel
    assert after is not None
    assert counts_of(after) == [{"vmcnt": trips}]


def test_tighten_waits_counts_all_trips_of_a_loop_that_are_known() -> None:
    result = sync(known("shared_memory_barrier vmcnt(0)"), tighten_waits=True)
    assert f"vmcnt(7)  # {SHOWN}" in result.text
    assert not any(note.startswith(NOT_LOOSEST) for note in result.notes)


@pytest.mark.parametrize("trips", [2, 7, 20, 70])
def test_counts_from_values_know_how_often_a_loop_runs(trips: int) -> None:
    trace = tg.CapturedTrace(known("shared_memory_barrier deps(%c)", trips))
    tg.populate_barriers_counters(trace)
    most = load_target("gfx950").counters["vmcnt"].largest
    assert counts_of(trace.kernel) == [{"vmcnt": min(trips, most)}]
    assert tg.check(trace)


def test_advice_gives_the_same_count_as_sync() -> None:
    kernel = known("shared_memory_barrier vmcnt(0)")
    checked = run_stages(unit_of(kernel), print_after=None, stop_after=None, show=lambda *_: None)
    (less,) = advise(checked).less
    assert less.op == ops.SharedMemoryBarrier((("vmcnt", 7),))


def test_one_more_than_the_trips_of_a_loop_is_a_race() -> None:
    assert proves(known("shared_memory_barrier vmcnt(7)"))
    assert not proves(known("shared_memory_barrier vmcnt(8)"))
    assert [each.code for each in tg.check(known("shared_memory_barrier vmcnt(8)"))] == ["TG101"]


@pytest.mark.parametrize("guard", ["", "conditional %f {"])
def test_trips_of_loops_in_loops_count(guard: str) -> None:
    """With a free flag inside, one count is reached after fewer and more rounds: the verifier proved 7 of them."""
    text = """
    target gfx950
    kernel @nest(%X: global<64x4x64xf32>, %Y: global<4x64xf32>, %f: flag) waves 4 {
      %a = alloc : lds<4x64xf32>
      %t = alloc : lds<4x8xf32, slots = 24>
      gather_to_lds %X[0, wave] to %a[wave] : tile<64xf32>
      iterate %i in 0 .. 4 {
        iterate %k in 0 .. 3 {
          GUARDED
          gather_to_lds %X[%k, wave, 8] to %t[%i * 6 + %k + 3][wave] : tile<8xf32>
        }
      }
      %r = local_read %a[(wave + 1) mod 4] : tile<64xf32>
      global_write %r, %Y[wave]
    }
    """
    copy = "gather_to_lds %X[%k, wave, 0] to %t[%i * 6 + %k][wave] : tile<8xf32>\n}"
    result = sync(tg.parse(text.replace("GUARDED", f"{guard}\n{copy}" if guard else "")).kernels[0])
    assert result.kernel is not None
    assert counts_of(result.kernel) == [{"vmcnt": 12}]
    assert result.checked is not None
    assert result.checked.is_proved


FLAGGED = """
target gfx950
kernel @flagged(%X: global<99x4x64xf32>, %Y: global<4x64xf32>, %f: flag) waves 4 {{
  %a = alloc : lds<4x64xf32>
  %t = alloc : lds<4x8xf32, slots = 48>
  gather_to_lds %X[0, wave] to %a[wave] : tile<64xf32>
  iterate %k in 0 .. {trips} {{
    {always}
    conditional {condition} {{ gather_to_lds %X[%k, wave, 0] to %t[%k + 24][wave] : tile<8xf32> }}
  }}
  shared_memory_barrier vmcnt({count})
  %r = local_read %a[(wave + 1) mod 4] : tile<64xf32>
  global_write %r, %Y[wave]
}}
"""
ALWAYS = "gather_to_lds %X[%k, wave, 0] to %t[%k][wave] : tile<8xf32>"


def flagged(trips: int, condition: str, count: int = 0, always: str = ALWAYS) -> ops.Kernel:
    return tg.parse(FLAGGED.format(trips=trips, condition=condition, count=count, always=always)).kernels[0]


@pytest.mark.parametrize(
    ("trips", "condition", "always", "count"),
    [(4, "%f", ALWAYS, 4), (6, "%k mod 2 == 0", "", 3), (6, "%k mod 3 == 1", ALWAYS, 8), (16, "%f", ALWAYS, 16)],
)
def test_copies_under_conditions_in_a_loop_are_counted(trips: int, condition: str, always: str, count: int) -> None:
    """One less was proved of each, and called the loosest safe count."""
    result = sync(flagged(trips, condition, always=always), tighten_waits=True)
    assert f"vmcnt({count})  # {SHOWN}" in result.text
    assert proves(flagged(trips, condition, count, always))
    assert [each.code for each in tg.check(flagged(trips, condition, count + 1, always))] == ["TG101"]


def test_a_count_that_neither_a_run_nor_a_proof_limits_is_not_called_the_loosest() -> None:
    """Beyond 16 trips the verifier loses count; 20 is safe, as every run shows."""
    result = sync(flagged(20, "%f"), tighten_waits=True)
    assert result.kernel is not None
    ((count,),) = (each.values() for each in counts_of(result.kernel))
    assert count < 20
    assert not proves(flagged(20, "%f", 20))
    assert f"vmcnt({count})  # {PROVED}" in result.text
    assert SHOWN not in result.text


@pytest.mark.parametrize("first", range(9_000, 9_040, 8))
def test_no_count_of_a_random_program_is_tighter_than_what_is_proved(first: int) -> None:
    for number in range(first, first + 8):
        case = number_of(number)
        _, after = synchronized(case)
        if is_ordered(after, case.target):
            for point, name, _ in counts_in(after):
                assert is_loosest(after, case.target, point, name), f"{case.name} point {point}\n{show_graph(after)}"


# --- proofs -------------------------------------------------------------------------------------------------------


def test_what_a_run_shows_takes_no_proof() -> None:
    text = """
    target gfx950
    kernel @ring(%X: global<Nx4x64xf32>, %Y: global<Nx4x64xf32>) sizes(N = 8) where(N >= 3) waves 4 {
      %t = alloc : lds<4x64xf32, slots = 3>
      gather_to_lds %X[0, wave] to %t[0][wave] : tile<64xf32>
      gather_to_lds %X[1, wave] to %t[1][wave] : tile<64xf32>
      iterate %k in 0 .. N - 2 {
        gather_to_lds %X[%k + 2, wave] to %t[(%k + 2) mod 3][wave] : tile<64xf32>
        %a = local_read %t[%k mod 3][(wave + 1) mod 4] : tile<64xf32>
        global_write %a, %Y[%k, wave]
      }
    }
    """
    kernel = tg.parse(text).kernels[0]
    target, graph = load_target("gfx950"), graph_of(kernel)
    placed = place(find_hazards(flow_of(graph), target), target, Options("minimal"))
    proofs = Proofs(Prover(graph, target))
    found = loosen(placed.plan, proofs, placed.exact)
    assert not proofs.known
    assert found.plan == placed.plan
    assert len(found.loosest) == 1
    assert loosen(placed.plan, Proofs(Prover(graph, target))).plan == placed.plan


def test_a_bound_that_is_reached_is_said_and_nothing_is_called_the_loosest() -> None:
    kernel, target = known("shared_memory_barrier vmcnt(0)"), load_target("gfx950")
    graph = graph_of(kernel)
    asked = Options("minimal", tighten_waits=True)
    plan = place(find_hazards(flow_of(graph), target), target, asked).plan
    tight = replace(
        plan, edits=tuple(replace(each, op=ops.SharedMemoryBarrier((("vmcnt", 1),))) for each in plan.edits)
    )
    found = loosen(tight, Proofs(Prover(graph, target), most=2), standing=True)
    assert found.why_not
    assert not found.loosest
    assert all(SHOWN not in edit.serves for edit in found.plan.edits)


def test_a_plan_that_is_not_proved_stays_and_nothing_is_called_the_loosest() -> None:
    kernel, target = known("shared_memory_barrier vmcnt(9)"), load_target("gfx950")
    graph = graph_of(kernel)
    found = loosen(tg.Plan(), Proofs(Prover(graph, target)), standing=True)
    assert found.plan == tg.Plan()
    assert found.why_not == "the plan is not proved"


def test_the_largest_count_is_found_in_few_trials() -> None:
    for most in (0, 1, 5, 62, 63):
        asked: list[int] = []

        def holds(count: int, most: int = most, asked: list[int] = asked) -> bool:
            asked.append(count)
            return count <= most

        assert largest(0, 63, holds) == (most, True)
        assert len(asked) <= 12
    assert largest(3, 63, lambda _: None) == (3, False)


# --- by path ------------------------------------------------------------------------------------------------------

GUARDED = """
target {target}
kernel @guarded(%X: global<Nx4x64xf32>, %Y: global<Nx4x64xf32>) sizes(N = 16) where(N >= 3) waves 4 {{
  %t = alloc : lds<4x64xf32, slots = {slots}>
  gather_to_lds %X[0, wave] to %t[0][wave] : tile<64xf32>
  gather_to_lds %X[1, wave] to %t[1][wave] : tile<64xf32>
  iterate %k in 0 .. N {{
    conditional %k + 2 < N {{
      gather_to_lds %X[%k + 2, wave] to %t[(%k + 2) mod {slots}][wave] : tile<64xf32>
      {then}
    }}{other}
    {barrier}
    %a = local_read %t[%k mod {slots}][(wave + 1) mod 4] : tile<64xf32>
    global_write %a, %Y[%k, wave]
  }}
}}
"""


def guarded(target: str = "gfx950", slots: int = 4, then: str = "", other: str = "", barrier: str = "") -> ops.Kernel:
    text = GUARDED.format(target=target, slots=slots, then=then, other=other, barrier=barrier)
    return tg.parse(text, "guarded.tide").kernels[0]


def by_arms(then: int, other: int) -> ops.Kernel:
    arm = f" else {{\n wait_count vmcnt({other})\n }}"
    return guarded(then=f"wait_count vmcnt({then})", other=arm, barrier="shared_memory_barrier")


def cycles(kernel: ops.Kernel) -> float:
    return estimate(graph_of(kernel), load_target(kernel.target), trips=16, cached=True).cycles


@pytest.mark.parametrize("slots", [3, 4])
@pytest.mark.parametrize(("target", "counter"), [("gfx950", "vmcnt"), ("gfx942", "vmcnt"), ("gfx1250", "asynccnt")])
def test_a_guarded_prefetch_is_counted_by_path(target: str, counter: str, slots: int) -> None:
    result = sync(guarded(target, slots))
    assert result.kernel is not None
    assert result.checked is not None
    assert result.checked.is_proved
    assert counts_of(result.kernel) == [{counter: 2}, {counter: 0}]
    assert "} else {" in result.text
    serial = guarded(target, slots, then="shared_memory_barrier", barrier="shared_memory_barrier wait_async_ops")
    assert cycles(result.kernel) < 0.7 * cycles(serial)
    assert tg.parse(result.text).kernels[0] == result.kernel


@pytest.mark.parametrize(
    ("sizes", "bound", "guard"),
    [("N = 8", "N", "N"), ("N = 64", "N", "N"), ("N = 3", "N", "N"), ("N = 24", "8", "8"), ("N = 24", "20", "20")],
)
def test_a_guard_is_priced_with_the_trips_that_are_played(sizes: str, bound: str, guard: str) -> None:
    """Plans were priced with 16 trips and the default N: with N = 8 the guard failed in ten of sixteen iterations, and
    the plan that waits for the copy it has just issued looked cheapest."""
    text = GUARDED.format(target="gfx950", slots=4, then="", other="", barrier="").replace("N = 16", sizes)
    text = text.replace("0 .. N", f"0 .. {bound}").replace("%k + 2 < N", f"%k + 2 < {guard}")
    text = text.replace("where(N >= 3)", "where(N >= 3)" if bound == "N" else "where(N >= 24)")
    result = sync(tg.parse(text, "guarded.tide").kernels[0])
    assert result.kernel is not None
    assert counts_of(result.kernel) == [{"vmcnt": 2}, {"vmcnt": 0}]


def test_the_reason_of_a_count_by_path_is_named() -> None:
    result = sync(guarded())
    assert "wait_count vmcnt(2)  # counted by path: on this path the copies are newer; " in result.text
    assert "wait_count vmcnt(0)  # counted by path: no copies on this path; " in result.text
    assert any(note.startswith("taken: separate counts") for note in result.notes)
    assert any(why.startswith("counted by path") for edit in result.plan.edits for why in edit.serves)
    assert result.kernel is not None
    explained = explain(unit_of(tg.parse(result.text, "k.tide").kernels[0]))
    text = show_explained(explained, Sources({"k.tide": result.text}))
    assert "by path  vmcnt(0) in line" in text
    assert "by path  vmcnt(2) in line" in text


@pytest.mark.parametrize(("then", "other", "is_right"), [(2, 0, True), (3, 0, False), (2, 1, False)])
def test_counts_by_path_that_are_too_large_are_found(then: int, other: int, is_right: bool) -> None:
    kernel = by_arms(then, other)
    assert proves(kernel) == is_right
    assert ("TG101" not in {each.code for each in tg.check(kernel)}) == is_right


def test_a_graph_is_counted_by_path_where_its_arms_have_ends() -> None:
    graph = parse_graph(show_graph(graph_of(guarded())), "guarded.sync")
    result = synchronize(Session(graph.name, load_target("gfx950"), None, graph))
    assert result.checked is not None
    assert result.checked.is_proved
    assert "sync wait_count vmcnt(2)" in result.text
    assert "sync wait_count vmcnt(0)" in result.text


def test_counts_by_path_may_name_what_they_are_for() -> None:
    result = sync(guarded(), async_deps=True)
    assert result.checked is not None
    assert result.checked.is_proved
    assert not [each for each in result.checked.findings if each.severity == "error"]


@pytest.mark.parametrize("strategy", ["minimal", "optimal", "intersecting"])
def test_a_strategy_by_name_says_what_counts_by_path_would_take(strategy: str) -> None:
    """By name the barriers of least weight are asked for. They stand in the arm, whose last barrier must leave no copy
    in flight, so that each one drains the copy before it: the report says that another plan is faster."""
    result = sync(guarded(), strategy=strategy)
    assert result.checked is not None
    assert result.checked.is_proved
    said = [note for note in result.notes if note.startswith(("taken: ", "considered: "))]
    assert [each.split(":")[:2] for each in said] == [
        ["taken", " least weight, waits merged"],
        ["considered", " separate counts in each arm"],
    ]
    assert any(note.endswith("without a strategy, `sync` minimizes cycles") for note in result.notes)


GROUPS = """
target sm_80
kernel @groups(%X: global<Nx4x64xf32>, %Z: global<Nx4x64xf32>, %Y: global<4x64xf32>)
    sizes(N = 16) where(N >= 3) waves 4 {{
  %t = alloc : lds<4x64xf32, slots = {slots}>
  %u = alloc : lds<4x64xf32, slots = {slots}>
  gather_to_lds %X[0, wave] to %t[0][wave] : tile<64xf32>
  gather_to_lds %Z[0, wave] to %u[0][wave] : tile<64xf32>
  commit_group
  gather_to_lds %X[1, wave] to %t[1][wave] : tile<64xf32>
  gather_to_lds %Z[1, wave] to %u[1][wave] : tile<64xf32>
  commit_group
  iterate %k in 0 .. N {{
    {first}
    %a = local_read %t[%k mod {slots}][(wave + 1) mod 4] : tile<64xf32>
    %b = local_read %u[%k mod {slots}][(wave + 2) mod 4] : tile<64xf32>
    %c = add %a, %b : tile<64xf32>
    global_write %c, %Y[wave, 0]
    {last}
  }}
}}
"""
GUARD = """conditional %k + 2 < N {{
      gather_to_lds %X[%k + 2, wave] to %t[(%k + 2) mod {slots}][wave] : tile<64xf32>
      gather_to_lds %Z[%k + 2, wave] to %u[(%k + 2) mod {slots}][wave] : tile<64xf32>
      commit_group
    }}"""


@pytest.mark.parametrize(
    ("where", "slots", "counts"), [("first", 4, [2, 0]), ("first", 3, [2, 0]), ("last", 3, [1, 1, 0])]
)
def test_groups_that_a_guard_commits_are_counted_by_path(where: str, slots: int, counts: list[int]) -> None:
    """Only counters of instructions were: a guarded `cp.async` with its commit was waited for with `group(0)`."""
    guard = {"first": "", "last": "", where: GUARD.format(slots=slots)}
    result = sync(tg.parse(GROUPS.format(slots=slots, **guard), "groups.tide").kernels[0])
    assert result.kernel is not None
    assert result.checked is not None
    assert result.checked.is_proved
    assert counts_of(result.kernel) == [{"group": each} for each in counts]
    assert any(note.startswith("taken: separate counts") for note in result.notes)


# The guard of the read lies between the guarded copy and the barrier behind it.
SKEWED = """
target {target}
kernel @skewed(%X: global<Nx4x64xf32>, %Y: global<Nx4x64xf32>) sizes(N = 16) waves 4 {{
  %t = alloc : lds<4x64xf32, slots = {slots}>
  iterate %k in 0 .. N + {ahead} {{
    conditional %k < N {{
      gather_to_lds %X[%k, wave] to %t[%k mod {slots}][wave] : tile<64xf32>
      {then}
    }}{other}
    conditional %k >= {ahead} {{
      %a = local_read %t[(%k - {ahead}) mod {slots}][(wave + 1) mod 4] : tile<64xf32>
      global_write %a, %Y[%k - {ahead}, wave]
    }}
    {barrier}
  }}
}}
"""


@pytest.mark.parametrize("strategy", ["", "minimal", "intersecting", "optimal"])
@pytest.mark.parametrize(("target", "counter", "then"), [("gfx950", "vmcnt", ""), ("sm_80", "group", "commit_group")])
def test_counts_by_path_reach_over_the_guard_of_a_read(target: str, counter: str, then: str, strategy: str) -> None:
    """Prologue, steady state and epilogue in one loop: its only barrier waited for the copy of the same iteration."""
    text = SKEWED.format(target=target, slots=4, ahead=2, then=then, other="", barrier="")
    result = sync(tg.parse(text, "skewed.tide").kernels[0], strategy=strategy)
    assert result.kernel is not None
    assert result.checked is not None
    assert result.checked.is_proved
    largest_count = max(max(each.values()) for each in counts_of(result.kernel))
    assert largest_count >= 1
    serial = SKEWED.format(
        target=target, slots=4, ahead=2, then=then, other="", barrier=f"wait_count {counter}(0)\nshared_memory_barrier"
    )
    assert cycles(result.kernel) < 0.8 * cycles(tg.parse(serial).kernels[0])


@pytest.mark.parametrize(("then", "other", "is_right"), [(1, 0, True), (2, 0, False), (1, 1, False)])
def test_counts_over_the_guard_of_a_read_that_are_too_large_are_found(then: int, other: int, is_right: bool) -> None:
    text = SKEWED.format(
        target="gfx950",
        slots=3,
        ahead=2,
        then=f"wait_count vmcnt({then})",
        other=f" else {{\n wait_count vmcnt({other})\n }}",
        barrier="shared_memory_barrier",
    )
    kernel = tg.parse(text).kernels[0]
    assert proves(kernel) == is_right
    assert ("TG101" not in {each.code for each in tg.check(kernel)}) == is_right


def test_no_plan_of_the_least_weight_leaves_the_guarded_copy_in_flight() -> None:
    """By name, the barrier of a guarded prefetch stands in the arm and waits for the copy before it. That is no
    weakness of the plan: with any set of barriers of that weight, everything waited for at every place but for one
    copy behind the copy of the iteration, and all of them where none was issued, nothing is proved."""
    graph, target = graph_of(guarded()), load_target("gfx950")
    weight, least = dict(find_slots(flow_of(graph)).weight), 8
    for strategy in ("minimal", "optimal"):
        placed = sync(guarded(), strategy=strategy).placed
        assert placed is not None
        assert placed.weight == least
    copy = next(n for n, each in enumerate(graph.points) if each.loop >= 0 and each.issues and "gather" in each.label)
    behind = behind_the_copy(graph, copy)
    prover = Prover(graph, target)
    sets = [chosen for size in range(1, 3) for chosen in combinations(weight, size)]
    light = [chosen for chosen in sets if sum(map(weight.__getitem__, chosen)) <= least]
    assert any(prover.is_ordered(drained(weight, chosen, frozenset())) for chosen in light)
    assert not any(prover.is_ordered(drained(weight, chosen, behind)) for chosen in light)


def behind_the_copy(graph: g.SyncGraph, copy: int) -> frozenset[int]:
    """Places from a copy to the end of its iteration."""
    found: set[int] = set()
    stack = list(graph.points[copy].successors)
    heads = {loop.head for loop in graph.loops}
    while stack:
        point = stack.pop()
        if point not in found and point not in heads:
            found.add(point)
            stack += graph.points[point].successors
    return frozenset(found)


def drained(places: Iterable[int], barriers: Iterable[int], loose: frozenset[int]) -> g_plan.Plan:
    """Barriers at some places, a full wait at all of them, and one that leaves a copy in flight at loose ones."""
    edits = [
        g_plan.Insert(place, op)
        for place in sorted(places)
        for op in (
            ops.WaitCount((("lgkmcnt", 0), ("vmcnt", int(place in loose)))),
            *([ops.WorkgroupBarrier()] if place in barriers else []),
        )
    ]
    return g_plan.Plan(tuple(edits))


@pytest.mark.parametrize(
    "kernel",
    [guarded(), by_arms(2, 0), flagged(6, "%k mod 2 == 0", 3, "")],
    ids=["planned", "by hand", "behind a loop"],
)
def test_what_is_as_loose_as_can_be_stays_where_it_is(kernel: ops.Kernel) -> None:
    """`--tighten-waits` once moved such a wait out of its arm to the barrier behind the arms."""
    given = sync(kernel).kernel
    assert given is not None
    for how in ({"tighten_waits": True}, {"tighten_waits": True, "remove_redundant": True}):
        assert sync(given, **how).plan.edits == ()


def test_arms_that_copy_as_much_have_one_count() -> None:
    other = " else {\n gather_to_lds %X[0, wave] to %t[(%k + 2) mod 4][wave] : tile<64xf32>\n }"
    after = sync(guarded(other=other)).kernel
    assert after is not None
    assert counts_of(after) == [{"vmcnt": 2}]


def test_what_is_synchronized_by_path_needs_no_advice() -> None:
    after = sync(guarded()).kernel
    assert after is not None
    checked = run_stages(unit_of(after), print_after=None, stop_after=None, show=lambda *_: None)
    assert not advise(checked).less
    assert show(after)
