"""The names that the seeds give to putting barriers into a trace, over `graph.apply`.

Needs   a `CapturedTrace`, ours or Wave's, and a target by name
Gives   the trace with barriers, or with counts at its waits
Keeps   a trace changes only when everything that was put into it has been verified
Cost    that of the stages; nothing is run on the simulator unless the kernel has barrier objects

`docs/seeds.md` says for every name and step of the seeds where it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidegate.diag import BadInput, Finding, Label
from tidegate.graph.apply import apply_plan
from tidegate.graph.build import KernelGraph
from tidegate.graph.plan import Plan
from tidegate.language.alternation import WORKGROUP_ID
from tidegate.language.facts import find_facts
from tidegate.language.ops import Kernel, Signal, Wait, walk_ops
from tidegate.language.protocol import find_protocol_mistakes
from tidegate.language.show import show_op
from tidegate.language.trace import CapturedTrace
from tidegate.programs import WaveTrace, trace_of
from tidegate.seeds.barriers import (
    BarrierPosition,
    SyncRequirement,
    TargetConfig,
    analysis_of,
    find_intersecting_interval_strategy,
    get_barriers_analysis,
    minimize_placement_strategy,
    own_trace,
    unfit,
    wave_program,
)
from tidegate.synchronize.deps import with_counts, with_deps

if TYPE_CHECKING:
    from tidegate.hosts.wave.dropin.checking import WaveProgram


class BarrierEmitter(ABC):
    """Puts barriers into a trace. `dispatch` chooses the emitter for a target."""

    def __init__(self, config: TargetConfig) -> None:
        self.config = config

    @staticmethod
    def dispatch(config: TargetConfig) -> BarrierEmitter:
        return BasicSplitBarrierEmitter(config) if config.has_split_barriers else LegacyBarrierEmitter(config)

    @abstractmethod
    def optimize(self, requirements: Sequence[SyncRequirement]) -> list[BarrierPosition]:
        """What to put where."""

    def emit(self, trace: CapturedTrace | WaveTrace, requirements: Sequence[SyncRequirement]) -> None:
        """Serves the requirements. The trace is left alone if what came of it does not verify."""
        if trace_of(trace) is not None:
            help = "`add_shared_memory_barriers(trace)` inserts them, and proves the result"
            raise BadInput(Finding("TG022", "this emitter does not write into a trace of Wave", (), help=help))
        trace = own_trace(trace)
        analysis = analysis_of(requirements)
        edited = trace.kernel
        if analysis is not None:
            if not isinstance(analysis.built, KernelGraph) or analysis.built.kernel != trace.kernel:
                raise unfit("the requirements come from another kernel than the trace holds now")
            plan = Plan(tuple(each.edit for each in self.optimize(requirements)))
            edited = apply_plan(plan, analysis.built)
        self.verify(edited)
        trace.kernel = edited

    def verify(self, kernel: Kernel) -> None:
        """Raises `BadInput` if waves cannot get past the barriers of a kernel, as far as its shape tells."""
        leaves = self.config.own_facts(kernel).barrier.wave_end == "leaves"
        findings = find_protocol_mistakes(kernel, find_facts(kernel), leaves)
        if findings:
            raise BadInput(*findings)


class LegacyBarrierEmitter(BarrierEmitter):
    """Monolithic barriers: before consumers, and as few as there can be."""

    def optimize(self, requirements: Sequence[SyncRequirement]) -> list[BarrierPosition]:
        return minimize_placement_strategy(requirements)


class BasicSplitBarrierEmitter(BarrierEmitter):
    """Signals behind producers and waits before consumers, all of one barrier."""

    def optimize(self, requirements: Sequence[SyncRequirement]) -> list[BarrierPosition]:
        return find_intersecting_interval_strategy(requirements)

    def verify(self, kernel: Kernel) -> None:
        """On every path signals and waits take turns and none is left over; and all are of one barrier."""
        super().verify(kernel)
        others = [
            Finding(
                "TG206",
                f"barrier {op.barrier} is not the one of the workgroup",
                (Label(op.at, next(show_op(op))),),
                help=f"use barrier {WORKGROUP_ID}",
            )
            for op in walk_ops(kernel.body)
            if isinstance(op, Signal | Wait) and isinstance(op.barrier, int) and op.barrier != WORKGROUP_ID
        ]
        if others:
            raise BadInput(*others)


def add_shared_memory_barriers(
    trace: CapturedTrace | WaveTrace,
    target: str = "",
    *,
    constraints: Iterable[Any] | None = None,
    subs: Mapping[Any, Any] | None = None,
) -> None:
    """Synchronizes the shared memory of a trace, in place. Barriers and waits name the copies that they are for.

    Of a trace of Wave the result is proved as it stands in the trace; if it is not, `BadInput` says why, and the trace
    is as it was. `constraints` and `subs` (Wave's `options.subs`) are needed only if it was not compiled under
    `tidegate.wave.traces()`.
    """
    of_wave = wave_program(trace, target, constraints, subs)
    if of_wave is not None:
        _synchronize_wave(of_wave)
        return
    trace, config = own_trace(trace), TargetConfig(target)
    requirements = get_barriers_analysis(trace, target)
    before = trace.kernel
    BarrierEmitter.dispatch(config).emit(trace, requirements)
    if trace.kernel != before:
        trace.kernel, _ = with_deps(trace.kernel, config.for_kernel(trace.kernel))


def _synchronize_wave(program: WaveProgram) -> None:
    from tidegate.hosts.wave.dropin.passing import Options, place_barriers

    found = place_barriers(program.trace, program.context, program.target, Options(), program.name)
    if found.why_not:
        raise BadInput(Finding("TG603", f"the trace is as it was: {found.why_not}", ()))


def populate_barriers_counters(trace: CapturedTrace | WaveTrace, target: str = "") -> None:
    """Counts for all barriers and waits that name copies in `async_deps`, in place: made anew from these values.

    Of each copy that a value may stand for: the fewest instructions of its counter, or groups, that are issued after it
    on any path to the wait. Call it again whenever something was reordered.
    """
    if trace_of(trace) is not None:
        help = "`tidegate.wave.install(counts=True)` lets waits leave copies in flight"
        raise BadInput(Finding("TG022", "waits of Wave do not name the copies that they are for", (), help=help))
    trace = own_trace(trace)
    trace.kernel = with_counts(trace.kernel, TargetConfig(target).for_kernel(trace.kernel))
