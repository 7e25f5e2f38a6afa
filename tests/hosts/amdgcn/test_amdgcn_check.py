"""`tidegate check` on AMDGCN assembly: kernels written by hand, each right and with its mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from oracles.programs.amdgcn_kernels import (
    DIVERGENT,
    DOUBLE,
    HALVES,
    TRANSPOSE,
    TRANSPOSE_SPLIT,
    check,
    codes,
    kernel,
    program,
)
from tidegate import cli
from tidegate.advice import advise
from tidegate.diag import BadInput, Sources
from tidegate.files import Loaded
from tidegate.graph.parse import parse_graph
from tidegate.graph.show import show_graph
from tidegate.hosts.amdgcn.parse import parse_amdgcn
from tidegate.hosts.amdgcn.program import Amdgcn
from tidegate.passes import check_session
from tidegate.session import sessions_of
from tidegate.simulate.judge import judge

Run = Callable[..., tuple[int, str]]
MONOLITHIC = ("gfx90a", "gfx942", "gfx950")
SPLIT = ("gfx1200", "gfx1201", "gfx1250")


def proved(body: str, target: str = "gfx942") -> bool:
    return check(kernel(body, target)).is_proved


def found(body: str, target: str = "gfx942") -> set[str]:
    return codes(kernel(body, target))


# --- right, and with its mistake ----------------------------------------------------------------------------------


@pytest.mark.parametrize("target", MONOLITHIC)
def test_a_transposition_needs_its_barrier(target: str) -> None:
    assert proved(TRANSPOSE, target)
    assert found(TRANSPOSE.replace("s_barrier\n", ""), target) == {"TG101"}


def test_a_last_wave_that_is_not_full_is_not_modelled() -> None:
    """The opposite of a mask has lanes that there are not."""
    text = kernel(TRANSPOSE)
    assert check(text, (256,)).is_proved
    assert check(text, (200,)).unmodelled == ("a block whose last wave is not full",)
    assert not check(text, (200,)).is_proved


def test_a_write_in_flight_behind_a_barrier_is_a_race() -> None:
    """No barrier waits for what a wave has in flight: the ISA of every generation leaves that to `s_waitcnt`."""
    without = TRANSPOSE.replace("s_waitcnt lgkmcnt(0)\ns_barrier", "s_barrier")
    assert found(without) == {"TG101"}
    wrong_counter = TRANSPOSE.replace("s_waitcnt lgkmcnt(0)\ns_barrier", "s_waitcnt vmcnt(0)\ns_barrier")
    assert found(wrong_counter) == {"TG101"}


@pytest.mark.parametrize("target", SPLIT)
def test_a_barrier_in_two_instructions(target: str) -> None:
    assert proved(TRANSPOSE_SPLIT, target)
    late = TRANSPOSE_SPLIT.replace("s_wait_dscnt 0x0\ns_barrier_signal -1", "s_barrier_signal -1\ns_wait_dscnt 0x0")
    assert "TG101" in found(late, target)
    early = TRANSPOSE_SPLIT.replace("s_barrier_wait -1\nds_load_b32 v6, v5", "ds_load_b32 v6, v5\ns_barrier_wait -1")
    assert "TG101" in found(early, target)


def test_a_signal_without_a_wait_is_found() -> None:
    assert not proved(TRANSPOSE_SPLIT.replace("s_barrier_wait -1\n", ""), "gfx1201")


def test_gfx1100_has_whole_barriers_and_waves_of_32_lanes() -> None:
    body = TRANSPOSE.replace("ds_write_b32", "ds_store_b32").replace("ds_read_b32", "ds_load_b32")
    assert program(kernel(body, "gfx1100")).launch.waves == 8
    assert proved(body, "gfx1100")
    assert "TG101" in found(body.replace("s_barrier\n", ""), "gfx1100")


@pytest.mark.parametrize("target", MONOLITHIC)
def test_two_slots_in_turns_need_the_right_count(target: str) -> None:
    assert proved(DOUBLE, target)
    assert not proved(DOUBLE.replace("s_waitcnt vmcnt(1)", "s_waitcnt vmcnt(2)"), target)


def test_another_load_counts_as_well() -> None:
    """One more load behind the copy leaves room for one more in flight; one before it does not."""
    copy = "s_waitcnt vmcnt(1)\n"
    behind = DOUBLE.replace(copy, "global_load_dword v9, v2, s[2:3]\ns_waitcnt vmcnt(2)\n")
    assert proved(behind)
    assert not proved(behind.replace("vmcnt(2)", "vmcnt(3)"))


def test_the_second_barrier_of_a_round_keeps_readers_ahead_of_copies() -> None:
    first, second, rest = DOUBLE.partition("s_waitcnt lgkmcnt(0)\ns_barrier\n")
    assert not proved(first + "s_waitcnt lgkmcnt(0)\n" + rest if second else DOUBLE)


def test_a_mask_that_ends_before_the_barrier() -> None:
    assert proved(DIVERGENT)
    assert found(DIVERGENT.replace("s_barrier\n", "")) == {"TG101"}


def test_a_barrier_with_few_active_lanes_is_one_of_the_wave() -> None:
    """EXEC says nothing to `s_barrier`: a wave with one active lane arrives."""
    inside = DIVERGENT.replace("s_waitcnt lgkmcnt(0)\ns_barrier\n", "")
    inside = inside.replace("ds_write_b32 v1, v3\n", "ds_write_b32 v1, v3\ns_waitcnt lgkmcnt(0)\ns_barrier\n")
    assert proved(inside)


def test_a_barrier_that_half_of_the_waves_reach_is_a_hang() -> None:
    assert proved(HALVES)
    assert not proved(
        HALVES.replace("s_waitcnt lgkmcnt(0)\n.LBB0_1:\ns_barrier", "s_waitcnt lgkmcnt(0)\ns_barrier\n.LBB0_1:")
    )


def test_a_wait_in_the_arm_of_some_waves_is_theirs() -> None:
    """The waves that wrote have waited; if the others wait instead, nobody has."""
    without = HALVES.replace("ds_write_b32 v1, v3\ns_waitcnt lgkmcnt(0)", "ds_write_b32 v1, v3")
    assert not proved(without)
    others = without.replace(
        "s_cbranch_scc1 .LBB0_1", "s_cbranch_scc0 .LBB0_2\ns_waitcnt lgkmcnt(0)\ns_branch .LBB0_1\n.LBB0_2:"
    )
    assert not proved(others)


def test_arms_with_barriers_that_waves_take_in_turns() -> None:
    """The first two waves write, the others read, three times: which arm stands first in the text says nothing."""
    body = """
    v_lshlrev_b32_e32 v4, 2, v0
    v_readfirstlane_b32 s4, v0
    s_mov_b32 s5, 0
    s_cmp_lt_u32 s4, 128
    s_cbranch_scc1 .LBB0_1
    v_subrev_u32_e32 v5, 0x200, v4
    .LBB0_3:
    s_barrier
    ds_read_b32 v6, v5
    s_waitcnt lgkmcnt(0)
    s_barrier
    s_add_u32 s5, s5, 1
    s_cmp_lt_u32 s5, 3
    s_cbranch_scc1 .LBB0_3
    s_branch .LBB0_2
    .LBB0_1:
    ds_write_b32 v4, v3
    s_waitcnt lgkmcnt(0)
    s_barrier
    s_barrier
    s_add_u32 s5, s5, 1
    s_cmp_lt_u32 s5, 3
    s_cbranch_scc1 .LBB0_1
    .LBB0_2:
    """
    assert proved(body)
    assert not proved(body.replace("ds_read_b32 v6, v5\n    s_waitcnt lgkmcnt(0)\n", "ds_read_b32 v6, v5\n"))


# --- what counts --------------------------------------------------------------------------------------------------

SHIFTED = """
v_lshlrev_b32_e32 v1, 2, v0
v_xor_b32_e32 v2, 0x100, v1
ds_write_b32 v1, v3
{between}
s_barrier
ds_read_b32 v4, v2
s_waitcnt lgkmcnt(0)
"""


@pytest.mark.parametrize(
    ("between", "right"),
    [
        ("ds_bpermute_b32 v9, v8, v7\ns_waitcnt lgkmcnt(1)", True),  # it counts, and touches nothing
        ("s_waitcnt lgkmcnt(1)", False),
        ("ds_swizzle_b32 v9, v8 offset:swizzle(SWAP,1)\ns_waitcnt lgkmcnt(1)", True),
        ("ds_bpermute_b32 v9, v8, v7\ns_waitcnt lgkmcnt(2)", False),
        ("s_load_dword s9, s[0:1], 0x0\ns_waitcnt lgkmcnt(1)", False),  # scalar loads return in any order
        ("s_load_dword s9, s[0:1], 0x0\ns_waitcnt lgkmcnt(0)", True),
        ("ds_read2_b32 v[10:11], v1 offset0:2 offset1:2\ns_waitcnt lgkmcnt(1)", False),  # its own reads are in flight
        ("s_waitcnt 0", True),
    ],
)
def test_what_counts(between: str, right: bool) -> None:
    body = SHIFTED.format(between=between)
    if "read2" in between:  # what it reads is written again behind the barrier
        body = body.replace("ds_read_b32 v4, v2", "ds_write_b32 v2, v4 offset:8")
    assert proved(body) == right


def test_two_addresses_of_one_instruction_are_performed_together() -> None:
    """One instruction in flight is both of its writes, whichever of them comes first in the text."""
    body = """
    v_lshlrev_b32_e32 v1, 3, v0
    v_xor_b32_e32 v2, 0x200, v1
    ds_write2_b32 v1, v3, v4 offset1:1
    ds_bpermute_b32 v9, v8, v7
    s_waitcnt lgkmcnt({count})
    s_barrier
    ds_read_b64 v[4:5], v2
    s_waitcnt lgkmcnt(0)
    """
    assert proved(body.format(count=1))
    assert not proved(body.format(count=2))


@pytest.mark.parametrize(("wait", "right"), [("s_wait_loadcnt_dscnt 0x100", True), ("s_wait_loadcnt_dscnt 0x1", False)])
def test_a_wait_for_two_counters(wait: str, right: bool) -> None:
    assert (
        proved(TRANSPOSE_SPLIT.replace("s_wait_dscnt 0x0\ns_barrier_signal", f"{wait}\ns_barrier_signal"), "gfx1201")
        == right
    )


ASYNC = """
v_lshlrev_b32_e32 v1, 4, v0
v_xor_b32_e32 v2, 0x200, v1
global_load_async_to_lds_b128 v1, v1, s[2:3]
{wait}
s_barrier_signal -1
s_barrier_wait -1
ds_load_b128 v[4:7], v2
s_wait_dscnt 0x0
"""


@pytest.mark.parametrize(
    ("wait", "right"), [("s_wait_asynccnt 0x0", True), ("s_wait_loadcnt 0x0", False), ("s_wait_asynccnt 0x1", False)]
)
def test_copies_of_gfx1250_have_their_own_counter(wait: str, right: bool) -> None:
    assert proved(ASYNC.format(wait=wait), "gfx1250") == right


MASKED = """
s_load_b32 s4, s[0:1], 0x8
v_lshlrev_b32_e32 v1, 4, v0
v_xor_b32_e32 v2, 0x200, v1
s_wait_kmcnt 0x0
s_cmp_gt_i32 s4, 0
s_cselect_b32 vcc_lo, -1, 0
v_cndmask_b32_e32 v3, 0x7fffffff, v1, vcc_lo
{more}
global_load_async_to_lds_b128 v3, v1, s[2:3]
s_wait_asynccnt 0x0
{barrier}
ds_load_b128 v[4:7], v2
s_wait_dscnt 0x0
"""
BARRIER = "s_barrier_signal -1\ns_barrier_wait -1"


def test_a_copy_to_an_address_beyond_all_memory_is_none() -> None:
    """Triton masks copies so: the address is known where there is a copy, and whether there is one is not."""
    text = kernel(MASKED.format(more="", barrier=BARRIER), "gfx1250")
    assert check(text).is_proved
    assert program(text).explored.exact == 2
    assert not check(kernel(MASKED.format(more="", barrier=""), "gfx1250")).is_proved


def test_what_is_made_of_an_address_beyond_all_memory_is_unknown() -> None:
    """Its low bits lead into memory again."""
    text = kernel(MASKED.format(more="v_and_b32_e32 v3, 0xffff, v3", barrier=BARRIER), "gfx1250")
    assert program(text).explored.exact == 1


def test_registers_in_a_lane_s_own_memory_are_followed() -> None:
    spilled = TRANSPOSE.replace(
        "ds_read_b32",
        "scratch_store_dword off, v5, off offset:8\n{}v_mov_b32_e32 v5, 0\n"
        "scratch_load_dword v5, off, off offset:8\nds_read_b32",
    )
    assert proved(spilled.format(""))
    lost = program(kernel(spilled.format("scratch_store_dword v9, v9, off\n")))
    assert lost.explored.exact == 1


def test_two_instructions_at_once_read_before_they_write() -> None:
    body = """
    v_lshlrev_b32_e32 v1, 2, v0
    v_mov_b32_e32 v2, 0x80
    v_dual_mov_b32 v1, v2 :: v_dual_bitop2_b32 v2, v1, v2 bitop3:0x14
    ds_store_b32 v2, v0
    """
    starts = program(kernel(body, "gfx1250", threads=64)).graph.maps[0].starts
    assert starts[:3] == (0x80, 0x84, 0x88)


# --- advice -------------------------------------------------------------------------------------------------------


def advised(body: str) -> set[tuple[str, int]]:
    """Codes of advice with the line of the body that each is about."""
    text = kernel(body)
    amdgcn = Amdgcn("k.s", text, parse_amdgcn(text, "k.s"))
    (unit,) = sessions_of(Loaded("k.s", (), None, Sources({"k.s": text}), amdgcn=amdgcn), None)
    found = advise(check_session(unit)).findings
    return {(each.code, each.at.line - 5) for each in found}


def test_a_barrier_that_nobody_needs_is_named() -> None:
    twice = TRANSPOSE.replace("s_barrier\n", "s_barrier\ns_barrier\n").strip()
    assert {line for _, line in advised(twice)} & {7, 8}
    assert not advised(TRANSPOSE.strip())


def test_a_wait_that_a_register_needs_is_never_called_needless() -> None:
    """The last wait is for what `ds_read` brings; that shared memory does not need it says nothing."""
    assert not any(line == 11 for _, line in advised(TRANSPOSE.strip()))


def test_a_barrier_between_a_store_and_a_load_of_global_memory_is_left_alone() -> None:
    twice = TRANSPOSE.replace("s_barrier\n", "s_barrier\nglobal_store_dword v9, v8, s[2:3]\ns_barrier\n").strip()
    assert 9 not in {line for _, line in advised(f"{twice}\nglobal_load_dword v7, v9, s[2:3]\ns_waitcnt vmcnt(0)")}


# --- what is not modelled -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "s_barrier_signal m0",
        "s_swappc_b64 s[30:31], s[4:5]",
        "ds_gws_barrier v1 gds",
        "some_new_instruction v1, v2",
        "s_cbranch_scc1 .LBB_not_there",
        "v_movreld_b32 v1, v2",
    ],
)
def test_what_is_not_modelled_is_never_proved(line: str) -> None:
    target = "gfx1250" if "signal" in line else "gfx942"
    body = TRANSPOSE if target == "gfx942" else TRANSPOSE_SPLIT
    first, rest = body.strip().split("\n", 1)
    result = check(kernel(f"{first}\n{line}\n{rest}", target))
    assert not result.is_proved
    assert "TG407" in {each.code for each in result.findings}


def test_an_unknown_access_to_shared_memory_may_touch_all_of_it() -> None:
    result = check(kernel(TRANSPOSE.replace("s_barrier\n", "s_barrier\nds_consume v9\n")))
    assert not result.is_proved


def test_a_flat_access_may_lead_to_shared_memory() -> None:
    base = "v_mov_b32_e32 v9, src_shared_base\n"
    assert not proved(TRANSPOSE.replace("s_barrier\n", f"s_barrier\n{base}flat_store_dword v[8:9], v1\n"))


# --- the launch ---------------------------------------------------------------------------------------------------


def test_a_block_is_asked_for_where_nobody_says_it() -> None:
    for text in (kernel(TRANSPOSE, threads=1024), kernel(TRANSPOSE, axes=1)):
        with pytest.raises(BadInput, match="how many threads"):
            program(text)
        assert program(text, (256,)).launch.waves == 4


def test_a_demand_of_the_metadata_is_kept_to() -> None:
    text = kernel(TRANSPOSE, facts="    .reqd_workgroup_size:\n      - 16\n      - 16\n      - 1\n", axes=1)
    assert program(text).launch.shape == (16, 16, 1)
    with pytest.raises(BadInput, match="asks for blocks of 16x16x1"):
        program(text, (128,))


def test_three_axes_are_packed_into_one_register() -> None:
    body = TRANSPOSE.replace("v_and_b32_e32 v1, 15, v0", "v_and_b32_e32 v1, 0x3ff, v0")
    body = body.replace("v_lshrrev_b32_e32 v2, 4, v0", "v_bfe_u32 v2, v0, 10, 10")
    assert check(kernel(body, axes=1), (16, 16)).is_proved


def test_another_vendor_s_target_is_refused() -> None:
    with pytest.raises(BadInput, match="assembly for AMD GPUs"):
        program(kernel(TRANSPOSE), target="sm_80")


# --- what comes of it ---------------------------------------------------------------------------------------------


def test_the_graph_can_be_written_and_read() -> None:
    for body in (TRANSPOSE, DOUBLE, HALVES, DIVERGENT):
        graph = program(kernel(body)).graph
        assert parse_graph(show_graph(graph), "k.sync") == graph


@pytest.mark.parametrize("body", [TRANSPOSE, DIVERGENT, HALVES])
def test_the_simulator_agrees(body: str) -> None:
    for text, right in ((body, True), (body.replace("s_barrier\n", ""), False)):
        one = program(kernel(text))
        assert (not judge(one.graph, one.target).findings) == right


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*args: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["tidegate", "check", *args])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        found = capsys.readouterr()
        return int(ended.value.code or 0), found.out + found.err

    return command


def test_the_command_line(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "k.s"
    text = kernel(TRANSPOSE.replace("s_barrier\n", ""))
    path.write_text(
        text.replace("ds_read_b32", '.file\t1 "/src" "k.hip"\n\t.loc\t1 7 5\n\tds_read_b32'), encoding="utf-8"
    )
    status, said = run(str(path))
    assert status == 1
    assert "error[TG101]" in said
    assert "(wave 1, lane" in said
    assert "comes from /src/k.hip:7" in said
    path.write_text(kernel(TRANSPOSE), encoding="utf-8")
    status, said = run(str(path), "--block", "256")
    assert status == 0
    assert "2 of 2 instructions that touch shared memory have exact addresses" in said
    assert "compiler" not in said  # nothing comes behind assembly that could move anything


# --- copies that go past the registers ----------------------------------------------------------------------------

COPIED = """
    v_lshlrev_b32_e32 v1, 2, v0
    v_readfirstlane_b32 s6, v1
    s_mov_b32 m0, s6
    s_nop 0
    {copy}
    s_waitcnt vmcnt(0)
    {barrier}
    ds_read_b32 v5, v2
"""


@pytest.mark.parametrize(
    ("target", "copy"),
    [
        ("gfx90a", "global_load_dword v[2:3], off lds"),
        ("gfx942", "global_load_lds_dword v[2:3], off"),
        ("gfx942", "global_load_lds_ubyte v[2:3], off"),
        ("gfx950", "global_load_lds_dwordx3 v[2:3], off"),
    ],
)
def test_a_copy_of_any_spelling_writes_shared_memory(target: str, copy: str) -> None:
    """On gfx90a the modifier says that it is a copy: it was taken for a load into registers, and what it wrote was
    nobody's race. The next wave's part is read here."""
    turned = "v_xor_b32_e32 v2, 0x100, v1\n"
    body = COPIED.format(copy=copy, barrier="s_barrier").replace("ds_read", turned + "    ds_read")
    bare = COPIED.format(copy=copy, barrier="").replace("ds_read", turned + "    ds_read")
    assert "TG101" in found(bare, target)
    if "x3" not in copy:
        assert proved(body, target)
