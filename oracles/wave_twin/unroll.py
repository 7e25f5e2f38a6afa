"""A trace, run out: every access and every barrier of the workgroup in program order, loops and branches followed.

What is not known for certain (values from memory, copies, atomics, loops with a condition) raises `Unsupported`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy
from wave_lang.kernel.ops import wave_ops as ops
from wave_lang.kernel.wave.utils.symbol_utils import get_induction_symbol

from .evaluate import truth, whole
from .setting import Bools, Ints, Setting, Unsupported


@dataclass(frozen=True)
class Buffer:
    """An allocation: where its bytes begin among all shared bytes, and how it is laid out."""

    base: int
    size: int
    strides: tuple[int, ...]
    element: int


@dataclass(frozen=True)
class Footprint:
    """Bytes of one instance: `bytes[t, n]` is touched by thread t where `on[t, n]`."""

    bytes: Ints
    on: Bools


@dataclass(frozen=True)
class Access:
    name: str
    writes: bool
    iteration: tuple[int, ...]
    footprint: Footprint
    threads: Bools


@dataclass(frozen=True)
class Sync:
    """One synchronizing operation: does it drain LDS, arrive, depart; and who carries it out.

    `fence` names what may keep the compiler from moving accesses over it: a scheduling barrier, or a wait for LDS.
    """

    name: str
    drains: bool
    arrives: bool
    departs: bool
    threads: Bools
    fence: str = ""  # scheduling | wait


Event = Access | Sync
_HARMLESS = (ops.Iterate, ops.Conditional, ops.Output, ops.GetResult, ops.Placeholder, ops.Allocate)


class Unroller:
    """Runs one trace once for all threads: branches make threads inactive, loops have one trip count for all."""

    def __init__(self, trace: Any, setting: Setting) -> None:
        self.trace = trace
        self.setting = setting
        self.known: dict[Any, Ints] = setting.thread_values()
        self.values: dict[Any, Any] = {}
        self.total = 0
        self.events: list[Event] = []
        self.iteration: tuple[int, ...] = ()
        self.prints: dict[Any, Footprint] = {}
        self.sized: dict[Any, Any] = {}

    def run(self) -> list[Event]:
        everyone = np.ones(self.setting.threads, dtype=np.bool_)
        self._graph(self.trace.get_root_graph(), everyone)
        return self.events

    def _graph(self, graph: Any, threads: Bools) -> Any:
        for node in graph.nodes:
            custom = ops.get_custom(node)
            if isinstance(custom, ops.Output):
                return node.args[0]
            self._node(node, custom, threads)
        return None

    def _node(self, node: Any, custom: Any, threads: Bools) -> None:
        if isinstance(custom, ops.Allocate):
            self.values[node] = self._allocate(custom)
        elif isinstance(custom, (ops.Read, ops.Write)):
            self._access(node, custom, threads)
        elif isinstance(custom, ops.Iterate):
            self._loop(node, custom, threads)
        elif isinstance(custom, ops.Conditional):
            self._branch(custom, threads)
        elif isinstance(custom, ops.GetResult):
            found = self._resolve(custom.value)
            self.values[node] = found[custom.res_idx] if isinstance(found, list) else found
        elif (sync := _sync(node, custom, threads)) is not None:
            self.events.append(sync)
        elif not isinstance(custom, _HARMLESS) and any(isinstance(self._resolve(a), Buffer) for a in _nodes(node)):
            raise Unsupported(f"{node.name} takes shared memory")

    def _resolve(self, node: Any) -> Any:
        while node not in self.values and "lifted" in node.meta:
            node = node.meta["lifted"]
        return self.values.get(node)

    def _number(self, expr: Any) -> int:
        value = sympy.sympify(expr).subs(self.setting.sizes)
        if not value.is_Integer:
            raise Unsupported(f"a size {expr}")
        return int(value)

    def _allocate(self, custom: Any) -> Buffer | None:
        if str(custom.address_space) != "$SHARED_ADDRESS_SPACE":
            return None
        shape = [self._number(extent) for extent in custom.distributed_shape]
        element = max(1, custom.dtype.bitwidth() // 8)
        strides = tuple(int(np.prod(shape[at + 1 :], dtype=np.int64)) for at in range(len(shape)))
        size = (int(np.prod(shape)) + self._number(custom.tail_padding)) * element
        if custom.parent is not None:
            parent = self._resolve(custom.parent)
            return Buffer(parent.base + self._number(custom.offset), size, strides, element)
        base, self.total = self.total, self.total + size
        return Buffer(base, size, strides, element)

    def _access(self, node: Any, custom: Any, threads: Bools) -> None:
        buffer = self._resolve(custom.memory)
        if buffer is None:
            if custom.memory_type.address_space == ops.SHARED_ADDRESS_SPACE:
                raise Unsupported(f"{node.name} uses shared memory that nobody allocates")
            return
        writes = isinstance(custom, ops.Write)
        key = (node, buffer, self.iteration, threads.tobytes())
        if key not in self.prints:
            self.prints[key] = self._footprint(node, custom, buffer, threads)
        self.events.append(Access(node.name, writes, self.iteration, self.prints[key], threads))

    def _footprint(self, node: Any, custom: Any, buffer: Buffer, threads: Bools) -> Footprint:
        if custom.mapping_dynamic_vals:
            raise Unsupported(f"{node.name} has an index from memory")
        count = self._number(custom.elements_per_thread)
        starts = {dim: self._at(seq.start) for dim, seq in node.index.items()}
        on = np.repeat(threads[:, None], count, axis=1) & self._mask(node, custom, starts, count)
        rows = self._mapped(custom, starts) if custom.mapping is not None else list(starts.values())
        if len(rows) != len(buffer.strides):
            raise Unsupported(f"{node.name} has an index of another rank")
        first = np.zeros(self.setting.threads, dtype=np.int64)
        for row, stride in zip(rows, buffer.strides, strict=True):
            first = first + row * stride
        elements = first[:, None] + np.arange(count)[None, :]
        local = elements[:, :, None] * buffer.element + np.arange(buffer.element)[None, None, :]
        local = local.reshape(self.setting.threads, -1)
        on = np.repeat(on, buffer.element, axis=1)
        if np.any(on & ((local < 0) | (local >= buffer.size))):
            raise Unsupported(f"{node.name} leaves its buffer")
        return Footprint(local + buffer.base, on)

    def _at(self, expr: Any, extra: dict[Any, Ints] | None = None) -> Ints:
        if expr not in self.sized:
            self.sized[expr] = sympy.sympify(expr).subs(self.setting.sizes)
        return whole(self.sized[expr], {**self.known, **(extra or {})})

    def _mapped(self, custom: Any, starts: dict[Any, Ints]) -> list[Ints]:
        mapping = custom.mapping
        side = mapping.input_mapping if isinstance(custom, ops.Read) else mapping.output_mapping
        iterators = dict(zip(mapping.iters.keys(), starts.values(), strict=False))
        return [self._at(side[dim], iterators) for dim in custom.memory_type.symbolic_shape]

    def _mask(self, node: Any, custom: Any, starts: dict[Any, Ints], count: int) -> Bools:
        """Elements below the bounds: those run along the dimension of the greatest size, the last of these."""
        mask = np.ones((self.setting.threads, count), dtype=np.bool_)
        if not custom.bounds:
            return mask
        sizes = [self._number(getattr(seq, "size", 1)) for seq in node.index.values()]
        along = [dim for dim, size in zip(node.index, sizes, strict=True) if size == max(sizes)][-1]
        for dim, bound in custom.bounds.items():
            at = starts[dim][:, None] + (np.arange(count)[None, :] if dim == along else 0)
            mask &= at < self._at(bound)[:, None]
        return mask

    def _loop(self, node: Any, custom: Any, threads: Bools) -> None:
        if custom.start is not None or custom.condition is not None:
            raise Unsupported("a loop with a condition")
        body = self.trace.get_subgraph(custom.subgraph_name)
        symbol = get_induction_symbol(custom.axis)
        carried = [self._resolve(arg) for arg in custom.init_args]
        outer, outer_value = self.iteration, self.known.get(symbol)
        for trip in range(0, self._number(node.count), int(custom.step)):
            self.iteration = (*outer, trip)
            self.known[symbol] = np.full(self.setting.threads, trip, dtype=np.int64)
            self.values.update(zip(custom.iter_args(body), carried, strict=True))
            given = self._graph(body, threads)
            out = list(given) if isinstance(given, Sequence) else [given] if given is not None else []
            carried = [self._resolve(value) for value in out]
        self.iteration = outer
        self.known.pop(symbol, None)
        if outer_value is not None:
            self.known[symbol] = outer_value
        self.values[node] = carried

    def _branch(self, custom: Any, threads: Bools) -> None:
        if not isinstance(custom.condition, (sympy.Basic, bool)):
            raise Unsupported("a condition from memory")
        taken = truth(sympy.sympify(custom.condition).subs(self.setting.sizes), self.known) & threads
        if taken.any():
            self._graph(self.trace.get_subgraph(custom.subgraph_name), taken)


def _nodes(node: Any) -> Iterator[Any]:
    yield from node.all_input_nodes


def _sync(node: Any, custom: Any, threads: Bools) -> Sync | None:
    """What Wave's code generator makes of a synchronizing operation.

    `amdgpu.lds_barrier` and the signal wait until no LDS operation is under way; `s_barrier` waits for nothing.
    """
    name = node.name
    if isinstance(custom, ops.SharedMemoryBarrier):
        return Sync(name, True, True, True, threads)
    if isinstance(custom, ops.WorkgroupBarrier):
        return Sync(name, False, True, True, threads)
    if isinstance(custom, (ops.SharedMemoryBarrierSignal, ops.SharedMemoryBarrierWait)):
        if custom.barId != -1:
            raise Unsupported(f"barrier {custom.barId}")
        signal = isinstance(custom, ops.SharedMemoryBarrierSignal)
        return Sync(name, signal, signal, not signal, threads, fence="wait" if signal else "")
    if isinstance(custom, ops.MemoryCounterWait):
        return Sync(name, custom.ds == 0, False, False, threads, fence="wait" if custom.ds == 0 else "")
    if isinstance(custom, ops.SchedulingBarrier):
        return Sync(name, False, False, False, threads, fence="" if custom.operations else "scheduling")
    return None
