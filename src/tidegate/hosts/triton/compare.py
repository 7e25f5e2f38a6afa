"""Whether two TTGIR texts hold one program, apart from its synchronization.

Needs   a file as it was read, and the same with a plan carried out in its text
Gives   which operation became which, or the first that did not
Keeps   values are compared by where they are made, not by their names; only barriers, waits, fences and commits without
        operands may come; only barriers, and waits whose token nothing uses, may go; of a wait only its count and
        whether waves meet behind it may change
Cost    linear in the operations

    %2 = ttg.local_load %0           %2 = ttg.local_load %0
                                     ttg.barrier local                  came
    ttg.local_store %2, %1           ttg.local_store %2, %1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tidegate.diag import Span
from tidegate.hosts.mlir.model import Operation, walk
from tidegate.hosts.triton.effects import NOTHING, Commits, Effect, Fences, Meets, WaitsFor, effects, may_go
from tidegate.hosts.triton.read import Ttgir

Made = tuple[int, int]  # the number of an operation in the text from before, and which of its values


@dataclass(slots=True)
class Comparison:
    """Pairs of operations, before and after; `difference`: where the texts part, in words, if they do."""

    pairs: list[tuple[Operation, Operation]] = field(default_factory=list)
    difference: str = ""

    @property
    def places(self) -> dict[Span, Span]:
        """From the places of operations before to their places after."""
        return {old.at: new.at for old, new in self.pairs}


def compare(before: Ttgir, after: Ttgir) -> Comparison:
    """Goes through both texts side by side."""
    old, new = list(_operations(before)), list(_operations(after))
    known = {name for op in old for name in _values(op)}
    used = before.used
    found = Comparison()
    first: dict[str, Made] = {}
    second: dict[str, Made] = {}
    at = 0
    for op in new:
        while at < len(old) and may_go(old[at], used) and not _is_same(old[at], op, first, second):
            at += 1
        if at < len(old) and _is_same(old[at], op, first, second):
            for table, each in ((first, old[at]), (second, op)):
                table.update((name, (at, number)) for number, name in enumerate(_values(each)))
            found.pairs.append((old[at], op))
            at += 1
        elif not _may_come(op, known):
            was = f"`{old[at].name}` of line {old[at].at.line}" if at < len(old) else "the end"
            found.difference = f"`{op.name}` replaces {was}"
            return found
    left = next((each for each in old[at:] if not may_go(each, used)), None)
    if left is not None:
        found.difference = f"`{left.name}` of line {left.at.line} is gone"
    return found


def _operations(ttgir: Ttgir) -> Iterator[Operation]:
    return (op for function in ttgir.functions for op in walk(function))


def _values(op: Operation) -> Sequence[str]:
    """All values that an operation makes: its results, and the arguments of its blocks."""
    blocks = (block for region in op.regions for block in region.blocks)
    return (*op.results, *(name for block in blocks for name, _ in block.arguments))


def _is_same(old: Operation, new: Operation, first: dict[str, Made], second: dict[str, Made]) -> bool:
    if old.name != new.name or old.type != new.type or _shape(old) != _shape(new):
        return False
    if [first.get(each) for each in old.operands] != [second.get(each) for each in new.operands]:
        return False
    changing = _changing(effects().get(old.name, NOTHING))
    one, other = ({name: text for name, text in each.attributes if name not in changing} for each in (old, new))
    return one == other


def _shape(op: Operation) -> tuple[tuple[int, ...], ...]:
    """How many operations each block of each region has is seen later: how many arguments it has, here."""
    return tuple(tuple(len(block.arguments) for block in region.blocks) for region in op.regions)


def _changing(effect: Effect) -> tuple[str, ...]:
    return (effect.does.count, effect.does.meets) if isinstance(effect.does, WaitsFor) else ()


def _may_come(op: Operation, known: set[str]) -> bool:
    effect = effects().get(op.name, NOTHING)
    synchronizes = isinstance(effect.does, Meets | WaitsFor | Fences | Commits)
    return synchronizes and not op.operands and known.isdisjoint(op.results)
