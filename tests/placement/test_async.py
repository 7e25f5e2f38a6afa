"""Asynchronous copies: counts, dependences as values, waits that stand in a program, waits and barriers together."""

from __future__ import annotations

import random
import re

import pytest

import tidegate as tg
from oracles.programs.random_async import random_async_kernel
from tests.conftest import ROOT
from tests.placement.test_seeds import COPIES, COPY, OTHER_COPY, OTHER_WRITE, READ, WRITE, codes, synchronized
from tidegate.graph import model as g
from tidegate.graph.build import build_graph
from tidegate.graph.flow import flow_of
from tidegate.hazards.find import find_hazards
from tidegate.language import ops
from tidegate.language.show import show
from tidegate.placement.place import Options, place
from tidegate.synchronize.deps import with_counts, with_deps
from tidegate.targets import load_target
from tidegate.waits.counts import count_waits
from tidegate.waits.values import drop_dead_deps

HEAD = "(%X: global<Nx4x64xf32>, %Y: global<Nx4x64xf32>, %f: flag) sizes(N = 6) where(N >= 3) waves 4 {\n"


def kernel(*lines: str, target: str = "gfx950", slots: int = 3) -> ops.Kernel:
    text = f"target {target}\nkernel @k{HEAD}  %t = alloc : lds<4x64xf32, slots = {slots}>\n"
    return tg.parse(text + "\n".join(lines) + "\n}\n", "k.tide").kernels[0]


def copy(row: str, slot: str, name: str = "", word: str = "gather_to_lds") -> str:
    return f"{name + ' = ' if name else ''}{word} %X[{row}, wave] to %t[{slot}][wave] : tile<64xf32>"


def read(row: str, slot: str) -> str:
    return f"%a = local_read %t[{slot}][(wave + 1) mod 4] : tile<64xf32>\nglobal_write %a, %Y[{row}, wave]"


def counts(found: ops.Kernel) -> list[dict[str, int]]:
    waits = (op for op in ops.walk_ops(found.body) if isinstance(op, ops.SharedMemoryBarrier | ops.WaitCount))
    return [dict(op.counts) for op in waits]


def populated(found: ops.Kernel) -> list[dict[str, int]]:
    trace = tg.CapturedTrace(found)
    tg.populate_barriers_counters(trace)
    assert tg.parse(show(trace.kernel)).kernels[0] == trace.kernel
    return counts(trace.kernel)


# --- counts from values -------------------------------------------------------------------------------------------

STAGES = (
    copy("0", "0", "%p0"),
    copy("1", "1", "%p1"),
    copy("2", "2", "%p2"),
    "%o0, %o1, %o2 = iterate %k in 0 .. N - 3 carry(%d0 = %p0 : dep, %d1 = %p1 : dep, %d2 = %p2 : dep) {",
    "wait_count deps({})",
    copy("%k + 3", "%k mod 3", "%new"),
    "yield %d1, %d2, %new",
    "}",
)


def stages(dep: str) -> ops.Kernel:
    return kernel(*(line.replace("{}", dep) if "deps" in line else line for line in STAGES))


def test_a_pipeline_of_three_stages_gets_two() -> None:
    """The oldest of three leaves two in flight; the last one issued would give 0."""
    assert [populated(stages(dep)) for dep in ("%d0", "%d1", "%d2")] == [[{"vmcnt": 2}], [{"vmcnt": 1}], [{"vmcnt": 0}]]
    assert populated(stages("%d0, %d1")) == [{"vmcnt": 1}]


def test_a_path_without_a_copy_sets_no_bound() -> None:
    lines = (
        "%none = null_async_dep",
        "%d = conditional %f : dep {",
        copy("0", "0", "%c"),
        copy("1", "1"),
        "yield %c",
        "} else {",
        "yield %none",
        "}",
        "wait_count deps(%d)",
    )
    assert populated(kernel(*lines)) == [{"vmcnt": 1}]


def test_the_shortest_path_counts() -> None:
    lines = (
        copy("0", "0", "%c"),
        "conditional %f {",
        copy("1", "1"),
        copy("2", "2"),
        "}",
        copy("1", "1"),
        "wait_count deps(%c)",
    )
    assert populated(kernel(*lines)) == [{"vmcnt": 1}]


def test_a_loop_that_may_not_run_counts_nothing() -> None:
    lines = (copy("0", "0", "%c"), "iterate %k in 3 .. N {", copy("%k", "1"), "}", "wait_count deps(%c)")
    assert populated(kernel(*lines)) == [{"vmcnt": 0}]


def test_stores_and_reads_do_not_count_on_any_counter() -> None:
    """A compiler may merge, delete or jump over them: only copies are certain to be issued."""
    store = "%x = fill 1.0 : tile<64xf32>\nglobal_write %x, %Y[0, wave]"
    assert populated(kernel(copy("0", "0", "%c"), store, "wait_count deps(%c)")) == [{"vmcnt": 0}]
    assert populated(kernel(copy("0", "0", "%c"), store, copy("1", "1"), "wait_count deps(%c)")) == [{"vmcnt": 1}]
    lines = (copy("0", "0", "%c", "tensor_load_to_lds"), store, "wait_count deps(%c)")
    assert populated(kernel(*lines, target="gfx1250")) == [{"tensorcnt": 0}]


def test_groups_are_counted_where_the_target_counts_groups() -> None:
    lines = (copy("0", "0", "%c"), "commit_group", copy("1", "1"), "commit_group", "wait_count deps(%c)")
    assert populated(kernel(*lines, target="sm_80")) == [{"group": 1}]
    lines = (copy("0", "0"), "%g = commit_group", copy("1", "1"), "commit_group", "wait_count deps(%g)")
    assert populated(kernel(*lines, target="sm_80")) == [{"group": 1}]


def test_a_copy_in_no_group_has_no_count() -> None:
    found = kernel(copy("0", "0", "%c"), "wait_count deps(%c)", target="sm_80")
    flow = flow_of(build_graph(found, load_target("sm_80")).graph)
    (counted,) = count_waits(flow, load_target("sm_80")).values()
    assert not counted.counts
    assert counted.uncountable


def test_a_count_is_cut_at_what_the_counter_can_tell() -> None:
    many = [copy("0", "0", "%c"), *[copy("1", "1")] * 70, "wait_count deps(%c)"]
    assert populated(kernel(*many)) == [{"vmcnt": load_target("gfx950").counters["vmcnt"].largest}]


def test_counts_are_made_anew_after_reordering() -> None:
    before = kernel(copy("0", "0", "%c"), copy("1", "1"), "wait_count vmcnt(1) deps(%c)")
    after = kernel(copy("1", "1"), copy("0", "0", "%c"), "wait_count vmcnt(1) deps(%c)")
    assert populated(before) == [{"vmcnt": 1}]
    assert populated(after) == [{"vmcnt": 0}]
    assert "TG107" in codes(after)


def merges(count: int) -> g.SyncGraph:
    """A copy, then so many conditionals one after the other, then a wait: 2 to the power of `count` paths."""
    lines = [copy("0", "0", "%c")]
    for _ in range(count):
        lines += ["conditional %f {", copy("1", "1"), copy("1", "1"), "} else {", copy("2", "2"), "}"]
    return build_graph(kernel(*lines, "wait_count deps(%c)"), load_target("gfx950")).graph


@pytest.mark.parametrize("count", [1, 8, 40, 64])
def test_a_chain_of_merges_is_not_walked_path_by_path(count: int) -> None:
    (counted,) = count_waits(flow_of(merges(count)), load_target("gfx950")).values()
    assert counted.counts == {"vmcnt": min(count, 62)}


# --- dependences as values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_values_say_what_waits_are_for(seed: int) -> None:
    """Counts made from the values are those that were placed, or looser where another wait has done it."""
    before, target, _ = random_async_kernel(random.Random(seed))
    result = tg.sync(before, target.name, strategy="minimal", judge=False)
    assert result.kernel is not None
    named, _ = with_deps(result.kernel, target)
    assert tg.parse(show(named)).kernels[0] == named
    assert not [each for each in tg.check(named, target.name) if each.is_bad_input or each.code == "TG107"]
    assert drop_dead_deps(named) == named
    for was, now in zip(counts(named), counts(with_counts(named, target)), strict=True):
        assert all(now[name] >= count for name, count in was.items() if name in now)
    bare = drop_dead_deps(_unnamed(named))
    assert not any(isinstance(op, ops.NullAsyncDep) for op in ops.walk_ops(bare.body))


def _unnamed(found: ops.Kernel) -> ops.Kernel:
    from dataclasses import replace

    def block(inner: ops.Block, _: int = 0) -> ops.Block:
        new = []
        for op in inner.ops:
            if isinstance(op, ops.SharedMemoryBarrier | ops.WaitCount):
                op = replace(op, async_deps=())
            new.append(ops.map_blocks(op, block))
        return replace(inner, ops=tuple(new))

    return replace(found, body=block(found.body))


def test_an_old_instance_is_carried_as_often_as_it_is_old() -> None:
    lines = (
        copy("0", "0"),
        copy("1", "1"),
        "iterate %k in 0 .. N - 2 {",
        copy("%k + 2", "(%k + 2) mod 3"),
        read("%k", "%k mod 3"),
        "}",
    )
    result = tg.sync(kernel(*lines), "gfx950", strategy="minimal", async_deps=True)
    assert result.kernel is not None
    (loop,) = [op for op in ops.walk_ops(result.kernel.body) if isinstance(op, ops.Iterate)]
    barrier = next(op for op in loop.body.ops if isinstance(op, ops.SharedMemoryBarrier))
    assert barrier.counts == (("vmcnt", 1),)
    copied = next(op for op in loop.body.ops if isinstance(op, ops.GatherToLds))
    steps = {each.value: new for each, new in zip(loop.carried, loop.body.yields, strict=True)}
    older = [steps.get(steps.get(dep)) for dep in barrier.async_deps]  # type: ignore[call-overload]
    assert copied.result in older


# --- what is in flight --------------------------------------------------------------------------------------------

FIRST = {"read": READ, "write": WRITE, "copy": COPY}
SECOND = {"read": READ, "write": OTHER_WRITE, "copy": OTHER_COPY}


def rows_of_004() -> list[str]:
    page = (ROOT / "docs" / "async.md").read_text(encoding="utf-8")
    table = page[page.index("| now | before |") :].split("\n\n")[0]
    return [match[1] for match in re.finditer(r"`([^`]+)` \|$", table, re.MULTILINE)]


def test_the_page_has_the_eight_rules_of_004() -> None:
    assert len(rows_of_004()) == 8


@pytest.mark.parametrize("row", rows_of_004())
def test_each_rule_of_004(row: str) -> None:
    first, *_, second = row.split()
    of_others = FIRST if first == "read" else SECOND  # a wave reads what another one writes
    assert synchronized(FIRST[first], of_others[second], target=COPIES) == row


def example_of_004(*, copies_first: bool, stagger: int) -> list[str]:
    """What `sync` puts into the triple-buffered loop with two stages, as points of its body in order."""
    copies = [copy("%k + 2", "(%k + 2) mod 3", word="tensor_load_to_lds")]
    body = [*copies, read("%k", "%k mod 3")] if copies_first else [read("%k", "%k mod 3"), *copies]
    lines = [
        copy("0", "0", word="tensor_load_to_lds"),
        copy("1", "1", word="tensor_load_to_lds"),
        "wait_count tensorcnt(1)",
        "iterate %k in 0 .. N - 2 {",
        *body,
        "wait_count tensorcnt(1)",
        "}",
    ]
    result = tg.sync(kernel(*lines, target="gfx1250"), "gfx1250", stagger=stagger)
    assert result.checked is not None
    assert not result.checked.findings
    assert result.kernel is not None
    (loop,) = [op for op in ops.walk_ops(result.kernel.body) if isinstance(op, ops.Iterate)]
    words = {"SharedMemoryBarrier": "barrier", "WorkgroupBarrier": "barrier", "Signal": "barrier"}
    return [words.get(type(op).__name__, type(op).__name__) for op in loop.body.ops]


@pytest.mark.parametrize("copies_first", [True, False])
@pytest.mark.parametrize(("stagger", "barriers"), [(0, 1), (1, 2)])
def test_the_example_of_004(copies_first: bool, stagger: int, barriers: int) -> None:
    body = example_of_004(copies_first=copies_first, stagger=stagger)
    assert body.count("barrier") == barriers
    if stagger == 0:
        ends = sorted((body.index("TensorLoadToLds"), body.index("LocalRead")))
        assert "barrier" not in body[ends[0] : ends[1]]


def test_a_wait_behind_a_barrier_gets_a_barrier_behind_it() -> None:
    lines = (copy("0", "0"), "shared_memory_barrier", "wait_count vmcnt(0)", read("0", "0"))
    result = tg.sync(kernel(*lines))
    assert result.kernel is not None
    kinds = [type(op).__name__ for op in result.kernel.body.ops]
    assert kinds.index("WorkgroupBarrier") == kinds.index("WaitCount") + 1


# --- waits that stand in a program --------------------------------------------------------------------------------


def tightened(*lines: str, target: str = "gfx950") -> tuple[list[dict[str, int]], list[dict[str, int]]]:
    """Counts after `sync` without and with leave to change them; both judged."""
    found = []
    for tighten in (False, True):
        result = tg.sync(kernel(*lines, target=target), target, tighten_waits=tighten)
        assert result.checked is not None
        assert not [each for each in result.checked.findings if each.severity == "error"]
        assert result.kernel is not None
        found.append(counts(result.kernel))
    return found[0], found[1]


def test_a_count_that_is_too_tight_stays_unless_it_may_change() -> None:
    lines = (copy("0", "0"), copy("1", "1"), "shared_memory_barrier vmcnt(0)", read("0", "0"))
    assert tightened(*lines) == ([{"vmcnt": 0}], [{"vmcnt": 1}])


def test_a_count_that_is_too_loose_stays_and_gets_another_beside_it() -> None:
    lines = (copy("0", "0"), copy("1", "1"), "shared_memory_barrier vmcnt(2)", read("0", "0"))
    kept, changed = tightened(*lines)
    assert {"vmcnt": 2} in kept
    assert {"vmcnt": 1} in kept
    assert {"vmcnt": 2} not in changed
    assert {"vmcnt": 1} in changed


def test_a_wait_that_nobody_needs_goes() -> None:
    lines = (
        copy("0", "0"),
        "wait_count vmcnt(0)",
        "shared_memory_barrier vmcnt(0)",
        read("0", "0"),
    )
    kept, changed = tightened(*lines)
    assert kept == [{"vmcnt": 0}, {"vmcnt": 0}]
    assert sum(bool(each) for each in changed) == 1


def test_pinned_barriers_and_other_counters_stay() -> None:
    lines = (copy("0", "0"), copy("1", "1"), "shared_memory_barrier vmcnt(0) pinned", read("0", "0"))
    assert tightened(*lines)[1] == [{"vmcnt": 0}]
    lines = (copy("0", "0"), copy("1", "1"), "wait_count lgkmcnt(0) vmcnt(0)", "workgroup_barrier", read("0", "0"))
    assert tightened(*lines)[1] == [{"lgkmcnt": 0, "vmcnt": 1}]


# --- waits and barriers together ----------------------------------------------------------------------------------


def plans(found: ops.Kernel) -> dict[str, list[str]]:
    target = load_target(found.target)
    hazards = find_hazards(flow_of(build_graph(found, target).graph), target)
    return {
        waits: [type(edit.op).__name__ for edit in place(hazards, target, Options(waits=waits)).plan.edits]  # type: ignore[union-attr]
        for waits in ("merged", "late", "latest")
    }


TWO_SLOTS = (
    copy("0", "0"),
    "iterate %k in 0 .. N - 1 {",
    copy("%k + 1", "(%k + 1) mod 2"),
    read("%k", "%k mod 2"),
    "}",
)


def test_late_waits_take_one_more_barrier_where_merging_moves_them() -> None:
    found = plans(kernel(*TWO_SLOTS, slots=2))
    assert found["merged"] == ["SharedMemoryBarrier"]
    assert found["late"] == ["SharedMemoryBarrier", "WaitCount", "WorkgroupBarrier"]


def test_what_was_considered_is_said() -> None:
    result = tg.sync(kernel(*TWO_SLOTS, slots=2))
    said = [note for note in result.notes if "cycles" in note]
    assert len(said) >= 2
    assert sum(note.startswith("taken") for note in said) == 1


def test_a_strategy_that_is_asked_for_is_taken() -> None:
    result = tg.sync(kernel(*TWO_SLOTS, slots=2), strategy="minimal")
    assert not [note for note in result.notes if "cycles" in note]
    assert [type(edit.op).__name__ for edit in result.plan.edits] == ["SharedMemoryBarrier"]  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", range(40))
def test_what_the_cost_model_chooses_is_clean(seed: int) -> None:
    before, target, _ = random_async_kernel(random.Random(1000 + seed))
    for tighten in (False, True):
        result = tg.sync(before, target.name, tighten_waits=tighten)
        assert result.checked is not None
        assert not [each for each in result.checked.findings if each.severity == "error"]
