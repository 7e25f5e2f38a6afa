"""Pieces of shared memory that a register describes, such as those of a matrix.

Needs   what each thread holds, and how such a number is read
Gives   tables of first bytes over the threads: each lane of a wave names a piece; None where somebody's is not known
Keeps   every wave that takes part touches all pieces that its lanes' numbers describe
Cost    linear in the threads and the pieces
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.hosts.isa import model as m
from tidegate.hosts.isa.states import Mask
from tidegate.hosts.isa.values import SIXTEENTH, Value

Starts = tuple[int | None, ...]


def find_pieces(
    touch: m.Touch, held: Value, mask: Mask, arrays: Mapping[str, m.Array], lanes: int
) -> list[tuple[m.Array, Starts, int]] | None:
    """The array, the starts and the bytes of a piece. The lanes of one wave must hold one number."""
    home = next(iter(held.tags), "").removesuffix(SIXTEENTH)
    if not held.is_number or held.tags != {home + SIXTEENTH} or home not in arrays or touch.pieces is None:
        return None
    values = held.base.tolist()
    taking = [value if may else None for value, may in zip(values, mask.may.tolist(), strict=True)]
    if any(len({*taking[first : first + lanes]} - {None}) > 1 for first in range(0, len(taking), lanes)):
        return None
    described = {value: touch.pieces(value) for value in {*taking} if value is not None}
    pieces = {value: each for value, each in described.items() if each is not None}
    if len(pieces) < len(described):
        return None
    array = arrays[home]
    found = []
    for size in sorted({size for _, size in pieces.values()}):
        most = max(len(starts) for starts, each in pieces.values() if each == size)
        for first in range(0, most, lanes):
            table: list[int | None] = []
            for thread, value in enumerate(taking):
                starts, bytes_ = ((), 0) if value is None else pieces[value]
                place = first + thread % lanes
                table.append(starts[place] - array.base if bytes_ == size and place < len(starts) else None)
            found.append((array, tuple(table), size))
    return found
