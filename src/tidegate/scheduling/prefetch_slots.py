"""Slots for tiles that asynchronous copies bring: one is read while the next one lands.

Needs   the stages of a loop
Gives   buffers that get a second slot, with the slot of an iteration; or why a copy would land where something is read
Keeps   buffers with several slots stay as they are: what is read and what is copied for the next iteration are proved
        to lie in two of them. A buffer grows only if each iteration fills the same bytes of it and nobody else knows it
Cost    isl for each copy and read of a buffer

    %a = alloc : lds<64x32xf16>                   %a = alloc : lds<64x32xf16, slots = 2>
    gather_to_lds %A[..] to %a[0, 0]   becomes    gather_to_lds %A[..] to %a[(%k + 1) mod 2][0, 0]
    %x = local_read %a[0, 0]                      %x = local_read %a[%k mod 2][0, 0]
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.index import Const, Index, names
from tidegate.language import ops
from tidegate.language.layout import lay_out
from tidegate.language.ops import Kernel, Op, Place, walk_ops
from tidegate.language.trips import plain
from tidegate.language.types import Lds
from tidegate.language.uses import uses_of
from tidegate.scheduling.model import Declined
from tidegate.scheduling.prefetch_loop import Spot, touched
from tidegate.scheduling.prefetch_rename import Rename, fold
from tidegate.scheduling.prefetch_stages import Stages
from tidegate.targets import Target

SLOTS = 2


@dataclass(frozen=True, slots=True)
class Turns:
    """Buffers that take turns with two slots, and the slot of an iteration with this counter."""

    grown: frozenset[str]
    lower: Index
    step: Index

    def slot(self, counter: Index) -> Index:
        trip = fold("//", fold("-", counter, self.lower), self.step)
        return fold("mod", trip, Const(SLOTS))

    def op(self, op: Op, counter: Index) -> Op:
        """An operation of the loop, with the slots that it has in this iteration."""
        if isinstance(op, ops.LocalRead | ops.LocalWrite):
            return replace(op, place=self.place(op.place, counter))
        if isinstance(op, ops.CopyOp):
            return replace(op, source=self.place(op.source, counter), dest=self.place(op.dest, counter))
        return op

    def place(self, place: Place, counter: Index) -> Place:
        return replace(place, slot=self.slot(counter)) if place.base.name in self.grown else place

    def grow(self, kernel: Kernel) -> Kernel:
        """The kernel with larger buffers."""
        rename = Rename()
        for op in walk_ops(kernel.body):
            if isinstance(op, ops.Alloc) and op.result.name in self.grown and isinstance(op.result.type, Lds):
                rename.value(op.result, replace(op.result, type=replace(op.result.type, slots=SLOTS)))
        return replace(kernel, body=rename.of(kernel.body)) if rename.values else kernel


def find_turns(spot: Spot, stages: Stages, target: Target) -> Turns | Declined:
    """Which buffers grow. Each of `copied` either does, or has slots enough."""
    slots = {op.result.name: op.result.type for op in walk_ops(spot.kernel.body) if isinstance(op, ops.Alloc)}
    grown: set[str] = set()
    for name in sorted(stages.copied):
        type_ = slots[name]
        if isinstance(type_, Lds) and type_.slots > 1:
            found = _meeting(spot, stages, name)
        else:
            found = _why_not_grow(spot, name)
            grown.add(name)
        if found is not None:
            return found
    turns = Turns(frozenset(grown), spot.loop.lower, spot.loop.step)
    return _why_no_room(spot, turns, target) or turns


def _meeting(spot: Spot, stages: Stages, name: str) -> Declined | None:
    """A copy for the next iteration that may land in a slot which this one reads."""
    copies = [op.dest for op in stages.ahead if isinstance(op, ops.CopyOp) and name in spot.memory(op.dest)]
    for op in stages.work:
        for place in touched(op)[0]:
            if name in spot.memory(place) and any(spot.may_meet(place, each, later=True) for each in copies):
                says = f"the next tile of `{name}` may land in the slot that is read"
                return Declined("dependence", says, "take the slot of the counter, as in `%k mod 2`", op.at)
    return None


def _why_not_grow(spot: Spot, name: str) -> Declined | None:
    inside = list(spot.loop.body.ops)
    why = ""
    at = spot.loop.at
    for op in walk_ops(spot.kernel.body):
        if name not in uses_of(op) or isinstance(op, ops.Dealloc):
            continue
        at = op.at
        if not any(op is each for each in inside):
            why = "it is used outside the loop too"
        elif isinstance(op, ops.View | ops.SelectView):
            why = "there are views of it"
        elif any(_moves(spot, place) for place in touched(op)[1] if place.base.name == name):
            why = "each iteration fills other bytes of it"
        if why:
            break
    if spot.roots[name] != {name}:
        why = why or "it shares bytes with other buffers"
    if spot.facts.is_inexact(spot.loop.lower):
        why = why or "where the loop begins is not known"
    if not why:
        return None
    return Declined("dependence", f"`{name}` cannot have a second slot: {why}", "give it two slots", at)


def _moves(spot: Spot, place: Place) -> bool:
    return any(name in spot.own for each in place.index for name in names(plain(each, spot.facts)))


def _why_no_room(spot: Spot, turns: Turns, target: Target) -> Declined | None:
    """Larger buffers fit into shared memory, and do not come to lie on others."""
    grown = turns.grow(spot.kernel)
    layout = lay_out(grown)
    what = ", ".join(f"`{name}`" for name in sorted(turns.grown))
    if target.lds.bytes and layout.total > target.lds.bytes:
        says = f"with two slots of {what} the kernel needs {layout.total} bytes, {target.name} has {target.lds.bytes}"
        return Declined("dependence", says, "use smaller tiles", spot.loop.at)
    if turns.grown and any(isinstance(op, ops.Alloc) and op.offset is not None for op in walk_ops(grown.body)):
        says = f"{what} cannot have a second slot: buffers lie at stated bytes"
        return Declined("dependence", says, "give it two slots", spot.loop.at)
    return None
