"""A trace, read once and run many times.

Needs   a `CapturedTrace` after Wave's barrier pass, its constraints and options, with Wave's indexing context open
Gives   `Program.run`: one run of some workgroups, with a seed and a timing
Keeps   the trace is not changed; each wave steps at its own pace, chosen by the seed; a run with the same seed, timing
        and inputs is the same run
Cost    as many steps as the waves execute operations
"""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from wave_lang.kernel._support.indexing import subs_idxc
from wave_lang.kernel.ops.wave_ops import Allocate, Placeholder, get_custom
from wave_lang.kernel.wave.constraints import WorkgroupConstraint, get_grid_shape
from wave_lang.kernel.wave.utils.general_utils import get_hardware_constraint

from oracles.wave_machine.accesses import Flow
from oracles.wave_machine.barriers import Rendezvous
from oracles.wave_machine.expressions import CannotRun
from oracles.wave_machine.flow import flow_step
from oracles.wave_machine.memory import GlobalArray, SharedMemory
from oracles.wave_machine.numbers import Array, held_as
from oracles.wave_machine.registers import PROMPT, Step, register_step
from oracles.wave_machine.timing import TIMINGS, Queues
from oracles.wave_machine.waves import Question, Running, Wave

Workgroup = tuple[int, int, int]
BURSTS = (1, 3, 20, 1000)  # how many steps a wave may take before another is chosen
CHANCES = (0.0, 0.02, 0.2, 0.7, 1.0)


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run left behind."""

    arrays: dict[str, Array]  # global memory, by the kernel's argument names
    written: dict[str, Array]  # which elements of it the run wrote
    disputed: dict[str, Array]  # which of them two waves wrote with different values
    hang: str  # who waits forever and where, or ""


class Program:
    """A trace that can be run."""

    def __init__(self, trace: Any, constraints: Sequence[Any], options: Any) -> None:
        self.trace = trace
        self.constraints = constraints
        self.target: str = options.target
        hardware = get_hardware_constraint(constraints)
        self.lanes = int(hardware.threads_per_wave)
        self.threads = tuple(int(subs_idxc(extent)) for extent in hardware.threads_per_block)
        root = trace.get_root_graph()
        self.arguments = [node for node in root.nodes if isinstance(get_custom(node), Placeholder)]
        self.steps: dict[str, list[tuple[Any, Step | None, Flow | None]]] = {}
        self.prompt: set[Any] = set()  # nodes that are never put off
        self.remembered: dict[Any, dict[Any, Any]] = {}
        self.root = next(name for name, graph in trace.region_graph.subgraphs.items() if graph is root)

    def run(
        self,
        inputs: Mapping[str, Array],
        seed: int = 0,
        timing: str = "random",
        workgroups: Sequence[Workgroup] = ((0, 0, 0),),
    ) -> Ran:
        """Workgroups run one after the other; the first that hangs is the last that runs."""
        if timing not in TIMINGS:
            raise ValueError(f"timing is one of {', '.join(TIMINGS)}, not {timing}")
        arrays = {node: self.argument(node, inputs) for node in self.arguments}
        sizes = self.sizes(arrays)
        hang = ""
        for number, workgroup in enumerate(workgroups):
            dice = random.Random(f"{seed} {number} {timing}")
            waves = self.start(arrays, sizes, workgroup, timing, dice)
            hang = run_waves(waves, [self.run_wave(wave) for wave in waves], dice, timing == "lockstep")
            if hang:
                break
        named = {array.name: array for array in arrays.values()}
        return Ran(
            {name: one.array for name, one in named.items()},
            {name: one.writer >= 0 for name, one in named.items()},
            {name: one.disputed for name, one in named.items()},
            hang,
        )

    def grid(self, inputs: Mapping[str, Array]) -> tuple[int, ...]:
        """How many workgroups a launch has in each dimension."""
        sizes = self.sizes({node: self.argument(node, inputs) for node in self.arguments})
        shape = get_grid_shape([one for one in self.constraints if isinstance(one, WorkgroupConstraint)])
        return tuple(int(subs_idxc(extent).subs(sizes) if hasattr(extent, "subs") else extent) for extent in shape)

    def argument(self, node: Any, inputs: Mapping[str, Array]) -> GlobalArray:
        """The memory behind an argument: a copy of what is given."""
        kind = get_custom(node).type
        if not hasattr(kind, "symbolic_shape") or not hasattr(kind, "address_space"):
            raise CannotRun(f"the argument `{node.name}` is not memory")
        if getattr(kind, "physical_layout", None) is not None:
            raise CannotRun(f"the argument `{node.name}` has a layout of its own")
        if node.name not in inputs:
            raise ValueError(f"no array is given for `{node.name}`")
        array = np.array(inputs[node.name], held_as(kind.dtype), order="C")
        writer, disputed = np.full(array.shape, -1, np.int32), np.zeros(array.shape, bool)
        return GlobalArray(node.name, array, writer, disputed, tuple(kind.symbolic_shape))

    def sizes(self, arrays: Mapping[Any, GlobalArray]) -> dict[Any, int]:
        """The symbols that are known only at the launch, from the shapes of the arguments."""
        found: dict[Any, int] = {}
        for one in arrays.values():
            if len(one.shape) != one.array.ndim:
                raise ValueError(f"`{one.name}` has {len(one.shape)} dimensions, not {one.array.ndim}")
            for extent, length in zip(one.shape, one.array.shape, strict=True):
                known = subs_idxc(extent)
                if getattr(known, "is_Symbol", False):
                    known = found.setdefault(known, length)
                if int(known) != length:
                    raise ValueError(f"`{one.name}` has {length} elements along {extent}, not {known}")
        return found

    def start(
        self,
        arrays: Mapping[Any, GlobalArray],
        sizes: Mapping[Any, int],
        workgroup: Workgroup,
        timing: str,
        dice: random.Random,
    ) -> list[Wave]:
        """The waves of a workgroup before their first step."""
        graphs = self.trace.region_graph.subgraphs.values()
        made = [(node, get_custom(node)) for graph in graphs for node in graph.nodes]
        allocations = [(node, op) for node, op in made if isinstance(op, Allocate)]
        shared = SharedMemory(allocations, lambda size: int(subs_idxc(size)))
        x, y, z = self.threads
        thread = np.arange(x * y * z).reshape(-1, self.lanes, 1)
        meeting = Rendezvous(len(thread))
        common: dict[str, Any] = {f"$WG{place}": number for place, number in enumerate(workgroup)}
        common |= {f"$DD{place}": 0 for place in range(3)}
        common |= {symbol.name: size for symbol, size in sizes.items()}
        remembered = self.remembered.setdefault((workgroup, tuple(sizes.items())), {})
        waves = []
        for number, linear in enumerate(thread):
            symbols = common | {"$T0": linear % x, "$T1": linear // x % y, "$T2": linear // (x * y)}
            queues = Queues(timing, dice.choice(CHANCES))
            wave = Wave(number, symbols, queues, meeting, shared.buffers, remembered)
            wave.values.update(arrays)
            waves.append(wave)
        return waves

    def run_wave(self, wave: Wave) -> Running:
        yield from self.run_graph(wave, self.root)
        wave.queues.end()
        wave.ended = True

    def run_graph(self, wave: Wave, name: str) -> Generator[Question | None, None, Any]:
        """Runs the nodes of a graph in their order and gives what it returns, unforced."""
        for node, step, flow in self.steps_of(name):
            wave.at = node.name
            if step is not None:
                lazy = wave.queues.timing == "lazy" and node not in self.prompt
                found = wave.put_off(node, step) if lazy else step(wave)
            else:
                assert flow is not None
                found = yield from flow(wave)
            if found is not None:
                wave.values[node] = found
        output = get_output(self.subgraph(name))
        if output is None:
            return None
        return [wave.raw(node) for node in output]

    def steps_of(self, name: str) -> list[tuple[Any, Step | None, Flow | None]]:
        if name not in self.steps:
            made = []
            for node in self.subgraph(name).nodes:
                op = get_custom(node)
                step = register_step(op)
                flow = None if step is not None else flow_step(op, self)
                if step is None and flow is None:
                    raise CannotRun(f"the operation `{op.tkw_op_name}` ({type(op).__name__}) is not known")
                if op.tkw_op_name in PROMPT:
                    self.prompt.add(node)
                made.append((node, step, flow))
            self.steps[name] = made
        return self.steps[name]

    def subgraph(self, name: str) -> Any:
        return self.trace.region_graph.subgraphs[name]


def get_output(graph: Any) -> list[Any] | None:
    """What a graph returns; `None` for nothing."""
    last = next(reversed(graph.nodes), None)
    if last is None or last.op != "output" or last.args[0] is None:
        return None  # Wave's own conditional graphs have no output
    found = last.args[0]
    return list(found) if isinstance(found, (list, tuple)) else [found]


def run_waves(waves: Sequence[Wave], runs: Sequence[Running], dice: random.Random, in_turn: bool) -> str:
    """Steps the waves in turn or in an order that the dice choose; says who hangs."""
    asked: dict[int, Question | None] = {wave.number: None for wave in waves}
    number = -1
    while asked:
        ready = [number for number, question in asked.items() if question is None or question()]
        if not ready:
            return tell_hang(waves, asked)
        number = next((one for one in ready if one > number), ready[0]) if in_turn else dice.choice(ready)
        for _ in range(1 if in_turn else dice.choice(BURSTS)):
            try:
                asked[number] = next(runs[number])
            except StopIteration:
                del asked[number]
                break
            for wave in waves:
                wave.queues.pass_time(dice)
            question = asked[number]
            if question is not None and not question():
                break
    return waves[0].meeting.misuse


def tell_hang(waves: Sequence[Wave], asked: Mapping[int, Any]) -> str:
    at = ", ".join(f"wave {number} at `{waves[number].at}`" for number in sorted(asked))
    ended = [str(wave.number) for wave in waves if wave.number not in asked]
    return f"forever: {at}" + (f"; ended: {', '.join(ended)}" if ended else "")
