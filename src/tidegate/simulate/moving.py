"""When the bytes of accesses move, for the numbers of a run on the hostile machine.

Needs   the accesses of one wave as they are issued, and to be told when each is performed
Gives   tiles that reads bring, when they are performed or first used; memory changed by writes and copies
Keeps   ordinary accesses of one wave move in issue order; each moves once
Cost    that of moving the bytes
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tidegate.simulate.events import Access, Answer, Copy
from tidegate.simulate.inorder import perform
from tidegate.simulate.machine import Machine
from tidegate.simulate.memory import LDS, Memory
from tidegate.simulate.tiles import Array
from tidegate.simulate.values import Pending


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
    ordinary: dict[int, tuple[Access, Coming]] = field(default_factory=dict)
    copies: dict[int, Copy] = field(default_factory=dict)

    def issue(self, number: int, event: Access | Copy) -> Answer:
        if isinstance(event, Copy):
            self.copies[number] = event
            return None
        if event.cells.space != LDS:
            return perform(event, self.memory)
        coming = Coming(self, number)
        self.ordinary[number] = (event, coming)
        return coming

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
