"""`tidegate.wave.check`: what is wrong with Wave's own barriers, and with traces that were damaged on purpose.

Every class of mistake that is known of barrier passes has a kernel here: in Wave's own output where this version makes
the mistake, else in a trace with one thing changed.
"""

from __future__ import annotations

from typing import Any

import pytest
import sympy

from oracles.wave_traces.wave_traces import (
    codes,
    erase,
    findings_of,
    in_a_loop,
    in_loops,
    nodes,
    op_of,
    put_after,
    put_before,
    reached_graphs,
    said,
)

RAW, WAR, WAW, WITHIN, LANES = "TG101", "TG102", "TG103", "TG105", "TG108"


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVE_CACHE_ON", "0")


# --- Wave's own output --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["gfx942", "gfx1201"])
def test_what_wave_places_right_is_clean(target: str) -> None:
    assert findings_of("gemm-none", target) == []


def test_one_slot_written_again_while_it_is_still_read() -> None:
    (found,) = findings_of("pass-around", "gfx942")
    assert found.code == WAR
    assert "is in a later iteration" in found.help
    assert [label.at.file.rsplit("/", 1)[-1] for label in found.labels] == ["control_flow.py"] * 2
    assert found.labels[0].at.line != found.labels[1].at.line
    assert "nodes: `read_1_shared_M:0_N:0` and `write_shared_M:0_N:0`" in found.notes
    facts = dict(found.witness)
    assert facts["hazard"] == "WAR"
    assert dict(facts["first"])["wave"] != dict(facts["second"])["wave"]  # type: ignore[arg-type, call-overload]


def test_a_write_against_an_atomic() -> None:
    """Between waves, and between lanes of one: of what goes through a mapping nobody says which lane touches it."""
    findings = findings_of("atomic-add-4", "gfx942")
    # Wave takes the mapping of an atomic for that of a read, and leaves the buffer.
    assert codes(findings) - {"TG403"} == {WAW, LANES}
    (found,) = (each for each in findings if each.code == WAW)
    assert "adds to" in found.labels[0].text + found.labels[1].text


def test_a_copy_that_no_barrier_waits_for() -> None:
    found = findings_of("gemm-half-async-modulo", "gfx942")
    assert codes(found) == {RAW, WITHIN}
    assert any("asynchronously" in label.text for each in found for label in each.labels)
    assert any("more pairs of nodes like it" in text for text in said(found))


def test_buffers_that_share_bytes() -> None:
    assert codes(findings_of("gemm-same-bytes", "gfx942")) == {WAR, LANES}


def test_bare_barriers_of_two_clusters_do_not_drain_reads() -> None:
    found = findings_of("pingpong", "gfx1250")
    assert codes(found) == {WAR}
    assert any("has not waited for the read" in text for text in said(found))


# --- damaged on purpose -------------------------------------------------------------------------------------------


def test_a_barrier_in_one_branch_only_covers_nothing() -> None:
    def into_the_branch(trace: Any) -> None:
        (barrier,) = nodes(trace, "shared_memory_barrier")
        (branch,) = nodes(trace, "conditional")
        write = in_loops(trace, "write")[0]
        erase(barrier)
        assert write.graph.parent_op is branch
        put_after(write, "SharedMemoryBarrier")

    found = findings_of("one-writes", "gfx942", into_the_branch)
    assert found
    assert not codes(found) & {"TG008"}


@pytest.mark.parametrize(("trips", "wrong"), [(sympy.Symbol("UNKNOWN"), {RAW, WAR}), (0, {RAW, WAR}), (1, {WAR})])
def test_a_barrier_in_a_loop_that_may_not_run_covers_nothing(trips: object, wrong: set[str]) -> None:
    def into_a_loop(trace: Any) -> None:
        (barrier,) = nodes(trace, "shared_memory_barrier")
        in_a_loop(trace, barrier, trips)

    assert codes(findings_of("pass-around", "gfx942", into_a_loop)) == wrong


def test_nested_loops_need_each_of_their_barriers() -> None:
    assert findings_of("gemm-nested", "gfx942") == []

    def without_the_first(trace: Any) -> None:
        erase(nodes(trace, "shared_memory_barrier")[0])

    assert codes(findings_of("gemm-nested", "gfx942", without_the_first)) & {RAW, WAR}


def test_write_after_write() -> None:
    def the_same_place(trace: Any) -> None:
        """The second write lands where another wave has written first."""
        first, second = in_loops(trace, "write")[:2]
        erase(*nodes(trace, "shared_memory_barrier")[1:])
        threads = sympy.Symbol("$T0", integer=True, nonnegative=True)
        second.args = (second.args[0], first.args[1], *second.args[2:])
        moved = {dim: type(each)(each.start, each.size, each.stride) for dim, each in first.index.items()}
        dim = next(iter(moved))
        own = next(each for each in first.index[dim].start.free_symbols if str(each) == str(threads))
        moved[dim].start = first.index[dim].start.subs({own: sympy.Mod(own + 64, 128)})
        second.index = moved

    found = findings_of("gemm-none", "gfx942", the_same_place)
    assert WAW in codes(found)


def test_scatter_add_is_an_access() -> None:
    def scattered(trace: Any) -> None:
        """The same memory through the operation that Wave's own pass does not look at."""
        (atomic,) = nodes(trace, "atomic_add")
        atomic.tkw_op_name = "scatter_add"
        value, memory = atomic.args[:2]
        atomic.args = (value, value, 0, memory, None, 1, None)

    found = findings_of("atomic-add-4", "gfx942", scattered)
    assert codes(found) - {"TG403"} == {WAW, LANES}


def test_a_copy_behind_a_barrier_that_stood_there_before() -> None:
    def does_not_wait(trace: Any) -> None:
        for each in nodes(trace, "shared_memory_barrier"):
            each.args = (False, False)

    assert findings_of("gemm-async-none", "gfx950") == []
    assert codes(findings_of("gemm-async-none", "gfx950", does_not_wait)) == {RAW, WITHIN}


def test_a_wait_that_does_not_drain_shared_memory() -> None:
    def waits_for_loads(trace: Any) -> None:
        for each in nodes(trace, "shared_memory_barrier"):
            put_before(each, "MemoryCounterWait", 0, None, None, None)
            put_before(each, "WorkgroupBarrier")
            erase(each)

    def waits_for_all(trace: Any) -> None:
        for each in nodes(trace, "shared_memory_barrier"):
            put_before(each, "MemoryCounterWait", 0, None, 0, None)
            put_before(each, "WorkgroupBarrier")
            erase(each)

    found = findings_of("pass-around", "gfx942", waits_for_loads)
    assert RAW in codes(found)
    assert codes(findings_of("pass-around", "gfx942", waits_for_all)) == {WAR}


@pytest.mark.parametrize("last", [False, True])
def test_three_buffers_in_turn_and_what_follows_the_loop(last: bool) -> None:
    def without_one(trace: Any) -> None:
        everywhere, around = nodes(trace, "shared_memory_barrier"), in_loops(trace, "shared_memory_barrier")
        erase([each for each in everywhere if each not in around][-1] if last else around[0])

    assert findings_of("gemm-four-stage-3", "gfx942") == []
    assert codes(findings_of("gemm-four-stage-3", "gfx942", without_one)) & {RAW, WAR}


@pytest.mark.parametrize(
    "turn", [(1, 2, 0), (1, 0, 2), (1, 2, 1), (1, 1, 0), (1, 2, 2), (0, 1, 1), (0, 0, 1), (1, 0, 0)]
)
def test_buffers_whose_turn_was_changed(turn: tuple[int, int, int]) -> None:
    """The loop reads its second buffer and writes its third between two barriers: a race once both are one."""

    def change(trace: Any) -> None:
        for graph in reached_graphs(trace):
            (end,) = (node for node in graph.nodes if op_of(node) == "output")
            values = list(end.args[0] or ())
            places = [index for index, value in enumerate(values) if "outer_rotating" in getattr(value, "name", "")]
            if len(places) == 6:
                names = sorted((values[index] for index in places[:3]), key=lambda value: str(value.name))
                for index, source in zip(places[:3], turn, strict=True):
                    values[index] = names[source]
                end.args = (values,)
                changed.append(end)

    changed: list[Any] = []
    slots, meet = (0, 1, 2), False
    for _ in range(6):
        meet |= slots[1] == slots[2]
        slots = (slots[turn[0]], slots[turn[1]], slots[turn[2]])
    assert codes(findings_of("gemm-four-stage-3", "gfx942", change)) == ({WAR, LANES} if meet else set())
    assert len(changed) == 1


def test_two_clusters_with_bare_barriers_alone() -> None:
    def bare(trace: Any) -> None:
        for each in in_loops(trace, "shared_memory_barrier"):
            put_before(each, "WorkgroupBarrier")
            erase(each)

    assert findings_of("pingpong-square", "gfx942") == []
    found = findings_of("pingpong-square", "gfx942", bare)
    assert codes(found) & {RAW, WAR}


def test_an_operation_that_nobody_has_described_is_reported() -> None:
    def renamed(trace: Any) -> None:
        next(node for node in nodes(trace, "read") if "shared" in node.name).tkw_op_name = "read_sideways"

    found = findings_of("pass-around", "gfx942", renamed)
    assert "TG407" in codes(found)
    assert any("its effect on shared memory is unknown" in text for text in said(found))


def test_advice_names_a_barrier_that_nothing_needs() -> None:
    def twice(trace: Any) -> None:
        put_before(nodes(trace, "shared_memory_barrier")[0], "SharedMemoryBarrier")

    assert not codes(findings_of("gemm-none", "gfx942", twice))
    assert codes(findings_of("gemm-none", "gfx942", twice, advice=True)) == {"TG401"}
