"""Operations that touch memory.

Needs   a Read, Write, atomic, GatherToLDS, TensorLoadToLDS or Allocate of a trace
Gives   a generator function for each: one execution by one wave, which yields before it issues an access to shared
        memory
Keeps   places and what is written are those of the moment of issue; what is read is that of the moment of performing.
        Global memory is read and written at once: it is not what is judged. A wave's part of a multicast is its own
Cost    a gather or a scatter for each access
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol

import numpy as np

from oracles.wave_machine import addresses
from oracles.wave_machine.addresses import Addressing
from oracles.wave_machine.arithmetic import turn_rows
from oracles.wave_machine.expressions import CannotRun
from oracles.wave_machine.memory import Buffer, GlobalArray
from oracles.wave_machine.numbers import Array
from oracles.wave_machine.timing import Access
from oracles.wave_machine.waves import Question, Wave, load, store

Flow = Callable[[Wave], Generator["Question | None", None, Any]]


class Graphs(Protocol):
    """What a step needs of the program."""

    constraints: Any
    target: str

    def run_graph(self, wave: Wave, name: str) -> Generator[Question | None, None, Any]: ...

    def subgraph(self, name: str) -> Any: ...


class Remembered:
    """The addressing of one operation, for each memory that it is given."""

    def __init__(self, find: Callable[[Any], Addressing]) -> None:
        self.find = find
        self.known: dict[Any, Addressing] = {}

    def of(self, memory: GlobalArray | Buffer) -> Addressing:
        key = (memory.strides, memory.padding) if isinstance(memory, Buffer) else memory.array.shape
        if key not in self.known:
            self.known[key] = self.find(memory)
        return self.known[key]


def make_allocate(op: Any, program: Graphs) -> Flow:
    def allocate(wave: Wave) -> Generator[Question | None, None, Any]:
        return wave.buffers[op.fx_node]
        yield

    return allocate


def make_read(op: Any, program: Graphs) -> Flow:
    known = Remembered(lambda memory: addresses.find_addresses(op, memory, program.constraints, program.target))

    def read(wave: Wave) -> Generator[Question | None, None, Any]:
        memory = wave.raw(op.memory)
        addressing = known.of(memory)
        places, mask = wave.places(addressing, op.mapping_dynamic_vals)
        if isinstance(memory, GlobalArray):
            wave.queues.count_global()
            return load(memory, places, mask)
        yield None
        turned = addressing.transposed

        def perform() -> Array:
            found = load(memory, places, mask)
            return turn_rows(found) if turned else found

        access = Access(perform)
        wave.queues.issue(access)
        return access

    return read


def make_write(op: Any, program: Graphs) -> Flow:
    known = Remembered(lambda memory: addresses.find_addresses(op, memory, program.constraints, program.target))

    def write(wave: Wave) -> Generator[Question | None, None, Any]:
        memory = wave.raw(op.memory)
        values = wave.array(op.register_)
        places, mask = wave.places(known.of(memory), op.mapping_dynamic_vals)
        if isinstance(memory, GlobalArray):
            wave.queues.count_global()
            store(memory, places, mask, values, wave.number)
            return
        yield None

        def perform() -> None:
            store(memory, places, mask, values, wave.number)

        wave.queues.issue(Access(perform))

    return write


def make_atomic(op: Any, program: Graphs) -> Flow:
    known = Remembered(lambda memory: addresses.find_atomic_addresses(op, memory))
    fold = {"atomic_add": np.add, "atomic_min": np.minimum}[op.tkw_op_name]
    if op.mapping_dynamic_vals:
        raise CannotRun(f"`{op.fx_node.name}` maps by values")

    def change(wave: Wave) -> Generator[Question | None, None, Any]:
        memory = wave.raw(op.rhs)
        values = wave.array(op.lhs)
        places, mask = wave.places(known.of(memory), ())
        if isinstance(memory, GlobalArray):
            raise CannotRun(f"`{op.fx_node.name}` is an atomic on global memory")
        yield None

        def perform() -> Array:
            memory.check(places)
            found = np.zeros(places.shape, memory.array.dtype)
            wide = np.broadcast_to(values, places.shape)
            for spot in np.ndindex(places.shape):
                if mask is None or mask[spot]:
                    found[spot] = memory.array[places[spot]]
                    memory.array[places[spot]] = fold(found[spot], wide[spot])
            return found

        access = Access(perform)
        wave.queues.issue(access)
        return access

    return change


def make_gather(op: Any, program: Graphs) -> Flow:
    source = Remembered(lambda memory: addresses.find_gather_source(op, memory))
    base = Remembered(lambda memory: addresses.find_gather_base(op, memory))

    def gather(wave: Wave) -> Generator[Question | None, None, Any]:
        far, near = wave.raw(op.src), wave.raw(op.dst)
        found = load(far, *wave.places(source.of(far), op.src_mapping_dynamic_vals))
        if wave.active is not None:
            raise CannotRun(f"`{op.fx_node.name}` under a condition that only some lanes meet")
        starts, _ = wave.places(base.of(near), ())
        places = starts[0, 0] + np.arange(found.size).reshape(found.shape)
        yield None

        def perform() -> None:
            store(near, places, None, found, wave.number)

        wave.queues.issue_copy(Access(perform), wave.queues.vector)

    return gather


def make_tensor_load(op: Any, program: Graphs) -> Flow:
    """As the operation says it; Wave 3.9.1 generates code only for the first two dimensions of a tile."""

    def copy(wave: Wave) -> Generator[Question | None, None, Any]:
        far, near = wave.raw(op.src), wave.raw(op.dst)
        shape = [wave.number_of(extent) for extent in op.distributed_shape]
        if wave.active is not None:
            raise CannotRun(f"`{op.fx_node.name}` under a condition that only some lanes meet")
        if len(near.strides) > 1 and near.strides[-2] != shape[-1] + near.padding:
            raise CannotRun(f"the rows of `{op.fx_node.name}` are not those of its buffer")
        starts = [first_lane(wave, addresses.start_of(part)) for part in op.global_tile_index.values()]
        near_starts = [first_lane(wave, addresses.start_of(part)) for part in op.shared_tile_index.values()]
        ends = [wave.number_of(op.bounds[dim]) for dim in op.global_tile_index]
        far_places: Any = 0
        places: Any = 0
        inside: Any = True
        tile = zip(np.indices(shape), starts, near_starts, ends, addresses.strides_of(far), near.strides, strict=True)
        for offset, start, near_start, end, stride, near_stride in tile:
            far_places = far_places + (start + offset) * stride
            places = places + (near_start + offset) * near_stride
            inside = inside & (start + offset < end)
        found = load(far, far_places, inside)
        yield None

        def perform() -> None:
            store(near, places, None, found, wave.number)

        wave.queues.issue_copy(Access(perform), wave.queues.tensor)

    return copy


def first_lane(wave: Wave, expression: Any) -> int:
    """A wave's tile is where its first lane says."""
    return int(np.asarray(wave.evaluate(addresses.compiled(expression))).flat[0])


ACCESSES: dict[str, Callable[[Any, Graphs], Flow]] = {
    "allocate": make_allocate,
    "read": make_read,
    "write": make_write,
    "atomic_add": make_atomic,
    "atomic_min": make_atomic,
    "gather_to_lds": make_gather,
    "tensor_load_to_lds": make_tensor_load,
}
