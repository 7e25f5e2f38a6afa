"""The bytes that copies to shared memory write, as the hardware lays them out.

Needs   where in a buffer each thread starts; how many bytes a lane, or a row of a tile, copies; Wave's allocation
Gives   first bytes by wave, and how many bytes there; None where the buffer is laid out otherwise
Keeps   a copy lands where the first lane of its wave says, side by side for the lanes, and no lane fills less than a
        word: of a place between two words it is not said which of them the hardware takes, so both are touched
Cost    one array operation

    2 bytes a lane, from 0 on            lane l writes 4 * l .. 4 * l + 4
    a tile of 64 in rows of 256          not row by row: one word behind the other, which only fits rows of 64
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidegate.hosts.wave.arrays import Array

WORD = 4
WIDTHS = (1, 2, 4, 12, 16)  # bytes of a lane that an instruction copies
SPACED = range(8, 1025)  # bytes of a row behind which the hardware can leave a gap: powers of two
GAPS = range(4, 513, 4)  # bytes of such a gap
Placed = tuple[np.ndarray[Any, Any], int]


def of_lanes(starts: np.ndarray[Any, Any], width: int, array: Array, lanes: int) -> Placed | None:
    """What `GatherToLDS` writes: `starts` of all threads, of which each wave's first counts."""
    if width not in WIDTHS:
        return None
    wide = max(width, WORD)
    first = starts.reshape(-1, lanes)[:, :1]
    places = [first + np.arange(lanes) * wide]
    over = (first + (array.offset or 0)) % WORD
    if bool(over.any()):
        places.append(places[0] - over)
    return np.hstack(places).reshape(-1), wide


def of_tile(starts: np.ndarray[Any, Any], sizes: list[int], array: Array, lanes: int) -> Placed | None:
    """What `TensorLoadToLDS` writes: a tile of two dimensions, row behind row, with a gap behind each row if the buffer
    is padded (`handle_tensor_load_to_lds`). Anything but whole rows of the buffer would be laid out otherwise."""
    if len(sizes) != 2 or len(array.strides) != 2 or sizes[1] != array.strides[0] - array.padding:
        return None
    row, gap = sizes[1] * array.bits // 8, array.padding * array.bits // 8
    if gap and (gap not in GAPS or row not in SPACED or row & (row - 1)):
        return None
    by_wave = starts.reshape(-1, lanes)
    corner = by_wave[:, :1]
    if bool((by_wave != corner).any()):  # nobody says which lane's place the one instruction takes
        return None
    return corner + np.arange(sizes[0])[None, :] * (row + gap), row
