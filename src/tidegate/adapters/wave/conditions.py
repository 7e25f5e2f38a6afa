"""Which waves a condition of a trace holds for.

Needs   conditions: expressions over threads, or nodes that compare scalars
Gives   for each wave whether it holds, if lanes agree and everybody knows; the waves of a table as a condition
Keeps   the condition is computed for every thread: a wave whose lanes disagree is no answer
Cost    one evaluation for all threads

    ge(scalar(4*$T1 + floor($T0/64)), scalar(4))         False, False, False, False, True, True, True, True
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from tidegate.adapters.wave.context import Context
from tidegate.adapters.wave.nodes import argument, is_node, nodes_in, op_of, outer
from tidegate.adapters.wave.numbers import Numbers
from tidegate.adapters.wave.uniform import Uniform
from tidegate.index import WAVE, Compare, Cond, Const, Index, Logic, Name

Arguments = Collection[Any]
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
_COMPARE = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<", "eq": "==", "ne": "!="}
WHOLE = ("i8", "i16", "i32", "i64", "index")
_SCALARS = (*WHOLE, "bool", "i1", "f16", "bf16", "f32", "f64")
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


def is_uniform(node: Any, arguments: Arguments) -> bool:
    """Whether all threads hold the same number, as far as can be seen; `arguments` are those of the kernel."""
    node = outer(node)
    op = op_of(node)
    if node in arguments and is_scalar(node):
        return True
    if op == "scalar":
        return not names_threads(argument(node, 0))
    if op in ("self_index", "read"):
        index = getattr(node, "index", None) or {}
        return bool(index) and not any(names_threads(getattr(each, "start", each)) for each in index.values())
    given = list(nodes_in(node.args))
    return (op in _BINARY or op in _PLAIN) and bool(given) and all(is_uniform(each, arguments) for each in given)


def agree_in_waves(node: Any, arguments: Arguments, numbers: Numbers, context: Context) -> bool:
    """Whether the lanes of each wave hold the same number, as far as can be seen; waves may differ."""
    node = outer(node)
    if is_uniform(node, arguments):
        return True
    if op_of(node) == "scalar":
        found = numbers.value(argument(node, 0))
        if found is None:
            return False
        rows = np.broadcast_to(np.asarray(found), (context.count,)).reshape(context.waves, -1)
        return bool((rows == rows[:, :1]).all())
    given = list(nodes_in(node.args))
    known = (op_of(node) in _BINARY or op_of(node) in _PLAIN) and bool(given)
    return known and all(agree_in_waves(each, arguments, numbers, context) for each in given)


def is_scalar(node: Any) -> bool:
    """Whether an argument of a kernel is a number, and no memory: then it is the same for all threads."""
    return str(getattr(node, "type", None)) in _SCALARS


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
        expr = argument(inner, 0) if inner is not None and op_of(inner) == "scalar" else None
        found = None if expr is None or names_threads(expr) else uniform.index(expr)
        if found is None:
            return None
        sides.append(found)
    return Compare(_COMPARE[op], sides[0], sides[1])


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
