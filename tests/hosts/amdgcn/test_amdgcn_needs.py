"""The loosest counts of AMD assembly: what registers, memory and the end ask of a wait, each rule with its twin."""

from __future__ import annotations

import pytest

from oracles.programs.amdgcn_kernels import kernel
from tidegate.hosts.amdgcn.needs import GONE, Needs
from tidegate.hosts.amdgcn.parse import parse_amdgcn
from tidegate.targets import load_target


def needs_of(body: str, target: str = "gfx942") -> Needs:
    (text,) = parse_amdgcn(kernel(body, target), "k.s").kernels
    return Needs(text.body, load_target(target), True)


def largest(body: str, target: str = "gfx942", number: int = 0) -> dict[str, int]:
    """The largest count for each counter of one wait, by its number in the text."""
    needs = needs_of(body, target)
    assert not needs.why_not
    place = sorted(needs.counts)[number]
    return {counter: needs.largest(place, counter) for counter in needs.counts[place]}


LOADS = """
global_load_dword v1, v9, s[2:3]
global_load_dword v2, v9, s[2:3] offset:4
global_load_dword v3, v9, s[2:3] offset:8
s_waitcnt vmcnt(0)
{use}
s_waitcnt vmcnt(0)
v_add_u32_e32 v5, v2, v3
"""


@pytest.mark.parametrize(
    ("use", "count"),
    [
        ("v_mov_b32_e32 v4, v1", 2),  # the oldest is needed, two may stay in flight
        ("v_mov_b32_e32 v4, v2", 1),
        ("v_mov_b32_e32 v4, v3", 0),
        ("v_mov_b32_e32 v3, 0", 0),  # it would be overwritten by what was loaded
        ("v_mov_b32_e32 v4, v8", GONE),  # the next wait is early enough for all
        ("global_load_dword v1, v9, s[2:3]", 2),  # nobody says that two loads write a register in order
        ("global_store_dword v9, v8, s[2:3]", 0),  # others may take it for a sign that this wave has read
        ("buffer_wbl2 sc1", 0),
        ("ds_write_b32 v9, v8", GONE),
        ("ds_add_u32 v9, v8", 0),
        ("s_barrier", GONE),
        ("s_endpgm", 0),
    ],
)
def test_what_relies_on_a_load(use: str, count: int) -> None:
    assert largest(LOADS.format(use=use))["vmcnt"] == count


def test_a_barrier_with_a_store_behind_it_keeps_reads_before_it() -> None:
    """Another wave may store behind the barrier where this one still reads; behind the next barrier it may not."""
    store = "global_store_dword v9, v8, s[2:3]\n"
    waits = "s_waitcnt vmcnt(0)\ns_barrier\n{}s_waitcnt vmcnt(0)\ns_barrier\n"
    load = "global_load_dword v1, v9, s[2:3]\n"
    assert largest(load + waits.format("") + store)["vmcnt"] == GONE
    assert largest(load + waits.format(store) + store)["vmcnt"] == 0


def test_scalar_loads_return_in_any_order() -> None:
    scalar = "s_load_dword s8, s[0:1], 0x0\ns_load_dword s9, s[0:1], 0x4\ns_waitcnt lgkmcnt(0)\ns_mov_b32 s10, s8"
    assert largest(scalar)["lgkmcnt"] == 0
    shared = scalar.replace("s_load_dword s8, s[0:1], 0x0", "ds_read_b32 v8, v1").replace("s10, s8", "s10, s11")
    assert largest(f"{shared}\ns_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v2, v8")["lgkmcnt"] == GONE
    assert largest(shared.replace("s10, s11", "s10, s9"))["lgkmcnt"] == 0


def test_reads_of_shared_memory_return_in_order() -> None:
    body = "ds_read_b32 v1, v9\nds_read_b32 v2, v9 offset:4\ns_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v3, {}"
    body += "\ns_waitcnt lgkmcnt(0)"
    assert largest(body.format("v1"))["lgkmcnt"] == 1
    assert largest(body.format("v2"))["lgkmcnt"] == 0


def test_a_mask_that_is_loaded_is_used_without_a_name() -> None:
    body = "s_load_dwordx2 vcc, s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\n{}\ns_waitcnt lgkmcnt(0)"
    assert largest(body.format("v_div_fmas_f32 v1, v2, v3, v4"))["lgkmcnt"] == 0
    assert largest(body.format("s_nop 0"))["lgkmcnt"] == GONE


def test_stores_are_waited_for_as_before() -> None:
    """Who relies on them stands elsewhere: another wave, another block."""
    body = "{}\nglobal_load_dword v1, v9, s[2:3]\ns_waitcnt vmcnt(1)\ns_waitcnt vmcnt(0)\nv_mov_b32_e32 v2, v1"
    assert largest(body.format("global_store_dword v9, v8, s[2:3]"))["vmcnt"] == 1
    assert largest(body.format("global_load_dword v4, v9, s[2:3]"))["vmcnt"] == GONE
    assert largest(body.format("global_load_dword v4, v9, s[2:3] sc1"))["vmcnt"] == 1
    assert largest(body.format("global_atomic_add v9, v8, s[2:3]"))["vmcnt"] == 1


@pytest.mark.parametrize("target", ["gfx1100", "gfx1201"])
def test_counters_of_stores_are_never_loosened(target: str) -> None:
    wait = "s_waitcnt_vscnt null, 0x0" if target == "gfx1100" else "s_wait_storecnt 0x0"
    body = f"v_mov_b32_e32 v1, 0\n{wait}\ns_nop 0"
    assert set(largest(body, target).values()) == {0}


def test_what_a_loop_leaves_in_flight_comes_round() -> None:
    """One load of a round is used in the next; another one in the same round, behind a wait of its own."""
    loop = """
    global_load_dword v1, v9, s[2:3]
    .LBB0_1:
    s_waitcnt vmcnt(0)
    {}
    global_load_dword v1, v9, s[2:3]
    s_cbranch_scc1 .LBB0_1
    s_waitcnt vmcnt(0)
    """
    assert largest(loop.format("v_mov_b32_e32 v2, v1"))["vmcnt"] == 0
    other = loop.replace(".LBB0_1:\n", ".LBB0_1:\n global_load_dword v3, v9, s[2:3]\n")
    other = other.replace("s_cbranch", "s_waitcnt vmcnt(1)\nv_mov_b32_e32 v4, v3\ns_cbranch")
    assert largest(other.format("v_mov_b32_e32 v2, v1"))["vmcnt"] == 1
    assert largest(other.format("v_mov_b32_e32 v2, v3"))["vmcnt"] == 0
    without = other.replace("s_waitcnt vmcnt(1)\nv_mov_b32_e32 v4, v3\n", "")
    assert largest(without.format("v_mov_b32_e32 v2, v1"))["vmcnt"] == 0  # v3 is loaded again in the next round


def test_on_every_path_is_asked() -> None:
    body = """
    global_load_dword v1, v9, s[2:3]
    s_cbranch_scc1 .LBB0_1
    global_load_dword v2, v9, s[2:3]
    .LBB0_1:
    s_waitcnt vmcnt(0)
    {}
    s_waitcnt vmcnt(0)
    """
    assert largest(body.format("v_mov_b32_e32 v3, v1"))["vmcnt"] == 0  # on one path there is none behind it
    assert largest(body.format("s_nop 0"))["vmcnt"] == GONE
    above = body.replace("s_cbranch_scc1 .LBB0_1", "global_load_dword v4, v9, s[2:3]\ns_cbranch_scc1 .LBB0_1")
    assert largest(above.format("v_mov_b32_e32 v3, v1"))["vmcnt"] == 1


def test_a_wait_that_may_complete_something_on_some_path_counts_for_it() -> None:
    """On the longer path the wait for one completes the load of v1, which is used: its count stays."""
    body = """
    global_load_dword v1, v9, s[2:3]
    s_cbranch_scc1 .LBB0_1
    global_load_dword v2, v9, s[2:3]
    .LBB0_1:
    s_waitcnt vmcnt(1)
    {}
    s_waitcnt vmcnt(0)
    """
    assert largest(body.format("v_mov_b32_e32 v3, v1"))["vmcnt"] == 1
    assert largest(body.format("v_mov_b32_e32 v3, v2"))["vmcnt"] == GONE


# --- sources that are read late -----------------------------------------------------------------------------------

SOURCES = """
global_load_b32 v1, v[8:9], off
s_wait_loadcnt 0x0
{between}
v_mov_b32_e32 v8, 0
s_wait_loadcnt 0x0
v_mov_b32_e32 v2, v1
"""


@pytest.mark.parametrize(
    ("between", "count"),
    [
        ("s_nop 0", 0),
        ("s_wait_xcnt 0x0", 0),
        ("s_wait_xcnt 0x0\ns_wait_alu depctr_vm_vsrc(0)", GONE),
        ("s_wait_xcnt 0x1\ns_wait_alu depctr_vm_vsrc(0)", 0),
    ],
)
def test_gfx1250_may_read_an_address_again(between: str, count: int) -> None:
    assert largest(SOURCES.format(between=between), "gfx1250")["loadcnt"] == count


def test_other_targets_have_read_their_sources() -> None:
    assert largest(SOURCES.format(between="s_nop 0"), "gfx1201")["loadcnt"] == GONE


def test_copies_of_gfx1250_have_two_orders() -> None:
    """In which order loads and stores of one counter return is not known: a store says nothing about a load."""
    body = """
    global_load_async_to_lds_b128 v1, v[2:3], off
    {}
    s_wait_asynccnt 0x0
    global_atomic_add_u32 v[2:3], v4, off
    s_wait_asynccnt 0x0
    """
    load = "global_load_async_to_lds_b128 v5, v[2:3], off\n"
    assert largest(body.format(load), "gfx1250")["asynccnt"] == 0
    assert largest(body.format("global_store_async_from_lds_b128 v[2:3], v5, off"), "gfx1250")["asynccnt"] == 0


# --- what is not known --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "v_movrels_b32_e32 v1, v2",
        "s_set_gpr_idx_on s0, gpr_idx(SRC0)",
        "s_swappc_b64 s[30:31], s[4:5]",
        "flat_load_dword v1, v[2:3]",
        "image_load v1, v2, s[0:7]",
        "exp mrt0 v0, v1, v2, v3",
        "buffer_load_dword v1, v2, s[0:3], 0 offen tfe",
        "some_new_instruction v1",
        "s_waitcnt 0x3f70",
        "s_branch .LBB_not_there",
    ],
)
def test_where_something_is_not_known_no_count_changes(line: str) -> None:
    needs = needs_of(f"s_waitcnt vmcnt(0)\n{line}\n")
    assert "line 6" in needs.why_not or "line 7" in needs.why_not
    assert needs.largest(min(needs.counts, default=0), "vmcnt") == 0 if needs.counts else True


def test_what_is_loosened_is_taken_for_granted() -> None:
    """Each of two waits could go, but not both."""
    body = "global_load_dword v1, v9, s[2:3]\ns_waitcnt vmcnt(0)\ns_nop 0\ns_waitcnt vmcnt(0)\nv_mov_b32_e32 v2, v1"
    needs = needs_of(body)
    first, second = sorted(needs.counts)
    assert needs.largest(first, "vmcnt") == GONE
    needs.loosen(first, "vmcnt", GONE)
    assert needs.largest(second, "vmcnt") == 0
    other = needs_of(body)
    assert other.largest(second, "vmcnt") == GONE  # the first has waited already
    other.loosen(second, "vmcnt", GONE)
    assert other.largest(first, "vmcnt") == 0
