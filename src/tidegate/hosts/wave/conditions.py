"""Which waves a condition of a trace holds for.

Needs   conditions: expressions over threads, or nodes that compare scalars
Gives   for each wave whether it holds, if lanes agree and everybody knows; the waves of a table as a condition
Keeps   the condition is computed for every thread: a wave whose lanes disagree is no answer; nor is a number that does
        not fit into its bits
Cost    one evaluation for all threads

    ge(scalar(4*$T1 + floor($T0/64)), scalar(4))         False, False, False, False, True, True, True, True
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tidegate.hosts.wave.context import Context
from tidegate.hosts.wave.nodes import argument, is_node, op_of, outer
from tidegate.hosts.wave.numbers import Numbers
from tidegate.hosts.wave.uniform import Uniform
from tidegate.index import WAVE, Compare, Cond, Const, Index, Logic, Name, constant

_COMPARE = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<", "eq": "==", "ne": "!="}
# As Wave's code generator emits them: signed comparisons, and `and` and `or` of bits.
_BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "ge": operator.ge,
    "gt": operator.gt,
    "le": operator.le,
    "lt": operator.lt,
    "eq": operator.eq,
    "ne": operator.ne,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "and_": operator.and_,
    "or_": operator.or_,
}
_BITS = {"bool": 1, "i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "index": 64}
WHOLE = tuple(name for name, bits in _BITS.items() if bits > 1)
_WORD = 32  # an expression becomes a number of 32 bits before it becomes a scalar of another type
Number = tuple[Any, int]  # what a scalar is in each thread, and its bits; truth values have one bit


def holds_by_wave(condition: Any, numbers: Numbers, context: Context) -> list[bool] | None:
    """For each wave whether a condition holds; None if lanes differ or nobody knows."""
    if is_node(condition):
        number = _value(condition, numbers)
        found = None if number is None else number[0]
    else:
        found = numbers.value(condition)
    if found is None:
        return None
    every = np.broadcast_to(np.asarray(found, dtype=bool), (len(context.numbers["$T0"]),))
    rows = every.reshape(context.waves, -1)
    if bool((rows != rows[:, :1]).any()):
        return None
    return [bool(each) for each in rows[:, 0]]


def _value(node: Any, numbers: Numbers) -> Number | None:
    """What a scalar is in each thread; None if nobody knows, or if it does not fit into its bits."""
    node = outer(node)
    op = op_of(node)
    if op == "scalar":
        expr, bits = argument(node, 0), _BITS.get(str(argument(node, 1)), 0)
        found = numbers.value(expr)
        return (found if bits > 1 else found != 0, bits) if _fits(found, bits, expr) else None
    if op not in _BINARY or len(node.args) != 2:
        return None
    given = [_value(each, numbers) for each in node.args if is_node(each)]
    known = [each for each in given if each is not None]
    if len(known) != 2 or known[0][1] != known[1][1]:
        return None
    (left, bits), (right, _) = known
    if bits == 1 and op not in ("and_", "or_", "eq", "ne"):
        return None  # of one bit, true is less than false
    if op in ("add", "sub", "mul") and not (_fits(left, _WORD) and _fits(right, _WORD)):
        return None
    found = _BINARY[op](left, right)
    if op in _COMPARE:
        return found, 1
    return (found, bits) if bits == 1 or _fits(found, bits) else None


def _fits(found: Any, bits: int, expr: Any = 0) -> bool:
    """Whether numbers are what they are in so many bits, too; `expr` is what a scalar is made of."""
    if found is None or not bits:
        return False
    if bits == 1:
        least, most = 0, 1
    else:
        bits = bits if isinstance(expr, int) else min(bits, _WORD)
        least, most = -(1 << bits - 1), (1 << bits - 1) - 1
    return bool(np.all(np.asarray(found) >= least) and np.all(np.asarray(found) <= most))


def compare_arguments(node: Any, names: Mapping[Any, str], uniform: Uniform) -> Cond | None:
    """A comparison of whole numbers that the kernel is launched with, exactly; None for anything else.

    Sums of them are left out: they may wrap. `names` are those that arguments have in the graph.
    """
    node = outer(node)
    op = op_of(node)
    if op in ("and_", "or_") and len(node.args) == 2:
        both = [compare_arguments(each, names, uniform) if is_node(each) else None for each in node.args]
        first, second = both
        return Logic(op[:-1], first, second) if first is not None and second is not None else None
    if op not in _COMPARE or len(node.args) != 2:
        return None
    sides: list[Index] = []
    for each in node.args:
        inner = outer(each) if is_node(each) else None
        if inner in names:
            sides.append(Name(names[inner]))
            continue
        found = _side(inner, uniform) if inner is not None and op_of(inner) == "scalar" else None
        if found is None:
            return None
        sides.append(found)
    return Compare(_COMPARE[op], sides[0], sides[1])


def _side(node: Any, uniform: Uniform) -> Index | None:
    """A scalar that all threads agree on, if it is a number, a workgroup or an iteration: others may wrap."""
    expr, bits = argument(node, 0), _BITS.get(str(argument(node, 1)), 0)
    found = None if names_threads(expr) else uniform.index(expr)
    number = None if found is None else constant(found)
    if number is not None:
        return found if bits > 1 and _fits(number, bits, expr) else None
    return found if bits >= _WORD and str(expr).startswith(("$WG", "$ARG")) and isinstance(found, Name) else None


def names_threads(expr: Any) -> bool:
    """Whether an expression names the number of a thread."""
    return any(str(each).startswith("$T") for each in getattr(expr, "free_symbols", ()))


def half_of(table: list[bool]) -> str:
    """Which half of the waves is meant, if it is one."""
    half = len(table) // 2
    if len(table) == 2 * half and half:
        if table == [True] * half + [False] * half:
            return "low"
        if table == [False] * half + [True] * half:
            return "high"
    return ""


def waves_where(table: list[bool]) -> Cond:
    """Exactly these waves, some and not all of them."""
    first, gap = table.index(True), table.index(False)
    if all(table[first:]):
        return Compare(">=", Name(WAVE), Const(first))
    if not any(table[gap:]):
        return Compare("<", Name(WAVE), Const(gap))
    chosen = [Compare("==", Name(WAVE), Const(wave)) for wave, each in enumerate(table) if each]
    found: Cond = chosen[0]
    for each in chosen[1:]:
        found = Logic("or", found, each)
    return found
