"""The steps of one wave of a kernel, made while it runs.

Needs   a wave, which yields events, and the facts of a target about each operation
Gives   one step for each event, as the machine asks for them; the wave goes on with the answer of its last event
Keeps   steps say the same as those of the kernel's graph (`unroll`), with the bytes that are touched in this run
        asking again for the same step changes nothing
Cost    constant per event, plus the elements of an access that is no box
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, assert_never

import numpy as np

from tidegate.graph.lanes import lanes_of, tiles_with_own_maps
from tidegate.graph.memory import issues_of
from tidegate.language import ops
from tidegate.language.fit import CLASS_OF
from tidegate.language.layout import lay_out
from tidegate.language.ops import Kernel, Op, walk_ops
from tidegate.language.show import show_op
from tidegate.language.types import Lds
from tidegate.language.uses import names_in_block
from tidegate.simulate import events
from tidegate.simulate.findings import Statement
from tidegate.simulate.memory import LDS, Cells
from tidegate.simulate.program_order import Key
from tidegate.simulate.regions import SHARED, Region, Regions
from tidegate.simulate.steps import (
    Arrive,
    Await,
    Commit,
    Depart,
    Drain,
    Effect,
    End,
    Issue,
    LaneFence,
    Manner,
    ProxyFence,
    Queue,
    Step,
    Touch,
)
from tidegate.simulate.wave import Wave
from tidegate.targets import Target


class Data(Protocol):
    """Who moves the data of a wave; a read is answered with what it brings, now or later."""

    def issue(self, number: int, event: events.Access | events.Copy) -> events.Answer: ...


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is the same whenever an operation runs."""

    where: int
    queues: tuple[Queue, ...]
    can_wait: bool
    proxy: str
    lanes: str  # which lane has which element, by name
    fetches: bool  # an atomic whose result anything uses


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """What all waves of a kernel share: the numbers of its statements, what each counts on, and regions of memory."""

    facts: Mapping[int, _Facts]  # by the identity of the operation
    last: Key  # a key behind all others
    regions: Regions = field(default_factory=Regions)
    _boxes: dict[tuple[object, ...], Region] = field(default_factory=dict)

    @property
    def crosses(self) -> bool:
        """Whether anything goes through the other proxy: else nothing needs to be remembered until a fence."""
        return any(each.proxy != "generic" for each in self.facts.values())

    def of(self, op: Op) -> _Facts:
        return self.facts[id(op)]

    def region(self, cells: Cells) -> Region | None:
        """The bytes of an access to shared memory."""
        if cells.space != LDS:
            return None
        if cells.scattered is not None or cells.active is not None:
            return _scattered(cells, self.regions)
        key = (cells.base, cells.shape, cells.strides, cells.dtype.bytes)
        found = self._boxes.get(key)
        if found is None:
            found = self._boxes[key] = _box(cells, self.regions)
        return found


def facts_of(kernel: Kernel, target: Target) -> KernelFacts:
    found, own_maps, read = {}, tiles_with_own_maps(kernel), names_in_block(kernel.body)
    for where, op in enumerate(walk_ops(kernel.body)):
        issues = issues_of(op, target)
        queues = tuple(Queue(each.counter, each.least, each.in_order, each.most == 0) for each in issues)
        proxy = target.operations[CLASS_OF[type(op)]].proxy if isinstance(op, ops.CopyOp) else ""
        fetches = isinstance(op, ops.AtomicAdd) and op.result is not None and op.result.name in read
        can_wait, lanes = bool(queues) or not target.counters, lanes_of(op, own_maps)
        found[id(op)] = _Facts(where, queues, can_wait, proxy or "generic", lanes, fetches)
    return KernelFacts(found, (len(kernel.body.ops),))


def statements_of(kernel: Kernel) -> tuple[Statement, ...]:
    """What findings say about each statement, by its number."""
    offsets = lay_out(kernel).offsets
    buffers = {op.result.name: op.result.type for op in walk_ops(kernel.body) if isinstance(op, ops.Alloc)}
    found = []
    for op in walk_ops(kernel.body):
        memory = memory_of(op)
        type_ = buffers.get(memory)
        lies = (offsets[memory], type_.slot_bytes, type_.slots) if isinstance(type_, Lds) else ()
        found.append(Statement(op.at, next(iter(show_op(op))), memory, *lies))
    return tuple(found)


def memory_of(op: Op) -> str:
    """The buffer or view that an operation accesses, or the global array if it accesses no shared memory."""
    match op:
        case ops.GatherToLds() | ops.TensorLoadToLds():
            return op.dest.base.name
        case ops.LdsToGlobal():
            return op.source.base.name
        case ops.LocalRead() | ops.LocalWrite() | ops.AtomicAdd() | ops.GlobalRead() | ops.GlobalWrite():
            return op.place.base.name
        case ops.ReadIndex():
            return op.place.base.name
    return ""


class KernelSource:
    """The steps of one wave. `data` is told of each access when the machine issues it."""

    def __init__(self, wave: Wave, facts: KernelFacts, data: Data) -> None:
        self.wave = wave
        self.facts = facts
        self.data = data
        self.events = wave.run()
        self.event: events.Event | None = None
        self.answer: events.Answer = None
        self.number = -1
        self.current: Step = End(-1)
        self.issued = 0
        self.copies: dict[int, int] = {}  # the wave's own number of a copy → its number among all accesses

    def step(self, number: int) -> Step:
        if number != self.number:
            self.number = number
            self.current = self._advance()
        return self.current

    def issue(self, number: int) -> None:
        """The machine takes the current step, an access."""
        assert isinstance(self.event, events.Access | events.Copy)
        self.answer = self.data.issue(number, self.event)

    def _advance(self) -> Step:
        try:
            event = self.events.send(self.answer)
        except StopIteration:
            return End(-1, self.facts.last)
        self.event, self.answer = event, None
        return self._as_step(event, tuple(self.wave.path))

    def _numbers(self, copies: frozenset[int]) -> frozenset[int]:
        """The wave's own numbers of copies as numbers among all accesses."""
        return frozenset(self.copies[each] for each in copies)

    def _as_step(self, event: events.Event, key: Key) -> Step:
        facts = self.facts.of(event.op)
        where = facts.where
        match event:
            case events.Access():
                return self._issue(self._access(event, facts, key))
            case events.Copy(number=number):
                self.copies[number] = self.issued
                return self._issue(self._copy(event, facts, key))
            case events.Commit():
                return Commit(where, key, frozenset(each.counter for each in facts.queues if each.least))
            case events.Drain(counts=counts, copies=copies, lds=lds, every_copy=every, named=named) as drain:
                copied, named = self._numbers(copies), self._numbers(named)
                return Drain(where, lds, every, counts, copied, key, named, drain.all_lanes)
            case events.FenceEvent(op=op, all_lanes=all_lanes):
                return ProxyFence(where, key) if op.kind == "proxy_async" else LaneFence(where, key, all_lanes)
            case events.Arrive(op=op, barrier=barrier, expect=expect):
                return Arrive(where, barrier, expect, _manner(op), key, tuple(self.wave.loops))
            case events.Depart(barrier=barrier):
                return Depart(where, barrier, key, tuple(self.wave.loops))
            case events.AwaitPhase(barrier=barrier, parity=parity):
                return Await(where, barrier, parity, key, tuple(self.wave.loops))
            case _:
                assert_never(event)

    def _issue(self, touch: Touch) -> Issue:
        self.issued += 1
        return Issue(touch)

    def _access(self, event: events.Access, facts: _Facts, key: Key) -> Touch:
        op, region = event.op, self.facts.region(event.cells)
        is_atomic = isinstance(op, ops.AtomicAdd)
        return Touch(
            facts.where,
            event.kind,
            region,
            facts.queues,
            operator="add" if is_atomic else "",
            fetches=facts.fetches,
            can_wait=facts.can_wait,
            key=key,
            loops=tuple(self.wave.loops),
            element=event.cells.dtype.name if is_atomic else "",
            grid=_grid(event.cells) if is_atomic else None,
            lanes=self.facts.of(op).lanes if event.cells.scattered is None else "",
            first=event.cells.base if event.cells.scattered is None else None,
        )

    def _copy(self, event: events.Copy, facts: _Facts, key: Key) -> Touch:
        outward = isinstance(event.op, ops.LdsToGlobal)
        effect: Effect = "read" if outward else "write"
        return Touch(
            facts.where,
            effect,
            self.facts.region(event.source if outward else event.dest),
            facts.queues,
            is_async=True,
            proxy=facts.proxy,
            reports=event.reports,
            size=event.size,
            can_wait=facts.can_wait,
            key=key,
            loops=tuple(self.wave.loops),
        )


def _manner(op: Op) -> Manner:
    match op:
        case ops.ConditionalBarrier():
            return "half"
        case ops.Signal():
            return "signal"
        case ops.MbarrierArrive():
            return "mbarrier"
    return "whole"


# --- bytes --------------------------------------------------------------------------------------------------------


def _grid(cells: Cells) -> int | None:
    """Where the elements begin, modulo their size, if that is the same for all of them."""
    found = np.unique(cells.active_addresses % cells.dtype.bytes)
    return int(found[0]) if found.size == 1 else None if found.size else 0


def _box(cells: Cells, regions: Regions) -> Region:
    """Axes that follow one another without a gap become one."""
    width = cells.dtype.bytes
    steps: list[tuple[int, int]] = []
    for count, stride in zip(reversed(cells.shape), reversed(cells.strides), strict=True):
        if not steps and stride == width:
            width *= count
        elif count != 1:
            steps.append((count, stride))
    return regions.box(SHARED, cells.base, tuple(steps), width)


def _scattered(cells: Cells, regions: Regions) -> Region:
    first = np.unique(cells.active_addresses)
    if not first.size:
        return regions.of(SHARED, ())
    width = cells.dtype.bytes
    gaps = np.flatnonzero(np.diff(first) > width)
    lows, highs = first[np.r_[0, gaps + 1]], first[np.r_[gaps, first.size - 1]] + width
    return regions.of(SHARED, zip(lows.tolist(), highs.tolist(), strict=True))
