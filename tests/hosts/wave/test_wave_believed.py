"""Traces that were proved and race: each rests on a step of the reading that did not hold in general."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

try:
    import sympy
    import torch.fx as fx
    import wave_lang.kernel.lang as tkl
    import wave_lang.kernel.wave as tkw
    from wave_lang.kernel._support.indexing import IndexSequence
    from wave_lang.kernel._support.regions import RegionGraph
    from wave_lang.kernel._support.tracing import CapturedTrace
    from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE, THREAD_0
    from wave_lang.kernel.ops import wave_ops
except ImportError:
    pytest.skip("NOT TESTED: traces need Wave", allow_module_level=True)

import tidegate.wave

M, N = tkl.sym.M, tkl.sym.N
WAVES, LANES, ROWS = 4, 64, 4
WAVE, LANE = THREAD_0 // LANES, THREAD_0 % LANES
MEMORY = tkl.Memory[M, N, SHARED_ADDRESS_SPACE, tkl.f32]
REGISTER = tkl.Register[M, N, tkl.f32]


class Trace:
    """A trace of four waves that is written down node by node."""

    def __init__(self) -> None:
        self.regions, self.graph = RegionGraph(), fx.Graph()
        self.regions.subgraphs["root"] = self.graph
        self.trace = CapturedTrace(self.regions, "root", None)
        self.sizes: dict[Any, Any] = {}

    def put(self, op: str, *args: Any, type: Any = None) -> Any:
        return getattr(wave_ops, op)(*args).add_to_graph(self.graph, type=type or REGISTER)

    def alloc(self, parent: Any = None, offset: int = 0) -> Any:
        placed = (parent, sympy.Integer(offset)) if parent is not None else (None, None)
        return self.put("Allocate", (M, N), (ROWS, LANES), tkl.f32, SHARED_ADDRESS_SPACE, 0, *placed, type=MEMORY)

    def read(self, memory: Any, row: Any) -> Any:
        node = self.put("Read", memory, 1)
        node.index = {M: IndexSequence(row, 1, 1), N: IndexSequence(LANE, 1, 1)}
        return node

    def write(self, memory: Any, row: Any) -> Any:
        node = self.put("Write", self.put("NewRegister", (M, N), tkl.f32, 0.0), memory, 1)
        node.index = {M: IndexSequence(row, 1, 1), N: IndexSequence(LANE, 1, 1)}
        return node

    def barrier(self) -> None:
        self.put("SharedMemoryBarrier", type=[])

    def is_proved(self) -> bool:
        self.graph.output(None)
        hardware = tkw.HardwareConstraint(threads_per_wave=LANES, waves_per_block=(WAVES, 1, 1))
        found = tidegate.wave.check(self.trace, "gfx942", constraints=[hardware], sizes=self.sizes)
        return found.is_proved


def test_a_row_behind_the_last() -> None:
    """The last wave writes the row behind its buffer, which is the first one of another."""
    for by, good in ((0, True), (1, False)):
        made = Trace()
        one, other = made.alloc(), made.alloc()
        made.write(one, WAVE + by)
        made.read(other, WAVE)
        assert made.is_proved() is good


def test_allocations_in_allocations() -> None:
    """Two that lie in two others, which lie in one at the same bytes, share bytes."""
    size = ROWS * LANES * 4
    for apart, good in ((size, True), (0, False)):
        made = Trace()
        outermost = made.put("Allocate", (N,), (ROWS * LANES * 2,), tkl.f32, SHARED_ADDRESS_SPACE, type=MEMORY)
        around = [
            made.put(
                "Allocate",
                (N,),
                (ROWS * LANES,),
                tkl.f32,
                SHARED_ADDRESS_SPACE,
                0,
                outermost,
                sympy.Integer(at),
                type=MEMORY,
            )
            for at in (0, apart)
        ]
        one, other = (made.alloc(each, 0) for each in around)
        made.write(one, WAVE)
        made.read(other, 3 - WAVE)
        assert made.is_proved() is good


def test_a_symbol_that_the_trace_sets_is_no_size() -> None:
    """The row was taken for the one that the sizes say."""
    for is_set in (False, True):
        made = Trace()
        row = sympy.Symbol("ROW", integer=True)
        made.sizes = {row: 0}
        memory = made.alloc()
        if is_set:
            made.put("SetSymbol", row, made.put("NewRegister", (M, N), tkl.i32, 1), type=[])
        made.write(memory, sympy.Mod(WAVE + row, 4))
        made.read(memory, WAVE)
        assert made.is_proved() is not is_set


@pytest.mark.parametrize("typed", [True, False])
def test_memory_that_a_region_is_handed_without_a_word(typed: bool) -> None:
    """A placeholder of a region that says nothing of where it comes from was taken for an argument of the kernel."""
    made = Trace()
    memory, body = made.alloc(), fx.Graph()
    made.write(memory, WAVE)
    own = body.create_node("placeholder", "handed")
    if typed:
        own.type = MEMORY
    root, made.graph = made.graph, body
    made.read(own, 3 - WAVE)
    body.output(None)
    made.graph = root
    made.regions.subgraphs["body"] = body
    node = made.put("Conditional", sympy.Lt(WAVE, 2), "body", [], type=[])
    body.parent_op = node
    assert not made.is_proved()


def test_an_operation_that_takes_memory_by_name() -> None:
    """Memory among the keyword arguments of an operation that nobody has described."""
    for known, good in ((False, False), (True, True)):
        made = Trace()
        memory, other = made.alloc(), made.alloc()
        made.write(memory, WAVE)
        if not known:
            made.graph.create_node("call_function", _unheard_of, (), {"memory": memory})
        made.read(other, WAVE)
        assert made.is_proved() is good


def _unheard_of(memory: Callable[[], None]) -> None:
    """Does something to memory."""
