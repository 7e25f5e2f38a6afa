"""Programs that were proved and are wrong: each rests on a step of the proof that did not hold in general.

Each is a race or a hang that can be followed by hand, beside a neighbour that is right where there is one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import tidegate as tg
from tidegate.graph import model as g
from tidegate.graph.build import build_graph
from tidegate.graph.parse import parse_graph
from tidegate.language.parse import parse
from tidegate.simulate.judge import judge
from tidegate.targets import load_target
from tidegate.verify.verify import verify

MIRRORED = """
target gfx942
kernel @mirrored(%X: global<8x64xf32>, %Y: global<8x64xf32>) waves 6 {{
  %rows = alloc : lds<4x64xf32>
  %a = global_read %X[wave] : tile<64xf32>
  conditional wave < 2 {{
    local_write %a, %rows[select(3 - wave >= 0, 3 - wave, 5 - wave)]
  }}
  {order}
  conditional wave >= 4 {{
    %b = local_read %rows[wave - 2] : tile<64xf32>
    global_write %b, %Y[wave]
  }}
}}
"""

# Wave 0 writes row (3 * 2^62 // 2^59) // 12 = 2. In 64 bits, 3 * 2^62 is negative.
LARGE = """
target gfx942
kernel @large() waves 4 {{
  %rows = alloc : lds<4x64xf32>
  %a = fill 1.0 : tile<64xf32>
  conditional wave == 0 {{
    local_write %a, %rows[inexact(max((wave xor 3) * {by}, 1) // 576460752303423488 // 12)]
  }}
  {order}
  conditional wave == 1 {{
    %b = local_read %rows[2] : tile<64xf32>
  }}
}}
"""

DIVERGENT_WAIT = """
target gfx942
kernel @divergent_wait(%Y: global<64xi32>) waves 1 {{
  %a = alloc : lds<64xi32>
  %v = fill 1 : tile<64xi32>
  conditional lane < 32 {{
    local_write %v, %a[0]
    wait_count vmcnt(62)
  }}
  {order}
  %w = local_read %a[0] : tile<32xi32>
  global_write %w, %Y[0]
}}
"""

KERNELS = {
    "a row counted from the other end": (MIRRORED, "shared_memory_barrier"),
    "a number of more than 64 bits": (LARGE.replace("{by}", "576460752303423488 * 8"), "shared_memory_barrier"),
    "a constant of more than 64 bits": (
        LARGE.replace("{by}", "576460752303423488 * 32").replace("// 12", "// 48"),
        "shared_memory_barrier",
    ),
    "a wait to which some lanes do not come": (DIVERGENT_WAIT, "fence wave"),
}


def graph_of(text: str) -> g.SyncGraph:
    (kernel,) = parse(text).kernels
    return build_graph(kernel, load_target(kernel.target)).graph


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_that_was_proved_and_races(name: str) -> None:
    text, order = KERNELS[name]
    wrong = graph_of(text.format(order=""))
    assert not verify(wrong, load_target("gfx942")).is_proved
    assert judge(wrong, load_target("gfx942")).findings
    right = graph_of(text.format(order=order))
    assert not judge(right, load_target("gfx942")).findings
    if "64 bits" not in name:  # there the rows can be told apart by no table
        assert verify(right, load_target("gfx942")).is_proved


# --- graphs -------------------------------------------------------------------------------------------------------

MERGED = """
graph @merged target gfx942 waves 2
free %f: flag
free %g: flag
buffer %a bytes 1024 slots 1
program entry 0 waves 0 .. 2
{{
  0: assign %s = 0 -> 1
  1: branch %f -> 2, 4
  2: assign %s = {first} -> 3
  3: branch %g -> 4, 5
  4: assign %s = {second} -> 5
  5: branch %s < 1 -> 6, 7
  6: write %a[0, wave * 64] box() width 64 -> 8
  7: write %a[0, {bytes}] box() width 64 -> 8
  8: end
}}
"""


@pytest.mark.parametrize(("first", "second"), [("wave", "1 - wave"), ("wave * 3", "wave"), ("1 - wave", "0")])
def test_a_value_that_waves_may_not_share_parts_them(first: str, second: str) -> None:
    """Wave 0 goes to point 6 and wave 1 to point 7, where both write the same bytes: the branch was taken as uniform
    because `%s` could not be computed."""
    wrong = parse_graph(MERGED.format(first=first, second=second, bytes="(1 - wave) * 64"), "merged.sync")
    assert not verify(wrong, load_target("gfx942"), memory=True).is_proved
    right = parse_graph(MERGED.format(first=first, second=second, bytes="wave * 64"), "merged.sync")
    assert not judge(right, load_target("gfx942")).findings


STATED = """
graph @stated target gfx942 waves 2
buffer %a bytes 1024 slots 1
loop 0 head 1 parent -1 trips {trips} expect 2.0 counter %k from 0 to {to} step 1
program entry 0 waves 0 .. 2
{{
  0: assign %k = 0 -> 1
  1: branch %k < {to} loop 0 fixed -> 2, 3
  2: assign %k = %k + 1 loop 0 -> 1
  3: write %a[0, select(wave == 0, %k * 64, 512)] box() width 64 -> 4
  4: end
}}
"""


@pytest.mark.parametrize(("trips", "to", "fits"), [("2 .. 2", 8, False), ("0 .. 2", 8, False), ("8 .. 8", 8, True)])
def test_trips_that_a_counter_contradicts(trips: str, to: int, fits: bool) -> None:
    """After eight trips both waves write bytes 512 to 576; after two, as the graph states, they would not."""
    graph = parse_graph(STATED.format(trips=trips, to=to), "stated.sync")
    found = verify(graph, load_target("gfx942"), memory=True)
    assert not found.is_proved
    assert bool(found.undecided) is not fits


def test_a_counter_that_its_loop_never_sets_counts_nothing() -> None:
    """Computing the value that it has after the loop failed with a `KeyError`."""
    graph = parse_graph(STATED.format(trips="2 .. 2", to=2).replace("assign %k = %k + 1", "assign %j = %k + 1"), "s")
    assert not verify(graph, load_target("gfx942"), memory=True).is_proved


def test_a_counter_that_is_not_tested_at_the_head_is_not_believed() -> None:
    graph = parse_graph(
        """
graph @tail target gfx942 waves 2
buffer %a bytes 1024 slots 1
loop 0 head 1 parent -1 trips 2 .. 2 expect 2.0 counter %k from 0 to 2 step 1
program entry 0 waves 0 .. 2
{
  0: assign %k = 0 -> 1
  1: write %a[0, wave * 128 + %k * 64] box() width 64 lanes "x" loop 0 -> 2
  2: branch %k < 2 loop 0 -> 3, 4
  3: assign %k = %k + 1 loop 0 -> 1
  4: end
}
""",
        "tail.sync",
    )
    assert not verify(graph, load_target("gfx942"), memory=True).is_proved
    assert judge(graph, load_target("gfx942")).findings


# --- ways that cross ----------------------------------------------------------------------------------------------

ROWS = "%a = alloc : lds<4x64xf32>\n%v = fill 1.0 : tile<64xf32>"
CROSSING = {
    "one wave ends early, and writes before": """
conditional wave == 1 { conditional %f { local_write %v, %a[0]
exit } }
local_write %v, %a[wave]""",
    "one wave ends early, and others write behind": """
conditional wave == 0 { local_write %v, %a[0]
conditional %f { exit } }
conditional %f { conditional wave == 1 { local_write %v, %a[0] } }""",
    "arms meet in different iterations": """
iterate %k in 0 .. 3 {
conditional wave == 0 { local_write %v, %a[select(%k == 0, 2, 3)]
conditional %k == 0 { exit } }
else { local_write %v, %a[%k] }
}""",
}


@pytest.mark.parametrize("name", CROSSING)
def test_ways_that_cross_are_not_proved(name: str) -> None:
    text = f"target gfx942\nkernel @crossing(%f: flag) waves 2 {{\n{ROWS}{CROSSING[name]}\n}}\n"
    graph = graph_of(text)
    assert not verify(graph, load_target("gfx942")).is_proved
    assert judge(graph, load_target("gfx942")).findings


def test_arms_that_lie_apart_are_still_proved() -> None:
    text = CROSSING["one wave ends early, and writes before"].replace("exit", "").replace("%a[0]", "%a[3]")
    graph = graph_of(f"target gfx942\nkernel @apart(%f: flag) waves 2 {{\n{ROWS}{text}\n}}\n")
    assert verify(graph, load_target("gfx942")).is_proved


HEADER = "graph @g target gfx942 waves 2\nfree %f: flag\nfree %s: index\nbuffer %a bytes 1024 slots 1\n"
ENTRY = "program entry 0 waves 0 .. 2\n"
GRAPHS = {
    "two ways into one point": """{
  0: branch wave < 1 -> 1, 2
  1: compute under per_wave -> 3
  2: branch %f under per_wave -> 3, 4
  3: write %a[0, wave * 64] box() width 64 under per_wave -> 5
  4: write %a[0, (1 - wave) * 64] box() width 64 under per_wave -> 5
  5: end
}""",
    "a way out of the arm that holds a write": """{
  0: sync shared_memory_barrier -> 1
  1: branch wave == 0 -> 2, 4
  2: write %a[0, 0] box() width 64 lanes "x" under per_wave -> 3
  3: branch %f under per_wave -> 7, 4
  4: branch %f under per_wave -> 5, 7
  5: branch wave == 1 under per_wave -> 6, 7
  6: write %a[0, 0] box() width 64 lanes "x" under per_wave -> 7
  7: sync shared_memory_barrier -> 8
  8: end
}""",
    "a name from outside that one way sets": """{
  0: branch %f -> 1, 2
  1: assign %s = 3 -> 2
  2: write %a[0, select(wave == 0, (%s mod 4) * 64, 0)] box() width 64 -> 3
  3: end
}""",
}
LOOPS = {
    "a name from outside that an inner loop carries": (
        """loop 0 head 1 parent -1 trips 4 .. 4 expect 4.0 counter %i from 0 to 4 step 1
loop 1 head 3 parent 0 trips 1 .. 1 expect 1.0 counter %j from 0 to 1 step 1
""",
        """{
  0: assign %i = 0 -> 1
  1: branch %i < 4 loop 0 -> 2, 8
  2: assign %j = 0 loop 0 -> 3
  3: branch %j < 1 loop 1 -> 4, 7
  4: write %a[0, ((%s + wave) mod 2) * 64] box() width 64 lanes "x" loop 1 -> 5
  5: assign %s = %s + 1 loop 1 -> 6
  6: assign %j = %j + 1 loop 1 -> 3
  7: assign %i = %i + 1 loop 0 -> 1
  8: end
}""",
    ),
    "a test whose arms are the other way round": (
        "loop 0 head 2 parent -1 trips 8 .. 8 expect 8.0 counter %k from 0 to 8 step 1\n",
        """{
  0: write %a[0, wave * 64] box() width 64 lanes "x" -> 1
  1: assign %k = 0 -> 2
  2: branch %k < 8 loop 0 -> 4, 3
  3: assign %k = %k + 1 loop 0 -> 2
  4: read %a[0, (1 - wave) * 64] box() width 64 lanes "x" -> 5
  5: end
}""",
    ),
    "a barrier that waves reach in different iterations": (
        "loop 0 head 1 parent -1 trips 0 .. any expect 2.0\n",
        """{
  0: assign %k = 0 -> 1
  1: branch %k == 0 loop 0 -> 2, 4
  2: branch wave == 1 loop 0 -> 3, 4
  3: assign %k = %k + 1 loop 0 -> 1
  4: sync shared_memory_barrier loop 0 -> 5
  5: branch %k < 4 loop 0 -> 6, 7
  6: assign %k = %k + 1 loop 0 -> 1
  7: end
}""",
    ),
}


@pytest.mark.parametrize("name", [*GRAPHS, *LOOPS])
@pytest.mark.parametrize("memory", [False, True])
def test_a_graph_that_was_proved_and_is_wrong(name: str, memory: bool) -> None:
    loops, body = LOOPS[name] if name in LOOPS else ("", GRAPHS[name])
    graph = parse_graph(HEADER + loops + ENTRY + body, "wrong.sync")
    assert not verify(graph, load_target("gfx942"), memory=memory).is_proved
    assert judge(graph, load_target("gfx942")).findings


def test_a_run_that_ends_the_wave_refutes_nothing_about_lanes_that_go_on(tmp_path: Path) -> None:
    """Lane i writes element 32 + i and ends; lane 32 + i writes it afterwards, and nothing is between them."""
    path = tmp_path / "lanes_end.tide"
    path.write_text(
        """target gfx942
kernel @lanes_end() waves 1 {
  %a = alloc : lds<64xf32>
  %v = fill 1.0 : tile<64xf32>
  %x = fill 1.0 : tile<32xf32>
  conditional lane < 32 { local_write %x, %a[32]
                          exit }
  local_write %v, %a[0]
}
""",
        encoding="utf-8",
    )
    (kernel,) = parse(path.read_text(encoding="utf-8")).kernels
    assert tg.check(kernel).findings
