"""What a proof over barrier objects is about.

Needs   nodes and waves; for a pair that nothing orders a point where it meets
Gives   `Role`: waves that run the same nodes; `Instant`: where one is; `Outside`: why a program is none of those that
        can be decided for all trips; `ObjectProof`: what is shown, and what is left
Keeps   frozen
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tidegate.footprint.model import Touch
from tidegate.verify.asked import Point
from tidegate.verify.meet import Meet
from tidegate.verify.model import Suspect


class Outside(Exception):
    """The program is none of those that can be decided for all trip counts; or it is wrong. Says why.

    `values`: sizes with which it may be seen to be wrong.
    """

    def __init__(self, says: str, values: tuple[tuple[str, int], ...] = ()) -> None:
        super().__init__(says)
        self.values = values


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


@dataclass(frozen=True, slots=True)
class LoosePair:
    """Two accesses that nothing orders, or that no fence between the proxies does."""

    x: int
    y: int
    why: str
    point: Point
    within_a_wave: bool
    exact: bool  # whether both are reached in all these iterations


@dataclass(frozen=True, slots=True)
class ObjectProof:
    """Every wait ends, for what it is meant for. `clashes`: what is unordered nevertheless."""

    roles: tuple[Role, ...]
    clashes: tuple[LoosePair, ...]
    reporting: frozenset[int]  # copies that report to an object: these are asked about here, in one wave as well

    def suspects(self, meet: Meet, is_exact: Callable[[Touch], bool]) -> Iterator[Suspect]:
        """The clashes in the verifier's words. `is_exact`: whether nothing of an access was widened."""
        origin = meet.flow.origin
        for each in self.clashes:
            touches = [meet.footprints.accesses[node] for node in (each.x, each.y)]
            yield Suspect(
                origin[each.x],
                origin[each.y],
                each.why,
                each.within_a_wave,
                (each.x, each.y),
                meet.anywhere(touches[0]),
                each.point,
                each.exact and all(map(is_exact, touches)),
            )
