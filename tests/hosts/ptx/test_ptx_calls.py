"""Calls of device functions: followed where a function does nothing to shared memory and to other threads."""

from __future__ import annotations

import pytest

from oracles.programs.ptx_kernels import check

HEAD = """.version 8.0
.target sm_80
.address_size 64
.global .align 8 .u64 table;
.shared .align 16 .b8 outside[4096];
{functions}
.visible .entry k(.param .u64 k_param_0)
{{
  .reg .b32 %r<60>;
  .reg .b64 %rd<20>;
  .reg .f32 %f<20>;
  .shared .align 16 .b8 a[4096];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, a;
  add.s32 %r4, %r3, %r2;
  st.shared.f32 [%r4], %f1;
  {before}
  bar.sync 0;
  {{
  .param .b32 retval0;
  call (retval0), {called}, (){prototype};
  ld.param.b32 %r9, [retval0];
  }}
  xor.b32 %r5, %r4, 128;
  ld.shared.f32 %f2, [%r5];
  ret;
}}
"""
FUNCTION = ".func (.param .b32 given) {name}()\n{{\n  .reg .b32 %r<9>;\n  .reg .b64 %rd<9>;\n  {body}\n  ret;\n}}\n"


def is_proved(functions: str, called: str = "f", before: str = "") -> bool:
    prototype = ", prototype_0" if called.startswith("%") else ""
    text = HEAD.format(functions=functions, called=called, before=before, prototype=prototype)
    return check(text, (64,)).is_proved


def function(body: str, name: str = "f") -> str:
    return FUNCTION.format(name=name, body=body)


HARMLESS = {
    "arithmetic": "add.s32 %r1, %r1, 1;\n  st.param.b32 [given], %r1;",
    "global memory": "ld.global.u64 %rd1, [table];\n  st.global.u32 [%rd1], %r1;",
    "local memory, and a loop": "$again:\n  st.local.u32 [%rd1], %r1;\n  setp.lt.s32 %p1, %r1, 9;\n  @%p1 bra $again;",
}
HARMFUL = {
    "a barrier": "bar.sync 0;",
    "a barrier of the warp": "bar.warp.sync -1;",
    "the end of the thread": "exit;",
    "an array of the file": "mov.u32 %r1, outside;",
    "an address of shared memory": "cvta.shared.u64 %rd1, %rd2;",
    "a store to shared memory": "st.shared.u32 [%r1], %r2;",
    "a store that may lead to shared memory": "st.u32 [%rd1], %r2;",
    "an atomic that may lead to shared memory": "red.add.u32 [%rd1], %r2;",
    "a copy in the background": "cp.async.ca.shared.global [%r1], [%rd1], 4;",
    "a call of a function that is elsewhere": "call elsewhere, ();",
    "an instruction that nobody knows": "frobnicate.b32 %r1, %r2;",
}


@pytest.mark.parametrize("body", HARMLESS.values(), ids=HARMLESS)
def test_functions_that_touch_no_shared_memory_are_followed(body: str) -> None:
    assert is_proved(function(body))


@pytest.mark.parametrize("body", HARMFUL.values(), ids=HARMFUL)
def test_functions_that_may_do_more_are_not(body: str) -> None:
    assert not is_proved(function(body))
    inner = function(body, "inner")
    assert not is_proved(inner + function("call inner, ();"))


def test_a_call_through_a_register_reaches_any_function_of_the_file() -> None:
    good, bad = function(HARMLESS["arithmetic"]), function("bar.sync 0;", "other")
    assert is_proved(good, "%rd1")
    assert not is_proved(good + bad, "%rd1")
    assert not is_proved(f".extern .func elsewhere();\n{good}", "%rd1")
    assert is_proved(f".func (.param .b32 given) f();\n{good}", "%rd1")
    assert not is_proved("", "%rd1")


def test_functions_that_call_each_other() -> None:
    one = function("call two, ();", "f")
    assert is_proved(one + function("call f, ();", "two"))
    assert not is_proved(one + function("call f, ();\n  bar.sync 0;", "two"))
