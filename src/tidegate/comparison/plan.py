"""A graph as the assembly that it asks for, so that both can be read alike.

Needs   the graph of a program with its barriers and waits, and its target
Gives   `plan_of`: a function with an instruction for each access, barrier and wait, and the point of each line
Keeps   every path of the graph; how many instructions become of an access, and of how many bytes, is not said
Cost    linear in the graph

    local_write tile          .LBB0_3: ds_write 1
    shared_memory_barrier     .LBB0_4: s_waitcnt lgkmcnt(0)
                                       s_barrier
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tidegate.graph import model as g
from tidegate.language.ops import (
    ConditionalBarrier,
    SharedMemoryBarrier,
    Signal,
    Wait,
    WaitCount,
    WorkgroupBarrier,
)
from tidegate.targets import Target


@dataclass(slots=True)
class PlanText:
    """`points`: of each line of the text the point of the graph."""

    lines: list[str] = field(default_factory=lambda: ["plan:"])
    points: dict[int, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return "\n".join([*self.lines, ".Lfunc_end0:"])


def why_not(graph: g.SyncGraph) -> str:
    """Why a graph cannot be written down so; empty: it can."""
    if len(graph.programs) != 1:
        return "its waves run several programs"
    if any(isinstance(point.action, g.Call) for point in graph.points):
        return "it calls functions"
    return ""


def plan_of(graph: g.SyncGraph, target: Target, *, split: bool) -> PlanText:
    """The entry first: control goes from point to point by branches alone. `split`: a barrier is two instructions,
    also where the program knows whole ones alone."""
    found = PlanText()
    found.lines.append(f"\ts_branch {_label(graph.programs[0].entry)}")
    for number, point in enumerate(graph.points):
        found.lines.append(f"{_label(number)}:")
        for each in _code(point.action, target, split):
            found.lines.append(f"\t{each}")
            found.points[len(found.lines)] = number
        if isinstance(point.action, g.Sync) and isinstance(point.action.op, ConditionalBarrier):
            found.lines += _skipped(found.lines.pop(), number)
            found.points[len(found.lines) - 1] = number
        found.lines += _jumps(point.successors)
    return found


def _skipped(line: str, number: int) -> list[str]:
    """Some waves come to it, and others pass it."""
    over = f"{_label(number)}_over"
    return [f"\ts_cbranch_scc0 {over}", line, f"{over}:"]


def _label(number: int) -> str:
    return f".LBB0_{number}"


def _jumps(successors: tuple[int, ...]) -> Iterator[str]:
    if not successors:
        yield "\ts_endpgm"
    for place, each in enumerate(successors):
        yield f"\t{'s_branch' if place == len(successors) - 1 else 's_cbranch_scc0'} {_label(each)}"


def _code(action: g.Action, target: Target, split: bool) -> Iterator[str]:
    match action:
        case g.Access(is_async=True):
            yield "buffer_load_dwordx4 v0, s[0:3], 0 offen lds"
        case g.Access(effect="atomic"):
            yield "ds_add_u32 v0, v1"
        case g.Access(effect):
            yield f"ds_{effect} 1"
        case g.Sync(SharedMemoryBarrier()):
            yield _wait(target.counter_of("local_read"), 0)
            yield from _barrier(split)
        case g.Sync(WorkgroupBarrier() | ConditionalBarrier()):
            yield from _barrier(split)
        case g.Sync(Signal(barrier)):
            yield f"s_barrier_signal {barrier}"
        case g.Sync(Wait(barrier)):
            yield f"s_barrier_wait {barrier}"
        case g.Sync(WaitCount(counts)):
            yield from (_wait(name, count) for name, count in counts)


def _barrier(split: bool) -> tuple[str, ...]:
    return ("s_barrier_signal -1", "s_barrier_wait -1") if split else ("s_barrier",)


def _wait(counter: str, count: int) -> str:
    return f"s_waitcnt {counter}({count})" if counter in ("vmcnt", "lgkmcnt") else f"s_wait_{counter} {count}"
