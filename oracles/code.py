"""Final code, whatever it was read from: blocks of the events that synchronization is about.

Needs   nothing
Gives   `Event`, `Block`, `Code`
Keeps   a line of 0 means that the compiler no longer knows where an instruction came from
Cost    none
"""

from __future__ import annotations

from dataclasses import dataclass, field


class NotUnderstood(Exception):
    """The text holds something that would make an answer unreliable: a call, an indirect jump, an unknown barrier."""


@dataclass(frozen=True, slots=True)
class Event:
    """One instruction that touches shared memory, counts on a queue, waits, or takes part in a barrier.

    `when`: its predicate, with the number of the instruction that set it; some waves may go past it.
    """

    text: str
    line: int = 0
    queue: str = ""  # it counts on this one
    touches_lds: bool = False
    is_async: bool = False
    commits: bool = False  # closes a group of copies
    waits: tuple[tuple[str, int], ...] = ()  # queues, with how many of the newest may stay in flight
    arrives: bool = False
    departs: bool = False
    performs: bool = False  # on arrival: all ordinary accesses of the wave
    barrier: str = ""
    when: str = ""

    @property
    def may_skip(self) -> bool:
        return bool(self.when)


@dataclass(slots=True)
class Block:
    events: list[Event] = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    may_end: bool = False  # the wave may end here, though blocks follow
    ends_when: str = ""  # the predicate of that end


@dataclass(frozen=True, slots=True)
class Code:
    """A function. The first block is its entry.

    `groups`: its copies are waited for in groups (NVIDIA).
    """

    blocks: tuple[Block, ...]
    groups: bool = False

    @property
    def events(self) -> list[Event]:
        return [event for block in self.blocks for event in block.events]
