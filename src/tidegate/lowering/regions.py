"""Loops, branches and roles of waves as blocks of instructions.

Needs   regions of the language, and whoever lowers the operations in them
Gives   blocks, with values that flow round loops and out of arms
Keeps   a loop may run zero times; a rest of a counter by a number that is no power of two goes round with the loop
Cost    linear in the registers that flow
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.index import WAVE, Compare, Const, Name
from tidegate.language import ops
from tidegate.language.check import indices_of
from tidegate.language.facts import Facts, Variation
from tidegate.language.ops import Block, walk_ops
from tidegate.lowering.ir import Scalar
from tidegate.lowering.named import LoweredValues, Result, registers_of
from tidegate.lowering.scalars import KnownFacts, moduli


@dataclass(slots=True)
class RegionWriter:
    """`block` lowers the operations of a region."""

    v: LoweredValues
    facts: Facts
    block: Callable[[Block], None]

    def loop(self, op: ops.Iterate) -> None:
        w, scalars = self.v.w, self.v.scalars
        lower, upper = scalars.index(op.lower), scalars.index(op.upper)
        step = scalars.index(op.step)
        assert isinstance(step, int), "a step is a number"
        starts = [self.v.given(each.value, each.init) for each in op.carried]
        before, head, body, after = w.block, w.fresh("head"), w.fresh("body"), w.fresh("after")
        w.jump(head)
        w.start(head)
        counter = w.fresh("k")
        mark = len(w.lines)  # merged values are written once it is known what comes round
        scalars.values[op.counter.name] = counter
        known = scalars.known(op.lower)
        divides = min(known.divisor, step & -step)
        scalars.facts[op.counter.name] = KnownFacts(divides, known.is_natural)
        turning = self.turn(op, lower, step)
        merged = [self.v.merge(each.value, [(before, start)]) for each, start in zip(op.carried, starts, strict=True)]
        heads = [self.v.own(each.value) for each in op.carried]
        w.branch(w.compare("slt", counter, upper), body, after)
        w.start(body)
        apart = max(self.facts.of(op.lower), self.facts.of(op.upper)) == Variation.DIVERGENT
        self.v.gpu.apart += apart
        self.block(op.body)
        self.v.gpu.apart -= apart
        if not self.v.ended:
            ends = [self.v.given(each.value, out) for each, out in zip(op.carried, op.body.yields, strict=True)]
            following = w.int("add", counter, step)
            turned = [self.next_turn(name, many, step) for name, many, _ in turning]
            latch = w.block
            w.jump(head)
            lines = [f"  {counter} = phi i32 [ {lower}, %{before} ], [ {following}, %{latch} ]"]
            for (name, _, start), source in zip(turning, turned, strict=True):
                lines.append(f"  {name} = phi i32 [ {start}, %{before} ], [ {source}, %{latch} ]")
            for many, end in zip(merged, ends, strict=True):
                for (name, sources), source in zip(many, registers_of(end), strict=True):
                    lines.append(f"  {name}{sources}, [ {source}, %{latch} ]")
        else:
            lines = [f"  {counter} = phi i32 [ {lower}, %{before} ]"]
            lines += [f"  {name} = phi i32 [ {start}, %{before} ]" for name, _, start in turning]
            lines += [f"  {name}{sources}" for many in merged for name, sources in many]
        w.lines[mark:mark] = lines
        self.v.ended = False
        w.start(after)
        for result, carried, head_value in zip(op.results, op.carried, heads, strict=True):
            self.v.let(result, head_value, carried.value)

    def turn(self, op: ops.Iterate, lower: Scalar, step: int) -> list[tuple[str, int, Scalar]]:
        """The rests of a counter that its body asks for: names, moduli and first values."""
        w, counter = self.v.w, op.counter.name
        asked = (each for inner in walk_ops(op.body) for each in indices_of(inner))
        found: list[tuple[str, int, Scalar]] = []
        for many in sorted(set().union(*(moduli(each, counter) for each in asked))):
            # Before the loop the division is done once.
            start = lower % many if isinstance(lower, int) else None
            if start is None or step <= 0:
                continue
            name = w.fresh("turn")
            self.v.scalars.turning[counter, many] = name
            found.append((name, many, start))
        return found

    def next_turn(self, name: str, many: int, step: int) -> Scalar:
        w = self.v.w
        moved = w.int("add", name, step % many)
        back = w.int("sub", moved, many)
        return w.once(f"select i1 {w.compare('sge', moved, many)}, i32 {back}, i32 {moved}")

    def conditional(self, op: ops.Conditional) -> None:
        w = self.v.w
        then, otherwise, after = w.fresh("then"), w.fresh("else"), w.fresh("join")
        w.branch(self.v.scalars.cond(op.cond), then, otherwise)
        ways: list[tuple[str, list[Result]]] = []
        apart = self.facts.of(op.cond) == Variation.DIVERGENT
        self.v.gpu.apart += apart
        for label, arm in ((then, op.then), (otherwise, op.otherwise)):
            w.start(label)
            self.block(arm)
            if not self.v.ended:
                ends = [self.v.given(each, out) for each, out in zip(op.results, arm.yields, strict=True)]
                ways.append((w.block, ends))
                w.jump(after)
            elif apart:
                self.v.gpu.apart += 1  # these lanes have ended, and whatever comes lacks them
            self.v.ended = False
        self.v.gpu.apart -= apart
        if not ways:
            self.v.ended = True
            return
        w.start(after)
        for number_, value in enumerate(op.results):
            for name, sources in self.v.merge(value, [(block, ends[number_]) for block, ends in ways]):
                w.lines.append(f"  {name}{sources}")

    def specialize(self, op: ops.Specialize) -> None:
        w = self.v.w
        for group in op.groups:
            inside = Compare(">=", Name(WAVE), Const(group.first))
            upto = Compare("<", Name(WAVE), Const(group.last))
            then, after = w.fresh("role"), w.fresh("others")
            w.branch(w.both((self.v.scalars.cond(inside), self.v.scalars.cond(upto))), then, after)
            w.start(then)
            self.block(group.body)
            if not self.v.ended:
                w.jump(after)
            self.v.ended = False
            w.start(after)
