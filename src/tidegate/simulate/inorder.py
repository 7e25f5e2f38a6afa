"""The in-order machine: every access is performed when it is issued, asynchronous copies too.

Needs   a well-formed kernel and arguments that fit it
Gives   the global arrays after the run
Keeps   waves take turns, one event each; barriers hold waves as `barriers` says; the result depends on nothing else
Cost    the arithmetic, plus constant per event

What a kernel means is what this machine computes, if the kernel is free of races. A kernel with a race may look right
here: that is what the hostile machine is for.

    k = parse(text).kernels[0]
    after = run(k, make_inputs(k, {"M": 128}), sizes={"M": 128})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, assert_never

import numpy as np

from tidegate.diag import Finding, Label
from tidegate.index import LANE, WAVE, WORKGROUP, Index, evaluate
from tidegate.language.ops import Kernel
from tidegate.language.show import show_op
from tidegate.simulate.barriers import Barriers
from tidegate.simulate.events import (
    Access,
    Arrive,
    Asking,
    AwaitPhase,
    Blocking,
    Commit,
    Copy,
    Depart,
    Drain,
    FenceEvent,
)
from tidegate.simulate.faults import Budget, SimulationError, unfit
from tidegate.simulate.inputs import MOST_GROUPS, Sizes, bind_arguments, check_machine, fill_sizes, make_inputs
from tidegate.simulate.memory import LDS, Memory, as_bytes, lds_layout, poisoned_lds
from tidegate.simulate.tiles import Array
from tidegate.simulate.values import Env, PerLane
from tidegate.simulate.wave import Wave

__all__ = ["SimulationError", "make_inputs", "run"]


def run(
    kernel: Kernel,
    inputs: Mapping[str, Any],
    *,
    sizes: Sizes | None = None,
    waves: int | None = None,
    lanes: int = 64,
    most_steps: int = 0,
) -> dict[str, Array]:
    """Every workgroup of the grid, one after the other; gives all global arrays by their names without `%`."""
    layout, values = lds_layout(kernel), fill_sizes(kernel, sizes)
    arguments, arrays = bind_arguments(kernel, inputs, values)
    count = kernel.waves if waves is None else waves
    check_machine(kernel, count, lanes)
    shared: Env = {**values, **arguments, LANE: PerLane(np.arange(lanes, dtype=np.int64))}
    spaces = {name: as_bytes(array) for name, array in arrays.items()}
    budget = Budget(most_steps)
    for place in workgroups(kernel.name, kernel.grid, values):
        memory = Memory({**spaces, LDS: poisoned_lds(kernel)})
        group = dict(zip(WORKGROUP, place, strict=True))
        programs = [
            Wave(kernel.body, {**shared, **group, WAVE: number}, layout, waves=count, lanes=lanes)
            for number in range(count)
        ]
        _run_workgroup(kernel, place, [program.run() for program in programs], memory, budget)
    return arrays


def workgroups(name: str, grid: Sequence[Index], sizes: Sizes) -> list[tuple[int, int, int]]:
    """The ids of all workgroups; a dimension that the grid does not name is 1."""
    if len(grid) > len(WORKGROUP):
        raise unfit(f"the grid of `@{name}` has {len(grid)} dimensions; it may have 3")
    try:
        counts = [evaluate(index, sizes) for index in grid] + [1] * (len(WORKGROUP) - len(grid))
    except ZeroDivisionError:
        raise unfit(f"the grid of `@{name}` divides by 0 with these sizes") from None
    if prod(max(0, each) for each in counts) > MOST_GROUPS:
        many = " x ".join(f"{each:,}" for each in counts[: len(grid)])
        said = f"the grid of `@{name}` has {many} workgroups, and a run has at most {MOST_GROUPS:,}"
        raise unfit(said, "give smaller sizes")
    return [(x, y, z) for z, y, x in product(*(range(count) for count in reversed(counts)))]


@dataclass(slots=True)
class _Running:
    """A wave between two events: what it is to be answered with, and what holds it."""

    number: int
    steps: Asking
    answer: Array | None = None
    held: Blocking | None = None


def _run_workgroup(kernel: Kernel, place: tuple[int, ...], steps: list[Asking], memory: Memory, budget: Budget) -> None:
    barriers = Barriers(len(steps))
    waves = [_Running(number, each) for number, each in enumerate(steps)]
    while waves:
        moved = False
        for wave in tuple(waves):
            if wave.held is not None:
                if not _goes_on(wave.number, wave.held, barriers):
                    continue
                wave.held = None
            moved = True
            budget.step(kernel.name)
            if not _step(wave, barriers, memory):
                waves.remove(wave)
        if not moved:
            raise _hang(kernel, place, waves, barriers)


def _goes_on(wave: int, held: Blocking, barriers: Barriers) -> bool:
    """Whether the barrier lets the wave go; then it has gone."""
    if isinstance(held, AwaitPhase):
        return barriers.may_pass(held.barrier, held.parity)
    if not barriers.may_depart(wave, held.barrier):
        return False
    barriers.depart(wave, held.barrier)
    return True


def _step(wave: _Running, barriers: Barriers, memory: Memory) -> bool:
    """Runs a wave to its next event and deals with it; false when it has ended."""
    try:
        event = wave.steps.send(wave.answer)
    except StopIteration:
        barriers.end(wave.number)
        return False
    wave.answer = None
    match event:
        case Access():
            wave.answer = perform(event, memory)
        case Copy(source=source, dest=dest, reports=reports, size=size):
            memory.store(dest, memory.load(source))
            if reports is not None:
                barriers.report(reports, size)
        case Arrive(barrier=barrier, expect=expect):
            barriers.arrive(wave.number, barrier, expect)
        case Depart() | AwaitPhase():
            wave.held = event
        case Drain() | Commit() | FenceEvent():
            pass  # everything is performed already
        case _:
            assert_never(event)
    return True


def perform(access: Access, memory: Memory) -> Array | None:
    """Does what an access asks for; gives what it found."""
    if access.tile is None:
        return memory.load(access.cells)
    if access.kind == "atomic":
        return memory.atomic_add(access.cells, access.tile)
    memory.store(access.cells, access.tile)
    return None


def _hang(kernel: Kernel, place: tuple[int, ...], waves: list[_Running], barriers: Barriers) -> SimulationError:
    """No wave can go on: what each waits for."""
    labels: dict[object, Label] = {}
    notes = [f"workgroup ({', '.join(map(str, place))})"]
    for wave in waves:
        if wave.held is None:
            continue
        op = wave.held.op
        waiting = [str(each.number) for each in waves if each.held is not None and each.held.op is op]
        who = f"wave {waiting[0]} waits" if len(waiting) == 1 else f"waves {', '.join(waiting)} wait"
        labels.setdefault(id(op), Label(op.at, f"{who} here"))
        text = next(show_op(op))
        parity = wave.held.parity if isinstance(wave.held, AwaitPhase) else None
        waits_for = barriers.waits_for(wave.number, wave.held.barrier, parity)
        notes.append(f"wave {wave.number} waits in `{text}` for {waits_for}")
    if barriers.ended:
        notes.append(f"ended: wave {', '.join(map(str, sorted(barriers.ended)))}")
    message = f"`@{kernel.name}` hangs: no wave can go on"
    help_ = "every wave must arrive at a barrier as often as the others wait for it"
    return SimulationError(Finding("TG221", message, tuple(labels.values()), tuple(notes), help_))
