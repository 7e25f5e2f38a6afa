"""One block, one state: what each operation does to registers, and what it does to memory and to other threads.

Needs   a state, and what the launch gives
Gives   registers behind the block, the threads that ended in it; effects are told to `Effects`
Keeps   only registers of the slice are computed; a guarded operation changes the lanes whose guard holds
Cost    linear in the operations and the threads
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

import numpy as np

from tidegate.hosts.isa import model as m
from tidegate.hosts.isa.alike import Alike, with_alike, without_numbers
from tidegate.hosts.isa.arithmetic import Calculator
from tidegate.hosts.isa.blocks import Blocks
from tidegate.hosts.isa.effects import Effects
from tidegate.hosts.isa.lanes import any_in_wave, spread
from tidegate.hosts.isa.nodes import Node
from tidegate.hosts.isa.states import Mask, State
from tidegate.hosts.isa.values import (
    ANYWHERE,
    NO_TAGS,
    OUTSIDE,
    Held,
    Numbers,
    Pred,
    Value,
    merge,
    number,
    truth,
    unknown,
    unsure,
)
from tidegate.index import ZERO


class Stepper:
    def __init__(self, blocks: Blocks, calc: Calculator, given: Mapping[str, Value], effects: Effects) -> None:
        self.blocks, self.calc, self.given, self.effects = blocks, calc, given, effects
        self.threads, self.lanes = calc.threads, effects.lanes
        self.constants: dict[int, Value] = {}
        self.alike = Alike(self.threads, self.lanes)

    def run(self, state: State, node: Node) -> tuple[dict[str, Held], Mask | None]:
        """Registers at the end, and the threads that have ended."""
        registers = dict(state.arm.registers)
        ended: Mask | None = None
        wanted = self.blocks.slice
        for op in self.blocks.ops_of(state.arm.block):
            action = op.action
            match action:
                case m.Compute() | m.Compare() | m.Logic() | m.Select() | m.FromLane() | m.Forget():
                    if not wanted.isdisjoint(m.results_of(action)):
                        self.assign(op, action, state, registers)
                case m.Touch() | m.Meet() | m.MeetLanes() | m.Commit() | m.WaitGroups() | m.OrderProxies():
                    self.act(op, state, registers, node)
                case m.UseObject():
                    self.use_object(op, action, state, registers, node)
                case m.Issued() | m.WaitCounts():
                    self.effects.count_or_wait(op, action, state, node)
                case m.Opaque():
                    self.effects.opaque(op, action, self.under(op, state, registers), node)
                    self.forget(op, action.results, False, registers)
                case m.End(aborts=True):
                    # A launch in which a thread may abort has a result only if it does not.
                    sure = self.under(op, state, registers).sure
                    if sure.any():
                        ended = Mask(sure, sure)
                case m.End():
                    if op.guard is None or not self.is_open(self.truth(op.guard, registers)):
                        ended = self.under(op, state, registers)
                        self.effects.end(op, state, ended, node)
                case m.Jump():
                    pass
                case _:
                    assert_never(action)
        return registers, ended

    # --- registers ---

    def assign(
        self,
        op: m.Op,
        action: m.Compute | m.Compare | m.Logic | m.Select | m.FromLane | m.Forget,
        state: State,
        registers: dict[str, Held],
    ) -> None:
        alike = self.alike_of(op, action, state, registers) if self.blocks.compares else None
        if isinstance(action, m.Forget):
            given = [self.value(each, registers) for each in action.sources]
            same = action.uniform and all(each.is_uniform for each in given)
            tags = NO_TAGS.union(*(each.tags for each in given)) - {OUTSIDE} if action.of == "sources" else NO_TAGS
            tags = frozenset((ANYWHERE,)) if action.of == "memory" else tags
            self.forget(op, action.results, same, registers, tags, alike)
            return
        held = self.result(action, registers)
        if isinstance(action, m.Compute) and action.operator == "shuffle":
            lane, members = (self.value(action.operands[place], registers) for place in (1, 3))
            held = self.from_here(held, lane, members, self.under(op, state, registers))
        self.put(op, action.result, held if alike is None else with_alike(held, alike), registers)

    def alike_of(
        self,
        op: m.Op,
        action: m.Compute | m.Compare | m.Logic | m.Select | m.FromLane | m.Forget,
        state: State,
        registers: Mapping[str, Held],
    ) -> Numbers:
        """Which threads get the same result, from operands as they are before the operation."""
        given = [self.alike.of(self.held(each, registers)) for each in m.operands_of(action)]
        match action:
            case m.Select(predicate=predicate, then=then, otherwise=otherwise):
                pred = self.pred(m.Register(predicate), registers)
                return self.alike.chosen(pred, self.value(then, registers), self.value(otherwise, registers))
            case m.Forget(by_wave=True) | m.FromLane() | m.Logic(operator="any") | m.Compute(operator="shuffle"):
                # Lanes that take part in one wave and not in another make another result.
                mask = state.arm.mask
                if not (mask.is_exact and self.names_all_lanes(action, registers)):
                    return self.alike.nobody
                guard = [] if op.guard is None else [self.alike.of(self.truth(op.guard, registers))]
                return self.alike.by_wave(*given, *guard, mask.may.astype(np.int64))
            case m.Forget(uniform=False):
                return self.alike.nobody
        return self.alike.together(*given)

    def names_all_lanes(self, action: m.Action, registers: Mapping[str, Held]) -> bool:
        """Whether a move between lanes, if it is one that names them, names them all: others get anything."""
        if not isinstance(action, m.Compute) or action.operator != "shuffle":
            return True
        members = self.value(action.operands[3], registers)
        every = (1 << self.lanes) - 1
        return members.plus == ZERO and bool(members.lanes.all()) and bool((members.base & every == every).all())

    def held(self, operand: m.Operand, registers: Mapping[str, Held]) -> Held:
        if isinstance(operand, m.Register) and operand.name in self.blocks.code.predicates:
            return self.pred(operand, registers)
        return self.value(operand, registers)

    def from_here(self, held: Held, lane: Value, members: Value, mask: Mask) -> Held:
        """What comes from a lane that is not there or not named, or may not be, is not defined."""
        assert isinstance(held, Value)
        thread = np.arange(self.threads)
        source = thread // self.lanes * self.lanes + (lane.base & (self.lanes - 1))
        there = mask.sure[np.minimum(source, self.threads - 1)] & (source < self.threads) & lane.lanes
        if members.plus != ZERO:
            there = np.zeros_like(there)
        for each in (source, thread):
            there = there & members.lanes & ((members.base >> (each % self.lanes)) & 1 == 1)
        if (there | ~mask.may).all():
            return held
        return Value(held.base, held.plus, held.lanes & there, False, held.tags)

    def result(
        self, action: m.Compute | m.Compare | m.Logic | m.Select | m.FromLane, registers: dict[str, Held]
    ) -> Held:
        match action:
            case m.Compute(operator=operator, operands=operands, bits=bits, signed=signed, source_bits=source):
                return self.calc.compute(
                    operator, [self.value(each, registers) for each in operands], bits, signed, source
                )
            case m.Compare(operator=operator, left=left, right=right, bits=bits, signed=signed):
                found = self.calc.compare(
                    operator, self.value(left, registers), self.value(right, registers), bits, signed
                )
                if action.other is None:
                    return found
                other = self.pred(action.other, registers)
                other = self.calc.logic("not", [other]) if action.other_negated else other
                return self.calc.logic(action.combine, [found, other])
            case m.Logic(operator="any", operands=(mask,)):
                return any_in_wave(self.pred(mask, registers), self.lanes)
            case m.FromLane(source=source, lane=lane, active=active):
                there = None if lane is None else self.value(lane, registers)
                first = self.pred(m.Register(active), registers) if active else None
                return spread(self.value(source, registers), there, first, self.lanes)
            case m.Logic(operator=operator, operands=operands):
                return self.calc.logic(operator, [self.pred(each, registers) for each in operands])
            case m.Select(predicate=predicate, then=then, otherwise=otherwise, bits=bits):
                pred = self.pred(m.Register(predicate), registers)
                if action.outside and not pred.is_number:
                    held = self.value(then, registers)
                    return replace(held, tags=held.tags | {OUTSIDE})
                return self.calc.select(pred, self.value(then, registers), self.value(otherwise, registers), bits)
            case _:
                assert_never(action)

    def put(self, op: m.Op, register: str, held: Held, registers: dict[str, Held]) -> None:
        """Under a guard the other lanes keep what they held."""
        if op.guard is not None:
            held = self.guarded(op.guard, register, held, registers)
        if register in self.blocks.valued:
            held = without_numbers(held, self.alike.of(held))
        registers[register] = held

    def guarded(self, guard: m.Guard, register: str, held: Held, registers: Mapping[str, Held]) -> Held:
        pred, old = self.truth(guard, registers), registers.get(register)
        if pred.is_number and pred.base.all():
            return held
        if old is None:
            old = unsure(self.threads, False)
            if isinstance(held, Value):
                old = unknown(self.threads, False, held.tags)
        if isinstance(held, Value) and isinstance(old, Value):
            found: Held = self.calc.select(pred, held, old, 64 if register in self.blocks.code.wide else 32)
        elif pred.is_number:
            found = merge(pred.base, held, ~pred.base, old)
        else:
            found = unsure(self.threads, pred.is_uniform and held.is_uniform and old.is_uniform)
        return with_alike(found, self.alike.chosen(pred, held, old)) if self.blocks.compares else found

    def forget(
        self,
        op: m.Op,
        results: tuple[str, ...],
        same: bool,
        registers: dict[str, Held],
        tags: frozenset[str] = frozenset((ANYWHERE,)),
        alike: Numbers | None = None,
    ) -> None:
        for each in results:
            if each in self.blocks.slice:
                is_pred = each in self.blocks.code.predicates
                held: Held = unsure(self.threads, same) if is_pred else unknown(self.threads, same, tags)
                self.put(op, each, held if alike is None else with_alike(held, alike), registers)

    def value(self, operand: m.Operand, registers: Mapping[str, Held]) -> Value:
        match operand:
            case m.Constant(value):
                if value not in self.constants:
                    self.constants[value] = number(_fit(value), self.threads)
                return self.constants[value]
            case m.Given(name):
                return self.given.get(name) or unknown(self.threads, False)
            case m.Register(name):
                held = registers.get(name)
                if isinstance(held, Value):
                    return held
                return unknown(self.threads, held is not None and held.is_uniform)
            case _:
                assert_never(operand)

    def pred(self, operand: m.Operand, registers: Mapping[str, Held]) -> Pred:
        if isinstance(operand, m.Constant):
            return truth(bool(operand.value), self.threads)
        held = registers.get(operand.name) if isinstance(operand, m.Register) else None
        return held if isinstance(held, Pred) else unsure(self.threads, False)

    def truth(self, guard: m.Guard, registers: Mapping[str, Held]) -> Pred:
        """Where a guard holds."""
        held = self.pred(m.Register(guard.register), registers)
        return self.calc.logic("not", [held]) if guard.negated else held

    def is_open(self, pred: Pred) -> bool:
        """Whether threads agree on a truth that nobody knows."""
        return pred.cond is not None or (pred.known is not None and pred.same)

    # --- effects ---

    def under(self, op: m.Op, state: State, registers: Mapping[str, Held]) -> Mask:
        """The threads in which an operation takes effect."""
        mask = state.arm.mask
        if op.guard is None:
            return Mask(mask.may, mask.sure, state.is_whole)
        pred = self.truth(op.guard, registers)
        if pred.cond is not None or not pred.is_number:
            known = pred.lanes if pred.cond is None else np.zeros(self.threads, bool)
            return mask.within(pred.base, known)
        found = mask.within(pred.base, pred.lanes)
        return Mask(found.may, found.sure, state.is_whole and bool((found.may == mask.may).all()))

    def use_object(self, op: m.Op, action: m.UseObject, state: State, registers: dict[str, Held], node: Node) -> None:
        """What an arrival gives is a number of its own; what an earlier one of the same place gave is forgotten."""
        mask = self.under(op, state, registers)
        if not mask.may.any():
            return
        given = None if action.operand is None else self.value(action.operand, registers)
        token = self.effects.use_object(op, action, self.value(action.address, registers), given, mask, state, node)
        if action.what == "arrive":
            for name, held in list(registers.items()):
                if isinstance(held, Value) and held.plus == ZERO and (held.base == token).any():
                    registers[name] = unknown(self.threads, False)
        if action.result in self.blocks.slice:
            self.put(op, action.result, number(token, self.threads), registers)

    def act(self, op: m.Op, state: State, registers: Mapping[str, Held], node: Node) -> None:
        mask = self.under(op, state, registers)
        if not mask.may.any():
            if isinstance(op.action, m.Touch) and op.action.counter:  # a wave without an active lane issues it as well
                self.effects.count_or_wait(op, op.action, state, node)
            return
        match op.action:
            case m.Touch(address=address, values=values):
                stored = [self.alike.of(self.held(each, registers)) for each in values]
                waves = self.effects.waves_of(state)
                self.effects.touch(
                    op,
                    op.action,
                    self.value(address, registers),
                    self.alike.together(*stored) if stored else None,
                    mask,
                    node,
                    waves,
                )
            case m.Meet(barrier=barrier, count=count):
                given = None if count is None else self.value(count, registers)
                self.effects.meet(op, state, mask, self.value(barrier, registers), given, node, self.blocks)
            case m.MeetLanes(mask=named):
                self.effects.meet_lanes(op, state, mask, self.value(named, registers), node)
            case m.Commit():
                self.effects.commit(op, mask, node)
            case m.WaitGroups(count=groups, copies=copies):
                self.effects.wait(op, mask, groups, copies, node)
            case m.OrderProxies():
                self.effects.fence(op, state, mask, node)


def _fit(value: int) -> int:
    """As a signed 64-bit number holds the same bits."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value
