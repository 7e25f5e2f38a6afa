"""Where the waves of a workgroup meet.

Needs   arrivals and departures, by wave and barrier id; -1 is the barrier of the workgroup
Gives   whether a wave may go on
Keeps   the k-th arrival of each wave meets the k-th of every other, wherever in the program it is; a wave that has
        ended arrives no more
Cost    one pass over the waves for each question
"""

from __future__ import annotations

from collections import defaultdict


class Rendezvous:
    """The barriers of one workgroup."""

    def __init__(self, waves: int) -> None:
        self.arrived: dict[int, list[int]] = defaultdict(lambda: [0] * waves)
        self.left: dict[int, list[int]] = defaultdict(lambda: [0] * waves)
        self.misuse = ""  # what broke the protocol first

    def arrive(self, barrier: int, wave: int) -> None:
        if barrier == 0:
            return  # does nothing, says the ISA
        if self.arrived[barrier][wave] != self.left[barrier][wave] and not self.misuse:
            self.misuse = f"wave {wave} signals barrier {barrier} twice without a wait between"
        self.arrived[barrier][wave] += 1

    def may_leave(self, barrier: int, wave: int) -> bool:
        return barrier == 0 or min(self.arrived[barrier]) > self.left[barrier][wave]

    def leave(self, barrier: int, wave: int) -> None:
        if barrier:
            self.left[barrier][wave] += 1
