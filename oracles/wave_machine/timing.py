"""When a wave's accesses to shared memory are performed.

Needs   accesses in the order in which the wave issues them
Gives   `Queues`: what is issued and not yet performed, and the waits that force it
Keeps   ordinary accesses are performed in issue order, at the latest at a drain of their counter, at the first use of
        a later read's value, or at the end of the wave; copies to shared memory land in any order, at the latest at a
        wait on their queue or at the end. A wait counts one instruction for each operation, which is never more than
        the hardware counts: what it leaves in flight here may be done there, never the other way round
Cost    a constant for each access
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from oracles.wave_machine.numbers import Array

TIMINGS = ("random", "late", "lazy", "early", "copies-late", "copies-early", "lockstep")
ORDINARY_AT_ONCE = ("early", "copies-late", "lockstep")
COPIES_AT_ONCE = ("early", "copies-early", "lockstep")


class Access:
    """Something that happens to memory at some later moment; `result` is what a read found."""

    __slots__ = ("done", "perform_now", "result")

    def __init__(self, perform_now: Callable[[], Array | None]) -> None:
        self.perform_now = perform_now
        self.done = False
        self.result: Array | None = None

    def perform(self) -> None:
        if not self.done:
            self.done = True
            self.result = self.perform_now()


@dataclass(slots=True)
class Queues:
    """What one wave has in flight."""

    timing: str
    chance: float  # that something is performed between two steps, under random timing
    ordinary: list[Access] = field(default_factory=list)
    vector: list[Access] = field(default_factory=list)  # copies, and global accesses, which count
    tensor: list[Access] = field(default_factory=list)

    def issue(self, access: Access) -> None:
        self.ordinary.append(access)
        if self.timing in ORDINARY_AT_ONCE:
            self.drain()

    def issue_copy(self, access: Access, queue: list[Access]) -> None:
        queue.append(access)
        if self.timing in COPIES_AT_ONCE:
            access.perform()

    def count_global(self) -> None:
        """A global access takes a place in the queue; what it does to global memory is done at once."""
        if self.vector:
            access = Access(nothing)
            access.done = True
            self.vector.append(access)

    def finish(self, access: Access) -> Array:
        """The value of a read, at its first use."""
        while not access.done:
            self.ordinary.pop(0).perform()
        assert access.result is not None
        return access.result

    def drain(self, left: int = 0) -> None:
        """Performs ordinary accesses until at most the newest `left` are in flight."""
        while len(self.ordinary) > left:
            self.ordinary.pop(0).perform()

    def land(self, queue: list[Access], left: int = 0) -> None:
        """Performs copies until at most the newest `left` operations of their queue are in flight."""
        while len(queue) > left:
            queue.pop(0).perform()

    def end(self) -> None:
        self.drain()
        self.land(self.vector)
        self.land(self.tensor)

    def pass_time(self, dice: random.Random) -> None:
        """Between two steps of any wave, under random timing, something may be performed."""
        if self.timing != "random":
            return
        if self.ordinary and dice.random() < self.chance:
            self.drain(0 if self.chance == 1 else dice.randrange(len(self.ordinary)))
        for queue in (self.vector, self.tensor):
            if queue and dice.random() < self.chance:
                dice.choice(queue).perform()


def nothing() -> Array | None:
    return None
