"""Operations that meet other waves, wait, or run other graphs.

Needs   a Wave operation and the `Program` whose graphs it may run
Gives   `flow_step`: a generator for one execution by one wave; it yields where other waves may come between
Keeps   the model of `timing` and `barriers`: SharedMemoryBarrier and SharedMemoryBarrierSignal drain ordinary accesses
        and what else they are asked to, WorkgroupBarrier drains nothing
Cost    a step for each
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from oracles.wave_machine import addresses
from oracles.wave_machine.accesses import ACCESSES, Flow, Graphs
from oracles.wave_machine.expressions import CannotRun
from oracles.wave_machine.waves import Question, Wave


def flow_step(op: Any, program: Graphs) -> Flow | None:
    """One generator function for one node."""
    maker = MAKERS.get(op.tkw_op_name)
    return None if maker is None else maker(op, program)


def make_barrier(op: Any, program: Graphs) -> Flow:
    bare = op.tkw_op_name == "workgroup_barrier"

    def meet(wave: Wave) -> Generator[Question | None, None, Any]:
        yield None
        if not bare:
            wave.queues.drain()
            wave.settle()
            if op.wait_async_ops:
                wave.queues.land(wave.queues.vector)
            if op.tensor_wait:
                wave.queues.land(wave.queues.tensor)
        wave.meeting.arrive(-1, wave.number)
        yield lambda: wave.meeting.may_leave(-1, wave.number)
        wave.meeting.leave(-1, wave.number)

    return meet


def make_signal(op: Any, program: Graphs) -> Flow:
    def signal(wave: Wave) -> Generator[Question | None, None, Any]:
        yield None
        if op.tensor_wait:
            wave.queues.land(wave.queues.tensor)
        wave.queues.drain()
        wave.settle()
        wave.meeting.arrive(op.barId, wave.number)

    return signal


def make_wait(op: Any, program: Graphs) -> Flow:
    def wait(wave: Wave) -> Generator[Question | None, None, Any]:
        yield lambda: wave.meeting.may_leave(op.barId, wave.number)
        wave.meeting.leave(op.barId, wave.number)

    return wait


def make_counter_wait(op: Any, program: Graphs) -> Flow:
    def wait(wave: Wave) -> Generator[Question | None, None, Any]:
        yield None
        if op.load is not None:
            wave.queues.land(wave.queues.vector, op.load)
        if op.ds is not None:
            wave.queues.drain(op.ds)
        if not wave.queues.ordinary:
            wave.settle()

    return wait


def make_conditional(op: Any, program: Graphs) -> Flow:
    graph = program.subgraph(op.subgraph_name)
    pairs = list(zip(op.implicit_captures, op.captured_vars(graph), strict=True))

    def branch(wave: Wave) -> Generator[Question | None, None, Any]:
        before = wave.active
        taken = wave.condition(op.condition) & (True if before is None else before)
        if not taken.any():
            return
        for outer, inner in pairs:
            wave.values[inner] = wave.raw(outer)
        wave.active = None if taken.all() else taken
        yield from program.run_graph(wave, op.subgraph_name)
        wave.active = before

    return branch


def make_iterate(op: Any, program: Graphs) -> Flow:
    graph = program.subgraph(op.subgraph_name)
    counter = f"$ARG{op.axis}"
    inner = op.iter_args(graph)
    captured = [(node.meta["lifted"], node) for node in op.captured_vars(graph)]

    def run_once(wave: Wave, carried: list[Any]) -> Generator[Question | None, None, Any]:
        for outer, node in captured:
            wave.values[node] = wave.raw(outer)
        for node, value in zip(inner, carried, strict=True):
            wave.values[node] = value
        result = yield from program.run_graph(wave, op.subgraph_name)
        return carried if result is None else result

    def repeat(wave: Wave) -> Generator[Question | None, None, Any]:
        carried = [wave.raw(node) for node in op.init_args]
        outside = wave.symbols.get(counter)
        if op.start is not None:
            turn = int(wave.array(op.start)[0, 0])
            while holds(wave, op, turn):
                wave.symbols[counter] = turn
                carried = yield from run_once(wave, carried)
                turn = wave.symbols[op.axis.name]
        else:
            for turn in range(0, wave.number_of(op.count), int(op.step)):
                wave.symbols[counter] = turn
                carried = yield from run_once(wave, carried)
        if outside is None:
            wave.symbols.pop(counter, None)
        else:
            wave.symbols[counter] = outside
        return carried

    return repeat


def holds(wave: Wave, op: Any, turn: int) -> bool:
    """Whether a loop with a condition goes on."""
    found = np.asarray(wave.evaluate(addresses.compiled(op.condition), {op.axis.name: turn}))
    if found.min() != found.max():
        raise CannotRun(f"the lanes of a wave disagree about `{op.fx_node.name}`")
    return bool(found.flat[0])


MAKERS: dict[str, Callable[[Any, Graphs], Flow]] = {
    **ACCESSES,
    "shared_memory_barrier": make_barrier,
    "workgroup_barrier": make_barrier,
    "shared_memory_barrier_signal": make_signal,
    "shared_memory_barrier_wait": make_wait,
    "memory_counter_wait": make_counter_wait,
    "conditional": make_conditional,
    "iterate": make_iterate,
}
