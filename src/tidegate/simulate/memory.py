"""Shared and global memory as bytes, and the cells that an access touches.

Needs   a kernel for the layout; cells that lie inside their memory (`address.locate` sees to that)
Gives   tiles read from cells, and memory changed by writes and atomics
Keeps   inactive elements read as 0 and are not written; where elements of one write share a cell, the last one stays;
        memory that nobody wrote reads as NaN (floats) or as bytes 0xA5
Cost    one copy for a box whose elements are all active, else a gather of bytes

Buffers lie where `kernel.layout` puts them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from tidegate.language.layout import lay_out
from tidegate.language.ops import Alloc, Kernel, walk_ops
from tidegate.language.types import DType, Lds, i1
from tidegate.simulate.tiles import Array, Shape, elementwise, np_dtype

POISON = 0xA5
# The name of shared memory, where global memory has the name of an argument.
LDS = ""


# --- layout -------------------------------------------------------------------------------------------------------


def lds_layout(kernel: Kernel) -> dict[str, int]:
    """The first byte of each buffer, by its name."""
    return lay_out(kernel).offsets


def lds_bytes(kernel: Kernel) -> int:
    """How much shared memory a workgroup needs."""
    return lay_out(kernel).total


def poisoned_lds(kernel: Kernel) -> Array:
    """Fresh shared memory, in which what nobody wrote shows."""
    lds = np.full(lds_bytes(kernel), POISON, np.uint8)
    layout = lds_layout(kernel)
    for op in walk_ops(kernel.body):
        if isinstance(op, Alloc) and isinstance(type_ := op.result.type, Lds) and type_.dtype.is_float:
            first = layout[op.result.name]
            lds[first : first + type_.bytes] = np.full(type_.bytes // type_.dtype.bytes, _nan(type_.dtype)).view(
                np.uint8
            )
    return lds


def _nan(dtype: DType) -> Array:
    return np.asarray(np.nan, np.float64).astype(np_dtype(dtype))


# --- cells --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Where the elements of a tile lie, in bytes from the start of a memory.

    A box is `base` and `strides`. Where that does not fit, `scattered` holds an address for each element instead.
    `active` says which elements take part; None means all.
    """

    space: str
    dtype: DType
    shape: Shape
    base: int
    strides: Shape
    scattered: Array | None = None
    active: Array | None = None

    @property
    def addresses(self) -> Array:
        """The address of each element, active or not."""
        if self.scattered is not None:
            return self.scattered
        return self.base + _box_offsets(self.shape, self.strides)

    @property
    def active_addresses(self) -> Array:
        """The addresses of the active elements, in row-major order."""
        return self.addresses.reshape(-1) if self.active is None else self.addresses[self.active]


@cache
def _box_offsets(shape: Shape, strides: Shape) -> Array:
    total = np.zeros(shape, np.int64)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        steps = np.arange(size, dtype=np.int64) * stride
        total += steps.reshape([-1 if d == axis else 1 for d in range(len(shape))])
    total.flags.writeable = False
    return total


def touched_bytes(cells: Cells) -> Array:
    """Every byte that an access to these cells touches, once each and in order."""
    first = cells.active_addresses
    return np.unique(first[:, None] + np.arange(cells.dtype.bytes))


# --- reading and writing ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """The bytes of shared memory, under the name `LDS`, and of every global array, under its own."""

    spaces: dict[str, Array]

    def load(self, cells: Cells) -> Array:
        """The tile that lies in the cells now."""
        dtype = _stored_as(cells.dtype)
        if cells.scattered is None and cells.active is None:
            return _from_stored(self._box(cells).copy(), cells.dtype)
        raw = self.spaces[cells.space][_bytes_of(cells)]
        found = np.zeros(cells.shape, dtype)
        found[... if cells.active is None else cells.active] = raw.view(dtype).reshape(
            cells.shape if cells.active is None else (-1,)
        )
        return _from_stored(found, cells.dtype)

    def store(self, cells: Cells, tile: Array) -> None:
        """Puts a tile of the cells' element type into the cells."""
        stored = tile.view(np.uint8) if cells.dtype == i1 else tile
        if cells.scattered is None and cells.active is None:
            self._box(cells)[...] = stored
            return
        chosen = stored.reshape(-1) if cells.active is None else stored[cells.active]
        raw = np.ascontiguousarray(chosen).view(np.uint8).reshape(-1, cells.dtype.bytes)
        self.spaces[cells.space][_bytes_of(cells)] = raw

    def atomic_add(self, cells: Cells, tile: Array) -> Array:
        """Adds a tile, one element after the other where they share a cell; gives what each element found."""
        before = np.zeros(cells.shape, np_dtype(cells.dtype))
        for turn in _turns(cells):
            now = replace(cells, active=turn)
            found = self.load(now)
            before = np.where(turn, found, before)
            self.store(now, elementwise("add", (found, tile), (cells.dtype, cells.dtype), cells.dtype))
        return before

    def _box(self, cells: Cells) -> Array:
        """The cells themselves, not a copy."""
        return np.ndarray(
            cells.shape, _stored_as(cells.dtype), self.spaces[cells.space].data, cells.base, cells.strides
        )


def as_bytes(array: Array) -> Array:
    """The bytes of a contiguous array, not a copy."""
    return array.reshape(-1).view(np.uint8)


def _bytes_of(cells: Cells) -> Array:
    return cells.active_addresses[:, None] + np.arange(cells.dtype.bytes)


def _stored_as(dtype: DType) -> np.dtype[np.generic]:
    """An i1 takes a byte, of which any value but 0 is true; NumPy's own booleans know only 0 and 1."""
    return np.dtype(np.uint8) if dtype == i1 else np_dtype(dtype)


def _from_stored(tile: Array, dtype: DType) -> Array:
    return np.asarray(tile != 0) if dtype == i1 else tile  # without dimensions, a comparison gives a bare number


def _turns(cells: Cells) -> Iterator[Array]:
    """Masks of elements that share no cell; in each cell, elements take turns in row-major order."""
    active = np.ones(cells.shape, bool) if cells.active is None else cells.active
    where = np.flatnonzero(active)
    addresses = cells.addresses.reshape(-1)[where]
    order = np.argsort(addresses, kind="stable")
    ordered = addresses[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if where.size else where
    turn = np.empty(where.size, np.int64)
    turn[order] = np.arange(where.size) - np.repeat(starts, np.diff(np.r_[starts, where.size]))
    for number in range(int(turn.max(initial=-1)) + 1):
        mask = np.zeros(active.size, bool)
        mask[where[turn == number]] = True
        yield mask.reshape(cells.shape)
