"""Barrier objects of TTGIR: mbarriers, who arrives at them, and their memory.

Needs   allocations that `init_barrier` is told of
Gives   arrivals and waits as points; copies that report to an object
Keeps   whoever uses an object relies on its memory: setting it up, and ending it, is a write of that memory
Cost    constant for each operation

    ttng.barrier_expect %bar, 32768       meet; wave 0: mbarrier_arrive %bar expect 32768
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd, prod

from tidegate.graph import model as g
from tidegate.hosts.mlir.model import Operation, walk
from tidegate.hosts.triton.build_scalars import Scalars
from tidegate.hosts.triton.build_state import MBARRIER_BYTES
from tidegate.hosts.triton.effects import Effect
from tidegate.hosts.triton.values import name_of
from tidegate.hosts.triton.views import View
from tidegate.index import (
    ZERO,
    add,
    scale,
)
from tidegate.language import ops
from tidegate.language.ops import Place, Value
from tidegate.language.types import BarrierObject

MOST_AT_ONCE = 64  # arrivals of one operation; each is a point


class Objects(Scalars):
    def find_objects(self) -> None:
        """Allocations that hold mbarriers: what `init_barrier` is told of."""
        allocs = {op.result: op for op in walk(self.function) if op.name == "ttg.local_alloc"}
        views = {op.result: op.operands[0] for op in walk(self.function) if self.effect(op).view}
        for op in walk(self.function):
            if op.name == "ttg.warp_specialize.partitions":
                for region in op.regions:
                    views.update(zip((name for name, _ in region.blocks[0].arguments), op.operands, strict=False))
        counts: dict[str, set[int]] = {}
        by_lanes: set[str] = set()
        by_one: set[str] = set()
        times: dict[str, int] = {}  # of which each arrival is a multiple
        for op in walk(self.function):
            if effect := self.effect(op).mbarrier:
                base = op.operands[0]
                while base in views:
                    base = views[base]
                if base in allocs and effect == "init":
                    counts.setdefault(base, set()).add(op.integer("count") or 1)
                if self.effect(op).by == "lanes":
                    by_lanes.add(base)
                elif effect in ("arrive", "expect"):
                    by_one.add(base)
                if effect in ("arrive", "expect") and op.name.startswith("ttng."):
                    times[base] = gcd(times.get(base, 0), self.times_of(op, effect))
        for base, found in counts.items():
            type_ = self.types.memdesc(allocs[base].result_types[0])
            assert type_ is not None
            if type_.all_bytes != MBARRIER_BYTES * type_.slots:
                continue  # a part of it is the barrier, of which nobody knows where it lies
            if len(found) > 1:
                continue  # nobody knows for how many arrivals it is set up where it is waited for
            (arrivals,) = found
            if base in by_lanes and arrivals % self.ttgir.lanes == 0:  # a wave arrives with all its lanes at once
                if base in by_one:
                    continue  # and one lane of another is a part of such an arrival
                arrivals //= self.ttgir.lanes
            elif base in times and base not in by_lanes and arrivals % times[base] == 0:
                # Of objects at which no data mover arrives, each arrival is one of so many at once.
                self.at_once[base] = times[base]
                arrivals //= times[base]
            value = Value(name_of(base), BarrierObject("mbarrier", arrivals, type_.slots))
            self.objects[base] = value
            offset = allocs[base].integer("allocation.offset")
            self.b._part("objects", g.Object(value.name, value.type, (), offset))  # type: ignore[arg-type]
            self.b.buffer(f"{value.name}_memory", MBARRIER_BYTES * type_.slots, 1, offset)

    def mbarrier(self, op: Operation, effect: Effect) -> None:
        view = self.views.get(op.operands[0])
        object_ = self.objects.get(view.place.base) if view is not None else None
        if view is None or object_ is None:
            self.anything(op)
            return
        if effect.mbarrier == "copies":
            self.tell(op, view, object_)
            return
        if effect.mbarrier in ("init", "end"):
            by_first = replace(self.at_barrier(view, "write"), lanes=g.ONE_LANE)  # of thread 0, as Triton compiles it
            self.by_one(op, by_first, role="local_write")
            return
        times = self.times_of(op, effect.mbarrier) // self.at_once.get(view.place.base, 1)
        if times > MOST_AT_ONCE:
            self.anything(op)
            return
        place = Place(object_, view.place.slot)
        if effect.mbarrier == "wait":
            phase = next(
                (value for value, type_ in zip(op.operands, op.operand_types, strict=False) if type_ == "i32"), ""
            )
            self.add(self.at_barrier(view, "read"), op)
            self.if_so(op, g.Sync(ops.MbarrierWait(place, self.values.index(phase) if phase else ZERO)))
        else:
            expect = op.integer("size") or 0 if effect.mbarrier == "expect" else 0
            self.add(self.at_barrier(view, "read"), op)
            arrive = g.Sync(ops.MbarrierArrive(place, expect))
            for _ in range(times):  # PTX, mbarrier.arrive: a count is so many arrivals at once
                if effect.by == "lanes":
                    self.if_so(op, arrive)
                else:
                    self.by_one(op, arrive)

    def times_of(self, op: Operation, effect: str) -> int:
        return op.integer("count") or 1 if effect == "arrive" else 1

    def tell(self, op: Operation, view: View, object_: Value) -> None:
        """The barrier is told of all copies of a wave that nobody was told of: all lanes arrive when these are done.

        Without `noIncrement` each arrival is expected in addition to those that the barrier was set up for (PTX,
        cp.async.mbarrier.arrive), which is not modelled.
        """
        if self.has_open_copies(self.function) or (op.name.startswith("ttng.") and op.attribute("noIncrement") is None):
            self.anything(op)
            return
        told = 0
        for number in self.pending:
            point = self.b.points[number]
            assert isinstance(point.action, g.Access)
            told += bytes_of(point.action.footprint)
            self.b.points[number] = replace(point, action=replace(point.action, mbarrier=view.place))
        self.pending.clear()
        self.add(self.at_barrier(view, "read"), op)
        self.sync(ops.MbarrierArrive(Place(object_, view.place.slot), told), op)

    def has_open_copies(self, function: Operation) -> bool:
        """Whether a copy may leave its block before a group or a barrier has taken it: which one does is not known."""
        for region in (region for op in walk(function) for region in op.regions):
            for block in region.blocks:
                is_open = False
                for op in block.operations:
                    inside = [self.effect(each) for each in walk(op)]
                    takes = any(each.commit == "async" or each.mbarrier == "copies" for each in inside)
                    if is_open and ((op.regions and takes) or op.name == "tt.call"):
                        return True
                    if not op.regions:
                        is_open = self.effect(op).queue == "async" or (is_open and not takes)
                if is_open:
                    return True
        return False

    def arrive_when_done(self, op: Operation, told: str, expect: int) -> None:
        """The data mover arrives for a wave when its copy is done: at once, with so many bytes to come."""
        view = self.views[told]
        object_ = self.objects.get(view.place.base)
        if object_ is None:
            self.anything(op)
            return
        self.sync(ops.MbarrierArrive(Place(object_, view.place.slot), expect), op)

    def at_barrier(self, view: View, what: str) -> g.Access:
        """Who sets a barrier up, or ends it, writes its memory; who uses it only relies on it."""
        slot = scale(view.place.slot, MBARRIER_BYTES)
        return g.Access(
            what, g.Footprint(g.Ref(f"{view.place.base}_memory", ZERO, slot), (), MBARRIER_BYTES), as_one=True
        )

    def memory_of(self, view: View) -> View:
        """Where the bytes of a descriptor lie: those of a barrier object are a buffer beside it.

        Tensors may be stored to them before the barrier is set up, and behind its end.
        """
        if view.place.base not in {each.name for each in self.objects.values()}:
            return view
        offset = add(scale(view.place.slot, MBARRIER_BYTES), view.place.offset)
        return replace(view, place=g.Ref(f"{view.place.base}_memory", ZERO, offset), start=None, is_buffer=False)

    def is_object(self, value: str) -> bool:
        """Whether a descriptor is a barrier object of which is known for how many arrivals it is set up."""
        view = self.views.get(value)
        return view is not None and view.place.base in {each.name for each in self.objects.values()}

    def barrier_ref(self, value: str) -> g.Ref | None:
        view = self.views.get(value)
        return view.place if view is not None else None


def bytes_of(foot: g.Footprint) -> int:
    """How many bytes one wave moves."""
    return foot.width * prod(each.count for each in foot.extents)
