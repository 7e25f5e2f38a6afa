"""The judge on programs made for one rule each: what it must find, what it must not, what it must say it left out."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tidegate.diag import Finding
from tidegate.files import load
from tidegate.graph import model as g
from tidegate.graph.build import build_graph
from tidegate.graph.builder import GraphBuilder
from tidegate.graph.model import SyncGraph
from tidegate.graph.parse import parse_graph
from tidegate.index import ZERO, Binary, Compare, Const, Flag, Index, Name
from tidegate.language import ops
from tidegate.language.ops import Place
from tidegate.language.parse import parse
from tidegate.language.types import BarrierObject
from tidegate.passes import run_stages
from tidegate.session import Session, sessions_of
from tidegate.simulate.configurations import find_configurations
from tidegate.simulate.judge import EXPLORE, Judgement, Limits, judge
from tidegate.targets import Target, load_target


def target_of(graph: SyncGraph) -> Target:
    return load_target(graph.target)


def graph_of(text: str) -> SyncGraph:
    (kernel,) = parse(text).kernels
    return build_graph(kernel, load_target(kernel.target)).graph


def judged(graph: SyncGraph | str, limits: Limits | None = None) -> Judgement:
    graph = graph_of(graph) if isinstance(graph, str) else graph
    return judge(graph, target_of(graph), limits)


def codes(graph: SyncGraph | str) -> list[str]:
    return sorted({each.code for each in judged(graph).findings})


def only(graph: SyncGraph | str) -> Finding:
    (finding,) = judged(graph).findings
    return finding


NEIGHBOUR = """
target {target}
kernel @k(%X: global<4x64xf32>, %T: global<4xi32>{more}) sizes(N = 4) waves 4 {{
  %t = alloc : lds<4x64xf32, slots = 2>
  %x = global_read %X[wave] : tile<64xf32>
  {body}
}}
"""


def neighbour(body: str, target: str = "gfx942", more: str = "") -> str:
    return NEIGHBOUR.format(body=body, target=target, more=more)


READ = "%b = local_read %t[0][(wave + 1) mod 4] : tile<64xf32>"
WRITE = "local_write %x, %t[0][wave]"


# --- what a barrier does ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "between", "expected"),
    [
        ("gfx942", "", ["TG101"]),
        ("gfx942", "shared_memory_barrier", []),
        ("gfx942", "workgroup_barrier", ["TG101"]),
        ("sm_80", "workgroup_barrier", []),
        ("gfx942", "wait_count lgkmcnt(0)\n workgroup_barrier", []),
        ("gfx942", "workgroup_barrier\n wait_count lgkmcnt(0)", ["TG101"]),
        ("gfx942", "wait_count vmcnt(0)\n workgroup_barrier", ["TG101"]),
        ("gfx942", "fence wave\n workgroup_barrier", ["TG101"]),
        ("gfx1201", "wait_count dscnt(0)\n signal -1\n wait -1", []),
        ("gfx1201", "signal -1\n wait_count dscnt(0)\n wait -1", ["TG101"]),
        ("none", "shared_memory_barrier", []),
        ("none", "workgroup_barrier", ["TG101"]),
    ],
)
def test_what_orders_a_write_and_a_read(target: str, between: str, expected: list[str]) -> None:
    assert codes(neighbour(f"{WRITE}\n {between}\n {READ}", target)) == expected


def test_a_scalar_load_in_flight_makes_a_count_say_nothing() -> None:
    """lgkmcnt counts scalar loads too, which return out of turn; here its LDS accesses are certain to be issued."""
    body = "{write}\n {load}\n local_write %x, %t[1][wave]\n wait_count lgkmcnt(1)\n workgroup_barrier\n {read}"
    load = "%n = read_index %T[0]"
    assert codes(pinned(neighbour(body.format(write=WRITE, load="", read=READ)))) == []
    assert codes(pinned(neighbour(body.format(write=WRITE, load=load, read=READ)))) == ["TG101"]


def pinned(text: str) -> SyncGraph:
    """As if final instructions stood there: each access to shared memory is one."""
    graph = graph_of(text)
    points = (
        replace(point, issues=tuple(replace(each, least=1) for each in point.issues))
        if isinstance(point.action, g.Access)
        else point
        for point in graph.points
    )
    return replace(graph, points=tuple(points))


def test_a_use_of_a_value_performs_no_read() -> None:
    body = f"{WRITE}\n shared_memory_barrier\n {READ}\n %y = mul %b, %b : tile<64xf32>\n workgroup_barrier\n {WRITE}"
    assert codes(neighbour(body)) == ["TG102"]


def test_wave_private_memory_needs_nothing() -> None:
    assert codes(neighbour(f"{WRITE}\n %b = local_read %t[0][wave] : tile<64xf32>\n {WRITE}")) == []


# --- the two consequences of the design -----------------------------------------------------------------------------

PINGPONG = """
target gfx942
kernel @pp(%X: global<8x8x64xf32>) waves 8 {{
  %t = alloc : lds<8x64xf32>
  %x = global_read %X[0, wave] : tile<64xf32>
  local_write %x, %t[wave]
  shared_memory_barrier
  conditional_barrier high
  iterate %k in 0 .. 4 {{
    %b = local_read %t[(wave + 4) mod 8] : tile<64xf32>
    {after_reads}
    workgroup_barrier pinned
    local_write %x, %t[wave]
    {after_writes}
    workgroup_barrier pinned
  }}
  conditional_barrier low
}}
"""


def pingpong(after_reads: str, after_writes: str) -> list[Finding]:
    text = PINGPONG.format(after_reads=after_reads, after_writes=after_writes)
    return judged(text).findings


def test_pingpong_with_bare_barriers_is_racy_in_the_first_iteration() -> None:
    found = {each.code: each for each in pingpong("workgroup_barrier", "workgroup_barrier")}
    assert set(found) == {"TG101", "TG102"}
    assert [re.search(r"wave (\d).*%k = (\d)", label.text).groups() for label in found["TG102"].labels] == [  # type: ignore[union-attr]
        ("0", "0"),
        ("4", "0"),
    ]


def test_pingpong_with_only_the_first_drain_is_racy_from_the_second_iteration() -> None:
    (found,) = pingpong("shared_memory_barrier", "workgroup_barrier")
    assert found.code == "TG101"
    assert "%k = 1" in found.labels[0].text
    assert "%k = 0" in found.labels[1].text


def test_pingpong_with_both_drains_is_clean_at_stagger_one() -> None:
    assert pingpong("shared_memory_barrier", "shared_memory_barrier") == []


def test_stagger_two_needs_one_more_arrival() -> None:
    wide = PINGPONG.replace("conditional_barrier high\n", "conditional_barrier high\n  conditional_barrier high\n")
    wide = wide.replace("conditional_barrier low\n", "conditional_barrier low\n  conditional_barrier low\n")
    drained = wide.format(after_reads="shared_memory_barrier", after_writes="shared_memory_barrier")
    assert codes(drained)
    more = drained.replace("workgroup_barrier pinned", "workgroup_barrier pinned\n workgroup_barrier pinned")
    assert codes(more) == []


# --- what is left open ----------------------------------------------------------------------------------------------

MINE = Binary("*", Name("wave"), Const(4))
OTHER = Binary("*", Binary("mod", Binary("+", Name("wave"), Const(1)), Const(2)), Const(4))


def builder(target: str = "gfx942", waves: int = 2) -> GraphBuilder:
    b = GraphBuilder("g", waves=waves, target=target, lanes="one")
    b.buffer("%a", 16)
    return b


def touch(b: GraphBuilder, effect: str, offset: Index, **how: object) -> None:
    foot = g.Footprint(g.Ref("%a", ZERO, offset), (), 4)
    b.add(g.Access(effect, foot, **how))  # type: ignore[arg-type]


def test_a_free_choice_that_skips_the_barrier_is_tried() -> None:
    b = builder()
    touch(b, "write", MINE)
    with b.branch(None):
        b.sync(ops.SharedMemoryBarrier())
    touch(b, "read", OTHER)
    assert codes(b.finish()) == ["TG101"]


def test_waves_agree_on_a_free_choice_where_the_graph_says_so() -> None:
    """Uniform arms: both waves arrive or neither does. Arms per wave: one may arrive alone."""
    for under, expected in (("uniform", []), ("per_wave", ["TG202"])):
        b = builder()
        with b.branch(None):
            b.add(g.Sync(ops.SharedMemoryBarrier()), under=under)
        assert codes(b.finish()) == expected


def test_loops_that_only_a_free_choice_ends_are_run_a_few_times() -> None:
    b = builder()
    b.add(g.Branch(None), 1, 5)
    touch(b, "write", MINE)
    b.sync(ops.SharedMemoryBarrier())
    touch(b, "read", OTHER)
    b.add(g.Compute(), 0)
    b.add(g.End())
    found = judged(b.finish())
    assert [each.code for each in found.findings] == ["TG102"]  # from one trip to the next
    assert found.runs > 3


def test_a_number_that_nobody_knows_takes_values_on_both_sides_of_a_comparison() -> None:
    b = builder()
    touch(b, "write", MINE)
    b.add(g.Havoc(("%n",)))
    with b.branch(Compare("<", Name("%n"), Const(1000))):
        b.sync(ops.SharedMemoryBarrier())
    touch(b, "read", OTHER)
    assert codes(b.finish()) == ["TG101"]


def test_an_operation_that_nobody_described_reads_and_writes_all() -> None:
    for barrier in (True, False):
        b = builder()
        touch(b, "read", MINE)
        if barrier:
            b.sync(ops.SharedMemoryBarrier())
        b.add(g.Unknown())
        graph = b.finish()
        assert ("TG102" in codes(graph)) == (not barrier)
        assert any("without a description" in each for each in judged(graph).bounded)


def test_a_view_that_may_lie_in_either_of_two_memories_lies_in_both() -> None:
    """One buffer has an offset and the other lies apart: two spaces."""
    for name in ("%a", "%c"):
        b = GraphBuilder("g", waves=2, target="gfx942", lanes="one")
        b.buffer("%a", 16, 1, 0)
        b.buffer("%c", 16)
        b.add(g.Havoc(("%n",)))
        b.add(g.Assign((("%v", g.Either(Compare("==", Name("%n"), ZERO), g.Ref("%a"), g.Ref("%c"))),)))
        b.add(g.Access("write", g.Footprint(g.Ref("%v"), (), 4)))
        b.add(g.Access("read", g.Footprint(g.Ref(name), (), 4)))
        assert "TG101" in codes(b.finish())


def test_a_mask_that_nobody_knows_is_no_excuse() -> None:
    b = builder()
    b.add(g.Access("write", g.Footprint(g.Ref("%a"), (), 4, may=True)))
    b.sync(ops.SharedMemoryBarrier())
    assert codes(b.finish()) == ["TG103"]


# --- shapes of programs ---------------------------------------------------------------------------------------------


def test_the_first_access_of_a_function_meets_what_its_caller_left() -> None:
    for between, expected in ((True, []), (False, ["TG101"])):
        b = builder()
        b.function("f", ("%p",))
        b.add(g.Access("read", g.Footprint(g.Ref("%p", ZERO, OTHER), (), 4)))
        b.add(g.Return())
        b.program(0, 2)
        touch(b, "write", MINE)
        if between:
            b.sync(ops.SharedMemoryBarrier())
        b.add(g.Call("f", (("%p", g.Ref("%a")),)))
        b.add(g.End())
        assert codes(b.finish()) == expected


def test_a_function_at_two_offsets_is_two_places() -> None:
    b = builder()
    b.function("f", ("%p",))
    b.add(g.Access("write", g.Footprint(g.Ref("%p", ZERO, MINE), (), 4)))
    b.add(g.Return())
    b.program(0, 2)
    b.add(g.Call("f", (("%p", g.Ref("%a")),)))
    b.add(g.Call("f", (("%p", g.Ref("%a", ZERO, Const(8))),)))
    b.add(g.End())
    assert codes(b.finish()) == []


def test_an_irreducible_loop_and_a_self_loop_come_to_an_end() -> None:
    b = builder()
    b.add(g.Branch(None), 1, 2)
    touch(b, "write", MINE)
    b.add(g.Branch(None), 1, 3)
    b.add(g.Branch(None), 3, 4)
    b.add(g.End())
    found = judged(b.finish())
    assert found.findings == []
    assert found.runs > 1


def test_a_run_that_does_not_end_hides_no_other() -> None:
    for arms in ("0, 1", "1, 0"):
        text = f"""
graph @g target gfx942 waves 2
buffer %a bytes 16 slots 1
program entry 0 waves 0 .. 2
{{
  0: branch any -> {arms}
  1: write %a[0, 0] box() width 16 -> 2
  2: end
}}
"""
        assert codes(parse_graph(text)) == ["TG103"]


def test_a_function_that_calls_itself_is_said_not_to_end() -> None:
    b = builder()
    b.function("f", ())
    b.add(g.Call("f", ()))
    b.add(g.Return())
    b.program(0, 2)
    b.add(g.Call("f", ()))
    b.add(g.End())
    finding = only(b.finish())
    assert finding.code == "TG221"
    assert "calls deeper than 64" in finding.message


def test_a_wave_that_never_ends_is_said_and_not_waited_for() -> None:
    text = """
graph @forever target gfx942 waves 2
buffer %a bytes 16 slots 1
program entry 0 waves 0 .. 2
{
  0: compute -> 0
}
"""
    found = judged(parse_graph(text))
    assert [each.code for each in found.findings] == ["TG221"]
    assert any("do not end" in each for each in found.bounded)


def test_programs_have_no_order_but_need_one() -> None:
    b = builder()
    b.program(0, 1)
    touch(b, "write", ZERO)
    b.sync(ops.SharedMemoryBarrier())
    b.add(g.End())
    b.program(1, 2)
    b.sync(ops.SharedMemoryBarrier())
    touch(b, "read", ZERO)
    b.add(g.End())
    assert codes(b.finish()) == []
    b = builder()
    for wave, effect in enumerate(("write", "read")):
        b.program(wave, wave + 1)
        b.sync(ops.SharedMemoryBarrier())
        touch(b, effect, ZERO)
        b.add(g.End())
    assert codes(b.finish()) == ["TG101"]


# --- atomics, views, memory -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operators", "fetches", "elements", "expected"),
    [
        (("add", "add"), False, ("i32", "i32"), []),
        (("add", "max"), False, ("i32", "i32"), ["TG103"]),
        (("add", "add"), True, ("i32", "i32"), ["TG103"]),
        (("add", "add"), False, ("i32", "f32"), ["TG103"]),
        (("add", "add"), False, ("i32", "i16"), ["TG103"]),
        (("add", "add"), False, ("", ""), ["TG103"]),
    ],
)
def test_atomics_commute_only_with_their_like(
    operators: tuple[str, str], fetches: bool, elements: tuple[str, str], expected: list[str]
) -> None:
    b = builder()
    for wave, operator in enumerate(operators):
        b.program(wave, wave + 1)
        touch(b, "atomic", ZERO, operator=operator, fetches=fetches, element=elements[wave])
        b.add(g.End())
    assert codes(b.finish()) == expected


def test_an_access_outside_its_buffer_is_found_and_the_run_goes_on() -> None:
    b = builder()
    touch(b, "write", Const(14))
    b.sync(ops.SharedMemoryBarrier())
    touch(b, "write", ZERO)
    assert codes(b.finish()) == ["TG103", "TG301"]


def test_memory_that_was_given_back_and_memory_that_is_taken_twice() -> None:
    b = GraphBuilder("g", waves=1, target="gfx942", lanes="one")
    b.buffer("%a", 16, 1, 0)
    b.buffer("%c", 16, 1, 8)
    b.add(g.Alloc("%a"))
    b.add(g.Alloc("%c"))
    b.add(g.Free("%a"))
    touch(b, "read", ZERO)
    assert codes(b.finish()) == ["TG308", "TG309"]


def test_an_index_without_a_value_is_found_and_says_what_was_not_judged() -> None:
    b = builder()
    touch(b, "write", Binary("//", Const(4), Binary("-", Name("wave"), ZERO)))
    found = judged(b.finish())
    assert [each.code for each in found.findings] == ["TG312"]
    assert found.runs == 0
    assert any("no value" in each for each in found.bounded)


# --- barrier objects ------------------------------------------------------------------------------------------------

RING = """
target sm_90
kernel @ring(%X: global<Kx64xf32>) sizes(K = 4) waves 3 {
  %tile = alloc : lds<64xf32, slots = 2>
  %full = new_barrier : mbarrier<1, slots = 2>
  %empty = new_barrier : mbarrier<2, slots = 2>
  specialize {
    waves 0 .. 1 {
      iterate %k in 0 .. K {
        mbarrier_wait %empty[%k mod 2] parity (%k // 2 + 1) mod 2
        mbarrier_arrive %full[%k mod 2] expect 256
        tensor_load_to_lds %X[%k] to %tile[%k mod 2] reports %full[%k mod 2] : tile<64xf32>
      }
    }
    waves 1 .. 3 {
      iterate %j in 0 .. K {
        mbarrier_wait %full[%j mod 2] parity (%j // 2) mod 2
        %a = local_read %tile[%j mod 2] : tile<64xf32>
        fence proxy_async
        mbarrier_arrive %empty[%j mod 2]
      }
    }
  }
}
"""


def test_a_ring_of_mbarriers_is_clean_in_all_orders() -> None:
    found = judged(RING, EXPLORE)
    assert found.findings == []
    assert not any("orders" in each for each in found.bounded)
    assert found.possible > 1_000 * found.orders


@pytest.mark.parametrize(
    ("line", "instead", "expected"),
    [
        ("mbarrier_wait %empty[%k mod 2] parity (%k // 2 + 1) mod 2", "", "TG101"),
        ("mbarrier_wait %full[%j mod 2] parity (%j // 2) mod 2", "", "TG101"),
        ("parity (%j // 2) mod 2", "parity (%j // 2 + 1) mod 2", "TG101"),
        ("expect 256", "", "TG101"),
        ("expect 256", "expect 512", "TG221"),
        ("mbarrier<2, slots = 2>", "mbarrier<3, slots = 2>", "TG221"),
        ("mbarrier<2, slots = 2>", "mbarrier<1, slots = 2>", "TG101"),
        ("fence proxy_async", "", "TG109"),
        ("mbarrier_arrive %empty[%j mod 2]", "", "TG221"),
    ],
)
def test_a_ring_with_one_mistake_is_found(line: str, instead: str, expected: str) -> None:
    assert line in RING
    assert expected in codes(RING.replace(line, instead))


def test_an_order_that_depends_on_who_arrives_first_is_a_race() -> None:
    """A barrier of one arrival as a lock: whoever comes first goes first, and the other waits; nothing says who."""
    b = builder("sm_90")
    bar = b.object("%bar", BarrierObject("named_barrier", 1))
    b.program(0, 1)
    touch(b, "write", ZERO)
    b.sync(ops.Fence("wave"))
    b.sync(ops.Signal(bar))
    b.add(g.End())
    b.program(1, 2)
    b.sync(ops.Wait(bar))
    touch(b, "write", ZERO)
    b.add(g.End())
    assert codes(b.finish()) == []  # always the first wave first


def test_states_that_differ_in_what_a_copy_will_tell_are_two_states() -> None:
    """Wave 0 copies after phase 1 or phase 3 of `%A`; what the copy's end tells wave 2 is not the same."""
    text = """
graph @g target sm_90 waves 3
buffer %x bytes 16 slots 1 at 0
buffer %y bytes 16 slots 1 at 64
object %A: mbarrier<1>
object %B: mbarrier<1>
object %D: mbarrier<1>
program entry 0 waves 0 .. 1
program entry 4 waves 1 .. 2
program entry 10 waves 2 .. 3
{
  0: sync mbarrier_wait %A[0] parity 0 -> 1
  1: write %y[0, 0] box() width 16 async reports %B[0, 0] -> 2
  2: sync mbarrier_wait %D[0] parity 0 -> 3
  3: end
  4: sync mbarrier_arrive %A[0] -> 5
  5: sync mbarrier_arrive %A[0] -> 6
  6: write %x[0, 0] box() width 16 -> 7
  7: sync mbarrier_arrive %A[0] -> 8
  8: sync mbarrier_arrive %D[0] -> 9
  9: end
  10: sync mbarrier_arrive %B[0] expect 16 -> 11
  11: sync mbarrier_wait %B[0] parity 0 -> 12
  12: read %x[0, 0] box() width 16 -> 13
  13: end
}
"""
    assert "TG101" in codes(parse_graph(text))


def test_a_generic_copy_that_reports_needs_a_fence_too() -> None:
    for fence, expected in ((True, []), (False, ["TG101"])):
        b = builder("sm_90")
        bar = b.object("%bar", BarrierObject("mbarrier", 1))
        b.program(0, 1)
        b.sync(ops.MbarrierArrive(Place(bar, ZERO), 4))
        touch(b, "write", ZERO, is_async=True, mbarrier=g.Ref("%bar"))
        b.add(g.End())
        b.program(1, 2)
        b.sync(ops.MbarrierWait(Place(bar, ZERO), ZERO))
        if fence:
            b.sync(ops.Fence("proxy_async"))
        touch(b, "read", ZERO, is_async=True, proxy="async")
        b.add(g.End())
        assert codes(b.finish()) == expected


def test_hangs_say_what_each_wave_waits_for() -> None:
    b = builder("gfx1250")
    bar = b.object("%bar", BarrierObject("named_barrier", 3))
    b.sync(ops.Signal(bar))
    b.sync(ops.Wait(bar))
    finding = only(b.finish())
    assert finding.code == "TG221"
    assert "2 of 3 arrivals" in finding.notes[0]
    assert "waves 0, 1 wait" in finding.notes[0]


# --- configurations -------------------------------------------------------------------------------------------------


def test_a_wait_count_that_needs_more_trips_gets_them() -> None:
    """Six slots ahead with a count of five: the mistake shows only when the sixth copy is in flight."""
    text = """
target gfx942
kernel @deep(%X: global<Kx4x16xf32>) sizes(K = 16) waves 4 {{
  %t = alloc : lds<4x16xf32, slots = 2>
  %u = alloc : lds<4x16xf32, slots = 2>
  iterate %k in 0 .. K {{
    gather_to_lds %X[%k, wave] to %t[0][wave] : tile<16xf32>
    wait_count vmcnt({count})
  }}
}}
"""
    (loop,) = find_configurations(graph_of(text.format(count=9))).covered
    assert loop == "loop over `%k`: 1 to 11, 16 trips"
    assert codes(text.format(count=0)) == []
    assert codes(text.format(count=1)) == ["TG105"]


def test_conditions_are_run_both_ways() -> None:
    for cond in ("K mod 7 == 3", "K > 1000", "%f", "%n == 77"):
        guarded = f"conditional {cond} {{\n shared_memory_barrier\n }}"
        body = f"{WRITE}\n {guarded}\n {READ}"
        text = neighbour(body, more=", %f: flag, %n: index").replace("sizes(N = 4)", "sizes(K = 1010)")
        found = judged(text)
        assert [each.code for each in found.findings] == ["TG101"], cond
        always = text.replace(guarded, f"{guarded}\n shared_memory_barrier")
        assert codes(always) == [], cond


def test_assumptions_are_kept() -> None:
    body = f"{WRITE}\n conditional N > 2 {{\n shared_memory_barrier\n }}\n {READ}"
    assert codes(neighbour(body)) == ["TG101"]
    assert codes(neighbour(body).replace("sizes(N = 4)", "sizes(N = 4) where(N > 2)")) == []


def test_what_is_bounded_is_said() -> None:
    flags = ", ".join(f"%f{n}: flag" for n in range(9))
    text = neighbour(f"{WRITE}\n shared_memory_barrier\n {READ}", more=f", {flags}")
    found = judged(text)
    assert any("of 512 combinations of flags" in each for each in found.bounded)
    assert any("at random" in each for each in found.bounded)


def test_an_index_from_outside_is_said_to_be_bounded() -> None:
    found = judged(neighbour("local_write %x, %t[%n mod 2][wave]", more=", %n: index"))
    assert any(each.startswith("numbers from outside: `%n` in 0 to 2") for each in found.bounded)


def test_the_same_seed_gives_the_same_judgement() -> None:
    flags = ", ".join(f"%f{n}: flag" for n in range(9))
    guards = "\n".join(f"conditional %f{n} {{\n local_write %x, %t[{n % 2}][wave]\n }}" for n in range(9))
    text = neighbour(f"{guards}\n {READ}", more=f", {flags}")
    one, other = judged(text, Limits(seed=3)), judged(text, Limits(seed=3))
    assert one == other


MISSED = {
    "a loop with a step": """
  %b = local_read %t[1][(wave + 1) mod 4] : tile<64xf32>
  iterate %k in 0 .. N step 3 {
    local_write %x, %t[select(%k mod 8 == 5, 1, 0)][wave]
  }""",
    "a loop that a number from memory bounds": """
  %n = read_index %T[0]
  iterate %k in 0 .. %n {
    local_write %x, %t[select(%k >= 6, 0, %k mod 2)][wave]
    shared_memory_barrier
    %b = local_read %t[%k mod 2][(wave + 1) mod 4] : tile<64xf32>
  }""",
    "numbers that differ between waves, by another name": """
  %n = read_index %T[wave]
  %m = let %n + 1
  conditional %m < 3 {
    shared_memory_barrier
  }""",
    "a condition on the counter": """
  iterate %k in 0 .. N {
    conditional %k == 9 {
      local_write %x, %t[0][wave]
    }
    %b = local_read %t[0][(wave + 1) mod 4] : tile<64xf32>
  }""",
    "a condition inside another": """
  local_write %x, %t[0][wave]
  conditional N mod 7 != 3 {
    shared_memory_barrier
  } else {
    conditional N mod 5 != 2 {
      shared_memory_barrier
    }
  }
  %b = local_read %t[0][(wave + 1) mod 4] : tile<64xf32>""",
    "a select in an index": """
  iterate %k in 0 .. N {
    local_write %x, %t[select(%k >= 6, 0, %k mod 2)][wave]
    shared_memory_barrier
    %b = local_read %t[%k mod 2][(wave + 1) mod 4] : tile<64xf32>
  }""",
    "rows that move slowly": """
  iterate %k in 0 .. N {
    local_write %x, %t[0][(wave + %k // 3) mod 4]
  }""",
}


@pytest.mark.parametrize("name", MISSED)
def test_what_shows_late_is_found_with_a_small_default(name: str) -> None:
    """Each was clean once, because no run came to the trip or the size that shows it."""
    assert codes(neighbour(MISSED[name]).replace("sizes(N = 4)", "sizes(N = 1)"))


def test_a_parity_that_is_right_for_two_rounds_is_found_in_the_third() -> None:
    text = RING.replace("parity (%j // 2) mod 2", "parity select(%j >= 2, 1, 0)").replace("K = 4", "K = 1")
    assert "TG101" in codes(text) or "TG221" in codes(text)


def test_indices_that_repeat_late_are_said_to_be_bounded() -> None:
    found = judged(neighbour("iterate %k in 0 .. N {\n local_write %x, %t[%k // 32 mod 2][wave]\n }"))
    assert any("64 trips are needed to show all it does, 40 are run" in each for each in found.bounded)


# --- kernels and their graphs ----------------------------------------------------------------------------------------


def test_what_is_seen_without_running_is_not_said_twice() -> None:
    text = neighbour("conditional wave < 2 {\n shared_memory_barrier\n }")
    (kernel,) = parse(text).kernels
    unit = Session("k", load_target("gfx942"), kernel, None)
    found = run_stages(unit, print_after=None, stop_after=None, show=lambda *_: None).findings
    assert [each.code for each in found] == ["TG202"]


def test_flags_are_conditions_of_a_graph_too() -> None:
    b = builder()
    b.flag("%f")
    touch(b, "write", MINE)
    with b.branch(Flag("%f")):
        b.sync(ops.SharedMemoryBarrier())
    touch(b, "read", OTHER)
    finding = only(b.finish())
    assert "found with %f = false" in finding.notes


def test_mbarrier_slots_that_do_not_exist() -> None:
    b = builder("sm_90")
    bar = b.object("%bar", BarrierObject("mbarrier", 1, 2))
    b.sync(ops.MbarrierArrive(Place(bar, Name("wave"))))
    b.sync(ops.MbarrierArrive(Place(bar, Binary("+", Name("wave"), Const(1)))))
    assert codes(b.finish()) == ["TG304"]


# --- what was once missed ---------------------------------------------------------------------------------------------

MISSED_FILES = sorted((ROOT / "tests" / "missed").glob("*.*"))


@pytest.mark.parametrize("path", MISSED_FILES, ids=lambda path: path.stem)
def test_what_was_once_missed_or_wrong_is_right(path: Path) -> None:
    """Each file says what it is about and which codes it expects; each was judged wrongly once."""
    about, expects = path.read_text(encoding="utf-8").splitlines()[:2]
    assert about.startswith("# ")
    loaded = load(str(path))
    (unit,) = sessions_of(loaded, None)
    checked = run_stages(unit, print_after=None, stop_after=None, show=lambda *_: None)
    found = " ".join(sorted({each.code for each in checked.findings}))
    assert expects == f"# expects: {found or 'nothing'}"


def test_a_loop_that_holds_another_is_also_run_zero_times() -> None:
    """The inner loop's trips ask for the outer one to run; without it the barrier is not there."""
    text = """target gfx942
kernel @hole(%X: global<4x64xf32>, %Y: global<4x64xf32>) sizes(N = 3, M = 3) waves 4 {
  %tile = alloc : lds<4x64xf32>
  %a = global_read %X[wave] : tile<64xf32>
  local_write %a, %tile[wave]
  iterate %i in 1 .. N {
    shared_memory_barrier
    iterate %j in 1 .. M {
      global_write %a, %Y[wave]
    }
  }
  %b = local_read %tile[(wave + 1) mod 4] : tile<64xf32>
  global_write %b, %Y[wave]
}
"""
    graph = build_graph(parse(text).kernels[0], load_target("gfx942")).graph
    assert [each.code for each in judge(graph, load_target("gfx942")).findings] == ["TG101"]


def test_a_loop_that_never_runs_does_not_keep_the_others_from_running() -> None:
    """It holds a loop whose trips ask for it to run: no sizes do that, and the last loop would run once only."""
    text = """target gfx942
kernel @hole(%X: global<4x64xf32>, %Y: global<4x64xf32>) sizes(N = 2, M = 2) where(M >= 2) waves 4 {
  %tile = alloc : lds<4x64xf32>
  %a = global_read %X[wave] : tile<64xf32>
  iterate %i in 0 .. 0 {
    iterate %j in 1 .. M {
      global_write %a, %Y[wave]
    }
  }
  iterate %k in 1 .. N {
    %b = local_read %tile[(wave + 1) mod 4] : tile<64xf32>
    shared_memory_barrier
    local_write %a, %tile[wave]
    global_write %b, %Y[wave]
  }
}
"""
    graph = build_graph(parse(text).kernels[0], load_target("gfx942")).graph
    assert [each.code for each in judge(graph, load_target("gfx942")).findings] == ["TG101"]
