"""What synchronizes in a trace: names and counts, by one walk over the trace and all its subgraphs.

A module of its own without side effects, so that other processes can import it.
"""

from __future__ import annotations

import io
import os
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

from oracles.wave_kernels import assembly_of, cases, first_error, trace_of

SHORT = {
    "shared_memory_barrier": "barrier",
    "shared_memory_barrier_signal": "signal",
    "shared_memory_barrier_wait": "wait",
    "workgroup_barrier": "workgroup",
    "memory_counter_wait": "counted",
    "set_wave_prio": "priority",
    "gather_to_lds": "gather",
    "tensor_load_to_lds": "tensor",
    "atomic_add": "atomic",
    "atomic_min": "atomic",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel for one target."""

    name: str
    target: str
    before: dict[str, int]  # what there is before Wave's barrier pass
    after: dict[str, int]
    milliseconds: float  # that Wave's barrier pass took
    lines: int  # of assembly, 0 where none was asked for
    error: str = ""


def count_ops(trace: Any) -> dict[str, int]:
    """Counts by short name; a workgroup barrier in a branch counts as `conditional`, a wait for async as `async`."""
    from wave_lang.kernel.ops.wave_ops import Conditional, SharedMemoryBarrier, get_custom

    found: Counter[str] = Counter()
    for node in trace.walk(lambda node: getattr(node, "tkw_op_name", "") in SHORT):
        op, name = get_custom(node), SHORT[node.tkw_op_name]
        parent = getattr(node.graph, "parent_op", None)
        if name == "workgroup" and parent is not None and isinstance(get_custom(parent), Conditional):
            name = "conditional"
        if isinstance(op, SharedMemoryBarrier) and op.wait_async_ops:
            name = "async barrier"
        found[name] += 1
    return dict(sorted(found.items()))


def look_at(name: str, target: str, assembly: bool) -> Row:
    """Traces one kernel for one target, and compiles it if that is asked for; what goes wrong is in the row."""
    os.environ["WAVE_CACHE_ON"] = "0"
    case = next(each for each in cases() if each.name == name)
    before: dict[str, int] = {}
    quiet = io.StringIO()  # Wave prints whole traces where a pass fails.
    try:
        with redirect_stdout(quiet), redirect_stderr(quiet):
            traced = trace_of(case, target, lambda trace, *_: before.update(count_ops(trace)))
            lines = assembly_of(case, target).count("\n") if assembly else 0
    except Exception as error:  # whatever Wave raises is what the table says
        return Row(name, target, before, {}, 0.0, 0, f"{type(error).__name__}: {first_error(str(error))}")
    return Row(name, target, before, count_ops(traced.trace), traced.seconds * 1e3, lines)
