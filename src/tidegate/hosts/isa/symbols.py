"""Registers that become symbols where a loop begins.

Needs   a state that comes to a planned head
Gives   the state with `base + symbol` in planned registers, and what the symbols are assigned on the way
Keeps   a value that speaks of a symbol that changes is put in terms of the new one, or forgotten
Cost    linear in the live registers, those of waiting arms included
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

import numpy as np

from tidegate.hosts.isa.arithmetic import Calculator
from tidegate.hosts.isa.nodes import Assigned
from tidegate.hosts.isa.plans import Plan, Replan
from tidegate.hosts.isa.states import Arm, Frame, Registers, State
from tidegate.hosts.isa.values import Held, Pred, Value, unknown, unsure
from tidegate.index import ZERO, Binary, Const, Index, Name, names

# By bits: counters do not wrap around. Narrower ones do, and their symbols are known up to that.
MOST = {32: (1 << 31) - 1, 64: (1 << 62) - 1}
MOST_LOWS = 3  # a register that keeps falling has no least value


def enter_head(state: State, plan: Plan, calc: Calculator, known: list[str]) -> tuple[State, Assigned]:
    """The state behind the edge, and the assignments on it."""
    head = state.arm.block
    registers = dict(state.arm.registers)
    assigned: list[tuple[str, Index]] = []
    new: dict[str, Held] = {}
    tied: list[str] = []
    for register, kind in plan.kinds[head].items():
        if kind == "tied":
            tied.append(register)
            continue
        held = registers.get(register)
        if held is None:
            continue
        if isinstance(held, Pred):
            new[register] = held if kind != "lost" else unsure(calc.threads, held.is_uniform)
            continue
        if kind == "lost" or not held.is_known:
            new[register] = unknown(calc.threads, held.is_uniform, held.tags) if kind == "lost" else held
            continue
        bits = _bits(register, plan)
        held, pair = _as_symbol(state, register, kind, held, bits, plan, calc)
        new[register] = held
        assigned.append(pair)
        if pair[0] not in known:
            known.append(pair[0])
    for register in tied:
        if (held := registers.get(register)) is not None:
            new[register] = _tied(state, register, held, new, {name for name, _ in assigned}, plan, calc)
    by = {name: _before(name, value, calc) for name, value in assigned}
    for register, held in registers.items():
        if register not in new:
            new[register] = _renamed(held, by, calc, _bits(register, plan))
    arm = Arm(head, state.arm.mask, new)
    frames = tuple(_renamed_frame(each, by, calc, plan) for each in state.frames) if by else state.frames
    return State(arm, frames), tuple(assigned)


def _as_symbol(
    state: State, register: str, kind: str, held: Value, bits: int, plan: Plan, calc: Calculator
) -> tuple[Value, tuple[str, Index]]:
    """`base + low + remainder + modulus * symbol`, the symbol never negative; or `base + symbol`."""
    head, mask = state.arm.block, state.arm.mask.may
    base, plus = calc.parts(held, bits, True)
    where = int(np.flatnonzero(mask)[0])
    # Threads that are not here hold nothing: their base would tell states apart that are alike.
    base, first = np.where(mask, base - int(base[where]), 0), int(base[where])
    value = calc.math.put(Binary("+", plus, Const(first)), {})
    name, low, modulus, rest = plan.name_of(head, register), 0, 1, 0
    if kind == "natural":
        low = _low(head, register, value, plan, calc)
        terms, constant = calc.math.sum(value)
        step = gcd(plan.steps.get((head, register), 1), constant - low, *terms.values()) or 1
        if step != plan.steps.setdefault((head, register), step):
            plan.steps[head, register] = step
            raise Replan
        wanted = step * plan.moduli.get((head, register), 1)
        if all(factor % wanted == 0 for factor in terms.values()):
            modulus, rest = wanted, (constant - low) % wanted
            terms = {atom: factor // wanted for atom, factor in terms.items()}
            value = calc.math.index((terms, (constant - low - rest) // wanted))
        else:
            value = calc.math.put(Binary("-", value, Const(low)), {})
    name = name if modulus == 1 else f"{name}_by{modulus}"
    plan.symbols[name] = (head, register)
    most = None if register in plan.blocks.code.narrow else MOST[bits] // modulus
    calc.ranges[name] = (0, most) if kind == "natural" else (None, None)
    symbol = calc.math.put(Binary("*", Name(name), Const(modulus)), {})
    return Value(base + low + rest, symbol, None, False, held.tags), (name, value)


def _tied(
    state: State,
    register: str,
    held: Held,
    new: dict[str, Held],
    assigned: set[str],
    plan: Plan,
    calc: Calculator,
) -> Held:
    """What a register holds, in terms of the symbol of its leader: as far from the leader's multiple as it is now."""
    head = state.arm.block
    leader = plan.leaders[head, register]
    old, now = state.arm.registers.get(leader), new.get(leader)
    if not (isinstance(held, Value) and held.is_known):
        return held
    if isinstance(old, Value) and isinstance(now, Value) and old.is_known and now.is_known:
        ratio, bits = plan.ratio(head, register), _bits(register, plan)
        (base, plus), (led, more) = calc.parts(held, bits, True), calc.parts(old, _bits(leader, plan), True)
        apart = calc.math.put(Binary("-", plus, Binary("*", more, Const(ratio))), {})
        if assigned.isdisjoint(names(apart)):
            base = np.where(state.arm.mask.may, base - ratio * led, 0) + ratio * now.base
            found = calc.total(base, Binary("+", apart, Binary("*", now.plus, Const(ratio))), held.tags, bits)
            if found is not None:
                return found
    plan.coarsen(head, register)
    raise Replan


def _low(head: int, register: str, value: Index, plan: Plan, calc: Calculator) -> int:
    """The least value that a register has had at a head; a plan whose least value was another one fails."""
    low, _ = calc.math.bounds(value)
    seen = plan.lows.setdefault((head, register), [])
    if low is None or len(seen) > MOST_LOWS:
        plan.coarsen(head, register)
        raise Replan
    if not seen:
        seen.append(low)
    elif low < seen[-1]:
        seen.append(low)
        raise Replan
    return seen[-1]


def _before(name: str, value: Index, calc: Calculator) -> Index | None:
    """What a name held before it was assigned, in terms of what it holds now; None if that cannot be said."""
    terms, rest = calc.math.sum(value)
    if terms == {Name(name): 1}:
        return calc.math.put(Binary("-", Name(name), Const(rest)), {})
    return None


def _bits(register: str, plan: Plan) -> int:
    return 64 if register in plan.blocks.code.wide else 32


def _renamed(held: Held, by: dict[str, Index | None], calc: Calculator, bits: int) -> Held:
    expr = held.cond if isinstance(held, Pred) else held.plus
    used = [name for name in names(expr) if name in by] if expr is not None and expr != ZERO else []
    if not used:
        return held
    if any(by[name] is None for name in used):
        if isinstance(held, Pred):
            return unsure(calc.threads, True)
        return unknown(calc.threads, held.is_uniform, held.tags)
    put = {name: index for name, index in by.items() if index is not None}
    if isinstance(held, Pred):
        assert held.cond is not None
        return calc.decided(calc.math.put_cond(held.cond, put))
    return calc.restated(held, calc.math.put(held.plus, put), bits)


def _renamed_frame(frame: Frame, by: dict[str, Index | None], calc: Calculator, plan: Plan) -> Frame:
    def put(registers: Registers) -> Registers:
        return {name: _renamed(held, by, calc, _bits(name, plan)) for name, held in registers.items()}

    waiting = tuple(Arm(each.block, each.mask, put(each.registers)) for each in frame.waiting)
    done = None if frame.done is None else Arm(frame.done.block, frame.done.mask, put(frame.done.registers))
    return replace(frame, waiting=waiting, done=done)
