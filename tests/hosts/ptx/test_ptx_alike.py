"""Warps that store copies of one value to the same bytes: no race where the values are shown to be the same."""

from __future__ import annotations

import pytest

from oracles.programs.ptx_kernels import check, kernel
from tidegate.assumptions import AS_ONE

# Both warps load an element for each lane, and store it in the lane's place.
START = """
  mov.u32 %r1, %tid.x;
  and.b32 %r2, %r1, 31;
  setp.gt.u32 %p1, %r1, 31;
  shr.u32 %r20, %r1, 5;
  shl.b32 %r3, %r2, 2;
  mov.u32 %r4, tile;
  add.s32 %r5, %r4, %r3;
  ld.param.u64 %rd1, [k_param_0];
  ld.param.u32 %r21, [k_param_1];
  mul.wide.u32 %rd2, %r2, 4;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd1, %rd2;
  add.s64 %rd5, %rd1, %rd3;
"""
LOAD, STORE = "ld.global.f32 %f1, [%rd4];", "st.shared.f32 [%r5], %f1;"

SAME = {
    "loads from one address": (LOAD, STORE),
    "arithmetic": (LOAD, "sqrt.rn.f32 %f2, %f1;", "fma.rn.f32 %f1, %f2, %f2, %f1;", STORE),
    "a shuffle": (LOAD, "shfl.sync.bfly.b32 %f2, %f1, 16, 31, -1;", "add.f32 %f1, %f1, %f2;", STORE),
    "a guard that is alike": (
        LOAD,
        "setp.lt.s32 %p2, %r2, %r21;",
        "@%p2 mov.f32 %f1, 0f00000000;",
        "@%p2 ld.global.f32 %f1, [%rd4+4];",
        STORE,
    ),
    "several registers": ("ld.global.f32 %f2, [%rd4];", LOAD, "st.shared.v2.f32 [%r6], {%f1, %f2};"),
    "a loop": (
        "mov.f32 %f1, 0f00000000;",
        "mov.u32 %r7, 0;\n$Lloop:",
        "ld.global.f32 %f2, [%rd4];",
        "add.f32 %f1, %f1, %f2;",
        "add.s32 %r7, %r7, 1;",
        "setp.lt.s32 %p3, %r7, %r21;",
        "@%p3 bra $Lloop;",
        STORE,
    ),
    "what was in shared memory": ("ld.shared.f32 %f1, [%r5+1024];", STORE),
}
OTHER = {
    "loads from another address": ("ld.global.f32 %f1, [%rd5];", STORE),
    "the thread's number": ("cvt.rn.f32.u32 %f1, %r1;", STORE),
    "the warp's number": ("cvt.rn.f32.u32 %f2, %r20;", LOAD, "add.f32 %f1, %f1, %f2;", STORE),
    "an atomic": ("atom.global.add.f32 %f1, [%rd4], 0f3F800000;", STORE),
    "the clock": ("mov.u32 %r8, %clock;", "cvt.rn.f32.u32 %f1, %r8;", STORE),
    "a volatile load": ("ld.volatile.global.f32 %f1, [%rd4];", STORE),
    "local memory": ("ld.local.f32 %f1, [%rd4];", STORE),
    "a guard that differs": (LOAD, "@%p1 ld.global.f32 %f1, [%rd4+4];", STORE),
    "an arm of one warp": (LOAD, "@%p1 bra $Larm;", "ld.global.f32 %f1, [%rd4+4];\n$Larm:", STORE),
    "a shuffle among some lanes": (LOAD, "shfl.sync.bfly.b32 %f1, %f1, 16, 31, 65535;", STORE),
    "a register that nothing sets": (STORE,),
    "another register of several": ("ld.global.f32 %f2, [%rd5];", LOAD, "st.shared.v2.f32 [%r6], {%f1, %f2};"),
    "two statements": (LOAD, "@%p1 st.shared.f32 [%r5], %f1;", "@!%p1 st.shared.f32 [%r5], %f1;"),
    "places of other lanes": (LOAD, "shl.b32 %r9, %r20, 2;", "add.s32 %r5, %r5, %r9;", STORE),
    "lanes that write one place": (
        "min.u32 %r10, %r2, 5;",
        "shl.b32 %r10, %r10, 2;",
        "add.s32 %r5, %r4, %r10;",
        LOAD,
        STORE,
    ),
    "a sum in place": ("ld.shared.f32 %f1, [%r5];", "add.f32 %f1, %f1, %f1;", STORE),
}


def is_proved(body: tuple[str, ...]) -> bool:
    pair = "shl.b32 %r6, %r2, 3;\n  add.s32 %r6, %r6, %r4;"
    return check(kernel("\n  ".join((START, pair, *body))), (64,)).is_proved


@pytest.mark.parametrize("body", SAME.values(), ids=SAME)
def test_copies_of_one_value(body: tuple[str, ...]) -> None:
    assert is_proved(body)


@pytest.mark.parametrize("body", OTHER.values(), ids=OTHER)
def test_values_that_may_differ(body: tuple[str, ...]) -> None:
    assert not is_proved(body)


def test_the_proof_says_what_it_assumes() -> None:
    found = check(kernel("\n  ".join((START, LOAD, STORE))), (64,))
    assert AS_ONE in found.assumptions
