"""`wgmma`: products of four warps that read shared memory in the background, by matrix descriptors."""

from __future__ import annotations

import pytest

from oracles.programs.ptx_kernels import check, kernel, program
from tidegate.hosts.isa import nodes as n
from tidegate.hosts.ptx.lower_products import pieces_of

NONE, ROWS_128, ROWS_64, ROWS_32 = (mode << 62 for mode in range(4))


def descriptor(start: int, leading: int, stride: int, mode: int) -> int:
    found = start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | mode
    return found - (1 << 64) if found >> 63 else found


def bytes_of(rows: int, is_transposed: bool, held: int) -> set[int]:
    found = pieces_of(rows, is_transposed, held)
    assert found is not None
    starts, size = found
    return {each for start in starts for each in range(start, start + size)}


# --- which bytes: by the layouts of the ISA, element by element -----------------------------------------------------


def by_rows(rows: int, start: int, stride: int, width: int) -> set[int]:
    """K outermost: row r is `width` bytes behind the one before, groups of 8 rows are `stride` apart; 32 bytes of each
    are read, wherever the swizzle puts them in their line."""
    found = set()
    for row in range(rows):
        line = start // width * width + row // 8 * stride + row % 8 * width
        column = start % width
        bits = (line // 128) % 8 % (width // 16)
        found |= {line + ((column + b) // 16 % (width // 16) ^ bits) * 16 + b % 16 for b in range(32)}
    return found


@pytest.mark.parametrize(("mode", "width"), [(ROWS_128, 128), (ROWS_64, 64), (ROWS_32, 32)])
@pytest.mark.parametrize("rows", [8, 64, 256])
def test_the_pieces_hold_all_that_is_read(mode: int, width: int, rows: int) -> None:
    for column in range(0, width, 32):
        held = descriptor(8192 + column, 16, 8 * width, mode)
        read = by_rows(rows, 8192 + column, 8 * width, width)
        assert read <= bytes_of(rows, False, held)
        assert bytes_of(rows, False, held) == set(range(8192, 8192 + rows * width))


def test_pieces_without_a_swizzle() -> None:
    held = descriptor(4096, 128, 256, NONE)  # two pieces of 8 rows for K, beside each other
    assert bytes_of(64, False, held) == set(range(4096, 4096 + 64 * 32))
    apart = descriptor(4096, 2048, 128, NONE)
    assert bytes_of(64, False, apart) == {*range(4096, 5120), *range(6144, 7168)}


def test_transposed_pieces() -> None:
    # 128 columns of two bytes are two lines of 128, 16 lines along K in two groups.
    held = descriptor(4096, 8192, 1024, ROWS_128)
    assert bytes_of(128, True, held) == {*range(4096, 6144), *range(4096 + 8192, 6144 + 8192)}


def test_a_pattern_with_an_offset_is_not_known() -> None:
    assert pieces_of(64, False, descriptor(4096, 16, 1024, ROWS_128) | 1 << 49) is None


# --- kernels --------------------------------------------------------------------------------------------------------

REGISTERS = ", ".join(f"%f{number}" for number in range(1, 5))
PRODUCT = """
  mov.u32 %r1, %tid.x;
  mov.u32 %r3, tile;
  shl.b32 %r2, %r1, 6;
  add.s32 %r4, %r3, %r2;
  st.shared.v4.f32 [%r4], {{{registers}}};
  st.shared.v4.f32 [%r4+48], {{{registers}}};
  {fence}
  {before}
  bfe.u32 %r5, %r3, 4, 14;
  cvt.u64.u32 %rd1, %r5;
  or.b64 %rd2, %rd1, {fields};
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{{registers}}}, %rd2, %rd2, %p1, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  {behind}
  st.shared.v4.f32 [%r4], {{{registers}}};
"""
FENCE, BARRIER, WAIT = "fence.proxy.async;", "bar.sync 0;", "wgmma.wait_group.sync.aligned {};"


def body(fence: str = FENCE, before: str = BARRIER, behind: str = f"{WAIT.format(0)}\n  {BARRIER}") -> str:
    fields = descriptor(0, 16, 1024, ROWS_128)
    text = PRODUCT.format(fence=fence, before=before, behind=behind, fields=fields, registers=REGISTERS)
    return kernel(text, size=16384).replace("sm_80", "sm_90")


def test_a_product_between_a_fence_and_a_wait_is_proved() -> None:
    found = program(body(), (128,))
    assert check(body(), (128,)).is_proved
    reads = [
        step
        for node in found.explored.nodes
        for step in node.steps
        if isinstance(step, n.Access) and "wgmma" in step.op.text
    ]
    assert [sum(each is not None for each in step.starts) for step in reads] == [4 * 8, 4 * 1]
    assert found.explored.exact == found.explored.touches


@pytest.mark.parametrize(
    "changed",
    [
        {"fence": ""},
        {"fence": "fence.proxy.async.global;"},
        {"before": "bar.warp.sync -1;"},
        {"behind": BARRIER},
        {"behind": f"{WAIT.format(1)}\n  {BARRIER}"},
        {"behind": WAIT.format(0)},
        {"behind": f"cp.async.wait_all;\n  {BARRIER}"},
        {"behind": f"cp.async.wait_group 0;\n  {BARRIER}"},
    ],
)
def test_less_is_not_proved(changed: dict[str, str]) -> None:
    found = check(body(**changed), (128,))
    assert not found.is_proved
    assert found.findings


def test_groups_of_products_are_not_those_of_copies() -> None:
    """A wait for products leaves copies in flight."""
    copy = "cp.async.ca.shared.global [%r4+8192], [%rd9], 16;\n  cp.async.commit_group;\n  bfe.u32"
    last = f"{WAIT.format(0)}\n  {BARRIER}"
    for wait, right in (("cp.async.wait_group 0;", True), (WAIT.format(0), False)):
        behind = f"{last}\n  {wait}\n  {BARRIER}\n  ld.shared.f32 %f4, [%r4+8192];"
        assert check(body(behind=behind).replace("bfe.u32", copy, 1), (128,)).is_proved is right


def test_a_descriptor_that_nobody_knows_reads_everything() -> None:
    text = body().replace("or.b64 %rd2, %rd1,", "ld.global.u64 %rd2, [%rd1];\n  or.b64 %rd3, %rd1,")
    found = check(text, (128,))
    assert "TG403" in {each.code for each in found.findings}


def test_a_matrix_beside_its_array_is_reported() -> None:
    assert not check(body().replace("tile[16384]", "tile[8128]"), (128,)).is_proved
