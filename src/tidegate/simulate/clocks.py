"""What a wave knows of the others: vector clocks, and the copies whose end it has seen.

Needs   the waves of one workgroup
Gives   `Clock` values that only grow; `join` of two
Keeps   frozen, so that a barrier can hold what its arrivals knew
Cost    linear in the waves for a join

`times[u] > t` means: everything that wave u had done at its own time t has happened. A wave's time goes on whenever it
tells others something. `fenced` is that part of it behind which a fence between the two proxies stands.
"""

from __future__ import annotations

from dataclasses import dataclass

# An access: its wave, and its number among the accesses of that wave.
Id = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Clock:
    times: tuple[int, ...]
    fenced: tuple[int, ...]
    landed: frozenset[Id] = frozenset()
    fenced_landed: frozenset[Id] = frozenset()

    def join(self, other: Clock) -> Clock:
        if other is self:
            return self
        return Clock(
            tuple(map(max, self.times, other.times)),
            tuple(map(max, self.fenced, other.fenced)),
            self.landed | other.landed if other.landed else self.landed,
            self.fenced_landed | other.fenced_landed if other.fenced_landed else self.fenced_landed,
        )

    def tell(self, wave: int, time: int) -> Clock:
        """The clock with everything that the wave did up to this time of its own."""
        times = (*self.times[:wave], time + 1, *self.times[wave + 1 :])
        return Clock(times, self.fenced, self.landed, self.fenced_landed)

    def fence(self) -> Clock:
        return Clock(self.times, self.times, self.landed, self.landed)

    def see(self, copies: frozenset[Id]) -> Clock:
        return Clock(self.times, self.fenced, self.landed | copies, self.fenced_landed)


def start(waves: int) -> Clock:
    """Nobody knows anything."""
    return Clock((0,) * waves, (0,) * waves)
