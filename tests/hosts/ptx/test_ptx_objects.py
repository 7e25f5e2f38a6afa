"""mbarriers of PTX: barriers where all threads of a block arrive and wait at once, and not modelled otherwise."""

from __future__ import annotations

import pytest

from oracles.programs.ptx_kernels import check

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 k_param_0, .param .u32 k_param_1)
{{
  .reg .pred %p<20>;
  .reg .b32 %r<60>;
  .reg .b64 %rd<20>;
  .reg .f32 %f<20>;
  .shared .align 8 .b8 bar[16];
  .shared .align 16 .b8 tile[4096];
  ld.param.u32 %r20, [k_param_1];
  ld.param.u64 %rd9, [k_param_0];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, tile;
  add.s32 %r4, %r3, %r2;
  xor.b32 %r5, %r2, 128;
  add.s32 %r6, %r3, %r5;
  mov.u32 %r7, bar;
  setp.ne.s32 %p1, %r1, 0;
  setp.gt.u32 %p2, %r1, 31;
  {init}
  {body}
  ret;
}}
"""
INIT = "@%p1 bra $Lset;\n  mbarrier.init.shared.b64 [%r7], 64;\n$Lset:\n  bar.sync 0;"
ARRIVE = "mbarrier.arrive.shared.b64 %rd1, [%r7];"
WAIT = """
$Lagain{n}:
  mbarrier.test_wait.shared.b64 %p9, [%r7], %rd1;
  @!%p9 bra $Lagain{n};"""
STORE, LOAD = "st.shared.f32 [%r4], %f1;", "ld.shared.f32 %f2, [%r6];"
COPY = "cp.async.ca.shared.global [%r4], [%rd9], 4;"
TRACK = "cp.async.mbarrier.arrive.shared.b64 [%r7];"
# As libcu++ waits: a first test, then tests with growing pauses.
PATIENT = """
  mbarrier.test_wait.shared.b64 %p9, [%r7], %rd1;
  selp.b32 %r30, 1, 0, %p9;
  setp.ne.s32 %p10, %r30, 0;
  @%p10 bra $Lover;
  mov.u32 %r31, 0;
$Lask:
  setp.lt.s32 %p11, %r31, 16;
  @%p11 bra $Lcount;
  nanosleep.u32 1000;
  bra.uni $Ltest;
$Lcount:
  add.s32 %r31, %r31, 1;
$Ltest:
  mbarrier.test_wait.shared.b64 %p12, [%r7], %rd1;
  selp.b32 %r32, 1, 0, %p12;
  setp.eq.s32 %p13, %r32, 0;
  @%p13 bra $Lask;
$Lover:"""


def is_proved(*body: str, init: str = INIT, threads: int = 64) -> bool:
    return check(KERNEL.format(init=init, body="\n  ".join(body)), (threads,)).is_proved


def wait(number: int = 0) -> str:
    return WAIT.format(n=number)


def loop(*body: str) -> tuple[str, ...]:
    """As often as an argument says."""
    head = ("mov.u32 %r21, 0;\n$Lloop:", "setp.ge.s32 %p3, %r21, %r20;\n  @%p3 bra $Lend;")
    return (*head, *body, "add.s32 %r21, %r21, 1;\n  bra.uni $Lloop;\n$Lend:")


RIGHT = {
    "one phase": (STORE, ARRIVE, wait(), LOAD),
    "a wait with pauses": (STORE, ARRIVE, PATIENT, LOAD),
    "an arrival that says it counts once": (STORE, ARRIVE.replace("[%r7]", "[%r7], 1"), wait(), LOAD),
    "phases in a loop": loop(STORE, ARRIVE, wait(), LOAD, ARRIVE, wait(1)),
    "copies that it tracks": (COPY, TRACK, ARRIVE, wait(), LOAD),
    "several copies that it tracks": (COPY, TRACK, COPY.replace("[%r4]", "[%r4+1024]"), TRACK, ARRIVE, wait(), LOAD),
    "copies in a loop": loop(COPY, TRACK, ARRIVE, wait(), LOAD, ARRIVE, wait(1)),
    "its end": (
        STORE,
        ARRIVE,
        wait(),
        LOAD,
        "bar.sync 0;\n  @%p1 bra $Lpast;\n  mbarrier.inval.shared.b64 [%r7];\n$Lpast:",
    ),
}
WRONG = {
    "no wait": (STORE, ARRIVE, LOAD),
    "one test": (STORE, ARRIVE, "mbarrier.test_wait.shared.b64 %p9, [%r7], %rd1;", LOAD),
    "a test that gives up": (STORE, ARRIVE, wait().replace("@!%p9 bra", "@%p9 bra"), LOAD),
    "an access before the wait": (STORE, ARRIVE, LOAD, wait()),
    "an access before the wait, and it is over behind it": (COPY, TRACK, ARRIVE, "ld.shared.f32 %f2, [%r4];", wait()),
    "an arrival too many": (STORE, ARRIVE, ARRIVE, wait(), LOAD),
    "a wait for an arrival before the last": (
        STORE,
        ARRIVE,
        "mov.b64 %rd2, %rd1;",
        wait(),
        ARRIVE,
        wait(1).replace("%rd1", "%rd2"),
        LOAD,
    ),
    "a wait for nothing that an arrival gave": (STORE, ARRIVE, "mov.b64 %rd1, %rd9;", wait(), LOAD),
    "a loop that is not ordered backwards": loop(STORE, ARRIVE, wait(), LOAD),
    "copies that nothing tracks": (COPY, ARRIVE, wait(), LOAD),
    "copies that are tracked too late": (COPY, ARRIVE, wait(), TRACK, LOAD),
    "copies that another object tracks": (COPY, TRACK.replace("[%r7]", "[%r7+8]"), ARRIVE, wait(), LOAD),
    "an arrival of one warp": (STORE, "@%p2 bra $Lwarp;", ARRIVE, wait(), "$Lwarp:", LOAD),
    "an arrival of one thread": (STORE, "@%p1 bra $Lwarp;", ARRIVE, wait(), "$Lwarp:", LOAD),
    "threads that have ended": ("@%p2 ret;", STORE, ARRIVE, wait(), LOAD),
    "a relaxed arrival": (STORE, ARRIVE.replace("arrive.", "arrive.relaxed.cta."), wait(), LOAD),
    "an arrival that drops out": (STORE, ARRIVE.replace("arrive.", "arrive_drop."), wait(), LOAD),
    "an arrival that counts twice": (STORE, ARRIVE.replace("[%r7]", "[%r7], 2"), wait(), LOAD),
    "a use behind the end": (STORE, "mbarrier.inval.shared.b64 [%r7];\n  bar.sync 0;", ARRIVE, wait(), LOAD),
    "an end before all have waited": (STORE, ARRIVE, wait(), "@%p1 bra $Lx;\n  mbarrier.inval.shared.b64 [%r7];\n$Lx:"),
    "data where the object is": (STORE, "st.shared.f32 [%r7], %f1;", ARRIVE, wait(), LOAD),
    "a wait in which the object changes": (
        STORE,
        ARRIVE,
        "$La:\n  mbarrier.test_wait.shared.b64 %p9, [%r7], %rd1;\n  add.s32 %r7, %r7, 0;\n  @!%p9 bra $La;",
        LOAD,
    ),
    "a store while the thread asks": (
        STORE,
        ARRIVE,
        "$La:\n  mbarrier.test_wait.shared.b64 %p9, [%r7], %rd1;\n  st.shared.f32 [%r6], %f1;\n  @!%p9 bra $La;",
        LOAD,
    ),
    "two tests of different objects": (
        STORE,
        ARRIVE,
        "$La:\n  mbarrier.test_wait.shared.b64 %p9, [%r7], %rd1;\n  @%p9 bra $Lb;\n"
        "  mbarrier.test_wait.shared.b64 %p9, [%r7+8], %rd1;\n  @!%p9 bra $La;\n$Lb:",
        LOAD,
    ),
}


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_all_threads_meet(body: tuple[str, ...]) -> None:
    assert is_proved(*body)


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_what_is_no_meeting_of_all(body: tuple[str, ...]) -> None:
    assert not is_proved(*body)


@pytest.mark.parametrize(
    "init",
    [
        "",
        "bar.sync 0;",
        INIT.replace("64;", "32;"),
        INIT.replace("64;", "%r20;"),
        INIT.replace("bar.sync 0;", "bar.warp.sync -1;"),
        INIT.replace("[%r7]", "[%r7+8]"),
        INIT.replace("mbarrier.init", "$Lmore:\n  mbarrier.init").replace(
            "64;", "64;\n  setp.gt.s32 %p8, %r20, 3;\n  @%p8 bra $Lmore;"
        ),
        f"{INIT}\n  mbarrier.init.shared.b64 [%r7], 64;\n  bar.sync 0;",
    ],
)
def test_an_object_is_set_up_once_for_all_threads_and_before_they_use_it(init: str) -> None:
    assert not is_proved(STORE, ARRIVE, wait(), LOAD, init=init)


def test_the_lanes_of_a_single_warp_are_apart() -> None:
    """An arrival of one lane may be taken for that of another, where no other warp arrives."""
    one = INIT.replace("64;", "32;")
    assert not is_proved(STORE, ARRIVE, wait(), LOAD, init=one, threads=32)


def test_what_the_loop_around_a_test_sets_is_forgotten() -> None:
    """Each thread asks another number of times."""
    count = wait().replace("@!%p9", "add.s32 %r40, %r40, 1;\n  @!%p9")
    branch = "setp.gt.s32 %p8, %r40, 1;\n  @%p8 bra $Lx;\n  bar.sync 0;\n$Lx:"
    assert is_proved("mov.u32 %r40, 0;", STORE, ARRIVE, count, LOAD)
    assert not is_proved("mov.u32 %r40, 0;", STORE, ARRIVE, count, branch, LOAD)
