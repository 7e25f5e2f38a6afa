"""Accesses that may leave their buffers are not proved: the bytes that they touch there belong to another buffer.

The bounds check of the language reports what it is sure of; what it cannot follow was taken to stay inside.
"""

from __future__ import annotations

import pytest

import tidegate as tg
from tidegate.graph import model as g
from tidegate.graph.build import build_graph
from tidegate.graph.parse import parse_graph
from tidegate.language.parse import parse
from tidegate.targets import load_target
from tidegate.verify.verify import verify

KERNEL = """
target gfx942
kernel @beside(%X: global<8x64xf32>, %Y: global<8x64xf32>, %j: index) waves 4 {{
  %a = alloc : lds<4x64xf32>
  %b = alloc : lds<4x64xf32>
  %x = global_read %X[wave] : tile<64xf32>
  {write}
  %y = local_read %b[wave] : tile<64xf32>
  global_write %y, %Y[wave]
}}
"""
MASKED = """%i = iota axis 0 : tile<64xi32>
  %c = fill 32 : tile<64xi32>
  %m = lt %i, %c : tile<64xi1>
  local_write %x, %a[{row}] mask %m"""
CARRIED = """%r = iterate %k in 0 .. %j carry(%s = 0 : index) {{
    yield {next}
  }}
  local_write %x, %a[(wave + %r){mod}]"""

# A write into `a` that stays there, and one that comes to the first row of `b`, which wave 0 reads.
PAIRS = {
    "an argument": ("local_write %x, %a[(wave + %j) mod 4]", "local_write %x, %a[wave + %j]"),
    "under a mask": (MASKED.format(row="wave"), MASKED.format(row="wave + 1")),
    "by some lanes": (
        "conditional lane < 3 {\n  local_write %x, %a[wave]\n  }",
        "conditional lane < 3 {\n  local_write %x, %a[wave + 1]\n  }",
    ),
    "what a loop carries": (CARRIED.format(next="%s + 1", mod=" mod 4"), CARRIED.format(next="%s + 1", mod="")),
    "a value of each wave": ("local_write %x, %a[inexact(wave xor 3)]", "local_write %x, %a[inexact(wave xor 4)]"),
    "a condition on an argument": (
        "conditional %j + wave < 4 {\n  conditional %j >= 0 {\n  local_write %x, %a[wave + %j]\n  }\n  }",
        "conditional %j + wave < 5 {\n  conditional %j >= 0 {\n  local_write %x, %a[wave + %j]\n  }\n  }",
    ),
}


def graph_of(text: str) -> g.SyncGraph:
    (kernel,) = parse(text).kernels
    return build_graph(kernel, load_target(kernel.target)).graph


@pytest.mark.parametrize("name", PAIRS)
def test_a_write_beside_its_buffer_is_not_proved(name: str) -> None:
    inside, outside = (graph_of(KERNEL.format(write=write)) for write in PAIRS[name])
    target = load_target("gfx942")
    for memory in (False, True):
        assert verify(inside, target, memory=memory, trusted=False).is_proved
        found = verify(outside, target, memory=memory, trusted=False)
        assert not found.is_proved
        assert found.outside == ("an access that may leave `a`",)


@pytest.mark.parametrize("name", PAIRS)
def test_check_finds_no_proof_either(name: str) -> None:
    inside, outside = PAIRS[name]
    assert tg.check(parse(KERNEL.format(write=inside)).kernels[0]).is_proved
    assert not tg.check(parse(KERNEL.format(write=outside)).kernels[0]).is_proved


SLOT = """
graph @slot target gfx942 waves 2
free %s: index
buffer %a bytes 256 slots 2
buffer %b bytes 256 slots 1
program entry 0 waves 0 .. 2
{{
  0: write %a[{slot}, wave * 128] box() width 128 -> 1
  1: read %b[0, wave * 128] box() width 128 -> 2
  2: end
}}
"""


@pytest.mark.parametrize(("slot", "stays"), [("%s mod 2", True), ("%s mod 3", False), ("1", True), ("2", False)])
def test_a_slot_that_its_buffer_does_not_have(slot: str, stays: bool) -> None:
    graph = parse_graph(SLOT.format(slot=slot), "slot.sync")
    assert verify(graph, load_target("gfx942")).is_proved is stays


COPY = """
target {target}
kernel @piece(%X: global<4x64x{dtype}>) waves 4 {{
  %a = alloc : lds<4x{columns}x{dtype}>
  %c = gather_to_lds %X[wave, 0] to %a[wave, {at}] : tile<{size}x{dtype}>
  shared_memory_barrier deps(%c)
}}
"""


@pytest.mark.parametrize("target", ["gfx942", "sm_80"])
@pytest.mark.parametrize(
    ("dtype", "columns", "at", "size", "whole"),
    [
        ("f32", 33, "1", 3, True),
        ("f16", 64, "0", 64, True),
        ("f16", 64, "2 * wave", 6, True),
        ("f16", 64, "0", 3, False),
        ("f16", 63, "0", 2, False),
        ("f16", 64, "wave", 2, False),
        ("i8", 6, "0", 6, False),
        ("i8", 8, "0", 8, True),
    ],
)
def test_copies_of_less_than_a_piece(target: str, dtype: str, columns: int, at: str, size: int, whole: bool) -> None:
    """A lane writes at least 4 bytes: rows of 6 bytes are written as 8, over the row of the next wave."""
    text = COPY.format(target=target, dtype=dtype, columns=columns, at=at, size=size)
    found = tg.check(parse(text).kernels[0], target)
    assert ("TG305" in {each.code for each in found}) is not whole
    assert found.is_proved is whole
