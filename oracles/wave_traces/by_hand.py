"""A trace of four waves that is written down node by node, as Wave's code generator takes it.

Needs   Wave
Gives   `ByHand`: each method puts one node into the graph that is being written, and returns it
Keeps   a node is what Wave makes of its operation; only indices are given, which Wave would infer

    made = ByHand()
    rows = made.alloc()
    made.write(rows, WAVE)
    made.read(rows, 3 - WAVE)
    made.check().is_proved        False: nothing orders the two
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sympy
import torch.fx as fx
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang.kernel._support.indexing import IndexSequence
from wave_lang.kernel._support.regions import RegionGraph
from wave_lang.kernel._support.tracing import CapturedTrace
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE, THREAD_0
from wave_lang.kernel.ops import wave_ops

import tidegate.wave
from tidegate.results import CheckResult

M, N, STEP = tkl.sym.M, tkl.sym.N, tkl.sym.STEP
WAVES, LANES, ROWS = 4, 64, 4
WAVE, LANE = THREAD_0 // LANES, THREAD_0 % LANES
COUNTER = tkl.IndexSymbol("$ARGSTEP", integer=True, nonnegative=True)
MEMORY = tkl.Memory[M, N, SHARED_ADDRESS_SPACE, tkl.f32]
REGISTER = tkl.Register[M, N, tkl.f32]


class ByHand:
    def __init__(self, target: str = "gfx942") -> None:
        self.target = target
        self.regions, self.graph = RegionGraph(), fx.Graph()
        self.regions.subgraphs["root"] = self.graph
        self.trace = CapturedTrace(self.regions, "root", None)
        self.sizes: dict[Any, Any] = {}

    def put(self, op: str, *args: Any, type: Any = None) -> Any:
        return getattr(wave_ops, op)(*args).add_to_graph(self.graph, type=type or REGISTER)

    # --- memory ---

    def alloc(
        self,
        rows: int = ROWS,
        columns: int = LANES,
        kind: Any = tkl.f32,
        parent: Any = None,
        offset: int = 0,
        pad: int = 0,
    ) -> Any:
        placed = (parent, sympy.Integer(offset)) if parent is not None else (None, None)
        type = tkl.Memory[M, N, SHARED_ADDRESS_SPACE, kind]
        return self.put("Allocate", (M, N), (rows, columns), kind, SHARED_ADDRESS_SPACE, pad, *placed, type=type)

    def heap(self, size: int) -> Any:
        type = tkl.Memory[N, SHARED_ADDRESS_SPACE, tkl.i8]
        return self.put("Allocate", (N,), (size,), tkl.i8, SHARED_ADDRESS_SPACE, type=type)

    def read(self, memory: Any, row: Any, column: Any = LANE, count: int = 1) -> Any:
        return self.at(self.put("Read", memory, count), row, column, count)

    def write(self, memory: Any, row: Any, column: Any = LANE, count: int = 1) -> Any:
        return self.at(self.put("Write", self.register(), memory, count), row, column, count)

    def copy(self, memory: Any, row: Any, column: Any = LANE, count: int = 1, kind: Any = tkl.f32) -> Any:
        """A copy from global memory, `count` elements for each lane."""
        given, to = self.argument(), self.index(row, column, count)
        source = self.index(row, column, count)
        return self.put("GatherToLDS", given, memory, source, to, kind, count, None, None, {}, type=[])

    def argument(self) -> Any:
        """Global memory that the kernel is launched with."""
        root = self.regions.subgraphs["root"]
        found = next((each for each in root.nodes if each.op == "placeholder"), None)
        if found is None:
            first = next(iter(root.nodes), None)
            with root.inserting_before(first):
                found = root.create_node("placeholder", "X")
        return found

    def at(self, node: Any, row: Any, column: Any, count: int = 1) -> Any:
        node.index = self.index(row, column, count)
        return node

    def index(self, row: Any, column: Any, count: int = 1) -> dict[Any, Any]:
        return {M: IndexSequence(sympy.sympify(row), 1, 1), N: IndexSequence(sympy.sympify(column), count, 1)}

    def register(self, value: float = 0.0, kind: Any = tkl.f32) -> Any:
        return self.put("NewRegister", (M, N), kind, value)

    # --- order and flow ---

    def barrier(self) -> None:
        self.put("SharedMemoryBarrier", type=[])

    def set_symbol(self, symbol: Any, value: Any) -> None:
        """`value` is an expression that all threads compute."""
        self.put("SetSymbol", symbol, self.put("NewScalar", value, tkl.i32), type=[])

    @contextmanager
    def region(self, name: str) -> Iterator[Any]:
        """What is put in meanwhile goes into a graph of its own."""
        around, self.graph = self.graph, fx.Graph()
        self.regions.subgraphs[name] = self.graph
        yield self.graph
        if not any(each.op == "output" for each in self.graph.nodes):
            self.graph.output(None)
        self.graph = around

    def carried(self, number: int, type: Any = MEMORY) -> Any:
        node = self.graph.create_node("placeholder", f"carried_{number}")
        node.type, node.iter_idx, node.tkw_op = type, number, wave_ops.IterArg
        return node

    def captured(self, node: Any) -> Any:
        found = self.graph.create_node("placeholder", node.name)
        found.type, found.meta["lifted"] = node.type, node
        return found

    def loop(self, name: str, trips: Any, init: Sequence[Any] = (), captures: Sequence[Any] = (), **more: Any) -> Any:
        """A loop over a region; `start` and `condition` make it one that runs while a condition holds."""
        values = (STEP, list(init), name, list(captures), 1, more.get("start"), more.get("condition"))
        node = self.put("Iterate", *values, type=[])
        node.count = trips
        self.regions.subgraphs[name].parent_op = node
        return node

    def conditional(self, name: str, condition: Any, captures: Sequence[Any] = ()) -> Any:
        node = self.put("Conditional", condition, name, list(captures), type=[])
        self.regions.subgraphs[name].parent_op = node
        return node

    # --- asking ---

    def check(self) -> CheckResult:
        """What `tidegate.wave.check` says of the trace, which ends here."""
        if not any(each.op == "output" for each in self.graph.nodes):
            self.graph.output(None)
        hardware = tkw.HardwareConstraint(threads_per_wave=LANES, waves_per_block=(WAVES, 1, 1))
        return tidegate.wave.check(self.trace, self.target, constraints=[hardware], sizes=self.sizes)

    def is_proved(self) -> bool:
        return bool(self.check())
