"""`Hazard`: two accesses that need order, and along which walks.

Needs   nothing
Gives   frozen values that placement serves and `explain` shows
Keeps   a hazard names both ends, the loop whose iterations it counts, and a witness

    for %k { write %a[%k mod 2]; read %a[%k mod 2] }      RAW, distance 0: a barrier between them
                                                          WAR, distance 2 of the loop: one on the way round
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tidegate.footprint.conflicts import Witness
from tidegate.footprint.meetings import Pairs


class Kind(Enum):
    """Read after write, write after read, write after write; the names that seed 001 gives their barriers."""

    RAW = "FILL"
    WAR = "READY"
    WAW = "OVERWRITE"


@dataclass(frozen=True, slots=True)
class Performed:
    """When a producer is performed, as far as waits are concerned."""

    is_async: bool = False
    counters: tuple[str, ...] = ()  # on which it counts
    token: str = ""
    drainable: bool = True  # whether anything but an mbarrier can wait for it
    by_arrival: bool = False  # whether arriving at a barrier performs it
    needs_fence: bool = False  # whether the consumer goes through another proxy
    is_waited_for: bool = False  # whether what stands in the program does, and only barriers behind that count
    in_turn: bool = False  # whether the wave's own later access is performed after it in any case
    in_one_lane: bool = False  # whether one lane does both, so that lanes need not meet


@dataclass(frozen=True, slots=True)
class Hazard:
    """The consumer must come after the producer is performed, with `demand` arrivals between them.

    The walks meant: from the producer to the consumer, `distance` times round `loop` (-1: none), never round the loops
    outside of it that hold both, and at least as often as `rounds` says round loops that hold only one of them. A
    demand of 0 means: the two conflict only within one wave, where its lanes must meet, behind a wait for the producer
    if it is not performed in turn.
    """

    kind: Kind
    producer: int  # nodes
    consumer: int
    loop: int
    distance: int
    demand: int
    pairs: Pairs
    performed: Performed
    rounds: tuple[tuple[int, int], ...]
    witness: Witness
    exact: bool  # False: the footprints were widened, and it may not happen


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A conflict that no barrier at a place where all waves pass can order, and why."""

    hazard: Hazard
    why: str
