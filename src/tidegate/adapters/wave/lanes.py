"""Which lane of a wave touches which bytes, as a key that can be compared.

Needs   where in a buffer each thread starts, and how many bytes it touches there
Gives   a key: two accesses with one key that start at the same byte give every byte to the same lane; empty if nothing
        can be said
Keeps   bytes count, not elements: a vector of two and two single ones of one lane have one key. A byte that two lanes
        touch belongs to neither, and an access whose waves differ in more than where they start has no key
Cost    linear in the bytes that a wave spans; tables of more than `MOST_BYTES` are not made

    lane l at 4 * l, 4 bytes        each lane the word with its number
    lane l at 4 * (63 - l)          the same bytes and another key: a lane reads what another has written
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np

MOST_BYTES = 1 << 20
NOBODY = -1


def lane_key(starts: np.ndarray[Any, Any], width: int, waves: int, lanes: int) -> str:
    """`starts`: the first bytes that each thread touches, `width` bytes at each; threads wave by wave, lane by lane."""
    if starts.size % (waves * lanes):
        return ""  # not by lane: one instruction of the wave moves a whole tile
    table = starts.reshape(waves, lanes, -1)
    table = table - table.min(axis=(1, 2), keepdims=True)
    if bool((table != table[:1]).any()):
        return ""
    span = int(table[0].max()) + width
    if span > MOST_BYTES:
        return ""
    owner = np.full(span, NOBODY, dtype=np.int16)
    number = np.broadcast_to(np.arange(lanes, dtype=np.int16)[:, None], table[0].shape)
    for byte in range(width):
        at = table[0] + byte
        known = owner[at]
        owner[at] = number
        if bool(((known != NOBODY) & (known != number)).any()) or bool((owner[at] != number).any()):
            return ""
    return blake2b(owner.tobytes(), digest_size=16).hexdigest()
