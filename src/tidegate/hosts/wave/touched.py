"""The bytes that each wave touches, from the numbers of its threads.

Needs   where in a buffer each thread starts, and how many bytes it touches there
Gives   a `Footprint`: a place that may depend on the wave, and steps; exact where the bytes of every wave have one
        shape, else the stretch that holds them, and then not all of it need be touched
Keeps   no byte that is touched is left out
Cost    one sort of the threads of a wave, and one comparison for each other wave

    starts of wave 0: 0, 2, 144, 146    of wave 1: 576, 578, 720, 722        wave * 576, box(2 by 144, 2 by 2)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from tidegate.graph import model as g
from tidegate.index import WAVE, ZERO, Binary, Compare, Const, Index, Name, Select, add, scale


@dataclass(frozen=True, slots=True)
class Touched:
    """Where, in the bytes of a buffer."""

    offset: Index
    extents: tuple[g.Extent, ...]
    width: int
    may: bool = False
    moved: bool = False  # whether a wave starts later than the place that stands for it


def touched(starts: np.ndarray[Any, Any], width: int, waves: int, most: int | None = None) -> Touched:
    """`starts`: one row for each wave, the first bytes that its threads touch, `width` bytes at each."""
    lows, shape = shape_of(starts.reshape(waves, -1), width, most)
    return replace(shape, offset=by_wave(lows))


def shape_of(rows: np.ndarray[Any, Any], width: int, most: int | None = None) -> tuple[list[int], Touched]:
    """Where each row starts, and what all of them touch from there on.

    `most`: bytes of a buffer in which all of them stay. A stretch that is longer than what its row touches then starts
    before it, so as not to reach beyond the buffer (test_wave_touched: `test_a_stretch_stays_in_its_buffer`).
    """
    sorted_ = [np.unique(row) for row in rows]
    first = sorted_[0] - sorted_[0][0]
    lows = [int(row[0]) for row in sorted_]
    if all(len(row) == len(first) and bool((row - row[0] == first).all()) for row in sorted_[1:]):
        steps = _steps(first, width)
        if steps is not None:
            extents, wide = steps
            return lows, Touched(ZERO, extents, wide)
    wide = max(int(row[-1] - row[0]) + width for row in sorted_)
    if most is None or min(lows) < 0 or any(int(row[-1]) + width > most for row in sorted_):
        return lows, Touched(ZERO, (), wide, True)
    places = [min(low, most - wide) for low in lows]
    return places, Touched(ZERO, (), wide, True, places != lows)


def _steps(starts: np.ndarray[Any, Any], width: int) -> tuple[tuple[g.Extent, ...], int] | None:
    """Sorted numbers from 0 on as combinations of steps; what lies side by side becomes wider."""
    extents: list[g.Extent] = []
    while len(starts) > 1:
        stride = int(starts[1])
        apart = np.flatnonzero(np.diff(starts) != stride)
        count = int(apart[0]) + 1 if len(apart) else len(starts)
        if len(starts) % count:
            return None
        table = starts.reshape(-1, count)
        if bool((table - table[:, :1] != table[0]).any()):
            return None
        if stride == width and not extents:
            width *= count
        elif stride < width and not extents:
            width = stride * (count - 1) + width
        else:
            extents.append(g.Extent(count, stride))
        starts = table[:, 0]
    return tuple(reversed(extents)), width


def by_wave(numbers: list[int]) -> Index:
    """A number for each wave, as an expression."""
    waves = len(numbers)
    if len(set(numbers)) == 1:
        return Const(numbers[0])
    for inner in range(waves, 1, -1):  # waves stand in a grid, `inner` of them in a row
        if waves % inner:
            continue
        step = numbers[1] - numbers[0]
        row = numbers[inner] - numbers[0] if inner < waves else 0
        if all(each == numbers[0] + step * (w % inner) + row * (w // inner) for w, each in enumerate(numbers)):
            place = Name(WAVE) if inner == waves else Binary("mod", Name(WAVE), Const(inner))
            along = scale(place, step) if step else ZERO
            down = scale(Binary("//", Name(WAVE), Const(inner)), row) if row else ZERO
            return add(add(along, down), Const(numbers[0]))
    found: Index = Const(numbers[-1])
    changes = [w for w, (one, other) in enumerate(pairwise(numbers)) if one != other]
    for wave in reversed(changes):
        found = Select(Compare("<=", Name(WAVE), Const(wave)), Const(numbers[wave]), found)
    return found


def in_bytes(first: np.ndarray[Any, Any], elements: int, bits: int) -> tuple[np.ndarray[Any, Any], int] | None:
    """The first byte of each thread, and how many it touches; None if one starts in the middle of a byte."""
    if bits % 8 and bool((first * bits % 8).any()):
        return None
    return first * bits // 8, -(-elements * bits // 8)
