"""Which elements of a memory each lane touches.

Needs   a Read, Write, atomic, GatherToLDS or TensorLoadToLDS of a trace after Wave's barrier pass, with Wave's indexing
        context open
Gives   an `Addressing`: linear element places and a mask, as expressions over thread, workgroup, loop and size symbols
Keeps   what Wave's later passes and its code generator make of the operation: indices are taken by position, a mapping
        is applied to each element unless Wave finds it contiguous, and bounds are those that Wave would set
Cost    some symbolic work for each operation and buffer, once
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sympy
from wave_lang.kernel._support.indexing import IndexSequence, subs_idxc
from wave_lang.kernel.ops.wave_ops import Read, read_meets_hw_transpose_requirements
from wave_lang.kernel.wave.constraints import DistributionConstraint
from wave_lang.kernel.wave.utils.general_utils import (
    find_index_bounds,
    get_fastest_index,
    get_hardware_constraint,
    is_shared_mem_access,
    remove_global_indexing,
)
from wave_lang.kernel.wave.utils.graph_utils import get_custom, propagate_loop_carried_vars
from wave_lang.kernel.wave.utils.mapping_utils import transform_index_on_mapping
from wave_lang.kernel.wave.utils.symbol_utils import safe_subs

from oracles.wave_machine.expressions import CannotRun, Compiled, compile_expression
from oracles.wave_machine.memory import Buffer, GlobalArray

ELEMENT = sympy.Symbol("$ELEMENT", integer=True, nonnegative=True)  # of a lane's vector


NUMBERS = itertools.count()
TURNED_BY = 64  # lanes of a wave, where it is known how the hardware turns a block


class Addressing:
    """Places and mask of one operation in one memory."""

    __slots__ = ("dynamic", "elements", "mask", "places", "tag", "transposed", "varying")

    def __init__(
        self,
        places: Any,
        mask: Any,
        elements: int,
        dynamic: tuple[str, ...] = (),
        transposed: bool = False,
    ) -> None:
        self.places: Compiled = compiled(places)
        self.mask: Compiled | None = None if mask is None else compiled(mask)
        self.elements = elements
        self.dynamic = dynamic  # symbols that stand for values in registers
        self.transposed = transposed  # each lane's vector is a row of a block that the hardware turns
        self.tag = next(NUMBERS)  # tells it from any other, cheaply
        symbols = {*self.places.symbols, *(self.mask.symbols if self.mask else ())}
        fixed = {"$T0", "$T1", "$T2", ELEMENT.name, *dynamic}
        self.varying = tuple(sorted(symbols - fixed))  # what else the places depend on


def find_addresses(op: Any, memory: Buffer | GlobalArray, constraints: Sequence[Any], target: str) -> Addressing:
    """Of a Read or a Write."""
    is_read = isinstance(op, Read)
    elements = int(subs_idxc(op.elements_per_thread))
    turned = is_read and read_meets_hw_transpose_requirements(op, constraints, target)
    if turned and get_hardware_constraint(constraints).threads_per_wave != TURNED_BY:
        raise CannotRun(f"`{op.fx_node.name}` is a transposing read on {target}")
    alone = turned or bool(op.is_contiguous_vec(constraints, target))
    index = {dim: start_of(part) for dim, part in op.index.items()}
    inside = dict(index)
    fastest = list(index)[get_fastest_index(op.index)]
    inside[fastest] = index[fastest] + ELEMENT
    used = index if alone else inside
    if op.mapping is not None:
        shape = get_custom(op.memory).type.symbolic_shape
        used = mapped(op.mapping, shape, used, is_read)
    places = linear(list(used.values()), memory, op) + (ELEMENT if alone else 0)
    bounds = op.bounds if op.bounds is not None else find_bounds(op, constraints)
    mask = sympy.And(*(inside[dim] < bound for dim, bound in bounds.items())) if bounds else None
    return Addressing(places, mask, elements, dynamic_symbols(op.mapping), turned)


def find_atomic_addresses(op: Any, memory: Buffer | GlobalArray) -> Addressing:
    """Wave's code generator takes the mapping of an atomic for that of a read, and then counts elements up."""
    index = {dim: start_of(part) for dim, part in op.index.items()}
    fastest = get_fastest_index(op.index)
    if op.mapping is not None:
        index = mapped(op.mapping, op.type.symbolic_shape, index, is_read=True)
    index[list(index)[fastest]] += ELEMENT
    elements = int(subs_idxc(op.elements_per_thread))
    return Addressing(linear(list(index.values()), memory, op), None, elements)


def find_gather_source(op: Any, memory: GlobalArray) -> Addressing:
    """The global side of a GatherToLDS; bounds are those of the index before its mapping."""
    index = {dim: start_of(part) for dim, part in op.src_index.items()}
    used = index
    if op.src_mapping is not None:
        used = mapped(op.src_mapping, get_custom(op.src).type.symbolic_shape, index, is_read=True)
    mask = sympy.And(*(index[dim] < bound for dim, bound in op.src_bounds.items())) if op.src_bounds else None
    elements = int(op.elements_per_thread)
    places = linear(list(used.values()), memory, op) + ELEMENT
    return Addressing(places, mask, elements, dynamic_symbols(op.src_mapping))


def find_gather_base(op: Any, memory: Buffer) -> Addressing:
    """The shared side of a GatherToLDS: the first lane says where the wave writes."""
    if op.dst_mapping is not None:
        raise CannotRun(f"`{op.fx_node.name}` maps its destination")
    starts = [start_of(part) for part in op.dst_index.values()]
    return Addressing(linear(starts, memory, op), None, int(op.elements_per_thread))


def dynamic_symbols(mapping: Any) -> tuple[str, ...]:
    """What a mapping calls the values that it is given."""
    return () if mapping is None else tuple(symbol.name for symbol in mapping.dynamic_val_indices)


def find_bounds(op: Any, constraints: Sequence[Any]) -> Mapping[Any, Any]:
    """As Wave's pass `generate_bounds_exprs`, which runs after the barrier pass."""
    shapes = op.vector_shapes or get_hardware_constraint(constraints).vector_shapes
    bounds: dict[Any, Any] | None = find_index_bounds(constraints, op.index, shapes, op.type.symbolic_shape)
    if not bounds:
        return {}
    if not is_shared_mem_access(op):
        return bounds
    bounds = remove_global_indexing(bounds, constraints)
    unpadded = get_custom(propagate_loop_carried_vars(op.memory)).unpadded_dims
    widest = {dim: sympy.sympify(unpadded[dim]) for dim in bounds if dim in unpadded}
    for one in constraints:
        if isinstance(one, DistributionConstraint) and one.dim in widest:
            widest[one.dim] = sympy.Max(widest[one.dim], one.tile_size)
    narrowed = {dim: safe_subs(bound, {dim: widest[dim]}) for dim, bound in bounds.items()}
    return {dim: bound for dim, bound in narrowed.items() if subs_idxc(bound % (shapes[dim] or 1)) != 0}


def mapped(mapping: Any, shape: Any, index: Mapping[Any, Any], is_read: bool) -> dict[Any, Any]:
    """The index after a mapping, by the memory's dimensions."""
    wrapped = {dim: IndexSequence(start, 1, 1) for dim, start in index.items()}
    return dict(transform_index_on_mapping(mapping, shape, wrapped, is_read=is_read))


def start_of(part: Any) -> Any:
    return sympy.sympify(part.start if isinstance(part, IndexSequence) else part)


def linear(starts: Sequence[Any], memory: Buffer | GlobalArray, op: Any) -> Any:
    """The element that an index names, counted from the start of its memory."""
    strides = strides_of(memory)
    if len(starts) != len(strides):
        raise CannotRun(f"`{op.fx_node.name}` has {len(starts)} indices for {len(strides)} dimensions")
    return sum((start * stride for start, stride in zip(starts, strides, strict=True)), sympy.Integer(0))


def strides_of(memory: Buffer | GlobalArray) -> tuple[Any, ...]:
    if isinstance(memory, Buffer):
        return memory.strides
    shape = memory.array.shape
    return tuple(int(np.prod(shape[place + 1 :])) for place in range(len(shape)))


def compiled(expression: Any) -> Compiled:
    """With all sizes that Wave knows put in."""
    return compile_expression(subs_idxc(expression))
