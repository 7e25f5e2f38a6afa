"""Bytes and owners of one access in one wave and iteration, as dense arrays over the shared memory of the kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .facts import BYTES, FACTS
from .lanes import fixed_values
from .program import Access, Copy, Env, Memory, Place, Program
from .rules import Rules

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Footprint:
    """Cell by cell: whose lane it is (-1: untouched) and where the element that covers it begins."""

    owner: Ints
    begin: Ints


class Memories:
    """Where buffers and views lie: one after another, each at a multiple of 16 bytes."""

    def __init__(self, memory: Sequence[Memory]) -> None:
        self.by_name = {m.name: m for m in memory}
        self.offset: dict[str, int] = {}
        end = 0
        for m in memory:
            if m.base:
                base = self.by_name[m.base]
                self.offset[m.name] = self.offset[m.base] + _flat(base.shape, m.start) * BYTES[base.dtype]
            else:
                self.offset[m.name] = -(-end // 16) * 16
                end = self.offset[m.name] + _bytes(m)
        self.cell = math.gcd(16, *(BYTES[m.dtype] for m in memory), *self.offset.values())
        self.cells = end // self.cell

    def start(self, place: Place, env: Env) -> int:
        m = self.by_name[place.memory]
        at = [i.at(env) for i in place.at]
        slot = place.slot.at(env) if place.slot is not None else 0
        size = BYTES[m.dtype]
        assert 0 <= slot < m.slots, "the generator names a slot that is not there"
        return self.offset[m.name] + slot * math.prod(m.shape) * size + _flat(m.shape, at) * size


def _flat(shape: Sequence[int], at: Sequence[int]) -> int:
    flat = 0
    for extent, index in zip(shape, [*at, *[0] * (len(shape) - len(at))], strict=True):
        flat = flat * extent + index
    return flat


def _bytes(m: Memory) -> int:
    return m.slots * math.prod(m.shape) * BYTES[m.dtype]


class Footprints:
    """Footprints by statement and start, each made once."""

    def __init__(self, program: Program, rules: Rules) -> None:
        self.program, self.rules = program, rules
        self.memories = Memories(program.memory)
        self.fixed = fixed_values(program)
        self.masks = dict(program.masks)
        self.lanes = FACTS[program.target].lanes
        self.classes: dict[object, int] = {}

    def of(self, number: int, access: Access | Copy, env: Env) -> Footprint:
        place, tile = access.place, access.tile
        memory = self.memories.by_name[place.memory]
        strides = [math.prod(memory.shape[d + 1 :]) for d in range(len(memory.shape))]
        indices = np.indices(tile.shape).reshape(len(tile.shape), -1)
        lead = len(memory.shape) - len(tile.shape)
        size = BYTES[memory.dtype]
        assert size == BYTES[tile.dtype]
        offsets = sum(indices[d] * strides[lead + d] for d in range(len(tile.shape))) * size
        starts = np.asarray(offsets, dtype=np.int64) + self.memories.start(place, env)
        owners = self._owners(number, access, indices.shape[1])
        keep = self._kept(access, indices, env, lead)
        cell = self.memories.cell
        width = size // cell
        owner = np.full(self.memories.cells, -1, dtype=np.int64)
        begin = np.full(self.memories.cells, -1, dtype=np.int64)
        cells = (starts[keep] // cell)[:, None] + np.arange(width)
        owner[cells] = owners[keep][:, None]
        begin[cells] = starts[keep][:, None]
        return Footprint(owner, begin)

    def _owners(self, number: int, access: Access | Copy, count: int) -> Ints:
        elements = np.arange(count, dtype=np.int64)
        value = "" if isinstance(access, Copy) else (access.result if access.kind == "read" else access.value)
        name: object
        if isinstance(access, Copy):
            name = ("copy", number)
        elif value in self.fixed or (access.kind == "atomic" and access.result in self.fixed):
            name = ("fixed", self.fixed.get(value)) if self.rules.matrix_value_keeps_lanes else ("fixed", number)
        elif self.rules.documented_lane_map:
            return elements // -(-count // self.lanes)
        else:
            name = (access.tile.shape, access.tile.dtype)
        return (self.classes.setdefault(name, len(self.classes)) + 1 << 32) + elements

    def _kept(self, access: Access | Copy, indices: Ints, env: Env, lead: int) -> npt.NDArray[np.bool_]:
        keep = np.ones(indices.shape[1], dtype=bool)
        if isinstance(access, Copy):
            return keep
        at = [i.at(env) for i in access.place.at]
        at += [0] * (lead + len(indices) - len(at))
        for d, bound in enumerate(access.bounds):
            inside = at[d] + (indices[d - lead] if d >= lead else 0) < bound
            keep &= inside
        if access.mask and self.rules.masks_are_known and self.masks[access.mask] >= 0:
            keep &= np.arange(indices.shape[1]) < self.masks[access.mask]
        return keep
