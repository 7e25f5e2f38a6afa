"""Programs that `sync` once got wrong, and what it has to make of them."""

from __future__ import annotations

import pytest

import tidegate as tg
from tests.conftest import ROOT
from tidegate.files import load
from tidegate.graph import model as g
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.build import build_graph
from tidegate.graph.builder import GraphBuilder
from tidegate.graph.flow import flow_of
from tidegate.graph.plan import Insert
from tidegate.hazards.find import find_hazards
from tidegate.index import Binary, Const, Name
from tidegate.language.ops import Fence, Kernel, NewBarrier, SharedMemoryBarrier, Signal, WaitCount, WorkgroupBarrier
from tidegate.language.parse import parse
from tidegate.placement.place import Options, place
from tidegate.simulate.judge import judge
from tidegate.synchronize import synchronize_graph
from tidegate.targets import load_target

HEAD = """
  %t = alloc : lds<2x64xf32>
  %z = fill 0.0 : tile<64xf32>
"""


def kernel(target: str, body: str, head: str = HEAD, clauses: str = "waves 2") -> Kernel:
    return parse(f"target {target}\nkernel @case(%X: global<64xf32>) {clauses} {{\n{head}{body}\n}}\n").kernels[0]


@pytest.mark.parametrize("target", ["gfx1201", "gfx1250"])
def test_no_pair_stands_around_a_conditional_barrier(target: str) -> None:
    """Half of the waves arrives there: a wave that has signalled would arrive twice."""
    case = kernel(
        target,
        """
  conditional_barrier high
  local_write %z, %t[wave]
  conditional_barrier low
  %b = local_read %t[1 - wave] : tile<64xf32>""",
    )
    done = tg.sync(case)
    assert done.checked is not None
    assert done.checked.findings == []
    ops = [edit.op for edit in done.plan.edits if isinstance(edit, Insert)]
    assert not any(isinstance(op, Signal) and op.barrier == -1 for op in ops)


def test_a_race_the_other_way_round_says_nothing_about_what_an_object_orders() -> None:
    """The write comes before the read by a named barrier; only the next write needs another one."""
    case = kernel(
        "sm_90",
        """
  %nb = new_barrier : named_barrier<2>
  iterate %k in 0 .. N {
    local_write %z, %t[wave]
    signal %nb
    wait %nb
    %b = local_read %t[1 - wave] : tile<64xf32>
  }""",
        clauses="sizes(N = 4) waves 2",
    )
    done = tg.sync(case)
    assert done.checked is not None
    assert done.checked.findings == []
    assert [type(edit.op) for edit in done.plan.edits if isinstance(edit, Insert)] == [WorkgroupBarrier]


def test_a_wait_right_behind_its_signal_counts_as_a_barrier() -> None:
    """Where hazards demand two barriers, one that stands there as a pair is one of them."""
    case = kernel(
        "gfx1201",
        """
  conditional_barrier high
  iterate %i in 0 .. N {
    local_write %z, %t[wave]
    signal -1
    wait -1
    %r = local_read %t[1 - wave] : tile<64xf32>
  }
  conditional_barrier low""",
        clauses="sizes(N = 4) waves 2",
    )
    least, best = (tg.sync(case, strategy=each) for each in ("minimal", "optimal"))
    assert least.placed is not None
    assert best.placed is not None
    assert least.placed.weight == best.placed.weight


def test_pairs_reach_across_others_on_barriers_of_their_own() -> None:
    """A loop that may not run at all meets in every iteration; the pair around it is on another barrier. `sync` takes
    the plan without it, which is proved."""
    body = """
  %b = alloc : lds<2x64xf32>
  local_write %z, %t[wave]
  iterate %k in 0 .. N - 1 {
    local_write %z, %b[wave]
    %r = local_read %b[1 - wave] : tile<64xf32>
  }
  %s = local_read %t[1 - wave] : tile<64xf32>"""
    clauses = "sizes(N = 4) waves 2"
    for target, expected in (("gfx1250", 1), ("gfx1201", 0)):
        case, facts = kernel(target, body, clauses=clauses), load_target(target)
        graph = build_graph(case, facts).graph
        placed = place(find_hazards(flow_of(graph), facts), facts, Options("intersecting"))
        assert judge(apply_to_graph(placed.plan, graph), facts).findings == []
        for plan, count in ((placed.plan, expected), (tg.sync(case).plan, 0)):
            new = [edit for edit in plan.edits if isinstance(edit, Insert) and isinstance(edit.op, NewBarrier)]
            assert len(new) == count


def test_a_pinned_barrier_waits_for_copies_that_are_in_no_group() -> None:
    """`wait_count group(0)` waits for groups only."""
    case = kernel(
        "sm_80",
        "\n  gather_to_lds %X[0] to %t[wave] : tile<64xf32>\n  workgroup_barrier pinned\n"
        "  %b = local_read %t[1 - wave] : tile<64xf32>",
    )
    done = tg.sync(case)
    assert done.checked is not None
    assert done.checked.findings == []
    assert done.kernel is not None
    (barrier,) = (op for op in done.kernel.body.ops if isinstance(op, SharedMemoryBarrier))
    assert barrier.pinned
    assert barrier.wait_async_ops


def test_a_persistent_loop_needs_one_barrier_for_each_tile_step() -> None:
    """Its slot goes on from one tile to the next."""
    case = kernel(
        "gfx942",
        """
  %s0 = iterate %i in 0 .. T carry(%s = 0 : index) {
    %s2 = iterate %k in 0 .. K carry(%w = %s : index) {
      local_write %z, %u[%w][wave]
      %b = local_read %u[%w][1 - wave] : tile<64xf32>
      yield (%w + 1) mod 2
    }
    yield %s2
  }""",
        head="  %u = alloc : lds<2x64xf32, slots = 2>\n  %z = fill 0.0 : tile<64xf32>\n",
        clauses="sizes(K = 3, T = 3) waves 2",
    )
    done = tg.sync(case)
    assert done.checked is not None
    assert done.checked.findings == []
    assert done.placed is not None
    assert done.placed.weight == 16 * 16 + 16


def test_what_is_synchronized_by_hand_stays_as_it_is() -> None:
    """Counts, tokens, split pairs and the stagger of ping-pong are understood: nothing is added to them."""
    for path in sorted(ROOT.glob("examples/*.tide")):
        for each in load(str(path)).kernels:
            done = tg.sync(each, atomics="commute", judge=False)
            assert done.plan.edits == (), path.name


# What is still found after `sync`, and with which options: some of it no barrier can order.
FILES = {
    "all_named_barriers_in_use.sync": (set(), {}),
    "exit_in_a_loop.tide": (set(), {}),
    "function_where_waves_part.sync": ({"TG101"}, {}),
    "name_in_use.tide": (set(), {}),
    "named_pair_in_a_stagger.tide": (set(), {}),
    "object_beside_a_barrier.tide": (set(), {"remove_redundant": True}),
    "object_hides_another_pair.tide": (set(), {}),
    "pinned_and_fixed.sync": (set(), {}),
    "proxy_and_fixed.sync": ({"TG101"}, {}),
    "recursion.sync": (set(), {"strategy": "intersecting"}),
    "redundant_under_stagger.sync": (set(), {"remove_redundant": True}),
    "redundant_under_stagger_twice.sync": (set(), {"remove_redundant": True}),
    "signal_fixed.sync": ({"TG101"}, {}),
    "token_of_the_last_copy.tide": (set(), {}),
    "unknown_before_a_signal.sync": (set(), {"strategy": "intersecting"}),
    "widened_hides_exact.sync": (set(), {}),
}


@pytest.mark.parametrize("name", FILES)
def test_file(name: str) -> None:
    """Each was once a crash, a race that nobody noticed, or a plan that does not fit."""
    expected, options = FILES[name]
    loaded = load(str(ROOT / "tests" / "sync_cases" / name))
    programs = [*loaded.kernels, *([loaded.graph] if loaded.graph is not None else [])]
    for program in programs:
        done = tg.sync(program, **options)
        assert done.checked is not None
        assert {each.code for each in done.checked.findings if each.severity == "error"} == expected


def test_every_file_is_a_case() -> None:
    assert sorted(each.name for each in (ROOT / "tests" / "sync_cases").iterdir()) == sorted(FILES)


def test_a_loop_inside_an_irreducible_one_carries_hazards_of_its_own() -> None:
    """Two slots take turns in the inner loop: what meets is one iteration apart, and never in the same one."""
    b = GraphBuilder("inner", waves=2, lanes="one")
    b.buffer("%a", 128, slots=2)
    n = b.size("N", 4)
    slot = lambda k, plus: Binary("mod", Binary("+", k, Const(plus)), Const(2))  # noqa: E731
    fork = b.add(g.Branch(None), label="fork")
    first = b.compute("first")
    with b.loop("%k", 0, n) as k:
        b.write("%a", slot=slot(k, 0), offset=Binary("*", Name("wave"), Const(64)), bytes=64)
        b.read("%a", slot=slot(k, 1), bytes=128)
    second = b.compute("second")
    again = b.add(g.Branch(None), label="again")
    b.edge(fork, second)
    b.edge(again, first)
    b.open = [again]
    b.add(g.End())
    graph = b.finish()
    assert any(not loop.reducible for loop in graph.loops)
    target = load_target("gfx942")
    assert judge(graph, target).findings
    placed = synchronize_graph(graph, target)
    assert judge(apply_to_graph(placed.plan, graph), target).findings == []


def test_one_wait_in_a_loop_is_enough_for_two_copies() -> None:
    """Only before the second copy has its group been closed. That wait is behind the first copy, too: one is enough."""
    case = kernel(
        "sm_80",
        """
  %u = alloc : lds<2x64xf32>
  iterate %k in 0 .. N {
    gather_to_lds %X[0] to %t[wave] : tile<64xf32>
    commit_group
    gather_to_lds %X[0] to %u[wave] : tile<64xf32>
  }""",
        clauses="sizes(N = 3) waves 2",
    )
    done = tg.sync(case, target="sm_80")
    assert done.checked is not None
    assert done.checked.findings == []
    assert [type(edit.op) for edit in done.plan.edits if isinstance(edit, Insert)] == [WaitCount, Fence]


def test_drain_on_the_way_to_another_is_enough() -> None:
    """One arm asks the barrier in it to drain the copy, the other the barrier before both, which all walks pass."""
    case = kernel(
        "gfx942",
        """
  gather_to_lds %X[0] to %t[wave] : tile<64xf32>
  workgroup_barrier pinned
  conditional N > 1 {
    workgroup_barrier pinned
    %b = local_read %t[1 - wave] : tile<64xf32>
  } else {
    %c = local_read %t[1 - wave] : tile<64xf32>
  }""",
        clauses="sizes(N = 2) waves 2",
    )
    done = tg.sync(case)
    assert done.checked is not None
    assert done.checked.findings == []
    assert len(done.plan.edits) == 1


def test_barrier_that_stands_for_a_wait_serves_others_too() -> None:
    """A target without counters: the copy needs a barrier before its own wave reads it, and the write has one there."""
    case = kernel(
        "gfx942",
        """
  %u = alloc : lds<2x64xf32>
  local_write %z, %u[wave]
  gather_to_lds %X[0] to %t[wave] : tile<64xf32>
  %b = local_read %t[wave] : tile<64xf32>
  %c = local_read %u[1 - wave] : tile<64xf32>""",
    )
    done = tg.sync(case, target="")
    assert done.checked is not None
    assert done.checked.findings == []
    assert [edit.op for edit in done.plan.edits if isinstance(edit, Insert)] == [
        SharedMemoryBarrier(wait_async_ops=True)
    ]
