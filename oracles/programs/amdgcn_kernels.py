"""AMDGCN kernels written by hand: bodies between a head that names a target and the settings of a kernel."""

from __future__ import annotations

from tidegate.diag import Sources
from tidegate.files import Loaded
from tidegate.hosts.amdgcn.parse import parse_amdgcn
from tidegate.hosts.amdgcn.program import Amdgcn, AmdgcnProgram, programs_of
from tidegate.passes import Checked, check_session
from tidegate.session import sessions_of

TEXT = """\t.amdgcn_target "amdgcn-amd-amdhsa--{target}"
\t.text
\t.globl\tk
\t.type\tk,@function
k:                                      ; @k
{body}
\ts_endpgm
.Lfunc_end0:
\t.section\t.rodata,"a",@progbits
\t.amdhsa_kernel k
\t\t.amdhsa_group_segment_fixed_size 0
\t\t.amdhsa_kernarg_size 24
\t\t.amdhsa_user_sgpr_count 2
\t\t.amdhsa_user_sgpr_kernarg_segment_ptr 1
\t\t.amdhsa_system_sgpr_workgroup_id_x 1
\t\t.amdhsa_system_vgpr_workitem_id {axes}
\t.end_amdhsa_kernel
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .args:
      - .offset:         0
        .size:           8
        .value_kind:     global_buffer
    .max_flat_workgroup_size: {threads}
    .name:           k
{facts}    .wavefront_size: {lanes}
amdhsa.version:
  - 1
  - 2
...
\t.end_amdgpu_metadata
"""


def kernel(body: str, target: str = "gfx942", threads: int = 256, axes: int = 0, facts: str = "") -> str:
    lanes = 64 if target.startswith("gfx9") else 32
    lines = "\n".join(line if line.strip().endswith(":") else f"\t{line.strip()}" for line in body.strip().split("\n"))
    return TEXT.format(target=target, body=lines, threads=threads, axes=axes, lanes=lanes, facts=facts)


def program(text: str, block: tuple[int, ...] = (), target: str | None = None) -> AmdgcnProgram:
    return programs_of(Amdgcn("k.s", text, parse_amdgcn(text, "k.s"), block=block), target)[0]


def check(text: str, block: tuple[int, ...] = ()) -> Checked:
    amdgcn = Amdgcn("k.s", text, parse_amdgcn(text, "k.s"), block=block)
    (unit,) = sessions_of(Loaded("k.s", (), None, Sources({"k.s": text}), amdgcn=amdgcn), None)
    return check_session(unit)


def codes(text: str, block: tuple[int, ...] = ()) -> set[str]:
    return {each.code for each in check(text, block).findings}


# A tile of 16 by 16 words is written by rows, and read by columns.
TRANSPOSE = """
v_and_b32_e32 v1, 15, v0
v_lshrrev_b32_e32 v2, 4, v0
v_mul_u32_u24_e32 v3, 17, v2
v_add_lshl_u32 v3, v3, v1, 2
ds_write_b32 v3, v4
s_waitcnt lgkmcnt(0)
s_barrier
v_mul_u32_u24_e32 v5, 17, v1
v_add_lshl_u32 v5, v5, v2, 2
ds_read_b32 v6, v5
s_waitcnt lgkmcnt(0)
"""

# The same for waves of 32 lanes and barriers in two instructions.
TRANSPOSE_SPLIT = """
v_and_b32_e32 v1, 15, v0
v_lshrrev_b32_e32 v2, 4, v0
v_mad_u32_u24 v3, v2, 17, v1
v_lshlrev_b32_e32 v3, 2, v3
ds_store_b32 v3, v4
s_wait_dscnt 0x0
s_barrier_signal -1
v_mad_u32_u24 v5, v1, 17, v2
v_lshlrev_b32_e32 v5, 2, v5
s_barrier_wait -1
ds_load_b32 v6, v5
s_wait_dscnt 0x0
"""

# Two slots in turns: each wave copies 256 words a round, and reads those of its neighbour.
DOUBLE = """
s_load_dword s4, s[0:1], 0x8
s_mov_b32 s5, 0
s_mov_b32 s6, 0
v_readfirstlane_b32 s7, v0
s_and_b32 s7, s7, 0xc0
s_lshl_b32 s7, s7, 2
v_xor_b32_e32 v1, 64, v0
v_lshlrev_b32_e32 v1, 2, v1
v_lshlrev_b32_e32 v2, 2, v0
s_waitcnt lgkmcnt(0)
s_mov_b32 m0, s7
buffer_load_dword v2, s[8:11], 0 offen lds
.LBB0_1:
s_xor_b32 s6, s6, 0x400
s_add_i32 s8, s7, s6
s_mov_b32 m0, s8
buffer_load_dword v2, s[12:15], 0 offen lds
s_waitcnt vmcnt(1)
s_barrier
s_xor_b32 s9, s6, 0x400
v_add_u32_e32 v3, s9, v1
ds_read_b32 v4, v3
s_waitcnt lgkmcnt(0)
s_barrier
s_add_i32 s5, s5, 1
s_cmp_lt_i32 s5, s4
s_cbranch_scc1 .LBB0_1
s_waitcnt vmcnt(0)
"""

# Lanes below 32 of each wave write; all read their neighbours'.
DIVERGENT = """
v_lshlrev_b32_e32 v1, 2, v0
v_and_b32_e32 v2, 63, v0
v_cmp_gt_u32_e32 vcc, 32, v2
s_and_saveexec_b64 s[4:5], vcc
s_cbranch_execz .LBB0_1
ds_write_b32 v1, v3
.LBB0_1:
s_or_b64 exec, exec, s[4:5]
s_waitcnt lgkmcnt(0)
s_barrier
v_xor_b32_e32 v4, 0x100, v1
ds_read_b32 v5, v4
s_waitcnt lgkmcnt(0)
"""

# The waves of the upper half do something of their own.
HALVES = """
v_lshlrev_b32_e32 v1, 2, v0
v_readfirstlane_b32 s4, v0
s_cmp_lt_u32 s4, 0x80
s_cbranch_scc1 .LBB0_1
ds_write_b32 v1, v3
s_waitcnt lgkmcnt(0)
.LBB0_1:
s_barrier
v_xor_b32_e32 v4, 0x200, v1
ds_read_b32 v5, v4
s_waitcnt lgkmcnt(0)
"""
