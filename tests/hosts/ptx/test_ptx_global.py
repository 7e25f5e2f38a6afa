"""Barriers of PTX that may order global memory: advice never calls them redundant."""

from __future__ import annotations

import pytest

from oracles.programs.ptx_kernels import check, program
from tidegate.advice import advise

# `{before}; bar.sync 0; {after}` on two arguments, a global variable and a shared array.
TEXT = """.version 8.0
.target sm_80
.address_size 64
.global .align 4 .b8 table[256];
.visible .entry k(.param .u64 k_param_0, .param .u64 k_param_1, .param .u32 k_param_2)
.reqntid 64, 1, 1
{{
  .reg .pred %p<4>;
  .reg .b32 %r<9>;
  .reg .b64 %rd<20>;
  .shared .align 4 .b8 tile[256];
  ld.param.u64 %rd1, [k_param_0];
  ld.param.u64 %rd2, [k_param_1];
  ld.param.u32 %r2, [k_param_2];
  cvta.to.global.u64 %rd3, %rd1;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd4, %r1, 4;
  add.s64 %rd5, %rd3, %rd4;
  add.s64 %rd6, %rd2, %rd4;
  mov.u64 %rd7, tile;
  cvta.shared.u64 %rd8, %rd7;
  add.s64 %rd9, %rd8, %rd4;
  setp.lt.s32 %p1, %r2, 5;
  {before}
  bar.sync 0;
  {after}
  ret;
}}
"""
HELD = {
    "written, read": ("st.global.u32 [%rd5], %r1;", "ld.global.u32 %r3, [%rd5+128];"),
    "read, written": ("ld.global.u32 %r3, [%rd5+128];", "st.global.u32 [%rd5], %r1;"),
    "written twice": ("st.global.u32 [%rd5], %r1;", "st.global.u32 [%rd3], %r1;"),
    "generic": ("st.u32 [%rd6], %r1;", "ld.u32 %r3, [%rd2];"),
    "a loaded pointer": ("ld.global.u64 %rd10, [%rd5]; st.global.u32 [%rd10], %r1;", "ld.global.u32 %r3, [%rd6];"),
    "a chosen pointer": ("selp.b64 %rd10, %rd5, %rd6, %p1; st.global.u32 [%rd10], %r1;", "ld.global.u32 %r3, [%rd6];"),
    "the second of two pointers": (
        "ld.param.v2.u64 {%rd10, %rd11}, [k_param_0]; st.global.u32 [%rd11], %r1;",
        "ld.param.u64 %rd12, [k_param_0+8]; ld.global.u32 %r3, [%rd12];",
    ),
    "a pointer at a computed place": (
        "mov.b64 %rd10, k_param_0; ld.param.u64 %rd11, [%rd10]; st.global.u32 [%rd11], %r1;",
        "ld.global.u32 %r3, [%rd5];",
    ),
    "a variable": ("st.global.u32 [table+4], %r1;", "mov.u64 %rd10, table; ld.global.u32 %r3, [%rd10];"),
    "in a loop": ("$L1: st.global.u32 [%rd5], %r1;", "ld.global.u32 %r3, [%rd5]; @%p1 bra $L1;"),
    "behind a jump": ("@%p1 bra $L1; st.global.u32 [%rd5], %r1; $L1:", "@%p1 bra $L2; ld.global.u32 %r3, [%rd3]; $L2:"),
    "a copy from it": ("st.global.u32 [%rd5], %r1;", "cp.async.ca.shared.global [%r1], [%rd5], 4;"),
    "a counter and a fence": ("st.global.u32 [%rd5], %r1; membar.gl;", "atom.global.add.u32 %r3, [%rd2], 1;"),
    "a flag": ("st.global.u32 [%rd5], %r1;", "st.release.gpu.global.u32 [%rd2], 1;"),
    "a volatile flag": ("ld.volatile.global.u32 %r3, [%rd2];", "ld.global.u32 %r3, [%rd5];"),
}
FREE = {
    "two arguments": ("ld.global.u32 %r3, [%rd5];", "st.global.u32 [%rd6], %r1;"),
    "another of two pointers": (
        "ld.param.v2.u64 {%rd10, %rd11}, [k_param_0]; st.global.u32 [%rd11], %r1;",
        "ld.param.u64 %rd12, [k_param_0+16]; ld.global.u32 %r3, [%rd12];",
    ),
    "reads": ("ld.global.u32 %r3, [%rd5];", "ld.global.u32 %r3, [%rd5];"),
    "nothing before": ("", "st.global.u32 [%rd5], %r1; ld.global.u32 %r3, [%rd5];"),
    "nothing after": ("st.global.u32 [%rd5], %r1; ld.global.u32 %r3, [%rd5];", ""),
    "constant": ("ld.global.nc.u32 %r3, [%rd5];", "st.global.u32 [%rd5], %r1;"),
    "shared by a generic address": ("st.u32 [%rd9], %r1;", "st.global.u32 [%rd5], %r1; ld.u32 %r3, [%rd9];"),
    "an end between": ("st.global.u32 [%rd5], %r1; @%p1 bra $L1; ret; $L1: bra $L2; $L2:", ""),
}


@pytest.mark.parametrize(("name", "is_held"), [*((each, True) for each in HELD), *((each, False) for each in FREE)])
def test_barriers_that_may_order_global_memory_are_held(name: str, is_held: bool) -> None:
    before, after = (HELD if is_held else FREE)[name]
    text = TEXT.format(before=before, after=after)
    line = next(number for number, each in enumerate(text.split("\n"), 1) if "bar.sync" in each)
    assert {each.line for each in program(text).held} == ({line} if is_held else set())


def test_advice_leaves_them_alone() -> None:
    before, after = HELD["written, read"]
    found = advise(check(TEXT.format(before=before, after=after)))
    assert found.findings == []
    assert found.said.endswith("; 1 may order global memory and was not tried")
    before, after = FREE["two arguments"]
    found = advise(check(TEXT.format(before=before, after=after)))
    assert [each.code for each in found.findings] == ["TG401"]
    assert "global" not in found.said
