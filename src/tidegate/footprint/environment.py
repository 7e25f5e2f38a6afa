"""A map from numbers to values that many nodes share.

Needs   keys 0 to n - 1
Gives   `get`, and `put`, which leaves the old map as it was
Keeps   maps that came from one another share all but a path of each change
Cost    constant for `get`, 32 cells for each level in `put`; `differences` is linear in what differs
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

V = TypeVar("V")
BITS = 5
WIDTH = 1 << BITS
EMPTY: tuple[Any, ...] = (None,) * WIDTH


class Environment(Generic[V]):
    """An immutable map. `levels` fits the number of keys, and is the same in all maps that are compared."""

    __slots__ = ("levels", "root")

    def __init__(self, levels: int, root: tuple[Any, ...] = EMPTY) -> None:
        self.levels, self.root = levels, root

    def get(self, key: int) -> V | None:
        node = self.root
        for level in range(self.levels, 0, -1):
            node = node[(key >> (BITS * level)) & (WIDTH - 1)]
            if node is None:
                return None
        found: V | None = node[key & (WIDTH - 1)]
        return found

    def put(self, pairs: Iterable[tuple[int, V | None]]) -> Environment[V]:
        root = self.root
        for key, value in pairs:
            root = _put(root, self.levels, key, value)
        return self if root is self.root else Environment(self.levels, root)


def levels_for(count: int) -> int:
    levels = 0
    while (1 << (BITS * (levels + 1))) < count:
        levels += 1
    return levels


def _put(node: tuple[Any, ...] | None, level: int, key: int, value: Any) -> tuple[Any, ...]:
    cells = node or EMPTY
    place = (key >> (BITS * level)) & (WIDTH - 1)
    new = value if level == 0 else _put(cells[place], level - 1, key, value)
    if new is cells[place]:
        return cells
    return (*cells[:place], new, *cells[place + 1 :])


def differences(maps: list[Environment[V]]) -> list[int]:
    """The keys at which not all maps hold the same value object."""
    found: list[int] = []
    stack: list[tuple[list[Any], int, int]] = [([each.root for each in maps], maps[0].levels, 0)]
    while stack:
        nodes, level, prefix = stack.pop()
        for place in range(WIDTH):
            cells = [None if node is None else node[place] for node in nodes]
            first = cells[0]
            if all(cell is first for cell in cells):
                continue
            key = prefix | place << (BITS * level)
            if level == 0:
                found.append(key)
            else:
                stack.append((cells, level - 1, key))
    return sorted(found)
