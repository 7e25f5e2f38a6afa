"""Indices that were read from memory, of which the program keeps a few bits: columns and rows of each thread's own."""

from __future__ import annotations

import numpy as np
import pytest

from oracles.programs.ptx_kernels import check, kernel, program
from tidegate.hosts.isa.arithmetic import Calculator
from tidegate.hosts.isa.nodes import Access
from tidegate.hosts.isa.values import Value, number, unknown

# A table of 16 rows, a column for each of 64 threads; the row comes from memory. 4 bytes an element.
COLUMNS = """
  mov.u32 %r1, %tid.x;
  ld.param.u64 %rd1, [k_param_0];
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd2, %rd1, %rd2;
  ld.global.u32 %r2, [%rd2];
  mov.u32 %r3, tile;
  {row}
  {place}
  add.s32 %r6, %r3, %r6;
  ld.shared.u32 %r7, [%r6];
  add.s32 %r7, %r7, 1;
  st.shared.u32 [%r6], %r7;
  ld.global.u32 %r8, [%rd2+4];
  and.b32 %r9, %r8, 960;
  add.s32 %r9, %r9, %r1;
  shl.b32 %r9, %r9, 2;
  add.s32 %r9, %r3, %r9;
  st.shared.u32 [%r9], %r7;
"""
ROW = "shr.u32 %r4, %r2, 3;\n  and.b32 %r5, %r4, 960;"  # 15 * 64
PLACE = "add.s32 %r6, %r5, %r1;\n  shl.b32 %r6, %r6, 2;"


@pytest.mark.parametrize(
    ("row", "place", "right"),
    [
        (ROW, PLACE, True),
        (ROW, "or.b32 %r6, %r5, %r1;\n  shl.b32 %r6, %r6, 2;", True),
        (ROW, "mad.lo.s32 %r6, %r5, 4, 0;\n  mad.lo.s32 %r6, %r1, 4, %r6;", True),
        ("and.b32 %r4, %r2, 15;\n  shl.b32 %r5, %r4, 6;", PLACE, True),
        ("bfe.u32 %r4, %r2, 5, 4;\n  mul.lo.s32 %r5, %r4, 64;", PLACE, True),
        ("shr.u32 %r4, %r2, 28;\n  shl.b32 %r5, %r4, 6;", PLACE, True),
        ("rem.u32 %r4, %r2, 13;\n  shl.b32 %r5, %r4, 6;", PLACE, True),
        ("and.b32 %r5, %r2, 992;", PLACE, False),  # steps of 32: another thread's column
        ("and.b32 %r4, %r2, 15;\n  shl.b32 %r5, %r4, 5;", PLACE, False),
        ("and.b32 %r4, %r2, 15;\n  mul.lo.s32 %r5, %r4, 63;", PLACE, False),
        ("shr.s32 %r4, %r2, 28;\n  shl.b32 %r5, %r4, 6;", PLACE, False),  # rows above the table: anywhere
        ("shr.u32 %r5, %r2, 3;", PLACE, False),
        (ROW, "add.s32 %r6, %r5, %r1;\n  add.s32 %r6, %r6, 1;\n  shl.b32 %r6, %r6, 2;", False),  # the next column
        (ROW, "sub.s32 %r6, %r5, %r1;\n  shl.b32 %r6, %r6, 2;", False),
        (ROW, "sub.s32 %r6, %r1, %r5;\n  shl.b32 %r6, %r6, 2;", False),
        (ROW, "xor.b32 %r6, %r1, 1;\n  add.s32 %r6, %r5, %r6;\n  shl.b32 %r6, %r6, 2;", False),
        (ROW, "shr.u32 %r6, %r1, 1;\n  add.s32 %r6, %r5, %r6;\n  shl.b32 %r6, %r6, 2;", False),  # shared by two
        (ROW, "add.s32 %r6, %r5, %r1;\n  shl.b32 %r6, %r6, 1;", False),
        (ROW, "or.b32 %r6, %r5, 64;\n  add.s32 %r6, %r6, %r1;\n  shl.b32 %r6, %r6, 2;", False),  # bits in common: lost
    ],
)
@pytest.mark.parametrize("block", [(64,), (16, 4)])
def test_a_thread_counts_in_its_own_column(row: str, place: str, right: bool, block: tuple[int, ...]) -> None:
    text = kernel(COLUMNS.format(row=row, place=place))
    if len(block) > 1:
        whole = "mov.u32 %r20, %tid.x;\n  mov.u32 %r21, %tid.y;\n  mad.lo.s32 %r1, %r21, 16, %r20;"
        text = text.replace("mov.u32 %r1, %tid.x;", whole)
    assert check(text, block).is_proved == right


ROWS = """
  mov.u32 %r1, %tid.x;
  shr.u32 %r10, %r1, 5;
  ld.param.u64 %rd1, [k_param_0];
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd2, %rd1, %rd2;
  ld.global.u32 %r2, [%rd2];
  mov.u32 %r3, tile;
  and.b32 %r4, %r2, {mask};
  mad.lo.s32 %r5, %r10, {row}, %r4;
  shl.b32 %r5, %r5, 2;
  add.s32 %r5, %r3, %r5;
  ld.shared.u32 %r7, [%r5];
  {sync}
  {write}
"""
OWN_ROW = {"mask": 255, "row": 256, "sync": "bar.warp.sync -1;", "write": "mad.lo.s32 %r8, %r1, 4, %r3;"}


@pytest.mark.parametrize(
    ("change", "right"),
    [
        ({}, True),
        ({"write": "mad.lo.s32 %r8, %r10, 1024, %r3;\n  st.shared.u32 [%r8], 1;"}, True),
        ({"write": "mad.lo.s32 %r8, %r10, 1024, %r3;\n  st.shared.u32 [%r8], %r1;", "sync": ""}, False),
        ({"write": "mad.lo.s32 %r8, %r10, 1024, %r3;\n  st.shared.u32 [%r8], 1;", "mask": 511}, False),
        ({"write": "mad.lo.s32 %r8, %r10, 1020, %r3;\n  st.shared.u32 [%r8], 1;", "row": 255}, False),
        ({"write": "mad.lo.s32 %r8, %r10, 1024, %r3;\n  st.shared.u32 [%r8], 1;", "row": 255}, True),
        ({"write": "mad.lo.s32 %r8, %r10, -1024, %r3;\n  st.shared.u32 [%r8+1024], 1;"}, False),  # the other warp's
        ({"write": "st.shared.u32 [%r5], %r1;"}, False),  # two lanes may find the same
        ({"write": "red.shared.add.u32 [%r5], 1;"}, True),
    ],
)
def test_a_warp_reads_in_its_own_row(change: dict[str, object], right: bool) -> None:
    assert check(kernel(ROWS.format(**{**OWN_ROW, **change})), (64,)).is_proved == right


def test_of_instructions_that_may_touch_the_same_two_are_kept() -> None:
    """A third one meets whom the first two meet. The second stands for lanes of one warp that carry out both."""
    once = COLUMNS.format(row=ROW, place=PLACE)
    more = "  st.shared.u32 [%r9], %r8;\n"
    for body, count in ((once, 3), (once + more, 3), (once + "  bar.sync 0;\n" + more, 4)):
        found = program(kernel(body), (64,))
        touches = [step for node in found.explored.nodes for step in node.steps if isinstance(step, Access)]
        assert len(touches) == count * 16
        assert check(kernel(body), (64,)).is_proved


def test_every_value_that_is_left_is_among_those_that_are_listed() -> None:
    """Operators on what nobody knows, against Python's numbers."""
    calc, rnd = Calculator(16, {}), np.random.default_rng(7)
    masks = (1, 15, 0x30, 0xF0F0, 0x7FFF0000, 0xFFFFFFF0)
    for _ in range(300):
        held, real = unknown(16, False), rnd.integers(0, 1 << 32, 16)
        for _ in range(4):
            operator = rnd.choice(["and", "shr", "bfe", "rem", "add", "shl", "mul", "or", "xor", "copy", "sub"])
            by = int(rnd.choice(masks)) if operator in ("and", "or", "xor") else int(rnd.integers(1, 9))
            lanes = number(rnd.integers(0, 64, 16), 16) if operator in ("add", "or", "xor") else number(by, 16)
            given = {"bfe": [number(by, 16), number(by, 16)], "copy": []}.get(operator, [lanes])
            held = calc.compute(operator, [held, *given], 32, False, 32)
            real = calc.compute(operator, [Value(real), *given], 32, False, 32).base
            if held.among is None:
                break
            stride, count = held.among
            for at, value in zip(held.base.tolist(), real.tolist(), strict=True):
                assert (value - at) % (1 << 32) in {stride * x % (1 << 32) for x in range(min(count, 70_000))}
            assert held.known is not None
            assert not held.known.any()
