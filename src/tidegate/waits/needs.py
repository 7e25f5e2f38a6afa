"""What each wait must see complete: copies, and which of their instances.

Needs   the hazards of a flow that is synchronized
Gives   point of a wait → `Wanted`: a copy, and how often the way from it to the wait goes round which loop
Keeps   a copy belongs to the last wait on a walk that performs it in time; what completes in order is named once, by
        its newest instance
Cost    a search for each hazard of a copy

    iterate %k {                              the barrier needs the copy of the iteration before the last one:
      shared_memory_barrier vmcnt(1)          %a, one time round %k
      gather_to_lds ... to %a[(%k + 2) mod 3]
      local_read %a[%k mod 3]
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.hazards.find import Hazards
from tidegate.placement.walks import Walks
from tidegate.targets import Target


@dataclass(frozen=True, slots=True)
class Wanted:
    """An instance of a copy, seen from a wait: the copy's point, and the ways from it that are meant.

    `rounds`: how often round a loop, and whether that is exact or the least. Never round the loops in `frozen`, never
    out of `bound`. Loops are numbers of the flow, and -1 is none.
    """

    copy: int
    rounds: tuple[tuple[int, int, bool], ...] = ()
    frozen: frozenset[int] = frozenset()
    bound: int = -1


def find_needs(found: Hazards, target: Target) -> dict[int, tuple[Wanted, ...]]:
    """For each point that waits, what it has to see complete."""
    walks = Walks(found.flow, target, found.stagger)
    needs: dict[int, dict[Wanted, None]] = {}
    for hazard in found.hazards:
        if not hazard.performed.is_async:
            continue
        for node, wanted in walks.waited_for(hazard):
            point = found.flow.origin[node]
            copy = found.flow.origin[hazard.producer]
            rounds, frozen, bound = wanted
            needs.setdefault(point, {})[Wanted(copy, rounds, frozen, bound)] = None
    return {
        point: tuple(each for each in wanted if not any(_covers(other, each, found, target) for other in wanted))
        for point, wanted in needs.items()
    }


def _covers(one: Wanted, other: Wanted, found: Hazards, target: Target) -> bool:
    """Whether a newer instance of the same copy is complete only if an older one is."""
    loops = [loop for loop, _, _ in one.rounds]
    if one == other or one.copy != other.copy or loops != [loop for loop, _, _ in other.rounds]:
        return False
    newer = all(a[1] <= b[1] for a, b in zip(one.rounds, other.rounds, strict=True))
    issues = found.flow.graph.points[one.copy].issues
    in_order = all(issue.in_order and target.counters[issue.counter].in_order for issue in issues)
    return newer and in_order and one.frozen == other.frozen and one.bound == other.bound
