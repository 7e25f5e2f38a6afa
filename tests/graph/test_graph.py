"""The waist: graphs of kernels, graphs by hand, plans."""

import pytest

from tests.conftest import ROOT
from tidegate.diag import BadInput, Sources, show_findings
from tidegate.graph import model as g
from tidegate.graph.apply import apply_plan, apply_to_graph
from tidegate.graph.build import KernelGraph, build_graph
from tidegate.graph.builder import GraphBuilder
from tidegate.graph.parse import parse_graph
from tidegate.graph.plan import Change, Delete, Insert, Move, Plan, Reorder, show_plan
from tidegate.graph.show import show_footprint, show_graph
from tidegate.graph.wellformed import check_graph
from tidegate.index import Binary, Compare, Const, Name
from tidegate.language.check import check
from tidegate.language.ops import (
    LocalWrite,
    SharedMemoryBarrier,
    Signal,
    Value,
    Wait,
    WaitCount,
    WorkgroupBarrier,
    walk_ops,
)
from tidegate.language.parse import parse
from tidegate.language.show import show
from tidegate.language.types import DEP, BarrierObject
from tidegate.targets import load_target

GOLDEN = ROOT / "tests" / "golden" / "graph"
EXAMPLES = ("gemm_two_slots", "gemm_gather", "gemm_pingpong", "histogram", "wave_private")


def graph_of(text: str, target: str = "gfx942") -> KernelGraph:
    return build_graph(parse(text).kernels[0], load_target(target))


@pytest.mark.parametrize("name", EXAMPLES)
def test_graph_of_an_example_is_as_on_its_page(name: str, update: bool) -> None:
    kernel = parse((ROOT / f"examples/{name}.tide").read_text(), f"{name}.tide").kernels[0]
    shown = show_graph(build_graph(kernel, load_target(kernel.target)).graph)
    page = GOLDEN / f"{name}.sync"
    if update:
        page.write_text(shown)
    assert page.read_text() == shown
    assert parse_graph(shown) == build_graph(kernel, load_target(kernel.target)).graph


ROTATING = """
kernel @rotating(%n: index, %odd: flag) waves 4 {
  %a = alloc : lds<16xf32, slots = 3>
  %b = alloc : lds<64xf32>
  %t = fill 1.0 : tile<4xf32>
  %last = iterate %i in 0 .. %n step 2 expect 8 carry(%s = 1 : index) {
    local_write %t, %a[%s][wave * 4]
    %v = view %a[%s] : lds<16xf32>
    %w = select_view %odd, %v, %b : lds<16xf32>
    conditional wave < 2 {
      shared_memory_barrier
      exit
    } else {
      shared_memory_barrier
    }
    yield select(%s + 1 >= 3, 0, %s + 1)
  }
  local_write %t, %a[%last][wave * 4] bounds(14)
  dealloc %a
}
"""


def test_loops_views_exits_and_dealloc_are_points() -> None:
    text = ROTATING.replace("lds<64xf32>", "lds<16xf32>")
    graph = graph_of(text).graph
    assert check_graph(graph) == []
    (loop,) = graph.loops
    assert (loop.counter, loop.step, loop.least, loop.most, loop.expect) == ("%i", 2, 0, None, 8.0)
    actions = [point.action for point in graph.points]
    assert g.Free("%a") in actions
    assert sum(isinstance(action, g.End) for action in actions) == 2
    assert g.Assign((("%v", g.Ref("%a", Name("%s"))),)) in actions
    (chosen,) = (each for each in actions if isinstance(each, g.Assign) and each.pairs[0][0] == "%w")
    assert isinstance(chosen.pairs[0][1], g.Either)
    (masked,) = (each for each in actions if isinstance(each, g.Access) and each.footprint.extents)
    assert masked.footprint.extents[0].limit is not None


def test_points_say_who_agrees_on_them_and_how_often_they_run() -> None:
    graph = graph_of(ROTATING.replace("lds<64xf32>", "lds<16xf32>")).graph
    barriers = [point for point in graph.points if isinstance(point.action, g.Sync)]
    assert [(point.under, point.weight) for point in barriers] == [("per_wave", 4.0), ("per_wave", 4.0)]


def test_values_are_followed_through_loops() -> None:
    """The mma of a loop needs the accumulator of the trip before: through the head, the last point of the body."""
    kernel = parse((ROOT / "examples/gemm_two_slots.tide").read_text()).kernels[0]
    graph = build_graph(kernel, load_target("gfx942")).graph
    mma = next(number for number, point in enumerate(graph.points) if point.role == "mma")
    head = graph.loops[0].head
    assert head in graph.points[mma].uses
    latch = graph.points[head].uses[1]
    assert graph.points[latch].label == "next"
    assert mma in graph.points[latch].uses


def test_trips_are_proven_from_the_assumptions() -> None:
    text = """
kernel @k() sizes(N = 64, P = 64) where(N mod 32 == 0, N >= 64) waves 2 {{
  iterate %i in 0 .. {bound} {{
    workgroup_barrier
  }}
}}"""
    least = [
        graph_of(text.format(bound=bound)).graph.loops[0].least for bound in ("N // 32", "N // 64", "P // 32", "5")
    ]
    assert least == [2, 1, 0, 5]


def test_an_inner_loop_knows_that_the_outer_one_runs() -> None:
    text = """
kernel @k() sizes(N = 64) waves 2 {
  iterate %i in 0 .. N - 1 {
    iterate %j in 0 .. N - 1 {
      workgroup_barrier
    }
  }
}"""
    assert [loop.least for loop in graph_of(text).graph.loops] == [0, 1]


def test_copies_count_their_instructions() -> None:
    text = """
target gfx950
kernel @k(%A: global<64x64xf16>) waves 4 {
  %a = alloc : lds<64x64xf16>
  gather_to_lds %A[wave * 16, 0] to %a[wave * 16, 0] : tile<16x64xf16>
  shared_memory_barrier wait_async_ops
}"""
    graph = graph_of(text, "gfx950").graph
    (copy,) = (point for point in graph.points if point.role == "copy")
    assert copy.issues == (g.Issue("vmcnt", 2, 8),)  # 2048 bytes: 16 or 4 bytes for each of 64 lanes
    assert isinstance(copy.action, g.Access)
    assert copy.action.is_async
    assert copy.action.effect == "write"


# --- by hand ---


def irreducible() -> g.SyncGraph:
    """Two points that lead to each other, each entered from outside."""
    b = GraphBuilder("irreducible", waves=2, lanes="one")
    b.buffer("%a", 64)
    b.add(g.Branch(None), 1, 2)
    b.add(g.Branch(None), 2, 3, label="left")
    b.add(g.Branch(None), 1, 3, label="right")
    b.read("%a", bytes=64)
    return b.finish()


def test_an_irreducible_loop_is_found_and_marked() -> None:
    graph = irreducible()
    (loop,) = graph.loops
    assert (loop.head, loop.reducible) == (1, False)
    assert [point.loop for point in graph.points] == [-1, 0, 0, -1, -1]
    assert parse_graph(show_graph(graph)) == graph


def test_both_ways_of_a_branch_meet_and_places_are_kept() -> None:
    b = GraphBuilder("ways", waves=2, lanes="one")
    test = b.add(g.Branch(None), place="if")
    b.compute("then", place="then")
    with b.other_way(test):
        b.compute("else")
    b.compute("join", place="join")
    graph = b.finish()
    assert [point.successors for point in graph.points] == [(1, 2), (3,), (3,), (4,), ()]
    assert b.places == ["if", "then", None, "join", None]


def test_a_loop_goes_round_to_its_head_and_is_left_at_its_test() -> None:
    b = GraphBuilder("round", waves=2, lanes="one")
    head = b.compute("head")
    test = b.add(g.Branch(None))
    b.compute("body")
    b.go_round(head, test)
    b.count(head, "%k", Const(0), Const(6), 2)
    graph = b.finish()
    assert [point.successors for point in graph.points] == [(1,), (2, 3), (0,), ()]
    assert [(loop.head, loop.least, loop.most) for loop in graph.loops] == [(0, 3, 3)]
    assert [point.weight for point in graph.points] == [3.0, 3.0, 3.0, 1.0]


def test_a_function_is_called_at_two_places_in_memory() -> None:
    b = GraphBuilder("calls", waves=2, lanes="one")
    b.buffer("%a", 64, slots=2)
    for slot in (0, 1):
        b.add(g.Call("fill", (("%p", g.Ref("%a", Const(slot))),)))
    b.add(g.End())
    b.function("fill", ("%p",))
    b.write("%p", offset=Binary("*", Name("wave"), Const(32)), bytes=32)
    b.add(g.Return())
    graph = b.finish()
    from oracles.programs.graph_walk import walk

    placed = parse_graph(show_graph(graph).replace("slots 2", "slots 2 at 0"))
    assert [sorted(touch.bytes)[0] for touch in walk(placed, 1, {})] == [32, 96]


def test_waves_run_different_programs() -> None:
    b = GraphBuilder("roles", waves=4, lanes="one")
    b.buffer("%a", 64)
    full = b.object("%full", BarrierObject("named_barrier", 4), waves=(0, 1, 2, 3))
    b.program(0, 1)
    b.write("%a", bytes=64)
    b.sync(Signal(full))
    b.add(g.End())
    b.program(1, 4)
    b.sync(Signal(full))
    b.sync(Wait(full))
    b.read("%a", bytes=64)
    graph = b.finish()
    assert [(each.first, each.last) for each in graph.programs] == [(0, 1), (1, 4)]
    assert parse_graph(show_graph(graph)) == graph


def test_structured_building_knows_its_trips() -> None:
    b = GraphBuilder("nest", waves=2, lanes="one")
    b.buffer("%a", 8, slots=2)
    with b.loop("%i", 0, 4) as i:
        slot = Binary("mod", i, Const(2))
        b.write("%a", slot=slot, bytes=8)
        with b.branch(Compare("==", i, Const(0))) as arms:
            b.sync(SharedMemoryBarrier())
            arms.otherwise()
            b.sync(WorkgroupBarrier())
        b.read("%a", slot=slot, bytes=8)
    graph = b.finish()
    assert (graph.loops[0].least, graph.loops[0].most, graph.loops[0].expect) == (4, 4, 4.0)
    assert {point.weight for point in graph.points if point.loop == 0} == {4.0}
    assert parse_graph(show_graph(graph)) == graph


HEAD = "graph @g target none waves 1\nprogram entry 0 waves 0 .. 1\n"
BAD_GRAPHS = {
    "no such point": (HEAD + "{\n  0: compute -> 1\n}",
                      "point 0 refers to point 1, which does not exist"),
    "a branch with one way": (HEAD + "{\n  0: branch any -> 0\n}",
                              "point 0: has 1 successors, not 2"),
    "no buffer": (HEAD + "{\n  0: read %a[0, 0] box() width 4 -> 1\n  1: end\n}",
                  "point 0: `%a` is neither a buffer nor a view"),
    "no name": ("graph @g target none waves 1\nbuffer %a bytes 4 slots 1\nprogram entry 0 waves 0 .. 1\n{\n"
                "  0: read %a[%i, 0] box() width 4 -> 1\n  1: end\n}", "point 0: nothing assigns `%i`"),
    "a wave without a program": ("graph @g target none waves 2\nprogram entry 0 waves 0 .. 1\n{\n  0: end\n}",
                                 "the programs do not start each of the 2 waves once"),
    "no function": (HEAD + "{\n  0: call @f() -> 1\n  1: end\n}",
                    "point 0: there is no function `@f`"),
    "no object": (HEAD + "{\n  0: sync signal %b -> 1\n  1: end\n}",
                  "point 0: `%b` is not a barrier object"),
    "no loop": (HEAD + "{\n  0: end loop 3\n}",
                "point 0 lies in loop 3, which does not exist"),
    "two loops with one head": (HEAD.replace("program", "loop 0 head 0 parent -1 trips 1 .. 1 expect 1.0\n"
                                             "loop 1 head 0 parent -1 trips 2 .. 2 expect 2.0\nprogram")
                                + "{\n  0: branch any loop 0 -> 0, 1\n  1: end\n}",
                                "loops 0 and 1 have one head, point 0"),
    "one access on two counters": ("graph @g target none waves 1\nbuffer %a bytes 4 slots 1\n"
                                   "program entry 0 waves 0 .. 1\n{\n  0: write %a[0, 0] box() width 4 async "
                                   "issues asynccnt 1 .. 1, vmcnt 1 .. 1 -> 1\n  1: end\n}",
                                   "point 0: is one access and counts on asynccnt, vmcnt: give each counter a point of "
                                   "its own"),
}  # fmt: skip


@pytest.mark.parametrize("title", BAD_GRAPHS)
def test_a_graph_that_makes_no_sense_is_a_finding(title: str) -> None:
    text, message = BAD_GRAPHS[title]
    findings = check_graph(parse_graph(text))
    assert [(each.code, each.message) for each in findings] == [("TG602", message)]


def test_graph_text_without_meaning_names_its_place() -> None:
    text = HEAD + "{\n  0: leap -> 1\n}\n"
    with pytest.raises(BadInput) as bad:
        parse_graph(text, "case.sync")
    assert show_findings(bad.value.findings, Sources({"case.sync": text})) == (
        "error[TG601]: `leap` is not an action\n --> case.sync:4:6\n  |\n4 |   0: leap -> 1\n  |      ----"
    )


# --- plans ---

TWO_SLOTS = parse((ROOT / "examples/gemm_two_slots.tide").read_text(), "gemm_two_slots.tide").kernels[0]


def built() -> KernelGraph:
    return build_graph(TWO_SLOTS, load_target("gfx942"))


def point_with(graph: KernelGraph, label: str) -> int:
    return next(number for number, point in enumerate(graph.graph.points) if point.label == label)


def test_a_plan_inserts_deletes_changes_and_moves() -> None:
    made = built()
    barrier, end, mma = (point_with(made, label) for label in ("shared_memory_barrier", "next", "mma"))
    plan = Plan(
        (
            Insert(end, WorkgroupBarrier(pinned=True), ("hands the matrix unit over",)),
            Insert(mma, WaitCount((("lgkmcnt", 0),)), ("RAW %a",)),
            Change(barrier, SharedMemoryBarrier((("vmcnt", 1),)), ("FILL %a",)),
        )
    )
    text = show(apply_plan(plan, made))
    assert "shared_memory_barrier vmcnt(1)" in text
    assert (
        text.index("wait_count lgkmcnt(0)")
        < text.index("= mma")
        < text.index("workgroup_barrier pinned")
        < text.index("yield")
    )
    assert check(apply_plan(plan, made), load_target("gfx942")) == []
    assert "shared_memory_barrier" not in show(apply_plan(Plan((Delete(barrier),)), made))
    moved = show(apply_plan(Plan((Move(barrier, end),)), made))
    assert moved.index("= mma") < moved.index("shared_memory_barrier")
    first = show_plan(plan).splitlines()[0].split("#")
    assert [part.strip() for part in first] == [
        f"insert workgroup_barrier pinned before {end}",
        "hands the matrix unit over",
    ]


def test_a_plan_gives_the_same_program_by_way_of_the_kernel_and_of_the_graph() -> None:
    made = built()
    barrier, end, head = point_with(made, "shared_memory_barrier"), point_with(made, "next"), made.graph.loops[0].head
    plan = Plan((Insert(end, WorkgroupBarrier()), Delete(barrier), Insert(head - 1, SharedMemoryBarrier())))
    by_kernel = build_graph(apply_plan(plan, made), load_target("gfx942")).graph
    assert apply_to_graph(plan, made.graph) == by_kernel


def test_a_loop_body_takes_a_new_order() -> None:
    made = built()
    body = [number for number, path in enumerate(made.paths) if len(path) == 3 and number != point_with(made, "next")]
    first = next(place for place, point in enumerate(body) if made.graph.points[point].label == "local_write")
    order = [*body[:first], body[first + 1], body[first], *body[first + 2 :]]
    old, new = list(walk_ops(TWO_SLOTS.body)), list(walk_ops(apply_plan(Plan((Reorder(0, tuple(order)),)), made).body))
    start = next(place for place, op in enumerate(old) if isinstance(op, LocalWrite))
    assert new[start : start + 2] == [old[start + 1], old[start]]
    assert [type(op) for op in new] == [type(op) for op in old]
    with pytest.raises(BadInput, match="`%a_tile` is not defined"):
        apply_plan(Plan((Reorder(0, tuple(reversed(body))),)), made)


BAD_PLANS = [
    (Insert(10_000, WorkgroupBarrier()), "`insert workgroup_barrier before 10000`: there is no point 10000"),
    (Delete(0), "`delete 0`: point 0 is not synchronization"),
    (Reorder(7, ()), "`reorder loop 7 as `: there is no loop 7"),
    (Reorder(0, (1, 2)), "the new order of loop 0 does not name each of its 9 operations once"),
]


@pytest.mark.parametrize(("edit", "message"), BAD_PLANS, ids=[message for _, message in BAD_PLANS])
def test_an_edit_that_does_not_fit_is_a_finding(edit, message: str) -> None:
    with pytest.raises(BadInput) as bad:
        apply_plan(Plan((edit,)), built())
    assert [(each.code, each.message) for each in bad.value.findings] == [("TG603", message)]


def test_nothing_is_put_before_a_loop_head_and_nothing_is_edited_twice() -> None:
    made = built()
    head, barrier = made.graph.loops[0].head, point_with(made, "shared_memory_barrier")
    with pytest.raises(BadInput) as bad:
        apply_plan(Plan((Insert(head, WorkgroupBarrier()), Delete(barrier), Delete(barrier))), made)
    assert [each.message.split(": ")[1] for each in bad.value.findings] == [
        f"nothing can be inserted before point {head}",
        f"point {barrier} is edited twice",
    ]


def test_a_deleted_point_leads_to_what_stood_behind_it_in_any_graph() -> None:
    b = GraphBuilder("jumps", waves=1, lanes="one")
    b.compute("start")
    b.add(g.Sync(WorkgroupBarrier()), 3)
    b.compute("never")
    b.compute("after")
    graph = b.finish()
    smaller = apply_to_graph(Plan((Delete(1),)), graph)
    assert [point.label for point in smaller.points] == ["start", "never", "after", "end"]
    assert smaller.points[0].successors == (2,)


def test_after_a_wave_may_have_ended_not_all_waves_agree() -> None:
    """An exit under a condition that differs between waves: what follows, and the whole loop around it, is per wave."""
    text = """
kernel @k() waves 4 {
  %a = alloc : lds<4xf32>
  workgroup_barrier
  iterate %i in 0 .. 3 {
    workgroup_barrier
    conditional wave == %i {
      exit
    }
    workgroup_barrier
  }
  workgroup_barrier
}"""
    graph = graph_of(text).graph
    barriers = [point.under for point in graph.points if isinstance(point.action, g.Sync)]
    assert barriers == ["uniform", "per_wave", "per_wave", "per_wave"]


def test_a_number_from_an_array_that_the_kernel_writes_may_differ_between_waves() -> None:
    text = """
kernel @k(%A: global<4xi32>, %B: global<4xi32>) waves 4 {{
  %t = fill 1.0 : tile<1xi32>
  global_write %t, %{written}[wave]
  %n = read_index %A[0]
  conditional %n == 1 {{
    workgroup_barrier
  }}
}}"""
    for written, under in (("A", "per_wave"), ("B", "uniform")):
        graph = graph_of(text.format(written=written)).graph
        (barrier,) = (point for point in graph.points if isinstance(point.action, g.Sync))
        assert barrier.under == under


def test_a_signal_cannot_be_moved_before_its_barrier_is_made() -> None:
    text = """
target gfx1250
kernel @k() waves 2 {
  %t = fill 1.0 : tile<4xf32>
  %b = new_barrier : named_barrier<2>
  signal %b
  wait %b
}"""
    made = graph_of(text, "gfx1250")
    with pytest.raises(BadInput) as bad:
        apply_plan(Plan((Move(point_with(made, "signal"), 0),)), made)
    assert [each.message for each in bad.value.findings] == [
        "the edited kernel is not well-formed: `%b` is not defined"
    ]


# --- what a review found ---


def labelled(graph: g.SyncGraph, label: str) -> list[g.Point]:
    return [point for point in graph.points if point.label == label]


def test_a_counter_of_groups_counts_groups_not_copies() -> None:
    text = """
target {target}
kernel @k(%A: global<64xf32>) waves 1 {{
  %a = alloc : lds<64xf32>
  gather_to_lds %A[0] to %a[0] : tile<32xf32>
  gather_to_lds %A[32] to %a[32] : tile<32xf32>
  commit_group
  commit_group
}}"""
    for target, counters in (("sm_80", ["group"]), ("sm_90", ["group", "bulk_group"])):
        graph = graph_of(text.format(target=target), target).graph
        queued = (g.Issue("group", 0, 0),)  # names their queue, counts nothing
        assert [point.issues for point in labelled(graph, "gather_to_lds")] == [queued, queued]
        closed = tuple(g.Issue(name, 1, 1) for name in counters)
        assert [point.issues for point in labelled(graph, "commit_group")] == [closed, closed]


def test_lanes_that_disagree_run_both_arms_in_order() -> None:
    text = """
target gfx950
kernel @k(%A: global<64xf32>) waves 1 {
  %a = alloc : lds<64xf32>
  %n = conditional lane < 16 : index {
    gather_to_lds %A[0] to %a[0] : tile<64xf32>
    yield 1
  } else {
    %t = local_read %a[0] : tile<64xf32>
    yield 2
  }
}"""
    graph = graph_of(text, "gfx950").graph
    assert check_graph(graph) == []
    (copy,), (read,) = labelled(graph, "gather_to_lds"), labelled(graph, "local_read")
    reached, stack = set(), [graph.points.index(copy)]
    while stack:
        number = stack.pop()
        if number not in reached:
            reached.add(number)
            stack.extend(graph.points[number].successors)
    assert graph.points.index(read) in reached
    # Which lanes of a copy write which bytes is not the language's to say; of the read, lanes 16..64 take part.
    assert copy.action.footprint.may
    assert show_footprint(read.action.footprint) == "%a[0, 64] box() width 192"
    assert g.Havoc(("%n",)) in [point.action for point in graph.points]
    assert all(
        point.action == g.Branch(None) for label in ("conditional", "otherwise") for point in labelled(graph, label)
    )


def test_which_carried_copy_a_wait_names_is_in_the_graph() -> None:
    text = """
target gfx950
kernel @k(%A: global<64xf32>) waves 1 {
  %a = alloc : lds<64xf32, slots = 2>
  %c0 = gather_to_lds %A[0] to %a[0][0] : tile<64xf32>
  %c1 = gather_to_lds %A[0] to %a[1][0] : tile<64xf32>
  %x, %y = iterate %k in 0 .. 3 carry(%d0 = %c0 : dep, %d1 = %c1 : dep) {
    wait_count deps(%d0)
    yield %d1, %d0
  }
}"""
    graph = graph_of(text, "gfx950").graph
    assert check_graph(graph) == []
    assert [point.action.token for point in labelled(graph, "gather_to_lds")] == ["%c0", "%c1"]
    (enter,), (latch,) = labelled(graph, "iterate"), labelled(graph, "next")
    assert dict(enter.action.pairs)["%d0"] == g.Token("%c0")
    assert dict(latch.action.pairs)["%d0"] == g.Token("%d1")
    lost = show_graph(graph).replace(" token %c0", "", 1)
    assert {each.message for each in check_graph(parse_graph(lost))} == {
        "point 3: no asynchronous operation is called `%c0`"
    }


def test_elements_that_serve_as_indices_are_new_each_time() -> None:
    text = """
kernel @k(%X: global<4x1xi32>) waves 2 {
  %a = alloc : lds<4xi32>
  iterate %k in 0 .. 4 {
    %t = global_read %X[%k, 0] : tile<1xi32>
    local_write %t, %a[inexact(%t)]
  }
}"""
    graph = graph_of(text).graph
    assert graph.free == ()
    (unknown,) = labelled(graph, "unknown")
    assert (unknown.action, unknown.loop) == (g.Havoc(("%t",)), 0)


def test_waves_that_end_in_a_loop_are_gone_after_it() -> None:
    text = """
kernel @k() waves 4 {
  iterate %i in 0 .. wave {
    exit
  }
  shared_memory_barrier
}"""
    assert [point.under for point in labelled(graph_of(text).graph, "shared_memory_barrier")] == ["per_wave"]


def test_mbarriers_lie_in_memory() -> None:
    text = """
target sm_90
kernel @k() waves 4 {
  %a = alloc : lds<10xf32>
  %m = new_barrier : mbarrier<1, slots = 2>
  %n = new_barrier : named_barrier<4>
}"""
    assert [each.offset for each in graph_of(text, "sm_90").graph.objects] == [48, None]


@pytest.mark.parametrize("edit", [Delete(3), Change(3, WorkgroupBarrier()), Move(3, 5)])
def test_what_belongs_to_copies_is_not_edited(edit) -> None:
    text = """
target sm_80
kernel @k(%A: global<64xf32>) waves 1 {
  %a = alloc : lds<64xf32>
  %t = fill 0.0 : tile<4xf32>
  gather_to_lds %A[0] to %a[0] : tile<64xf32>
  %g = commit_group
  wait_count deps(%g)
}"""
    made = graph_of(text, "sm_80")
    for apply, item in ((apply_plan, made), (apply_to_graph, made.graph)):
        with pytest.raises(BadInput, match="point 3 belongs to copies or to a barrier object"):
            apply(Plan((edit,)), item)


def test_a_change_may_not_name_what_does_not_exist() -> None:
    made = built()
    wrong = Change(point_with(made, "shared_memory_barrier"), WaitCount((), (Value("%nope", DEP),)))
    with pytest.raises(BadInput, match="`%nope` is not defined"):
        apply_plan(Plan((wrong,)), made)


def test_a_loop_is_reordered_once() -> None:
    made = built()
    body = tuple(
        number for number, path in enumerate(made.paths) if len(path) == 3 and number != point_with(made, "next")
    )
    with pytest.raises(BadInput, match="loop 0 is reordered twice"):
        apply_plan(Plan((Reorder(0, body), Reorder(0, body))), made)


def test_nothing_in_a_graph_depends_on_a_lane() -> None:
    """A wave has no lane: what differs between lanes is unknown, a loop that they leave one by one a free choice."""
    text = """
target gfx950
kernel @k(%A: global<64xf32>) waves 2 {
  %a = alloc : lds<64xf32>
  %b = alloc : lds<64xf32>
  %x = let lane + 1
  %v, %d = conditional lane < 4 : lds<64xf32>, dep {
    %c = gather_to_lds %A[0] to %a[0] : tile<64xf32>
    yield %a, %c
  } else {
    %n = null_async_dep
    yield %b, %n
  }
  %w = select_view lane < 2, %v, %b : lds<64xf32>
  %s = iterate %k in 0 .. lane carry(%y = %x : index) {
    yield %y + %k
  }
  wait_count deps(%d)
}"""
    graph = graph_of(text, "gfx950").graph
    assert check_graph(graph) == []
    assert [line for line in show_graph(graph).splitlines() if "lane" in line and "select_view" not in line] == []
    (trip,) = labelled(graph, "trip")
    assert trip.action == g.Branch(None)
    havocs = [point.action.names for point in graph.points if isinstance(point.action, g.Havoc)]
    assert havocs == [("%x",), ("%y",), ("%s",)]


def test_a_loop_whose_counter_differs_between_lanes_assigns_nothing() -> None:
    text = "kernel @k() waves 1 { iterate %k in lane .. 4 { workgroup_barrier } }"
    graph = graph_of(text).graph
    assert check_graph(graph) == []
    assert parse_graph(show_graph(graph)) == graph
    assert not any(isinstance(point.action, g.Assign) for point in graph.points)
