"""Sets of bytes of shared memory, and whether two of them meet.

Needs   a space (all buffers with an offset share one, each other buffer is its own) and stretches of bytes
Gives   `Region`: sorted stretches that do not touch; the first bytes that two regions share
Keeps   exact
Cost    linear in the stretches for a pair that was not asked before, else constant
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product

Stretch = tuple[int, int]

# The space of all buffers that have an offset.
SHARED = ""


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Bytes of one space. `Regions` makes each set once, so that identity is equality."""

    space: str
    stretches: tuple[Stretch, ...]

    def __str__(self) -> str:
        low, high = self.stretches[0][0], self.stretches[-1][1]
        return f"bytes {low}..{high}" if len(self.stretches) == 1 else f"bytes in {low}..{high}"


@dataclass(slots=True)
class Regions:
    """All regions of one judgement, and which of them meet."""

    _made: dict[tuple[str, tuple[Stretch, ...]], Region] = field(default_factory=dict)
    _boxes: dict[tuple[str, int, tuple[Stretch, ...], int], Region] = field(default_factory=dict)
    _meet: dict[tuple[int, int], Stretch | None] = field(default_factory=dict)
    # Regions with the bytes between which they lie, in the order in which they were made.
    _spaces: dict[str, list[tuple[int, int, Region]]] = field(default_factory=dict)
    _near: dict[Region, tuple[int, set[Region]]] = field(default_factory=dict)  # so many of these were looked at

    def box(self, space: str, first: int, steps: tuple[Stretch, ...], width: int) -> Region:
        """From a byte, every combination of steps (count, stride), `width` bytes at each."""
        key = (space, first, steps, width)
        if key not in self._boxes:
            first, steps, width = _merge(first, steps, width)
            ways = product(*(range(0, count * stride, stride) if stride else (0,) * count for count, stride in steps))
            starts = (first + sum(way) for way in ways)
            self._boxes[key] = self.of(space, ((start, start + width) for start in starts))
        return self._boxes[key]

    def of(self, space: str, stretches: Iterable[Stretch]) -> Region:
        merged: list[Stretch] = []
        for low, high in sorted(stretches):
            if low >= high:
                continue
            if merged and low <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
            else:
                merged.append((low, high))
        key = (space, tuple(merged))
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = Region(*key)
            ends = (merged[0][0], merged[-1][1]) if merged else (0, 0)
            self._spaces.setdefault(space, []).append((*ends, found))
        return found

    def near(self, region: Region) -> set[Region]:
        """The regions made so far that have bytes in common with this one."""
        known, found = self._near.get(region, (0, set[Region]()))
        made = self._spaces.get(region.space, [])
        if known < len(made):
            mine = region.stretches
            first, last = (mine[0][0], mine[-1][1]) if mine else (0, 0)
            found.update(
                other
                for low, high, other in made[known:]
                if low < last and first < high and _first_common(mine, other.stretches) is not None
            )
            self._near[region] = (len(made), found)
        return found

    def common(self, one: Region, other: Region) -> Stretch | None:
        """The first bytes that both have, or None."""
        if one.space != other.space:
            return None
        key = (id(one), id(other))
        if key not in self._meet:
            self._meet[key] = _first_common(one.stretches, other.stretches)
        return self._meet[key]


def _first_common(one: tuple[Stretch, ...], other: tuple[Stretch, ...]) -> Stretch | None:
    i = j = 0
    while i < len(one) and j < len(other):
        low, high = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if low < high:
            return low, high
        if one[i][1] <= other[j][1]:
            i += 1
        else:
            j += 1
    return None


def _merge(first: int, steps: tuple[Stretch, ...], width: int) -> tuple[int, tuple[Stretch, ...], int]:
    """The same bytes with as few steps as can be: those that leave no gap become part of the width."""
    if not width or not all(count for count, _ in steps):
        return first, (), 0
    first += sum((count - 1) * stride for count, stride in steps if stride < 0)
    left: list[Stretch] = []
    for count, stride in sorted(((count, abs(stride)) for count, stride in steps), key=lambda each: each[1]):
        if count > 1 and stride <= width:
            width += (count - 1) * stride
        elif count > 1:
            left.append((count, stride))
    return first, tuple(left), width
