"""An arrangement as a plan: the new order, barriers between phases, priorities, fences, and what opens the stagger.

Needs   an arrangement
Gives   the kernel with its body in the new order, and a plan of what is put into it
Keeps   arrivals are equal on every path: a conditional barrier of the high half before the loop, one of the low half
        behind it. Barriers between phases are pinned and drain nothing: what has to be performed at them, `sync` adds
Cost    linear in the kernel
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.graph.apply import apply_plan
from tidegate.graph.build import KernelGraph
from tidegate.graph.drafts import Path
from tidegate.graph.plan import Insert, Plan, Reorder
from tidegate.language import ops
from tidegate.scheduling.body import Body
from tidegate.scheduling.clusters import Arrangement

OPENS = "delays the high half: it stays {0} behind"
CLOSES = "the low half waits for the other: arrivals are equal again"
MEETS = "all waves reach the loop in step"
PARTS = "wait for what the loop started"
HANDS_OVER = "schedule: hand over the matrix unit"
TAKES = "schedule: hand over memory, take the matrix unit"
STAYS = "schedule: later compilers move nothing across"
FIRST, LAST = "schedule: products go first", "schedule: the other half goes first"


def reordered(arrangement: Arrangement) -> ops.Kernel:
    """The kernel with the loop's body in the order of the arrangement."""
    body = arrangement.body
    starts = {piece.number: piece.points[0] for piece in body.pieces}
    order = tuple(starts[number] for number in arrangement.order)
    return apply_plan(Plan((Reorder(body.loop, order),)), body.built)


def barriers_of(
    arrangement: Arrangement,
    built: KernelGraph,
    *,
    stagger: int = 1,
    meet: bool = False,
    part: bool = False,
    prefer: bool = True,
) -> Plan:
    """What is put into the reordered kernel.

    `meet`, `part`: barriers before the stagger opens and behind where it closes as well, so that no barrier of the loop
    has to wait for what only comes before or after it. `prefer`: waves that multiply go first on their SIMD.
    """
    body = arrangement.body
    paths = {path: n for n, path in reversed(list(enumerate(built.paths))) if built.graph.points[n].insertable}
    before, behind = paths[body.path], paths[(*body.path[:-1], body.path[-1] + 1)]
    edits = [Insert(before, _meeting(body), (MEETS,))] if meet else []
    arrivals = f"{stagger} arrival{'s' * (stagger != 1)}"
    edits += [Insert(before, ops.ConditionalBarrier("high"), (OPENS.format(arrivals),)) for _ in range(stagger)]
    edits += _inside(arrangement, body, paths, prefer and shares_simds(body))
    edits += [Insert(behind, ops.ConditionalBarrier("low"), (CLOSES,)) for _ in range(stagger)]
    edits += [Insert(behind, _meeting(body), (PARTS,))] if part else []
    return Plan(tuple(edits))


def _meeting(body: Body) -> ops.SharedMemoryBarrier:
    """Everything that was started is performed; `sync` makes it wait for less where less is enough."""
    return ops.SharedMemoryBarrier(wait_async_ops=any(point.role == "copy" for point in body.graph.points))


def _inside(arrangement: Arrangement, body: Body, paths: dict[Path, int], prefers: bool) -> Iterator[Insert]:
    """Behind each phase a barrier, a fence for later compilers, and the priority of what follows."""
    place = 0
    for number, phase in enumerate(arrangement.phases):
        place += len(phase)
        at = paths[(*body.path, 0, place)]
        is_matrix = number % 2 == 1
        if is_matrix and prefers:
            yield Insert(at, ops.SetWavePrio(0), (LAST,))
        yield Insert(at, ops.WorkgroupBarrier(pinned=True), (HANDS_OVER if is_matrix else TAKES,))
        yield Insert(at, ops.SchedulingBarrier(), (STAYS,))
        if not is_matrix and prefers:
            yield Insert(at, ops.SetWavePrio(1), (FIRST,))


def shares_simds(body: Body) -> bool:
    """Whether waves of both halves run on one SIMD in pairs; where the target does not say, they may."""
    wave, half = body.target.wave, body.graph.waves // 2
    return all(wave.simd_of(each) == wave.simd_of(each + half) for each in range(half))
