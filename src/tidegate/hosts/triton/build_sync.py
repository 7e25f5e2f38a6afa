"""Barriers and waits of TTGIR, and the memory and barriers inside its operations.

Needs   what the effects table says of an operation
Gives   synchronization as points; accesses to memory that was laid out for an operation
Keeps   a barrier inside an operation is relied on only where it is certain: a conversion that may stay inside of warps
        has none
Cost    constant for each operation

    ttg.convert_layout {allocation.offset = 0}        write scratch, as one; barrier; read scratch
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from math import prod

from tidegate.diag import BadInput, Finding, Label
from tidegate.graph import model as g
from tidegate.hosts.mlir.model import Block, Operation, integer, walk
from tidegate.hosts.triton.build_memory import Memory
from tidegate.hosts.triton.effects import Effect
from tidegate.hosts.triton.halves import waves_where
from tidegate.hosts.triton.layouts import (
    crosses_warps,
    is_warp_private,
    lanes_keep_to_themselves,
    may_stay_in_warps,
)
from tidegate.hosts.triton.target import counts_instructions
from tidegate.hosts.triton.tokens import count_waits, fewest_instructions
from tidegate.language import ops

_WORD = re.compile(r"<(\w+)>")  # in an attribute such as `#gpu.barrier_scope<subgroup>`
BYTES_AT_ONCE = 16  # of a lane: `global_load_async_to_lds_b128` is the widest
LOCAL = 1  # the bit of shared memory among the address spaces of a barrier
WARP_GROUP = 4  # waves that carry out a matrix product of sm_90 together


class Synchronization(Memory):
    def needs_no_scratch(self, op: Operation) -> bool:
        """Whether an operation has no memory because it needs none, not because nobody laid it out.

        Where Triton is there to say, all that need some have it: `Ttgir.is_complete`. Otherwise a conversion needs none
        if no element leaves its lane.
        """
        if self.ttgir.is_complete:
            return True
        tensors = [self.types.tensor(type_) for type_ in (*op.operand_types, *op.result_types)]
        if op.name != "ttg.convert_layout" or len(tensors) != 2:
            return False
        source, result = (None if each is None else each.encoding for each in tensors)
        shape = tensors[0].shape if tensors[0] is not None else ()
        return source is not None and result is not None and lanes_keep_to_themselves(source, result, shape)

    def scratch(self, op: Operation, effect: Effect) -> None:
        offset, known = op.integer("allocation.offset"), self.size_of(op)
        assert offset is not None
        if not known:  # a text may state that it is nothing, and then nothing of it would be asked about
            self.unknown.append(op)
            self.add(g.Unknown(()), op)
            return
        place = self.own_memory(f"%scratch{len(self.b.parts.get('buffers', ()))}", known, 1, offset)
        if not effect.scratch:
            self.unknown.append(op)
            self.add(g.Unknown((place.base,)), op)
            return
        foot = g.Footprint(place, (), known, True)
        if self.meets_before(op, effect):
            self.meet(op)
        if effect.by == "one":
            self.by_one(op, g.Access("write", foot), role="local_write")
            return
        if not self.meets_inside(op, effect):
            self.add(g.Access("write", foot, as_one=True), op, role="local_write")
            return
        for what in effect.scratch:
            if what == "barrier":
                self.meet(op)
            else:
                role = "local_read" if what == "read" else "local_write"
                self.add(g.Access(what, foot, as_one=True), op, role=role)

    def meets_inside(self, op: Operation, effect: Effect) -> bool:
        """Whether waves are certain to meet in an operation that has memory of its own.

        A text may give memory to one that needs none, and Triton makes no barrier for that: for a reduction, a scan or
        a gather that no warp needs another one for, and for an atomic whose result nothing takes (test_triton_believed:
        `test_memory_that_an_operation_does_not_need`).
        """
        if effect.inside_a_warp:
            return not self.stays_in_warps(op)
        if effect.release or effect.acquire:
            return self.is_used(op)
        axis, tensors = op.integer("axis"), [self.types.tensor(type_) for type_ in op.operand_types]
        return axis is None or any(
            each is not None and each.encoding is not None and crosses_warps(each.encoding, each.shape, axis)
            for each in tensors
        )

    def stays_in_warps(self, op: Operation) -> bool:
        """Whether a conversion moves nothing between warps: then they do not meet in it."""
        source, result = self.types.tensor(op.operand_types[0]), self.types.tensor(op.result_types[0])
        if source is None or result is None or source.encoding is None or result.encoding is None:
            return True  # nobody knows: then no barrier is relied on
        return may_stay_in_warps(source.encoding, result.encoding, result.shape)

    def ordered(self, op: Operation, effect: Effect) -> None:
        """Atomics that release and acquire let all waves meet before and after."""
        before, after = self.meets_before(op, effect), self.meets_after(op, effect)
        if before:
            self.meet(op)
        self.add(g.Compute(), op, role="global_write")
        if after:
            self.meet(op)

    def meets_before(self, op: Operation, effect: Effect) -> bool:
        return effect.release and op.integer("sem") in (3, 4)

    def meets_after(self, op: Operation, effect: Effect) -> bool:
        return effect.acquire and op.integer("sem") in (2, 4)

    def barrier(self, op: Operation, effect: Effect) -> None:
        if effect.barrier == "conditional":
            half = waves_where(self.values, op.operands[0], self.waves, self.ttgir.lanes)
            if half is None:  # then nobody knows who meets whom at any other barrier
                message = "it is unknown which waves meet at this barrier: not one half of them by number"
                raise BadInput(Finding("TG012", message, (Label(op.at),)))
            self.sync(ops.ConditionalBarrier(half), op)
            return
        if effect.barrier == "unmodelled" or op.operands:
            message = f"`{op.name}` is not modelled: waves may arrive at the barrier of others, or of another number"
            raise BadInput(Finding("TG012", message, (Label(op.at),)))
        scope = _WORD.search(op.attribute(effect.scope) or "") if effect.scope else None
        if scope is None or scope[1] == "workgroup":
            self.meet(op, not self.orders_memory(op, effect), stays=self.orders_more(op, effect))
        elif scope[1] == "subgroup":
            self.add(g.Sync(ops.Fence("wave")) if self.orders_memory(op, effect) else g.Compute(), op)
        else:  # of workgroups, or of whoever: nothing is known to meet there
            self.unknown.append(op)
            self.add(g.Unknown(()), op)

    def orders_memory(self, op: Operation, effect: Effect) -> bool:
        """Whether a barrier waits for what was done to shared memory."""
        if effect.spaces:
            return bool((integer(op.attribute(effect.spaces) or "") or 0) & LOCAL)
        listed = op.attribute(effect.fenced) if effect.fenced else None
        return effect.barrier != "bare" and (listed is None or "<workgroup>" in listed)

    def orders_more(self, op: Operation, effect: Effect) -> bool:
        """Whether a barrier also orders what was done to other memory, which nothing here looks at."""
        if effect.spaces:
            return bool((integer(op.attribute(effect.spaces) or "") or 0) & ~LOCAL)
        listed = op.attribute(effect.fenced) if effect.fenced else None
        return not effect.shared_only and (listed is None or "<global>" in listed)

    def wait(self, op: Operation, effect: Effect) -> None:
        count = self.count_of(op, effect)
        if count is None or count < 0:  # a negative count is a very large one where it is compiled
            self.unknown.append(op)  # for how many, or how many instructions a copy becomes, is not known here
            self.add(g.Compute(), op)
            return
        what = ops.WaitCount(((effect.wait, count),))
        if effect.by == "one":
            self.by_one(op, g.Sync(what))
        else:
            self.sync(what, op)
        if effect.meets and self.group.count > WARP_GROUP and op.attribute(effect.meets) is None:
            if self.ttgir.is_open or op.at.line in self.ttgir.relaxed:  # to be decided, or decided
                self.relaxed.append(op)
            else:
                self.meet(op)

    def count_of(self, op: Operation, effect: Effect) -> int | None:
        """How many groups, or copies of a queue without groups, may be under way behind a wait."""
        count = op.integer(effect.count)
        if effect.wait not in ("async", "tdm") or not counts_instructions(self.ttgir.gpu):
            return count if effect.unit == "groups" or not count else None
        if effect.unit == "instructions" and not count:
            return count
        if op.operands and self.counted is None:
            self.counted = count_waits(self.function, self.least_instructions)
        left = self.counted.get(id(op)) if op.operands and self.counted is not None else None
        if effect.unit == "groups":
            found = count if not op.operands else None if left is None else left.count
            larger = effect.wait == "async" and self.jumps_over_copies
            larger |= not op.operands and self.calls_for_copies(effect.wait)
            none = found == 0 and (effect.wait == "tdm" or self.is_closed_at(op))
            return found if none or not larger else None
        assert count is not None
        if left is not None and count <= left.instructions:
            return left.count
        if effect.wait == "tdm":  # each copy is one instruction at least
            return count
        fewest = fewest_instructions((each for each in self.ttgir.functions if each.regions), self.least_instructions)
        return -(-count // fewest) if fewest else None

    def least_instructions(self, op: Operation) -> int:
        """How many instructions a wave issues for a copy, at least: each moves no more than 16 bytes of a lane.

        Where there are more lanes than elements, some waves may issue none.
        """
        if self.may_be_jumped_over(op):
            return 0
        tensor = next(filter(None, map(self.types.tensor, op.operand_types)), None)
        memory = next(filter(None, map(self.types.memdesc, op.operand_types)), None)
        if tensor is None or memory is None or memory.bits % 8:
            return 0
        elements, lanes = prod(tensor.shape), self.waves * self.ttgir.lanes
        return max(1, elements * memory.bits // 8 // (lanes * BYTES_AT_ONCE)) if elements >= lanes else 0

    def is_closed_at(self, wait: Operation) -> bool:
        """Whether every copy before a wait is in a group: Triton leaves those that are not under way."""
        functions = [each for each in self.ttgir.functions if each.regions]
        if any(map(self.has_open_copies, functions)):
            return False
        blocks = (block for each in (self.function, *functions) for op in walk(each) for block in blocks_of(op))
        before = next(found[: found.index(wait)] for block in blocks if wait in (found := block.operations))
        last = next((op for op in reversed(before) if self.effect(op).queue or self.effect(op).commit), None)
        return last is None or bool(self.effect(last).commit)

    def calls_for_copies(self, queue: str) -> bool:
        """Whether a function that is called may start copies, of which Triton counts none.

        It goes back to older groups or copies instead, and adds up their instructions (test_triton_views:
        `test_copies_of_a_called_function_are_not_counted`). Where tokens are named, ages end at a call.
        """
        if not any(op.name == "tt.call" for op in walk(self.function)):
            return False
        name = self.function.string("sym_name")
        others = (each for each in self.ttgir.functions if each.string("sym_name") != name)
        rows = (self.effect(op) for each in others for op in walk(each))
        return any(queue in (row.queue, row.commit) for row in rows)

    @cached_property
    def jumps_over_copies(self) -> bool:
        """Whether a wave may issue fewer instructions for a group than Triton counts for it.

        The count that Triton works out is then too large for that wave, and older copies of it go on behind the wait
        (test_triton_views: `test_a_group_that_a_wave_jumps_over_is_not_counted`).
        """
        functions = (each for each in self.ttgir.functions if each.regions)
        return any(self.may_be_jumped_over(op) for each in functions for op in walk(each))

    def may_be_jumped_over(self, op: Operation) -> bool:
        """Whether some waves may issue nothing for a copy: all lanes are masked, or others move their elements."""
        if not self.effect(op).skipped:
            return False
        tensor = next(filter(None, map(self.types.tensor, op.operand_types)), None)
        if tensor is None or tensor.encoding is None or self.is_masked(op):
            return True
        return not is_warp_private(tensor.encoding, tensor.encoding, tensor.shape)


def blocks_of(op: Operation) -> Iterator[Block]:
    """The blocks of the regions of one operation, and none that lie deeper."""
    return (block for region in op.regions for block in region.blocks)
