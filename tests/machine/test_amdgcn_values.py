"""Each class of AMDGCN instruction on the machine, by results that follow from the ISA documents."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from oracles.amdgcn_machine.program import load
from oracles.amdgcn_machine.text import NotUnderstood, read_instruction
from tests.machine.snippets import run, text_of


def bits(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]


SCALAR = [
    ("s_mov_b32 s4, 7\ns_lshl_b32 s4, s4, 3", 56),
    ("s_mov_b32 s4, -1\ns_add_u32 s4, s4, 2\ns_addc_u32 s4, s4, 0", 2),
    ("s_movk_i32 s4, 0xfff0", 0xFFFFFFF0),
    ("s_mov_b32 s4, -8\ns_ashr_i32 s4, s4, 1", 0xFFFFFFFC),
    ("s_mov_b32 s4, 0x1234\ns_bfe_u32 s4, s4, 0x80004", 0x23),
    ("s_mov_b32 s4, 0xf0\ns_bfe_i32 s4, s4, 0x40004", 0xFFFFFFFF),
    ("s_mov_b32 s4, 5\ns_cmp_gt_i32 s4, -1\ns_cselect_b32 s4, 10, 20", 10),
    ("s_mov_b32 s4, 5\ns_cmp_gt_u32 s4, -1\ns_cselect_b32 s4, 10, 20", 20),
    ("s_mov_b32 s4, 0x10000\ns_mul_hi_u32 s4, s4, s4", 1),
    ("s_mov_b64 s[4:5], 0xff\ns_bcnt1_i32_b64 s4, s[4:5]", 8),
    ("s_mov_b32 s4, 6\ns_and_b32 s4, s4, 1\ns_cselect_b32 s4, 10, 20", 20),
    ("s_mov_b32 s4, 3\ns_lshl2_add_u32 s4, s4, 1", 13),
    ("s_mov_b32 s4, 4\ns_addk_i32 s4, 0xffff", 3),
    ("s_mov_b32 s4, 0\n.L1:\ns_add_i32 s4, s4, 1\ns_cmp_lt_i32 s4, 9\ns_cbranch_scc1 .L1", 9),
    ("v_mov_b32_e32 v2, 5\nv_readfirstlane_b32 s4, v2", 5),
    ("v_readlane_b32 s4, v0, 17", 17),
    ("v_cmp_gt_u32_e64 s[4:5], 3, v0", 7),
    ("v_cmp_gt_u32_e32 vcc, 2, v0\ns_and_saveexec_b64 s[4:5], vcc\ns_mov_b64 s[4:5], exec", 3),
]


@pytest.mark.parametrize(("code", "expected"), SCALAR)
def test_scalar_instructions(code: str, expected: int) -> None:
    assert run(code).s(4) == expected


# The value of v2 in lane 5.
VECTOR = [
    ("v_add_u32_e32 v2, 10, v0", 15),
    ("v_sub_u32_e64 v2, v0, 7 clamp", 0),
    ("v_subrev_u32_e32 v2, 1, v0", 4),
    ("v_mul_lo_u32 v2, v0, v0", 25),
    ("v_mul_u32_u24_e32 v2, 3, v0", 15),
    ("v_lshl_add_u32 v2, v0, 4, 1", 81),
    ("v_add_lshl_u32 v2, v0, 1, 2", 24),
    ("v_and_or_b32 v2, v0, 4, 2", 6),
    ("v_xad_u32 v2, v0, 1, 10", 14),
    ("v_bfe_u32 v2, v0, 1, 2", 2),
    ("v_bfe_i32 v2, v0, 0, 1", 0xFFFFFFFF),
    ("v_bfi_b32 v2, 4, v0, 3", 7),
    ("v_not_b32_e32 v2, v0", 0xFFFFFFFA),
    ("v_bfrev_b32_e32 v2, 1", 0x80000000),
    ("v_alignbit_b32 v2, 1, 0, 4", 0x10000000),
    ("s_mov_b32 s4, 0x05010400\nv_mov_b32_e32 v3, 0x11223344\nv_mov_b32_e32 v4, 0x55667788\n"
     "v_perm_b32 v2, v3, v4, s4", 0x33774488),
    ("s_mov_b32 s4, 0x0c0d0700\nv_mov_b32_e32 v3, 0x11223344\nv_perm_b32 v2, v3, v3, s4", 0x00FF1144),
    ("v_cmp_lt_u32_e32 vcc, 4, v0\nv_cndmask_b32_e32 v2, 7, v0, vcc", 5),
    ("v_mov_b32_e32 v3, -1\nv_add_co_u32_e32 v2, vcc, v3, v0\nv_addc_co_u32_e32 v2, vcc, 0, v0, vcc", 6),
    ("v_mov_b32_e32 v2, 0xf0\nv_bcnt_u32_b32 v2, v2, v0", 9),
    ("v_mbcnt_lo_u32_b32 v2, -1, 0\nv_mbcnt_hi_u32_b32 v2, -1, v2", 5),
    ("v_mov_b32_dpp v2, v0 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf", 4),
    ("v_mov_b32_dpp v2, v0 row_shr:2 row_mask:0xf bank_mask:0xf bound_ctrl:1", 3),
    ("v_mov_b32_dpp v2, v0 row_shr:8 row_mask:0xf bank_mask:0xf bound_ctrl:1", 0),
    ("v_mov_b32_e32 v2, 99\nv_mov_b32_dpp v2, v0 row_shr:8 row_mask:0xf bank_mask:0xf", 99),
    ("v_mov_b32_dpp v2, v0 row_ror:8 row_mask:0xf bank_mask:0xf", 13),
    ("v_mov_b32_dpp v2, v0 row_half_mirror row_mask:0xf bank_mask:0xf", 2),
    ("v_mov_b32_e32 v2, 99\nv_mov_b32_dpp v2, v0 row_mirror row_mask:0xe bank_mask:0xf", 99),
    ("v_mov_b32_e32 v3, 0xab00\nv_add_u32_sdwa v2, v3, v0 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1 "
     "src1_sel:DWORD", 0xB0),
    ("v_mov_b32_e32 v2, 8\nv_cmp_gt_u32_e32 vcc, 5, v0\ns_mov_b64 exec, vcc\nv_mov_b32_e32 v2, 1", 8),
    ("v_lshlrev_b16_e32 v2, 8, v0", 0x500),
    ("v_cvt_f32_u32_e32 v2, v0", bits(5.0)),
    ("v_cvt_f32_u32_e32 v2, v0\nv_fma_f32 v2, v2, 2.0, -|v2|", bits(5.0)),
    ("v_cvt_f32_u32_e32 v2, v0\nv_fmac_f32_e32 v2, 1.0, v2", bits(10.0)),
    ("v_cvt_f32_u32_e32 v2, v0\nv_mul_f32_e64 v2, v2, v2 clamp", bits(1.0)),
    ("v_cvt_f32_u32_e32 v2, v0\nv_exp_f32_e32 v2, v2", bits(32.0)),
    ("v_mov_b32_e32 v3, 0x41000000\nv_log_f32_e32 v2, v3", bits(3.0)),
    ("v_cvt_f32_u32_e32 v2, v0\nv_cvt_f16_f32_e32 v2, v2", 0x4500),
    ("v_cvt_f32_u32_e32 v2, v0\nv_cvt_i32_f32_e64 v2, -v2", 0xFFFFFFFB),
    ("v_cvt_f32_u32_e32 v3, v0\nv_max3_f32 v2, v3, 1.0, 4.0", bits(5.0)),
    ("v_mov_b32_e32 v3, 0x3c004000\nv_pk_mul_f16 v2, v3, v3", 0x3C004400),
    ("v_mov_b32_e32 v3, 0x3c004000\nv_fma_mix_f32 v2, v3, 1.0, 0 op_sel:[1,0,0] op_sel_hi:[1,0,0]", bits(1.0)),
    ("v_mov_b32_e32 v2, 2.0\nv_mov_b32_e32 v3, 4.0\nv_pk_mul_f32 v[2:3], v[2:3], v[2:3] op_sel_hi:[1,0]", bits(4.0)),
    ("v_mov_b32_e32 v3, 4.0\nv_mov_b32_e32 v4, 1.0\nv_div_fixup_f32 v2, v4, 0, v3", 0x7F800000),
    ("v_accvgpr_write_b32 a3, v0\nv_accvgpr_read_b32 v2, a3", 5),
    ("v_lshlrev_b64 v[2:3], 31, v[0:1]", 0x80000000),
    ("v_mad_u64_u32 v[2:3], s[4:5], v0, v0, 1", 26),
    ("v_writelane_b32 v2, 7, 5", 7),
]  # fmt: skip


@pytest.mark.parametrize(("code", "expected"), VECTOR)
def test_vector_instructions(code: str, expected: int) -> None:
    assert f"{run(code).v(2)[5]:#x}" == f"{expected:#x}"


RDNA = [
    ("gfx1201", "v_dual_mov_b32 v2, v0 :: v_dual_mov_b32 v0, v2", 5),
    ("gfx1201", "v_mov_b32_e32 v2, 0x10002\nv_mov_b16_e32 v2.h, v0.l", 0x50002),
    ("gfx1201", "v_permlanex16_b32 v2, v0, -1, -1", 31),
    ("gfx1201", "v_add_nc_u32_e32 v2, 1, v0", 6),
    ("gfx1201", "v_cmp_lt_u32_e64 s4, 4, v0\nv_cndmask_b32_e64 v2, 1, 2, s4", 2),
    ("gfx1201", "v_cvt_f32_u32_e32 v3, v0\nv_max_num_f32_e32 v2, 4.0, v3", bits(5.0)),
    ("gfx1250", "v_bitop3_b32 v2, v0, 3, 6 bitop3:0x96", 5 ^ 3 ^ 6),
    ("gfx1250", "v_add_nc_u32_e32 v44 /*v300*/, 1, v0\nv_mov_b32_e32 v2, v44 /*v300*/", 6),
    ("gfx950", "v_mov_b32_e32 v2, 1\nv_permlane32_swap_b32_e32 v2, v0", 1),
    ("gfx1201", "s_mov_b32 s4, 0x40a00000\nv_mov_b32_e32 v2, s4\nv_s_rcp_f32 s5, s4", bits(5.0)),
]


@pytest.mark.parametrize(("target", "code", "expected"), RDNA)
def test_vector_instructions_of_other_targets(target: str, code: str, expected: int) -> None:
    assert f"{run(code, target).v(2)[5]:#x}" == f"{expected:#x}"


def test_a_result_of_16_bits_keeps_the_other_half_from_rdna_on() -> None:
    code = "v_mov_b32_e32 v2, 0x70007\nv_add_u16 v2, 1, 1"
    assert run(code, "gfx942").v(2)[0] == 2
    assert run(code.replace("add_u16", "add_nc_u16"), "gfx1100").v(2)[0] == 0x70002


def test_swapped_rows() -> None:
    ran = run("v_add_u32_e32 v2, 0x64, v0\nv_permlane32_swap_b32_e32 v0, v2", "gfx950")
    assert ran.v(0)[30:34] == [30, 31, 100, 101]
    assert ran.v(2)[30:34] == [62, 63, 132, 133]


# --- products of matrices -----------------------------------------------------------------------------------------


def test_mfma_multiplies_rows_by_columns() -> None:
    """A: row i is i at inner index 0; B: column j is 1 there; so the result is its row."""
    code = """
    v_cmp_gt_u32_e32 vcc, 16, v0
    v_cvt_f32_u32_e32 v2, v0
    v_cvt_f16_f32_e32 v2, v2
    v_cndmask_b32_e32 v2, 0, v2, vcc
    v_mov_b32_e32 v3, 0
    v_mov_b32_e32 v5, 0x3c00
    v_cndmask_b32_e32 v4, 0, v5, vcc
    v_mov_b32_e32 v5, 0
    v_mfma_f32_16x16x16_f16 v[8:11], v[2:3], v[4:5], 0
    """
    ran = run(code)
    assert [ran.v(8 + register, np.float32)[16] for register in range(4)] == [4, 5, 6, 7]


def test_wmma_multiplies_rows_by_columns() -> None:
    code = """
    v_cvt_f32_u32_e32 v2, v0
    v_cvt_pk_rtz_f16_f32 v2, v2, 0
    v_cmp_gt_u32_e32 vcc_lo, 16, v0
    v_cndmask_b32_e32 v2, 0, v2, vcc_lo
    v_cndmask_b32_e64 v6, 0, 0x3c00, vcc_lo
    v_wmma_f32_16x16x16_f16 v[16:23], v[2:5], v[6:9], 0
    """
    ran = run(code, "gfx1201")
    assert [ran.v(16 + register, np.float32)[3] for register in range(8)] == list(range(8))
    assert [ran.v(16 + register, np.float32)[19] for register in range(8)] == list(range(8, 16))


# --- memory -------------------------------------------------------------------------------------------------------

MEMORY = [
    ("gfx942", "ds_write_b32 v4, v0 offset:4\nds_read_b32 v2, v4 offset:4\ns_waitcnt lgkmcnt(0)", 5),
    ("gfx942", "ds_write2_b32 v4, v0, v4 offset1:64\nds_read2_b32 v[2:3], v4 offset0:64\ns_waitcnt 0", 20),
    ("gfx942", "ds_write_b32 v4, v0\nds_read2st64_b32 v[2:3], v4 offset1:1\ns_waitcnt lgkmcnt(0)", 5),
    ("gfx942", "ds_write_b32 v4, v4\nds_read_u16 v2, v4\ns_waitcnt lgkmcnt(0)", 20),
    ("gfx942", "v_mov_b32_e32 v3, -1\nds_write_b8 v4, v3\nds_read_i8 v2, v4\ns_waitcnt lgkmcnt(0)", 0xFFFFFFFF),
    ("gfx942", "v_mov_b32_e32 v2, 7\nds_write_b32 v4, v0\nds_read_u16_d16_hi v2, v4\ns_waitcnt lgkmcnt(0)", 0x50007),
    ("gfx942", "v_mov_b32_e32 v3, 0\nds_add_u32 v3, v0\nds_read_b32 v2, v3\ns_waitcnt lgkmcnt(0)", 2016),
    ("gfx942", "v_xor_b32_e32 v3, 4, v4\nds_bpermute_b32 v2, v3, v0\ns_waitcnt lgkmcnt(0)", 4),
    ("gfx942", "ds_swizzle_b32 v2, v0 offset:swizzle(QUAD_PERM,1,0,3,2)\ns_waitcnt lgkmcnt(0)", 4),
    ("gfx942", "global_load_dword v2, v4, s[0:1] offset:8\ns_waitcnt vmcnt(0)", 7),
    ("gfx942", "s_load_dwordx2 s[4:5], s[0:1], 0x14\ns_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v2, s5", 6),
    ("gfx942", "scratch_store_dword off, v0, off offset:4\nscratch_load_dword v2, off, off offset:4\ns_waitcnt 0", 5),
    ("gfx950", "s_mov_b32 m0, 64\nglobal_load_lds_dword v[6:7], off\ns_waitcnt vmcnt(0)\n"
     "ds_read_b32 v2, v4 offset:64\ns_waitcnt lgkmcnt(0)", 3),
    ("gfx1250", "v_mov_b32_e32 v6, v4\nglobal_load_async_to_lds_b32 v6, v4, s[0:1]\ns_wait_asynccnt 0x0\n"
     "ds_load_b32 v2, v4\ns_wait_dscnt 0x0", 5),
    ("gfx1250", "global_load_b32 v2, v0, s[0:1] scale_offset\ns_wait_loadcnt 0x0", 5),
    ("gfx1100", "global_load_b32 v2, v4, s[0:1]\ns_waitcnt vmcnt(0)\ns_waitcnt_vscnt null, 0x0", 5),
]  # fmt: skip


@pytest.mark.parametrize(("target", "code", "expected"), MEMORY)
def test_memory_instructions(target: str, code: str, expected: int) -> None:
    """v4 is the thread's offset of 4 bytes; v[6:7] the address of the number 3."""
    shift = "v_lshlrev_b32_e32 v4, 2, v0"
    address = "v_mov_b32_e32 v6, s0\nv_mov_b32_e32 v7, s1\nv_add_u32_e32 v6, 12, v6"
    address = address if target == "gfx950" else ""
    assert run(f"{shift}\n{address}\n{code}", target).v(2)[5] == expected


def test_a_buffer_gives_zero_outside_of_itself_and_takes_nothing() -> None:
    code = """
    s_mov_b32 s2, 16
    s_mov_b32 s3, 0
    v_lshlrev_b32_e32 v4, 2, v0
    buffer_load_dword v2, v4, s[0:3], 0 offen
    s_waitcnt vmcnt(0)
    v_mov_b32_e32 v3, 9
    buffer_store_dword v3, v4, s[0:3], 0 offen
    """
    ran = run(code)
    assert ran.v(2)[:6] == [0, 1, 2, 3, 0, 0]
    assert ran.array[:6].tolist() == [9, 9, 9, 9, 4, 5]


def test_a_copy_to_shared_memory_writes_zero_for_what_is_outside_of_its_buffer() -> None:
    code = """
    s_mov_b32 s2, 16
    s_mov_b32 s3, 0
    s_mov_b32 m0, 0
    v_lshlrev_b32_e32 v4, 2, v0
    ds_write_b32 v4, v4
    s_waitcnt lgkmcnt(0)
    buffer_load_dword v4, s[0:3], 0 offen lds
    """
    ran = run(code)
    assert ran.lds.view(np.uint32)[:6].tolist() == [0, 1, 2, 3, 0, 0]


def test_a_turned_load_gives_each_lane_a_column() -> None:
    """Four rows of sixteen numbers of 16 bits; a lane loads a quarter of a row."""
    code = """
    v_lshlrev_b32_e32 v2, 1, v0
    ds_write_b16 v2, v0
    v_lshlrev_b32_e32 v3, 3, v0
    v_and_b32_e32 v3, 0x7f, v3
    ds_read_b64_tr_b16 v[4:5], v3
    s_waitcnt lgkmcnt(0)
    """
    ran = run(code, "gfx950")
    assert (ran.v(4)[5], ran.v(5)[5]) == (5 | 21 << 16, 37 | 53 << 16)


def test_shared_memory_outside_of_itself_reads_zero_and_drops_writes() -> None:
    """Triton sends lanes that are masked to an address far outside (gfx1250)."""
    far = "v_mov_b32_e32 v2, 0x7fffffff\nv_mov_b32_e32 v3, 9\nds_write_b32 v2, v0\nds_read_b32 v3, v2"
    ran = run(f"{far}\ns_waitcnt lgkmcnt(0)")
    assert ran.found.is_good
    assert set(ran.v(3)) == {0}
    assert not ran.lds.any()


def test_a_global_address_of_no_array_is_a_fault() -> None:
    fault = run("v_mov_b32_e32 v2, 0x10000\nglobal_load_dword v3, v2, s[0:1]").found.fault
    assert fault.startswith("line 5 (wave 0), `global_load_dword v3, v2, s[0:1]`: address ")
    assert fault.endswith("belongs to no array")


# --- what is not understood ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "v_invented_f32 v1, v2",
        "s_invented_b32 s1, s2",
        "ds_invented_b32 v1, v2",
        "buffer_load_dword v1, v2, s[0:3], 0 idxen",
        "v_add_f32_e64 v1, v2, v3 invented:1",
        "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[4:5], v[6:7], 0",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 3",
        "s_barrier_leave",
        "image_load v1, v2, s[0:7]",
    ],
)
def test_an_unknown_instruction_is_named(line: str) -> None:
    with pytest.raises(NotUnderstood) as error:
        load(text_of(f"s_nop 0\n{line}"))
    assert line.split()[0] in str(error.value)
    assert "line 5" in str(error.value)


def test_a_text_without_a_target_is_refused() -> None:
    with pytest.raises(NotUnderstood, match="names no target"):
        load("kernel:\n\ts_endpgm\n")


def test_reading_operands() -> None:
    one = read_instruction("v_pk_fma_f32 v[2:3], v[0:1] /*v[256:257]*/, s[4:5], -1.0 op_sel_hi:[1,0,0]", 1)
    assert one.operands == ("v[2:3]", "v[256:257]", "s[4:5]", "-1.0")
    assert one.modifiers == {"op_sel_hi": "[1,0,0]"}
