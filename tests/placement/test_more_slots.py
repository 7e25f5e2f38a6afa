"""`explain` on slots: how many would save a barrier, and that they do.

What is claimed is tried on the text: the kernel is written with that many slots and without the barrier, and `check`
has to find nothing in it; with one slot less it has to object.
"""

from __future__ import annotations

import re

import pytest

import tidegate as tg
from tests.conftest import ROOT
from tidegate.cli.explain import program_to_json
from tidegate.explanation import Barrier, Explained, explain
from tidegate.explanation.rotation import grow
from tidegate.files import load
from tidegate.graph.build import build_graph
from tidegate.graph.parse import parse_graph
from tidegate.graph.show import show_graph
from tidegate.session import Session, sessions_of
from tidegate.synchronize import SyncOptions, synchronize
from tidegate.targets import load_target

ONE = """target gfx942
kernel @one(%X: global<Kx4x64xf32>, %Y: global<Kx4x64xf32>) sizes(K = 8) waves 4 {
  %tile = alloc : lds<4x64xf32>
  iterate %k in 0 .. K {
    %a = global_read %X[%k, wave, 0] : tile<1x64xf32>
    local_write %a, %tile[wave, 0]
    shared_memory_barrier
    %b = local_read %tile[(wave + 1) mod 4, 0] : tile<1x64xf32>
    global_write %b, %Y[%k, wave, 0]
    shared_memory_barrier
  }
}
"""
# Copies one iteration ahead: `{n}` slots.
COPIES = """target gfx950
kernel @copies(%X: global<Kx4x64xf32>) sizes(K = 8) where(K >= 3) waves 4 {
  %tile = alloc : lds<4x64xf32, slots = {n}>
  gather_to_lds %X[0, wave, 0] to %tile[0][wave, 0] : tile<1x64xf32>
  iterate %k in 0 .. K - 1 {
    gather_to_lds %X[%k + 1, wave, 0] to %tile[(%k + 1) mod {n}][wave, 0] : tile<1x64xf32>
    wait_count lgkmcnt(0) vmcnt(1)
    workgroup_barrier
    %a = local_read %tile[%k mod {n}][(wave + 1) mod 4, 0] : tile<1x64xf32>
    shared_memory_barrier
  }
}
"""
SELECT = """target gfx950
kernel @turns(%X: global<9x4x64xf32>) waves 4 {
  %tile = alloc : lds<4x64xf32, slots = {n}>
  gather_to_lds %X[0, wave, 0] to %tile[0][wave, 0] : tile<1x64xf32>
  %last = iterate %k in 0 .. 8 carry(%r = 0 : index) {
    %w = let select(%r + 1 >= {n}, 0, %r + 1)
    gather_to_lds %X[%k + 1, wave, 0] to %tile[%w][wave, 0] : tile<1x64xf32>
    shared_memory_barrier vmcnt(1)
    %a = local_read %tile[%r][(wave + 1) mod 4, 0] : tile<1x64xf32>
    shared_memory_barrier
    yield %w
  }
}
"""
# Waves take turns with the rows, one after the other: `{w}` of them. Nothing else in the loop lets them meet.
ROWS = """target gfx942
kernel @rows(%X: global<Kx8x64xf32>, %Y: global<8x64xf32>) sizes(K = 16) where(K >= 2) waves {w} {
  %tile = alloc : lds<{w}x64xf32, slots = {n}>
  iterate %k in 0 .. K {
    %a = global_read %X[%k, wave, 0] : tile<1x64xf32>
    shared_memory_barrier
    local_write %a, %tile[%k mod {n}][(wave + %k) mod {w}, 0]
  }
  shared_memory_barrier
  %b = local_read %tile[(K - 1) mod {n}][wave, 0] : tile<1x64xf32>
  global_write %b, %Y[wave, 0]
}
"""


def of(text: str) -> Explained:
    (kernel,) = tg.parse(text, "k.tide").kernels
    return explain(Session(kernel.name, load_target(kernel.target), kernel, None))


def with_slots(text: str, slots: int, waves: int = 4) -> str:
    return text.replace("{n}", str(slots)).replace("{w}", str(waves))


def at(result: Explained, line: int) -> Barrier:
    (found,) = [each for each in result.barriers if result.line(each.points[0]) == line]
    return found


def without_line(text: str, line: int) -> str:
    lines = text.splitlines()
    assert "barrier" in lines[line - 1]
    return "\n".join([*lines[: line - 1], "", *lines[line:]]) + "\n"


def is_clean(text: str) -> bool:
    (kernel,) = tg.parse(text).kernels
    return not tg.check(kernel).findings


# --- what is claimed ----------------------------------------------------------------------------------------------


def test_one_slot_where_two_would_do() -> None:
    result = of(ONE)
    found = at(result, 10).more_slots
    assert found is not None
    assert (found.buffers, found.have, found.more, found.bytes, found.anew) == (("%tile",), (1,), 1, 1024, False)
    assert at(result, 7).more_slots is None
    said = "  slots    2 slots instead of 1 of %tile: one barrier fewer per iteration, for 1,024 more bytes"
    assert said in result.text
    two = ONE.replace("4x64xf32>\n", "4x64xf32, slots = 2>\n", 1).replace("%tile[", "%tile[%k mod 2][")
    assert is_clean(without_line(two, 10))
    assert not is_clean(without_line(ONE, 10))


@pytest.mark.parametrize("text", [COPIES, SELECT], ids=["mod", "select"])
@pytest.mark.parametrize("slots", [2, 3])
def test_copies_ahead_need_a_slot_more(text: str, slots: int) -> None:
    """With two, the barrier behind the read is needed; with three it is redundant, and there is nothing to say."""
    result = of(with_slots(text, slots))
    barrier = at(result, 10)
    if slots == 3:
        assert not barrier.is_needed
        assert barrier.more_slots is None
        return
    found = barrier.more_slots
    assert found is not None
    assert (found.have, found.more, found.anew) == ((2,), 1, False)
    assert is_clean(without_line(with_slots(text, 3), 10))
    assert not is_clean(without_line(with_slots(text, 2), 10))


def test_what_stays_may_have_to_wait_for_more() -> None:
    """The bare barrier does not drain the read; `sync` lets something do so, and needs no other barrier."""
    text = COPIES.replace("lgkmcnt(0) ", "")
    result = of(with_slots(text, 2))
    found = at(result, 10).more_slots
    assert found is not None
    assert (found.more, found.anew) == (1, True)
    assert "one barrier fewer per iteration, after `sync`, for" in result.text
    assert not is_clean(without_line(with_slots(text, 3), 10))
    (kernel,) = tg.parse(without_line(with_slots(text, 3), 10)).kernels
    unit = Session(kernel.name, load_target(kernel.target), kernel, None)
    after = synchronize(unit, SyncOptions(strategy="minimal"))
    assert after.checked is not None
    assert after.checked.findings == []
    assert len(re.findall(r"^ *(?:workgroup|shared_memory)_barrier", after.text, re.M)) == 1


@pytest.mark.slow
def test_slots_that_do_not_help() -> None:
    """The rows come round with 7 slots; up to 6 there is always another wave that wrote there."""
    result = of(with_slots(ROWS, 2, 7))
    found = at(result, 6).more_slots
    assert found is not None
    assert (found.more, found.tried, found.is_saved) == (None, 4, False)
    assert "  slots    up to 6 slots of %tile do not save it\n" in result.text


def test_the_least_number_that_helps_is_named() -> None:
    """Of four rows and four slots, each wave writes the same bytes again and again."""
    text = with_slots(ROWS, 2)
    found = at(of(text), 6).more_slots
    assert found is not None
    assert found.more == 2
    assert is_clean(without_line(with_slots(ROWS, 4), 6))
    assert not is_clean(without_line(with_slots(ROWS, 3), 6))


def test_a_barrier_for_data_is_not_for_slots() -> None:
    (unit,) = sessions_of(load(str(ROOT / "examples/gemm_two_slots.tide")), None)
    result = explain(unit)
    assert [each.more_slots for each in result.barriers] == [None]
    assert "slots  " not in result.text.partition("\n\n")[2].partition("no barrier of their own")[0]


def test_both_buffers_of_a_product_get_another_slot() -> None:
    (unit,) = sessions_of(load(str(ROOT / "examples/gemm_one_slot.tide")), None)
    found = at(explain(unit), 16).more_slots
    assert found is not None
    assert (found.buffers, found.have, found.more) == (("%a", "%b"), (1, 1), 1)


def test_memory_that_is_full_is_said_to_be_so() -> None:
    text = with_slots(COPIES, 2).replace("gfx950", "gfx942").replace("4x64xf32, slots", "128x64xf32, slots")
    found = at(of(text), 10).more_slots
    assert found is not None
    assert (found.more, found.tried, found.fits) == (None, 0, False)
    assert "no room for another slot of %tile: 32,768 bytes" in of(text).text


def test_the_graph_alone_says_the_same() -> None:
    (kernel,) = tg.parse(with_slots(SELECT, 2)).kernels
    target = load_target("gfx950")
    graph = parse_graph(show_graph(build_graph(kernel, target).graph), "k.sync")
    found = [each.more_slots for each in explain(Session("k", target, None, graph)).barriers]
    assert [each.more for each in found if each is not None] == [1]


def test_programs_get_it_too() -> None:
    barriers = program_to_json(of(ONE))["barriers"]
    assert isinstance(barriers, list)
    assert [each["more_slots"] for each in barriers] == [
        None,
        {
            "buffers": [{"buffer": "%tile", "slots": 1}],
            "saves": True,
            "more": 1,
            "tried": 1,
            "bytes": 1024,
            "anew": False,
        },
    ]


# --- where nothing is said ----------------------------------------------------------------------------------------


def said(text: str) -> list[object]:
    return [each.more_slots for each in of(text).barriers if each.more_slots is not None]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%tile[%k mod 2][", "%tile[1 - (%k + 1) mod 2]["),  # another form
        ("%tile[%k mod 2][", "%tile[(%k + 2) mod 2]["),  # the same slot, but only of two
        ("%tile[(%k + 1) mod 2][", "%tile[1]["),  # a constant in the loop
    ],
    ids=["form", "congruent", "constant"],
)
def test_other_ways_to_choose_a_slot(old: str, new: str) -> None:
    text = with_slots(COPIES, 2)
    assert old in text
    assert said(text)
    assert not said(text.replace(old, new))


def test_a_constant_behind_the_loop_has_no_plain_meaning() -> None:
    text = with_slots(COPIES, 2).replace("K - 1 {", "8 {").replace("<Kx4", "<9x4")
    behind = (
        "  }\n  wait_count vmcnt(0)\n  workgroup_barrier\n  %z = local_read %tile[0][wave, 0] : tile<1x64xf32>\n}\n"
    )
    assert not said(text.replace("  }\n}\n", behind))
    assert said(text.replace("  }\n}\n", behind.replace("%tile[0]", "%tile[(K - K + 8) mod 2]")))


def test_one_slot_in_which_data_stays() -> None:
    """Each iteration reads what the one before wrote, or only a part is written anew."""
    assert said(ONE)
    moved = ONE.replace("    local_write %a, %tile[wave, 0]\n", "").replace(
        "    global_write %b", "    shared_memory_barrier\n    local_write %a, %tile[wave, 0]\n    global_write %b"
    )
    assert not said(moved)
    assert not said(ONE.replace("%tile[wave, 0]", "%tile[(wave + %k) mod 4, 0]"))
    part = ONE.replace(
        "    local_write %a, %tile[wave, 0]\n", "    conditional K > 4 { local_write %a, %tile[wave, 0] }\n"
    )
    assert not said(part)


# --- growing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("%r + 1 >= 2, 0, %r + 1", "%r + 1 >= 3, 0, %r + 1"),
        ("%r + 1 < 2, %r + 1, 0", "%r + 1 < 3, %r + 1, 0"),
        ("%r + 1 == 2, 0, %r + 1", "%r + 1 == 3, 0, %r + 1"),
        ("%r + 1 > 1, 0, %r + 1", "%r + 1 > 2, 0, %r + 1"),
        ("%r == 1, 0, %r + 1", "%r == 2, 0, %r + 1"),
        ("%r >= 1, 0, %r + 1", "%r >= 2, 0, %r + 1"),
        ("%r + 1 >= 2, %r + 1 - 2, %r + 1", "%r + 1 >= 3, %r + 1 - 3, %r + 1"),
        ("%r + 1 >= 1, 0, %r + 1", None),
        ("%r + 1 >= 2, 1, %r + 1", None),
        ("%r + 1 >= 2, 0, %r", None),
        ("%k >= 2, 0, %k", None),
    ],
)
def test_recurrences(before: str, after: str | None) -> None:
    text = with_slots(SELECT, 2)
    graphs = []
    for each in (before, after or before):
        (kernel,) = tg.parse(text.replace("%r + 1 >= 2, 0, %r + 1", each)).kernels
        graphs.append(build_graph(kernel, load_target("gfx950")).graph)
    grown = grow(graphs[0], {"%tile": 1})
    assert (grown is None) == (after is None)
    if grown is not None:
        assert grown.points == graphs[1].points
        assert [(each.slots, each.offset) for each in grown.buffers] == [(3, None)]


def test_a_recurrence_that_something_else_uses_stays() -> None:
    text = with_slots(SELECT, 2)
    row = text.replace("[(wave + 1) mod 4, 0]", "[(wave + %r) mod 4, 0]")
    for each, grows in ((text, True), (row, False)):
        (kernel,) = tg.parse(each).kernels
        graph = build_graph(kernel, load_target("gfx950")).graph
        assert (grow(graph, {"%tile": 1}) is not None) == grows


def test_memory_under_another_buffer_stays() -> None:
    text = (
        with_slots(COPIES, 2)
        .replace("alloc :", "alloc at 0 :")
        .replace("  gather", "  %over = alloc at 1024 : lds<64xf32>\n  gather", 1)
    )
    (kernel,) = tg.parse(text).kernels
    assert grow(build_graph(kernel, load_target("gfx950")).graph, {"%tile": 1}) is None
