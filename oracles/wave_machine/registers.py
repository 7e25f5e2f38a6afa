"""Operations that a wave does on its own: registers, symbols, conversions.

Needs   a Wave operation that touches no memory and no barrier
Gives   `register_step`: what the operation does to a wave's values, or `None` for an operation of another kind
Keeps   an operation that is not known here and not in `flow` is refused by name, never skipped
Cost    one or two array operations each
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sympy
from wave_lang.kernel._support.indexing import index_symbol, subs_idxc

from oracles.wave_machine.addresses import compiled, start_of
from oracles.wave_machine.arithmetic import arithmetic_of, shuffle
from oracles.wave_machine.expressions import CannotRun
from oracles.wave_machine.numbers import Array, cast, held_as, read_bits
from oracles.wave_machine.products import Product, find_product
from oracles.wave_machine.waves import Wave

Step = Callable[[Wave], Any]

SILENT = {"scheduling_group_barrier", "set_wave_prio", "output", "placeholder"}
PROMPT = {*SILENT, "scheduling_barrier", "set_symbol", "permute", "get_result"}  # never put off


def register_step(op: Any) -> Step | None:
    """One function for one node."""
    name = op.tkw_op_name
    if name in SILENT:
        return keep_still
    if name in MAKERS:
        return MAKERS[name](op)
    function = arithmetic_of(name)
    if function is None:
        return None
    operands = op.fx_node.args

    def compute(wave: Wave) -> Array:
        with np.errstate(all="ignore"):
            return function(*(wave.array(one) for one in operands))

    return compute


def keep_still(wave: Wave) -> None:
    """Placeholders have been given their values by what runs their graph."""


def make_scheduling_barrier(op: Any) -> Step:
    """Nothing moves past it, unless it lists operations that may."""
    return keep_still if op.operations else Wave.settle


def make_register(op: Any) -> Step:
    dtype = held_as(op.dtype)
    size = elements_of(op.index)
    value = op.value

    def fill(wave: Wave) -> Array:
        content = wave.evaluate(compiled(value)) if isinstance(value, sympy.Basic) else value
        return np.broadcast_to(np.asarray(content).astype(dtype), (wave.lanes, size)).copy()

    return fill


def make_scalar(op: Any) -> Step:
    dtype = held_as(op.dtype)

    def fill(wave: Wave) -> Array:
        content = wave.evaluate(compiled(op.value)) if isinstance(op.value, sympy.Basic) else op.value
        return np.broadcast_to(np.asarray(content).astype(dtype), (wave.lanes, 1)).copy()

    return fill


def elements_of(index: Any) -> int:
    """How many elements of a value a lane holds."""
    return max((int(subs_idxc(part.size)) for part in index.values()), default=1)


def make_self_index(op: Any) -> Step:
    part = op.index[op.dim]
    size = int(subs_idxc(op.elements_per_thread or part.size))
    start, stride = compiled(start_of(part)), int(subs_idxc(part.stride))
    dtype = held_as(op.dtype)

    def place(wave: Wave) -> Array:
        found = wave.evaluate(start) + np.arange(size)[None, :] * stride
        return np.broadcast_to(found, (wave.lanes, size)).astype(dtype)

    return place


def make_apply_expr(op: Any) -> Step:
    nodes = op.register_ if isinstance(op.register_, (list, tuple)) else [op.register_]
    symbols = [index_symbol(f"$APPLY_EXPR_ARG_{place}") for place in range(len(nodes))]
    expression = compiled(sympy.sympify(op.expr(*symbols)))

    def apply(wave: Wave) -> Array:
        given = {symbol.name: wave.array(node) for symbol, node in zip(symbols, nodes, strict=True)}
        found = np.asarray(wave.evaluate(expression, given))
        return found if found.ndim == 2 else np.full((wave.lanes, 1), found)

    return apply


def make_set_symbol(op: Any) -> Step:
    def assign(wave: Wave) -> None:
        found = wave.array(op.register_)
        if found.shape[1] != 1:
            raise CannotRun(f"`{op.fx_node.name}` sets a symbol to a vector")
        alike = found.min() == found.max()
        wave.symbols[op.symbol.name] = int(found[0, 0]) if alike else found.astype(np.int64)

    return assign


def make_extract(op: Any) -> Step:
    (place,) = op.offset
    return lambda wave: wave.array(op.register_)[:, place : place + 1]


def make_extract_slice(op: Any) -> Step:
    (start,), (size,), (stride,) = ([int(subs_idxc(one)) for one in part] for part in (op.offset, op.size, op.stride))
    return lambda wave: wave.array(op.register_)[:, start : start + size * stride : stride]


def make_broadcast(op: Any) -> Step:
    size = elements_of(op.index) if op.index else 1

    def widen(wave: Wave) -> Array:
        found = wave.array(op.arg)
        return found if found.shape[1] == size else np.broadcast_to(found, (wave.lanes, size))

    return widen


def make_reshape(op: Any) -> Step:
    nodes = op.args if isinstance(op.args, (list, tuple)) else [op.args]
    if len(nodes) > 1:
        return lambda wave: np.concatenate([wave.array(node) for node in nodes], axis=1)
    innermost = op.type.symbolic_shape[-1]
    parts = int(op.target_vector_shape[innermost] // op.vector_shapes[innermost])
    number = op.expanded_dims[innermost] % parts

    def cut(wave: Wave) -> Array:
        found = wave.array(nodes[0])
        size = found.shape[1] // parts
        return found[:, number * size : (number + 1) * size]

    return cut


def make_shuffle(op: Any) -> Step:
    return lambda wave: shuffle(wave.array(op.arg), int(op.offset), int(op.width), op.mode.name)


def make_mma(op: Any) -> Step:
    made: list[Product] = []

    def multiply(wave: Wave) -> Array:
        if not made:
            made.append(find_product(op, wave.symbols))
        return made[0](wave.array(op.lhs), wave.array(op.rhs), wave.array(op.acc))

    return multiply


def make_scaled_mma(op: Any) -> Step:
    made: list[Product] = []

    def scaled(wave: Wave, node: Any, scale: Any) -> Array:
        by = wave.array(scale).astype(np.float32)
        if by.shape[1] != 1:
            raise CannotRun(f"`{op.fx_node.name}` has several scales for a lane")
        return wave.array(node).astype(np.float32) * by

    def multiply(wave: Wave) -> Array:
        if not made:
            made.append(find_product(op, wave.symbols))
        with np.errstate(all="ignore"):
            left, right = scaled(wave, op.lhs, op.lhs_scale), scaled(wave, op.rhs, op.rhs_scale)
            return made[0](left, right, wave.array(op.acc))

    return multiply


MAKERS: dict[str, Callable[[Any], Step]] = {
    "scheduling_barrier": make_scheduling_barrier,
    "register": make_register,
    "scalar": make_scalar,
    "self_index": make_self_index,
    "apply_expr": make_apply_expr,
    "set_symbol": make_set_symbol,
    "extract": make_extract,
    "extract_slice": make_extract_slice,
    "broadcast": make_broadcast,
    "reshape": make_reshape,
    "shuffle": make_shuffle,
    "mma": make_mma,
    "scaled_mma": make_scaled_mma,
    "permute": lambda op: lambda wave: wave.raw(op.arg),
    "get_result": lambda op: lambda wave: wave.raw(op.value)[op.res_idx],
    "cast": lambda op: lambda wave: cast(wave.array(op.arg), op.dtype),
    "bitcast": lambda op: lambda wave: read_bits(wave.array(op.arg), op.dtype),
}
