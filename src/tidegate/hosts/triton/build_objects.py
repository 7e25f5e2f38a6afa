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
from tidegate.hosts.triton.build_descriptors import Descriptors
from tidegate.hosts.triton.build_facts import FunctionFacts
from tidegate.hosts.triton.build_points import Points
from tidegate.hosts.triton.effects import UsesObject, Views
from tidegate.hosts.triton.lifetimes import lives_once
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

MBARRIER_BYTES = 8
MOST_AT_ONCE = 64  # arrivals of one operation; each is a point


class Objects:
    def __init__(self, points: Points, descriptors: Descriptors) -> None:
        self.points, self.descriptors = points, descriptors
        self.facts, self.views = points.facts, descriptors.views
        self.at_once: dict[str, int] = {}  # object → arrivals that count as one of it: all of it are as many
        self.pending: list[int] = []  # copies that are in no group and report to no barrier yet

    def find(self) -> None:
        """Allocations that hold mbarriers: what `init_barrier` is told of."""
        facts, b = self.facts, self.points.b
        allocs = {op.result: op for op in walk(facts.function) if op.name == "ttg.local_alloc"}
        views = {op.result: op.operands[0] for op in walk(facts.function) if isinstance(facts.effect(op).does, Views)}
        for op in walk(facts.function):
            if op.name == "ttg.warp_specialize.partitions":
                for region in op.regions:
                    views.update(zip((name for name, _ in region.blocks[0].arguments), op.operands, strict=False))
        counts: dict[str, set[int]] = {}
        by_lanes: set[str] = set()
        by_one: set[str] = set()
        times: dict[str, int] = {}  # of which each arrival is a multiple
        for op in walk(facts.function):
            if isinstance(does := facts.effect(op).does, UsesObject):
                base = op.operands[0]
                while base in views:
                    base = views[base]
                if base in allocs and does.mbarrier == "init":
                    counts.setdefault(base, set()).add(op.integer("count") or 1)
                if does.by == "lanes":
                    by_lanes.add(base)
                elif does.mbarrier in ("arrive", "expect"):
                    by_one.add(base)
                if does.mbarrier in ("arrive", "expect") and op.name.startswith("ttng."):
                    times[base] = gcd(times.get(base, 0), times_of(op, does))
        for base, found in counts.items():
            type_ = facts.types.memdesc(allocs[base].result_types[0])
            assert type_ is not None
            if type_.all_bytes != MBARRIER_BYTES * type_.slots:
                continue  # a part of it is the barrier, of which nobody knows where it lies
            if len(found) > 1:
                continue  # nobody knows for how many arrivals it is set up where it is waited for
            if not lives_once(facts.function, base, type_.slots, views, facts.effect):
                continue
            (arrivals,) = found
            if base in by_lanes and arrivals % facts.ttgir.lanes == 0:  # a wave arrives with all its lanes at once
                if base in by_one:
                    continue  # and one lane of another is a part of such an arrival
                arrivals //= facts.ttgir.lanes
            elif base in times and base not in by_lanes and arrivals % times[base] == 0:
                # Of objects at which no data mover arrives, each arrival is one of so many at once.
                self.at_once[name_of(base)] = times[base]
                arrivals //= times[base]
            offset = allocs[base].integer("allocation.offset")
            value = b.object(name_of(base), BarrierObject("mbarrier", arrivals, type_.slots), (), offset)
            self.descriptors.objects[base] = value
            b.buffer(f"{value.name}_memory", MBARRIER_BYTES * type_.slots, 1, offset)

    def mbarrier(self, op: Operation, does: UsesObject) -> None:
        if self.facts.is_apart(op.operands):  # nobody knows who arrives where
            self.points.unknown(op)
            return
        view = self.views.get(op.operands[0])
        object_ = self.descriptors.objects.get(view.place.base) if view is not None else None
        if view is None or object_ is None:
            self.descriptors.anything(op)
            return
        if does.mbarrier == "copies":
            self.tell(op, view, object_)
            return
        if does.mbarrier in ("init", "end"):
            by_first = replace(self.at_barrier(view, "write"), lanes=g.ONE_LANE)  # of thread 0, as Triton compiles it
            self.points.by_one(op, by_first, role="local_write")
            return
        times = times_of(op, does) // self.at_once.get(object_.name, 1)
        if times > MOST_AT_ONCE:
            self.descriptors.anything(op)
            return
        place = Place(object_, view.place.slot)
        if does.mbarrier == "wait":
            phase = next(
                (value for value, type_ in zip(op.operands, op.operand_types, strict=False) if type_ == "i32"), ""
            )
            self.points.add(self.at_barrier(view, "read"), op)
            self.points.if_so(op, g.Sync(ops.MbarrierWait(place, self.facts.values.index(phase) if phase else ZERO)))
        else:
            expect = op.integer("size") or 0 if does.mbarrier == "expect" else 0
            self.points.add(self.at_barrier(view, "read"), op)
            arrive = g.Sync(ops.MbarrierArrive(place, expect))
            for _ in range(times):  # PTX, mbarrier.arrive: a count is so many arrivals at once
                if does.by == "lanes":
                    self.points.if_so(op, arrive)
                else:
                    self.points.by_one(op, arrive)

    def tell(self, op: Operation, view: View, object_: Value) -> None:
        """The barrier is told of all copies of a wave that nobody was told of: all lanes arrive when these are done.

        Without `noIncrement` each arrival is expected in addition to those that the barrier was set up for (PTX,
        cp.async.mbarrier.arrive), which is not modelled.
        """
        if has_open_copies(self.facts, self.facts.function) or (
            op.name.startswith("ttng.") and op.attribute("noIncrement") is None
        ):
            self.descriptors.anything(op)
            return
        told = 0
        for number in self.pending:
            point = self.points.b.points[number]
            assert isinstance(point.action, g.Access)
            told += bytes_of(point.action.footprint)
            point.action = replace(point.action, mbarrier=view.place)
        self.pending.clear()
        self.points.add(self.at_barrier(view, "read"), op)
        self.points.sync(ops.MbarrierArrive(Place(object_, view.place.slot), told), op)

    def arrive_when_done(self, op: Operation, told: str, expect: int) -> None:
        """The data mover arrives for a wave when its copy is done: at once, with so many bytes to come."""
        view = self.views[told]
        object_ = self.descriptors.objects.get(view.place.base)
        if object_ is None:
            self.descriptors.anything(op)
            return
        self.points.sync(ops.MbarrierArrive(Place(object_, view.place.slot), expect), op)

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
        if view.place.base not in {each.name for each in self.descriptors.objects.values()}:
            return view
        offset = add(scale(view.place.slot, MBARRIER_BYTES), view.place.offset)
        return replace(view, place=g.Ref(f"{view.place.base}_memory", ZERO, offset), start=None, is_buffer=False)

    def is_object(self, value: str) -> bool:
        """Whether a descriptor is a barrier object of which is known for how many arrivals it is set up."""
        view = self.views.get(value)
        return view is not None and view.place.base in {each.name for each in self.descriptors.objects.values()}

    def barrier_ref(self, value: str) -> g.Ref | None:
        view = self.views.get(value)
        return view.place if view is not None else None


def times_of(op: Operation, does: UsesObject) -> int:
    """How many arrivals an operation is."""
    return op.integer("count") or 1 if does.mbarrier == "arrive" else 1


def bytes_of(foot: g.Footprint) -> int:
    """How many bytes one wave moves."""
    return foot.width * prod(each.count for each in foot.extents)


def has_open_copies(facts: FunctionFacts, function: Operation) -> bool:
    """Whether a copy may leave its block before a group or a barrier has taken it: which one does is not known."""
    for region in (region for op in walk(function) for region in op.regions):
        for block in region.blocks:
            is_open = False
            for op in block.operations:
                inside = [facts.effect(each) for each in walk(op)]
                takes = any(each.commit == "async" or each.mbarrier == "copies" for each in inside)
                if is_open and ((op.regions and takes) or op.name == "tt.call"):
                    return True
                if not op.regions:
                    is_open = facts.effect(op).queue == "async" or (is_open and not takes)
            if is_open:
                return True
    return False
