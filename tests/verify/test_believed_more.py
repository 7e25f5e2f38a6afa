"""More programs that were proved and are wrong, beside `test_believed`: graphs whose values were taken for others.

Each is a race that can be followed by hand, beside a neighbour that is right.
"""

from __future__ import annotations

import pytest

import tidegate as tg
from tidegate.graph.build import build_graph
from tidegate.graph.parse import parse_graph
from tidegate.language.parse import parse
from tidegate.simulate.judge import judge
from tidegate.targets import load_target
from tidegate.targets.parse import parse_target
from tidegate.verify.model import Verification
from tidegate.verify.verify import verify

TARGET = load_target("gfx942")


def proof_of(text: str) -> Verification:
    return verify(parse_graph(text, "believed.sync"), TARGET, memory=True)


def is_wrong(text: str) -> bool:
    return bool(judge(parse_graph(text, "believed.sync"), TARGET).findings)


BELOW_ZERO = """
graph @below_zero target gfx942 waves 2
free %n: index
free %f: flag
buffer %a bytes 1024 slots 1
program entry 0 waves 0 .. 2
{{
  0: assign %f = {value} -> 1
  1: branch %f -> 2, 4
  2: branch %n < 0 -> 3, 4
  3: write %a[0, 0] box() width 64 -> 4
  4: end
}}
"""


def test_a_number_below_zero_in_a_flag() -> None:
    """With `%n = -1` the flag is set, and both waves write; isl was asked whether it is 1 or more."""
    wrong, right = BELOW_ZERO.format(value="%n"), BELOW_ZERO.format(value="max(%n, 0)")
    assert is_wrong(wrong)
    assert not proof_of(wrong).is_proved
    assert proof_of(right).is_proved


# Point 3 is entered with 0 in `%x`, and point 4 with 1; the ways go round between them.
TWO_ENTRIES = """
graph @two_entries target gfx942 waves 2
free %f: flag
buffer %a bytes 1024 slots 1
loop 0 head 3 parent -1 trips 0 .. any expect 2.0 irreducible
program entry 0 waves 0 .. 2
{{
  0: branch %f -> {first} -> 3
  2: assign %x = 1 -> 4
  3: write %a[0, {place}] box() width 64 lanes "x" loop 0 -> 4
  4: branch any loop 0 -> 3, 5
  5: end
}}
"""


@pytest.mark.parametrize("first", ["1, 2\n  1: assign %x = 0", "2, 1\n  1: assign %x = 0"])
def test_a_value_that_another_entry_of_a_loop_brings(first: str) -> None:
    """Nothing in the loop sets `%x`, and the way from the other entry was not looked at: both waves write byte 512."""
    wrong = TWO_ENTRIES.format(first=first, place="select(%x == 0, wave * 64, 512)")
    assert is_wrong(wrong)
    assert not proof_of(wrong).is_ordered
    assert proof_of(TWO_ENTRIES.format(first=first, place="wave * 64")).is_ordered


DIVIDED = """
target gfx942
kernel @divided() sizes(N = 3) waves 4 {{
  %a = alloc : lds<8x64xf32>
  %t = fill 1.0 : tile<64xf32>
  iterate %i in 0 .. N {{
    iterate %j in 0 .. 3 {{
      local_write %t, %a[inexact({row} + %j mod (1 + %i mod 3))]
      shared_memory_barrier
    }}
  }}
}}
"""


@pytest.mark.parametrize(("row", "is_right"), [("(wave xor 1)", True), ("(wave xor 1) // 2", False)])
def test_a_divisor_that_both_sides_have_in_common(row: str, is_right: bool) -> None:
    """Two waves in one iteration: what is divided is the same in both, and only the divisor was left to look at. That
    failed with a `KeyError`."""
    (kernel,) = parse(DIVIDED.format(row=row)).kernels
    assert verify(build_graph(kernel, TARGET).graph, TARGET).is_ordered is is_right


# Some lanes write the neighbours' bytes behind a fence to which the others do not come.
FENCED = """
graph @fenced target gfx942 waves 1
buffer %a bytes 512 slots 1
program entry 0 waves 0 .. 1
{{
  0: write %a[0, 0] box() width 256 lanes "x" -> 1
  1: {number} -> 2
  2: branch {cond} -> 3, 5
  3: sync fence wave{under} -> 4
  4: write %a[0, 4] box() width 128 lanes "x"{under} -> 5
  5: end
}}
"""
# Some lanes write what the others write, each in an arm of its own.
ARMS = """
graph @arms target gfx942 waves 1
buffer %a bytes 512 slots 1
program entry 0 waves 0 .. 1
{{
  0: {number} -> 1
  1: branch {cond} -> 2, 3
  2: write %a[0, 0] box() width 64 lanes "x"{under} -> 4
  3: write %a[0, {at}] box() width 64 lanes "x"{under} -> 4
  4: end
}}
"""
UNSAID = {
    "the lane": ("compute", "lane < 16"),
    "a number of the lane": ("assign %x = lane // 2", "%x < 8"),
    "a number that may differ": ("havoc %x", "%x < 8"),
}


@pytest.mark.parametrize("under", ["", " under divergent"])
@pytest.mark.parametrize("name", UNSAID)
def test_lanes_that_part_unsaid(name: str, under: str) -> None:
    """Where the graph does not say that lanes part, all of them were taken to come to the fence, and to one arm. Runs,
    in which a wave goes one way, refuted nothing."""
    number, cond = UNSAID[name]
    for text in (FENCED, ARMS):
        wrong = text.format(number=number, cond=cond, under=under, at=4)
        assert not proof_of(wrong).is_ordered
        assert tg.check(parse_graph(wrong, "unsaid.sync")).findings
    assert proof_of(ARMS.format(number=number, cond=cond, under=under, at=64)).is_ordered


def test_lanes_that_agree_where_waves_do_not() -> None:
    """A number that waves do not agree on parts their lanes only where nothing says that these stay together."""
    number, cond = UNSAID["a number that may differ"]
    text = FENCED.format(number=number, cond=cond, under=" under per_wave")
    assert proof_of(text).is_ordered


HALF_A_WAVE = """
target {target}
kernel @half_a_wave() waves 2 {{
  %a = alloc : lds<64xf32>
  %t = fill 1.0 : tile<64xf32>
  conditional wave == 0 {{
    conditional lane < 32 {{
      local_write %t, %a[0]
    }}
  }} else {{
    %r = local_read %a[32] : tile<32xf32>
  }}
}}
"""


@pytest.mark.parametrize(("target", "is_right"), [("none", False), ("sm_90", False), ("gfx942", True)])
def test_lanes_of_a_target_that_states_none(target: str, is_right: bool) -> None:
    """Of 64 lanes the first 32 write half of the tile, of 32 all of it: without a target there were taken to be 64."""
    (kernel,) = parse(HALF_A_WAVE.format(target=target)).kernels
    facts = load_target("" if target == "none" else target)
    graph = build_graph(kernel, facts).graph
    assert verify(graph, facts).is_proved is is_right
    assert bool(judge(graph, facts).findings) is not is_right


OWN_TARGET = """
name = "mygpu"
[sources]
d = "made up"
[counters.c]
source = "d"
{most}
in_order = true
[operations.gather_to_lds]
source = "d"
counter = "c"
certain = true
in_order = true
bytes_per_lane = [4]
"""
TWO_COPIES = """
kernel @two_copies(%X: global<8x64xf32>) waves 4 {{
  %rows = alloc : lds<8x64xf32>
  gather_to_lds %X[wave, 0] to %rows[wave] : tile<64xf32>
  gather_to_lds %X[wave + 4, 0] to %rows[wave + 4] : tile<64xf32>
  wait_count c({count})
  workgroup_barrier
  %o = local_read %rows[(wave + 1) mod 4] : tile<64xf32>
}}
"""


@pytest.mark.parametrize(("most", "largest"), [("", 0), ("max = 0", 0), ("max = 1", 0), ("max = 2", 1)])
def test_a_counter_whose_waits_can_only_drain(most: str, largest: int) -> None:
    """A counter without a maximum had waits for any count, though the page of facts says that they only drain."""
    target = parse_target(OWN_TARGET.format(most=most), "mygpu.toml")
    for count in (0, 1):
        (kernel,) = parse(TWO_COPIES.format(count=count)).kernels
        assert verify(build_graph(kernel, target).graph, target).is_proved is (count <= largest)


@pytest.mark.parametrize(("lanes", "is_right"), [("", False), ("[wave]\nsize = { value = 64, source = 'd' }", True)])
def test_instructions_of_a_wave_of_unknown_size(lanes: str, is_right: bool) -> None:
    """A tile of 1,024 bytes is four copies of 64 lanes, and two of 128: a count of 4 relied on waves of 64."""
    target = parse_target(OWN_TARGET.format(most="max = 63") + lanes, "mygpu.toml")
    text = TWO_COPIES.format(count=4).replace("64xf32", "256xf32")
    (kernel,) = parse(text).kernels
    assert verify(build_graph(kernel, target).graph, target).is_proved is is_right


TWO_KINDS_OF_GROUPS = """
graph @two_kinds target sm_90 waves 2
buffer %a bytes 1024 slots 1
program entry 0 waves 0 .. 2
{{
  0: read %a[0, wave * 64] box() width 64 async proxy async token %t issues bulk_group 0 .. 0 -> 1
  1: sync commit_group issues bulk_group 1 .. 1 -> 2
  2: sync commit_group{issues} -> 3
  3: sync wait_count bulk_group(1) -> 4
  4: sync fence wave -> 5
  5: write %a[0, wave * 64] box() width 64 -> 6
  6: end
}}
"""
NAMED_GROUP = """
graph @named_group target sm_90 waves 2
buffer %a bytes 1024 slots 1
program entry 0 waves 0 .. 2
{{
  0: write %a[0, wave * 64] box() width 64 async token %t issues group 0 .. 0 -> 1
  1: sync %g = commit_group issues {counter} 1 .. 1 -> 2
  2: sync wait_count deps(%g) -> 3
  3: sync fence wave -> 4
  4: read %a[0, wave * 64] box() width 64 -> 5
  5: end
}}
"""
CLOSED = {
    " issues group 1 .. 1": False,
    "": False,
    " issues bulk_group 1 .. 1": True,
    " issues group 1 .. 1, bulk_group 1 .. 1": True,
}


@pytest.mark.parametrize("issues", CLOSED)
def test_a_group_that_is_closed_on_another_counter(issues: str) -> None:
    """`bulk_group(1)` leaves the group with the copy in flight, unless a group behind it is closed on that counter."""
    text = TWO_KINDS_OF_GROUPS.format(issues=issues)
    graph, target = parse_graph(text, "groups.sync"), load_target("sm_90")
    assert verify(graph, target, memory=True).is_proved is CLOSED[issues]
    assert bool(judge(graph, target).findings) is not CLOSED[issues]


@pytest.mark.parametrize(("counter", "is_right"), [("group", True), ("bulk_group", False)])
def test_a_group_by_name_on_another_counter(counter: str, is_right: bool) -> None:
    graph, target = parse_graph(NAMED_GROUP.format(counter=counter), "groups.sync"), load_target("sm_90")
    assert verify(graph, target, memory=True).is_proved is is_right
    assert bool(judge(graph, target).findings) is not is_right
