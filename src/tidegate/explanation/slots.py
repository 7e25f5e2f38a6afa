"""How many slots would save a barrier that only keeps the iterations of a loop apart.

Needs   a graph, its hazards, a barrier in a loop with the hazards that it serves
Gives   the least number of slots with which that barrier is not needed, or with which the loop needs one less
Keeps   said only where the same writes reach the same reads; the program without the barrier is synchronized, its
        barriers are counted, and one that has fewer is judged before anybody hears of it
Cost    for each such barrier up to four programs that are synchronized, and one that is judged

    write %a; barrier; read %a; barrier      the second is for the next write: with two slots that goes elsewhere
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.explanation.changes import Changes
from tidegate.explanation.model import MoreSlots
from tidegate.explanation.rotation import grow
from tidegate.explanation.trials import Trials
from tidegate.graph import model as g
from tidegate.graph.apply import apply_to_graph
from tidegate.graph.barriers import tally
from tidegate.graph.flow import flow_of
from tidegate.hazards.find import Hazards, find_hazards
from tidegate.hazards.model import Hazard, Kind
from tidegate.language.ops import SharedMemoryBarrier, WorkgroupBarrier
from tidegate.placement.groups import PAIR, SINGLE, BarrierGroup
from tidegate.placement.place import Options, place
from tidegate.targets import Target
from tidegate.verify.prover import Tried

MOST_MORE = 4  # slots
MOST_POINTS, MOST_PROGRAMS = 2_000, 40  # of one program, and programs that are tried for it
BARRIERS = (SINGLE[WorkgroupBarrier], SINGLE[SharedMemoryBarrier], PAIR)


class SlotTrials:
    """Tries more slots in one graph."""

    def __init__(self, graph: g.SyncGraph, found: Hazards, target: Target, atomics: str, trials: Trials) -> None:
        self.graph, self.found, self.target, self.atomics = graph, found, target, atomics
        self.trials, self.changes = trials, Changes(graph, target)
        self.buffers = {each.name: each for each in graph.buffers}
        self.reaching = _reaching(found)
        self.count = 0

    def ask(self, group: BarrierGroup, serves: Sequence[Hazard]) -> MoreSlots | None:
        """For one barrier that something needs."""
        loop = self.loop_of(group, serves)
        names = tuple(sorted({each.witness.buffer for each in serves}))
        if loop < 0 or not all(name in self.buffers for name in names):
            return None
        have = tuple(self.buffers[name].slots for name in names)
        bytes_ = sum(self.buffers[name].slot_bytes for name in names)
        room = self.room() // bytes_ if bytes_ else 0
        if self.grown(names, 1) is None or self.without(group, self.graph, loop) is not None:
            return None
        for more in range(1, min(MOST_MORE, room) + 1):
            grown = self.grown(names, more)
            if grown is None or self.count >= MOST_PROGRAMS or self.trials.is_spent:
                return None
            self.count += 1
            saved = self.without(group, grown, loop)
            if saved is not None and not self.trials.new(self.trials.judge(Tried(saved, None))):
                anew = saved != self.changes.without(group).apply(grown)
                return MoreSlots(names, have, more, more, bytes_, fits=True, anew=anew)
        return MoreSlots(names, have, None, min(MOST_MORE, room), bytes_, fits=room >= MOST_MORE)

    def loop_of(self, group: BarrierGroup, serves: Sequence[Hazard]) -> int:
        """The loop around a barrier that keeps its iterations apart, and is for no flow of data; else -1."""
        loops = {self.graph.points[point].loop for point in group.points}
        if group.kind not in BARRIERS or group.pinned or len(loops) != 1 or self.found.stagger.ahead:
            return -1
        if not serves or len(self.graph.points) > MOST_POINTS or self.graph.objects or not self.trials.base.is_decided:
            return -1
        apart = any(each.loop >= 0 and each.distance > 0 for each in serves)
        return max(loops) if apart and all(each.kind is not Kind.RAW for each in serves) else -1

    def room(self) -> int:
        """Bytes of shared memory that are left; enough where the target does not say."""
        ends = [each.offset + each.bytes for each in self.graph.buffers if each.offset is not None]
        used = max(ends, default=0) + sum(each.bytes for each in self.graph.buffers if each.offset is None)
        total = self.target.lds.bytes
        most = MOST_MORE * sum(each.slot_bytes for each in self.graph.buffers)
        return max(0, total - used) if total else most

    def grown(self, names: tuple[str, ...], more: int) -> g.SyncGraph | None:
        """The program with more slots, if the same writes reach the same reads."""
        grown = grow(self.graph, dict.fromkeys(names, more))
        if grown is None:
            return None
        found = find_hazards(flow_of(grown), self.target, atomics=self.atomics)
        return grown if _reaching(found) == self.reaching else None

    def without(self, group: BarrierGroup, program: g.SyncGraph, loop: int) -> g.SyncGraph | None:
        """The program without the barrier, synchronized; None if the loop has as many barriers as before."""
        less = self.changes.without(group).apply(program)
        if less is None:
            return None
        found = find_hazards(flow_of(less), self.target, atomics=self.atomics)
        placed = place(found, self.target, Options("minimal"))
        if placed.unplaced:
            return None
        after = apply_to_graph(placed.plan, less)
        return after if _meetings(after, loop) < _meetings(self.graph, loop) else None


def _reaching(found: Hazards) -> dict[tuple[int, int, int], int]:
    """From which write to which read data flows, and over how many iterations at least."""
    least: dict[tuple[int, int, int], int] = {}
    for each in found.hazards:
        if each.kind is Kind.RAW:
            key = (each.producer, each.consumer, each.loop)
            least[key] = min(each.distance, least.get(key, each.distance))
    return least


def _meetings(graph: g.SyncGraph, loop: int) -> int:
    return tally(graph, (number for number, point in enumerate(graph.points) if point.loop == loop)).barriers
