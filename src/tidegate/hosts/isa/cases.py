"""Branches on a small remainder of a number that never changes: one way for each remainder.

Needs   a condition, the names that keep their value, and the registers that speak of the remainder
Gives   the remainder that decides the condition; registers and frames in which it is a number
Keeps   every value of the number belongs to exactly one case
Cost    linear in the live registers, for each case

    for (k = 0; k < n % 4; k++)      four cases of known trip count: compilers leave such loops behind unrolled ones
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import overload

from tidegate.hosts.isa.arithmetic import Calculator
from tidegate.hosts.isa.states import Arm, Frame, State
from tidegate.hosts.isa.values import Held, Pred
from tidegate.index import ZERO, Binary, Compare, Cond, Const, Index, Inexact, Logic, Not, Select, names, walk

MOST_CASES = 8  # compilers unroll loops by 4 or 8


def find_case(cond: Cond, fixed: Container[str]) -> Binary | None:
    """The remainder that alone decides a condition."""
    found, most = None, 1
    for node in walk(cond):
        match node:
            case Binary("mod", _, Const(by)) if most < by <= MOST_CASES and all(name in fixed for name in names(node)):
                found, most = node, by
    return None if found is None or names(_put(cond, found, 0)) else found


def in_case(state: State, remainder: Binary, value: int, calc: Calculator, wide: Container[str]) -> State:
    """The state where the remainder has one value. `wide`: registers of 64 bits."""

    def put(arm: Arm) -> Arm:
        held = {
            name: _held_in_case(each, remainder, value, calc, 64 if name in wide else 32)
            for name, each in arm.registers.items()
        }
        return Arm(arm.block, arm.mask, held)

    def put_frame(frame: Frame) -> Frame:
        done = None if frame.done is None else put(frame.done)
        return replace(frame, waiting=tuple(map(put, frame.waiting)), done=done)

    return State(put(state.arm), tuple(map(put_frame, state.frames)))


def _held_in_case(held: Held, remainder: Binary, value: int, calc: Calculator, bits: int) -> Held:
    expr = held.cond if isinstance(held, Pred) else held.plus
    if expr is None or expr == ZERO or not any(isinstance(node, Binary) and node.op == "mod" for node in walk(expr)):
        return held
    if isinstance(held, Pred):
        assert held.cond is not None
        return calc.decided(calc.math.put_cond(_put(held.cond, remainder, value), {}))
    return calc.restated(held, _put(held.plus, remainder, value), bits)


@overload
def _put(expr: Index, remainder: Binary, value: int) -> Index: ...
@overload
def _put(expr: Cond, remainder: Binary, value: int) -> Cond: ...
def _put(expr: Index | Cond, remainder: Binary, value: int) -> Index | Cond:
    assert isinstance(remainder.right, Const)
    size = remainder.right.value
    match expr:
        case Binary("mod", left, Const(by)) if left == remainder.left and by > 0 and size % by == 0:
            return Const(value % by)  # the remainder itself, or one of it
        case Binary(op, left, right):
            return Binary(op, _put(left, remainder, value), _put(right, remainder, value))
        case Compare(op, left, right):
            return Compare(op, _put(left, remainder, value), _put(right, remainder, value))
        case Select(cond, then, otherwise):
            held = (_put(then, remainder, value), _put(otherwise, remainder, value))
            return Select(_put(cond, remainder, value), *held)
        case Logic(op, left, right):
            return Logic(op, _put(left, remainder, value), _put(right, remainder, value))
        case Not(inner):
            return Not(_put(inner, remainder, value))
        case Inexact(inner):
            return Inexact(_put(inner, remainder, value))
    return expr
