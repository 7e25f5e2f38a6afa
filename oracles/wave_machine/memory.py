"""The memories of one workgroup: bytes that its waves share, and the arrays of the launch.

Needs   the kernel's arguments; the Allocate operations of a trace
Gives   `GlobalArray` with what has been written, and by whom; `SharedMemory`, which lays the allocations out and hands
        out `Buffer`s
Keeps   shared memory starts as 0xFF bytes: NaN as any float; children of an allocation lie at their offsets in it
Cost    an access is one gather or scatter over the lanes
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from oracles.wave_machine.expressions import CannotRun
from oracles.wave_machine.numbers import Array, held_as

POISON = 0xFF


@dataclass(slots=True, eq=False)
class GlobalArray:
    """An argument of the kernel."""

    name: str
    array: Array
    writer: Array  # the wave that wrote each element, -1 for none
    disputed: Array  # bool: written by two waves, with different values
    shape: tuple[Any, ...]  # as the trace names it

    def read(self, places: Array) -> Array:
        self.check(places)
        return self.array.reshape(-1)[places]

    def write(self, places: Array, values: Array, wave: int) -> None:
        self.check(places)
        array, writer = self.array.reshape(-1), self.writer.reshape(-1)
        before = array[places]
        array[places] = values
        now = array[places]
        same = (now == before) | ((now != now) & (before != before))
        other = (writer[places] >= 0) & (writer[places] != wave)
        self.disputed.reshape(-1)[places[other & ~same]] = True
        writer[places] = wave

    def check(self, places: Array) -> None:
        if places.size and (places.min() < 0 or places.max() >= self.array.size):
            raise CannotRun(f"an access lies outside of `{self.name}`")


@dataclass(slots=True, eq=False)
class Buffer:
    """Shared memory under one type: a view of the workgroup's bytes."""

    name: str
    array: Array  # one-dimensional
    strides: tuple[int, ...]
    padding: int

    def check(self, places: Array) -> None:
        if places.size and (places.min() < 0 or places.max() >= self.array.size):
            raise CannotRun(f"an access lies outside of the buffer `{self.name}`")


class SharedMemory:
    """The bytes of one workgroup."""

    def __init__(self, allocations: Iterable[tuple[Any, Any]], number: Callable[[Any], int]) -> None:
        """`allocations`: each node with its operation; `number` resolves a symbolic size."""
        self.buffers: dict[Any, Buffer] = {}
        known = dict(allocations)
        starts: dict[Any, int] = {}
        size = 0
        for node, op in known.items():
            if op.parent is None:
                starts[node] = size
                size += -(-number(op.allocation_size) // 16) * 16
        self.bytes = np.full(size, POISON, np.uint8)
        for node, op in known.items():
            if op.parent is not None:
                if op.parent not in starts:
                    raise CannotRun(f"`{node.name}` lies in an allocation that lies in another")
                start = starts[op.parent] + number(op.offset)
            else:
                start = starts[node]
            self.buffers[node] = self.view(node.name, op, start, number)

    def view(self, name: str, op: Any, start: int, number: Callable[[Any], int]) -> Buffer:
        dtype = held_as(op.dtype)
        shape = [number(extent) for extent in op.distributed_shape]
        end = start + prod(shape) * dtype.itemsize
        if end > self.bytes.size:
            raise CannotRun(f"the buffer `{name}` is larger than what holds it")
        strides = tuple(prod(shape[place + 1 :]) for place in range(len(shape)))
        return Buffer(name, self.bytes[start:end].view(dtype), strides, number(op.padding))
