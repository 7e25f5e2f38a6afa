"""Tiles of a warp: barriers that order some of its lanes, as cooperative groups have them."""

from __future__ import annotations

import pytest

from oracles.programs.ptx_kernels import check, kernel, program

# Each lane writes its place, its tile of lanes meets, and each reads another lane's place.
TILE = """
  mov.u32 %r1, %tid.x;
  and.b32 %r2, %r1, {start};
  mov.u32 %r3, {members};
  shl.b32 %r3, %r3, %r2;
  shl.b32 %r4, %r1, 2;
  mov.u32 %r5, tile;
  add.s32 %r6, %r5, %r4;
  xor.b32 %r7, %r4, {other};
  add.s32 %r7, %r5, %r7;
  st.shared.f32 [%r6], %f1;
  {guard}
  bar.warp.sync %r3;
  {more}
$L1:
  ld.shared.f32 %f2, [%r7];
"""
SIXTEEN = {"start": 16, "members": 0xFFFF, "other": 32, "guard": "", "more": ""}
EIGHT = {**SIXTEEN, "start": 24, "members": 0xFF, "other": 16}
LOW_HALF = "and.b32 %r8, %r1, 16;\n  setp.ne.s32 %p1, %r8, 0;\n  @%p1 bra $L1;"


@pytest.mark.parametrize(
    ("given", "right"),
    [
        (SIXTEEN, True),
        ({**SIXTEEN, "other": 60}, True),  # the last lane of the tile
        ({**SIXTEEN, "other": 64}, False),  # a lane of the other tile
        ({**SIXTEEN, "other": 128}, False),  # a lane of another warp
        ({**SIXTEEN, "members": 0x7FFF}, False),  # a lane that is there and not named
        ({**SIXTEEN, "members": 0xFF}, False),
        ({**SIXTEEN, "start": 8}, False),  # tiles that do not begin where tiles begin
        ({**SIXTEEN, "start": 0, "members": 0xFFFFFFFF, "other": 64}, True),  # the whole warp
        (EIGHT, True),
        ({**EIGHT, "other": 32}, False),
        ({**EIGHT, "start": 28, "members": 0xF, "other": 8}, True),
        ({**EIGHT, "start": 28, "members": 0xF}, False),
        ({**SIXTEEN, "guard": LOW_HALF}, False),  # the upper half does not meet
        ({**SIXTEEN, "more": "bar.warp.sync -1;", "other": 64}, True),  # the whole warp meets as well
        ({**SIXTEEN, "more": "ld.shared.f32 %f3, [%r7];\n  bar.warp.sync -1;", "other": 64}, False),
    ],
)
@pytest.mark.parametrize("block", [(64,), (32,), (16, 4)])
def test_the_lanes_of_a_tile_meet(given: dict[str, object], right: bool, block: tuple[int, ...]) -> None:
    text = kernel(TILE.format(**given).replace("%tid.x", "%tid.x" if len(block) == 1 else "%laneid"))
    if len(block) > 1:  # lanes count through rows of the block
        text = text.replace("shl.b32 %r4, %r1, 2;", ROWS)
    elif given["other"] == 128 and block == (32,):
        return  # nobody is there
    assert check(text, block).is_proved == right


ROWS = """mov.u32 %r20, %tid.x;
  mov.u32 %r21, %tid.y;
  mad.lo.s32 %r4, %r21, 16, %r20;
  shl.b32 %r4, %r4, 2;"""


def test_lanes_that_a_tile_does_not_have_read_too_early_in_one_warp() -> None:
    """What is said of lanes is said of groups: thread 16 is the first of the second group."""
    (finding, *_) = check(kernel(TILE.format(**{**SIXTEEN, "other": 64})), (32,)).findings
    assert finding.code == "TG101"
    assert "another group" in finding.message


def test_a_warp_that_is_not_full_has_no_tiles() -> None:
    found = program(kernel(TILE.format(**SIXTEEN)), (48,))
    assert found.graph.lanes == 32
    assert program(kernel(TILE.format(**SIXTEEN)), (64,)).graph.lanes == 16


def test_lanes_that_read_for_each_other_are_one_wave() -> None:
    more = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r5];"
    assert program(kernel(TILE.format(**{**SIXTEEN, "more": more})), (64,)).graph.lanes == 32
