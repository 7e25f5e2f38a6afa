"""Random PTX kernels: what a run of all threads shows to be wrong is never proved.

`oracles.ptx_threads` carries out each thread by itself, on Python's numbers.
"""

from __future__ import annotations

import pytest

from oracles.programs.ptx_kernels import check
from oracles.ptx_more import MoreMaker
from oracles.ptx_threads import Maker, is_wrong, run_thread

THREADS = (64, 64, 40, 96)
SHAPES = ((64, 64), (64, 8), (40, 40), (96, 32), (64, 16), (48, 6))  # threads, of them in a row
ARGUMENTS = (0, 1, 2, 3, 5, 0xFFFFFFFF)


def wrong_with(text: str, threads: int, wide: int = 0) -> str:
    try:
        return next((found for n in ARGUMENTS if (found := is_wrong(text, threads, n, wide))), "")
    except RuntimeError:
        return "endless"


def verdict(seed: int, text: str, threads: int, wide: int = 0) -> tuple[str, bool]:
    wrong = wrong_with(text, threads, wide)
    is_proved = check(text).is_proved
    assert not (is_proved and wrong not in ("", "endless")), f"seed {seed}: {wrong}"
    return wrong, is_proved


def verdicts(seeds: range) -> list[tuple[str, bool]]:
    shapes = [(seed, THREADS[seed % len(THREADS)]) for seed in seeds]
    return [verdict(seed, Maker(seed, threads).text(), threads) for seed, threads in shapes]


def more_verdicts(seeds: range) -> list[tuple[str, bool]]:
    shapes = [(seed, *SHAPES[seed % len(SHAPES)]) for seed in seeds]
    return [verdict(seed, MoreMaker(seed, threads, wide).text(), threads, wide) for seed, threads, wide in shapes]


def test_nothing_wrong_is_proved() -> None:
    found = verdicts(range(30))
    assert sum(is_proved for _, is_proved in found) >= 5


@pytest.mark.slow
def test_nothing_wrong_is_proved_of_many() -> None:
    found = verdicts(range(1000, 1250))
    right = [is_proved for wrong, is_proved in found if not wrong]
    assert sum(right) > 0.7 * len(right)  # most of what is right is proved


def test_nothing_wrong_is_proved_with_more_instructions() -> None:
    found = more_verdicts(range(20))
    assert sum(is_proved for _, is_proved in found) >= 4


@pytest.mark.slow
def test_nothing_wrong_is_proved_of_many_with_more_instructions() -> None:
    found = more_verdicts(range(1000, 1150))
    right = [is_proved for wrong, is_proved in found if not wrong]
    assert sum(right) > 0.6 * len(right)


def test_the_oracle_waits_for_the_groups_that_are_older() -> None:
    """One group, and a wait that leaves two in flight."""
    text = """{
  mov.u32 %r1, a;
  cp.async.ca.shared.global [%r1], [%rd1], 4;
  cp.async.commit_group;
  cp.async.wait_group {left};
  ld.shared.u32 %r2, [%r1];
  ret;
}"""
    for left in (0, 1, 2, 3):
        copy = run_thread(text.replace("{left}", str(left)), 0, 1, 0).events[0]
        assert (copy.done < 1 << 30) == (left == 0)
        assert bool(is_wrong(text.replace("{left}", str(left)), 1, 0)) == (left > 0)
