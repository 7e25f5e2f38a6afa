"""When the bytes of accesses move, for the numbers of a run on the hostile machine.

Needs   the accesses of one wave as they are issued, and to be told when each is performed
Gives   tiles that reads bring, when they are performed or first used; memory changed by writes and copies
Keeps   ordinary accesses of one wave move in issue order; each moves once. Only where lanes run apart, a read moves
        first: it finds what its own lanes wrote, and of what others wrote all that the lanes have met behind
Cost    that of moving the bytes; for a read that runs ahead, of copying shared memory
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from tidegate.simulate.events import Access, Answer, Copy
from tidegate.simulate.inorder import perform
from tidegate.simulate.machine import Machine
from tidegate.simulate.memory import LDS, Memory
from tidegate.simulate.tiles import Array
from tidegate.simulate.values import Pending, lane_of


class Coming(Pending):
    """What a read in flight brings."""

    __slots__ = ("data", "found", "number")

    def __init__(self, data: Data, number: int) -> None:
        self.data, self.number = data, number
        self.found: Array | None = None

    def tile(self) -> Array:
        if self.found is None:
            self.data.perform(self.number)
        assert self.found is not None, "a read that was performed has brought its tile"
        return self.found


@dataclass(slots=True)
class Data:
    """The accesses of one wave whose bytes have not moved yet, by number, in issue order."""

    memory: Memory
    moved: Callable[[int], None]
    lanes: int = 1
    ordinary: dict[int, tuple[Access, Coming]] = field(default_factory=dict)
    copies: dict[int, Copy] = field(default_factory=dict)
    known: int = 0  # accesses below this number are known to all lanes
    runs_apart: Callable[[], bool] = lambda: False  # whether a read moves before what other lanes of its wave wrote

    def meet(self, issued: int) -> None:
        """The lanes meet when so many accesses have been issued."""
        self.known = max(self.known, issued)

    def issue(self, number: int, event: Access | Copy) -> Answer:
        if isinstance(event, Copy):
            self.copies[number] = event
            return None
        if event.cells.space != LDS:
            return perform(event, self.memory)
        coming = Coming(self, number)
        if event.kind == "read" and self.ordinary and self.runs_apart():
            coming.found = self._ahead(event)
            self.moved(number)
            return coming
        self.ordinary[number] = (event, coming)
        return coming

    def _ahead(self, read: Access) -> Array:
        """What a read finds before the writes of other lanes."""
        seen = Memory({LDS: self.memory.spaces[LDS].copy()})
        reader = np.full(seen.spaces[LDS].size, -1, np.int64)  # by byte, the lane that reads it
        owners, size = lane_of(read.cells.shape, self.lanes), read.cells.dtype.bytes
        owners = owners.reshape(-1) if read.cells.active is None else owners[read.cells.active]
        reader[read.cells.active_addresses[:, None] + np.arange(size)] = owners[:, None]
        for number, (access, _) in self.ordinary.items():
            cells = access.cells
            if access.kind == "write" and number >= self.known:
                inside = np.clip(cells.addresses, 0, reader.size - 1)  # elements that take no part may lie anywhere
                own = lane_of(cells.shape, self.lanes) == reader[inside]
                cells = replace(cells, active=own if cells.active is None else own & cells.active)
            if access.kind != "read":
                perform(replace(access, cells=cells), seen)
        return seen.load(read.cells)

    def perform(self, number: int) -> None:
        """Moves the bytes of an access, and first those of all ordinary ones before it, unless they have moved."""
        if number in self.ordinary:
            for each in [each for each in self.ordinary if each <= number]:
                access, coming = self.ordinary.pop(each)
                coming.found = perform(access, self.memory)
                self.moved(each)
        elif number in self.copies:
            copy = self.copies.pop(number)
            self.memory.store(copy.dest, self.memory.load(copy.source))
            self.moved(number)

    def waiting(self, machine: Machine, wave: int) -> list[int]:
        """What may move at any time; a copy that reports moves when it lands."""
        return [*self.ordinary, *(each for each in self.copies if (wave, each) not in machine.landing)]
