"""Products of matrices that a wave holds in its lanes.

Needs   an MMA or ScaledMMA of a trace, whose index says which coordinates each lane's elements have
Gives   a function from the operands' registers to the result's
Keeps   sums in f32; a register layout is never assumed: coordinates come from the operation's own index, relative to
        the lowest of the wave
Cost    one product of small matrices for each operation, two gathers and a scatter
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import sympy
from wave_lang.kernel._support.indexing import subs_idxc
from wave_lang.kernel.lang.global_symbols import GPR_NUM
from wave_lang.kernel.wave.utils.general_utils import infer_dim

from oracles.wave_machine.expressions import CannotRun, compile_expression
from oracles.wave_machine.numbers import Array

Product = Callable[[Array, Array, Array], Array]


def find_product(op: Any, values: Mapping[str, Any]) -> Product:
    """The function for one operation; `values` are those of any one wave."""
    name = op.fx_node.name
    left, right, total = (
        {infer_dim(dim) for dim in kind.symbolic_shape} for kind in (op.lhs_type, op.rhs_type, op.acc_type)
    )
    rows, columns, summed = (left & total) - right, (right & total) - left, (left & right) - total
    if op.reduction_dim in summed:
        still = summed - {op.reduction_dim}  # loops around the product sum over these
        if any(coordinates(op.lhs_index[dim], values).any() for dim in still):
            raise CannotRun(f"the lanes of `{name}` differ along {still}")
        summed = {op.reduction_dim}
    if not len(rows) == len(columns) == len(summed) == 1:
        raise CannotRun(f"`{name}` is no product of two matrices")
    (m,), (n,), (k,) = rows, columns, summed
    a = [coordinates(op.lhs_index[dim], values) for dim in (m, k)]
    b = [coordinates(op.rhs_index[dim], values) for dim in (n, k)]
    c = [coordinates(op.acc_index[dim], values) for dim in (m, n)]
    height, width, depth = a[0].max() + 1, b[0].max() + 1, a[1].max() + 1

    def multiply(lhs: Array, rhs: Array, acc: Array) -> Array:
        first, second = np.zeros((height, depth), np.float32), np.zeros((width, depth), np.float32)
        first[a[0], a[1]] = lhs
        second[b[0], b[1]] = rhs
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(acc + (first @ second.T)[c[0], c[1]])

    filled = np.zeros((height, depth), bool)
    filled[a[0], a[1]] = True
    if not filled.all():
        raise CannotRun(f"the lanes of `{name}` do not hold the whole of its left operand")
    return multiply


def coordinates(part: Any, values: Mapping[str, Any]) -> Array:
    """Of each lane's elements along one dimension; a number of a register is in the start or counts from it."""
    start, size = sympy.sympify(subs_idxc(part.start)), int(subs_idxc(part.size))
    number = np.arange(size)[None, :]
    given = dict.fromkeys((symbol.name for symbol in start.free_symbols), 0) | dict(values)
    found = compile_expression(start).evaluate({**given, GPR_NUM.name: number})
    if not start.has(GPR_NUM):
        found = found + number
    lanes = len(values["$T0"])
    whole = np.broadcast_to(found, (lanes, size)).astype(np.int64)
    return np.asarray(whole - whole.min())
