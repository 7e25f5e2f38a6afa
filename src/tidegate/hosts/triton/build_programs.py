"""Several programs in one kernel: partitions of waves.

Needs   `ttg.warp_specialize`
Gives   waves that part from the start, each group with a barrier of its own
Keeps   what a partition takes from outside is what all waves find alike, or may be anything
Cost    linear in the operations
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, pairwise

from tidegate.graph import model as g
from tidegate.hosts.mlir.model import Operation, Region, walk
from tidegate.hosts.triton.build_descriptors import Descriptors
from tidegate.hosts.triton.build_flow import Flow
from tidegate.hosts.triton.build_handing import Handing, Pair
from tidegate.hosts.triton.build_points import Group, Points
from tidegate.hosts.triton.values import name_of
from tidegate.hosts.triton.views import View
from tidegate.index import Flag, Name, names
from tidegate.language.ops import Value
from tidegate.language.types import BarrierObject


class Programs:
    def __init__(self, points: Points, descriptors: Descriptors, handing: Handing, flow: Flow) -> None:
        self.points, self.descriptors, self.handing, self.flow = points, descriptors, handing, flow
        self.facts, self.b, self.views = points.facts, points.b, descriptors.views
        self.special: Operation | None = None  # where waves part
        self.split = -1
        self.captures: g.Ref | None = None  # what partitions capture lies there

    def start(self) -> None:
        """Waves of partitions wait for their work from the start; the others run the function."""
        special = [op for op in walk(self.facts.function) if op.name == "ttg.warp_specialize" and partitions_of(op)]
        if not special:
            return
        self.special = special[0]
        self.points.under = "per_wave"
        own = self.facts.ttgir.waves
        self.split = self.points.add(g.Dispatch(((0, own),)), self.facts.function, "waves", insertable=False)
        self.points.add(g.Compute(), self.facts.function, "own", insertable=False)
        self.points.group = self.group_of(0, own)

    def group_of(self, first: int, count: int) -> Group:
        """Waves that meet at a barrier of their own."""
        name = f"%group{first}"
        type_ = BarrierObject("named_barrier", count)
        if count > 1:
            self.b.object(name, type_, tuple(range(first, first + count)))
        return Group(first, count, Value(name, type_))

    def specialize(self, op: Operation) -> None:
        """All waves meet, run their regions, and meet again. Without partitions there is nobody to meet."""
        if not partitions_of(op):
            self.flow.execute(op)
            return
        if op is not self.special:
            self.points.unknown(op)
            return
        self.capture(op)
        self.points.meet_all(op)
        self.arrive_once_more(op)
        self.flow.execute(op)
        self.points.meet_all(op)

    def capture(self, op: Operation) -> None:
        """The waves of the function write what partitions capture to memory that Triton lays out for that; it may have
        held something else before, which other waves may still be reading."""
        offset, known = op.integer("allocation.offset"), self.facts.size_of(op)
        if offset is None:  # there are none, or Triton has not laid out anything yet
            return
        if known is None:
            self.points.unknown(op)
            return
        self.captures = self.descriptors.unnamed_memory("captures", known, offset)
        self.points.add(g.Access("write", self.of_captures(known), as_one=True), op, role="local_write")

    def of_captures(self, known: int) -> g.Footprint:
        assert self.captures is not None
        return g.Footprint(self.captures, (), known, True)

    def arrive_once_more(self, op: Operation) -> None:
        """Triton's lowering lets the waves of the function wait until partitions have read what they capture: the
        memory may be used again in all regions (seen in what its pass makes for sm_90)."""
        if self.captures is not None:
            self.points.meet_all(op)

    def work(self) -> None:
        """The waves of partitions: each group runs its region, and ends with the function."""
        if self.special is None:
            return
        op, ended = self.special, self.b.open
        self.b.open = [self.split]
        self.points.at = None
        self.points.add(g.Compute(), op, "workers", insertable=False)
        self.points.meet_all(op)
        partitions = op.regions[1].blocks[0].operations[0]  # takes the values that all partitions capture
        firsts = [*accumulate(op.integers("partitionNumWarps"), initial=self.facts.ttgir.waves)]
        ranges = [*pairwise(firsts)]
        choose = None
        if len(ranges) > 1:
            choose = self.points.add(g.Dispatch(tuple(ranges[:-1])), op, "partitions", insertable=False)
        ends: list[int] = []
        for (low, high), region in zip(ranges, partitions.regions, strict=False):
            if choose is not None:
                self.b.open = [choose]
                self.points.add(g.Compute(), op, "partition", insertable=False)
            self.points.group = self.group_of(low, high - low)
            self.read_captures(op)
            self.captured(partitions, region)
            self.flow.region(region)
            ends += self.b.open
        self.b.open = ends
        self.points.meet_all(op)
        self.points.add(g.End(), op, "end of the workers", insertable=False)
        self.b.open = ended

    def read_captures(self, op: Operation) -> None:
        known = self.facts.size_of(op)
        if self.captures is not None and known is not None:
            self.points.add(
                g.Access("read", self.of_captures(known), as_one=True), op, role="local_read", insertable=False
            )
            self.points.meet_all(op)

    def captured(self, op: Operation, region: Region) -> None:
        """What a partition takes from outside, as its waves know it: they run nothing of what came before.

        What the others have computed on their way, in loops or by a branch, may be any number, or any slot.
        """
        pairs: list[Pair] = []
        unknown: list[str] = []
        taken = [name for name, _ in region.blocks[0].arguments]
        for (name, type_), value in zip(region.blocks[0].arguments, op.operands, strict=False):
            if value in self.views:
                self.views[name] = self.views[value]
                if not self.is_known(self.views[value].place):
                    type_of_view = self.views[value].type
                    self.views[name] = View(g.Ref(name_of(name)), None, type_of_view, opaque=self.anywhere(value))
                    pairs.append((name_of(name), self.any_place(name, value, unknown)))
            elif self.facts.is_carried(name):
                index = self.facts.values.index(value)
                if set(names(index)) <= self.b.free.keys() and not self.facts.is_apart((value,)):
                    pairs.append((name_of(name), index))
                else:
                    self.points.declare(name, type_)
                    unknown.append(name_of(name))
        if unknown:
            self.points.add(g.Havoc(tuple(unknown), True), op, "captured", insertable=False)
        if pairs:
            self.points.add(g.Assign(tuple(pairs)), op, "captured", insertable=False)
        self.handing.part(op, taken)

    def is_known(self, place: g.Ref) -> bool:
        """Whether a place is a part of a buffer or a barrier object that all waves find alike."""
        kept = {each.name for part in ("buffers", "objects") for each in self.b.parts.get(part, ())}
        return place.base in kept and {*names(place.slot), *names(place.offset)} <= self.b.free.keys()

    def anywhere(self, value: str) -> int:
        """In how many bytes of its allocation a descriptor may start anywhere; 0: it is a slot of a buffer."""
        buffers = self.b.buffers
        reached = [buffers[name] for name in self.descriptors.buffers_of(value) if name in buffers]
        if not self.views[value].opaque and all(each.slots > 1 for each in reached):
            return 0
        return max((each.bytes for each in reached), default=0)

    def any_place(self, name: str, value: str, unknown: list[str]) -> g.Where:
        """Any slot of any allocation that a descriptor may lie in; `unknown` takes the names of what decides."""
        bases = [self.views[each].place for each in self.facts.bases(value) if each in self.views]
        slots = {name: each.slots for name, each in self.b.buffers.items()}
        slots |= {each.name: each.type.slots for each in self.b.parts.get("objects", ())}
        found: g.Where | None = None
        for number, base in enumerate(bases or [self.views[value].place]):
            slot, choice = f"{name}.slot{number}", f"{name}.choice{number}"
            place = base
            if slots.get(base.base, 1) > 1:
                self.points.declare(slot, "i32")
                unknown.append(name_of(slot))
                place = replace(base, slot=Name(name_of(slot)))
            if found is None:
                found = place
            else:
                self.points.declare(choice, "i1")
                unknown.append(name_of(choice))
                found = g.Either(Flag(name_of(choice)), place, found)
        assert found is not None
        return found


def partitions_of(op: Operation) -> tuple[Region, ...]:
    """The regions that waves of their own run, of a `ttg.warp_specialize`."""
    return op.regions[1].blocks[0].operations[0].regions
