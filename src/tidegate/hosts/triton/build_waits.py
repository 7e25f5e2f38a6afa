"""Waits of TTGIR for copies: how many groups or instructions may be under way behind each.

Needs   counts and tokens of waits, and the copies before them
Gives   waits as points, in the unit of their queue
Keeps   a count that is not certain for every wave waits for nothing, and is reported
Cost    constant for each wait, and the whole file once for those whose count other functions may change

    %b = ttg.async_wait %a {num = 1}        at most one group of copies is under way
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import prod

from tidegate.graph import model as g
from tidegate.hosts.mlir.model import Block, Operation, walk
from tidegate.hosts.triton.build_objects import has_open_copies
from tidegate.hosts.triton.build_points import Points
from tidegate.hosts.triton.effects import Touches, WaitsFor
from tidegate.hosts.triton.layouts import is_warp_private
from tidegate.hosts.triton.target import counts_instructions
from tidegate.hosts.triton.tokens import Left, count_waits, fewest_instructions
from tidegate.language import ops

BYTES_AT_ONCE = 16  # of a lane: `global_load_async_to_lds_b128` is the widest
WARP_GROUP = 4  # waves that carry out a matrix product of sm_90 together


class Waits:
    def __init__(self, points: Points) -> None:
        self.points, self.facts = points, points.facts

    def wait(self, op: Operation, does: WaitsFor) -> None:
        count = self.count_of(op, does)
        if count is None or count < 0:  # a negative count is a very large one where it is compiled
            self.points.collected.unknown.append(op)  # for how many, or how many instructions a copy becomes
            self.points.add(g.Compute(), op)
            return
        what = ops.WaitCount(((does.wait, count),))
        if does.by == "one":
            self.points.by_one(op, g.Sync(what))
        else:
            self.points.sync(what, op)
        if does.meets and self.points.group.count > WARP_GROUP and op.attribute(does.meets) is None:
            if self.facts.ttgir.is_open or op.at.line in self.facts.ttgir.relaxed:  # to be decided, or decided
                self.points.collected.relaxed.append(op)
            else:
                self.points.meet(op)

    def count_of(self, op: Operation, does: WaitsFor) -> int | None:
        """How many groups, or copies of a queue without groups, may be under way behind a wait."""
        count = op.integer(does.count)
        if does.wait not in ("async", "tdm") or not counts_instructions(self.facts.ttgir.gpu):
            return count if does.unit == "groups" or not count else None
        if does.unit == "instructions" and not count:
            return count
        left = self.left.get(id(op)) if op.operands else None
        if does.unit == "groups":
            found = count if not op.operands else None if left is None else left.count
            larger = does.wait == "async" and self.jumps_over_copies
            larger |= not op.operands and self.calls_for_copies(does.wait)
            none = found == 0 and (does.wait == "tdm" or self.is_closed_at(op))
            return found if none or not larger else None
        assert count is not None
        if left is not None and count <= left.instructions:
            return left.count
        if does.wait == "tdm":  # each copy is one instruction at least
            return count
        fewest = fewest_instructions(
            (each for each in self.facts.ttgir.functions if each.regions), self.least_instructions
        )
        return -(-count // fewest) if fewest else None

    @cached_property
    def left(self) -> dict[int, Left]:
        """What may be under way behind waits that are handed tokens, by the `id` of the wait."""
        return count_waits(self.facts.function, self.least_instructions)

    def least_instructions(self, op: Operation) -> int:
        """How many instructions a wave issues for a copy, at least: each moves no more than 16 bytes of a lane.

        Where there are more lanes than elements, some waves may issue none.
        """
        if self.may_be_jumped_over(op):
            return 0
        tensor = next(filter(None, map(self.facts.types.tensor, op.operand_types)), None)
        memory = next(filter(None, map(self.facts.types.memdesc, op.operand_types)), None)
        if tensor is None or memory is None or memory.bits % 8:
            return 0
        elements, lanes = prod(tensor.shape), self.facts.waves * self.facts.ttgir.lanes
        return max(1, elements * memory.bits // 8 // (lanes * BYTES_AT_ONCE)) if elements >= lanes else 0

    def is_closed_at(self, wait: Operation) -> bool:
        """Whether every copy before a wait is in a group: Triton leaves those that are not under way."""
        functions = [each for each in self.facts.ttgir.functions if each.regions]
        if any(has_open_copies(self.facts, each) for each in functions):
            return False
        blocks = (block for each in (self.facts.function, *functions) for op in walk(each) for block in blocks_of(op))
        before = next(found[: found.index(wait)] for block in blocks if wait in (found := block.operations))
        last = next(
            (op for op in reversed(before) if self.facts.effect(op).queue or self.facts.effect(op).commit), None
        )
        return last is None or bool(self.facts.effect(last).commit)

    def calls_for_copies(self, queue: str) -> bool:
        """Whether a function that is called may start copies, of which Triton counts none.

        It goes back to older groups or copies instead, and adds up their instructions (test_triton_views:
        `test_copies_of_a_called_function_are_not_counted`). Where tokens are named, ages end at a call.
        """
        if not any(op.name == "tt.call" for op in walk(self.facts.function)):
            return False
        name = self.facts.function.string("sym_name")
        others = (each for each in self.facts.ttgir.functions if each.string("sym_name") != name)
        rows = (self.facts.effect(op) for each in others for op in walk(each))
        return any(queue in (row.queue, row.commit) for row in rows)

    @cached_property
    def jumps_over_copies(self) -> bool:
        """Whether a wave may issue fewer instructions for a group than Triton counts for it.

        The count that Triton works out is then too large for that wave, and older copies of it go on behind the wait
        (test_triton_views: `test_a_group_that_a_wave_jumps_over_is_not_counted`).
        """
        functions = (each for each in self.facts.ttgir.functions if each.regions)
        return any(self.may_be_jumped_over(op) for each in functions for op in walk(each))

    def may_be_jumped_over(self, op: Operation) -> bool:
        """Whether some waves may issue nothing for a copy: all lanes are masked, or others move their elements."""
        does = self.facts.effect(op).does
        if not (isinstance(does, Touches) and does.skipped):
            return False
        tensor = next(filter(None, map(self.facts.types.tensor, op.operand_types)), None)
        if tensor is None or tensor.encoding is None or self.facts.is_masked(op):
            return True
        return not is_warp_private(tensor.encoding, tensor.encoding, tensor.shape)


def blocks_of(op: Operation) -> Iterator[Block]:
    """The blocks of the regions of one operation, and none that lie deeper."""
    return (block for region in op.regions for block in region.blocks)
