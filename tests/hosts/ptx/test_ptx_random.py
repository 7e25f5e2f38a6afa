"""Random PTX kernels: what a run of all threads shows to be wrong is never proved.

`oracles.ptx_threads` carries out each thread by itself, on Python's numbers.
"""

from __future__ import annotations

import pytest

from oracles.programs.ptx_kernels import check
from oracles.ptx_threads import Maker, is_wrong

THREADS = (64, 64, 40, 96)
ARGUMENTS = (0, 1, 2, 3, 5, 0xFFFFFFFF)


def wrong_with(text: str, threads: int) -> str:
    try:
        return next((found for n in ARGUMENTS if (found := is_wrong(text, threads, n))), "")
    except RuntimeError:
        return "endless"


def verdicts(seeds: range) -> list[tuple[str, bool]]:
    found = []
    for seed in seeds:
        threads = THREADS[seed % len(THREADS)]
        text = Maker(seed, threads).text()
        wrong = wrong_with(text, threads)
        is_proved = check(text).is_proved
        assert not (is_proved and wrong not in ("", "endless")), f"seed {seed}: {wrong}"
        found.append((wrong, is_proved))
    return found


def test_nothing_wrong_is_proved() -> None:
    found = verdicts(range(30))
    assert sum(is_proved for _, is_proved in found) >= 5


@pytest.mark.slow
def test_nothing_wrong_is_proved_of_many() -> None:
    found = verdicts(range(1000, 1250))
    right = [is_proved for wrong, is_proved in found if not wrong]
    assert sum(right) > 0.7 * len(right)  # most of what is right is proved
