"""Buffers that share bytes while both are live, and buffers that are used after their memory was given back.

Needs   a well-typed kernel and its facts
Gives   findings TG308 and TG309
Keeps   live buffers do not overlap unless the text says so by `dealloc`, and nothing is used after it. Trips and arms
        that never run say nothing; those that may run count as run
Cost    linear in the kernel; two questions to isl for each loop and condition, where bytes are shared or given back
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tidegate.diag import Finding, Label, Span
from tidegate.language import ops, trips
from tidegate.language.facts import Facts, Variation
from tidegate.language.layout import bytes_of, lay_out
from tidegate.language.ops import Kernel, Op, Value, walk_ops
from tidegate.language.trips import Conds
from tidegate.language.types import Lds
from tidegate.language.uses import uses_of

Live = dict[str, ops.Alloc | ops.NewBarrier]


def find_lifetime_mistakes(kernel: Kernel, facts: Facts) -> list[Finding]:
    """One walk over the program text, if any buffer is placed or given back."""
    if not any(_is_told(op) for op in walk_ops(kernel.body)):
        return []
    walker = _Lives(lay_out(kernel).offsets, facts, trips.header_conds(kernel))
    walker.block(kernel.body, {}, {})
    return [*walker.findings.values()]


def _is_told(op: Op) -> bool:
    return isinstance(op, ops.Dealloc) or (isinstance(op, ops.Alloc) and op.offset is not None)


@dataclass(slots=True)
class _Lives:
    """Walks regions with what is live and what was given back: after a conditional, what was so in either arm."""

    offsets: dict[str, int]
    facts: Facts
    around: Conds  # what holds here
    roots: dict[str, set[str]] = field(default_factory=dict)  # buffers that a view, or a name of one, may lie in
    findings: dict[tuple[str, Span], Finding] = field(default_factory=dict)
    again: bool = False  # whether a loop around runs for the second time

    def block(self, block: ops.Block, live: Live, dead: dict[str, Span]) -> None:
        for op in block.ops:
            self.op(op, live, dead)
        for operand in block.yields:
            if isinstance(operand, Value):
                self.use(operand.name, block.at, dead)

    def op(self, op: Op, live: Live, dead: dict[str, Span]) -> None:
        for name in dict.fromkeys(uses_of(op)) if dead else ():
            self.use(name, op.at, dead)
        match op:
            case ops.Dealloc():
                for name in self.roots.get(op.buffer.name, {op.buffer.name}):
                    live.pop(name, None)
                    dead.setdefault(name, op.at)
            case ops.Alloc() if isinstance(op.result.type, Lds):
                if op.offset is not None:
                    for finding in _overlaps(op, live, self.offsets):
                        self.findings[finding.code + finding.message, op.at] = finding
                live[op.result.name] = op
                dead.pop(op.result.name, None)
            case ops.NewBarrier() if op.result.name in self.offsets:
                live[op.result.name] = op
            case ops.View():
                self.alias(op.result, op.place.base)
            case ops.SelectView():
                self.alias(op.result, op.then, op.otherwise)
            case ops.Iterate():
                self.loop(op, live, dead)
            case ops.Conditional():
                self.conditional(op, live, dead)
                for place, result in enumerate(op.results):
                    self.alias(result, *(arm.yields[place] for arm in (op.then, op.otherwise)))
            case ops.Specialize():
                self.arms([*(group.body for group in op.groups), ops.Block()], live, dead)

    def loop(self, op: ops.Iterate, live: Live, dead: dict[str, Span]) -> None:
        """The body twice: what a trip gives back is gone in the next. Inner loops of the second time go once."""
        outermost, outside = not self.again, self.around
        rounds = trips.rounds_of(op, self.facts, outside)
        if not outermost and rounds:
            rounds = [()]
        for again, conds in enumerate(rounds):
            self.again, self.around = bool(again) or self.again, (*outside, *conds)
            for place, each in enumerate(op.carried):
                self.alias(each.value, each.init, op.body.yields[place])
            self.block(op.body, live, dead)
        self.again, self.around = not outermost, outside
        for result, each in zip(op.results, op.carried, strict=True):
            self.alias(result, each.value, each.init)

    def conditional(self, op: ops.Conditional, live: Live, dead: dict[str, Span]) -> None:
        truth = trips.decide(op.cond, self.facts, self.around)
        if truth is not None:
            self.block(op.then if truth else op.otherwise, live, dead)
        else:
            apart = self.facts.of(op.cond) == Variation.UNIFORM  # all waves take the same arm
            self.arms([op.then, op.otherwise], live, dead, apart=apart)

    def arms(
        self,
        blocks: list[ops.Block],
        live: Live,
        dead: dict[str, Span],
        *,
        apart: bool = False,
    ) -> None:
        """Unless `apart`, arms run side by side in different waves: what one allocates is live in the others."""
        start, before = dict(live), dict(dead)
        for block in blocks:
            own_live, own_dead = dict(start) if apart else {**live, **start}, dict(before)
            self.block(block, own_live, own_dead)
            live.update(own_live)
            dead.update(own_dead)
        for name in dead:
            live.pop(name, None)

    def alias(self, name: Value, *sources: ops.Operand) -> None:
        if isinstance(name.type, Lds):
            found = self.roots.setdefault(name.name, set())
            for source in sources:
                if isinstance(source, Value):
                    found |= self.roots.get(source.name, {source.name})

    def use(self, name: str, at: Span, dead: dict[str, Span]) -> None:
        for root in sorted(self.roots.get(name, {name})):
            if root in dead:
                of = "" if root == name else f", a view of `{root[1:]}`,"
                same = dead[root] == at
                self.findings.setdefault(
                    (name, at),
                    Finding(
                        "TG309",
                        f"`{name[1:]}`{of} is used after its dealloc",
                        (Label(at, "used here again in the next trip" if same else "used here"),)
                        + (() if same else (Label(dead[root], "deallocated here"),)),
                        help="move the `dealloc` after the last use",
                    ),
                )


def _overlaps(op: ops.Alloc, live: Live, offsets: dict[str, int]) -> Iterator[Finding]:
    start, end = _bytes(op.result, offsets)
    for other in live.values():
        low, high = _bytes(other.result, offsets)
        if other is not op and start < high and low < end:
            yield Finding(
                "TG308",
                f"`{op.result.name[1:]}` overlaps `{other.result.name[1:]}`, which is live",
                (Label(op.at, f"bytes {start}..{end}"), Label(other.at, f"bytes {low}..{high}")),
                help=f"insert `dealloc {other.result.name}` before it, or choose another offset"
                if isinstance(other, ops.Alloc)
                else "choose another offset",
            )


def _bytes(value: Value, offsets: dict[str, int]) -> tuple[int, int]:
    start = offsets[value.name]
    return start, start + bytes_of(value.type)
