"""Which waves a condition of a trace holds for.

Needs   conditions: expressions over threads, or nodes that compare scalars
Gives   for each wave whether it holds, if lanes agree and everybody knows; the waves of a table as a condition
Keeps   the condition is computed for every thread: a wave whose lanes disagree is no answer
Cost    one evaluation for all threads

    ge(scalar(4*$T1 + floor($T0/64)), scalar(4))         False, False, False, False, True, True, True, True
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tidegate.adapters.wave.context import Context
from tidegate.adapters.wave.nodes import argument, is_node, nodes_in, op_of, outer
from tidegate.adapters.wave.numbers import Numbers
from tidegate.index import WAVE, Compare, Cond, Const, Logic, Name

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
    "and_": np.logical_and,
    "or_": np.logical_or,
}
_PLAIN = ("apply_expr", "cast", "neg", "abs", "minimum", "maximum", "select", "truediv", "mod", "broadcast")


def holds_by_wave(condition: Any, numbers: Numbers, context: Context) -> list[bool] | None:
    """For each wave whether a condition holds; None if lanes differ or nobody knows."""
    found = _value(condition, numbers) if is_node(condition) else numbers.value(condition)
    if found is None:
        return None
    every = np.broadcast_to(np.asarray(found, dtype=bool), (len(context.numbers["$T0"]),))
    rows = every.reshape(context.waves, -1)
    if bool((rows != rows[:, :1]).any()):
        return None
    return [bool(each) for each in rows[:, 0]]


def _value(node: Any, numbers: Numbers) -> Any:
    """What a scalar is in each thread."""
    node = outer(node)
    op = op_of(node)
    if op == "scalar":
        return numbers.value(argument(node, 0))
    if op in _BINARY and len(node.args) == 2:
        given = [_value(each, numbers) if is_node(each) else numbers.value(each) for each in node.args]
        return None if any(each is None for each in given) else _BINARY[op](*given)
    return None


def is_uniform(node: Any) -> bool:
    """Whether all threads hold the same number, as far as can be seen."""
    node = outer(node)
    op = op_of(node)
    if op == "scalar":
        return not names_threads(argument(node, 0))
    if op in ("self_index", "read"):
        index = getattr(node, "index", None) or {}
        return bool(index) and not any(names_threads(getattr(each, "start", each)) for each in index.values())
    given = list(nodes_in(node.args))
    return (op in _BINARY or op in _PLAIN) and bool(given) and all(map(is_uniform, given))


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
