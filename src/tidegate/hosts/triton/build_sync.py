"""Barriers of TTGIR, and the memory and barriers inside its operations.

Needs   what the effects table says of an operation
Gives   synchronization as points; accesses to memory that was laid out for an operation
Keeps   a barrier inside an operation is relied on only where it is certain: a conversion that may stay inside of warps
        has none
Cost    constant for each operation

    ttg.convert_layout {allocation.offset = 0}        write scratch, as one; barrier; read scratch
"""

from __future__ import annotations

import re

from tidegate.diag import BadInput, Finding, Label
from tidegate.graph import model as g
from tidegate.hosts.mlir.model import Operation, integer
from tidegate.hosts.triton.build_descriptors import Descriptors
from tidegate.hosts.triton.build_points import Points
from tidegate.hosts.triton.effects import Meets, UsesScratch
from tidegate.hosts.triton.halves import waves_where
from tidegate.hosts.triton.layouts import (
    crosses_warps,
    lanes_keep_to_themselves,
    may_stay_in_warps,
)
from tidegate.language import ops

_WORD = re.compile(r"<(\w+)>")  # in an attribute such as `#gpu.barrier_scope<subgroup>`
LOCAL = 1  # the bit of shared memory among the address spaces of a barrier


class Synchronization:
    def __init__(self, points: Points, descriptors: Descriptors) -> None:
        self.points, self.descriptors, self.facts = points, descriptors, points.facts

    def with_scratch(self, op: Operation, does: UsesScratch) -> None:
        """An operation that may have memory of its own."""
        if op.integer("allocation.offset") is not None:
            self.scratch(op, does)
        elif not self.needs_no_scratch(op):
            self.points.unknown(op)
        elif does.release or does.acquire:
            self.ordered(op, does)
        elif self.facts.touches_memory(op):
            self.descriptors.anything(op)

    def needs_no_scratch(self, op: Operation) -> bool:
        """Whether an operation has no memory because it needs none, not because nobody laid it out.

        Where Triton is there to say, all that need some have it: `Ttgir.is_complete`. Otherwise a conversion needs none
        if no element leaves its lane.
        """
        if self.facts.ttgir.is_complete:
            return True
        tensors = [self.facts.types.tensor(type_) for type_ in (*op.operand_types, *op.result_types)]
        if op.name != "ttg.convert_layout" or len(tensors) != 2:
            return False
        source, result = (None if each is None else each.encoding for each in tensors)
        shape = tensors[0].shape if tensors[0] is not None else ()
        return source is not None and result is not None and lanes_keep_to_themselves(source, result, shape)

    def scratch(self, op: Operation, does: UsesScratch | None) -> None:
        """Memory that was laid out for an operation; None: nobody has described what it does there."""
        offset, known = op.integer("allocation.offset"), self.facts.size_of(op)
        assert offset is not None
        if not known:  # a text may state that it is nothing, and then nothing of it would be asked about
            self.points.unknown(op)
            return
        place = self.descriptors.unnamed_memory("scratch", known, offset)
        if does is None:
            self.points.unknown(op, place.base)
            return
        foot = g.Footprint(place, (), known, True)
        if self.meets_before(op, does):
            self.points.meet(op)
        if does.by == "one":
            self.points.by_one(op, g.Access("write", foot), role="local_write")
            return
        if not self.meets_inside(op, does):
            self.points.add(g.Access("write", foot, as_one=True), op, role="local_write")
            return
        for what in does.scratch:
            if what == "barrier":
                self.points.meet(op)
            else:
                role = "local_read" if what == "read" else "local_write"
                self.points.add(g.Access(what, foot, as_one=True), op, role=role)

    def meets_inside(self, op: Operation, does: UsesScratch) -> bool:
        """Whether waves are certain to meet in an operation that has memory of its own.

        A text may give memory to one that needs none, and Triton makes no barrier for that: for a reduction, a scan or
        a gather that no warp needs another one for, and for an atomic whose result nothing takes (test_triton_believed:
        `test_memory_that_an_operation_does_not_need`).
        """
        if does.inside_a_warp:
            return not self.stays_in_warps(op)
        if does.release or does.acquire:
            return self.facts.is_used(op)
        axis, tensors = op.integer("axis"), [self.facts.types.tensor(type_) for type_ in op.operand_types]
        return axis is None or any(
            each is not None and each.encoding is not None and crosses_warps(each.encoding, each.shape, axis)
            for each in tensors
        )

    def stays_in_warps(self, op: Operation) -> bool:
        """Whether a conversion moves nothing between warps: then they do not meet in it."""
        source, result = self.facts.types.tensor(op.operand_types[0]), self.facts.types.tensor(op.result_types[0])
        if source is None or result is None or source.encoding is None or result.encoding is None:
            return True  # nobody knows: then no barrier is relied on
        return may_stay_in_warps(source.encoding, result.encoding, result.shape)

    def ordered(self, op: Operation, does: UsesScratch) -> None:
        """Atomics that release and acquire let all waves meet before and after."""
        before, after = self.meets_before(op, does), self.meets_after(op, does)
        if before:
            self.points.meet(op)
        self.points.add(g.Compute(), op, role="global_write")
        if after:
            self.points.meet(op)

    def meets_before(self, op: Operation, does: UsesScratch) -> bool:
        return does.release and op.integer("sem") in (3, 4)

    def meets_after(self, op: Operation, does: UsesScratch) -> bool:
        return does.acquire and op.integer("sem") in (2, 4)

    def barrier(self, op: Operation, does: Meets) -> None:
        if does.barrier == "conditional":
            half = waves_where(self.facts.values, op.operands[0], self.facts.waves, self.facts.ttgir.lanes)
            if half is None:  # then nobody knows who meets whom at any other barrier
                message = "it is unknown which waves meet at this barrier: not one half of them by number"
                raise BadInput(Finding("TG012", message, (Label(op.at),)))
            self.points.sync(ops.ConditionalBarrier(half), op)
            return
        if does.barrier == "unmodelled" or op.operands:
            message = f"`{op.name}` is not modelled: waves may arrive at the barrier of others, or of another number"
            raise BadInput(Finding("TG012", message, (Label(op.at),)))
        scope = _WORD.search(op.attribute(does.scope) or "") if does.scope else None
        if scope is None or scope[1] == "workgroup":
            self.points.meet(op, not self.orders_memory(op, does), stays=self.orders_more(op, does))
        elif scope[1] == "subgroup":
            self.points.add(g.Sync(ops.Fence("wave")) if self.orders_memory(op, does) else g.Compute(), op)
        else:  # of workgroups, or of whoever: nothing is known to meet there
            self.points.unknown(op)

    def orders_memory(self, op: Operation, does: Meets) -> bool:
        """Whether a barrier waits for what was done to shared memory."""
        if does.spaces:
            return bool((integer(op.attribute(does.spaces) or "") or 0) & LOCAL)
        listed = op.attribute(does.fenced) if does.fenced else None
        return does.barrier != "bare" and (listed is None or "<workgroup>" in listed)

    def orders_more(self, op: Operation, does: Meets) -> bool:
        """Whether a barrier also orders what was done to other memory, which nothing here looks at."""
        if does.spaces:
            return bool((integer(op.attribute(does.spaces) or "") or 0) & ~LOCAL)
        listed = op.attribute(does.fenced) if does.fenced else None
        return not does.shared_only and (listed is None or "<global>" in listed)
