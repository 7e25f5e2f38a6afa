"""What the AMDGCN machine finds in kernels that are wrong, and that it finds nothing in those that are right."""

from __future__ import annotations

import pytest

from oracles.amdgcn_machine.counters import Access, certain, counters_of, waits_of
from oracles.amdgcn_machine.machine import ORDERS, TIMINGS, Hostility
from oracles.amdgcn_machine.mutate import KINDS, mutants
from oracles.amdgcn_machine.text import read_instruction
from tests.machine.snippets import NEIGHBOURS, NEIGHBOURS_GFX12, run, text_of

EVERY_TIMING = [Hostility(timing, order) for timing in TIMINGS for order in ORDERS]
COPY = """
s_mov_b32 s2, 0x1000
s_mov_b32 s3, 0
v_lshlrev_b32_e32 v2, 2, v0
v_readfirstlane_b32 s4, v2
s_mov_b32 m0, s4
buffer_load_dword v2, s[0:3], 0 offen lds
s_waitcnt vmcnt(0)
s_barrier
v_xor_b32_e32 v3, 0x100, v2
ds_read_b32 v5, v3
s_waitcnt lgkmcnt(0)
global_store_dword v2, v5, s[0:1]
"""
ASYNC = """
v_lshlrev_b32_e32 v2, 2, v0
global_load_async_to_lds_b32 v2, v2, s[0:1]
s_wait_asynccnt 0x0
s_barrier_signal -1
s_barrier_wait -1
v_xor_b32_e32 v3, 0x80, v2
ds_load_b32 v5, v3
s_wait_dscnt 0x0
global_store_b32 v2, v5, s[0:1]
"""
KERNELS = {
    "neighbours": (NEIGHBOURS, "gfx942", 4),
    "neighbours of gfx12": (NEIGHBOURS_GFX12, "gfx1201", 4),
    "copy": (COPY, "gfx942", 2),
    "asynchronous copy": (ASYNC, "gfx1250", 2),
}


def without(code: str, line: str) -> str:
    assert line in code
    return code.replace(f"{line}\n", "", 1)


# --- right kernels ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("how", EVERY_TIMING, ids=str)
def test_nothing_is_found_in_a_right_kernel(name: str, how: Hostility) -> None:
    code, target, waves = KERNELS[name]
    ran = run(code, target, waves, how)
    lanes = 64 if target.startswith("gfx9") else 32
    assert ran.found.lines() == []
    count = lanes * waves
    expected = [(number + lanes) % count for number in range(count)]
    assert ran.array[:count].tolist() == expected


# --- races --------------------------------------------------------------------------------------------------------

WRONG = [
    ("neighbours", "s_barrier", "write-read"),
    ("neighbours", "s_waitcnt lgkmcnt(0)", "write-read"),  # the write is still on its way behind the barrier
    ("neighbours of gfx12", "s_barrier_signal -1\ns_barrier_wait -1", "write-read"),
    ("neighbours of gfx12", "s_wait_dscnt 0x0", "write-read"),
    ("copy", "s_barrier", "copy in-read"),
    ("copy", "s_waitcnt vmcnt(0)", "copy in-read"),
    ("asynchronous copy", "s_wait_asynccnt 0x0", "copy in-read"),
]


@pytest.mark.parametrize(("name", "line", "kind"), WRONG)
@pytest.mark.parametrize("how", EVERY_TIMING, ids=str)
def test_a_race_is_found_under_every_timing(name: str, line: str, kind: str, how: Hostility) -> None:
    """What orders accesses does not depend on when they were performed in a run."""
    code, target, waves = KERNELS[name]
    found = run(without(code, line), target, waves, how).found
    kinds = {each.kind for each in found.races}
    assert kinds <= {kind, "-".join(reversed(kind.split("-")))}
    assert kinds


@pytest.mark.parametrize("line", ["s_barrier", "s_waitcnt lgkmcnt(0)"])
def test_a_late_write_gives_wrong_numbers(line: str) -> None:
    ran = run(without(NEIGHBOURS, line), waves=4, how=Hostility("late", "ahead"))
    assert ran.array[:256].tolist() != [(number + 64) % 256 for number in range(256)]


def test_a_wait_in_flight_of_an_earlier_access_is_counted() -> None:
    """Two writes, and a wait that leaves one: only the second races."""
    code = """
    v_lshlrev_b32_e32 v2, 2, v0
    ds_write_b32 v2, v0
    ds_write_b32 v2, v0 offset:1024
    s_waitcnt lgkmcnt(1)
    s_barrier
    v_xor_b32_e32 v3, 0x100, v2
    ds_read_b32 v4, v3
    ds_read_b32 v5, v3 offset:1024
    s_waitcnt lgkmcnt(0)
    """
    races = run(code, waves=2).found.races
    assert {(each.first, each.second) for each in races} == {(6, 11)}


def test_an_early_arrival_orders_nothing_that_comes_after_it() -> None:
    """The write stands between the signal and the wait: it is after the arrival."""
    signal, wait = "s_barrier_signal -1\n", "s_barrier_wait -1\n"
    code = NEIGHBOURS_GFX12.replace(signal, "").replace("ds_store_b32", f"{signal}ds_store_b32")
    assert wait in code
    assert run(code, "gfx1201", 4).found.races


def test_a_copy_over_what_the_wave_still_reads_is_a_race_within_it() -> None:
    code = """
    s_mov_b32 s2, 0x1000
    s_mov_b32 s3, 0
    s_mov_b32 m0, 0
    v_lshlrev_b32_e32 v2, 2, v0
    ds_read_b32 v5, v2
    buffer_load_dword v2, s[0:3], 0 offen lds
    s_waitcnt vmcnt(0) lgkmcnt(0)
    """
    (race,) = run(code).found.races
    assert (race.kind, race.waves) == ("read-copy in", (0, 0))
    fixed = code.replace("buffer_load", "s_waitcnt lgkmcnt(0)\n    buffer_load")
    assert run(fixed).found.is_good


def test_shared_memory_of_one_wave_goes_in_order() -> None:
    code = "v_lshlrev_b32_e32 v2, 2, v0\nv_xor_b32_e32 v3, 4, v2\nds_write_b32 v2, v0\nds_read_b32 v4, v3"
    ran = run(f"{code}\ns_waitcnt lgkmcnt(0)")
    assert ran.found.is_good
    assert ran.v(4)[:4] == [1, 0, 3, 2]


def test_lanes_that_write_different_values_to_one_byte() -> None:
    (race,) = run("v_mov_b32_e32 v2, 0\nds_write_b32 v2, v0").found.races
    assert race.kind == "lanes"
    assert run("v_mov_b32_e32 v2, 0\nds_write_b32 v2, v2").found.is_good


def test_equal_values_of_two_waves_are_no_race_and_atomics_neither() -> None:
    write = "v_and_b32_e32 v3, 63, v0\nv_lshlrev_b32_e32 v2, 2, v3\nds_write_b32 v2, v3"
    assert run(write, waves=2).found.is_good
    assert run(write.replace("v2, v3", "v2, v0", 2).replace("v2, 2, v0", "v2, 2, v3"), waves=2).found.races
    assert run("v_mov_b32_e32 v2, 0\nds_add_u32 v2, v0", waves=2).found.is_good


# --- registers, hangs ---------------------------------------------------------------------------------------------


def test_a_register_that_is_used_before_its_wait() -> None:
    code = "v_lshlrev_b32_e32 v2, 2, v0\nglobal_load_dword v3, v2, s[0:1]\nv_add_u32_e32 v4, 1, v3"
    ran = run(code)
    assert list(ran.found.early) == [(5, 6)]
    assert "uses v3" in ran.found.early[5, 6]
    assert run(code.replace("v_add", "s_waitcnt vmcnt(0)\nv_add")).v(4)[:3] == [1, 2, 3]


def test_a_scalar_load_needs_a_wait_for_zero() -> None:
    code = "s_load_dword s4, s[0:1], 0x4\ns_load_dword s5, s[0:1], 0x8\ns_waitcnt lgkmcnt(N)\ns_add_i32 s6, s4, 1"
    assert run(code.replace("N", "1")).found.early
    assert run(code.replace("N", "0")).found.is_good


def test_two_loads_into_the_halves_of_a_register_need_no_wait_between() -> None:
    code = "v_mov_b32_e32 v2, 0\nds_read_u16_d16 v3, v2\nds_read_u16_d16_hi v3, v2\ns_waitcnt lgkmcnt(0)"
    assert run(code).found.is_good


def test_waves_that_never_meet_hang() -> None:
    code = "v_readfirstlane_b32 s4, v1\ns_cmp_eq_u32 s4, 0\ns_cbranch_scc1 .L1\ns_barrier\n.L1:\ns_barrier"
    found = run(code, waves=2).found
    assert not found.hang  # the wave that ends counts no more
    assert "hang" in run("s_barrier_wait -1", "gfx1201").found.hang
    assert "no end" in run(".L1:\ns_branch .L1").found.hang


# --- counters -----------------------------------------------------------------------------------------------------


def access(stream: str) -> Access:
    return Access(1, stream, ("c",), stream, None)


def test_a_stream_in_order_is_done_from_its_oldest_on() -> None:
    queue = [access("lds") for _ in range(4)]
    assert certain(queue, 1) == queue[:3]
    assert certain(queue, 4) == []


def test_streams_overtake_each_other() -> None:
    """Three loads and a store: a wait for two makes the oldest load certain, and the store never before zero."""
    first, store, second, third = access("load"), access("store"), access("load"), access("load")
    queue = [first, store, second, third]
    assert certain(queue, 2) == [first]
    assert certain(queue, 1) == [first, second]
    assert certain(queue, 0) == queue


def test_scalar_loads_are_certain_only_when_all_are() -> None:
    queue = [access("") for _ in range(3)]
    assert certain(queue, 1) == []
    assert certain(queue, 0) == queue


WAITS = [
    ("s_waitcnt vmcnt(3) lgkmcnt(0)", "gfx942", {"vmcnt": 3, "lgkmcnt": 0}),
    ("s_waitcnt 0xc07f", "gfx942", {"vmcnt": 63, "lgkmcnt": 0}),
    ("s_waitcnt 0x0070", "gfx942", {"vmcnt": 0, "lgkmcnt": 0}),
    ("s_waitcnt vmcnt(1)", "gfx1100", {"vmcnt": 1}),
    ("s_waitcnt_vscnt null, 0x2", "gfx1100", {"vscnt": 2}),
    ("s_wait_loadcnt 0x3", "gfx1201", {"loadcnt": 3}),
    ("s_wait_loadcnt_dscnt 0xc04", "gfx1201", {"loadcnt": 12, "dscnt": 4}),
    ("s_wait_storecnt_dscnt 0x0", "gfx1201", {"storecnt": 0, "dscnt": 0}),
    ("s_wait_tensorcnt 0x1", "gfx1250", {"tensorcnt": 1}),
    ("s_wait_xcnt 0x0", "gfx1250", {}),
    ("s_nop 0", "gfx942", None),
]


@pytest.mark.parametrize(("text", "target", "expected"), WAITS)
def test_waits(text: str, target: str, expected: dict[str, int] | None) -> None:
    assert waits_of(read_instruction(text, 1), target) == expected


def test_which_counter_an_access_counts_on() -> None:
    assert counters_of("copy", "gfx950") == (("vmcnt",), "memory")
    assert counters_of("store", "gfx942") == (("vmcnt",), "memory")
    assert counters_of("store", "gfx1100") == (("vscnt",), "store")
    assert counters_of("lds", "gfx1201") == (("dscnt",), "lds")
    assert counters_of("flat-load", "gfx942") == (("vmcnt", "lgkmcnt"), "")


# --- mutants ------------------------------------------------------------------------------------------------------

LAST = "v_mov_b32_e32 v6, 0\ns_barrier\nds_write_b32 v2, v6\n"  # what the next round of a kernel would do


def test_each_kind_of_mistake_is_made_and_seen() -> None:
    text = text_of(NEIGHBOURS + LAST)
    assert run(text, waves=4, is_text=True).found.is_good
    seen: dict[str, set[str]] = {kind: set() for kind in KINDS}
    for mutant in mutants(text):
        found = run(mutant.text, waves=4, is_text=True, how=Hostility("early", "in step")).found
        seen[mutant.kind].add("race" if found.races else "registers" if found.early else "nothing")
        assert mutant.text != text
    assert seen == {
        "barrier": {"race"},
        "count": {"race", "registers"},
        "wait": {"race", "registers"},
        "later": {"race"},
        "sooner": {"race"},
    }


def test_a_mutant_changes_one_place() -> None:
    text = text_of(NEIGHBOURS_GFX12, "gfx1201")
    for mutant in mutants(text):
        old, new = text.split("\n"), mutant.text.split("\n")
        if mutant.kind in ("later", "sooner"):
            assert sorted(old) == sorted(new)
        elif mutant.kind == "count":
            assert sum(a != b for a, b in zip(old, new, strict=True)) == 1
        else:
            gone = [each for each in old if each not in new]
            assert all("barrier" in each or "wait" in each for each in gone)


def test_an_access_does_not_move_over_what_it_needs() -> None:
    """The address of the read is made behind the barrier."""
    address = "v_add_u32_e32 v4, 0x100, v2\nv_and_b32_e32 v4, 0x3ff, v4\n"
    code = NEIGHBOURS.replace(address, "").replace("ds_read", f"{address}ds_read")
    assert "sooner" not in {each.kind for each in mutants(text_of(code))}
