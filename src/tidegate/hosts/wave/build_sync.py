"""Barriers and waits of a trace.

Needs   nodes that synchronize
Gives   synchronization as points
Keeps   Wave's barriers do what its code generator makes of them, not what their flags promise
Cost    constant for each node
"""

from __future__ import annotations

from typing import Any

from tidegate.graph import model as g
from tidegate.hosts.wave.build_points import TraceFacts, TracePoints, Unclear
from tidegate.hosts.wave.nodes import argument
from tidegate.language import ops

WORKGROUP_BARRIER = -1


def synchronize(facts: TraceFacts, points: TracePoints, node: Any, op: str) -> None:
    """A barrier, a signal or a wait of Wave."""
    match op:
        case "shared_memory_barrier":
            # Wave's code generator waits for loads, and not for tensor copies, whatever is asked for.
            counts = ((facts.loads, 0),) if argument(node, 0, False) and facts.loads else ()
            points.sync(ops.SharedMemoryBarrier(counts=counts), node)
        case "workgroup_barrier":
            points.sync(ops.WorkgroupBarrier(pinned=True), node)
        case "shared_memory_barrier_signal" if argument(node, 0, 0) == WORKGROUP_BARRIER:
            tensor = facts.counters_of["tensor_load_to_lds"]
            counts = ((tensor, 0),) if argument(node, 1, False) and tensor else ()
            # What is put before the node stands before its wait, too: a wait there drains for the signal as well.
            points.sync(ops.WaitCount(((facts.lds, 0), *counts) if facts.lds else counts), node, insertable=False)
            points.sync(ops.Signal(WORKGROUP_BARRIER), node)
        case "shared_memory_barrier_wait" if argument(node, 0, 0) == WORKGROUP_BARRIER:
            points.sync(ops.Wait(WORKGROUP_BARRIER), node)
        case "memory_counter_wait":
            _wait(facts, points, node)
        case _:
            if argument(node, 0, 0) != 0:  # 0 does nothing; any other orders nothing, and may be waited at for ever
                points.unmodelled.append(Unclear(node, "the participants of this barrier are unknown"))
            points.add(g.Compute(), node)


def _wait(facts: TraceFacts, points: TracePoints, node: Any) -> None:
    """Loads and stores that are one counter on a target are waited for together."""
    counts: dict[str, int] = {}
    for number, counter in enumerate((facts.loads, facts.target.counter_of("global_write"), facts.lds)):
        count = argument(node, number)
        if count is not None and counter:
            counts[counter] = counts.get(counter, 0) + int(count)
    points.sync(ops.WaitCount(tuple(counts.items())), node)
