"""A program as a Wave trace, made by Wave's own tracer and compiler up to the pass that places barriers.

The indices that Wave would derive are set directly, in the last step before that pass. `compiled` goes through
`wave_compile`, so that whoever takes the place of the pass is called as in a real compilation.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy
import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang.kernel._support.indexing import IndexingContext, IndexSequence
from wave_lang.kernel._support.location import FileLineColInfo
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE, THREAD_0, THREAD_1, THREAD_2
from wave_lang.kernel.ops import wave_ops
from wave_lang.kernel.ops.wave_ops import NewRegister, Read, Write, get_custom
from wave_lang.kernel.wave.compile import WaveCompileOptions, wave_compile
from wave_lang.kernel.wave.scheduling.schedule_enums import SchedulingType
from wave_lang.kernel.wave.type_inference import infer_types
from wave_lang.kernel.wave.utils.general_utils import partial
from wave_lang.kernel.wave.utils.graph_utils import initialize_iter_args
from wave_lang.kernel.wave.utils.symbol_utils import get_induction_symbol
from wave_lang.kernel.wave.wave import LaunchableWave
from wave_lang.support.location_config import LocationCaptureConfig, LocationCaptureLevel

from .program import Branch, Gate, K, L, Loop, Program, Touch, W
from .setting import Setting

os.environ["WAVE_CACHE_ON"] = "0"
M, N, HEAP = tkl.sym.M, tkl.sym.N, tkl.sym.HEAP
FLOATS = {8: tkl.i8, 16: tkl.f16, 32: tkl.f32}


@dataclass
class Subject:
    """A trace, with what is needed to judge it."""

    trace: Any
    kernel: Any
    options: Any
    setting: Setting


class _Done(BaseException):
    """The trace is as far as we want it."""


class _Kernel(LaunchableWave):  # type: ignore[misc]
    """A kernel whose indices are given, and whose compilation ends before or after the placing of barriers."""

    end = "placed"  # unplaced, placed, emitted
    reached: Any = None

    def __init__(
        self, constraints: list[Any], function: Callable[..., Any], places: dict[int, Any], one_line: bool
    ) -> None:
        super().__init__(constraints, "twin", function)
        self.places = places
        self.one_line = one_line

    def build_initial_pass_pipeline(self, trace: Any, options: Any, *rest: Any) -> list[Any]:
        context = IndexingContext.current()

        def finalize() -> None:
            context.finalize()

        def indices() -> None:
            self.set_indices(trace)

        return [
            partial(initialize_iter_args, trace),
            partial(self.create_induction_vars, trace),
            partial(self.initialize_reductions, trace),
            finalize,
            partial(infer_types, trace, self.constraints),
            indices,
        ]

    def set_indices(self, trace: Any) -> None:
        for node in trace.walk():
            custom = get_custom(node)
            if isinstance(custom, (Read, Write)):
                node.location = FileLineColInfo("twin.py", 1 if self.one_line else 1 + int(node.tag), 1)
                node.index = dict(self.places[int(node.tag)][0])
                if (bounds := self.places[int(node.tag)][1]) is not None:
                    custom.update_arg("bounds", bounds)
            elif isinstance(custom, NewRegister):
                node.index = dict(self.places[int(node.tag)][0])

    def run_manual_schedule(self, trace: Any, *rest: Any) -> None:
        """Wave's last step before barriers: again the indices, whose counters a pass has taken out meanwhile."""
        self.set_indices(trace)
        self.reached = trace
        if self.end == "unplaced":
            raise _Done

    def compile_to_mlir(self, trace: Any, *rest: Any, **more: Any) -> Any:
        self.reached = trace
        if self.end == "placed":
            raise _Done
        return super().compile_to_mlir(trace, *rest, **more)


class _Writer:
    """Writes one program with Wave's operations; runs inside the tracer."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.places: dict[int, Any] = {}
        self.axes: list[tuple[Any, int]] = []
        self.dims = [(tkl.IndexSymbol(f"R{i}"), tkl.IndexSymbol(f"C{i}")) for i in range(len(program.buffers))]
        for i, shared in enumerate(program.buffers):  # what goes round together has one type
            self.dims[i] = self.dims[program.buffers.index(shared)]
        x, y, z = program.waves
        wave = sympy.floor(THREAD_0 / program.lanes) if x > 1 else sympy.Integer(0)
        wave += (x * THREAD_1 if y > 1 else 0) + (x * y * THREAD_2 if z > 1 else 0)
        self.base = {W: wave, L: sympy.Mod(THREAD_0, program.lanes) if x > 1 else THREAD_0}

    def kernel(self) -> None:
        self.places.clear()
        self.axes.clear()
        size = self.program.heap
        heap = tkw.allocate((HEAP,), (size,), tkl.i8, SHARED_ADDRESS_SPACE) if size else None
        buffers = []
        for b, dims in zip(self.program.buffers, self.dims, strict=True):
            view = {} if b.offset is None else {"parent": heap, "offset": b.offset}
            buffers.append(tkw.allocate(dims, (b.rows, b.cols), FLOATS[b.bits], SHARED_ADDRESS_SPACE, **view))
        self.body(self.program.body, buffers, {})

    def body(self, body: tuple[Any, ...], buffers: list[Any], counters: dict[Any, Any]) -> None:
        for statement in body:
            if isinstance(statement, Touch):
                self.touch(statement, buffers, counters)
            elif isinstance(statement, Gate):
                self.gate(statement)
            elif isinstance(statement, Branch):
                self.branch(statement, buffers, counters)
            else:
                self.loop(statement, buffers, counters)

    def branch(self, branch: Branch, buffers: list[Any], counters: dict[Any, Any]) -> None:
        def taken() -> None:
            self.body(branch.body, buffers, counters)

        tkw.conditional(branch.condition.subs({**self.base, **counters}))(taken)

    def gate(self, gate: Gate) -> None:
        match gate.kind:
            case "full":
                tkw.shared_memory_barrier()
            case "bare":
                tkw.workgroup_barrier()
            case "signal":
                tkw.shared_memory_barrier_signal(-1)
            case "wait":
                tkw.shared_memory_barrier_wait(-1)
            case "drain":
                tkw.memory_counter_wait(ds=0)

    def touch(self, touch: Touch, buffers: list[Any], counters: dict[Any, Any]) -> None:
        rows, cols = self.dims[touch.buffer]
        names = {**self.base, **counters}
        mapping = None
        if touch.mapped:
            i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
            inside = {W: i, L: sympy.floor(j / touch.count) if touch.count > 1 else j, **counters}
            there = {rows: touch.row.subs(inside), cols: touch.col.subs(inside)}
            here = {rows: i, cols: j}
            mapping = tkw.IndexMapping(2, here, there) if touch.writes else tkw.IndexMapping(2, there, here)
            index = {rows: IndexSequence(names[W], 1, 1), cols: IndexSequence(names[L] * touch.count, touch.count, 1)}
        else:
            index = {
                rows: IndexSequence(sympy.sympify(touch.row).subs(names), 1, 1),
                cols: IndexSequence(sympy.sympify(touch.col).subs(names), touch.count, 1),
            }
        at = len(self.places)
        self.places[at] = (index, None if touch.bound is None else {cols: touch.bound})
        if not touch.writes:
            tkw.read(buffers[touch.buffer], elements_per_thread=touch.count, mapping=mapping, tag=str(at))
            return
        bits = self.program.buffers[touch.buffer].bits
        value = tkw.register((rows, cols), FLOATS[bits], 0, tag=str(at))
        tkw.write(value, buffers[touch.buffer], elements_per_thread=touch.count, mapping=mapping, tag=str(at))

    def loop(self, loop: Loop, buffers: list[Any], counters: dict[Any, Any]) -> None:
        axis = tkl.IndexSymbol(f"AXIS{len(self.axes)}")
        self.axes.append((axis, loop.trips))
        inside = {**counters, K[len(counters)]: get_induction_symbol(axis)}
        turn = loop.turn if loop.turn > 1 else 0
        moved = slice(loop.buffer, loop.buffer + turn)

        def once(*given: Any) -> Any:
            scope = list(buffers)
            scope[moved] = given
            self.body(loop.body, scope, inside)
            return [*given[1:], given[0]] if given else None

        bodies: list[Callable[..., Any]] = [
            lambda: once(),
            lambda a: once(a),
            lambda a, b: once(a, b),
            lambda a, b, c: once(a, b, c),
        ]
        result = tkw.iterate(axis, init_args=buffers[moved])(bodies[turn])
        if turn:
            buffers[moved] = [wave_ops.get_result(result, i) for i in range(turn)]


def _constraints(program: Program, axes: list[tuple[Any, int]]) -> list[Any]:
    return [
        tkw.WorkgroupConstraint(M, program.wave_count, 1),
        tkw.WorkgroupConstraint(N, program.lanes, 0),
        *(tkw.TilingConstraint(axis, 1) for axis, _ in axes),
        tkw.HardwareConstraint(
            threads_per_wave=program.lanes,
            waves_per_block=program.waves,
            vector_shapes={M: 1, N: program.lanes},
        ),
    ]


def _trips(body: tuple[Any, ...]) -> list[int]:
    """Trip counts, in the order in which the writer meets the loops."""
    found: list[int] = []
    for s in body:
        if isinstance(s, (Loop, Branch)):
            found += ([s.trips] if isinstance(s, Loop) else []) + _trips(s.body)
    return found


def compiled(program: Program, end: str = "placed") -> Subject:
    """The trace of a program: `unplaced`, as the pass would see it; `placed`, after it; `emitted`, with MLIR."""
    writer = _Writer(program)
    axes = [(tkl.IndexSymbol(f"AXIS{i}"), trips) for i, trips in enumerate(_trips(program.body))]
    sizes: dict[Any, int] = {M: program.wave_count, N: program.lanes, HEAP: program.heap, **dict(axes)}
    for (rows, cols), shared in zip(writer.dims, program.buffers, strict=True):
        sizes |= {rows: shared.rows, cols: shared.cols}

    def twin() -> None:
        writer.kernel()

    kernel = _Kernel(_constraints(program, axes), twin, writer.places, program.one_line)
    kernel.end = end
    options = WaveCompileOptions(
        subs=sizes,
        target=program.target,
        device="hip",
        compile_to_mlir=True,
        optimization_level=False,
        schedule=SchedulingType.MANUAL,
        enforce_locations=False,
        location_capture_config=LocationCaptureConfig(LocationCaptureLevel.NONE),
    )
    try:
        result = wave_compile(options, kernel)
        kernel.asm = result.asm
    except _Done:
        pass
    setting = Setting(program.target, program.lanes, program.waves, sizes)
    return Subject(kernel.reached, kernel, options, setting)
