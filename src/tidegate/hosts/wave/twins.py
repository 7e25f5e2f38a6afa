"""Buffers that are always touched together, as parts of one; and buffers whose parts are.

Needs   buffers with their parts, and who touches them in which order
Gives   the same parts, numbered through for buffers that are touched alike: the two operands of a product, say; the
        buffers of which neighbouring accesses may be taken for one
Keeps   two accesses touch a common part afterwards exactly if they did before. Accesses may be taken for one only where
        each run of reads, or of writes, touches all that there is: a barrier within such a run does nothing that one
        before or behind it would not
Cost    linear in the accesses and their parts

    write %a; write %b; read %a; read %b        write %a[0, 2); read %a[0, 2)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidegate.hosts.wave.parts import Parts
from tidegate.hosts.wave.values import Bases, Touching, Values

# What is used in turn: the first of its group, and its place among them.
Turns = dict[Any, tuple[Any, int]]


class Twins:
    def __init__(self, values: Values, parts: Parts, turns: Turns) -> None:
        self.values, self.parts, self.turns = values, parts, turns
        self.groups: dict[Bases, list[Touching]] = {}
        for each in values.touching.values():
            if each.bases and next(iter(each.bases)) in parts.counts:
                self.groups.setdefault(each.bases, []).append(each)
        self.merging: set[Any] = set()  # allocations of which neighbouring accesses may be taken for one
        self.shares: dict[Any, Any] = {}  # allocation → the one whose buffer it shares
        self.join()

    def join(self) -> None:
        alike: dict[tuple[int, Any], list[Bases]] = {}
        for bases in self.groups:
            alike.setdefault((len(bases), self.loop(bases)), []).append(bases)
        for candidates in alike.values():
            together = [each for each in candidates if self.is_ordered(each)]
            if len(together) > 1 and self.is_aligned(together):
                self.number_through(together)
            else:
                together = []
            for bases in candidates:
                if bases in together or self.is_aligned([bases]):
                    self.merging |= bases

    def loop(self, bases: Bases) -> Any:
        """The loop that uses them in turn, if there is one."""
        turns = ((loop, turn) for loop, found in self.values.turns.items() for turn in found)
        return next((loop for loop, turn in turns if self.values.bases[turn[0]] == bases), None)

    def is_ordered(self, bases: Bases) -> bool:
        return len(bases) == 1 or all(each in self.turns for each in bases)

    def is_aligned(self, groups: list[Bases]) -> bool:
        """Whether each run of accesses of one kind touches every part of all of them."""
        wanted = sum(self.parts.counts[next(iter(bases))] for bases in groups)
        accesses = sorted(
            ((number, each) for number, bases in enumerate(groups) for each in self.groups[bases]),
            key=lambda item: self.values.order[item[1].node],
        )
        run: Any = None
        touched: set[tuple[int, int]] = set()
        for number, each in accesses:
            place = self.turns.get(self.values.source(each.memory), (None, 0))[1]
            kind = (each.stretch, each.effect, each.is_async, place)
            if kind != run:
                if run is not None and len(touched) < wanted:
                    return False
                run, touched = kind, set()
            first, many = self.span(each)
            touched |= {(number, part) for part in range(first, first + many)}
        return len(touched) == wanted

    def span(self, access: Touching) -> tuple[int, int]:
        return self.parts.spans.get(access.node, (0, self.parts.counts[next(iter(access.bases))]))

    def number_through(self, twins: list[Bases]) -> None:
        own = [self.parts.counts[next(iter(bases))] for bases in twins]
        for number, bases in enumerate(twins):
            shift = sum(own[:number])
            for each in self.groups[bases]:
                first, many = self.span(each)
                self.parts.spans[each.node] = (first + shift, many)
        for bases in twins:
            self.parts.counts |= dict.fromkeys(bases, sum(own))
            self.shares |= {each: self.partner(each, twins[0]) for each in bases}

    def partner(self, node: Any, bases: Iterable[Any]) -> Any:
        """The allocation of another group with the same place in it."""
        place = self.turns.get(node, (None, 0))[1]
        return next(each for each in bases if self.turns.get(each, (None, 0))[1] == place)
