"""What a proof over barrier objects is about.

Needs   nothing but nodes and waves
Gives   `Role`: waves that run the same nodes; `Moment`: where one is; `Outside`: why a program is none of those that
        can be decided for all trips
Keeps   frozen
"""

from __future__ import annotations

from dataclasses import dataclass


class Outside(Exception):
    """The program is none of those that can be decided for all trip counts; or it is wrong. Says why."""


@dataclass(frozen=True, slots=True, eq=False)
class Role:
    """Waves that go the same way at every branch that asks for the wave. `arms`: what is left of each node's ways."""

    number: int
    waves: tuple[int, ...]
    entry: int
    arms: dict[int, tuple[int, ...]]  # node → the successors that these waves may go to; nodes that they come to

    @property
    def wave(self) -> int:
        """One of them: what differs between waves does not differ between these."""
        return self.waves[0]


@dataclass(frozen=True, slots=True)
class Instant:
    """A role at a node: when it comes there (0), or when it has passed (1)."""

    role: Role
    node: int
    end: int = 0
