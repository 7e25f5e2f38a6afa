"""Assembly that was proved and should not have been: an instruction does more than its operands say."""

from __future__ import annotations

import pytest

from oracles.programs.amdgcn_kernels import check, kernel, program

# Each lane writes and reads one word of its own: right, as long as v4 is different in all lanes.
PLACE = "v_lshlrev_b32_e32 v4, 2, v0\n"
OWN = "ds_write_b32 v4, v3\ns_waitcnt lgkmcnt(0)\nds_read_b32 v6, v4\ns_waitcnt lgkmcnt(0)"
# Each wave reads what the next one wrote.
SWAP = """v_lshlrev_b32_e32 v4, 2, v0
v_xor_b32_e32 v5, 0x100, v4
ds_write_b32 v4, v3
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v6, v5
s_waitcnt lgkmcnt(0)"""
# If waves do not agree on v8, one barrier of some waves meets another one of the others.
BRANCH = """s_load_dwordx4 s[4:7], s[0:1], 0x8
s_waitcnt lgkmcnt(0)
{make}
v_cmp_gt_f32_e32 vcc, 1.0, v8
s_cbranch_vccz .LBB0_1
s_barrier
.LBB0_1:
"""


def proved(body: str, target: str = "gfx942") -> bool:
    if target.startswith("gfx1"):
        body = body.replace("ds_write", "ds_store").replace("ds_read", "ds_load")
    if target.startswith("gfx12"):
        body = body.replace("s_waitcnt lgkmcnt(0)", "s_wait_dscnt 0x0")
        body = body.replace("s_barrier", "s_barrier_signal -1\ns_barrier_wait -1")
    return check(kernel(body, target)).is_proved


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"])
def test_what_a_lane_wrote_itself_needs_no_barrier(target: str) -> None:
    assert proved(PLACE + OWN, target)


@pytest.mark.parametrize(
    ("lines", "target"),
    [
        ("s_setpc_b64 s[0:1]", "gfx942"),
        ("s_set_pc_i64 s[0:1]", "gfx1250"),  # what gfx1250 calls it
        ("s_swap_pc_i64 s[30:31], s[0:1]", "gfx1250"),
        ("s_call_i64 s[30:31], .LBB0_2", "gfx1250"),
        ("s_setkill 1", "gfx90a"),
        ("s_sethalt 1", "gfx90a"),
        ("s_new_instruction 1", "gfx90a"),
        ("s_setvskip s0, 0", "gfx90a"),
        ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 28, 1), 1", "gfx90a"),
        ("s_setreg_b32 hwreg(HW_REG_MODE), s4", "gfx90a"),
        ("s_set_vgpr_msb 0x41", "gfx1250"),
        ("s_mov_b32 m0, 2\ns_movreld_b32 s2, s6", "gfx942"),
        ("v_mov_b32_e32 v[2+2], 0", "gfx942"),
        ("v_mov_b32_e32 v8, src_lds_direct", "gfx90a"),
        ("ds_add_u32 v4, v3 gds", "gfx90a"),
        ("s_mov_b32 m0, 0\nbuffer_store_lds_dword off, s[4:7], 0 lds", "gfx90a"),
        ("s_mov_b32 m0, 0\nscratch_load_lds_dword v1, off", "gfx942"),
        ("v_mov_b32_e64_dpp v4, v4 row_share:1 row_mask:0xf bank_mask:0xf", "gfx1100"),
        ("v_mov_b32_e32 v5, 0x200\nv_sub_co_u32_e64 v4, vcc, v4, v5 clamp", "gfx942"),
        ("v_mov_b32_e32 v5, 0x200\nv_sub_u32_sdwa v4, v4, v5 clamp dst_sel:DWORD src0_sel:WORD_0", "gfx942"),
    ],
)
def test_an_instruction_that_does_more_than_its_operands_say(lines: str, target: str) -> None:
    assert not proved(f"{PLACE}{lines}\n{OWN}", target)


@pytest.mark.parametrize(
    ("lines", "target"),
    [
        ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 3", "gfx942"),  # rounding
        ("s_setreg_imm32_b32 hwreg(HW_REG_WAVE_SCHED_MODE, 0, 2), 2", "gfx1250"),
        ("s_set_vgpr_msb 0x4000", "gfx1250"),
        ("s_setprio 1\ns_cvt_f32_i32 s4, s5\ns_min_num_f16 s4, s5, s6", "gfx1201"),
        ("v_sub_co_u32_e64 v9, vcc, v4, v5 clamp", "gfx942"),
        ("v_mov_b32_sdwa v4, v4 dst_sel:DWORD src0_sel:WORD_0", "gfx942"),
        ("v_mov_b32_e64_dpp v9, v4 row_share:1 row_mask:0xf bank_mask:0xf", "gfx1100"),
        ("scratch_load_dword v1, v1, off", "gfx942"),
    ],
)
def test_what_leaves_the_address_alone_is_still_proved(lines: str, target: str) -> None:
    assert proved(f"{PLACE}{lines}\n{OWN}", target)


def test_registers_in_comments_have_their_whole_numbers() -> None:
    """Where LLVM writes v257 as `v1 /*v257*/`, the text says which register is meant."""
    line = "s_set_vgpr_msb 0x40\nv_mov_b32_e32 v4 /*v260*/, 0\ns_set_vgpr_msb 0x4000\n"
    assert proved(PLACE + line + OWN, "gfx1250")


def test_a_mask_is_changed_by_wrexec() -> None:
    """`s_andn2_wrexec` leaves no lane active here, so that v4 stays 0 in all of them."""
    body = f"v_mov_b32_e32 v4, 0\ns_mov_b64 s[2:3], {{}}\n{{}}\n{PLACE}s_mov_b64 exec, -1\n{OWN}"
    assert not proved(body.format("0", "s_andn2_wrexec_b64 s[4:5], s[2:3]"))
    assert proved(body.format("-1", "s_and_saveexec_b64 s[4:5], s[2:3]"))


@pytest.mark.parametrize(
    "make",
    [
        "v_fmac_f32_e32 v8, s4, s4",
        "v_dot2c_i32_i16 v8, s4, s4",
        "v_cvt_pk_fp8_f32 v8, s4, s4 op_sel:[0,0,1]",
        "v_fma_mixhi_f16 v8, s4, s4, s4",
        "v_add_f16_sdwa v8, s4, s4 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD src1_sel:DWORD",
        "v_mov_b32_e32 v9, 0\nglobal_load_short_d16 v8, v9, s[4:5]",
        "v_mov_b32_e32 v9, 0\nds_read_u16_d16 v8, v9 offset:4096",
    ],
)
def test_what_a_register_held_before_is_part_of_the_result(make: str) -> None:
    """v8 is the thread's number before."""
    assert not proved(BRANCH.format(make=f"v_mov_b32_e32 v8, v0\n{make}") + SWAP)
    assert proved(BRANCH.format(make=f"v_mov_b32_e32 v8, s6\n{make}") + SWAP)


@pytest.mark.parametrize(
    ("wave", "block", "make"),
    [
        ("v_mov_b32_e32 v20, v0", "v_mov_b32_e32 v20, s6", "s_mov_b32 m0, 1\nv_movrels_b32_e32 v8, v19"),
        ("v_cmp_gt_u32_e32 vcc, 64, v0", "v_cmp_gt_u32_e32 vcc, s6, v9", "v_div_fmas_f32 v8, 1.0, 1.0, 1.0"),
    ],
)
def test_what_an_instruction_reads_beside_its_operands(wave: str, block: str, make: str) -> None:
    assert not proved(BRANCH.format(make=f"v_mov_b32_e32 v9, 0\nv_mov_b32_e32 v19, 0\n{wave}\n{make}") + SWAP)
    assert proved(BRANCH.format(make=f"v_mov_b32_e32 v9, 0\nv_mul_f32_e32 v8, s6, v9\n{block}") + SWAP)


def test_a_comment_with_a_string_is_no_operand() -> None:
    """The string must not hide where the comment begins: no counter of shared memory is waited for here."""
    assert proved(SWAP.replace("lgkmcnt(0)", 'lgkmcnt(0) ; "vmcnt(0)"'))
    assert not proved(SWAP.replace("lgkmcnt(0)", 'vmcnt(0) ; "lgkmcnt(0)"', 1))


def test_two_instructions_at_once_read_all_of_what_was_there() -> None:
    """The second one sees v8 as it was, also under a sign: the thread's number."""
    pair = "v_dual_mov_b32 v8, 0 :: v_dual_add_f32 v9, {}v8, s6\n"
    body = "v_mov_b32_e32 v8, v0\n" + BRANCH.format(make=pair).replace("1.0, v8", "1.0, v9") + SWAP
    body = body.replace("s_load_dwordx4", "s_load_b128").replace("vcc,", "vcc_lo,").replace("0x100", "0x80")
    assert not proved(body.format("-"), "gfx1100")
    assert not proved(body.format(""), "gfx1100")


def test_a_matrix_product_does_not_ask_which_lanes_are_active() -> None:
    body = f"{PLACE}s_mov_b64 exec, 0\n{{}}\ns_mov_b64 exec, -1\n{OWN}"
    assert not proved(body.format("v_mfma_f32_32x32x8_f16 v[4:19], v[20:21], v[22:23], 0"))
    assert proved(body.format("v_mul_f32_e32 v4, v20, v21"))


@pytest.mark.parametrize(
    ("copy", "shift", "wave", "target"),
    [
        ("global_load_lds_ubyte", 2, 8, "gfx942"),
        ("buffer_load_ushort", 2, 8, "gfx90a"),
        ("global_load_lds_dword", 2, 8, "gfx942"),
        ("global_load_lds_dwordx3", 4, 10, "gfx950"),
        ("global_load_lds_dwordx4", 4, 10, "gfx950"),
    ],
)
def test_copies_put_lanes_as_many_bytes_apart_as_they_take(copy: str, shift: int, wave: int, target: str) -> None:
    """A byte becomes a word of its lane, and three words have the room of four."""
    given = "v2, s[4:7], 0 offen lds" if copy.startswith("buffer") else "v[2:3], off"
    body = f"""
    v_lshrrev_b32_e32 v1, 6, v0
    v_readfirstlane_b32 s8, v1
    s_lshl_b32 m0, s8, {wave}
    {copy} {given}
    {{wait}}
    v_xor_b32_e32 v1, {{other}}, v1
    v_lshlrev_b32_e32 v4, {wave}, v1
    ds_read_b32 v6, v4 offset:{63 << shift}
    s_waitcnt lgkmcnt(0)
    """
    assert proved(body.format(wait="s_waitcnt vmcnt(0)", other=0), target)
    assert not proved(body.format(wait="", other=0), target)
    assert not proved(body.format(wait="s_waitcnt vmcnt(0)", other=1), target)


def test_a_wave_has_as_many_lanes_as_its_kernel_says() -> None:
    """A setting of 0 is one as well: waves of 64 lanes, also where 32 are usual and no metadata says more."""
    text = kernel("v_mbcnt_lo_u32_b32 v1, -1, 0\nv_mbcnt_hi_u32_b32 v1, -1, v1", "gfx1100").replace(
        ".wavefront_size: 32", ""
    )
    for narrow, lanes in ((1, 32), (0, 64)):
        setting = f"\t\t.amdhsa_wavefront_size32 {narrow}\n\t.end_amdhsa_kernel"
        assert program(text.replace("\t.end_amdhsa_kernel", setting)).launch.lanes == lanes


@pytest.mark.parametrize(
    "take",
    [
        "v_mov_b32_e32 v8, v10",
        "v_mul_f32_e32 v8, s6, v10",
        "v_and_b32_e32 v8, s6, v10",
        "global_load_dword v8, v10, s[4:5]",
    ],
)
def test_a_choice_between_0_and_a_large_number_is_no_masked_address_alone(take: str) -> None:
    """1.0 is as large as an address beyond all memory. Which lanes have it is known of none here; or of all alike."""
    lanes = "v_cvt_f32_u32_e32 v10, v0\nv_cmp_gt_f32_e32 vcc, 1.0, v10\nv_cndmask_b32_e64 v10, 0, 1.0, vcc"
    assert not proved(BRANCH.format(make=f"{lanes}\n{take}") + SWAP)
    assert proved(BRANCH.format(make=f"v_mov_b32_e32 v10, s7\n{take}") + SWAP)


@pytest.mark.parametrize(("far", "right"), [("0x7fffffff", True), ("-4", False)])
def test_an_offset_brings_a_negative_address_back(far: str, right: bool) -> None:
    body = f"""
    v_lshlrev_b32_e32 v4, 2, v0
    global_load_dword v8, v4, s[4:5]
    s_waitcnt vmcnt(0)
    v_cmp_gt_u32_e32 vcc, 7, v8
    v_cndmask_b32_e32 v5, {far}, v4, vcc
    ds_write_b32 v5, v3 offset:8
    """
    assert proved(body) == right


@pytest.mark.parametrize(("moved", "right"), [("0", True), ("0x80000000", False), ("-256", False)])
def test_a_large_number_in_m0_is_no_masked_copy(moved: str, right: bool) -> None:
    """Only the lower bits of M0 are looked at, so that the copy lands somewhere."""
    body = f"""
    v_lshrrev_b32_e32 v1, 6, v0
    v_readfirstlane_b32 s8, v1
    s_lshl_b32 s8, s8, 8
    s_or_b32 m0, s8, {moved}
    global_load_lds_dword v[2:3], off
    s_waitcnt vmcnt(0)
    """
    assert proved(body) == right
