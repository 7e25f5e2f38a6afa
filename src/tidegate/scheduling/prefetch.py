"""Software pipelining: the innermost loop with matrix products fetches its tiles an iteration ahead.

Needs   a well-formed kernel and a target
Gives   a kernel with a prologue, a loop that runs once less and an epilogue; the same kernel if nothing in the loop is
        read that the same iteration has fetched; or `Declined`
Keeps   every result, bit for bit. All reads of a tile stand before the writes of the next one, so one slot is enough
        for writes; asynchronous copies land in another slot than is read, and a buffer gets a second one for that.
        Where the loop may run zero times, all of it stands under `conditional lower < upper`.
        Barriers and waits of the loop are for another order: they are dropped, and `sync` places them anew
Cost    linear in the kernel, quadratic in the loop's body at worst, and isl for slots and trips

    iterate %k in 0 .. n {                   %g_1 = global_read %A[0]             # stage 0 of the first iteration
      %g = global_read %A[%k]                local_write %g_1, %a
      local_write %g, %a                     iterate %k in 0 .. n - 1 {
      shared_memory_barrier        becomes     %x = local_read %a
      %x = local_read %a                       %g_2 = global_read %A[%k + 1]
      mma %x, ...                              mma %x, ...
    }                                          local_write %g_2, %a
                                             }
                                             %x_1 = local_read %a                 # stage 1 of the last iteration
                                             mma %x_1, ...
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tidegate.index import ONE, Compare, Index, Inexact, Name
from tidegate.language.check import check
from tidegate.language.facts import Variation
from tidegate.language.ops import (
    Block,
    Carried,
    Conditional,
    Iterate,
    Kernel,
    Op,
    Operand,
    Specialize,
    Value,
    map_blocks,
    results_of,
    walk_ops,
)
from tidegate.language.trips import decide
from tidegate.language.types import INDEX
from tidegate.scheduling.model import Declined
from tidegate.scheduling.prefetch_loop import Spot, find_spot
from tidegate.scheduling.prefetch_rename import Names, Rename, fold, names_of
from tidegate.scheduling.prefetch_slots import Turns, find_turns
from tidegate.scheduling.prefetch_stages import Stages, find_fed, split
from tidegate.targets import Target
from tidegate.waits.values import drop_dead_deps


def prefetch(kernel: Kernel, target: Target) -> Kernel | Declined:
    """The kernel with the tiles of its innermost loop of products fetched ahead."""
    spot = find_spot(kernel, target)
    if isinstance(spot, Declined):
        return spot
    inner = next((op for op in walk_ops(spot.loop.body) if isinstance(op, Iterate)), None)
    if inner is not None:
        fits = "only loops without branches are prefetched"
        return Declined("nested", "the loop holds another loop", fits, inner.at)
    runs = decide(Compare("<", spot.loop.lower, spot.loop.upper), spot.facts, spot.outside)
    if runs is False or not find_fed(spot, walk_ops(spot.loop.body)):
        return kernel
    stages = split(spot)
    if stages is None:
        return kernel
    unfit = _unreachable(spot)
    if unfit is not None:
        return unfit
    if isinstance(stages, Declined):
        return stages
    turns = find_turns(spot, stages, target)
    if isinstance(turns, Declined):
        return turns
    made = _Pipeline(spot, stages, turns, names_of(kernel)).build(guarded=runs is None)
    return _well_formed(drop_dead_deps(made) if _names_deps(spot) else made, target, spot)


def _unreachable(spot: Spot) -> Declined | None:
    """Barriers stand only where all waves pass equally often."""
    for op, _ in spot.around:
        if isinstance(op, Specialize):
            fits = "prefetch where all waves run one program"
            return Declined("wave-groups", "waves run different programs", fits, op.at)
        if isinstance(op, Conditional) and spot.facts.of(op.cond) != Variation.UNIFORM:
            return Declined("under-condition", "not all waves reach the loop", "take it out of the condition", op.at)
    loops = (spot.loop, *(op for op, _ in spot.around if isinstance(op, Iterate)))
    if any(spot.facts.of(each) != Variation.UNIFORM for op in loops for each in (op.lower, op.upper)):
        says = "waves run the loop a different number of times"
        return Declined("under-condition", says, "use bounds that all waves agree on", spot.loop.at)
    return None


def _names_deps(spot: Spot) -> bool:
    """Whether waits that are dropped name copies: nobody needs those values then."""
    return any(getattr(op, "async_deps", ()) for op in spot.loop.body.ops)


def _well_formed(made: Kernel, target: Target, spot: Spot) -> Kernel | Declined:
    """What is not known about the loop's bounds must not come into indices by the back door."""
    bad = next((each for each in check(made, target) if each.is_bad_input), None)
    if bad is None:
        return made
    return Declined("not-proven", f"the last iteration cannot be split off: {bad.message}", "", spot.loop.at)


@dataclass(slots=True)
class _Pipeline:
    """Puts the pieces together. `last` is the counter of the last iteration."""

    spot: Spot
    stages: Stages
    turns: Turns
    names: Names

    def build(self, guarded: bool) -> Kernel:
        kernel, loop = self.spot.kernel, self.spot.loop
        before, ahead = self.prologue()
        middle, results = self.loop(ahead)
        after, yields = self.epilogue(results, guarded)
        made: tuple[Op, ...] = (*before, middle, *after)
        rest = Rename()
        if guarded:
            starts = Block((), tuple(each.init for each in loop.carried), loop.body.at)
            then = Block(made, tuple(yields), loop.body.at)
            made = (Conditional(loop.results, Compare("<", loop.lower, loop.upper), then, starts, loop.at),)
        else:
            for result, operand in zip(loop.results, yields, strict=True):
                rest.operand(result, operand)
        body = rest.of(_put(kernel.body, loop, made))
        return self.turns.grow(replace(kernel, body=body))

    def prologue(self) -> tuple[list[Op], Rename]:
        """Stage 0 of the first iteration."""
        lower = self.spot.loop.lower
        rename = self.at(lower)
        return self.turned(rename.again(self.stages.ahead, self.names), lower), rename

    def loop(self, ahead: Rename) -> tuple[Iterate, tuple[Value, ...]]:
        """Reads of this tile, fetches of the next, work with this one, writes of the next."""
        loop, counter = self.spot.loop, self.spot.counter
        following = fold("+", counter, loop.step)
        this, later = Rename(), self.at(following)
        handed = [self.names.fresh(value) for value in self.stages.handed]
        for value, new in zip(self.stages.handed, handed, strict=True):
            this.value(value, new)
        work = self.turned((this.of(op) for op in self.stages.work), counter)
        fetched = self.turned(later.again(self.stages.ahead, self.names), following)
        body = [
            *_picked(work, self.stages.first, True),
            *_picked(fetched, self.stages.fetch, True),
            *_picked(work, self.stages.first, False),
            *_picked(fetched, self.stages.fetch, False),
        ]
        starts = (Carried(new, _operand(ahead, old)) for old, new in zip(self.stages.handed, handed, strict=True))
        carried = (*loop.carried, *starts)
        yields = (*this.of(loop.body.yields), *(_operand(later, value) for value in self.stages.handed))
        made = replace(
            loop,
            results=tuple(self.names.fresh(each.value) for each in carried),
            upper=fold("-", loop.upper, loop.step),
            body=replace(loop.body, ops=tuple(body), yields=yields),
            carried=carried,
            expect=None if loop.expect is None else max(0, loop.expect - 1),
        )
        return made, made.results

    def epilogue(self, results: tuple[Value, ...], guarded: bool) -> tuple[list[Op], tuple[Operand, ...]]:
        """Stage 1 of the last iteration, with what the loop ended with."""
        loop = self.spot.loop
        last = self.last()
        rename = self.at(last)
        names = (*(each.value for each in loop.carried), *self.stages.handed)
        for value, result in zip(names, results, strict=True):
            rename.value(value, result)
        if not guarded:
            _keep_names(rename, self.stages.work, loop)
        made = self.turned(rename.again(self.stages.work, self.names), last)
        return made, rename.of(loop.body.yields)

    def last(self) -> Index:
        """The counter of the last iteration, if there is one."""
        loop = self.spot.loop
        far = fold("-", fold("-", loop.upper, loop.lower), ONE)
        steps = fold("*", fold("//", far, loop.step), loop.step)
        last = fold("-", loop.upper, ONE) if loop.step == ONE else fold("+", loop.lower, steps)
        return Inexact(last) if self.spot.facts.is_inexact(last) else last

    def turned(self, ops: Iterable[Op], counter: Index) -> list[Op]:
        return [self.turns.op(op, counter) for op in ops]

    def at(self, counter: Index) -> Rename:
        rename = Rename()
        rename.indices[self.spot.loop.counter.name] = counter
        return rename


def _keep_names(rename: Rename, work: Iterable[Op], loop: Iterate) -> None:
    """What the last iteration hands on has the names that the loop's results had."""
    made = {value for op in work for value in results_of(op)}
    for result, operand in zip(loop.results, loop.body.yields, strict=True):
        if isinstance(operand, Value) and operand in made and operand.name not in rename.values:
            rename.value(operand, result)


def _operand(rename: Rename, value: Value) -> Operand:
    """What a loop carries: an index by an expression."""
    new = rename.values[value.name]
    return Name(new.name) if value.type == INDEX else new


def _picked(made: list[Op], numbers: frozenset[int], inside: bool) -> list[Op]:
    return [op for number, op in enumerate(made) if (number in numbers) is inside]


def _put(block: Block, loop: Iterate, made: tuple[Op, ...]) -> Block:
    """The block with operations instead of the loop, wherever that stands."""
    ops: list[Op] = []
    for op in block.ops:
        ops += made if op is loop else (map_blocks(op, lambda inner, _: _put(inner, loop, made)),)
    return replace(block, ops=tuple(ops))
