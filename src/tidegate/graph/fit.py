"""Whether a graph fits its target, where no kernel was there to be asked.

Needs   a well-formed graph and a target
Gives   findings TG206, TG209, TG210, TG303, TG305, TG307, TG310 and TG311
Keeps   says of a graph what `language.fit` says of the kernel it came from
Cost    linear in the graph
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tidegate.diag import NOWHERE, Finding, Label
from tidegate.graph.model import Access, Point, Sync, SyncGraph, predecessors
from tidegate.language.fit import (
    atomic_misfits,
    missing,
    object_misfits,
    once,
    operation_misfits,
    wait_misfit,
    waits_apart,
    wave_misfits,
)
from tidegate.language.ops import ConditionalBarrier, MbarrierArrive, NewBarrier, Value, Wait
from tidegate.language.types import DTYPES
from tidegate.targets import Target


def find_graph_misfits(graph: SyncGraph, target: Target, *, lowered: bool = False) -> Iterator[Finding]:
    """Findings in the order of points, then those about the graph as a whole.

    `lowered`: another compiler makes instructions of it, and finds others where the target lacks some.
    """
    title = target.name or "no target"
    found: list[Finding] = []
    before = predecessors(graph)
    for number, point in enumerate(graph.points):
        match point.action:
            case Sync(op):
                if lowered and isinstance(op, MbarrierArrive):
                    op = replace(op, expect=0)  # the arrival may be that of a copy, which counts no bytes
                if isinstance(op, Wait) and not waits_apart(target):
                    earlier = {_sync_of(graph.points[each]) for each in before[number]}
                    signal = earlier.pop() if len(earlier) == 1 else None
                    found += [replace(each, labels=(Label(point.at),)) for each in wait_misfit(op, signal, title)]
                found += [replace(each, labels=(Label(point.at),)) for each in operation_misfits(op, target, title)]
                if isinstance(op, ConditionalBarrier) and graph.waves % 2:
                    message = f"{graph.waves} waves have no halves"
                    found.append(Finding("TG209", message, (Label(point.at),), help="use an even number of waves"))
            case Access() if point.label in target.operations and not target.has(point.label):
                found.append(missing(point.label, point.at, title))
            case Access(effect="atomic", element=element) if element in DTYPES and not lowered:
                found += atomic_misfits(DTYPES[element], point.at, target, title)
            case _:
                pass
    yield from once(found)
    yield from object_misfits([NewBarrier(Value(each.name, each.type)) for each in graph.objects], target, title)
    yield from wave_misfits(graph.waves, NOWHERE, target, title)
    end = max((buffer.offset + buffer.bytes for buffer in graph.buffers if buffer.offset is not None), default=0)
    total = max(end, sum(buffer.bytes for buffer in graph.buffers if buffer.offset is None))
    if target.lds.bytes and total > target.lds.bytes:
        message = f"the buffers need {total} bytes of shared memory, {target.name} has {target.lds.bytes}"
        yield Finding("TG303", message, (), help="use smaller buffers, or fewer slots")


def _sync_of(point: Point) -> object:
    return point.action.op if isinstance(point.action, Sync) else None
