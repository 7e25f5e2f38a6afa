"""Which lane of a wave touches which bytes, as a key that can be compared.

Needs   where in a buffer each thread starts, and how many bytes it touches there
Gives   a key: two accesses with one key that start at the same byte give every byte to the same lane; empty if nothing
        can be said
Keeps   bytes count, not elements: a vector of two and two single ones of one lane have one key. A byte that two lanes
        touch belongs to neither. Waves that differ in more than where they start have a table each, and the key names
        all of them: it is only ever asked about two accesses of one wave, which then have the same table
Cost    linear in the bytes that the waves span; tables of more than `MOST_BYTES` are not made

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
    own = table[:1] if bool((table == table[:1]).all()) else table
    if (int(own.max()) + width) * len(own) > MOST_BYTES:
        return ""
    owners = [_owners(each, width, lanes) for each in own]
    known = [each.tobytes() for each in owners if each is not None]
    if len(known) < len(owners):
        return ""
    # Lengths come first, so that no two lists of tables are one string of bytes.
    lengths = np.array([len(known), *map(len, known)], dtype=np.int64).tobytes()
    return blake2b(lengths + b"".join(known), digest_size=16).hexdigest()


def _owners(table: np.ndarray[Any, Any], width: int, lanes: int) -> np.ndarray[Any, Any] | None:
    """For each byte of one wave the lane that touches it; None if two do."""
    owner = np.full(int(table.max()) + width, NOBODY, dtype=np.int16)
    number = np.broadcast_to(np.arange(lanes, dtype=np.int16)[:, None], table.shape)
    for byte in range(width):
        at = table + byte
        known = owner[at]
        owner[at] = number
        if bool(((known != NOBODY) & (known != number)).any()) or bool((owner[at] != number).any()):
            return None
    return owner
