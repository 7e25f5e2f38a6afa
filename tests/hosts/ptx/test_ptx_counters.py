"""Counters: remainders, registers that move together, small ones that wrap around; and launches that abort."""

from __future__ import annotations

import pytest

from oracles.programs.ptx_kernels import check, codes, kernel, program


def proved(body: str, block: tuple[int, ...] = (64,), size: int = 8192) -> bool:
    return check(kernel(body, size=size), block).is_proved


# --- remainders of an argument, case by case ----------------------------------------------------------------------

# What a compiler leaves of a ring of three slots behind its unrolled loop: n mod 4 rounds, from any slot on.
LEFT_OVER = """
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, tile;
  add.s32 %r4, %r3, %r2;
  xor.b32 %r5, %r2, 128;
  add.s32 %r5, %r3, %r5;
  ld.param.u32 %r6, [k_param_1];
  and.b32 %r7, %r6, {mask};
  mov.u32 %r8, 0;
  setp.eq.s32 %p1, %r7, 0;
  @%p1 bra $L2;
$L1:
  rem.u32 %r9, %r8, {slots};
  shl.b32 %r9, %r9, 8;
  add.s32 %r10, %r4, %r9;
  add.s32 %r11, %r5, %r9;
  st.shared.f32 [%r10], %f1;
  {sync}
  ld.shared.f32 %f2, [%r11];
  add.s32 %r8, %r8, 1;
  add.s32 %r7, %r7, -1;
  setp.ne.s32 %p2, %r7, 0;
  @%p2 bra $L1;
$L2:
  rem.u32 %r9, %r8, {slots};
  shl.b32 %r9, %r9, 8;
  add.s32 %r10, %r4, %r9;
  st.shared.f32 [%r10], %f1;
"""
PARAMETERS = {"mask": 3, "slots": 3, "sync": "bar.sync 0;"}


@pytest.mark.parametrize(
    ("change", "right"),
    [
        ({}, True),
        ({"slots": 2}, True),
        ({"mask": 7}, True),
        ({"slots": 1}, False),  # the next round writes what is being read
        ({"sync": "bar.warp.sync -1;"}, False),
        ({"sync": ""}, False),
        ({"mask": 7, "slots": 1}, False),
        ({"mask": 1, "slots": 1}, False),  # a single round, and what stands behind the loop
        ({"mask": 15}, True),  # more remainders than are told apart: the loop has a counter
        ({"mask": 15, "slots": 1}, False),
    ],
)
def test_a_loop_of_as_many_rounds_as_a_remainder_is_followed(change: dict[str, object], right: bool) -> None:
    assert proved(LEFT_OVER.format(**{**PARAMETERS, **change})) == right


def test_each_remainder_of_an_argument_is_a_case() -> None:
    """Two ways of taking the remainder are two questions, and a case is one value of each."""
    found = program(kernel(LEFT_OVER.format(**PARAMETERS), size=8192), (64,))
    assert found.explored.touches == found.explored.exact
    assert {show for node in found.explored.nodes if node.cond is not None for show in [repr(node.cond)]}


CASE = """
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, tile;
  add.s32 %r4, %r3, %r2;
  ld.param.u32 %r6, [k_param_1];
  and.b32 %r7, %r6, 3;
  st.shared.f32 [%r4], %f1;
  setp.eq.s32 %p1, %r7, {first};
  @%p1 bra $L1;
  bar.sync 0;
$L1:
  setp.eq.s32 %p2, %r7, {second};
  @%p2 bra $L2;
  xor.b32 %r5, %r2, 128;
  add.s32 %r5, %r3, %r5;
  ld.shared.f32 %f2, [%r5];
$L2:
"""


@pytest.mark.parametrize(("first", "second", "right"), [(2, 2, True), (2, 1, False), (0, 0, True), (4, 1, True)])
def test_a_barrier_that_one_remainder_skips(first: int, second: int, right: bool) -> None:
    assert proved(CASE.format(first=first, second=second)) == right


# --- registers that move together ---------------------------------------------------------------------------------

# A ring of four slots: `head` runs `ahead` before `tail`, each in its own register of `bits`.
TICKETS = """
  .reg .b16 %rs<9>;
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, tile;
  add.s32 %r4, %r3, %r2;
  xor.b32 %r5, %r2, 128;
  add.s32 %r5, %r3, %r5;
  ld.param.u32 %r6, [k_param_1];
  mov.u16 %rs1, {ahead};
  mov.u16 %rs2, 0;
  mov.u32 %r7, 0;
$L1:
  sub.s16 %rs3, %rs1, %rs2;
  and.b16 %rs4, %rs3, 255;
  setp.eq.s16 %p1, %rs4, {expected};
  @!%p1 bra $L2;
  {sync}
$L2:
  and.b16 %rs5, %rs1, {mask};
  cvt.u32.u16 %r8, %rs5;
  shl.b32 %r8, %r8, 8;
  add.s32 %r8, %r4, %r8;
  st.shared.f32 [%r8], %f1;
  and.b16 %rs6, %rs2, {mask};
  cvt.u32.u16 %r9, %rs6;
  shl.b32 %r9, %r9, 8;
  add.s32 %r9, %r5, %r9;
  ld.shared.f32 %f2, [%r9];
  add.s16 %rs1, %rs1, {step};
  add.s16 %rs2, %rs2, 1;
  {late}
  add.s32 %r7, %r7, 1;
  setp.lt.s32 %p2, %r7, %r6;
  @%p2 bra $L1;
"""
RINGS = {"ahead": 2, "expected": 2, "mask": 3, "step": 1, "sync": "bar.sync 0;", "late": ""}


@pytest.mark.parametrize(
    ("change", "right"),
    [
        ({}, True),
        ({"ahead": 3, "expected": 3}, True),
        ({"ahead": 4, "expected": 4}, False),  # head is where tail is
        ({"expected": 1}, False),  # no round has a barrier
        ({"step": 2}, False),  # head runs away, and rounds without a barrier follow
        ({"sync": ""}, False),
        ({"ahead": 254, "expected": 254}, True),
        ({"ahead": 258, "expected": 2}, True),  # 8 bits are compared: 258 is 2
        ({"ahead": 258, "expected": 258}, False),
        ({"mask": 1, "ahead": 1, "expected": 1}, True),
        ({"mask": 1}, False),
        ({"late": "@%p3 add.s16 %rs1, %rs1, 1;"}, False),  # now and then head takes two steps
    ],
)
def test_registers_that_move_together_keep_their_distance(change: dict[str, object], right: bool) -> None:
    """In registers of 16 bits that wrap around after 65,536 rounds."""
    assert proved(TICKETS.format(**{**RINGS, **change})) == right


# A loop that goes down by what another register goes up, and ends when nothing is left.
AGAINST = """
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, tile;
  add.s32 %r4, %r3, %r2;
  xor.b32 %r5, %r2, 128;
  add.s32 %r5, %r3, %r5;
  ld.param.u32 %r6, [k_param_1];
  mov.u32 %r7, 0;
  mov.u32 %r8, %r6;
$L1:
  add.s32 %r9, %r7, %r8;
  setp.eq.s32 %p1, %r9, %r6;
  st.shared.f32 [%r4], %f1;
  @%p1 bra $L2;
  bra.uni $L3;
$L2:
  bar.sync 0;
$L3:
  ld.shared.f32 %f2, [%r5];
  bar.sync 0;
  add.s32 %r7, %r7, {up};
  add.s32 %r8, %r8, {down};
  setp.gt.s32 %p2, %r8, 0;
  @%p2 bra $L1;
"""


@pytest.mark.parametrize(("up", "down", "right"), [(1, -1, True), (3, -3, True), (1, -2, False), (2, -1, False)])
def test_counters_that_run_against_each_other(up: int, down: int, right: bool) -> None:
    """The barrier in the loop stands under `up + down == n`, which holds in each round or in the first alone."""
    assert proved(AGAINST.format(up=up, down=down)) == right


# --- what threads do not share ------------------------------------------------------------------------------------

OWN = """
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mad.lo.s32 %r4, %r2, {far}, %r1;
  {place}
  shl.b32 %r5, %r5, 2;
  mov.u32 %r3, tile;
  add.s32 %r5, %r3, %r5;
  st.shared.f32 [%r5], %f1;
  ld.shared.f32 %f2, [%r5];
"""


@pytest.mark.parametrize(
    ("far", "place", "right"),
    [
        (64, "rem.u32 %r5, %r4, 64;", True),
        (64, "and.b32 %r5, %r4, 63;", True),
        (256, "rem.u32 %r5, %r4, 64;", True),
        (64, "rem.u32 %r5, %r4, 32;", False),  # both warps come to the same places
        (64, "and.b32 %r5, %r4, 31;", False),
        (64, "and.b32 %r5, %r4, 47;", False),  # lanes 16 and 0 of one warp at one place
        (65, "rem.u32 %r5, %r4, 32;", False),
        (64, "shr.u32 %r5, %r4, 1;", False),
        (64, "mul.hi.u32 %r5, %r4, -1431655765;", False),  # a third of it, for any three
    ],
)
def test_remainders_that_each_thread_takes(far: int, place: str, right: bool) -> None:
    """`(block * 64 + thread) mod 64` is the thread, whatever block it is."""
    assert proved(OWN.format(far=far, place=place)) == right


# --- launches that abort ------------------------------------------------------------------------------------------

ABORT = """
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, tile;
  add.s32 %r4, %r3, %r2;
  xor.b32 %r5, %r2, 128;
  add.s32 %r5, %r3, %r5;
  ld.param.u32 %r6, [k_param_1];
  st.shared.f32 [%r4], %f1;
  {test}
  @%p1 bra $L1;
  {before}
  {how}
$L1:
  {sync}
  ld.shared.f32 %f2, [%r5];
"""
ABORTS = {"test": "setp.ne.s32 %p1, %r6, %r1;", "before": "", "how": "trap;", "sync": "bar.sync 0;"}


@pytest.mark.parametrize(
    ("change", "right"),
    [
        ({}, True),
        ({"test": "setp.ne.s32 %p1, %r6, 3;"}, True),
        ({"test": "setp.ne.s32 %p1, %r1, 3;"}, False),  # every launch aborts, and others may wait
        ({"how": "exit;"}, False),  # the thread that ends may not have written yet
        ({"sync": ""}, False),
        ({"sync": "bar.warp.sync -1;"}, False),
        ({"before": "bar.sync 0;"}, False),  # a thread that waits there aborts nothing
        ({"how": "@%p2 trap;\n  exit;"}, False),  # it aborts or ends
        ({"how": "$L4:\n  bra.uni $L4;"}, False),  # others wait for ever
    ],
)
def test_a_launch_in_which_a_thread_aborts_has_no_result(change: dict[str, str], right: bool) -> None:
    assert proved(ABORT.format(**{**ABORTS, **change})) == right


def test_a_race_before_a_launch_aborts_is_one_where_it_does_not() -> None:
    assert codes(kernel(ABORT.format(**{**ABORTS, "sync": ""}), size=8192), (64,)) & {"TG101", "TG106"}
