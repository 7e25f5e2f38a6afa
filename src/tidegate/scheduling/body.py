"""The loop that is scheduled, and what its operations are.

Needs   a kernel and its graph
Gives   `Body`: the operations of the loop with the roles that the graph gives them, or why there is none to schedule
Keeps   only what is in the loop matters, and what holds for the whole kernel: who runs it, what it is staggered by
Cost    linear in the kernel
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

from tidegate.diag import Span
from tidegate.footprint.resolve import Footprints, find_footprints
from tidegate.graph import model as g
from tidegate.graph.build import KernelGraph, build_graph
from tidegate.graph.drafts import Path
from tidegate.graph.flow import flow_of
from tidegate.language import ops
from tidegate.language.ops import Block, Kernel, Op, blocks_of, map_blocks, walk_ops
from tidegate.language.show import show_op
from tidegate.scheduling.model import Declined
from tidegate.targets import Target

# What moves data; only these stand in memory clusters.
MEMORY = ("global_read", "global_write", "local_read", "local_write", "copy")
# Barriers and waits that are placed anew, unless they are pinned.
_PLACED = (ops.WorkgroupBarrier, ops.SharedMemoryBarrier, ops.Signal, ops.Wait, ops.WaitCount)
_NESTED: dict[type, str] = {ops.Iterate: "another loop", ops.Exit: "an early end"}
_OBJECTS = (ops.MbarrierArrive, ops.MbarrierWait, ops.NewBarrier)


@dataclass(frozen=True, slots=True)
class Piece:
    """One operation of the body. `points` are those of the graph that it became."""

    number: int
    op: Op
    role: str
    points: tuple[int, ...]

    @property
    def at(self) -> Span:
        return self.op.at

    @property
    def name(self) -> str:
        """As a message speaks of it."""
        text = next(show_op(self.op))
        return f"line {self.at.line}, `{text}`" if self.at.line else f"`{text}`"


@dataclass(frozen=True)
class Body:
    """A loop and its operations in order."""

    built: KernelGraph
    target: Target
    loop: int
    path: Path  # of the loop's operation
    pieces: tuple[Piece, ...]

    @property
    def graph(self) -> g.SyncGraph:
        return self.built.graph

    @cached_property
    def footprints(self) -> Footprints:
        return find_footprints(flow_of(self.graph))

    @cached_property
    def of_split(self) -> dict[Kernel, Body]:
        """The loops of kernels in which products of this one are split, as far as they are known."""
        return {}

    def of_role(self, *roles: str) -> list[Piece]:
        return [each for each in self.pieces if each.role in roles]


def without_placed(kernel: Kernel) -> Kernel:
    """The kernel without barriers and waits that `sync` places anew; pinned ones and those of objects stay."""

    def change(block: Block, _: int = 0) -> Block:
        kept = (map_blocks(op, change) for op in block.ops if not _is_placed(op))
        return replace(block, ops=tuple(kept))

    return replace(kernel, body=change(kernel.body))


def _is_placed(op: Op) -> bool:
    if not isinstance(op, _PLACED) or getattr(op, "pinned", False):
        return False
    return not isinstance(getattr(op, "barrier", 0), ops.Value)


def find_body(kernel: Kernel, target: Target, built: KernelGraph | None = None) -> Body | Declined:
    """The innermost loop with most matrix work, if it can be scheduled. `built`: the kernel's graph, if it is known."""
    declined = _whole(kernel)
    if declined is not None:
        return declined
    built = built or build_graph(kernel, target)
    loop = heaviest_loop(built.graph)
    if loop is None:
        return Declined("no-loop", "no loop holds matrix products", "ping-pong is for loops with `mma`")
    head = built.graph.points[built.graph.loops[loop].head]
    if head.under != "uniform":
        return Declined("under-condition", "not all waves reach the loop", "take it out of the condition", head.at)
    path = built.paths[built.graph.loops[loop].head]
    body = Body(built, target, loop, path, tuple(_pieces(built, path)))
    return next(_unfit(body), body)


def _whole(kernel: Kernel) -> Declined | None:
    """What speaks against the kernel as a whole."""
    if kernel.waves % 2:
        fits = "an even number of waves has two halves"
        return Declined("odd-waves", f"{kernel.waves} waves cannot be halved", fits, kernel.at)
    for op in walk_ops(kernel.body):
        if isinstance(op, ops.Specialize):
            fits = "waves of one program can be halved"
            return Declined("wave-groups", "waves run different programs", fits, op.at)
        if isinstance(op, ops.ConditionalBarrier):
            says = "the kernel already has conditional barriers"
            return Declined("staggered", says, "remove them, or keep the schedule", op.at)
    return None


def heaviest_loop(graph: g.SyncGraph) -> int | None:
    """The loop whose own body has most matrix work; of several the first."""
    work: dict[int, float] = {}
    for point in graph.points:
        if point.role == "mma" and point.loop >= 0:
            work[point.loop] = work.get(point.loop, 0.0) + point.work.ops * point.weight
    return max(sorted(work), key=work.__getitem__, default=None)


def _pieces(built: KernelGraph, path: Path) -> Iterator[Piece]:
    points: dict[int, list[int]] = {}
    depth = len(path) + 1
    for number, each in enumerate(built.paths):
        if each[:depth] == (*path, 0) and len(each) > depth:
            points.setdefault(each[depth], []).append(number)
    block = block_at(built.kernel, path)
    for number, op in enumerate(block.ops):
        mine = tuple(points.get(number, ()))
        roles = [built.graph.points[each].role for each in mine]
        yield Piece(number, op, next((each for each in roles if each != "other"), "other"), mine)


def block_at(kernel: Kernel, path: Path) -> Block:
    """The body of the loop at a place."""
    block = kernel.body
    for place in range(0, len(path), 2):
        region = path[place + 1] if place + 1 < len(path) else 0
        block = blocks_of(block.ops[path[place]])[region]
    return block


def _unfit(body: Body) -> Iterator[Declined]:
    """What in the loop speaks against it."""
    nested = partial(Declined, "nested", fits="ping-pong is for loops of operations in a row")
    for piece in body.pieces:
        op = piece.op
        if blocks_of(op) or isinstance(op, ops.Exit):
            yield nested(f"the loop holds {_NESTED.get(type(op), 'a conditional')}", at=op.at)
        elif isinstance(op, _OBJECTS) or isinstance(getattr(op, "barrier", 0), ops.Value) or _reports(op):
            fits = "copies that are counted can be waited for"
            yield Declined("objects", "the loop uses barrier objects", fits, op.at)
        elif isinstance(op, ops.SyncOp):
            says = f"{piece.name} must not be crossed"
            yield Declined("fenced", says, "remove it: the schedule inserts what it needs", op.at)
    if not body.of_role(*MEMORY):
        yield Declined("no-memory", "the loop has no memory work", "ping-pong overlaps memory work with matrix work")


def _reports(op: Op) -> bool:
    return getattr(op, "mbarrier", None) is not None
