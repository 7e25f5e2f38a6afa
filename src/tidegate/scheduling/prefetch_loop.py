"""The loop whose tiles are fetched ahead, and what is known where it stands.

Needs   a well-formed kernel and a target
Gives   `Spot`: the loop with most matrix products of its own, what holds around and in it, and which memory names mean
Keeps   two places are told apart only where their slots can never be equal; whatever is not known may be anything
Cost    linear in the kernel, and isl for each two places that are compared
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.graph.build import build_graph
from tidegate.index import Binary, Compare, Const, Index, Name, Not, names, substitute, why_not_affine
from tidegate.language import ops
from tidegate.language.facts import Facts, find_facts
from tidegate.language.layout import lay_out
from tidegate.language.ops import Iterate, Kernel, Op, Place, Value, blocks_of, results_of, walk_ops
from tidegate.language.points import has_point
from tidegate.language.trips import Conds, header_conds, inside_conds, plain, plain_cond
from tidegate.language.types import Lds
from tidegate.language.uses import own_names
from tidegate.scheduling.body import heaviest_loop
from tidegate.scheduling.model import Declined
from tidegate.targets import Target


@dataclass(frozen=True, slots=True)
class Spot:
    """A loop, and what is known there. `around`: the regions that it stands in, the outermost first."""

    kernel: Kernel
    loop: Iterate
    around: tuple[tuple[Op, int], ...]
    facts: Facts
    outside: Conds  # what holds where the loop stands
    roots: dict[str, frozenset[str]]  # buffers whose bytes a name may mean

    @property
    def own(self) -> set[str]:
        """Names that mean something else in each iteration."""
        made = (value.name for op in self.loop.body.ops for value in results_of(op))
        return {*made, *(value.name for value in own_names(self.loop))}

    def memory(self, place: Place) -> frozenset[str]:
        """What a place lies in: buffers, or a global array."""
        return self.roots.get(place.base.name, frozenset((place.base.name,)))

    def may_meet(self, one: Place, other: Place, *, later: bool = False) -> bool:
        """Whether two places may lie in one slot; `later`: the other one an iteration after the first."""
        if not self.memory(one) & self.memory(other):
            return False
        if one.base != other.base or self.roots[one.base.name] != {one.base.name}:
            return True
        first, second = plain(one.slot, self.facts), plain(other.slot, self.facts)
        if later:
            if any(name in self.own - {self.loop.counter.name} for each in (first, second) for name in names(each)):
                return True
            second = substitute(second, {self.loop.counter.name: Binary("+", self.counter, self.loop.step)})
        if any(why_not_affine(each) or self.facts.is_inexact(each) for each in (first, second)):
            return True
        return has_point((*self.inside(later), Compare("==", first, second)))

    @property
    def counter(self) -> Index:
        return Name(self.loop.counter.name)

    def inside(self, goes_on: bool) -> Conds:
        """What holds in an iteration, and if asked, in one that is not the last."""
        known = inside_conds(self.loop, self.facts)
        if not known or any(why_not_affine(each) for each in known):
            return self.outside
        lower, upper = (plain(each, self.facts) for each in (self.loop.lower, self.loop.upper))
        on_grid = Compare("==", Binary("mod", Binary("-", self.counter, lower), self.loop.step), Const(0))
        more = (Compare("<", Binary("+", self.counter, self.loop.step), upper),) if goes_on else ()
        return (*self.outside, *known, on_grid, *more)


def find_spot(kernel: Kernel, target: Target) -> Spot | Declined:
    """The loop that would be scheduled, if there is one."""
    built = build_graph(kernel, target)
    number = heaviest_loop(built.graph)
    if number is None:
        return Declined("no-loop", "no loop holds matrix products", "only loops with `mma` are prefetched")
    path = built.paths[built.graph.loops[number].head]
    around: list[tuple[Op, int]] = []
    block = kernel.body
    for place, region in zip(path[:-1:2], path[1::2], strict=True):
        around.append((block.ops[place], region))
        block = blocks_of(block.ops[place])[region]
    loop = block.ops[path[-1]]
    assert isinstance(loop, Iterate)
    facts = find_facts(kernel)
    return Spot(kernel, loop, tuple(around), facts, _outside(kernel, around, facts), _roots(kernel))


def _outside(kernel: Kernel, around: Sequence[tuple[Op, int]], facts: Facts) -> Conds:
    """What the header, loops around and conditions around say."""
    conds = list(header_conds(kernel))
    for op, number in around:
        if isinstance(op, Iterate):
            conds += inside_conds(op, facts)
        elif isinstance(op, ops.Conditional) and not facts.is_inexact(op.cond):
            cond = plain_cond(op.cond, facts)
            conds.append(Not(cond) if number else cond)
    return tuple(cond for cond in conds if not why_not_affine(cond))


def _roots(kernel: Kernel) -> dict[str, frozenset[str]]:
    """Buffers that share bytes are one; a view is its buffer; what regions hand on may be any of them."""
    layout = lay_out(kernel).offsets
    allocs = {op.result.name: op.result.type for op in walk_ops(kernel.body) if isinstance(op, ops.Alloc)}
    spans = {
        name: range(layout[name], layout[name] + type_.bytes)
        for name, type_ in allocs.items()
        if isinstance(type_, Lds)
    }
    shared = {
        name: frozenset(other for other, span in spans.items() if _overlap(own, span)) | {name}
        for name, own in spans.items()
    }
    found: dict[str, frozenset[str]] = dict(shared)
    for op in walk_ops(kernel.body):
        match op:
            case ops.View():
                found[op.result.name] = found.get(op.place.base.name, frozenset(allocs))
            case ops.SelectView():
                arms = (found.get(each.name, frozenset(allocs)) for each in (op.then, op.otherwise))
                found[op.result.name] = frozenset().union(*arms)
            case ops.Alloc():
                pass
            case _:
                handed: tuple[Value, ...] = (*own_names(op), *results_of(op))
                found.update((each.name, frozenset(allocs)) for each in handed if isinstance(each.type, Lds))
    return found


def _overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


def touched(op: Op) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
    """Where an operation reads, and where it writes."""
    match op:
        case ops.LocalRead() | ops.GlobalRead() | ops.ReadIndex():
            return (op.place,), ()
        case ops.LocalWrite() | ops.GlobalWrite():
            return (), (op.place,)
        case ops.AtomicAdd():
            return (op.place,), (op.place,)
        case ops.GatherToLds() | ops.TensorLoadToLds() | ops.LdsToGlobal():
            return (op.source,), (op.dest,)
    return (), ()
