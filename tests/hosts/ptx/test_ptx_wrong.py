"""PTX kernels that race or hang, each by one corner of the instruction set that is easily taken for simpler than it is.

Nearly all of them were called proved once. What is right and looks alike stands below.
"""

from __future__ import annotations

import pytest

from oracles.programs.ptx_kernels import check, kernel

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 k_param_0, .param .u32 k_param_1)
{
  .reg .pred %p<20>;
  .reg .b16 %rs<20>;
  .reg .b32 %r<60>;
  .reg .b64 %rd<20>;
  .reg .f32 %f<20>;
  .shared .align 16 .b8 a[4096];
  .shared .align 16 .b8 b[4096];
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p1, %r1, 32;
  ld.param.u64 %rd1, [k_param_0];
  ld.param.u32 %r2, [k_param_1];
"""

# Each thread writes an element, and reads that of its neighbour in the next warp.
RACE = """
  shl.b32 %r51, %r1, 2;
  mov.u32 %r52, a;
  add.s32 %r53, %r52, %r51;
  st.shared.f32 [%r53], %f1;
  xor.b32 %r54, %r53, 128;
  ld.shared.f32 %f2, [%r54];
"""
# Where warps disagree on %p9, the last barrier of some meets the first one of others, and their stores come later.
BARRIER_UNLESS = """
  @%p9 bra $Lpast;
  bar.sync 0;
$Lpast:""" + RACE.replace("  xor", "  bar.sync 0;\n  xor")
RACE_UNLESS = "@%p9 bra $Lpast;" + RACE + "$Lpast:"
OWN = """
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
"""
GENERIC = """
  mov.u64 %rd4, a;
  cvta.shared.u64 %rd5, %rd4;
"""


def is_proved(body: str, threads: int = 64) -> bool:
    return check(f"{HEAD}{body}\n  ret;\n}}\n", (threads,)).is_proved


WRONG = {
    "one of two arguments' elements for each warp": """
  ld.global.u32 %r3, [%rd1];
  ld.global.u32 %r4, [%rd1+4];
  selp.b32 %r5, %r3, %r4, %p1;
  setp.eq.s32 %p9, %r5, 0;"""
    + BARRIER_UNLESS,
    "a guarded load over another load": """
  ld.global.u32 %r3, [%rd1];
  @%p1 ld.global.u32 %r3, [%rd1+4];
  setp.eq.s32 %p9, %r3, 0;"""
    + BARRIER_UNLESS,
    "a barrier under a condition of each thread, where some may have ended": OWN
    + """
  ld.global.u32 %r3, [%rd3];
  setp.eq.s32 %p2, %r3, 0;
  @%p2 ret;
  ld.global.u32 %r4, [%rd3+256];
  setp.eq.s32 %p9, %r4, 0;"""
    + BARRIER_UNLESS,
    "two ways to one place, of which one has set a register since threads parted": """
  setp.eq.s32 %p2, %r2, 0;
  @%p2 bra $Lset;
  ld.global.u32 %r3, [%rd1+8];
  @%p1 bra $Lmeet;
  bra $Lboth;
$Lset:
  ld.global.u32 %r3, [%rd1];
  @%p1 bra $Lmeet;
  ld.global.u32 %r3, [%rd1+4];
  bra $Lboth;
$Lboth:
  mov.u32 %r5, b;
  ld.shared.u32 %r6, [%r5+2048];
$Lmeet:
  setp.eq.s32 %p9, %r3, 0;"""
    + BARRIER_UNLESS,
    "a warp that spins for ever, while the others wait for it": """
  @%p1 bra $Lspin;
  bar.sync 0;
  ret;
$Lspin:
  bra $Lspin;""",
    "a warp that ends, counted by the barrier behind": """
  setp.eq.s32 %p2, %r2, 0;
  mov.u32 %r5, b;
  @!%p1 bra $Lmeet;
  @%p2 ret;
  ld.shared.u32 %r6, [%r5];
$Lmeet:
  bar.sync 0, 64;
  ld.shared.u32 %r6, [%r5];""",
    "a warp that ends behind its stores, read by those that go on": """
  setp.eq.s32 %p2, %r2, 0;
  shl.b32 %r3, %r1, 2;
  mov.u32 %r4, a;
  add.s32 %r5, %r4, %r3;
  @!%p1 bra $Lmeet;
  st.shared.u32 [%r5], %r1;
  @%p2 ret;
$Lmeet:
  bar.sync 0;
  xor.b32 %r6, %r5, 128;
  @!%p1 ld.shared.u32 %r7, [%r6];""",
    "a place that is a number: arrays lie where the linker says": """
  shl.b32 %r3, %r1, 2;
  mov.u32 %r4, a;
  add.s32 %r5, %r4, %r3;
  st.shared.u32 [%r5], %r1;
  add.s32 %r6, %r3, 5120;
  ld.shared.u32 %r7, [%r6];""",
    "an arm without an end, beside one that races": """
  @%p1 bra $Lspin;
  mov.u32 %r5, b;
  and.b32 %r6, %r1, 1;
  add.s32 %r7, %r5, %r6;
  st.shared.u8 [%r7], %r1;
  ret;
$Lspin:
  mov.u32 %r5, a;
  ld.shared.u32 %r6, [%r5];
  bra $Lspin;""",
    "a carry out of a sum, which warps do not share": """
  add.cc.u32 %r3, %r1, 4294967264;
  addc.u32 %r4, 0, 0;
  setp.eq.s32 %p9, %r4, 0;"""
    + BARRIER_UNLESS,
    "a minimum with a sign, and one without": """
  mov.u32 %r3, a;
  red.shared.min.u32 [%r3], 5;
  red.shared.min.s32 [%r3], %r1;""",
    "a part of an argument, and all of it": """
  ld.param.u8 %r3, [k_param_1];
  setp.eq.s32 %p9, %r2, %r3;"""
    + RACE_UNLESS,
    "a number cut to 8 bits by two shifts": """
  shl.b32 %r3, %r2, 24;
  shr.s32 %r4, %r3, 24;
  setp.eq.s32 %p9, %r2, %r4;"""
    + RACE_UNLESS,
    "8 bits, of which the last is a sign": """
  and.b32 %r3, %r2, 255;
  cvt.s32.s8 %r4, %r3;
  setp.eq.s32 %p9, %r3, %r4;"""
    + RACE_UNLESS,
    "16 bits, compared with a sign": """
  and.b32 %r3, %r2, 65535;
  cvt.u16.u32 %rs1, %r3;
  setp.ge.s16 %p9, %rs1, 0;"""
    + RACE_UNLESS,
    "a number cut to 16 bits by a product": """
  mul.lo.s32 %r3, %r2, 65536;
  shr.s32 %r4, %r3, 16;
  setp.eq.s32 %p9, %r2, %r4;"""
    + RACE_UNLESS,
    "an argument of 64 bits cut to 32": """
  cvt.u32.u64 %r3, %rd1;
  cvt.s64.s32 %rd3, %r3;
  setp.eq.s64 %p9, %rd1, %rd3;"""
    + RACE_UNLESS,
    "the lower half of an argument": """
  mov.b64 {%r3, %r4}, %rd1;
  cvt.s64.s32 %rd3, %r3;
  setp.eq.s64 %p9, %rd1, %rd3;"""
    + RACE_UNLESS,
    "a counter of 16 bits that wraps around": """
  mov.u16 %rs1, 0;
  mov.u32 %r3, 0;
$Lhead:
  setp.lt.s16 %p3, %rs1, 0;
  @%p3 bra $Lrace;
  add.s16 %rs1, %rs1, 1;
  add.s32 %r3, %r3, 1;
  setp.lt.s32 %p4, %r3, %r2;
  @%p4 bra $Lhead;
  ret;
$Lrace:"""
    + RACE,
    "a sum that is meant to run through all numbers": """
  mov.u32 %r3, 0;
  mov.u32 %r4, 0;
$Lhead:
  setp.lt.s32 %p3, %r3, 0;
  @%p3 bra $Lrace;
  mad.lo.s32 %r3, %r3, 5, 1866750820;
  add.s32 %r4, %r4, 1;
  setp.lt.s32 %p4, %r4, %r2;
  @%p4 bra $Lhead;
  ret;
$Lrace:"""
    + RACE,
    "a counter of 64 bits beyond what 32 can hold": """
  mov.u64 %rd2, 0;
$Lhead:
  add.s64 %rd2, %rd2, 1048576;
  setp.lt.u64 %p3, %rd2, 8589934592;
  @%p3 bra $Lhead;"""
    + RACE,
    "a pointer that was read, and an argument behind it": GENERIC
    + """
  ld.local.u64 %rd6, [%rd9];
  add.s64 %rd7, %rd6, %rd1;
  st.u32 [%rd7], %r1;""",
    "a pointer that was read, moved by the last bits of another one": GENERIC
    + """
  ld.local.u64 %rd6, [%rd9];
  and.b64 %rd7, %rd5, 15;
  add.s64 %rd8, %rd6, %rd7;
  @%p1 st.u32 [%rd8], %r1;
  mov.u32 %r5, b;
  @!%p1 ld.shared.u32 %r6, [%r5];""",
    "a pointer that two shifts align, and an argument behind it": GENERIC
    + """
  shr.u64 %rd6, %rd5, 4;
  shl.b64 %rd6, %rd6, 4;
  add.s64 %rd7, %rd6, %rd1;
  st.u32 [%rd7], %r1;""",
    "an array for one warp, a pointer that was read for the other": GENERIC
    + """
  ld.local.u64 %rd6, [%rd9];
  selp.b64 %rd7, %rd5, %rd6, %p1;
  @!%p1 st.u32 [%rd7], %r1;
  mov.u32 %r5, b;
  ld.shared.u32 %r6, [%r5];""",
    "a step from one array to the other, as often as an argument says": """
  mov.u32 %r3, a;
  mov.u32 %r4, b;
  sub.s32 %r5, %r4, %r3;
  and.b32 %r6, %r2, 1;
  shl.b32 %r9, %r1, 2;
  mad.lo.s32 %r7, %r6, %r5, %r3;
  add.s32 %r8, %r7, %r9;
  st.shared.u32 [%r8], %r1;
  add.s32 %r10, %r4, %r9;
  xor.b32 %r10, %r10, 128;
  ld.shared.u32 %r11, [%r10];""",
    "63 bits of a number": """
  mov.u64 %rd2, 0x7000000000000000;
  bfe.u64 %rd3, %rd2, 0, 63;
  shr.u64 %rd3, %rd3, 62;
  cvt.u32.u64 %r3, %rd3;
  setp.eq.s32 %p9, %r3, 0;"""
    + RACE_UNLESS,
    "16 bits shifted by more than 16 bits can say": """
  cvt.u16.u32 %rs1, %r1;
  shl.b16 %rs1, %rs1, 65538;
  cvt.u32.u16 %r3, %rs1;
  mov.u32 %r4, a;
  add.s32 %r5, %r4, %r3;
  st.shared.u32 [%r5], %r1;""",
    "the bits of a decimal fraction": """
  mov.f32 %f3, 1.0;
  mov.b32 %r3, %f3;
  shr.u32 %r3, %r3, 23;
  setp.eq.s32 %p9, %r3, 0;"""
    + RACE_UNLESS,
    "one label in two scopes": """
  { bra $Ldone;
$Ldone:
  }"""
    + RACE
    + """
  {
$Ldone:
  }""",
    "a store behind a place on its line": RACE.replace("  st.shared", "  .loc 1 2 3 st.shared"),
    "a place in another function, and a store on its line": RACE.replace(
        "  st.shared", "  .loc 1 2 3, function_name $L_info+4, inlined_at 1 2 3 st.shared"
    ),
    "a minimum that is never negative": """
  mov.u32 %r4, -5;
  min.relu.s32 %r3, %r4, 3;
  setp.eq.s32 %p9, %r3, %r4;"""
    + RACE_UNLESS,
    "a quotient by 0, which is any number": """
  mov.u32 %r4, 0;
  div.u32 %r3, %r1, %r4;
  setp.eq.s32 %p9, %r3, -1;"""
    + RACE_UNLESS,
    "a remainder by 0, which is any number": """
  and.b32 %r4, %r1, 0;
  rem.u32 %r3, %r1, %r4;
  setp.eq.s32 %p9, %r3, %r1;"""
    + RACE_UNLESS,
    "a third of the lowest number of 64 bits": """
  mov.u64 %rd3, 0x8000000000000000;
  div.s64 %rd4, %rd3, 3;
  setp.gt.s64 %p9, %rd4, 0;"""
    + RACE_UNLESS,
    "what a texture says of itself": """
  mov.u32 %r3, 0;
  txq.width.b32 %r3, [%rd1];
  setp.eq.s32 %p9, %r3, 0;"""
    + RACE_UNLESS,
    "a part of a transposed matrix, which lanes do not share": """
  ld.global.u32 %r4, [%rd1];
  movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r4;
  setp.eq.s32 %p9, %r3, 0;"""
    + BARRIER_UNLESS,
    "a part of a product of matrices, which lanes do not share": """
  ld.global.u32 %r4, [%rd1];
  mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r3, %r5}, {%r4}, {%r4}, {%r4, %r4};
  setp.eq.s32 %p9, %r3, 0;"""
    + BARRIER_UNLESS,
    "an instruction that nobody knows, of values that all share": """
  ld.global.u32 %r4, [%rd1];
  mystery.sync.b32 %r3, %r4;
  setp.eq.s32 %p9, %r3, 0;"""
    + BARRIER_UNLESS,
    "an instruction that nobody knows, with an address in a register": """
  mystery.b64 %rd3;
  bar.sync 0;""",
    "an instruction that nobody knows, which may go on behind a barrier": """
  mov.u32 %r3, a;
  mystery.async.b32 [%r3], %r1;
  bar.sync 0;
  ld.shared.u32 %r4, [%r3];""",
    "a half of the sum of an address and an argument": """
  mov.u64 %rd4, a;
  add.s64 %rd5, %rd4, %rd1;
  cvt.u32.u64 %r3, %rd5;
  cvt.s64.s32 %rd6, %r3;
  setp.eq.s64 %p9, %rd6, %rd5;"""
    + RACE_UNLESS,
    "how far two pointers lie apart that were read": """
  mov.u64 %rd4, a;
  ld.local.u64 %rd6, [%rd9];
  ld.local.u64 %rd7, [%rd9+8];
  sub.s64 %rd8, %rd6, %rd7;
  add.s64 %rd8, %rd4, %rd8;
  @%p1 st.shared.u32 [%rd8], %r1;
  mov.u32 %r5, b;
  @!%p1 ld.shared.u32 %r6, [%r5];""",
    "a call through a register, whose prototype is called like a function of the library": """
  call (), %rd1, (), free;""",
    "a fraction of 64 bits in a register of 32": """
  mov.f32 %f3, 0d3FF0000000000000;
  mov.b32 %r3, %f3;
  setp.eq.s32 %p9, %r3, 0;"""
    + RACE_UNLESS,
    "a fraction of 32 bits in a register of 64": """
  mov.f64 %rd3, 0f3F800000;
  mov.b64 %rd4, %rd3;
  setp.eq.s64 %p9, %rd4, 0x3F800000;"""
    + RACE_UNLESS,
    "an argument of 32 bits, read with zeros above": """
  ld.param.u32 %rd3, [k_param_1];
  cvt.s64.s32 %rd4, %r2;
  setp.eq.s64 %p9, %rd3, %rd4;"""
    + RACE_UNLESS,
    "a load that asks memory again": """
  ld.global.cv.u32 %r3, [%rd1];
  setp.eq.s32 %p9, %r3, 0;"""
    + BARRIER_UNLESS,
    "a warp barrier that does not name a lane that waits there": """
  bar.warp.sync 0x0000ffff;""",
    "which of two arrays comes first": """
  mov.u32 %r3, a;
  mov.u32 %r4, b;
  setp.lt.u32 %p9, %r3, %r4;"""
    + RACE_UNLESS,
    "an array that is not the first": """
  mov.u32 %r3, a;
  setp.gt.u32 %p9, %r3, 512;"""
    + RACE_UNLESS,
    "how far two arrays lie apart": """
  mov.u32 %r3, a;
  mov.u32 %r4, b;
  sub.s32 %r3, %r4, %r3;
  setp.eq.s32 %p9, %r3, 4096;"""
    + RACE_UNLESS,
    "the upper bits of an address": """
  mov.u32 %r3, a;
  shr.u32 %r3, %r3, 10;
  setp.eq.s32 %p9, %r3, 1;"""
    + RACE_UNLESS,
    "an address as an index": """
  mov.u32 %r3, a;
  shr.u32 %r3, %r3, 5;
  not.b32 %r3, %r3;
  and.b32 %r3, %r3, 32;
  shl.b32 %r4, %r1, 2;
  mov.u32 %r5, b;
  add.s32 %r5, %r5, %r4;
  xor.b32 %r6, %r1, %r3;
  shl.b32 %r6, %r6, 2;
  mov.u32 %r7, b;
  add.s32 %r6, %r6, %r7;
  st.shared.u32 [%r5], %r1;
  ld.shared.u32 %r8, [%r6];""",
    "a half of an array, told by an upper bit of its address": """
  mov.u32 %r3, a;
  shl.b32 %r4, %r1, 2;
  add.s32 %r5, %r3, %r4;
  add.s32 %r5, %r5, 2048;
  xor.b32 %r6, %r5, 2048;
  mov.u32 %r7, b;
  add.s32 %r7, %r7, %r4;
  @%p1 st.shared.u32 [%r6], %r1;
  @!%p1 ld.shared.u32 %r7, [%r7+-128];""",
}


@pytest.mark.parametrize("name", WRONG)
def test_it_is_not_proved(name: str) -> None:
    assert not is_proved(WRONG[name])


def test_a_lane_that_is_not_there_gives_nothing() -> None:
    """Blocks of 48 threads: the second warp has 16 lanes."""
    from_lane = """
  mov.u32 %r3, 0;
  shfl.sync.idx.b32 %r4, %r3, 31, 31, -1;
  shl.b32 %r5, %r1, 2;
  mov.u32 %r6, a;
  add.s32 %r7, %r6, %r5;
  add.s32 %r8, %r7, %r4;
  st.shared.u32 [%r8], %r1;"""
    assert not is_proved(from_lane, 48)
    assert is_proved(from_lane, 64)
    assert is_proved(from_lane.replace(", 31, 31,", ", 15, 31,"), 48)
    # A mask that does not name the lane itself, or the one that gives.
    assert not is_proved(from_lane.replace(", 31, 31, -1", ", 31, 31, 65535"), 64)
    assert not is_proved(from_lane.replace(", 31, 31, -1", ", 31, 31, %r2"), 64)
    assert is_proved(from_lane.replace(".sync", "").replace(", 31, 31, -1", ", 31, 31"), 64)
    # Compilers put the last lane into a register; 28 among the upper bits makes eight parts of a warp.
    assert is_proved("  mov.u32 %r20, 31;" + from_lane.replace("31, 31,", "31, %r20,"), 64)
    assert not is_proved("  mov.u32 %r20, 7199;" + from_lane.replace("31, 31,", "31, %r20,"), 64)


def test_registers_whose_names_differ_in_a_mark_are_two() -> None:
    loop = """
  .reg .b32 %x.y;
  .reg .b32 %x_y;
  mov.u32 %x.y, 0;
  mov.u32 %x_y, 0;
$Lhead:
  setp.ne.s32 %p3, %x.y, %x_y;
  @%p3 bra $Lrace;
  add.s32 %x.y, %x.y, 1;
  add.s32 %x_y, %x_y, 2;
  setp.lt.s32 %p3, %x.y, %r2;
  @%p3 bra $Lhead;
  ret;
$Lrace:"""
    assert not is_proved(loop + RACE)


def test_an_argument_is_not_the_grid_whatever_its_name() -> None:
    differ = "  mov.u32 %r3, %nctaid.x;\n  setp.eq.s32 %p9, %r2, %r3;\n" + RACE_UNLESS
    text = f"{HEAD}{differ}\n  ret;\n}}\n".replace("k_param_1", "k_blocks_x")
    assert not check(text, (64,)).is_proved


def test_arrays_whose_names_differ_in_a_mark_are_two() -> None:
    """The first one is too small for what is done to the second."""
    names = HEAD.replace(".shared .align 16 .b8 b[4096]", ".shared .align 16 .b8 x.y[4096];\n  .shared .b8 x_y[8]")
    text = f"{names}{RACE}\n  ret;\n}}\n".replace("%r52, a", "%r52, x.y")
    assert not check(text, (64,)).is_proved
    assert check(text.replace("  xor", "  bar.sync 0;\n  xor"), (64,)).is_proved


def test_a_function_of_the_file_is_not_the_library_s() -> None:
    text = f"{HEAD}  call.uni free, ();\n  ret;\n}}\n"
    assert check(text, (64,)).is_proved
    own = ".func free()\n{\n  bar.sync 0;\n  ret;\n}\n"
    assert not check(text.replace(".visible", f"{own}.visible", 1), (64,)).is_proved


def test_memory_that_has_no_name_in_the_text() -> None:
    """The launch gives memory, and an argument leads there."""
    bare = "\n".join(line for line in HEAD.split("\n") if ".shared" not in line)
    write = "  st.shared.u32 [%rd1], %r1;\n"
    assert not check(f"{bare}{write}  ret;\n}}\n", (64,)).is_proved
    assert check(f"{bare}{write.replace('shared', 'global')}  ret;\n}}\n", (64,)).is_proved


def test_a_barrier_counts_full_warps() -> None:
    meet = RACE.replace("  xor", "  bar.sync 0, {count};\n  xor").replace("%r53, 128", "%r53, 4")
    assert not is_proved(meet.format(count=40), 40)
    assert is_proved(meet.format(count=64), 40)
    assert is_proved(meet.format(count=64), 64)
    assert not is_proved(meet.format(count=32), 64)


@pytest.mark.parametrize(
    "body",
    [
        "ld.global.u32 %r3, [%rd1];\n  setp.eq.s32 %p9, %r3, 0;" + BARRIER_UNLESS,
        OWN
        + """
  ld.global.u32 %r3, [%rd3];
  setp.eq.s32 %p2, %r3, 0;
  @%p2 ret;
  ld.global.u32 %r4, [%rd1+256];
  setp.eq.s32 %p9, %r4, 0;"""
        + BARRIER_UNLESS,
        "  mad.lo.s32 %r3, %r1, 4, -4096;\n  mov.u32 %r4, a;\n"
        "  add.s32 %r5, %r4, %r3;\n  st.shared.u32 [%r5+4096], %r1;",
        # The lower half of an argument, and the part of it that says which half of the array: one and the same.
        "  cvt.u32.u64 %r3, %rd1;\n  and.b32 %r4, %r3, 1;\n  and.b64 %rd2, %rd1, 1;\n  cvt.u32.u64 %r5, %rd2;\n"
        "  setp.eq.s32 %p9, %r4, %r5;\n" + RACE_UNLESS,
        # What all arrays have in common, and what lies between two places of one.
        "  mov.u32 %r3, b;\n  and.b32 %r3, %r3, 128;\n  setp.eq.s32 %p9, %r3, 0;" + RACE_UNLESS,
        "  mov.u32 %r3, a;\n  add.s32 %r4, %r3, 64;\n  sub.s32 %r5, %r4, %r3;\n"
        "  setp.eq.s32 %p9, %r5, 64;\n  setp.gt.and.u32 %p9, %r4, %r3, %p9;" + RACE_UNLESS,
        GENERIC + OWN + "  st.u32 [%rd3], %r1;",
        GENERIC + "  mul.wide.u32 %rd2, %r1, 4;\n  add.s64 %rd6, %rd5, %rd2;\n  st.u32 [%rd6], %r1;",
    ],
)
def test_what_looks_alike_and_is_right_is_proved(body: str) -> None:
    assert is_proved(body)


# Each thread chooses by what it has read: its own place, or that of the thread in the other warp.
CHOSEN = """
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, tile;
  add.s32 %r4, %r3, %r2;
  xor.b32 %r5, %r2, 128;
  add.s32 %r5, %r3, %r5;
  ld.param.u32 %r6, [k_param_1];
  ld.param.u64 %rd1, [k_param_0];
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd2, %rd1, %rd2;
  mov.u32 %r7, 0;
  mov.u32 %r10, {first};
$L1:
  st.shared.f32 [%r10], %f1;
  ld.global.u32 %r8, [%rd2];
  shl.b32 %r9, %r7, 8;
  setp.eq.s32 %p1, %r8, 7;
  @%p1 bra $L2;
  add.s32 %r10, {one}, %r9;
  bra.uni $L3;
$L2:
  add.s32 %r10, {other}, %r9;
$L3:
  add.s32 %r7, %r7, 1;
  setp.lt.s32 %p2, %r7, %r6;
  @%p2 bra $L1;
"""


@pytest.mark.parametrize("first", ["%r4", "%r5"])
@pytest.mark.parametrize("one", ["%r4", "%r5"])
@pytest.mark.parametrize("other", ["%r4", "%r5"])
def test_what_a_thread_chose_in_the_last_round_is_not_known_in_the_next(first: str, one: str, other: str) -> None:
    """With a counter beside it: the counter was put in new terms, and with it everything counted as known."""
    text = kernel(CHOSEN.format(first=first, one=one, other=other), size=1 << 16)
    assert check(text, (64,)).is_proved == (first == one == other)
