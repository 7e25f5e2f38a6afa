"""Lanes of one wave: what is in no order by itself, what orders it, and what needs nothing."""

from __future__ import annotations

import pytest

import tidegate as tg
from bench.verify_mutants import RULES
from tests.conftest import ROOT
from tidegate.graph.build import build_graph
from tidegate.graph.plan import Insert
from tidegate.language.ops import Fence, Kernel, WaitCount
from tidegate.language.parse import parse
from tidegate.simulate.hostile import run_hostile
from tidegate.simulate.inputs import make_inputs
from tidegate.targets import known_targets, load_target
from tidegate.verify.verify import verify

TARGETS = known_targets()
HEAD = "kernel @k(%X: global<4x64xf32>, %Y: global<4x64xf32>) waves 4 {\n  %rows = alloc : lds<4x68xf32>\n"
X = "  %x = global_read %X[wave, 0] : tile<64xf32>\n"
WRITE = X + "  local_write %x, %rows[wave, 0]\n"
SHIFTED = "  %s = local_read %rows[wave, 1] : tile<64xf32>\n  global_write %s, %Y[wave, 0]\n"
OWN = "  %s = local_read %rows[wave, 0] : tile<64xf32>\n  global_write %s, %Y[wave, 0]\n"


def kernel(body: str) -> Kernel:
    (found,) = parse(HEAD + body + "}\n").kernels
    return found


def codes(body: str, target: str) -> list[str]:
    return sorted({each.code for each in tg.check(kernel(body), target)})


def inserted(body: str, target: str) -> list[type]:
    done = tg.sync(kernel(body), target=target)
    assert done.checked is not None
    assert done.checked.is_proved
    return [type(edit.op) for edit in done.plan.edits if isinstance(edit, Insert)]


@pytest.mark.parametrize("target", TARGETS)
def test_a_neighbours_element_is_in_no_order(target: str) -> None:
    """ptxas and LLVM move the load above the store (tests/house/test_real_compilers.py)."""
    assert codes(WRITE + SHIFTED, target) == ["TG108"]
    assert codes(WRITE + "  fence wave\n" + SHIFTED, target) == []
    assert codes(WRITE + "  workgroup_barrier\n" + SHIFTED, target) == []
    assert inserted(WRITE + SHIFTED, target) == [Fence]


@pytest.mark.parametrize("target", TARGETS)
def test_each_lane_with_its_own_bytes_needs_nothing(target: str) -> None:
    assert codes(WRITE + OWN, target) == []
    assert inserted(WRITE + OWN, target) == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (SHIFTED + X + "  local_write %x, %rows[wave, 0]\n", ["TG108"]),  # the next element is overwritten
        (WRITE + "  local_write %x, %rows[wave, 1]\n", ["TG108"]),
        (WRITE + "  %s = local_read %rows[wave, 0] : tile<32xf32>\n", ["TG108"]),  # half as many elements
        (WRITE + "  %v = view %rows[0] : lds<4x68xi32>\n  %s = local_read %v[wave, 0] : tile<64xi32>\n", ["TG108"]),
        (WRITE + "  %v = view %rows[0] : lds<4x2x34xf32>\n  %s = local_read %v[wave] : tile<2x34xf32>\n", ["TG108"]),
        (WRITE + "  %s = local_read %rows[wave, 0] bounds(4, 17) : tile<64xf32>\n", []),  # fewer of the same lanes
    ],
    ids=["write after read", "write after write", "shape", "element type", "view", "bounds"],
)
def test_which_accesses_keep_to_their_lanes(body: str, expected: list[str]) -> None:
    assert codes(body, "sm_90") == expected


def test_a_matrix_operand_has_lanes_of_its_own() -> None:
    (given,) = parse(
        """kernel @k(%X: global<16x16xf16>) waves 1 {
  %a = alloc : lds<16x16xf16>
  %x = global_read %X[0, 0] : tile<16x16xf16>
  local_write %x, %a[0, 0]
  %l = local_read %a[0, 0] : tile<16x16xf16>
  %c = fill 0.0 : tile<16x16xf32>
  %d = mma %l, %l, %c : tile<16x16xf32>
}"""
    ).kernels
    assert {each.code for each in tg.check(given, "gfx942")} == {"TG108"}


def test_lanes_meet_at_both_halves_of_a_split_barrier_or_not_at_all() -> None:
    assert codes(WRITE + "  signal -1\n  wait -1\n" + SHIFTED, "gfx1201") == []
    assert codes(X + "  signal -1\n  local_write %x, %rows[wave, 0]\n  wait -1\n" + SHIFTED, "gfx1201") == ["TG108"]


COPY = "  gather_to_lds %X[wave, 0] to %rows[wave, 0] : tile<64xf32>\n"


@pytest.mark.parametrize(
    ("target", "between", "expected"),
    [
        ("sm_80", "commit_group\n  wait_count group(0)", ["TG108"]),
        ("sm_80", "commit_group\n  wait_count group(0)\n  fence wave", []),
        ("sm_80", "commit_group\n  fence wave\n  wait_count group(0)", ["TG108"]),  # the other lane has not waited
        ("gfx942", "wait_count vmcnt(0)", []),  # a counter of the wave
        ("gfx1250", "wait_count asynccnt(0)", ["TG108"]),  # LLVM moves the read above it
        ("gfx1250", "wait_count asynccnt(0)\n  fence wave", []),
    ],
)
def test_a_copy_of_the_same_wave(target: str, between: str, expected: list[str]) -> None:
    assert codes(COPY + f"  {between}\n" + OWN, target) == expected


def test_sync_waits_for_a_copy_and_then_lets_the_lanes_meet() -> None:
    body = COPY + "  commit_group\n" + OWN
    assert inserted(body, "sm_80") == [WaitCount, Fence]
    assert inserted(COPY + OWN, "gfx942") == [WaitCount]


def test_a_fence_of_one_wave_orders_no_other() -> None:
    body = WRITE + "  fence wave\n  workgroup_barrier\n  %s = local_read %rows[3 - wave, 0] : tile<64xf32>\n"
    assert codes(body, "gfx942") == ["TG101"]
    assert codes(body, "sm_90") == []  # there a barrier performs the write


def test_a_read_before_a_copy_of_the_same_bytes_is_waited_for() -> None:
    """On AMD the fence emits nothing, and a copy may overtake the read; bar.warp.sync orders both."""
    body = "  %s = local_read %rows[wave, 0] : tile<64xf32>\n  fence wave\n" + COPY
    assert codes(body, "gfx942") == ["TG105"]
    assert codes(body, "sm_80") == []


def test_a_loop_needs_a_fence_in_both_directions() -> None:
    loop = "  iterate %i in 0 .. 8 {\n" + WRITE + SHIFTED + "  }\n"
    assert inserted(loop, "sm_90") == [Fence, Fence]


def test_lanes_that_differ_by_slot_keep_to_their_bytes() -> None:
    body = """kernel @k(%X: global<Nx256xf32>, %Y: global<Nx256xf32>) sizes(N = 8) waves 4 {
  %rows = alloc : lds<4x64xf32, slots = 3>
  iterate %k in 0 .. N {
    %x = global_read %X[%k, wave * 64] : tile<64xf32>
    local_write %x, %rows[%k mod 3][wave, 0]
    %s = local_read %rows[(%k + 1) mod 3][wave, 0] : tile<64xf32>
    global_write %s, %Y[%k, wave * 64]
  }
}"""
    (given,) = parse(body).kernels
    for target in ("sm_90", "gfx942"):
        assert verify(build_graph(given, load_target(target)).graph, load_target(target)).is_proved


@pytest.mark.parametrize("arm", ["then", "else"])
def test_arms_that_lanes_take_are_in_no_order(arm: str) -> None:
    one = "    local_write %x, %rows[wave, 0]\n"
    other = "    %s = local_read %rows[wave, 1] : tile<64xf32>\n"
    first, second = (one, other) if arm == "then" else (other, one)
    # Lanes 16..32 write elements 32..64 of the row, the others read elements 1..33.
    cond = "lane >= 16" if arm == "then" else "lane < 16"
    body = X + f"  conditional {cond} {{\n" + first + "  } else {\n" + second + "  }\n"
    assert codes(body, "sm_90") == ["TG108"]


def test_numbers_show_that_lanes_run_apart() -> None:
    """The read sees what stood there before, in some runs; with the fence never."""
    target = load_target("gfx942")

    def results(body: str) -> set[bytes]:
        given = kernel(body)
        inputs = make_inputs(given)
        return {run_hostile(given, inputs, target=target, seed=seed).arrays["Y"].tobytes() for seed in range(24)}

    zero = "  %z = fill 0.0 : tile<68xf32>\n  local_write %z, %rows[wave, 0]\n  fence wave\n"
    assert len(results(zero + WRITE + SHIFTED)) > 1
    assert len(results(zero + WRITE + "  fence wave\n" + SHIFTED)) == 1


def test_the_old_belief_proves_the_shift(monkeypatch: pytest.MonkeyPatch) -> None:
    target = load_target("sm_90")
    graph = build_graph(kernel(WRITE + SHIFTED), target).graph
    assert not verify(graph, target).is_proved
    RULES["lanes"].off(monkeypatch)
    assert verify(graph, target).is_proved


def test_the_example_of_one_wave_per_part_takes_no_barrier() -> None:
    text = (ROOT / "examples" / "wave_private.tide").read_text(encoding="utf-8")
    assert text.count("fence wave") == 2
    assert "barrier" not in text.partition("kernel")[2]


WAITS_FOR_NOTHING = {
    "the most that can be in flight": "  wait_count vmcnt(63)\n",
    "no copy": "  %n = null_async_dep\n  wait_count deps(%n)\n",
    "a copy that has landed": "  %c = gather_to_lds %X[wave, 0] to %other[wave, 0] : tile<64xf32>\n"
    "  wait_count vmcnt(0)\n  local_write %x, %rows[wave, 0]\n  wait_count deps(%c)\n",
}


@pytest.mark.parametrize("name", WAITS_FOR_NOTHING)
def test_a_wait_for_nothing_orders_no_lanes(name: str) -> None:
    """It may become no instruction, and then the load moves above the store as if nothing stood there."""
    body = "  %other = alloc : lds<4x64xf32>\n" + WRITE + WAITS_FOR_NOTHING[name]
    assert "TG108" in codes(body + SHIFTED, "gfx942")
    assert not tg.prove(kernel(body + SHIFTED), "gfx942").is_proved
    assert tg.prove(kernel(body + "  wait_count lgkmcnt(0)\n" + SHIFTED), "gfx942").is_proved
    assert inserted(body + SHIFTED, "gfx942")


def test_a_wait_for_a_copy_holds_the_lanes_that_read_it() -> None:
    """The copy is in flight, so the wait is an instruction; what another access wrote before it stays in no order."""
    copied = "  %c = gather_to_lds %X[wave, 0] to %rows[wave, 0] : tile<64xf32>\n"
    assert codes(copied + "  wait_count deps(%c)\n" + SHIFTED, "gfx942") == []
    assert tg.prove(kernel(copied + "  wait_count deps(%c)\n" + SHIFTED), "gfx942").is_proved
    assert inserted(copied + "  wait_count deps(%c)\n" + SHIFTED, "gfx942") == []
    later = copied + "  %d = gather_to_lds %X[wave, 0] to %rows[wave, 0] : tile<64xf32>\n"
    assert codes(later + "  wait_count deps(%c)\n" + SHIFTED, "gfx942") != []
