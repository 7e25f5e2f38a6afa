"""The yardstick of `bench/least.py`: it finds the least that is known, and sees plans that are not the loosest."""

from __future__ import annotations

import pytest

from bench.least_compare import Outcome, compare, examine
from bench.least_search import Search, executions
from oracles.programs.least_cases import KINDS, MOST_PLACES, case_of, draw
from tidegate.graph.plan import Insert, Plan
from tidegate.language import ops

LOOP = """
target {target}
kernel @known(%X: global<4x64xf32>) sizes(N = 4) waves 4 {{
  %a = alloc : lds<4x64xf32, slots = {slots}>
  %v = fill 1.0 : tile<64xf32>
  iterate %k in 0 .. N {{
    {first}
    %r = local_read %a[%k mod {slots}][(wave + 1) mod 4] : tile<64xf32>
  }}
}}
"""
WRITE = "local_write %v, %a[%k mod {slots}][wave]"


def loop(slots: int, target: str = "gfx942", first: str = WRITE) -> str:
    return LOOP.format(target=target, slots=slots, first=first.format(slots=slots))


def test_a_kernel_depends_on_its_seed_alone() -> None:
    assert draw(7).text == draw(7).text
    assert draw(7).text != draw(7 + len(KINDS)).text


@pytest.mark.parametrize("kind", KINDS)
def test_kernels_are_small(kind: str) -> None:
    assert all(0 < len(draw(seed, kind).places) <= MOST_PLACES for seed in range(3))


@pytest.mark.parametrize("slots", [2, 3, 4])
def test_with_slots_one_barrier_orders_the_next_round_as_well(slots: int) -> None:
    least = Search(case_of(loop(slots))).least()
    assert least is not None
    assert least.weight == 16


def test_one_slot_needs_two_barriers() -> None:
    text = loop(2).replace("%k mod 2", "0")
    least = Search(case_of(text)).least()
    assert least is not None
    assert least.weight == 32


def test_a_wait_costs_nothing() -> None:
    text = loop(2, "gfx950", "gather_to_lds %X[wave, 0] to %a[%k mod {slots}][wave] : tile<64xf32>")
    case = case_of(text.replace("(wave + 1) mod 4", "wave"))
    free, draining = Search(case).least(), Search(case, free=False).least()
    assert free is not None
    assert draining is not None
    assert (free.weight, draining.weight) == (0, 16)


def test_a_count_that_can_be_raised_is_seen() -> None:
    case = case_of("""
        target gfx950
        kernel @counts(%X: global<4x64xf32>) waves 4 {
          %a = alloc : lds<4x64xf32, slots = 2>
          gather_to_lds %X[wave, 0] to %a[0][wave] : tile<64xf32>
          gather_to_lds %X[wave, 0] to %a[1][wave] : tile<64xf32>
          %r = local_read %a[0][(wave + 1) mod 4] : tile<64xf32>
        }""")
    before = next(number for number, point in enumerate(case.graph.points) if point.label == "local_read")
    for count, spare in ((0, {"count"}), (1, set())):
        outcome = Outcome("by hand")
        wait = Insert(before, ops.WaitCount((("vmcnt", count),)))
        examine(case, Plan((wait, Insert(before, ops.WorkgroupBarrier()))), outcome)
        assert outcome.proved
        assert set(outcome.spare) == spare


def test_a_needless_barrier_is_seen() -> None:
    case = case_of(loop(2))
    read = next(number for number, point in enumerate(case.graph.points) if point.label == "local_read")
    barrier = Insert(read, ops.SharedMemoryBarrier())
    outcome = Outcome("by hand")
    examine(case, Plan((barrier, Insert(read + 1, ops.WorkgroupBarrier()))), outcome)
    assert outcome.spare == {"removed": ["WorkgroupBarrier"]}


def test_an_arm_counts_as_often_as_it_is_taken() -> None:
    text = loop(2).replace("local_write", "conditional %k > 0 {\n local_write").replace("[wave]", "[wave]\n }", 1)
    case = case_of(text)
    write = next(number for number, point in enumerate(case.graph.points) if point.label == "local_write")
    assert case.graph.points[write].weight == 8
    assert executions(case.graph)[write] == 15


@pytest.mark.parametrize("seed", range(12))
def test_no_plan_that_is_proved_weighs_less_than_the_least(seed: int) -> None:
    record = compare(draw(seed))
    assert record.least is not None
    assert all(each.proved and each.weight >= record.least for each in record.outcomes)
    assert not record.unsure
