"""From a place in the program to the cells of a tile.

Needs   a place, the tile's shape, and the environment of the wave
Gives   `Cells`, all of whose active elements lie inside their buffer or array
Keeps   element-wise where the program says so: an index that names a tile of as many elements is that tile's value at
        each element; every other index is where the tile starts in that dimension
Cost    constant for a box, linear in the elements where lanes or elements differ or some are inactive

Shared memory is physical: an index past its row or slot is fine while it stays inside the buffer's bytes. A global
array has no such neighbours: there an index must lie inside its own dimension.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tidegate.index import ZERO, Index
from tidegate.language.ops import Place, Value
from tidegate.language.show import show_place
from tidegate.language.types import Lds, strides
from tidegate.simulate.faults import Actor, SimulationError, outside
from tidegate.simulate.memory import LDS, Cells
from tidegate.simulate.tiles import Array, Shape
from tidegate.simulate.values import Buffer, GlobalArray, NoValue, PerLane, evaluate, lane_of, names_a_tile, tile_of


@dataclass(frozen=True, slots=True)
class Guard:
    """Which elements of an access take part: below `bounds`, where `mask` is true, in the lanes of `lanes`."""

    bounds: tuple[Index, ...] = ()
    mask: Value | None = None
    lanes: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Axis:
    """The index in one dimension of memory: `start`, plus 0, 1, ... along axis `along` of the tile if it has one."""

    start: int | Array
    along: int | None
    extent: int

    def indices(self, rank: int) -> int | Array:
        if self.along is None:
            return self.start
        steps = np.arange(self.extent, dtype=np.int64)
        return self.start + steps.reshape([-1 if axis == self.along else 1 for axis in range(rank)])


def locate(place: Place, shape: Shape, guard: Guard, actor: Actor, verb: str, *, points: bool = False) -> Cells:
    """The cells of a tile at a place, or, for `points`, the one cell at which each lane's own index points.

    `verb` says in messages what is done with it: `read` or `written`.
    """
    home = actor.env[place.base.name]
    if not isinstance(home, Buffer | GlobalArray):
        raise NoValue(f"`{place.base.name}` is not memory")
    axes = _axes(place, shape, _memory_shape(home), actor, points)
    cells = _place_cells(place, home, shape, axes, actor)
    cells = replace(cells, active=_active(shape, axes, guard, actor))
    if isinstance(home, Buffer):
        return _inside_buffer(cells, home, place, actor, verb)
    return _inside_array(cells, home, axes, place, actor, verb)


def first_byte(place: Place, wanted: Lds, actor: Actor, lanes: Array | None) -> int | PerLane:
    """Where a view of a buffer starts; the view must lie inside the buffer."""
    home = actor.env[place.base.name]
    if not isinstance(home, Buffer):
        raise NoValue(f"`{place.base.name}` is not a buffer")
    steps = strides(home.type.shape, home.type.dtype.bytes)
    relative = evaluate(place.slot, actor.env) * home.type.slot_bytes
    for index, step in zip(place.index, steps, strict=False):
        relative = relative + evaluate(index, actor.env) * step
    some = relative if isinstance(relative, int) or lanes is None else relative[lanes]
    low, high = int(np.min(some)), int(np.max(some)) + wanted.bytes
    if low < 0 or high > home.type.bytes:
        raise _outside_buffer(home, place, actor, "viewed", low, high)
    base = home.offset if isinstance(home.offset, int) else home.offset.values
    found = base + relative
    return found if isinstance(found, int) else PerLane(np.asarray(found))


# --- indices ------------------------------------------------------------------------------------------------------


def _memory_shape(home: Buffer | GlobalArray) -> Shape:
    return home.type.shape if isinstance(home, Buffer) else home.shape


def _axes(place: Place, shape: Shape, memory: Shape, actor: Actor, points: bool) -> list[_Axis]:
    """One for each dimension of memory; the tile fills the last ones."""
    gap = len(memory) - (0 if points else len(shape))
    if gap < 0 or len(place.index) > len(memory):
        raise NoValue(f"`{show_place(place)}` has more dimensions than `{place.base.name}`")
    axes = []
    for d in range(len(memory)):
        index = place.index[d] if d < len(place.index) else ZERO
        start = evaluate(index, actor.env, shape)
        own = not isinstance(start, int) and names_a_tile(index, actor.env)
        axes.append(_Axis(start, None if own or d < gap else d - gap, 1 if d < gap else shape[d - gap]))
    return axes


def _place_cells(place: Place, home: Buffer | GlobalArray, shape: Shape, axes: list[_Axis], actor: Actor) -> Cells:
    """The cells, active or not, inside memory or not."""
    dtype = home.type.dtype if isinstance(home, Buffer) else home.dtype
    steps = strides(_memory_shape(home), dtype.bytes)
    space = LDS if isinstance(home, Buffer) else home.name
    start = _start(place, home, shape, actor)
    gap = len(axes) - len(shape)
    if isinstance(start, int) and all(
        isinstance(axis.start, int) and (d < gap or axis.along is not None) for d, axis in enumerate(axes)
    ):
        base = start + sum(int(axis.start) * step for axis, step in zip(axes, steps, strict=True))
        return Cells(space, dtype, shape, base, steps[gap:])
    total: int | Array = start
    for axis, step in zip(axes, steps, strict=True):
        total = total + axis.indices(len(shape)) * step
    scattered = np.broadcast_to(np.asarray(total, np.int64), shape)
    return Cells(space, dtype, shape, 0, steps[max(gap, 0) :], scattered)


def _start(place: Place, home: Buffer | GlobalArray, shape: Shape, actor: Actor) -> int | Array:
    """The first byte of the slot."""
    if isinstance(home, GlobalArray):
        return 0
    slot = evaluate(place.slot, actor.env, shape) * home.type.slot_bytes
    if isinstance(home.offset, int):
        return home.offset + slot
    return home.offset.values[lane_of(shape, len(home.offset.values))] + slot


def _active(shape: Shape, axes: list[_Axis], guard: Guard, actor: Actor) -> Array | None:
    """Which elements take part, or None for all."""
    parts: list[Array] = []
    if guard.lanes is not None:
        parts.append(guard.lanes[lane_of(shape, len(guard.lanes))])
    for axis, index in zip(axes, guard.bounds, strict=False):
        bound = evaluate(index, actor.env, shape)
        reach = 1 if axis.along is None else axis.extent
        if isinstance(axis.start, int) and isinstance(bound, int) and axis.start + reach <= bound:
            continue
        parts.append(np.asarray(axis.indices(len(shape)) < bound))
    if guard.mask is not None:
        parts.append(tile_of(guard.mask, actor.env))
    if not parts:
        return None
    active = np.ones(shape, bool)
    for part in parts:
        active &= part
    return active


# --- staying inside -----------------------------------------------------------------------------------------------


def _inside_buffer(cells: Cells, home: Buffer, place: Place, actor: Actor, verb: str) -> Cells:
    size, reach = home.type.bytes, cells.dtype.bytes
    if cells.scattered is None and cells.active is None and isinstance(home.offset, int):
        low = cells.base - home.offset
        last = low + sum((n - 1) * step for n, step in zip(cells.shape, cells.strides, strict=True))
        if low >= 0 and last + reach <= size:
            return cells
    offset = home.offset if isinstance(home.offset, int) else _expand(home.offset, cells.shape)
    relative = cells.addresses - offset
    bad = (relative < 0) | (relative + reach > size)
    element = _first(bad, cells.active)
    if element is not None:
        first = int(relative[element])
        raise _outside_buffer(home, place, actor, verb, first, first + reach, element)
    return cells


def _expand(offset: PerLane, shape: Shape) -> Array:
    return np.asarray(offset.values[lane_of(shape, len(offset.values))])


def _inside_array(cells: Cells, home: GlobalArray, axes: list[_Axis], place: Place, actor: Actor, verb: str) -> Cells:
    for d, (axis, size) in enumerate(zip(axes, home.shape, strict=True)):
        reach = 1 if axis.along is None else axis.extent
        if isinstance(axis.start, int) and axis.start >= 0 and axis.start + reach <= size:
            continue
        indices = axis.indices(len(cells.shape))
        bad = np.broadcast_to(np.asarray((indices < 0) | (indices >= size)), cells.shape)
        element = _first(bad, cells.active)
        if element is not None:
            index = int(np.broadcast_to(np.asarray(indices), cells.shape)[element])
            raise _outside_array(home, place, actor, verb, d, index, element)
    return cells


def _first(bad: Array, active: Array | None) -> tuple[int, ...] | None:
    """The first element, in row-major order, that is bad and takes part."""
    where = np.asarray(bad if active is None else bad & active)
    if not where.any():
        return None
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(where)), where.shape)) if where.shape else ()


def _outside_buffer(
    home: Buffer, place: Place, actor: Actor, verb: str, low: int, high: int, element: Shape | None = None
) -> SimulationError:
    what = _element(element)
    return outside(
        actor,
        "TG301",
        f"`{home.name}` is {verb} outside its bytes",
        f"{verb} at bytes {low}..{high} of {home.type.bytes}{what}",
        (f"`{show_place(place)}` lies in `{home.type}`", actor.values((place.slot, *place.index))),
        "keep the index inside the buffer, or guard the access with `bounds` or `mask`",
    )


def _outside_array(
    home: GlobalArray, place: Place, actor: Actor, verb: str, d: int, index: int, element: Shape
) -> SimulationError:
    shape = "x".join(map(str, home.shape))
    return outside(
        actor,
        "TG302",
        f"`%{home.name}` is {verb} outside the array",
        f"{verb} at index {index} of {home.shape[d]} in dimension {d}{_element(element)}",
        (f"`{show_place(place)}` lies in an array of {shape}", actor.values(place.index)),
        "guard the access with `bounds` or `mask`",
    )


def _element(element: Shape | None) -> str:
    if not element:
        return ""
    return f", element ({', '.join(map(str, element))}) of the tile"


def single(index: Index, actor: Actor, lanes: Array | None) -> int:
    """The value of an index on which all active lanes must agree."""
    found = evaluate(index, actor.env)
    if isinstance(found, int):
        return found
    chosen = np.unique(found if lanes is None else found[lanes])
    if chosen.size != 1:
        raise NoValue("lanes of one wave disagree where one number is needed")
    return int(chosen[0])
