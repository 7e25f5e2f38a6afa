"""Allocations, views and accesses of TTGIR as points.

Needs   memory descriptors with their types, and what the effects table says of an operation
Gives   buffers, views, accesses with footprints
Keeps   what is masked or scattered may touch all that it could; memory that nobody knows is all of it
Cost    constant for each operation
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidegate.graph import model as g
from tidegate.hosts.mlir.model import Operation, walk
from tidegate.hosts.triton.build_descriptors import Descriptors
from tidegate.hosts.triton.build_lanes import find_exchanged
from tidegate.hosts.triton.build_objects import Objects, bytes_of
from tidegate.hosts.triton.build_points import Points
from tidegate.hosts.triton.effects import Allocates, Touches, Views
from tidegate.hosts.triton.layout_lanes import lanes_of
from tidegate.hosts.triton.layouts import Encoding
from tidegate.hosts.triton.target import counts_instructions
from tidegate.hosts.triton.types import MemDesc
from tidegate.hosts.triton.values import name_of
from tidegate.hosts.triton.views import Owner, View, footprint, index_view, same_view, subslice_view
from tidegate.language.types import DTYPES

# Operators of atomics, as `TT_AtomicRMWAttr` numbers them.
OPERATORS = {1: "and", 2: "or", 3: "xor", 4: "add", 5: "fadd", 6: "max", 7: "min", 8: "umax", 9: "umin", 10: "exch"}
FETCHING = ("", "exch")  # what is left depends on who comes last, also where nothing takes what was there before


class Memory:
    """`in_order`: what a wave does to shared memory happens in its order."""

    def __init__(self, points: Points, descriptors: Descriptors, objects: Objects, in_order: bool) -> None:
        self.points, self.descriptors, self.objects = points, descriptors, objects
        self.facts, self.views = points.facts, descriptors.views
        self.exchanged = find_exchanged(self.facts, in_order)

    # --- descriptors ---

    def alloc(self, op: Operation, does: Allocates) -> None:
        initial = Touches(("write",), does.layout, does.own_lanes)
        type_ = self.facts.types.memdesc(op.result_types[0])
        if type_ is None:
            self.points.unknown(op)
            return
        if not type_.is_shared:
            return
        name = name_of(op.result)
        if op.result in self.descriptors.objects:
            self.views[op.result] = View(g.Ref(name), (0,) * type_.rank, type_, True)
            if op.operands:
                self.access(op, "write", op.result, initial, None, ())
            return
        offset = op.integer("allocation.offset")
        if not type_.is_known:  # from there on all of it, and any part of it is all of it
            rest = max(type_.all_bytes, self.facts.ttgir.shared - (offset or 0))
            place = self.descriptors.own_memory(name, rest, 1, offset)
            self.views[op.result] = View(place, None, type_, opaque=rest)
        else:
            # The padding behind the last slot may be another's.
            whole = not self.has_plain_slots(op) or type_.all_bytes != type_.slot_bytes * type_.slots
            slots, bytes_ = (1, type_.all_bytes) if whole else (type_.slots, type_.slot_bytes)
            place = self.descriptors.own_memory(name, bytes_, slots, offset)
            self.views[op.result] = View(place, (0,) * type_.rank, type_, slots > 1 and self.facts.frame is None)
        if self.facts.frame is None:
            # Without a `local_dealloc` memory lives as long as it is used, and Triton gives it to others behind that.
            frees = (each for each in walk(self.facts.function) if each.name == "ttg.local_dealloc")
            self.points.add(g.Alloc(name) if any(op.result in each.operands for each in frees) else g.Compute(), op)
        if op.operands:
            self.access(op, "write", op.result, initial, None, ())

    def has_plain_slots(self, op: Operation) -> bool:
        """Whether all who use an allocation take one slot of it, so that slots can be told apart by number."""
        allowed = ("ttg.memdesc_index", "ttg.local_dealloc", "scf.for", "scf.yield", "ttg.warp_specialize.partitions")
        users = [each for each in walk(self.facts.function) if op.result in each.operands]
        return all(each.name in allowed for each in users)

    def dealloc(self, op: Operation) -> None:
        view = self.views.get(op.operands[0])
        if view is not None and view.place.base in self.points.b.buffers:
            self.points.add(g.Free(view.place.base), op)

    def view(self, op: Operation, does: Views) -> None:
        source = self.views.get(op.operands[0])
        type_ = self.facts.types.memdesc(op.result_types[0])
        if source is None or type_ is None:
            return
        if does.view == "index":
            self.views[op.result] = index_view(source, self.facts.values.index(op.operands[1]), type_)
        elif does.view == "subslice":
            self.views[op.result] = subslice_view(source, op.integers("offsets"), type_)
        else:
            self.views[op.result] = same_view(source, op, type_)

    def select(self, op: Operation) -> None:
        then, otherwise = self.views.get(op.operands[1]), self.views.get(op.operands[2])
        if then is None or otherwise is None or then.opaque or otherwise.opaque:
            self.descriptors.anything(op)
            return
        both = g.Either(self.facts.values.cond(op.operands[0]), then.place, otherwise.place)
        self.points.add(g.Assign(((name_of(op.result), both),)), op)
        start = then.start if then.start == otherwise.start else None
        self.views[op.result] = View(g.Ref(name_of(op.result)), start, then.type)

    def forward(self, op: Operation) -> None:
        """Results that are the operands again."""
        for result, value in zip(op.results, op.operands, strict=False):
            if value in self.views:
                self.views[result] = self.views[value]

    # --- accesses ---

    def accesses(self, op: Operation, does: Touches) -> None:
        descriptors = self.facts.descriptors(op)
        told = next((v for v, what in zip(descriptors, does.memory, strict=False) if what == "barrier"), None)
        known = all(value in self.views for value in descriptors)
        told_to_nobody = told is not None and not self.objects.is_object(told)
        if not known or told_to_nobody or len(descriptors) > len(does.memory) or "unknown" in does.memory:
            self.descriptors.anything(op)
            return
        if told is not None:  # any wave may issue a part of the copy, and whoever does relies on the barrier
            self.points.add(self.objects.at_barrier(self.views[told], "read"), op)
        touched = [pair for pair in zip(descriptors, does.memory, strict=False) if pair[1] not in ("barrier", "view")]
        for place, (value, what) in enumerate(touched):
            self.access(op, what, value, does, told, self.issues(op, does, place == 0))

    def issues(self, op: Operation, does: Touches, is_first: bool) -> tuple[g.Issue, ...]:
        """What an access counts on the queue of its operation.

        Groups are counted where they are closed. An operation with several accesses is one unit of its queue, which the
        first of them counts: none of them is younger than another. Of copies under a mask no unit is certain.
        """
        if does.queue == "async":
            return (g.Issue(does.queue, 0, 0),)
        # The flag of a product is no mask: it says whether the product is added.
        may_be_skipped = does.queue != "wgmma" and self.facts.is_masked(op)
        return (g.Issue(does.queue, int(is_first and not may_be_skipped), 1),)

    def access(
        self, op: Operation, what: str, value: str, does: Touches, told: str | None, issues: tuple[g.Issue, ...]
    ) -> None:
        view = self.objects.memory_of(self.views[value])
        type_ = self.type_of(op, value)
        later = bool(does.queue or told) and (not does.only_if or bool(op.integer(does.only_if)))
        alone, apart = does.by == "one", self.facts.is_apart((value,))
        scattered = does.layout == "scattered"
        by_all = scattered or not self.exchanged.isdisjoint(self.facts.bases(value))
        register = None if by_all else self.register_layout(op, does)
        foot = footprint(view, type_, register, by_all, Owner(self.points.group.count, self.points.group.first))
        if self.facts.is_masked(op):
            foot = g.Footprint(foot.place, foot.extents, foot.width, True)
        operator = OPERATORS.get(op.integer("atomic_rmw_op") or 0, "")
        action = g.Access(
            what,
            foot,
            later,
            does.proxy,
            operator=operator if what == "atomic" else "",
            fetches=what == "atomic" and (operator in FETCHING or self.facts.is_used(op)),
            mbarrier=self.objects.barrier_ref(told) if told is not None else None,
            as_one=not alone and not apart,  # waves at different places may meet in one execution
            element=type_.element if what == "atomic" and type_.element in DTYPES else "",
            lanes="" if apart else self.lanes_name(op, view, type_, does, by_all),
        )
        facts: dict[str, Any] = {
            "role": "copy" if later else "local_read" if what == "read" else "local_write",
            "issues": issues if later and does.queue else (),
        }
        if alone:
            self.points.by_one(op, action, **facts)
        elif self.stores_itself(op, does):
            self.objects.pending.append(self.copy_or_store(op, action, **facts))
        else:
            number = self.points.add(action, op, **facts)
            if does.queue == "async":
                self.objects.pending.append(number)
            if does.queue == "tdm" and told is not None:
                self.objects.arrive_when_done(op, told, bytes_of(foot))

    def stores_itself(self, op: Operation, does: Touches) -> bool:
        """Whether a copy stores elements whose mask is off as a store of its own."""
        given = does.stores and self.facts.ttgir.gpu.backend == "hip" and op.segments[does.stores :]
        return bool(given and given[0])

    def copy_or_store(self, op: Operation, copy: g.Access, **facts: Any) -> int:
        """Each byte comes with the copy, or by an ordinary write for which no wait for copies is: one of two ways.

        The write was left out: with a bare barrier behind the wait for the copy, the other waves may come before it
        (test_triton_believed: `test_what_a_masked_copy_stores_itself`).
        """
        store = replace(copy, is_async=False, proxy="generic", mbarrier=None, lanes="")
        test = self.points.add(g.Branch(None), op, "other")
        number = self.points.add(copy, op, **facts)
        with self.points.b.other_way(test):
            self.points.add(store, op, role="local_write")
        self.points.add(g.Compute(), op, "copied", insertable=False)
        return number

    def lanes_name(self, op: Operation, view: View, type_: MemDesc, does: Touches, by_all: bool) -> str:
        """The name of the map from bytes to lanes; where the bytes of all waves count, it is another one."""
        plain = does.own_lanes and view.start is not None and not view.opaque and type_.slots == 1
        if does.queue and self.facts.ttgir.gpu.backend == "hip" and not counts_instructions(self.facts.ttgir.gpu):
            # Lane i of a load to LDS writes the i-th piece behind M0, whatever lane holds the pointer: for a swizzle
            # Triton moves pointers between lanes. GPUs with a counter for such copies take an address of each lane.
            return ""
        register = self.register_layout(op, does) if plain else None
        if register is None:
            return ""
        found = lanes_of(
            register,
            type_.slot_shape,
            view.type.encoding,
            view.type.allocated[-view.type.rank :],
            type_.bits,
            self.facts.ttgir.gpu.backend,
            start=view.start if view.start is not None and any(view.start) else None,
            first_wave=self.points.group.first,
            lane_by_lane=bool(does.queue),
        )
        return f"{found} of all waves" if found and by_all else found

    def type_of(self, op: Operation, value: str) -> MemDesc:
        if value == op.result:
            text = op.result_types[0]
        else:
            text = op.operand_types[op.operands.index(value)]
        found = self.facts.types.memdesc(text)
        assert found is not None
        return found

    def register_layout(self, op: Operation, does: Touches) -> Encoding | None:
        """The encoding that says which warp touches which bytes."""
        texts = op.result_types if does.layout == "result" else op.operand_types
        found = next((tensor for text in texts if (tensor := self.facts.types.tensor(text)) is not None), None)
        return None if found is None else found.encoding
