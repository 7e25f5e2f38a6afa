"""Keys that say which lane touches which bytes: equal only where each lane keeps to its own."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tidegate.hosts.wave.lanes import MOST_BYTES, lane_key

LANES, WAVES = 8, 2


def starts_of(*of_lane: int, stride: int = 256) -> np.ndarray:
    """The same in each wave, so many bytes further on."""
    return np.array([[wave * stride + each for each in of_lane] for wave in range(WAVES)]).reshape(-1)


def key_of(*of_lane: int, width: int = 4, stride: int = 256) -> str:
    return lane_key(starts_of(*of_lane, stride=stride), width, WAVES, LANES)


PLAIN = [4 * lane for lane in range(LANES)]


def test_the_same_bytes_of_the_same_lanes() -> None:
    assert key_of(*PLAIN) == key_of(*PLAIN)
    assert len(key_of(*PLAIN)) == 32


def test_where_a_wave_starts_is_no_part_of_it() -> None:
    assert key_of(*PLAIN) == key_of(*PLAIN, stride=512) == key_of(*(each + 12 for each in PLAIN))


def test_the_same_bytes_of_other_lanes() -> None:
    assert key_of(*PLAIN) != key_of(*reversed(PLAIN))
    assert key_of(*PLAIN) != key_of(*(each ^ 4 for each in PLAIN))


def test_a_vector_is_as_good_as_its_elements() -> None:
    whole = lane_key(starts_of(*(8 * lane for lane in range(LANES))), 8, WAVES, LANES)
    singles = np.array(
        [[[256 * wave + 8 * lane, 256 * wave + 8 * lane + 4] for lane in range(LANES)] for wave in range(WAVES)]
    )
    assert lane_key(singles, 4, WAVES, LANES) == whole
    assert lane_key(singles[..., ::-1], 4, WAVES, LANES) == whole


@pytest.mark.parametrize(
    "of_lane",
    [
        [0] * LANES,  # one word for all
        [4 * (lane // 2) for lane in range(LANES)],
        [2 * lane for lane in range(LANES)],  # halves of words overlap
    ],
)
def test_a_byte_of_two_lanes_belongs_to_neither(of_lane: list[int]) -> None:
    assert key_of(*of_lane) == ""


def test_waves_that_differ_have_a_table_each() -> None:
    """The key is asked about two accesses of one wave, whichever: so all of their tables have to be the same."""
    back = PLAIN[::-1]
    keys = [
        lane_key(np.array([first, [256 + each for each in second]]).reshape(-1), 4, WAVES, LANES)
        for first in (PLAIN, back)
        for second in (PLAIN, back)
    ]
    assert len(set(keys)) == 4
    assert "" not in keys
    moved = np.array([[12 + each for each in PLAIN], [512 + each for each in back]]).reshape(-1)
    assert lane_key(moved, 4, WAVES, LANES) == keys[1]


def test_one_wave_with_a_byte_of_two_lanes_is_enough_for_no_key() -> None:
    starts = np.array([PLAIN, [256 + 4 * (lane // 2) for lane in range(LANES)]]).reshape(-1)
    assert lane_key(starts, 4, WAVES, LANES) == ""


def test_tables_of_several_waves_are_told_from_one_long_table() -> None:
    """Of other numbers of waves and lanes, the same lanes in the same order."""
    one = lane_key(np.array([[0, 4], [100, 104]]), 4, 2, 2)
    assert one == lane_key(np.array([[0, 4]]), 4, 1, 2)
    assert one != lane_key(np.array([[0, 4, 8, 12]]), 4, 1, 4)


def test_what_is_not_by_lane_and_what_is_too_large_has_none() -> None:
    assert lane_key(np.arange(2 * 3), 4, 2, LANES) == ""
    assert lane_key(starts_of(*PLAIN[:-1], MOST_BYTES), 4, WAVES, LANES) == ""


def test_random_tables_have_one_key_exactly_if_every_byte_has_one_lane() -> None:
    """Against a dictionary from bytes to lanes."""
    rng = random.Random(0)
    seen: dict[str, frozenset[tuple[int, int]]] = {}
    unknown = 0
    for _ in range(3000):
        width = rng.choice([1, 2, 4])
        step, moved = rng.choice([1, 2, 4]), rng.choice([0, 1, 2, 8])
        lanes = rng.choice([list(range(4)), [3, 2, 1, 0], [1, 0, 3, 2], [0, 0, 1, 1]])
        pieces = [[step * lane + moved * piece for piece in range(rng.choice([1, 2]))] for lane in lanes]
        if len({len(each) for each in pieces}) > 1:
            continue
        owners: dict[int, set[int]] = {}
        for lane, starts in enumerate(pieces):
            for byte in (start + at for start in starts for at in range(width)):
                owners.setdefault(byte, set()).add(lane)
        key = lane_key(np.array([pieces, pieces]), width, 2, 4)
        if any(len(each) > 1 for each in owners.values()):
            assert key == ""
            unknown += 1
            continue
        first = min(owners)
        table = frozenset((byte - first, lane) for byte, (lane,) in owners.items())
        assert seen.setdefault(key, table) == table
    assert "" not in seen
    assert len(seen) == len(set(seen.values())) > 10
    assert unknown > 100
