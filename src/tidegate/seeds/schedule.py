"""The names that seed 003 gives to ping-pong scheduling, over the stages that do it here.

Needs   a `CapturedTrace`; constraints that say which hardware and which tiles
Gives   `schedule_reordering`, which chooses a strategy and carries it out, and the three steps that it is made of
Keeps   a trace changes only if what came of it was synchronized and proved; `reorder_graph` refuses to break a
        dependence
Cost    that of the stages

    transform_two_PP_clusters(...) ─▶ [clusters] ─▶ reorder_graph ─▶ loop body
    add_conditional_barriers_to_loop(loop, trace, hardware)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, overload

from tidegate.diag import BadInput, Finding, Label
from tidegate.language import ops
from tidegate.language.ops import Block, Iterate, Kernel, Op, map_blocks, results_of, walk_ops
from tidegate.language.show import show_op
from tidegate.language.trace import CapturedTrace
from tidegate.language.types import Tile
from tidegate.language.uses import uses_of
from tidegate.pingpong import Scheduled, schedule_kernel
from tidegate.programs import WaveTrace, trace_of
from tidegate.scheduling.body import MEMORY, Body, find_body, without_placed
from tidegate.scheduling.dependences import find_dependences
from tidegate.scheduling.model import ASYNC_TWO, NONE, TWO, Declined
from tidegate.seeds.barriers import own_trace
from tidegate.session import pick_target
from tidegate.targets import Target

if TYPE_CHECKING:
    from tidegate.hosts.wave.dropin.schedule import Reordered


class SchedReorderStrategy(Enum):
    """How a loop is reordered; CLUSTERS is the general form."""

    NONE = NONE
    TWO_PP_CLUSTER = TWO
    ASYNC_TWO_PP_CLUSTER = ASYNC_TWO
    CLUSTERS = "auto"


class SchedulingType(Enum):
    """How a loop is software-pipelined. Only loops that fetch one iteration ahead are reordered."""

    NONE = "none"
    PREFETCH = "prefetch"
    MODULO = "modulo"
    FOUR_STAGE = "four-stage"


class Constraint:
    """What a compiler knows of a kernel. One base, so that a list of several kinds has a type (docs/schedule.md)."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class HardwareConstraint(Constraint):
    """The hardware that a kernel is for. An empty target is the one that the kernel names."""

    target: str = ""
    waves_per_block: int = 8


@dataclass(frozen=True, slots=True)
class TilingConstraint(Constraint):
    """How much of a dimension (`M`, `N` or `K`) a workgroup works on in one iteration."""

    dim: str
    tile_size: int


# The configuration that two clusters were made for.
DEFAULT_TILES = {"M": 128, "N": 256, "K": 64}
DEFAULT_WAVES = 8


@overload
def schedule_reordering(
    trace: CapturedTrace,
    constraints: Sequence[Constraint],
    scheduling_type: SchedulingType = SchedulingType.PREFETCH,
) -> Scheduled: ...


@overload
def schedule_reordering(
    trace: WaveTrace,
    constraints: Sequence[Any],
    scheduling_type: Any,
    use_global_to_shared: bool = False,
    *,
    target: str,
) -> Reordered: ...


def schedule_reordering(
    trace: CapturedTrace | WaveTrace,
    constraints: Sequence[Any],
    scheduling_type: Any = SchedulingType.PREFETCH,
    use_global_to_shared: bool = False,
    *,
    target: str = "",
) -> Scheduled | Reordered:
    """Reorders the loop of a trace for ping-pong, in place; the result says why if it does not.

    Two clusters are taken for tiles and waves that they were made for; for others, the cheapest number of clusters, if
    that pays by the cost model. Of a trace of Wave, the constraints and the scheduling type are Wave's, and it has to
    be where Wave's own pass takes it: behind its scheduler, while Wave compiles it.
    """
    if (of_wave := trace_of(trace)) is not None:
        from tidegate.hosts.wave.dropin.schedule import schedule_reordering as reorder

        return reorder(of_wave, constraints, scheduling_type, use_global_to_shared, target=target)
    return _reordered(own_trace(trace), constraints, scheduling_type)


def _reordered(trace: CapturedTrace, constraints: Sequence[Constraint], scheduling_type: SchedulingType) -> Scheduled:
    hardware = next((each for each in constraints if isinstance(each, HardwareConstraint)), HardwareConstraint())
    target = pick_target(trace.kernel.target, hardware.target or None)
    declined = _unfit(trace.kernel, constraints, hardware, scheduling_type)
    if declined is not None:
        return Scheduled(NONE, None, (), ((NONE, declined),))
    found = schedule_kernel(
        trace.kernel, target, select_strategy(trace.kernel, target, constraints).value, certain=False
    )
    if found.kernel is not None and (found.chosen is None or found.chosen.strategy != NONE):
        trace.kernel = found.kernel
    return found


def select_strategy(kernel: Kernel, target: Target, constraints: Sequence[Constraint]) -> SchedReorderStrategy:
    """The strategy for a kernel: two clusters for the tiles and waves that they were made for."""
    body = find_body(without_placed(kernel), target)
    if isinstance(body, Declined):
        return SchedReorderStrategy.CLUSTERS  # whose reason is the same
    sizes = {each.dim: each.tile_size for each in constraints if isinstance(each, TilingConstraint)}
    if {**tiles_of(body), **sizes} == DEFAULT_TILES and kernel.waves == DEFAULT_WAVES:
        copies = bool(body.of_role("copy"))
        return SchedReorderStrategy.ASYNC_TWO_PP_CLUSTER if copies else SchedReorderStrategy.TWO_PP_CLUSTER
    return SchedReorderStrategy.CLUSTERS


def tiles_of(body: Body) -> dict[str, int]:
    """The tile of a workgroup, as far as the products say: all waves' accumulators, and what one iteration adds up.

    How waves share rows and columns is not said by a product: the area is that of a block twice as wide as high, or
    square.
    """
    products = [piece.op for piece in body.of_role("mma") if isinstance(piece.op, ops.Mma)]
    area, depth = 0, 0
    for each in products:
        left, acc = each.a.type, each.acc.type
        assert isinstance(left, Tile)
        assert isinstance(acc, Tile)
        area = max(area, acc.shape[0] * acc.shape[1] * body.graph.waves)
        depth += left.shape[1]
    rows = 1
    while 4 * rows * rows <= area:
        rows *= 2
    return {"M": rows, "N": area // rows, "K": depth}


def _unfit(
    kernel: Kernel, constraints: Sequence[Constraint], hardware: HardwareConstraint, kind: SchedulingType
) -> Declined | None:
    if kind is not SchedulingType.PREFETCH:
        says = f"the loop is pipelined by `{kind.value}`"
        return Declined("scheduling-type", says, "only loops that prefetch are reordered")
    given = any(isinstance(each, HardwareConstraint) for each in constraints)
    if given and hardware.waves_per_block != kernel.waves:
        says = f"the constraints say {hardware.waves_per_block} waves, the kernel {kernel.waves}"
        return Declined("odd-waves", says, "constraints of this kernel")
    return None


# --- the steps ----------------------------------------------------------------------------------------------------

Ops = Sequence[Op]


def transform_two_PP_clusters(
    mma_nodes: Ops,
    local_load_lhs: Ops,
    local_load_rhs: Ops,
    global_load_lhs: Ops,
    global_load_rhs: Ops,
    local_write_lhs: Ops,
    local_write_rhs: Ops,
) -> list[list[Op]]:
    """The four clusters of an iteration: reads, half of the products, writes, the other half.

    The first half of each list of local reads belongs to the first half of the products. Barriers are pinned and drain
    nothing: what must be performed at them, `add_shared_memory_barriers` puts in.
    """
    if not mma_nodes or len(mma_nodes) % 2:
        raise BadInput(Finding("TG603", f"{len(mma_nodes)} products cannot be halved", ()))
    half = len(mma_nodes) // 2
    fence, meets = ops.SchedulingBarrier(), ops.WorkgroupBarrier(pinned=True)

    def halves(nodes: Ops) -> tuple[list[Op], list[Op]]:
        return list(nodes[: len(nodes) // 2]), list(nodes[len(nodes) // 2 :])

    (lhs, lhs_more), (rhs, rhs_more) = halves(local_load_lhs), halves(local_load_rhs)
    reads: list[Op] = [*lhs, *rhs, fence, *global_load_lhs, fence, *lhs_more, *rhs_more, fence, *global_load_rhs]

    def products(nodes: Ops) -> list[Op]:
        return [ops.SetWavePrio(1), *nodes, ops.SetWavePrio(0), meets, fence]

    return [
        [*reads, meets, fence],
        products(mma_nodes[:half]),
        [*local_write_lhs, *local_write_rhs, meets, fence],
        products(mma_nodes[half:]),
    ]


def reorder_graph(graph: Iterate, clusters: Sequence[Sequence[Op]]) -> Iterate:
    """A loop with its body in the order of the clusters.

    What no cluster names stays: before them if it needs nothing of theirs, else right before the first that uses it, or
    behind them. Raises `BadInput` if a value would be used before it is made, or an operation is missing or new.
    """
    named = [op for cluster in clusters for op in cluster]
    own = [op for op in graph.body.ops if not any(op is each for each in named)]
    strange = [op for op in named if not isinstance(op, ops.SyncOp) and not any(op is each for each in graph.body.ops)]
    if strange:
        raise _refused(strange[0], "is not an operation of the loop")
    made = {value.name: op for op in named for value in results_of(op)}
    before = _independent(own, set(made))
    late = [op for op in own if not any(op is each for each in before)]
    order = [*before, *_placed(named, late)]
    _check_order(graph, order)
    return replace(graph, body=replace(graph.body, ops=tuple(order)))


def _independent(own: Ops, made: set[str]) -> list[Op]:
    """Operations that need nothing of the clusters, not even through others."""
    found, late = [], set(made)
    for op in own:
        if late.isdisjoint(uses_of(op)):
            found.append(op)
        else:
            late.update(value.name for value in results_of(op))
    return found


def _placed(named: Ops, late: Ops) -> list[Op]:
    """The clusters with what they need right before its first use; the rest behind."""
    found: list[Op] = []
    waiting = list(late)

    def put(op: Op) -> None:
        needed = set(uses_of(op))
        for each in [each for each in waiting if not needed.isdisjoint(value.name for value in results_of(each))]:
            if any(each is other for other in waiting):
                waiting[:] = [other for other in waiting if other is not each]
                put(each)
        found.append(op)

    for op in named:
        put(op)
    return [*found, *waiting]


def _check_order(graph: Iterate, order: Ops) -> None:
    known: set[str] = set()
    inside = {value.name: op for op in graph.body.ops for value in results_of(op)}
    for op in order:
        missing = next((name for name in uses_of(op) if name in inside and name not in known), None)
        if missing is not None:
            raise _refused(op, f"would come before what makes `{missing}`")
        known.update(value.name for value in results_of(op))


def _refused(op: Op, why: str) -> BadInput:
    return BadInput(Finding("TG603", f"`{next(show_op(op))}` {why}", (Label(op.at),) if op.at.line else ()))


def add_conditional_barriers_to_loop(
    custom_iterate: Iterate, trace: CapturedTrace, hardware_constraint: HardwareConstraint
) -> None:
    """Holds the high half of the waves back before a loop, and the low half behind it, in place.

    The loop may be one that `reorder_graph` gave: it takes the place of the one with the same results, unless accesses
    of memory that depend on each other have changed places, which raises `BadInput`.
    """
    trace = own_trace(trace)
    if hardware_constraint.waves_per_block % 2:
        raise BadInput(Finding("TG209", f"{hardware_constraint.waves_per_block} waves cannot be halved", ()))
    if not any(_same_loop(op, custom_iterate) for op in walk_ops(trace.kernel.body)):
        raise BadInput(Finding("TG603", f"the trace has no loop over `{custom_iterate.counter.name}`", ()))

    broken = _broken(trace, custom_iterate, pick_target(trace.kernel.target, hardware_constraint.target or None))
    if broken:
        raise BadInput(*(Finding("TG603", each, ()) for each in broken))

    def change(block: Block, _: int = 0) -> Block:
        found: list[Op] = []
        for op in block.ops:
            if _same_loop(op, custom_iterate):
                found += (ops.ConditionalBarrier("high"), custom_iterate, ops.ConditionalBarrier("low"))
            else:
                found.append(map_blocks(op, change))
        return replace(block, ops=tuple(found))

    trace.kernel = replace(trace.kernel, body=change(trace.kernel.body))


def _same_loop(op: Op, loop: Iterate) -> bool:
    return isinstance(op, Iterate) and op.counter == loop.counter and op.results == loop.results


def _broken(trace: CapturedTrace, loop: Iterate, target: Target) -> list[str]:
    """Accesses of memory that a new order of a loop's body puts the wrong way round, as sentences."""
    body = find_body(without_placed(trace.kernel), target)
    if isinstance(body, Declined):
        return []
    place = {id(op): number for number, op in enumerate(loop.body.ops)}
    now = {piece.number: place.get(id(piece.op), -1) for piece in body.pieces}
    return [
        f"{body.pieces[edge.later].name} would come before {body.pieces[edge.first].name}"
        for edge in find_dependences(body, 0)
        if body.pieces[edge.first].role in MEMORY and now[edge.later] < now[edge.first]
    ]
