"""The seeds, step by step: what each rule of theirs does here, and where it was corrected.

Every kernel that gets barriers is judged: as it was it races, with its barriers it is clean, without any one of them it
is not. Shapes are what is left of a kernel when only shared memory and synchronization are shown:

    write barrier read          `barrier` drains LDS, `barrier+copies` copies too, `bare` nothing; `drain` meets nobody
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

import tidegate as tg
from tests.conftest import ROOT, slow_examples
from tidegate import seeds
from tidegate.diag import BadInput
from tidegate.graph.apply import apply_plan
from tidegate.graph.build import build_graph
from tidegate.graph.model import Sync
from tidegate.graph.plan import Delete, Plan
from tidegate.hazards.model import Kind
from tidegate.language import ops
from tidegate.seeds import (
    BarrierEmitter,
    BarrierType,
    BasicSplitBarrierEmitter,
    LegacyBarrierEmitter,
    SyncRequirement,
    TargetConfig,
    add_shared_memory_barriers,
    find_intersecting_interval_strategy,
    get_barriers_analysis,
    handle_hazard,
    minimize_placement_strategy,
)

MONOLITHIC, COPIES, SPLIT, TDM = "gfx942", "gfx950", "gfx1201", "gfx1250"

# --- kernels ------------------------------------------------------------------------------------------------------

WRITE = "local_write %c, %t[wave]"
OTHER_WRITE = "local_write %c, %t[(wave + 1) mod 4]"
COPY = "gather_to_lds %X[wave] to %t[wave] : tile<64xf32>"
OTHER_COPY = "gather_to_lds %X[wave] to %t[(wave + 1) mod 4] : tile<64xf32>"
STORE = "lds_to_global %t[(wave + 1) mod 4] to %Y[wave] : tile<64xf32>"
ATOMIC = "atomic_add %c, %t[(wave + 1) mod 4]"
BARRIER, BARE, PINNED = "shared_memory_barrier", "workgroup_barrier", "workgroup_barrier pinned"
READ = "%r = local_read %t[(wave + 1) mod 4] : tile<64xf32>"
READ_2 = "%r2 = local_read %t[(wave + 2) mod 4] : tile<64xf32>"
OWN_READ = "%o = local_read %t[wave] : tile<64xf32>"
WORK, WORK_2, WORK_3, WORK_4 = (f"%x{n} = fill {n}.0 : tile<64xf32>" for n in range(4))


def slot(line: str, index: str) -> str:
    return line.replace("%t[", f"%t[{index}][")


def loop(*lines: str, trips: str = "N") -> str:
    return f"iterate %k in 0 .. {trips} {{\n" + "\n".join(lines) + "\n}"


def trace(*lines: str, target: str = MONOLITHIC, slots: int = 1) -> tg.CapturedTrace:
    text = f"target {target}\n\n" if target else ""
    text += "kernel @k(%X: global<4x64xf32>, %Y: global<4x64xf32>, %f: flag) sizes(N = 3) waves 4 {\n"
    text += f"  %t = alloc : lds<4x64xf32, slots = {slots}>\n  %u = alloc : lds<4x64xf32>\n"
    text += "  %c = fill 1.0 : tile<64xf32>\n" + "\n".join(lines) + "\n}\n"
    return tg.CapturedTrace(tg.parse(text, "k.tide").kernels[0])


def shape(kernel: tg.CapturedTrace | tg.Kernel) -> str:
    body = kernel.body if isinstance(kernel, tg.Kernel) else kernel.kernel.body
    return " ".join(word for op in body.ops for word in words(op))


def words(op: ops.Op) -> list[str]:
    match op:
        case ops.LocalWrite():
            return ["write"]
        case ops.LocalRead():
            return ["read"]
        case ops.AtomicAdd():
            return ["atomic"]
        case ops.GatherToLds() | ops.TensorLoadToLds():
            return ["copy"]
        case ops.LdsToGlobal():
            return ["store"]
        case ops.Fill(ops.Value(name)) if name.startswith("%x"):
            return ["work"]
        case ops.WorkgroupBarrier():
            return ["bare"]
        case ops.SharedMemoryBarrier():
            return ["barrier+copies" if op.wait_async_ops or op.counts else "barrier"]
        case ops.Signal():
            return ["signal"]
        case ops.Wait():
            return ["wait"]
        case ops.WaitCount():
            return ["drain"]
        case ops.Iterate():
            return ["for", "{", *inside(op.body), "}"]
        case ops.Conditional():
            arms = ["if", "{", *inside(op.then), "}"]
            return arms + (["else", "{", *inside(op.otherwise), "}"] if op.otherwise.ops else [])
    return []


def inside(block: ops.Block) -> list[str]:
    return [word for op in block.ops for word in words(op)]


# --- what is asked of every result --------------------------------------------------------------------------------


def codes(kernel: tg.CapturedTrace | tg.Kernel, target: str = "") -> set[str]:
    """What the judge finds; on the kernel's own target unless another is named."""
    return {each.code for each in tg.check(kernel, target or None)}


def synchronized(*lines: str, target: str = MONOLITHIC, asked: str | None = None, slots: int = 1) -> str:
    """The shape of a racy kernel after synchronization, judged."""
    asked = target if asked is None else asked
    holder = trace(*lines, target=target, slots=slots)
    before = holder.kernel
    assert codes(holder) & {"TG101", "TG102", "TG103", "TG105"}
    positions = BarrierEmitter.dispatch(TargetConfig(asked)).optimize(get_barriers_analysis(holder, asked))
    add_shared_memory_barriers(holder, asked)
    assert codes(holder) == set()
    built = build_graph(before, TargetConfig(asked).for_kernel(before))
    for left_out in positions:
        others = Plan(tuple(each.edit for each in positions if each is not left_out))
        assert codes(apply_plan(others, built)), f"without `{left_out}` it is clean too"
    return shape(holder)


def untouched(*lines: str, target: str = MONOLITHIC, slots: int = 1) -> bool:
    """Whether a clean kernel is left as it is."""
    holder = trace(*lines, target=target, slots=slots)
    before = holder.kernel
    assert codes(holder) == set()
    add_shared_memory_barriers(holder, target)
    return holder.kernel == before


def requirements(*lines: str, target: str = MONOLITHIC, slots: int = 1) -> list[SyncRequirement]:
    return get_barriers_analysis(trace(*lines, target=target, slots=slots), target)


def places(found: Sequence[SyncRequirement]) -> list[tuple[str, str, int]]:
    return [(each.kind.name, each.barrier_type.name, each.distance) for each in found]


# --- seed 000: when a barrier is needed ---------------------------------------------------------------------------


def test_read_after_write_gets_a_barrier_before_the_consumer() -> None:
    assert synchronized(WRITE, WORK, READ) == "write work barrier read"


def test_write_after_read_gets_a_barrier_before_the_consumer() -> None:
    assert synchronized(READ, WORK, WRITE) == "read work barrier write"


def test_accesses_of_the_same_kind_that_both_read_need_nothing() -> None:
    assert untouched(READ, READ_2)


def test_each_buffer_is_looked_at_alone() -> None:
    assert untouched(WRITE, "%r = local_read %u[(wave + 1) mod 4] : tile<64xf32>")


def test_bytes_of_one_wave_need_nothing() -> None:
    assert untouched(WRITE, OWN_READ)


def test_an_atomic_is_a_consumer_and_a_producer() -> None:
    assert synchronized(WRITE, ATOMIC, READ_2) == "write barrier atomic barrier read"


def test_an_atomic_without_a_consumer_gets_no_barrier_behind_it() -> None:
    assert synchronized(WRITE, ATOMIC) == "write barrier atomic"


def test_split_an_atomic_waits_before_and_signals_behind() -> None:
    found = synchronized(WRITE, WORK, ATOMIC, WORK_2, READ_2, target=SPLIT)
    assert found == "write drain signal work wait atomic drain signal work wait read"


def test_split_one_graph_signals_behind_the_producer_and_waits_before_the_consumer() -> None:
    assert synchronized(WRITE, WORK, READ, target=SPLIT) == "write drain signal work wait read"


def test_split_two_graphs_a_pair_stands_outside_of_the_loop() -> None:
    """000 leaves this to `add_signal_wait_to_subgraph`; here both halves stand in one region."""
    assert synchronized(WRITE, WORK, loop(READ), target=SPLIT) == "write drain signal work wait for { read }"


def test_a_loop_that_updates_no_producer_gets_nothing() -> None:
    assert synchronized(WRITE, loop(READ), READ_2) == "write barrier for { read } read"


# --- seed 000: barriers that stand there, copies ------------------------------------------------------------------


def test_a_barrier_between_is_enough() -> None:
    assert untouched(WRITE, BARRIER, READ)


def test_a_copy_gets_a_barrier_that_waits_for_copies() -> None:
    assert synchronized(COPY, WORK, READ, target=COPIES) == "copy work drain bare read"


def test_a_barrier_behind_a_copy_is_upgraded_not_doubled() -> None:
    assert synchronized(COPY, BARRIER, READ, target=COPIES) == "copy barrier+copies read"


def test_a_bare_barrier_is_upgraded_to_what_is_needed() -> None:
    assert synchronized(COPY, BARE, READ, target=COPIES) == "copy drain bare read"
    assert synchronized(WRITE, BARE, READ) == "write barrier read"


def test_before_a_pinned_barrier_goes_a_wait() -> None:
    assert synchronized(COPY, PINNED, READ, target=COPIES) == "copy drain bare read"


def test_an_upgrade_is_said_to_be_one() -> None:
    found = requirements(COPY, BARRIER, READ, target=COPIES)
    (position,) = minimize_placement_strategy(found)
    assert position.is_upgrade
    assert isinstance(position.op, ops.SharedMemoryBarrier)
    assert position.op.counts == (("vmcnt", 0),)
    assert position.location == found[0].start + 1


def test_a_copy_hidden_behind_a_write_is_not_forgotten() -> None:
    """The last producer is the write; the copy is still in flight when it is issued, and when the read is."""
    holder = trace(COPY, WRITE, READ, target=COPIES)
    assert codes(holder) == {"TG101", "TG105"}
    (episode,) = [each for each in get_barriers_analysis(holder) if each.kind is Kind.RAW]
    assert len(episode.producer_positions) == 2
    add_shared_memory_barriers(holder)
    assert codes(holder) == set()
    assert shape(holder) in ("copy drain write barrier read", "copy drain write barrier+copies read")


# --- seeds 000 and 001: round loops -------------------------------------------------------------------------------


def test_one_slot_needs_two_barriers_an_iteration() -> None:
    """A window that crosses iterations begins behind its producer: the barrier before the read does not count."""
    assert synchronized(loop(WRITE, READ)) == "for { write barrier read barrier }"


def test_a_barrier_before_the_producer_does_not_cover_the_way_round() -> None:
    found = synchronized(loop(WRITE, BARRIER, READ))
    assert found.count("barrier") == 2


def test_two_slots_need_one_barrier_an_iteration() -> None:
    lines = (slot(WRITE, "%k mod 2"), slot(READ, "%k mod 2"))
    assert synchronized(loop(*lines), slots=2) == "for { write barrier read }"


def test_a_consumer_of_the_next_iteration_is_found() -> None:
    found = requirements(loop(WRITE, READ))
    assert places(found) == [("RAW", "FILL", 0), ("WAR", "READY", 1)]
    assert [each.is_loop for each in found] == [False, True]


def test_distances_are_counted() -> None:
    found = requirements(loop(slot(WRITE, "%k mod 3"), slot(READ, "%k mod 3")), slots=3)
    assert places(found) == [("RAW", "FILL", 0), ("WAR", "READY", 3)]


def test_a_loop_around_a_loop() -> None:
    inner = "iterate %j in 0 .. 2 {\n" + READ + "\n}"
    found = synchronized(loop(WRITE, inner))
    assert found == "for { write barrier for { read } barrier }"


def test_a_barrier_in_a_loop_that_may_not_run_covers_nothing() -> None:
    assert synchronized(WRITE, loop(BARRIER, trips="N - 1"), READ) == "write for { barrier } barrier read"


def test_a_barrier_in_a_loop_that_runs_covers_what_is_around_it() -> None:
    assert untouched(WRITE, loop(BARRIER), READ)


def test_a_barrier_in_one_branch_covers_nothing() -> None:
    found = synchronized(WRITE, f"conditional %f {{\n{BARRIER}\n}}", READ)
    assert found in ("write if { barrier } else { barrier } read", "write if { barrier } barrier read")


def test_barriers_in_both_branches_cover() -> None:
    assert untouched(WRITE, f"conditional %f {{\n{BARRIER}\n}} else {{\n{BARRIER}\n}}", READ)


def test_a_consumer_in_a_branch() -> None:
    found = synchronized(WRITE, f"conditional %f {{\n{READ}\n}}", WORK)
    assert found == "write if { barrier read } work"


# --- seed 001: requirements ---------------------------------------------------------------------------------------


def test_a_requirement_says_who_and_where() -> None:
    (found,) = requirements(WRITE, WORK, READ)
    assert (found.resource, found.kind, found.barrier_type) == ("%t", Kind.RAW, BarrierType.FILL)
    assert (found.producer_region, found.consumer_region) == (((3,),), ((5,),))
    assert (found.start, found.end, found.is_loop, found.loop, found.distance) == (3, 5, False, "", 0)
    assert (found.graph_start, found.graph_end) == (0, 6)
    assert (found.demand, found.unordered) == (1, "")
    assert (found.witness.buffer, found.witness.last - found.witness.first) == ("%t", 256)
    assert found.witness.x_wave == (found.witness.y_wave + 1) % 4
    assert found.windows == (range(4, 6),)
    assert str(found) == "FILL: RAW %t, line 7 → line 9"


def test_a_requirement_that_crosses_iterations_has_a_window_in_two_pieces() -> None:
    (_, found) = requirements(loop(WORK, WRITE, READ, WORK_2))
    assert (found.kind, found.barrier_type, found.is_loop, found.loop) == (Kind.WAR, BarrierType.READY, True, "%k")
    head, end = found.graph_start, found.graph_end
    assert (found.end, found.start, end) == (head + 2, head + 3, head + 5)
    assert found.windows == (range(head + 4, end + 1), range(head + 1, head + 3))


def test_write_after_write_is_a_requirement() -> None:
    assert places(requirements(WRITE, OTHER_WRITE)) == [("WAW", "OVERWRITE", 0)]
    assert synchronized(WRITE, OTHER_WRITE) == "write barrier write"


def test_what_one_wave_waits_for_alone_needs_no_barrier() -> None:
    (found,) = requirements(COPY, OWN_READ, target=COPIES)
    assert (found.kind, found.barrier_type, found.demand) == (Kind.RAW, BarrierType.NONE, 0)
    assert synchronized(COPY, OWN_READ, target=COPIES) == "copy drain read"


def test_producers_and_consumers_are_gathered_into_episodes() -> None:
    first, second = "local_write %c, %t[wave, 0]", "local_write %c, %t[wave, 32]"
    half = "%c = fill 1.0 : tile<64xf32>", "%c = fill 1.0 : tile<32xf32>"
    text = tg.show(trace(first, second, READ, READ_2).kernel).replace(*half)
    (kernel,) = tg.parse(text).kernels
    (found,) = get_barriers_analysis(tg.CapturedTrace(kernel))
    assert (len(found.producer_region), len(found.consumer_region)) == (2, 2)
    assert found.start < found.end


def test_what_comes_after_a_consumer_is_another_episode() -> None:
    found = requirements(WRITE, READ, WRITE, READ_2)
    assert [each.kind.name for each in found] == ["RAW", "WAR", "RAW"]
    assert all(each.start < each.end for each in found)
    assert synchronized(WRITE, READ, WRITE, READ_2) == "write barrier read barrier write barrier read"


def test_hazards_among_some_points_only() -> None:
    """As if the others were not there: the pair that the write between them hid comes to light."""
    holder = trace(WRITE, OTHER_WRITE, READ_2)
    write, _, read = (3, 4, 5)
    assert [each.start for each in get_barriers_analysis(holder)] != [write]
    (found,) = handle_hazard(holder, [write, read])
    assert (found.start, found.end) == (write, read)
    assert handle_hazard(holder, [write]) == []


def test_what_nothing_can_order_is_said() -> None:
    holder = trace("local_write %c, %t[0]")
    (found,) = get_barriers_analysis(holder)
    assert "one statement" in found.unordered
    assert minimize_placement_strategy([found]) == []
    add_shared_memory_barriers(holder)
    assert codes(holder) == {"TG103"}


# --- seed 001: strategies -----------------------------------------------------------------------------------------


def test_minimize_one_barrier_serves_windows_that_overlap() -> None:
    other_write, other_read = (line.replace("%t", "%u").replace("%r", "%v") for line in (WRITE, READ))
    lines = (WRITE, other_write, WORK, READ, other_read)
    assert len(requirements(*lines)) == 2
    assert synchronized(*lines) == "write write work barrier read read"


def test_minimize_windows_apart_get_a_barrier_each() -> None:
    other_write, other_read = (line.replace("%t", "%u").replace("%r", "%v") for line in (WRITE, READ))
    assert synchronized(WRITE, READ, other_write, other_read) == "write barrier read write barrier read"


def test_any_subset_can_be_served() -> None:
    found = requirements(WRITE, READ, WRITE)
    assert [each.kind.name for each in found] == ["RAW", "WAR"]
    whole = minimize_placement_strategy(found)
    assert [each.location for each in whole] == [each.end for each in found]
    for each in found:
        (position,) = minimize_placement_strategy([each])
        assert position.location in each.windows[0]
    assert minimize_placement_strategy([]) == []


def test_requirements_of_two_scans_can_be_served_together() -> None:
    holder = trace(WRITE, READ, WRITE)
    found = [*handle_hazard(holder, [3, 4]), *handle_hazard(holder, [4, 5])]
    assert [each.location for each in minimize_placement_strategy(found)] == [4, 5]


def test_requirements_of_two_kernels_cannot() -> None:
    found = [*requirements(WRITE, READ), *requirements(READ, WRITE)]
    with pytest.raises(BadInput, match="different kernels"):
        minimize_placement_strategy(found)


def test_intersecting_one_pair_serves_windows_that_overlap() -> None:
    other_write, other_read = (line.replace("%t", "%u").replace("%r", "%v") for line in (WRITE, READ))
    found = synchronized(WRITE, WORK, other_write, WORK_2, READ, WORK_3, other_read, target=SPLIT)
    assert found == "write work write drain signal work wait read work read"


def test_intersecting_windows_apart_get_a_pair_each() -> None:
    found = synchronized(WRITE, WORK, READ, WORK_2, WRITE, target=SPLIT)
    assert found == "write drain signal work wait read drain signal work wait write"


def test_intersecting_signals_and_waits_take_turns() -> None:
    """Read literally, 001 offsets the consumer across the back edge and signals twice without a wait between."""
    found = synchronized(loop(WORK, WRITE, WORK_2, READ, WORK_3), target=SPLIT)
    halves = [word for word in found.split() if word in ("signal", "wait")]
    assert halves == ["signal", "wait"] * (len(halves) // 2)


def test_intersecting_a_pair_round_a_loop_comes_with_a_pair_around_it() -> None:
    lines = (WRITE, WORK, loop(WORK_2, READ, WRITE, WORK_3), WORK_4, READ_2)
    found = synchronized(*lines, target=SPLIT)
    before, body, behind = found.replace("{", "}").split("}")
    assert "signal" in before
    assert "wait" not in before
    assert body.split().index("wait") < body.split().index("read")
    assert body.split()[::-1].index("signal") < body.split()[::-1].index("wait")
    assert "wait" in behind
    assert "signal" not in behind


def test_intersecting_a_whole_pair_on_one_side_of_the_back_edge_covers_what_is_carried() -> None:
    lines = (slot(WRITE, "%k mod 2"), WORK, slot(READ, "%k mod 2"))
    assert synchronized(loop(*lines), target=SPLIT, slots=2) == "for { write drain signal work wait read }"


def test_intersecting_signals_late_for_copies() -> None:
    """To signal early would be to wait early."""
    found = synchronized(COPY, WORK, WORK_2, READ, target=TDM)
    assert found in ("copy work work drain bare read", "copy work work drain signal wait read")


def test_without_split_barriers_pairs_are_whole() -> None:
    found = requirements(WRITE, WORK, READ)
    (position,) = find_intersecting_interval_strategy(found)
    assert isinstance(position.op, ops.SharedMemoryBarrier)


# --- seed 001: emission -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "split", "named"),
    [
        ("", False, 0),
        ("none", False, 0),
        (MONOLITHIC, False, 0),
        (SPLIT, True, 0),
        (TDM, True, 16),
        ("sm_90", False, 15),
    ],
)
def test_a_target_config_is_made_of_the_facts_of_a_target(target: str, split: bool, named: int) -> None:
    config = TargetConfig(target)
    assert (config.has_split_barriers, config.has_named_barriers) == (split, bool(named))
    assert config.max_named_barriers == named
    assert isinstance(BarrierEmitter.dispatch(config), BasicSplitBarrierEmitter if split else LegacyBarrierEmitter)


def test_a_target_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BadInput, match="TG508"):
        TargetConfig("gfx9420")


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (("wait -1", "signal -1"), "TG204"),
        (("signal -1", READ), "TG205"),
        (("signal -1", "signal -1", "wait -1"), "TG203"),
        ((loop("signal -1"), "wait -1"), "TG208"),
        (("conditional %f {\nsignal -1\n}", "wait -1"), "TG208"),
        (("signal -3", "wait -3"), "TG206"),
    ],
)
def test_the_split_emitter_verifies(lines: tuple[str, ...], code: str) -> None:
    holder = trace(*lines, target=TDM)
    with pytest.raises(BadInput) as bad:
        BasicSplitBarrierEmitter(TargetConfig(TDM)).emit(holder, [])
    assert code in {each.code for each in bad.value.findings}
    assert all(each.at.line for each in bad.value.findings)


def test_the_split_emitter_accepts_pairs_that_take_turns() -> None:
    holder = trace("signal -1", WORK, "wait -1", loop("signal -1", "wait -1"), target=SPLIT)
    BasicSplitBarrierEmitter(TargetConfig(SPLIT)).emit(holder, [])


def test_the_trace_is_changed_in_place_and_its_kernel_is_not() -> None:
    holder = trace(WRITE, READ)
    before = holder.kernel
    assert add_shared_memory_barriers(holder) is None  # type: ignore[func-returns-value]
    assert (shape(before), shape(holder)) == ("write read", "write barrier read")


def test_once_is_enough() -> None:
    holder = trace(loop(WRITE, READ))
    add_shared_memory_barriers(holder)
    before = holder.kernel
    add_shared_memory_barriers(holder)
    assert holder.kernel == before


def test_requirements_of_an_older_kernel_are_refused() -> None:
    holder = trace(WRITE, READ)
    found = get_barriers_analysis(holder)
    add_shared_memory_barriers(holder)
    with pytest.raises(BadInput, match="another kernel"):
        LegacyBarrierEmitter(TargetConfig()).emit(holder, found)


# --- the target of a trace ----------------------------------------------------------------------------------------


def test_without_a_target_barriers_are_monolithic_even_if_the_kernel_names_one() -> None:
    assert synchronized(WRITE, WORK, READ, target=SPLIT, asked="") == "write work barrier read"


def test_without_a_target_arrivals_perform_nothing() -> None:
    """On sm_80 a bare barrier would do."""
    assert synchronized(WRITE, READ, target="sm_80", asked="sm_80") == "write bare read"
    holder = trace(WRITE, READ, target="sm_80")
    add_shared_memory_barriers(holder)
    assert shape(holder) == "write barrier read"


def test_without_a_target_operations_are_those_of_the_kernels_own() -> None:
    assert synchronized(COPY, OWN_READ, target=COPIES, asked="") == "copy drain read"


def test_without_any_target_nothing_is_known_of_counters() -> None:
    holder = trace(COPY, OWN_READ, target="")
    add_shared_memory_barriers(holder)
    assert shape(holder) == "copy barrier+copies read"
    for target in ("none", MONOLITHIC, COPIES):
        assert codes(trace(COPY, OWN_READ, target=""), target)
        assert codes(holder, target) == set()


def test_a_target_without_the_kernels_operations_is_refused() -> None:
    holder = trace(COPY, READ, target=COPIES)
    before = holder.kernel
    with pytest.raises(BadInput, match="TG305"):
        add_shared_memory_barriers(holder, SPLIT)
    assert holder.kernel is before


def test_another_target_than_the_kernels_own_may_be_asked_for() -> None:
    holder = trace(WRITE, WORK, READ, target=MONOLITHIC)
    add_shared_memory_barriers(holder, SPLIT)
    assert shape(holder) == "write drain signal work wait read"
    assert codes(holder, SPLIT) == set()


# --- seed 004: states of a write, and what follows them -----------------------------------------------------------

PERFORMED = "wait_count vmcnt(0)"


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        ((WRITE, READ), "write barrier read"),
        ((COPY, READ), "copy drain bare read"),
        ((COPY, PERFORMED, READ), "copy drain bare read"),
        ((READ, WRITE), "read barrier write"),
        ((WRITE, OTHER_WRITE), "write barrier write"),
        ((COPY, OTHER_WRITE), "copy drain bare write"),
        ((COPY, WRITE), "copy drain write"),
        ((READ, COPY), "read barrier copy"),
        ((WRITE, OTHER_COPY), "write barrier copy"),
        ((COPY, COPY), "copy drain copy"),
        ((COPY, OTHER_COPY), "copy drain bare copy"),
    ],
)
def test_each_pair_of_prior_state_and_operation(lines: tuple[str, ...], shown: str) -> None:
    """The table of 004 with its gaps closed: what is in flight needs order too, a wait within a wave, else both."""
    assert synchronized(*lines, target=COPIES) == shown


def test_a_barrier_does_not_clear_what_is_in_flight() -> None:
    """Either the barrier waits for the copy itself, or another one has to follow the wait."""
    found = synchronized(COPY, BARRIER, PERFORMED, READ, target=COPIES)
    assert found in ("copy barrier+copies drain read", "copy barrier drain bare read")


def test_a_wait_orders_the_own_copies_only() -> None:
    assert untouched(COPY, PERFORMED, OWN_READ, target=COPIES)
    assert synchronized(COPY, PERFORMED, READ, target=COPIES) == "copy drain bare read"


def test_a_count_promotes_all_but_the_newest() -> None:
    copies = [slot(COPY, str(number)) for number in range(3)]
    for number in range(3):
        found = synchronized(*copies, "wait_count vmcnt(1)", slot(READ, str(number)), target=COPIES, slots=3)
        assert found == "copy copy copy drain " + ("bare read" if number < 2 else "drain bare read")


def test_the_barrier_before_a_load_does_not_order_it_with_the_next_copy() -> None:
    lines = (COPY, "shared_memory_barrier wait_async_ops", READ)
    assert synchronized(loop(*lines), target=COPIES).count("barrier") == 2


def test_a_store_out_of_shared_memory_reads_it() -> None:
    assert synchronized(WRITE, STORE, target=TDM) == "write barrier store"
    assert synchronized(STORE, WRITE, target=TDM) == "store drain bare write"
    assert untouched(STORE, READ_2, target=TDM)


def test_slots_that_never_meet_get_no_barrier_between() -> None:
    """The example of 004: triple buffering, and only the barrier behind the wait that it asks for."""
    copy = "tensor_load_to_lds %X[wave] to %t[(%k + 1) mod 3][wave] : tile<64xf32>"
    lines = (copy, slot(READ, "%k mod 3"), "wait_count tensorcnt(0)", WORK)
    found = synchronized(loop(*lines), target=TDM, asked="", slots=3)
    body = found.split()
    assert body.index("read") == body.index("copy") + 1
    assert sum(word in ("bare", "barrier", "barrier+copies") for word in body) == 1


def test_slots_that_meet_do() -> None:
    copy = "tensor_load_to_lds %X[wave] to %t[%k mod 3][wave] : tile<64xf32>"
    lines = (copy, slot(READ, "%k mod 3"), "wait_count tensorcnt(0)", WORK)
    found = synchronized(loop(*lines), target=TDM, asked="", slots=3)
    assert "copy read" not in found


def test_slots_carried_by_hand_are_compared_too() -> None:
    copy = "tensor_load_to_lds %X[wave] to %t[%p][wave] : tile<64xf32>"
    body = "\n".join((copy, slot(READ, "%q"), "wait_count tensorcnt(0)"))
    step = "select(%p + 1 >= 3, 0, %p + 1), select(%q + 1 >= 3, 0, %q + 1)"
    text = f"iterate %k in 0 .. N carry(%p = 1 : index, %q = 0 : index) {{\n{body}\nyield {step}\n}}"
    found = synchronized(text.replace("iterate", "%e, %g = iterate"), target=TDM, asked="", slots=3)
    assert "copy read" in found


# --- whole kernels ------------------------------------------------------------------------------------------------

EXAMPLES = sorted((ROOT / "examples").glob("*.tide"))
# Atomics are ordered unless they are said to commute, and a hazard into a stagger is taken to be one within it.
GETS_MORE = {"histogram": 1, "gemm_pingpong": 1}


@pytest.mark.parametrize("path", slow_examples(EXAMPLES), ids=lambda path: path.stem)
def test_kernels_that_are_synchronized_stay_as_they_are(path: Path) -> None:
    for kernel in tg.parse(path.read_text(encoding="utf-8")).kernels:
        holder = tg.CapturedTrace(kernel)
        add_shared_memory_barriers(holder, kernel.target)
        assert codes(holder) == set()
        more = len(shape(holder).split()) - len(shape(kernel).split())
        assert more <= GETS_MORE.get(path.stem, 0)
        assert more or holder.kernel == kernel


@pytest.mark.parametrize("path", slow_examples(EXAMPLES), ids=lambda path: path.stem)
def test_kernels_without_their_barriers_get_them_back(path: Path) -> None:
    for kernel in tg.parse(path.read_text(encoding="utf-8")).kernels:
        bare = without_barriers(kernel)
        for target in ("", kernel.target):
            holder = tg.CapturedTrace(bare)
            add_shared_memory_barriers(holder, target)
            assert codes(holder) == set()


def without_barriers(kernel: tg.Kernel) -> tg.Kernel:
    """All that meets or drains is gone, but for barrier objects and what makes a stagger."""
    graph = build_graph(kernel, tg.load_target(kernel.target))
    gone = ops.WorkgroupBarrier | ops.SharedMemoryBarrier | ops.WaitCount | ops.Signal | ops.Wait
    points = enumerate(graph.graph.points)
    edits = [Delete(n) for n, point in points if isinstance(point.action, Sync) and isinstance(point.action.op, gone)]
    return apply_plan(Plan(tuple(edits)), graph)


# --- the page -----------------------------------------------------------------------------------------------------


PUBLIC = [name for name in seeds.__all__ if name not in ("Analysis", "BarrierPosition")]


def test_the_page_names_what_there_is() -> None:
    page = (ROOT / "docs/seeds.md").read_text(encoding="utf-8")
    source = ROOT / "src/tidegate"
    files = set(re.findall(r"`([a-z_/]+\.py)`", page))
    assert {each for each in files if not (source / each).exists() and not (ROOT / each).exists()} == set()
    named = re.findall(r"`([\w.]+)` in `([a-z_/]+\.py)`", page)
    assert len(named) > 10
    for name, file in named:
        assert re.search(rf"\b{name.split('.')[-1]}\b", (source / file).read_text(encoding="utf-8")), (name, file)
    for name in PUBLIC:
        assert f"`{name}" in page, name
