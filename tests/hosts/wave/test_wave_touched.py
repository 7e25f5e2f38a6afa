"""Which bytes waves touch, from the numbers of their threads: exact or wider, never less."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from tidegate.hosts.wave.touched import Touched, by_wave, touched
from tidegate.index import WAVE, evaluate, show


def bytes_of(found: Touched, wave: int) -> set[int]:
    start = evaluate(found.offset, {WAVE: wave})
    steps = itertools.product(*(range(0, each.count * each.stride, each.stride) for each in found.extents))
    return {start + sum(step) + byte for step in steps for byte in range(found.width)}


def wanted(starts: np.ndarray[Any, Any], width: int, wave: int) -> set[int]:
    return {int(start) + byte for start in starts[wave].reshape(-1) for byte in range(width)}


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([0, 0, 0, 0], "0"),
        ([0, 64, 128, 192], "wave * 64"),
        ([8, 8, 72, 72], "wave // 2 * 64 + 8"),
        ([0, 32, 0, 32], "wave mod 2 * 32"),
        ([0, 1, 10, 11, 20, 21], "wave mod 2 + wave // 2 * 10"),
        ([5, 5, 5, 9], "select(wave <= 2, 5, 9)"),
        ([3, 1, 2, 7], "select(wave <= 0, 3, select(wave <= 1, 1, select(wave <= 2, 2, 7)))"),
    ],
)
def test_a_number_for_each_wave(numbers: list[int], text: str) -> None:
    found = by_wave(numbers)
    assert show(found) == text
    assert [evaluate(found, {WAVE: wave}) for wave in range(len(numbers))] == numbers


def test_rows_of_a_padded_tile_are_a_box() -> None:
    lanes = np.arange(64)
    rows = np.stack([(lanes // 8 + 8 * wave) * 136 + lanes % 8 * 16 for wave in range(4)])
    found = touched(rows, 16, 4)
    assert (show(found.offset), found.width, found.may) == ("wave * 1088", 128, False)
    assert [(each.count, each.stride) for each in found.extents] == [(8, 136)]


def test_a_swizzle_permutes_bytes_and_stays_a_box() -> None:
    lanes = np.arange(64)
    plain = touched(np.stack([lanes // 8 * 128 + lanes % 8 * 16 + 1024 * wave for wave in range(2)]), 16, 2)
    swizzled = np.stack([lanes // 8 * 128 + (lanes % 8 ^ lanes // 8 % 8) * 16 + 1024 * wave for wave in range(2)])
    assert touched(swizzled, 16, 2) == plain


def test_waves_with_different_shapes_are_widened_and_said_to_be() -> None:
    starts = np.array([[0, 4, 8, 12], [100, 110, 120, 130]])
    found = touched(starts, 4, 2)
    assert found.may
    for wave in range(2):
        assert wanted(starts, 4, wave) <= bytes_of(found, wave)


def test_a_stretch_stays_in_its_buffer() -> None:
    """The last wave starts at the end and goes on at the beginning; the stretch of wave 1 would reach beyond."""
    starts = (np.arange(128).reshape(2, 64) + 96) % 128 * 4
    found, free = touched(starts, 4, 2, most=512), touched(starts, 4, 2)
    assert (found.width, free.width) == (512, 512)
    assert [max(bytes_of(each, 1)) for each in (found, free)] == [511, 639]
    for wave in range(2):
        assert wanted(starts, 4, wave) <= bytes_of(found, wave)


@pytest.mark.parametrize("seed", range(300))
def test_no_byte_is_left_out_and_what_is_exact_is_exact(seed: int) -> None:
    draw = random.Random(seed)
    waves, width = draw.choice([1, 2, 4, 8]), draw.choice([1, 2, 4, 16])
    steps = [(draw.choice([1, 2, 4, 8]), draw.choice([1, 2, 4, 8, 16, 17, 64, 136])) for _ in range(draw.randrange(4))]
    box = [sum(each) for each in itertools.product(*(range(0, n * by, by) for n, by in steps))]
    offsets = [draw.choice([0, wave * 256, wave // 2 * 100, draw.randrange(500)]) for wave in range(waves)]
    rows = [[offset + each for each in box] for offset in offsets]
    if draw.random() < 0.3:
        rows[draw.randrange(waves)][draw.randrange(len(box))] += draw.choice([1, 3, 50])
    starts = np.array(rows)
    for row in starts:
        draw.shuffle(row)
    found = touched(starts, width, waves)
    for wave in range(waves):
        got, true = bytes_of(found, wave), wanted(starts, width, wave)
        assert true <= got
        assert found.may or got == true
    most = max(map(max, rows)) + width
    within = touched(starts, width, waves, most)
    for wave in range(waves):
        assert wanted(starts, width, wave) <= bytes_of(within, wave) <= set(range(most))
