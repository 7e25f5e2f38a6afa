"""PTX kernels written by hand: bodies between a head that declares registers and arrays, and `ret`."""

from __future__ import annotations

from tidegate.diag import Sources
from tidegate.files import Loaded
from tidegate.hosts.ptx.parse import parse_ptx
from tidegate.hosts.ptx.program import Ptx, PtxProgram, programs_of
from tidegate.passes import Checked, check_session
from tidegate.session import sessions_of

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 k_param_0, .param .u32 k_param_1)
{shape}{{
  .reg .pred %p<20>;
  .reg .b32 %r<60>;
  .reg .b64 %rd<20>;
  .reg .f32 %f<20>;
  .shared .align 16 .b8 tile[{size}];
"""


def kernel(body: str, threads: str = "", size: int = 8192) -> str:
    shape = f".reqntid {threads}\n" if threads else ""
    return f"{HEAD.format(shape=shape, size=size)}{body}\n  ret;\n}}\n"


def program(text: str, block: tuple[int, ...] = ()) -> PtxProgram:
    return programs_of(Ptx("k.ptx", text, parse_ptx(text, "k.ptx"), block=block), None)[0]


def check(text: str, block: tuple[int, ...] = ()) -> Checked:
    ptx = Ptx("k.ptx", text, parse_ptx(text, "k.ptx"), block=block)
    (unit,) = sessions_of(Loaded("k.ptx", (), None, Sources({"k.ptx": text}), ptx=ptx), None)
    return check_session(unit)


def codes(text: str, block: tuple[int, ...] = ()) -> set[str]:
    return {each.code for each in check(text, block).findings}


TRANSPOSE = """
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %tid.y;
  mad.lo.s32 %r3, %r2, 17, %r1;
  shl.b32 %r3, %r3, 2;
  mov.u32 %r4, tile;
  add.s32 %r5, %r4, %r3;
  st.shared.f32 [%r5], %f1;
  bar.sync 0;
  mad.lo.s32 %r6, %r1, 17, %r2;
  shl.b32 %r6, %r6, 2;
  add.s32 %r7, %r4, %r6;
  ld.shared.f32 %f2, [%r7];
"""

# `for (s = 128; s > 0; s >>= 1) { if (t < s) a[t] += a[t + s]; barrier; }`
TREE = """
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, tile;
  add.s32 %r4, %r3, %r2;
  st.shared.f32 [%r4], %f1;
  bar.sync 0;
  mov.u32 %r5, 128;
$L1:
  setp.ge.u32 %p1, %r1, %r5;
  @%p1 bra $L2;
  shl.b32 %r6, %r5, 2;
  add.s32 %r7, %r4, %r6;
  ld.shared.f32 %f2, [%r7];
  ld.shared.f32 %f3, [%r4];
  add.f32 %f4, %f2, %f3;
  st.shared.f32 [%r4], %f4;
$L2:
  bar.sync 0;
  shr.u32 %r5, %r5, 1;
  setp.ne.s32 %p2, %r5, {last};
  @%p2 bra $L1;
"""

# The last steps in one warp: `a[t] += a[t + 16]; sync; a[t] += a[t + 8]; ...`
TAIL = """
  setp.ge.u32 %p3, %r1, 32;
  @%p3 bra $L9;
  ld.shared.f32 %f5, [%r4+128];
  ld.shared.f32 %f6, [%r4];
  {sync}
  st.shared.f32 [%r4], %f6;
  {sync}
  ld.shared.f32 %f5, [%r4+64];
  {sync}
  st.shared.f32 [%r4], %f6;
  {sync}
  ld.shared.f32 %f5, [%r4+32];
$L9:
"""

# Two slots in turns, told apart by a toggled bit.
DOUBLE = """
  ld.param.u32 %r20, [k_param_1];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, tile;
  add.s32 %r4, %r3, %r2;
  xor.b32 %r5, %r2, 128;
  add.s32 %r5, %r3, %r5;
  mov.u32 %r6, 0;
  mov.u32 %r7, 0;
$L1:
  setp.ge.s32 %p1, %r6, %r20;
  @%p1 bra $L2;
  shl.b32 %r8, %r7, 10;
  add.s32 %r9, %r4, %r8;
  st.shared.f32 [%r9], %f1;
  {barrier}
  add.s32 %r10, %r5, %r8;
  ld.shared.f32 %f2, [%r10];
  xor.b32 %r7, %r7, {toggle};
  add.s32 %r6, %r6, 1;
  bra $L1;
$L2:
"""

# `copy slot (k + 2) mod 3; commit; wait 2 → 1; barrier; read slot k mod 3`
RING = """
  ld.param.u64 %rd1, [k_param_0];
  ld.param.u32 %r20, [k_param_1];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, tile;
  add.s32 %r4, %r3, %r2;
  xor.b32 %r5, %r2, 4;
  add.s32 %r5, %r3, %r5;
  cp.async.ca.shared.global [%r4], [%rd1], 4;
  cp.async.commit_group;
  cp.async.ca.shared.global [%r4+1024], [%rd1], 4;
  cp.async.commit_group;
  mov.u32 %r6, 0;
$L1:
  setp.ge.s32 %p1, %r6, %r20;
  @%p1 bra $L2;
  cp.async.wait_group {left};
  bar.sync 0;
  add.s32 %r7, %r6, 2;
  rem.u32 %r7, %r7, {slots};
  shl.b32 %r7, %r7, 10;
  add.s32 %r8, %r4, %r7;
  cp.async.ca.shared.global [%r8], [%rd1], 4;
  cp.async.commit_group;
  rem.u32 %r9, %r6, {slots};
  shl.b32 %r9, %r9, 10;
  add.s32 %r10, %r5, %r9;
  ld.shared.f32 %f2, [%r10];
  add.s32 %r6, %r6, 1;
  bra $L1;
$L2:
"""

HISTOGRAM = """
  ld.param.u64 %rd1, [k_param_0];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, tile;
  add.s32 %r4, %r3, %r2;
  st.shared.u32 [%r4], 0;
  bar.sync 0;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r5, [%rd3];
  and.b32 %r5, %r5, 255;
  shl.b32 %r5, %r5, 2;
  add.s32 %r6, %r3, %r5;
  {add}
  bar.sync 0;
  ld.shared.u32 %r7, [%r4];
"""

# Each thread writes its element and reads its neighbour's.
SHIFT = """
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, tile;
  add.s32 %r4, %r3, %r2;
  st.shared.f32 [%r4], %f1;
  {sync}
  xor.b32 %r5, %r2, 4;
  add.s32 %r6, %r3, %r5;
  ld.shared.f32 %f2, [%r6];
"""
