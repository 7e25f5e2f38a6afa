"""Programs that are right although it takes some thought, by class, each beside a neighbour that is wrong.

A right program has no findings and is proved, or judged in full where the verifier leaves it to the simulator. Its
neighbour differs in one place: the verifier does not prove it, and the simulator shows what is wrong. `sync` finds a
plan for the right programs without their barriers that is proved and has no more barriers than they have.
"""

from __future__ import annotations

import random
import re
import time
from dataclasses import replace

import pytest

import tidegate as tg
from tests.graph.test_graph_bytes import compare, machine_touches
from tidegate.footprint import find_footprints
from tidegate.graph import model as g
from tidegate.graph.build import build_graph
from tidegate.graph.flow import flow_of
from tidegate.graph.parse import parse_graph
from tidegate.graph.show import show_graph
from tidegate.language.ops import Kernel
from tidegate.language.parse import parse
from tidegate.simulate.judge import judge
from tidegate.targets import load_target

X = "%X: global<9x8x64xf32>, %Y: global<9x8x64xf32>"


def kernel(header: str, body: str, target: str = "gfx942") -> str:
    return f"target {target}\nkernel @k({X}{header} {{\n{body}\n}}\n"


def kernel_of(text: str) -> Kernel:
    (found,) = parse(text).kernels
    return found


# --- programs -----------------------------------------------------------------------------------------------------


def swizzled(write: str, read: str, slots: int, waves: int, order: str = "shared_memory_barrier") -> str:
    slot = f"[%k mod {slots}]" if slots > 1 else ""
    return kernel(
        f") sizes(N = 8) waves {waves}",
        f"""
  %rows = alloc : lds<{waves}x64xf16{f", slots = {slots}" if slots > 1 else ""}>
  %a = fill 1.0 : tile<64xf16>
  iterate %k in 0 .. N {{
    local_write %a, %rows{slot}[inexact({write})]
    {order}
    %b = local_read %rows{slot}[inexact({read})] : tile<64xf16>
  }}""",
        "sm_80" if waves > 16 else "gfx942",
    )


OWN_ROWS = """
  %rows = alloc : lds<8x8x64xf16>
  %a = fill 1.0 : tile<64xf16>
  iterate %k in 0 .. N {
    local_write %a, %rows[wave, inexact(wave xor (%k mod 8))]
    %b = local_read %rows[inexact(ROW), inexact(wave xor (%k mod 8))] : tile<64xf16>
  }"""

BUTTERFLY = """
  %rows = alloc : lds<8x64xf32>
  %a = global_read %X[0, wave] : tile<64xf32>
  iterate %t in 0 .. N {
    %r, %z = iterate %k in 0 .. 3 carry(%v = %a : tile<64xf32>, %d = START : index) {
      local_write %v, %rows[wave]
      shared_memory_barrier
      %l = local_read %rows[inexact(wave xor %d)] : tile<64xf32>
      %m = min %v, %l : tile<64xf32>
      BEHIND
      yield %m, NEXT
    }
  }"""

EXCHANGE = """
  %rows = alloc : lds<8x64xf32>
  %a = fill 1.0 : tile<64xf32>
  local_write %a, %rows[wave * 2]
  local_write %a, %rows[wave * 2 + 1]
  iterate %t in 0 .. N {
    %o = iterate %k in 0 .. 3 carry(%d = 4 : index) {
      shared_memory_barrier
      %i = let inexact(wave // %d * %d * 2 + wave mod %d)
      %l = local_read %rows[inexact(%i)] : tile<64xf32>
      %h = local_read %rows[inexact(%i + %d)] : tile<64xf32>
      %mn = min %l, %h : tile<64xf32>
      %mx = max %l, %h : tile<64xf32>
      local_write %mn, %rows[inexact(WRITE)]
      local_write %mx, %rows[inexact(%i + %d)]
      yield %d // 2
    }
  }"""

SCAN = """
  %rows = alloc : lds<8x64xf32, slots = SLOTS>
  %a = global_read %X[0, wave] : tile<64xf32>
  iterate %t in 0 .. N {
    local_write %a, %rows[0][wave]
    %r, %o = iterate %k in 0 .. 3 carry(%v = %a : tile<64xf32>, %off = 1 : index) {
      shared_memory_barrier
      %w = conditional wave >= %off : tile<64xf32> {
        %l = local_read %rows[%k mod SLOTS][wave - %off] : tile<64xf32>
        %s = add %v, %l : tile<64xf32>
        yield %s
      } else {
        yield %v
      }
      local_write %w, %rows[(%k + 1) mod SLOTS][wave]
      yield %w, %off * 2
    }
    shared_memory_barrier
  }"""

BITONIC = """
  %rows = alloc : lds<8x64xf32>
  %a = fill 1.0 : tile<64xf32>
  local_write %a, %rows[wave]
  iterate %t in 0 .. N {
    %o = iterate %k in 0 .. 3 carry(%d = 1 : index) {
      shared_memory_barrier
      conditional inexact(wave xor %d) > wave {
        %l = local_read %rows[wave] : tile<64xf32>
        %h = local_read %rows[inexact(wave xor %d)] : tile<64xf32>
        local_write %h, %rows[wave]
        local_write %l, %rows[inexact(OTHER)]
      }
      yield %d * 2
    }
  }"""

TREE = """
  %rows = alloc : lds<32x64xf32>
  %a = global_read %X[0, 0] : tile<64xf32>
  local_write %a, %rows[wave]
  %o = iterate %k in 0 .. 5 carry(%d = 16 : index) {
    shared_memory_barrier
    conditional wave < %d {
      %h = local_read %rows[wave + OFF] : tile<64xf32>
      local_write %h, %rows[wave]
    }
    yield %d // 2
  }"""

HALVES = """
  %rows = alloc : lds<64xf32>
  %a = global_read %X[0, wave] : tile<64xf32>
  conditional ONE { local_write %a, %rows }
  conditional OTHER { local_write %a, %rows }
  shared_memory_barrier
  %b = local_read %rows : tile<64xf32>
  global_write %b, %Y[0, wave]"""

MASKS = """
  %rows = alloc : lds<16x16xf32>
  %a = fill 1.0 : tile<16x16xf32>
  %i = iota axis AXIS : tile<16x16xi32>
  %from = splat wave * 8 : tile<16x16xi32>
  %to = splat wave * 8 + COUNT : tile<16x16xi32>
  %ge = ge %i, %from : tile<16x16xi1>
  %lt = lt %i, %to : tile<16x16xi1>
  %mask = and %ge, %lt : tile<16x16xi1>
  local_write %a, %rows mask %mask
  shared_memory_barrier
  %b = local_read %rows : tile<16x16xf32>"""

PER_WAVE = """
  %rows = alloc : lds<8x64xf32, slots = 2>
  %a = global_read %X[0, wave] : tile<64xf32>
  iterate %k in 0 .. UPPER {
    local_write %a, %rows[%k mod 2][wave]
    shared_memory_barrier
    %b = local_read %rows[%k mod 2][(wave + 1) mod WAVES] : tile<64xf32>
    global_write %b, %Y[0, wave]
  }"""

MADE_UP_FOR = """
  %rows = alloc : lds<8x64xf32>
  %a = global_read %X[0, wave] : tile<64xf32>
  iterate %k in 0 .. wave // 4 + 1 {
    local_write %a, %rows[wave]
    shared_memory_barrier
  }
  conditional wave < HOW_MANY { shared_memory_barrier }
  %b = local_read %rows[(wave + 1) mod 8] : tile<64xf32>
  global_write %b, %Y[0, wave]"""

SPLIT = """
  %rows = alloc : lds<4x64xf32>
  %a = global_read %X[0, wave] : tile<64xf32>
  iterate %k in 0 .. N {
    conditional FIRST { wait -1 }
    local_write %a, %rows[wave]
    wait_count dscnt(0)
    signal -1
    wait -1
    %b = local_read %rows[(wave + 1) mod 4] : tile<64xf32>
    DRAIN
    conditional LAST { signal -1 }
    global_write %b, %Y[0, wave]
  }"""

NESTED_SPLIT = """
  %rows = alloc : lds<4x64xf32>
  %a = global_read %X[0, wave] : tile<64xf32>
  iterate %i in 0 .. N {
    iterate %k in 0 .. N {
      conditional %k > 0 { wait -1 }
      local_write %a, %rows[wave]
      wait_count dscnt(0)
      signal -1
      wait -1
      %b = local_read %rows[(wave + 1) mod 4] : tile<64xf32>
      wait_count dscnt(0)
      conditional LAST { signal -1 }
      global_write %b, %Y[0, wave]
    }
    signal -1
    wait -1
  }"""

COUNTED = """
  %rows = alloc : lds<4x64xf32, slots = 2>
  %more = alloc : lds<4x64xf32>
  %i = read_index %F[0]
  gather_to_lds %X[0, wave] to %rows[0][wave] : tile<64xf32>
  conditional FREE { gather_to_lds %X[1, wave] to %more[wave] : tile<64xf32> }
  conditional SAME { wait_count vmcnt(1) } else { wait_count vmcnt(0) }
  shared_memory_barrier
  %b = local_read %rows[0][(wave + 1) mod 4] : tile<64xf32>
  global_write %b, %Y[0, wave]"""

PREFETCH = """
  %rows = alloc : lds<4x64xf32, slots = 4>
  gather_to_lds %X[0, wave] to %rows[0][wave] : tile<64xf32>
  gather_to_lds %X[1, wave] to %rows[1][wave] : tile<64xf32>
  iterate %k in 0 .. N {
    conditional %k + 2 < N {
      gather_to_lds %X[0, wave] to %rows[(%k + 2) mod 4][wave] : tile<64xf32>
      wait_count vmcnt(2)
    } else {
      wait_count vmcnt(LEFT)
    }
    shared_memory_barrier
    %b = local_read %rows[%k mod 4][(wave + 1) mod 4] : tile<64xf32>
    global_write %b, %Y[0, wave]
  }"""


def put(text: str, **by: object) -> str:
    for word, value in by.items():
        text = text.replace(word, str(value))
    return text


SIZED, TWO, FOUR = ") sizes(N = 8) waves 8", ") waves 2", ") waves 4"
FLAGGED = ", %F: global<4xi32>, %f: flag) waves 4"
LOOPED = ") sizes(N = 8) where(N >= 2) waves 4"


def halves(one: str, other: str, header: str = TWO, target: str = "gfx942") -> str:
    return kernel(header, put(HALVES, ONE=one, OTHER=other), target)


def split(first: str, last: str, drain: str = "wait_count dscnt(0)", header: str = ") sizes(N = 8) waves 4") -> str:
    return kernel(header, put(SPLIT, FIRST=first, LAST=last, DRAIN=drain), "gfx1200")


def counted(free: str, same: str) -> str:
    return kernel(FLAGGED, put(COUNTED, FREE=free, SAME=same))


def per_wave(upper: str, waves: int) -> str:
    return kernel(f") waves {waves}", put(PER_WAVE, UPPER=upper, WAVES=waves))


PROVED = {
    "xor with a counter, own rows": kernel(SIZED, put(OWN_ROWS, ROW="wave")),
    "xor with a counter, slots": swizzled("wave xor (%k mod 8)", "((wave + 1) mod 8) xor (%k mod 8)", 2, 8),
    "xor with a counter, 32 waves": swizzled("wave xor (%k mod 4)", "wave xor ((%k + 1) mod 4)", 2, 32),
    "xor with 32 waves and slots": swizzled("wave xor 5", "((wave + 1) mod 32) xor 5", 3, 32),
    "xor with 32 waves, own row": swizzled("wave xor 5", "wave xor 5", 3, 32, "fence wave"),
    "xor of xor": swizzled("(wave xor 3) xor (%k mod 8)", "(wave + 1) mod 8 xor ((%k mod 8) xor 3)", 2, 8),
    "xor of bits that stay apart": swizzled("wave xor 2", "(wave // 2 * 2 + 1 - wave mod 2) xor 2", 2, 16),
    "butterfly, 4 down to 1": kernel(SIZED, put(BUTTERFLY, START=4, NEXT="%d // 2", BEHIND="shared_memory_barrier")),
    "butterfly, 1 up to 4": kernel(SIZED, put(BUTTERFLY, START=1, NEXT="%d * 2", BEHIND="shared_memory_barrier")),
    "compare and exchange": kernel(") sizes(N = 8) waves 4", put(EXCHANGE, WRITE="%i")),
    "Hillis-Steele scan": kernel(SIZED, put(SCAN, SLOTS=2)),
    "bitonic exchange by one wave of each pair": kernel(SIZED, put(BITONIC, OTHER="wave xor %d")),
    "tree of 32 waves": kernel(") waves 32", put(TREE, OFF="%d"), "sm_90"),
    "halves by lanes": halves("wave == 0 and lane < 32", "wave == 1 and lane >= 32"),
    "halves by lanes that waves choose": halves("lane // 32 == wave", "false"),
    "odd and even lanes": halves("lane mod 2 == wave", "false"),
    "halves of 32 lanes": halves("wave == 0 and lane < 16", "wave == 1 and lane >= 16", target="sm_80"),
    "columns by masks": kernel(TWO, put(MASKS, AXIS=1, COUNT=8)),
    "rows by masks": kernel(TWO, put(MASKS, AXIS=0, COUNT=8)),
    "a bound that all waves share": per_wave("wave // 4 + 1", 4),
    "a bound that all waves share, by 8": per_wave("wave // 8 + 3", 8),
    "a split pair across the back edge": split("%k > 0", "%k + 1 < N"),
    "a split pair, other words": split("%k >= 1", "%k < N - 1"),
    "a split pair, unequal": split("%k != 0", "%k != N - 1"),
    "a split pair, constant trips": split("%k > 0", "%k < 7").replace("0 .. N", "0 .. 8"),
    "a split pair, from 1": split("%k > 1", "%k + 1 < N").replace("0 .. N", "1 .. N"),
    "a split pair, steps of 2": split("%k > 0", "%k + 2 < N").replace("0 .. N", "0 .. N step 2"),
    "a split pair, in a loop of a loop": kernel(
        ") sizes(N = 8) waves 4", put(NESTED_SPLIT, LAST="%k + 1 < N"), "gfx1201"
    ),
    "counts behind a flag": counted("%f", "%f"),
    "counts behind a number from memory": counted("%i > 3", "%i > 3"),
    "counts behind a condition on waves": counted("wave < 2", "wave < 2"),
    "a guarded prefetch": kernel(LOOPED, put(PREFETCH, LEFT=0)),
}

WRONG = {
    "xor with a counter, a neighbour's rows": (kernel(SIZED, put(OWN_ROWS, ROW="wave xor %k mod 2")), "TG101"),
    "xor with a counter, a neighbour's row": (swizzled("wave xor (%k mod 8)", "wave xor 1", 1, 8, ""), "TG101"),
    "xor with a counter, one slot": (swizzled("wave xor (%k mod 8)", "wave xor 1", 1, 8), "TG102"),
    "xor with 32 waves, one slot": (swizzled("wave xor 5", "((wave + 1) mod 32) xor 5", 1, 32), "TG102"),
    "xor with 32 waves, a neighbour's row": (swizzled("wave xor 5", "wave xor 4", 3, 32, "fence wave"), "TG101"),
    "xor of xor, undone in one slot": (swizzled("(wave xor 3) xor (%k mod 8)", "wave xor 3", 1, 8), "TG102"),
    "butterfly with one barrier": (kernel(SIZED, put(BUTTERFLY, START=1, NEXT="%d * 2", BEHIND="")), "TG102"),
    "compare and exchange at the wrong place": (
        kernel(") sizes(N = 8) waves 4", put(EXCHANGE, WRITE="(%i + 1) mod 8")),
        "TG103",
    ),
    "bitonic exchange with another pair's row": (
        kernel(SIZED, put(BITONIC, OTHER="((wave xor %d) + 1) mod 8")),
        "TG102",
    ),
    "tree whose halves overlap": (kernel(") waves 32", put(TREE, OFF="%d - 1"), "sm_90"), "TG102"),
    "Hillis-Steele scan in one slot": (
        kernel(
            SIZED,
            put(SCAN, SLOTS=1)
            .replace("[0]", "")
            .replace("[%k mod 1]", "")
            .replace("[(%k + 1) mod 1]", "")
            .replace(", slots = 1", ""),
        ),
        "TG102",
    ),
    "lanes that share one element": (halves("wave == 0 and lane < 33", "wave == 1 and lane >= 32"), "TG103"),
    "columns that overlap": (kernel(TWO, put(MASKS, AXIS=1, COUNT=9)), "TG103"),
    "a bound that differs": (
        per_wave("wave // 4 + 1", 8).replace(
            "  }\n}", "  }\n  shared_memory_barrier\n  local_write %a, %rows[0][wave]\n}"
        ),
        "TG202",
    ),
    "what is made up for too seldom": (kernel(") waves 8", put(MADE_UP_FOR, HOW_MANY=3)), "TG202"),
    "a split pair without a drain": (split("%k > 0", "%k + 1 < N", ""), "TG102"),
    "a split pair that signals once too often": (split("%k > 0", "%k < N"), "TG208"),
    "a split pair that waits once too often": (split("%k >= 0", "%k + 1 < N"), "TG204"),
    "a split pair, in a loop of a loop, signalled once too often": (
        kernel(") sizes(N = 8) waves 4", put(NESTED_SPLIT, LAST="%k < N"), "gfx1201"),
        "TG208",
    ),
    "counts behind another flag": (counted("%f", "not %f"), "TG101"),
    "counts behind another number": (counted("%i > 3", "%i > 2"), "TG101"),
    "a guarded prefetch that waits too little": (kernel(LOOPED, put(PREFETCH, LEFT=1)), "TG101"),
}

# --- what is said of them -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROVED)
def test_what_is_right_is_proved(name: str) -> None:
    given = kernel_of(PROVED[name])
    start = time.process_time()
    assert [each.code for each in tg.check(given)] == []
    assert time.process_time() - start < 3
    found = tg.prove(given)
    assert found.is_proved, (found.undecided, found.suspects)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_beside_it_is_found(name: str) -> None:
    text, code = WRONG[name]
    given = kernel_of(text)
    assert code in [each.code for each in tg.check(given)]
    assert not tg.prove(given).is_proved
    target = load_target(given.target)
    assert judge(build_graph(given, target).graph, target).findings


# Of a guarded prefetch the cost model takes a plan with more barriers and fewer cycles.
@pytest.mark.parametrize("name", [name for name in PROVED if name != "a guarded prefetch"])
def test_sync_puts_in_no_more_barriers(name: str) -> None:
    text = PROVED[name]
    bare = re.sub(r"^\s*(shared_memory_barrier|fence wave|wait_count [^\n]*)\n", "\n", text, flags=re.MULTILINE)
    if "split pair" in name:
        bare = re.sub(r"^\s*(signal -1|wait -1|conditional [^\n]*-1 })\n", "\n", bare, flags=re.MULTILINE)
    bare = re.sub(r"conditional [^{\n]*{ wait_count [^\n]*\n", "", bare)
    result = tg.sync(kernel_of(bare), judge=False)
    assert result.kernel is not None
    assert tg.prove(result.kernel).is_proved
    # A pair of `signal` and `wait` is one barrier, as is a whole one.
    by_hand, found = (len(re.findall(r"\w+_barrier\b|\bsignal\b", each)) for each in (text, tg.show(result.kernel)))
    assert found <= by_hand


# --- bounds of waves ----------------------------------------------------------------------------------------------


def test_arrivals_that_another_arm_makes_up_for() -> None:
    """Waves 0 to 3 arrive once in the loop and once behind it, the others twice in the loop."""
    text = kernel(") waves 8", put(MADE_UP_FOR, HOW_MANY=4))
    given = kernel_of(text)
    assert [each.code for each in tg.check(given)] == []
    assert tg.judge(given).bounded == []  # bounds that waves alone decide are run in full


# --- waves that end early, in graphs ------------------------------------------------------------------------------

EARLY = """
graph @early target gfx942 waves 4
sizes(N = 8)
buffer %a bytes 1024 slots 2
loop 0 head 2 parent -1 trips 0 .. any expect 16.0 counter %k from 0 to N step 1
program entry 0 waves 0 .. 4
{
  0: branch wave < 2 -> 1, 7
  1: assign %k = 0 under per_wave -> 2
  2: branch %k < N loop 0 under per_wave -> 3, 7
  3: write %a[%k mod 2, wave * 256] box() width 256 loop 0 under per_wave -> 4
  4: sync shared_memory_barrier loop 0 under per_wave -> 5
  5: read %a[%k mod 2, 0] box() width 512 loop 0 under per_wave -> 6
  6: assign %k = %k + 1 loop 0 under per_wave -> 2
  7: end
}
"""
EARLY_IN_A_LOOP = """
graph @early target gfx942 waves 4
sizes(N = 8)
buffer %a bytes 1024 slots 2
loop 0 head 1 parent -1 trips 0 .. any expect 16.0 counter %k from 0 to N step 1
program entry 0 waves 0 .. 4
{
  0: assign %k = 0 -> 1
  1: branch %k < N loop 0 -> 2, 7
  2: branch wave == 3 and %k == 2 loop 0 -> 7, 3
  3: write %a[%k mod 2, wave * 256] box() width 256 loop 0 under per_wave -> 4
  4: sync shared_memory_barrier loop 0 under per_wave -> 5
  5: read %a[%k mod 2, 0] box() width 1024 loop 0 under per_wave -> 6
  6: assign %k = %k + 1 loop 0 under per_wave -> 1
  7: end
}
"""
# Waves 2 and 3 skip the barrier, and come to what stands behind it.
SKIPPED = """
graph @skipped target gfx942 waves 4
buffer %a bytes 1024 slots 1
program entry 0 waves 0 .. 4
{
  0: write %a[0, wave * 256] box() width 256 -> 1
  1: branch wave < 2 -> 2, 3
  2: sync shared_memory_barrier under per_wave -> 3
  3: read %a[0, 0] box() width 1024 -> 4
  4: end
}
"""
# Waves 2 and 3 write what the others read before they have met anybody, and end.
WRITES_AND_ENDS = """
graph @writes target gfx942 waves 4
buffer %a bytes 1024 slots 1
program entry 0 waves 0 .. 4
{
  0: branch wave < 2 -> 1, 4
  1: read %a[0, 0] box() width 1024 under per_wave -> 2
  2: sync shared_memory_barrier under per_wave -> 3
  3: read %a[0, 0] box() width 512 under per_wave -> 5
  4: write %a[0, wave * 256] box() width 256 under per_wave -> 6
  5: end
  6: end under per_wave
}
"""


def codes_of_graph(text: str, wave_end: str = "leaves") -> list[str]:
    target = load_target("gfx942")
    target = replace(target, barrier=replace(target.barrier, wave_end=wave_end))
    return sorted({each.code for each in judge(parse_graph(text), target).findings})


@pytest.mark.parametrize("text", [EARLY, EARLY_IN_A_LOOP], ids=["before the loop", "in the loop"])
def test_waves_may_end_early_where_the_target_lets_them(text: str) -> None:
    assert codes_of_graph(text) == []
    assert "TG202" in codes_of_graph(text, "undefined")


def test_waves_that_skip_a_barrier_have_not_ended() -> None:
    assert "TG202" in codes_of_graph(SKIPPED)


def test_waves_that_end_early_race_before_they_do() -> None:
    assert codes_of_graph(WRITES_AND_ENDS) == ["TG102"]


# --- buffers in loops that never run ------------------------------------------------------------------------------


def lives(body: str, header: str = FOUR) -> list[str]:
    start = "  %p = alloc at 0 : lds<4x64xf32>\n  %a = global_read %X[0, wave] : tile<64xf32>\n"
    return sorted(each.code for each in tg.check(kernel_of(kernel(header, start + body))))


OTHER = "{ %q = alloc at 0 : lds<4x64xf32>\n local_write %a, %q[wave] }"
FREED = "{ local_write %a, %p[wave]\n dealloc %p }"


@pytest.mark.parametrize(
    ("body", "header"),
    [
        (f"iterate %k in 0 .. 0 {OTHER}", FOUR),
        (f"iterate %k in 3 .. 2 {OTHER}", FOUR),
        (f"iterate %k in 0 .. wave // 4 {OTHER}", FOUR),
        (f"iterate %k in 1 .. N {OTHER}", ") sizes(N = 1) where(N <= 1) waves 4"),
        (f"conditional wave > 3 {OTHER}", FOUR),
        (f"iterate %k in 0 .. 1 {FREED}", FOUR),
        (f"iterate %k in 0 .. N {{ conditional %k == 0 {FREED} }}", ") sizes(N = 4) waves 4"),
        ("iterate %k in 0 .. 0 { dealloc %p }\n local_write %a, %p[wave]", FOUR),
    ],
)
def test_trips_that_never_happen_touch_no_memory(body: str, header: str) -> None:
    assert lives(body, header) == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (f"iterate %k in 0 .. 1 {OTHER}", "TG308"),
        (f"iterate %k in 0 .. wave // 2 {OTHER}", "TG308"),
        (f"conditional wave > 2 {OTHER}", "TG308"),
        (f"iterate %k in 0 .. 2 {FREED}", "TG309"),
        ("iterate %k in 0 .. 0 { dealloc %p }\n %q = alloc at 0 : lds<4x64xf32>", "TG308"),
    ],
)
def test_trips_that_happen_do(body: str, code: str) -> None:
    assert code in lives(body)


ARMS = """
  conditional COND {
    %p = alloc at 0 : lds<4x64xf32>
    local_write %a, %p[wave]
  } else {
    %q = alloc at 0 : lds<4x64xf32>
    local_write %a, %q[wave]
  }"""


def test_arms_share_bytes_if_all_waves_take_the_same() -> None:
    read = "  %a = global_read %X[0, wave] : tile<64xf32>\n"

    def codes(cond: str) -> list[str]:
        return [each.code for each in tg.check(kernel_of(kernel(", %f: flag) waves 4", read + put(ARMS, COND=cond))))]

    assert codes("%f") == []
    assert "TG308" in codes("wave < 2")


# --- the bytes of lanes and masks ---------------------------------------------------------------------------------

LANES = ("lane < 20", "lane >= 5", "lane mod 4 == 1", "lane // 8 == wave", "lane < wave * 8 + 3", "lane == 63")
SHAPES = ((64,), (8, 16), (100,), (16, 16), (3, 5))


def lane_kernel(rng: random.Random) -> str:
    shape = rng.choice(SHAPES)
    tile, rows = "x".join(map(str, shape)), "x".join(map(str, (*shape[:-1], shape[-1] + rng.choice((0, 4)))))
    write = f"    local_write %a, %rows[wave, {', '.join('0' for _ in shape)}]\n"
    body = f"  %rows = alloc : lds<2x{rows}xf32>\n  %a = fill 1.0 : tile<{tile}xf32>\n"
    for _ in range(3):
        inner = write if rng.random() < 0.6 else f"  conditional {rng.choice(LANES)} {{\n{write}  }}\n"
        body += f"  conditional {rng.choice(LANES)} {{\n{inner}  }}\n"
    return kernel(TWO, body)


@pytest.mark.parametrize("seed", range(40))
def test_bytes_of_lanes_are_those_that_the_machine_touches(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    given = kernel_of(lane_kernel(random.Random(seed)))
    graph = build_graph(given, load_target("gfx942")).graph
    assert parse_graph(show_graph(graph)) == graph
    footprints = find_footprints(flow_of(graph))
    touched = machine_touches(given, monkeypatch)
    (buffer,) = graph.buffers
    for wave in range(2):
        mine = [
            (frozenset(byte for _, byte in footprints.bytes_at(node, {"wave": wave})), touch.may)
            for node, touch in sorted(footprints.accesses.items())
        ]
        seen = [bytes_ for _, bytes_ in touched[wave] if bytes_]
        # A condition that no lane of the wave satisfies leaves its arm out: each access is one of those in the graph.
        for bytes_ in seen:
            assert any(bytes_ <= each if may else bytes_ == each for each, may in mine)
    assert buffer.bytes


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("count", [3, 8, 9])
def test_bytes_of_masks_are_those_that_the_machine_touches(
    axis: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = kernel_of(kernel(TWO, put(MASKS, AXIS=axis, COUNT=count)))
    assert compare(given, monkeypatch) == 4
    (write,) = (
        point.action
        for point in build_graph(given, load_target("gfx942")).graph.points
        if isinstance(point.action, g.Access) and point.action.effect == "write"
    )
    assert not write.footprint.may
    assert any(each.limit is not None for each in write.footprint.extents) == (count == 9)  # waves have 9 and 8


def test_half_a_tile_keeps_to_the_lanes_of_the_whole() -> None:
    """Lanes 32.. write their half of a row and read the row: each its own elements, so that nothing is needed."""
    body = """
  %rows = alloc : lds<4x64xf32>
  %a = global_read %X[0, wave] : tile<64xf32>
  conditional lane >= 32 { local_write %a, %rows[wave] }
  %b = local_read %rows[wave] : tile<64xf32>
  global_write %b, %Y[0, wave]"""
    assert tg.prove(kernel_of(kernel(FOUR, body))).is_proved
    shifted = body.replace("lds<4x64xf32>", "lds<4x65xf32>").replace(
        "local_read %rows[wave]", "local_read %rows[wave, 1]"
    )
    assert [each.code for each in tg.check(kernel_of(kernel(FOUR, shifted)))] == ["TG108"]


@pytest.mark.parametrize("divisor", ["wave", "(wave - wave)", "0"])
def test_a_mask_whose_divisor_may_be_zero_is_not_known(divisor: str) -> None:
    """`7 mod wave` has no value in wave 0, so the mask may pick any element; building the graph once raised here."""
    text = kernel(
        ") waves 4",
        f"""
  %rows = alloc : lds<4x64xf32>
  %a = fill 1.0 : tile<64xf32>
  %i = iota axis 0 : tile<64xi32>
  %n = splat inexact(7 mod {divisor}) : tile<64xi32>
  %m = lt %i, %n : tile<64xi1>
  local_write %a, %rows[wave, 0] mask %m
  %b = local_read %rows[(wave + 1) mod 4, 0] : tile<64xf32>
  global_write %b, %Y[0, wave, 0]""",
    )
    graph = build_graph(kernel_of(text), load_target("gfx942")).graph
    accesses = [point.action for point in graph.points if isinstance(point.action, g.Access)]
    assert [access.footprint.may for access in accesses] == [True, False]


# --- trips that the surroundings of a loop ensure ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "first", "after"),
    [("iterate %k in 1 .. N {", "0", "}"), ("iterate %k in 0 .. N - 3 {", "2", "}"), ("conditional N > 1 {", "0", "}")],
)
def test_trips_that_the_loop_around_ensures(before: str, first: str, after: str) -> None:
    """Inside of `1 .. N` a loop `0 .. N` runs at least twice, and its graph says so."""
    body = f"""
  %a = alloc : lds<4x64xf32>
  %v = fill 1.0 : tile<64xf32>
  {before}
    local_write %v, %a[wave]
    shared_memory_barrier
    iterate %j in {first} .. N {{
      %r = local_read %a[(wave + 1) mod 4] : tile<64xf32>
    }}
    shared_memory_barrier
  {after}"""
    found = kernel_of(kernel(") sizes(N = 8) waves 4", body))
    assert tg.prove(found).is_proved
    racy = kernel_of(kernel(") sizes(N = 8) waves 4", body.replace("shared_memory_barrier\n    iterate", "iterate")))
    assert not tg.prove(racy).is_proved
